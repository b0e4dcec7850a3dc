// SPDX-License-Identifier: Apache-2.0
// Devices: where pictures are made. "cpu" is always there; every other
// backend is found at run time, on first use.
//
// Life of a device: nothing happens when the library is loaded. A device opens
// on first use (or by hr_device_open), starts its threads then, and is shared
// by all its holders. After fork() the child starts afresh: the default device
// reopens, by the name that hr_set_image_backend() got; handles from before the
// fork answer HR_EFORK.
#ifndef HEADRACE_DEVICE_H
#define HEADRACE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/cache.h>
#include <headrace/probe.h>
#include <headrace/reference.h>
#include <headrace/stage.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

#define HR_FOREVER ((int64_t)-1)  // as a timeout in nanoseconds

// The abilities of a device. 0 = it cannot, or no limit where it says so.
struct hr_caps {
    // spans[tier] has HR_SPAN_BIT() of each span that the device offers in
    // that tier for a plain sample (baseline JPEG, any filter); a particular
    // sample may get fewer, as its result says.
    uint32_t spans[3];
    int threads;       // host threads of its own
    int max_side;      // largest picture side; 0 = HR_MAX_SIDE
    int batch;         // samples it likes to get together; 1 = any number
    bool host_memory;  // reads and writes host memory in place
    bool exact;        // every span it offers is bit-exact on this machine
    bool software;     // runs on the host's own processor (PoCL, llvmpipe):
                       // for tests; "auto" passes it over
};

// Kinds of JPEG: how their components are sampled.
enum hr_jpeg_kind {
    HR_KIND_ALL = -1,  // in a record: pictures of every kind, PNG too
    HR_KIND_GRAY,
    HR_KIND_420,
    HR_KIND_422,
    HR_KIND_440,
    HR_KIND_444,
    HR_KIND_411,
    HR_NUM_KINDS
};

// "gray", "4:2:0", ...; static storage. Threads: any.
static inline const char *hr_jpeg_kind_name(enum hr_jpeg_kind kind)
{
    static const char *const names[HR_NUM_KINDS] = {"gray",  "4:2:0", "4:2:2",
                                                    "4:4:0", "4:4:4", "4:1:1"};

    return kind >= 0 && kind < HR_NUM_KINDS ? names[kind] : "";
}

// How one span of a device compared with the CPU's readable C, over generated
// pictures. Differences in levels of 0 .. 255, of all elements; a bit that
// differs in a float counts, too.
struct hr_certificate_record {
    struct hr_span span;
    enum hr_jpeg_kind kind;  // of the pictures. A media engine's kinds are
                             // judged one by one
    enum hr_tier tier;       // in which the span was tried
    int pictures;            // compared; 0 = the test could not reach it
    double differing;        // share of the elements, 0 .. 1; 0 = bit-exact
    double max, mean;        // difference
    double psnr;             // in dB, over all elements; 0 = nothing differs
    bool failed;             // the device failed, or (in tier FAST) a picture
                             // was not alike: not used
};

// The certificate of a device: made when it is first opened, kept on disk
// ($XDG_CACHE_HOME/headrace or ~/.cache/headrace) until device, driver or
// library change. A span that differs, or was not compared, is not used in
// tier EXACT; in the other tiers only if it differs by at most 2 levels and
// begins before resample. A sample that is passed over for that has
// HR_WHY_CERTIFICATE. A media engine has records for each kind of JPEG that it
// takes: one of its planes, as its inverse DCT leaves them; and one of what its
// video processor scales in its own way, which is used in tier FAST if every
// picture was alike (see struct hr_difference). A kind without a record is not
// used. A code of stage augment that differs by itself costs the device only
// the pictures that have it, from augment on. The CPU needs no certificate. The
// variable HEADRACE_CERTIFICATE:
// "again" = test although there is one; "off" = trust the device untested.
struct hr_certificate {
    int64_t tested;        // seconds since 1970; 0 = there is none
    uint32_t wrong_codes;  // of stage augment: a bit for each, see
                           // hr_augment_code_name()
    int num_records;
    struct hr_certificate_record
        records[HR_NUM_STAGES * (HR_NUM_STAGES + 1) / 2];
};

// For hr_device_params.threads of the device "cpu": no threads. hr_submit()
// makes the pictures on the calling thread, before it returns. A thread that is
// at that already makes those of other callers, too. It is for processes that
// should have no threads, as one that forks. (Callbacks and deadlines still
// start one.) Images of another device and a cpu_cap are refused: HR_EINVAL.
enum { HR_THREADS_NONE = -1 };

// The place of work that host and device both can do.
enum hr_where { HR_WHERE_DEFAULT, HR_WHERE_HOST, HR_WHERE_DEVICE };

