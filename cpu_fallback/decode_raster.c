// SPDX-License-Identifier: Apache-2.0
// BMP and PNM. Rows that lie in the file are converted where they lie; runs are
// made into a row of indices for each row, all at once, since the last row may
// come first; text is read row by row. raster_text.c reads it.
#include <string.h>

#include "decode_impl.h"
#include "raster_text.h"

struct raster_decode {
    struct cpu_decode base;
    struct hr__raster r;
    struct cpu_text text;
    int next;                             // the next row of text
    uint8_t *made;                        // rows made of runs, or one of text
    size_t pitch;                         // .. of them
    uint8_t colors[256 * 3 + CPU_SLACK];  // of an index
    uint8_t grays[256 + CPU_SLACK];       // .. or a sample
};

static struct raster_decode *raster_decode(struct cpu_decode *d)
{
    return (struct raster_decode *)d;
}

static _Noreturn void fail(struct raster_decode *d, enum cpu_result result,
                           size_t at, const char *text)
{
    d->base.err.offset = (int64_t)at;
    cpu_decode_throw(&d->base, result, text);
}

// ---- Samples ----------------------------------------------------------------

// Pillow's mode I has 65536 greys, of which convert() takes the first 256 and
// makes white of the others.
static void make_tables(struct raster_decode *d)
{
    const struct hr__raster *r = &d->r;

    memset(d->colors, 0, 256 * 3);
    for (int i = 0; i < 256; i++) {
        uint8_t *to = d->colors + 3 * i;

        if (r->pixel == HR__RASTER_BIT)
            memset(to, !i == r->ones_are_black ? 255 : 0, 3);
        else if (r->pixel != HR__RASTER_PALETTE)
            memset(to, cpu_text_scale(i, r->most, 255), 3);
        else if (i < r->colors)
            for (int c = 0; c < 3; c++)
                to[c] = r->palette[i * r->color_bytes + 2 - c];
    }
    d->base.ops->rgb_to_gray(d->grays, d->colors, 256);
}

static int index_at(const uint8_t *row, int x, int bits)
{
    size_t at = (size_t)x * (size_t)bits;

    return row[at / 8] >> (8 - bits - (int)(at % 8)) & ((1 << bits) - 1);
}

static void indexed(const struct raster_decode *d, uint8_t *dst,
                    const uint8_t *row, int x, int w)
{
    int bits = d->r.bits;

    for (int i = 0; i < w; i++) {
        int index = index_at(row, x + i, bits);

        if (d->base.p.channels == 1)
            dst[i] = d->grays[index];
        else
            memcpy(dst + 3 * i, d->colors + 3 * index, 3);
    }
}

static void wide(const struct raster_decode *d, uint8_t *dst,
                 const uint8_t *src, int n)
{
    int white = d->r.pixel == HR__RASTER_GRAY ? 65535 : 255;

    for (int i = 0; i < n; i++)
        dst[i] = cpu_text_scale(src[2 * i] << 8 | src[2 * i + 1], d->r.most,
                                white);
}

static void bytes(const struct raster_decode *d, uint8_t *dst,
                  const uint8_t *src, int w)
{
    size_t step = (size_t)d->r.bits / 8;
    const uint8_t *place = d->r.place;

    for (int i = 0; i < w; i++, src += step, dst += 3) {
        dst[0] = src[place[0]];
        dst[1] = src[place[1]];
        dst[2] = src[place[2]];
    }
}

static void packed(const struct raster_decode *d, uint8_t *dst,
                   const uint8_t *src, int w)
{
    int green = d->r.pixel == HR__RASTER_RGB565 ? 63 : 31;

    for (int i = 0; i < w; i++, dst += 3) {
        int v = src[2 * i] | src[2 * i + 1] << 8;

        dst[0] = (uint8_t)((v / 32 / (green + 1) & 31) * 255 / 31);
        dst[1] = (uint8_t)((v / 32 & green) * 255 / green);
        dst[2] = (uint8_t)((v & 31) * 255 / 31);
    }
}

