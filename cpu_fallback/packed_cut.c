// SPDX-License-Identifier: Apache-2.0
// Plain loops over bytes, which compilers make vector instructions of.
#include "cpu_fallback/packed_line.h"

static uint32_t sum(const uint8_t *p, int n)
{
    uint32_t s = 0;

    for (int i = 0; i < n; i++)
        s += p[i];
    return s;
}

static uint32_t count_escapes(const int8_t *d, int n)
{
    uint32_t k = 0;

    for (int i = 0; i < n; i++)
        k += d[i] == CPU_PACKED_ESCAPE;
    return k;
}

// The sum of n differences, of which so many escape.
static int16_t sum_dc(const struct line *l, int n, uint32_t escapes)
{
    int32_t dc = -CPU_PACKED_ESCAPE * (int32_t)escapes;

    for (int i = 0; i < n; i++)
        dc += l->d[i];
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
    c->from = sum(l.len, c->first);
    c->bytes = sum(l.len + c->first, c->count);
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
