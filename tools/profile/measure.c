// SPDX-License-Identifier: Apache-2.0
// A measurement is of a loader that runs: it begins when a batch has been made
// and come out (the first time, when all have once) and ends with the batch
// that comes out after the time is over; if the list can be gone through to its
// end in as long again, there: then every configuration has made the same
// pictures. (Lists that are longer are in random order.) Between two of them
// the loader is full, and nothing is in flight: so it begins with clocks, which
// count whole pictures.
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

// Takes the consumer's time, and its share of a core: in slices of a
// millisecond, each until its part of CPU time is used up. It catches up with
// CPU time that other processes kept from it, but not beyond the end.
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

// ---- The loader ------------------------------------------------------------

hr_loader profile_open_loader(const struct profile_child *c, bool tunes)
{
    struct hr_loader_params params = run_loader_params(&c->run);
    hr_loader loader;

    params.source = c->source;
    params.epochs = HR_ENDLESS;
    if (tunes) {
        params.by_path = false;
        params.autotune = true;
        params.reads = 0;
        params.start = (struct hr_loader_settings){1, 1, 1, 0};
    }
    loader = hr_loader_create(&params);
    if (!loader)
        tools_warn("%s", hr_last_error());
    return loader;
}

static int in_flight(const struct profile_child *c, int *ready)
{
    struct hr_loader_stats stats;

    hr_loader_stats(c->loader, &stats);
    *ready = stats.ready;
    return stats.settings.depth;
}

#define STILL 0.05  // seconds in which a loader that waits for memory changes

// Waits until all batches are ready, and the device has nothing to do. (Of
// pictures of their own sizes some may wait for memory of others.)
static void fill_up(const struct profile_child *c)
{
    bool own_size = !c->loader->h;
    double since = tools_seconds();
    uint64_t lent, made, was = 0;
    int ready, depth;

    do {
        usleep(1000);
        hr_wait_all(c->run.dev, HR_FOREVER);
        depth = in_flight(c, &ready);
        lent = atomic_load(&c->lent);
        made = atomic_load(&c->made);
        if (lent + made + (uint64_t)ready != was)
            since = tools_seconds();
        was = lent + made + (uint64_t)ready;
    } while ((ready < depth || lent != made) &&
             !(own_size && tools_seconds() - since > STILL));
}

static void count(struct profile_measure *m, hr_loaded loaded)
{
    m->s.batches += loaded->through;
    for (int i = 0; i < loaded->n; i++) {
        const struct hr_result *r = &loaded->results[i];

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

// Waits for the next batch and hands it to the consumer.
static bool take(struct profile_child *c, struct profile_measure *m)
{
    double begin = tools_seconds();
    hr_loaded loaded;

    if (hr_loader_next(c->loader, HR_FOREVER, &loaded))
        return tools_warn("%s", hr_last_error());
    m->s.wait_results += tools_seconds() - begin;
    if (m->counts)
        count(m, loaded);
    if (m->counts && c->latencies)
        profile_keep(c->latencies, 1e-6 * (double)loaded->made_ns);
    if (c->consumer_ms > 0) {
        begin = tools_seconds();
        profile_consume(c);
        m->s.consumer_seconds += tools_seconds() - begin;
    }
    hr_loaded_release(&loaded);
    return true;
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
    m->s.wait_results = m->s.consumer_seconds = 0;
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

static bool run_for(struct profile_child *c, struct profile_measure *m,
                    double seconds)
{
    // The first time until it is warm: all batches, and a while. Later the
    // ready batches, and one more.
    double warm = tools_seconds() + (c->warm ? 0 : 0.1);
    int left, depth = in_flight(c, &left);

    left = c->warm ? left + 1 : depth;
    if (c->mode == PROFILE_WATCHED && c->warm)
        begin_counting(c, m, seconds);
    while (!is_over(c, m, seconds)) {
        if (!take(c, m))
            return false;
        left -= left > 0;
        if (!m->counts && !left && tools_seconds() >= warm)
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

bool profile_measure(struct profile_child *c, struct profile_measure *m,
                     double seconds)
{
    if (!c->loader && !(c->loader = profile_open_loader(c, false)))
        return false;
    if (!run_for(c, m, seconds))
        return false;
    end_counting(c, m);
    fill_up(c);
    c->warm = true;
    return true;
}

// Since the device was opened, with nothing in flight: exact, unlike what a
// window cuts out.
void profile_count_device(const struct profile_child *c,
                          struct profile_config *to)
{
    double bytes = 0, imported = 0, launches = 0, batches = 0;
    double made = (double)atomic_load(&c->made);
    struct hr_stats stats;
    struct hr_profile p;
    int ready;

    to->ring = in_flight(c, &ready);
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
    to->bytes_per_image = made > 0 ? bytes / made : 0;
    to->imported_per_image = made > 0 ? imported / made : 0;
}