struct hr_device_params {
    int threads;          // host worker threads; 0 = usable cores (affinity
                          // mask and cgroup quota), or HR_THREADS_NONE.
                          // Else below 0, above 4096: HR_EINVAL
    size_t budget;        // bytes that all jobs in flight may hold; 0 = 256
                          // MiB. One job and one sample are always let in;
                          // a sample that needs more than a quarter while it
                          // is at work may go over the budget
    unsigned cpu_mask;    // instruction sets the CPU engine may use, HR_CPU_*;
                          // 0 = all there are, up to the one that the variable
                          // HEADRACE_CPU names: c, avx2, avx512, neon
    bool strict;          // never fall back to another engine
    int64_t deadline_ns;  // for a span on a device that is not the CPU; 0 = 10
                          // s. It runs from when the device begins the span;
                          // time in the queue counts only while the device
                          // makes no progress. A driver that stays in one
                          // call for longer gets no more work until the call
                          // returns; after three such calls, each within an
                          // hour of the one before, until the device is opened
                          // anew. Opening and closing a device wait for a
                          // driver this long, but at least 2 s, and up to a
                          // minute longer while it computes (it may compile)
    int depth;            // pictures in flight on a media engine; 0 = 8, up
                          // to 24
    void *va_display;     // the caller's VADisplay, initialised, for "vaapi";
                          // it must outlive the device (see on_closed). NULL =
                          // our own
    struct hr_limits limits;
    hr_log_fn log;  // NULL = the process default of hr_set_log()
    void *log_ctx;
    // Called once when an opened device has ended: the library no longer uses
    // anything of the caller's (display, log), unless left_behind says that a
    // hung driver still has it. It is called on any thread, in
    // hr_device_close() or some time after that has returned, and may not use
    // the library.
    void (*on_closed)(void *ctx, bool left_behind);
    void *closed_ctx;
    // The reference that its resizes follow; 0 = that of the process when a job
    // is submitted, see hr_set_reference() and hr_device_reference().
    enum hr_reference reference;
    // That keeps what it decodes; the device has a reference of its own. NULL =
    // that of the process when a job is submitted, see hr_set_cache().
    hr_cache cache;
    // Where the entropy coding of the JPEGs that an OpenCL device makes is
    // decoded; the host decodes what the kernels do not support. 0 = as the
    // variable HEADRACE_OPENCL_ENTROPY says, host or device; without it on a
    // GPU with memory of its own, if no media engine stands in front of it,
    // else on the host
    enum hr_where entropy;
    // The engines of the device share the samples: each goes to the one that,
    // by what tasks took so far, lets all be done soonest; what the CPU gets so
    // has HR_WHY_BUSY. Only engines whose part of a sample is bit-exact by
    // their certificate share it, and none that is the CPU by another name
    // (caps.software): a picture never depends on the engine. The others get
    // all that they can do, as without this; so does the first engine where
    // strict is set, or hr_job_params.spans
    bool balance;
    // Most CPU time that the host threads may use, in percent of the usable
    // cores; 0 = no limit. They rest when they have used more: what can be made
    // elsewhere goes there first, if the engines share. Over some tenths of a
    // second; a picture that is begun is made. Above 100: HR_EINVAL
    int cpu_cap;
    // With balance: how long a job should take at most, from its submission, 99
    // times of 100; an engine that is too slow for that gets none of its
    // samples. 0 = no target. Below 0: HR_EINVAL
    int64_t latency_ns;
};
#define hr_device_params(...) (&(struct hr_device_params){__VA_ARGS__})

// For cpu_mask. HR_CPU_C alone is the readable reference.
enum { HR_CPU_C = 1, HR_CPU_AVX2 = 2, HR_CPU_AVX512 = 4, HR_CPU_NEON = 8 };

// A device. Handles point to facts that never change; all are read-only.
// Threads: safe.
typedef const struct hr_device_t {
    const char *name;         // "cpu", "opencl:0"
    const char *backend;      // "cpu", "opencl", "vaapi"
    const char *description;  // hardware, driver and its version, one line
    struct hr_caps caps;      // what the certificate leaves of them
    struct hr_device_params params;  // as given; defaults filled in of threads,
                                     // budget, deadline_ns and limits
    struct hr_certificate certificate;
} *hr_device;

// Returns the name of a code of stage augment ("hue", "warp"), by its number in
// hr_certificate.wrong_codes; NULL if there is none. Threads: any.
HR_API const char *hr_augment_code_name(int code);

