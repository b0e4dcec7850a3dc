// SPDX-License-Identifier: Apache-2.0
// The OpenCL backend: pictures from coefficients or pixels to tensors, many at
// once. Two more rooms come with this header: driver.h is OpenCL itself,
// batch.h a batch and its plan.
//
//   loader.c   libOpenCL at run time
//   error.c    OpenCL's codes
//   device.c   which devices there are; open, close, describe
//   choose.c   which of them a name means
//   offer.c    what it takes of a picture
//   program.c  kernels: built, or from the cache on disk
//   guard.c    what the guard (hal/guard/) asks of this engine
//   thread.c   the driver thread
//   complete.c what has landed: to the tensors, and the tasks' end
//   ring.c     slots: memory of one batch on its way
//   submit.c   one batch: planned, packed, on its way
//   enqueue.c  its commands: one upload, the kernels, one download
//   plan.c     what the kernels are told, as memory
//   pack.c     one picture: what the kernels must know of it
//   memory.c   what payloads lie in
//   pinned.c   the same where the device can fetch it
//   device_memory.c   what images and batches lie in, if not in the host's
//   import.c   memory of other engines, read where it lies
//   surface.c  the same of VA-API surfaces
//   copy.c     batches of copies from and to that
//   warm.c     kernels run once, when the device is opened
//   variant.c  which kernels suit the device
//   times.c    when the device did what, for traces and profiles
//
// Who calls OpenCL. Only the driver thread (lane 0 of the guard) and, for the
// list of devices, a thread of hr__call_with_deadline(). The HAL's threads push
// to the guard's queue and return. The guard's clock thread delivers what has
// landed; it never calls OpenCL, so it never hangs. An event callback only
// marks its slot and wakes that thread.
//
// A driver may hang in any call; guard.h says what happens then.
//
//   submit() -> queue -> driver thread: slot FREE -> BUSY -> FLYING
//                -> callback: LANDED -> clock thread: DELIVERING -> FREE
//
// Locks: the guard's; it guards what is marked so below. "Locked" means it.
#ifndef HR_OPENCL_H
#define HR_OPENCL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backends/opencl/batch.h"
#include "backends/opencl/driver.h"
#include "hal/engine/engine.h"
#include "hal/engine/guard.h"
#include "kernels/layout.h"

// ---- device.c --------------------------------------------------------------

enum { OCL_MAX_DEVICES = 16, OCL_TEXT = 128 };

// One device, as its driver describes it.
struct ocl_facts {
    cl_platform_id platform_id;
    cl_device_id device;
    cl_device_type type;
    int index;  // over all platforms
    char platform[OCL_TEXT], platform_version[OCL_TEXT], vendor[OCL_TEXT];
    char name[OCL_TEXT], driver[OCL_TEXT];
    cl_uint units;
    size_t max_group;
    cl_ulong max_alloc, global, local;
    bool usable;   // a compiler, little endian
    bool unified;  // its memory is the host's
    bool shares;   // surfaces of the engine in front, if the context knows it
};

// On the driver thread: o->facts of the device that o->which names.
enum hr_status ocl_find(struct ocl *o);
bool ocl_context_open(struct ocl *o, struct ocl_fault *fault);
void ocl_context_close(struct ocl *o);
// All devices of all platforms, at most OCL_MAX_DEVICES. Calls OpenCL.
int ocl_find_devices(const struct ocl_api *api, struct ocl_facts *facts);

// ---- choose.c --------------------------------------------------------------

// The one that which names; HR_ENODEVICE with the names there are, or as many
// as have room.
enum hr_status ocl_choose(const struct ocl_facts *facts, int n,
                          const char *which, int *chosen);

// ---- variant.c -------------------------------------------------------------

// Which kernels make a picture: one per stage, or reconstruct and color in one
// where the picture allows it. The same bytes, another speed.
enum ocl_variant { OCL_UNKNOWN, OCL_STAGED, OCL_FUSED, OCL_TIMED };

const char *ocl_variant_name(enum ocl_variant variant);
// HEADRACE_OPENCL_VARIANT; OCL_UNKNOWN if there is none. HR_EINVAL: no name.
enum hr_status ocl_variant_wanted(enum ocl_variant *wanted);
// o->wish, once the device is known: what its program must have.
void ocl_variant_settle(struct ocl *o);
// On the driver thread, in a FREE slot: o->plan.fuse, as wished, as found out
// before, or as a short timing says. False: the fault says why.
bool ocl_variant_choose(struct ocl *o, struct ocl_slot *slot,
                        struct ocl_fault *fault);

