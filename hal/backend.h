// SPDX-License-Identifier: Apache-2.0
// For engines: what a backend gives to the HAL and what it gets from it.
// A backend includes this header, the public ones and its own; nothing else of
// hal/ but guard/guard.h. Two more headers come with it: picture.h is what
// travels, service.h what an engine may call. examples/engine_minimal.c is the
// smallest engine; for it read this header up to "Own memory", guard.h, and of
// picture.h the structs picture, dst and payload.
//
// How a picture travels. hr_submit() makes one work per sample. A host thread
// prepares it (reads the file, parses the header, folds the ops to geometry)
// and plans it: the five stages are cut into spans, each on one engine. Then
// each span in turn becomes a task that its engine gets by submit(), together
// with others, and ends with hr__task_done(). What one span makes and the
// next reads is the payload between them; the last span writes pic->dst.
#ifndef HR__BACKEND_H
#define HR__BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hal/picture.h"
#include "hal/service.h"

struct hr__engine;  // a backend, opened
struct hr__offer;   // which spans it takes
struct hr__task;    // one span of one sample

// ---- The engine table ------------------------------------------------------

struct hr__backend {
    const char *name;
    size_t engine_size;  // of the private struct; the HAL allocates it

    // ---- Every engine has these four ----

    // Opens the device that `which` names (what follows "name:", "" = the
    // best). On failure returns hr__fail(...): the reason is the user's.
    enum hr_status (*open)(struct hr__engine *e, const char *which);
    // No task is in flight (abandoned ones excepted). Bounded in time: a
    // hung driver thread is left behind. Accepts half-opened engines.
    void (*close)(struct hr__engine *e);

    // May not block, no lock held, any thread. pic is complete but for dst.
    void (*offer)(struct hr__engine *e, const struct hr__picture *pic,
                  struct hr__offer *out);

    // Takes a list of tasks (linked by next, at least one) with equal spans.
    // Must not wait for the device. Any thread, no lock held. Cannot fail:
    // what goes wrong ends the task by hr__task_done().
    void (*submit)(struct hr__engine *e, struct hr__task *list);

    // ---- Optional, for any engine ----

    // Names of devices that could be opened, also of absent ones (available =
    // false and a reason). May load a driver. NULL: just `name`.
    int (*list)(struct hr_device_info *infos, int max);
    // Some task that the engine may hold was cancelled: end those
    // that have not begun and for which hr__task_stop() is true. On a thread
    // of the library, no lock held.
    void (*cancel)(struct hr__engine *e);
    // What its pixels depend on besides the library's version and
    // e->description: the hash of its kernels, the driver's file. Text, valid
    // until close. Called when open() has returned.
    const char *(*fingerprint)(struct hr__engine *e);
    // Every engine that is not the host is tested at its first open, and its
    // spans are used as far as they proved exact (hal/certificate.c). true:
    // trusted without a test; for scripted engines of tests.
    bool trusted;

    // ---- Optional: own memory ----

    // Memory this engine reads payloads from fastest; NULL = heap.
    void *(*buffer_alloc)(struct hr__engine *e, size_t size);
    void (*buffer_free)(struct hr__engine *e, void *data, size_t size);
    // All or none: memory for images and batches, HR_MEMORY_PINNED or
    // HR_MEMORY_DEVICE. alloc may wait for the device, not beyond the deadline
    // (hr__now()); NULL with hr__fail(). clear: all zero. apart: a memory
    // object of its own. free: any thread, no lock held, does not wait; the
    // last use of the memory may have been given up. What a hung driver still
    // has is left behind.
    struct hr__memory *(*memory_alloc)(struct hr__engine *e,
                                       enum hr_memory kind, size_t size,
                                       bool clear, bool apart,
                                       int64_t deadline);
    void (*memory_free)(struct hr__engine *e, struct hr__memory *memory);
    // As submit, for tasks that are copies of device memory; of at most
    // e->copy_bytes each. They may end in any order.
    void (*copy)(struct hr__engine *e, struct hr__task *list);
    // The objects that device memory belongs to.
    void (*native)(struct hr__engine *e, struct hr_native_device *out);

    // ---- Optional: zero copy between engines ----

    // Kinds of other engines' memory (HR__VA_SURFACE) that payloads
    // may come in now: it reads them without the host, or, if that fails after
    // all, by hr__payload_map(). May change; any thread, does not wait.
    unsigned (*imports)(struct hr__engine *e);
    // Called when an engine is about to open behind it. Engines close
    // in the order from the last of the chain to the first.
    void (*origin)(struct hr__engine *e, struct hr__origin *out);
    // All engines of the chain are open, and nobody knows the device
    // yet: it chooses how it hands on what it makes. e->description may change
    // here.
    void (*chained)(struct hr__engine *e);

    // ---- Media engines ----

    // It makes planes and leaves the rest to others: an engine that goes on
    // from there is put behind it (hal/device.c), its certificate is kept by
    // kinds of JPEG, and its pictures are compared now and then
    // (hal/crosscheck.c).
    bool media;

    // ---- Only the host, that is the CPU ----

