// SPDX-License-Identifier: Apache-2.0
// For engines: what a backend gives to the HAL and what it gets from it.
// A backend includes this header, the public ones and its own; nothing else
// of hal/.
//
// How a picture travels. hr_submit() makes one work per sample. A host thread
// prepares it (reads the file, parses the header, folds the ops to geometry)
// and plans it: the five stages are cut into spans, each on one engine. Then
// each span in turn becomes a task that its engine gets by submit(), together
// with others, and ends with hr__task_done(). What one span makes and the
// next reads is the payload between them; the last span writes pic->dst.
#ifndef HR__BACKEND_H
#define HR__BACKEND_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <headrace/headrace.h>

enum {
    HR__MAX_ENGINES = 4,  // in the chain of one device, the CPU included
    HR__MAX_STEPS = 8,    // resample steps of one sample
};

// ---- Geometry: what crop, resize and flip come to --------------------------

struct hr__rect {
    int x, y, w, h;
};

// One resample step, in the order in which it happens:
//   in  -> keep src -> mirror (pre) -> resize to rs (box, filter)
//       -> keep win -> transpose, mirror (post) -> out
// Several steps follow each other when an op list is not one of these.
struct hr__step {
    int in_w, in_h;       // the picture this step reads
    struct hr__rect src;  // inside it; the filter sees nothing else
    bool pre_x, pre_y;    // mirrored before the filter
    bool resized;         // false: rs is src, the filter does not run
    float box[4];         // Pillow's box, relative to src
    int rs_w, rs_h;
    enum hr_filter filter;
    bool v_first;         // the vertical pass comes before the horizontal one
                          // (with 8 bits between them, as always)
    struct hr__rect win;  // of the resized picture; may leave it (padding:
                          // what lies outside is byte 0)
    bool transpose, post_x, post_y;
    int out_w, out_h;
};

struct hr__geometry {
    int num_steps;  // >= 1
    struct hr__step steps[HR__MAX_STEPS];
};

// The weights of one axis of a step, made once here for every engine
// (hal/axis.c; Pillow src/libImaging/Resample.c precompute_coeffs): output i
// = sum of n[i] input samples from lo[i] on, in coordinates of the step's
// input; 22 fraction bits. Mirroring before and after is already in it.
struct hr__axis {
    int out;              // outputs that lie inside the resized picture
    int pad_before;       // outputs of win that lie outside, before them
    int taps, stride;     // largest n; weights from output to output
    int32_t *lo, *n, *w;  // [out], [out], [out * stride]
    int src_lo, src_hi;   // inputs that are read: [src_lo, src_hi)
    bool identity;        // every output is input src_lo + i
};

// Bytes that hr__axis_build() needs at mem (8-byte aligned). which: 0 = x,
// 1 = y.
size_t hr__axis_size(const struct hr__step *step, int which);
void hr__axis_build(struct hr__axis *axis, const struct hr__step *step,
                    int which, void *mem);

// ---- The picture: everything that is known before an engine starts ---------

// The store stage as a table; hal/table.c makes it once per job.
struct hr__table {
    float f32[3][256];
    uint16_t f16[3][256];
    uint8_t u8[3][256];
    bool u8_identity;
};

// Memory that an engine made, see memory_alloc. What else it must know of it
// the engine keeps behind this struct.
struct hr__memory {
    struct hr__engine *owner;
    size_t size;
    void *host;  // NULL: device memory; else the host may use it as its own
    struct hr_native native;
};

// Where the tensor shall be. data is NULL only for the engine whose own memory
// that is: it writes it in place, at byte `at`. Everybody else has data.
struct hr__dst {
    uint8_t *data;
    size_t stride_c, stride_h;  // bytes
    int w, h, c;
    enum hr_dtype dtype;
    enum hr_layout layout;
    struct hr__memory *memory;  // NULL: ordinary host memory
    size_t at;
};

struct hr__picture {
    const uint8_t *data;  // encoded source, NULL if it is pixels
    size_t size;
    struct hr_info info;    // of the encoded source
    hr_image image;         // or the source pixels (u8): its size and layout
    const uint8_t *pixels;  // and where it begins on the host; NULL only
    struct hr__memory *memory;  // for the engine that owns its memory, where
                                // it begins at byte 0
    int width, height;          // of the source
    enum hr_mode mode;          // of the decode
    int channels;               // 3 or 1, what color..store carry
    struct hr__geometry geo;
    const struct hr__table *table;
    struct hr__dst dst;
    enum hr_tier tier;
    const struct hr_limits *limits;
};

