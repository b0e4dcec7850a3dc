// SPDX-License-Identifier: Apache-2.0
#include "jpeg_scan.h"

#include <string.h>

static const uint8_t zigzag[64] = {CPU_ZIGZAG};

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

// What the segments say so far.
struct header {
    struct cpu_scan *scan;
    const uint8_t *quant[4];
    int quant_bytes[4];
    uint8_t id[3], quantizer[3];
    bool jfif, adobe;
    uint8_t transform;
};

static int be16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

// ---- Segments: p, n are what follows the length -----------------------------

static bool read_dqt(struct header *h, const uint8_t *p, int n)
{
    while (n > 0) {
        int bytes = 1 + (p[0] >> 4), to = p[0] & 15, size = 1 + 64 * bytes;

        if (bytes > 2 || to > 3 || n < size)
            return false;
        h->quant[to] = p + 1;
        h->quant_bytes[to] = bytes;
        p += size;
        n -= size;
    }
    return true;
}

static bool read_dht(struct header *h, const uint8_t *p, int n)
{
    while (n > 0) {
        int count = 0;

        if (n < 17 || p[0] >> 4 > 1 || (p[0] & 15) > 3)
            return false;
        for (int i = 1; i <= 16; i++)
            count += p[i];
        if (count > 256 || n < 17 + count)
            return false;
        h->scan->huffman[p[0] >> 4][p[0] & 15] = p + 1;
        p += 17 + count;
        n -= 17 + count;
    }
    return true;
}

static bool read_sof(struct header *h, const uint8_t *p, int n)
{
    struct cpu_scan *s = h->scan;
    int blocks = 0;

    if (s->num_components || n < 6 || p[0] != 8)
        return false;
    s->height = be16(p + 1);
    s->width = be16(p + 3);
    s->num_components = p[5];
    // Above 65500 libjpeg-turbo refuses (JPEG_MAX_DIMENSION).
    if (!s->height || s->height > 65500 || !s->width || s->width > 65500 ||
        (s->num_components != 1 && s->num_components != 3) ||
        n != 6 + 3 * s->num_components)
        return false;
    p += 6;
    for (int i = 0; i < s->num_components; i++, p += 3) {
        struct cpu_scan_component *c = &s->comp[i];

        c->h = p[1] >> 4;
        c->v = p[1] & 15;
        if (!c->h || c->h > 4 || !c->v || c->v > 4 || p[2] > 3)
            return false;
        h->id[i] = p[0];
        h->quantizer[i] = p[2];
        for (int k = 0; k < i; k++)
            if (h->id[k] == p[0])
                return false;
        s->h_max = c->h > s->h_max ? c->h : s->h_max;
        s->v_max = c->v > s->v_max ? c->v : s->v_max;
        blocks += c->h * c->v;
    }
    // ITU-T T.81 B.2.3.
    return s->num_components == 1 || blocks <= 10;
}

static bool read_app(struct header *h, int marker, const uint8_t *p, int n)
{
    if (marker == APP0 && n >= 14 && memcmp(p, "JFIF", 5) == 0) {
        h->jfif = true;
        // Of other versions libjpeg-turbo warns.
        if (p[5] != 1)
            return false;
    }
    if (marker == APP14 && n >= 12 && memcmp(p, "Adobe", 5) == 0) {
        h->adobe = true;
        h->transform = p[11];
    }
    return true;
}

static bool read_segment(struct header *h, int marker, const uint8_t *p, int n)
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
        h->scan->restart = n == 2 ? be16(p) : -1;
        return n == 2;
    case COM:
        return true;
    default:
        return marker >= APP0 && marker <= APP15 && read_app(h, marker, p, n);
    }
}

// ---- The scan ---------------------------------------------------------------

// libjpeg-turbo src/jdapimin.c default_decompress_parms; where it only guesses,
// or warns, it shall do so itself.
static bool find_color(struct header *h)
{
    struct cpu_scan *s = h->scan;
    const uint8_t *id = h->id;

    s->color = CPU_COLOR_YCC;
    if (s->num_components == 1)
        s->color = CPU_COLOR_GRAY;
    else if (h->jfif)
        return true;
    else if (h->adobe && h->transform == 0)
        s->color = CPU_COLOR_RGB;
    else if (h->adobe)
        return h->transform == 1;
    else if (id[0] == 'R' && id[1] == 'G' && id[2] == 'B')
        s->color = CPU_COLOR_RGB;
    else
        return id[0] == 1 && id[1] == 2 && id[2] == 3;
    return true;
}

static int divided(int n, int by)
{
    return (n + by - 1) / by;
}

static bool lay_out(struct header *h)
{
    struct cpu_scan *s = h->scan;

    s->mcu_v = 8 * s->v_max;
    s->mcus = divided(s->width, 8 * s->h_max);
    s->rows = divided(s->height, s->mcu_v);
    for (int i = 0; i < s->num_components; i++) {
        struct cpu_scan_component *c = &s->comp[i];

        if (s->h_max % c->h || s->v_max % c->v)
            return false;
        c->width = divided(s->width, s->h_max / c->h);
        c->height = divided(s->height, s->v_max / c->v);
        c->quant = h->quant[h->quantizer[i]];
        c->quant_bytes = h->quant_bytes[h->quantizer[i]];
        if (!c->quant)
            return false;
    }
    return true;
}

// A scan of one component goes block by block, whatever its factors
// (ITU-T T.81 A.2.2): they are no more than how its rows are counted.
static bool read_sos(struct header *h, const uint8_t *p, int n)
{
    struct cpu_scan *s = h->scan;
    int count = s->num_components;

    if (!count || n != 4 + 2 * count || p[0] != count)
        return false;
    for (int i = 0; i < count; i++) {
        struct cpu_scan_component *c = &s->comp[i];

        c->dc = p[2 + 2 * i] >> 4;
        c->ac = p[2 + 2 * i] & 15;
        if (p[1 + 2 * i] != h->id[i] || c->dc > 3 || c->ac > 3 ||
            !s->huffman[0][c->dc] || !s->huffman[1][c->ac])
            return false;
    }
    p += 1 + 2 * count;
    return p[0] == 0 && p[1] == 63 && p[2] == 0 && find_color(h) && lay_out(h);
}

bool cpu_scan_parse(struct cpu_scan *scan, const uint8_t *data, size_t size)
{
    struct header h = {.scan = scan};
    const uint8_t *p, *end;

    *scan = (struct cpu_scan){0};
    if (size < 4 || data[0] != 0xff || data[1] != SOI)
        return false;
    p = data + 2;
    end = data + size;
    for (;;) {
        int marker, n;

        if (end - p < 4 || p[0] != 0xff)
            return false;
        if (p[1] == 0xff) {  // fill
            p++;
            continue;
        }
        marker = p[1];
        n = be16(p + 2) - 2;
        p += 4;
        if (n < 0 || end - p < n)
            return false;
        if (marker == SOS) {
            scan->data = p + n;
            scan->end = end;
            return read_sos(&h, p, n);
        }
        if (!read_segment(&h, marker, p, n))
            return false;
        p += n;
    }
}

void cpu_scan_quant(const struct cpu_scan *scan, int i, uint16_t quant[64])
{
    const struct cpu_scan_component *c = &scan->comp[i];

    for (int k = 0; k < 64; k++) {
        const uint8_t *q = c->quant + k * c->quant_bytes;

        quant[zigzag[k]] = (uint16_t)(c->quant_bytes == 1 ? q[0] : be16(q));
    }
}
