// SPDX-License-Identifier: Apache-2.0
// What a loader does with the pictures of a process: its queue over time, and
// the settings that it comes to from one of everything.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

// ---- Its source: the pictures in their order here --------------------------

static enum hr_status lend(void *ctx, uint64_t i, struct hr_encoded *to,
                           char message[256])
{
    const struct profile_child *c = ctx;
    char path[PATH_MAX];
    enum hr_status status;

    if (c->num_sources) {
        to->data = c->sources[(size_t)i % c->num_sources].data;
        to->size = c->sources[(size_t)i % c->num_sources].size;
        return HR_OK;
    }
    if (inputs_is_file(&c->run.in, (size_t)i)) {
        to->path = strdup(inputs_path(&c->run.in, (size_t)i, path, PATH_MAX));
        return to->path ? HR_OK : HR_ENOMEM;
    }
    status = inputs_read(&c->run.in, (size_t)i, to);
    if (status) {
        snprintf(message, 256, "%.255s", hr_last_error());
        hr_encoded_finish(to);
    }
    return status;
}

static void take_back(void *ctx, uint64_t i, const struct hr_encoded *from)
{
    struct hr_encoded own = *from;

    (void)ctx;
    (void)i;
    free((void *)(uintptr_t)from->path);
    hr_encoded_finish(&own);
}

static hr_loader open_loader(const struct profile_child *c, hr_source source)
{
    const struct run *run = &c->run;
    const struct run_options *opt = &run->opt;

    return hr_loader_create(
        hr_loader_params(.source = source, .device = run->dev,
                         .ops = opt->ops.ops, .num_ops = opt->ops.num,
                         .batch = run->batch, .own_size = !run->equal_shapes,
                         .dtype = opt->dtype, .layout = opt->layout,
                         .memory = opt->memory, .tier = opt->tier,
                         .strict = opt->strict, .on_error = HR_ON_ERROR_ZERO,
                         .seed = opt->seed, .epochs = HR_ENDLESS,
                         .budget = (size_t)opt->budget, .autotune = true,
                         .start = {.threads = 1, .reads = 1, .depth = 1}));
}

// ---- What is seen of it ----------------------------------------------------

// When there are too many every other one goes, and fewer come.
static void keep_point(struct profile_queue *q,
                       const struct hr_loader_stats *stats, double at)
{
    if (stats->batches % q->every)
        return;
    if (q->num_points == PROFILE_POINTS) {
        q->num_points /= 2;
        q->every *= 2;
        for (int i = 1; i < q->num_points; i++)
            q->points[i] = q->points[2 * i];
        if (stats->batches % q->every)
            return;
    }
    q->points[q->num_points++] =
        (struct profile_point){.at = at,
                               .ready = stats->ready,
                               .reading = stats->reading,
                               .bytes = (double)stats->encoded_bytes};
}

// A change was tried, or taken back, since the last batch.
static void keep_change(struct profile_queue *q,
                        const struct hr_loader_stats *stats, double at)
{
    bool changed = memcmp(&q->settings, &stats->settings, sizeof(q->settings));
    bool back = stats->tune_backs > (uint64_t)q->backs;

    q->settings = stats->settings;
    q->steps = (double)stats->tune_steps;
    q->backs = (double)stats->tune_backs;
    if (changed && q->num_changes < PROFILE_CHANGES)
        q->changes[q->num_changes++] =
            (struct profile_change){.at = at,
                                    .batch = stats->batches,
                                    .settings = stats->settings,
                                    .back = back};
}

static void keep_sums(struct profile_queue *q,
                      const struct hr_loader_stats *stats)
{
    q->batches = (double)stats->batches;
    q->rate = q->seconds > 0
                  ? (double)(stats->samples - stats->failed) / q->seconds
                  : 0;
    q->waits = (double)stats->waits;
    q->wait_share = stats->batches
                        ? (double)stats->waits / (double)stats->batches
                        : 0;
    q->waited = stats->waited;
    q->starved = stats->starved;
    q->ready = stats->mean_ready;
    q->reading = stats->mean_reading;
    q->making = stats->mean_making;
    q->peak_bytes = (double)stats->peak_encoded_bytes;
}

static bool consume_for(struct profile_child *c, hr_loader loader,
                        struct profile_queue *q, double seconds)
{
    double begun = tools_seconds();
    struct hr_loader_stats stats;
    hr_loaded loaded;

    hr_loader_stats(loader, &stats);
    q->settings = q->begin = stats.settings;
    while ((q->seconds = tools_seconds() - begun) < seconds) {
        enum hr_status status = hr_loader_next(loader, 100000000, &loaded);

        if (status && status != HR_PENDING)
            return tools_warn("%s", hr_last_error());
        if (!loaded)
            continue;
        hr_loader_stats(loader, &stats);
        keep_point(q, &stats, q->seconds);
        keep_change(q, &stats, q->seconds);
        if (c->consumer_ms > 0)
            profile_consume(c);
        hr_loaded_release(&loaded);
    }
    hr_loader_stats(loader, &stats);
    keep_sums(q, &stats);
    return true;
}

bool profile_queue(struct profile_child *c, struct profile_queue *q,
                   double seconds)
{
    hr_source source = hr_source_of_calls(
        &(struct hr_source_calls){.num = c->run.total,
                                  .ctx = c,
                                  .read = lend,
                                  .done = c->num_sources ? NULL : take_back});
    hr_loader loader = source ? open_loader(c, source) : NULL;
    bool ok;

    *q = (struct profile_queue){.every = 1};
    ok = loader ? consume_for(c, loader, q, seconds)
                : tools_warn("%s", hr_last_error());
    hr_loader_destroy(&loader);
    hr_source_close(&source);
    return ok;
}