// First stage of a picture: HR_ENTROPY, or HR_RESAMPLE if it is pixels.
static inline enum hr_stage hr__picture_first(const struct hr__picture *pic)
{
    return pic->data ? HR_ENTROPY : HR_RESAMPLE;
}

// ---- Between spans ----------------------------------------------------------

// What a span leaves for the next one, in memory that the next engine named
// (its buffer_alloc, e.g. pinned upload memory). Freed by the HAL.
struct hr__payload {
    enum hr_stage after;  // the stage that made it
    void *data;
    size_t size;
    struct hr__rect rect;  // after COLOR: the window of the picture that is
                           // there; after RESAMPLE: the whole output
    size_t stride;         // bytes from row to row (pixels: interleaved u8)
    void *extra;           // after RECONSTRUCT: struct hr__planes
    struct hr__engine *owner;
    // Set by an engine whose own memory this is (a mapped surface): called
    // instead of freeing data, on any thread, no lock held.
    void (*release)(struct hr__payload *payload);
    void *release_ctx;
    // Not NULL: it lies in memory of the engine that made it, and there is no
    // data until hr__payload_map() is asked for it. As long as the payload.
    const struct hr__external *external;
    bool mapped;  // by hr__payload_map()
};

// Memory of one engine that another one reads where it lies. The maker has
// waited for its own writes before the payload goes on, and does not write
// again before the payload is released and everybody has let go. Who keeps the
// descriptor longer than the payload makes a copy of it; the copy keeps the
// memory, but does not keep its contents.
enum { HR__DMA_BUF = 1, HR__VA_SURFACE = 2 };  // kinds, as bits

struct hr__external {
    unsigned kind;
    int fd;             // the maker's; of a kind that has one
    uint64_t modifier;  // DRM's: 0, its bytes lie as hr__planes says
    size_t size;        // bytes, from the descriptor's byte 0 on
    // Of HR__VA_SURFACE, in NV12; how its bytes lie only drivers know, so
    // hr__planes says where they would if the surface had rows of `width`
    // bytes without gaps, and chroma followed after `height` of them.
    uint32_t surface, width, height;
    uint64_t id;  // of this memory, in this process never used again
    int place;    // at the maker, from 0 on: memory with another id at
                  // the same place means that the one before is gone
    void *ctx;    // the maker's
    // An engine that reads it by commands holds it while the task is claimed,
    // and lets go when the last of them has run; also if the task has ended
    // long since, and also after the maker was closed. One whose driver does
    // not answer never lets go. Any thread, no lock held, does not wait.
    void (*hold)(const struct hr__external *external);
    void (*let)(const struct hr__external *external);
    // Not NULL: only its maker makes it reachable for the host; gives the
    // payload data and size, and hr__planes that fit. May wait for the maker's
    // driver, not for ever.
    bool (*map)(struct hr__payload *payload);
};

// What the memory of an engine belongs to. An engine that opens behind it makes
// its own objects for that, or does without; it holds the handle before it
// tells a driver of it, and lets go when no driver has it any more. One whose
// driver does not answer never lets go, and then the handle stays open.
struct hr__origin {
    unsigned kind;  // HR__VA_SURFACE, or 0: there is none
    void *handle;   // the VADisplay: any thread may call its driver
    void *ctx;
    void (*hold)(void *ctx);  // any thread, no lock held, do not wait
    void (*let)(void *ctx);
};

// What a span that ends in ENTROPY leaves in its payload: one block of memory,
// compact enough for a bus, with this header at its start. Little endian, no
// padding; device code reads it as it is. The window of the picture that the
// geometry needs is in it, and around that window one more sample of every
// component on each side where the picture goes on.
enum { HR__COEF_MAGIC = 0x31434f45 };

struct hr__coef_component {
    uint32_t h, v;                // sampling factors
    uint32_t width, height;       // samples of the whole component, unpadded:
                                  // upsampling clamps its neighbours to them
    uint32_t block_x, block_y;    // the first block that is here, in the
                                  // component's own grid of 8x8 blocks
    uint32_t blocks_w, blocks_h;  // how many are here
    uint32_t first;               // its first record
    uint16_t quant[64];           // natural (row by row) order
};

