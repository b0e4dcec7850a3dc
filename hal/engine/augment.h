// SPDX-License-Identifier: Apache-2.0
// Stage augment as plain data: a picture of u8 in, one of u8 out, through a
// list of codes. hal/ops makes them of what the user asked for; all floats of
// tables, weights and coordinates are made there, once.
#ifndef HR__ENGINE_AUGMENT_H
#define HR__ENGINE_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <headrace/op.h>

// (name of the code, what it computes for a picture of C channels)
#define HR__AUGMENT_MAP(X)                                                   \
    X(TABLE, table)           /* each byte by the table of its channel */    \
    X(MIX_MEAN, mix_mean)     /* blend of the mean luma and the picture */   \
    X(MIX_LUMA, mix_luma)     /* blend of each pixel's luma and the pixel */ \
    X(MIX_SMOOTH, mix_smooth) /* blend of the 3 x 3 mean and the picture */  \
    X(HUE, hue)               /* shift of the hue, through HSV and back */   \
    X(LUMA, luma)             /* the luma, in each channel or in one */      \
    X(EQUALIZE, equalize)     /* a flat histogram for each channel */        \
    X(STRETCH, stretch)       /* each channel from 0 to 255 */               \
    X(WARP, warp)             /* pixels from other places */                 \
    X(BOX, box)               /* means of boxes along x, then along y */     \
    X(KERNEL3, kernel3)       /* any 3 x 3 kernel */                         \
    X(PERMUTE, permute)       /* channels in another order */

enum hr__augment_code {
#define X(NAME, name) HR__AUGMENT_##NAME,
    HR__AUGMENT_MAP(X)
#undef X
        HR__NUM_AUGMENT
};

// The result of the ops that change values by a table, for each byte of a
// channel.
struct hr__values {
    uint8_t of[3][256];
};

// How a warp finds the source of an output pixel.
enum hr__warp_way {
    HR__WARP_AXES,         // nearest, column by x and row by y alone
    HR__WARP_FIXED,        // nearest, 16.16 fixed point
    HR__WARP_SUMS,         // nearest, sums of doubles (large pictures)
    HR__WARP_AFFINE,       // a filter, doubles
    HR__WARP_PERSPECTIVE,  // any filter, doubles
};

// Output pixel (x, y) is source pixel (a x + b y + c, d x + e y + f), over
// g x + h y + 1 in perspective, of pixel centres.
struct hr__warp {
    enum hr__warp_way way;
    enum hr_filter filter;  // NEAREST, BILINEAR or BICUBIC
    double m[8];            // a .. h
    int32_t fixed[6];       // of HR__WARP_FIXED, for pixel (0, 0)
    uint8_t fill[3];        // where there is no source
    enum hr_edges edges;    // of HR__WARP_AXES: what is there instead
};

// One pass of a box of 2 reach + 1 samples and a part of the two beyond:
// (inner * sum + outer * (both beyond) + 2^23) >> 24. inner 0: no pass.
struct hr__box {
    int reach;
    uint32_t inner, outer;
};

struct hr__augment {
    enum hr__augment_code code;
    int w, h;  // of the picture that it makes
    union {
        struct hr__values table;
        float factor;     // MIX_*: 0 gives the first, 1 the second
        int shift;        // HUE: 0 .. 255
        uint32_t cut[2];  // STRETCH: the darkest and brightest bytes of each
                          // channel, so many, do not count
        bool single;      // LUMA: the picture has one channel from here on
        uint8_t from[3];  // PERMUTE
        struct hr__warp warp;
        struct {
            struct hr__box x, y;
            int passes;
        } box;
        struct {
            float weights[9], offset;
        } kernel3;
    };
};

// Says whether the code makes its picture apart from the one that it takes;
// what else there is changes that.
static inline bool hr__augment_apart(enum hr__augment_code code)
{
    return code == HR__AUGMENT_MIX_SMOOTH || code == HR__AUGMENT_KERNEL3 ||
           code == HR__AUGMENT_WARP || code == HR__AUGMENT_BOX;
}

// NumPy's pad(): the place of one at i, around a picture of that size.
static inline int32_t hr__mirrored(int i, int size, enum hr_edges edges)
{
    int period = edges == HR_EDGES_REFLECT ? 2 * size - 2 : 2 * size, rest;

    if (edges == HR_EDGES_REPEAT || period == 0)
        return i < 0 ? 0 : i < size ? i : size - 1;
    rest = i % period;
    rest += rest < 0 ? period : 0;
    if (rest < size)
        return rest;
    return edges == HR_EDGES_REFLECT ? period - rest : period - 1 - rest;
}

// Computes where HR__WARP_AXES finds n pixels along one axis, of a picture of
// that size; -1: outside. Adds up in double as Pillow does:
// src/libImaging/Geometry.c ImagingScaleAffine. With edges the steps are whole
// pixels.
static inline void hr__warp_places(int32_t *to, int n, double first,
                                   double step, int size, enum hr_edges edges)
{
    double at = first + step * .5;

    for (int i = 0; i < n; i++, at += step) {
        if (edges != HR_EDGES_FILL)
            to[i] = hr__mirrored((int)first + i, size, edges);
        else
            to[i] = at >= 0 && at < size ? (int32_t)at : -1;
    }
}

#endif
