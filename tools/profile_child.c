// SPDX-License-Identifier: Apache-2.0
// One configuration in a process of its own. The first line of standard input
// says which; each line after it asks for one measurement, which is answered
// with one line; the end of the input is the end.
//
// A measurement is of a pipeline that runs: it begins when a batch has come out
// (the first time, when the ring has gone round once) and ends with the batch
// that comes out after the time is over.
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profile.h"
#include "tools.h"

const char *const profile_modes[] = {"planned", "eager",   "memory",
                                     "decoded", "watched", NULL};

struct measure {
    double warm, until;  // tools_seconds()
    double begun, ended;
    double cpu, burnt;  // at the beginning
    struct hr_profile before;
    uint64_t others;  // jiffies
    struct profile_sample s;
    size_t room;
    bool counts;  // the ring is warm
};

static double seconds_of(int64_t ns)
{
    return 1e-9 * (double)ns;
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// ---- The consumer ------------------------------------------------------------

static double thread_cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

// Slices of a millisecond, a part of each at work. Returns when it began.
static int64_t consume(struct profile_child *c)
{
    const int64_t begin = now_ns(), slice = 1000000;
    const int64_t end = begin + (int64_t)(c->consumer_ms * 1e6);
    double cpu = thread_cpu();

    for (int64_t at = begin; at < end; at += slice) {
        int64_t stop = at + (int64_t)((double)slice * c->consumer_cpu / 100);

        while (c->consumer_cpu > 0 && now_ns() < stop)
            ;
        sleep_until(c->consumer_cpu > 0 && at + slice < end ? at + slice : end);
        if (c->consumer_cpu <= 0)
            break;
    }
    c->burnt += thread_cpu() - cpu;
    hr_trace_span("consumer", begin, now_ns());
    return begin;
}

// ---- The pipeline --------------------------------------------------------------

static void on_done(void *ctx, const struct hr_job_t *job)
{
    (void)job;
    atomic_store((_Atomic int64_t *)ctx, now_ns());
}

static bool submit(struct profile_child *c)
{
    struct run *run = &c->run;
    size_t at = run->submitted % (size_t)run->ring;
    struct run_slot *slot = &run->slots[at];
    struct hr_job_params params = {
        .tier = run->opt.tier,
        .on_error = HR_ON_ERROR_ZERO,
        .wait_for_room = true,
        .on_done = on_done,
        .ctx = &c->ended[at],
    };

    if (run->next >= run->total) {
        run->next = 0;
        run->epoch++;
    }
    if (!run_fill(run, slot))
        return false;
    profile_source_fill(c, slot);
    c->submitted[at] = now_ns();
    run->submitted++;
    if (c->mode == PROFILE_EAGER)
        return profile_eager_submit(c, slot);
    slot->job = hr_submit(run->dev, run->samples, slot->num, slot->batch,
                          &params);
    if (!slot->job)
        tools_warn("%s", hr_last_error());
    return slot->job != NULL;
}

static bool keep_latency(struct measure *m, double ms)
{
    struct profile_sample *s = &m->s;

    if (s->num_latencies == m->room) {
        size_t room = m->room ? 2 * m->room : 256;
        double *more = realloc(s->latencies, room * sizeof(*more));

        if (!more)
            return false;
        s->latencies = more;
        m->room = room;
    }
    s->latencies[s->num_latencies++] = ms;
    return true;
}

static void count(struct measure *m, const struct run_slot *slot, int failed)
{
    if (!m->counts)
        return;
    m->s.batches++;
    m->s.failed += (uint64_t)failed;
    m->s.images += (uint64_t)(slot->num - failed);
    for (int i = 0; slot->job && i < slot->num; i++)
        m->s.fallbacks += slot->job->results[i].status == HR_OK &&
                          slot->job->results[i].why != 0;
}

// Waits for the oldest batch and hands it to the consumer.
static bool collect(struct profile_child *c, struct measure *m)
{
    struct run *run = &c->run;
    size_t at = run->collected % (size_t)run->ring;
    struct run_slot *slot = &run->slots[at];
    int64_t begin = now_ns();
    int failed = 0;

    if (c->mode == PROFILE_EAGER) {
        failed = profile_eager_collect(c, slot);
        atomic_store(&c->ended[at], now_ns());
    } else {
        while (hr_job_poll(slot->job, HR_FOREVER) == HR_PENDING)
            ;
        for (int i = 0; i < slot->num; i++)
            failed += slot->job->results[i].status != HR_OK;
    }
    m->s.wait_results += seconds_of(now_ns() - begin);
    count(m, slot, failed);
    if (m->counts &&
        !keep_latency(m, 1e-6 * (double)(atomic_load(&c->ended[at]) -
                                         c->submitted[at])))
        return false;
    hr_job_release(&slot->job);
    if (c->mode != PROFILE_EAGER)
        for (int i = 0; slot->images && i < slot->num; i++)
            hr_image_release(&slot->images[i]);
    run->collected++;
    if (c->consumer_ms > 0) {
        begin = consume(c);
        m->s.consumer_seconds += seconds_of(now_ns() - begin);
    }
    return true;
}

// ---- One measurement -----------------------------------------------------------

// Jiffies of all processes of the machine but not of this one.
static uint64_t others(uint64_t *all)
{
    unsigned long long v[8] = {0};
    FILE *f = fopen("/proc/stat", "re");
    uint64_t busy = 0;
    double mine = tools_cpu_seconds() * (double)sysconf(_SC_CLK_TCK);

    *all = 0;
    if (f && fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0],
                    &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) == 8)
        for (int i = 0; i < 8; i++) {
            *all += v[i];
            busy += i == 3 || i == 4 ? 0 : v[i];
        }
    if (f)
        fclose(f);
    return busy > (uint64_t)mine ? busy - (uint64_t)mine : 0;
}

