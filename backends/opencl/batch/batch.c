// SPDX-License-Identifier: Apache-2.0
// The life of a batch: claims its tasks, submits it to the device, marks it as
// done in the driver's callback, releases what it holds, and handles the tasks
// of a batch that failed.
#include <stdio.h>

#include "backends/opencl/opencl.h"

struct ocl_batch *ocl_batch_find(struct ocl *o, enum ocl_batch_state state)
{
    for (int i = 0; i < OCL_BATCHES; i++)
        if (o->batch[i].state == state)
            return &o->batch[i];
    return NULL;
}

struct hr__task *ocl_batch_take(struct ocl_batch *batch, int from)
{
    struct hr__task *list = NULL;

    for (int i = batch->num_items - 1; i >= from; i--) {
        batch->items[i].task->next = list;
        list = batch->items[i].task;
    }
    batch->num_items = from;
    return list;
}

// ---- Tensors in pinned memory ----------------------------------------------

void ocl_batch_late(struct ocl_batch *batch)
{
    for (int i = 0; i < batch->num_items; i++) {
        const struct hr__task *task = batch->items[i].task;
        struct hr__memory *m = task->copy.memory || task->span.last < HR_STORE
                                   ? NULL
                                   : task->pic->dst.memory;

        if (!m || !m->direct)
            continue;
        atomic_fetch_add(&m->late, 1);
        ocl_memory_hold(m);
        batch->late[batch->num_late++] = m;
    }
}

void ocl_batch_late_done(struct ocl *o, struct ocl_batch *batch)
{
    while (batch->num_late) {
        struct hr__memory *m = batch->late[--batch->num_late];

        atomic_fetch_sub(&m->late, 1);
        ocl_memory_let_go(o, m);
    }
}

// ---- Its tasks -------------------------------------------------------------

void ocl_end_one(struct hr__task *task, enum hr_status status, unsigned why,
                 const char *text)
{
    struct hr__outcome out = {
        .status = status, .why = why, .offset = -1, .stage = task->span.first};

    snprintf(out.text, sizeof(out.text), "%s", text);
    hr__task_done(task, &out);
}

bool ocl_claim(struct hr__task *task)
{
    if (hr__task_stop(task))
        ocl_end_one(task, hr__task_stop_status(task), 0, "");
    else if (!hr__task_claim(task))
        ocl_end_one(task, HR_ETIMEDOUT, HR_WHY_TIMEOUT, "");
    else
        return true;
    return false;
}

void ocl_tasks_failed(struct ocl *o, struct hr__task *list,
                      const struct ocl_fault *fault)
{
    if (!list)
        return;
    hr__guard_log(&o->guard, HR_LOG_WARN, "a batch failed: %s", fault->text);
    hr__tasks_failed(list, fault->why, fault->text);
}

// ---- To the device and back ------------------------------------------------

static void CL_CALLBACK on_done(cl_event event, cl_int result, void *arg)
{
    struct ocl_batch *batch = arg;
    struct ocl *o = batch->o;

    (void)event;
    pthread_mutex_lock(&o->guard.lock);
    batch->result = result;
    batch->state = OCL_DONE;
    pthread_cond_signal(&o->guard.clock);
    pthread_mutex_unlock(&o->guard.lock);
}

static bool ask_for_callback(struct ocl *o, struct ocl_batch *batch,
                             struct ocl_fault *fault)
{
    // Before the callback is set: it may come at once, on this thread.
    pthread_mutex_lock(&o->guard.lock);
    batch->state = OCL_SENT;
    batch->stuck = false;
    batch->since = hr__now();
    pthread_mutex_unlock(&o->guard.lock);
    if (ocl_await(o, batch->downloaded, on_done, batch, fault))
        return true;
    pthread_mutex_lock(&o->guard.lock);
    batch->state = OCL_BUSY;
    pthread_mutex_unlock(&o->guard.lock);
    return false;
}

bool ocl_batch_send(struct ocl *o, struct ocl_batch *batch, int queue, bool ok,
                    struct ocl_fault *fault)
{
    ok = ok && ask_for_callback(o, batch, fault);
    if (ok)
        // After the callback is set: on some drivers the flush runs it.
        o->api.clFlush(o->queues[queue]);
    else
        // Enqueued commands use its buffers: they must be over before the next
        // batch.
        ocl_batch_mend(o, batch);
    return ok;
}

void ocl_batch_release(struct ocl *o, struct ocl_batch *batch)
{
    ocl_pinned_release(&o->pinned, batch);
    ocl_import_release(batch);
}

void ocl_batch_release_events(struct ocl *o, struct ocl_batch *batch)
{
    ocl_times_read(o, batch);
    ocl_event_release(o, &batch->uploaded);
    ocl_event_release(o, &batch->computed);
    ocl_event_release(o, &batch->downloaded);
}

void ocl_batch_end(struct ocl *o, struct ocl_batch *batch,
                   const struct ocl_fault *fault)
{
    struct hr__task *list;

    // If the device is dead, a driver may still read what the batch holds.
    if (!o->guard.dead)
        ocl_batch_release(o, batch);
    pthread_mutex_lock(&o->guard.lock);
    list = ocl_batch_take(batch, 0);
    ocl_batch_late_done(o, batch);
    batch->state = OCL_FREE;
    if (fault)
        hr__guard_failed(&o->guard, fault->why, list);
    pthread_mutex_unlock(&o->guard.lock);
    if (fault)
        ocl_tasks_failed(o, list, fault);
    else
        hr__tasks_failed(list, HR_WHY_TIMEOUT, "");
}

// ---- After a failure -------------------------------------------------------

// It is unknown which commands still run, and drivers crash if the buffers that
// these map are released. Such buffers are left behind, and the next batches
// get others. Batches in flight are left to their callbacks.
static void not_drained(struct ocl *o)
{
    for (int i = 0; i < OCL_BATCHES; i++) {
        struct ocl_batch *batch = &o->batch[i];
        bool ours;

        pthread_mutex_lock(&o->guard.lock);
        ours = batch->state == OCL_FREE || batch->state == OCL_BUSY;
        o->guard.lost = true;
        pthread_mutex_unlock(&o->guard.lock);
        if (!ours)
            continue;
        batch->up = batch->in = batch->out = batch->down = (struct ocl_buffer){
            0};
        batch->chunks = 0;  // they are never released
        pthread_mutex_lock(&o->guard.lock);
        ocl_batch_late(batch);
        batch->num_late = 0;
        pthread_mutex_unlock(&o->guard.lock);
        ocl_import_forget(batch);
    }
    ocl_axes_drop(o, true);
    hr__guard_log(&o->guard, HR_LOG_WARN,
                  "a queue cannot be waited for, buffers are left "
                  "behind");
}

bool ocl_drain(struct ocl *o)
{
    bool ok = true;

    for (int i = 0; i < OCL_QUEUES; i++)
        ok &= !o->queues[i] || !o->api.clFinish(o->queues[i]);
    if (!ok)
        not_drained(o);
    return ok;
}

void ocl_batch_mend(struct ocl *o, struct ocl_batch *batch)
{
    ocl_drain(o);
    // It is unknown which of them are mapped.
    ocl_buffer_drop(o, &batch->up);
    ocl_buffer_drop(o, &batch->down);
    ocl_axes_drop(o, false);
}
