// SPDX-License-Identifier: Apache-2.0
// The charts of the page.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile.h"

// Apart: what is to be had with better sources and decoders would make all
// other bars look alike.
static bool is_headroom(const struct profile_config *c)
{
    return c->mode == PROFILE_MEMORY || c->mode == PROFILE_DECODED;
}

// Short: a telephone shows 22 letters.
static void bar_name(char *out, size_t size, const struct profile_config *c)
{
    if (c->mode == PROFILE_PLANNED)
        snprintf(out, size, "%s, %d thread%s", c->device, c->threads,
                 c->threads == 1 ? "" : "s");
    else
        snprintf(out, size, "%s, %s", c->device, profile_modes[c->mode]);
}

void profile_chart_speed(const struct profile *p, struct report *r,
                         bool headroom)
{
    char names[PROFILE_CONFIGS][160], text[256];
    const char *labels[PROFILE_CONFIGS];
    double values[PROFILE_CONFIGS], low[PROFILE_CONFIGS], high[PROFILE_CONFIGS];
    int groups[PROFILE_CONFIGS];
    const struct profile_config *one = profile_find(p, profile_cpu(p),
                                                    PROFILE_PLANNED, 1);
    int n = 0, most = profile_most_threads(p);

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_WATCHED || is_headroom(c) != headroom)
            continue;
        bar_name(names[n], sizeof(names[n]), c);
        labels[n] = names[n];
        values[n] = one->rate > 0 ? c->rate / one->rate : NAN;
        low[n] = one->rate > 0 ? c->lowest / one->rate : NAN;
        high[n] = one->rate > 0 ? c->highest / one->rate : NAN;
        groups[n++] = c->backend;
    }
    snprintf(text, sizeof(text),
             "%s; %d thread%s. Thin lines: from the slowest round to the "
             "fastest.",
             headroom ? "Memory: a source that costs nothing. Decoded: decode "
                        "is done already"
                      : "A batch is one job",
             most, most == 1 ? "" : "s");
    report_chart(r,
                 &(struct report_chart){
                     .kind = REPORT_ROWS,
                     .title = headroom ? "Headroom: the most a faster source "
                                         "or decoder could bring"
                                       : "Speed-up against one CPU thread",
                     .text = text,
                     .y_title = "times one CPU thread",
                     .labels = labels,
                     .num_labels = n});
    report_series(r, "speed-up", values, n);
    report_series_groups(r, groups, n);
    report_series_range(r, low, high, n);
}

void profile_chart_scaling(const struct profile *p, struct report *r)
{
    report_chart(r, &(struct report_chart){.kind = REPORT_LINES,
                                           .title = "Thread scaling",
                                           .x_title = "host threads",
                                           .y_title = "pictures per second"});
    for (int b = 0; b < p->opt.num_backends; b++) {
        double x[PROFILE_THREADS + 1], y[PROFILE_THREADS + 1];
        int n = 0;

        for (int i = 0; i < p->num_configs; i++)
            if (p->configs[i].backend == b &&
                p->configs[i].mode == PROFILE_PLANNED) {
                x[n] = p->configs[i].threads;
                y[n++] = p->configs[i].rate;
            }
        report_points(r, p->opt.backends[b], x, y, n);
    }
}

struct bars {
    char names[2 * PROFILE_BACKENDS][160];
    const char *labels[2 * PROFILE_BACKENDS];
    int of[PROFILE_BACKENDS][2];  // bar of host threads and device; -1: none
    int n;
};

static void find_bars(const struct profile *p, struct bars *bars)
{
    for (int b = 0; b < p->opt.num_backends; b++)
        for (int device = 0; device < 2; device++) {
            bool any = false;

            for (int i = 0; i < p->watch[b].num_parts; i++)
                any |= p->watch[b].parts[i].device == device;
            bars->of[b][device] = any ? bars->n : -1;
            if (!any)
                continue;
            snprintf(bars->names[bars->n], sizeof(bars->names[0]), "%s: %s",
                     p->opt.backends[b], device ? "device" : "host threads");
            bars->labels[bars->n] = bars->names[bars->n];
            bars->n++;
        }
}

// ms per 1000 pictures of a part, per bar; their sum.
static double part_values(const struct profile *p, const struct bars *bars,
                          const char *name, double *values)
{
    double sum = 0;

    for (int b = 0; b < p->opt.num_backends; b++)
        for (int i = 0; i < p->watch[b].num_parts; i++) {
            const struct profile_part *at = &p->watch[b].parts[i];
            double ms = !strcmp(name, at->name) ? at->ms_per_1000 : 0;

            values[bars->of[b][at->device]] += ms;
            sum += ms;
        }
    return sum;
}

// One bar per backend and kind of time, cut into its parts.
void profile_chart_parts(const struct profile *p, struct report *r)
{
    struct bars bars = {.n = 0};

    find_bars(p, &bars);
    if (!bars.n)
        return;
    report_chart(r, &(struct report_chart){
                        .kind = REPORT_ROWS,
                        .title = "Where the time goes",
                        .text = "Time by the clock; what runs side by side is "
                                "added up.",
                        .y_title = "ms per 1000 pictures",
                        .labels = bars.labels,
                        .num_labels = bars.n});
    for (int part = 0; part < HR_NUM_PARTS; part++) {
        double values[2 * PROFILE_BACKENDS] = {0};
        const char *name = hr_part_name((enum hr_part)part);

        if (part_values(p, &bars, name, values) > 0)
            report_series(r, name, values, bars.n);
    }
}
