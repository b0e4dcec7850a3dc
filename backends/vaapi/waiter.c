// SPDX-License-Identifier: Apache-2.0
// The waiter: waits for pictures in the order in which they were submitted,
// reads their samples back, and hands them on as they lie.
#include <string.h>

#include "backends/vaapi/vaapi.h"

#define SLICE_NS INT64_C(10000000)  // of one wait

// ---- Given back ------------------------------------------------------------

// The next engine has read the planes. On any thread, so no driver is called.
static void on_released(struct hr__payload *payload)
{
    struct va_frame *frame = payload->release_ctx;
    struct va *va = frame->va;

    va_lock(va);
    frame->state = VA_RETURNED;
    frame->readers = 0;
    va_wake(va, VA_WAITER);
    va_unlock(va);
}

static bool unmap(struct va *va, struct va_frame *frame)
{
    bool may;

    may = va_enter(va, VA_WAITER);
    if (may && frame->pixels)
        va->api.vaUnmapBuffer(va->display, frame->out.image.buf);
    else if (may)
        va_unmap(va, frame);
    may = va_leave(va, VA_WAITER);
    va_lock(va);
    frame->mapped = NULL;
    // A surface that was shared before it was mapped may still be read.
    frame->state = frame->readers ? VA_HELD : VA_FREE;
    va_wake(va, VA_DRIVER);
    pthread_cond_signal(&va->guard.clock);
    va_unlock(va);
    return may;
}

// ---- Handed on -------------------------------------------------------------

// The planes side by side, behind their header.
static bool pack(struct hr__task *task, const struct va_frame *frame,
                 const uint8_t *from)
{
    const struct hr__plane *in = frame->planes.comp;
    struct hr__planes out = frame->planes;
    struct hr__payload *payload;
    size_t size = sizeof(out);

    for (uint32_t i = 0; i < out.num_components; i++) {
        struct hr__plane *p = &out.comp[i];

        p->at = size;
        p->step = 1;
        p->stride = (p->cols + 63) / 64 * 64;
        size += (size_t)p->stride * p->rows;
    }
    if (!(payload = hr__task_payload(task, size)))
        return false;
    memcpy(payload->data, &out, sizeof(out));
    payload->extra = payload->data;
    payload->rect = (struct hr__rect){0, 0, (int)out.w, (int)out.h};
    for (uint32_t i = 0; i < out.num_components; i++)
        for (uint32_t y = 0; y < in[i].rows; y++) {
            const uint8_t *src = from + in[i].at + (size_t)in[i].stride * y;
            uint8_t *dst = (uint8_t *)payload->data + out.comp[i].at +
                           (size_t)out.comp[i].stride * y;

            if (in[i].step == 1)
                memcpy(dst, src, in[i].cols);
            else
                for (uint32_t x = 0; x < in[i].cols; x++)
                    dst[x] = src[(size_t)x * in[i].step];
        }
    return true;
}

static bool pack_pixels(struct va *va, struct hr__task *task,
                        const struct va_frame *frame, const uint8_t *from)
{
    size_t stride = (size_t)frame->out_w * 3;
    struct hr__payload *payload =
        hr__task_payload(task, stride * (size_t)frame->out_h);

    if (!payload)
        return false;
    payload->rect = (struct hr__rect){0, 0, frame->out_w, frame->out_h};
    payload->stride = stride;
    payload->first_step = task->span.last == HR_COLOR;
    va_vpp_pack(va, &frame->out, from, payload->data);
    return true;
}

// The planes lie at data; or, without data, in the surface, which stays away
// until the next engine has read it: then decoding waits, nothing is copied.
static void lend(struct va_frame *frame, struct hr__task *task, uint8_t *data,
                 size_t size)
{
    struct hr__payload *payload =
        data ? hr__task_payload_own(task, data, size, on_released, frame)
             : hr__task_payload_external(task, &frame->shared,
                                         va_on_export_released, frame);

    payload->extra = &frame->planes;
    payload->rect = (struct hr__rect){0, 0, (int)frame->planes.w,
                                      (int)frame->planes.h};
    frame->readers = 1;
    frame->over = false;
    frame->mapped = NULL;
}

