// SPDX-License-Identifier: Apache-2.0
// From VA buffers to a JPEG file: a client's buffers are collected, checked,
// and put together again.
#include <stdlib.h>
#include <string.h>

#include "driver.h"

// ---- collecting -------------------------------------------------------------

static void take_iq(struct context *c, const struct buffer *b)
{
    VAIQMatrixBufferJPEGBaseline from;

    memcpy(&from, b->bytes, sizeof(from));
    for (int t = 0; t < 4; t++) {
        if (!from.load_quantiser_table[t])
            continue;
        memcpy(c->iq.quantiser_table[t], from.quantiser_table[t], 64);
        c->iq.load_quantiser_table[t] = 1;
    }
}

static void take_huffman(struct display *d, struct context *c,
                         const struct buffer *b)
{
    VAHuffmanTableBufferJPEGBaseline from;

    memcpy(&from, b->bytes, sizeof(from));
    for (int t = 0; t < 2; t++) {
        if (!from.load_huffman_table[t])
            continue;
        c->huffman.huffman_table[t] = from.huffman_table[t];
        c->huffman.load_huffman_table[t] = 1;
        if (d->person.flags & PERSON_DC_12)
            memset(c->huffman.huffman_table[t].num_dc_codes + 12, 0, 4);
    }
}

static VAStatus take_scan(struct display *d, struct context *c,
                          const struct buffer *b)
{
    struct picture *p = c->open;
    struct scan *s = &p->scans[p->num_scans];
    size_t from = p->slice.slice_data_offset, n = p->slice.slice_data_size;

    if (!p->has_slice)
        return VA_STATUS_ERROR_INVALID_BUFFER;
    if (p->num_scans == MAX_SCANS)
        return VA_STATUS_ERROR_MAX_NUM_EXCEEDED;
    if (d->person.flags & PERSON_NO_OFFSET) {
        from = 0;
        n = (size_t)b->size * b->elements;
    }
    if (from > (size_t)b->size * b->elements ||
        n > (size_t)b->size * b->elements - from)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    s->bytes = malloc(n + 1);
    if (!s->bytes)
        return VA_STATUS_ERROR_ALLOCATION_FAILED;
    memcpy(s->bytes, b->bytes + from, n);
    s->size = n;
    s->slice = p->slice;
    s->iq = c->iq;
    s->huffman = c->huffman;
    p->has_slice = false;
    p->num_scans++;
    return VA_STATUS_SUCCESS;
}

// Contents are copied: the client may destroy the buffer before EndPicture.
VAStatus render_jpeg(struct display *d, struct context *c, struct buffer *b)
{
    struct picture *p = c->open;
    size_t size = (size_t)b->size * b->elements;

    switch (b->type) {
    case VAPictureParameterBufferType:
        if (size < sizeof(p->params))
            return VA_STATUS_ERROR_INVALID_BUFFER;
        memcpy(&p->params, b->bytes, sizeof(p->params));
        p->has_params = true;
        return VA_STATUS_SUCCESS;
    case VAIQMatrixBufferType:
        if (size < sizeof(VAIQMatrixBufferJPEGBaseline))
            return VA_STATUS_ERROR_INVALID_BUFFER;
        take_iq(c, b);
        return VA_STATUS_SUCCESS;
    case VAHuffmanTableBufferType:
        if (size < sizeof(VAHuffmanTableBufferJPEGBaseline))
            return VA_STATUS_ERROR_INVALID_BUFFER;
        take_huffman(d, c, b);
        return VA_STATUS_SUCCESS;
    case VASliceParameterBufferType:
        if (b->size < sizeof(p->slice) || b->elements != 1)
            return VA_STATUS_ERROR_INVALID_BUFFER;
        memcpy(&p->slice, b->bytes, sizeof(p->slice));
        p->has_slice = true;
        return VA_STATUS_SUCCESS;
    case VASliceDataBufferType:
        return take_scan(d, c, b);
    default:
        return VA_STATUS_ERROR_UNSUPPORTED_BUFFERTYPE;
    }
}

// ---- checking ---------------------------------------------------------------

int jpeg_sampling(const VAPictureParameterBufferJPEGBaseline *pp)
{
    int h = pp->components[0].h_sampling_factor;
    int v = pp->components[0].v_sampling_factor;

    if (pp->num_components == 1)
        return 0;
    if (pp->num_components != 3)
        return -1;
    for (int i = 1; i < 3; i++) {
        int ch = pp->components[i].h_sampling_factor;
        int cv = pp->components[i].v_sampling_factor;

        if (!ch || !cv || h % ch || v % cv ||
            ch != pp->components[1].h_sampling_factor ||
            cv != pp->components[1].v_sampling_factor)
            return -1;
    }
    h /= pp->components[1].h_sampling_factor;
    v /= pp->components[1].v_sampling_factor;
    switch (h << 4 | v) {
    case 0x22:
        return 1;
    case 0x21:
        return 2;
    case 0x12:
        return 3;
    case 0x11:
        return 4;
    case 0x41:
        return 5;
    default:
        return -1;
    }
}

static bool good_scan(const struct picture *p, const struct scan *s)
{
    if (s->slice.num_components < 1 || s->slice.num_components > 4 ||
        s->slice.num_components > p->params.num_components || !s->size)
        return false;
    for (int i = 0; i < s->slice.num_components; i++)
        if (s->slice.components[i].dc_table_selector > 1 ||
            s->slice.components[i].ac_table_selector > 1)
            return false;
    return true;
}

