// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "decode_impl.h"

// Bytes that libpng may still allocate after open: zlib's window of 32 KiB.
#define RESERVE ((size_t)48 << 10)

// How a row comes from libpng, one or two bytes per sample.
enum layout { GRAY, GRAY16, GRAY_ALPHA, PALETTE, RGB, RGB_ALPHA };

struct png_decode {
    struct cpu_decode base;
    png_structp png;
    png_infop info;
    size_t at;       // bytes read
    bool no_memory;  // an allocation failed
    bool tail;       // behind the pixels: faults are only warnings
    enum layout layout;
    int pixel;  // bytes per pixel of libpng's rows
    int passes;
    int next;      // row of the last pass that comes next
    uint8_t *raw;  // interlaced: the rows of the window; else one row
    size_t raw_pitch;
    uint8_t colors[256 * 3 + CPU_SLACK];  // the palette as RGB
    uint8_t grays[256 + CPU_SLACK];       // and as grey
};

static struct png_decode *png_decode(struct cpu_decode *d)
{
    return (struct png_decode *)d;
}

static _Noreturn void fail(struct png_decode *d, enum cpu_result result,
                           const char *text)
{
    if (d->tail) {
        cpu_decode_warn(&d->base, text);
        cpu_decode_throw(&d->base, CPU_OK, "");
    }
    d->base.err.offset = (int64_t)d->at;
    cpu_decode_throw(&d->base, result, text);
}

static void on_error(png_structp png, png_const_charp text)
{
    struct png_decode *d = png_get_error_ptr(png);

    if (d->no_memory)
        fail(d, CPU_NOMEM, "out of memory");
    fail(d, CPU_CORRUPT, text);
}

static void on_warning(png_structp png, png_const_charp text)
{
    struct png_decode *d = png_get_error_ptr(png);

    cpu_decode_warn(&d->base, text);
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t size)
{
    struct png_decode *d = png_get_mem_ptr(png);
    void *p = cpu_pool_alloc(&d->base.pool, size);

    if (!p)
        d->no_memory = true;
    return p;
}

static void on_free(png_structp png, png_voidp p)
{
    (void)png;
    (void)p;
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct png_decode *d = png_get_io_ptr(png);

    if (n > d->base.p.size - d->at) {
        d->at = d->base.p.size;
        fail(d, CPU_TRUNCATED, "before the last row");
    }
    memcpy(out, d->base.p.data + d->at, n);
    d->at += n;
}

static void close_png(struct cpu_decode *base)
{
    struct png_decode *d = png_decode(base);

    if (d->png)
        png_destroy_read_struct(&d->png, &d->info, NULL);
}

// ---- opening ----

