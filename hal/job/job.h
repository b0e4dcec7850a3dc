// SPDX-License-Identifier: Apache-2.0
// The room job: what a job and its works are, and what rooms above do with
// them. work.h is what the files of this room share.
#ifndef HR__JOB_H
#define HR__JOB_H

#include "hal/cache/cache.h"
#include "hal/device/device.h"

// The state of a work: work.c draws and decides it. A work is owned by one
// thread, one engine, or one list at a time, and only its owner may change
// this.
#define HR__STATE_MAP(X)                                         \
    X(TURN, "waits for its turn at images and batch slots")      \
    X(HOST, "is in the host's queue")                            \
    X(PREPARE, "the header is read, the geometry folded")        \
    X(BYTES, "asks for working memory")                          \
    X(WAIT, "waits for working memory")                          \
    X(READ, "the rest of the file is read")                      \
    X(PLAN, "the stages are cut into spans")                     \
    X(FETCH, "its source is copied to the host")                 \
    X(SPAN, "an engine has the next span")                       \
    X(FALL, "a span failed: which engine is next?")              \
    X(CHECK, "made: is it one of those to be looked at again?")  \
    X(LOOK, "the result is copied to the host for that")         \
    X(AGAIN, "put aside; the CPU makes it again")                \
    X(MADE, "the picture is there, and judged")                  \
    X(BRING, "the result is copied to where it belongs")         \
    X(MOVE, "moving bytes is all that is wanted: may it begin?") \
    X(MOVING, "they are copied")                                 \
    X(END, "it ends as its outcome says")                        \
    X(CLEAR, "it failed: its destination is cleared")            \
    X(DONE, "result, memory and turns are given back")

enum hr__work_state {
    HR__AWAY = -1,  // (not a state: an engine or a list owns the work now)
#define X(name, what) HR__##name,
    HR__STATE_MAP(X)
#undef X
};
enum { HR__NUM_STATES = HR__DONE + 1 };

// The owner of a task; changed in work.c and task.c only.
//   IDLE -> RUNNING <-> CLAIMED -> IDLE
//                  \-> GIVEN_UP (by the watchdog, for ever)
// The host's tasks are CLAIMED from the start: their memory is never taken
// away. hr__late: a task that was given up may still write pinned memory, which
// is held until the task ends. The task may also end before the memory is held.
enum hr__late { HR__NOT_LATE, HR__LATE_HELD, HR__LATE_ENDED };

enum hr__task_state { HR__IDLE, HR__RUNNING, HR__CLAIMED, HR__GIVEN_UP };

// One task struct per engine of the chain, so that one that a hung engine
// still holds is never used again.
struct hr__engine_task {
    struct hr__task task;  // first
    struct hr__work *work;
    atomic_int state;  // enum hr__task_state
    // For the watchdog: when the engine must have ended it; 0 = never. Negative
    // while it waits in a queue, as far as is known: then only if the engine
    // has not got on with anything else for so long.
    _Atomic int64_t deadline;
    int64_t begun;    // when an engine got it; 0 = not watched
    atomic_int late;  // enum hr__late
};

struct hr__work {
    struct hr__waiter wait;  // first
    struct hr__job *job;
    int index;
    enum hr__work_state state;
    struct hr_sample sample;  // ops, path and name point into the job
    struct hr__picture pic;
    const struct hr__table *codes_table;  // of the store, if the picture has
                                          // codes; NULL: pic.table in any case
    struct hr__plan plan;
    int at;       // span of the plan at work
    bool paints;  // its last engine also paints on the tensor what ops erase
    // For the schedule: the engine that has it, and 1; 0: none. Since when, and
    // how many that had then.
    int chosen, chosen_load;
    int64_t chosen_since;
    bool assigned;           // it has had one
    unsigned excluded;       // engines that failed it, bit per index
    bool serial;             // no engine but the host may decode its file
    unsigned why;            // collected reasons
    struct hr__outcome out;  // how it ends, as far as is known
    struct hr__engine_task tasks[HR__MAX_ENGINES];
    bool prepared;  // it has had a plan: what fails is no header any more
    bool upstream;  // device->lock
    bool given_up;  // some engine may still read its memory
    struct hr__payload ahead;  // its file, as the first engine has copied it
    struct hr__payload payloads[HR_NUM_STAGES];   // [i] = made by span i
    struct hr__payload kept[HR__MAX_ENGINES][2];  // in and out of spans that
                                                  // were given up
    int fd;                    // of its path, between PREPARE and READ; else -1
    uint8_t *file;             // encoded bytes read from path, of the pool
    size_t have;               // .. so many so far
    struct hr__cache *cache;   // that it uses, or NULL
    struct hr__cache_key key;  // of its source, if keep is set
    struct hr__cache_entry *entry;  // its source comes from (hit), or that is
                                    // made for it
    bool hit, missed, settled;      // settled: its file has the key it had
    int64_t part_begun;        // when it began to be read or prepared; 0 = not
                               // watched
    struct hr__copy copy;      // while it is copied; memory NULL: from host to
                               // host
    size_t copied;             // bytes of it
    _Atomic int64_t latest;    // its task is overdue then, whatever its clock
                               // says
    uint8_t *source, *result;  // of the pool: pixels of device memory, on the
                               // host for engines that cannot reach them
    struct hr__check *check;   // its picture, while the CPU makes it again
    struct hr__access reads, writes;
    struct hr__work *next;  // in a list of this room that has it
    // The first work of its job that reads the same bytes, NULL: no other does;
    // and the next of these. (found: of the search for them, submit.c.)
    struct hr__work *lead, *view;
    struct {
        struct hr__work *bucket, *chain, *last;
    } found;
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
    int64_t since;    // when it was submitted, if its device has a target
    atomic_int refs;  // the user, the call that begins it, the job itself
                      // until done, and every task that was given up
    struct hr_job_params params;  // strict: of the job or of its device
    struct hr__batch *batch;
    struct hr__cache *cache;  // of samples that name none, or NULL
    struct hr__table *tables;
    struct hr__work *works;
    struct hr_result *results;
    size_t bytes;     // charged to the budget
    bool no_picture;  // it only moves bytes: not counted, nothing is cleared
    bool here;        // .. and its caller waits: the host copies on its thread
    atomic_int left;  // works that have not ended
    // enum hr_status: HR_OK; or, if it shall end early, HR_ECANCELED or
    // HR_ETIMEDOUT.
    atomic_int stop;
    bool stopped;      // the watchdog has seen that; device->lock
    int64_t deadline;  // INT64_MAX = none

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

// submit.c
// The bytes of the records of a job of n samples.
size_t hr__job_size(int n);
// A job of n works in a block of size bytes, its records first; bytes of the
// budget are its own, for which it waits if params say so. It retains dev. NULL
// with hr_last_error().
struct hr__job *hr__job_admit(struct hr__device *dev, int n, size_t size,
                              size_t bytes, const struct hr_job_params *params);
// A copy of text at *to, which moves on behind it. NULL: none.
const char *hr__copy_text(char **to, const char *text);
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

// job.c: until nothing is in flight.
enum hr_status hr__wait_all(struct hr__device *dev, int64_t deadline);
static inline bool hr__job_stops(const struct hr__job *job)
{
    return atomic_load_explicit(&job->stop, memory_order_relaxed) != HR_OK;
}
static inline enum hr_status hr__stop_status(const struct hr__job *job)
{
    return (enum hr_status)atomic_load(&job->stop);
}

// release.c
void hr__job_unref(struct hr__job *job);

#endif
