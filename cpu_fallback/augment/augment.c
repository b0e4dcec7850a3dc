// SPDX-License-Identifier: Apache-2.0
// Runs the list of codes, one after the other on the whole picture. Statistics
// that a code takes from a picture (a mean, a histogram) become a table here.
#include "cpu_fallback/augment/augment_kernels.h"

struct walk {
    const struct cpu_augment_ops *ops;
    struct cpu_pixels *p;
    uint8_t *other;
    struct cpu_arena *arena;
};

static uint8_t *row_of(const struct cpu_pixels *p, int y)
{
    return p->data + p->stride * (size_t)y;
}

// A picture of w x h where p is not; swap() makes it the current one.
static struct cpu_pixels beside(const struct walk *k, int w, int h)
{
    return (struct cpu_pixels){.data = k->other,
                               .stride = cpu_row_pitch((size_t)w *
                                                       (size_t)k->p->channels),
                               .w = w,
                               .h = h,
                               .channels = k->p->channels};
}

static void swap(struct walk *k, const struct cpu_pixels *made)
{
    k->other = k->p->data;
    *k->p = *made;
}

// ---- Pixels alone -----------------------------------------------------------

static void through(const struct walk *k, const struct hr__values *table)
{
    for (int y = 0; y < k->p->h; y++)
        k->ops->table(row_of(k->p, y), row_of(k->p, y), k->p->w, k->p->channels,
                      table);
}

static bool run_mix_luma(struct walk *k, const struct hr__augment *a)
{
    for (int y = 0; k->p->channels == 3 && y < k->p->h; y++)
        k->ops->mix_luma(row_of(k->p, y), row_of(k->p, y), k->p->w, a->factor);
    return true;
}

static bool run_luma(struct walk *k, const struct hr__augment *a)
{
    int w = k->p->w;

    for (int y = 0; k->p->channels == 3 && y < k->p->h; y++) {
        uint8_t *row = row_of(k->p, y);

        k->ops->luma(row, row, w);
        for (int x = 1; a->single && x < w; x++)
            row[x] = row[3 * x];
    }
    k->p->channels = a->single ? 1 : k->p->channels;
    return true;
}

static bool run_hue(struct walk *k, const struct hr__augment *a)
{
    for (int y = 0; k->p->channels == 3 && y < k->p->h; y++)
        k->ops->hue(row_of(k->p, y), row_of(k->p, y), k->p->w, a->shift);
    return true;
}

static bool run_permute(struct walk *k, const struct hr__augment *a)
{
    for (int y = 0; k->p->channels == 3 && y < k->p->h; y++) {
        uint8_t *p = row_of(k->p, y);

        for (int x = 0; x < k->p->w; x++, p += 3) {
            uint8_t old[3] = {p[0], p[1], p[2]};

            for (int c = 0; c < 3; c++)
                p[c] = old[a->from[c]];
        }
    }
    return true;
}

// ---- Tables, also of what the picture holds ---------------------------------

// Pillow ImageStat's mean of the luma, rounded: PIL/ImageEnhance.py Contrast.
static uint8_t mean_luma(const struct cpu_augment_ops *ops,
                         const struct cpu_pixels *p)
{
    uint64_t sum = 0, n = (uint64_t)p->w * (uint64_t)p->h;

    for (int y = 0; y < p->h; y++) {
        const uint8_t *row = row_of(p, y);

        if (p->channels == 3)
            sum += ops->luma_sum(row, p->w);
        for (int x = 0; p->channels == 1 && x < p->w; x++)
            sum += row[x];
    }
    return (uint8_t)((2 * sum + n) / (2 * n));
}

static void mixed(struct hr__values *table, uint8_t mean, float factor)
{
    for (int i = 0; i < 256; i++)
        table->of[0][i] = cpu_blend(mean, (uint8_t)i, factor);
    memcpy(table->of[1], table->of[0], 256);
    memcpy(table->of[2], table->of[0], 256);
}

// The tables of equalize and autocontrast are those of PIL/ImageOps.py.

static void identity(uint8_t to[256])
{
    for (int i = 0; i < 256; i++)
        to[i] = (uint8_t)i;
}

static void flat(uint8_t to[256], const uint32_t counts[256])
{
    uint64_t sum = 0, step, n;
    int last = 255, used = 0;

    for (int i = 0; i < 256; i++) {
        sum += counts[i];
        used += counts[i] > 0;
    }
    while (last > 0 && !counts[last])
        last--;
    step = (sum - counts[last]) / 255;
    if (used <= 1 || !step) {
        identity(to);
        return;
    }
    n = step / 2;
    for (int i = 0; i < 256; i++) {
        to[i] = (uint8_t)(n / step < 255 ? n / step : 255);
        n += counts[i];
    }
}

