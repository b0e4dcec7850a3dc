// SPDX-License-Identifier: Apache-2.0
// The display in the hands of the next engine's driver, which then reads our
// surfaces itself, tiled or not: it stays open as long as that driver has it.
// And the way back: what the next engine could not read is mapped by the
// waiter, which alone reads surfaces back.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/vaapi/vaapi.h"

// ---- The display -------------------------------------------------------------

// The other driver calls ours whenever it likes to: that must be known to be
// safe, and what it reads must be ready when vaSyncSurface() says so.
bool va_origin_may(const struct va *va)
{
    unsigned quirks = va->facts.driver->quirks;

    return quirks & VA_QUIRK_SAFE && !(quirks & VA_QUIRK_NO_SYNC) &&
           va->facts.kinds[VA_KIND_420].fourcc == VA_FOURCC_NV12 &&
           !va->retired && !va->by_host;
}

static void on_hold(void *ctx)
{
    struct va *va = ctx;

    pthread_mutex_lock(&va->guard.lock);
    va->users++;
    pthread_mutex_unlock(&va->guard.lock);
}

static void on_let(void *ctx)
{
    struct va *va = ctx;

    pthread_mutex_lock(&va->guard.lock);
    va->users--;
    pthread_cond_broadcast(&va->guard.lanes[VA_DRIVER].wake);
    pthread_mutex_unlock(&va->guard.lock);
}

void va_origin(struct hr__engine *e, struct hr__origin *out)
{
    struct va *va = va_of(e);

    if (!va_origin_may(va))
        return;
    *out = (struct hr__origin){.kind = HR__VA_SURFACE,
                               .handle = va->display,
                               .ctx = va,
                               .hold = on_hold,
                               .let = on_let};
}

bool va_origin_retire(struct va *va)
{
    bool used;

    pthread_mutex_lock(&va->guard.lock);
    used = va->users && va->initialized && !va->foreign && !va->retired;
    if (used) {
        va->retired = va->display;
        va->retired_fd = va->fd;
        va->shares = false;
    }
    pthread_mutex_unlock(&va->guard.lock);
    if (!used)
        return false;
    va_count_fall(va);
    va_log(va, HR_LOG_WARN, "the next engine's driver has the old display: %s",
           "surfaces are not shared any more");
    return true;
}

void va_origin_close(struct va *va)
{
    if (va->retired)
        va->api.vaTerminate(va->retired);
    if (va->retired_fd >= 0)
        close(va->retired_fd);
    va->retired = NULL;
    va->retired_fd = -1;
}

// ---- The way back --------------------------------------------------------------

bool va_read_shared(struct va *va, struct va_slot *slot)
{
    struct va_fault fault = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    bool ok, may;

    ok = va_enter(va, VA_WAITER) && va_map(va, slot, &data, &size, &fault);
    may = va_leave(va, VA_WAITER);
    if (!ok)
        va_log(va, HR_LOG_WARN, "a surface that was shared: %s", fault.text);
    pthread_mutex_lock(&va->guard.lock);
    slot->mapped = ok ? data : NULL;
    slot->mapped_size = size;
    slot->state = !slot->over     ? VA_LENT
                  : ok            ? VA_RETURNED
                  : slot->readers ? VA_HELD
                                  : VA_FREE;
    pthread_cond_broadcast(&va->guard.changed);
    pthread_cond_broadcast(&va->guard.lanes[VA_DRIVER].wake);
    pthread_mutex_unlock(&va->guard.lock);
    return may;
}

// Nobody else touches a slot that is lent. va->guard.lock, given up meanwhile.
static void ask_and_wait(struct va *va, struct va_slot *slot)
{
    int64_t deadline = hr__now() + va->guard.deadline / 2;

    slot->state = VA_ASKED;
    pthread_cond_signal(&va->guard.lanes[VA_WAITER].wake);
    while ((slot->state == VA_ASKED || slot->state == VA_READING) &&
           !va->guard.dead && !va->closing &&
           !va->guard.lanes[VA_WAITER].gone &&
           hr__cond_wait(&va->guard.changed, &va->guard.lock, deadline))
        ;
    // One that is being read stays the waiter's.
    if (slot->state == VA_ASKED)
        slot->state = VA_LENT;
}

bool va_on_map(struct hr__payload *payload)
{
    struct va_slot *slot = payload->external->ctx;
    struct va *va = slot->va;
    bool ok;

    pthread_mutex_lock(&va->guard.lock);
    if (slot->state == VA_LENT && !slot->mapped &&
        hr__guard_is_lane(&va->guard, VA_WAITER)) {
        slot->state = VA_READING;
        pthread_mutex_unlock(&va->guard.lock);
        va_read_shared(va, slot);
        pthread_mutex_lock(&va->guard.lock);
    } else if (slot->state == VA_LENT && !slot->mapped) {
        ask_and_wait(va, slot);
    }
    ok = slot->state == VA_LENT && slot->mapped;
    if (ok) {
        payload->data = slot->mapped;
        payload->size = slot->mapped_size;
    }
    pthread_mutex_unlock(&va->guard.lock);
    return ok;
}
