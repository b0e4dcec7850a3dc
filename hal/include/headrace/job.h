// SPDX-License-Identifier: Apache-2.0
// Jobs: samples submitted together. The asynchronous contract, in full:
//
// 1. hr_submit() never waits for an engine. It fails with a status, holding
//    nothing and calling nothing; or it returns a job that ends exactly once,
//    also when it fails or is cancelled.
// 2. hr_job_poll() is the one waiting primitive; the rest is built on it.
// 3. A job that reads an image waits by itself for the job that writes it,
//    and a writer for the readers before it, in the order of submission.
//    Independent samples run in parallel.
// 4. Bytes in flight are bounded by the device's budget. Over it: HR_EAGAIN,
//    or hr_submit() waits for room if params.wait_for_room says so.
// 5. A sample that fails never harms its neighbours: each has its own result.
// 6. Each result says which device made which span, and why one was left.
//    Samples of the same data are decoded once by the CPU, where that pays;
//    their pictures and results are as if each had been alone.
// 7. A hung engine ends in HR_ETIMEDOUT or on the next engine, never in a
//    hung caller.
//
//   NEW -> QUEUED -> RUNNING -> DONE          (cancel: QUEUED -> DONE)
#ifndef HEADRACE_JOB_H
#define HEADRACE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/cache.h>
#include <headrace/device.h>
#include <headrace/image.h>
#include <headrace/op.h>
#include <headrace/stage.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

// One picture to make. Exactly one of data, path and image is its source.
// hr_submit() copies the sample, its ops and the path; data, image pixels and
// normalize tables are borrowed until the job is done (images are retained); so
// are cached and status.
struct hr_sample {
    const void *data;  // encoded bytes
    size_t size;
    const char *path;  // or a file, read by the library's threads
    hr_image image;    // or pixels, possibly still being made
    const struct hr_op *ops;
    int num_ops;
    // Destination: this image (of the size, channels, type it shall have), or
    // NULL: slot params.first_slot + i of the job's batch.
    hr_image out;
    const char *name;         // for messages if there is no path; copied
    struct hr_random random;  // what the random ops among ops draw from
    hr_cache cache;           // that keeps it; NULL = the device's
    bool verified;            // data is a packed picture that has passed
                              // hr_packed_check() and was not written to since:
                              // a check is spared
    hr_cached cached;         // data is its packed picture
    // data are all bytes of a file. The file had this status before and after
    // it was read, and it was read at least a tenth of a second after its
    // st_ctim (two seconds, if that has no fractions). A cache finds the
    // picture by the status, as by a path, without hashing data. NULL = not
    // known.
    const struct stat *status;
};

enum hr_on_error {
    HR_ON_ERROR_FAIL,  // the job ends with the first failed sample's status
    HR_ON_ERROR_ZERO,  // the job ends with HR_OK
    HR_ON_ERROR_SKIP,  // as ZERO, but the slot is not cleared: it keeps what
                       // it held, or has a part of the picture
};                     // FAIL and ZERO clear the slot of a failed sample,
                       // unless its job ended before the sample was
                       // allowed to write there

struct hr_span_result {
    struct hr_span span;
    const char *device;  // name of the device that did it; or "cache"
};

// A result says how one sample ended.
struct hr_result {
    enum hr_status status;
    unsigned why;   // reasons the preferred engine was passed over or
                    // left; 0 = it did everything
    int num_spans;  // 0 unless status is HR_OK
    struct hr_span_result spans[HR_NUM_STAGES];
    int fallbacks;        // how often the sample changed engine in flight
    int warnings;         // recoverable faults the decoder mended
    enum hr_stage stage;  // where it failed; HR_READ and HR_HEADER come
                          // before the stages
    int64_t offset;       // byte in the source where it failed; -1 unknown
    int width, height;    // of the source, as stored; 0 = never known
    int orientation;      // its EXIF's, 1 .. 8; of pixels 1; 0 = never known
    bool by_decoder;      // hr_set_decoder()'s took it
    char message[384];    // "" or one sentence: NAME: stage, offset, reason
};