// The one call: sets the default device of this process, which NULL means
// everywhere. "auto" (or NULL): the variable HEADRACE_BACKEND if it is set,
// else the first backend of the table that works, the CPU last; devices that
// are this machine's processor by another name (caps.software) are only taken
// by name. A name that cannot open is an error and changes nothing:
// HR_ENODEVICE or HR_EDEVICE, the reason in hr_last_error(). Work in flight
// on the old default goes on, and images and batches that it made stay valid;
// the new default can use those in host memory, too. A batch that is submitted
// to with dev NULL stays with the device that made it, which lives as long as
// the batch; to use the new device, name it, or make a new batch.
// Threads: any.
HR_API enum hr_status hr_set_image_backend(const char *name);

// Returns the name of the default device, and opens it if it is not open. NULL
// if it cannot open (HEADRACE_BACKEND names a device that does not work). A
// copy, valid until the next call by the same thread. Threads: any.
HR_API const char *hr_get_image_backend(void);

// Opens a device: "cpu", "opencl", "opencl:1", ...; NULL or "auto" as above.
// params may be NULL. NULL on failure, with hr_last_status() and
// hr_last_error(). Each open makes a device of its own (threads, budget).
// The first open of a device tests it, see struct hr_certificate.
// Pair with hr_device_close(). Threads: any.
HR_API hr_device hr_device_open(const char *name,
                                const struct hr_device_params *params);

// Returns the reference that a job follows if it is submitted to dev now. NULL
// = the default device, which this does not open: the process's. Never
// HR_REFERENCE_DEFAULT. Threads: any.
HR_API enum hr_reference hr_device_reference(hr_device dev);

// Returns the device with one more reference, for hr_device_close(), so that
// another thread may close its own meanwhile; dev NULL is the default device,
// which this opens if it is not open yet. NULL with hr_last_error(): HR_EFORK,
// or what opening says. Threads: any; the caller's dev must be open.
HR_API hr_device hr_device_retain(hr_device dev);

// Gives up a device and sets *dev to NULL. Its jobs go on; the last user takes
// it down, which may be a thread of the library after this has returned (see
// on_closed). A hung driver is left behind after its deadline.
// NULL and pointers to NULL are fine. Threads: any, but not from a callback.
HR_API void hr_device_close(hr_device *dev);

// Counters since the device was opened.
struct hr_stats {
    uint64_t jobs, samples;         // done
    uint64_t failed, canceled;      // samples
    uint64_t fallbacks;             // samples that changed engine
    uint64_t fallback_reasons[32];  // per HR_WHY bit
    uint64_t heap_allocations;      // by the library, for this device
    uint64_t abandoned;             // spans given up on a hung device
    uint64_t checked, mismatches;   // pictures of a media engine that the CPU
                                    // made again, and that differed: then the
                                    // engine is left, see HR_WHY_MISMATCH
    size_t bytes_in_flight, peak_bytes;
    // Memory that the drivers of engines other than the CPU have made, for
    // images, batches and pictures on their way, as far as its size is known.
    // Memory that is kept for later use counts, too.
    size_t device_bytes, peak_device_bytes;
    // Samples that a cache had, and samples that it could have had; and of the
    // cache that samples use which name none: see struct hr_cache_stats.
    uint64_t cache_hits, cache_misses, cache_evictions;
    size_t cache_bytes;
    // With hr_device_params.balance: the samples that each engine of the chain
    // was given, in the order of hr_device_profile(); as the first of its
    // engines, if a sample has several.
    uint64_t shares[4];
    // Samples that were made of pixels decoded for another of their job, which
    // reads the same bytes.
    uint64_t shared;
};
HR_API void hr_device_stats(hr_device dev, struct hr_stats *stats);

// A line about a device that could exist; there is one for each.
struct hr_device_info {
    char name[64], backend[16], description[512];
    bool available;
    char reason[192];     // why it is not available; "" if it is
    struct hr_caps caps;  // if available
    struct hr_certificate certificate;
};
// Writes up to max lines in order of preference, returns how many there are.
// Opens and closes each device. Threads: any.
HR_API int hr_device_list(struct hr_device_info *infos, int max);

// A library without which a part of this one does not work.
struct hr_library_info {
    const char *name;      // of its file
    const char *purpose;   // what needs it, as in "URLs as sources"
    const char *package;   // Debian's
    bool built;            // false: this build was made without it
    bool linked;           // else it is opened when it is needed
    const char *variable;  // of the environment, names another file; or NULL
};
// The row of number 0, 1, ...; NULL: there are no more. Threads: any.
HR_API const struct hr_library_info *hr_library_info(int number);
// Says whether it is there, by opening it. Threads: any.
HR_API bool hr_library_found(int number);

HR_END_DECLS
#endif
