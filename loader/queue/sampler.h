// SPDX-License-Identifier: Apache-2.0
// The sample at each position of an epoch: pure functions of the seed, the
// epoch and the position. Only the sums of weights are stored.
//
// A position counts the samples of an epoch over all shards. Shard s of n has
// the positions s, s + n, s + 2n, ... Behind the last sample of the epoch,
// where padding leads, the first ones come again.
#ifndef HEADRACE_LOADER_SAMPLER_H
#define HEADRACE_LOADER_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include <headrace/status.h>

struct hr__sampler {
    uint64_t num;    // samples of the source, > 0
    uint64_t total;  // samples of an epoch, all shards; > 0
    uint64_t seed;
    uint32_t shard, shards;  // shard < shards
    bool shuffle, drop;      // drop: samples beyond equal shards
    // Shuffled within windows of so many samples that follow each other; 0 =
    // all of them.
    uint64_t window;
    // Prefix sums of the samples' weights; NULL = no weights.
    const double *sums;
};

// Sums up weights[num]. False: one is negative or no number, or all are 0.
bool hr__sampler_sum(const double *weights, uint64_t num, double *sums);

// Samples that each shard has in an epoch.
uint64_t hr__sampler_count(const struct hr__sampler *s);
// Returns the position of this shard's sample number k.
uint64_t hr__sampler_position(const struct hr__sampler *s, uint64_t k);
// Returns the index in the source of the sample at a position.
uint64_t hr__sampler_index(const struct hr__sampler *s, uint32_t epoch,
                           uint64_t position);

// Returns the place of i in permutation number `round` of 0 .. n - 1, i < n.
uint64_t hr__permute(uint64_t n, uint64_t seed, uint32_t epoch, uint32_t round,
                     uint64_t i);

#endif
