// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // sched_getaffinity
// From what was measured to what is shown: medians, and the case that the
// advice is about.
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile.h"

int profile_cores(void)
{
    cpu_set_t set;

    if (!sched_getaffinity(0, sizeof(set), &set))
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int profile_most_threads(const struct profile *p)
{
    return p->opt.threads[p->opt.num_threads - 1];
}

int profile_cpu(const struct profile *p)
{
    for (int i = 0; i < p->opt.num_backends; i++)
        if (!strcmp(p->opt.backends[i], "cpu"))
            return i;
    return 0;
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

const struct profile_config *profile_best_cpu(const struct profile *p)
{
    const struct profile_config *best = NULL;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->backend == profile_cpu(p) && c->mode == PROFILE_PLANNED &&
            (!best || c->rate > best->rate))
            best = c;
    }
    return best;
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

static void latencies(struct profile_config *c)
{
    size_t n = 0, at = 0;
    double *all;

    for (int i = 0; i < c->num_rounds; i++)
        n += c->rounds[i].num_latencies;
    if (!(all = calloc(n + 1, sizeof(*all))))
        return;
    for (int i = 0; i < c->num_rounds; i++) {
        if (!c->rounds[i].num_latencies)
            continue;
        memcpy(all + at, c->rounds[i].latencies,
               c->rounds[i].num_latencies * sizeof(*all));
        at += c->rounds[i].num_latencies;
    }
    c->p50 = profile_quantile(all, n, 0.5);
    c->p99 = profile_quantile(all, n, 0.99);
    free(all);
}

// "shared with the next engine's driver 80 %, image got from the driver 20 %"
static void rungs_text(struct profile_config *c,
                       const struct profile_sample *last)
{
    double all = 0;

    for (int i = 0; i < HR_PROFILE_RUNGS; i++)
        all += last->rungs[i].samples;
    for (int i = 0; i < HR_PROFILE_RUNGS; i++) {
        const struct profile_rung *r = &last->rungs[i];
        size_t used = strlen(c->rungs);

        if (r->samples > 0)
            snprintf(c->rungs + used, sizeof(c->rungs) - used, "%s%s %.3g %%",
                     used ? ", " : "", r->name, 100 * r->samples / all);
    }
}

static int by_busy(const void *a, const void *b)
{
    double x = ((const struct profile_sample *)a)->busy;
    double y = ((const struct profile_sample *)b)->busy;

    return x < y ? -1 : x > y;
}

// With the consumer. Busy and rate are of one round, the middle one: they stand
// in one sentence.
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
    const struct profile_sample *last =
        &c->rounds[c->num_rounds ? c->num_rounds - 1 : 0];
    double low = HUGE_VAL, high = 0, cpu = 0, images = 0;

    for (int i = 0; i < c->num_rounds; i++) {
        const struct profile_sample *s = &c->rounds[i];

        low = s->rate < low ? s->rate : low;
        high = s->rate > high ? s->rate : high;
        cpu += s->cpu_seconds;
        images += (double)s->images;
        c->fallbacks += s->fallbacks;
        for (int bit = 0; bit < RUN_NUM_WHY; bit++)
            c->why[bit] += s->why[bit];
        c->failed += s->failed;
        c->batches += s->batches;
        c->peak_rss = s->peak_rss > c->peak_rss ? s->peak_rss : c->peak_rss;
    }
    c->images = (uint64_t)images;
    c->lowest = c->num_rounds ? low : 0;
    c->highest = high;
    c->rate = MEDIAN(c->rounds, c->num_rounds, rate);
    c->noise = c->rate > 0 && c->num_rounds ? (high - low) / 2 / c->rate : 0;
    c->cpu_per_1000 = images > 0 ? 1000 * cpu / images : 0;
    if (c->num_rounds && last->made) {
        c->bytes_per_image = (last->bytes_up + last->bytes_down) /
                             (double)last->made;
        c->imported_per_image = last->bytes_imported / (double)last->made;
    }
    if (c->num_rounds && last->device_batches > 0)
        c->launches_per_batch = last->launches / last->device_batches;
    if (c->num_rounds)
        c->import_falls = last->import_falls;
    rungs_text(c, last);
    fed(c);
    latencies(c);
}

double profile_fallback_percent(const struct profile_config *c)
{
    return c->images ? 100 * (double)c->fallbacks / (double)c->images : 0;
}

void profile_why_text(const struct profile_config *c, char *out, size_t size)
{
    *out = '\0';
    for (int bit = 0; bit < RUN_NUM_WHY; bit++) {
        size_t used = strlen(out);

        if (c->why[bit])
            snprintf(out + used, size - used, "%s%s %.3g %%", used ? ", " : "",
                     hr_why_text(1u << bit),
                     100 * (double)c->why[bit] / (double)c->images);
    }
}

static void totals(const struct profile *p, double *images, double *failed,
                   double *batches)
{
    *images = *failed = *batches = 0;
    for (int i = 0; i < p->num_configs; i++)
        if (p->configs[i].mode == PROFILE_PLANNED) {
            *images += (double)p->configs[i].images;
            *failed += (double)p->configs[i].failed;
            *batches += (double)p->configs[i].batches;
        }
}

double profile_per_batch(const struct profile *p)
{
    double images, failed, batches;

    totals(p, &images, &failed, &batches);
    return batches > 0 ? images / batches : 0;
}

double profile_need(const struct profile *p)
{
    return p->opt.consumer_ms > 0
               ? 1000 * profile_per_batch(p) / p->opt.consumer_ms
               : 0;
}

double profile_failing(const struct profile *p)
{
    double images, failed, batches;

    totals(p, &images, &failed, &batches);
    return failed > 0 ? failed / (images + failed) : 0;
}