static void create(struct png_decode *d)
{
    d->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, d, on_error,
                                      on_warning, d, on_alloc, on_free);
    if (d->png)
        d->info = png_create_info_struct(d->png);
    if (!d->info)
        fail(d, CPU_NOMEM, "out of memory");
    png_set_read_fn(d->png, d, on_read);
    png_set_user_limits(d->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Texts and profiles are not looked into (some are compressed bombs), but
    // their sums are: Pillow refuses a file with a wrong one.
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_crc_action(d->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_check_for_invalid_index(d->png, -1);
}

// Entries that the file does not define are black, as in all references.
// (Pillow up to 10.3 at the latest, Debian's 9.4 too, had a ramp of greys
// there.)
static void load_palette(struct png_decode *d)
{
    png_colorp entries = NULL;
    int n = 0;

    memset(d->colors, 0, (size_t)256 * 3);
    png_get_PLTE(d->png, d->info, &entries, &n);
    for (int i = 0; i < n && i < 256; i++) {
        d->colors[3 * i] = entries[i].red;
        d->colors[3 * i + 1] = entries[i].green;
        d->colors[3 * i + 2] = entries[i].blue;
    }
    d->base.ops->rgb_to_gray(d->grays, d->colors, 256);
}

// Pillow's modes (PngImagePlugin.py): 16 bits keep the high byte, except that
// grey becomes its mode "I", which convert() then clips at 255. Alpha, from
// channel or tRNS, is dropped.
static void choose_layout(struct png_decode *d, int bits, int type)
{
    switch (type) {
    case PNG_COLOR_TYPE_GRAY:
        d->layout = bits == 16 ? GRAY16 : GRAY;
        if (bits < 8)
            png_set_expand_gray_1_2_4_to_8(d->png);
        return;
    case PNG_COLOR_TYPE_PALETTE:
        d->layout = PALETTE;
        load_palette(d);
        png_set_packing(d->png);
        return;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        d->layout = GRAY_ALPHA;
        break;
    case PNG_COLOR_TYPE_RGB:
        d->layout = RGB;
        break;
    default:
        d->layout = RGB_ALPHA;
        break;
    }
    if (bits == 16)
        png_set_strip_16(d->png);
}

static void read_header(struct png_decode *d)
{
    static const int pixel[] = {
        [GRAY] = 1,    [GRAY16] = 2, [GRAY_ALPHA] = 2,
        [PALETTE] = 1, [RGB] = 3,    [RGB_ALPHA] = 4,
    };
    png_uint_32 width, height;
    int bits, type;

    png_read_info(d->png, d->info);
    png_get_IHDR(d->png, d->info, &width, &height, &bits, &type, NULL, NULL,
                 NULL);
    if (width != (png_uint_32)d->base.p.width ||
        height != (png_uint_32)d->base.p.height)
        fail(d, CPU_CORRUPT, "header and decoder disagree about the size");
    choose_layout(d, bits, type);
    d->pixel = pixel[d->layout];
    d->passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    d->raw_pitch = png_get_rowbytes(d->png, d->info);
    if (d->raw_pitch != (size_t)width * (size_t)d->pixel)
        fail(d, CPU_UNSUPPORTED, "layout of the pixels");
}

static void read_row(struct png_decode *d, uint8_t *row)
{
    d->base.err.offset = (int64_t)d->at;
    cpu_decode_check_stop(&d->base);
    png_read_row(d->png, row, NULL);
}

// Every pass touches every row, so the window's rows are kept. The last pass
// stops behind them.
static void read_passes(struct png_decode *d)
{
    const struct hr__rect *w = &d->base.p.window;

    for (int pass = 0; pass < d->passes; pass++) {
        bool last = pass == d->passes - 1;
        int end = last ? w->y + w->h : d->base.p.height;

        for (int y = 0; y < end; y++)
            read_row(d, y >= w->y && y < w->y + w->h
                            ? d->raw + (size_t)(y - w->y) * d->raw_pitch
                            : NULL);
        d->next = end;
    }
}

static void open_step(struct cpu_decode *base)
{
    struct png_decode *d = png_decode(base);
    const struct hr__rect *w = &base->p.window;

    create(d);
    read_header(d);
    cpu_decode_alloc_lines(base, (size_t)w->w * 3);
    d->raw = cpu_arena_array(base->pool.arena, d->passes > 1 ? (size_t)w->h : 1,
                             d->raw_pitch);
    if (!d->raw || !cpu_pool_seal(&base->pool, RESERVE))
        fail(d, CPU_NOMEM, "out of memory");
    if (d->passes > 1) {
        read_passes(d);
        return;
    }
    for (; d->next < w->y; d->next++)
        read_row(d, NULL);
}

// ---- rows ----

static void to_gray(struct png_decode *d, uint8_t *dst, const uint8_t *src,
                    int w)
{
    switch (d->layout) {
    case GRAY:
    case GRAY_ALPHA:
        d->base.ops->gather(dst, src, w, d->pixel);
        break;
    case GRAY16:
        for (int i = 0; i < w; i++)
            dst[i] = src[2 * i] ? 255 : src[2 * i + 1];
        break;
    case PALETTE:
        for (int i = 0; i < w; i++)
            dst[i] = d->grays[src[i]];
        break;
    case RGB:
    case RGB_ALPHA:
        for (int i = 0; i < w; i++)
            memcpy(dst + 3 * i, src + d->pixel * i, 3);
        d->base.ops->rgb_to_gray(dst, dst, w);
        break;
    }
}

static void to_rgb(struct png_decode *d, uint8_t *dst, const uint8_t *src,
                   int w)
{
    switch (d->layout) {
    case GRAY:
    case GRAY_ALPHA:
        for (int i = 0; i < w; i++)
            memset(dst + 3 * i, src[d->pixel * i], 3);
        break;
    case GRAY16:
        for (int i = 0; i < w; i++)
            memset(dst + 3 * i, src[2 * i] ? 255 : src[2 * i + 1], 3);
        break;
    case PALETTE:
        for (int i = 0; i < w; i++)
            memcpy(dst + 3 * i, d->colors + 3 * src[i], 3);
        break;
    case RGB:
        memcpy(dst, src, (size_t)w * 3);
        break;
    case RGB_ALPHA:
        for (int i = 0; i < w; i++)
            memcpy(dst + 3 * i, src + 4 * i, 3);
        break;
    }
}

static void rows_step(struct cpu_decode *base)
{
    struct png_decode *d = png_decode(base);
    const struct hr__rect *w = &base->p.window;

    for (int i = 0; i < base->max; i++) {
        uint8_t *dst = base->lines + (size_t)i * base->pitch;
        const uint8_t *src = d->raw;

        if (d->passes > 1) {
            src += (size_t)(base->done + i) * d->raw_pitch;
        } else {
            read_row(d, d->raw);
            d->next++;
        }
        src += (size_t)w->x * (size_t)d->pixel;
        if (base->p.channels == 1)
            to_gray(d, dst, src, w->w);
        else
            to_rgb(d, dst, src, w->w);
        base->rows[i] = dst;
    }
    base->got = base->max;
}

static void finish_step(struct cpu_decode *base)
{
    struct png_decode *d = png_decode(base);

    for (; d->next < base->p.height; d->next++)
        read_row(d, NULL);
    // Pillow never looks behind the last row in earnest: no sum, no IEND.
    d->tail = true;
    png_read_end(d->png, NULL);
}

const struct cpu_decode_kind cpu_png_decoder = {
    .size = sizeof(struct png_decode),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
    .close = close_png,
};
