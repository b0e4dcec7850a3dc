// SPDX-License-Identifier: Apache-2.0
// Reads the segments in front of a scan (ITU-T T.81, annex B). The HAL has
// parsed them, too, and keeps its limits; this file is stricter, for what it
// takes must mean the same to libjpeg-turbo, without a warning.
#include <string.h>

#include "backends/opencl/scan.h"
#include "kernels/entropy_plan.h"

enum {
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    DHT = 0xc4,
    SOI = 0xd8,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    APP15 = 0xef,
    COM = 0xfe,
};

// Bytes of a scan: the kernels count bits in 32 bits.
#define MOST_BYTES ((size_t)1 << 28)

static const uint8_t natural[64] = {HR__NATURAL};

// What the segments say so far.
struct header {
    const struct hr_info *info;
    struct ocl_scan *scan;
    const uint8_t *quant[4];
    uint8_t quant_bytes[4];
    const uint8_t *huffman[2][4];  // 16 counts, then the symbols; [0]: DC
    uint32_t numbers[2][4];        // of those in the scan, from 1 on
    uint8_t id[3], quantizer[3];
    bool framed, jfif, adobe;
    uint8_t transform;
};

static uint32_t be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t divided(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

// ---- Segments: p, n are what follows the length ----------------------------

static unsigned read_dqt(struct header *h, const uint8_t *p, size_t n)
{
    while (n) {
        uint8_t bytes = (uint8_t)(1 + (p[0] >> 4)), to = p[0] & 15;
        size_t size = 1 + 64 * (size_t)bytes;

        if (bytes > 2 || to > 3 || n < size)
            return HR_WHY_DAMAGED;
        h->quant[to] = p + 1;
        h->quant_bytes[to] = bytes;
        p += size;
        n -= size;
    }
    return 0;
}

static unsigned read_dht(struct header *h, const uint8_t *p, size_t n)
{
    while (n) {
        size_t bytes = 16;

        if (n < 17 || p[0] >> 4 > 1 || (p[0] & 15) > 3)
            return HR_WHY_DAMAGED;
        for (int i = 1; i <= 16; i++)
            bytes += p[i];
        if (bytes > 16 + 256 || n < 1 + bytes)
            return HR_WHY_DAMAGED;
        h->huffman[p[0] >> 4][p[0] & 15] = p + 1;
        p += 1 + bytes;
        n -= 1 + bytes;
    }
    return 0;
}

// Both parsers must have read the same frame.
static unsigned read_sof(struct header *h, const uint8_t *p, size_t n)
{
    const struct hr_info *info = h->info;
    size_t num = (size_t)info->components;

    if (h->framed || n != 6 + 3 * num || p[0] != 8 || p[5] != num ||
        be16(p + 1) != (uint32_t)info->height ||
        be16(p + 3) != (uint32_t)info->width)
        return HR_WHY_DAMAGED;
    h->framed = true;
    p += 6;
    for (size_t i = 0; i < num; i++, p += 3) {
        if (p[1] >> 4 != info->h[i] || (p[1] & 15) != info->v[i] || p[2] > 3)
            return HR_WHY_DAMAGED;
        h->id[i] = p[0];
        h->quantizer[i] = p[2];
        for (size_t k = 0; k < i; k++)
            if (h->id[k] == p[0])
                return HR_WHY_TABLES;
    }
    return 0;
}

static unsigned read_app(struct header *h, unsigned marker, const uint8_t *p,
                         size_t n)
{
    if (marker == APP0 && n >= 14 && !memcmp(p, "JFIF", 5)) {
        h->jfif = true;
        // Of other versions libjpeg-turbo warns.
        if (p[5] != 1)
            return HR_WHY_TABLES;
    }
    if (marker == APP14 && n >= 12 && !memcmp(p, "Adobe", 5)) {
        h->adobe = true;
        h->transform = p[11];
    }
    return 0;
}

static unsigned read_segment(struct header *h, unsigned marker,
                             const uint8_t *p, size_t n)
{
    switch (marker) {
    case DQT:
        return read_dqt(h, p, n);
    case DHT:
        return read_dht(h, p, n);
    case SOF0:
    case SOF1:
        return read_sof(h, p, n);
    case DRI:
        h->scan->restart = n == 2 ? be16(p) : 0;
        return n == 2 ? 0 : HR_WHY_DAMAGED;
    case COM:
        return 0;
    default:
        return marker >= APP0 && marker <= APP15 ? read_app(h, marker, p, n)
                                                 : HR_WHY_TABLES;
    }
}

// ---- The scan --------------------------------------------------------------

// As libjpeg-turbo's default_decompress_parms() (src/jdapimin.c) has it where
// it neither guesses nor warns. HR_COLOR_UNKNOWN does not exist: -1.
static int color_of(const struct header *h)
{
    const uint8_t *id = h->id;

    if (h->info->components == 1)
        return HR_COLOR_GRAY;
    if (h->jfif)
        return HR_COLOR_YCC;
    if (h->adobe)
        return h->transform == 0   ? HR_COLOR_RGB
               : h->transform == 1 ? HR_COLOR_YCC
                                   : -1;
    if (id[0] == 'R' && id[1] == 'G' && id[2] == 'B')
        return HR_COLOR_RGB;
    return id[0] == 1 && id[1] == 2 && id[2] == 3 ? HR_COLOR_YCC : -1;
}

// *number: which of the scan's codes it is. False: there is none.
static bool use_code(struct header *h, unsigned ac, unsigned index,
                     uint32_t *number)
{
    struct ocl_scan *s = h->scan;

    if (index > 3 || !h->huffman[ac][index])
        return false;
    if (!h->numbers[ac][index]) {
        if (!hr__entropy_code(&s->codes[s->num_codes], h->huffman[ac][index],
                              !ac))
            return false;
        h->numbers[ac][index] = ++s->num_codes;
    }
    *number = h->numbers[ac][index] - 1;
    return true;
}

static unsigned read_component(struct header *h, size_t i, const uint8_t *p)
{
    struct ocl_scan_component *c = &h->scan->comp[i];

    c->quant = h->quant[h->quantizer[i]];
    c->quant_bytes = h->quant_bytes[h->quantizer[i]];
    if (p[0] != h->id[i])
        return HR_WHY_MULTISCAN;
    if (!c->quant || !use_code(h, 0, p[1] >> 4, &c->dc) ||
        !use_code(h, 1, p[1] & 15, &c->ac))
        return HR_WHY_TABLES;
    return 0;
}

// A scan of one component goes block by block, whatever its factors (ITU-T
// T.81 A.2.2).
static unsigned lay_out(struct header *h)
{
    struct ocl_scan *s = h->scan;

    s->h_max = s->v_max = 1;
    for (uint32_t i = 0; i < s->num_components; i++) {
        struct ocl_scan_component *c = &s->comp[i];

        c->h = s->num_components == 1 ? 1 : h->info->h[i];
        c->v = s->num_components == 1 ? 1 : h->info->v[i];
        s->h_max = c->h > s->h_max ? c->h : s->h_max;
        s->v_max = c->v > s->v_max ? c->v : s->v_max;
        s->mcu_blocks += c->h * c->v;
        s->mcu_lines += c->v;
    }
    if (s->mcu_blocks > HR__MCU_BLOCKS)
        return HR_WHY_CHROMA;
    s->mcus_w = divided((uint32_t)h->info->width, 8 * s->h_max);
    s->mcus_h = divided((uint32_t)h->info->height, 8 * s->v_max);
    if (!s->restart || s->restart > ocl_scan_mcus(s))
        s->restart = ocl_scan_mcus(s);
    for (uint32_t i = 0; i < s->num_components; i++)
        if ((uint64_t)s->restart * s->comp[i].h * s->comp[i].v >
            HR__INTERVAL_BLOCKS)
            return HR_WHY_SIZE;
    return s->size > MOST_BYTES ? HR_WHY_SIZE : 0;
}

static unsigned read_sos(struct header *h, const uint8_t *p, size_t n)
{
    size_t num = h->scan->num_components;
    unsigned why = 0;

    if (!h->framed || n != 4 + 2 * num || p[0] != num)
        return HR_WHY_DAMAGED;
    for (size_t i = 0; i < num; i++)
        why |= read_component(h, i, p + 1 + 2 * i);
    p += 1 + 2 * num;
    // Of other values libjpeg-turbo warns.
    if (p[0] != 0 || p[1] != 63 || p[2] != 0)
        why |= HR_WHY_DAMAGED;
    if (color_of(h) != (int)h->info->color)
        why |= HR_WHY_COLOR;
    return why ? why : lay_out(h);
}

unsigned ocl_scan_read(const struct hr__picture *pic, struct ocl_scan *scan)
{
    struct header h = {.info = &pic->info, .scan = scan};
    const uint8_t *p = pic->data, *end = p + pic->size;

    *scan = (struct ocl_scan){.num_components = (uint32_t)pic->info.components};
    if (pic->size < 4 || p[0] != 0xff || p[1] != SOI)
        return HR_WHY_DAMAGED;
    for (p += 2;;) {
        unsigned marker, why;
        size_t n;

        if (end - p < 4 || p[0] != 0xff)
            return HR_WHY_DAMAGED;
        if (p[1] == 0xff) {  // fill
            p++;
            continue;
        }
        marker = p[1];
        n = be16(p + 2);
        if (n < 2 || n > (size_t)(end - p) - 2)
            return HR_WHY_DAMAGED;
        p += 2 + n;
        if (marker == SOS) {
            scan->data = p;
            scan->size = (size_t)(end - p);
            return read_sos(&h, p + 2 - n, n - 2);
        }
        if ((why = read_segment(&h, marker, p + 2 - n, n - 2)))
            return why;
    }
}

void ocl_scan_quant(const struct ocl_scan *s, uint32_t i, uint16_t quant[64])
{
    const struct ocl_scan_component *c = &s->comp[i];

    for (int k = 0; k < 64; k++) {
        const uint8_t *q = c->quant + (size_t)k * c->quant_bytes;

        quant[natural[k]] = (uint16_t)(c->quant_bytes == 1 ? q[0] : be16(q));
    }
}
