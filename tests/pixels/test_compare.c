// SPDX-License-Identifier: Apache-2.0
// How alike two pictures are: levels, whatever the elements, and what is no
// number; which filters are alike, and which pictures are not.
#include <inttypes.h>
#include <math.h>

#include "hal/shape/shape.h"
#include "testing.h"

enum { N = 6 };

static struct hr__table table;

// The same as halves.
static struct hr_difference compare(float a[N], float b[N])
{
    uint16_t halves[2][N];
    struct hr_difference l[2];
    struct hr__dst d = {.data = (uint8_t *)a,
                        .stride_h = N * sizeof(float),
                        .w = N,
                        .h = 1,
                        .c = 1,
                        .dtype = HR_F32},
                   other;
    double units[3];

    other = hr__dst_packed(&d, (uint8_t *)b);
    hr__level_units(&table, HR_F32, 1, units);
    hr__compare(&d, &other, units, &l[0]);
    for (int i = 0; i < N; i++) {
        halves[0][i] = hr__f16_from_f32(a[i]);
        halves[1][i] = hr__f16_from_f32(b[i]);
    }
    d.data = (uint8_t *)halves[0];
    d.stride_h = sizeof(halves[0]);
    d.dtype = HR_F16;
    other = hr__dst_packed(&d, (uint8_t *)halves[1]);
    hr__level_units(&table, HR_F16, 1, units);
    hr__compare(&d, &other, units, &l[1]);
    CHECK(l[0].differing == l[1].differing && l[0].max == l[1].max,
          "f32: %" PRIu64 " differ by %g, f16: %" PRIu64 " by %g",
          l[0].differing, l[0].max, l[1].differing, l[1].max);
    return l[0];
}

// normalize may leave the type's range, and a caller's table may hold anything.
TEST_CASE(no_numbers)
{
    float all[N] = {INFINITY, -INFINITY, NAN, 0, 255, INFINITY};
    float others[N] = {INFINITY, -INFINITY, NAN, 1, 253, -INFINITY};
    float none[N] = {0, 0, 0, 0, 0, NAN};
    struct hr_difference l = compare(all, all);

    CHECK(!l.differing && l.max == 0 && l.sum == 0 && l.alike,
          "equal: %" PRIu64 " differ by %g", l.differing, l.max);
    l = compare(all, others);
    CHECK(l.differing == 3 && l.max == 255 && l.sum == 1 + 2 + 255,
          "%" PRIu64 " differ by %g, sum %g", l.differing, l.max, l.sum);
    l = compare(all, none);
    CHECK(l.differing == 5 && l.max == 255 && l.sum == 5 * 255,
          "%" PRIu64 " differ by %g, sum %g", l.differing, l.max, l.sum);
}

TEST_CASE(levels)
{
    float a[N] = {0, 1, 2, 100, 200, 255}, b[N] = {0, 2, 0, 100, 203, 255};
    struct hr_difference l = compare(a, b);

    CHECK(l.elements == N && l.differing == 3 && l.max == 3 && l.sum == 6 &&
              l.squares == 14,
          "%" PRIu64 " of %" PRIu64 " differ by %g, sum %g", l.differing,
          l.elements, l.max, l.sum);
}

// 255 levels: 10 log10(255 * 255 / the mean square), worked out by hand.
TEST_CASE(decibels)
{
    static const struct {
        double squares, elements, want;
    } cases[] = {
        {1000, 1000, 48.130804}, {40, 10, 42.110204}, {1, 1000000, 108.130804},
        {65025, 10, 10},         {0, 10, 0},          {65025, 1, 1e-9},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double got = hr__psnr(cases[i].squares, cases[i].elements);

        CHECK(fabs(got - cases[i].want) < 1e-6 && (got > 0) == (i != 4),
              "%g of %g: %.7g dB, not %.7g", cases[i].squares,
              cases[i].elements, got, cases[i].want);
    }
}

// ---- Scaled by two filters -------------------------------------------------

enum { SIDE = 40, CHANNELS = 3 };

struct pixels {
    uint8_t at[CHANNELS][SIDE][SIDE];
};

// The sample of a picture twice as large: smooth with edges, or noise.
static int source(bool noise, uint64_t seed, int c, int y, int x)
{
    uint64_t z = seed + (uint64_t)((c * 4096 + y) * 4096 + x);

    if (!noise)
        return (x + 2 * y + 40 * c) % 90 + (x / 24 + y / 16) % 3 * 70;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z >> 40 & 1 ? 255 : 0;
}

// Halved: the CPU looks at four samples each way, a processor at two, and not
// from their middle, as when a size is not quite halved.
static void halve(struct pixels *p, bool noise, uint64_t seed, bool wide)
{
    static const int weights[2][4] = {{0, 2, 6, 0}, {1, 3, 3, 1}};
    const int *w = weights[wide];

    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int sum = 32;

                for (int v = 0; v < 4; v++)
                    for (int h = 0; h < 4; h++)
                        sum += w[v] * w[h] *
                               source(noise, seed, c, 2 * y + v, 2 * x + h);
                p->at[c][y][x] = (uint8_t)(sum / 64);
            }
}

