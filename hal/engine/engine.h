// SPDX-License-Identifier: Apache-2.0
// For engines: the table that a backend gives to the HAL. An engine includes
// this header, which brings the others of hal/engine/ with it, guard.h if its
// driver may hang, and its own; nothing else of hal/.
//
//   engine.h   the table, and the engine that the HAL makes of it
//   task.h     one span of one sample, and how it ends
//   picture.h  the sample: source, geometry, destination
//   payload.h  the data between two spans
//   base.h     errors, log, time, memory, threads
//   trace.h    telling what the engine does
//   ref.h      for threads that may be left behind in a driver
//   guard.h    a thread for such a driver, deadlines and coming back
//
// examples/engine_minimal.c is the smallest engine; for one like it read this
// header up to "Optional", task.h up to "Own memory", and of picture.h the
// structs hr__dst and hr__picture.
//
// How a picture travels. hr_submit() makes one work per sample. A host thread
// prepares it (reads the file, parses the header, folds the ops to geometry)
// and plans it: its stages are cut into spans, each on one engine. Then
// each span in turn becomes a task that its engine gets by submit(), together
// with others, and ends with hr__task_done(). The data that one span makes and
// the next reads are the payload between them; the last span writes pic->dst.
#ifndef HR__ENGINE_H
#define HR__ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hal/engine/base.h"
#include "hal/engine/payload.h"
#include "hal/engine/picture.h"
#include "hal/engine/ref.h"
#include "hal/engine/task.h"
#include "hal/engine/trace.h"

struct hr__engine;  // a backend, opened
struct hr__offer;   // which spans it takes

// ---- The engine table ------------------------------------------------------

struct hr__backend {
    const char *name;
    size_t engine_size;  // of the private struct; the HAL allocates it

    // ---- Every engine has these four ----

    // Opens the device that `which` names (what follows "name:", "" = the
    // best). On failure returns hr__fail(...): the reason is the user's.
    enum hr_status (*open)(struct hr__engine *e, const char *which);
    // Closes the engine. No task is in flight (abandoned ones excepted).
    // Bounded in time: a hung driver thread is left behind. Accepts half-opened
    // engines.
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
    // Some task that the engine may hold was cancelled: ends its tasks that
    // have not begun and for which hr__task_stop() is true. On a thread of the
    // library, no lock held.
    void (*cancel)(struct hr__engine *e);
    // Names all that its pixels depend on besides the library's version and
    // e->description: the hash of its kernels, the driver's file. Text, valid
    // until close. Called when open() has returned.
    const char *(*fingerprint)(struct hr__engine *e);
    // Every engine that is not the host is tested at its first open, and its
    // spans are used as far as they proved exact (hal/trust/certificate.c).
    // true: trusted without a test; for scripted engines of tests.
    bool trusted;

    // ---- Optional: own memory ----

    // Memory this engine reads payloads from fastest; NULL = heap.
    void *(*buffer_alloc)(struct hr__engine *e, size_t size);
    void (*buffer_free)(struct hr__engine *e, void *data, size_t size);
    // Called for a sample whose plan begins with this engine, at its file, on
    // the thread that has planned it: copies the file to where the device reads
    // it from, in the form that is wanted there, so that this is not left to
    // the engine's own thread. ahead->data is of buffer_alloc or the like, and
    // goes back by buffer_free; ahead is left alone if there is no room, or the
    // file is odd. No lock held.
    void (*copy_file)(struct hr__engine *e, const struct hr__picture *pic,
                      struct hr__payload *ahead);
    // All or none: memory for images and batches, HR_MEMORY_PINNED or
    // HR_MEMORY_DEVICE. alloc may wait for the device, not beyond the deadline
    // (hr__now()); NULL with hr__fail(). clear: all zero.
    // own_object: a memory object of its own. free: any thread, no lock held,
    // does not wait; the last use of the memory may have been given up. Memory
    // that a hung driver still has is left behind.
    struct hr__memory *(*memory_alloc)(struct hr__engine *e,
                                       enum hr_memory kind, size_t size,
                                       bool clear, bool own_object,
                                       int64_t deadline);
    void (*memory_free)(struct hr__engine *e, struct hr__memory *memory);
    // Does the same as submit, for tasks that are copies of device memory; of
    // at most e->copy_bytes each. They may end in any order.
    void (*copy)(struct hr__engine *e, struct hr__task *list);

    // ---- Optional: zero copy between engines ----

    // Kinds of other engines' memory (HR__VA_SURFACE) that payloads
    // may come in now: it reads them without the host, or, if that fails after
    // all, by hr__payload_map(). May change; any thread, does not wait.
    unsigned (*imports)(struct hr__engine *e);
    // Called when an engine is about to open behind it. Engines close
    // in the order from the last of the chain to the first.
    void (*shared_display)(struct hr__engine *e,
                           struct hr__shared_display *out);
    // Called when all engines of the chain are open, before the device is used:
    // the engine chooses how it hands its results on. e->description may change
    // here.
    void (*chained)(struct hr__engine *e);

    // ---- Media engines ----

    // The engine makes planes and leaves the rest to others: an engine that
    // goes on from there is put behind it (hal/entry/open.c), its certificate
    // is kept by kinds of JPEG, and its pictures are compared now and then
    // (hal/job/crosscheck.c).
    bool media;

    // ---- Only the host, that is the CPU ----

    // Encoded picture number i (0, 1, ...) for the test, in `capacity` bytes at
    // to; the same each time. False: there are no more. From
    // HR__SPECIMENS_LARGE on: at least 64 x 64, for engines with a lower limit.
    bool (*specimen)(struct hr__engine *e, int i, uint8_t *to, size_t capacity,
                     size_t *size);
    // From now on n of its caps.threads threads take tasks (more: all of them);
    // 0 = as it is. The others finish the tasks that they have begun. Returns
    // the number before. Any thread, does not wait.
    int (*use_threads)(struct hr__engine *e, int n);
    // See hr_jpeg_library(). No device need be open.
    const char *(*jpeg_library)(void);
    // See hr_pack() and hr_packed_check(); info: the header's facts. No device
    // need be open.
    enum hr_status (*pack)(const void *data, size_t size,
                           const struct hr_info *info,
                           const struct hr_limits *limits, void **packed,
                           size_t *packed_size, struct hr__outcome *out);
    bool (*packed_check)(const void *data, size_t size);
};

// The spans of a sample that an engine would make, and why not more.
struct hr__offer {
    uint32_t spans;  // a set, in the picture's tier
    unsigned why;    // reasons for what it cannot do of a plain sample
    // The picture has several resample steps, and spans that end with resample
    // make the first of them. They become spans that end with color, whose
    // payload says first_step, and another engine goes on from there. Its other
    // spans count only if they end before color.
    bool first_step;
    // The engine paints the erased rectangles on tensors that it stores, see
    // hr__task_erases(); else the host does, if it reaches them.
    bool erases;
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
    int depth;  // tasks that it works at together; open() fills it, if that is
                // not three lists of caps.batch
    size_t copy_bytes;               // most of one copy task; open() fills it
    struct hr_device_params params;  // defaults filled in; deadline_ns may be
                                     // longer while the device is tested
    struct hr__shared_display display;  // of the engine in front that has one
    bool left_behind;  // close() says so: a driver hangs, and has
                       // all that it was given
    void *priv;        // backend->engine_size bytes, zeroed
    struct hr__meter meter;
};

#endif
