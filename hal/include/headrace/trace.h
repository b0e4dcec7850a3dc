// SPDX-License-Identifier: Apache-2.0
// Shows where the time goes: a trace of every span, copy, wait and callback for
// a timeline viewer, and sums per device. Both are off by default. While they
// are off, a place that could report reads one word of memory and does nothing
// else.
#ifndef HEADRACE_TRACE_H
#define HEADRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/device.h>

HR_BEGIN_DECLS

// ---- Trace ------------------------------------------------------------------
//
// Chrome's trace event format, as JSON: ui.perfetto.dev and chrome://tracing
// open it. Each thread of the library has a row with its work; job and
// sample are in the arguments. Each queue of a device has a row with its
// kernels and copies, in the device's own time laid over the host's. Arrows
// lead from the submission of a job to its end; curves show jobs and bytes in
// flight.
//
// Times are of CLOCK_MONOTONIC, in microseconds. otherData holds what to add
// for wall time (wall_minus_monotonic_ns, as text); with params.wall_time it
// is added already, and the file lies on the time axis of torch.profiler's
// (with Kineto); tests/tools/check_trace.py --merge makes one file of two, also
// with a torch that has none, by marks of this clock in torch's trace. Ids hold
// the process's number, so that files of several processes can be joined.

struct hr_trace_params {
    size_t thread_bytes;  // of events kept for each thread, the newest ones;
                          // 0 = 1 MiB (16384 events). Allocated when a thread
                          // reports for the first time
    bool wall_time;       // see above
};
#define hr_trace_params(...) (&(struct hr_trace_params){__VA_ARGS__})

// Begins a new trace and forgets the one before; one per process. params may be
// NULL. HR_EINVAL if one is running. Devices that are opened from now on report
// kernels and copies in device time; older ones report them only if
// hr_profile_times() was on then. A child after fork() has no trace. Threads:
// any.
HR_API enum hr_status hr_trace_start(const struct hr_trace_params *params);

// Ends it. The collected events stay until the next start. Threads: any.
HR_API void hr_trace_stop(void);

// Writes what there is to path; a trace may still be running. HR_EIO or
// HR_ENOMEM with hr_last_error(). Threads: any.
HR_API enum hr_status hr_trace_write(const char *path);

// Adds a span of the program's own to the row of this thread, e.g. a step of
// its network: begin and end in ns of CLOCK_MONOTONIC. Spans of one thread
// must be nested or apart. name is borrowed until the next start. Nothing
// happens while no trace runs. Threads: any.
HR_API void hr_trace_span(const char *name, int64_t begin_ns, int64_t end_ns);

// ---- Sums -------------------------------------------------------------------

// The parts of the work that take time. Where libjpeg-turbo or libpng decodes,
// entropy..color goes on in one go and is HR_PART_DECODE; our own decoder and
// the engines that split the decode report its stages one by one.
enum hr_part {
    HR_PART_READ,     // files
    HR_PART_PREPARE,  // header, geometry, plan
    HR_PART_DECODE,   // entropy..color in one go; of a media engine all the
                      // time that its pictures are there
// HR_PART_ENTROPY, ...: a stage by itself
#define HR__PART(NAME, name) HR_PART_##NAME,
    HR_STAGE_MAP(HR__PART)
#undef HR__PART
        HR_PART_PACK,  // host: a batch put together for a device
    HR_PART_UPLOAD,    // to a device's memory
    HR_PART_DOWNLOAD,  // and back
    HR_PART_DELIVER,   // host: from pinned memory to the tensors; from a
                       // surface to the next engine
    HR_PART_IMPORT,    // copied from another engine's memory, in the device
    HR_NUM_PARTS,
};
// "read", "prepare", ...; static storage. Threads: any.
static inline const char *hr_part_name(enum hr_part part)
{
    static const char *const names[HR_NUM_PARTS] = {
        "read",
        "prepare",
        "decode",
#define X(NAME, name) #name,
        HR_STAGE_MAP(X)
#undef X
            "pack",
        "upload",
        "download",
        "deliver",
        "import",
    };

    return (unsigned)part < HR_NUM_PARTS ? names[part] : "?";
}

// Switches the clocks for hr_device_profile() on and off; they are off at
// first. A device must be opened while they are on to report device time.
// Threads: any.
HR_API void hr_profile_times(bool on);

enum {
    HR_PROFILE_ENGINES = 4,
    HR_PROFILE_THREADS = 64,
    HR_PROFILE_RUNGS = 6,
    HR_PROFILE_CODES = 16,
};

struct hr_part_profile {
    uint64_t ns;     // host threads' parts: of all threads together
    uint64_t times;  // how often
};

struct hr_code_profile {
    const char *name;  // "table", "mix_luma", "warp", ...; static
    uint64_t ns, times;
};

struct hr_rung_profile {
    const char *name;  // as the device's description says it; static
    uint64_t samples;
};

// One engine of a device's chain. Counts are kept always, ns of parts and
// idle_ns only while hr_profile_times() is on.
struct hr_engine_profile {
    const char *name;   // "cpu", "opencl:0"; lives as long as the process
    bool device_times;  // upload, download and stages are the device's time;
                        // a media engine's as the host sees it
    struct hr_part_profile parts[HR_NUM_PARTS];
    // The CPU engine makes stage augment of these codes, several ops as one, or
    // one op as several; parts[HR_PART_AUGMENT] has their time already. A name
    // that is NULL ends the list, which is the same for all engines. (The store
    // does a part of a table that is the last code.)
    struct hr_code_profile codes[HR_PROFILE_CODES];
    uint64_t tasks;                 // spans of samples that were done
    uint64_t batches;               // that were sent to the device
    uint64_t launches;              // of kernels
    uint64_t bytes_up, bytes_down;  // handed to the device and back, also
                                    // where memory is shared
    uint64_t bytes_imported;  // that it took from another engine's memory,
                              // past the host; not in bytes_up
    uint64_t import_falls;    // times that such a way failed, and another
                              // was taken from then on
    // Of a media engine: how samples went on to the next one, best first;
    // a name that is NULL ends the list.
    struct hr_rung_profile rungs[HR_PROFILE_RUNGS];
    uint64_t idle_ns;  // of all its host threads, waiting for work; waits that
                       // have not ended count up to now
    int num_threads;   // host threads of its own, also beyond those of cpu_ns
    uint64_t cpu_ns[HR_PROFILE_THREADS];  // CPU time of each, since it began
};

// Sums since the device was opened.
struct hr_profile {
    int num_engines;
    struct hr_engine_profile engines[HR_PROFILE_ENGINES];
    uint64_t room_waits, room_wait_ns;      // hr_submit() waiting for room
    uint64_t result_waits, result_wait_ns;  // hr_job_poll() and _wait()
    int jobs_in_flight, peak_jobs;
    int samples_in_flight, peak_samples;
    size_t bytes_in_flight, peak_bytes;
};

// Reads counters; costs a few system calls (one per thread). Threads: any.
HR_API void hr_device_profile(hr_device dev, struct hr_profile *profile);

HR_END_DECLS
#endif
