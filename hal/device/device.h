// SPDX-License-Identifier: Apache-2.0
// The room device: a chain of engines, and what its samples share: memory,
// bytes of the budget, turns at images (track.h). schedule.h decides which
// engine takes a sample.
//
// Locks, in the order in which they may be taken together:
//   registry (entry/default.c)
//   graph (track.c)    the queues of accesses to images and batch slots
//   job->lock          state of one job, its condition
//   device->lock       counts, budget, waiting lists
//   pool->lock
// And engine->meter.lock, below all others, also those of engines.
// None is held in a callback, in a backend function, or in hr__task_done().
#ifndef HR__DEVICE_H
#define HR__DEVICE_H

#include "hal/device/schedule.h"
#include "hal/device/track.h"
#include "hal/facts/facts.h"
#include "hal/ops/ops.h"
#include "hal/shape/shape.h"
#include "hal/trace/trace.h"

struct hr__job;

// ---- Waiting ----------------------------------------------------------------

// A work or job that waits for turns at images and slots (track.c), and for
// bytes (budget.c).
struct hr__waiter {
    struct hr__waiter *next;  // in the list that has it
    struct hr__device *dev;
    const atomic_int *stop;  // not 0: it need not wait any more
    int blockers;            // accesses whose turn has not come; graph lock
    size_t needs;            // working bytes in all
    size_t granted;          // .. so many were taken from the budget
    size_t spare;            // .. of them for payloads, not yet made
};

// ---- Images and batches (image.c) -------------------------------------------

struct hr__image {
    struct hr_image_t pub;  // first
    atomic_int refs;
    struct hr__device *dev;     // that made it
    struct hr__track track;     // graph lock
    pthread_cond_t idle;        // with the graph lock: no writer left
    void *memory;               // ours, or NULL
    struct hr__memory *device;  // or of an engine: pinned, or the device's
};

struct hr__batch {
    struct hr_batch_t pub;  // first
    atomic_int refs;
    struct hr__device *dev;
    void *memory;
    struct hr__memory *device;
    struct hr__track slots[];  // [n]
};

// clear: false if the first to write it writes all of it; host memory is zero
// all the same.
hr_image hr__image_retain(hr_image image);  // NULL is fine
hr_image hr__image_make(struct hr__device *dev,
                        const struct hr_image_params *params, bool clear);
hr_batch hr__batch_make(struct hr__device *dev,
                        const struct hr_batch_params *params);
void hr__batch_unref(struct hr__batch *batch);

// ---- Memory (pool.c, budget.c) ----------------------------------------------

// Buffers by size class (powers of two); what is free is kept up to a cap.
struct hr__pool {
    pthread_mutex_t lock;
    struct hr__pool_buffer *free[40];
    size_t cached, cap;
    struct hr__device *dev;
};
void hr__pool_init(struct hr__pool *pool, struct hr__device *dev, size_t cap);
void hr__pool_finish(struct hr__pool *pool);
void *hr__pool_get(struct hr__pool *pool, size_t size);  // 64-byte aligned
void hr__pool_put(struct hr__pool *pool, void *mem);     // NULL is fine

// Says whether only an engine reaches the memory.
static inline bool hr__on_device(const struct hr__memory *memory)
{
    return memory && !memory->host;
}

// ---- The device -----------------------------------------------------------

// cap.c: what is known of the engines of a chain when all are open.
void hr__schedule_device(struct hr__device *dev);

// A thread that a device has with the first job that needs it, and that ends
// with the device. Under device->lock.
struct hr__device_thread {
    pthread_t thread;
    pthread_cond_t wake;
    bool runs, stop;
};

struct hr__device {
    union {
        struct hr__device_head head;
        struct hr_device_t pub;  // which that begins with
    };
    atomic_int refs;  // handles + jobs + images + batches
    struct hr__device *next_orphan;
    unsigned forks;  // hr__forks() of the process that opened it
    bool opened;     // the user has had it
    int num_engines;
    struct hr__engine *engines[HR__MAX_ENGINES];
    char name[128], description[512];  // of a chain of several
    // The spans that its certificate denies each engine, by kind of JPEG (the
    // last: of none of them) and tier.
    uint32_t refused[HR__MAX_ENGINES][HR_NUM_KINDS + 1][3];
    uint32_t wrong_codes[HR__MAX_ENGINES];  // .. and the codes of stage augment
    uint32_t probing;  // not 0: only this span, while it is tested
    // While it is tested: told of the planes of each sample.
    void (*on_planes)(void *ctx, const struct hr__payload *planes);
    void *planes_ctx;
    atomic_uint mismatched;  // engines found out by crosscheck.c, by bits
    // When an engine was last seen to begin a task, or to end one.
    _Atomic int64_t alive[HR__MAX_ENGINES];
    _Atomic uint64_t media_pictures;
    struct hr__pool pool;

