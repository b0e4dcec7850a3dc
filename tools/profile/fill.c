// SPDX-License-Identifier: Apache-2.0
// The jobs of a measurement: which samples they have, and where these go.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

#define ALIGN 64u

// A picture of unknown size gets one pixel: its job will fail, and say why.
static bool size_tensor(struct run *run, struct profile_picture *picture)
{
    size_t bytes = hr_dtype_size(run->opt.dtype) * (size_t)run->c;
    size_t w = picture->w ? (size_t)picture->w : 1;
    size_t h = picture->h ? (size_t)picture->h : 1;

    if (!tools_mul(&bytes, bytes, w) || !tools_mul(&bytes, bytes, h) ||
        bytes > SIZE_MAX - ALIGN)
        return tools_warn("out of memory");
    picture->bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return true;
}

// A sample that is pixels goes as an image over where they were read to, and
// without decode.
static bool take_pixels(struct run *run, const struct hr_encoded *read,
                        struct hr_sample *sample)
{
    sample->image = hr_image_create(
        run->dev, hr_image_params(.w = read->w, .h = read->h, .c = read->c,
                                  .dtype = HR_U8, .layout = read->layout,
                                  .data = read->memory));
    sample->data = NULL;
    sample->size = 0;
    sample->ops++;
    sample->num_ops--;
    return sample->image || tools_warn("%s", hr_last_error());
}

void profile_drop_sources(struct profile_child *c)
{
    for (int i = 0; !c->num_sources && i < c->run.batch; i++)
        hr_image_release(&c->samples[i].image);
}

// Sample number at of the job. No file is opened unless the size of the tensor
// depends on it. What cannot be read of a file of many fails in the job.
static bool fill_sample(struct profile_child *c, struct profile_slot *slot,
                        int at, size_t i)
{
    struct run *run = &c->run;
    struct profile_picture *picture = &c->pics[at];
    struct hr_sample *sample = &c->samples[at];
    enum hr_status status = HR_OK;
    char path[PATH_MAX];

    inputs_path(&run->in, i, path, sizeof(path));
    free(picture->path);
    *picture = (struct profile_picture){.path = strdup(path)};
    if (!picture->path)
        return tools_warn("out of memory");
    *sample = (struct hr_sample){
        .ops = run->opt.ops.ops,
        .num_ops = run->opt.ops.num,
        .random = {.seed = run->opt.seed, .index = i, .epoch = run->epoch},
    };
    if (!c->num_sources)
        status = inputs_source(&run->in, i, picture->path, &slot->read[at],
                               sample);
    if (!status && slot->read[at].w &&
        !take_pixels(run, &slot->read[at], sample))
        return false;
    slot->read_bytes += slot->read[at].room;
    if (!run->fixed_shape && !run_output_size(run, i, &picture->w, &picture->h))
        picture->w = picture->h = 0;
    return size_tensor(run, picture);
}

bool profile_fill(struct profile_child *c, struct profile_slot *slot)
{
    struct run *run = &c->run;

    slot->first = c->next;
    slot->num = 0;
    slot->bytes = slot->read_bytes = 0;
    while (slot->num < run->batch && c->next < run->total) {
        const struct profile_picture *picture = &c->pics[slot->num];

        if (!fill_sample(c, slot, slot->num, c->next))
            return false;
        // The first is always taken; what does not fit waits for its turn.
        if (!run->equal_shapes && slot->num &&
            picture->bytes > run->slot_bytes - slot->bytes)
            break;
        slot->bytes += picture->bytes;
        slot->num++;
        c->next++;
        if (slot->bytes > run->slot_bytes || slot->read_bytes > run->slot_bytes)
            break;
    }
    return true;
}

bool profile_needs_all(const struct profile_child *c,
                       const struct profile_slot *slot)
{
    const struct run *run = &c->run;

    return !run->equal_shapes && !run->opt.memory &&
           slot->bytes > run->slot_bytes;
}

static void free_pixels(struct profile_slot *slot)
{
    free(slot->pixels);
    slot->pixels = NULL;
    slot->capacity = 0;
}

