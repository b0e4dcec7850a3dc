// SPDX-License-Identifier: Apache-2.0
// Op erase, on a tensor that is complete. The host does it, whichever engine
// has stored the tensor.
#include <string.h>

#include "hal/shape/shape.h"

enum { CHUNK = 512 };  // elements that are made at once

static inline void put(enum hr_dtype dtype, float x, uint8_t *at)
{
    uint16_t half;

    switch (dtype) {
    case HR_F32:
        memcpy(at, &x, sizeof(x));
        break;
    case HR_F16:
        half = hr__f16_from_f32(x);
        memcpy(at, &half, sizeof(half));
        break;
    case HR_U8:
        *at = !(x > 0) ? 0 : x >= 255 ? 255 : (uint8_t)x;
        break;
    }
}

// Row y of a rectangle, of one channel. step: bytes from element to element.
struct row {
    uint8_t *at;
    size_t step;
    int n;
};

static struct row row_of(const struct hr__dst *d, const struct hr__rect *r,
                         int c, int y)
{
    size_t size = hr_dtype_size(d->dtype);
    bool planes = d->layout == HR_NCHW;
    size_t step = planes ? size : size * (size_t)d->c;
    uint8_t *at = d->data + d->stride_h * (size_t)(r->y + y) +
                  (planes ? d->stride_c * (size_t)c : size * (size_t)c);

    return (struct row){at + step * (size_t)r->x, step, r->w};
}

static void put_one(const struct hr__dst *d, const struct row *to, float x)
{
    for (int i = 0; i < to->n; i++)
        put(d->dtype, x, to->at + to->step * (size_t)i);
}

static void put_row(const struct hr__dst *d, const struct row *to,
                    const float *from)
{
    if (d->dtype == HR_F32 && to->step == sizeof(float)) {
        memcpy(to->at, from, sizeof(float) * (size_t)to->n);
        return;
    }
    for (int i = 0; i < to->n; i++)
        put(d->dtype, from[i], to->at + to->step * (size_t)i);
}

// first: the number of its first element in the whole rectangle.
static void put_noise(const struct hr__dst *d, const struct row *to, int noise,
                      uint64_t first)
{
    float x[CHUNK];

    for (int i = 0; i < to->n; i += CHUNK) {
        struct row part = *to;

        part.at += to->step * (size_t)i;
        part.n = to->n - i < CHUNK ? to->n - i : CHUNK;
        hr__random_normals(noise, first + (uint64_t)i, x, part.n);
        put_row(d, &part, x);
    }
}

static void paint_numbers(const struct hr__dst *d, const struct hr__rect *r,
                          const struct hr_erase *e)
{
    for (int c = 0; c < d->c; c++)
        for (int y = 0; y < r->h; y++) {
            struct row to = row_of(d, r, c, y);
            uint64_t first = ((uint64_t)c * (uint64_t)e->h + (uint64_t)y) *
                             (uint64_t)e->w;

            if (e->noise)
                put_noise(d, &to, e->noise, first);
            else
                put_row(d, &to, e->values + first);
        }
}

// The rows of a constant are equal.
static void paint_value(const struct hr__dst *d, const struct hr__rect *r,
                        const float *value)
{
    bool planes = d->layout == HR_NCHW;
    size_t bytes = hr_dtype_size(d->dtype) * (size_t)r->w *
                   (planes ? 1 : (size_t)d->c);

    for (int c = 0; c < d->c; c++) {
        struct row first = row_of(d, r, c, 0);

        put_one(d, &first, value[c]);
    }
    for (int c = 0; c < (planes ? d->c : 1); c++)
        for (int y = 1; y < r->h; y++)
            memcpy(row_of(d, r, c, y).at, row_of(d, r, c, 0).at, bytes);
}

void hr__paint(const struct hr__dst *d, const struct hr_erase *e)
{
    struct hr__rect r = {e->x, e->y, e->w, e->h};

    r.w = r.w < d->w - r.x ? r.w : d->w - r.x;
    r.h = r.h < d->h - r.y ? r.h : d->h - r.y;
    if (r.w < 1 || r.h < 1)
        return;
    if (e->noise || e->values)
        paint_numbers(d, &r, e);
    else
        paint_value(d, &r, e->value);
}
