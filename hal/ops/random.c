// SPDX-License-Identifier: Apache-2.0
// Numbers of random ops. Every one is a pure function of (seed, epoch, index,
// place of the op), by Philox4x32-10 (Random123), so the same picture comes out
// on any thread, in any batch and order, of any engine.
#include <math.h>
#include <string.h>

#include <Random123/philox.h>

#include "hal/ops/ops.h"

void hr__random_words(const struct hr_random *key, int op, int draw,
                      uint32_t out[4])
{
    // op < HR_MAX_OPS and draw, of few, share a word.
    philox4x32_ctr_t counter = {{
        (uint32_t)key->index,
        (uint32_t)(key->index >> 32),
        key->epoch,
        (uint32_t)op << 16 | (uint32_t)draw,
    }};
    philox4x32_key_t words = {{
        (uint32_t)key->seed,
        (uint32_t)(key->seed >> 32),
    }};
    philox4x32_ctr_t made = philox4x32(counter, words);

    memcpy(out, made.v, sizeof(made.v));
}

// ---- Normal numbers --------------------------------------------------------
//
// Of 32 bits each, by the inverse of the distribution: Wichura's PPND7
// (Applied Statistics 37, AS 241; 7 digits). Only operations that IEEE 754
// rounds in one way, so no library decides about bits.

// -log(x), x > 0.
static double minus_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent), s, s2;

    if (m < 0.70710678118654752) {
        m *= 2;
        exponent--;
    }
    s = (m - 1) / (m + 1);
    s2 = s * s;
    return -0.69314718055994531 * exponent -
           2 * s *
               (1 +
                s2 * (1. / 3 +
                      s2 * (1. / 5 + s2 * (1. / 7 + s2 * (1. / 9 + s2 / 11)))));
}

static float normal(uint32_t word)
{
    double p = ((double)word + 0.5) * 0x1p-32, q = p - 0.5, r, over, under;

    if (fabs(q) <= 0.425) {
        r = 0.180625 - q * q;
        over = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r +
               3.3871327179;
        under = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1;
        return (float)(q * (over / under));
    }
    // (At most 4.8: the third formula of PPND7 is for smaller p.)
    r = sqrt(minus_log(q < 0 ? p : 1 - p)) - 1.6;
    over = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r +
           1.4234372777;
    under = (0.12021132975 * r + 0.73700164250) * r + 1;
    return (float)(q < 0 ? -(over / under) : over / under);
}

void hr__random_normals(int noise, uint64_t first, float *out, int n)
{
    philox4x32_key_t key = {{(uint32_t)noise, 0}};
    philox4x32_ctr_t made = {{0}};

    for (int i = 0; i < n; i++) {
        uint64_t at = first + (uint64_t)i;

        if (!i || at % 4 == 0) {
            philox4x32_ctr_t counter = {
                {(uint32_t)(at / 4), (uint32_t)(at / 4 >> 32), 0, 0}};

            made = philox4x32(counter, key);
        }
        out[i] = normal(made.v[at % 4]);
    }
}
