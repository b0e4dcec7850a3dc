// SPDX-License-Identifier: Apache-2.0
// Bytes out of images and batches and into them, wherever they lie. For those
// in device memory it is the only way; with others it is a copy on the host, by
// the library's threads, or by the caller's if it waits and nothing is before
// it.
//
// Bytes travel as they lie: picture by picture, strides and all, what is
// between the elements of a picture too. A reader waits by itself for the jobs
// before it that write, a writer also for readers, in the order of
// submission.
//
// hr_transfer_begin() submits a job that can be polled, waited for, cancelled
// and that calls back as every job does (see job.h; of the params tier, strict,
// on_error and first_slot mean nothing here). The host memory is borrowed until
// the job is done. Each job takes its own records, some kilobytes, of the
// budget: HR_EAGAIN, or it waits for room if its params say so. hr_transfer()
// waits, for room too: HR_OK, or
//   HR_ETIMEDOUT  not done in timeout_ns, or the device did not answer in the
//                 time that a span may take (hr_device_params.deadline_ns)
//   HR_EINPUT     the image that is read could not be made
//   HR_EDEVICE, HR_EINVAL (size is too small, no such slot), HR_EFORK, ...
// Never a hang; and after it has returned the host memory is the caller's
// again, whatever the driver does. Threads: any but callbacks; _begin any.
#ifndef HEADRACE_TRANSFER_H
#define HEADRACE_TRANSFER_H

#include <string.h>

#include <headrace/job.h>

HR_BEGIN_DECLS

// Describes a copy: an image, or slots of a batch, to host memory or from it.
struct hr_transfer_params {
    hr_image image;  // its image->size bytes
    // Or, if image is NULL, slots first .. first + n - 1, stride_n apart as in
    // the batch. They can only be read. (What is between two slots is not
    // written.) A slot whose sample failed is read as it is; the job that
    // failed says so.
    hr_batch batch;
    int first, n;
    void *to;          // host memory that is written; or, if it is NULL,
    const void *from;  // that is read
    size_t size;       // of it, in bytes
};
#define hr_transfer_params(...) (&(struct hr_transfer_params){__VA_ARGS__})

HR_API enum hr_status hr_transfer(const struct hr_transfer_params *what,
                                  int64_t timeout_ns);
HR_API hr_job hr_transfer_begin(const struct hr_transfer_params *what,
                                const struct hr_job_params *params);

// Image to host memory.
static inline enum hr_status hr_image_read(hr_image image, void *to,
                                           size_t size, int64_t timeout_ns)
{
    struct hr_transfer_params what;

    memset(&what, 0, sizeof(what));
    what.image = image;
    what.to = to;
    what.size = size;
    return hr_transfer(&what, timeout_ns);
}

// Host memory to image.
static inline enum hr_status hr_image_write(hr_image image, const void *from,
                                            size_t size, int64_t timeout_ns)
{
    struct hr_transfer_params what;

    memset(&what, 0, sizeof(what));
    what.image = image;
    what.from = from;
    what.size = size;
    return hr_transfer(&what, timeout_ns);
}

// Slots of a batch to host memory.
static inline enum hr_status hr_batch_read(hr_batch batch, int first, int n,
                                           void *to, size_t size,
                                           int64_t timeout_ns)
{
    struct hr_transfer_params what;

    memset(&what, 0, sizeof(what));
    what.batch = batch;
    what.first = first;
    what.n = n;
    what.to = to;
    what.size = size;
    return hr_transfer(&what, timeout_ns);
}

HR_END_DECLS
#endif
