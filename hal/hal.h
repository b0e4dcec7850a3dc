// SPDX-License-Identifier: Apache-2.0
// The core's own header: how device, job, image and budget hang together.
// Engines never include it (backend.h is theirs).
//
// Locks, in the order in which they may be taken together:
//   registry (default device)
//   graph (track.c)    who waits for whose image; image and batch tracks
//   job->lock          state of one job, its condition
//   device->lock       counts, budget, waiting lists
//   pool->lock
// And engine->meter.lock, below all others, also those of engines.
// None is held in a callback, in a backend function, or in hr__task_done().
#ifndef HR__HAL_H
#define HR__HAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "hal/backend.h"

// ---- Ordering (track.c) ------------------------------------------------------

// What is read and written in turns: an image, a slot of a batch. Accesses
// queue in the order of submission; readers in a row go together.
struct hr__access {
    struct hr__access *prev, *next;
    struct hr__track *track;
    struct hr__work *work;
    bool write;
    bool open;             // its turn has come
    enum hr_status input;  // a reader's: not HR_OK if the writer before
                           // it ended without having had its turn
};

struct hr__track {
    struct hr__access *head, *tail;
    int writers;             // of them
    enum hr_status status;   // how the last writer ended
    enum hr_status dropped;  // not HR_OK if the last one that was queued
                             // ended without having had its turn
};

// ---- Images and batches (image.c) ----------------------------------------------

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
hr_image hr__image_make(struct hr__device *dev,
                        const struct hr_image_params *params, bool clear);
hr_batch hr__batch_make(struct hr__device *dev,
                        const struct hr_batch_params *params);
void hr__image_unref(struct hr__image *image);
void hr__batch_unref(struct hr__batch *batch);

// ---- Plan (plan.c) ----------------------------------------------------------------

struct hr__plan {
    int num_spans;
    struct {
        struct hr_span span;
        int engine;  // index in the chain
    } spans[HR_NUM_STAGES];
};

// Cuts first..HR_STORE into spans, each offered by its engine. Pure: the same
// offers give the same plan. Prefers, in this order: more stages on engines
// early in the chain, fewer spans. HR_EUNSUPPORTED if some stage has no taker.
enum hr_status hr__plan_build(struct hr__plan *out, enum hr_stage first,
                              const struct hr__offer *offers, int num_offers);

// ---- Geometry (geometry.c) and tables (table.c) ---------------------------------------

// Folds ops to steps for a picture of w x h. On failure *text is the reason.
// reference: whose order of passes resizes have that do not say one; it does
// not change the size of anything.
enum hr_status hr__geometry_build(struct hr__geometry *out,
                                  const struct hr_op *ops, int num_ops,
                                  enum hr_reference reference, int w, int h,
                                  int orientation, char text[128]);
// random.c. The same of a list with random ops: they are drawn from key first.
enum hr_status hr__geometry_draw(struct hr__geometry *out,
                                 const struct hr_op *ops, int num_ops,
                                 const struct hr_random *key,
                                 enum hr_reference reference, int w, int h,
                                 int orientation, char text[128]);
// A list without random ops: ops itself if it has none, else what was drawn.
struct hr__plain {
    const struct hr_op *ops;
    int num_ops;
    struct hr_op drawn[HR_MAX_OPS];
};
// ops have passed hr__ops_check(). On failure *text is the reason.
enum hr_status hr__plain_ops(struct hr__plain *out, const struct hr_op *ops,
                             int num_ops, const struct hr_random *key, int w,
                             int h, int orientation, char text[128]);
// Four words for draw number draw of the op at that place in its list.
void hr__random_words(const struct hr_random *key, int place, int draw,
                      uint32_t out[4]);
// The window that is cut out of a picture of w x h.
struct hr_crop hr__random_window(const struct hr_random_resized_crop *op,
                                 const struct hr_random *key, int place, int w,
                                 int h);
void hr__geometry_size(const struct hr__geometry *geo, int *w, int *h);
// Bytes of the u8 pictures between its steps, as the CPU engine keeps them.
size_t hr__geometry_bytes(const struct hr__geometry *geo, int channels);
// Checks what does not depend on the picture's size.
enum hr_status hr__ops_check(const struct hr_op *ops, int num_ops, bool encoded,
                             char text[128]);