// Memory for one oversized picture is borrowed from the other slots.
static bool reserve(struct profile_child *c, struct profile_slot *slot)
{
    const struct run *run = &c->run;
    size_t bytes = slot->bytes;
    void *pixels;

    if (bytes <= slot->capacity)
        return true;
    free_pixels(slot);
    for (int i = 0; i < run->ring && bytes > run->slot_bytes; i++)
        free_pixels(&c->slots[i]);
    if (posix_memalign(&pixels, ALIGN, bytes))
        return tools_warn("no memory for %zu bytes of pictures", bytes);
    slot->pixels = pixels;
    slot->capacity = bytes;
    return true;
}

bool profile_make_images(struct profile_child *c, struct profile_slot *slot)
{
    struct run *run = &c->run;
    unsigned char *at;

    if (run->equal_shapes)
        return true;
    if (!run->opt.memory && !reserve(c, slot))
        return false;
    at = run->opt.memory ? NULL : slot->pixels;
    for (int i = 0; i < slot->num; i++) {
        const struct profile_picture *picture = &c->pics[i];
        struct hr_image_params params = {
            .w = picture->w ? picture->w : 1,
            .h = picture->h ? picture->h : 1,
            .c = run->c,
            .dtype = run->opt.dtype,
            .layout = run->opt.layout,
            .memory = run->opt.memory,
            .data = at,
        };

        slot->images[i] = hr_image_create(run->dev, &params);
        if (!slot->images[i])
            return tools_warn("%s", hr_last_error());
        c->samples[i].out = slot->images[i];
        at += at ? picture->bytes : 0;
    }
    return true;
}

// ---- Slots -----------------------------------------------------------------

static bool open_slot(const struct run *run, struct profile_slot *slot)
{
    slot->read = calloc((size_t)run->batch, sizeof(*slot->read));
    if (!slot->read)
        return tools_warn("out of memory");
    if (!run->equal_shapes) {
        slot->images = calloc((size_t)run->batch, sizeof(*slot->images));
        return slot->images || tools_warn("out of memory");
    }
    slot->batch = hr_batch_create(
        run->dev,
        hr_batch_params(.n = run->batch, .c = run->c, .h = run->h, .w = run->w,
                        .dtype = run->opt.dtype, .layout = run->opt.layout,
                        .memory = run->opt.memory));
    return slot->batch || tools_warn("%s", hr_last_error());
}

bool profile_jobs_open(struct profile_child *c)
{
    size_t batch = (size_t)c->run.batch;

    c->samples = calloc(batch, sizeof(*c->samples));
    c->pics = calloc(batch, sizeof(*c->pics));
    if (!c->samples || !c->pics)
        return tools_warn("out of memory");
    for (int i = 0; i < c->run.ring; i++)
        if (!open_slot(&c->run, &c->slots[i]))
            return false;
    return true;
}

void profile_release(const struct profile_child *c, struct profile_slot *slot)
{
    for (int i = 0; slot->images && i < slot->num; i++)
        hr_image_release(&slot->images[i]);
    for (int i = 0; slot->read && i < c->run.batch; i++)
        hr_encoded_finish(&slot->read[i]);
}

// After an error, jobs may still be writing to our memory: end them first.
void profile_jobs_close(struct profile_child *c)
{
    for (int i = 0; i < RUN_RING_MAX; i++)
        if (c->slots[i].job)
            hr_job_cancel(c->slots[i].job);
    for (int i = 0; i < RUN_RING_MAX; i++) {
        struct profile_slot *slot = &c->slots[i];

        while (slot->job && hr_job_poll(slot->job, HR_FOREVER) == HR_PENDING)
            ;
        hr_job_release(&slot->job);
        profile_release(c, slot);
        hr_batch_destroy(&slot->batch);
        free(slot->read);
        free(slot->images);
        free(slot->pixels);
        *slot = (struct profile_slot){0};
    }
    for (int i = 0; c->pics && i < c->run.batch; i++)
        free(c->pics[i].path);
    free(c->samples);
    free(c->pics);
    c->samples = NULL;
    c->pics = NULL;
}
