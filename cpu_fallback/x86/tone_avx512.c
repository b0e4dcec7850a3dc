// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)

#include "cpu_fallback/x86/pixels_avx512.h"

// ---- Tables: 256 bytes in four registers ------------------------------------

CPU_INLINE __m512i look_up(__m512i x, const __m512i t[4])
{
    __m512i low = _mm512_permutex2var_epi8(t[0], x, t[1]);
    __m512i high = _mm512_permutex2var_epi8(t[2], x, t[3]);

    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(x), high);
}

static void load_table(__m512i t[4], const uint8_t of[256])
{
    for (int i = 0; i < 4; i++)
        t[i] = _mm512_loadu_si512(of + 64 * i);
}

CPU_INLINE __mmask64 first_bytes(int n)
{
    return n >= 64 ? ~0ull : (1ull << n) - 1;
}

static void one_table(uint8_t *dst, const uint8_t *src, int n,
                      const uint8_t of[256])
{
    __m512i t[4];

    load_table(t, of);
    for (int i = 0; i < n; i += 64)
        _mm512_mask_storeu_epi8(dst + i, first_bytes(n - i),
                                look_up(_mm512_loadu_si512(src + i), t));
}

// Byte j of register q of three is of channel (q + j) % 3.
static void three_tables(uint8_t *dst, const uint8_t *src, int n,
                         const struct hr__values *table)
{
    const __mmask64 third = 0x9249249249249249ull;
    __m512i t[3][4];

    for (int c = 0; c < 3; c++)
        load_table(t[c], table->of[c]);
    for (int i = 0; i < n; i += 64) {
        int q = i / 64 % 3;
        __m512i x = _mm512_loadu_si512(src + i), out = look_up(x, t[q]);

        out = _mm512_mask_mov_epi8(out, third << 1, look_up(x, t[(q + 1) % 3]));
        out = _mm512_mask_mov_epi8(out, third << 2, look_up(x, t[(q + 2) % 3]));
        _mm512_mask_storeu_epi8(dst + i, first_bytes(n - i), out);
    }
}

void cpu_table_avx512(uint8_t *dst, const uint8_t *src, int w, int channels,
                      const struct hr__values *table)
{
    if (channels == 1 || (!memcmp(table->of[0], table->of[1], 256) &&
                          !memcmp(table->of[0], table->of[2], 256)))
        one_table(dst, src, w * channels, table->of[0]);
    else
        three_tables(dst, src, 3 * w, table);
}

// ---- Luma -------------------------------------------------------------------

void cpu_mix_luma_avx512(uint8_t *dst, const uint8_t *src, int w, float factor)
{
    const __m512 f = _mm512_set1_ps(factor);

    for (int x = 0; x < w; x += 16, dst += 48, src += 48) {
        __mmask64 bytes = cpu_bytes_of(w - x);
        struct cpu_rgb p = cpu_load_rgb(src, bytes);
        __m512i luma = cpu_luma_of(p);

        cpu_put_rgb(dst,
                    (struct cpu_rgb){cpu_blend_of(luma, p.r, f),
                                     cpu_blend_of(luma, p.g, f),
                                     cpu_blend_of(luma, p.b, f)},
                    bytes);
    }
}

void cpu_luma_avx512(uint8_t *dst, const uint8_t *src, int w)
{
    for (int x = 0; x < w; x += 16, dst += 48, src += 48) {
        __mmask64 bytes = cpu_bytes_of(w - x);
        __m512i luma = cpu_luma_of(cpu_load_rgb(src, bytes));

        cpu_put_rgb(dst, (struct cpu_rgb){luma, luma, luma}, bytes);
    }
}

uint32_t cpu_luma_sum_avx512(const uint8_t *src, int w)
{
    __m512i sum = _mm512_setzero_si512();

    // Bytes that are not loaded are black, whose luma is 0.
    for (int x = 0; x < w; x += 16, src += 48)
        sum = _mm512_add_epi32(
            sum, cpu_luma_of(cpu_load_rgb(src, cpu_bytes_of(w - x))));
    return (uint32_t)_mm512_reduce_add_epi32(sum);
}

// ---- The range of each channel ----------------------------------------------

// Register q of three in turn: byte j is of channel (q + j) % channels.
struct range_of {
    __m512i lo[3], hi[3];
};

static void add_row(struct range_of *r, const uint8_t *row, int n)
{
    for (int i = 0; i < n; i += 192) {
        for (int q = 0; q < 3 && i + 64 * q < n; q++) {
            __mmask64 m = first_bytes(n - i - 64 * q);
            __m512i x = _mm512_maskz_loadu_epi8(m, row + i + 64 * q);

            r->lo[q] = _mm512_mask_min_epu8(r->lo[q], m, r->lo[q], x);
            r->hi[q] = _mm512_max_epu8(r->hi[q], x);
        }
    }
}

void cpu_range_avx512(struct cpu_range *range, const struct cpu_pixels *p)
{
    uint8_t least[192], most[192];
    struct range_of r;

    for (int q = 0; q < 3; q++) {
        r.lo[q] = _mm512_set1_epi8(-1);
        r.hi[q] = _mm512_setzero_si512();
    }
    for (int y = 0; y < p->h; y++)
        add_row(&r, p->data + p->stride * (size_t)y, p->w * p->channels);
    for (int q = 0; q < 3; q++) {
        _mm512_storeu_si512(least + 64 * q, r.lo[q]);
        _mm512_storeu_si512(most + 64 * q, r.hi[q]);
    }
    for (int i = 0; i < 192; i++) {
        uint8_t *lo = &range->lo[i % p->channels];
        uint8_t *hi = &range->hi[i % p->channels];

        *lo = least[i] < *lo ? least[i] : *lo;
        *hi = most[i] > *hi ? most[i] : *hi;
    }
}

#endif
