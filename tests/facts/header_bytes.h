// SPDX-License-Identifier: Apache-2.0
// Encoded pictures byte by byte, for the tests of the header parser. They have
// headers and markers; their entropy data is noise.
#ifndef TEST_HEADER_BYTES_H
#define TEST_HEADER_BYTES_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct growing {  // {0} is empty; drop()
    uint8_t *p;
    size_t n, capacity;
};

static inline void add(struct growing *b, const void *p, size_t n)
{
    if (b->n + n > b->capacity) {
        b->capacity = 2 * (b->n + n) + 64;
        b->p = realloc(b->p, b->capacity);
        assert(b->p);
    }
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
}
// add_bytes(&b, 1, 2, 3)
#define add_bytes(b, ...)                  \
    add(b, (const uint8_t[]){__VA_ARGS__}, \
        sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void add_be(struct growing *b, uint32_t v, int n)
{
    while (n--)
        add_bytes(b, (uint8_t)(v >> 8 * n));
}

static inline void drop(struct growing *b)
{
    free(b->p);
    *b = (struct growing){0};
}

// ---- JPEG -----------------------------------------------------------------

static inline void segment(struct growing *b, unsigned marker, const void *p,
                           size_t n)
{
    add_bytes(b, 0xFF, (uint8_t)marker);
    add_be(b, (uint32_t)n + 2, 2);
    add(b, p, n);
}

static inline void soi(struct growing *b)
{
    add_bytes(b, 0xFF, 0xD8);
}
static inline void eoi(struct growing *b)
{
    add_bytes(b, 0xFF, 0xD9);
}

static inline void jfif(struct growing *b)
{
    segment(b, 0xE0, "JFIF\0\1\1\0\0\1\0\1\0\0", 14);
}

static inline void adobe(struct growing *b, uint8_t transform)
{
    uint8_t p[12] = {'A', 'd', 'o', 'b', 'e', 0, 100};

    p[11] = transform;
    segment(b, 0xEE, p, 12);
}

static inline void dqt(struct growing *b, uint8_t index)
{
    uint8_t p[65];

    memset(p, 1, sizeof(p));
    p[0] = index;
    segment(b, 0xDB, p, 65);
}

static inline void dht(struct growing *b, uint8_t index)
{
    uint8_t p[19] = {0};

    p[0] = index;
    p[2] = 2;  // two codes of two bits
    p[18] = 1;
    segment(b, 0xC4, p, 19);
}

// id, factors (h << 4 | v) of each component; table 0 for all.
static inline void sof(struct growing *b, unsigned marker, int w, int h, int n,
                       const uint8_t *ids, const uint8_t *factors)
{
    uint8_t p[6 + 3 * 255] = {8,          (uint8_t)(h >> 8),
                              (uint8_t)h, (uint8_t)(w >> 8),
                              (uint8_t)w, (uint8_t)n};

    for (int c = 0; c < n; c++) {
        p[6 + 3 * c] = ids[c];
        p[7 + 3 * c] = factors[c];
    }
    segment(b, marker, p, 6 + 3 * (size_t)n);
}

static inline void sos(struct growing *b, int n, const uint8_t *ids, uint8_t ss,
                       uint8_t se, uint8_t ahal)
{
    uint8_t p[4 + 2 * 4] = {(uint8_t)n};

    for (int i = 0; i < n; i++)
        p[1 + 2 * i] = ids[i];
    p[1 + 2 * n] = ss;
    p[2 + 2 * n] = se;
    p[3 + 2 * n] = ahal;
    segment(b, 0xDA, p, 4 + 2 * (size_t)n);
}

static const uint8_t ids123[4] = {1, 2, 3, 4};
static const uint8_t f420[4] = {0x22, 0x11, 0x11, 0x22};

static inline void tables(struct growing *b)
{
    dqt(b, 0);
    dht(b, 0x00);
    dht(b, 0x10);
}

// Noise without markers, but with stuffed bytes.
static inline void noise(struct growing *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (i % 97 == 96)
            add_bytes(b, 0xFF, 0);
        else
            add_bytes(b, (uint8_t)(i * 151 >> 3 & 0x7F));
}

// A 4:2:0 picture as encoders write it.
static inline void baseline(struct growing *b, int w, int h, size_t data)
{
    soi(b);
    jfif(b);
    tables(b);
    sof(b, 0xC0, w, h, 3, ids123, f420);
    sos(b, 3, ids123, 0, 63, 0);
    noise(b, data);
    eoi(b);
}

// DC scan of all, then AC scans of the first component.
static inline void progressive(struct growing *b, int w, int h, int scans)
{
    soi(b);
    tables(b);
    sof(b, 0xC2, w, h, 3, ids123, f420);
    sos(b, 3, ids123, 0, 0, 0);
    noise(b, 5);
    for (int i = 1; i < scans; i++) {
        sos(b, 1, ids123, 1, 63, 0);
        noise(b, 3);
    }
    eoi(b);
}

// ---- PNG ------------------------------------------------------------------

static inline uint32_t crc_of(const uint8_t *p, size_t n)
{
    uint32_t crc = ~(uint32_t)0;

    for (size_t i = 0; i < 8 * n; i++) {
        if (i % 8 == 0)
            crc ^= p[i / 8];
        crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

static inline void chunk(struct growing *b, const char *type, const void *p,
                         size_t n)
{
    add_be(b, (uint32_t)n, 4);
    add(b, type, 4);
    add(b, p, n);
    add_be(b, crc_of(b->p + b->n - n - 4, n + 4), 4);
}

static inline void ihdr(struct growing *b, uint32_t w, uint32_t h,
                        uint8_t depth, uint8_t type)
{
    uint8_t p[13] = {(uint8_t)(w >> 24),
                     (uint8_t)(w >> 16),
                     (uint8_t)(w >> 8),
                     (uint8_t)w,
                     (uint8_t)(h >> 24),
                     (uint8_t)(h >> 16),
                     (uint8_t)(h >> 8),
                     (uint8_t)h,
                     depth,
                     type};

    add(b, "\x89PNG\r\n\x1A\n", 8);
    chunk(b, "IHDR", p, 13);
}

static inline void png_end(struct growing *b)
{
    chunk(b, "IDAT", "some bytes", 10);
    chunk(b, "IEND", NULL, 0);
}

// ---- EXIF -----------------------------------------------------------------

// A TIFF structure with one entry for the orientation.
static inline void tiff(struct growing *b, int big, uint16_t type,
                        uint32_t count, uint32_t value)
{
    uint8_t p[26] = {0};
    const struct {
        int at, n;
        uint32_t v;
    } fields[] = {
        {2, 2, 42},
        {4, 4, 8},
        {8, 2, 1},
        {10, 2, 0x112},
        {12, 2, type},
        {14, 4, count},
        {18, type == 3 && count == 1 ? 2 : 4, value},
    };

    memcpy(p, big ? "MM" : "II", 2);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        for (int k = 0; k < fields[i].n; k++) {
            int at = big ? fields[i].n - 1 - k : k;

            p[fields[i].at + at] = (uint8_t)(fields[i].v >> 8 * k);
        }
    add(b, p, sizeof(p));
}

#endif
