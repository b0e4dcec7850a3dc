// SPDX-License-Identifier: Apache-2.0
// Two images of one picture, number by number: hr_image_compare(), and what
// it does not say.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "validate.h"

const char *const validate_bin_names[VALIDATE_BINS] = {
    "0", "< 1", "1", "2", "3-4", "5-8", "9-16", "17-32", "33-128", "129-255",
};

void validate_add(struct validate_stats *to, const struct validate_stats *more)
{
    to->pictures += more->pictures;
    to->differing_pictures += more->differing_pictures;
    to->samples += more->samples;
    to->differing += more->differing;
    to->max = more->max > to->max ? more->max : to->max;
    to->sum += more->sum;
    to->squares += more->squares;
    for (int i = 0; i < VALIDATE_BINS; i++)
        to->bins[i] += more->bins[i];
    to->pixels += more->pixels;
    to->alike += more->alike;
    to->luma = more->luma > to->luma ? more->luma : to->luma;
    to->unlike = to->unlike || more->unlike;
}

double validate_mean(const struct validate_stats *stats)
{
    return stats->samples ? stats->sum / (double)stats->samples : 0;
}

double validate_percent(const struct validate_stats *stats)
{
    return stats->samples
               ? 100 * (double)stats->differing / (double)stats->samples
               : 0;
}

double validate_psnr(const struct validate_stats *stats)
{
    if (!(stats->squares > 0))
        return (double)INFINITY;
    return 10 * log10(255.0 * 255 * (double)stats->samples / stats->squares);
}

// ---- What a number means ---------------------------------------------------

// The normalize op that made the numbers of an image; NULL: they are levels.
static const struct hr_normalize *normalize_of(const struct validate_picture *p,
                                               hr_image image)
{
    const struct hr_normalize *found = NULL;

    for (int i = 0; i < p->num_ops; i++)
        if (p->ops[i].type == HR_OP_NORMALIZE)
            found = &p->ops[i].normalize;
    return image->params.dtype != HR_U8 ? found : NULL;
}

// value = (level / 255 - mean) / std, so level = value * scale + offset.
struct meaning {
    double scale[3], offset[3];
};

static struct meaning meaning_of(const struct hr_normalize *n)
{
    struct meaning m = {{1, 1, 1}, {0, 0, 0}};

    for (int c = 0; n && c < 3; c++) {
        bool scaled = n->std[0] > 0 || n->std[1] > 0 || n->std[2] > 0;

        m.scale[c] = 255 * (scaled ? (double)n->std[c] : 1);
        m.offset[c] = 255 * (double)n->mean[c];
    }
    return m;
}

static double number(const struct hr_image_params *p, const uint8_t *at)
{
    uint16_t h;
    float f;

    switch (p->dtype) {
    case HR_F32:
        memcpy(&f, at, sizeof(f));
        return (double)f;
    case HR_F16:
        memcpy(&h, at, sizeof(h));
        return hr_f16_value(h);
    default:
        return *at;
    }
}

static const uint8_t *address(const struct hr_image_params *p, int x, int y,
                              int c)
{
    size_t e = hr_dtype_size(p->dtype);
    const uint8_t *row = (const uint8_t *)p->data + (size_t)y * p->stride_h;

    return p->layout == HR_NCHW
               ? row + (size_t)c * p->stride_c + (size_t)x * e
               : row + ((size_t)x * (size_t)p->c + (size_t)c) * e;
}

// ---- Comparing -------------------------------------------------------------

// Images of this command are packed, so equal pictures are equal memory.
bool validate_equal(hr_image a, hr_image b)
{
    return a->size == b->size &&
           !memcmp(a->params.data, b->params.data, a->size);
}

// The levels by which all three channels moved; 0 = not alike. A channel at its
// limit may have been held back by it.
static int alike(const uint8_t *a, const uint8_t *b)
{
    int moved = 0;
    bool known = false;

    for (int c = 0; c < 3; c++) {
        if (b[c] == 0 || b[c] == 255)
            continue;
        if (known && b[c] - a[c] != moved)
            return 0;
        moved = b[c] - a[c];
        known = true;
    }
    return moved;
}

// No channel at its limit: where all moved alike, chroma did not move.
static bool is_free(const uint8_t *v)
{
    for (int c = 0; c < 3; c++)
        if (v[c] == 0 || v[c] == 255)
            return false;
    return true;
}

static void count_alike(hr_image a, hr_image b, struct validate_stats *stats)
{
    const uint8_t *left = a->params.data, *right = b->params.data;

    for (size_t i = 0; i + 3 <= a->size; i += 3) {
        int moved;

        if (!memcmp(left + i, right + i, 3))
            continue;
        stats->pixels++;
        moved = abs(alike(left + i, right + i));
        stats->alike += moved > 0;
        if (moved > stats->luma && is_free(left + i) && is_free(right + i))
            stats->luma = moved;
    }
}

// The bin of so many levels, rounded.
static int bin_of(int levels)
{
    static const int upto[] = {0, 0, 1, 2, 4, 8, 16, 32, 128};
    int bin = 1;  // bits differ

    while (bin < VALIDATE_BINS - 1 && levels > upto[bin])
        bin++;
    return bin;
}

