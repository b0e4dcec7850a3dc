// SPDX-License-Identifier: Apache-2.0
// Order as a pure function: permutations, shards, weights.
#include <math.h>

#include "loader/queue/sampler.h"
#include "testing.h"

// ---- Permutations ----------------------------------------------------------

static bool is_permutation(uint64_t n, uint64_t seed, uint32_t epoch)
{
    auto_heap uint8_t *seen = calloc(n + 1, 1);
    bool ok = true;

    for (uint64_t i = 0; i < n && ok; i++) {
        uint64_t to = hr__permute(n, seed, epoch, 0, i);

        ok = to < n && !seen[to];
        seen[to < n ? to : n] = 1;
    }
    return ok;
}

TEST_CASE(permutations)
{
    uint64_t seed = test_seed;

    for (uint64_t n = 1; n <= 70; n++)
        CHECK(is_permutation(n, seed + n, (uint32_t)n), "%d", (int)n);
    for (int i = 0; i < test_loops(20); i++) {
        uint64_t n = 1 + next_random(&seed) % 20000;

        CHECK(is_permutation(n, next_random(&seed), (uint32_t)i), "%d", (int)n);
    }
    CHECK(hr__permute(UINT64_C(1) << 40, 1, 2, 3, 12345) < UINT64_C(1) << 40,
          "large");
}

// Each of n! orders comes equally often: chi-square at five sigma.
TEST_CASE(all_orders)
{
    int rounds = test_loops(24000), counts[256] = {0}, kinds = 0;
    double mean = rounds / 24.0, chi = 0;

    for (int i = 0; i < rounds; i++) {
        int code = 0;

        for (uint64_t k = 0; k < 4; k++)
            code = code * 4 + (int)hr__permute(4, test_seed, (uint32_t)i, 0, k);
        counts[code]++;
    }
    for (int i = 0; i < 256; i++) {
        if (!counts[i])
            continue;
        kinds++;
        chi += (counts[i] - mean) * (counts[i] - mean) / mean;
    }
    CHECK(kinds == 24, "%d orders of 4", kinds);
    CHECK(chi < 23 + 5 * sqrt(2 * 23.0), "chi-square %.1f of 23", chi);
}

// Where two neighbours go does not depend on each other, nor on the epoch.
TEST_CASE(pairs)
{
    enum { N = 37 };
    int rounds = test_loops(2000) * N;
    static int counts[N][N];
    double cells = N * (N - 1.0), mean = 2.0 * rounds / cells, chi = 0;

    memset(counts, 0, sizeof(counts));
    for (int i = 0; i < 2 * rounds; i++) {
        uint64_t k = (uint64_t)i % (N - 1);
        uint32_t epoch = (uint32_t)i / (N - 1);

        counts[hr__permute(N, test_seed, epoch, 0, k)]
              [hr__permute(N, test_seed, epoch, 0, k + 1)]++;
    }
    for (int a = 0; a < N; a++)
        for (int b = 0; b < N; b++)
            if (a != b)
                chi += (counts[a][b] - mean) * (counts[a][b] - mean) / mean;
    CHECK(chi < cells - 1 + 5 * sqrt(2 * (cells - 1)),
          "chi-square %.1f of %.0f", chi, cells - 1);
}

// The same numbers on every machine, for ever: a saved state names them.
TEST_CASE(known)
{
    static const uint64_t want[] = {7, 5, 9, 6, 3, 4, 2, 8, 1, 0};

    for (uint64_t i = 0; i < 10; i++)
        CHECK(hr__permute(10, 7, 3, 0, i) == want[i], "%d goes to %d", (int)i,
              (int)hr__permute(10, 7, 3, 0, i));
}

// ---- Shards ----------------------------------------------------------------

// Counts the samples of all shards of an epoch together, by index.
static void count_shards(struct hr__sampler s, int *counts, uint64_t *each)
{
    memset(counts, 0, s.num * sizeof(*counts));
    *each = hr__sampler_count(&s);
    for (s.shard = 0; s.shard < s.shards; s.shard++)
        for (uint64_t k = 0; k < *each; k++)
            counts[hr__sampler_index(&s, 5, hr__sampler_position(&s, k))]++;
}

TEST_CASE(shards)
{
    static int counts[100];

    for (uint64_t n = 1; n <= 40; n++)
        for (uint32_t of = 1; of <= 9; of++)
            for (int drop = 0; drop < 2; drop++) {
                struct hr__sampler s = {.num = n,
                                        .total = n,
                                        .seed = test_seed,
                                        .shards = of,
                                        .shuffle = n % 2,
                                        .drop = drop};
                uint64_t each, least = UINT64_MAX, most = 0;

                count_shards(s, counts, &each);
                CHECK(each == (drop ? n / of : (n + of - 1) / of), "count");
                for (uint64_t i = 0; i < n; i++) {
                    uint64_t c = (uint64_t)counts[i];

                    least = c < least ? c : least;
                    most = c > most ? c : most;
                }
                CHECK(most - least <= 1 && (drop ? most <= 1 : least >= 1),
                      "%d over %u: %d to %d times", (int)n, of, (int)least,
                      (int)most);
            }
}

