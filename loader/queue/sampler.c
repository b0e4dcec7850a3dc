// SPDX-License-Identifier: Apache-2.0
#include "sampler.h"

#include <math.h>

#include <Random123/philox.h>

// Random ops draw from counters whose last word is less than HR_MAX_OPS << 16
// (hal/ops/random.c): ours have the highest bit.
enum {
    FOR_ROUND = 1u << 31,
    FOR_WEIGHTS = 3u << 30,
    FOR_WINDOWS = 3u << 30 | 1,
    ROUNDS = 10,
};

static philox4x32_ctr_t draw(uint64_t seed, uint32_t epoch, uint64_t value,
                             uint32_t purpose)
{
    philox4x32_ctr_t counter = {
        {(uint32_t)value, (uint32_t)(value >> 32), epoch, purpose}};
    philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};

    return philox4x32(counter, key);
}

// ---- Permutation -----------------------------------------------------------

// A Feistel network is a permutation of all numbers of 2 x half bits, whatever
// its function is. Numbers that leave 0 .. n - 1 are put through it again until
// they come back ("cycle walking"), which gives a permutation of the numbers
// below n.
static uint64_t feistel(uint64_t seed, uint32_t epoch, uint32_t round, int half,
                        uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = x >> half, right = x & mask;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        // right < 2^32; the permutation's number is in the upper half.
        philox4x32_ctr_t made = draw(seed, epoch, (uint64_t)round << 32 | right,
                                     FOR_ROUND | i);
        uint64_t mixed = left ^ (made.v[0] & mask);

        left = right;
        right = mixed;
    }
    return left << half | right;
}

uint64_t hr__permute(uint64_t n, uint64_t seed, uint32_t epoch, uint32_t round,
                     uint64_t i)
{
    int half = 1;

    // The domain has fewer than four times as many numbers.
    while (half < 32 && (UINT64_C(1) << 2 * half) < n)
        half++;
    do
        i = feistel(seed, epoch, round, half, i);
    while (i >= n);
    return i;
}

// ---- Weights ---------------------------------------------------------------

bool hr__sampler_sum(const double *weights, uint64_t num, double *sums)
{
    double sum = 0;

    for (uint64_t i = 0; i < num; i++) {
        if (!(weights[i] >= 0) || !isfinite(weights[i]))
            return false;
        sums[i] = sum += weights[i];
    }
    return sum > 0 && isfinite(sum);
}

// The first sample whose sum lies above a number in [0, sum of all).
static uint64_t weighted(const struct hr__sampler *s, uint32_t epoch,
                         uint64_t position)
{
    philox4x32_ctr_t made = draw(s->seed, epoch, position, FOR_WEIGHTS);
    uint64_t bits = (uint64_t)made.v[1] << 32 | made.v[0];
    double all = s->sums[s->num - 1];
    double at = (double)(bits >> 11) * 0x1p-53 * all;
    uint64_t low = 0, high = s->num - 1;

    // Rounding may make it the sum itself.
    if (at >= all)
        at = nextafter(all, 0);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (s->sums[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// ---- Positions -------------------------------------------------------------

uint64_t hr__sampler_count(const struct hr__sampler *s)
{
    uint64_t whole = s->total / s->shards;

    return whole + (!s->drop && s->total % s->shards);
}

uint64_t hr__sampler_position(const struct hr__sampler *s, uint64_t k)
{
    return k * s->shards + s->shard;
}

// The windows of an epoch begin somewhere else in each, so that samples at a
// border come together as often as others.
static uint64_t in_window(const struct hr__sampler *s, uint32_t epoch,
                          uint32_t round, uint64_t at)
{
    philox4x32_ctr_t made = draw(s->seed, epoch, round, FOR_WINDOWS);
    uint64_t bits = (uint64_t)made.v[1] << 32 | made.v[0];
    uint64_t first = bits % s->window, number = 0, begin = 0, size = first;

    if (at >= first) {
        number = (at - first) / s->window + 1;
        begin = first + (number - 1) * s->window;
        size = s->num - begin < s->window ? s->num - begin : s->window;
    }
    // Each window of an epoch has a permutation of its own.
    return begin + hr__permute(size, s->seed, epoch,
                               round * (uint32_t)(s->num / s->window + 2) +
                                   (uint32_t)number,
                               at - begin);
}

uint64_t hr__sampler_index(const struct hr__sampler *s, uint32_t epoch,
                           uint64_t position)
{
    uint64_t at = position % s->total;

    if (s->sums)
        return weighted(s, epoch, position);
    if (!s->shuffle)
        return at % s->num;
    // An epoch of more samples than there are goes through several
    // permutations.
    if (s->window && s->window < s->num)
        return in_window(s, epoch, (uint32_t)(at / s->num), at % s->num);
    return hr__permute(s->num, s->seed, epoch, (uint32_t)(at / s->num),
                       at % s->num);
}
