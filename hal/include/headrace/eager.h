// SPDX-License-Identifier: Apache-2.0
// The ops one at a time, from image to image. Each function submits a one-op
// sample and returns its image at once, while it is still being made. A job
// that reads the image waits for it by itself; hr_image_wait() waits on the
// host. A chain of ops in one sample makes the same pixels faster, because it
// is one plan.
//
// A result lies in the same kind of memory as its source. A decoded picture
// lies in host memory, or where hr_decode_to() is told to put it. Ops on images
// in device memory run there, and no pixel comes to the host.
//
// Random ops are drawn from a key (hr_ops_draw()), so only samples have them.
//
// For all functions here: dev NULL = the default device; for images in pinned
// and device memory dev must be the device that made them. They return a new
// image, of which the caller owns one reference, or NULL with hr_last_error()
// if the call is not valid. hr_image_wait() returns what goes wrong later.
// Threads: any.
#ifndef HEADRACE_EAGER_H
#define HEADRACE_EAGER_H

#include <headrace/job.h>

HR_BEGIN_DECLS

// Decode bytes (borrowed until the image is ready) to u8 RGB or grey. They read
// the header at once, so the size is known on return.
HR_API hr_image hr_decode(hr_device dev, const void *data, size_t size,
                          const struct hr_decode *op);
HR_API hr_image hr_decode_to(hr_device dev, const void *data, size_t size,
                             const struct hr_decode *op, enum hr_memory memory);
HR_API hr_image hr_crop(hr_device dev, hr_image src, const struct hr_crop *op);
HR_API hr_image hr_resize(hr_device dev, hr_image src,
                          const struct hr_resize *op);
HR_API hr_image hr_fit(hr_device dev, hr_image src, const struct hr_fit *op);
HR_API hr_image hr_flip(hr_device dev, hr_image src, const struct hr_flip *op);
// Makes f32 or f16 (by a table u8, too), NCHW or NHWC.
HR_API hr_image hr_normalize(hr_device dev, hr_image src,
                             const struct hr_normalize *op, enum hr_dtype dtype,
                             enum hr_layout layout);

// Copies the pixels, of any type and layout, to other memory.
HR_API hr_image hr_move(hr_device dev, hr_image src, enum hr_memory memory);

HR_END_DECLS
#endif
