// SPDX-License-Identifier: Apache-2.0
// From numbers to a sentence. Nothing here measures: tests give it numbers.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

// A consumer that is kept this busy is fed.
#define FED 0.97

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double profile_quantile(double *values, size_t n, double q)
{
    size_t i;

    if (!n)
        return 0;
    qsort(values, n, sizeof(*values), compare);
    i = (size_t)ceil(q * (double)n);
    return values[i ? i - 1 : 0];
}

double profile_median(const double *values, int n)
{
    double sorted[64];

    if (n > 64)
        n = 64;
    if (n < 1)
        return 0;
    memcpy(sorted, values, sizeof(*sorted) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(*sorted), compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

int profile_threads_enough(const int *threads, const double *rates, int n,
                           double need, double cost, bool *measured)
{
    int cores;

    *measured = true;
    for (int i = 0; i < n; i++)
        if (rates[i] >= need)
            return threads[i];
    *measured = false;
    if (n < 1 || rates[n - 1] <= 0)
        return 0;
    // Noise is no growth: a twentieth of what each thread brought until then.
    if (n > 1 && (rates[n - 1] - rates[n - 2]) /
                         (double)(threads[n - 1] - threads[n - 2]) <
                     0.05 * rates[n - 1] / (double)threads[n - 1])
        return 0;
    // By CPU seconds, not by rates: those of threads that wait for a core say
    // how many cores there are.
    cores = (int)ceil(need * cost - 1e-9);
    return cores > threads[n - 1] ? cores : threads[n - 1] + 1;
}

const char *profile_largest_part(const struct profile_watch *w, double *share)
{
    const struct profile_part *largest = NULL;
    double sum = 0;

    for (int i = 0; i < w->num_parts; i++) {
        const struct profile_part *part = &w->parts[i];

        if (part->device)
            continue;
        sum += part->ms_per_1000;
        if (!largest || part->ms_per_1000 > largest->ms_per_1000)
            largest = part;
    }
    *share = sum > 0 ? largest->ms_per_1000 / sum : 0;
    if (sum <= 0)
        return NULL;
    return strcmp(largest->name, "entropy") ? largest->name
                                            : "entropy decoding";
}

void profile_enough_text(const char *backend, int threads, bool measured,
                         int cores, char *out, size_t size)
{
    if (threads == PROFILE_UNKNOWN)
        snprintf(out, size,
                 "%s: how many threads keep it fed is not known, for other "
                 "processes took too much of the machine",
                 backend);
    else if (!threads)
        snprintf(out, size, "%s: no number of threads would keep it fed",
                 backend);
    else
        snprintf(out, size, "%s: %d thread%s keep%s it fed%s", backend, threads,
                 threads == 1 ? "" : "s", threads == 1 ? "s" : "",
                 measured          ? ""
                 : threads > cores ? " (estimated; this machine has fewer "
                                     "cores)"
                                   : " (estimated)");
}

enum profile_bound profile_bound(double consumer_ms, double busy)
{
    if (consumer_ms <= 0)
        return PROFILE_NO_CONSUMER;
    return busy >= FED ? PROFILE_CONSUMER : PROFILE_DATA;
}

// Pictures per second if the largest part cost the host nothing.
static double without_part(const struct profile_case *c)
{
    return c->part_share < 1 ? c->rate / (1 - c->part_share) : HUGE_VAL;
}

// What would help besides threads of the same engine.
enum remedy { NONE, FEEDS, HELPS };

// *who: "opencl with 1 thread", "an engine with entropy..reconstruct".
static enum remedy find_remedy(const struct profile_case *c, char *who,
                               size_t size)
{
    *who = '\0';
    if (c->other && c->other_enough > 0) {
        snprintf(who, size, "%s with %d thread%s", c->other, c->other_enough,
                 c->other_enough == 1 ? "" : "s");
        return FEEDS;
    }
    if (!c->offload)
        return NONE;
    snprintf(who, size, "an engine with %s", c->offload);
    return without_part(c) >= c->need ? FEEDS : HELPS;
}

// Which threads would feed the consumer; the three things that can be known.
static void threads_text(const struct profile_case *c, char *out, size_t size)
{
    double cores = c->need * c->cost;

    if (c->enough == PROFILE_UNKNOWN)
        snprintf(out, size,
                 "how many threads would feed it cannot be told while other "
                 "processes take %.0f %% of the machine",
                 100 * c->others);
    else if (!c->enough)
        snprintf(out, size, "more threads do not help");
    else
        snprintf(out, size,
                 "to feed it takes about %.1f cores, so %d threads%s", cores,
                 c->enough,
                 c->enough > c->cores ? " (more than this machine has cores)"
                                      : "");
}

static void advise_data(const struct profile_case *c,
                        struct profile_advice *out)
{
    // By what helps besides, where threads are enough and where not.
    static const char *const ends[2][3] = {
        {[NONE] = "",
         [FEEDS] = " would feed it",
         [HELPS] = " would help, not feed it"},
        {[NONE] = "", [FEEDS] = " would feed it, too", [HELPS] = NULL},
    };
    char part[128] = "", threads[192], who[160];
    enum remedy remedy = find_remedy(c, who, sizeof(who));
    const char *end = ends[c->enough > 0][remedy];

    if (c->part)
        snprintf(part, sizeof(part),
                 ", and %s takes %.0f %% of the host threads' time", c->part,
                 100 * c->part_share);
    threads_text(c, threads, sizeof(threads));
    snprintf(out->headline, sizeof(out->headline),
             "The data side is the limit: %s feeds %.0f %% of what the "
             "consumer takes",
             c->backend, c->need > 0 ? 100 * c->rate / c->need : 0);
    snprintf(out->text, sizeof(out->text),
             "With %d thread%s it made %.0f of %.0f pictures per second%s; "
             "%s%s%s%s.",
             c->threads, c->threads == 1 ? "" : "s", c->rate, c->need, part,
             threads, end && *end ? "; " : "", end && *end ? who : "",
             end ? end : "");
}

static void advise_consumer(const struct profile_case *c,
                            struct profile_advice *out)
{
    char other[160] = "";

    if (c->other && c->other_enough > 0 && c->other_enough < c->enough)
        snprintf(other, sizeof(other), "; %s would do it with %d", c->other,
                 c->other_enough);
    snprintf(out->headline, sizeof(out->headline),
             "The consumer is the limit: %s kept it %.0f %% busy", c->backend,
             100 * c->busy);
    snprintf(out->text, sizeof(out->text), "%d thread%s suffice%s%s.",
             c->enough, c->enough == 1 ? "" : "s", c->enough == 1 ? "s" : "",
             other);
}

static void advise_alone(const struct profile_case *c,
                         struct profile_advice *out)
{
    char part[128] = "";

    if (c->part)
        snprintf(part, sizeof(part),
                 "%s takes %.0f %% of the host threads' "
                 "time. ",
                 c->part, 100 * c->part_share);
    part[0] = (char)toupper((unsigned char)part[0]);
    if (!strcmp(c->backend, "cpu"))
        snprintf(out->headline, sizeof(out->headline),
                 "The CPU with %d thread%s is the fastest here: %.0f pictures "
                 "per second",
                 c->threads, c->threads == 1 ? "" : "s", c->rate);
    else
        snprintf(out->headline, sizeof(out->headline),
                 "%s makes %.2f times the pictures of the CPU's best: %.0f per "
                 "second",
                 c->backend,
                 c->best_cpu_rate > 0 ? c->rate / c->best_cpu_rate : 0,
                 c->rate);
    snprintf(out->text, sizeof(out->text),
             "%s%sName a network's time with --consumer MS to see what would "
             "feed it.",
             c->software ? "It runs on the host's own processor, so it cannot "
                           "free it. "
                         : "",
             part);
}

static void caution(const struct profile_case *c, struct profile_advice *out)
{
    char *at = out->caution;
    size_t size = sizeof(out->caution), used = 0;

    *at = '\0';
    if (c->mismatch)
        used = (size_t)snprintf(at, size,
                                "%.100s made wrong pictures and was left: see "
                                "headrace validate. ",
                                c->mismatch);
    if (c->others > PROFILE_QUIET)
        snprintf(at + used, size - used,
                 "Measure again: other processes took %.0f %% of the machine.",
                 100 * c->others);
    else if (c->noise > PROFILE_QUIET)
        snprintf(at + used, size - used,
                 "Measure again, for longer: rounds differ by +-%.0f %%.",
                 100 * c->noise);
    else if (used)
        at[used - 1] = '\0';
}

void profile_advise(const struct profile_case *c, struct profile_advice *out)
{
    static void (*const advise[])(const struct profile_case *,
                                  struct profile_advice *) = {
        [PROFILE_NO_CONSUMER] = advise_alone,
        [PROFILE_DATA] = advise_data,
        [PROFILE_CONSUMER] = advise_consumer,
    };

    advise[profile_bound(c->consumer_ms, c->busy)](c, out);
    caution(c, out);
}

// ---- Overlap ---------------------------------------------------------------

// Edges in order of time; between two of them nothing changes.
struct edge {
    double at;
    int kind, step;
};

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->step - y->step;
}

double profile_overlap(const struct profile_interval *v, size_t n)
{
    struct edge *edges = calloc(2 * n + 1, sizeof(*edges));
    double device = 0, hidden = 0, last = 0;
    int host = 0, active[8] = {0};

    if (!edges)
        return -1;
    for (size_t i = 0; i < n; i++) {
        edges[2 * i] = (struct edge){v[i].begin, v[i].kind, 1};
        edges[2 * i + 1] = (struct edge){v[i].end, v[i].kind, -1};
    }
    qsort(edges, 2 * n, sizeof(*edges), compare_edges);
    for (size_t i = 0; i < 2 * n; i++) {
        int lanes = 0;

        for (int k = 0; k < 8; k++)
            lanes += active[k] > 0;
        if (lanes) {
            device += edges[i].at - last;
            hidden += lanes > 1 || host > 0 ? edges[i].at - last : 0;
        }
        last = edges[i].at;
        if (edges[i].kind < 0)
            host += edges[i].step;
        else
            active[edges[i].kind & 7] += edges[i].step;
    }
    free(edges);
    return device > 0 ? hidden / device : -1;
}
