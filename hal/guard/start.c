// SPDX-License-Identifier: Apache-2.0
// The guard's threads: start, the first open, stop.
#include <stdio.h>
#include <string.h>

#include "hal/engine/guard.h"

// Least time to open in; and the most, while the driver works on a busy
// machine.
#define LEAST_NS INT64_C(1000000000)
#define MOST_NS INT64_C(300000000000)

bool hr__guard_is_lane(const struct hr__guard *g, int lane)
{
    return g->lanes[lane].known &&
           pthread_equal(g->lanes[lane].self, pthread_self());
}

void hr__guard_init(struct hr__guard *g, const struct hr__guard_ops *ops,
                    void *owner, struct hr__engine *e)
{
    *g = (struct hr__guard){.ops = ops, .owner = owner};
    snprintf(g->name, sizeof(g->name), "%s", e->name);
    g->tail = &g->head;
    g->due = INT64_MAX;
    g->deadline = hr__guard_deadline(e);
    hr__engine_ref_init(&g->ref, e);
    pthread_mutex_init(&g->lock, NULL);
    hr__cond_init(&g->clock);
    hr__cond_init(&g->changed);
    for (int i = 0; i < HR__GUARD_LANES; i++) {
        g->lanes[i].guard = g;
        hr__cond_init(&g->lanes[i].wake);
    }
}

// ---- Lanes -----------------------------------------------------------------

static void drive(struct hr__guard *g)
{
    enum hr_status status = g->ops->open ? g->ops->open(g->owner) : HR_OK;
    bool left_behind;

    pthread_mutex_lock(&g->lock);
    g->open_status = status;
    if (status)
        snprintf(g->open_text, sizeof(g->open_text), "%s", hr_last_error());
    g->opened = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (status)
        return;
    left_behind = !g->ops->drive(g->owner);
    pthread_mutex_lock(&g->lock);
    g->left_behind = left_behind;
    pthread_mutex_unlock(&g->lock);
}

static void *run_lane(void *arg)
{
    struct hr__guard_lane *lane = arg;
    struct hr__guard *g = lane->guard;
    int i = (int)(lane - g->lanes);

    hr__engine_ref_thread(&g->ref, g->ops->lanes[i]);
    pthread_mutex_lock(&g->lock);
    lane->self = pthread_self();
    lane->known = true;
    pthread_mutex_unlock(&g->lock);
    if (i)
        g->ops->second(g->owner);
    else
        drive(g);
    pthread_mutex_lock(&g->lock);
    lane->gone = true;
    hr__guard_wake_all(g);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static bool start_lane(struct hr__guard *g, int i)
{
    struct hr__guard_lane *lane = &g->lanes[i];
    bool ok = hr__thread_start(&lane->thread, run_lane, lane);

    pthread_mutex_lock(&g->lock);
    lane->started = ok;
    pthread_mutex_unlock(&g->lock);
    return ok;
}

// ---- Start and stop --------------------------------------------------------

static struct hr__patience patience(const struct hr__guard *g, int64_t ns,
                                    int64_t most)
{
    int64_t now = hr__now();

    return (struct hr__patience){.deadline = now + ns,
                                 .most = now + most,
                                 .caller = &g->lanes[0].thread};
}

enum hr_status hr__guard_start(struct hr__guard *g, const struct hr__engine *e,
                               int64_t most)
{
    int64_t begin = hr__now(), ns = e->params.deadline_ns;
    struct hr__patience p;
    bool opened;

    if (!start_lane(g, 0))
        return hr__fail(HR_ENOMEM, "no thread for the driver");
    ns = ns < LEAST_NS ? LEAST_NS : ns < most ? ns : most;
    p = patience(g, ns, MOST_NS);
    pthread_mutex_lock(&g->lock);
    while (!g->opened && (hr__cond_wait(&g->changed, &g->lock, p.deadline) ||
                          hr__wait_longer(&p)))
        ;
    opened = g->opened;
    pthread_mutex_unlock(&g->lock);
    if (!opened)
        return hr__fail(HR_EDEVICE, "the driver did not answer in %d s",
                        (int)((hr__now() - begin) / 1000000000));
    if (g->open_status)
        return hr__fail(g->open_status, "%s", g->open_text);
    if (g->ops->second && !start_lane(g, 1))
        return hr__fail(HR_ENOMEM, "no second thread for the driver");
    if (!(g->have_clock = hr__thread_start(&g->clock_thread, hr__guard_clock,
                                           g)))
        return hr__fail(HR_ENOMEM, "no thread for the clock");
    return HR_OK;
}

static bool left_behind(struct hr__guard *g, struct hr__engine *e, size_t size)
{
    e->left_behind = true;
    hr__log(e->device, HR_LOG_ERROR,
            "%s: the driver does not answer, its thread and %zu bytes are "
            "left behind",
            e->name, size);
    hr__engine_ref_revoke(&g->ref);
    return false;
}

bool hr__guard_stop(struct hr__guard *g, struct hr__engine *e, int64_t ns,
                    bool patient, size_t size)
{
    struct hr__patience p = patience(g, ns, patient ? MOST_NS : 0);
    bool gone;

    pthread_mutex_lock(&g->lock);
    g->stop = true;
    hr__guard_wake_all(g);
    // A driver that has not opened, or is late, has had its time.
    while (!hr__guard_all_gone(g) && g->opened &&
           (!g->dead || g->ops->outlives) &&
           (hr__cond_wait(&g->changed, &g->lock, p.deadline) ||
            hr__wait_longer(&p)))
        ;
    gone = hr__guard_all_gone(g);
    g->abandoned = !gone;
    hr__guard_wake_all(g);
    pthread_mutex_unlock(&g->lock);
    if (g->have_clock)
        pthread_join(g->clock_thread, NULL);
    for (int i = 0; i < HR__GUARD_LANES; i++) {
        if (!g->lanes[i].started)
            continue;
        if (gone)
            pthread_join(g->lanes[i].thread, NULL);
        else
            pthread_detach(g->lanes[i].thread);
    }
    if (gone && !g->dead && !g->left_behind)
        return true;
    return left_behind(g, e, size);
}
