// SPDX-License-Identifier: Apache-2.0
// A measurement is of a pipeline that runs: it begins when a batch has come out
// (the first time, when the ring has gone round once) and ends with the batch
// that comes out after the time is over; if the list can be gone through to its
// end in as long again, there: then every configuration has made the same
// pictures. (Lists that are longer are in random order.) With clocks it begins
// and ends with nothing in flight, so that they count whole pictures.
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profile.h"
#include "tools/common/tools.h"

// ---- The consumer ----------------------------------------------------------

static void sleep_until(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

// Takes its time, and of a core what it was told: in slices of a millisecond,
// each until its part of CPU time is used up. What others kept it from using it
// catches up with, but not beyond the end.
void profile_consume(struct profile_child *c)
{
    const double begin = tools_seconds(), end = begin + c->consumer_ms / 1000;
    const double part = c->consumer_cpu / 100, cpu = tools_thread_seconds();

    for (double at = begin; part > 0 && at < end; at += 0.001) {
        double stop = fmin(at + 0.001, end), due = part * (stop - begin);

        while (tools_thread_seconds() - cpu < due && tools_seconds() < end)
            ;
        sleep_until(stop);
    }
    sleep_until(end);
    c->burnt += tools_thread_seconds() - cpu;
    hr_trace_span("consumer", (int64_t)(1e9 * begin),
                  (int64_t)(1e9 * tools_seconds()));
}

// ---- The pipeline ----------------------------------------------------------

static void on_done(void *ctx, const struct hr_job_t *job)
{
    (void)job;
    atomic_store((_Atomic double *)ctx, tools_seconds());
}

static void collect(struct profile_child *c, struct profile_measure *m);

static bool submit_slot(struct profile_child *c, struct profile_measure *m)
{
    struct run *run = &c->run;
    size_t at = c->submitted % (size_t)run->ring;
    struct profile_slot *slot = &c->slots[at];
    struct hr_job_params params = {
        .tier = run->opt.tier,
        .on_error = HR_ON_ERROR_ZERO,
        .wait_for_room = true,
        .on_done = on_done,
        .ctx = &c->ended[at],
    };

    if (c->next >= run->total) {
        c->next = 0;
        run->epoch++;
    }
    if (!profile_fill(c, slot))
        return false;
    while (profile_needs_all(c, slot) && c->collected < c->submitted)
        collect(c, m);
    if (!profile_make_images(c, slot))
        return false;
    profile_source_fill(c, slot);
    c->begun[at] = tools_seconds();
    c->submitted++;
    slot->job = hr_submit(run->dev, c->samples, slot->num, slot->batch,
                          &params);
    if (!slot->job)
        tools_warn("%s", hr_last_error());
    return slot->job != NULL;
}

static bool submit(struct profile_child *c, struct profile_measure *m)
{
    bool ok = submit_slot(c, m);

    profile_drop_sources(c);
    return ok;
}

static void count(struct profile_measure *m, const struct profile_slot *slot)
{
    m->s.batches += m->counts;
    for (int i = 0; m->counts && i < slot->num; i++) {
        const struct hr_result *r = &slot->job->results[i];

        if (r->status != HR_OK) {
            m->s.failed++;
            continue;
        }
        m->s.images++;
        m->s.cached += r->num_spans && !strcmp(r->spans[0].device, "cache");
        m->s.fallbacks += r->why != 0;
        for (int bit = 0; bit < RUN_NUM_WHY; bit++)
            m->s.why[bit] += r->why >> bit & 1;
    }
}

// Waits for the oldest batch and hands it to the consumer.
static void collect(struct profile_child *c, struct profile_measure *m)
{
    struct run *run = &c->run;
    size_t at = c->collected % (size_t)run->ring;
    struct profile_slot *slot = &c->slots[at];
    double begin = tools_seconds();

    while (hr_job_poll(slot->job, HR_FOREVER) == HR_PENDING)
        ;
    m->s.wait_results += tools_seconds() - begin;
    count(m, slot);
    if (m->counts && c->latencies)
        profile_keep(c->latencies,
                     1000 * (atomic_load(&c->ended[at]) - c->begun[at]));
    hr_job_release(&slot->job);
    profile_release(c, slot);
    c->collected++;
    c->made += (uint64_t)slot->num;
    if (c->consumer_ms > 0) {
        begin = tools_seconds();
        profile_consume(c);
        m->s.consumer_seconds += tools_seconds() - begin;
    }
}

// ---- One measurement -------------------------------------------------------

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

static void begin_counting(struct profile_child *c, struct profile_measure *m,
                           double seconds)
{
    m->s.wait_results = m->s.wait_submit = m->s.consumer_seconds = 0;
    m->others = others(&m->all);
    hr_device_profile(c->run.dev, &m->before);
    m->burnt = c->burnt;
    m->counts = true;
    m->cpu = tools_cpu_seconds();
    m->begun = tools_seconds();
    m->until = m->begun + seconds;
}

enum { LEAST_BATCHES = 4 };  // fewer say nothing, unless they take for ever

static bool is_over(const struct profile_child *c,
                    const struct profile_measure *m, double seconds)
{
    size_t batch = (size_t)c->run.batch;
    uint64_t round = (c->run.total + batch - 1) / batch, done = m->s.batches;
    double now = tools_seconds(), rate = (double)done / (now - m->begun), left;

    if (!m->counts || now < m->until)
        return false;
    if (done < LEAST_BATCHES)
        return done && now >= m->until + 4 * seconds;
    left = (double)((round - done % round) % round);
    // Twice: batches of few pictures come in bursts.
    return left <= 0 || left / rate > seconds || now >= m->until + 2 * seconds;
}

static double collecting(const struct profile_measure *m)
{
    return m->s.wait_results + m->s.consumer_seconds;
}

static bool run_for(struct profile_child *c, struct profile_measure *m,
                    double seconds)
{
    struct run *run = &c->run;
    // The first time until it is warm: a ring, and a while. Then one batch.
    double warm = tools_seconds() + (c->warm ? 0 : 0.1);
    size_t first = c->warm ? 1 : (size_t)run->ring;

    c->submitted = c->collected = c->next = 0;
    if (c->mode == PROFILE_WATCHED && c->warm)
        begin_counting(c, m, seconds);
    while (!is_over(c, m, seconds)) {
        if (c->submitted - c->collected < (size_t)run->ring) {
            // What it collected meanwhile has its own clocks.
            double begin = tools_seconds() - collecting(m);

            if (!submit(c, m))
                return false;
            m->s.wait_submit += tools_seconds() - collecting(m) - begin;
        } else {
            collect(c, m);
        }
        if (!m->counts && c->collected >= first && tools_seconds() >= warm)
            begin_counting(c, m, seconds);
    }
    return true;
}

static void end_counting(const struct profile_child *c,
                         struct profile_measure *m)
{
    struct profile_sample *s = &m->s;
    uint64_t all, other;

    s->seconds = tools_seconds() - m->begun;
    s->consumer_cpu = c->burnt - m->burnt;
    s->cpu_seconds = tools_cpu_seconds() - m->cpu - s->consumer_cpu;
    other = others(&all);
    if (all > m->all && other > m->others)
        s->others = (double)(other - m->others) / (double)(all - m->all);
    s->rate = (double)s->images / s->seconds;
    s->busy = s->consumer_seconds / s->seconds;
    s->peak_rss = (double)tools_peak_rss();
}

// Waits for what is still in flight; a job that could not be submitted is none.
static void drain(struct profile_child *c)
{
    struct profile_measure rest = {.counts = true};
    struct profile_latencies *latencies = c->latencies;
    double ms = c->consumer_ms;

    c->consumer_ms = 0;
    c->latencies = NULL;
    while (c->collected < c->submitted)
        if (c->slots[c->collected % (size_t)c->run.ring].job)
            collect(c, &rest);
        else
            c->collected++;
    c->consumer_ms = ms;
    c->latencies = latencies;
    c->drained = rest.s.images + rest.s.failed;
}

bool profile_measure(struct profile_child *c, struct profile_measure *m,
                     double seconds)
{
    bool ok = run_for(c, m, seconds);

    if (ok)
        end_counting(c, m);
    drain(c);
    c->warm = true;
    return ok;
}

// Since the device was opened, with nothing in flight: exact, unlike what a
// window cuts out.
void profile_count_device(const struct profile_child *c,
                          struct profile_config *to)
{
    double bytes = 0, imported = 0, launches = 0, batches = 0;
    struct hr_stats stats;
    struct hr_profile p;

    hr_device_profile(c->run.dev, &p);
    hr_device_stats(c->run.dev, &stats);
    for (int i = 0; c->run.opt.balance && i < p.num_engines; i++) {
        snprintf(to->shares[i].name, sizeof(to->shares[i].name), "%s",
                 p.engines[i].name);
        to->shares[i].samples = (double)stats.shares[i];
    }
    to->import_falls = 0;
    for (int i = 0; i < p.num_engines; i++) {
        const struct hr_engine_profile *a = &c->opened.engines[i];
        const struct hr_engine_profile *b = &p.engines[i];

        launches += (double)(b->launches - a->launches);
        batches += (double)(b->batches - a->batches);
        bytes += (double)(b->bytes_up - a->bytes_up + b->bytes_down -
                          a->bytes_down);
        imported += (double)(b->bytes_imported - a->bytes_imported);
        to->import_falls += (double)(b->import_falls - a->import_falls);
        for (int k = 0; k < HR_PROFILE_RUNGS && b->rungs[k].name; k++) {
            struct profile_rung *r = &to->rungs[k];

            snprintf(r->name, sizeof(r->name), "%s", b->rungs[k].name);
            r->samples = (double)(b->rungs[k].samples - a->rungs[k].samples);
        }
    }
    to->launches_per_batch = batches > 0 ? launches / batches : 0;
    to->bytes_per_image = c->made ? bytes / (double)c->made : 0;
    to->imported_per_image = c->made ? imported / (double)c->made : 0;
}
