// SPDX-License-Identifier: Apache-2.0
// From numbers to sentences. Nothing here measures: tests give it numbers.
#include <math.h>
#include <stdarg.h>
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

// Reservoir sampling: latency n replaces a kept one with probability
// PROFILE_LATENCIES / n.
void profile_keep(struct profile_latencies *l, double ms)
{
    uint64_t at = l->seen;

    // A hash, which has no period: periodic slow batches keep their share.
    if (at >= PROFILE_LATENCIES)
        at = (at * 6364136223846793005u >> 32) % (at + 1);
    if (at < PROFILE_LATENCIES)
        l->ms[at] = ms;
    l->seen++;
}

double profile_median(const double *values, int n)
{
    double sorted[PROFILE_CONFIGS];

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
    return sum > 0 ? largest->name : NULL;
}

enum profile_bound profile_bound(double consumer_ms, double busy)
{
    if (consumer_ms <= 0)
        return PROFILE_NO_CONSUMER;
    return busy >= FED ? PROFILE_CONSUMER : PROFILE_DATA;
}

const char *profile_plural(int n)
{
    return n == 1 ? "" : "s";
}

// ---- The advice ------------------------------------------------------------

// The spans of a device that would take a part off the host.
static const char *offload(const char *part)
{
    static const char *const spans[][2] = {
        {"entropy", "entropy..reconstruct"},
        {"decode", "entropy..color"},
        {"resample", "resample..store"},
    };

    for (size_t i = 0; part && i < sizeof(spans) / sizeof(*spans); i++)
        if (!strcmp(part, spans[i][0]))
            return spans[i][1];
    return NULL;
}

static const char *part_words(const char *part)
{
    if (!part)
        return "";
    return strcmp(part, "entropy") ? part : "entropy decoding";
}

// Adds a sentence, if it is the case.
HR_PRINTF(4, 5)
static void say(char *out, size_t size, bool is, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;

    if (!is)
        return;
    if (used && used < size - 1)
        out[used++] = ' ';
    va_start(args, format);
    vsnprintf(out + used, size - used, format, args);
    va_end(args);
}
#define SAY(out, is, ...) say(out, sizeof(out), is, __VA_ARGS__)

static void say_headline(const struct profile_case *c, enum profile_bound bound,
                         struct profile_advice *out)
{
    bool cpu = !strcmp(c->backend, "cpu"), alone = bound == PROFILE_NO_CONSUMER;

    // The share of its time: what figure and table say, too.
    SAY(out->headline, bound == PROFILE_DATA,
        "The data side is the limit: %s kept the consumer %.0f %% busy",
        c->backend, 100 * c->busy);
    SAY(out->headline, bound == PROFILE_CONSUMER,
        "The consumer is the limit: %s kept it %.0f %% busy", c->backend,
        100 * c->busy);
    SAY(out->headline, alone && cpu,
        "The CPU with %d thread%s is the fastest here: %.0f pictures per "
        "second",
        c->threads, profile_plural(c->threads), c->rate);
    SAY(out->headline, alone && !cpu,
        "%s makes %.2f times the pictures of the CPU's best: %.0f per second",
        c->backend, c->best_cpu_rate > 0 ? c->rate / c->best_cpu_rate : 0,
        c->rate);
}

// The data side is the limit: what would feed the consumer.
static void say_lack(const struct profile_case *c, struct profile_advice *out)
{
    const char *span = offload(c->part);
    bool other = c->other && c->other_enough > 0;
    bool engine = !other && span;
    // It would feed the consumer if the largest part cost the host nothing.
    bool feeds = c->rate >= c->need * (1 - c->part_share);

    SAY(out->text, c->enough > 0,
        "To feed it takes about %.1f cores, so %d thread%s%s.",
        c->need * c->cost, c->enough, profile_plural(c->enough),
        c->enough > c->cores ? ": more than this machine has cores" : "");
    SAY(out->text, c->enough == 0, "More threads do not help.");
    SAY(out->text, c->enough == PROFILE_UNKNOWN,
        "How many threads would feed it cannot be told while other processes "
        "take %.0f %% of the machine.",
        100 * c->others);
    SAY(out->text, other, "%s with %d thread%s would feed it.", c->other,
        c->other_enough, profile_plural(c->other_enough));
    SAY(out->text, engine && feeds, "An engine with %s would feed it.", span);
    SAY(out->text, engine && !feeds && c->enough <= 0,
        "An engine with %s would help, but not feed it.", span);
}

static void say_text(const struct profile_case *c, enum profile_bound bound,
                     struct profile_advice *out)
{
    bool fed = bound == PROFILE_CONSUMER, alone = bound == PROFILE_NO_CONSUMER;

    SAY(out->text, bound == PROFILE_DATA,
        "With %d thread%s it made %.0f of %.0f pictures per second.",
        c->threads, profile_plural(c->threads), c->rate, c->need);
    SAY(out->text, alone && c->software,
        "It runs on the host's own processor, so it cannot free it.");
    SAY(out->text, c->part && !fed,
        "Of the host threads' time %.0f %% goes into %s.", 100 * c->part_share,
        part_words(c->part));
    if (bound == PROFILE_DATA)
        say_lack(c, out);
    SAY(out->text, fed, "It is fed with %d thread%s.", c->enough,
        profile_plural(c->enough));
    SAY(out->text,
        fed && c->other && c->other_enough > 0 && c->other_enough < c->enough,
        "%s would do it with %d thread%s.", c->other, c->other_enough,
        profile_plural(c->other_enough));
    SAY(out->text, alone,
        "Name a network's time with --consumer MS to see what would feed it.");
}

static void say_caution(const struct profile_case *c,
                        struct profile_advice *out)
{
    bool crowded = c->others > PROFILE_QUIET;

    SAY(out->caution, c->mismatch,
        "%s made wrong pictures and was left: see headrace validate.",
        c->mismatch);
    SAY(out->caution, crowded,
        "Measure again: other processes took %.0f %% of the machine.",
        100 * c->others);
    SAY(out->caution, !crowded && c->noise > PROFILE_QUIET,
        "Measure again, for longer: rounds differ by +-%.0f %%.",
        100 * c->noise);
}
#undef SAY

void profile_advise(const struct profile_case *c, struct profile_advice *out)
{
    enum profile_bound bound = profile_bound(c->consumer_ms, c->busy);

    *out = (struct profile_advice){.text = ""};
    say_headline(c, bound, out);
    say_text(c, bound, out);
    say_caution(c, out);
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
        return (double)NAN;
    for (size_t i = 0; i < n; i++) {
        edges[2 * i] = (struct edge){v[i].begin, v[i].kind, 1};
        edges[2 * i + 1] = (struct edge){v[i].end, v[i].kind, -1};
    }
    qsort(edges, 2 * n, sizeof(*edges), compare_edges);
    for (size_t i = 0; i < 2 * n; i++) {
        int busy = 0;

        for (int k = 0; k < 8; k++)
            busy += active[k] > 0;
        if (busy) {
            device += edges[i].at - last;
            hidden += busy > 1 || host > 0 ? edges[i].at - last : 0;
        }
        last = edges[i].at;
        if (edges[i].kind < 0)
            host += edges[i].step;
        else
            active[edges[i].kind & 7] += edges[i].step;
    }
    free(edges);
    return device > 0 ? hidden / device : (double)NAN;
}
