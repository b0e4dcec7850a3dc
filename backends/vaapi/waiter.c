// SPDX-License-Identifier: Apache-2.0
// The waiter: waits for pictures in the order in which they were submitted,
// has their samples read back, and hands them on as they lie.
#include <string.h>

#include "backends/vaapi/vaapi.h"

#define SLICE_NS INT64_C(10000000)  // of one wait

// ---- Given back ------------------------------------------------------------

static void set_state(struct va *va, struct va_slot *slot,
                      enum va_slot_state state)
{
    pthread_mutex_lock(&va->guard.lock);
    slot->state = state;
    pthread_cond_signal(&va->guard.lanes[VA_DRIVER].wake);
    pthread_mutex_unlock(&va->guard.lock);
}

// The next engine has read the planes. On any thread, so nothing is called.
static void on_released(struct hr__payload *payload)
{
    struct va_slot *slot = payload->release_ctx;
    struct va *va = slot->va;

    pthread_mutex_lock(&va->guard.lock);
    slot->state = VA_RETURNED;
    slot->readers = 0;
    pthread_cond_signal(&va->guard.lanes[VA_WAITER].wake);
    pthread_mutex_unlock(&va->guard.lock);
}

static bool unmap(struct va *va, struct va_slot *slot)
{
    bool may;

    may = va_enter(va, VA_WAITER);
    if (may && slot->pixels)
        va->api.vaUnmapBuffer(va->display, slot->out.image.buf);
    else if (may)
        va_unmap(va, slot);
    may = va_leave(va, VA_WAITER);
    pthread_mutex_lock(&va->guard.lock);
    slot->mapped = NULL;
    // One that was shared before it was mapped may still be read.
    slot->state = slot->readers ? VA_HELD : VA_FREE;
    pthread_cond_signal(&va->guard.lanes[VA_DRIVER].wake);
    pthread_cond_signal(&va->guard.clock);
    pthread_mutex_unlock(&va->guard.lock);
    return may;
}

// ---- One picture -----------------------------------------------------------

static struct hr__task *take_task(struct va *va, struct va_slot *slot)
{
    struct hr__task *task;

    pthread_mutex_lock(&va->guard.lock);
    task = slot->task;
    slot->task = NULL;
    pthread_mutex_unlock(&va->guard.lock);
    if (task)
        task->next = NULL;
    return task;
}

static void failed(struct va *va, struct va_slot *slot,
                   const struct va_fault *fault)
{
    struct hr__task *task = take_task(va, slot);

    pthread_mutex_lock(&va->guard.lock);
    slot->state = VA_FREE;
    // One that was given up has had its strike.
    hr__guard_failed(&va->guard, fault->why, task);
    pthread_cond_signal(&va->guard.lanes[VA_DRIVER].wake);
    pthread_mutex_unlock(&va->guard.lock);
    if (!task)
        return;
    va_log(va, HR_LOG_WARN, "a picture failed: %s", fault->text);
    hr__tasks_failed(task, fault->why, fault->text);
}

// What the driver found out about the picture, also if the wait went well.
static void ask_for_errors(struct va *va, struct va_slot *slot,
                           struct va_fault *fault)
{
    VASurfaceDecodeMBErrors *list = NULL;
    void *info = NULL;

    if (va->api.vaQuerySurfaceError(va->display, slot->surface,
                                    VA_STATUS_ERROR_DECODING_ERROR, &info) ||
        !(list = info) || list->status == -1)
        return;
    va_failed(fault, VA_STATUS_ERROR_DECODING_ERROR, "vaQuerySurfaceError");
    va_log(va, HR_LOG_INFO, "blocks %u .. %u of a picture are damaged",
           list->start_mb, list->end_mb);
}

static bool pack(struct hr__task *task, const struct va_slot *slot,
                 const uint8_t *from)
{
    const struct hr__planes *in = &slot->planes;
    struct hr__planes *out;
    struct hr__payload *payload;
    size_t size = sizeof(*out);

    for (uint32_t i = 0; i < in->num_components; i++)
        size += ((size_t)in->comp[i].cols + 63) / 64 * 64 * in->comp[i].rows;
    if (!(payload = hr__task_payload(task, size)))
        return false;
    out = payload->data;
    *out = *in;
    size = sizeof(*out);
    for (uint32_t i = 0; i < in->num_components; i++) {
        struct hr__plane *p = &out->comp[i];

        p->at = size;
        p->step = 1;
        p->stride = (p->cols + 63) / 64 * 64;
        for (uint32_t y = 0; y < p->rows; y++) {
            const uint8_t *src = from + in->comp[i].at +
                                 (size_t)in->comp[i].stride * y;
            uint8_t *dst = (uint8_t *)payload->data + p->at +
                           (size_t)p->stride * y;

            if (in->comp[i].step == 1)
                memcpy(dst, src, p->cols);
            else
                for (uint32_t x = 0; x < p->cols; x++)
                    dst[x] = src[(size_t)x * in->comp[i].step];
        }
        size += (size_t)p->stride * p->rows;
    }
    payload->extra = out;
    payload->rect = (struct hr__rect){0, 0, (int)in->w, (int)in->h};
    return true;
}

