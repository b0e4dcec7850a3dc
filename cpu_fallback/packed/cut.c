// SPDX-License-Identifier: Apache-2.0
// Plain loops over bytes, which compilers make vector instructions of.
#include "cpu_fallback/packed/line.h"

// The sum of n bytes after they were xor-ed with a word. Eight at a time, in
// four sums of 16 bits; 128 words do not overflow them.
static uint32_t sum(const void *from, int n, uint64_t flip)
{
    const uint64_t even = 0x00ff00ff00ff00ff;
    const uint8_t *p = from;
    uint32_t s = 0;

    while (n >= 8) {
        int words = n / 8 < 128 ? n / 8 : 128;
        uint64_t sums = 0;

        for (int i = 0; i < words; i++) {
            uint64_t x = load64(p + 8 * i) ^ flip;

            sums += (x & even) + (x >> 8 & even);
        }
        for (int i = 0; i < 4; i++)
            s += sums >> 16 * i & 0xffff;
        p += 8 * words;
        n -= 8 * words;
    }
    for (int i = 0; i < n; i++)
        s += (uint8_t)(p[i] ^ flip);
    return s;
}

static uint32_t count_escapes(const int8_t *d, int n)
{
    const int8_t *end = d + n;
    uint32_t k = 0;

    for (; d < end &&
           (d = memchr(d, (uint8_t)CPU_PACKED_ESCAPE, (size_t)(end - d)));
         d++)
        k++;
    return k;
}

// The sum of n differences, of which so many escape.
static int16_t sum_dc(const struct line *l, int n, uint32_t escapes)
{
    int32_t dc = (int32_t)sum(l->d, n, 0x8080808080808080) - 128 * n -
                 CPU_PACKED_ESCAPE * (int32_t)escapes;

    for (uint32_t i = 0; i < escapes; i++)
        dc += packed_word(l->escapes + 2 * (size_t)i);
    return (int16_t)dc;
}

size_t cpu_packed_cut(struct cpu_packed_cut *c)
{
    struct line l = packed_line(c->segment, c->n);

    c->skipped = count_escapes(l.d, c->first + 1);
    c->dc = sum_dc(&l, c->first + 1, c->skipped);
    c->escapes = count_escapes(l.d + c->first + 1, c->count - 1);
    c->from = sum(l.len, c->first, 0);
    c->bytes = sum(l.len + c->first, c->count, 0);
    return 2 + 3 * (size_t)c->count + c->bytes +
           2 * ((size_t)c->escapes + !packed_dc_fits(c->dc));
}

void cpu_packed_cut_write(const struct cpu_packed_cut *c, uint8_t *to)
{
    struct line l = packed_line(c->segment, c->n);
    bool fits = packed_dc_fits(c->dc);
    uint16_t escapes = (uint16_t)(c->escapes + !fits);
    size_t n = (size_t)c->count;

    memcpy(to, &escapes, sizeof(escapes));
    to += sizeof(escapes);
    memcpy(to, l.d + c->first, n);
    *to = (uint8_t)(fits ? c->dc : CPU_PACKED_ESCAPE);
    memcpy(to + n, l.rows + c->first, n);
    memcpy(to + 2 * n, l.len + c->first, n);
    to += 3 * n;
    if (!fits) {
        memcpy(to, &c->dc, sizeof(c->dc));
        to += sizeof(c->dc);
    }
    memcpy(to, l.escapes + 2 * (size_t)c->skipped, 2 * (size_t)c->escapes);
    memcpy(to + 2 * (size_t)c->escapes, l.payload + c->from, c->bytes);
}
