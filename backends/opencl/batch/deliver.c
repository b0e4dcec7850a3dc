// SPDX-License-Identifier: Apache-2.0
// The pictures of a batch that the device is done with: they are copied from
// pinned memory to the tensors, and their tasks end. One thread copies some
// 5 GB/s, and a GPU fills ten times as much; so the clock thread has helpers,
// where the device's memory is its own. Nothing here calls OpenCL.
#include <stdio.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static void copy_tensor(struct ocl *o, const struct ocl_batch *batch,
                        const struct hr__dst *d, const uint8_t *from)
{
    int64_t begin = hr__watch_begin();
    size_t size;
    struct hr__dst packed = ocl_packed(d, &size);
    bool planar = d->layout == HR_NCHW;

    for (int c = 0; c < (planar ? d->c : 1); c++)
        ocl_copy_rows(d->data + (planar ? d->stride_c * (size_t)c : 0),
                      d->stride_h, from + packed.stride_c * (size_t)c,
                      packed.stride_h, packed.stride_h, d->h);
    hr__engine_ref_part(&o->guard.ref, HR_PART_DELIVER, batch->times.number,
                        begin);
}

static bool is_copied(const struct ocl_batch *batch,
                      const struct ocl_item *item)
{
    const struct hr__task *task = item->task;

    return task->copy.to ||
           (!task->copy.memory && !item->dst && batch->num_downs <= 0);
}

// Pixels for the next engine go to its memory.
static void copy_pixels(struct ocl *o, const struct ocl_batch *batch,
                        const struct ocl_item *item, struct hr__outcome *out)
{
    size_t size;
    struct hr__dst to = ocl_packed(&item->tensor, &size);
    struct hr__payload *payload = hr__task_payload(item->task, size);

    if (!payload) {
        out->status = HR_ENOMEM;
        snprintf(out->text, sizeof(out->text), "no room for its pixels");
        return;
    }
    payload->rect = (struct hr__rect){0, 0, to.w, to.h};
    payload->stride = to.stride_h;
    payload->first_step = item->task->span.last == HR_COLOR;
    to.data = payload->data;
    copy_tensor(o, batch, &to,
                (const uint8_t *)batch->down.host + item->out_at);
}

static void end_item(struct ocl *o, const struct ocl_batch *batch,
                     const struct ocl_item *item)
{
    struct hr__task *task = item->task;
    const uint8_t *from = (const uint8_t *)batch->down.host + item->out_at;
    struct hr__outcome out = {.offset = -1,
                              .stage = task->span.last,
                              .shared = item->lead,
                              .text = "the device leaves its entropy coding"};

    // It was given up, and only its end is missing.
    if (item->dropped || !hr__task_claim(task))
        out.status = HR_ETIMEDOUT;
    else if ((out.why = ocl_entropy_failed(item, batch->down.host)))
        out.status = HR_EDEVICE;
    else if (task->copy.to)
        memcpy(task->copy.to, from, task->copy.size);
    else if (task->span.last < HR_STORE)
        copy_pixels(o, batch, item, &out);
    else if (is_copied(batch, item))
        copy_tensor(o, batch, &item->tensor, from);
    hr__task_done(task, &out);
}

// Ends items of the batch as long as there are some that no thread has taken.
// Returns how many. Locked, but it unlocks meanwhile.
static uint64_t end_some(struct ocl *o)
{
    struct ocl_delivery *d = &o->delivery;
    const struct ocl_batch *batch = d->batch;
    uint64_t n = 0;

    for (; d->next < batch->num_items; n++) {
        const struct ocl_item *item = &batch->items[d->next++];

        pthread_mutex_unlock(&d->lock);
        end_item(o, batch, item);
        pthread_mutex_lock(&d->lock);
        if (--d->left == 0)
            pthread_cond_signal(&d->ended);
    }
    return n;
}

static void *run_helper(void *arg)
{
    struct ocl *o = arg;
    struct ocl_delivery *d = &o->delivery;

    hr__engine_ref_thread(&o->guard.ref, "opencl results");
    pthread_mutex_lock(&d->lock);
    while (!d->stop)
        if (d->batch && d->next < d->batch->num_items)
            d->helped += end_some(o);
        else
            pthread_cond_wait(&d->more, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void ocl_deliver(struct ocl *o, const struct ocl_batch *batch)
{
    struct ocl_delivery *d = &o->delivery;
    int copies = 0;

    for (int i = 0; i < batch->num_items; i++)
        copies += is_copied(batch, &batch->items[i]);
    pthread_mutex_lock(&d->lock);
    d->batch = batch;
    d->next = 0;
    d->left = batch->num_items;
    for (int i = 0; i < d->helpers && i < copies - 1; i++)
        pthread_cond_signal(&d->more);
    end_some(o);
    while (d->left)
        pthread_cond_wait(&d->ended, &d->lock);
    d->batch = NULL;
    pthread_mutex_unlock(&d->lock);
}

void ocl_deliver_init(struct ocl *o)
{
    pthread_mutex_init(&o->delivery.lock, NULL);
    hr__cond_init(&o->delivery.more);
    hr__cond_init(&o->delivery.ended);
}

void ocl_deliver_start(struct ocl *o, int threads)
{
    struct ocl_delivery *d = &o->delivery;
    int most = (threads ? threads : hr__usable_cores()) / 2, n = 0;

    most = most < OCL_HELPERS ? most : OCL_HELPERS;
    while (!o->facts.unified && n < most &&
           hr__thread_start(&d->threads[n], run_helper, o))
        n++;
    pthread_mutex_lock(&d->lock);
    d->helpers = n;
    pthread_mutex_unlock(&d->lock);
}

void ocl_deliver_stop(struct ocl *o)
{
    struct ocl_delivery *d = &o->delivery;

    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_broadcast(&d->more);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->helpers; i++)
        pthread_join(d->threads[i], NULL);
}