static bool pack_pixels(struct va *va, struct hr__task *task,
                        const struct va_slot *slot, const uint8_t *from)
{
    size_t stride = (size_t)slot->out_w * 3;
    struct hr__payload *payload =
        hr__task_payload(task, stride * (size_t)slot->out_h);

    if (!payload)
        return false;
    payload->rect = (struct hr__rect){0, 0, slot->out_w, slot->out_h};
    payload->stride = stride;
    va_vpp_pack(va, &slot->out, from, payload->data);
    return true;
}

// Surfaces that are lent are missing for decoding: some stay.
static bool must_copy(struct va *va)
{
    bool few;

    pthread_mutex_lock(&va->guard.lock);
    few = va_count_slots(va, VA_LENT) >= va->num_slots - va->depth;
    pthread_mutex_unlock(&va->guard.lock);
    return few;
}

// Its planes lie at data; or, without data, in the surface, which stays away
// until the next engine has read it: then decoding waits, nothing is copied.
static void lend(struct va *va, struct va_slot *slot, struct hr__task *task,
                 uint8_t *data, size_t size)
{
    struct hr__payload *payload =
        data ? hr__task_payload_own(task, data, size, on_released, slot)
             : hr__task_payload_external(task, &slot->shared,
                                         va_on_shared_released, slot);

    payload->extra = &slot->planes;
    payload->rect = (struct hr__rect){0, 0, (int)slot->planes.w,
                                      (int)slot->planes.h};
    slot->readers = 1;
    slot->over = false;
    slot->mapped = NULL;
    set_state(va, slot, VA_LENT);
}

// The samples are mapped at data, or shared (NULL). True: they are lent, else
// they can go.
static bool hand_on(struct va *va, struct va_slot *slot, uint8_t *data,
                    size_t size)
{
    struct hr__outcome out = {.stage = HR_RECONSTRUCT, .offset = -1};
    struct hr__task *task = take_task(va, slot);
    bool lent;

    if (!task)
        return false;
    // Given up: its end is all that is left to say.
    if (!hr__task_claim(task)) {
        hr__tasks_failed(task, HR_WHY_TIMEOUT, "");
        return false;
    }
    out.stage = task->span.last;
    lent = !slot->pixels && (!data || !must_copy(va));
    if (lent) {
        lend(va, slot, task, data, size);
    } else if (slot->pixels ? !pack_pixels(va, task, slot, data)
                            : !pack(task, slot, data)) {
        hr__tasks_failed(task, HR_WHY_MEMORY,
                         "no room for the planes between engines");
        return false;
    }
    pthread_mutex_lock(&va->guard.lock);
    hr__guard_worked(&va->guard);
    pthread_mutex_unlock(&va->guard.lock);
    atomic_fetch_add(&va->pictures, 1);
    hr__task_done(task, &out);
    return lent;
}

// What was submitted behind a picture that is through now has had to wait for
// it: its turn begins.
static void start_clocks(struct va *va, uint64_t through)
{
    int64_t now = hr__now();

    pthread_mutex_lock(&va->guard.lock);
    for (int i = 0; i < va->num_slots; i++) {
        struct va_slot *s = &va->slots[i];

        if (!s->task || (s->state != VA_BUSY &&
                         (s->state != VA_FLYING || s->number < through)))
            continue;
        s->since = now;
        hr__task_begun(s->task);
    }
    pthread_mutex_unlock(&va->guard.lock);
}

