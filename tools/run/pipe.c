// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "tools/common/stop.h"
#include "tools/common/tools.h"

#define LOOK_NS ((int64_t)100000000)  // how often a wait looks up

static bool open_slot(struct run *run, struct run_slot *slot)
{
    slot->read = calloc((size_t)run->batch, sizeof(*slot->read));
    if (!slot->read)
        return tools_warn("out of memory");
    if (!run->equal_shapes) {
        slot->images = calloc((size_t)run->batch, sizeof(*slot->images));
        if (!slot->images)
            tools_warn("out of memory");
        return slot->images != NULL;
    }
    slot->batch = hr_batch_create(
        run->dev,
        hr_batch_params(.n = run->batch, .c = run->c, .h = run->h, .w = run->w,
                        .dtype = run->opt.dtype, .layout = run->opt.layout,
                        .memory = run->opt.memory));
    if (!slot->batch)
        tools_warn("%s", hr_last_error());
    return slot->batch != NULL;
}

bool run_pipe_open(struct run *run)
{
    size_t batch = (size_t)run->batch;

    run->samples = calloc(batch, sizeof(*run->samples));
    run->pictures = calloc(batch, sizeof(*run->pictures));
    if (!run->samples || !run->pictures)
        return tools_warn("out of memory");
    for (int i = 0; i < run->ring; i++)
        if (!open_slot(run, &run->slots[i]))
            return false;
    return true;
}

void run_release(const struct run *run, struct run_slot *slot)
{
    for (int i = 0; slot->images && i < slot->num; i++)
        hr_image_release(&slot->images[i]);
    for (int i = 0; slot->read && i < run->batch; i++)
        hr_encoded_finish(&slot->read[i]);
}

// After an error, jobs may still be writing to our memory: end them first.
void run_pipe_close(struct run *run)
{
    for (int i = 0; i < RUN_RING_MAX; i++)
        if (run->slots[i].job)
            hr_job_cancel(run->slots[i].job);
    for (int i = 0; i < RUN_RING_MAX; i++) {
        struct run_slot *slot = &run->slots[i];

        while (slot->job && hr_job_poll(slot->job, HR_FOREVER) == HR_PENDING)
            ;
        hr_job_release(&slot->job);
        run_release(run, slot);
        hr_batch_destroy(&slot->batch);
        free(slot->read);
        free(slot->images);
        free(slot->pixels);
        free(slot->faults);
        *slot = (struct run_slot){0};
    }
    for (int i = 0; run->pictures && i < run->batch; i++)
        free(run->pictures[i].path);
    free(run->samples);
    free(run->pictures);
    free(run->tensor);
    run->tensor = NULL;
    run->samples = NULL;
    run->pictures = NULL;
}

static void cancel_all(struct run *run)
{
    for (size_t i = run->collected; i < run->submitted; i++)
        hr_job_cancel(run->slots[i % (size_t)run->ring].job);
}

// A line for each picture that fails, however often, but not for a thousand.
static void tell(struct run *run, size_t picture,
                 const struct hr_result *result)
{
    unsigned bit = 1u << picture % 8;

    if (run->told[picture / 8] & bit)
        return;
    run->told[picture / 8] |= (unsigned char)bit;
    if (run->num_told++ >= TOOLS_MAX_TOLD)
        return;
    progress_clear(&run->progress);
    tools_warn("%s", *result->message ? result->message
                                      : hr_status_text(result->status));
}

static void count(struct run *run, size_t picture,
                  const struct hr_result *result)
{
    struct run_epoch *epoch = &run->epochs[run->epoch];

    if (result->status == HR_OK) {
        epoch->images++;
        inputs_passed(&run->in, picture);
    } else {
        epoch->failed++;
        if (-result->status < RUN_NUM_STATUS)
            run->failures[-result->status]++;
        tell(run, picture, result);
    }
    for (int bit = 0; bit < RUN_NUM_WHY; bit++)
        run->fallbacks[bit] += result->why >> bit & 1;
}

// Picture i of a slot, from device memory to the host. NULL: a message was
// printed.
static const void *read_tensor(struct run *run, const struct run_slot *slot,
                               int i)
{
    size_t size = run->equal_shapes ? slot->batch->params.stride_n
                                    : slot->images[i]->size;
    enum hr_status status;

    if (size > run->tensor_size) {
        free(run->tensor);
        run->tensor = malloc(size);
        run->tensor_size = run->tensor ? size : 0;
    }
    if (!run->tensor) {
        tools_warn("no memory for %zu bytes", size);
        return NULL;
    }
    status = run->equal_shapes ? hr_batch_read(slot->batch, i, 1, run->tensor,
                                               size, HR_FOREVER)
                               : hr_image_read(slot->images[i], run->tensor,
                                               size, HR_FOREVER);
    // What became of a picture that failed is in its result.
    if (status == HR_EINPUT)
        return memset(run->tensor, 0, size);
    if (status == HR_OK)
        return run->tensor;
    tools_warn("%s", hr_last_error());
    return NULL;
}

