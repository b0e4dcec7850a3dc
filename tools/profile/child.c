// SPDX-License-Identifier: Apache-2.0
// One configuration in a process of its own. The first line of standard input
// says which; each line after it asks for one measurement, which is answered
// with one line; the end of the input is the end. What cannot be done is the
// end, too: then the last line says why.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profile.h"
#include "tools/common/tools.h"

const char *const profile_modes[] = {"planned", "memory", "decoded", "watched",
                                     NULL};

// ---- Answers ---------------------------------------------------------------

static json_t *numbers(const double *values, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

static json_t *counts(const uint64_t *values, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)values[i]));
    return list;
}

static json_t *rungs_json(const struct profile_sample *s)
{
    json_t *list = json_array();

    for (int i = 0; i < HR_PROFILE_RUNGS && s->rungs[i].name[0]; i++)
        json_array_append_new(list,
                              json_pack("{s:s s:f}", "name", s->rungs[i].name,
                                        "samples", s->rungs[i].samples));
    return list;
}

static json_t *sample_json(const struct profile_measure *m)
{
    const struct profile_sample *s = &m->s;

    return json_pack(
        "{s:f s:f s:f s:f s:f s:f s:f s:f s:I s:I s:I s:I s:f s:f s:f s:f s:f "
        "s:f s:f s:f s:f s:f s:f s:I s:o s:o s:o}",
        "seconds", s->seconds, "cpu_seconds", s->cpu_seconds, "rate", s->rate,
        "busy", s->busy, "consumer_seconds", s->consumer_seconds,
        "consumer_cpu", s->consumer_cpu, "wait_submit", s->wait_submit,
        "wait_results", s->wait_results, "images", (json_int_t)s->images,
        "failed", (json_int_t)s->failed, "batches", (json_int_t)s->batches,
        "fallbacks", (json_int_t)s->fallbacks, "launches", s->launches,
        "device_batches", s->device_batches, "bytes_up", s->bytes_up,
        "bytes_down", s->bytes_down, "bytes_imported", s->bytes_imported,
        "import_falls", s->import_falls, "peak_rss", s->peak_rss, "others",
        s->others, "begun", m->begun, "ended", m->ended, "total_cpu",
        tools_cpu_seconds(), "made", (json_int_t)s->made, "rungs",
        rungs_json(s), "why", counts(s->why, RUN_NUM_WHY), "latencies",
        numbers(s->latencies, s->num_latencies));
}

// ---- With the clocks on ----------------------------------------------------

static json_t *engine_json(const struct hr_engine_profile *a,
                           const struct hr_engine_profile *b)
{
    json_t *parts = json_object(), *cpu = json_array();
    int n = b->num_threads < HR_PROFILE_THREADS ? b->num_threads
                                                : HR_PROFILE_THREADS;

    for (int i = 0; i < HR_NUM_PARTS; i++)
        if (b->parts[i].ns > a->parts[i].ns)
            json_object_set_new(
                parts, hr_part_name((enum hr_part)i),
                json_real(profile_seconds(
                    (int64_t)(b->parts[i].ns - a->parts[i].ns))));
    for (int i = 0; i < n; i++)
        json_array_append_new(cpu, json_real(profile_seconds((
                                       int64_t)(b->cpu_ns[i] - a->cpu_ns[i]))));
    return json_pack("{s:s s:b s:i s:I s:f s:o s:o}", "name", b->name,
                     "device_times", b->device_times, "threads", b->num_threads,
                     "tasks", (json_int_t)(b->tasks - a->tasks), "idle",
                     profile_seconds((int64_t)(b->idle_ns - a->idle_ns)),
                     "parts", parts, "cpu", cpu);
}

