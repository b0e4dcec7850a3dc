// SPDX-License-Identifier: Apache-2.0
// Where pixels live: images (one picture) and batches (one tensor for many).
#ifndef HEADRACE_IMAGE_H
#define HEADRACE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <headrace/device.h>

HR_BEGIN_DECLS

enum hr_dtype { HR_F32, HR_F16, HR_U8 };  // IEEE 754 binary32, binary16
enum hr_layout { HR_NCHW, HR_NHWC };      // planes, or interleaved pixels

HR_API size_t hr_dtype_size(enum hr_dtype dtype);       // bytes
HR_API const char *hr_dtype_name(enum hr_dtype dtype);  // "f32" ...

// One contiguous tensor for n pictures of c x h x w, host memory.
struct hr_batch_params {
    int n, c, h, w;  // > 0; c is 1 or 3
    enum hr_dtype dtype;
    enum hr_layout layout;
    // The caller's own memory instead of ours: it must outlive the batch.
    void *data;
    // Bytes from one picture, channel, row to the next; 0 = packed. Elements
    // of a row are packed: NCHW rows hold w elements, NHWC rows w pixels of c
    // elements. stride_c is for NCHW only.
    size_t stride_n, stride_c, stride_h;
};
#define hr_batch_params(...) (&(struct hr_batch_params){__VA_ARGS__})

// A batch. data is 64-byte aligned if the library made it, and all zero then.
// Its slots are ordered: a job that writes a slot waits for earlier jobs that
// write it. Threads: the handle is safe; the bytes belong to the job that
// writes them until it is done.
typedef const struct hr_batch_t {
    struct hr_batch_params params;  // strides and data filled in
    size_t size;                    // bytes from data to the last element's end
} *hr_batch;

// dev NULL = the default device. NULL on failure (hr_last_error()).
HR_API hr_batch hr_batch_create(hr_device dev,
                                const struct hr_batch_params *params);

// Gives up the handle, sets it to NULL. Jobs in flight keep the memory of a
// batch that is ours; the caller's own memory must stay until they are done.
HR_API void hr_batch_destroy(hr_batch *batch);

// Pixels of one picture, reference counted, possibly still being made.
struct hr_image_params {
    int w, h, c;            // > 0; c is 1 (grey) or 3 (RGB)
    enum hr_dtype dtype;    // HR_U8 for sources of crop, resize and flip
    enum hr_layout layout;  // HR_NHWC for u8 that resample reads fastest
    // The caller's own memory instead of ours, until release (see free_fn).
    void *data;
    size_t stride_c, stride_h;   // bytes; 0 = packed
    void (*free_fn)(void *ctx);  // if set, called once when the last
    void *free_ctx;              // reference is gone; on any thread
};
#define hr_image_params(...) (&(struct hr_image_params){__VA_ARGS__})

typedef const struct hr_image_t {
    struct hr_image_params params;  // strides and data filled in
    size_t size;
} *hr_image;

HR_API hr_image hr_image_create(hr_device dev,
                                const struct hr_image_params *params);
HR_API hr_image hr_image_retain(hr_image image);
// Sets *image to NULL; NULL is fine. A job in flight holds its own reference.
HR_API void hr_image_release(hr_image *image);

// Waits until nothing in flight writes the image any more. HR_OK, the status
// of the sample that failed to make it, or HR_ETIMEDOUT. 0 = just look.
// After HR_OK the pixels may be read on the host. Threads: any but callbacks.
HR_API enum hr_status hr_image_wait(hr_image image, int64_t timeout_ns);

HR_END_DECLS
#endif
