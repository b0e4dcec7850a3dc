// SPDX-License-Identifier: Apache-2.0
// The OpenCL backend: it makes tensors of coefficients or pixels, many pictures
// at once. More headers come with it: driver.h is OpenCL itself, batch.h a
// batch and its plan, payload.h and import.h what it reads. device_memory.h is
// what images lie in.
//
// Only the driver thread (thread 0 of the guard) calls OpenCL and, for the list
// of devices, a thread of hr__call_with_deadline(). The HAL's threads push
// to the guard's queue and return. The guard's clock thread and its helpers
// deliver what the device is done with; they never call OpenCL, so they never
// hang. An event callback, or the driver thread in its place (await.c), only
// marks its batch and wakes the clock thread.
//
// A driver may hang in any call; guard.h says what happens then.
//
//   submit() -> queue -> driver thread: batch FREE -> BUSY -> SENT
//                -> callback: DONE -> clock thread: DELIVERING -> FREE
//
// Locks: the guard's; it guards what is marked so below. "Locked" means it.
#ifndef HR_OPENCL_H
#define HR_OPENCL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backends/opencl/batch/batch.h"
#include "backends/opencl/driver.h"
#include "backends/opencl/batch/import.h"
#include "backends/opencl/memory/payload.h"
#include "hal/engine/engine.h"
#include "hal/engine/guard.h"
#include "kernels/layout.h"

// ---- choose.c --------------------------------------------------------------

enum { OCL_MAX_DEVICES = 16, OCL_TEXT = 128 };

// One device, as its driver describes it.
struct ocl_facts {
    cl_platform_id platform_id;
    cl_device_id device;
    cl_device_type type;
    int index;  // over all platforms
    char platform[OCL_TEXT], platform_version[OCL_TEXT], vendor[OCL_TEXT];
    char name[OCL_TEXT], driver[OCL_TEXT];
    cl_ulong max_alloc, global;
    bool usable;   // a compiler, little endian
    bool unified;  // its memory is the host's
    bool doubles;  // it computes in them
    size_t items;  // most of a work-group
    bool shares;   // surfaces of the engine in front, if the context knows it
};

// Sets o->facts to the device that o->which names, on the driver thread.
enum hr_status ocl_find(struct ocl *o);
// Lists all devices of all platforms, at most OCL_MAX_DEVICES. Calls OpenCL.
int ocl_find_devices(const struct ocl_api *api, struct ocl_facts *facts);

// Chooses the device that `which` names. HR_ENODEVICE: there is none; the
// message lists as many names as have room.
enum hr_status ocl_choose(const struct ocl_facts *facts, int n,
                          const char *which, int *chosen);

// ---- variant.c -------------------------------------------------------------

// The kernels that make a picture: one per stage, or the form for GPUs, which
// fuses reconstruct and color where the picture allows it, and resample and
// store. The bytes are the same, the speed is not.
enum ocl_variant { OCL_UNKNOWN, OCL_STAGED, OCL_GPU };

const char *ocl_variant_name(enum ocl_variant variant);
// Reads HEADRACE_OPENCL_VARIANT: OCL_UNKNOWN if it is not set. HR_EINVAL: it
// names no variant.
enum hr_status ocl_variant_wanted(enum ocl_variant *wanted);
// Reads where entropy coding shall be decoded, from the parameter or
// HEADRACE_OPENCL_ENTROPY. FASTER: the HAL chooses by timing it; SHARED: the
// HAL also divides pictures. HR_EINVAL as above. HR_WHERE_DEFAULT: neither the
// parameter nor the variable says where.
enum hr_status ocl_entropy_wanted(enum hr_where where, enum hr_where *wanted);
// Reads from HEADRACE_OPENCL_AUGMENT where codes are done; HR_WHERE_DEFAULT: it
// is not set. HR_EINVAL as above.
enum hr_status ocl_augment_wanted(enum hr_where *wanted);
// Sets o->variant, if it is not set, o->entropy and o->augment, once the device
// is known.
void ocl_variant_settle(struct ocl *o);
// Returns the default variant for such a device.
enum ocl_variant ocl_variant_of(cl_device_type type);

// ---- warm.c (on the driver thread, in a FREE batch) ------------------------

// Runs every kernel of the variant on pictures made up here; then batches are
// planned for it.
bool ocl_warm_up(struct ocl *o, struct ocl_batch *batch,
                 struct ocl_fault *fault);

// ---- context.c (on the driver thread) --------------------------------------

// Opens the context, the queues, the program and what else lives in them.
// False: the fault says why, and close releases what was made.
bool ocl_context_open(struct ocl *o, struct ocl_fault *fault);
void ocl_context_close(struct ocl *o);

