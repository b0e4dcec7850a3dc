// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

#define KIB (1.0 / 1024)
#define MIB (KIB / 1024)

// ---- Columns, of terminal, page and JSON -----------------------------------

#define AT(field) offsetof(struct profile_config, field)
const struct profile_column profile_rates[] = {
    {"img_per_s", "img/s", AT(rate), 1, 1},
    {"noise", "+-%", AT(noise), 100, 1},
    {"latency_p50_ms", "p50 ms", AT(p50), 1, 2},
    {"latency_p99_ms", "p99 ms", AT(p99), 1, 2},
    {"cpu_s_per_1000", "CPU-s/1k", AT(cpu_per_1000), 1, 3},
    {"bytes_per_image", "KiB/img", AT(bytes_per_image), KIB, 1},
    {"imported_bytes_per_image", "imp", AT(imported_per_image), KIB, 1},
    {"launches_per_batch", "launch", AT(launches_per_batch), 1, 1},
    {"peak_rss_bytes", "peak MiB", AT(peak_rss), MIB, 1},
    {NULL, "fallb %", AT(fallback_percent), 1, 1},
    {"times_cpu_1_thread", "x 1thr", AT(times_one), 1, 2},
    {"times_best_cpu", "x CPU", AT(times_best), 1, 2},
    {"img_per_s_lowest", NULL, AT(lowest), 1, 1},
    {"img_per_s_highest", NULL, AT(highest), 1, 1},
    {"import_falls", NULL, AT(import_falls), 1, 0},
    {"fallbacks", NULL, AT(fallbacks), 1, -1},
    {"images", NULL, AT(images), 1, -1},
    {"failed", NULL, AT(failed), 1, -1},
    {"batches", NULL, AT(batches), 1, -1},
    {"cache_hits", NULL, AT(cached), 1, -1},
    {NULL, NULL, 0, 0, 0},
};

const struct profile_column profile_beside[] = {
    {"consumer_img_per_s", "img/s", AT(fed_rate), 1, 1},
    {"consumer_busy", "busy %", AT(busy), 100, 1},
    {"consumer_took_ms", "took ms", AT(took_ms), 1, 2},
    {"consumer_cpu", "core %", AT(consumer_cpu), 100, 0},
    {NULL, NULL, 0, 0, 0},
};
#undef AT

#define AT(field) offsetof(struct profile_watch, field)
const struct profile_column profile_waits[] = {
    {"jobs_in_flight", "jobs", AT(occupancy), 1, 1},
    {"queue_empty", "empty %", AT(empty), 100, 0},
    {"wait_submit", "submit %", AT(wait_submit), 100, 0},
    {"wait_results", "wait %", AT(wait_results), 100, 0},
    {"worker_idle", "idle %", AT(idle), 100, 0},
    {NULL, "on core %", AT(on_a_core), 100, 0},
    {"overlap", "hidden %", AT(overlap), 100, 0},
    {NULL, NULL, 0, 0, 0},
};
#undef AT

const char profile_legend[] =
    "A batch is one job. memory: from a source that costs nothing; decoded: "
    "with\ndecode done already (both hold the pictures in memory, and have the "
    "most\nthreads). +-%: half the spread of the rounds. p50, p99: from "
    "submission to end\nof a batch. CPU-s/1k: CPU seconds of the process per "
    "1000 pictures. KiB/img: to\nthe device and back; imp: KiB of each that "
    "one device read in the memory of\nanother, past the host; launch: of "
    "kernels, per batch. peak MiB: host memory of\nthe process. fallb %: "
    "pictures of which an engine left a part to the next one or\nthe CPU. "
    "x 1thr, x CPU: times the rate of one CPU thread, of the CPU's best.";

const char profile_waits_legend[] =
    "jobs: in flight, on average; empty: of the time there was none. submit: "
    "what the\nloader's threads spent submitting, together; wait: what its "
    "consumer waited for\nbatches. idle, on core: of the worker threads' time; "
    "what is neither waits for a\ncore or a disk. hidden: of the device's and "
    "copies' time, what had other work\nbeside it.";