// ---- program.c -------------------------------------------------------------

enum { OCL_KEY_BYTES = 1024 };

extern const char ocl_kernels_source[];  // made by CMake from kernels/*.cl

// On the driver thread. False: the fault says why.
bool ocl_program_open(struct ocl *o, struct ocl_fault *fault);
// Keeps the binary on disk, after every kernel has run once: some drivers
// compile when a kernel is first launched and only then have it all.
void ocl_program_save(struct ocl *o);
void ocl_program_close(struct ocl *o);

// ---- memory.c --------------------------------------------------------------

enum { OCL_CLASSES = 4 * 28 };

struct ocl_pool {
    pthread_mutex_t lock;  // taken alone
    struct ocl_block *free[OCL_CLASSES];
    size_t kept;
};

void ocl_pool_init(struct ocl_pool *pool);
void ocl_pool_finish(struct ocl_pool *pool);
void *ocl_buffer_alloc(struct hr__engine *e, size_t size);
void ocl_buffer_free(struct hr__engine *e, void *data, size_t size);

// ---- pinned.c --------------------------------------------------------------

enum { OCL_CHUNKS = 6 };
#define OCL_CHUNK_BYTES ((size_t)16 << 20)

struct ocl_chunk {
    struct ocl_buffer buffer;
    size_t used;
    int holders;   // payloads in it, and slots whose upload reads it
    bool retired;  // of a context that was closed
};

struct ocl_pinned {
    pthread_mutex_t lock;  // taken alone
    struct ocl_chunk chunks[OCL_CHUNKS];
    int filling;
    bool wanted;  // somebody found no room
    atomic_bool on;
};

void ocl_pinned_init(struct ocl_pinned *p);
void ocl_pinned_finish(struct ocl_pinned *p);
// NULL: there is no room, or none for such a device.
void *ocl_pinned_alloc(struct ocl_pinned *p, size_t size);
// False: it is not from here.
bool ocl_pinned_free(struct ocl_pinned *p, void *data);
// True: the device can fetch it.
bool ocl_pinned_has(struct ocl_pinned *p, const void *data);
// The chunk of data is the slot's, too, until it lets go of all it holds.
void ocl_pinned_hold(struct ocl_pinned *p, struct ocl_slot *slot,
                     const void *data);
void ocl_pinned_let(struct ocl_pinned *p, struct ocl_slot *slot);
// On the driver thread, as the context opens and closes, and before a batch:
// makes a chunk if one was wanted.
void ocl_pinned_open(struct ocl *o);
void ocl_pinned_close(struct ocl *o);
void ocl_pinned_grow(struct ocl *o);
// Puts a batch's pinned payloads into as few runs as there are gaps between
// them, and those one behind the other from byte base of the upload on. Where
// they end.
size_t ocl_pinned_arrange(struct ocl_slot *slot, size_t base);

// ---- import.c --------------------------------------------------------------

enum { OCL_IMPORTS = 32 };

struct ocl_import {
    cl_mem mem, chroma;  // two images
    struct hr__external of;
};

// Acquires or releases objects, as the extension has both.
typedef cl_int(CL_API_CALL *ocl_acquire_fn)(cl_command_queue, cl_uint,
                                            const cl_mem *, cl_uint,
                                            const cl_event *, cl_event *);

struct ocl_imports {
    atomic_bool failed, on;  // failed: for good; on: in this context
    ocl_acquire_fn acquire, release;
    void (*from_surface)(void);  // clCreateFromVA_APIMediaSurfaceINTEL
    // By the place of what was imported. What is at no place any more stays
    // until another comes to it, or the device is closed.
    struct ocl_import of[OCL_IMPORTS];
};

// On the driver thread, as the context opens and closes.
void ocl_import_open(struct ocl *o);
void ocl_import_close(struct ocl *o);
unsigned ocl_import_kinds(struct hr__engine *e);
// From now on none are taken; counted.
void ocl_import_give_up(struct ocl *o, const struct ocl_fault *fault);
bool ocl_has_extension(struct ocl *o, cl_device_id device, const char *name);
// *to: a pointer to the function; false: there is none.
bool ocl_import_entry(struct ocl *o, cl_platform_id platform, const char *name,
                      void *to);