// A machine that is busy wakes sleepers late: the consumer was busy, but slower
// than it would be.
void profile_late_text(const struct profile *p, char out[PROFILE_LATE])
{
    double most = 0;

    for (int i = 0; i < p->num_configs; i++)
        most = fmax(most, p->configs[i].took_ms);
    *out = '\0';
    if (most > 1.05 * p->opt.consumer_ms)
        snprintf(out, PROFILE_LATE,
                 "Its batches took up to %.3g ms because its thread was "
                 "scheduled late.",
                 most);
}

// By what the consumer got while it was there: its CPU load counts.
int profile_enough(const struct profile *p, int backend, bool *measured)
{
    int threads[PROFILE_THREADS + 1], n = 0, enough;
    double rates[PROFILE_THREADS + 1], cost = 0;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];
        bool fed = profile_bound(p->opt.consumer_ms, c->busy) ==
                   PROFILE_CONSUMER;

        if (c->backend != backend || c->mode != PROFILE_PLANNED)
            continue;
        cost = c->cpu_per_1000 / 1000;
        threads[n] = c->threads;
        rates[n++] = fed                             ? profile_need(p)
                     : c->fed_rate < profile_need(p) ? c->fed_rate * .999
                                                     : profile_need(p) * .999;
    }
    enough = profile_threads_enough(threads, rates, n, profile_need(p), cost,
                                    measured);
    return *measured || p->others <= PROFILE_CROWDED ? enough : PROFILE_UNKNOWN;
}

// Threads with which a backend was seen to feed the consumer; 0: with none.
static int fed_with(const struct profile *p, int backend)
{
    bool measured = false;
    int n = p->opt.consumer_ms > 0 ? profile_enough(p, backend, &measured) : 0;

    return measured ? n : 0;
}

// Whether a is what the user would rather take: with a consumer what feeds it
// with the fewest threads, or keeps it busiest; else what is fastest.
static bool better(const struct profile *p, const struct profile_config *a,
                   const struct profile_config *b)
{
    int with_a = fed_with(p, a->backend), with_b = fed_with(p, b->backend);

    if (p->opt.consumer_ms <= 0)
        return a->rate > b->rate;
    if (with_a && with_b)
        return with_a < with_b;
    if (with_a || with_b)
        return with_a != 0;
    return a->busy > b->busy + 0.02;
}

const struct profile_config *profile_best_of(const struct profile *p, int b)
{
    const struct profile_config *best = NULL;
    int fed = fed_with(p, b);

    if (fed)
        return profile_find(p, b, PROFILE_PLANNED, fed);
    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->backend == b && c->mode == PROFILE_PLANNED &&
            (!best || (p->opt.consumer_ms > 0 ? c->busy > best->busy
                                              : c->rate > best->rate)))
            best = c;
    }
    return best;
}

static int best_backend(const struct profile *p)
{
    int best = profile_cpu(p);

    for (int b = 0; b < p->opt.num_backends; b++)
        if (better(p, profile_best_of(p, b), profile_best_of(p, best)))
            best = b;
    return best;
}

// Another backend that feeds the consumer, with the fewest threads.
static void find_other(const struct profile *p, int backend,
                       struct profile_case *c)
{
    for (int b = 0; b < p->opt.num_backends; b++) {
        bool measured;
        int enough = profile_enough(p, b, &measured);

        if (b == backend || enough <= 0 || !measured ||
            (c->other_enough && enough >= c->other_enough))
            continue;
        c->other = p->opt.backends[b];
        c->other_enough = enough;
    }
}

// Its rates are those of the engines behind it.
static const char *find_mismatch(const struct profile *p)
{
    for (int i = 0; i < p->num_configs; i++)
        for (int bit = 0; bit < RUN_NUM_WHY; bit++)
            if (p->configs[i].why[bit] && 1u << bit == HR_WHY_MISMATCH)
                return p->opt.backends[p->configs[i].backend];
    return NULL;
}

static void advise(struct profile *p)
{
    int b = best_backend(p);
    const struct profile_config *c = profile_best_of(p, b);
    const struct profile_config *cpu = profile_best_cpu(p);
    bool on_cpu = b == profile_cpu(p);
    struct profile_case k = {
        .backend = p->opt.backends[b],
        .threads = c->threads,
        .cores = profile_cores(),
        .consumer_ms = p->opt.consumer_ms,
        .busy = c->busy,
        .rate = p->opt.consumer_ms > 0 ? c->fed_rate : c->rate,
        .need = profile_need(p),
        .cost = c->cpu_per_1000 / 1000,
        .best_cpu_rate = cpu->rate,
        .software = c->software,
        .others = p->others,
        .noise = p->noise,
    };

    k.part = profile_largest_part(&p->watch[b], &k.part_share);
    // What would take the largest part off the host.
    if (k.part)
        k.offload = strstr(k.part, "entropy") ? "entropy..reconstruct"
                    : !strcmp(k.part, "decode")
                        ? on_cpu ? "reconstruct..store" : "entropy..color"
                    : !strcmp(k.part, "resample") ? "resample..store"
                                                  : NULL;
    if (k.need > 0) {
        bool measured;

        k.enough = profile_enough(p, b, &measured);
        find_other(p, b, &k);
    }
    k.mismatch = find_mismatch(p);
    profile_advise(&k, &p->advice);
}

void profile_summarize(struct profile *p)
{
    double others[PROFILE_CONFIGS] = {0};
    int n = 0;

    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        summarize(c);
        if (n < 64)
            others[n++] = MEDIAN(c->rounds, c->num_rounds, others);
        if (c->mode == PROFILE_PLANNED && c->noise > p->noise)
            p->noise = c->noise;
    }
    p->others = profile_median(others, n);
    advise(p);
}