static void add_engines(struct profile_child *c,
                        const struct profile_measure *m, json_t *answer)
{
    json_t *engines = json_array();
    struct hr_profile p;

    hr_device_profile(c->run.dev, &p);
    for (int i = 0; i < p.num_engines; i++)
        json_array_append_new(engines, engine_json(&m->before.engines[i],
                                                   &p.engines[i]));
    json_object_set_new(answer, "engines", engines);
    json_object_set_new(
        answer, "pictures",
        json_integer((json_int_t)(m->s.images + m->s.failed + c->drained)));
    json_object_set_new(answer, "elapsed",
                        json_real(tools_seconds() - m->begun));
}

// The clocks count until here; the last batches of a device come in late.
static void settle(struct profile_child *c)
{
    struct timespec ms = {0, 10000000};

    hr_wait_all(c->run.dev, HR_FOREVER);
    nanosleep(&ms, NULL);
}

// So that the clocks begin with nothing in flight.
static bool warm_up(struct profile_child *c)
{
    struct profile_measure m = {0};
    uint64_t all;
    bool ok = profile_run_for(c, &m, 0, &all);

    free(m.s.latencies);
    ok &= profile_drain(c);
    settle(c);
    c->warm = true;
    return ok;
}

static json_t *measure(struct profile_child *c, json_t *command)
{
    const char *trace = json_string_value(json_object_get(command, "trace"));
    struct profile_measure m = {0};
    uint64_t all = 0;
    json_t *answer = NULL;
    bool ok;

    c->consumer_ms = json_number_value(json_object_get(command, "consumer_ms"));
    c->consumer_cpu = json_number_value(
        json_object_get(command, "consumer_cpu"));
    if (c->mode == PROFILE_WATCHED && !warm_up(c))
        return NULL;
    if (trace && hr_trace_start(NULL)) {
        tools_warn("%s", hr_last_error());
        return NULL;
    }
    ok = profile_run_for(c, &m,
                         json_number_value(json_object_get(command, "seconds")),
                         &all);
    c->warm = true;
    if (ok)
        profile_end_counting(c, &m, all);
    ok &= profile_drain(c);
    if (ok) {
        profile_count_device(c, &m.s);
        answer = sample_json(&m);
    }
    if (ok && c->mode == PROFILE_WATCHED)
        settle(c);
    if (ok && c->mode == PROFILE_WATCHED)
        add_engines(c, &m, answer);
    if (trace) {
        hr_trace_stop();
        if (ok && hr_trace_write(trace)) {
            tools_warn("the trace, in TMPDIR or /tmp: %s", hr_last_error());
            ok = false;
        }
    }
    free(m.s.latencies);
    if (!ok)
        json_decref(answer);
    return ok ? answer : NULL;
}

// ---- The process -----------------------------------------------------------

