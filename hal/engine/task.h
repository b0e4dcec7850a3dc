// SPDX-License-Identifier: Apache-2.0
// For engines: one span of one sample in their hands, and how it ends
// (hal/job/task.c, hal/job/payload.c).
#ifndef HR__ENGINE_TASK_H
#define HR__ENGINE_TASK_H

#include "hal/engine/payload.h"
#include "hal/engine/picture.h"

struct hr__engine;

// Threads without a task help with a picture of at least so many pixels down to
// the window's bottom: the fewest that gain (docs/performance.md). The bytes
// are for the rows that they do ahead (hal/job/prepare.c counts them).
enum { HR__HELPED_PIXELS = 1500000, HR__HELPED_BYTES = 2 << 20 };

// A copy between an engine's memory and the host. Neither to nor from: the
// bytes of memory become 0.
struct hr__copy {
    struct hr__memory *memory;  // NULL: the task is a span
    size_t at, size;
    uint8_t *to;
    const uint8_t *from;
};

// One span of one sample in the hands of one engine; or one copy.
struct hr__task {
    struct hr__task *next;  // the engine's list while it holds the task
    const struct hr__picture *pic;
    struct hr_span span;
    struct hr__payload *in;  // NULL if the span starts the plan
    bool prepared;           // see hr__task_prepare()
    // Tasks of one job whose samples read the same bytes have the same, and
    // come one behind the other; NULL: no other reads them.
    const void *source;
    // The copy of the sample's file by backend->copy_file(); NULL: there is
    // none. It is the host's memory in the sense of claim and unclaim.
    const struct hr__payload *ahead;
    struct hr__copy copy;  // then pic, span and in mean nothing
};

// How a task ended. Text is a clause without file name and stage.
struct hr__outcome {
    enum hr_status status;
    unsigned why;  // of HR_WHY_*, for fallback and counting
    enum hr_stage stage;
    int64_t offset;  // in the source, -1 unknown
    int warnings;
    bool shared;  // made of what was decoded for another task
    char text[160];
};

// Ends a task: exactly once per task, no lock of the engine held (it may call
// the engine's submit), on a thread made by hr__thread_start(): a driver's own
// thread must hand over to one. The task is not touched afterwards.
void hr__task_done(struct hr__task *task, const struct hr__outcome *outcome);

// Ends each of a list: HR_EDEVICE with that reason and text; or, of a list that
// was stopped, as it was stopped. NULL is fine.
void hr__tasks_failed(struct hr__task *list, unsigned why, const char *text);
void hr__tasks_stopped(struct hr__task *list);

// A sample's memory (source bytes, payload, dst) may be touched by the host
// only between claim and unclaim (or done): a watchdog that gives a hung span
// up cannot take the memory away in between. false = given up: drop the
// memory at once and end the task with hr__task_done() when the driver
// returns it; its outcome is ignored. An engine's own memory is not the host's:
// a task that was given up may still write it until it ends. Such a late write
// must not overtake later writes to the same memory, also if that has been
// allocated anew.
bool hr__task_claim(struct hr__task *task);
void hr__task_unclaim(struct hr__task *task);

// Restarts the clock of the task's deadline, that is of how long one span may
// take. An engine that queues tasks calls this when the device takes one up,
// and again when what the device has taken up before is out of the way. Until
// the first call the task waits, and is overdue only if the engine has begun
// and ended nothing for so long. Also under a lock, and if it was given up.
void hr__task_begun(struct hr__task *task);

// True if the task should end early (cancelled, job timed out): asked between
// rows; then end it with hr__task_stop_status(). Cheap.
bool hr__task_stop(const struct hr__task *task);
enum hr_status hr__task_stop_status(const struct hr__task *task);

// Memory for the payload this span makes, from the next span's engine. NULL:
// out of memory. Free with the task by the HAL.
struct hr__payload *hr__task_payload(struct hr__task *task, size_t size);

// Returns memory, aligned to 64 bytes, for the packed picture that a cache is
// to keep. It belongs to the task until that ends, whichever engine makes the
// spans behind it; then to the cache, if the sample succeeds. NULL: the cache
// has no room. At most once for a task.
void *hr__task_keep(struct hr__task *task, size_t size);

// Rectangles to paint on the tensor when it is complete, one after the other:
// of a span that ends with store, if its engine has offered to. The task is
// claimed.
int hr__task_erases(const struct hr__task *task,
                    struct hr_erase out[HR_MAX_OPS]);

// may_leave: says whether another engine makes it if this one ends it with
// HR_EDEVICE. is_timed: says whether its job has a time limit, which runs in
// any case.
bool hr__task_may_leave(const struct hr__task *task);
bool hr__task_is_timed(const struct hr__task *task);
// For a task that is still queued, but not because the device is slow: restarts
// its deadline, and the deadlines of tasks that wait for engines in front of
// this one.
void hr__task_defer(struct hr__task *task);

// ---- Own memory, zero copy -------------------------------------------------

// Does the same as hr__task_payload(), with memory of the engine's own, which
// stays valid until release() is called: exactly once, on any thread, no lock
// held.
struct hr__payload *hr__task_payload_own(
    struct hr__task *task, void *data, size_t size,
    void (*release)(struct hr__payload *payload), void *ctx);
// Does the same where the next engine imports that kind, see
// hr__task_imports().
struct hr__payload *hr__task_payload_external(
    struct hr__task *task, const struct hr__external *external,
    void (*release)(struct hr__payload *payload), void *ctx);
// Kinds of memory that the engine which goes on from the task's span imports
// now; 0 also if there is none. The task is claimed.
unsigned hr__task_imports(const struct hr__task *task);
// Kinds that some engine behind e in its chain imports.
unsigned hr__chain_imports(const struct hr__engine *e);
// Makes an external payload reachable for the host: then it has data, until it
// is freed, and hr__planes at extra may have changed. False: it cannot be
// mapped. Called by the holder of the claimed task; a media engine's driver may
// have to do it.
bool hr__payload_map(struct hr__payload *payload);

// ---- Only the host ---------------------------------------------------------

// Every task of the CPU engine must pass here first, on the
// engine's own thread. A new one (prepared == false) has its file read, its
// header parsed and its plan made now. True: run task->span, then
// hr__task_done(). False: the HAL took it back; do not touch it.
bool hr__task_prepare(struct hr__task *task);

// The cap on the host's CPU time, e->params.cpu_cap, if that is not 0. used: a
// thread of it has used so many ns. rest: ns that its threads rest for before
// they take more. No lock held.
void hr__host_used(struct hr__engine *e, int64_t ns);
int64_t hr__host_rest(struct hr__engine *e);

#endif