// ---- program.c -------------------------------------------------------------

enum { OCL_KEY_BYTES = 1024 };

extern const char ocl_kernels_source[];  // made by CMake from kernels/*.cl

// On the driver thread. False: the fault says why.
bool ocl_program_open(struct ocl *o, struct ocl_fault *fault);
// Keeps the binary on disk, after every kernel has run once: some drivers
// compile when a kernel is first launched and only then have it all.
void ocl_program_save(struct ocl *o);
void ocl_program_close(struct ocl *o);

// ---- device_memory.c -------------------------------------------------------

// Pinned memory is held although its image or batch may be gone; and not any
// more. Locked
void ocl_memory_hold(struct hr__memory *memory);
void ocl_memory_let_go(struct ocl *o, struct hr__memory *memory);

// ---- The device ------------------------------------------------------------

enum { OCL_UPLOAD, OCL_COMPUTE, OCL_DOWNLOAD, OCL_QUEUES };

// Commands that a GPU has; the driver thread's.
typedef void(CL_CALLBACK *ocl_done_fn)(cl_event event, cl_int result,
                                       void *arg);
struct ocl_await {
    cl_event event;
    ocl_done_fn done;
    void *arg;
    int64_t since, asked;
};

// The threads that copy the tensors of a batch (deliver.c).
enum { OCL_HELPERS = 7 };
struct ocl_delivery {
    pthread_t threads[OCL_HELPERS];
    pthread_cond_t more, ended;  // helpers wait; and the clock thread
    pthread_mutex_t lock;        // taken alone; guards all that follows
    int helpers;
    const struct ocl_batch *batch;
    int next, left;  // the first item not taken yet; items not ended yet
    bool stop;
    uint64_t helped;  // items that helpers have ended, for tests
};

// The device's time (times.c); the driver thread's.
struct ocl_clock {
    bool on;                       // queues are profiled
    int64_t low, high;             // host's clock less the device's
    int64_t last[OCL_QUEUES + 1];  // when the last command ended; last: of
                                   // imports
    uint64_t launches;             // before this batch
};

// An opened device. A hung driver thread may still touch it, so it is memory of
// its own, left behind on purpose if that thread does not come back.
struct ocl {
    struct hr__guard guard;
    struct ocl_pool pool;
    struct ocl_pinned pinned;
    struct ocl_imports imports;
    struct hr__shared_display display;  // held while the driver may use it

    struct ocl_api api;  // below: the driver thread's
    struct ocl_facts facts;
    char which[OCL_TEXT];
    cl_context context;
    bool knows_display;  // the context, of o->display
    cl_command_queue queues[OCL_QUEUES];
    cl_program program;
    cl_kernel kernels[HR__NUM_KERNELS];
    enum hr_where where;  // entropy coding is to be decoded, if that was said
    bool first;           // no engine stands in front of this one
    bool entropy;  // the device decodes it; does not change once it is open
    bool augment;  // it has that stage; as entropy
    enum hr_where codes;  // .. if that was said
    bool program_cached;
    enum ocl_variant variant;
    char key[OCL_KEY_BYTES];
    struct ocl_batch batch[OCL_BATCHES];
    struct ocl_buffer planes;  // between kernels; of all batches, for the
                               // compute queue runs in order
    struct ocl_plan plan;      // of the batch in the making
    struct ocl_axes axes;
    struct hr__table levels;  // of pixels for the next engine
    size_t budget;            // the user's
    int most;                 // pictures of a batch
    size_t buffer_bytes;      // most that one buffer may take,
    size_t work_bytes;        // and the one between kernels
    struct ocl_clock times;
    struct ocl_delivery delivery;
    bool asks;  // for the end of commands; else the driver calls back
    struct ocl_await awaits[OCL_BATCHES];
    int num_awaits;

    // Locked. While guard.held the driver completes the program, and nothing
    // else is begun.
    bool unkept;        // its program is new and not on disk yet
    int64_t compiled;   // guard.held until then at most
    bool overcompiled;  // it took longer, and has had a strike for that
    cl_context current;
    struct ocl_slab *slabs;        // that have users, or may have
    struct ocl_slab *old_slabs;    // for the driver thread to release
    int empty_slabs;               // of those in slabs
    struct ocl_request *requests;  // for the driver thread

    _Atomic uint64_t batches, launches, transfers;  // for tests
};

static inline void ocl_event_release(struct ocl *o, cl_event *event)
{
    if (*event)
        o->api.clReleaseEvent(*event);
    *event = NULL;
}