static const char *text_of(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

static int number_of(const json_t *json, const char *name)
{
    return (int)json_integer_value(json_object_get(json, name));
}

json_t *profile_bytes_json(const char *bytes)
{
    size_t n = 0;
    char *text = malloc(2 * strlen(bytes) + 1);
    json_t *json;

    for (; text && *bytes; bytes++) {
        unsigned char byte = (unsigned char)*bytes;

        if (byte >= 0x80) {
            text[n++] = (char)(0xc0 | byte >> 6);
            byte = 0x80 | (byte & 0x3f);
        }
        text[n++] = (char)byte;
    }
    json = text ? json_stringn(text, n) : NULL;
    free(text);
    return json;
}

char *profile_bytes(const json_t *json)
{
    const char *text = json_string_value(json);
    char *bytes = text ? strdup(text) : NULL, *to = bytes;

    for (; bytes && *text; text++)
        if ((*text & 0xc0) == 0xc0 && text[1]) {
            *to++ = (char)((*text & 3) << 6 | (text[1] & 0x3f));
            text++;
        } else {
            *to++ = *text;
        }
    if (bytes)
        *to = '\0';
    return bytes;
}

static bool add_input(struct inputs *in, const json_t *json)
{
    char *path = profile_bytes(json);
    bool ok = path && inputs_add_file(in, path);

    if (!ok)
        tools_warn("%s", path ? in->error : "out of memory");
    free(path);
    return ok;
}

// As they were typed.
static bool read_limits(struct run_options *opt, const json_t *list)
{
    char *words[OPTIONS_NUM_LIMITS];

    for (size_t i = 0; i < OPTIONS_NUM_LIMITS; i++)
        words[i] = (char *)json_string_value(json_array_get(list, i));
    return options_limits("profile", words, &opt->limits);
}

static bool read_config(struct profile_child *c, const json_t *config)
{
    struct run_options *opt = &c->run.opt;
    const json_t *paths = json_object_get(config, "inputs");
    char error[320];

    opt->ops_text = text_of(config, "ops");
    opt->backend = c->backend = profile_bytes(
        json_object_get(config, "backend"));
    opt->batch = number_of(config, "batch");
    opt->threads = number_of(config, "threads");
    opt->dtype = (enum hr_dtype)number_of(config, "dtype");
    opt->tier = (enum hr_tier)number_of(config, "tier");
    opt->epochs = 1;
    opt->quiet = true;
    opt->on_error = HR_ON_ERROR_ZERO;
    c->mode = (enum profile_mode)number_of(config, "mode");
    hr_set_reference(hr_reference_find(text_of(config, "reference")));
    if (!opt->ops_text || !opt->backend ||
        !ops_parse(&opt->ops, opt->ops_text, error, sizeof(error)))
        return false;
    for (size_t i = 0; i < json_array_size(paths); i++)
        if (!add_input(&c->run.in, json_array_get(paths, i)))
            return false;
    return read_limits(opt, json_object_get(config, "limits"));
}

static bool say(json_t *answer)
{
    bool ok = answer && json_dumpf(answer, stdout, JSON_COMPACT) == 0 &&
              putchar('\n') == '\n' && fflush(stdout) == 0;

    json_decref(answer);
    return ok;
}

static bool open_all(struct profile_child *c, bool memory)
{
    struct run *run = &c->run;

    pthread_setname_np(pthread_self(), "main");
    // Before the device is opened, or it has no times of its own.
    if (c->mode == PROFILE_WATCHED)
        hr_profile_times(true);
    if (!run_prepare(run))
        return false;
    if ((memory || c->mode == PROFILE_MEMORY || c->mode == PROFILE_DECODED) &&
        !profile_source_open(c))
        return false;
    if ((size_t)run->batch > run->total)
        run->batch = (int)run->total;
    if (!profile_fill_up(c))
        return false;
    hr_device_profile(run->dev, &c->opened);
    return say(json_pack("{s:o s:o s:i s:i s:I s:b}", "device",
                         manifest_text(run->dev->name), "description",
                         manifest_text(run->dev->description), "batch",
                         run->batch, "ring", run->ring, "pictures",
                         (json_int_t)c->pictures, "software",
                         run->dev->caps.software));
}

// The next line as JSON, NULL at the end.
static json_t *next_command(char **line, size_t *room)
{
    ssize_t n = getline(line, room, stdin);

    return n > 0 ? json_loadb(*line, (size_t)n, 0, NULL) : NULL;
}

int profile_child(void)
{
    struct profile_child *c = calloc(1, sizeof(*c));
    char *line = NULL;
    size_t room = 0;
    json_t *config = next_command(&line, &room), *command;
    bool ok = c && config && read_config(c, config) &&
              open_all(c, json_is_true(json_object_get(config, "memory")));

    while (ok && (command = next_command(&line, &room))) {
        ok = say(measure(c, command));
        json_decref(command);
    }
    if (c) {
        run_pipe_close(&c->run);
        profile_source_close(c);
        hr_device_close(&c->run.dev);
        inputs_finish(&c->run.in);
        free(c->backend);
    }
    // At the end of it all: who reads it need not wait for the process.
    if (!ok)
        say(json_pack("{s:o}", "error", manifest_text(tools_last_warning())));
    json_decref(config);
    free(line);
    free(c);
    return ok ? TOOLS_OK : TOOLS_CANNOT;
}
