// SPDX-License-Identifier: Apache-2.0
// The page.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

// ---- The head --------------------------------------------------------------

// Rates with most threads; what the consumer got, as the headline has it.
static void figures(const struct profile *p, struct report *r, int b)
{
    const struct profile_config *c = profile_find(p, b, PROFILE_PLANNED,
                                                  profile_most_threads(p));
    char value[32], note[192];

    report_fact(r, c->device, "%s", c->description);
    snprintf(value, sizeof(value), "%.0f img/s", c->rate);
    snprintf(note, sizeof(note), "%d thread%s, %.2f times one CPU thread",
             c->threads, profile_plural(c->threads), c->times_one);
    report_figure(r, c->device, value, note);
    if (p->opt.consumer_ms <= 0)
        return;
    c = profile_best_of(p, b);
    snprintf(value, sizeof(value), "%.0f %%", 100 * c->busy);
    snprintf(note, sizeof(note), "by %s, %d thread%s", c->device, c->threads,
             profile_plural(c->threads));
    report_figure(r, "consumer busy", value, note);
}

// Good if one of the backends feeds the consumer.
static enum report_tone tone_of(const struct profile *p)
{
    for (int b = 0; b < p->opt.num_backends; b++)
        if (profile_bound(p->opt.consumer_ms, profile_best_of(p, b)->busy) ==
            PROFILE_CONSUMER)
            return REPORT_GOOD;
    return p->opt.consumer_ms > 0 ? REPORT_WARN : REPORT_PLAIN;
}

static void head(struct profile *p, struct report *r)
{
    for (int b = 0; b < p->opt.num_backends; b++)
        figures(p, r, b);
    report_fact(r, "pictures", "%.0f, batches of %d", p->configs[0].pictures,
                p->configs[0].batch);
    report_fact(r, "ops", "%s", p->opt.run.ops_text);
    report_verdict(r, tone_of(p), p->advice.headline);
    report_verdict_text(r, p->advice.text);
    if (p->advice.caution[0])
        report_note(r, REPORT_WARN, "%s", p->advice.caution);
}

// ---- Tables ----------------------------------------------------------------

// The terminal's tables.
static void table(const struct profile *p, struct report *r,
                  const char *caption, const struct profile_column *columns,
                  const struct profile_row *rows, int n)
{
    struct report_column heads[24] = {{.title = "device"}};
    int num = 1;

    for (const struct profile_column *c = columns; c->key || c->title; c++)
        if (c->title)
            heads[num++] = (struct report_column){.title = c->title,
                                                  .number = true,
                                                  .digits = c->digits};
    report_table(r, caption, heads, num);
    for (int i = 0; i < n; i++) {
        const struct profile_config *config = rows[i].values;

        report_text_cell(r, "%s", rows[i].label);
        for (const struct profile_column *c = columns; c->key || c->title; c++)
            if (c->title)
                report_number_cell(r, profile_value(c, config));
        if (columns == profile_beside)
            report_tone_row(r, profile_bound(p->opt.consumer_ms,
                                             config->busy) == PROFILE_CONSUMER
                                   ? REPORT_GOOD
                                   : REPORT_PLAIN);
    }
}

// A paragraph for each line.
static void notes(const struct profile *p, struct report *r,
                  void (*write)(const struct profile *, FILE *))
{
    char *text = NULL, *save = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    if (to) {
        write(p, to);
        fclose(to);
    }
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save))
        report_text(r, "%s", line);
    free(text);
}

// ---- Charts ----------------------------------------------------------------

static void chart_speed(const struct profile *p, struct report *r)
{
    struct profile_row rows[PROFILE_CONFIGS];
    const char *labels[PROFILE_CONFIGS];
    double values[PROFILE_CONFIGS], low[PROFILE_CONFIGS], high[PROFILE_CONFIGS];
    int groups[PROFILE_CONFIGS], n = profile_config_rows(p, true, rows);
    double one = profile_find(p, PROFILE_CPU, PROFILE_PLANNED, 1)->rate;

    for (int i = 0; i < n; i++) {
        const struct profile_config *c = rows[i].values;

        labels[i] = rows[i].label;
        values[i] = one > 0 ? c->rate / one : (double)NAN;
        low[i] = one > 0 ? c->lowest / one : (double)NAN;
        high[i] = one > 0 ? c->highest / one : (double)NAN;
        groups[i] = c->backend;
    }
    report_chart(r, &(struct report_chart){
                        .kind = REPORT_ROWS,
                        .title = "Speed-up against one CPU thread",
                        .text = "Thin lines: from the slowest round to the "
                                "fastest.",
                        .y_title = "times one CPU thread",
                        .labels = labels,
                        .num_labels = n});
    report_series(r, "speed-up", values, n);
    report_series_groups(r, groups, n);
    report_series_range(r, low, high, n);
}

