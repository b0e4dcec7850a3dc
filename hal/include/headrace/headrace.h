// SPDX-License-Identifier: Apache-2.0
// Headrace carries pictures to neural networks: JPEG, PNG, WebP, BMP or PNM
// bytes in, normalised tensors out, by the best engine that works here.
//
// The promise: switching the backend changes the speed, never the picture.
//
// Life of a picture: describe its ops, submit, go on working, wait, read.
//
//   #include <headrace/headrace.h>
//
//   hr_set_image_backend("auto");      // the one call; "cpu", "opencl", ...
//
//   const struct hr_op ops[] = {       // plain data, as torchvision reads
//       hr_op_decode(0),
//       hr_op_resize(.short_side = 256),
//       hr_op_crop(.center = true, .w = 224, .h = 224),
//       hr_op_normalize(.mean = {.485f, .456f, .406f},
//                       .std = {.229f, .224f, .225f}),
//   };
//   struct hr_sample s = {.path = "cat.jpg", .ops = ops, .num_ops = 4};
//
//   hr_batch out = hr_batch_create(
//       NULL, hr_batch_params(.n = 1, .c = 3, .h = 224, .w = 224));
//   hr_job job = hr_submit(NULL, &s, 1, out, NULL);   // returns at once
//   ...                                // the neural network runs here
//   if (!job)
//       puts(hr_last_error());         // of the call that failed last
//   else if (hr_job_wait(job, HR_FOREVER) == HR_OK)
//       use(out->params.data);         // 1 x 3 x 224 x 224 floats
//   else
//       puts(job->results[0].message); // file, stage, offset, reason
//   hr_job_release(&job);
//   hr_batch_destroy(&out);
//
// Everything behind hr_submit() is asynchronous: reading the file, parsing its
// header, decoding, resizing, storing. job.h has the contract.
//
// Ops and paths are copied. Encoded bytes, tables and the caller's memory are
// borrowed until the job is done. Images and batches are reference counted by
// the jobs that use them. create/destroy and retain/release come in pairs, take
// the address, set it to NULL and accept NULL.
//
// Threads: every handle may be used from several threads. Callbacks run on
// the library's threads with no lock held.
//
// C and C++: everything is for both, but for the macros with named arguments,
// hr_op_...() and hr_..._params(), which are C. In C++ zero the struct, fill it
// and pass its address.
//
// Headers in their order, each needs only those before it: version, status,
// stage, op, op_info, probe, reference | cache, device, image, job | pack,
// source, loader, eager, transfer, trace.
#ifndef HEADRACE_HEADRACE_H
#define HEADRACE_HEADRACE_H

#include <headrace/version.h>
#include <headrace/status.h>
#include <headrace/stage.h>
#include <headrace/op.h>
#include <headrace/op_info.h>
#include <headrace/probe.h>
#include <headrace/reference.h>
#include <headrace/cache.h>
#include <headrace/device.h>
#include <headrace/image.h>
#include <headrace/job.h>
#include <headrace/pack.h>
#include <headrace/source.h>
#include <headrace/loader.h>
#include <headrace/eager.h>
#include <headrace/transfer.h>
#include <headrace/trace.h>

#endif