// normalize may be NULL: bytes as they are. Only the array of dtype is made.
void hr__table_build(struct hr__table *out,
                     const struct hr_normalize *normalize, int channels,
                     enum hr_dtype dtype);
uint16_t hr__f16_from_f32(float x);  // round half to even, IEEE binary16

// ---- Memory (pool.c, budget.c) ----------------------------------------------------------

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

// memory.c. Memory of the device's first engine that has some. *made = NULL
// with HR_OK: none has, host memory will do.
enum hr_status hr__memory_alloc(struct hr__device *dev, enum hr_memory kind,
                                size_t size, bool clear, bool apart,
                                struct hr__memory **made);
struct hr__engine *hr__memory_owner(struct hr__device *dev);  // or NULL
void hr__memory_free(struct hr__memory *memory);              // NULL is fine
// Only an engine reaches it.
static inline bool hr__on_device(const struct hr__memory *memory)
{
    return memory && !memory->host;
}
// From the first element of a picture to the end of its last.
size_t hr__dst_bytes(const struct hr__dst *dst);

// ---- Works and jobs ------------------------------------------------------------------

// Where a work stands: work.c draws and decides it. A work is in the hands of
// one thread, of one engine, or of one list at a time; whoever has it may
// change this.
enum hr__work_state {
    HR__AWAY = -1,  // (not a state: somebody else has the work now)
    HR__TURN,       // waits for its turns at images and batch slots
    HR__HOST,       // waits in the host's queue
    HR__PROBE,      // its header is read, which is all it wants
    HR__PREPARE,    // its header is read, its geometry folded
    HR__BYTES,      // asks for what that needs of the budget
    HR__WAIT,       // waits for these bytes
    HR__READ,       // the rest of its file is read
    HR__PLAN,       // its stages are cut into spans
    HR__FETCH,      // its source is copied to the host, for the next span
    HR__SPAN,       // an engine has its next span
    HR__FALL,       // a span failed: who else makes the picture?
    HR__CHECK,      // the picture is there: shall it be looked at again?
    HR__LOOK,       // it is copied to the host for that
    HR__AGAIN,      // the CPU makes it again
    HR__MADE,       // the picture is there, and judged
    HR__BRING,      // it is copied from the host to where it belongs
    HR__MOVE,       // may it move bytes, the only thing it wants?
    HR__MOVING,     // they are copied
    HR__END,        // it ends as its outcome says
    HR__CLEAR,      // its destination is cleared, because it failed
    HR__DONE,       // result, memory, turns: all is given back
    HR__NUM_STATES,
};

// Whose a task is; changed in work.c and task.c only.
//   IDLE -> RUNNING <-> CLAIMED -> IDLE
//                  \-> GIVEN_UP (by the watchdog, for ever)
// The host's tasks are CLAIMED from the start: nobody takes memory from them.
enum hr__slot_state { HR__IDLE, HR__RUNNING, HR__CLAIMED, HR__GIVEN_UP };

// One task struct per engine of the chain, so that one that a hung engine
// still holds is never used again.
struct hr__slot {
    struct hr__task task;  // first
    struct hr__work *work;
    atomic_int state;  // enum hr__slot_state
    // For the watchdog: when the engine must have ended it; 0 = never. Negative
    // while it waits in a queue, as far as is known: then only if the engine
    // has not got on with anything else for so long.
    _Atomic int64_t deadline;
    int64_t begun;  // when an engine got it; 0 = not watched
};

