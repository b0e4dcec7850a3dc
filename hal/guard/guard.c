// SPDX-License-Identifier: Apache-2.0
// Calls to the driver, and what their outcomes mean for the device.
#include <stdio.h>

#include "hal/engine/guard.h"

int64_t hr__guard_deadline(const struct hr__engine *e)
{
    return e->params.deadline_ns + e->params.deadline_ns / 8;
}

void hr__guard_log(struct hr__guard *g, enum hr_log_level level,
                   const char *fmt, ...)
{
    struct hr__engine *e;
    char text[480];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    // A close that leaves this thread behind waits until the line is out.
    if (!(e = hr__engine_ref_get(&g->ref)))
        return;
    hr__log(e->device, level, "%s: %s", g->name, text);
    hr__engine_ref_put(&g->ref);
}

void hr__guard_wake_all(struct hr__guard *g)
{
    for (int i = 0; i < HR__GUARD_THREADS; i++)
        pthread_cond_broadcast(&g->threads[i].wake);
    pthread_cond_broadcast(&g->changed);
    pthread_cond_broadcast(&g->clock);
}

bool hr__guard_all_gone(const struct hr__guard *g)
{
    for (int i = 0; i < HR__GUARD_THREADS; i++)
        if (g->threads[i].started && !g->threads[i].gone)
            return false;
    return true;
}

// ---- Around calls ----------------------------------------------------------

void hr__guard_look(struct hr__guard *g, int64_t at)
{
    if (g->due > at)
        pthread_cond_signal(&g->clock);
}

void hr__guard_enter(struct hr__guard *g, int thread)
{
    pthread_mutex_lock(&g->lock);
    g->threads[thread].busy_since = hr__now();
    // It looks again when it wakes; mostly it would wake early enough.
    hr__guard_look(g, g->threads[thread].busy_since + g->deadline);
    pthread_mutex_unlock(&g->lock);
}

// The thread's late call has returned. True: the device is back.
static bool come_back(struct hr__guard *g, struct hr__guard_thread *thread)
{
    thread->late = false;
    for (int i = 0; i < HR__GUARD_THREADS; i++)
        if (g->threads[i].late)
            return false;
    g->dead = false;
    g->doubt = true;
    // Tasks that the device still has may end now; their deadlines begin again,
    // since they were not looked at for so long.
    g->back = hr__now();
    hr__guard_wake_all(g);
    return true;
}

bool hr__guard_leave(struct hr__guard *g, int thread)
{
    struct hr__guard_thread *l = &g->threads[thread];
    bool late, back, out;

    pthread_mutex_lock(&g->lock);
    l->busy_since = 0;
    late = l->late;
    // A close that has left this thread behind has given up the engine's
    // resources.
    back = late && (!g->abandoned || g->ops->outlives) && come_back(g, l);
    out = g->out;
    pthread_mutex_unlock(&g->lock);
    if (back)
        hr__guard_log(g, HR_LOG_WARN, "the driver answers again%s",
                      out ? ", but was late too often: it is not used until "
                            "the device is opened anew"
                          : "");
    return !late;
}

// ---- What it comes to ------------------------------------------------------

unsigned hr__guard_ask(struct hr__guard *g, int tokens)
{
    unsigned why;

    pthread_mutex_lock(&g->lock);
    why = g->dead  ? HR_WHY_LOST
          : g->out ? HR_WHY_BREAKER
                   : hr__breaker_ask(&g->breaker, tokens, hr__now());
    pthread_mutex_unlock(&g->lock);
    return why;
}

void hr__guard_worked(struct hr__guard *g)
{
    hr__breaker_note(&g->breaker, true, hr__now());
    g->doubt = false;
}

void hr__guard_failed(struct hr__guard *g, unsigned why, bool strike)
{
    // That is the file's fault.
    if (why & HR_WHY_DAMAGED)
        return;
    if (why)
        g->lost |= why & HR_WHY_LOST || g->doubt;
    if (strike)
        hr__breaker_note(&g->breaker, false, hr__now());
}

void hr__guard_renewed(struct hr__guard *g, bool ok)
{
    pthread_mutex_lock(&g->lock);
    g->lost = !ok;
    g->doubt = false;
    pthread_mutex_unlock(&g->lock);
}

bool hr__guard_is_lost(struct hr__guard *g)
{
    bool lost;

    pthread_mutex_lock(&g->lock);
    lost = g->lost;
    pthread_mutex_unlock(&g->lock);
    return lost;
}

// ---- The clock thread ------------------------------------------------------

bool hr__guard_hopeless(const struct hr__guard *g)
{
    return g->dead || (g->ops->hopeless && g->ops->hopeless(g->owner));
}

bool hr__guard_overdue(const struct hr__guard *g, int64_t since, int64_t now,
                       int64_t *due)
{
    int64_t at = (since > g->back ? since : g->back) + g->deadline;

    if (now >= at)
        return true;
    *due = at < *due ? at : *due;
    return false;
}
