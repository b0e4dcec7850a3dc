// SPDX-License-Identifier: Apache-2.0
// The driver thread: it opens the device, sends batches, makes memory, and
// closes the device. opencl.h draws how the threads work.
#include <stdio.h>

#include "backends/opencl/memory/device_memory.h"
#include "backends/opencl/opencl.h"

#define END_NS INT64_C(1500000000)  // less than closing may take
#define IDLE_NS INT64_C(500000000)

// Waits on the driver thread's condition, and looks at what is asked for.
// False: the deadline has passed. Locked, but it unlocks for a while.
static bool wait(struct ocl *o, int64_t deadline)
{
    int64_t due = ocl_await_due(o);

    if (due >= deadline || hr__now() >= deadline)
        return hr__cond_wait(&o->guard.threads[0].wake, &o->guard.lock,
                             deadline);
    hr__cond_wait(&o->guard.threads[0].wake, &o->guard.lock, due);
    pthread_mutex_unlock(&o->guard.lock);
    ocl_await_look(o);
    pthread_mutex_lock(&o->guard.lock);
    return true;
}

// Says whether all batches but mine are free. *stuck: the guard has given one
// up.
static bool others_free(const struct ocl *o, const struct ocl_batch *mine,
                        bool *stuck)
{
    bool all = true;

    *stuck = false;
    for (int i = 0; i < OCL_BATCHES; i++) {
        const struct ocl_batch *batch = &o->batch[i];

        all &= batch == mine || batch->state == OCL_FREE;
        *stuck |= batch->state == OCL_SENT && batch->stuck;
    }
    return all;
}

// Waits until all batches but mine are free. False: they are not in time; or,
// unless this is the end, the guard has given one up.
static bool wait_for_others(struct ocl *o, const struct ocl_batch *mine,
                            bool end)
{
    int64_t deadline;
    bool ok, stuck;

    pthread_mutex_lock(&o->guard.lock);
    deadline = hr__now() + (end ? END_NS : o->guard.deadline / 4);
    while (!(ok = others_free(o, mine, &stuck)) && !o->guard.dead &&
           (end || !stuck)) {
        if (!wait(o, deadline)) {
            ok = others_free(o, mine, &stuck);
            break;
        }
    }
    ok = ok && !o->guard.dead;
    pthread_mutex_unlock(&o->guard.lock);
    return ok;
}

// ---- Opening ---------------------------------------------------------------

// batch: a FREE one, to try the device with.
static bool open_all(struct ocl *o, struct ocl_batch *batch,
                     struct ocl_fault *fault)
{
    bool ok;

    if (!hr__exit_hold()) {
        *fault = (struct ocl_fault){HR_WHY_FAILED, "the process is ending"};
        return false;
    }
    ok = ocl_context_open(o, fault) && ocl_warm_up(o, batch, fault);
    hr__exit_release();
    pthread_mutex_lock(&o->guard.lock);
    o->unkept = ok && !o->program_cached;
    pthread_mutex_unlock(&o->guard.lock);
    ocl_memory_renew(o);
    return ok;
}

enum hr_status ocl_open_first(void *owner)
{
    struct ocl_fault fault = {0};
    struct ocl *o = owner;
    enum hr_status status;

    if ((status = ocl_api_load(&o->api)) || (status = ocl_find(o)) ||
        !o->facts.shares)
        ocl_release_display(o);
    if (status)
        return status;
    snprintf(o->guard.name, sizeof(o->guard.name), "opencl:%d", o->facts.index);
    ocl_variant_settle(o);
    if (open_all(o, &o->batch[0], &fault))
        return HR_OK;
    if (o->entropy && !o->where) {
        // Perhaps it lacks only kernels that the user has not asked for.
        hr__guard_log(&o->guard, HR_LOG_WARN,
                      "opened without entropy coding: %s", fault.text);
        ocl_context_close(o);
        o->entropy = false;
        fault = (struct ocl_fault){0};
        if (open_all(o, &o->batch[0], &fault))
            return HR_OK;
    }
    ocl_context_close(o);
    ocl_release_display(o);
    return hr__fail(HR_EDEVICE, "%s", fault.text);
}

// Opens a new context if the device was lost, for a lost one does not come
// back. But not while the old one still has a batch, whose callback would mark
// a batch of the new one.
static bool open_again(struct ocl *o, struct ocl_batch *mine,
                       struct ocl_fault *fault)
{
    bool ok;

    if (!hr__guard_is_lost(&o->guard))
        return true;
    ocl_enter(o);
    if ((ok = wait_for_others(o, mine, false))) {
        hr__guard_log(&o->guard, HR_LOG_WARN, "opening the device again");
        ocl_context_close(o);
        ok = open_all(o, &o->batch[mine == &o->batch[0]], fault);
        hr__guard_renewed(&o->guard, ok);
    } else {
        *fault = (struct ocl_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                    "the device was lost"};
    }
    return ocl_leave(o) && ok;
}