static bool alike(struct pixels *a, struct pixels *b)
{
    struct hr__dst d = {.data = a->at[0][0],
                        .stride_c = SIDE * SIDE,
                        .stride_h = SIDE,
                        .w = SIDE,
                        .h = SIDE,
                        .c = CHANNELS,
                        .dtype = HR_U8};
    struct hr__dst other = d;
    struct hr_difference l;

    other.data = b->at[0][0];
    hr__compare(&d, &other, (const double[3]){1, 1, 1}, &l);
    return l.alike;
}

enum wrong { FLIPPED, SHIFTED, SWAPPED, BRIGHTER, ZERO, WRONGS };

static void go_wrong(struct pixels *to, const struct pixels *from, int how)
{
    for (int c = 0; c < CHANNELS; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int v = from->at[c][y][x];

                v = how == FLIPPED    ? from->at[c][y][SIDE - 1 - x]
                    : how == SHIFTED  ? from->at[c][y][(x + 4) % SIDE]
                    : how == SWAPPED  ? from->at[2 - c][y][x]
                    : how == BRIGHTER ? (v < 220 ? v + 35 : 255)
                                      : 0;
                to->at[c][y][x] = (uint8_t)v;
            }
}

// Other filters are alike, whatever is in the picture; other pictures are not.
TEST_CASE(filters)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        for (int noise = 0; noise < 2; noise++) {
            struct pixels cpu, device, wrong;

            halve(&cpu, noise, test_seed + (seed << 32), true);
            halve(&device, noise, test_seed + (seed << 32), false);
            CHECK(alike(&cpu, &device), "noise %d: not alike", noise);
            for (int how = 0; how < WRONGS; how++) {
                go_wrong(&wrong, &device, how);
                CHECK(!alike(&cpu, &wrong), "noise %d: alike, wrong %d", noise,
                      how);
            }
            halve(&wrong, !noise, test_seed, false);
            CHECK(!alike(&cpu, &wrong), "noise %d: alike, another kind", noise);
            halve(&wrong, true, test_seed + ((seed + 99) << 32), false);
            CHECK(!alike(&cpu, &wrong), "noise %d: alike, other noise", noise);
        }
}

// ---- Images ----------------------------------------------------------------

// By the public function: any layout, levels of normalized pixels, the place of
// the largest difference, and images that do not fit together.
TEST_CASE(images)
{
    enum { W = 5, H = 3, ONE = 2 * W + 3 };
    static const struct hr_normalize n = {.mean = {.5f, .4f, .3f},
                                          .std = {.25f, .5f, 2}};
    auto_device cpu = test_device("cpu", 1, 0);
    auto_image a = NULL, b = NULL, wide = NULL;
    struct hr_difference diff;

    hr__table_build(&table, &n, NULL, 3, HR_F16);
    a = hr_image_create(cpu, hr_image_params(.w = W, .h = H, .c = 3,
                                             .dtype = HR_F16));
    b = hr_image_create(cpu,
                        hr_image_params(.w = W, .h = H, .c = 3, .dtype = HR_F16,
                                        .layout = HR_NHWC));
    wide = hr_image_create(cpu, hr_image_params(.w = W + 1, .h = H, .c = 3,
                                                .dtype = HR_F16));
    for (int i = 0; i < W * H; i++)
        for (int c = 0; c < 3; c++) {
            int more = i == 4 ? 9 : i == ONE && c == 2 ? 40 : 0;

            ((uint16_t *)a->params.data)[c * W * H + i] =
                table.f16[c][7 * i + c];
            ((uint16_t *)b->params.data)[3 * i + c] =
                table.f16[c][7 * i + c + more];
        }
    CHECK(!hr_image_compare(a, b, &n, &diff), "%s", hr_last_error());
    CHECK(diff.elements == 3 * W * H && diff.differing == 4 &&
              diff.by_levels[9] == 3 && diff.by_levels[40] == 1,
          "%d of %d, %d by 9", (int)diff.differing, (int)diff.elements,
          (int)diff.by_levels[9]);
    CHECK(diff.max == 40 && diff.sum == 67 && diff.squares == 243 + 1600,
          "max %.17g, sum %.17g, squares %.17g", diff.max, diff.sum,
          diff.squares);
    CHECK(diff.x == 3 && diff.y == 2 && diff.c == 2, "at %d, %d of %d", diff.x,
          diff.y, diff.c);
    CHECK(!hr_image_compare(a, a, &n, &diff) && !diff.differing && diff.alike,
          "itself");
    CHECK(hr_image_compare(a, wide, &n, &diff) == HR_EINVAL, "another size");
    CHECK(hr_image_compare(a, NULL, &n, &diff) == HR_EINVAL, "no image");
}

int main(int argc, char **argv)
{
    hr__table_build(&table, NULL, NULL, 1, HR_F32);
    hr__table_build(&table, NULL, NULL, 1, HR_F16);
    return test_main(argc, argv);
}
