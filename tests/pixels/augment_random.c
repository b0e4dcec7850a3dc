// SPDX-License-Identifier: Apache-2.0
#include "augment_random.h"

#include <string.h>

#include "simd_axes.h"

static int below(int limit)
{
    return test_rnd_int(0, limit - 1);
}

static double between(double lo, double hi)
{
    return lo + (hi - lo) * below(1 << 20) / (1 << 20);
}

void augment_noise(uint8_t *to, int n)
{
    int kind = below(5), base = below(256);

    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(kind == 0   ? base
                          : kind == 1 ? 255 * below(2)
                          : kind == 2 ? base / 2 + below(20)
                                      : below(256));
}

static struct hr__box random_box(void)
{
    struct hr__box box = {.reach = below(3) ? below(3) : below(40)};
    uint32_t whole = 1u << 24, taps = (uint32_t)box.reach * 2 + 1;

    if (!below(6))
        return (struct hr__box){0};
    box.inner = whole / (taps + (uint32_t)below(2));
    box.outer = (whole - taps * box.inner) / 2;
    return box;
}

// Shears and shifts: of many pixels one of the two weights is 0, or both are.
static void one_axis(double m[6])
{
    bool x = below(2);

    m[0] = m[4] = 1;
    m[x ? 3 : 1] = 0;
    if (below(2))
        m[x ? 1 : 3] = below(9) / 4. - 1;
    for (int i = 2; i < 6; i += 3)
        m[i] = below(3) ? (int)m[i] : (int)m[i] + .25 * below(4);
}

static void random_warp(struct hr__augment *a, int w, int h)
{
    static const enum hr_filter filters[] = {HR_NEAREST, HR_BILINEAR,
                                             HR_BICUBIC};
    struct hr__warp *warp = &a->warp;

    a->w = 1 + below(AUGMENT_SIDE);
    a->h = 1 + below(AUGMENT_SIDE);
    warp->way = (enum hr__warp_way)below(5);
    warp->filter = warp->way <= HR__WARP_SUMS ? HR_NEAREST : filters[below(3)];
    for (int i = 0; i < 6; i++) {
        warp->m[i] = i == 2   ? between(-w, w)
                     : i == 5 ? between(-h, h)
                              : between(-2, 2);
        warp->fixed[i] = (int32_t)(warp->m[i] * 65536);
    }
    if (warp->way == HR__WARP_AXES && below(2)) {  // a pad
        warp->m[0] = warp->m[4] = 1;
        warp->m[2] = -below(2 * w);
        warp->m[5] = -below(2 * h);
        warp->edges = (enum hr_edges)below(4);
    }
    if (warp->way == HR__WARP_AFFINE && below(2))
        one_axis(warp->m);
    warp->m[6] = between(-.002, .002);
    warp->m[7] = between(-.002, .002);
    for (int c = 0; c < 3; c++)
        warp->fill[c] = (uint8_t)below(256);
}

struct hr__augment augment_random(enum hr__augment_code code, int w, int h)
{
    struct hr__augment a = {.code = code};

    switch (code) {
    case HR__AUGMENT_TABLE:
        augment_noise(a.table.of[0], 3 * 256);
        if (!below(3))
            memcpy(a.table.of[1], a.table.of[0], 256);
        break;
    case HR__AUGMENT_MIX_MEAN:
    case HR__AUGMENT_MIX_LUMA:
    case HR__AUGMENT_MIX_SMOOTH:
        a.factor = (float)between(below(2) ? 0 : -3, below(2) ? 1 : 4);
        break;
    case HR__AUGMENT_HUE:
        a.shift = below(256);
        break;
    case HR__AUGMENT_LUMA:
        a.single = below(2);
        break;
    case HR__AUGMENT_STRETCH:
        for (int i = 0; i < 2; i++)
            a.cut[i] = below(2) ? (uint32_t)below(1 + below(1 + w * h)) : 0;
        break;
    case HR__AUGMENT_WARP:
        random_warp(&a, w, h);
        break;
    case HR__AUGMENT_BOX:
        a.box.x = random_box();
        a.box.y = random_box();
        a.box.passes = 1 + below(3);
        break;
    case HR__AUGMENT_KERNEL3:
        for (int i = 0; i < 9; i++)
            a.kernel3.weights[i] = (float)between(-1, 1);
        a.kernel3.offset = (float)between(-9, 9);
        break;
    case HR__AUGMENT_PERMUTE:
        for (int c = 0; c < 3; c++)
            a.from[c] = (uint8_t)below(3);
        break;
    default:
        break;
    }
    return a;
}