// One block: the DC coefficient, which of the others are not 0 (bit i of
// mask = natural position i), and where their values begin, from the start of
// the values: one int8 each, low positions first; -128 is an escape, the
// int16 behind it is the value (two bytes, low first).
struct hr__coef_block {
    uint32_t values;
    int16_t dc;
    uint16_t reserved;
    uint32_t mask[2];  // low, high; bit 0 of low is never set
};

struct hr__coefficients {
    uint32_t magic;
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;
    uint32_t x, y, w, h;  // the window, in pixels
    uint32_t num_blocks;
    uint32_t blocks_at;  // bytes from the header to the records
    uint32_t values_at;  // and to the values
    uint32_t values_size;
    uint32_t range;  // 1: some sum may leave 16 bits, where
                     // decoders differ (SIMD semantics decide)
    struct hr__coef_component comp[3];
};

// What a span that ends in RECONSTRUCT leaves: the samples of each component
// as the IDCT made them, before upsampling. This header is at payload.extra
// (its memory is the payload's, or lives as long); the sample in column c and
// row r of component i is the byte comp[i].at + (r - y) * stride +
// (c - x) * step of payload.data. Packed by an engine of ours the header is the
// beginning of data; a surface that is mapped as it lies has its header
// elsewhere. Interleaved chroma (NV12) has step 2, that of YUY2 step 4. What
// is there covers the window of the picture that the geometry needs and one
// more sample of every component on each side where the picture goes on; it
// may be more, up to width and height, and nothing behind payload.size is
// read. Who reads it checks it: a header that cannot be true ends the span.
struct hr__plane {
    uint32_t h, v;           // sampling factors, 1 .. 4
    uint32_t width, height;  // samples of the whole component, unpadded:
                             // upsampling clamps its neighbours to them.
                             // ceil(picture * h / h_max), .. * v / v_max
    uint32_t x, y;           // the first sample that is here
    uint32_t cols, rows;     // how many are: x + cols <= width, ..
    uint32_t stride, step;   // bytes from row to row; sample to sample: 1, 2, 4
    uint64_t at;             // bytes from data to sample (x, y)
};

struct hr__planes {
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;    // multiples of every h, v; equal to those of an
                              // only component
    uint32_t x, y, w, h;      // the window that was wanted, in pixels
    struct hr__plane comp[3];
};

// ---- Tasks -------------------------------------------------------------------

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
// It still waits, and that is not the device's fault: the clock restarts.
void hr__task_waits(struct hr__task *task);
// Whether another engine makes it if this one ends it with HR_EDEVICE. Whether
// its job has a time limit, which runs in any case.
bool hr__task_may_leave(const struct hr__task *task);
bool hr__task_is_timed(const struct hr__task *task);

// True if the task should end early (cancelled, job timed out): asked between
// rows; then end it with hr__task_stop_status(). Cheap.
bool hr__task_stop(const struct hr__task *task);
enum hr_status hr__task_stop_status(const struct hr__task *task);

// Only for the host engine (the CPU): every task must pass here first, on the
// engine's own thread. A new one (prepared == false) has its file read, its
// header parsed and its plan made now. True: run task->span, then
// hr__task_done(). False: the HAL took it back; do not touch it.
bool hr__task_prepare(struct hr__task *task);

// Memory for the payload this span makes, from the next span's engine. NULL:
// out of memory. Free with the task by the HAL.
struct hr__payload *hr__task_payload(struct hr__task *task, size_t size);
// The same with memory of the engine's own, which stays valid until release()
// is called: exactly once, on any thread, no lock held.
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

// ---- The engine table ----------------------------------------------------------

// What an engine would do of a sample: one bit per span, and why not more.
struct hr__offer {
    uint32_t spans;  // bit HR__SPAN_BIT(first, last), in the picture's tier
    unsigned why;    // reasons for what it cannot do of a plain sample
};
#define HR__SPAN_BIT(first, last) \
    (UINT32_C(1) << ((first)*HR_NUM_STAGES + (last)))

enum { HR__SPECIMENS_LARGE = 1000 };

struct hr__backend;
struct hr__device;

