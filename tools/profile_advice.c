// SPDX-License-Identifier: Apache-2.0
// From numbers to a sentence. Nothing here measures: tests give it numbers.
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
                           double need, bool *measured)
{
    double per_thread, last;

    *measured = true;
    for (int i = 0; i < n; i++)
        if (rates[i] >= need)
            return threads[i];
    *measured = false;
    if (n < 1 || rates[n - 1] <= 0)
        return 0;
    last = rates[n - 1];
    // One point: as if it grew in proportion. More: as the last step did.
    per_thread = n > 1 ? (last - rates[n - 2]) /
                             (double)(threads[n - 1] - threads[n - 2])
                       : last / (double)threads[0];
    // Noise is no growth.
    if (per_thread < 0.05 * last / (double)threads[n - 1])
        return 0;
    return threads[n - 1] + (int)ceil((need - last) / per_thread - 1e-9);
}

const char *profile_largest_part(const struct profile_watch *w, double *share)
{
    bool cut = w->entropy > 0.5;
    double sum = 0, entropy = 0, largest = 0;
    const char *name = NULL;

    for (int i = 0; i < w->num_parts; i++) {
        const struct profile_part *part = &w->parts[i];
        double ms = part->ms_per_1000;

        if (part->device)
            continue;
        sum += ms;
        if (!strcmp(part->name, "entropy")) {
            entropy += ms;
        } else if (!strcmp(part->name, "decode") && cut) {
            entropy += ms * w->entropy;
        } else if (ms > largest) {
            largest = ms;
            name = part->name;
        }
    }
    if (entropy > largest) {
        largest = entropy;
        name = "entropy decoding";
    }
    *share = sum > 0 ? largest / sum : 0;
    return name;
}

void profile_enough_text(const char *backend, int threads, bool measured,
                         int cores, char *out, size_t size)
{
    if (!threads)
        snprintf(out, size, "%s: more threads do not keep it fed", backend);
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

// "12 more threads", or how many cores that would take.
static void more_threads(const struct profile_case *c, char *out, size_t size)
{
    int more = c->enough - c->threads;

    snprintf(out, size, "about %d more thread%s%s", more, more == 1 ? "" : "s",
             c->enough > c->cores ? " (more cores than this machine has)" : "");
}

static void advise_data(const struct profile_case *c, char *out, size_t size)
{
    char part[128] = "", threads[96], or_else[160] = "";
    bool feeds = true;

    if (c->part)
        snprintf(part, sizeof(part),
                 ": %s takes %.0f %% of the host threads' time", c->part,
                 100 * c->part_share);
    if (c->other && c->other_enough)
        snprintf(or_else, sizeof(or_else), "%s with %d thread%s", c->other,
                 c->other_enough, c->other_enough == 1 ? "" : "s");
    else if (c->offload) {
        feeds = without_part(c) >= c->need;
        snprintf(or_else, sizeof(or_else), "an engine with %s", c->offload);
    }
    more_threads(c, threads, sizeof(threads));
    snprintf(out, size,
             "The data side is the limit%s; %s kept the consumer %.0f %% busy "
             "with %d thread%s (%.0f of %.0f pictures per second); %s%s%s%s.",
             part, c->backend, 100 * c->busy, c->threads,
             c->threads == 1 ? "" : "s", c->rate, c->need,
             c->enough ? threads : "more threads do not help",
             !or_else[0] || (!feeds && c->enough) ? ""
             : c->enough                          ? " or "
                                                  : ", but ",
             feeds || !c->enough ? or_else : "",
             !feeds && !c->enough      ? " would help, not feed it"
             : c->enough || or_else[0] ? " would feed it"
                                       : "");
}

static void advise_consumer(const struct profile_case *c, char *out,
                            size_t size)
{
    char other[160] = "";

    if (c->other && c->other_enough && c->other_enough < c->enough)
        snprintf(other, sizeof(other), "; %s would do it with %d", c->other,
                 c->other_enough);
    snprintf(out, size,
             "The consumer is the limit: %s kept it %.0f %% busy; %d thread%s "
             "suffice%s%s.",
             c->backend, 100 * c->busy, c->enough, c->enough == 1 ? "" : "s",
             c->enough == 1 ? "s" : "", other);
}

static void advise_alone(const struct profile_case *c, char *out, size_t size)
{
    char part[128] = "";
    double gain = c->best_cpu_rate > 0 ? c->rate / c->best_cpu_rate : 0;

    if (c->part)
        snprintf(part, sizeof(part),
                 " Of the host threads' time %s takes %.0f %%.", c->part,
                 100 * c->part_share);
    if (!strcmp(c->backend, "cpu"))
        snprintf(out, size,
                 "The CPU with %d thread%s is the fastest here (%.0f pictures "
                 "per second).%s Name a network's time with --consumer MS to "
                 "see what would feed it.",
                 c->threads, c->threads == 1 ? "" : "s", c->rate, part);
    else
        snprintf(out, size,
                 "%s makes %.2f times the pictures of the CPU's best (%.0f per "
                 "second)%s.%s Name a network's time with --consumer MS to see "
                 "what would feed it.",
                 c->backend, gain, c->rate,
                 c->software ? "; it runs on the host's own processor, so it "
                               "cannot free it"
                             : "",
                 part);
}

static void caution(const struct profile_case *c, char *out, size_t size)
{
    size_t used = strlen(out);

    if (c->liar) {
        used += (size_t)snprintf(out + used, size - used,
                                 " %s made wrong pictures and was left: see "
                                 "headrace validate.",
                                 c->liar);
        used = used < size ? used : size - 1;
    }
    if (c->others > PROFILE_QUIET)
        snprintf(out + used, size - used,
                 " Measure again: other processes took %.0f %% of the machine.",
                 100 * c->others);
    else if (c->noise > PROFILE_QUIET)
        snprintf(out + used, size - used,
                 " Measure again, for longer: rounds differ by +-%.0f %%.",
                 100 * c->noise);
}

void profile_advise(const struct profile_case *c, char *out, size_t size)
{
    switch (profile_bound(c->consumer_ms, c->busy)) {
    case PROFILE_DATA:
        advise_data(c, out, size);
        break;
    case PROFILE_CONSUMER:
        advise_consumer(c, out, size);
        break;
    case PROFILE_NO_CONSUMER:
        advise_alone(c, out, size);
        break;
    }
    caution(c, out, size);
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
