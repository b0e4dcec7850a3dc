// SPDX-License-Identifier: Apache-2.0
// Ops at once, from one picture to a new image. hr_apply() submits one sample
// and returns its image at once, while it is still being made. A job that reads
// the image waits for it by itself; hr_image_wait() waits on the host. A chain
// of ops in one sample makes the same pixels faster, because it is one plan.
//
// For all functions here: dev NULL = the default device; for images in pinned
// and device memory dev must be the device that made them. They return a new
// image, of which the caller owns one reference, or NULL with hr_last_error()
// if the call is not valid. hr_image_wait() returns what goes wrong later.
// Threads: any.
#ifndef HEADRACE_EAGER_H
#define HEADRACE_EAGER_H

#include <string.h>

#include <headrace/job.h>

HR_BEGIN_DECLS

// Makes sample's ops of its source; its out is ignored. Encoded bytes are
// borrowed until the image is ready; their header is read at once, so the size
// is known on return. as says type, layout and memory of the image, and nothing
// else; NULL: u8, HR_NHWC, and the kind of memory that the source lies in, the
// host's for encoded ones. Ops on images in device memory run there, and no
// pixel comes to the host. Without ops, and as of type and layout of the image,
// bytes of any type are copied as they lie; the image itself is returned if it
// is in that memory already.
HR_API hr_image hr_apply(hr_device dev, const struct hr_sample *sample,
                         const struct hr_image_params *as);

// Applies one op to an image.
static inline hr_image hr_apply_op(hr_device dev, hr_image src,
                                   const struct hr_op *op)
{
    struct hr_sample s;

    memset(&s, 0, sizeof(s));
    s.image = src;
    s.ops = op;
    s.num_ops = 1;
    return hr_apply(dev, &s, NULL);
}

// Decodes bytes to u8 RGB or grey.
static inline hr_image hr_decode(hr_device dev, const void *data, size_t size,
                                 const struct hr_decode *params)
{
    struct hr_sample s;
    struct hr_op op;

    memset(&s, 0, sizeof(s));
    memset(&op, 0, sizeof(op));
    op.type = HR_OP_DECODE;
    if (params)
        op.decode = *params;
    s.data = data;
    s.size = size;
    s.ops = &op;
    s.num_ops = 1;
    return hr_apply(dev, &s, NULL);
}

static inline hr_image hr_crop(hr_device dev, hr_image src,
                               const struct hr_crop *params)
{
    struct hr_op op;

    memset(&op, 0, sizeof(op));
    op.type = HR_OP_CROP;
    op.crop = *params;
    return hr_apply_op(dev, src, &op);
}

static inline hr_image hr_resize(hr_device dev, hr_image src,
                                 const struct hr_resize *params)
{
    struct hr_op op;

    memset(&op, 0, sizeof(op));
    op.type = HR_OP_RESIZE;
    op.resize = *params;
    return hr_apply_op(dev, src, &op);
}

// Copies the pixels, of any type and layout, to other memory.
static inline hr_image hr_move(hr_device dev, hr_image src,
                               enum hr_memory memory)
{
    struct hr_image_params as;
    struct hr_sample s;

    memset(&as, 0, sizeof(as));
    memset(&s, 0, sizeof(s));
    if (src)
        as = src->params;
    as.memory = memory;
    s.image = src;
    return hr_apply(dev, &s, &as);
}

HR_END_DECLS
#endif