// The samples are mapped at data, or shared (NULL). True: they are lent, else
// they can go.
static bool hand_on(struct va *va, struct va_frame *frame, uint8_t *data,
                    size_t size)
{
    struct hr__outcome out = {.offset = -1};
    struct hr__task *task;
    bool lent;

    va_lock(va);
    task = va_take_task(frame);
    // Surfaces that are lent are missing for decoding: some stay.
    lent = !frame->pixels &&
           (!data || va_count_frames(va, VA_LENT) < va->num_frames - va->depth);
    va_unlock(va);
    if (!task)
        return false;
    // Given up: its end is all that is left to say.
    if (!hr__task_claim(task)) {
        hr__tasks_failed(task, HR_WHY_TIMEOUT, "");
        return false;
    }
    if (lent) {
        lend(frame, task, data, size);
    } else if (frame->pixels ? !pack_pixels(va, task, frame, data)
                             : !pack(task, frame, data)) {
        hr__tasks_failed(task, HR_WHY_MEMORY,
                         "no room for the planes between engines");
        return false;
    }
    va_lock(va);
    if (lent)
        frame->state = VA_LENT;
    hr__guard_worked(&va->guard);
    va_unlock(va);
    out.stage = task->span.last;
    hr__task_done(task, &out);
    return lent;
}

// ---- One picture -----------------------------------------------------------

// Some drivers tell only here that a picture is damaged, and the wait for it
// went well.
static void ask_for_errors(struct va *va, struct va_frame *frame,
                           struct va_fault *fault)
{
    VASurfaceDecodeMBErrors *list = NULL;
    void *info = NULL;

    if (va->api.vaQuerySurfaceError(va->display, frame->surface,
                                    VA_STATUS_ERROR_DECODING_ERROR, &info) ||
        !(list = info) || list->status == -1)
        return;
    va_failed(&va->api, fault, VA_STATUS_ERROR_DECODING_ERROR,
              "vaQuerySurfaceError");
    va_log(va, HR_LOG_INFO, "blocks %u .. %u of a picture are damaged",
           list->start_mb, list->end_mb);
}

// For traces and profiles. VA-API has no clock of the device, so a picture's
// time is as the host sees it: from when the driver had it and the one before
// it was ready, to when the wait for it ended.
static void tell_time(struct va *va, const struct va_frame *frame)
{
    int64_t end = hr__watch_begin(), begin = frame->sent;

    if (!begin || !end)
        return;
    if (begin < va->last_seen)
        begin = va->last_seen;
    va->last_seen = end;
    hr__engine_ref_device(&va->guard.ref, "decoder", HR_PART_DECODE,
                          frame->number, begin, end);
}

// Restarts the clocks of pictures that were submitted behind one that is ready
// now: they had to wait for it.
static void start_clocks(struct va *va, uint64_t ready)
{
    int64_t now = hr__now();

    va_lock(va);
    for (int i = 0; i < va->num_frames; i++) {
        struct va_frame *s = &va->frames[i];

        if (!s->task || (s->state != VA_BUSY &&
                         (s->state != VA_SUBMITTED || s->number < ready)))
            continue;
        s->since = now;
        hr__task_begun(s->task);
    }
    va_unlock(va);
}

// The surface is ready, or has failed. False: stop.
static bool deliver(struct va *va, struct va_frame *frame, VAStatus status)
{
    struct va_fault fault = {0};
    uint8_t *data = NULL;
    size_t size = 0;
    bool ok, may, shared;

    may = va_enter(va, VA_WAITER);
    va_failed(&va->api, &fault, status, "vaSyncSurface");
    if (may)
        ask_for_errors(va, frame, &fault);
    ok = may && !fault.why;
    shared = ok && !frame->pixels && va_export(va, frame);
    ok = ok && (frame->pixels ? va_vpp_map(va, &frame->out, &data, &fault)
                : shared      ? true
                              : va_map(va, frame, &data, &size, &fault));
    may = va_leave(va, VA_WAITER);
    if (!ok) {
        va_picture_failed(va, frame, &fault, fault.why);
        return may;
    }
    if (!may)
        return false;
    if (hand_on(va, frame, data, size))
        return true;
    if (!shared)
        return unmap(va, frame);
    va_free_frame(va, frame);
    return true;
}

