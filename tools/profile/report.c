// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

#define MIB (1.0 / (1 << 20))

// What the consumer got, as the headline has it.
static void fed_figure(const struct profile *p, struct report *r, int b,
                       enum report_tone *tone)
{
    const struct profile_config *c = profile_best_of(p, b);
    bool fed = profile_bound(p->opt.consumer_ms, c->busy) == PROFILE_CONSUMER;
    char value[32], note[192];

    snprintf(value, sizeof(value), "%.0f %%",
             100 * (fed ? c->busy : c->fed_rate / profile_need(p)));
    snprintf(note, sizeof(note), "by %s, %d thread%s", c->device, c->threads,
             c->threads == 1 ? "" : "s");
    report_figure(r, "consumer fed", value, note);
    if (fed)
        *tone = REPORT_GOOD;
    else if (*tone == REPORT_PLAIN)
        *tone = REPORT_WARN;
}

// Rates with most threads. *tone is good if one of them feeds the consumer.
static void backend_figures(const struct profile *p, struct report *r, int b,
                            enum report_tone *tone)
{
    const struct profile_config *one = profile_find(p, profile_cpu(p),
                                                    PROFILE_PLANNED, 1);
    const struct profile_config *c = profile_find(p, b, PROFILE_PLANNED,
                                                  profile_most_threads(p));
    char value[32], note[192];

    report_fact(r, c->device, "%s", c->description);
    snprintf(value, sizeof(value), "%.0f img/s", c->rate);
    snprintf(note, sizeof(note), "%d thread%s, %.2f times one CPU thread",
             c->threads, c->threads == 1 ? "" : "s",
             one->rate > 0 ? c->rate / one->rate : 0);
    report_figure(r, c->device, value, note);
    if (c->rungs[0])
        report_fact(r, "between engines",
                    "%s; %.1f KiB per picture imported, %.0f falls", c->rungs,
                    c->imported_per_image / 1024, c->import_falls);
    if (p->opt.consumer_ms > 0)
        fed_figure(p, r, b, tone);
}

static void head(struct profile *p, struct report *r)
{
    enum report_tone tone = REPORT_PLAIN;
    char text[768];

    for (int b = 0; b < p->opt.num_backends; b++)
        backend_figures(p, r, b, &tone);
    report_fact(r, "pictures", "%.0f, batches of %d", p->configs[0].pictures,
                p->configs[0].batch);
    if (profile_failing(p) > 0)
        report_fact(r, "cannot be made",
                    "%.3g %% of them: they take time, but do not count",
                    100 * profile_failing(p));
    if (p->in.num_faults)
        report_fact(r, "could not be read", "%zu", p->in.num_faults);
    report_fact(r, "ops", "%s", p->opt.run.ops_text);
    report_fact(
        r, "noise",
        "rounds differ by up to \u00b1%.0f %%, other processes took %.0f %% "
        "of the machine",
        100 * p->noise, 100 * p->others);
    report_verdict(r, tone, p->advice.headline);
    report_verdict_text(r, p->advice.text);
    if (p->advice.caution[0])
        report_note(r, REPORT_WARN, "%s", p->advice.caution);
    for (int i = 0; i < p->num_losses; i++) {
        profile_loss_text(&p->losses[i], text, sizeof(text));
        report_note(r, REPORT_BAD, "Left out: %s.", text);
    }
}

static void table_row(const struct profile *p, struct report *r,
                      const struct profile_config *c, bool imports)
{
    double one = profile_find(p, profile_cpu(p), PROFILE_PLANNED, 1)->rate;
    double best = profile_best_cpu(p)->rate;
    const double numbers[] = {c->rate,
                              100 * c->noise,
                              one > 0 ? c->rate / one : (double)NAN,
                              best > 0 ? c->rate / best : (double)NAN,
                              c->p50,
                              c->p99,
                              c->cpu_per_1000,
                              c->bytes_per_image / 1024,
                              c->launches_per_batch,
                              c->peak_rss * MIB,
                              profile_fallback_percent(c),
                              c->imported_per_image / 1024};
    size_t n = sizeof(numbers) / sizeof(*numbers) - !imports;

    report_text_cell(r, "%s", c->device);
    report_number_cell(r, c->threads);
    report_text_cell(r, "%s", profile_modes[c->mode]);
    for (size_t k = 0; k < n; k++)
        report_number_cell(r, numbers[k]);
}

static void passed_on(const struct profile_config *c, struct report *r)
{
    char text[640];

    profile_why_text(c, text, sizeof(text));
    if (*text && c->mode == PROFILE_PLANNED)
        report_text(r,
                    "%s, %d thread%s: handed to the next engine: %s of the "
                    "pictures.",
                    c->device, c->threads, c->threads == 1 ? "" : "s", text);
}

