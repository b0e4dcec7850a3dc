// SPDX-License-Identifier: Apache-2.0
#include "planes_forms.h"

#include <stdlib.h>

#include "decode_files.h"

void planes_spoil(uint32_t *word, uint64_t *seed)
{
    static const uint32_t odd[] = {0,          1,          2,
                                   3,          4,          5,
                                   255,        65535,      0x7fffffff,
                                   0x80000000, 0xfffffffe, 0xffffffff};

    switch (random_below(seed, 9)) {
    case 0:
    case 1:
    case 2:
        *word += (uint32_t)random_below(seed, 5) - 2;
        break;
    case 3:
    case 4:
        *word = (uint32_t)next_random(seed);
        break;
    default:
        *word = odd[random_below(seed, 12)];
    }
}

uint8_t planes_sample(const struct hr__planes *p, const uint8_t *data, int i,
                      uint32_t x, uint32_t y)
{
    const struct hr__plane *c = &p->comp[i];

    return data[c->at + (uint64_t)(y - c->y) * c->stride +
                (uint64_t)(x - c->x) * c->step];
}

// Y U Y V. Chroma may begin a sample before the luma's pair, never behind it.
static size_t lay_out_yuy2(struct hr__plane *c, size_t at)
{
    for (int i = 0; i < 3; i++) {
        c[i].step = i ? 4 : 2;
        c[i].stride = 4 * ((c[0].cols + 1) / 2 + c[1].cols);
        c[i].at = at + (i ? 2 * (size_t)i - 1 : 0);
    }
    c[0].at += 2 * (size_t)(c[0].x > 2 * c[1].x ? c[0].x - 2 * c[1].x : 0);
    return at + (size_t)c[0].stride * c[0].rows + 8;
}

// Where the samples begin and how far apart they are. Returns room for all.
static size_t lay_out(struct hr__planes *p, enum planes_form form,
                      uint64_t *seed)
{
    struct hr__plane *c = p->comp;
    int n = (int)p->num_components, first = 1 + random_below(seed, 2);
    bool pairs = n == 3 && c[1].cols == c[2].cols && c[1].rows == c[2].rows;
    bool yuy2 = pairs && p->h_max == 2 && p->v_max == 1 && c[0].h == 2 &&
                c[1].h == 1 && c[2].h == 1 && c[1].rows == c[0].rows &&
                c[0].x % 2 == 0;
    size_t at = (size_t)random_below(seed, 40), size = at;

    if (form == FORM_ONE_PLANE && yuy2)
        return lay_out_yuy2(c, at);
    for (int k = 0; k < n; k++) {
        int i = form == FORM_GAPS ? n - 1 - k : k;
        int gap = form == FORM_PACKED ? 0 : random_below(seed, 70);

        c[i].step = 1;
        c[i].stride = c[i].cols + (uint32_t)gap;
        c[i].at = size;
        if (form == FORM_PAIRS && pairs && i) {
            c[i].step = 2;
            c[i].stride = 2 * c[1].cols + 5;
            c[i].at = c[0].at + (size_t)c[0].stride * c[0].rows +
                      (uint64_t)(i == first ? 0 : 1);
        }
        size += (size_t)c[i].stride * c[i].rows;
    }
    return size + 1;
}

uint8_t *planes_in_form(const struct hr__planes *p, const uint8_t *data,
                        enum planes_form form, uint64_t *seed,
                        struct hr__planes *out, size_t *size)
{
    size_t capacity, last = 0;
    uint8_t *to, *fit;

    *out = *p;
    capacity = lay_out(out, form, seed);
    to = malloc(capacity);
    for (size_t i = 0; to && i < capacity; i++)
        to[i] = (uint8_t)next_random(seed);
    for (int i = 0; to && i < (int)p->num_components; i++) {
        const struct hr__plane *c = &out->comp[i];

        for (uint32_t y = 0; y < c->rows; y++)
            for (uint32_t x = 0; x < c->cols; x++) {
                size_t at = c->at + (size_t)y * c->stride + (size_t)x * c->step;

                if (at >= capacity)
                    abort();
                to[at] = planes_sample(p, data, i, c->x + x, c->y + y);
                last = at > last ? at : last;
            }
    }
    *size = last + 1;
    fit = to ? realloc(to, *size) : NULL;
    return fit ? fit : to;
}
