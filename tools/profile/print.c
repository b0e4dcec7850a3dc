// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

#define MIB (1.0 / (1 << 20))

static const char *bound_name(const struct profile *p,
                              const struct profile_config *c)
{
    switch (profile_bound(p->opt.consumer_ms, c->busy)) {
    case PROFILE_DATA:
        return "data";
    case PROFILE_CONSUMER:
        return "consumer";
    case PROFILE_NO_CONSUMER:
        break;
    }
    return "-";
}

// ---- Tables ----------------------------------------------------------------

static const char legend[] =
    "\nplanned: a batch is one job; memory: planned, from a source that costs\n"
    "nothing; decoded: planned, with decode done already (both hold the\n"
    "pictures in memory). thr: host threads. +-%: half the spread of the\n"
    "rounds. p50, p99: from submission to end of a batch. CPU-s/1k: CPU\n"
    "seconds of the process per 1000 pictures. KiB/img: to the device and\n"
    "back; imp: KiB of each that one device read in the memory of another,\n"
    "past the host; launch: of kernels, per batch. peak MiB: host memory of\n"
    "the process. fallb %: pictures of which an engine left a part to the next\n"
    "one or the CPU. x 1thr, x CPU: times the rate of one CPU thread, of the\n"
    "CPU's best.";

// Columns of the longest name: a device may be several engines in a row.
static int name_width(const struct profile *p)
{
    size_t width = sizeof("device") - 1;

    for (int i = 0; i < p->num_configs; i++)
        if (strlen(p->configs[i].device) > width)
            width = strlen(p->configs[i].device);
    return (int)width;
}

static void rates(const struct profile *p)
{
    const struct profile_config *one = profile_find(p, profile_cpu(p),
                                                    PROFILE_PLANNED, 1);
    const struct profile_config *best = profile_best_cpu(p);
    int width = name_width(p);
    char fallback[32];

    printf("%-*s %3s %-8s %9s %5s %8s %8s %9s %9s %7s %7s %8s %7s %6s %6s\n",
           width, "device", "thr", "mode", "img/s", "+-%", "p50 ms", "p99 ms",
           "CPU-s/1k", "KiB/img", "imp", "launch", "peak MiB", "fallb %",
           "x 1thr", "x CPU");
    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_WATCHED)
            continue;
        snprintf(fallback, sizeof(fallback), "%.1f",
                 profile_fallback_percent(c));
        printf("%-*s %3d %-8s %9.1f %5.1f %8.2f %8.2f %9.3f %9.1f %7.1f %7.1f "
               "%8.1f %7s %6.2f %6.2f\n",
               width, c->device, c->threads, profile_modes[c->mode], c->rate,
               100 * c->noise, c->p50, c->p99, c->cpu_per_1000,
               c->bytes_per_image / 1024, c->imported_per_image / 1024,
               c->launches_per_batch, c->peak_rss * MIB, fallback,
               one->rate > 0 ? c->rate / one->rate : 0,
               best->rate > 0 ? c->rate / best->rate : 0);
    }
    puts(legend);
}

// A machine that has no core to spare cannot be loaded as was asked.
static void consumer_load(const struct profile *p)
{
    double least = HUGE_VAL, most = 0;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->mode != PROFILE_PLANNED)
            continue;
        least = fmin(least, c->consumer_cpu);
        most = fmax(most, c->consumer_cpu);
    }
    printf("It was given %.0f to %.0f %% of a core.\n", 100 * least,
           100 * most);
}

// What is behind the fallbacks, where they are most.
static void reasons(const struct profile *p)
{
    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];
        char text[640];

        profile_why_text(c, text, sizeof(text));
        if (*text && c->mode == PROFILE_PLANNED)
            printf("%s, %d thread%s: handed to the next engine: %s of the "
                   "pictures\n",
                   c->device, c->threads, c->threads == 1 ? "" : "s", text);
    }
}