// What an engine's work comes to (hal/meter.c); relaxed atomics, any thread.
struct hr__meter {
    const char *_Atomic name;  // of the engine, interned
    uint32_t serial;           // two of one name are two
    _Atomic uint64_t ns[HR_NUM_PARTS], times[HR_NUM_PARTS];
    _Atomic uint64_t tasks, batches, launches, bytes_up, bytes_down, idle_ns;
    _Atomic uint64_t bytes_imported, import_falls;
    struct {
        const char *_Atomic name;  // static text, best first
        _Atomic uint64_t samples;
    } rungs[HR_PROFILE_RUNGS];
    atomic_bool device_times;
    atomic_int num_threads;
    _Atomic(clockid_t) clocks[HR_PROFILE_THREADS];  // their CPU time
};

// A backend opened as part of a device. The HAL makes it.
struct hr__engine {
    const struct hr__backend *backend;
    struct hr__device *device;
    int index;      // in the device's chain
    bool host;      // the last of the chain: the CPU
    char name[64];  // "cpu", "opencl:0": open() fills these
    char description[192];
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

struct hr__backend {
    const char *name;
    size_t engine_size;  // of the private struct; the HAL allocates it

    // Names of devices that could be opened, also of absent ones (available =
    // false and a reason). May load a driver. NULL: just `name`.
    int (*list)(struct hr_device_info *infos, int max);

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
    // Optional. Some task that the engine may hold was cancelled: end those
    // that have not begun and for which hr__task_stop() is true. On a thread
    // of the library, no lock held.
    void (*cancel)(struct hr__engine *e);

    // Optional. Memory this engine reads payloads from fastest; NULL = heap.
    void *(*buffer_alloc)(struct hr__engine *e, size_t size);
    void (*buffer_free)(struct hr__engine *e, void *data, size_t size);

    // Optional, all or none: memory for images and batches, HR_MEMORY_PINNED or
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

    // Optional. Kinds of other engines' memory (HR__DMA_BUF, ..) that payloads
    // may come in now: it reads them without the host, or, if that fails after
    // all, by hr__payload_map(). May change; any thread, does not wait.
    unsigned (*imports)(struct hr__engine *e);
    // Optional. Called when an engine is about to open behind it. Engines close
    // in the order from the last of the chain to the first.
    void (*origin)(struct hr__engine *e, struct hr__origin *out);
    // Optional. All engines of the chain are open, and nobody knows the device
    // yet: it chooses how it hands on what it makes. e->description may change
    // here.
    void (*chained)(struct hr__engine *e);

    // Every engine that is not the host is tested at its first open, and its
    // spans are used as far as they proved exact (hal/certificate.c). true:
    // trusted without a test; for scripted engines of tests.
    bool trusted;
    // It makes planes and leaves the rest to others: an engine that goes on
    // from there is put behind it (hal/device.c), its certificate is kept by
    // kinds of JPEG, and its pictures are compared now and then
    // (hal/crosscheck.c).
    bool media;
    // Optional. What its pixels depend on besides the library's version and
    // e->description: the hash of its kernels, the driver's file. Text, valid
    // until close. Called when open() has returned.
    const char *(*fingerprint)(struct hr__engine *e);
    // Only the host. Encoded picture number i (0, 1, ...) for the test, in
    // room bytes at to; the same each time. False: there are no more. From
    // HR__SPECIMENS_LARGE on: at least 64 x 64, for engines with a lower limit.
    bool (*specimen)(struct hr__engine *e, int i, uint8_t *to, size_t room,
                     size_t *size);
};

// ---- Services -----------------------------------------------------------------

// Sets hr_last_status() and hr_last_error() of this thread; returns status.
enum hr_status hr__fail(enum hr_status status, const char *fmt, ...)
    HR_PRINTF(2, 3);

// To the device's log.
void hr__log(struct hr__device *dev, enum hr_log_level level, const char *fmt,
             ...) HR_PRINTF(3, 4);

// CLOCK_MONOTONIC in nanoseconds.
int64_t hr__now(void);
// Conditions by that clock. wait: false if the deadline has passed; INT64_MAX =
// never.
void hr__cond_init(pthread_cond_t *cond);
bool hr__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                   int64_t deadline);

// For what may take long because others use the machine: after the deadline
// there is another one as long as this process does something (a driver that
// hangs mostly sleeps, one that compiles does not), and the most has not passed.
struct hr__patience {
    int64_t deadline, most;
    int64_t cpu;  // ours, when it was looked at last
    int looks;
};
bool hr__wait_longer(struct hr__patience *p);

