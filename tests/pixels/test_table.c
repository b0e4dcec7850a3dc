// SPDX-License-Identifier: Apache-2.0
// The store tables: torchvision's formulas, one float operation after the
// other; f16 as the hardware rounds it, for every float that matters.
#include <float.h>
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "testing.h"

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, 4);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, 4);
    return bits;
}

// ---- f16 ------------------------------------------------------------------

// Exact value of a half; no rounding involved.
static double half_value(uint16_t h)
{
    int exp = h >> 10 & 31, mant = h & 1023;
    double v = exp ? ldexp(1024 + mant, exp - 25) : ldexp(mant, -24);

    return h & 0x8000 ? -v : v;
}

// By search among neighbours: the nearest half, ties to even.
static uint16_t nearest_half(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0, best = 0;
    double a = fabs((double)x), distance = INFINITY;
    int exp, from;

    if (a >= 65520)
        return sign | 0x7c00;
    frexp(a, &exp);
    from = (exp + 13) * 1024;
    from = from < 0 ? 0 : from;
    for (int h = from; h <= from + 3072 && h < 0x7c00; h++) {
        double d = fabs(half_value((uint16_t)h) - a);

        if (d < distance || (d == distance && !(h & 1))) {
            distance = d;
            best = (uint16_t)h;
        }
    }
    return sign | best;
}

TEST_CASE(all_halves)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7c00) == 0x7c00)
            continue;  // below
        CHECK(hr__f16_from_f32((float)half_value((uint16_t)h)) == h, "%#x", h);
        CHECK(memcmp(&(double){hr_f16_value((uint16_t)h)},
                     &(double){half_value((uint16_t)h)}, sizeof(double)) == 0,
              "%#x is not %g", h, hr_f16_value((uint16_t)h));
    }
    CHECK(hr__f16_from_f32(INFINITY) == 0x7c00, "inf");
    CHECK(hr__f16_from_f32(-INFINITY) == 0xfc00, "-inf");
    CHECK((hr__f16_from_f32(NAN) & 0x7fff) > 0x7c00, "nan");
    CHECK((hr__f16_from_f32(from_bits(0x7f800001)) & 0x7fff) > 0x7c00,
          "a nan whose high bits are 0");
}

// Infinities keep their sign; a NaN keeps sign and fraction, and becomes quiet.
TEST_CASE(no_numbers)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        double x = hr_f16_value((uint16_t)h);
        uint64_t bits;

        if ((h & 0x7c00) != 0x7c00)
            continue;
        memcpy(&bits, &x, sizeof(bits));
        CHECK(h & 1023 ? isnan(x) : isinf(x), "%#x is %g", h, x);
        CHECK(bits >> 63 == h >> 15, "the sign of %#x", h);
        CHECK((bits >> 42 & 511) == (h & 511) && (bits & 0x3ffffffffff) == 0,
              "%#x has the fraction %#llx", h, (unsigned long long)bits);
        CHECK(!(h & 1023) || bits >> 51 & 1, "%#x is not quiet", h);
    }
}

// Between neighbours: just below, at and just above the middle.
TEST_CASE(ties)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double a = half_value((uint16_t)h), b = half_value((uint16_t)(h + 1));
        float mid = (float)((a + b) / 2);
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);

        CHECK(hr__f16_from_f32(mid) == even, "tie at %g", (double)mid);
        CHECK(hr__f16_from_f32(nextafterf(mid, 0)) == h, "below %g",
              (double)mid);
        CHECK(hr__f16_from_f32(nextafterf(mid, 1e9f)) == h + 1, "above %g",
              (double)mid);
        CHECK(hr__f16_from_f32(-mid) == (even | 0x8000), "-tie at %g",
              (double)mid);
    }
    CHECK(hr__f16_from_f32(65519.996f) == 0x7bff, "largest");
    CHECK(hr__f16_from_f32(65520.f) == 0x7c00, "overflow");
}

TEST_CASE(random_floats)
{
    uint64_t seed = test_seed;

    for (int i = 0; i < test_loops(30000); i++) {
        float x = from_bits((uint32_t)next_random(&seed));

        // Most of all floats are too large or too small to be interesting.
        if (i % 2)
            x = ldexpf((float)random_below(&seed, 1 << 24),
                       random_below(&seed, 45) - 50);
        if (!isfinite(x))
            continue;
        CHECK(hr__f16_from_f32(x) == nearest_half(x), "%a: %#x, not %#x",
              (double)x, hr__f16_from_f32(x), nearest_half(x));
    }
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) static uint16_t hardware(float x)
{
    return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}
#endif

TEST_CASE(as_hardware)
{
#if defined(__x86_64__)
    uint32_t step = (uint32_t)(1 / (double)test_loops(1000) * 1000 * 64) | 1;

    // (clang knows no "f16c" here; processors with AVX2 have it, too)
    if (!__builtin_cpu_supports("avx2")) {
        test_not_run("this CPU has no AVX2, perhaps no F16C");
        return;
    }
    // Odd, so that all low bits come up; 2^32 / 65 floats.
    for (uint64_t b = 0; b <= UINT32_MAX; b += step) {
        float x = from_bits((uint32_t)b);
        uint16_t a, h;

        if (isnan(x))
            continue;
        a = hr__f16_from_f32(x);
        h = hardware(x);
        if (a != h)
            CHECK(false, "%a: %#x, the CPU says %#x", (double)x, a, h);
    }
    CHECK(true, "-");
#else
    test_not_run("only on x86-64");
#endif
}

