// SPDX-License-Identifier: Apache-2.0
// The sixteen streams of lanes_avx512.c as two sets of eight, for which memory
// is read and written lane by lane: for processors on which gathers and
// scatters cost more than that (AMD Zen 4). A trial says which
// (backends/cpu/trial.c).
#include "cpu_fallback/jpeg/lanes.h"

#include <immintrin.h>
#include <string.h>

#include "cpu_fallback/cpu_kernels.h"

#define VEC __m256i
#define MASK __mmask8
#define OP(name) _mm256_##name
#define SI(name) _mm256_##name##_si256
#define LOAD(from) _mm256_load_si256((const __m256i *)(const void *)(from))
#define STORE(to, x) _mm256_store_si256((__m256i *)(void *)(to), x)

enum { LANES = 8, SETS = 2 };

// Lanes on their way through memory: compilers take them one by one out of the
// register instead, which costs more, if they do not see that they may change.
struct settled {
    _Alignas(32) uint32_t lane[LANES];
};

CPU_INLINE struct settled settled(VEC x)
{
    struct settled s;

    STORE(s.lane, x);
    __asm__("" : "+m"(s));
    return s;
}

CPU_INLINE VEC join(__m128i a, __m128i b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

CPU_INLINE __m128i two(const uint32_t *tables, uint32_t first, uint32_t second)
{
    return _mm_insert_epi32(_mm_cvtsi32_si128((int)tables[first]),
                            (int)tables[second], 1);
}

// Two lanes come out of the register, six through memory: either way alone is
// slower.
CPU_INLINE VEC entries(VEC at, const uint32_t *tables, MASK mask)
{
    uint64_t q = (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(at));
    struct settled s = settled(at);
    __m128i a = two(tables, (uint32_t)q, (uint32_t)(q >> 32));
    __m128i b = two(tables, s.lane[2], s.lane[3]);
    __m128i c = two(tables, s.lane[4], s.lane[5]);
    __m128i d = two(tables, s.lane[6], s.lane[7]);

    return _mm256_maskz_mov_epi32(mask, join(_mm_unpacklo_epi64(a, b),
                                             _mm_unpacklo_epi64(c, d)));
}

// (Without a mask a gather of four is fast enough, once in five steps.)
CPU_INLINE VEC bytes4(__m128i at, const uint8_t *streams)
{
    const VEC swap = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));

    return _mm256_shuffle_epi8(
        _mm256_i32gather_epi64((const void *)streams, at, 1), swap);
}

CPU_INLINE void bytes(VEC out[2], VEC at, const uint8_t *streams)
{
    out[0] = bytes4(_mm256_castsi256_si128(at), streams);
    out[1] = bytes4(_mm256_extracti128_si256(at, 1), streams);
}

CPU_INLINE VEC odd_places(void)
{
    return _mm256_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15);
}

CPU_INLINE VEC even_places(void)
{
    return _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
}

CPU_INLINE VEC below(VEC size)
{
    return _mm256_permutex2var_epi32(
        _mm256_setr_epi32(0, -1, -3, -7, -15, -31, -63, -127), size,
        _mm256_setr_epi32(-255, -511, -1023, -2047, -4095, -8191, -16383,
                          -32767));
}

CPU_INLINE void put_one(char *to, int value)
{
    int16_t x = (int16_t)value;

    memcpy(to, &x, sizeof(x));
}

// Values of lanes that store nothing go nowhere.
CPU_INLINE void put(const struct cpu_lane_steps *s, VEC at, VEC value,
                    MASK stores)
{
    const VEC nowhere = _mm256_set1_epi32((int)s->nowhere);
    struct settled place = settled(_mm256_mask_mov_epi32(nowhere, stores, at));
    __m128i lower = _mm256_castsi256_si128(value);
    __m128i upper = _mm256_extracti128_si256(value, 1);
    char *to = (char *)s->blocks - 2;

    // (A place in a register is a constant, which no loop's variable is to all
    // compilers.)
    put_one(to + place.lane[0], _mm_extract_epi16(lower, 0));
    put_one(to + place.lane[1], _mm_extract_epi16(lower, 2));
    put_one(to + place.lane[2], _mm_extract_epi16(lower, 4));
    put_one(to + place.lane[3], _mm_extract_epi16(lower, 6));
    put_one(to + place.lane[4], _mm_extract_epi16(upper, 0));
    put_one(to + place.lane[5], _mm_extract_epi16(upper, 2));
    put_one(to + place.lane[6], _mm_extract_epi16(upper, 4));
    put_one(to + place.lane[7], _mm_extract_epi16(upper, 6));
}

#include "cpu_fallback/x86/lanes_simd.h"

unsigned cpu_lane_steps_half_avx512(struct cpu_lane_steps *s)
{
    return steps(s);
}
