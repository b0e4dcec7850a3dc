// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"

// ---- Configurations --------------------------------------------------------

static void add(struct profile *p, int backend, enum profile_mode mode,
                int threads)
{
    p->configs[p->num_configs++] = (struct profile_config){.backend = backend,
                                                           .mode = mode,
                                                           .threads = threads};
}

// The CPU with one thread is what everything is compared with.
static void choose(struct profile *p)
{
    int most = profile_most_threads(p), cpu = profile_cpu(p);

    if (p->opt.threads[0] != 1)
        add(p, cpu, PROFILE_PLANNED, 1);
    for (int b = 0; b < p->opt.num_backends; b++) {
        for (int t = 0; t < p->opt.num_threads; t++)
            add(p, b, PROFILE_PLANNED, p->opt.threads[t]);
        if (!p->opt.memory)
            add(p, b, PROFILE_MEMORY, most);
        add(p, b, PROFILE_DECODED, most);
        add(p, b, PROFILE_WATCHED, most);
    }
}

// ---- Measuring -------------------------------------------------------------

static void progress(const struct profile *p, const char *what, int at, int of)
{
    if (p->opt.quiet || p->opt.json || !isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%-30s %d of %d \033[K", what, at, of);
    if (at == of)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static bool read_latencies(struct profile_sample *s, const json_t *list)
{
    s->num_latencies = json_array_size(list);
    s->latencies = calloc(s->num_latencies + 1, sizeof(*s->latencies));
    for (size_t i = 0; s->latencies && i < s->num_latencies; i++)
        s->latencies[i] = json_number_value(json_array_get(list, i));
    return s->latencies != NULL;
}

static void read_rungs(struct profile_sample *s, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && i < HR_PROFILE_RUNGS; i++) {
        const json_t *r = json_array_get(list, i);

        snprintf(s->rungs[i].name, sizeof(s->rungs[i].name), "%s",
                 json_string_value(json_object_get(r, "name")));
        s->rungs[i].samples = json_number_value(json_object_get(r, "samples"));
    }
}

static bool read_sample(struct profile_sample *s, const json_t *a)
{
#define NUMBER(name) s->name = json_number_value(json_object_get(a, #name))
#define COUNT(name) \
    s->name = (uint64_t)json_integer_value(json_object_get(a, #name))
    NUMBER(seconds);
    NUMBER(cpu_seconds);
    NUMBER(rate);
    NUMBER(busy);
    NUMBER(consumer_seconds);
    NUMBER(consumer_cpu);
    NUMBER(wait_submit);
    NUMBER(wait_results);
    COUNT(images);
    COUNT(failed);
    COUNT(batches);
    COUNT(fallbacks);
    NUMBER(launches);
    NUMBER(device_batches);
    NUMBER(bytes_up);
    NUMBER(bytes_down);
    NUMBER(bytes_imported);
    NUMBER(import_falls);
    NUMBER(peak_rss);
    COUNT(made);
    NUMBER(others);
#undef NUMBER
#undef COUNT
    read_rungs(s, json_object_get(a, "rungs"));
    for (int bit = 0; bit < RUN_NUM_WHY; bit++)
        s->why[bit] = (uint64_t)json_integer_value(
            json_array_get(json_object_get(a, "why"), (size_t)bit));
    return read_latencies(s, json_object_get(a, "latencies"));
}

// Seconds of one measurement, so that all of them take what the user gave.
static double window(const struct profile *p)
{
    int n = 0;
    double seconds;

    for (int i = 0; i < p->num_configs; i++) {
        n += p->configs[i].mode == PROFILE_WATCHED ? 1 : PROFILE_ROUNDS;
        if (p->opt.consumer_ms > 0 && p->configs[i].mode == PROFILE_PLANNED)
            n += PROFILE_ROUNDS;
    }
    seconds = p->opt.seconds / n;
    return seconds < 0.1 ? 0.1 : seconds > 30 ? 30 : seconds;
}

static json_t *command(const struct profile *p, double seconds, bool consumer,
                       const char *trace)
{
    return json_pack("{s:f s:f s:f s:s*}", "seconds", seconds, "consumer_ms",
                     consumer ? p->opt.consumer_ms : 0.0, "consumer_cpu",
                     consumer ? (double)p->opt.consumer_cpu : 0.0, "trace",
                     trace);
}

static bool measure(struct profile *p, struct profile_config *c, double seconds,
                    bool consumer)
{
    struct profile_sample *s = consumer ? &c->fed[c->num_fed]
                                        : &c->rounds[c->num_rounds];
    json_t *answer = profile_ask(p, c, command(p, seconds, consumer, NULL),
                                 seconds);
    bool ok = answer && read_sample(s, answer);

    json_decref(answer);
    if (consumer)
        c->num_fed += ok;
    else
        c->num_rounds += ok;
    return ok;
}

// Those that want to know of five devices get the other four. Not without the
// CPU: everything is compared with it.
static bool goes_on(const struct profile *p, int backend)
{
    return profile_is_lost(p, backend) && backend != profile_cpu(p) &&
           !stop_signal();
}

// With the consumer, too, if there is one.
static bool measure_both(struct profile *p, struct profile_config *c,
                         double seconds)
{
    return measure(p, c, seconds, false) &&
           (p->opt.consumer_ms <= 0 || c->mode != PROFILE_PLANNED ||
            measure(p, c, seconds, true));
}

// In turns; every second round the other way round.
static bool measure_all(struct profile *p, double seconds)
{
    int n = p->num_configs;

    for (int round = 0; round < PROFILE_ROUNDS; round++)
        for (int k = 0; k < n; k++) {
            struct profile_config *c = &p->configs[round % 2 ? n - 1 - k : k];

            progress(p, "measuring", round * n + k + 1, n * PROFILE_ROUNDS);
            if (c->mode == PROFILE_WATCHED || profile_is_lost(p, c->backend))
                continue;
            if (!measure_both(p, c, seconds) && !goes_on(p, c->backend))
                return false;
        }
    return true;
}

static bool start_all(struct profile *p)
{
    for (int i = 0; i < p->num_configs; i++) {
        progress(p, "opening devices", i + 1, p->num_configs);
        if (!profile_start(p, &p->configs[i]))
            return false;
    }
    return true;
}

// ---- With the clocks on ----------------------------------------------------

static void read_parts(struct profile_watch *w, const json_t *engine,
                       double per_1000)
{
    const char *name = json_string_value(json_object_get(engine, "name"));
    bool device = json_is_true(json_object_get(engine, "device_times"));
    json_t *parts = json_object_get(engine, "parts"), *value;
    const char *key;
    double sum = 0;

    json_object_foreach(parts, key, value) sum += json_number_value(value);
    json_object_foreach(parts, key, value)
    {
        struct profile_part *part = &w->parts[w->num_parts];

        if (w->num_parts == 4 * HR_NUM_PARTS)
            break;
        w->num_parts++;
        snprintf(part->engine, sizeof(part->engine), "%s", name ? name : "?");
        snprintf(part->name, sizeof(part->name), "%s", key);
        part->ms_per_1000 = 1000 * json_number_value(value) * per_1000;
        part->share = json_number_value(value) / sum;
        part->device = device && strcmp(key, "pack") && strcmp(key, "deliver");
    }
}

static void read_engines(struct profile_watch *w, const json_t *answer)
{
    const json_t *engines = json_object_get(answer, "engines");
    size_t n = json_array_size(engines);
    const json_t *host = json_array_get(engines, n ? n - 1 : 0);
    const json_t *cpu = json_object_get(host, "cpu");
    double elapsed = json_number_value(json_object_get(answer, "elapsed"));
    double pictures = json_number_value(json_object_get(answer, "pictures"));
    double threads = json_number_value(json_object_get(host, "threads"));

    for (size_t i = 0; i < n; i++)
        read_parts(w, json_array_get(engines, i),
                   pictures > 0 ? 1000 / pictures : 0);
    for (size_t i = 0; i < json_array_size(cpu) && elapsed > 0; i++)
        w->worker_cpu[w->num_workers++] =
            json_number_value(json_array_get(cpu, i)) / elapsed;
    // Of all of them: more than there are CPU times of.
    if (threads > 0 && elapsed > 0)
        w->idle = json_number_value(json_object_get(host, "idle")) / elapsed /
                  threads;
}

// A place for traces on their way here, which the children inherit; nothing is
// left of it, however this ends. False: a message was printed.
static bool open_place(struct profile *p)
{
    const char *dir = getenv("TMPDIR");
    char path[PATH_MAX];

    snprintf(path, PATH_MAX, "%s/headrace-profile-XXXXXX",
             dir && *dir ? dir : "/tmp");
    if ((p->trace_fd = mkstemp(path)) >= 0)
        unlink(path);
    else
        tools_warn("profile: %s: %s", path, strerror(errno));
    return p->trace_fd >= 0;
}

static bool watch_one(struct profile *p, struct profile_config *c,
                      double seconds)
{
    struct profile_watch *w = &p->watch[c->backend];
    struct profile_sample *s = &c->rounds[0];
    char path[64];
    json_t *answer;
    bool ok;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", p->trace_fd);
    answer = profile_ask(p, c,
                         command(p, seconds, p->opt.consumer_ms > 0, path),
                         seconds);
    ok = answer && read_sample(s, answer);
    if (ok) {
        c->num_rounds = 1;
        w->rate = s->rate;
        w->wait_submit = s->wait_submit / s->seconds;
        w->wait_results = s->wait_results / s->seconds;
        ok = profile_read_trace(
            p, c, w, path, json_number_value(json_object_get(answer, "begun")),
            json_number_value(json_object_get(answer, "ended")));
        read_engines(w, answer);
        w->valid = ok;
    }
    json_decref(answer);
    return ok;
}

static bool watch_all(struct profile *p, double seconds)
{
    for (int i = 0; i < p->num_configs; i++) {
        struct profile_config *c = &p->configs[i];

        if (c->mode == PROFILE_WATCHED && !profile_is_lost(p, c->backend) &&
            !watch_one(p, c, seconds > 1 ? 1 : seconds) &&
            !goes_on(p, c->backend))
            return false;
    }
    return true;
}

// ---- The command -----------------------------------------------------------

static int put(const char *text, size_t size, void *file)
{
    return out_file_write(file, text, size) ? 0 : -1;
}

static bool write_trace(struct profile *p)
{
    struct out_file file = OUT_FILE_CLOSED;
    bool ok;

    if (!p->opt.trace)
        return true;
    ok = out_file_open(&file, p->opt.trace) &&
         json_dump_callback(p->events, put, &file,
                            JSON_COMPACT | JSON_REAL_PRECISION(17)) == 0 &&
         out_file_close(&file) && out_file_rename(&file);
    if (!ok)
        tools_warn("%s: cannot be written: %s", p->opt.trace, strerror(errno));
    out_file_discard(&file);
    return ok;
}

static void finish(struct profile *p)
{
    for (int i = 0; i < p->num_configs; i++)
        profile_end(&p->configs[i]);
    for (int i = 0; i < p->num_losses; i++)
        if (p->losses[i].backend < 0)
            free(p->losses[i].name);
    json_decref(p->events);
    if (p->trace_fd >= 0)
        close(p->trace_fd);
    profile_options_finish(p);
    free(p);
}

static int run(struct profile *p)
{
    double seconds;
    int code;

    if (!open_place(p))
        return TOOLS_CANNOT;
    // Also: a child that died is told by its silence, not by SIGPIPE.
    stop_install();
    choose(p);
    seconds = window(p);
    if (!start_all(p) || !measure_all(p, seconds) || !watch_all(p, seconds)) {
        progress(p, "", 1, 1);
        if (!stop_signal())
            return TOOLS_CANNOT;
        tools_warn("interrupted: nothing was written");
        return 128 + stop_signal();
    }
    profile_drop_lost(p);
    profile_summarize(p);
    // They may have gone meanwhile.
    if (profile_best_cpu(p)->rate <= 0) {
        tools_warn("profile: none of the pictures could be made");
        return TOOLS_CANNOT;
    }
    if (!write_trace(p) || !profile_report(p))
        return TOOLS_CANNOT;
    code = profile_print(p);
    if (p->num_losses)
        return TOOLS_CANNOT;
    return code == TOOLS_OK && p->in.num_faults ? TOOLS_FAILED : code;
}

int cmd_profile(int argc, char **argv)
{
    struct profile *p = tools_new(sizeof(*p));
    bool done = false;
    int code;

    if (!p)
        return TOOLS_CANNOT;
    p->argc = argc;
    p->argv = argv;
    p->trace_fd = -1;
    code = profile_options(p, argc, argv, &done);
    if (code == TOOLS_OK && !done)
        code = run(p);
    finish(p);
    return code;
}
