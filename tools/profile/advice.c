// SPDX-License-Identifier: Apache-2.0
// From numbers to sentences. Nothing here measures: tests give it numbers.
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

// Number n takes the place of another one with the chance that it should have.
void profile_keep(struct profile_latencies *l, double ms)
{
    uint64_t at = l->seen;

    // Of no period, so that what is slow every so often is kept as often.
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

// ---- The advice ------------------------------------------------------------

// What would take a part off the host.
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

struct value {
    const char *name;
    char text[112];
};

static const char *part_words(const char *part)
{
    return part && !strcmp(part, "entropy") ? "entropy decoding" : part;
}

static void values_of(const struct profile_case *c, struct value *v)
{
#define VALUE(n, ...) \
    (v->name = (n), (void)snprintf(v->text, sizeof(v->text), __VA_ARGS__), v++)
#define WORD(n, word) VALUE(n, "%s", (word) ? (word) : "")
#define THREADS(name, n) VALUE(name, "%d thread%s", n, (n) == 1 ? "" : "s")
    VALUE("others", "%.0f", 100 * c->others);
    WORD("backend", c->backend);
    WORD("other", c->other);
    WORD("mismatch", c->mismatch);
    WORD("part", part_words(c->part));
    WORD("offload", offload(c->part));
    THREADS("threads", c->threads);
    THREADS("enough", c->enough);
    THREADS("fewer", c->other_enough);
    VALUE("rate", "%.0f", c->rate);
    VALUE("need", "%.0f", c->need);
    VALUE("fed", "%.0f", c->need > 0 ? 100 * c->rate / c->need : 0);
    VALUE("gain", "%.2f",
          c->best_cpu_rate > 0 ? c->rate / c->best_cpu_rate : 0);
    VALUE("cores", "%.1f", c->need * c->cost);
    VALUE("busy", "%.0f", 100 * c->busy);
    VALUE("share", "%.0f", 100 * c->part_share);
    VALUE("noise", "%.0f", 100 * c->noise);
}

// A line of advice, and whether it is said. A name in braces stands for a value.
struct line {
    bool is;
    const char *text;
};

// Adds a line, with its values.
static void say(FILE *to, const char *text, const struct value *v)
{
    for (; *text; text++) {
        size_t n = strcspn(text + 1, "}"), i = 0;

        if (*text != '{') {
            fputc(*text, to);
            continue;
        }
        while (v[i].name && (strncmp(text + 1, v[i].name, n) || v[i].name[n]))
            i++;
        fputs(v[i].name ? v[i].text : "?", to);
        text += n + 1;
    }
}

// Those that are the case, in their order.
static void say_all(char *out, size_t size, const struct line *lines, size_t n,
                    const struct value *values)
{
    FILE *to = fmemopen(out, size - 1, "w");
    const char *before = "";

    out[0] = out[size - 1] = '\0';
    for (size_t i = 0; to && i < n; i++)
        if (lines[i].is) {
            fputs(before, to);
            say(to, lines[i].text, values);
            before = " ";
        }
    if (to)
        fclose(to);
}
#define SAY(out, lines, values) \
    say_all(out, sizeof(out), lines, sizeof(lines) / sizeof(*lines), values)

static void say_headline(const struct profile_case *c, enum profile_bound bound,
                         const struct value *values, struct profile_advice *out)
{
    bool cpu = !strcmp(c->backend, "cpu"), alone = bound == PROFILE_NO_CONSUMER;
    const struct line lines[] = {
        {bound == PROFILE_DATA, "The data side is the limit: {backend} feeds "
                                "{fed} % of what the consumer takes"},
        {bound == PROFILE_CONSUMER,
         "The consumer is the limit: {backend} kept it {busy} % busy"},
        {alone && cpu, "The CPU with {threads} is the fastest here: {rate} "
                       "pictures per second"},
        {alone && !cpu, "{backend} makes {gain} times the pictures of the "
                        "CPU's best: {rate} per second"},
    };

    SAY(out->headline, lines, values);
}

static void say_text(const struct profile_case *c, enum profile_bound bound,
                     const struct value *values, struct profile_advice *out)
{
    bool data = bound == PROFILE_DATA, fed = bound == PROFILE_CONSUMER;
    bool alone = bound == PROFILE_NO_CONSUMER;
    bool other = c->other && c->other_enough > 0;
    bool engine = data && !other && offload(c->part);
    // If the largest part cost the host nothing.
    bool feeds = c->rate >= c->need * (1 - c->part_share);
    const struct line lines[] = {
        {data, "With {threads} it made {rate} of {need} pictures per second."},
        {alone && c->software,
         "It runs on the host's own processor, so it cannot free it."},
        {c->part && !fed,
         "Of the host threads' time {share} % goes into {part}."},
        {data && c->enough > 0 && c->enough <= c->cores,
         "To feed it takes about {cores} cores, so {enough}."},
        {data && c->enough > c->cores,
         "To feed it takes about {cores} cores, so {enough}: more than this "
         "machine has cores."},
        {data && c->enough == 0, "More threads do not help."},
        {data && c->enough == PROFILE_UNKNOWN,
         "How many threads would feed it cannot be told while other processes "
         "take {others} % of the machine."},
        {data && other, "{other} with {fewer} would feed it."},
        {engine && feeds, "An engine with {offload} would feed it."},
        {engine && !feeds && c->enough <= 0,
         "An engine with {offload} would help, but not feed it."},
        {fed, "It is fed with {enough}."},
        {fed && other && c->other_enough < c->enough,
         "{other} would do it with {fewer}."},
        {alone, "Name a network's time with --consumer MS to see what would "
                "feed it."},
    };

    SAY(out->text, lines, values);
}

static void say_caution(const struct profile_case *c,
                        const struct value *values, struct profile_advice *out)
{
    bool crowded = c->others > PROFILE_QUIET;
    const struct line lines[] = {
        {c->mismatch, "{mismatch} made wrong pictures and was left: see "
                      "headrace validate."},
        {crowded,
         "Measure again: other processes took {others} % of the machine."},
        {!crowded && c->noise > PROFILE_QUIET,
         "Measure again, for longer: rounds differ by +-{noise} %."},
    };

    SAY(out->caution, lines, values);
}

void profile_advise(const struct profile_case *c, struct profile_advice *out)
{
    enum profile_bound bound = profile_bound(c->consumer_ms, c->busy);
    struct value values[24] = {{.name = NULL}};

    values_of(c, values);
    say_headline(c, bound, values, out);
    say_text(c, bound, values, out);
    say_caution(c, values, out);
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
    return device > 0 ? hidden / device : (double)NAN;
}