struct hr__work {
    struct hr__job *job;
    int index;
    enum hr__work_state state;
    struct hr_sample sample;  // ops, path and name point into the job
    struct hr__picture pic;
    struct hr__plan plan;
    int at;                  // span of the plan at work
    unsigned excluded;       // engines that failed it, bit per index
    unsigned why;            // collected reasons
    struct hr__outcome out;  // how it ends, as far as is known
    struct hr__slot slots[HR__MAX_ENGINES];
    bool prepared;   // it has had a plan: what fails is no header any more
    bool upstream;   // device->lock
    bool given_up;   // some engine may still read its memory
    size_t granted;  // working bytes taken from the budget
    size_t spare;    // .. of them for payloads, not yet made
    size_t needs;    // working bytes in all
    struct hr__payload payloads[HR_NUM_STAGES];   // [i] = made by span i
    struct hr__payload kept[HR__MAX_ENGINES][2];  // in and out of spans that
                                                  // were given up
    int fd;                    // of its path, between PREPARE and READ; else -1
    uint8_t *file;             // encoded bytes read from path, of the pool
    size_t have;               // .. so many so far
    int64_t part_begun;        // when it began to be read or prepared; 0 = not
                               // watched
    struct hr__copy copy;      // while it is copied; memory NULL: from host to
                               // host
    size_t copied;             // bytes of it
    _Atomic int64_t latest;    // its task is overdue then, whatever the slot
                               // says
    uint8_t *source, *result;  // of the pool: pixels of device memory, on the
                               // host for engines that cannot reach them
    struct hr__check *check;   // its picture, while the CPU makes it again
    struct hr__access reads, writes;
    int blockers;           // accesses whose turn has not come; graph lock
    struct hr__work *next;  // in the list that has it
};

struct hr__staged {
    struct hr__work *head, **tail;
    int count;
};

struct hr__job {
    struct hr_job_t pub;  // first
    struct hr__device *dev;
    uint64_t id;      // from 1 on, in the process
    int64_t begun;    // for the trace; 0 = not watched
    atomic_int refs;  // the user, the call that begins it, the job itself
                      // until done, and every task that was given up
    struct hr_job_params params;
    struct hr__batch *batch;
    struct hr__table *tables;
    struct hr__work *works;
    struct hr_result *results;
    size_t bytes;  // charged to the budget
    bool moves;    // it makes no picture: not counted, nothing is cleared
    bool here;     // .. and its caller waits: the host copies on its thread
    struct hr_info *infos;  // not NULL: it only probes (probe_job.c)
    atomic_int left;        // works that have not ended
    atomic_bool canceled;
    atomic_bool expired;
    bool stopped;      // the watchdog has stopped it; device->lock
    int64_t deadline;  // 0 = none

    pthread_mutex_t lock;
    pthread_cond_t done_cond;
    bool done;                  // on_done, if any, has returned
    struct hr__job *next_call;  // in the device's queue of callbacks
    enum hr_status status;
    int fd;  // -1 until asked for, and when the user has released it

    // staging (device->lock)
    int upstream;  // works on the host that may still be staged
    struct hr__staged staged[HR__MAX_ENGINES];
    struct hr__job *prev, *next;  // the device's list of jobs in flight
};

// A thread that a device has with the first job that needs it, and that ends
// with the device. Under device->lock.
struct hr__device_thread {
    pthread_t thread;
    pthread_cond_t wake;
    bool runs, stop;
};

struct hr__device {
    struct hr_device_t pub;  // first
    atomic_int refs;         // handles + jobs + images + batches
    struct hr__device *next_orphan;
    pid_t pid;
    bool opened;  // the user has had it
    int num_engines;
    struct hr__engine *engines[HR__MAX_ENGINES];
    char name[128], description[512];  // of a chain of several
    // The spans that its certificate denies each engine, by kind of JPEG (the
    // last: of none of them) and tier.
    uint32_t refused[HR__MAX_ENGINES][HR_NUM_KINDS + 1][3];
    uint32_t probing;  // not 0: only this span, while it is tested
    // While it is tested: told of sample i's planes.
    void (*tap)(void *ctx, int i, const struct hr__payload *planes);
    void *tap_ctx;
    atomic_uint mismatched;  // engines found out by crosscheck.c, by bits
    // When an engine was last seen to begin a task, or to end one.
    _Atomic int64_t alive[HR__MAX_ENGINES];
    _Atomic uint64_t media_pictures;
    struct hr__pool pool;
    hr_log_fn log;
    void *log_ctx;