    pthread_mutex_t lock;
    pthread_cond_t not_full;      // bytes were given back, a job ended
    struct hr__turn *submitters;  // that wait for room, in turn
    size_t used, working;         // bytes in flight; of them granted
    struct hr__waiter *waiting, **waiting_tail;  // for working bytes
    struct hr__job *jobs;                        // in flight
    int num_jobs, peak_jobs, peak_samples;
    _Atomic int num_samples;  // (read without the lock, too)
    struct hr__schedule schedule;
    int unassigned;  // samples in flight that it has not given to an engine
    struct hr_stats stats;
    _Atomic size_t device_bytes, peak_device_bytes;

    // Without the lock, by enum hr__wait.
    _Atomic uint64_t waits[2], wait_ns[2];

    struct hr__device_thread watchdog, callbacks;
    struct hr__job *calls, **calls_tail;  // whose on_done shall run
};

// lifetime.c: the last reference takes the device down, on a thread that can
// wait for those of the device.
void hr__device_unref(struct hr__device *dev);
void hr__device_close_orphans(void);
void hr__device_tear_down(struct hr__device *dev);
bool hr__engine_close(struct hr__engine *e);  // true: a hung driver is left
                                              // behind
// Starts a thread of the device. False: it cannot be started. run: arg is the
// device.
bool hr__device_thread_start(struct hr__device *dev,
                             struct hr__device_thread *thread,
                             void *(*run)(void *dev));

// assemble.c: makes a device of the engines that a name asks for, not yet
// tested. NULL with hr_last_error().
struct hr__device *hr__device_assemble(const char *name,
                                       const struct hr_device_params *params);
// Says, without opening one, whether every device of the backend is software.
bool hr__all_software(const struct hr__backend *b);

static inline bool hr__device_forked(const struct hr__device *dev)
{
    return dev->forks != hr__forks();
}
static inline struct hr__engine *hr__host(const struct hr__device *dev)
{
    return dev->engines[dev->num_engines - 1];
}

// budget.c
// No room: HR_EAGAIN; or, if it shall wait, HR_ETIMEDOUT at the deadline.
enum hr_status hr__budget_admit(struct hr__device *dev, size_t bytes, bool wait,
                                int64_t deadline);
// Both return the waiters that were admitted, linked by next.
struct hr__waiter *hr__budget_return(struct hr__device *dev, size_t bytes);
struct hr__waiter *hr__budget_ungrant(struct hr__waiter *w);
// Get up to w->needs bytes in all. take: false if there is no room. wait, for a
// waiter without bytes: false if it is on the waiting list now, and no longer
// the caller's; true without any bytes if it is to stop, as it would wait for
// ever.
bool hr__budget_take(struct hr__waiter *w);
bool hr__budget_wait(struct hr__waiter *w);
// Charges a payload to the granted bytes, and beyond them if need be: its work
// is under way and cannot wait, later ones do.
void hr__budget_charge(struct hr__waiter *w, size_t bytes);
// Takes the waiters with that `stop` off the list of those for bytes and
// returns them, linked by next.
struct hr__waiter *hr__budget_unwait(struct hr__device *dev,
                                     const atomic_int *stop);

// registry.c
const struct hr__backend *const *hr__backends(int *n);
const struct hr__backend *hr__backend_host(void);  // the CPU, their last
// Returns the backend of that name; NULL with HR_ENODEVICE, whose message lists
// the available ones.
const struct hr__backend *hr__backend_find(const char *name, size_t len);
// Returns the name of the i-th backend that was left out of this build; NULL:
// no more.
const char *hr__backend_absent(int i);
void hr__registry_add(const struct hr__backend *backend);  // tests

// offer.c
// Asks engine i for its offer and removes the spans that it may not make.
void hr__device_offer(struct hr__device *dev, int i,
                      const struct hr__picture *pic, struct hr__offer *out);
// Says whether engine i makes the host's bytes of a span of that picture: the
// tier exact would have it. first_step: as its offer says.
bool hr__device_exact(const struct hr__device *dev, int i, struct hr_span span,
                      bool first_step, const struct hr__picture *pic);
// Returns the certificate's record of a span (HR_SPAN_BIT) and a kind of JPEG;
// NULL: there is none.
const struct hr_certificate_record *hr__certificate_record(
    const struct hr_certificate *cert, uint32_t span, int kind);

// report.c: reports of the device to the trace.
enum hr__wait { HR__WAIT_ROOM, HR__WAIT_RESULT };
void hr__watch_wait(struct hr__device *dev, enum hr__wait what,
                    uint64_t job,  // its id; 0: it has none yet
                    int64_t begin);
// device->lock held: counts have changed.
void hr__watch_jobs(struct hr__device *dev);
void hr__watch_bytes(struct hr__device *dev);

#endif
