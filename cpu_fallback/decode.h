// SPDX-License-Identifier: Apache-2.0
// Encoded bytes -> rows of RGB or grey u8, only the window that is needed:
// stages entropy, reconstruct and color in one stream of rows.
// jpeg/decode_sequential.c is our own, jpeg/decode.c is libjpeg-turbo through
// its libjpeg API, decode_png.c is libpng, decode_raster.c is BMP and PNM; all
// take all their memory from an arena and can be stopped between rows.
// decode_webp.c is libwebp, which takes what it needs beside the pixels from
// the process, and is stopped between parts of the file.
//
// The pixels are those of a full decode of libjpeg-turbo with its defaults
// (islow IDCT, fancy upsampling), converted as Pillow's convert("RGB") or
// convert("L") does, whatever the window.
#ifndef CPU_DECODE_H
#define CPU_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "cpu_ops.h"

enum cpu_result {
    CPU_OK,
    CPU_CORRUPT,      // damaged data
    CPU_TRUNCATED,    // the data ends before the picture does
    CPU_UNSUPPORTED,  // a coding this build does not decode
    CPU_NOMEM,        // heap or limit of the arena
    CPU_STOPPED,      // stop() said so
    CPU_REDO,         // not for this decoder: cpu_jpeg_decoder from the start
};

// libjpeg's own objects, which it can only make with malloc: made once per
// worker and used for one JPEG after another, so that decoding allocates
// nothing. Nothing of one picture stays for the next.
// Threads: one thread at a time.
struct cpu_jpeg_state;

// The libjpeg-turbo that is loaded, which may be newer than the headers that
// this was built with: "libjpeg-turbo 2.1.5", as it says itself in its memory;
// of one that does not, what it was built with: "libjpeg-turbo (built with
// 2.1.5)". Static storage. Threads: any.
const char *cpu_jpeg_library(void);

// Returns NULL if out of memory. The heap must live as long as the state.
struct cpu_jpeg_state *cpu_jpeg_state_create(const struct cpu_heap *heap);
void cpu_jpeg_state_destroy(struct cpu_jpeg_state **state);

// The stages that a decoder of its own tells apart; NONE: it waited for a
// thread that helps.
enum cpu_stage {
    CPU_STAGE_ENTROPY,
    CPU_STAGE_RECONSTRUCT,
    CPU_STAGE_COLOR,
    CPU_STAGE_NONE,
};

struct cpu_helpers;  // helpers.h

struct cpu_decode_params {
    const uint8_t *data;
    size_t size;
    int width, height;        // as the header parser found them; the decoder
                              // checks that it agrees, else CPU_CORRUPT
    struct hr__rect window;   // inside the picture, not empty
    int channels;             // 3 = RGB, 1 = grey
    bool (*stop)(void *ctx);  // asked about every few rows, also while a
    void *stop_ctx;           // progressive file is being read; may be NULL
    // cpu_sequential_decoder: called whenever work of a stage ends, with
    // stop_ctx; may be NULL.
    void (*lap)(void *stop_ctx, enum cpu_stage stage);
    // For cpu_sequential_decoder and cpu_packed_decoder: threads that may
    // help with a large picture; may be NULL. Rows and results are the same.
    struct cpu_helpers *helpers;
    struct cpu_jpeg_state *jpeg;  // of this worker; NULL, or in use by another
        // open decoder: open() makes one, close() frees it
};

// How it went. text is a clause without file name, e.g. "bad Huffman code".
struct cpu_decode_error {
    enum cpu_result result;
    int64_t offset;  // bytes read from the source when it failed; -1
    int warnings;    // faults mended so far (libjpeg's num_warnings)
    char text[128];
};

// The decoders. libjpeg-turbo, libpng and libwebp:
struct cpu_decode_kind;
extern const struct cpu_decode_kind cpu_jpeg_decoder, cpu_png_decoder,
    cpu_webp_decoder;
// BMP and PNM, whose last rows are checked by open(), or by close().
extern const struct cpu_decode_kind cpu_raster_decoder;
// Our own decoder of a sequential JPEG (jpeg/scan.h). Any call returns CPU_REDO
// if the file is no such JPEG or has an irregularity. cpu_jpeg_decoder accepts
// every file that this accepts, with the same rows and without a warning.
extern const struct cpu_decode_kind cpu_sequential_decoder;
// The same from a packed picture (packed.h) that was checked: p->data. It has
// no end to check: close() does not.
extern const struct cpu_decode_kind cpu_packed_decoder;

// A decoder at work; lives in the arena, which must not be reset below what
// open() took until close(). On failure *err says why, NULL is returned,
// nothing to close, and the arena is as it was.
struct cpu_decode *cpu_decode_open(const struct cpu_decode_kind *kind,
                                   const struct cpu_decode_params *p,
                                   const struct cpu_ops *ops,
                                   struct cpu_arena *arena,
                                   struct cpu_decode_error *err);

// Decodes the next rows of the window: between 1 and max of them, top to
// bottom. rows[i] is set to the first pixel of row i, window.w pixels, in
// memory of the decoder that is valid until the next call; CPU_SLACK bytes
// behind it may be touched. Returns the number of rows, or 0 with *err set.
// max is at most CPU_DECODE_ROWS. Asking beyond the last row is a bug.
#define CPU_DECODE_ROWS 16
int cpu_decode_rows(struct cpu_decode *d, const uint8_t **rows, int max,
                    struct cpu_decode_error *err);

// Ends the decoder, before or after the last row. After the last row, with
// `check` set, reads on to the end of the picture as Pillow does, so that
// damage and a missing end below the window are found and stand in *err.
// Without check it just stops. Faults behind the last row that Pillow tolerates
// (no end marker; anything in a PNG) are warnings. In both cases err->warnings
// and, if all is well, the text of the first are filled in. After a failure of
// rows() the result is that failure.
enum cpu_result cpu_decode_close(struct cpu_decode *d, bool check,
                                 struct cpu_decode_error *err);

#endif