    pthread_mutex_t lock;
    pthread_cond_t room;          // bytes were given back, a job ended
    struct hr__turn *submitters;  // that wait for room, in turn
    size_t used, working;         // bytes in flight; of them granted to works
    struct hr__work *waiting, **waiting_tail;  // for working bytes
    struct hr__job *jobs;                      // in flight
    int num_jobs, num_samples, peak_jobs, peak_samples;
    struct hr_stats stats;
    _Atomic uint64_t heap_allocations;  // without the lock
    _Atomic size_t device_bytes, peak_device_bytes;

    // Without the lock, by enum hr__wait.
    _Atomic uint64_t waits[2], wait_ns[2];

    struct hr__device_thread watchdog, callbacks;
    struct hr__job *calls, **calls_tail;  // whose on_done shall run
};

// default.c. NULL = the default device, which is opened if it must be; retains.
struct hr__device *hr__device_get(hr_device dev);

// lifetime.c: the last reference takes the device down, on a thread that can
// wait for those of the device.
void hr__device_unref(struct hr__device *dev);
void hr__device_close_orphans(void);
void hr__device_tear_down(struct hr__device *dev);
bool hr__engine_close(struct hr__engine *e);  // true: a hung driver is left
                                              // behind
bool hr__device_forked(const struct hr__device *dev);
// False: it cannot be started. run: arg is the device.
bool hr__device_thread_start(struct hr__device *dev,
                             struct hr__device_thread *thread,
                             void *(*run)(void *dev));

// assemble.c: a device of the engines that a name asks for, which nobody has
// tested yet. NULL with hr_last_error().
struct hr__device *hr__device_assemble(const char *name,
                                       const struct hr_device_params *params);
// Known without opening one: every device of the backend is software.
bool hr__all_software(const struct hr__backend *b);

static inline struct hr__engine *hr__host(const struct hr__device *dev)
{
    return dev->engines[dev->num_engines - 1];
}

// budget.c
// No room: HR_EAGAIN; or, if it shall wait, HR_ETIMEDOUT at the deadline.
enum hr_status hr__budget_admit(struct hr__device *dev, size_t bytes, bool wait,
                                int64_t deadline);
// Those that give bytes back return the works that get them, linked by next:
// hr__works_resume().
struct hr__work *hr__budget_return(struct hr__device *dev, size_t bytes);
struct hr__work *hr__budget_ungrant(struct hr__work *work);
// Up to work->needs in all. take: false if there is no room. wait, of a work
// that has none: false if it is on the waiting list now, and no longer the
// caller's; true without any bytes if its job stops, it would wait for ever.
bool hr__budget_take(struct hr__work *work);
bool hr__budget_wait(struct hr__work *work);
// A payload of a work: out of what it was granted, and more if it must be; it
// is under way and cannot wait, those behind it do.
void hr__budget_charge(struct hr__work *work, size_t bytes);
// Works of a job that wait for bytes, taken off the list, linked by next.
struct hr__work *hr__budget_unwait(struct hr__job *job);

// track.c. The graph lock, one for all devices of the process. init: before the
// first of them. wait: hr__cond_wait().
void hr__graph_init(void);
void hr__graph_lock(void);
void hr__graph_unlock(void);
bool hr__graph_wait(pthread_cond_t *cond, int64_t deadline);
// All under that lock. add: true if its turn is now. remove: works that became
// ready, of any device, are linked by next; it looks at no others.
bool hr__track_add(struct hr__track *track, struct hr__access *a,
                   struct hr__work *work, bool write);
struct hr__work *hr__track_remove(struct hr__access *a);
// A writer ends before its turn: those who wanted its pixels shall know.
void hr__track_drop(struct hr__access *a, enum hr_status status);

static inline struct hr__work *hr__work_of(const struct hr__task *task)
{
    return ((const struct hr__slot *)task)->work;
}

// work.c: the way of a work, and the only doors to it besides those of engines
// (hr__task_done(), hr__task_prepare()). Each runs what it makes ready, on this
// thread, unless that is just doing so: then it is done there, afterwards. No
// stack grows with the length of a list.
//
// Works whose turn has come, or that got their bytes, linked by next; NULL is
// fine.
void hr__works_resume(struct hr__work *list);
// They waited, and shall not begin: their job stops.
void hr__works_stop(struct hr__work *list);
// Watchdog: takes the sample from an engine that does not answer. False: it
// has just answered, or is at the memory.
bool hr__give_up(struct hr__slot *slot);
// For docs and tests: what there is to know of a state. next: bit per state
// that may follow.
struct hr__state_facts {
    const char *name, *what;
    uint32_t next;
};
struct hr__state_facts hr__state_facts(enum hr__work_state state);