static void losses(const struct profile *p)
{
    char text[768], line[4 * sizeof(text)];

    for (int i = 0; i < p->num_losses; i++) {
        profile_loss_text(&p->losses[i], text, sizeof(text));
        tools_escape(line, sizeof(line), text);
        printf("Left out: %s\n", line);
    }
}

// How a media engine's samples went on to the next engine.
static void rungs(const struct profile *p)
{
    const char *before = "\n";

    for (int b = 0; b < p->opt.num_backends; b++) {
        const struct profile_config *c = profile_find(p, b, PROFILE_PLANNED,
                                                      profile_most_threads(p));

        if (!c->rungs[0])
            continue;
        printf("%s%s: between its engines: %s; "
               "%.1f KiB per picture imported, %.0f falls\n",
               before, p->opt.backends[b], c->rungs,
               c->imported_per_image / 1024, c->import_falls);
        before = "";
    }
}

static void consumers(const struct profile *p)
{
    int width = name_width(p);
    char late[PROFILE_LATE];

    if (p->opt.consumer_ms <= 0)
        return;
    printf("\nA consumer of %g ms per batch of %.3g", p->opt.consumer_ms,
           profile_per_batch(p));
    if (p->opt.consumer_cpu)
        printf(", using %d %% of a core", p->opt.consumer_cpu);
    printf(" (at most %.1f img/s)\n\n", profile_need(p));
    printf("%-*s %3s %9s %8s %9s\n", width, "device", "thr", "img/s", "busy %",
           "bound");
    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_PLANNED)
            printf("%-*s %3d %9.1f %8.1f %9s\n", width, c->device, c->threads,
                   c->fed_rate, 100 * c->busy, bound_name(p, c));
    }
    if (p->opt.consumer_cpu)
        consumer_load(p);
    profile_late_text(p, late);
    printf("%s%s\n", late, *late ? "\n" : "");
    for (int b = 0; b < p->opt.num_backends; b++) {
        char text[128];
        bool measured;
        int n = profile_enough(p, b, &measured);

        profile_enough_text(p->opt.backends[b], n, measured, profile_cores(),
                            text, sizeof(text));
        puts(text);
    }
}

// What is neither is a thread that waits for a core or a disk.
static void workers(const struct profile_watch *w)
{
    double cpu = 0, rest;

    printf("  worker threads: on a core");
    for (int i = 0; i < w->num_workers; i++) {
        printf(" %.0f %%", 100 * w->worker_cpu[i]);
        cpu += w->worker_cpu[i] / w->num_workers;
    }
    rest = 1 - cpu - w->idle;
    printf(", idle %.0f %%", 100 * w->idle);
    if (rest > 0.05)
        printf(", waiting for a core or a disk %.0f %%", 100 * rest);
    puts(" of the time");
}

static void watched(const struct profile *p, int backend)
{
    const struct profile_watch *w = &p->watch[backend];

    if (!w->valid)
        return;
    printf("\nWhere the time goes on %s, %d thread%s (ms per 1000 pictures,\n"
           "share of the engine's)\n\n",
           p->opt.backends[backend], profile_most_threads(p),
           profile_most_threads(p) == 1 ? "" : "s");
    for (int i = 0; i < w->num_parts; i++) {
        const struct profile_part *part = &w->parts[i];

        printf("  %-12s %-12s %10.1f %5.1f %%  %s\n", part->engine, part->name,
               part->ms_per_1000, 100 * part->share,
               part->device ? "device's time" : "host threads, by the clock");
    }
    workers(w);
    printf("  queue: %.1f jobs in flight on average, empty %.0f %% of the "
           "time\n",
           w->occupancy, 100 * w->empty);
    printf("  waiting: %.0f %% to submit, %.0f %% for results\n",
           100 * w->wait_submit, 100 * w->wait_results);
    if (w->overlap >= 0)
        printf("  overlap: %.0f %% of the device's and copies' time is hidden "
               "behind other work\n",
               100 * w->overlap);
}

