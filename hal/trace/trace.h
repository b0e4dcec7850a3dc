// SPDX-License-Identifier: Apache-2.0
// The room trace: events in rings, and the sums of what engines do.
// engine/trace.h is the part for engines.
//
//   trace.c        the threads' rings, start and stop
//   trace_write.c  rings to JSON
//   meter.c        the engines' reports, and the sums; the core's reports are
//                  in device/report.c and job/report.c
//
// A ring has one writer, its thread; readers take what was not overwritten
// while they read. Its words are atomic, so nothing here races.
#ifndef HR__TRACE_H
#define HR__TRACE_H

#include "hal/base/base.h"
#include "hal/engine/engine.h"

enum hr__event_kind {
    HR__EVENT_SPAN,     // of this thread
    HR__EVENT_DEVICE,   // of a queue: row
    HR__EVENT_ASYNC,    // of a job or sample; may overlap others
    HR__EVENT_COUNTER,  // end is the value
    HR__EVENT_SUBMIT,   // an arrow from here
    HR__EVENT_DONE,     // to here
};

// Text is static, interned, or borrowed until the next start.
struct hr__event {
    const char *name;
    const char *row;      // engine, or the queue's row; NULL = none
    int64_t begin, end;   // hr__now()
    uint64_t job;         // or batch; 0 = none
    int32_t sample;       // -1 = none
    uint32_t serial;      // of the engine behind row
    uint8_t kind;         // enum hr__event_kind
    uint8_t first, last;  // stages; HR_NUM_STAGES = none
    uint8_t of_batch;     // job is the engine's batch, not a job
};

enum { HR__EVENT_WORDS = 8 };
_Static_assert(sizeof(struct hr__event) <= HR__EVENT_WORDS * 8,
               "an event is copied as so many words");

struct hr__ring {
    struct hr__ring *next;  // trace lock
    uint64_t generation;    // of the trace it belongs to
    bool owned;             // by a thread that lives; trace lock
    int tid;
    char name[32];          // of the thread
    uint64_t capacity;      // events, a power of two
    _Atomic uint64_t head;  // events written so far
    _Atomic uint64_t words[];
};

// Copies text to where it stays for ever; equal texts to the same place.
const char *hr__intern(const char *text);
// Names this thread, until the next call.
void hr__trace_thread(const char *name);
// Records an event; only while HR__WATCH_TRACE is set.
void hr__trace(const struct hr__event *event);

// The events of ring number i of the last trace, oldest first, into to (which
// holds max); at most that many. Trace lock held, see below.
struct hr__trace_state {
    uint64_t generation;
    int64_t start;  // hr__now()
    bool wall;
    struct hr__ring *rings;
    uint64_t homeless;  // events that found no ring
};
struct hr__trace_state *hr__trace_lock(void);
void hr__trace_unlock(void);
// Returns the number of events there now; *dropped: events dropped before them.
uint64_t hr__ring_kept(const struct hr__ring *ring, uint64_t *dropped);
size_t hr__ring_read(const struct hr__ring *ring, struct hr__event *to,
                     size_t max);

// ---- Reports (meter.c) ------------------------------------------------------

static inline bool hr__traced(void)
{
    return hr__watched() & HR__WATCH_TRACE;
}

struct hr__event hr__event(enum hr__event_kind kind, const char *name,
                           int64_t begin, int64_t end);
void hr__event_of_engine(struct hr__event *event, struct hr__engine *e);
void hr__meter_engine(struct hr__engine *e);  // its name is known
void hr__meter_finish(struct hr__engine *e);
void hr__meter_read(struct hr__meter *m, struct hr_engine_profile *out);

#endif