// prepare.c: each false with work->out if the sample cannot be made, or HR_OK.
// facts: reads the header (of a file, with its beginning), folds the geometry;
// sets work->needs. read: the rest of the file. drop: what was read of it.
// plan: cuts the stages for engines that have not failed it.
bool hr__prepare_facts(struct hr__work *work);
bool hr__prepare_read(struct hr__work *work);
void hr__prepare_drop(struct hr__work *work);
bool hr__prepare_plan(struct hr__work *work);
// Whether the image that a work reads could be made, now that it is the work's
// turn.
enum hr_status hr__input_status(struct hr__work *work);
// Reads the header, which is all that the work wants; work->out says how.
void hr__probe(struct hr__work *work);

// dispatch.c
// To the host's queue: a list of works of one device, linked by next.
void hr__queue_at_host(struct hr__work *list);
// Hands the next span to its engine. True: it is the host's and shall run here.
bool hr__hand_over(struct hr__work *work, bool here);
// A work is upstream while the host works at it and it may still come to a
// list of tasks for another engine; such a list is submitted when nothing is
// upstream any more. So who will not come soon leaves.
void hr__leave_upstream(struct hr__work *work);

// transfer.c
// Makes memory reachable for the engine that is next. FETCH: the copy is set
// up. NO_MEMORY: work->out says so.
enum hr__reach { HR__REACHED, HR__MUST_FETCH, HR__NO_MEMORY };
enum hr__reach hr__reach(struct hr__work *work);
// Set up the copy of a result; false: there is none to be made.
bool hr__copy_look(struct hr__work *work);
bool hr__copy_bring(struct hr__work *work);
bool hr__copy_clear(struct hr__work *work);
// The next piece of the copy goes to the engine that owns the memory (true: it
// is under way), or all of it is copied here; or *out says why not.
bool hr__copy_next(struct hr__work *work, struct hr__outcome *out);
// A piece is there. Whether there are more.
bool hr__copy_more(struct hr__work *work);

// submit.c
// The bytes of the records of a job of n samples.
size_t hr__job_size(int n);
// A job of n works in a block of size bytes, its records first; bytes of the
// budget are its own, for which it waits if params say so. It retains dev. NULL
// with hr_last_error().
struct hr__job *hr__job_admit(struct hr__device *dev, int n, size_t size,
                              size_t bytes, const struct hr_job_params *params);
// Queues for the turns named by reads.track and writes.track of its works, and
// begins what may. The job may be gone afterwards, but for the reference of the
// user's. begin: when the call began, of hr__watch_begin().
void hr__job_begin(struct hr__job *job, int64_t begin);
// hr_submit() with a device, arguments in range.
hr_job hr__submit(struct hr__device *dev, const struct hr_sample *samples,
                  int n, struct hr__batch *batch,
                  const struct hr_job_params *params);
// transfer_job.c: one of the two is on the host; what is not is of to's device.
bool hr__move(struct hr__image *to, struct hr__image *from);

// span_clock.c: the task is in the engine's hands from now on, which must have
// ended it at `latest`.
void hr__clock_start(struct hr__slot *slot, int64_t latest);
// The engine does something.
void hr__clock_alive(const struct hr__slot *slot);
bool hr__clock_over(const struct hr__slot *slot, int64_t now);

// outcome.c
// Whether another engine makes what this one failed.
static inline bool hr__may_fall_back(const struct hr__work *work, int engine)
{
    const struct hr__job *job = work->job;

    return !job->dev->engines[engine]->host && !job->params.strict &&
           !job->dev->pub.params.strict;
}
// The engine that a failed span leaves, which is no longer asked; its reasons
// are counted.
void hr__fall_back(struct hr__work *work, int engine);
int hr__engine_to_leave(const struct hr__work *work);
// Whether the destination of a failed work is to be cleared.
bool hr__clears(const struct hr__work *work);
void hr__clear(const struct hr__dst *dst);
// Writes the result, gives memory and bytes back and counts. Returns works that
// get them.
struct hr__work *hr__work_finish(struct hr__work *work);