void ocl_release_display(struct ocl *o)
{
    if (o->display.kind)
        o->display.release(o->display.ctx);
    o->display = (struct hr__shared_display){0};
}

// ---- Work ------------------------------------------------------------------

// Keeps a new program on disk. Some drivers compile once more for that, which
// takes longer than everything before; so it is done when there has been
// nothing else to do, or at the end. Tasks that come meanwhile wait or go on
// elsewhere, as guard.c decides.
static void keep_program(struct ocl *o)
{
    bool keep;

    pthread_mutex_lock(&o->guard.lock);
    if (o->guard.head && !o->guard.stop) {  // a task has just come
        pthread_mutex_unlock(&o->guard.lock);
        return;
    }
    keep = o->unkept && !o->guard.dead && !o->guard.lost;
    o->unkept = false;
    o->guard.held = keep;
    o->compiled = hr__now() + OCL_COMPILE_NS;
    o->overcompiled = false;
    pthread_mutex_unlock(&o->guard.lock);
    if (!keep)
        return;
    if (hr__exit_hold()) {
        ocl_program_save(o);
        hr__exit_release();
    }
    pthread_mutex_lock(&o->guard.lock);
    o->guard.held = false;
    pthread_mutex_unlock(&o->guard.lock);
}

// Waits for tasks. False: none has come for so long that the program may be
// kept.
static bool wait_for_work(struct ocl *o)
{
    int64_t deadline = INT64_MAX;
    bool stuck;

    if (o->unkept && !o->guard.head && others_free(o, NULL, &stuck))
        deadline = hr__now() + IDLE_NS;
    return wait(o, deadline) || o->guard.head || o->guard.stop || o->requests ||
           o->old_slabs;
}

static void serve_memory(struct ocl *o)
{
    struct ocl_fault fault = {0};
    bool ok = true, asked;

    pthread_mutex_lock(&o->guard.lock);
    asked = o->requests;
    pthread_mutex_unlock(&o->guard.lock);
    if (asked)
        ok = open_again(o, NULL, &fault);
    ocl_enter(o);
    ocl_memory_serve(o, ok ? NULL : &fault);
    ocl_leave(o);
}

// Fills a batch with one run of equal spans. Locked.
static void take_batch(struct ocl *o, struct ocl_batch *batch)
{
    struct hr_span span = o->guard.head->span;
    const struct hr__memory *copy = o->guard.head->copy.memory;
    const struct hr__task *t;

    batch->num_items = 0;
    while (batch->num_items < o->most && (t = o->guard.head) &&
           t->span.first == span.first && t->span.last == span.last &&
           !t->copy.memory == !copy)
        batch->items[batch->num_items++] = (struct ocl_item){
            .task = hr__guard_pop(&o->guard)};
    batch->state = OCL_BUSY;
}

// Waits for tasks and a FREE batch for them; memory comes first. NULL: stop.
static struct ocl_batch *next_batch(struct ocl *o)
{
    struct ocl_batch *batch = NULL;

    if (hr__now() >= ocl_await_due(o))
        ocl_await_look(o);
    pthread_mutex_lock(&o->guard.lock);
    while (!o->guard.stop && !o->guard.dead &&
           (o->requests || o->old_slabs || !o->guard.head ||
            !(batch = ocl_batch_find(o, OCL_FREE)))) {
        bool asked = o->requests || o->old_slabs;

        if (!asked && (ocl_times_idle(o) || wait_for_work(o)))
            continue;
        pthread_mutex_unlock(&o->guard.lock);
        if (asked)
            serve_memory(o);
        else
            keep_program(o);
        pthread_mutex_lock(&o->guard.lock);
    }
    if (o->guard.stop || o->guard.dead)
        batch = NULL;
    else
        take_batch(o, batch);
    pthread_mutex_unlock(&o->guard.lock);
    return batch;
}

// Mends the buffers if the device failed the last batch in this memory: pinned
// ones may still be mapped. False: mending took too long.
static bool mend_failed(struct ocl *o, struct ocl_batch *batch)
{
    if (batch->result == CL_COMPLETE)
        return true;
    batch->result = CL_COMPLETE;
    ocl_enter(o);
    ocl_batch_mend(o, batch);
    return ocl_leave(o);
}

static void serve(struct ocl *o)
{
    struct ocl_batch *batch;

    while ((batch = next_batch(o))) {
        struct ocl_fault fault = {0};
        struct hr__task *rest = NULL;

        if (!mend_failed(o, batch) || !open_again(o, batch, &fault) ||
            !ocl_run_batch(o, batch, &rest, &fault))
            ocl_batch_end(o, batch, &fault);
        hr__guard_put_back(&o->guard, rest);
    }
}

bool ocl_drive(void *owner)
{
    struct ocl *o = owner;

    serve(o);
    if (!wait_for_others(o, NULL, true))
        return false;
    keep_program(o);
    ocl_memory_close(o);
    ocl_context_close(o);
    ocl_release_display(o);
    return true;
}
