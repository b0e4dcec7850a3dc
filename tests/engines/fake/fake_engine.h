// SPDX-License-Identifier: Apache-2.0
// A scripted engine for tests: backend "fake" in front of the CPU. It does its
// spans for real (decoding by libjpeg, then plain C), so that any cut between
// it and the CPU can be compared with the CPU alone; and it fails, hangs and
// lies as its script says.
#ifndef HEADRACE_TESTS_FAKE_ENGINE_H
#define HEADRACE_TESTS_FAKE_ENGINE_H

#include <stdatomic.h>

#include "fake_pixels.h"
#include "hal/engine/engine.h"

enum fake_where {
    FAKE_THREAD,  // its own thread does the work
    FAKE_INSIDE,  // submit() does, and ends the task before it returns
};

struct fake_script {
    // The spans offered in each tier, HR_SPAN_BIT()s; JPEG only where decoding
    // begins a span.
    uint32_t spans[3];
    enum fake_where where;
    int batch;  // caps.batch
    bool open_fails;
    bool gate;         // tasks wait for fake_gate_open() before they begin
    int64_t delay_ns;  // in front of each task
    int64_t burn_ns;   // .. and CPU time of its thread
    // Tasks are counted from 1 as they begin (of one engine).
    int fail_from, fail_to;  // these end with fail_status (to <= 0: and so on)
    bool fail_late;          // .. after the work instead of before it
    enum hr_status fail_status;
    unsigned fail_why;
    int hang_from, hang_to;  // these sleep first, hang_ns; 0 = till
    int64_t hang_ns;         // fake_wake()
    bool hang_claimed;       // they hang with the memory claimed
    bool claims_twice;
    bool done_after_lost;  // a failed claim is followed by a plausible result
    bool takes_every_2nd;  // by the picture's width: even ones
    bool own_buffers;      // buffer_alloc of its own
    bool buffers_fail;     // .. that says no
    bool memory;           // device and pinned memory of its own
    bool memory_fails;     // .. that says no
    // Copies are counted from 1, too.
    int copy_fail_from, copy_fail_to;
    int copy_hang_from, copy_hang_to;  // till fake_wake()
    size_t copy_bytes;                 // most of one copy
    uint32_t wrong_codes;      // of stage augment: as wrong, where it does them
    uint32_t wrong_together;   // .. where it does all of these in one picture
    bool wrong;                // one bit of the first byte of each result
    uint8_t wrong_bits;        // .. or these
    enum fake_fault fault;     // what it gets wrong ..
    int fault_width;           // .. in pictures that wide; 0 = all
    int stale_width;           // of these it delivers what it made before
    bool never_fails;          // what it cannot make it calls made
    int empty_from, empty_to;  // these it calls made, and leaves no payload
    bool tested;               // not trusted: it needs a certificate
    const char *fingerprint;
    bool software;    // caps.software
    bool media;       // the CPU makes some of its pictures again
    int planes_form;  // enum planes_form, the form of FAKE_P's planes;
                      // NUM_FORMS: with a header that is wrong
    bool deaf;        // does not look at hr__task_stop()
    bool idle;        // says success and writes nothing
    // The work it reports: kernels per list, bytes per task.
    int launches, bytes_up, bytes_down, bytes_imported;
    int64_t device_ns;  // of a device's time in each task, of which the second
                        // half runs beside a copy; a part of delay_ns
    int slow_every;     // each so manieth task sleeps slow_ns more
    int64_t slow_ns;
};

// Counts over all fake engines since fake_reset().
struct fake_counts {
    atomic_int opens, closes;
    atomic_int lists, tasks, longest, empty, mixed;  // mixed: unequal spans
    atomic_int begun, ended, stopped, canceled;      // canceled: by cancel()
    atomic_int claims_lost;
    atomic_int complete;  // spans of pictures whose file has its end
    atomic_int views;     // .. whose bytes others of their job read, too
    atomic_int elements;  // of results
    atomic_int wrong;     // .. that have a wrong bit
    atomic_int buffers, buffers_made;           // live, ever
    atomic_int surfaces, surfaces_made;         // memory of its own, left as
                                                // payload
    atomic_int hanging;                         // asleep right now
    atomic_int memory, memory_made;             // pieces: live, ever
    atomic_int copies_up, copies_down, clears;  // that went well
};
extern struct fake_counts fake_counts;

// Every way to cut a picture: decode, resample, store, joined or not; and
// planes, for others to go on from.
#define FAKE_D HR_SPAN_BIT(HR_ENTROPY, HR_COLOR)
#define FAKE_P HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT)
#define FAKE_DR HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE)
#define FAKE_DRS HR_SPAN_BIT(HR_ENTROPY, HR_STORE)
#define FAKE_R HR_SPAN_BIT(HR_RESAMPLE, HR_RESAMPLE)
#define FAKE_RS HR_SPAN_BIT(HR_RESAMPLE, HR_STORE)
#define FAKE_S HR_SPAN_BIT(HR_STORE, HR_STORE)

// Spans of a script: the same in every tier.
#define FAKE_ALL(x)   \
    {                 \
        (x), (x), (x) \
    }

// Registers the backend once and sets the script of the devices opened from
// now on. Counts start again.
void fake_reset(const struct fake_script *script);
#define fake_begin(...) fake_reset(&(struct fake_script){__VA_ARGS__})
// reset, with these spans in every tier.
void fake_reset_spans(uint32_t spans);
void fake_gate_open(void);
// Until the next reset nothing hangs any more: nor does a task that would have
// begun to hang, had it not been given up in the queue of a busy machine.
void fake_wake(void);

#endif