static void begin_counting(struct profile_child *c, struct measure *m,
                           uint64_t *all, double seconds)
{
    m->s.wait_results = m->s.wait_submit = m->s.consumer_seconds = 0;
    m->others = others(all);
    hr_device_profile(c->run.dev, &m->before);
    m->burnt = c->burnt;
    m->counts = true;
    m->cpu = tools_cpu_seconds();
    m->begun = tools_seconds();
    m->until = m->begun + seconds;
}

static bool run_for(struct profile_child *c, struct measure *m, double seconds,
                    uint64_t *all)
{
    struct run *run = &c->run;
    // The first time until it is warm: a ring, and a while. Then one batch.
    double warm = tools_seconds() + (c->warm ? 0 : 0.1);
    size_t first = c->warm ? 1 : (size_t)run->ring;
    double begin;

    run->submitted = run->collected = 0;
    while (!m->counts || tools_seconds() < m->until) {
        while (run->submitted - run->collected < (size_t)run->ring) {
            begin = tools_seconds();
            if (!submit(c))
                return false;
            m->s.wait_submit += tools_seconds() - begin;
        }
        if (!collect(c, m))
            return false;
        if (!m->counts && run->collected >= first && tools_seconds() >= warm)
            begin_counting(c, m, all, seconds);
    }
    return true;
}

static void end_counting(struct profile_child *c, struct measure *m,
                         uint64_t all_before)
{
    struct profile_sample *s = &m->s;
    struct hr_profile p;
    uint64_t all, other;

    m->ended = tools_seconds();
    s->seconds = m->ended - m->begun;
    s->cpu_seconds = tools_cpu_seconds() - m->cpu - (c->burnt - m->burnt);
    other = others(&all);
    if (all > all_before && other > m->others)
        s->others = (double)(other - m->others) / (double)(all - all_before);
    s->rate = (double)s->images / s->seconds;
    s->busy = s->consumer_seconds / s->seconds;
    s->peak_rss = (double)tools_peak_rss();
    hr_device_profile(c->run.dev, &p);
    for (int i = 0; i < p.num_engines; i++) {
        const struct hr_engine_profile *a = &m->before.engines[i];
        const struct hr_engine_profile *b = &p.engines[i];

        s->launches += (double)(b->launches - a->launches);
        s->device_batches += (double)(b->batches - a->batches);
        s->bytes_up += (double)(b->bytes_up - a->bytes_up);
        s->bytes_down += (double)(b->bytes_down - a->bytes_down);
    }
}

static json_t *numbers(const double *values, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

static json_t *sample_json(const struct measure *m)
{
    const struct profile_sample *s = &m->s;

    return json_pack(
        "{s:f s:f s:f s:f s:f s:f s:f s:I s:I s:I s:I s:f s:f s:f s:f s:f s:f "
        "s:f s:f s:f s:o}",
        "seconds", s->seconds, "cpu_seconds", s->cpu_seconds, "rate", s->rate,
        "busy", s->busy, "consumer_seconds", s->consumer_seconds, "wait_submit",
        s->wait_submit, "wait_results", s->wait_results, "images",
        (json_int_t)s->images, "failed", (json_int_t)s->failed, "batches",
        (json_int_t)s->batches, "fallbacks", (json_int_t)s->fallbacks,
        "launches", s->launches, "device_batches", s->device_batches,
        "bytes_up", s->bytes_up, "bytes_down", s->bytes_down, "peak_rss",
        s->peak_rss, "others", s->others, "begun", m->begun, "ended", m->ended,
        "total_cpu", tools_cpu_seconds(), "latencies",
        numbers(s->latencies, s->num_latencies));
}

// ---- With the clocks on ----------------------------------------------------------

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
                json_real(
                    seconds_of((int64_t)(b->parts[i].ns - a->parts[i].ns))));
    for (int i = 0; i < n; i++)
        json_array_append_new(
            cpu, json_real(seconds_of((int64_t)(b->cpu_ns[i] - a->cpu_ns[i]))));
    return json_pack("{s:s s:b s:I s:f s:o s:o}", "name", b->name,
                     "device_times", b->device_times, "tasks",
                     (json_int_t)(b->tasks - a->tasks), "idle",
                     seconds_of((int64_t)(b->idle_ns - a->idle_ns)), "parts",
                     parts, "cpu", cpu);
}