// Before a batch is planned: objects for all that it shall read. False: the
// driver did not answer, as ocl_leave().
bool ocl_import_all(struct ocl *o, struct ocl_slot *slot);
// The object of a claimed payload; NULL: it goes through the host.
struct ocl_import *ocl_import_of(struct ocl *o, const struct hr__payload *in);
// While its task is claimed: the item's memory is the slot's, too, until it
// lets go of all it holds. forget: it never does, a driver may still read.
void ocl_import_hold(struct ocl_slot *slot, struct ocl_item *item,
                     const struct hr__payload *in);
void ocl_import_let(struct ocl_slot *slot);
void ocl_import_forget(struct ocl_slot *slot);
// Where in the upload its items come to lie: from byte base on.
void ocl_import_arrange(struct ocl_slot *slot, size_t base);
// In the upload queue. done: the last command's event, if there is any.
bool ocl_import_enqueue(struct ocl *o, struct ocl_slot *slot, cl_mem to,
                        cl_event *done, struct ocl_fault *fault);

// ---- surface.c (on the driver thread) --------------------------------------

// Which devices share surfaces with the engine in front.
void ocl_surface_find(struct ocl *o, struct ocl_facts *facts, int n);
// What a context must have for that: how many words, 0 = it is not wanted.
int ocl_surface_properties(const struct ocl *o, cl_context_properties *to);
// The context is there: whether surfaces can be imported.
bool ocl_surface_open(struct ocl *o);
// Images for m->of. False: the fault says why.
bool ocl_surface_import(struct ocl *o, struct ocl_import *m,
                        struct ocl_fault *fault);
// Finds the rows of a copy in the images.
void ocl_surface_place(const struct ocl_import *m, struct ocl_copy *c);
bool ocl_surface_copy(struct ocl *o, cl_mem to, const struct ocl_copy *c,
                      struct ocl_fault *fault);

// ---- The device ------------------------------------------------------------

enum { OCL_UPLOAD, OCL_COMPUTE, OCL_DOWNLOAD, OCL_QUEUES };

// The device's time (times.c); the driver thread's.
struct ocl_clock {
    bool on;                       // the queues tell
    int64_t low, high;             // host's clock less the device's
    int64_t last[OCL_QUEUES + 1];  // when the last command ended; of imports
    uint64_t launches;             // before this batch
};

// What a hung driver thread may still touch: it is its own memory, left behind
// on purpose if that thread does not come back.
struct ocl {
    struct hr__guard guard;
    struct ocl_pool pool;
    struct ocl_pinned pinned;
    struct ocl_imports imports;
    struct hr__origin origin;  // held while the driver may have it

    struct ocl_api api;  // below: the driver thread's
    struct ocl_facts facts;
    char which[OCL_TEXT];
    cl_context context;
    bool knows_display;  // the context, of o->origin
    cl_command_queue queues[OCL_QUEUES];
    cl_program program;
    cl_kernel kernels[HR__NUM_KERNELS];
    bool program_cached;
    enum ocl_variant wish;   // OCL_TIMED: the faster one
    enum ocl_variant timed;  // which that is, kept with the program
    bool timed_now;          // at this open, for tests
    char key[OCL_KEY_BYTES];
    struct ocl_slot slots[OCL_SLOTS];
    struct ocl_buffer planes;  // between kernels; of all slots, for the
                               // compute queue runs in order
    struct ocl_plan plan;      // of the batch in the making
    int batch;                 // most samples of one, <= OCL_BATCH
    size_t slot_bytes;         // most that one buffer may take,
    size_t work_bytes;         // and the one between kernels
    struct ocl_clock times;

    // Locked. guard.held: the driver completes the program, nothing else is
    // begun.
    bool unkept;        // its program is new and not on disk yet
    int64_t compiled;   // guard.held until then at most
    bool overcompiled;  // it took longer, and has had a strike for that
    cl_context current;
    struct ocl_slab *slabs;        // that have users, or may have
    struct ocl_slab *old_slabs;    // to be let go by the driver thread
    int empty_slabs;               // of those in slabs
    struct ocl_request *requests;  // for the driver thread

    _Atomic uint64_t batches, launches, transfers;  // for tests
};

struct ocl_engine {  // what the HAL allocates
    struct ocl *o;
};

struct ocl *ocl_of(struct hr__engine *e);

// ---- guard.c, thread.c, complete.c -----------------------------------------

// How long a new program's completion may keep those waiting whom nobody else
// can serve.
#define OCL_COMPILE_NS INT64_C(60000000000)

extern const struct hr__guard_ops ocl_guard_ops;
// As hr__guard_stop().
bool ocl_stop(struct ocl *o, struct hr__engine *e);