int profile_config_rows(const struct profile *p, bool only,
                        struct profile_row *rows)
{
    int n = 0;

    for (int i = 0; i < p->num_configs; i++) {
        const struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_WATCHED || (only && c->mode != PROFILE_PLANNED))
            continue;
        // Short: a telephone shows 22 letters.
        if (c->mode == PROFILE_PLANNED)
            snprintf(rows[n].label, sizeof(rows[n].label), "%s, %d thread%s",
                     c->device, c->threads, profile_plural(c->threads));
        else
            snprintf(rows[n].label, sizeof(rows[n].label), "%s, %s", c->device,
                     profile_modes[c->mode]);
        rows[n++].values = c;
    }
    return n;
}

int profile_backend_rows(const struct profile *p, const void *values,
                         size_t size, struct profile_row *rows)
{
    for (int b = 0; b < p->opt.num_backends; b++) {
        snprintf(rows[b].label, sizeof(rows[b].label), "%s",
                 p->opt.backends[b]);
        rows[b].values = (const char *)values + (size_t)b * size;
    }
    return p->opt.num_backends;
}

double profile_value(const struct profile_column *column, const void *values)
{
    double value;

    memcpy(&value, (const char *)values + column->at, sizeof(value));
    return value * column->scale;
}

// ---- Notes -----------------------------------------------------------------

// Prints why pictures fell back.
static void reasons(const struct profile_config *c, FILE *to)
{
    const char *before = "";

    if (c->fallbacks <= 0 || c->mode != PROFILE_PLANNED)
        return;
    fprintf(to, "%s, %d thread%s: handed to the next engine: ", c->device,
            c->threads, profile_plural(c->threads));
    for (int bit = 0; bit < RUN_NUM_WHY; bit++)
        if (c->why_counts[bit]) {
            fprintf(to, "%s%s %.3g %%", before, hr_why_text(1u << bit),
                    100 * (double)c->why_counts[bit] / c->images);
            before = ", ";
        }
    fputs(" of the pictures\n", to);
}

// Prints the cache's share of the measured pictures.
static void hits(const struct profile_config *c, FILE *to)
{
    if (c->mode == PROFILE_PLANNED && c->images > 0)
        fprintf(to, "%s, %d thread%s: the cache had %.3g %% of the pictures\n",
                c->device, c->threads, profile_plural(c->threads),
                100 * c->cached / c->images);
}

// How a media engine's samples went on to the next engine.
static void rungs(const struct profile_config *c, FILE *to)
{
    double all = 0;

    for (int i = 0; i < HR_PROFILE_RUNGS; i++)
        all += c->rungs[i].samples;
    if (all <= 0)
        return;
    fprintf(to, "%s: between its engines: ", c->device);
    for (int i = 0; i < HR_PROFILE_RUNGS; i++)
        if (c->rungs[i].samples > 0)
            fprintf(to, "%s %.3g %%, ", c->rungs[i].name,
                    100 * c->rungs[i].samples / all);
    fprintf(to, "%.1f KiB per picture imported, %.0f falls\n",
            c->imported_per_image * KIB, c->import_falls);
}

// Whose the pictures were, if engines share them.
static void shares(const struct profile_config *c, FILE *to)
{
    double all = 0;

    for (int i = 0; i < HR_PROFILE_ENGINES; i++)
        all += c->shares[i].samples;
    if (all <= 0)
        return;
    fprintf(to, "%s, %d thread%s: shares: ", c->device, c->threads,
            profile_plural(c->threads));
    for (int i = 0; i < HR_PROFILE_ENGINES && c->shares[i].name[0]; i++)
        fprintf(to, "%s%s %.3g %%", i ? ", " : "", c->shares[i].name,
                100 * c->shares[i].samples / all);
    fputc('\n', to);
}