// The window's part of a row, as three bytes a pixel or one.
static void convert(const struct raster_decode *d, uint8_t *dst,
                    const uint8_t *row)
{
    int x = d->base.p.window.x, w = d->base.p.window.w;
    const uint8_t *src = row + (size_t)x * (size_t)d->r.bits / 8;

    switch (d->r.pixel) {
    case HR__RASTER_GRAY:
        if (!d->r.wide)
            return indexed(d, dst, row, x, w);
        wide(d, dst, src, w);
        if (d->base.p.channels == 3)
            for (int i = w - 1; i >= 0; i--)
                memset(dst + 3 * i, dst[i], 3);
        return;
    case HR__RASTER_BIT:
    case HR__RASTER_PALETTE:
        return indexed(d, dst, row, x, w);
    case HR__RASTER_RGB:
        if (d->r.wide)
            wide(d, dst, src, 3 * w);
        else
            bytes(d, dst, src, w);
        for (int i = 0; i < 3 * w && !d->r.wide && d->r.most < 255; i++)
            dst[i] = d->colors[3 * dst[i]];
        break;
    case HR__RASTER_RGB555:
    case HR__RASTER_RGB565:
        packed(d, dst, src, w);
        break;
    }
    if (d->base.p.channels == 1)
        d->base.ops->rgb_to_gray(dst, dst, w);
}

// ---- Runs -------------------------------------------------------------------

// As Pillow 13 reads them (BmpImagePlugin.py, BmpRleDecoder). Runs end at the
// end of a row, literal pixels and jumps do not. Earlier releases lose the last
// of an odd number of literal pixels of four bits.
struct runs {
    struct raster_decode *d;
    size_t at;
    size_t n, all;  // pixels made, wanted
    size_t x, w;
};

static void put(struct runs *r, unsigned index)
{
    if (r->n < r->all)
        r->d->made[r->n] = (uint8_t)index;
    r->n++;
}

static void skip(struct runs *r, size_t n)
{
    n = n < r->all - r->n ? n : r->all - r->n;
    memset(r->d->made + r->n, 0, n);
    r->n += n;
}

static int next_byte(struct runs *r)
{
    const struct cpu_decode_params *p = &r->d->base.p;

    return r->at < p->size ? p->data[r->at++] : -1;
}

static void put_run(struct runs *r, size_t n, unsigned byte, bool rle4)
{
    size_t room = r->x < r->w ? r->w - r->x : 0;

    n = n < room ? n : room;
    for (size_t i = 0; i < n; i++)
        put(r, !rle4 ? byte : i % 2 ? byte & 15 : byte >> 4);
    r->x += n;
}

// False: the file ends here, or the picture.
static bool put_literal(struct runs *r, size_t n, bool rle4)
{
    size_t want = r->all - r->n < n ? r->all - r->n : n;

    for (size_t i = 0; i < want; i++) {
        int byte = next_byte(r);

        if (byte < 0)
            return false;
        put(r, (unsigned)(rle4 ? byte >> 4 : byte));
        if (rle4 && ++i < want)
            put(r, (unsigned)byte & 15);
    }
    if (r->n == r->all)
        return false;
    r->x += n;
    r->at += r->at & 1;
    return true;
}

static bool jump(struct runs *r)
{
    int right = next_byte(r), up = next_byte(r);

    if (up < 0)
        return false;
    skip(r, (size_t)right + (size_t)up * r->w);
    r->x = r->n % r->w;
    return true;
}

// False: there are no more.
static bool next_run(struct runs *r, bool rle4)
{
    int n = next_byte(r), byte = next_byte(r);

    if (byte < 0 || (!n && byte == 1))
        return false;
    if (n) {
        put_run(r, (size_t)n, (unsigned)byte, rle4);
        return true;
    }
    if (byte == 2)
        return jump(r);
    if (byte)
        return put_literal(r, (size_t)byte, rle4);
    skip(r, (r->w - r->n % r->w) % r->w);
    r->x = 0;
    return true;
}