// Runs fn, which may hang in a driver, on a thread of its own; false if it has
// not come back in time (it then still uses arg, which must be left to it).
bool hr__errand(void (*fn)(void *arg), void *arg, int64_t timeout_ns);

// The way back to the HAL's structs, for threads that may be left behind with a
// driver: they keep off when it is closed. What only counts does so under the
// lock; what calls into the HAL (the log calls the user) passes: e is valid
// between pass, unless that returns NULL, and passed.
struct hr__way {
    pthread_mutex_t lock;  // taken alone
    pthread_cond_t empty;
    struct hr__engine *e;  // NULL: closed
    int passing;
};
void hr__way_open(struct hr__way *way, struct hr__engine *e);
struct hr__engine *hr__way_pass(struct hr__way *way);
void hr__way_passed(struct hr__way *way);
// Waits for those who pass.
void hr__way_close(struct hr__way *way);

// What keeps a JPEG decoder of whole scans, Huffman and 8 bits from it, besides
// colours and chroma: HR_WHY_*; HR_WHY_FORMAT alone, if it is no JPEG.
unsigned hr__why_not_baseline(const struct hr_info *info);

// Drivers that were touched before fork() hang the child. *user: the process
// that has used this one, from the first call with use. HR_EFORK with the
// reason: a parent has.
enum hr_status hr__fork_check(_Atomic pid_t *user, bool use, const char *what);

// Which loaded library has that address: its build id, or else its file's size,
// date and name. One line without its end; "" if none has it.
void hr__library_text(uintptr_t address, char *text, size_t size);

// Failures of an engine in a row, and the rest they earn; zeroed it is closed.
// Guarded by a lock of the engine's.
struct hr__breaker {
    int strikes;
    bool open;
    int64_t until, rest;  // ns
    int tokens;           // samples let in on probation
};
// 0 = offer; else HR_WHY_BREAKER. After a rest so many samples (`tokens`) are
// let in, one per call.
unsigned hr__breaker_ask(struct hr__breaker *b, int tokens, int64_t now);
void hr__breaker_note(struct hr__breaker *b, bool ok, int64_t now);

// ---- Watching (meter.c, trace.c) ------------------------------------------------
//
// How an engine tells what it does. Each function may be called on any thread,
// under any lock, costs one load if nobody watches, and never fails.
//
//   int64_t begin = hr__watch_begin();        // 0: nobody watches
//   ... the work ...
//   hr__watch_task(task, begin);              // a span of one sample, or
//   hr__watch_part(e, HR_PART_PACK, begin);   // what is not a sample's alone
//
// Both end now, on the thread that began, nested or apart. What a device did
// in its own time goes to hr__watch_device(), on one row per queue.

enum { HR__WATCH_TRACE = 1, HR__WATCH_TIMES = 2 };
extern _Atomic unsigned hr__watch;  // bits

static inline unsigned hr__watched(void)
{
#if HR_NO_WATCH  // tests/trace_cost.py: what does all this cost?
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
void hr__watch_part(struct hr__engine *e, enum hr_part part, int64_t begin);
// A part that is in pieces, or within a span that is reported: only summed.
void hr__watch_sum(struct hr__engine *e, enum hr_part part, int64_t ns);
// A thread waited for work. Only worth reporting if it did.
void hr__watch_idle(struct hr__engine *e, int64_t begin);
// On a device, in hr__now()'s time as far as that can be told; on one queue in
// order and apart. queue: static text, "compute". batch: which, from 1 on.
void hr__watch_device(struct hr__engine *e, const char *queue,
                      enum hr_part part, uint64_t batch, int64_t begin,
                      int64_t end);

// The only way the library gets heap memory: counted, and failed on purpose
// by tests. dev may be NULL. Memory is 64-byte aligned, not cleared.
void *hr__alloc(struct hr__device *dev, size_t size);
void hr__free(void *mem);

// Starts a thread of the library with all signals blocked. The only way: the
// HAL must know its threads (they may not take a device down), and tests fail
// them. False if the system says no.
bool hr__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

// *out = a * b; false if it does not fit.
static inline bool hr__mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

// Set by tests: 1 = the next allocation or thread start fails, 2 = the one
// after it, ...; 0 = none. Each failure is passed on as HR_ENOMEM.
void hr__test_fail_alloc(int64_t nth, bool for_ever);
int64_t hr__test_allocs(void);    // so far, of all devices
bool hr__test_should_fail(void);  // for other resources: threads, fds

#endif