void profile_notes(const struct profile *p, FILE *to)
{
    char text[768], line[4 * sizeof(text)];

    if (p->failing > 0)
        fprintf(to,
                "%.3g %% of the pictures cannot be made: they take time, but "
                "do not count as pictures\n",
                100 * p->failing);
    if (p->in.num_faults)
        fprintf(to, "%zu could not be read\n", p->in.num_faults);
    for (int i = 0; i < p->num_configs; i++)
        reasons(&p->configs[i], to);
    for (int i = 0; p->opt.run.cache && i < p->num_configs; i++)
        hits(&p->configs[i], to);
    for (int b = 0; b < p->opt.num_backends; b++)
        rungs(profile_find(p, b, PROFILE_PLANNED, profile_most_threads(p)), to);
    for (int i = 0; i < p->num_configs; i++)
        if (p->configs[i].mode == PROFILE_PLANNED)
            shares(&p->configs[i], to);
    for (int i = 0; i < p->num_losses; i++) {
        profile_loss_text(&p->losses[i], text, sizeof(text));
        tools_escape(line, sizeof(line), text);
        fprintf(to, "Left out: %s\n", line);
    }
    fprintf(to,
            "Rounds differ by up to +-%.0f %%; other processes took %.0f %% of "
            "the machine.\n",
            100 * p->noise, 100 * p->others);
}

// "opencl: 3 threads keep it fed (estimated)"
static void enough(const struct profile *p, int b, FILE *to)
{
    bool measured;
    int n = profile_enough(p, b, &measured);

    fprintf(to, "%s: ", p->opt.backends[b]);
    if (n == PROFILE_UNKNOWN)
        fputs("how many threads keep it fed is not known, for other processes "
              "took too much of the machine\n",
              to);
    else if (!n)
        fputs("no number of threads would keep it fed\n", to);
    else
        fprintf(to, "%d thread%s it fed%s\n", n, n == 1 ? " keeps" : "s keep",
                measured            ? ""
                : n > tools_cores() ? " (estimated; this machine has fewer "
                                      "cores)"
                                    : " (estimated)");
}

void profile_beside_notes(const struct profile *p, FILE *to)
{
    fprintf(to, "A consumer of %g ms per batch of %.3g", p->opt.consumer_ms,
            p->per_batch);
    if (p->opt.consumer_cpu)
        fprintf(to, ", using %d %% of a core", p->opt.consumer_cpu);
    fprintf(to,
            " takes at most %.1f img/s. At 97 %% busy it is the limit, below "
            "that the data is. What it took, of the time and of a core, is "
            "other than was asked for if the machine is busy.\n",
            p->need);
    for (int b = 0; b < p->opt.num_backends; b++)
        enough(p, b, to);
}

// ---- Text ------------------------------------------------------------------

// As wide as the longest name: a device may be several engines in a row.
static void table(const struct profile_column *columns,
                  const struct profile_row *rows, int n)
{
    int width = sizeof("device") - 1;

    for (int i = 0; i < n; i++)
        if ((int)strlen(rows[i].label) > width)
            width = (int)strlen(rows[i].label);
    for (int i = -1; i < n; i++) {
        printf("%-*s", width, i < 0 ? "device" : rows[i].label);
        for (const struct profile_column *c = columns; c->key || c->title; c++)
            if (c->title && i < 0)
                printf(" %9s", c->title);
            else if (c->title && isnan(profile_value(c, rows[i].values)))
                printf(" %9s", "-");
            else if (c->title)
                printf(" %9.*f", c->digits, profile_value(c, rows[i].values));
        putchar('\n');
    }
    putchar('\n');
}

static void codes_of(const struct profile_watch *w, const char *engine)
{
    for (int i = 0; i < w->num_codes; i++)
        if (!strcmp(w->codes[i].engine, engine))
            printf("  %-12s   %-10s %10.1f %5.1f %%  of augment\n", engine,
                   w->codes[i].name, w->codes[i].ms_per_1000,
                   100 * w->codes[i].share);
}

