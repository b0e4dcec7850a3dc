// SPDX-License-Identifier: Apache-2.0
// How alike two pictures are: levels, whatever the elements, and what is no
// number.
#include <math.h>

#include "hal/likeness.h"
#include "testing.h"

enum { N = 6 };

static struct hr__table table;

// The same as halves.
static struct hr__likeness compare(float a[N], float b[N])
{
    uint16_t halves[2][N];
    struct hr__likeness l[2];
    struct hr__dst d = {.data = (uint8_t *)a,
                        .stride_h = N * sizeof(float),
                        .w = N,
                        .h = 1,
                        .c = 1,
                        .dtype = HR_F32};

    hr__liken(&d, &table, (const uint8_t *)b, &l[0]);
    for (int i = 0; i < N; i++) {
        halves[0][i] = hr__f16_from_f32(a[i]);
        halves[1][i] = hr__f16_from_f32(b[i]);
    }
    d.data = (uint8_t *)halves[0];
    d.stride_h = sizeof(halves[0]);
    d.dtype = HR_F16;
    hr__liken(&d, &table, (const uint8_t *)halves[1], &l[1]);
    CHECK(l[0].differing == l[1].differing && l[0].max == l[1].max,
          "f32: %zu differ by %g, f16: %zu by %g", l[0].differing, l[0].max,
          l[1].differing, l[1].max);
    return l[0];
}

// normalize may leave the type's range, and a caller's table may hold anything.
static void no_numbers(void)
{
    float all[N] = {INFINITY, -INFINITY, NAN, 0, 255, INFINITY};
    float others[N] = {INFINITY, -INFINITY, NAN, 1, 253, -INFINITY};
    float none[N] = {0, 0, 0, 0, 0, NAN};
    struct hr__likeness l = compare(all, all);

    CHECK(!l.differing && l.max == 0 && l.sum == 0 && hr__alike(&l),
          "equal: %zu differ by %g", l.differing, l.max);
    l = compare(all, others);
    CHECK(l.differing == 3 && l.max == 255 && l.sum == 1 + 2 + 255,
          "%zu differ by %g, sum %g", l.differing, l.max, l.sum);
    l = compare(all, none);
    CHECK(l.differing == 5 && l.max == 255 && l.sum == 5 * 255,
          "%zu differ by %g, sum %g", l.differing, l.max, l.sum);
}

static void levels(void)
{
    float a[N] = {0, 1, 2, 100, 200, 255}, b[N] = {0, 2, 0, 100, 203, 255};
    struct hr__likeness l = compare(a, b);

    CHECK(l.elements == N && l.differing == 3 && l.max == 3 && l.sum == 6 &&
              l.squares == 14,
          "%zu of %zu differ by %g, sum %g", l.differing, l.elements, l.max,
          l.sum);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(levels),
        TEST_CASE(no_numbers),
    };

    hr__table_build(&table, NULL, 1, HR_F32);
    hr__table_build(&table, NULL, 1, HR_F16);
    return test_main("likeness", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