static void table(struct profile *p, struct report *r)
{
    static const struct report_column columns[] = {
        {.title = "device"},
        {.title = "threads", .number = true},
        {.title = "mode"},
        {.title = "img/s", .number = true, .digits = 0},
        {.title = "\u00b1 %", .number = true, .digits = 0},
        {.title = "\u00d7 one thread", .number = true, .digits = 2},
        {.title = "\u00d7 best CPU", .number = true, .digits = 2},
        {.title = "p50 ms", .number = true, .auto_digits = true},
        {.title = "p99 ms", .number = true, .auto_digits = true},
        {.title = "CPU-s/1k", .number = true, .auto_digits = true},
        {.title = "KiB/img", .number = true, .digits = 0},
        {.title = "launches", .number = true, .digits = 1},
        {.title = "MiB", .number = true, .digits = 0},
        {.title = "fallback", .number = true, .digits = 1, .unit = " %"},
        // Last, for it is left out where nothing is; so few machines import
        // that it would only take the room.
        {.title = "imported", .number = true, .digits = 0},
    };
    bool imports = false;

    for (int i = 0; i < p->num_configs; i++)
        imports |= p->configs[i].imported_per_image > 0;
    report_text(
        r,
        "\u00b1 %%: half the spread of the rounds. \u00d7 one thread, \u00d7 "
        "best CPU: times the rate of one CPU thread, of the CPU with "
        "the best number of threads. p50, "
        "p99: from submission to end of a batch. CPU-s/1k: CPU seconds "
        "of the process per 1000 pictures. KiB/img: to the device and "
        "back. launches: of kernels, per batch. MiB: peak host memory "
        "of the process. fallback: pictures of which an engine left a "
        "part to the next one or the CPU.%s",
        imports ? " imported: KiB of each that one device read in the "
                  "memory of another, past the host."
                : "");
    report_table(r, "Measured", columns,
                 (int)(sizeof(columns) / sizeof(*columns)) - !imports);
    for (int i = 0; i < p->num_configs; i++)
        if (p->configs[i].mode != PROFILE_WATCHED)
            table_row(p, r, &p->configs[i], imports);
    for (int i = 0; i < p->num_configs; i++)
        passed_on(&p->configs[i], r);
}

// The "6 instead of 12" number.
static void threads_enough(const struct profile *p, struct report *r)
{
    for (int b = 0; b < p->opt.num_backends; b++) {
        char text[128];
        bool measured;
        int n = profile_enough(p, b, &measured);

        profile_enough_text(p->opt.backends[b], n, measured, profile_cores(),
                            text, sizeof(text));
        report_text(r, "%s.", text);
    }
}

static void consumer(struct profile *p, struct report *r)
{
    static const struct report_column columns[] = {
        {.title = "device"},
        {.title = "threads", .number = true},
        {.title = "img/s", .number = true, .digits = 1},
        {.title = "consumer busy",
         .number = true,
         .bars = true,
         .digits = 1,
         .unit = " %"},
    };
    char load[48] = "", late[PROFILE_LATE];

    if (p->opt.consumer_ms <= 0)
        return;
    profile_late_text(p, late);
    if (p->opt.consumer_cpu)
        snprintf(load, sizeof(load), " and %d %% of a core meanwhile",
                 p->opt.consumer_cpu);
    report_section(r, "Beside a network", NULL);
    report_text(r,
                "A consumer that takes %g ms per batch%s: %.0f pictures per "
                "second at most. %s%sAt 97 %% busy it is the bottleneck.",
                p->opt.consumer_ms, load, profile_need(p), late,
                *late ? " " : "");
    report_table(r, "How busy it is kept", columns, 4);
    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->mode != PROFILE_PLANNED)
            continue;
        report_text_cell(r, "%s", c->device);
        report_number_cell(r, c->threads);
        report_number_cell(r, c->fed_rate);
        report_number_cell(r, 100 * c->busy);
        report_tone_row(r, profile_bound(p->opt.consumer_ms, c->busy) ==
                                   PROFILE_CONSUMER
                               ? REPORT_GOOD
                               : REPORT_PLAIN);
    }
    threads_enough(p, r);
}

// Of the worker threads, on average.
static double on_a_core(const struct profile_watch *w)
{
    double sum = 0;

    for (int i = 0; i < w->num_workers; i++)
        sum += w->worker_cpu[i] / w->num_workers;
    return sum;
}

static void facts(struct profile *p, struct report *r)
{
    static const struct report_column columns[] = {
        {.title = "device"},
        {.title = "jobs in flight", .number = true, .digits = 1},
        {.title = "queue empty", .number = true, .digits = 0, .unit = " %"},
        {.title = "submitting", .number = true, .digits = 0, .unit = " %"},
        {.title = "waiting for results",
         .number = true,
         .digits = 0,
         .unit = " %"},
        {.title = "workers idle", .number = true, .digits = 0, .unit = " %"},
        {.title = "on a core", .number = true, .digits = 0, .unit = " %"},
        {.title = "hidden", .number = true, .digits = 0, .unit = " %"},
    };

    report_table(r, "Queue and waiting", columns, 8);
    for (int b = 0; b < p->opt.num_backends; b++) {
        const struct profile_watch *w = &p->watch[b];

        report_text_cell(r, "%s", p->opt.backends[b]);
        report_number_cell(r, w->occupancy);
        report_number_cell(r, 100 * w->empty);
        report_number_cell(r, 100 * w->wait_submit);
        report_number_cell(r, 100 * w->wait_results);
        report_number_cell(r, 100 * w->idle);
        report_number_cell(r, 100 * on_a_core(w));
        report_number_cell(r, w->overlap >= 0 ? 100 * w->overlap : (double)NAN);
    }
    report_text(r,
                "Submitting and waiting: of the time of the thread that does "
                "both. Workers that are neither idle nor on a core wait for "
                "one, or for a disk. Hidden: the share of the device's and "
                "copies' time in which something else was at work, too.");
}

bool profile_report(struct profile *p)
{
    struct report *r;
    bool ok;

    if (!p->opt.report)
        return true;
    r = report_new("headrace profile", p->argc, p->argv);
    head(p, r);
    report_section(r, "Speed", NULL);
    profile_chart_speed(p, r, false);
    profile_chart_speed(p, r, true);
    if (p->opt.num_threads > 1)
        profile_chart_scaling(p, r);
    table(p, r);
    consumer(p, r);
    report_section(r, "Where the time goes", NULL);
    profile_chart_parts(p, r);
    facts(p, r);
    ok = report_write(r, p->opt.report);
    if (!ok)
        tools_warn("%s: cannot be written: %s", p->opt.report, strerror(errno));
    report_free(&r);
    return ok;
}
