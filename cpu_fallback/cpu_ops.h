// SPDX-License-Identifier: Apache-2.0
// The CPU's pixel kernels: pure functions on rows. They know no device, no
// job and no thread. The readable C (resample.c, store.c) is the reference;
// the _avx2, _avx512 and _neon sisters write the same bytes and take slots of
// the table at run time.
//
// Rows are u8, pixels interleaved: `channels` (1 or 3) bytes each.
// Every source row must be readable, and every destination row writable, for
// CPU_SLACK bytes behind its end (arena.h); what stood there behind a
// destination row is lost. Rows need no alignment.
#ifndef CPU_OPS_H
#define CPU_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu_fallback/arena.h"
#include "cpu_fallback/augment/augment.h"
#include "hal/engine/plain.h"

// One axis of a resample: output i is the weighted sum of n[i] source samples
// from lo[i] on. Weights are integers with 22 fraction bits, |w| < 2^24, and
// their sum is close to 2^22. n[i] >= 1, lo[i] >= 0, lo[i] + n[i] <= in.
// lo need not grow with i: a mirrored axis runs backwards.
struct cpu_axis {
    int in;  // source samples (row length or number of rows)
    int out;
    int taps;            // largest n
    int stride;          // weights from output to output: taps rounded up to
                         // a multiple of 4; weights behind n[i] are 0
    const int32_t *lo;   // [out]
    const int32_t *n;    // [out]
    const int32_t *w;    // [out * stride]
    bool identity;       // n = 1, w = 2^22 and lo[i] = lo[0] + i for all i
    const void *packed;  // by pack_h: the weights as this CPU's resample_h
                         // wants them; NULL where it wants none
};

struct cpu_lane_ops;

struct cpu_ops {
    const char *name;  // of the best of cpu_levels[] that is in it

    // Stage entropy of many pictures at a time (lanes.h); NULL where it is not
    // made.
    const struct cpu_lane_ops *lanes;

    // Horizontal pass: dst[r][x] for `rows` rows, x in [0, axis->out).
    // out = clamp((2^21 + sum of src * w) >> 22, 0, 255), 32-bit arithmetic.
    // Pillow src/libImaging/Resample.c ImagingResampleHorizontal_8bpc.
    void (*resample_h)(uint8_t *const *dst, const uint8_t *const *src, int rows,
                       int channels, const struct cpu_axis *axis);
    // Optional: prepares axis->packed in the arena (which must live as long
    // as the axis is used). false = out of memory.
    bool (*pack_h)(struct cpu_axis *axis, int channels, struct cpu_arena *a);
    // Vertical pass for one output row of `bytes` bytes: rows[k] has weight
    // w[k], k in [0, n). Same arithmetic (..Vertical_8bpc).
    void (*resample_v)(uint8_t *dst, const uint8_t *const *rows,
                       const int32_t *w, int n, size_t bytes);

    // Stores one row of w pixels through the table. planar: dst[c] is the row
    // of channel c; interleaved: dst[0] is the row of pixels. Destinations have
    // NO slack: not one byte behind the row's end may be written, and they may
    // be unaligned (to the element's natural alignment only).
    // next: bytes from each destination to that of the row that comes next,
    // whose memory is far away: it is brought near meanwhile; 0: there is none.
    void (*store)(void *const dst[3], size_t next, const uint8_t *src, int w,
                  int channels, bool planar, enum hr_dtype type,
                  const struct hr__table *table);

    // Packed pixel conversions of whole rows, in place allowed.
    // CMYK as Adobe writes it (inverted), 4 bytes -> RGB 3 bytes, as Pillow's
    // cmyk2rgb after rawmode "CMYK;I".
    void (*cmyk_to_rgb)(uint8_t *dst, const uint8_t *src, int w);
    // RGB -> L as Pillow's rgb2l: (19595 R + 38470 G + 7471 B + 32768) >> 16.
    void (*rgb_to_gray)(uint8_t *dst, const uint8_t *src, int w);

