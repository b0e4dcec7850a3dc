// SPDX-License-Identifier: Apache-2.0
// The clock thread: whose call takes too long, which tasks the device has had
// for too long, and what stays in the queue of one that does not answer.
#include "hal/engine/guard.h"

// So many late calls, each within an hour of the one before.
enum { LATE_CALLS = 3 };
#define LATE_SPAN INT64_C(3600000000000)

// Counts a late call; the breaker counts it as a failure.
static void count_late(struct hr__guard *g, int64_t now)
{
    if (now - g->last_late > LATE_SPAN)
        g->late_calls = 0;
    g->last_late = now;
    g->out |= ++g->late_calls >= LATE_CALLS;
    hr__breaker_note(&g->breaker, false, now);
}

// A thread has been in one call for too long: until it returns nothing is the
// device's.
static struct hr__task *declare_dead(struct hr__guard *g, int thread,
                                     int64_t now)
{
    struct hr__task *list = hr__guard_take_queue(g), **end = &list;

    while (*end)
        end = &(*end)->next;
    *end = g->ops->take ? g->ops->take(g->owner, thread)
                        : hr__guard_take_in_hand(g);
    if (!g->dead)
        count_late(g, now);
    g->threads[thread].late = true;
    g->dead = true;
    hr__guard_wake_all(g);
    return list;
}

// Tasks that the device has had for too long; *due = when to look again.
static struct hr__task *overdue(struct hr__guard *g, int64_t now, int64_t *due)
{
    for (int i = 0; i < HR__GUARD_THREADS; i++) {
        const struct hr__guard_thread *thread = &g->threads[i];
        int64_t at = thread->busy_since + g->deadline;

        if (!thread->busy_since || thread->late)
            continue;
        if (now >= at)
            return declare_dead(g, i, now);
        *due = at < *due ? at : *due;
    }
    return g->ops->overdue ? g->ops->overdue(g->owner, now, due) : NULL;
}

// Looks at the clock. True: it has ended tasks, and given up the lock for that.
static bool look(struct hr__guard *g, int64_t *due)
{
    struct hr__task *swept, *late, *left;
    bool was_dead = g->dead, died;
    int64_t now = hr__now();

    *due = INT64_MAX;
    swept = hr__guard_sweep(g, now);
    if (g->head)
        *due = g->sweep_at;
    late = overdue(g, now, due);
    left = hr__guard_hopeless(g) ? hr__guard_take_queue(g) : NULL;
    died = g->dead && !was_dead;
    if (!swept && !late && !left && !died)
        return false;
    pthread_mutex_unlock(&g->lock);
    if (died)
        hr__guard_log(g, HR_LOG_WARN,
                      "the driver does not answer, nothing is given to it "
                      "until it does");
    hr__tasks_failed(swept, HR_WHY_TIMEOUT, "the device is not ready");
    hr__tasks_failed(late, HR_WHY_FAILED | HR_WHY_TIMEOUT,
                     "the device did not answer in time");
    hr__tasks_failed(left, HR_WHY_FAILED | HR_WHY_LOST,
                     "the device does not answer any more");
    pthread_mutex_lock(&g->lock);
    return true;
}

void *hr__guard_clock(void *guard)
{
    struct hr__guard *g = guard;
    int64_t due;

    if (g->ops->clock)
        hr__engine_ref_thread(&g->ref, g->ops->clock);
    pthread_mutex_lock(&g->lock);
    while (!g->abandoned && !hr__guard_all_gone(g)) {
        if ((g->ops->turn && g->ops->turn(g->owner)) || look(g, &due))
            continue;
        g->due = due;
        hr__cond_wait(&g->clock, &g->lock, due);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}
