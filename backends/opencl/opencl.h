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
//   queue.c    tasks that wait
//   thread.c   the driver thread; start and stop
//   nurse.c    what has landed; what does not come back in time
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
//   deliver.c  from pinned memory to where the tensors shall be
//   warm.c     kernels run once, when the device is opened
//   variant.c  which kernels suit the device
//   times.c    when the device did what, for traces and profiles
//
// Who calls OpenCL. Only the driver thread (and, for the list of devices, an
// errand's thread). The HAL's threads push to the queue and return. The nurse
// thread delivers what has landed and looks at the clock; it never calls
// OpenCL, so it never hangs. An event callback only marks its slot and wakes
// the nurse.
//
// A driver may hang in any call. After the deadline the nurse ends what the
// device has, and nothing is offered to it any more (o->dead). If the call
// comes back after all, its thread goes on with the same context, and only if
// something fails now another one is opened. If it has not come back when the
// device is closed, it is left behind with all it can reach, never waited for.
//
//   submit() -> queue -> driver thread: slot FREE -> BUSY -> FLYING
//                -> callback: LANDED -> nurse: DELIVERING -> FREE
//
// Locks: ocl->lock guards what is marked so below; ocl->hal is the way back to
// the HAL's structs, which an abandoned thread must not touch. They are never
// taken together, and neither is held in a call to OpenCL, in hr__task_done()
// or in the log.
#ifndef HR_OPENCL_H
#define HR_OPENCL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backends/opencl/batch.h"
#include "backends/opencl/driver.h"
#include "hal/backend.h"
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
    cl_mem mem, chroma;  // a buffer; or two images
    struct hr__external of;
};

struct ocl_way_calls {
    clEnqueueAcquireExternalMemObjectsKHR_fn acquire;
    clEnqueueReleaseExternalMemObjectsKHR_fn release;
};

struct ocl_imports {
    atomic_uint failed, on;  // kinds of struct hr__external
    unsigned can;            // this context, but for those that failed
    struct ocl_way_calls ways[OCL_WAYS];
    void (*from_surface)(void);  // clCreateFromVA_APIMediaSurfaceINTEL
    // By the place of what was imported. What is at no place any more stays
    // until another comes to it, or the device is closed.
    struct ocl_import of[OCL_IMPORTS];
};

// On the driver thread, as the context opens and closes.
void ocl_import_open(struct ocl *o);
void ocl_import_close(struct ocl *o);
// They are imported again, after on has been 0 for a while.
void ocl_import_resume(struct ocl *o);
unsigned ocl_import_kinds(struct hr__engine *e);
// From now on those kinds are not taken; counted.
void ocl_import_give_up(struct ocl *o, unsigned kinds,
                        const struct ocl_fault *fault);
// The kinds that a batch reads.
unsigned ocl_import_used(const struct ocl_slot *slot);
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
    struct hr__way hal;
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

    pthread_mutex_t lock;
    pthread_cond_t work;            // the driver thread waits here,
    pthread_cond_t landed;          // the nurse,
    pthread_cond_t changed;         // and who opens and closes. CLOCK_MONOTONIC
    struct hr__task *head, **tail;  // lock, and all that follows
    bool opened, stop, abandoned;
    bool unkept;       // its program is new and not on disk yet
    bool compiling;    // the driver completes it, nothing else is begun
    int64_t compiled;  // .. until then at most
    bool dead;         // the driver thread is in a call for too
                       // long: nothing is its until it is back
    bool lost;         // the context must be made again
    cl_context current;
    struct ocl_slab *slabs;        // that have users, or may have
    struct ocl_slab *old_slabs;    // to be let go by the driver thread
    int empty_slabs;               // of those in slabs
    struct ocl_request *requests;  // for the driver thread
    bool driver_gone, left_behind;
    enum hr_status open_status;
    char open_text[192];
    int64_t busy_since;          // the driver thread is at work; 0 = idle
    int64_t deadline;            // ns that it may be
    int64_t nurse_due;           // when the nurse will look again
    struct hr__breaker breaker;  // ocl->lock
    bool have_driver, have_nurse;
    pthread_t driver, nurse;

    _Atomic uint64_t batches, launches, transfers;  // for tests
};

struct ocl_engine {  // what the HAL allocates
    struct ocl *o;
};

struct ocl *ocl_of(struct hr__engine *e);

// To the log, unless this thread was left behind.
void ocl_log(struct ocl *o, enum hr_log_level level, const char *fmt, ...)
    HR_PRINTF(3, 4);

// ---- queue.c, thread.c, nurse.c --------------------------------------------

// How long a new program's completion may keep those waiting whom nobody else
// can serve.
#define OCL_COMPILE_NS INT64_C(60000000000)

// Starts both threads and waits until the device is open. What goes wrong is
// in hr_last_error(). deadline: the user's, in ns.
enum hr_status ocl_start(struct ocl *o, int64_t deadline);
// Bounded in time. False: a thread hangs, or memory is still in the driver's
// hands; *o must be left as it is.
bool ocl_stop(struct ocl *o, int64_t deadline);
// deadline: of these and of what comes after them.
void ocl_push(struct ocl *o, struct hr__task *list, int64_t deadline);
void ocl_cancel_queued(struct ocl *o);

// Around calls to OpenCL on the driver thread, so that the nurse sees how long
// they take. leave: false = too long, the tasks of BUSY slots are gone.
void ocl_enter(struct ocl *o);
bool ocl_leave(struct ocl *o);

// The first slot in that state, or NULL. ocl->lock
struct ocl_slot *ocl_find_slot(struct ocl *o, enum ocl_slot_state state);
// Lets go of a slot whose download is on its way; do not touch it afterwards.
bool ocl_fly(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault);
// Items from .. as a list, off the slot. ocl->lock, or the slot is BUSY.
struct hr__task *ocl_take_items(struct ocl_slot *slot, int from);
// No slot will come back: what waits for one need not. ocl->lock
bool ocl_hopeless(const struct ocl *o);
// Fills a slot with one run of equal spans. ocl->lock
void ocl_take_batch(struct ocl *o, struct ocl_slot *slot);
// What did not fit into a batch goes first into the next.
void ocl_put_back(struct ocl *o, struct hr__task *list);
// The whole queue as a list. ocl->lock
struct hr__task *ocl_take_queue(struct ocl *o);
void *ocl_nurse(void *o);

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
// The event that imports begin with, and the row that they stand on.
cl_event *ocl_times_import(struct ocl *o, struct ocl_slot *slot,
                           const char *row);
cl_event *ocl_times_kernel(struct ocl *o, struct ocl_slot *slot, int launch,
                           int kernel);
// Before the slot's events are released: reports and lets go of its own.
void ocl_times_read(struct ocl *o, struct ocl_slot *slot);
// ocl->lock, which it gives up for a while: reads a slot that has come back.
// False: there is none.
bool ocl_times_idle(struct ocl *o);

// Any thread of ours: a host part that began then, unless nobody watched; its
// name and CPU time.
void ocl_times_host(struct ocl *o, const struct ocl_slot *slot,
                    enum hr_part part, int64_t begin);
void ocl_times_thread(struct ocl *o, const char *name);

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

// ---- offer.c, submit.c, enqueue.c, warm.c, deliver.c -----------------------

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

// On the nurse: to the tensors, and the tasks' end.
void ocl_deliver(struct ocl *o, struct ocl_slot *slot);

#endif