// The order of an epoch is that of one shard, whatever their number.
TEST_CASE(one_order)
{
    struct hr__sampler one = {.num = 100,
                              .total = 100,
                              .seed = test_seed,
                              .shards = 1,
                              .shuffle = true},
                       s = one;

    s.shards = 4;
    for (s.shard = 0; s.shard < 4; s.shard++)
        for (uint64_t k = 0; k < 25; k++)
            CHECK(hr__sampler_index(&s, 1, hr__sampler_position(&s, k)) ==
                      hr__sampler_index(&one, 1, 4 * k + s.shard),
                  "sample %d of shard %u", (int)k, s.shard);
}

// An epoch of more samples than there are goes through all of them in turn.
TEST_CASE(long_epochs)
{
    struct hr__sampler s = {.num = 10,
                            .total = 35,
                            .seed = test_seed,
                            .shards = 1,
                            .shuffle = true};
    static int counts[10];
    uint64_t each;
    int same = 0;

    count_shards(s, counts, &each);
    for (int i = 0; i < 10; i++)
        CHECK(counts[i] == 3 || counts[i] == 4, "%d times", counts[i]);
    for (uint64_t i = 0; i < 10; i++)
        same += hr__sampler_index(&s, 0, i) == hr__sampler_index(&s, 0, i + 10);
    CHECK(each == 35 && same < 10, "the second round is as the first");
}

// ---- Weights ---------------------------------------------------------------

TEST_CASE(weights)
{
    const double list[] = {1, 0, 3, 0.5, 0, 5.5, 0};
    enum { N = sizeof(list) / sizeof(*list) };
    int rounds = test_loops(100000), counts[N] = {0};
    double sums[N], chi = 0;
    struct hr__sampler s = {.num = N,
                            .total = (uint64_t)rounds,
                            .seed = test_seed,
                            .shards = 1,
                            .sums = sums};

    CHECK(hr__sampler_sum(list, N, sums), "sums");
    for (uint64_t i = 0; i < (uint64_t)rounds; i++)
        counts[hr__sampler_index(&s, 9, i)]++;
    for (int i = 0; i < N; i++) {
        double want = rounds * list[i] / 10;

        CHECK(list[i] > 0 || !counts[i], "weight 0 came %d times", counts[i]);
        if (want > 0)
            chi += (counts[i] - want) * (counts[i] - want) / want;
    }
    CHECK(chi < 3 + 5 * sqrt(6.0) + 5, "chi-square %.1f of 3", chi);
    CHECK(!hr__sampler_sum((const double[]){1, -1}, 2, sums), "negative");
    CHECK(!hr__sampler_sum((const double[]){0, 0}, 2, sums), "all 0");
    CHECK(!hr__sampler_sum((const double[]){1, NAN}, 2, sums), "no number");
    CHECK(!hr__sampler_sum((const double[]){1, INFINITY}, 2, sums), "infinite");
}

// ---- A buffer --------------------------------------------------------------

// How far the samples of an epoch come from their own places; -1: one is
// missing.
static int64_t farthest(const struct hr__sampler *s, uint32_t epoch)
{
    auto_heap uint8_t *seen = calloc(s->num, 1);
    int64_t most = 0;

    for (uint64_t at = 0; at < s->num; at++) {
        uint64_t i = hr__sampler_index(s, epoch, at);
        int64_t away = llabs((int64_t)i - (int64_t)at);

        if (i >= s->num || seen[i]++)
            most = -1;
        if (most >= 0 && away > most)
            most = away;
    }
    return most;
}

TEST_CASE(buffers)
{
    uint64_t seed = test_seed;
    int same = 0, apart = 0, rounds = test_loops(200);

    for (int i = 0; i < rounds; i++) {
        uint64_t num = 1 + next_random(&seed) % 3000;
        struct hr__sampler s = {.num = num,
                                .total = num,
                                .seed = seed,
                                .shards = 1,
                                .shuffle = true,
                                .window = 1 + next_random(&seed) % num};
        int64_t most = farthest(&s, (uint32_t)i);

        CHECK(most >= 0 && most < (int64_t)(s.window < num ? s.window : num),
              "%d samples, %d at a time: %d places away", (int)num,
              (int)s.window, (int)most);
    }
    // Two that follow each other are in one window of 8 in most epochs, and in
    // different ones in some: no border is always at one place.
    for (uint32_t epoch = 0; epoch < 400; epoch++) {
        struct hr__sampler s = {.num = 64,
                                .total = 64,
                                .seed = test_seed,
                                .shards = 1,
                                .shuffle = true,
                                .window = 8};
        bool before = false;

        same += hr__sampler_index(&s, epoch, 30) == 30;
        for (uint64_t at = 0; at < 64; at++) {
            uint64_t i = hr__sampler_index(&s, epoch, at);

            apart += i == 32 && !before;
            before = before || i == 31;
        }
    }
    CHECK(same > 10 && same < 150, "in its own place %d times of 400", same);
    CHECK(apart > 80 && apart < 280, "the later first %d times of 400", apart);
}