static void chart_scaling(const struct profile *p, struct report *r)
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

// ms per 1000 pictures of a backend's host threads or of its device. name: of
// one part; NULL: of all.
static double part_time(const struct profile_watch *w, bool device,
                        const char *name)
{
    double sum = 0;

    for (int i = 0; i < w->num_parts; i++)
        if (w->parts[i].device == device &&
            (!name || !strcmp(name, w->parts[i].name)))
            sum += w->parts[i].ms_per_1000;
    return sum;
}

// A bar for each backend's host threads, one for its device, cut into parts.
static void chart_parts(const struct profile *p, struct report *r)
{
    char names[2 * PROFILE_BACKENDS][160];
    const char *labels[2 * PROFILE_BACKENDS];
    int bars[2 * PROFILE_BACKENDS], n = 0;

    for (int i = 0; i < 2 * p->opt.num_backends; i++)
        if (part_time(&p->watch[i / 2], i % 2, NULL) > 0) {
            snprintf(names[n], sizeof(names[n]), "%s: %s",
                     p->opt.backends[i / 2], i % 2 ? "device" : "host threads");
            labels[n] = names[n];
            bars[n++] = i;
        }
    report_chart(r, &(struct report_chart){
                        .kind = REPORT_ROWS,
                        .title = "Where the time goes",
                        .text = "Time by the clock; what runs side by side is "
                                "added up.",
                        .y_title = "ms per 1000 pictures",
                        .labels = labels,
                        .num_labels = n});
    for (int part = 0; part < HR_NUM_PARTS; part++) {
        double values[2 * PROFILE_BACKENDS], sum = 0;
        const char *name = hr_part_name((enum hr_part)part);

        for (int k = 0; k < n; k++)
            sum += values[k] = part_time(&p->watch[bars[k] / 2], bars[k] % 2,
                                         name);
        if (sum > 0)
            report_series(r, name, values, n);
    }
}

// ---- All of it -------------------------------------------------------------

bool profile_report(struct profile *p)
{
    struct profile_row rows[PROFILE_CONFIGS];
    struct report *r;
    bool ok;

    if (!p->opt.report)
        return true;
    r = report_new("headrace profile", p->argc, p->argv);
    head(p, r);
    report_section(r, "Speed", NULL);
    chart_speed(p, r);
    if (p->opt.num_threads > 1)
        chart_scaling(p, r);
    report_text(r, "%s", profile_legend);
    table(p, r, "Measured", profile_rates, rows,
          profile_config_rows(p, false, rows));
    notes(p, r, profile_notes);
    if (p->opt.consumer_ms > 0) {
        report_section(r, "Beside a network", NULL);
        table(p, r, "How busy it is kept", profile_beside, rows,
              profile_config_rows(p, true, rows));
        notes(p, r, profile_beside_notes);
    }
    report_section(r, "Where the time goes", NULL);
    chart_parts(p, r);
    table(p, r, "Queue and waiting", profile_waits, rows,
          profile_backend_rows(p, p->watch, sizeof(p->watch[0]), rows));
    report_text(r, "%s", profile_waits_legend);
    report_section(r, "The queue of a loader", NULL);
    profile_queue_page(p, r);
    table(p, r, "Queue and settings", profile_queues, rows,
          profile_backend_rows(p, p->queues, sizeof(p->queues[0]), rows));
    report_text(r, "%s", profile_queues_legend);
    notes(p, r, profile_queue_notes);
    ok = report_write(r, p->opt.report);
    if (!ok)
        tools_warn("%s: cannot be written: %s", p->opt.report, strerror(errno));
    report_free(&r);
    return ok;
}
