// SPDX-License-Identifier: Apache-2.0
// The ops one at a time, from image to image. Each submits a one-op
// sample and returns its image at once, still in the making; the next call
// that reads it waits by itself, hr_image_wait() waits on the host. A chain of
// ops in one sample makes the same pixels faster, because it is one plan.
//
// A result lies in the same memory as its source; what is decoded lies in host
// memory, or where hr_decode_to() is told. Of images in device memory each op
// runs there and no pixel comes to the host.
//
// Random ops are drawn from a key (hr_ops_draw()), so they are ops of a sample.
//
// All: dev NULL = the default device; of images in pinned and device memory dev
// must be the device that made them. A new image of which the caller owns one
// reference, or NULL with hr_last_error() if the call is not valid. What goes
// wrong later is the status of hr_image_wait(). Threads: any.
#ifndef HEADRACE_EAGER_H
#define HEADRACE_EAGER_H

#include <headrace/job.h>

HR_BEGIN_DECLS

// Encoded bytes (borrowed until the image is ready) -> u8 RGB or grey.
// Reads the header at once, so the size is known on return.
HR_API hr_image hr_decode(hr_device dev, const void *data, size_t size,
                          const struct hr_decode *op);
HR_API hr_image hr_decode_to(hr_device dev, const void *data, size_t size,
                             const struct hr_decode *op, enum hr_memory memory);
HR_API hr_image hr_crop(hr_device dev, hr_image src, const struct hr_crop *op);
HR_API hr_image hr_resize(hr_device dev, hr_image src,
                          const struct hr_resize *op);
HR_API hr_image hr_fit(hr_device dev, hr_image src, const struct hr_fit *op);
HR_API hr_image hr_flip(hr_device dev, hr_image src, const struct hr_flip *op);
// To f32 or f16 (or u8), NCHW or NHWC.
HR_API hr_image hr_normalize(hr_device dev, hr_image src,
                             const struct hr_normalize *op, enum hr_dtype dtype,
                             enum hr_layout layout);

// The same pixels, of any type and layout, in other memory.
HR_API hr_image hr_move(hr_device dev, hr_image src, enum hr_memory memory);

HR_END_DECLS
#endif
