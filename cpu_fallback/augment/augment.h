// SPDX-License-Identifier: Apache-2.0
// Stage augment: one code after the other on a whole picture. augment.c walks
// the list; what a code does to a row stands in struct cpu_augment_ops, whose
// readable C (tone.c, hue.c, stencil.c, warp.c) is the reference for the
// sisters of each instruction set.
#ifndef CPU_AUGMENT_H
#define CPU_AUGMENT_H

#include "cpu_fallback/arena.h"
#include "hal/engine/augment.h"

// Rows of interleaved u8, CPU_SLACK bytes behind each.
struct cpu_pixels {
    uint8_t *data;
    size_t stride;
    int w, h, channels;  // 1 or 3
};

struct cpu_range {
    uint8_t lo[3], hi[3];
};

enum { CPU_BOX_NEAR = 3 };

// Functions on rows of w pixels, or n bytes, all of them written without a look
// at what follows; dst may be src. Slack as in cpu_ops.h.
struct cpu_augment_ops {
    void (*table)(uint8_t *dst, const uint8_t *src, int w, int channels,
                  const struct hr__values *table);
    // RGB only. Pillow src/libImaging/Blend.c of its luma and itself.
    void (*mix_luma)(uint8_t *dst, const uint8_t *src, int w, float factor);
    void (*luma)(uint8_t *dst, const uint8_t *src, int w);
    uint32_t (*luma_sum)(const uint8_t *src, int w);
    void (*hue)(uint8_t *dst, const uint8_t *src, int w, int shift);
    // Widens the range of each channel by a whole picture.
    void (*range)(struct cpu_range *range, const struct cpu_pixels *p);
    // Take three rows, from above to below; n bytes, and `channels` bytes on
    // both sides of the rows, are read. dst is none of them.
    void (*mix_smooth)(uint8_t *dst, const uint8_t *const rows[3], int n,
                       int channels, float factor);
    void (*kernel3)(uint8_t *dst, const uint8_t *const rows[3], int n,
                    int channels, const float weights[9], float offset);
    // A box of at most CPU_BOX_NEAR samples on each side, along x or y: taps[k]
    // is the row with the samples k places from the first, 2 reach + 3 in all.
    void (*box_near)(uint8_t *dst, const uint8_t *const *taps, int n,
                     const struct hr__box *box);
    // Does any box along x, by running sums; dst is not src.
    void (*box_x)(uint8_t *dst, const uint8_t *src, int w, int channels,
                  const struct hr__box *box);
    // Does any box along y: sums holds the sums of the inner rows.
    void (*box_y)(uint8_t *dst, const uint32_t *sums, const uint8_t *above,
                  const uint8_t *below, int n, const struct hr__box *box);
    // Pixel columns[x] of the source row for each x; fill where that is outside
    // of its `width` pixels.
    void (*pick)(uint8_t *dst, const uint8_t *src, int width,
                 const int32_t *columns, int w, int channels,
                 const uint8_t fill[3]);
    // Row y of what a warp makes in a way that knows its pixels' places:
    // neither HR__WARP_AXES nor HR__WARP_SUMS.
    void (*warp)(uint8_t *dst, const struct cpu_pixels *src, int w, int y,
                 const struct hr__warp *warp);
};

// Runs the list on a picture in *p, whose memory has room for the largest
// picture on the way; `other` is as large, or NULL where no code is one apart
// (hr__augment_apart()). *p is the result then, in one of the two. False: the
// arena has no room.
bool cpu_augment_run(const struct cpu_augment_ops *ops,
                     const struct hr__augment *list, int num,
                     struct cpu_pixels *p, uint8_t *other,
                     struct cpu_arena *arena);

// Some codes come to a table, also one that depends on the picture: false if
// this one does not. The picture stays as it is.
bool cpu_augment_table(const struct cpu_augment_ops *ops,
                       const struct hr__augment *code,
                       const struct cpu_pixels *p, struct hr__values *table);

#endif