static void watched(const struct profile *p, int b)
{
    const struct profile_watch *w = &p->watch[b];

    printf("\nWhere the time goes on %s, %d thread%s (ms per 1000 pictures,\n"
           "share of the engine's)\n\n",
           p->opt.backends[b], profile_most_threads(p),
           profile_plural(profile_most_threads(p)));
    for (int i = 0; i < w->num_parts; i++) {
        const struct profile_part *part = &w->parts[i];

        printf("  %-12s %-12s %10.1f %5.1f %%  %s\n", part->engine, part->name,
               part->ms_per_1000, 100 * part->share,
               part->device ? "device's time" : "host threads, by the clock");
        if (!strcmp(part->name, hr_part_name(HR_PART_AUGMENT)))
            codes_of(w, part->engine);
    }
}

static int print_text(const struct profile *p)
{
    const struct profile_config *first = &p->configs[0];
    struct profile_row rows[PROFILE_CONFIGS];

    printf("%.0f picture%s, batches of %d, %d of them in flight, %s\n"
           "Reference %s, %s.\n\n",
           first->pictures, first->pictures > 1 ? "s" : "", first->batch,
           first->ring, p->opt.run.ops_text,
           hr_reference_name(hr_device_reference(NULL)), hr_jpeg_library());
    table(profile_rates, rows, profile_config_rows(p, false, rows));
    puts(profile_legend);
    putchar('\n');
    profile_notes(p, stdout);
    if (p->opt.consumer_ms > 0) {
        putchar('\n');
        table(profile_beside, rows, profile_config_rows(p, true, rows));
        profile_beside_notes(p, stdout);
    }
    for (int b = 0; b < p->opt.num_backends; b++)
        watched(p, b);
    putchar('\n');
    table(profile_waits, rows,
          profile_backend_rows(p, p->watch, sizeof(p->watch[0]), rows));
    printf("%s\n\n", profile_waits_legend);
    table(profile_queues, rows,
          profile_backend_rows(p, p->queues, sizeof(p->queues[0]), rows));
    printf("%s\n\n", profile_queues_legend);
    profile_queue_notes(p, stdout);
    printf("\n%s.\n%s\n", p->advice.headline, p->advice.text);
    if (p->advice.caution[0])
        puts(p->advice.caution);
    return tools_flush_stdout();
}

// ---- JSON ------------------------------------------------------------------

static void add_columns(json_t *json, const struct profile_column *columns,
                        const void *values)
{
    for (const struct profile_column *c = columns; c->key || c->title; c++) {
        double value = profile_value(c, values) / c->scale;

        if (c->key)
            json_object_set_new(json, c->key,
                                isnan(value) ? json_null()
                                : c->digits < 0
                                    ? json_integer((json_int_t)value)
                                    : json_real(value));
    }
}

static const char *bound_name(const struct profile *p,
                              const struct profile_config *c)
{
    return profile_bound(p->opt.consumer_ms, c->busy) == PROFILE_CONSUMER
               ? "consumer"
               : "data";
}

static json_t *rungs_json(const struct profile_rung *rungs, int most)
{
    json_t *json = json_object();

    for (int i = 0; i < most && rungs[i].name[0]; i++)
        json_object_set_new(json, rungs[i].name, json_real(rungs[i].samples));
    return json;
}

static json_t *config_json(const struct profile *p,
                           const struct profile_config *c)
{
    json_t *json = json_pack("{s:o s:o s:s s:i s:i s:i s:o s:o s:o}", "backend",
                             manifest_text(p->opt.backends[c->backend]),
                             "device", manifest_text(c->device), "mode",
                             profile_modes[c->mode], "threads", c->threads,
                             "batch", c->batch, "in_flight", c->ring, "rungs",
                             rungs_json(c->rungs, HR_PROFILE_RUNGS),
                             "fallback_reasons",
                             manifest_reasons_json(c->why_counts), "shares",
                             rungs_json(c->shares, HR_PROFILE_ENGINES));

    add_columns(json, profile_rates, c);
    if (c->num_fed) {
        add_columns(json, profile_beside, c);
        json_object_set_new(json, "bound", json_string(bound_name(p, c)));
    }
    return json;
}