// Byte i of a row counts in table i % 12: equal neighbours do not wait for each
// other, and those of a channel, one of three, are in four of them.
static void count(uint32_t counts[12][256], const struct cpu_pixels *p)
{
    int n = p->w * p->channels;

    memset(counts, 0, 12 * sizeof(*counts));
    for (int y = 0; y < p->h; y++) {
        const uint8_t *row = row_of(p, y);
        int i = 0;

        for (; i + 12 <= n; i += 12)
            for (int k = 0; k < 12; k++)
                counts[k][row[i + k]]++;
        for (int k = 0; i < n; i++, k++)
            counts[k][row[i]]++;
    }
    for (int k = p->channels; k < 12; k++)
        for (int i = 0; i < 256; i++)
            counts[k % p->channels][i] += counts[k][i];
}

static void equalized(struct hr__values *table, const struct cpu_pixels *p)
{
    uint32_t counts[12][256];

    count(counts, p);
    for (int c = 0; c < p->channels; c++)
        flat(table->of[c], counts[c]);
}

// Computes in doubles, and in this order: a white pixel may become 254.
static void between(uint8_t to[256], int lo, int hi)
{
    double scale = 255.0 / (hi - lo), offset = -lo * scale;

    for (int i = 0; i < 256; i++) {
        double x = i * scale + offset;

        to[i] = x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)x;
    }
}

// Narrows the range of each channel by the bytes at its ends that do not count.
static void cut_range(struct cpu_range *range, const struct cpu_pixels *p,
                      const uint32_t cut[2])
{
    uint32_t counts[12][256];

    count(counts, p);
    for (int c = 0; c < p->channels; c++) {
        uint64_t low = 0, high = 0;
        int lo = -1, hi = 256;

        while (lo < 255 && low <= cut[0])
            low += counts[c][++lo];
        while (hi > 0 && high <= cut[1])
            high += counts[c][--hi];
        range->lo[c] = (uint8_t)lo;
        range->hi[c] = (uint8_t)hi;
    }
}

static void stretched(struct hr__values *table,
                      const struct cpu_augment_ops *ops,
                      const struct cpu_pixels *p, const uint32_t cut[2])
{
    struct cpu_range range = {{255, 255, 255}, {0, 0, 0}};

    if (cut[0] || cut[1])
        cut_range(&range, p, cut);
    else
        ops->range(&range, p);
    for (int c = 0; c < p->channels; c++) {
        if (range.hi[c] > range.lo[c])
            between(table->of[c], range.lo[c], range.hi[c]);
        else
            identity(table->of[c]);
    }
}

bool cpu_augment_table(const struct cpu_augment_ops *ops,
                       const struct hr__augment *code,
                       const struct cpu_pixels *p, struct hr__values *table)
{
    switch (code->code) {
    case HR__AUGMENT_TABLE:
        *table = code->table;
        return true;
    case HR__AUGMENT_MIX_MEAN:
        mixed(table, mean_luma(ops, p), code->factor);
        return true;
    case HR__AUGMENT_EQUALIZE:
        equalized(table, p);
        return true;
    case HR__AUGMENT_STRETCH:
        stretched(table, ops, p, code->cut);
        return true;
    default:
        return false;
    }
}

static bool run_tabled(struct walk *k, const struct hr__augment *a)
{
    struct hr__values table;

    cpu_augment_table(k->ops, a, k->p, &table);
    through(k, &table);
    return true;
}

// ---- Neighbours -------------------------------------------------------------

// Calls the slot for each inner row; the outermost rows and columns stay.
static bool run_stencil(struct walk *k, const struct hr__augment *a)
{
    struct cpu_pixels *p = k->p, out = beside(k, p->w, p->h);
    size_t c = (size_t)p->channels, width = c * (size_t)p->w;
    int inner = (p->w - 2) * p->channels;

    if (p->w < 3 || p->h < 3)
        return true;
    for (int y = 0; y < p->h; y++) {
        const uint8_t *row = row_of(p, y);
        uint8_t *to = row_of(&out, y);

        if (y == 0 || y == p->h - 1) {
            memcpy(to, row, width);
            continue;
        }
        const uint8_t *rows[3] = {row - p->stride + c, row + c,
                                  row + p->stride + c};

        if (a->code == HR__AUGMENT_KERNEL3)
            k->ops->kernel3(to + c, rows, inner, p->channels,
                            a->kernel3.weights, a->kernel3.offset);
        else
            k->ops->mix_smooth(to + c, rows, inner, p->channels, a->factor);
        memcpy(to, row, c);
        memcpy(to + width - c, row + width - c, c);
    }
    swap(k, &out);
    return true;
}