static void read_runs(struct raster_decode *d)
{
    size_t w = (size_t)d->r.width, h = (size_t)d->r.height;
    bool rle4 = d->r.coding == HR__RASTER_RLE4;
    struct runs r = {.d = d, .at = d->r.at, .all = w * h, .w = w};

    d->made = cpu_decode_alloc(&d->base, h, w);
    for (unsigned i = 1; r.n < r.all && next_run(&r, rle4); i++)
        if (i % 4096 == 0)
            cpu_decode_check_stop(&d->base);
    if (r.n < r.all)
        fail(d, r.at >= d->base.p.size ? CPU_TRUNCATED : CPU_CORRUPT,
             r.at < d->base.p.size ? r.at : d->base.p.size,
             "the runs end before the last row");
    d->r.bits = 8;
    d->pitch = w;
}

// ---- Steps ------------------------------------------------------------------

static void check_rows(struct raster_decode *d)
{
    const struct hr__raster *r = &d->r;
    size_t size = d->base.p.size;
    size_t row = ((size_t)r->width * (size_t)r->bits + 7) / 8;

    if (r->at > size || size - r->at < row ||
        (size - r->at - row) / r->stride < (size_t)r->height - 1)
        fail(d, CPU_TRUNCATED, size, "before the last row");
}

static void read_text(struct raster_decode *d)
{
    size_t n = (size_t)d->r.width * (d->r.pixel == HR__RASTER_RGB ? 3 : 1);
    const char *wrong = cpu_text_read(&d->text, d->made, n);

    cpu_decode_check_stop(&d->base);
    if (wrong)
        fail(d, d->text.length ? CPU_CORRUPT : CPU_TRUNCATED, d->text.at,
             wrong);
    d->next++;
}

static void open_text(struct raster_decode *d)
{
    const struct cpu_decode_params *p = &d->base.p;
    bool rgb = d->r.pixel == HR__RASTER_RGB;

    d->pitch = (size_t)p->width * (rgb ? 3 : 1);
    d->made = cpu_decode_alloc(&d->base, 1, d->pitch);
    cpu_text_open(&d->text, p->data, p->size, &d->r);
    // Samples are scaled as they are read.
    d->r.bits = rgb ? 24 : 8;
    d->r.most = 255;
    while (d->next < p->window.y)
        read_text(d);
}

static void open_step(struct cpu_decode *base)
{
    struct raster_decode *d = raster_decode(base);

    if (!hr__raster_read(base->p.data, base->p.size, &d->r) ||
        d->r.width != base->p.width || d->r.height != base->p.height)
        fail(d, CPU_CORRUPT, 0, "header and decoder disagree about the size");
    cpu_decode_alloc_lines(base, (size_t)base->p.window.w * 3);
    if (d->r.coding == HR__RASTER_TEXT)
        open_text(d);
    else if (d->r.coding == HR__RASTER_RAW)
        check_rows(d);
    else
        read_runs(d);
    make_tables(d);
}

static const uint8_t *row_at(struct raster_decode *d, int y)
{
    const struct hr__raster *r = &d->r;
    size_t i = (size_t)(r->upwards ? r->height - 1 - y : y);

    if (r->coding == HR__RASTER_TEXT) {
        read_text(d);
        return d->made;
    }
    if (r->coding != HR__RASTER_RAW)
        return d->made + i * d->pitch;
    return d->base.p.data + r->at + i * r->stride;
}

static void rows_step(struct cpu_decode *base)
{
    struct raster_decode *d = raster_decode(base);

    for (int i = 0; i < base->max; i++) {
        uint8_t *line = base->lines + (size_t)i * base->pitch;

        convert(d, line, row_at(d, base->p.window.y + base->done + i));
        base->rows[i] = line;
    }
    base->got = base->max;
}

// Pillow reads all of the text before it gives a row.
static void finish_step(struct cpu_decode *base)
{
    struct raster_decode *d = raster_decode(base);
    const char *wrong;

    if (d->r.coding != HR__RASTER_TEXT)
        return;
    while (d->next < base->p.height)
        read_text(d);
    wrong = cpu_text_finish(&d->text);
    if (wrong)
        fail(d, CPU_CORRUPT, d->text.at, wrong);
}

const struct cpu_decode_kind cpu_raster_decoder = {
    .size = sizeof(struct raster_decode),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
};