static const struct hr_result *result_of(const struct run_slot *slot, int i)
{
    return slot->faults && slot->faults[i].status ? &slot->faults[i]
                                                  : &slot->job->results[i];
}

// The tensor of picture i of a slot, on the host. NULL: none of a known size
// was made, or it is nobody's business. False: a message was printed.
static bool tensor(struct run *run, const struct run_slot *slot, int i,
                   const void **pixels, int *w, int *h)
{
    const hr_image image = run->equal_shapes ? NULL : slot->images[i];
    const unsigned char *data = image ? image->params.data
                                      : slot->batch->params.data;

    *w = image ? image->params.w : run->w;
    *h = image ? image->params.h : run->h;
    *pixels = NULL;
    // One pixel stands in for a picture whose header could not be read.
    if (run->opt.out_kind == RUN_OUT_NONE ||
        (image && slot->job->results[i].status != HR_OK && *w == 1 && *h == 1))
        return true;
    *pixels = !data   ? read_tensor(run, slot, i)
              : image ? data
                      : data + slot->batch->params.stride_n * (size_t)i;
    return *pixels != NULL;
}

static bool deliver(struct run *run, const struct run_slot *slot)
{
    for (int i = 0; i < slot->num; i++) {
        const struct hr_result *result = result_of(slot, i);
        const void *pixels;
        int w, h;

        // What the user cut short did not fail.
        if (result->status == HR_ECANCELED && stop_signal())
            continue;
        count(run, slot->first + (size_t)i, result);
        if (!tensor(run, slot, i, &pixels, &w, &h) ||
            !run_sink_put(run, slot->first + (size_t)i, result, pixels, w, h))
            return false;
    }
    return true;
}

static void draw(struct run *run)
{
    const struct run_epoch *epoch = &run->epochs[run->epoch];

    progress_update(&run->progress,
                    run->images + run->failed + epoch->images + epoch->failed,
                    run->failed + epoch->failed);
}

// Waits for the oldest job and hands its pictures to the sink.
static bool collect(struct run *run)
{
    struct run_slot *slot = &run->slots[run->collected % (size_t)run->ring];
    bool canceled = false, ok;

    while (hr_job_poll(slot->job, LOOK_NS) == HR_PENDING) {
        if (stop_signal() && !canceled) {
            canceled = true;
            cancel_all(run);
        }
        draw(run);
    }
    run->collected++;
    ok = deliver(run, slot);
    hr_job_release(&slot->job);
    run_release(run, slot);
    if (slot->capacity > run->slot_bytes) {
        free(slot->pixels);
        slot->pixels = NULL;
        slot->capacity = 0;
    }
    draw(run);
    return ok;
}

static bool submit_slot(struct run *run)
{
    struct run_slot *slot = &run->slots[run->submitted % (size_t)run->ring];
    const struct hr_job_params params = {
        .tier = run->opt.tier,
        .on_error = run->opt.on_error,
        .strict = run->opt.strict,
        .wait_for_room = true,
        .timeout_ns = run->opt.timeout_ns,
    };

    if (!run_fill(run, slot))
        return false;
    while (run_needs_all(run, slot) && run->collected < run->submitted)
        if (!collect(run))
            return false;
    if (!run_make_images(run, slot))
        return false;
    slot->job = hr_submit(run->dev, run->samples, slot->num, slot->batch,
                          &params);
    if (!slot->job) {
        progress_clear(&run->progress);
        tools_warn("%s", hr_last_error());
        return false;
    }
    run->submitted++;
    return true;
}

static bool submit(struct run *run)
{
    bool ok = submit_slot(run);

    run_drop_sources(run);
    return ok;
}

bool run_pipe_epoch(struct run *run)
{
    struct run_epoch *epoch = &run->epochs[run->epoch];
    double begun = tools_seconds(), cpu = tools_cpu_seconds();
    bool ok = run_sink_begin(run);

    run->submitted = run->collected = run->next = 0;
    while (ok) {
        bool more = run->next < run->total && !stop_signal();

        if (more && run->submitted - run->collected < (size_t)run->ring)
            ok = submit(run);
        else if (run->collected < run->submitted)
            ok = collect(run);
        else
            break;
    }
    epoch->seconds = tools_seconds() - begun;
    epoch->cpu_seconds = tools_cpu_seconds() - cpu;
    run->images += epoch->images;
    run->failed += epoch->failed;
    return ok;
}