    // Stage color, from planes of components: rows are samples, one byte each,
    // and no row overlaps another. "fancy" is libjpeg-turbo src/jdsample.c;
    // around a row lies what it needs beside the samples it is asked for: the
    // neighbours, or at the component's edge copies of the edge.
    //
    // n samples that lie `step` (1, 2, 4) bytes apart, next to each other. The
    // source has NO slack: it ends with its last sample.
    void (*gather)(uint8_t *dst, const uint8_t *src, int n, int step);
    // Each of n samples `times` (1 .. 4) times.
    void (*replicate)(uint8_t *dst, const uint8_t *src, int n, int times);
    // Two for each of n samples; reads src[-1] to src[n].
    void (*upsample_h2v1)(uint8_t *dst, const uint8_t *src, int n);
    // A row between two rows: near weighs 3, far 1. lower: it is the lower
    // one of the two rows that are made of near, so far is below it.
    void (*upsample_h1v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far,
                          int n, bool lower);
    // Upsamples in both directions; reads [-1] to [n] of both rows.
    void (*upsample_h2v2)(uint8_t *dst, const uint8_t *near, const uint8_t *far,
                          int n);
    // w pixels of YCbCr, src/jdcolext.c ycc_rgb_convert.
    void (*ycc_to_rgb)(uint8_t *dst, const uint8_t *y, const uint8_t *cb,
                       const uint8_t *cr, int w);
    // w pixels of channels that are RGB already; grey is r = g = b.
    void (*join_rgb)(uint8_t *dst, const uint8_t *r, const uint8_t *g,
                     const uint8_t *b, int w);

    // Stage reconstruct: n blocks of coefficients (natural order, at multiples
    // of CPU_ALIGN), times quant (natural order), through the inverse DCT of
    // libjpeg-turbo's x86 form: the samples of blocks next to each other, 8
    // rows of 8 n from dst on. Up to 3 blocks behind the last may be read, and
    // as many bytes behind the samples of a row written as theirs are.
    void (*reconstruct)(uint8_t *dst, size_t stride,
                        const int16_t (*blocks)[64], int n,
                        const uint16_t quant[64]);

    // Stage entropy: a line of n blocks (natural order, at multiples of
    // CPU_ALIGN), 1 .. 65535, to a segment of packed.h, of which it returns the
    // size. As much as cpu_packed_bound(n) says may be written.
    size_t (*pack_line)(uint8_t *segment, const int16_t (*blocks)[64], int n);
    // Blocks [first, first + count) of a segment of n, which was checked
    // (cpu_packed_check()), natural order; blocks: at a multiple of CPU_ALIGN.
    // Reads up to CPU_PACKED_PAD bytes behind the segment.
    void (*unpack_line)(int16_t (*blocks)[64], const uint8_t *segment, int n,
                        int first, int count);

    struct cpu_augment_ops augment;
};

// Instruction sets; the numbers are HR_CPU_* of headrace/device.h.
enum {
    CPU_FLAG_C = 1,
    CPU_FLAG_AVX2 = 2,
    CPU_FLAG_AVX512 = 4,
    CPU_FLAG_NEON = 8,
#if defined(__x86_64__)
    CPU_FLAGS_BUILT = CPU_FLAG_C | CPU_FLAG_AVX2 | CPU_FLAG_AVX512,
#elif defined(__AARCH64EL__)
    CPU_FLAGS_BUILT = CPU_FLAG_C | CPU_FLAG_NEON,
#else
    CPU_FLAGS_BUILT = CPU_FLAG_C,
#endif
};

// Each level's flags include those of the levels that it builds on. A
// processor's better levels come later. The name is that of the level's table,
// and a value of HEADRACE_CPU.
enum { CPU_LEVELS = 4 };
extern const struct cpu_level {
    const char *name;
    unsigned flags;
} cpu_levels[CPU_LEVELS];

// Returns the flags that this machine can run (AVX512 means F, BW, VL, DQ, VBMI
// and VNNI together).
unsigned cpu_detect(void);

// Fills the table with the best allowed by flags and the machine.
void cpu_ops_init(struct cpu_ops *ops, unsigned flags);

#endif
