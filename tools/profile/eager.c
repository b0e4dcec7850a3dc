// SPDX-License-Identifier: Apache-2.0
// One op at a time, as a program would that calls decode, then resize, then
// crop: each op is a job, and images wait for each other.
#include <limits.h>
#include <stdlib.h>

#include "profile.h"
#include "tools/common/tools.h"

static hr_image apply(struct profile_child *c, hr_image from,
                      const struct hr_op *op)
{
    const struct run_options *opt = &c->run.opt;

    switch (op->type) {
    case HR_OP_CROP:
        return hr_crop(c->run.dev, from, &op->crop);
    case HR_OP_RESIZE:
        return hr_resize(c->run.dev, from, &op->resize);
    case HR_OP_FIT:
        return hr_fit(c->run.dev, from, &op->fit);
    case HR_OP_FLIP:
        return hr_flip(c->run.dev, from, &op->flip);
    case HR_OP_NORMALIZE:
        return hr_normalize(c->run.dev, from, &op->normalize, opt->dtype,
                            opt->layout);
    default:  // decode
        break;
    }
    return hr_image_retain(from);
}

static hr_image chain(struct profile_child *c, const struct hr_sample *s,
                      const void *data, size_t size)
{
    static const struct hr_decode plain;
    bool decodes = s->num_ops && s->ops[0].type == HR_OP_DECODE;
    hr_image image = hr_decode(c->run.dev, data, size,
                               decodes ? &s->ops[0].decode : &plain);
    struct hr_op ops[HR_MAX_OPS];
    int num_ops = 0;

    // The picture is turned already.
    if (image && hr_ops_draw(s->ops, s->num_ops, &s->random, image->params.w,
                             image->params.h, 1, ops, &num_ops))
        hr_image_release(&image);
    for (int i = decodes; image && i < num_ops; i++) {
        hr_image next = apply(c, image, &ops[i]);

        hr_image_release(&image);
        image = next;
    }
    return image;
}

bool profile_eager_submit(struct profile_child *c, struct run_slot *slot)
{
    size_t row = (size_t)(slot - c->run.slots) * (size_t)c->run.batch;

    if (!slot->images)
        slot->images = calloc((size_t)c->run.batch, sizeof(*slot->images));
    if (!slot->images) {
        tools_warn("out of memory");
        return false;
    }
    for (int i = 0; i < slot->num; i++) {
        const struct hr_sample *s = &c->run.samples[i];
        size_t size = s->size;
        const void *data = s->data;

        hr_image_release(&slot->images[i]);
        if (!data)
            data = c->file[row + (size_t)i] = profile_read_file(s->path, &size);
        slot->images[i] = data ? chain(c, s, data, size) : NULL;
    }
    return true;
}

int profile_eager_collect(struct profile_child *c, struct run_slot *slot)
{
    size_t row = (size_t)(slot - c->run.slots) * (size_t)c->run.batch;
    int failed = 0;

    for (int i = 0; i < slot->num; i++) {
        failed += !slot->images[i] ||
                  hr_image_wait(slot->images[i], HR_FOREVER) != HR_OK;
        hr_image_release(&slot->images[i]);
    }
    // An image that failed early may leave others of its chain at work.
    if (failed)
        hr_wait_all(c->run.dev, HR_FOREVER);
    for (int i = 0; i < slot->num; i++) {
        free(c->file[row + (size_t)i]);
        c->file[row + (size_t)i] = NULL;
    }
    return failed;
}
