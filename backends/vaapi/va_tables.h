// SPDX-License-Identifier: Apache-2.0
// The part of the engine that needs no device: libva's functions and codes,
// drivers and their quirks, surface formats, and a file as a driver reads it.
#ifndef HR_VAAPI_TABLES_H
#define HR_VAAPI_TABLES_H

#include <va/va.h>
#include <va/va_drm.h>
#include <va/va_drmcommon.h>
#include <va/va_vpp.h>

#include "hal/engine/engine.h"

// ---- loader.c --------------------------------------------------------------

// clang-format off
#define VA_ENTRY_POINTS(X) \
    X(vaInitialize) \
    X(vaTerminate) \
    X(vaDisplayIsValid) \
    X(vaQueryVendorString) \
    X(vaMaxNumEntrypoints) \
    X(vaMaxNumImageFormats) \
    X(vaQueryConfigEntrypoints) \
    X(vaGetConfigAttributes) \
    X(vaCreateConfig) \
    X(vaDestroyConfig) \
    X(vaQuerySurfaceAttributes) \
    X(vaCreateSurfaces) \
    X(vaDestroySurfaces) \
    X(vaCreateContext) \
    X(vaDestroyContext) \
    X(vaCreateBuffer) \
    X(vaMapBuffer) \
    X(vaUnmapBuffer) \
    X(vaDestroyBuffer) \
    X(vaBeginPicture) \
    X(vaRenderPicture) \
    X(vaEndPicture) \
    X(vaSyncSurface) \
    X(vaQuerySurfaceError) \
    X(vaQueryImageFormats) \
    X(vaCreateImage) \
    X(vaDeriveImage) \
    X(vaDestroyImage) \
    X(vaGetImage) \
    X(vaErrorStr)
// A library may lack these.
#define VA_OPTIONAL_ENTRY_POINTS(X) \
    X(vaSyncSurface2) \
    X(vaSetErrorCallback) \
    X(vaSetInfoCallback) \
    X(vaPutImage) \
    X(vaGetLibFunc)
// clang-format on

struct va_api {
#define X(name) __typeof__(&name) name;
    VA_ENTRY_POINTS(X)
    VA_OPTIONAL_ENTRY_POINTS(X)
#undef X
    VADisplay (*vaGetDisplayDRM)(int fd);
};

// HR_ENODEVICE with the reason. HEADRACE_VAAPI_LIBRARY and
// HEADRACE_VAAPI_DRM_LIBRARY name others than libva.so.2 and libva-drm.so.2.
enum hr_status va_api_load(struct va_api *api);
// HR_EFORK if a parent of this process has used libva.
enum hr_status va_api_check(void);

// ---- error.c ---------------------------------------------------------------

// The first thing that went wrong.
struct va_fault {
    unsigned why;  // HR_WHY_*; 0: nothing did
    char text[112];
};

// Returns true and notes the fault, if it is the first, unless code is
// VA_STATUS_SUCCESS.
bool va_failed(const struct va_api *api, struct va_fault *fault, VAStatus code,
               const char *call);
// Always false: something else went wrong, which is said if it is the first.
bool va_wrong(struct va_fault *fault, const char *fmt, ...) HR_PRINTF(2, 3);

// ---- quirk.c ---------------------------------------------------------------

enum va_quirk {
    VA_QUIRK_SAFE = 1,          // two threads may call it
    VA_QUIRK_NO_FOURCC = 2,     // surfaces are made without a pixel format
    VA_QUIRK_DERIVE_FIRST = 4,  // mapped surfaces are cached; else GetImage
    VA_QUIRK_NO_VPP = 8,        // its video processor has wrong colours
    VA_QUIRK_NO_SYNC = 16,      // vaSyncSurface does not wait for decodes
};

struct va_driver {
    const char *vendor;  // how its vendor string begins
    unsigned quirks;
    int max_surfaces;  // of one context, 0 = no limit known
    int min_side;      // smallest side it decodes
};

// The entry for a vendor string. Unknown drivers have one, too.
const struct va_driver *va_driver_of(const char *vendor);

// ---- format.c --------------------------------------------------------------

enum { VA_MAX_FORMATS = 32 };

// The surfaces that a picture of that kind is decoded to, of the formats that a
// driver lists. Grey may be the luma of 4:2:0.
struct va_surface_kind {
    unsigned rt_format;
    uint32_t fourcc;  // 0: no surface
};
void va_kind_surface(enum hr_jpeg_kind kind, unsigned rt_formats,
                     const uint32_t *fourccs, int n,
                     struct va_surface_kind *out);

// Where the samples of component c lie in an image. False: such an image cannot
// hold a picture of that kind.
struct va_samples {
    uint32_t plane, first, step;  // plane of the image, bytes
};
bool va_samples_of(uint32_t fourcc, enum hr_jpeg_kind kind, int c,
                   struct va_samples *out);
// The kind that a format is made for; -1: none of them.
int va_fourcc_kind(uint32_t fourcc);
// The planes of a picture, as large as they are, but not yet where they lie.
void va_plan_planes(const struct hr_info *info, struct hr__planes *p);
// The facts of a picture of that kind and size, as far as these functions ask.
struct hr_info va_kind_info(enum hr_jpeg_kind kind, int w, int h);
// "NV12"
void va_fourcc_text(uint32_t fourcc, char text[8]);

// ---- jpeg.c ----------------------------------------------------------------

// A file as a driver reads it. The fields are filled as FFmpeg fills them.
struct va_jpeg {
    VAPictureParameterBufferJPEGBaseline picture;
    VAIQMatrixBufferJPEGBaseline quant;
    VAHuffmanTableBufferJPEGBaseline huffman;
    VASliceParameterBufferJPEGBaseline slice;
    size_t scan_at, scan_size;  // the entropy data, with the end marker
};

// Reads a baseline file that hr_probe() has accepted. 0, or why no media
// engine takes it. Every byte is checked again. Threads: any.
unsigned va_jpeg_read(const uint8_t *data, size_t size,
                      const struct hr_info *info, struct va_jpeg *out);

#endif