void validate_compare(const struct validate_picture *p, hr_image a, hr_image b,
                      struct validate_stats *stats)
{
    struct hr_difference diff;

    *stats = (struct validate_stats){.pictures = 1};
    // (Both were made from the same ops.)
    if (hr_image_compare(a, b, normalize_of(p, a), &diff))
        return;
    stats->samples = diff.elements;
    stats->differing = diff.differing;
    stats->differing_pictures = diff.differing > 0;
    stats->max = diff.max;
    stats->sum = diff.sum;
    stats->squares = diff.squares;
    stats->unlike = !diff.alike;
    for (int levels = 0; levels < 256; levels++)
        stats->bins[bin_of(levels)] += diff.by_levels[levels];
    stats->bins[0] = diff.elements - diff.differing;
    if (diff.differing && a->params.dtype == HR_U8 &&
        a->params.layout == HR_NHWC && a->params.c == 3)
        count_alike(a, b, stats);
}

// A hash of all bytes, 64 bits: multiply and fold, eight bytes at a time. It
// tells pictures of one run apart and need not resist attacks.
uint64_t validate_hash(hr_image image)
{
    const uint8_t *data = image->params.data;
    uint64_t h = 0x9e3779b97f4a7c15u ^ image->size, word;

    for (size_t i = 0; i < image->size; i += sizeof(word)) {
        size_t left = image->size - i;

        word = 0;
        memcpy(&word, data + i, left < sizeof(word) ? left : sizeof(word));
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

// ---- The worst -------------------------------------------------------------

static uint8_t level(const struct meaning *m, const struct hr_image_params *p,
                     int x, int y, int c)
{
    double v = number(p, address(p, x, y, c)) * m->scale[c] + m->offset[c];

    return v > 255 ? 255 : v > 0 ? (uint8_t)(v + .5) : 0;
}

static int window_start(int peak, int size, int window)
{
    int at = peak - window / 2;

    return at < 0 ? 0 : at > size - window ? size - window : at;
}

static uint8_t *copy_window(const struct meaning *m, hr_image image,
                            const struct validate_worst *w)
{
    uint8_t *out = malloc((size_t)w->w * (size_t)w->h * (size_t)w->c),
            *at = out;

    for (int y = 0; out && y < w->h; y++)
        for (int x = 0; x < w->w; x++)
            for (int c = 0; c < w->c; c++)
                *at++ = level(m, &image->params, w->x + x, w->y + y, c);
    return out;
}

static void drop(struct validate_worst *w)
{
    for (int side = 0; side < VALIDATE_SIDES; side++)
        free(w->pixels[side]);
    *w = (struct validate_worst){0};
}

// Differences that the user gets come before those at cuts.
static int by_worst(const void *a, const void *b)
{
    const struct validate_worst *l = a, *r = b;

    if (l->at_end != r->at_end)
        return l->at_end ? -1 : 1;
    return l->score > r->score ? -1 : l->score < r->score;
}

void validate_sort_worst(struct validate *v)
{
    qsort(v->worst, (size_t)v->num_worst, sizeof(v->worst[0]), by_worst);
}

// Where to keep it; NULL: there are worse ones.
static struct validate_worst *place(struct validate *v,
                                    const struct validate_worst *one)
{
    struct validate_worst *least = &v->worst[VALIDATE_WORST - 1];

    if (v->num_worst < VALIDATE_WORST)
        return &v->worst[v->num_worst++];
    validate_sort_worst(v);
    if (by_worst(least, one) <= 0)
        return NULL;
    drop(least);
    return least;
}

void validate_show(struct validate *v, const struct validate_picture *p,
                   int cut, hr_image a, hr_image b)
{
    const struct validate_stats *stats = &p->at[cut];
    const struct hr_normalize *normalize = normalize_of(p, a);
    struct meaning m = meaning_of(normalize);
    const struct hr_image_params *size = &a->params;
    struct hr_difference diff;
    struct validate_worst *w,
        one = {.index = p->index,
               .at_end = cut == HR_STORE,
               .score = stats->squares / (double)stats->samples};

    if (!v->opt.report || hr_image_compare(a, b, normalize, &diff) ||
        !(w = place(v, &one)))
        return;
    *w = one;
    w->w = size->w < VALIDATE_WINDOW ? size->w : VALIDATE_WINDOW;
    w->h = size->h < VALIDATE_WINDOW ? size->h : VALIDATE_WINDOW;
    w->c = size->c;
    w->x = window_start(diff.x, size->w, w->w);
    w->y = window_start(diff.y, size->h, w->h);
    w->pixels[VALIDATE_REFERENCE] = copy_window(&m, a, w);
    w->pixels[VALIDATE_DEVICE] = copy_window(&m, b, w);
}

void validate_worst_finish(struct validate *v)
{
    for (int i = 0; i < v->num_worst; i++)
        drop(&v->worst[i]);
    v->num_worst = 0;
}
