// SPDX-License-Identifier: Apache-2.0
// The driver thread, and what is around calls to libva; vaapi.h draws how the
// threads work together, submit.c is what the driver thread does.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

#define LAND_NS INT64_C(250000000)  // twice that is less than closing may take

// ---- Around calls ----------------------------------------------------------

static bool one_at_a_time(const struct va *va)
{
    // (Before the vendor is known there is one thread only.)
    return va->facts.driver && !(va->facts.driver->quirks & VA_QUIRK_SAFE);
}

bool va_barred(const struct va *va)
{
    return va->guard.abandoned && va->foreign;
}

bool va_enter(struct va *va, int thread)
{
    hr__guard_enter(&va->guard, thread);
    if (one_at_a_time(va)) {
        pthread_mutex_lock(&va->calls);
        va_log_keep(&va->lines[thread]);
    }
    // Perhaps the other thread hung in there till now.
    return !va_barred(va);
}

bool va_leave(struct va *va, int thread)
{
    if (one_at_a_time(va))
        pthread_mutex_unlock(&va->calls);
    hr__guard_leave(&va->guard, thread);
    va_log_say(va, &va->lines[thread]);
    return !va_barred(va);
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

    pthread_mutex_lock(&va->guard.lock);
    // The waiter's call may come back; who stops us looks at the clock.
    while (va->guard.dead && !va_barred(va))
        hr__cond_wait(&va->guard.lanes[VA_DRIVER].wake, &va->guard.lock,
                      INT64_MAX);
    deadline = hr__now() + LAND_NS;
    while (ok && (va->guard.dead || !all_landed(va) || va->users))
        ok = hr__cond_wait(&va->guard.lanes[VA_DRIVER].wake, &va->guard.lock,
                           deadline);
    va->closing = true;
    pthread_cond_broadcast(&va->guard.lanes[VA_WAITER].wake);
    while (ok && va->guard.lanes[VA_WAITER].started &&
           !va->guard.lanes[VA_WAITER].gone)
        ok = hr__cond_wait(&va->guard.lanes[VA_DRIVER].wake, &va->guard.lock,
                           deadline + LAND_NS);
    ok = ok && !va_barred(va);
    pthread_mutex_unlock(&va->guard.lock);
    return ok;
}

enum hr_status va_open_first(void *owner)
{
    struct va_fault fault = {0};
    struct va *va = owner;
    enum hr_status status;

    if ((status = va_api_load(&va->api)))
        return status;
    if (!va_display_open(va, &fault)) {
        va_close_all(va);
        return hr__fail(HR_EDEVICE, "%s", fault.text);
    }
    snprintf(va->guard.name, sizeof(va->guard.name), "vaapi%s%.57s",
             va->node[0] ? ":" : "", va->node);
    va_choose(va);
    return HR_OK;
}

bool va_drive(void *owner)
{
    struct va *va = owner;
    struct va_slot *slot;

    while ((slot = va_next_picture(va)))
        va_take_up(va, slot);
    if (!may_close(va))
        return false;
    if (va_enter(va, VA_DRIVER)) {
        va_close_all(va);
        va_origin_close(va);
    }
    va_leave(va, VA_DRIVER);
    return true;
}
