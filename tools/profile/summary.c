// SPDX-License-Identifier: Apache-2.0
// From what was measured to what is shown: medians, and the case that the
// advice is about.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

int profile_most_threads(const struct profile *p)
{
    return p->opt.threads[p->opt.num_threads - 1];
}

const struct profile_config *profile_find(const struct profile *p, int backend,
                                          enum profile_mode mode, int threads)
{
    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->backend == backend && c->mode == mode && c->threads == threads)
            return c;
    }
    return NULL;
}

// The planned one in which the double at that place is largest.
static const struct profile_config *fastest(const struct profile *p, int b,
                                            size_t at)
{
    const struct profile_config *best = NULL;
    double most = 0, value;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        memcpy(&value, (const char *)c + at, sizeof(value));
        if (c->backend == b && c->mode == PROFILE_PLANNED &&
            (!best || value > most)) {
            best = c;
            most = value;
        }
    }
    return best;
}

const struct profile_config *profile_best_cpu(const struct profile *p)
{
    return fastest(p, PROFILE_CPU, offsetof(struct profile_config, rate));
}

// ---- Summaries -------------------------------------------------------------

static double median_of(const struct profile_sample *s, int n, size_t field)
{
    double values[PROFILE_ROUNDS];

    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&s[i] + field, sizeof(double));
    return profile_median(values, n);
}
#define MEDIAN(s, n, field) \
    median_of(s, n, offsetof(struct profile_sample, field))

static int by_busy(const void *a, const void *b)
{
    double x = ((const struct profile_sample *)a)->busy;
    double y = ((const struct profile_sample *)b)->busy;

    return x < y ? -1 : x > y;
}

// Sums up the rounds with the consumer. Busy and rate come from one round, the
// middle one, since one sentence names both.
static void fed(struct profile_config *c)
{
    double shares[PROFILE_ROUNDS], took[PROFILE_ROUNDS];

    if (!c->num_fed)
        return;
    qsort(c->fed, (size_t)c->num_fed, sizeof(c->fed[0]), by_busy);
    c->busy = c->fed[(c->num_fed - 1) / 2].busy;
    c->fed_rate = c->fed[(c->num_fed - 1) / 2].rate;
    for (int i = 0; i < c->num_fed; i++) {
        const struct profile_sample *s = &c->fed[i];

        shares[i] = s->consumer_seconds > 0
                        ? s->consumer_cpu / s->consumer_seconds
                        : 0;
        took[i] = s->batches ? 1000 * s->consumer_seconds / (double)s->batches
                             : 0;
    }
    c->took_ms = profile_median(took, c->num_fed);
    c->consumer_cpu = profile_median(shares, c->num_fed);
}

static void summarize(struct profile_config *c)
{
    size_t seen = (size_t)c->latencies.seen;
    double cpu = 0;

    for (int i = 0; i < c->num_rounds; i++) {
        const struct profile_sample *s = &c->rounds[i];

        c->lowest = i ? fmin(c->lowest, s->rate) : s->rate;
        c->highest = fmax(c->highest, s->rate);
        cpu += s->cpu_seconds;
        c->images += (double)s->images;
        c->failed += (double)s->failed;
        c->batches += (double)s->batches;
        c->fallbacks += (double)s->fallbacks;
        c->cached += (double)s->cached;
        for (int bit = 0; bit < RUN_NUM_WHY; bit++)
            c->why_counts[bit] += s->why[bit];
        c->peak_rss = fmax(c->peak_rss, s->peak_rss);
    }
    c->rate = MEDIAN(c->rounds, c->num_rounds, rate);
    c->noise = c->rate > 0 ? (c->highest - c->lowest) / 2 / c->rate : 0;
    c->cpu_per_1000 = c->images > 0 ? 1000 * cpu / c->images : 0;
    c->fallback_percent = c->images > 0 ? 100 * c->fallbacks / c->images : 0;
    seen = seen < PROFILE_LATENCIES ? seen : PROFILE_LATENCIES;
    c->p50 = profile_quantile(c->latencies.ms, seen, 0.5);
    c->p99 = profile_quantile(c->latencies.ms, seen, 0.99);
    fed(c);
}

// By what the consumer got while it was there: its CPU load counts.
int profile_enough(const struct profile *p, int backend, bool *measured)
{
    int threads[PROFILE_THREADS + 1], n = 0, enough;
    double rates[PROFILE_THREADS + 1], cost = 0, need = p->need;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->backend != backend || c->mode != PROFILE_PLANNED)
            continue;
        cost = c->cpu_per_1000 / 1000;
        threads[n] = c->threads;
        rates[n++] = profile_bound(p->opt.consumer_ms, c->busy) ==
                             PROFILE_CONSUMER
                         ? need
                         : fmin(c->fed_rate, need) * .999;
    }
    enough = profile_threads_enough(threads, rates, n, need, cost, measured);
    return *measured || p->others <= PROFILE_CROWDED ? enough : PROFILE_UNKNOWN;
}