// The row between copies of its first and last pixel. (A byte at a time: calls
// for two or three cost more.)
static void add_edges(uint8_t *row, int n, int channels, int edge)
{
    for (int i = 0; i < edge * channels; i++) {
        row[-1 - i] = row[channels - 1 - i % channels];
        row[n + i] = row[n - channels + i % channels];
    }
}

// Lines: two of them, with room for a row with reach + 1 pixels on both sides.
static void box_near_row(const struct walk *k, uint8_t *row,
                         uint8_t *const lines[2], const struct hr__box *box,
                         int passes)
{
    int channels = k->p->channels, n = k->p->w * channels;
    int edge = box->reach + 1;

    memcpy(lines[0] + edge * channels, row, (size_t)n);
    for (int i = 0; i < passes; i++) {
        uint8_t *from = lines[i & 1], *to = lines[~i & 1] + edge * channels;
        const uint8_t *taps[2 * CPU_BOX_NEAR + 3];

        add_edges(from + edge * channels, n, channels, edge);
        for (int t = 0; t < 2 * box->reach + 3; t++)
            taps[t] = from + t * channels;
        k->ops->box_near(i + 1 < passes ? to : row, taps, n, box);
    }
}

static bool box_rows(struct walk *k, const struct hr__augment *a)
{
    const struct hr__box *box = &a->box.x;
    struct cpu_pixels *p = k->p;
    bool far = box->reach > CPU_BOX_NEAR;
    size_t edges = far ? 0 : 2 * (size_t)(box->reach + 1);
    size_t c = (size_t)p->channels, n = (size_t)p->w * c;
    uint8_t *lines[2];

    lines[0] = cpu_arena_alloc(k->arena, n + edges * c);
    lines[1] = far ? NULL : cpu_arena_alloc(k->arena, n + edges * c);
    if (!lines[0] || !(far || lines[1]))
        return false;
    for (int y = 0; y < p->h; y++) {
        uint8_t *row = row_of(p, y);

        if (!far)
            box_near_row(k, row, lines, box, a->box.passes);
        for (int i = 0; far && i < a->box.passes; i++)
            k->ops->box_x(row, memcpy(lines[0], row, n), p->w, p->channels,
                          box);
    }
    return true;
}

static const uint8_t *clamped_row(const struct cpu_pixels *p, int y)
{
    return row_of(p, y < 0 ? 0 : y < p->h ? y : p->h - 1);
}

static void box_near_columns(struct walk *k, const struct hr__box *box)
{
    struct cpu_pixels *p = k->p, out = beside(k, p->w, p->h);
    const uint8_t *taps[2 * CPU_BOX_NEAR + 3];

    for (int y = 0; y < p->h; y++) {
        for (int i = 0; i < 2 * box->reach + 3; i++)
            taps[i] = clamped_row(p, y + i - box->reach - 1);
        k->ops->box_near(row_of(&out, y), taps, p->w * p->channels, box);
    }
    swap(k, &out);
}

static inline void add_row(uint32_t *sums, const uint8_t *row, int n, int times)
{
    for (int i = 0; i < n; i++)
        sums[i] += (uint32_t)times * row[i];
}

static void take_row(uint32_t *sums, const uint8_t *row, int n)
{
    for (int i = 0; i < n; i++)
        sums[i] -= row[i];
}

static void box_far_columns(struct walk *k, const struct hr__box *box,
                            uint32_t *sums)
{
    struct cpu_pixels *p = k->p, out = beside(k, p->w, p->h);
    int n = p->w * p->channels, reach = box->reach;
    int inside = reach < p->h ? reach : p->h;

    memset(sums, 0, sizeof(*sums) * (size_t)n);
    add_row(sums, row_of(p, 0), n, reach);
    for (int y = 0; y < inside; y++)
        add_row(sums, row_of(p, y), n, 1);
    add_row(sums, row_of(p, p->h - 1), n, reach - inside);
    for (int y = 0; y < p->h; y++) {
        add_row(sums, clamped_row(p, y + reach), n, 1);
        k->ops->box_y(row_of(&out, y), sums, clamped_row(p, y - reach - 1),
                      clamped_row(p, y + reach + 1), n, box);
        take_row(sums, clamped_row(p, y - reach), n);
    }
    swap(k, &out);
}

static bool run_box(struct walk *k, const struct hr__augment *a)
{
    const struct hr__box *y = &a->box.y;
    size_t n = (size_t)k->p->w * (size_t)k->p->channels;
    uint32_t *sums = NULL;

    if (a->box.x.inner && !box_rows(k, a))
        return false;
    if (y->reach > CPU_BOX_NEAR &&
        !(sums = cpu_arena_array(k->arena, n, sizeof(*sums))))
        return false;
    for (int i = 0; y->inner && i < a->box.passes; i++) {
        if (sums)
            box_far_columns(k, y, sums);
        else
            box_near_columns(k, y);
    }
    return true;
}

