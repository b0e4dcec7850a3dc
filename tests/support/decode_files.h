// SPDX-License-Identifier: Apache-2.0
// Files for the tests of the decoders, made here with libjpeg and libpng, and
// a plain full decode by stock libjpeg to compare with.
#ifndef HEADRACE_TESTS_DECODE_FILES_H
#define HEADRACE_TESTS_DECODE_FILES_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

struct bytes {
    uint8_t *data;  // malloc
    size_t size;
};

// splitmix64
uint64_t next_random(uint64_t *state);
// In [0, n); n > 0.
int random_below(uint64_t *state, int n);

// libjpeg's errors end at the setjmp() of the caller: error_exit is jpeg_leave.
struct jpeg_way_out {
    struct jpeg_error_mgr pub;
    jmp_buf jump;
};
void jpeg_leave(j_common_ptr cinfo);

struct jpeg_spec {
    int w, h;
    J_COLOR_SPACE space;  // of the file; GRAYSCALE, YCbCr, RGB, CMYK, YCCK
    uint8_t factors[4];   // 0xHV per component; 0 = 0x11
    bool progressive, arithmetic, optimize;
    bool separate;  // one scan per component
    bool partial;   // progressive whose later scans are missing
    bool mixed;     // Cb has the ACs' code of Y, Cr the DCs'
    int restart;    // MCUs; 0 = none
    int quality;
};
#define jpeg_ycc(...) (&(struct jpeg_spec){.space = JCS_YCbCr, __VA_ARGS__})

// false: libjpeg refused.
bool make_jpeg(const struct jpeg_spec *spec, uint64_t *seed, struct bytes *out);

// ---- plain_decode.c --------------------------------------------------------

enum plain_class { PLAIN_OK, PLAIN_TRUNCATED, PLAIN_REFUSED, PLAIN_NOT_RUN };

struct plain {
    enum plain_class result;
    int w, h;  // 0 if there is no header
    int warnings;
    bool no_end;          // OK, but the data ran out behind the last row
    uint8_t *rgb, *gray;  // w * h * 3 and w * h; NULL unless OK
};

// Full decode with libjpeg's own memory manager and a source that tells when
// the data ran out, then Pillow's conversions. TRUNCATED is what Pillow calls
// so: the data ran out before the last row. NOT_RUN: more than max_pixels,
// or much more work than that.
void plain_decode(const uint8_t *data, size_t size, int64_t max_pixels,
                  struct plain *out);
void plain_free(struct plain *p);

// Pillow's RGB -> L of n pixels.
void plain_gray(uint8_t *dst, const uint8_t *rgb, size_t n);

// ---- decode_files.c --------------------------------------------------------

struct png_spec {
    int w, h, bits, type;  // type as in IHDR
    bool interlaced;
    bool transparency;  // a tRNS chunk
    int colors;         // entries of the palette; indices may pass them
};

// Makes a file and what Pillow's convert() gives for it, from the samples that
// were written.
bool make_png(const struct png_spec *spec, uint64_t *seed, struct bytes *file,
              struct plain *pixels);

bool read_file(const char *path, struct bytes *out);

#endif
