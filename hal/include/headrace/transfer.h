// SPDX-License-Identifier: Apache-2.0
// Bytes out of images and batches and into them, wherever they lie. For those
// in device memory it is the only way; with others it is a copy on the host, by
// the library's threads, or by the caller's if it waits and nothing is before
// it.
//
// Bytes travel as they lie: picture by picture, strides and all, what is
// between the elements of a picture too. A reader waits by itself for the jobs
// before it that write, a writer also for those that read, in the order of
// submission.
//
// Each of the three has two forms. ..._begin() submits a job that can be
// polled, waited for, cancelled and that calls back as every job does (see
// job.h; of the params tier, strict, on_error and first_slot mean nothing
// here). The host memory is borrowed until the job is done. Of the budget each
// job takes its own records, some kilobytes: HR_EAGAIN, or it waits for room if
// its params say so. Without _begin it waits, for room too: HR_OK, or
//   HR_ETIMEDOUT  not done in timeout_ns, or the device did not answer in the
//                 time that a span may take (hr_device_params.deadline_ns)
//   HR_EINPUT     the image that is read could not be made
//   HR_EDEVICE, HR_EINVAL (size is too small, no such slot), HR_EFORK, ...
// Never a hang; and after it has returned the host memory is the caller's
// again, whatever the driver does. Threads: any but callbacks; _begin any.
#ifndef HEADRACE_TRANSFER_H
#define HEADRACE_TRANSFER_H

#include <headrace/job.h>

HR_BEGIN_DECLS

// Image to host memory of size bytes, of which image->size are written.
HR_API enum hr_status hr_image_read(hr_image image, void *to, size_t size,
                                    int64_t timeout_ns);
HR_API hr_job hr_image_read_begin(hr_image image, void *to, size_t size,
                                  const struct hr_job_params *params);

// Host memory to image: its image->size bytes.
HR_API enum hr_status hr_image_write(hr_image image, const void *from,
                                     size_t size, int64_t timeout_ns);
HR_API hr_job hr_image_write_begin(hr_image image, const void *from,
                                   size_t size,
                                   const struct hr_job_params *params);

// Slots first .. first + n - 1 to host memory, stride_n apart as in the batch.
// (What is between two slots is not written.) A slot whose sample failed is
// read as it is; the job that failed says so.
HR_API enum hr_status hr_batch_read(hr_batch batch, int first, int n, void *to,
                                    size_t size, int64_t timeout_ns);
HR_API hr_job hr_batch_read_begin(hr_batch batch, int first, int n, void *to,
                                  size_t size,
                                  const struct hr_job_params *params);

HR_END_DECLS
#endif
