// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/tools.h"

#define ALIGN 64u

bool run_output_size(struct run *run, size_t i, int *w, int *h)
{
    const struct ops_list *list = &run->opt.ops;
    struct hr_info info;

    if (inputs_probe(&run->in, i, &run->dev->params.limits, &info) != HR_OK)
        return false;
    return hr_ops_output_size(list->ops, list->num, info.width, info.height,
                              info.orientation, w, h) >= 0;
}

// Two pictures cannot lie in one array.
static bool same_shape(struct run *run, size_t i, int w, int h)
{
    char path[PATH_MAX], first[PATH_MAX];

    if (w == run->w && h == run->h)
        return true;
    progress_clear(&run->progress);
    inputs_path(&run->in, i, path, sizeof(path));
    inputs_path(&run->in, run->shape_from, first, sizeof(first));
    return tools_warn(
        "%s makes %dx%d pixels, %s makes %dx%d: one array needs equal "
        "sizes; name a folder with --out, or add a resize or crop",
        first, run->w, run->h, path, w, h);
}

// A picture of unknown size gets one pixel: its job will fail, and say why.
static bool size_tensor(struct run *run, struct run_picture *picture)
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

// The library does not see what is wrong with a picture of a file that has many:
// that is its result.
static bool keep_fault(struct run *run, struct run_slot *slot, int at,
                       enum hr_status status)
{
    struct hr_result *fault;

    if (!slot->faults)
        slot->faults = calloc((size_t)run->batch, sizeof(*slot->faults));
    if (!slot->faults)
        return tools_warn("out of memory");
    fault = &slot->faults[at];
    fault->status = status;
    fault->stage = HR_READ;
    fault->offset = -1;
    snprintf(fault->message, sizeof(fault->message), "%s", hr_last_error());
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

void run_drop_sources(struct run *run)
{
    for (int i = 0; !run->given && i < run->batch; i++)
        hr_image_release(&run->samples[i].image);
}

// Sample number at of the job. No file is opened unless the size of the tensor
// depends on it.
static bool fill_sample(struct run *run, struct run_slot *slot, int at,
                        size_t i)
{
    struct run_picture *picture = &run->pictures[at];
    enum hr_status status = HR_OK;
    char path[PATH_MAX];

    inputs_path(&run->in, i, path, sizeof(path));
    free(picture->path);
    *picture = (struct run_picture){.path = strdup(path)};
    if (!picture->path)
        return tools_warn("out of memory");
    run->samples[at] = (struct hr_sample){
        .ops = run->opt.ops.ops,
        .num_ops = run->opt.ops.num,
        .random = {.seed = run->opt.seed, .index = i, .epoch = run->epoch},
    };
    if (!run->given)
        status = inputs_source(&run->in, i, picture->path, &slot->read[at],
                               &run->samples[at]);
    if (status && !keep_fault(run, slot, at, status))
        return false;
    if (!status && slot->read[at].w &&
        !take_pixels(run, &slot->read[at], &run->samples[at]))
        return false;
    slot->read_bytes += slot->read[at].room;
    if (!run->fixed_shape && !run_output_size(run, i, &picture->w, &picture->h))
        picture->w = picture->h = 0;
    if (run->equal_shapes && !run->fixed_shape && picture->w &&
        !same_shape(run, i, picture->w, picture->h))
        return false;
    return size_tensor(run, picture);
}

bool run_fill(struct run *run, struct run_slot *slot)
{
    slot->first = run->next;
    slot->num = 0;
    slot->bytes = slot->read_bytes = 0;
    while (slot->num < run->batch && run->next < run->total) {
        const struct run_picture *picture = &run->pictures[slot->num];

        if (slot->faults)
            slot->faults[slot->num].status = HR_OK;
        if (!fill_sample(run, slot, slot->num, run->next))
            return false;
        // The first is always taken; what does not fit waits for its turn.
        if (!run->equal_shapes && slot->num &&
            picture->bytes > run->slot_bytes - slot->bytes)
            break;
        slot->bytes += picture->bytes;
        slot->num++;
        run->next++;
        if (slot->bytes > run->slot_bytes || slot->read_bytes > run->slot_bytes)
            break;
    }
    return true;
}

bool run_needs_all(const struct run *run, const struct run_slot *slot)
{
    return !run->equal_shapes && !run->opt.memory &&
           slot->bytes > run->slot_bytes;
}

static void free_pixels(struct run_slot *slot)
{
    free(slot->pixels);
    slot->pixels = NULL;
    slot->capacity = 0;
}

// Memory for one oversized picture is borrowed from the other slots.
static bool reserve(struct run *run, struct run_slot *slot)
{
    size_t bytes = slot->bytes;
    void *pixels;

    if (bytes <= slot->capacity)
        return true;
    free_pixels(slot);
    for (int i = 0; i < run->ring && bytes > run->slot_bytes; i++)
        free_pixels(&run->slots[i]);
    if (posix_memalign(&pixels, ALIGN, bytes))
        return tools_warn("no memory for %zu bytes of pictures", bytes);
    slot->pixels = pixels;
    slot->capacity = bytes;
    return true;
}

bool run_make_images(struct run *run, struct run_slot *slot)
{
    unsigned char *at;

    if (run->equal_shapes)
        return true;
    if (!run->opt.memory && !reserve(run, slot))
        return false;
    at = run->opt.memory ? NULL : slot->pixels;
    for (int i = 0; i < slot->num; i++) {
        const struct run_picture *picture = &run->pictures[i];
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
        run->samples[i].out = slot->images[i];
        at += at ? picture->bytes : 0;
    }
    return true;
}
