// SPDX-License-Identifier: Apache-2.0
// Runs a loader on the pictures of a process: records its queue over time, and
// the settings that it reaches from one of everything.
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

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
    hr_loader loader;
    bool ok;

    // Its batches take what the other loader's have.
    hr_loader_destroy(&c->loader);
    c->warm = false;
    *q = (struct profile_queue){.every = 1};
    loader = profile_open_loader(c, true);
    ok = loader && consume_for(c, loader, q, seconds);
    hr_loader_destroy(&loader);
    return ok;
}
