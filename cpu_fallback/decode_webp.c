// SPDX-License-Identifier: Apache-2.0
// WebP by libwebp: all of the picture, or of the first frame, at once. Pillow
// decodes it by WebPAnimDecoder, which makes of the first frame what is made
// here: its pixels with their alpha beside them, where they lie on a canvas of
// zeros. Alpha is dropped, as by convert().
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "decode_impl.h"

// So much is decoded between two looks whether to stop.
enum { STEP = 64 << 10 };

struct webp_decode {
    struct cpu_decode base;
    WebPDemuxer *demux;
    WebPIterator frame;
    WebPDecoderConfig config;
    WebPIDecoder *idec;
    uint8_t *pixels;  // RGB, of the whole canvas
    size_t pitch;
};

static struct webp_decode *webp_decode(struct cpu_decode *d)
{
    return (struct webp_decode *)d;
}

static void close_webp(struct cpu_decode *base)
{
    struct webp_decode *d = webp_decode(base);

    WebPIDelete(d->idec);
    WebPDemuxReleaseIterator(&d->frame);
    WebPDemuxDelete(d->demux);
}

static bool is_cut(const struct cpu_decode_params *p)
{
    const uint8_t *n = p->data + 4;

    return p->size < 12 ||
           p->size - 8 < ((size_t)n[3] << 24 | n[2] << 16 | n[1] << 8 | n[0]);
}

// The container, and its first frame.
static void open_frame(struct webp_decode *d)
{
    const struct cpu_decode_params *p = &d->base.p;
    WebPData data = {p->data, p->size};
    WebPBitstreamFeatures features;

    if (is_cut(p)) {
        d->base.err.offset = (int64_t)p->size;
        cpu_decode_throw(&d->base, CPU_TRUNCATED, "before the last chunk");
    }
    // As WebPAnimDecoderNew() does, which refuses more than WebPDemux().
    if (WebPGetFeatures(p->data, p->size, &features) == VP8_STATUS_OK)
        d->demux = WebPDemux(&data);
    if (!d->demux)
        cpu_decode_throw(&d->base, CPU_CORRUPT, "the chunks are damaged");
    if (WebPDemuxGetI(d->demux, WEBP_FF_CANVAS_WIDTH) != (uint32_t)p->width ||
        WebPDemuxGetI(d->demux, WEBP_FF_CANVAS_HEIGHT) != (uint32_t)p->height)
        cpu_decode_throw(&d->base, CPU_CORRUPT,
                         "header and decoder disagree about the size");
    // (libwebp has seen to it that a frame lies on the canvas.)
    if (!WebPDemuxGetFrame(d->demux, 1, &d->frame) || d->frame.x_offset < 0 ||
        d->frame.y_offset < 0 || d->frame.width < 1 || d->frame.height < 1 ||
        d->frame.width > p->width - d->frame.x_offset ||
        d->frame.height > p->height - d->frame.y_offset)
        cpu_decode_throw(&d->base, CPU_CORRUPT, "no first frame");
}

static void open_pixels(struct webp_decode *d)
{
    const struct cpu_decode_params *p = &d->base.p;
    struct WebPRGBABuffer *to = &d->config.output.u.RGBA;

    d->pitch = (size_t)p->width * 3;
    d->pixels = cpu_decode_alloc(&d->base, (size_t)p->height, d->pitch);
    if (d->frame.width < p->width || d->frame.height < p->height)
        memset(d->pixels, 0, (size_t)p->height * d->pitch);
    if (d->base.p.channels == 1)
        cpu_decode_alloc_lines(&d->base, (size_t)p->window.w);
    if (!WebPInitDecoderConfig(&d->config))
        cpu_decode_throw(&d->base, CPU_UNSUPPORTED, "another libwebp");
    d->config.output.colorspace = MODE_RGB;
    d->config.output.is_external_memory = 1;
    to->rgba = d->pixels + (size_t)d->frame.y_offset * d->pitch +
               (size_t)d->frame.x_offset * 3;
    to->stride = (int)d->pitch;
    to->size = (size_t)(d->frame.height - 1) * d->pitch +
               (size_t)d->frame.width * 3;
    // (Data here would be its own: features only.)
    d->idec = WebPIDecode(NULL, 0, &d->config);
    if (!d->idec)
        cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
}

static _Noreturn void fail(struct webp_decode *d, VP8StatusCode status,
                           size_t at)
{
    d->base.err.offset = d->frame.fragment.bytes - d->base.p.data + (int64_t)at;
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
        cpu_decode_throw(&d->base, CPU_NOMEM, "out of memory");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        cpu_decode_throw(&d->base, CPU_UNSUPPORTED, "an unknown feature");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
        cpu_decode_throw(&d->base, CPU_TRUNCATED, "before the last row");
    default:
        cpu_decode_throw(&d->base, CPU_CORRUPT, "damaged WebP data");
    }
}

static void open_step(struct cpu_decode *base)
{
    struct webp_decode *d = webp_decode(base);
    const uint8_t *data;
    VP8StatusCode status = VP8_STATUS_SUSPENDED;
    size_t size;

    open_frame(d);
    open_pixels(d);
    data = d->frame.fragment.bytes;
    size = d->frame.fragment.size;
    for (size_t at = 0; at < size && status == VP8_STATUS_SUSPENDED;) {
        cpu_decode_check_stop(base);
        at = size - at > STEP ? at + STEP : size;
        status = WebPIUpdate(d->idec, data, at);
        if (status != VP8_STATUS_OK && status != VP8_STATUS_SUSPENDED)
            fail(d, status, at);
    }
    if (status != VP8_STATUS_OK)
        fail(d, status, size);
}

static void rows_step(struct cpu_decode *base)
{
    struct webp_decode *d = webp_decode(base);
    const struct hr__rect *w = &base->p.window;
    const uint8_t *from = d->pixels + (size_t)w->x * 3 +
                          (size_t)(w->y + base->done) * d->pitch;

    for (int i = 0; i < base->max; i++, from += d->pitch) {
        uint8_t *line = base->lines + (size_t)i * base->pitch;

        if (base->p.channels == 1)
            base->ops->rgb_to_gray(line, from, w->w);
        base->rows[i] = base->p.channels == 1 ? line : from;
    }
    base->got = base->max;
}

const struct cpu_decode_kind cpu_webp_decoder = {
    .size = sizeof(struct webp_decode),
    .open = open_step,
    .rows = rows_step,
    .close = close_webp,
};