struct hr_job_t;

struct hr_job_params {
    enum hr_tier tier;
    enum hr_on_error on_error;
    bool strict;         // no fallback for this job
    bool wait_for_room;  // over budget: wait instead of HR_EAGAIN, up to
                         // timeout_ns: then HR_ETIMEDOUT, and no job
    int first_slot;      // of the batch
    int64_t timeout_ns;  // for the whole job, from when hr_submit() is called;
                         // 0 = none
    // Spans that engines other than the CPU may do, as a set like
    // hr_caps.spans; 0 = all they offer. The CPU does the rest. It serves to
    // look at one span of an engine by itself.
    uint32_t spans;
    // Called exactly once when the job has ended, before any poll or wait says
    // so: the waiter may free ctx. Each device has one thread for these calls,
    // which come in the order in which its jobs ended: a slow one delays the
    // others, and nothing else. It may come before hr_submit() has returned. It
    // may poll its own job, submit and release, also the caller's reference to
    // that job, but must not wait for anything or close devices.
    void (*on_done)(void *ctx, const struct hr_job_t *job);
    void *ctx;
    int event_fd;  // > 0: an eventfd of the caller's; 1 is added to
                   // it when the job is done
};
#define hr_job_params(...) (&(struct hr_job_params){__VA_ARGS__})

// A job. All members are facts; results may be read when the job is done.
// Threads: safe.
typedef const struct hr_job_t {
    hr_device device;
    int num_samples;
    const struct hr_result *results;  // [num_samples]
    void *ctx;                        // of the params
    enum hr_reference reference;      // that its resizes follow, unless an op
                                      // says its order itself
} *hr_job;

// Submits n samples. dev NULL = the device that made the batch, without one the
// default device; batch may be NULL if every sample names its image; params may
// be NULL. NULL on failure, with hr_last_status(): HR_EINVAL, HR_EAGAIN,
// HR_ENOMEM, HR_EFORK, ...; then nothing is held and on_done will never run.
// Else the caller owns one reference: hr_job_release(). Threads: any.
HR_API hr_job hr_submit(hr_device dev, const struct hr_sample *samples, int n,
                        hr_batch batch, const struct hr_job_params *params);

// Waits up to timeout_ns (0 = just look) and returns HR_PENDING, or how the
// job ended: HR_OK, HR_ECANCELED, HR_ETIMEDOUT, or by on_error the status of
// the first sample that failed. It may return HR_PENDING early. NULL is not a
// job: HR_EINVAL, and hr_last_error() says that instead of why none was made.
// Threads: any; in callbacks with a timeout of 0, or of their own job.
HR_API enum hr_status hr_job_poll(hr_job job, int64_t timeout_ns);

// Polls until the job is done. HR_ETIMEDOUT: it is still at work (or it ended
// by its own timeout_ns; hr_job_poll(job, 0) tells the two apart).
HR_API enum hr_status hr_job_wait(hr_job job, int64_t timeout_ns);

// Asks the job to end early: samples that have not begun end as HR_ECANCELED,
// those at work stop where they can. The job still ends the usual way, and only
// then does what it borrowed belong to the caller again. Threads: any.
HR_API void hr_job_cancel(hr_job job);

// Returns an fd that turns readable when the job is done, for poll() and epoll.
// It belongs to the job: hr_job_release() closes it, and epoll then tells
// nothing more of the job. -1 on failure. Threads: any.
HR_API int hr_job_fd(hr_job job);

// Gives up the reference, sets *job to NULL. A job that is not done goes on
// (and calls back) without it. NULL is fine. Threads: any.
HR_API void hr_job_release(hr_job *job);

// Waits until nothing submitted to dev (NULL = default) is in flight. HR_OK or
// HR_ETIMEDOUT. Threads: any but callbacks.
HR_API enum hr_status hr_wait_all(hr_device dev, int64_t timeout_ns);

HR_END_DECLS
#endif