    // Encoded picture number i (0, 1, ...) for the test, in
    // room bytes at to; the same each time. False: there are no more. From
    // HR__SPECIMENS_LARGE on: at least 64 x 64, for engines with a lower limit.
    bool (*specimen)(struct hr__engine *e, int i, uint8_t *to, size_t room,
                     size_t *size);
    // See hr_jpeg_library(). No device need be open.
    const char *(*jpeg_library)(void);
};

enum { HR__SPECIMENS_LARGE = 1000 };

// What an engine would do of a sample: one bit per span, and why not more.
struct hr__offer {
    uint32_t spans;  // bit HR__SPAN_BIT(first, last), in the picture's tier
    unsigned why;    // reasons for what it cannot do of a plain sample
};
#define HR__SPAN_BIT(first, last) \
    (UINT32_C(1) << ((first)*HR_NUM_STAGES + (last)))

// What an engine's work comes to (hal/meter.c); relaxed atomics, any thread.
struct hr__meter {
    const char *_Atomic name;  // of the engine, interned
    uint32_t serial;           // two of one name are two
    _Atomic uint64_t ns[HR_NUM_PARTS], times[HR_NUM_PARTS];
    _Atomic uint64_t tasks, batches, launches, bytes_up, bytes_down;
    _Atomic uint64_t bytes_imported, import_falls;
    struct {
        const char *_Atomic name;  // static text, best first
        _Atomic uint64_t samples;
    } rungs[HR_PROFILE_RUNGS];
    atomic_bool device_times;
    atomic_int num_threads;
    _Atomic(clockid_t) clocks[HR_PROFILE_THREADS];  // their CPU time
    pthread_mutex_t lock;                           // of both below
    int idle;         // threads that wait for work right now
    int64_t idle_ns;  // of all, but for now times idle
};

// A backend opened as part of a device. The HAL makes it.
struct hr__engine {
    const struct hr__backend *backend;
    struct hr__device *device;
    int index;      // in the device's chain
    bool host;      // the last of the chain: the CPU
    char name[64];  // "cpu", "opencl:0": open() fills these
    char description[272];
    struct hr_caps caps;
    size_t copy_bytes;               // most of one copy task; open() fills it
    struct hr_device_params params;  // defaults filled in; deadline_ns may be
                                     // longer while the device is tested
    struct hr__origin origin;        // of the engine in front that has one
    bool left_behind;                // close() says so: a driver hangs, and has
                                     // all that it was given
    void *priv;                      // backend->engine_size bytes, zeroed
    struct hr__meter meter;
};

// ---- Tasks -----------------------------------------------------------------

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
    struct hr__copy copy;    // then pic, span and in mean nothing
    void *engine_data[2];    // the engine's own
};

// How a task ended. Text is a clause without file name and stage.
struct hr__outcome {
    enum hr_status status;
    unsigned why;  // of HR_WHY_*, for fallback and counting
    enum hr_stage stage;
    int64_t offset;  // in the source, -1 unknown
    int warnings;
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
// a task that was given up may still write it until it ends. What comes later
// to the same memory, also in its next life, must not be overtaken by that.
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

// Whether another engine makes it if this one ends it with HR_EDEVICE. Whether
// its job has a time limit, which runs in any case.
bool hr__task_may_leave(const struct hr__task *task);
bool hr__task_is_timed(const struct hr__task *task);
// Still queued, but not because the device is slow: restarts its deadline, and
// those of tasks that wait for engines in front of this one.
void hr__task_waits(struct hr__task *task);

// ---- Own memory, zero copy -------------------------------------------------

// As hr__task_payload(), with memory of the engine's own, which stays valid
// until release() is called: exactly once, on any thread, no lock held.
struct hr__payload *hr__task_payload_own(
    struct hr__task *task, void *data, size_t size,
    void (*release)(struct hr__payload *payload), void *ctx);
// The same where the next engine imports that kind, see hr__task_imports().
struct hr__payload *hr__task_payload_external(
    struct hr__task *task, const struct hr__external *external,
    void (*release)(struct hr__payload *payload), void *ctx);
// Kinds of memory that the engine which goes on from the task's span imports
// now; 0 also if there is none. The task is claimed.
unsigned hr__task_imports(const struct hr__task *task);
// Kinds that some engine behind e in its chain imports.
unsigned hr__chain_imports(const struct hr__engine *e);
// What the memory of the engines in front of e belongs to.
void hr__chain_origin(struct hr__engine *e);
// Makes an external payload reachable for the host: then it has data, until it
// is freed, and hr__planes at extra may have changed. False: that cannot be.
// Whoever holds the task, claimed; a media engine's driver may have to do it.
bool hr__payload_map(struct hr__payload *payload);

// ---- Only the host ---------------------------------------------------------

// Every task of the CPU engine must pass here first, on the
// engine's own thread. A new one (prepared == false) has its file read, its
// header parsed and its plan made now. True: run task->span, then
// hr__task_done(). False: the HAL took it back; do not touch it.
bool hr__task_prepare(struct hr__task *task);

#endif