// The refusals of a driver before it queues the picture.
VAStatus jpeg_check(const struct display *d, const struct picture *p)
{
    const VAPictureParameterBufferJPEGBaseline *pp = &p->params;
    int kind = jpeg_sampling(pp), w = pp->picture_width;
    int h = pp->picture_height;

    if (!p->has_params || !p->num_scans)
        return VA_STATUS_ERROR_INVALID_BUFFER;
    if (w < 1 || h < 1 || w < d->person.min_size || h < d->person.min_size ||
        w > d->person.max_size || h > d->person.max_size)
        return VA_STATUS_ERROR_RESOLUTION_NOT_SUPPORTED;
    if (w > p->target->width || h > p->target->height)
        return VA_STATUS_ERROR_INVALID_SURFACE;
    if (kind < 0 || !d->person.by_sampling[kind])
        return VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
    if ((d->person.flags & PERSON_NO_FOURCC) && p->target->fourcc_chosen)
        return VA_STATUS_ERROR_INVALID_SURFACE;
    if (format_of(p->target->fourcc)->rgb && pp->color_space != 1)
        return VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
    if (pp->rotation != VA_ROTATION_NONE)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    if ((d->person.flags & PERSON_BAD_GREY) && kind == 0 &&
        (pp->components[0].h_sampling_factor != 1 ||
         pp->components[0].v_sampling_factor != 1))
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    for (int i = 0; i < pp->num_components; i++)
        if (pp->components[i].quantiser_table_selector > 3)
            return VA_STATUS_ERROR_INVALID_PARAMETER;
    for (int i = 0; i < p->num_scans; i++)
        if (!good_scan(p, &p->scans[i]))
            return VA_STATUS_ERROR_INVALID_PARAMETER;
    return VA_STATUS_SUCCESS;
}

// ---- putting together -------------------------------------------------------

struct writer {
    uint8_t *bytes;
    size_t at;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
    memcpy(w->bytes + w->at, bytes, n);
    w->at += n;
}

static void put8(struct writer *w, unsigned value)
{
    w->bytes[w->at++] = (uint8_t)value;
}

static void put16(struct writer *w, unsigned value)
{
    put8(w, value >> 8);
    put8(w, value & 255);
}

static void marker(struct writer *w, unsigned code, unsigned length)
{
    put16(w, 0xff00 | code);
    put16(w, length);
}

static unsigned sum16(const uint8_t *counts)
{
    unsigned sum = 0;

    for (int i = 0; i < 16; i++)
        sum += counts[i];
    return sum;
}

// Counts that promise more values than the buffer can hold make a table that
// libjpeg refuses.
static void put_table(struct writer *w, unsigned id, const uint8_t *counts,
                      const uint8_t *values, unsigned capacity)
{
    unsigned n = sum16(counts);

    marker(w, 0xc4, 19 + n);
    put8(w, id);
    put(w, counts, 16);
    for (unsigned i = 0; i < n; i++)
        put8(w, i < capacity ? values[i] : 0);
}

static void put_tables(struct writer *w, const struct scan *s)
{
    for (unsigned t = 0; t < 4; t++) {
        if (!s->iq.load_quantiser_table[t])
            continue;
        marker(w, 0xdb, 67);
        put8(w, t);
        put(w, s->iq.quantiser_table[t], 64);
    }
    for (unsigned t = 0; t < 2; t++) {
        if (!s->huffman.load_huffman_table[t])
            continue;
        put_table(w, t, s->huffman.huffman_table[t].num_dc_codes,
                  s->huffman.huffman_table[t].dc_values, 12);
        put_table(w, 0x10 | t, s->huffman.huffman_table[t].num_ac_codes,
                  s->huffman.huffman_table[t].ac_values, 162);
    }
}

static void put_frame(struct writer *w,
                      const VAPictureParameterBufferJPEGBaseline *pp)
{
    marker(w, 0xc0, 8 + 3u * pp->num_components);
    put8(w, 8);
    put16(w, pp->picture_height);
    put16(w, pp->picture_width);
    put8(w, pp->num_components);
    for (int i = 0; i < pp->num_components; i++) {
        put8(w, pp->components[i].component_id);
        put8(w, (unsigned)(pp->components[i].h_sampling_factor << 4) |
                    pp->components[i].v_sampling_factor);
        put8(w, pp->components[i].quantiser_table_selector);
    }
}

static void put_scan(struct writer *w, const struct scan *s)
{
    const VASliceParameterBufferJPEGBaseline *p = &s->slice;

    marker(w, 0xdd, 4);
    put16(w, p->restart_interval);
    marker(w, 0xda, 6 + 2u * p->num_components);
    put8(w, p->num_components);
    for (int i = 0; i < p->num_components; i++) {
        put8(w, p->components[i].component_selector);
        put8(w, (unsigned)(p->components[i].dc_table_selector << 4) |
                    p->components[i].ac_table_selector);
    }
    put8(w, 0);
    put8(w, 63);
    put8(w, 0);
    put(w, s->bytes, s->size);
}

uint8_t *jpeg_assemble(const struct picture *p, size_t *size)
{
    // Headers: 4 tables of 69, 4 of at most 21 + 16 * 255, frame and scan.
    size_t capacity = 1024;
    struct writer w = {0};

    for (int i = 0; i < p->num_scans; i++)
        capacity += p->scans[i].size + 4 * 69 + 4 * (21 + 16 * 255) + 64;
    w.bytes = malloc(capacity);
    if (!w.bytes)
        return NULL;
    put16(&w, 0xffd8);
    put_tables(&w, &p->scans[0]);
    put_frame(&w, &p->params);
    for (int i = 0; i < p->num_scans; i++) {
        if (i > 0)
            put_tables(&w, &p->scans[i]);
        put_scan(&w, &p->scans[i]);
    }
    put16(&w, 0xffd9);
    *size = w.at;
    return w.bytes;
}