// ---- Tables ---------------------------------------------------------------

// torchvision: to_tensor, then normalize; the volatiles keep each rounding.
static float v1(int x, float mean, float std, bool has_std)
{
    volatile float v = (float)x / 255.0f;

    v = v - mean;
    if (has_std)
        v = v / std;
    return v;
}

TEST_CASE(formulas)
{
    const struct hr_normalize n = {.mean = {.485f, .456f, .406f},
                                   .std = {.229f, .224f, .225f}};
    struct hr_normalize no_std = {.mean = {.1f, .2f, .3f}};
    struct hr_normalize mul = n;
    struct hr__table t;
    int differ = 0;

    hr__table_build(&t, &n, NULL, 3, HR_F32);
    for (int c = 0; c < 3; c++)
        for (int x = 0; x < 256; x++) {
            uint32_t bits = bits_of(v1(x, n.mean[c], n.std[c], true));

            CHECK(bits_of(t.f32[c][x]) == bits, "%d, %d", c, x);
            for (int i = 0; i < 4; i++)
                CHECK(t.f32_bytes[c][i][x] == (bits >> 8 * i & 0xff),
                      "byte %d of %d, %d", i, c, x);
        }
    // Facts of torchvision 0.14 for ImageNet's numbers.
    CHECK(bits_of(t.f32[0][0]) == bits_of(-2.1179039478302f), "%a",
          (double)t.f32[0][0]);
    CHECK(bits_of(t.f32[2][255]) == bits_of(2.6400001049041748f), "%a",
          (double)t.f32[2][255]);
    hr__table_build(&t, &no_std, NULL, 3, HR_F32);
    for (int x = 0; x < 256; x++)
        CHECK(bits_of(t.f32[1][x]) == bits_of(v1(x, .2f, 0, false)), "%d", x);
    mul.arith = HR_ARITH_MUL;
    memset(mul.mean, 0, sizeof(mul.mean));
    memset(mul.std, 0, sizeof(mul.std));
    hr__table_build(&t, &mul, NULL, 3, HR_F32);
    for (int x = 0; x < 256; x++) {
        volatile float r = 1.0f / 255.0f, v = (float)x * r;

        CHECK(bits_of(t.f32[0][x]) == bits_of(v), "mul %d", x);
        differ += bits_of(v) != bits_of(v1(x, 0, 0, false));
    }
    CHECK(differ == 126, "v1 and v2 differ in %d entries", differ);
}

TEST_CASE(types)
{
    const struct hr_normalize n = {.mean = {.485f, .456f, .406f},
                                   .std = {.229f, .224f, .225f}};
    static float own[768];
    struct hr_normalize by_table = {.table = own};
    struct hr__table f32, f16, u8;

    hr__table_build(&f32, &n, NULL, 3, HR_F32);
    hr__table_build(&f16, &n, NULL, 3, HR_F16);
    for (int i = 0; i < 768; i++)
        CHECK(f16.f16[i / 256][i % 256] ==
                  hr__f16_from_f32(f32.f32[i / 256][i % 256]),
              "f16 entry %d", i);
    hr__table_build(&u8, NULL, NULL, 3, HR_U8);
    CHECK(u8.u8_identity, "bytes as they are");
    hr__table_build(&f32, NULL, NULL, 1, HR_F32);
    hr__table_build(&f16, NULL, NULL, 1, HR_F16);
    for (int x = 0; x < 256; x++)
        CHECK(u8.u8[2][x] == x && f32.f32[0][x] == (float)x &&
                  half_value(f16.f16[0][x]) == x,
              "byte %d", x);
    for (int i = 0; i < 768; i++)
        own[i] = ((float)(i % 256) - 100) * 1.5f + (float)(i / 256);
    own[3] = 0.5f, own[4] = 1.5f, own[5] = 2.5f, own[6] = NAN, own[7] = 254.5f;
    own[8] = 255.5f, own[9] = -0.6f, own[10] = INFINITY, own[11] = -INFINITY;
    hr__table_build(&u8, &by_table, NULL, 3, HR_U8);
    hr__table_build(&f32, &by_table, NULL, 3, HR_F32);
    CHECK(!u8.u8_identity, "not as they are");
    CHECK(u8.u8[0][3] == 0 && u8.u8[0][4] == 2 && u8.u8[0][5] == 2 &&
              u8.u8[0][6] == 0 && u8.u8[0][7] == 254 && u8.u8[0][8] == 255 &&
              u8.u8[0][9] == 0 && u8.u8[0][10] == 255 && u8.u8[0][11] == 0,
          "u8 is rounded half to even and clamped");
    CHECK(f32.f32[2][200] == 152.f && u8.u8[2][200] == 152, "own table");
}
