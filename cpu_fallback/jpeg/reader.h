// SPDX-License-Identifier: Apache-2.0
// libjpeg set up to read one picture from memory: its errors thrown as those
// of a decoder, its source with offsets and an end that counts, its memory
// from the arena. decode.c makes rows with it, coefficients.c
// coefficients, decode_planes.c planes.
#ifndef CPU_JPEG_READER_H
#define CPU_JPEG_READER_H

#include <stdio.h>

#include <jpeglib.h>

#include "cpu_fallback/decode_impl.h"
#include "memory.h"

// The head of a decoder that uses libjpeg.
struct cpu_jpeg {
    struct cpu_decode base;  // first
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr error;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct cpu_jpeg_memory memory;
    struct cpu_jpeg_state *state;
    bool own_state;
    bool tail;     // all that is wanted is out: the data may end now
    size_t given;  // bytes of the data handed out so far
};

static inline struct cpu_jpeg *cpu_jpeg_of(struct cpu_decode *d)
{
    return (struct cpu_jpeg *)d;
}

// Part of a step: reads the header, up to the first scan's data, and checks
// that it is the picture of the params. Throws.
void cpu_jpeg_begin(struct cpu_jpeg *d);

// jpeg_start_decompress(), and then the inverse DCT is that of x86 on every
// machine (idct.c).
void cpu_jpeg_start(struct cpu_jpeg *d);
// Does its second half on any machine, for tests.
void cpu_jpeg_own_idct(struct jpeg_decompress_struct *cinfo);

// The kind's close().
void cpu_jpeg_close(struct cpu_decode *base);

// Throws, with the offset that the source has reached.
_Noreturn void cpu_jpeg_refuse(struct cpu_jpeg *d, enum cpu_result result,
                               const char *text);

// ---- For decoders that make coefficients or planes, not rows ----

// Open, rows() to the end, close; not one fault is borne. On success the
// closed decoder, whose struct the arena still has. On failure NULL, *err says
// why, and the arena is as it was.
struct cpu_decode *cpu_jpeg_whole(const struct cpu_decode_kind *kind,
                                  const struct cpu_decode_params *p,
                                  const struct cpu_ops *ops,
                                  struct cpu_arena *arena,
                                  struct cpu_decode_error *err);

// Throws CPU_UNSUPPORTED for another colour space.
enum hr_color cpu_jpeg_color(struct cpu_jpeg *d);

// Throws CPU_CORRUPT if there was a fault, mended or not.
void cpu_jpeg_refuse_damage(struct cpu_jpeg *d);

#endif