struct ocl_engine {  // what the HAL allocates
    struct ocl *o;
};

static inline struct ocl *ocl_of(struct hr__engine *e)
{
    assert(!strcmp(e->backend->name, "opencl"));
    return ((struct ocl_engine *)e->priv)->o;
}

// ---- guard.c, thread.c, complete.c -----------------------------------------

// How long tasks that no other engine can do may wait until a new program is
// complete.
#define OCL_COMPILE_NS INT64_C(60000000000)

extern const struct hr__guard_ops ocl_guard_ops;

// Functions of ocl_guard_ops: the driver thread opens, works and closes; a
// batch that is DONE is delivered.
enum hr_status ocl_open_first(void *o);
bool ocl_drive(void *o);
bool ocl_complete(void *o);
// Releases the display of the engine in front, if it is still held.
void ocl_release_display(struct ocl *o);

// Around calls to OpenCL on the driver thread. leave: false = too long, the
// tasks of BUSY batches are gone.
static inline void ocl_enter(struct ocl *o)
{
    hr__guard_enter(&o->guard, 0);
}

static inline bool ocl_leave(struct ocl *o)
{
    return hr__guard_leave(&o->guard, 0);
}

// ---- deliver.c -------------------------------------------------------------

void ocl_deliver_init(struct ocl *o);
// Starts helpers where tensors are copied: half as many as the host has threads
// (0: usable cores), at most OCL_HELPERS; fewer if the system says no.
void ocl_deliver_start(struct ocl *o, int threads);
void ocl_deliver_stop(struct ocl *o);
// Ends all items of a batch that is DELIVERING, on the clock thread.
void ocl_deliver(struct ocl *o, const struct ocl_batch *batch);

// ---- await.c (on the driver thread) ----------------------------------------

// done() shall be called when the commands before the event have ended, on any
// thread. The event lives until then. False: the fault says why, and nothing
// was done.
bool ocl_await(struct ocl *o, cl_event event, ocl_done_fn done, void *arg,
               struct ocl_fault *fault);
// Returns when to look next at the awaited events; INT64_MAX: there are none.
int64_t ocl_await_due(const struct ocl *o);
// Calls done() of what has ended. Not locked
void ocl_await_look(struct ocl *o);
// Called with the context's close: no event is awaited any more.
void ocl_await_close(struct ocl *o);

// ---- times.c (on the driver thread) ----------------------------------------

// Properties for queues that are made now.
cl_command_queue_properties ocl_times_queue(struct ocl *o);
// Called before a batch's upload is enqueued, after that, and after all of it.
void ocl_times_begin(struct ocl *o, struct ocl_batch *batch);
void ocl_times_uploaded(struct ocl_batch *batch);
void ocl_times_sent(struct ocl *o, struct ocl_batch *batch, size_t up,
                    size_t down);
// Counts copies, of which only the bytes are known.
void ocl_times_moved(struct ocl *o, size_t up, size_t down);
// Return the place for the event of command i of an upload that has several; of
// the begin of imports; of a launch. NULL: the event is not wanted.
cl_event *ocl_times_upload(struct ocl *o, struct ocl_batch *batch, int i);
cl_event *ocl_times_import(struct ocl *o, struct ocl_batch *batch);
cl_event *ocl_times_kernel(struct ocl *o, struct ocl_batch *batch, int launch,
                           int kernel);
// Reports the batch's events before they are released, and releases its own.
void ocl_times_read(struct ocl *o, struct ocl_batch *batch);
// Locked, but it unlocks for a while: reads a batch that is FREE again, while
// there is nothing else to do. False: there is none.
bool ocl_times_idle(struct ocl *o);

// ---- offer.c, submit.c, enqueue.c ------------------------------------------

void ocl_offer(struct hr__engine *e, const struct hr__picture *pic,
               struct hr__offer *out);
uint32_t ocl_spans(const struct ocl *o);

// Sends a BUSY batch, on the driver thread. *rest: the tasks that did not fit.
// False: the fault says why, and the other tasks are still the batch's.
bool ocl_run_batch(struct ocl *o, struct ocl_batch *batch,
                   struct hr__task **rest, struct ocl_fault *fault);
// Makes buffers for the planned batch.
bool ocl_grow(struct ocl *o, struct ocl_batch *batch, struct ocl_fault *fault);
// For the planned batch: fill copies the plan into pinned memory, in front of
// the sources; enqueue enqueues upload, kernels and download.
void ocl_fill(struct ocl *o, struct ocl_batch *batch, enum hr_stage first);
bool ocl_enqueue(struct ocl *o, struct ocl_batch *batch,
                 struct ocl_fault *fault);

#endif