// Threads with which a backend was seen to feed the consumer; 0: with none.
static int fed_with(const struct profile *p, int backend)
{
    bool measured = false;
    int n = p->opt.consumer_ms > 0 ? profile_enough(p, backend, &measured) : 0;

    return measured ? n : 0;
}

const struct profile_config *profile_best_of(const struct profile *p, int b)
{
    int threads = fed_with(p, b);

    if (threads)
        return profile_find(p, b, PROFILE_PLANNED, threads);
    return fastest(p, b,
                   p->opt.consumer_ms > 0
                       ? offsetof(struct profile_config, busy)
                       : offsetof(struct profile_config, rate));
}

// Ranks a backend for the user: with a consumer the one that feeds it with the
// fewest threads, or keeps it busiest, is best; else the fastest.
static double score(const struct profile *p, int b)
{
    const struct profile_config *best = profile_best_of(p, b);
    int threads = fed_with(p, b);

    return p->opt.consumer_ms <= 0 ? best->rate
           : threads               ? 1000 - threads
                                   : best->busy;
}

// If scores hardly differ the CPU is better: every machine has one.
static int best_backend(const struct profile *p)
{
    int best = PROFILE_CPU;

    for (int b = 0; b < p->opt.num_backends; b++)
        if (score(p, b) > score(p, best) + 0.02)
            best = b;
    return best;
}

// Another backend that feeds the consumer, with the fewest threads.
static void find_other(const struct profile *p, int backend,
                       struct profile_case *c)
{
    for (int b = 0; b < p->opt.num_backends; b++) {
        int threads = b == backend ? 0 : fed_with(p, b);

        if (!threads || (c->other && threads >= c->other_enough))
            continue;
        c->other = p->opt.backends[b];
        c->other_enough = threads;
    }
}

// Its rates are those of the engines behind it.
static const char *find_mismatch(const struct profile *p)
{
    for (int i = 0; i < p->num_configs; i++)
        for (int bit = 0; bit < RUN_NUM_WHY; bit++)
            if (p->configs[i].why_counts[bit] && 1u << bit == HR_WHY_MISMATCH)
                return p->opt.backends[p->configs[i].backend];
    return NULL;
}

static void advise(struct profile *p)
{
    int b = best_backend(p);
    const struct profile_config *c = profile_best_of(p, b);
    bool measured;
    struct profile_case k = {
        .backend = p->opt.backends[b],
        .threads = c->threads,
        .cores = tools_cores(),
        .consumer_ms = p->opt.consumer_ms,
        .busy = c->busy,
        .rate = p->opt.consumer_ms > 0 ? c->fed_rate : c->rate,
        .need = p->need,
        .cost = c->cpu_per_1000 / 1000,
        .best_cpu_rate = profile_best_cpu(p)->rate,
        .software = c->software,
        .others = p->others,
        .noise = p->noise,
        .mismatch = find_mismatch(p),
    };

    k.part = profile_largest_part(&p->watch[b], &k.part_share);
    if (k.need > 0) {
        k.enough = profile_enough(p, b, &measured);
        find_other(p, b, &k);
    }
    profile_advise(&k, &p->advice);
}

// Sums over all configurations, before the advice.
static void sum_up(struct profile *p)
{
    double others[PROFILE_CONFIGS] = {0}, images = 0, failed = 0, batches = 0;

    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        summarize(c);
        others[i] = MEDIAN(c->rounds, c->num_rounds, others);
        if (c->mode != PROFILE_PLANNED)
            continue;
        p->noise = fmax(p->noise, c->noise);
        images += c->images;
        failed += c->failed;
        batches += c->batches;
    }
    p->others = profile_median(others, p->num_configs);
    p->failing = failed > 0 ? failed / (images + failed) : 0;
    p->per_batch = batches > 0 ? images / batches : 0;
    p->need = p->opt.consumer_ms > 0 ? 1000 * p->per_batch / p->opt.consumer_ms
                                     : 0;
}

void profile_summarize(struct profile *p)
{
    const struct profile_config *one;

    sum_up(p);
    one = profile_find(p, PROFILE_CPU, PROFILE_PLANNED, 1);
    for (int i = 0; one->rate > 0 && i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        c->times_one = c->rate / one->rate;
        c->times_best = c->rate / profile_best_cpu(p)->rate;
    }
    advise(p);
}
