// SPDX-License-Identifier: Apache-2.0
// The process of one configuration: it opens the device, measures as often as
// it is asked to, and closes it.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "profile.h"
#include "tools/common/tools.h"

const char *const profile_modes[] = {"planned", "memory", "decoded", "watched"};

// ---- With the clocks on ----------------------------------------------------

static void read_parts(struct profile_watch *w,
                       const struct hr_engine_profile *a,
                       const struct hr_engine_profile *b, double pictures)
{
    double sum = 0;

    for (int i = 0; i < HR_NUM_PARTS; i++)
        sum += (double)(b->parts[i].ns - a->parts[i].ns);
    for (int i = 0; i < HR_NUM_PARTS; i++) {
        double ns = (double)(b->parts[i].ns - a->parts[i].ns);
        struct profile_part *part = &w->parts[w->num_parts];

        if (ns <= 0)
            continue;
        w->num_parts++;
        *part = (struct profile_part){
            .name = hr_part_name((enum hr_part)i),
            .ms_per_1000 = pictures > 0 ? 1e-3 * ns / pictures : 0,
            .share = ns / sum,
            .device = b->device_times && i != HR_PART_PACK &&
                      i != HR_PART_DELIVER};
        snprintf(part->engine, sizeof(part->engine), "%s", b->name);
    }
}

// Shares are of the stage's time.
static void read_codes(struct profile_watch *w,
                       const struct hr_engine_profile *a,
                       const struct hr_engine_profile *b, double pictures)
{
    double all = (double)(b->parts[HR_PART_AUGMENT].ns -
                          a->parts[HR_PART_AUGMENT].ns);

    for (int i = 0; i < HR_PROFILE_CODES && b->codes[i].name; i++) {
        double ns = (double)(b->codes[i].ns - a->codes[i].ns);
        struct profile_part *code = &w->codes[w->num_codes];

        if (ns <= 0 || pictures <= 0)
            continue;
        w->num_codes++;
        *code = (struct profile_part){.name = b->codes[i].name,
                                      .ms_per_1000 = 1e-3 * ns / pictures,
                                      .share = ns / all};
        snprintf(code->engine, sizeof(code->engine), "%s", b->name);
    }
}

// The last engine of a chain is the host's: its threads are the workers.
static void read_workers(struct profile_watch *w,
                         const struct hr_engine_profile *a,
                         const struct hr_engine_profile *b, double elapsed)
{
    w->num_workers = b->num_threads < HR_PROFILE_THREADS ? b->num_threads
                                                         : HR_PROFILE_THREADS;
    for (int i = 0; i < w->num_workers; i++) {
        w->worker_cpu[i] = 1e-9 * (double)(b->cpu_ns[i] - a->cpu_ns[i]) /
                           elapsed;
        w->on_a_core += w->worker_cpu[i] / w->num_workers;
    }
    // Over all threads, of which only some have a CPU time above.
    if (b->num_threads > 0)
        w->idle = 1e-9 * (double)(b->idle_ns - a->idle_ns) / elapsed /
                  b->num_threads;
}

static void read_watch(struct profile_child *c, const struct profile_measure *m,
                       double pictures, struct profile_watch *w)
{
    struct hr_profile now;
    int n;

    hr_device_profile(c->run.dev, &now);
    n = now.num_engines;
    for (int i = 0; i < n; i++) {
        read_parts(w, &m->before.engines[i], &now.engines[i], pictures);
        read_codes(w, &m->before.engines[i], &now.engines[i], pictures);
    }
    if (n > 0)
        read_workers(w, &m->before.engines[n - 1], &now.engines[n - 1],
                     tools_seconds() - m->begun);
    w->begun = m->begun;
    w->ended = m->begun + m->s.seconds;
    w->wait_results = m->s.wait_results / m->s.seconds;
}

// The clocks begin and end with nothing in flight; the last batches of a device
// come in late.
static bool watch(struct profile_child *c, struct profile_measure *m,
                  double seconds, struct profile *p, int backend)
{
    char path[64];
    uint64_t before;

    if (!profile_measure(c, m, 0))
        return false;
    usleep(10000);
    *m = (struct profile_measure){0};
    before = atomic_load(&c->made);
    if (hr_trace_start(NULL))
        return tools_warn("%s", hr_last_error());
    if (!profile_measure(c, m, seconds))
        return false;
    usleep(10000);
    read_watch(c, m, (double)(atomic_load(&c->made) - before),
               &p->watch[backend]);
    hr_trace_stop();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", p->trace_fd);
    return !hr_trace_write(path) ||
           tools_warn("the trace, in TMPDIR or /tmp: %s", hr_last_error());
}

// ---- The process -----------------------------------------------------------

static bool measure(struct profile_child *c, struct profile *p,
                    struct profile_config *config,
                    const struct profile_order *order)
{
    struct profile_measure m = {0};
    bool watched = c->mode == PROFILE_WATCHED;

    c->consumer_ms = order->consumer ? p->opt.consumer_ms : 0;
    c->consumer_cpu = p->opt.consumer_cpu;
    c->latencies = order->consumer ? NULL : &config->latencies;
    if (order->queue)
        return profile_queue(c, &p->queues[config->backend], order->seconds);
    if (watched ? !watch(c, &m, order->seconds, p, config->backend)
                : !profile_measure(c, &m, order->seconds))
        return false;
    profile_count_device(c, config);
    if (order->consumer && !watched)
        config->fed[config->num_fed++] = m.s;
    else
        config->rounds[config->num_rounds++] = m.s;
    return true;
}

static bool open_all(struct profile_child *c, const struct profile *p,
                     struct profile_config *config)
{
    struct run *run = &c->run;

    pthread_setname_np(pthread_self(), "main");
    c->mode = config->mode;
    run->in = p->in;
    run->in.num_faults = 0;  // they are told already
    run->opt = p->opt.run;
    run->opt.backend = p->opt.backends[config->backend];
    run->opt.threads = config->threads;
    run->opt.quiet = true;
    run->opt.on_error = HR_ON_ERROR_ZERO;
    // Before the device is opened, or it has no times of its own.
    if (c->mode == PROFILE_WATCHED)
        hr_profile_times(true);
    c->in_memory = p->opt.memory || c->mode == PROFILE_MEMORY ||
                   c->mode == PROFILE_DECODED;
    if (!run_prepare(run) || !profile_source_open(c))
        return false;
    hr_device_profile(run->dev, &c->opened);
    snprintf(config->device, sizeof(config->device), "%s", run->dev->name);
    snprintf(config->description, sizeof(config->description), "%s",
             run->dev->description);
    config->batch = run->batch;
    config->pictures = (double)run->total;
    config->software = run->dev->caps.software;
    return true;
}

int profile_child(struct profile *p, struct profile_config *config, int fd)
{
    struct profile_child *c = tools_new(sizeof(*c));
    struct profile_order order;
    bool ok = c && open_all(c, p, config);

    while (ok && write(fd, "", 1) == 1 &&
           read(fd, &order, sizeof(order)) == sizeof(order))
        ok = measure(c, p, config, &order);
    // Before its device is closed: a driver that has failed may hang in that.
    if (!ok)
        snprintf(config->why, sizeof(config->why), "%s", tools_last_warning());
    close(fd);
    if (c) {
        hr_loader_destroy(&c->loader);
        profile_source_close(c);
        hr_device_close(&c->run.dev);
        inputs_finish(&c->run.in);
    }
    free(c);
    return ok ? TOOLS_OK : TOOLS_CANNOT;
}