static int print_text(const struct profile *p)
{
    const struct profile_config *first = &p->configs[0];

    printf("%.0f picture%s, batches of %d, %d of them in flight, %s\n",
           first->pictures, first->pictures > 1 ? "s" : "", first->batch,
           first->ring, p->opt.run.ops_text);
    printf("Reference %s, %s.\n", hr_reference_name(hr_get_reference()),
           hr_jpeg_library());
    if (profile_failing(p) > 0)
        printf("%.3g %% of them cannot be made: they take time, but do not "
               "count as pictures\n",
               100 * profile_failing(p));
    if (p->in.num_faults)
        printf("%zu could not be read\n", p->in.num_faults);
    putchar('\n');
    rates(p);
    reasons(p);
    losses(p);
    rungs(p);
    consumers(p);
    for (int b = 0; b < p->opt.num_backends; b++)
        watched(p, b);
    printf("\nRounds differ by up to +-%.0f %%; other processes took %.0f %% "
           "of the machine%s.\n",
           100 * p->noise, 100 * p->others,
           p->noise > PROFILE_QUIET || p->others > PROFILE_QUIET
               ? ": measure again on a quiet one"
               : "");
    printf("\n%s.\n%s\n", p->advice.headline, p->advice.text);
    if (p->advice.caution[0])
        puts(p->advice.caution);
    return tools_flush_stdout();
}

// ---- JSON ------------------------------------------------------------------

static json_t *rungs_json(const struct profile_config *c)
{
    const struct profile_rung *r =
        c->rounds[c->num_rounds ? c->num_rounds - 1 : 0].rungs;
    json_t *json = json_object();

    for (int i = 0; i < HR_PROFILE_RUNGS && r[i].name[0]; i++)
        json_object_set_new(json, r[i].name, json_real(r[i].samples));
    return json;
}

static json_t *reasons_json(const struct profile_config *c)
{
    json_t *json = json_object();

    for (int bit = 0; bit < RUN_NUM_WHY; bit++)
        if (c->why[bit])
            json_object_set_new(json, hr_why_text(1u << bit),
                                json_integer((json_int_t)c->why[bit]));
    return json;
}

static json_t *config_json(const struct profile *p,
                           const struct profile_config *c)
{
    const struct profile_config *one = profile_find(p, profile_cpu(p),
                                                    PROFILE_PLANNED, 1);
    const struct profile_config *best = profile_best_cpu(p);
    json_t *json = json_pack(
        "{s:s s:s s:i s:i s:i s:f s:f s:f s:f s:f s:f s:f s:f s:I s:I s:I "
        "s:I s:f s:f s:f s:f}",
        "device", c->device, "mode", profile_modes[c->mode], "threads",
        c->threads, "batch", c->batch, "in_flight", c->ring, "img_per_s",
        c->rate, "noise", c->noise, "latency_p50_ms", c->p50, "latency_p99_ms",
        c->p99, "cpu_s_per_1000", c->cpu_per_1000, "bytes_per_image",
        c->bytes_per_image, "launches_per_batch", c->launches_per_batch,
        "peak_rss_bytes", c->peak_rss, "fallbacks", (json_int_t)c->fallbacks,
        "images", (json_int_t)c->images, "failed", (json_int_t)c->failed,
        "batches", (json_int_t)c->batches, "times_cpu_1_thread",
        one->rate > 0 ? c->rate / one->rate : 0, "times_best_cpu",
        best->rate > 0 ? c->rate / best->rate : 0, "imported_bytes_per_image",
        c->imported_per_image, "import_falls", c->import_falls);
    json_object_set_new(json, "rungs", rungs_json(c));
    json_object_set_new(json, "fallback_reasons", reasons_json(c));
    if (c->num_fed) {
        json_object_set_new(json, "consumer_busy", json_real(c->busy));
        json_object_set_new(json, "consumer_img_per_s", json_real(c->fed_rate));
        json_object_set_new(json, "consumer_cpu", json_real(c->consumer_cpu));
        json_object_set_new(json, "consumer_took_ms", json_real(c->took_ms));
        json_object_set_new(json, "bound", json_string(bound_name(p, c)));
    }
    return json;
}