// The surface is ready, or has failed. False: stop.
static bool land(struct va *va, struct va_slot *slot, VAStatus status)
{
    struct va_fault fault = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    bool ok, may, shared;

    may = va_enter(va, VA_WAITER);
    va_failed(&fault, status, "vaSyncSurface");
    if (may)
        ask_for_errors(va, slot, &fault);
    ok = may && !fault.why;
    shared = ok && !slot->pixels && va_share(va, slot);
    ok = ok && (slot->pixels ? va_vpp_map(va, &slot->out, &data, &fault)
                : shared     ? true
                             : va_map(va, slot, &data, &size, &fault));
    may = va_leave(va, VA_WAITER);
    if (!ok) {
        failed(va, slot, &fault);
        return may;
    }
    if (!may)
        return false;
    if (hand_on(va, slot, data, size))
        return true;
    if (!shared)
        return unmap(va, slot);
    set_state(va, slot, VA_FREE);
    return true;
}

// ---- The thread ------------------------------------------------------------

// The one that is ready when all is.
static VASurfaceID last_surface(const struct va_slot *slot)
{
    return slot->pixels ? slot->out.surface : slot->surface;
}

// For drivers without a timeout: they may say themselves that it takes longer.
static VAStatus wait_long(struct va *va, struct va_slot *slot)
{
    return va->api.vaSyncSurface(va->display, last_surface(slot));
}

static VAStatus wait_for(struct va *va, struct va_slot *slot)
{
    VAStatus status;

    if (!va->sync2)
        return wait_long(va, slot);
    status = va->api.vaSyncSurface2(va->display, last_surface(slot), SLICE_NS);
    if (status != VA_STATUS_ERROR_UNIMPLEMENTED)
        return status;
    va->sync2 = false;
    return wait_long(va, slot);
}

// Where a wait keeps the driver thread out, it waits till that one has no more
// to submit.
static bool others_first(const struct va *va)
{
    if (va->facts.driver->quirks & VA_QUIRK_SAFE || va->waits || va->guard.stop)
        return false;
    return va_count_slots(va, VA_BUSY) > 0 &&
           va_count_slots(va, VA_FLYING) < va->depth;
}

// False: there is nothing to do any more.
static bool one_turn(struct va *va)
{
    struct va_slot *slot = va_find_slot(va, VA_RETURNED);
    VAStatus status;
    uint64_t number;
    int64_t begin;
    bool may, again;

    slot = slot ? slot : va_find_slot(va, VA_ASKED);
    if (va->guard.dead || (!slot && !(slot = va_oldest(va))))
        return hr__cond_wait(&va->guard.lanes[VA_WAITER].wake, &va->guard.lock,
                             INT64_MAX),
               true;
    if (slot->state == VA_FLYING && others_first(va)) {
        hr__cond_wait(&va->guard.lanes[VA_WAITER].wake, &va->guard.lock,
                      hr__now() + SLICE_NS / 10);
        return true;
    }
    if (slot->state != VA_FLYING) {
        again = slot->state == VA_ASKED;
        slot->state = VA_READING;
        pthread_mutex_unlock(&va->guard.lock);
        may = again ? va_read_shared(va, slot) : unmap(va, slot);
        pthread_mutex_lock(&va->guard.lock);
        return may;
    }
    pthread_mutex_unlock(&va->guard.lock);
    status = va_enter(va, VA_WAITER) ? wait_for(va, slot)
                                     : VA_STATUS_ERROR_TIMEDOUT;
    may = va_leave(va, VA_WAITER);
    pthread_mutex_lock(&va->guard.lock);
    again = status == VA_STATUS_ERROR_TIMEDOUT;
    if (again && !va->sync2)
        hr__cond_wait(&va->guard.lanes[VA_WAITER].wake, &va->guard.lock,
                      hr__now() + SLICE_NS / 10);
    if (!may || again)
        return may;
    slot->state = VA_READING;
    number = slot->number;
    // There is room for the next one; it shall go in front of our next wait.
    va->waits = false;
    pthread_cond_signal(&va->guard.lanes[VA_DRIVER].wake);
    pthread_mutex_unlock(&va->guard.lock);
    va_times_picture(va, slot);
    begin = hr__watch_begin();
    may = land(va, slot, status);
    va_times_host(va, HR_PART_DELIVER, number, begin);
    start_clocks(va, number);
    pthread_mutex_lock(&va->guard.lock);
    return may;
}

void va_wait_for_pictures(void *owner)
{
    struct va *va = owner;

    pthread_mutex_lock(&va->guard.lock);
    while (!va->closing && !va_barred(va) && !va->guard.lanes[VA_DRIVER].gone &&
           one_turn(va))
        ;
    pthread_mutex_unlock(&va->guard.lock);
}
