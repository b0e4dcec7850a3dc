// SPDX-License-Identifier: Apache-2.0
#include "edit.h"

#include <string.h>

#include "jpeg.h"
#include "noise.h"

static void copy(const struct samples_bytes *in, struct samples_bytes *out,
                 size_t from, size_t to)
{
    samples_bytes_add(out, in->data + from, to - from);
}

static size_t find(const struct samples_bytes *in, int marker, size_t *len)
{
    return samples_jpeg_segment(in->data, in->size, marker, 0, len);
}

void samples_cut(const struct samples_edit *d, const struct samples_bytes *in,
                 struct samples_bytes *out)
{
    copy(in, out, 0, in->size * (size_t)d->value / 1000);
}

static bool encode_small(uint64_t seed, struct samples_bytes *out)
{
    const struct samples_jpeg params = {.quality = 90};
    struct samples_picture p;
    bool ok = samples_scene_make(&p, 48, 32, 1, seed);
    if (!ok)
        return false;
    ok = samples_jpeg_encode(&params, &p, out);
    samples_picture_finish(&p);
    return ok;
}

// Pillow feeds libjpeg from a source that suspends, and libjpeg asks it for
// bytes while fewer than 8 bits are left: without EOI it refuses the file,
// unless the last symbol (EOB, 2 bits, the second a 0) and the padding (1 bits)
// make up 8 bits. Such a file decodes for Pillow alone: it is passed over.
void samples_cut_eoi(const struct samples_edit *d,
                     const struct samples_bytes *in, struct samples_bytes *out)
{
    (void)in;
    for (uint64_t i = 0; i < 64; i++) {
        struct samples_bytes b = {0};
        bool ok = encode_small(samples_mix(d->seed, i), &b);
        bool padded = ok && (b.data[b.size - 3] & 0x3f) == 0x3f;
        if (ok && !padded)
            copy(&b, out, 0, b.size - (size_t)d->value);
        samples_bytes_finish(&b);
        if (!ok)
            break;
        if (!padded)
            return;
    }
    out->failed = true;
}

void samples_cut_segment(const struct samples_edit *d,
                         const struct samples_bytes *in,
                         struct samples_bytes *out)
{
    size_t len, at = find(in, d->marker, &len);
    copy(in, out, 0, at + (size_t)d->at);
}

void samples_drop_segments(const struct samples_edit *d,
                           const struct samples_bytes *in,
                           struct samples_bytes *out)
{
    size_t from = 0, at, len;
    for (int n = 0;
         (at = samples_jpeg_segment(in->data, in->size, d->marker, n, &len));
         n++) {
        copy(in, out, from, at);
        from = at + len;
    }
    copy(in, out, from, in->size);
}

void samples_poke(const struct samples_edit *d, const struct samples_bytes *in,
                  struct samples_bytes *out)
{
    size_t len, at = find(in, d->marker, &len);
    copy(in, out, 0, in->size);
    if (!out->failed)
        out->data[at + (size_t)d->at] = (unsigned char)d->value;
}

void samples_claim(const struct samples_edit *d, const struct samples_bytes *in,
                   struct samples_bytes *out)
{
    struct samples_edit byte = *d;
    struct samples_bytes half = {0};
    byte.at = 5;
    byte.value = d->value >> 8;
    samples_poke(&byte, in, &half);
    for (int i = 6; i <= 8 && !half.failed; i++) {
        size_t len, at = find(&half, d->marker, &len);
        half.data[at + (size_t)i] = (unsigned char)(i == 7 ? d->value >> 8
                                                           : d->value);
    }
    samples_bytes_add(out, half.data, half.size);
    out->failed = out->failed || half.failed;
    samples_bytes_finish(&half);
}

void samples_repeat_segment(const struct samples_edit *d,
                            const struct samples_bytes *in,
                            struct samples_bytes *out)
{
    size_t len, at = find(in, d->marker, &len);
    copy(in, out, 0, at + len);
    copy(in, out, at, in->size);
}

void samples_insert(const struct samples_edit *d,
                    const struct samples_bytes *in, struct samples_bytes *out)
{
    size_t len, at = find(in, d->marker, &len);
    copy(in, out, 0, at);
    samples_bytes_add(out, d->text, (size_t)d->value);
    copy(in, out, at, in->size);
}

void samples_end_early(const struct samples_edit *d,
                       const struct samples_bytes *in,
                       struct samples_bytes *out)
{
    size_t len, at = find(in, SAMPLES_SOS, &len);
    if (d->value) {
        at += (in->size - at) * (size_t)d->value / 1000;
        at += in->data[at - 1] == 0xff;  // not between FF and its 00
    }
    copy(in, out, 0, at);
    samples_bytes_add(out, "\xff\xd9", 2);
}

void samples_restart(const struct samples_edit *d,
                     const struct samples_bytes *in, struct samples_bytes *out)
{
    size_t len, at = find(in, SAMPLES_SOS, &len);
    for (int n = d->at; at + 1 < in->size; at++) {
        int m = in->data[at + 1];
        if (in->data[at] == 0xff && m >= 0xd0 && m <= 0xd7 && !n--)
            break;
    }
    copy(in, out, 0, at);
    if (d->value < 8) {
        samples_bytes_byte(out, 0xff, 1);
        samples_bytes_byte(out, 0xd0 | ((in->data[at + 1] + d->value) & 7), 1);
    }
    copy(in, out, at + 2, in->size);
}

void samples_flip(const struct samples_edit *d, const struct samples_bytes *in,
                  struct samples_bytes *out)
{
    struct samples_rng rng = {.key = samples_mix(d->seed, (uint64_t)d->value)};
    size_t len, first = find(in, SAMPLES_SOS, &len);
    copy(in, out, 0, in->size);
    for (int i = 0; i < 2000 && !out->failed; i++) {
        int at = samples_pick(&rng, (int)(first + len) + 1, (int)in->size - 4);
        int bit = 1 << samples_pick(&rng, 0, 7);
        unsigned char *p = out->data + at, was = *p;
        if (*p == 0xff || (*p ^ bit) == 0xff || p[-1] == 0xff)
            continue;
        *p = (unsigned char)(*p ^ bit);
        if (samples_jpeg_check(out->data, out->size) == d->expect)
            return;
        *p = was;
    }
    out->failed = true;
}

void samples_text(const struct samples_edit *d, const struct samples_bytes *in,
                  struct samples_bytes *out)
{
    (void)in;
    samples_bytes_add(out, d->text, d->text ? strlen(d->text) : 0);
}

void samples_zeros(const struct samples_edit *d, const struct samples_bytes *in,
                   struct samples_bytes *out)
{
    (void)in;
    samples_bytes_byte(out, 0, (size_t)d->value);
}

void samples_mask(const struct samples_edit *d, const struct samples_bytes *in,
                  struct samples_bytes *out)
{
    samples_bytes_add(out, d->text, strlen(d->text));
    copy(in, out, strlen(d->text), in->size);
}

void samples_poke_file(const struct samples_edit *d,
                       const struct samples_bytes *in,
                       struct samples_bytes *out)
{
    copy(in, out, 0, in->size);
    if (!out->failed)
        out->data[d->at] = (unsigned char)d->value;
}

void samples_spoil_png(const struct samples_edit *d,
                       const struct samples_bytes *in,
                       struct samples_bytes *out)
{
    (void)d;
    copy(in, out, 0, in->size);
    for (size_t i = 0; i < 64 && !out->failed; i++)
        out->data[in->size / 2 + i] ^= 0x5a;
}