// Of ocl_guard_ops: the driver thread; what has landed.
enum hr_status ocl_open_first(void *o);
bool ocl_drive(void *o);
bool ocl_complete(void *o);
// The display of the engine in front, if it is still held.
void ocl_let_origin(struct ocl *o);

// Around calls to OpenCL on the driver thread. leave: false = too long, the
// tasks of BUSY slots are gone.
static inline void ocl_enter(struct ocl *o)
{
    hr__guard_enter(&o->guard, 0);
}

static inline bool ocl_leave(struct ocl *o)
{
    return hr__guard_leave(&o->guard, 0);
}

// The first slot in that state, or NULL. Locked
struct ocl_slot *ocl_find_slot(struct ocl *o, enum ocl_slot_state state);
// Lets go of a slot whose download is on its way; do not touch it afterwards.
bool ocl_fly(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault);
// Items from .. as a list, off the slot. Locked, or the slot is BUSY.
struct hr__task *ocl_take_items(struct ocl_slot *slot, int from);
// ---- times.c (on the driver thread) ----------------------------------------

// Properties of a queue that is made now.
cl_command_queue_properties ocl_times_queue(struct ocl *o);
// Around a batch: before its upload is enqueued, after, and all of it.
void ocl_times_begin(struct ocl *o, struct ocl_slot *slot);
void ocl_times_uploaded(struct ocl_slot *slot);
void ocl_times_sent(struct ocl *o, struct ocl_slot *slot, size_t up,
                    size_t down);
// Of copies only the bytes are counted.
void ocl_times_moved(struct ocl *o, size_t up, size_t down);
// Where the event of command i of an upload of several goes; of a launch.
// NULL: nobody wants it.
cl_event *ocl_times_upload(struct ocl *o, struct ocl_slot *slot, int i);
// The event that imports begin with.
cl_event *ocl_times_import(struct ocl *o, struct ocl_slot *slot);
cl_event *ocl_times_kernel(struct ocl *o, struct ocl_slot *slot, int launch,
                           int kernel);
// Before the slot's events are released: reports and lets go of its own.
void ocl_times_read(struct ocl *o, struct ocl_slot *slot);
// Locked, but it unlocks for a while: reads a slot that has come back.
// False: there is none.
bool ocl_times_idle(struct ocl *o);

// Any thread of ours: a host part that began then, unless nobody watched.
void ocl_times_host(struct ocl *o, const struct ocl_slot *slot,
                    enum hr_part part, int64_t begin);

// ---- submit.c --------------------------------------------------------------

// Ends one task that was not delivered.
void ocl_end_one(struct hr__task *task, enum hr_status status, unsigned why,
                 const char *text);
// Lets go of a planned slot: to be called between ocl_enter() and ocl_leave(),
// when everything is enqueued (or ok is false). The queue that ends with
// slot->downloaded is flushed.
bool ocl_depart(struct ocl *o, struct ocl_slot *slot, int queue, bool ok,
                struct ocl_fault *fault);
// Its tasks were all given up.
void ocl_nothing_left(struct ocl *o, struct ocl_slot *slot);

// ---- offer.c, submit.c, enqueue.c, warm.c -----------------------

void ocl_offer(struct hr__engine *e, const struct hr__picture *pic,
               struct hr__offer *out);
uint32_t ocl_spans(void);

// On the driver thread: puts the tasks of a BUSY slot on their way. *rest:
// those that did not fit. False with a fault: they are still the slot's.
bool ocl_run_batch(struct ocl *o, struct ocl_slot *slot, struct hr__task **rest,
                   struct ocl_fault *fault);
// The planned batch: its plan into pinned memory, behind which the sources
// lie; then upload, kernels, download.
void ocl_fill(struct ocl *o, struct ocl_slot *slot, enum hr_stage first);
bool ocl_enqueue(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault);
bool ocl_grow(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault);
// After a failure: waits for what was enqueued, and makes the slot usable.
void ocl_mend(struct ocl *o, struct ocl_slot *slot);
// Behind the pictures, axes and tables of the plan come lists of groups.
size_t ocl_plan_bytes(const struct ocl_plan *plan);
// A batch of n times the same picture in a FREE slot; waits for it. *ns: how
// long it took from the upload on.
bool ocl_try(struct ocl *o, struct ocl_slot *slot,
             const struct hr__picture *pic, const struct hr__payload *in, int n,
             int64_t *ns, struct ocl_fault *fault);
// Every kernel, on pictures made up here.
bool ocl_warm_up(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault);

#endif
