// SPDX-License-Identifier: Apache-2.0
// Pictures that a cache shall have and whose entropy coding the device decodes
// are packed there, too (kernels/pack.h), behind the kernels of their batch, and
// read back when the batch has long been delivered: a batch packs into one of
// some slots, and where none is free, or as many bytes as may cross the bus are
// on their way, its pictures are not kept this time.
//
//   driver thread: FREE -> PACKING -> batch is done: PACKED
//     -> driver thread: READING -> callback: THERE -> keeper thread: FREE
//
// The keeper thread checks the pictures and hands them to their caches. It calls
// no driver. The slots and that thread are keep.c's; what a batch packs is planned
// in keep_plan.c and sent in keep_enqueue.c.
#ifndef HR_OPENCL_KEEP_H
#define HR_OPENCL_KEEP_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/opencl/batch.h"
#include "hal/engine/engine.h"
#include "kernels/pack.h"

enum { OCL_KEEP_LAUNCHES = HR__NUM_PACK_KERNELS + 2 };

enum ocl_keep_state {
    OCL_KEEP_FREE,
    OCL_KEEP_PACKING,  // a batch has it
    OCL_KEEP_PACKED,   // the device has the pictures
    OCL_KEEP_READING,  // they are on their way
    OCL_KEEP_THERE,    // the host has them
};

// A picture.
struct ocl_kept {
    struct hr__later later;
    struct hr__packed_facts facts;
    struct hr__pack pack;  // what the kernels are told, but for the scan
    int item;              // of the batch,
    int picture;           // of the plan
    size_t table_at;       // in the download; until it is filled in, among
                           // the flags
    size_t guess;          // bytes that were taken for it
    uint32_t at, size;     // in `packed`; size 0: it is not there
};

struct ocl_keep {
    struct ocl *o;
    struct ocl_buffer packed, host;  // host: pinned
    struct ocl_kept pictures[OCL_BATCH];
    int num_pictures;
    size_t room, bytes;  // of packed: that may be used, and that is
    size_t cursor_at;    // as table_at
    // Locked
    enum ocl_keep_state state;
    cl_int result;  // of reading
};

struct ocl_keeps {
    int64_t rate;              // bytes per second
    int64_t allowance, since;  // bytes that may be packed, and as of when; the
                               // driver thread's
    cl_command_queue queue;
    cl_kernel kernels[HR__NUM_PACK_KERNELS];
    struct ocl_keep slots[OCL_KEEPS];
    bool started;  // the keeper; the driver thread's
    pthread_t keeper;
    pthread_cond_t wake;    // it waits here
    atomic_int strikes;     // failures in a row
    bool stop;              // locked
    _Atomic uint64_t kept;  // pictures, for tests
};

// Reads HEADRACE_OPENCL_KEEP: *rate in bytes per second, 0: the host packs.
// HR_EINVAL: it is no number.
enum hr_status ocl_keep_wanted(int64_t *rate);
// Before the context: o->keeps, NULL if o->keep_rate is 0. False: no memory.
bool ocl_keep_init(struct ocl *o);
// Nothing will be kept. (Closing may look at o->keeps just now.)
void ocl_keep_never(struct ocl *o);
// The driver thread is gone, or left behind: what is still on its way is
// dropped, the keeper ends. free: nobody else has the memory.
void ocl_keep_finish(struct ocl *o, bool free);
// Whether pictures that a cache wants are offered to be made by the device.
bool ocl_keep_on(const struct ocl *o);

// ---- On the driver thread --------------------------------------------------

// With the context. forget: the driver still has the buffers, which are left
// behind.
bool ocl_keep_open(struct ocl *o, struct ocl_fault *fault);
void ocl_keep_close(struct ocl *o);
void ocl_keep_forget(struct ocl *o);

// Makes a FREE slot PACKING; NULL: there is none. start: false if there is no
// keeper thread, and none can be started.
struct ocl_keep *ocl_keep_take(struct ocl *o);
bool ocl_keep_start(struct ocl *o);

// Bytes that a picture wants of the work buffer, and of a slot's.
uint64_t ocl_keep_work(const struct ocl_scan *s);
uint64_t ocl_keep_room(const struct ocl_scan *s);
// A picture that is being planned shall be kept: as much is left for it.
void ocl_keep_ask(struct ocl *o, const struct ocl_scan *s);
// Of a planned batch: adds what of its pictures shall be kept to the plan, as
// far as there is room, which never costs a picture its place in the batch.
void ocl_keep_plan(struct ocl *o, struct ocl_batch *batch);
// The same of a made-up picture, which goes nowhere.
void ocl_keep_made_up(struct ocl *o, struct ocl_batch *batch,
                      const struct hr__picture *pic);
// Between enter and leave: memory for it. Without it nothing is kept.
void ocl_keep_grow(struct ocl *o, struct ocl_batch *batch);
// The batch is packed, and its lists are written: the same for what is kept.
void ocl_keep_fill(struct ocl *o, struct ocl_batch *batch);
// Its kernels, behind the others. *last: the event of the last one, if there is
// any. False: the fault says why.
bool ocl_keep_launch(struct ocl *o, struct ocl_batch *batch, cl_event *last,
                     struct ocl_fault *fault);
// The batch has failed, or was given up: nothing of it is kept.
void ocl_keep_drop(struct ocl *o, struct ocl_batch *batch);
// Reads the pictures of one slot back.
void ocl_keep_read(struct ocl *o);

// ---- Locked ----------------------------------------------------------------

bool ocl_keep_waits(const struct ocl *o);  // for ocl_keep_read()
bool ocl_keep_idle(const struct ocl *o);   // every slot is free

// ---- On the clock thread, not locked ---------------------------------------

// The batch is done, well or not.
void ocl_keep_done(struct ocl *o, struct ocl_batch *batch, bool ok);

#endif
