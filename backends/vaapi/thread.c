// SPDX-License-Identifier: Apache-2.0
// The queue, the driver thread and its start and stop; vaapi.h draws how the
// threads work together, submit.c is what the driver thread does.
#include <stdio.h>
#include <string.h>

#include "backends/vaapi/vaapi.h"

#define OPEN_NS INT64_C(15000000000)
#define STOP_NS INT64_C(2000000000)

// ---- The queue -------------------------------------------------------------

void va_push(struct va *va, struct hr__task *list, int64_t deadline)
{
    pthread_mutex_lock(&va->lock);
    va->deadline = deadline;
    *va->tail = list;
    while (*va->tail)
        va->tail = &(*va->tail)->next;
    pthread_cond_signal(&va->work);
    // If nobody else will, the nurse ends them.
    pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
}

struct hr__task *va_take_queue(struct va *va)
{
    struct hr__task *list = va->head;

    va->head = NULL;
    va->tail = &va->head;
    return list;
}

void va_cancel_queued(struct va *va)
{
    struct hr__task **at, *stopped = NULL;

    pthread_mutex_lock(&va->lock);
    for (at = &va->head; *at;) {
        struct hr__task *t = *at;

        if (!hr__task_stop(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = stopped;
        stopped = t;
    }
    va->tail = at;
    pthread_mutex_unlock(&va->lock);
    hr__tasks_stopped(stopped);
}

// ---- Around calls ----------------------------------------------------------

static bool one_at_a_time(const struct va *va)
{
    // (Before the vendor is known there is one thread only.)
    return va->facts.driver && !(va->facts.driver->quirks & VA_QUIRK_SAFE);
}

bool va_barred(const struct va *va)
{
    return va->abandoned && va->foreign;
}

bool va_enter(struct va *va, int thread)
{
    bool may;

    pthread_mutex_lock(&va->lock);
    va->busy_since[thread] = hr__now();
    // It looks again when it wakes; mostly it would wake early enough.
    if (va->nurse_due > va->busy_since[thread] + va->deadline)
        pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    if (one_at_a_time(va)) {
        pthread_mutex_lock(&va->calls);
        va_log_keep(&va->lines[thread]);
    }
    // Perhaps the other thread hung in there till now.
    pthread_mutex_lock(&va->lock);
    may = !va_barred(va);
    pthread_mutex_unlock(&va->lock);
    return may;
}

bool va_leave(struct va *va, int thread)
{
    bool back, may;

    if (one_at_a_time(va))
        pthread_mutex_unlock(&va->calls);
    pthread_mutex_lock(&va->lock);
    va->busy_since[thread] = 0;
    back = va->late[thread] && va_come_back(va, thread);
    may = !va_barred(va);
    pthread_mutex_unlock(&va->lock);
    va_log_say(va, &va->lines[thread]);
    if (back)
        va_log(va, HR_LOG_WARN, "the driver answers again");
    return may;
}

// ---- The driver thread -----------------------------------------------------

// What is left is pictures that were given up.
static bool all_landed(const struct va *va)
{
    for (int i = 0; i < va->num_slots; i++) {
        const struct va_slot *s = &va->slots[i];

        if (s->state != VA_FREE && (s->state != VA_FLYING || s->task))
            return false;
    }
    return true;
}

// True: nobody else will use the display any more. The driver may still wait
// for a picture that was given up when its surface is destroyed: then that
// call is left behind.
static bool may_close(struct va *va)
{
    int64_t deadline;
    bool ok = true;

    pthread_mutex_lock(&va->lock);
    // The waiter's call may come back; who stops us looks at the clock.
    while (va->dead && !va_barred(va))
        hr__cond_wait(&va->work, &va->lock, INT64_MAX);
    deadline = hr__now() + STOP_NS / 8;
    while (ok && (va->dead || !all_landed(va) || va->users))
        ok = hr__cond_wait(&va->work, &va->lock, deadline);
    va->closing = true;
    pthread_cond_broadcast(&va->flown);
    while (ok && va->have[VA_WAITER] && !va->gone[VA_WAITER])
        ok = hr__cond_wait(&va->work, &va->lock, deadline + STOP_NS / 8);
    ok = ok && !va_barred(va);
    pthread_mutex_unlock(&va->lock);
    return ok;
}

static void open_done(struct va *va, enum hr_status status, const char *text)
{
    pthread_mutex_lock(&va->lock);
    va->open_status = status;
    snprintf(va->open_text, sizeof(va->open_text), "%s", text);
    va->opened = true;
    pthread_cond_broadcast(&va->changed);
    pthread_mutex_unlock(&va->lock);
}

static bool open_first(struct va *va)
{
    struct va_fault fault = {0};
    enum hr_status status;

    if ((status = va_api_load(&va->api))) {
        open_done(va, status, hr_last_error());
        return false;
    }
    if (!va_display_open(va, &fault)) {
        va_close_all(va);
        open_done(va, HR_EDEVICE, fault.text);
        return false;
    }
    va_choose(va);
    va_share_try(va);
    open_done(va, HR_OK, "");
    return true;
}

static void *drive(void *arg)
{
    struct va *va = arg;
    struct va_slot *slot;

    va_times_thread(va, "vaapi driver");
    if (open_first(va)) {
        while ((slot = va_next_picture(va)))
            va_take_up(va, slot);
        if (may_close(va)) {
            if (va_enter(va, VA_DRIVER)) {
                va_close_all(va);
                va_origin_close(va);
            }
            va_leave(va, VA_DRIVER);
        } else {
            va->left_behind = true;
        }
    }
    pthread_mutex_lock(&va->lock);
    va->gone[VA_DRIVER] = true;
    pthread_cond_broadcast(&va->changed);
    pthread_cond_broadcast(&va->flown);
    pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    return NULL;
}

// ---- Start and stop --------------------------------------------------------

static void init(struct va *va)
{
    pthread_mutex_init(&va->lock, NULL);
    pthread_mutex_init(&va->calls, NULL);
    hr__cond_init(&va->work);
    hr__cond_init(&va->flown);
    hr__cond_init(&va->nurse_c);
    hr__cond_init(&va->changed);
    va->tail = &va->head;
    va->fd = va->retired_fd = -1;
    va->config = va->context = VA_INVALID_ID;
    va->vpp.config = va->vpp.context = VA_INVALID_ID;
    for (int i = 0; i < VA_SLOTS; i++) {
        va->slots[i].va = va;
        va->slots[i].surface = VA_INVALID_ID;
        va->slots[i].out.surface = VA_INVALID_ID;
    }
}

enum hr_status va_device_start(struct va *va)
{
    int64_t begin = hr__now(), ns = va->deadline, deadline;
    bool opened;

    ns = ns < STOP_NS ? STOP_NS : ns < OPEN_NS ? ns : OPEN_NS;
    deadline = begin + ns;
    init(va);
    if (!(va->have[VA_DRIVER] = hr__thread_start(&va->threads[VA_DRIVER], drive,
                                                 va)))
        return hr__fail(HR_ENOMEM, "no thread for the driver");
    pthread_mutex_lock(&va->lock);
    while (!va->opened && hr__cond_wait(&va->changed, &va->lock, deadline))
        ;
    opened = va->opened;
    pthread_mutex_unlock(&va->lock);
    if (!opened)
        return hr__fail(HR_EDEVICE, "the driver did not answer in %d s",
                        (int)((hr__now() - begin) / 1000000000));
    if (va->open_status)
        return hr__fail(va->open_status, "%s", va->open_text);
    if (!(va->have[VA_WAITER] = hr__thread_start(&va->threads[VA_WAITER],
                                                 va_wait_for_pictures, va)))
        return hr__fail(HR_ENOMEM, "no thread to wait on");
    if (!(va->have_nurse = hr__thread_start(&va->nurse, va_nurse, va)))
        return hr__fail(HR_ENOMEM, "no thread for the clock");
    return HR_OK;
}

static bool all_gone(const struct va *va)
{
    for (int i = 0; i < VA_THREADS; i++)
        if (va->have[i] && !va->gone[i])
            return false;
    return true;
}

bool va_device_stop(struct va *va, int64_t deadline)
{
    int64_t most = deadline / 2 + STOP_NS / 4;
    bool gone;

    deadline = hr__now() + (most < STOP_NS ? most : STOP_NS);
    pthread_mutex_lock(&va->lock);
    va->stop = true;
    pthread_cond_broadcast(&va->work);
    pthread_cond_broadcast(&va->flown);
    // A driver that has not opened has had its time.
    while (!all_gone(va) && va->opened &&
           hr__cond_wait(&va->changed, &va->lock, deadline))
        ;
    gone = all_gone(va);
    va->abandoned = true;
    pthread_cond_broadcast(&va->work);
    pthread_cond_broadcast(&va->flown);
    pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    if (va->have_nurse)
        pthread_join(va->nurse, NULL);
    for (int i = 0; i < VA_THREADS; i++) {
        if (!va->have[i])
            continue;
        if (gone)
            pthread_join(va->threads[i], NULL);
        else
            pthread_detach(va->threads[i]);
    }
    return gone && !va->left_behind;
}