// payload.c
// Whether the span that has just ended left what the next one goes on from.
// What is in coefficients and planes their readers check.
bool hr__payload_made(const struct hr__work *work);
void hr__payloads_free(struct hr__work *work, struct hr__payload *payloads,
                       int n);
// Frees what a work holds besides its turns.
void hr__work_free(struct hr__work *work);

// job_end.c
// All works have ended. Returns works that get the bytes of the job.
struct hr__work *hr__job_ended(struct hr__job *job);
bool hr__callbacks_start(struct hr__device *dev);
// Whether this thread is in the on_done of that job.
bool hr__callback_of(const struct hr__job *job);

// release.c
void hr__job_unref(struct hr__job *job);

// job.c: until nothing is in flight.
enum hr_status hr__wait_all(struct hr__device *dev, int64_t deadline);
static inline bool hr__job_stops(const struct hr__job *job)
{
    return atomic_load_explicit(&job->canceled, memory_order_relaxed) ||
           atomic_load_explicit(&job->expired, memory_order_relaxed);
}
static inline enum hr_status hr__stop_status(const struct hr__job *job)
{
    return atomic_load(&job->canceled) ? HR_ECANCELED : HR_ETIMEDOUT;
}

bool hr__watchdog_start(struct hr__device *dev);
void hr__watchdog_wake(struct hr__device *dev);

// certificate.c
// Tests the first engine, or learns from disk how that ended, and sets
// refused, caps and certificate. Before anybody else knows the device. Bounded
// in time; fails if the engine does not answer.
enum hr_status hr__certify(struct hr__device *dev);
// What it found of a span (HR__SPAN_BIT) and a kind of JPEG; NULL: nothing.
const struct hr_certificate_record *hr__certificate_record(
    const struct hr_certificate *cert, uint32_t span, int kind);

// certificate_run.c
// Set by tests: the shortest deadline of a span in it, how long one job may
// take besides, and when all of it has taken too long. 0: as ever.
void hr__test_probe_limits(int64_t span_ns, int64_t job_ns, int64_t total_ns);

// offer.c
// The offer of engine i without what it may not do.
void hr__device_offer(struct hr__device *dev, int i,
                      const struct hr__picture *pic, struct hr__offer *out);

// meter.c: the library's own reports, see service.h
enum hr__wait { HR__WAIT_ROOM, HR__WAIT_RESULT };
void hr__meter_engine(struct hr__engine *e);  // its name is known
void hr__meter_finish(struct hr__engine *e);
void hr__meter_read(struct hr__meter *m, struct hr_engine_profile *out);
void hr__watch_work(const struct hr__work *work, enum hr_part part,
                    int64_t begin);
void hr__watch_submit(struct hr__job *job, int64_t begin);
void hr__watch_callback(const struct hr__job *job, int64_t begin);
void hr__watch_done(const struct hr__job *job, int64_t begin);
void hr__watch_wait(struct hr__device *dev, enum hr__wait what,
                    uint64_t job,  // its id; 0: it has none yet
                    int64_t begin);
// A span of an engine that is not the host ends.
void hr__watch_slot(const struct hr__slot *slot, struct hr__engine *e);
// device->lock held: counts have changed.
void hr__watch_jobs(struct hr__device *dev);
void hr__watch_bytes(struct hr__device *dev);

// registry.c
const struct hr__backend *const *hr__backends(int *n);
// Of that name; NULL with HR_ENODEVICE, which says what there is.
const struct hr__backend *hr__backend_find(const char *name, size_t len);
// Of those that this build could have had and has not, the i-th; NULL: no more.
const char *hr__backend_absent(int i);
void hr__registry_add(const struct hr__backend *backend);  // tests

// clock.c: CLOCK_MONOTONIC, nanoseconds; INT64_MAX = never.
int64_t hr__now(void);
int64_t hr__deadline(int64_t timeout_ns);  // now + timeout; < 0: never
bool hr__on_library_thread(void);
bool hr__is_library_thread(pid_t tid);  // of this process

#endif
