// SPDX-License-Identifier: Apache-2.0
// The guard's threads: start, the first open, stop.
#include <stdio.h>
#include <string.h>

#include "hal/engine/guard.h"

// Least time to open in; and the most, while the driver works on a busy
// machine.
#define LEAST_NS INT64_C(1000000000)
#define MOST_NS INT64_C(300000000000)

bool hr__guard_is_thread(const struct hr__guard *g, int thread)
{
    return g->threads[thread].known &&
           pthread_equal(g->threads[thread].self, pthread_self());
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
    for (int i = 0; i < HR__GUARD_THREADS; i++) {
        g->threads[i].guard = g;
        hr__cond_init(&g->threads[i].wake);
    }
}

// ---- Threads ---------------------------------------------------------------

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

static void *run_thread(void *arg)
{
    struct hr__guard_thread *thread = arg;
    struct hr__guard *g = thread->guard;
    int i = (int)(thread - g->threads);

    hr__engine_ref_thread(&g->ref, g->ops->threads[i]);
    pthread_mutex_lock(&g->lock);
    thread->self = pthread_self();
    thread->known = true;
    pthread_mutex_unlock(&g->lock);
    if (i)
        g->ops->second(g->owner);
    else
        drive(g);
    pthread_mutex_lock(&g->lock);
    thread->gone = true;
    hr__guard_wake_all(g);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static bool start_thread(struct hr__guard *g, int i)
{
    struct hr__guard_thread *thread = &g->threads[i];
    bool ok = hr__thread_start(&thread->id, run_thread, thread);

    pthread_mutex_lock(&g->lock);
    thread->started = ok;
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
                                 .caller = &g->threads[0].id};
}

enum hr_status hr__guard_start(struct hr__guard *g, const struct hr__engine *e,
                               int64_t most)
{
    int64_t begin = hr__now(), ns = e->params.deadline_ns;
    struct hr__patience p;
    bool opened;

    if (!start_thread(g, 0))
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
    if (g->ops->second && !start_thread(g, 1))
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
    for (int i = 0; i < HR__GUARD_THREADS; i++) {
        if (!g->threads[i].started)
            continue;
        if (gone)
            pthread_join(g->threads[i].id, NULL);
        else
            pthread_detach(g->threads[i].id);
    }
    if (gone && !g->dead && !g->left_behind)
        return true;
    return left_behind(g, e, size);
}