// ---- Other places -----------------------------------------------------------

// The most columns of the source that lie side by side, as of shifts and
// borders: they begin with output pixel `from`, and n of them are copied as
// they are. 0: all are outside.
struct run_of {
    int from, n;
};

static struct run_of columns_run(const int32_t *x, int w)
{
    struct run_of most = {0, 0};

    for (int i = 0, n; i < w; i += n) {
        for (n = 1; x[i] >= 0 && i + n < w && x[i + n] == x[i] + n; n++)
            ;
        if (x[i] >= 0 && n > most.n)
            most = (struct run_of){i, n};
    }
    return most;
}

static void pick_row(const struct walk *k, uint8_t *to, const uint8_t *row,
                     const int32_t *x, const struct hr__augment *a,
                     const struct run_of *b)
{
    size_t c = (size_t)k->p->channels;
    int w = k->p->w, end = b->from + b->n;

    k->ops->pick(to, row, w, x, b->from, k->p->channels, a->warp.fill);
    memcpy(to + c * (size_t)b->from, row + c * (size_t)x[b->from],
           c * (size_t)b->n);
    k->ops->pick(to + c * (size_t)end, row, w, x + end, a->w - end,
                 k->p->channels, a->warp.fill);
}

static bool warp_axes(struct walk *k, const struct hr__augment *a,
                      const struct cpu_pixels *out)
{
    const struct cpu_pixels *p = k->p;
    const double *m = a->warp.m;
    int32_t *x = cpu_arena_array(k->arena, (size_t)a->w, sizeof(*x));
    int32_t *y = cpu_arena_array(k->arena, (size_t)a->h, sizeof(*y));
    struct run_of side;

    if (!x || !y)
        return false;
    hr__warp_places(x, a->w, m[2], m[0], p->w, a->warp.edges);
    hr__warp_places(y, a->h, m[5], m[4], p->h, a->warp.edges);
    side = columns_run(x, a->w);
    for (int i = 0; i < a->h; i++) {
        if (y[i] < 0 || !side.n)
            k->ops->pick(row_of(out, i), row_of(p, 0), 0, x, a->w, p->channels,
                         a->warp.fill);
        else
            pick_row(k, row_of(out, i), row_of(p, y[i]), x, a, &side);
    }
    return true;
}

static bool run_warp(struct walk *k, const struct hr__augment *a)
{
    struct cpu_pixels out = beside(k, a->w, a->h);

    if (a->warp.way == HR__WARP_SUMS) {
        cpu_warp_sums(&out, k->p, &a->warp);
    } else if (a->warp.way != HR__WARP_AXES) {
        for (int y = 0; y < a->h; y++)
            k->ops->warp(row_of(&out, y), k->p, a->w, y, &a->warp);
    } else if (!warp_axes(k, a, &out)) {
        return false;
    }
    swap(k, &out);
    return true;
}

// ---- The list ---------------------------------------------------------------

bool cpu_augment_run(const struct cpu_augment_ops *ops,
                     const struct hr__augment *list, int num,
                     struct cpu_pixels *p, uint8_t *other,
                     struct cpu_arena *arena)
{
    static bool (*const run[])(struct walk *, const struct hr__augment *) = {
        [HR__AUGMENT_TABLE] = run_tabled,
        [HR__AUGMENT_MIX_MEAN] = run_tabled,
        [HR__AUGMENT_MIX_LUMA] = run_mix_luma,
        [HR__AUGMENT_MIX_SMOOTH] = run_stencil,
        [HR__AUGMENT_HUE] = run_hue,
        [HR__AUGMENT_LUMA] = run_luma,
        [HR__AUGMENT_EQUALIZE] = run_tabled,
        [HR__AUGMENT_STRETCH] = run_tabled,
        [HR__AUGMENT_WARP] = run_warp,
        [HR__AUGMENT_BOX] = run_box,
        [HR__AUGMENT_KERNEL3] = run_stencil,
        [HR__AUGMENT_PERMUTE] = run_permute,
    };
    _Static_assert(sizeof(run) / sizeof(*run) == HR__NUM_AUGMENT,
                   "a function for each code");
    struct walk walk = {ops, p, other, arena};
    bool ok = true;

    for (int i = 0; i < num && ok; i++) {
        struct cpu_mark mark = cpu_arena_mark(arena);

        ok = run[list[i].code](&walk, &list[i]);
        cpu_arena_reset(arena, mark);
    }
    return ok;
}