// ---- The thread ------------------------------------------------------------

static VAStatus wait_for(struct va *va, struct va_frame *frame)
{
    // The surface that is ready when all is.
    VASurfaceID last = frame->pixels ? frame->out.surface : frame->surface;
    VAStatus status = VA_STATUS_ERROR_UNIMPLEMENTED;

    if (va->sync2)
        status = va->api.vaSyncSurface2(va->display, last, SLICE_NS);
    if (status != VA_STATUS_ERROR_UNIMPLEMENTED)
        return status;
    // Without a timeout; but the driver may have one of its own.
    va->sync2 = false;
    return va->api.vaSyncSurface(va->display, last);
}

// Says whether the driver thread goes first: where a wait keeps it out of the
// driver, the waiter lets it submit its pictures. Locked
static bool others_first(const struct va *va)
{
    if (va->facts.driver->quirks & VA_QUIRK_SAFE || va->waits || va->guard.stop)
        return false;
    return va_count_frames(va, VA_BUSY) > 0 &&
           va_count_frames(va, VA_SUBMITTED) < va->depth;
}

static void pause_shortly(struct va *va)
{
    va_wait(va, VA_WAITER, hr__now() + SLICE_NS / 10);
}

// Waits for the oldest picture. Locked, but unlocks meanwhile. False: stop.
static bool picture_turn(struct va *va, struct va_frame *frame)
{
    VAStatus status;
    uint64_t number;
    int64_t begin;
    bool may;

    va_unlock(va);
    status = va_enter(va, VA_WAITER) ? wait_for(va, frame)
                                     : VA_STATUS_ERROR_TIMEDOUT;
    may = va_leave(va, VA_WAITER);
    va_lock(va);
    if (status == VA_STATUS_ERROR_TIMEDOUT) {
        if (!va->sync2)
            pause_shortly(va);
        return may;
    }
    if (!may)
        return false;
    frame->state = VA_READING;
    number = frame->number;
    // There is room for the next one; it shall go in front of our next wait.
    va->waits = false;
    va_wake(va, VA_DRIVER);
    va_unlock(va);
    tell_time(va, frame);
    begin = hr__watch_begin();
    may = deliver(va, frame, status);
    hr__engine_ref_part(&va->guard.ref, HR_PART_DELIVER, number, begin);
    start_clocks(va, number);
    va_lock(va);
    return may;
}

static struct va_frame *find(struct va *va, enum va_frame_state state)
{
    for (int i = 0; i < va->num_frames; i++)
        if (va->frames[i].state == state)
            return &va->frames[i];
    return NULL;
}

// The frame with a task that was submitted first; or, if there is none, one
// that was given up. Locked
static struct va_frame *oldest(struct va *va)
{
    struct va_frame *best = NULL;

    for (int i = 0; i < va->num_frames; i++) {
        struct va_frame *s = &va->frames[i];

        if (s->state != VA_SUBMITTED)
            continue;
        if (!best || (s->task && !best->task) ||
            (!s->task == !best->task && s->number < best->number))
            best = s;
    }
    return best;
}

// Locked, but unlocks meanwhile. False: stop.
static bool one_turn(struct va *va)
{
    struct va_frame *frame = find(va, VA_RETURNED);
    bool may, asked;

    frame = frame ? frame : find(va, VA_ASKED);
    frame = frame ? frame : oldest(va);
    if (va->guard.dead || !frame) {
        va_wait(va, VA_WAITER, INT64_MAX);
        return true;
    }
    if (frame->state == VA_SUBMITTED && others_first(va)) {
        pause_shortly(va);
        return true;
    }
    if (frame->state == VA_SUBMITTED)
        return picture_turn(va, frame);
    asked = frame->state == VA_ASKED;
    frame->state = VA_READING;
    va_unlock(va);
    may = asked ? va_map_export(va, frame) : unmap(va, frame);
    va_lock(va);
    return may;
}

void va_wait_for_pictures(void *owner)
{
    struct va *va = owner;

    va_lock(va);
    while (!va->closing && !va_barred(va) &&
           !va->guard.threads[VA_DRIVER].gone && one_turn(va))
        ;
    va_unlock(va);
}
