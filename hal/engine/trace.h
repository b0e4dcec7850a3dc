// SPDX-License-Identifier: Apache-2.0
// For engines: how they tell what they do, for the trace and for sums
// (hal/trace/).
#ifndef HR__ENGINE_TRACE_H
#define HR__ENGINE_TRACE_H

#include <headrace/trace.h>

#include "hal/engine/augment.h"
#include "hal/engine/base.h"

struct hr__engine;
struct hr__task;

// The sums of an engine's work (hal/trace/meter.c); relaxed atomics, any
// thread.
struct hr__meter {
    const char *_Atomic name;  // of the engine, interned
    uint32_t serial;           // two of one name are two
    _Atomic uint64_t ns[HR_NUM_PARTS], times[HR_NUM_PARTS];
    _Atomic uint64_t code_ns[HR__NUM_AUGMENT], code_times[HR__NUM_AUGMENT];
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

// An engine reports its work by these. Each function may be called on any
// thread, under any lock, costs one load if no trace or report is on, and never
// fails.
//
//   int64_t begin = hr__watch_begin(); // 0: nothing is on ... the work ...
//   hr__watch_task(task, begin);              // a span of one sample, or
//   hr__watch_part(e, HR_PART_PACK, batch, begin); // other work
//
// Both end now, on the thread that began, nested or apart. Work that a device
// did in its own time goes to hr__watch_device(), on one row per queue.

enum { HR__WATCH_TRACE = 1, HR__WATCH_TIMES = 2 };
extern _Atomic unsigned hr__watch;  // bits

static inline unsigned hr__watched(void)
{
#if HR_NO_WATCH  // tests/bench/trace_cost.py measures the cost of all this
    return 0;
#endif
    return atomic_load_explicit(&hr__watch, memory_order_relaxed);
}

static inline int64_t hr__watch_begin(void)
{
    return hr__watched() ? hr__now() : 0;
}

static inline void hr__count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

// First thing on a host thread of an engine: its name (printf) in the trace,
// and its CPU time in the profile. e NULL: a thread of no engine.
void hr__watch_thread(struct hr__engine *e, const char *format, ...)
    HR_PRINTF(2, 3);
void hr__watch_task(const struct hr__task *task, int64_t begin);
// batch: the engine's, from 1 on, as hr__watch_device() has it.
void hr__watch_part(struct hr__engine *e, enum hr_part part, uint64_t batch,
                    int64_t begin);
// A part that is in pieces, or within a span that is reported: only summed.
void hr__watch_sum(struct hr__engine *e, enum hr_part part, int64_t ns);
// Counts the same for a code of stage augment, which is in that part's sum,
// too, and is told together with it: a reader between them saw more time of
// codes than of their stage.
void hr__watch_code(struct hr__engine *e, enum hr__augment_code code,
                    int64_t ns, int times);
// A thread waits for work, and has waited: always both, begin being what the
// first one says. Any lock of the engine's may be held.
int64_t hr__watch_idle_begin(struct hr__engine *e);
void hr__watch_idle_end(struct hr__engine *e, int64_t begin);
// Reports work on a device, in hr__now()'s time as far as that can be told; on
// one queue in order and apart. queue: static text, "compute". batch: which,
// from 1 on.
void hr__watch_device(struct hr__engine *e, const char *queue,
                      enum hr_part part, uint64_t batch, int64_t begin,
                      int64_t end);

#endif