static void add_engines(struct profile_child *c, const struct measure *m,
                        json_t *answer)
{
    json_t *engines = json_array();
    struct hr_profile p;

    hr_device_profile(c->run.dev, &p);
    for (int i = 0; i < p.num_engines; i++)
        json_array_append_new(engines, engine_json(&m->before.engines[i],
                                                   &p.engines[i]));
    json_object_set_new(answer, "engines", engines);
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

static bool drain(struct profile_child *c)
{
    struct measure none = {0};
    double ms = c->consumer_ms;
    bool ok = true;

    c->consumer_ms = 0;
    while (c->run.collected < c->run.submitted)
        if (c->mode == PROFILE_EAGER ||
            c->run.slots[c->run.collected % (size_t)c->run.ring].job)
            ok &= collect(c, &none);
        else
            c->run.collected++;
    c->consumer_ms = ms;
    return ok;
}

static json_t *measure(struct profile_child *c, json_t *command)
{
    const char *trace = json_string_value(json_object_get(command, "trace"));
    struct measure m = {0};
    uint64_t all = 0;
    json_t *answer = NULL;
    bool ok;

    c->consumer_ms = json_number_value(json_object_get(command, "consumer_ms"));
    c->consumer_cpu = json_number_value(
        json_object_get(command, "consumer_cpu"));
    if (trace && hr_trace_start(NULL)) {
        tools_warn("%s", hr_last_error());
        return NULL;
    }
    ok = run_for(c, &m, json_number_value(json_object_get(command, "seconds")),
                 &all);
    c->warm = true;
    if (ok) {
        end_counting(c, &m, all);
        answer = sample_json(&m);
    }
    ok &= drain(c);
    if (ok && c->mode == PROFILE_WATCHED)
        settle(c);
    if (ok && c->mode == PROFILE_WATCHED)
        add_engines(c, &m, answer);
    if (trace) {
        hr_trace_stop();
        if (ok && hr_trace_write(trace)) {
            tools_warn("%s", hr_last_error());
            ok = false;
        }
    }
    free(m.s.latencies);
    if (!ok)
        json_decref(answer);
    return ok ? answer : NULL;
}

// ---- The process -----------------------------------------------------------------

static const char *text_of(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

static int number_of(const json_t *json, const char *name)
{
    return (int)json_integer_value(json_object_get(json, name));
}

// Spread over all of them: one folder may hold one kind of picture.
static void thin_out(struct inputs *in, size_t limit)
{
    if (!limit || in->num <= limit)
        return;
    for (size_t i = 0; i < limit; i++)
        in->items[i] =
            in->items[(size_t)((double)i * (double)in->num / (double)limit)];
    in->num = limit;
}

static bool read_config(struct profile_child *c, const json_t *config)
{
    struct run_options *opt = &c->run.opt;
    const json_t *paths = json_object_get(config, "inputs");
    char error[320];

    opt->ops_text = text_of(config, "ops");
    opt->backend = text_of(config, "backend");
    opt->batch = number_of(config, "batch");
    opt->threads = number_of(config, "threads");
    opt->dtype = (enum hr_dtype)number_of(config, "dtype");
    opt->tier = (enum hr_tier)number_of(config, "tier");
    opt->epochs = 1;
    opt->quiet = true;
    opt->on_error = HR_ON_ERROR_ZERO;
    c->mode = (enum profile_mode)number_of(config, "mode");
    if (!opt->ops_text || !opt->backend ||
        !ops_parse(&opt->ops, opt->ops_text, error, sizeof(error)))
        return false;
    for (size_t i = 0; i < json_array_size(paths); i++)
        if (!inputs_add(&c->run.in,
                        json_string_value(json_array_get(paths, i)))) {
            tools_warn("%s", c->run.in.error);
            return false;
        }
    thin_out(&c->run.in, (size_t)number_of(config, "limit"));
    return true;
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
    struct hr_profile p;

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
    c->file = calloc((size_t)run->ring * (size_t)run->batch, sizeof(*c->file));
    hr_device_profile(run->dev, &p);
    return c->file &&
           say(json_pack("{s:s s:s s:i s:i s:I s:b}", "device", run->dev->name,
                         "description", run->dev->description, "batch",
                         run->batch, "ring", run->ring, "pictures",
                         (json_int_t)run->total, "software",
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
        free(c->file);
    }
    json_decref(config);
    free(line);
    free(c);
    return ok ? TOOLS_OK : TOOLS_CANNOT;
}