// what: "part" or "code"; codes have no device_time.
static json_t *parts_json(const struct profile_part *parts, int num,
                          const char *what)
{
    json_t *list = json_array();

    for (int i = 0; i < num; i++)
        json_array_append_new(
            list,
            json_pack("{s:s s:s s:f s:f s:o*}", "engine", parts[i].engine, what,
                      parts[i].name, "ms_per_1000", parts[i].ms_per_1000,
                      "share", parts[i].share, "device_time",
                      *what == 'p' ? json_boolean(parts[i].device) : NULL));
    return list;
}

static json_t *backend_json(const struct profile *p, int b)
{
    const struct profile_watch *w = &p->watch[b];
    json_t *json, *queue, *cpu = json_array();
    bool measured;
    int n;

    for (int i = 0; i < w->num_workers; i++)
        json_array_append_new(cpu, json_real(w->worker_cpu[i]));
    json = json_pack("{s:o s:o s:o s:o s:o}", "backend",
                     manifest_text(p->opt.backends[b]), "device",
                     manifest_text(profile_find(p, b, PROFILE_PLANNED,
                                                profile_most_threads(p))
                                       ->device),
                     "parts", parts_json(w->parts, w->num_parts, "part"),
                     "codes", parts_json(w->codes, w->num_codes, "code"),
                     "worker_cpu", cpu);
    add_columns(json, profile_waits, w);
    queue = profile_queue_json(&p->queues[b]);
    add_columns(queue, profile_queues, &p->queues[b]);
    json_object_set_new(json, "loader", queue);
    if (p->opt.consumer_ms > 0) {
        n = profile_enough(p, b, &measured);
        json_object_set_new(json, "threads_enough",
                            n > 0 ? json_integer(n) : json_null());
        json_object_set_new(json, "threads_enough_measured",
                            json_boolean(n > 0 && measured));
    }
    return json;
}

json_t *profile_json(const struct profile *p)
{
    json_t *configs = json_array(), *backends = json_array();
    json_t *lost = json_array();

    for (int i = 0; i < p->num_configs; i++)
        if (p->configs[i].mode != PROFILE_WATCHED)
            json_array_append_new(configs, config_json(p, &p->configs[i]));
    for (int b = 0; b < p->opt.num_backends; b++)
        json_array_append_new(backends, backend_json(p, b));
    for (int i = 0; i < p->num_losses; i++)
        json_array_append_new(
            lost, json_pack("{s:o s:i s:s s:o}", "backend",
                            manifest_text(p->losses[i].name), "threads",
                            p->losses[i].threads, "mode",
                            profile_modes[p->losses[i].mode], "reason",
                            manifest_text(p->losses[i].why)));
    return json_pack(
        "{s:s s:s s:s s:s s:f s:f s:I s:i s:f s:f s:f s:f s:f s:o s:o s:o s:o"
        " s:o s:o}",
        "version", hr_version(), "reference",
        hr_reference_name(hr_device_reference(NULL)), "libjpeg",
        hr_jpeg_library(), "ops", p->opt.run.ops_text, "pictures",
        p->configs[0].pictures, "failing", p->failing, "unread",
        (json_int_t)p->in.num_faults, "rounds", PROFILE_ROUNDS, "consumer_ms",
        p->opt.consumer_ms, "consumer_img_per_s", p->need, "consumer_cpu",
        p->opt.consumer_cpu / 100.0, "noise", p->noise, "others", p->others,
        "configurations", configs, "backends", backends, "lost", lost,
        "headline", manifest_text(p->advice.headline), "advice",
        manifest_text(p->advice.text), "caution",
        manifest_text(p->advice.caution));
}

int profile_print(struct profile *p)
{
    return p->opt.json ? manifest_print(profile_json(p)) : print_text(p);
}
