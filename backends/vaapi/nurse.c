// SPDX-License-Identifier: Apache-2.0
// The nurse: ends what the driver does not give back in time. It never calls
// libva.
#include "backends/vaapi/vaapi.h"

// Takes the slot's task, in front of a list.
static void take(struct va_slot *slot, struct hr__task **list)
{
    if (!slot->task)
        return;
    slot->task->next = *list;
    *list = slot->task;
    slot->task = NULL;
}

// A thread has been in one call for too long: nothing is the device's until it
// comes back. What the other one holds it ends itself.
static struct hr__task *declare_dead(struct va *va, int thread, int64_t now)
{
    struct hr__task *list = va_take_queue(va);

    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];

        if (s->state == VA_FLYING ||
            (s->state == VA_BUSY) == (thread == VA_DRIVER))
            take(s, &list);
    }
    if (!va->dead)
        hr__breaker_slow(&va->breaker, va->deadline, now);
    va->late[thread] = va->dead = true;
    pthread_cond_broadcast(&va->work);
    pthread_cond_broadcast(&va->flown);
    pthread_cond_broadcast(&va->changed);
    return list;
}

bool va_come_back(struct va *va, int thread)
{
    int64_t now = hr__now();

    va->late[thread] = false;
    for (int i = 0; i < VA_THREADS; i++)
        if (va->late[i])
            return false;
    va->dead = false;
    va->breaker.doubt = true;
    // They may land now; the waiter has not looked for so long.
    for (int i = 0; i < va->num_slots; i++)
        if (va->slots[i].state == VA_FLYING && !va->slots[i].stuck)
            va->slots[i].since = now;
    pthread_cond_broadcast(&va->work);
    pthread_cond_broadcast(&va->flown);
    pthread_cond_signal(&va->nurse_c);
    return true;
}

// While all surfaces are lent nothing is taken up. What the HAL has given up
// meanwhile goes back: its job may be what keeps the surfaces.
static struct hr__task *given_up(struct va *va)
{
    struct hr__task *list = NULL, **at = &va->head;

    while (*at) {
        struct hr__task *t = *at;

        if (hr__task_claim(t)) {
            hr__task_unclaim(t);
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = list;
        list = t;
    }
    va->tail = at;
    return list;
}

// Pictures that do not land, one by one.
static struct hr__task *overdue_slots(struct va *va, int64_t now, int64_t *due)
{
    struct hr__task *list = NULL;

    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];
        int64_t at = s->since + va->deadline;
        bool flies = s->state == VA_FLYING && !s->stuck && !va->dead;

        if (!flies && s->state != VA_HELD)
            continue;
        if (now < at) {
            *due = at < *due ? at : *due;
            continue;
        }
        if (!flies)
            continue;
        s->stuck = true;
        if (s->task)
            hr__breaker_note(&va->breaker, false, now);
        take(s, &list);
        pthread_cond_signal(&va->work);
    }
    return list;
}

static struct hr__task *overdue(struct va *va, int64_t *due)
{
    struct hr__task *list = NULL;
    int64_t now = hr__now(), at;

    *due = INT64_MAX;
    if (va->head) {
        if (!va_find_slot(va, VA_FREE) && (list = given_up(va)))
            return list;
        *due = now + va->deadline / 4;
    }
    for (int i = 0; i < VA_THREADS; i++) {
        if (!va->busy_since[i] || va->late[i])
            continue;
        at = va->busy_since[i] + va->deadline;
        if (now >= at)
            return declare_dead(va, i, now);
        *due = at < *due ? at : *due;
    }
    return overdue_slots(va, now, due);
}

bool va_hopeless(const struct va *va)
{
    int stuck = 0, held = 0;
    int64_t now = 0;

    for (int i = 0; i < va->num_slots; i++) {
        const struct va_slot *s = &va->slots[i];

        stuck += s->state == VA_FLYING && s->stuck;
        if (s->state != VA_HELD)
            continue;
        // Its reader hangs, and so does every surface that is left.
        now = now ? now : hr__now();
        held += now >= s->since + va->deadline;
    }
    return va->dead || stuck >= va->depth ||
           (held && stuck + held >= va->num_slots);
}

void *va_nurse(void *arg)
{
    struct va *va = arg;
    struct hr__task *late, *left;
    bool was_dead, died;
    int64_t due;

    pthread_mutex_lock(&va->lock);
    while (!va->abandoned && !(va->gone[VA_DRIVER] && va->gone[VA_WAITER])) {
        was_dead = va->dead;
        late = overdue(va, &due);
        died = va->dead && !was_dead;
        left = va_hopeless(va) ? va_take_queue(va) : NULL;
        if (late || left || died) {
            pthread_mutex_unlock(&va->lock);
            if (died)
                va_log(va, HR_LOG_WARN,
                       "the driver does not answer, nothing is given to it "
                       "until it does");
            hr__tasks_failed(late, HR_WHY_FAILED | HR_WHY_TIMEOUT,
                             "the device did not answer in time");
            hr__tasks_failed(left, HR_WHY_FAILED | HR_WHY_LOST,
                             "the device does not answer any more");
            pthread_mutex_lock(&va->lock);
            continue;
        }
        va->nurse_due = due;
        hr__cond_wait(&va->nurse_c, &va->lock, due);
    }
    pthread_mutex_unlock(&va->lock);
    return NULL;
}