static json_t *parts_json(const struct profile_watch *w)
{
    json_t *list = json_array();

    for (int i = 0; i < w->num_parts; i++)
        json_array_append_new(list, json_pack("{s:s s:s s:f s:f s:b}", "engine",
                                              w->parts[i].engine, "part",
                                              w->parts[i].name, "ms_per_1000",
                                              w->parts[i].ms_per_1000, "share",
                                              w->parts[i].share, "device_time",
                                              w->parts[i].device));
    return list;
}

static json_t *backend_json(const struct profile *p, int b)
{
    const struct profile_watch *w = &p->watch[b];
    json_t *json, *cpu = json_array();

    for (int i = 0; i < w->num_workers; i++)
        json_array_append_new(cpu, json_real(w->worker_cpu[i]));
    json = json_pack(
        "{s:o s:s s:o s:o s:f s:f s:f s:f s:f s:o}", "backend",
        manifest_text(p->opt.backends[b]), "device",
        profile_find(p, b, PROFILE_PLANNED, profile_most_threads(p))->device,
        "parts", parts_json(w), "worker_cpu", cpu, "worker_idle", w->idle,
        "jobs_in_flight", w->occupancy, "queue_empty", w->empty, "wait_submit",
        w->wait_submit, "wait_results", w->wait_results, "overlap",
        w->overlap >= 0 ? json_real(w->overlap) : json_null());
    if (p->opt.consumer_ms > 0) {
        bool measured;
        int n = profile_enough(p, b, &measured);

        json_object_set_new(json, "threads_enough",
                            n > 0 ? json_integer(n) : json_null());
        json_object_set_new(json, "threads_enough_measured",
                            json_boolean(n > 0 && measured));
    }
    return json;
}

static json_t *losses_json(const struct profile *p)
{
    json_t *list = json_array();

    for (int i = 0; i < p->num_losses; i++) {
        const struct profile_loss *loss = &p->losses[i];

        json_array_append_new(
            list, json_pack("{s:o s:i s:s s:o}", "backend",
                            manifest_text(loss->name), "threads", loss->threads,
                            "mode", profile_modes[loss->mode], "reason",
                            manifest_text(loss->why)));
    }
    return list;
}

static int print_json(const struct profile *p)
{
    json_t *configs = json_array(), *backends = json_array(), *json;
    int rc;

    for (int i = 0; i < p->num_configs; i++)
        if (p->configs[i].mode != PROFILE_WATCHED)
            json_array_append_new(configs, config_json(p, &p->configs[i]));
    for (int b = 0; b < p->opt.num_backends; b++)
        json_array_append_new(backends, backend_json(p, b));
    json = json_pack(
        "{s:s s:s s:s s:s s:f s:f s:I s:i s:f s:f s:f s:f s:f s:o s:o s:o s:o"
        " s:o s:o}",
        "version", hr_version(), "reference",
        hr_reference_name(hr_get_reference()), "libjpeg", hr_jpeg_library(),
        "ops", p->opt.run.ops_text, "pictures", p->configs[0].pictures,
        "failing", profile_failing(p), "unread", (json_int_t)p->in.num_faults,
        "rounds", PROFILE_ROUNDS, "consumer_ms", p->opt.consumer_ms,
        "consumer_img_per_s", profile_need(p), "consumer_cpu",
        p->opt.consumer_cpu / 100.0, "noise", p->noise, "others", p->others,
        "configurations", configs, "backends", backends, "lost", losses_json(p),
        "headline", manifest_text(p->advice.headline), "advice",
        manifest_text(p->advice.text), "caution",
        manifest_text(p->advice.caution));
    rc = json
             ? json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9))
             : -1;
    json_decref(json);
    if (rc < 0) {
        tools_warn("standard output: the summary could not be written");
        return TOOLS_CANNOT;
    }
    putchar('\n');
    return tools_flush_stdout();
}

int profile_print(struct profile *p)
{
    return p->opt.json ? print_json(p) : print_text(p);
}
