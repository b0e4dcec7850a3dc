// SPDX-License-Identifier: Apache-2.0
// A small client of the software VA driver, through the stock libva.
#ifndef VA_DRIVER_CLIENT_H
#define VA_DRIVER_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <va/va.h>
#include <va/va_drm.h>
#include <va/va_drmcommon.h>
#include <va/va_vpp.h>

#include "testing.h"
#include "va_driver/control.h"

// What vaCreateBuffer gets for a file.
struct submission {
    VAPictureParameterBufferJPEGBaseline picture;
    VAIQMatrixBufferJPEGBaseline iq;
    VAHuffmanTableBufferJPEGBaseline huffman;
    VASliceParameterBufferJPEGBaseline slice;
    const uint8_t *data;  // of the file
};

struct client {
    VADisplay display;
    VAConfigID config;  // JPEG
    VAContextID context;
    int fd;
};

// False: the driver is not here.
bool client_init(void);
struct va_driver_counters client_control(const char *options);
// A display under these options ("default" first), a config and a context.
void client_open(struct client *c, const char *options);
// Closes it and checks that the driver is empty.
void client_close(struct client *c);

// Reads the headers of a baseline file of one scan.
void submission_of(struct submission *s, const struct bytes *file);
VASurfaceID client_surface(struct client *c, unsigned rt, uint32_t fourcc,
                           int w, int h);
// Buffers are destroyed before EndPicture, as GStreamer does.
VAStatus client_decode(struct client *c, VASurfaceID to,
                       const struct submission *s);
// Y, U, V (or R, G, B) as planes of w * h, ((w + 1) / 2) * ((h + 1) / 2)...:
// an I420, 444P or Y800 image. malloc; NULL: vaGetImage failed.
uint8_t *client_read(struct client *c, VASurfaceID from, uint32_t fourcc, int w,
                     int h);
VAStatus client_write(struct client *c, VASurfaceID to, uint32_t fourcc, int w,
                      int h, const uint8_t *pixels);
size_t client_size(uint32_t fourcc, int w, int h);
// What libjpeg itself makes of the file, in the same layout.
uint8_t *client_reference(const struct bytes *file, uint32_t fourcc);

#endif
