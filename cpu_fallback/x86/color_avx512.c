// SPDX-License-Identifier: Apache-2.0
// Upsampling and colour with AVX-512; most of it is color_simd.h. Pixels are
// joined by one look-up per register, and the end of a row is a mask. Pure
// copies (join_rgb, gather) are not faster so.
#if defined(__x86_64__)

#include <immintrin.h>

#include "cpu_fallback/cpu_kernels.h"

#define VEC __m512i
#define OP(name) _mm512_##name
#define SI(name) _mm512_##name##_si512
#define SISTER(name) name##_avx512

CPU_INLINE __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

// 32 samples as 16 bits each.
CPU_INLINE __m512i widen(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p));
}

CPU_INLINE void put(uint8_t *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
}

// ---- three rows to pixels --------------------------------------------------

// Byte i of the pixels is channel i % 3 of pixel i / 3; of two registers that
// are looked up together the second begins at 64.
#define BYTE(i) (uint8_t)((i) / 3 + ((i) % 3 == 1 ? 64 : 0))
#define BYTES4(i) BYTE(i), BYTE((i) + 1), BYTE((i) + 2), BYTE((i) + 3)
#define BYTES16(i) BYTES4(i), BYTES4((i) + 4), BYTES4((i) + 8), BYTES4((i) + 12)
#define BYTES64(i) \
    BYTES16(i), BYTES16((i) + 16), BYTES16((i) + 32), BYTES16((i) + 48)
static const uint8_t join_index[192] = {BYTES64(0), BYTES64(64), BYTES64(128)};
#undef BYTES64
#undef BYTES16
#undef BYTES4
#undef BYTE
// The bytes of channel 2, whose indices are into one register.
static const uint64_t join_third[3] = {UINT64_C(0x4924924924924924),
                                       UINT64_C(0x2492492492492492),
                                       UINT64_C(0x9249249249249249)};

// n pixels, at most 64.
CPU_INLINE void put_pixels(uint8_t *dst, __m512i r, __m512i g, __m512i b, int n)
{
    CPU_UNROLL
    for (int k = 0; k < 3; k++) {
        __m512i index = load(join_index + 64 * k), v;
        int left = 3 * n - 64 * k;

        v = _mm512_permutex2var_epi8(r, index, g);
        v = _mm512_mask_permutexvar_epi8(v, join_third[k], index, b);
        if (left >= 64)
            _mm512_storeu_si512(dst + 64 * k, v);
        else if (left > 0)
            _mm512_mask_storeu_epi8(dst + 64 * k, (UINT64_C(1) << left) - 1, v);
    }
}

#define LAST(left) (left)

#include "cpu_fallback/x86/color_simd.h"

#endif
