// SPDX-License-Identifier: Apache-2.0
// A batch: its memory, its items, its events, and the plan that describes it to
// kernels. opencl.h describes its owners over time. One batch after the other
// uses the memory.
#ifndef HR_OPENCL_BATCH_H
#define HR_OPENCL_BATCH_H

#include <string.h>

#include "backends/opencl/driver.h"
#include "backends/opencl/entropy/scan.h"
#include "kernels/layout.h"

struct ocl;         // one opened device
struct ocl_import;  // memory of another engine

// ---- buffer.c --------------------------------------------------------------

// Device memory, and pinned host memory mapped for as long as it lives.
struct ocl_buffer {
    cl_mem mem;
    size_t size;
    void *host;  // of pinned buffers
};

// Makes a buffer; or makes sure that it is at least that large: its old
// contents are lost. False: the fault says why, and there is none. It grows to
// most() of its kind by itself; to more only if more is asked for.
bool ocl_buffer_make(struct ocl *o, struct ocl_buffer *b, size_t size,
                     bool pinned, struct ocl_fault *fault);
size_t ocl_buffer_most(const struct ocl *o, const struct ocl_buffer *b);
bool ocl_buffer_grow(struct ocl *o, struct ocl_buffer *b, size_t size,
                     bool pinned, struct ocl_fault *fault);
void ocl_buffer_drop(struct ocl *o, struct ocl_buffer *b);

// ---- batch.c ---------------------------------------------------------------

// Batches at a time: two that the device has, and one that is planned; most
// tasks of one; launches of one.
enum { OCL_BATCHES = 3, OCL_BATCH = 256, OCL_LAUNCHES = 17 };
// A picture is a group of stage augment: lists that long are not padded.
_Static_assert((int)OCL_BATCH <= (int)HR__ROW_GROUPS, "two groups a picture");
// So many tasks come together, if there are so many. More come into a batch
// when the device has fallen behind. A device that has the host's memory never
// takes more; and none takes more than the budget has MiB, or LEAST.
enum { OCL_LIST = 64, OCL_BATCH_LEAST = 16 };
// The most device memory that batches take for each picture that one may have:
// work, and each slot's upload and download.
#define OCL_PICTURE_WORK ((size_t)4 << 20)
#define OCL_PICTURE_BUFFER ((size_t)1 << 20)

enum ocl_batch_state {
    OCL_FREE,
    OCL_BUSY,       // the driver thread plans and packs it
    OCL_SENT,       // the device has it
    OCL_DONE,       // the driver has called back
    OCL_DELIVERING  // its pictures are copied to the tensors
};

// The scan of a picture that begins with its file.
struct ocl_file {
    struct ocl_scan scan;
    struct hr__entropy entropy;  // its description for the kernels
};

// Where the kernels leave colors for stage resample: bytes of work.
struct ocl_pixels {
    hr__u32 src, src_plane, src_stride, planes;  // as of hr__kernel_picture
    hr__i32 x, y;                                // of the first one
};

struct ocl_item {
    struct hr__task *task;
    size_t in_at, in_bytes;    // in the upload, behind the plan
    struct hr__rect window;    // of pixels
    size_t out_at, out_bytes;  // in the download
    cl_mem src, dst;           // memory of images; NULL: upload, download
    struct hr__dst tensor;     // the result: the sample's; or pixels for the
                               // next engine, whose memory comes last
    const struct hr__table *table;
    bool augment;                   // its codes are done, too
    const struct hr_erase *erases;  // while it is planned: what is painted
    int num_erases;
    uint8_t *to;                // pinned memory that it is downloaded to
    size_t copy_at;             // of a copy: where in dst
    uint8_t *pinned;            // its payload if that is uploaded from where it
                                // is: then in_at counts from the upload's start
    const void *facts;          // of a file that lies there: OCL_SCAN_FACTS of
                                // its struct ocl_scan
    struct ocl_import *import;  // its payload's memory, if it is copied from
                                // where it is: in_at as for pinned ones
    int first_copy, end_copy;   // of the batch's, then
    bool dropped;               // given up, it was not packed
    struct ocl_file *file;      // for a span that begins with entropy,
    int lead;             // 1 + the item whose pixels it resamples; 0: its own
    bool recolors;        // .. or of whose coefficients it makes its own pixels
    struct hr__rect all;  // pixels that it and its views show; no views: empty
    struct ocl_pixels pixels;  // of both
    size_t flag_at;            // in the download; until it is packed, among
                               // the flags,
    unsigned why;              // why the device was told nothing
};

// Payloads that lie one behind the other in pinned memory.
struct ocl_run {
    const uint8_t *from;
    size_t size, to;  // to: in the upload
};

// Tensors that lie one behind the other both in the download and in pinned
// memory of the user's.
struct ocl_down {
    size_t from, size;
    uint8_t *to;
};

// Rows of planes that shall be uploaded.
struct ocl_copy {
    size_t from, stride;  // in what hr__planes speaks of
    size_t width, rows;   // bytes of a row; they are uploaded without gaps
    size_t to;            // in the upload
    // For imported memory
    cl_mem mem;          // the image
    size_t texel, x, y;  // bytes of a pixel; where it begins in the image
};

enum { OCL_PLANES = 2 };  // of a surface

// The times of its batch (times.c); used by the driver thread.
struct ocl_batch_times {
    bool pending;           // to be read when it is back
    uint64_t number;        // which batch, from 1 on
    int64_t before, after;  // host time around the enqueued upload
    cl_event upload;        // its first command, if it has several
    cl_event import;        // where imports begin, if there are any
    cl_event kernels[OCL_LAUNCHES];
    enum hr_part parts[OCL_LAUNCHES];
    int last;  // of the launches
};

struct ocl_groups {  // of a launch
    uint32_t at;     // word of the plan
    uint32_t num;
};

struct ocl_batch {
    struct ocl *o;
    struct ocl_buffer up, in;     // pinned, and what the kernels read
    struct ocl_buffer out, down;  // what they write, and pinned; unified
                                  // memory has only the pinned ones
    cl_event uploaded, computed, downloaded;
    struct ocl_batch_times times;
    struct ocl_item items[OCL_BATCH];
    struct ocl_file *files;  // [OCL_BATCH], of pictures by their number; NULL:
                             // none begins with its file
    cl_mem src, dst;         // of all items
    struct ocl_run runs[OCL_BATCH];
    int num_runs;
    struct hr__external externals[OCL_BATCH];  // that its commands read
    cl_mem acquires[OCL_BATCH * OCL_PLANES];
    struct ocl_copy copies[OCL_BATCH * 3];
    int num_externals, num_acquires, num_copies;
    struct ocl_down downs[OCL_BATCH];  // of its tensors
    int num_downs;                     // -1: they go to `down`, all together
    size_t axes_at;                    // in the upload: axes that are new
    unsigned chunks;  // pinned chunks that its upload reads, bit per chunk
    bool gpu, tiles;  // by the form for GPUs, and its hr_resize_gpu, too
    struct ocl_groups lists[OCL_LAUNCHES];

    // Locked
    enum ocl_batch_state state;
    int num_items;  // 0 while SENT: given up
    cl_int result;  // of the download
    int64_t since;  // SENT: from when on
    bool stuck;     // .. for so long that it may never come back
    // Memory that it may still write for tasks that were given up; each is
    // held, as if its image or batch were still there.
    struct hr__memory *late[OCL_BATCH];
    int num_late;
};

static inline struct ocl_file *ocl_file_of(struct ocl_batch *batch, int i)
{
    return batch->files ? &batch->files[i] : NULL;
}

// The first batch in that state, or NULL. Locked
struct ocl_batch *ocl_batch_find(struct ocl *o, enum ocl_batch_state state);
// Items from .. as a list, off the batch. Locked, or the batch is BUSY.
struct hr__task *ocl_batch_take(struct ocl_batch *batch, int from);
// Claims a task. False: it was cancelled or given up, and has been ended.
bool ocl_claim(struct hr__task *task);
// end_one ends one task that was not delivered; tasks_failed a list of failed
// tasks (NULL is fine), with a line in the log.
void ocl_end_one(struct hr__task *task, enum hr_status status, unsigned why,
                 const char *text);
void ocl_tasks_failed(struct ocl *o, struct hr__task *list,
                      const struct ocl_fault *fault);
// BUSY -> SENT, on the driver thread between ocl_enter() and ocl_leave(), when
// everything is enqueued in that queue (or ok is false: then it is mended). The
// batch must not be touched after true.
bool ocl_batch_send(struct ocl *o, struct ocl_batch *batch, int queue, bool ok,
                    struct ocl_fault *fault);
// BUSY -> FREE: it failed, unless the guard has taken its tasks away. fault
// NULL: its tasks were all given up.
void ocl_batch_end(struct ocl *o, struct ocl_batch *batch,
                   const struct ocl_fault *fault);
// Its tasks are given up, but it may still write to their memory. Locked
void ocl_batch_late(struct ocl_batch *batch);
// Now it does not any more. Locked
void ocl_batch_late_done(struct ocl *o, struct ocl_batch *batch);
// Lets go of the payloads that its commands read.
void ocl_batch_release(struct ocl *o, struct ocl_batch *batch);
void ocl_batch_release_events(struct ocl *o, struct ocl_batch *batch);
// Waits, after a failure, until the three queues have run their commands.
// False: one cannot be waited for, and the batches' memory is left behind.
bool ocl_drain(struct ocl *o);
// The same, and makes the batch usable again.
void ocl_batch_mend(struct ocl *o, struct ocl_batch *batch);

// ---- axes.c ----------------------------------------------------------------

enum { OCL_AXES = 4096 };

// The weights of axes that pictures had so far: pictures differ in where they
// are cropped, but seldom in how far what they keep is resized. They stay on
// the device; what is new travels with the next batch. The driver thread's.
struct ocl_axes {
    struct hr__engine_ref *ref;  // pays for memory
    struct ocl_buffer mem;
    cl_event sent_event;       // of the last of them that were sent
    uint8_t *data;             // the same on the host
    size_t used, capacity;     // bytes of it
    size_t sent;               // bytes that mem has, or will have
    struct ocl_axis *entries;  // OCL_AXES, found by hash; NULL: none yet
    int num;
    bool full;  // mem must not be written any more: it begins anew
};

// Called before a batch is planned: begins anew if there are many. most: bytes.
void ocl_axes_begin(struct ocl_axes *a, size_t most);
// Finds both axes of a step, in a->data. False: no memory.
bool ocl_axes_find(struct ocl_axes *a, const struct hr__step *step,
                   struct hr__axis *x, struct hr__axis *y);
// Called when a batch is planned: makes room for them on the device. *bytes:
// their part of the upload, a multiple of OCL_ALIGN.
bool ocl_axes_grow(struct ocl *o, size_t *bytes, struct ocl_fault *fault);
// The pixels that they read.
static inline struct hr__rect ocl_axes_window(const struct hr__axis *x,
                                              const struct hr__axis *y)
{
    if (!x->out || !y->out)
        return (struct hr__rect){0};
    return (struct hr__rect){x->src_lo, y->src_lo, x->src_hi - x->src_lo,
                             y->src_hi - y->src_lo};
}
// Bytes that are not on the device.
static inline size_t ocl_axes_new(const struct ocl_axes *a)
{
    return a->used - (a->full ? 0 : a->sent);
}
// Sends what is new, by way of `from`, in the upload.
bool ocl_axes_send(struct ocl *o, uint8_t *from, struct ocl_fault *fault);
// Drops the objects, as the state of the device's copies is unknown. forget:
// they are left behind.
void ocl_axes_drop(struct ocl *o, bool forget);
void ocl_axes_free(struct ocl_axes *a);

// ---- plan.c, entropy.c, views.c, augment.c, erase.c, describe.c -------------

// Alignment of parts that lie one behind the other.
enum { OCL_ALIGN = 64 };

static inline size_t ocl_aligned(size_t n)
{
    return (n + OCL_ALIGN - 1) / OCL_ALIGN * OCL_ALIGN;
}

// Rows of so many bytes.
static inline void ocl_copy_rows(uint8_t *to, size_t to_stride,
                                 const uint8_t *from, size_t from_stride,
                                 size_t bytes, int rows)
{
    if (to_stride == bytes && from_stride == bytes) {
        bytes *= (size_t)rows;
        rows = rows > 0;
    }
    for (int y = 0; y < rows; y++)
        memcpy(to + to_stride * (size_t)y, from + from_stride * (size_t)y,
               bytes);
}

// The description of a batch for the kernels, in host memory: pictures, then
// tables. Offsets count from its start.
struct ocl_plan {
    struct hr__engine_ref *ref;  // pays for memory
    struct ocl_axes *axes;
    uint8_t *data;
    size_t size, capacity;
    uint64_t in, work, out;  // bytes of the other buffers so far
    uint64_t pinned;         // and of payloads that the host does not copy
    uint64_t flags;          // bytes that are downloaded behind the tensors
    uint32_t groups;         // of all kernels, all pictures
    bool fuse;               // use the fused kernel where it can make it
    bool gpu;                // by forms for GPUs, where all pictures suit them
    bool alone;              // views of a source do not share its pixels
    // The picture before, since the next may have the same
    const struct hr__table *table;
    uint32_t table_at;
    uint32_t levels_at;    // of bytes as they are; 0: not there yet
    struct hr__axis x, y;  // of the picture in the making
};

// Begins a batch of n.
bool ocl_plan_begin(struct ocl_plan *plan, int n);
// Returns the plan's size with the lists of groups, which come behind pictures
// and tables.
size_t ocl_plan_bytes(const struct ocl_plan *plan);
struct hr__kernel_picture *ocl_plan_picture(struct ocl_plan *plan, int i);
// Removes the picture that was planned last.
void ocl_plan_return(struct ocl_plan *plan, const struct ocl_plan *before);
// Return where flags begin in the download, and where it ends.
static inline size_t ocl_plan_flags(const struct ocl_plan *plan)
{
    return ocl_aligned((size_t)plan->out);
}
static inline size_t ocl_plan_out(const struct ocl_plan *plan)
{
    return ocl_plan_flags(plan) + (size_t)plan->flags;
}
// Says whether the plan so far is not too large for one batch.
bool ocl_fits(const struct ocl *o, const struct ocl_plan *plan);
// Adds room for size bytes of zeros, which begin at that word.
void *ocl_plan_reserve(struct ocl_plan *plan, size_t size, uint32_t *word);
// plan->table_at.
bool ocl_plan_table(struct ocl_plan *plan, const struct hr__table *table,
                    enum hr_dtype dtype, int channels);
// plan->levels_at.
bool ocl_plan_levels(struct ocl_plan *plan);
// Adds picture i. in is NULL for images, and for files. False: no memory, or
// the payload, or the file, is not what it should be.
bool ocl_plan_add(struct ocl_plan *plan, int i, const struct hr__picture *pic,
                  const struct hr__payload *in, struct ocl_item *item);
// Copies its coefficients, planes or pixels to where the plan wants them.
void ocl_describe(const struct ocl_item *item, const struct hr__picture *pic,
                  const struct hr__payload *in, uint8_t *to);

// Plans what is painted on the tensor that picture i has at out_at. False: no
// memory.
bool ocl_plan_erase(struct ocl_plan *plan, int i, const struct hr__dst *tensor,
                    uint64_t out_at, const struct hr_erase *erases, int num);
// Plans the end of a picture behind its last step: stage store puts it
// somewhere, and the codes make the tensor of that. False: no memory.
bool ocl_plan_augment(struct ocl_plan *plan, int i,
                      const struct hr__picture *pic,
                      const struct hr__step *step, const struct hr__dst *tensor,
                      uint64_t out_at);
// Items of a group that does.
unsigned ocl_augment_items(const struct ocl *o);
// Why the device does not do the codes of a picture; 0 = it does. *work: bytes
// of it for them.
unsigned ocl_why_not_augment(const struct ocl *o, const struct hr__picture *pic,
                             uint64_t *work);

// For files whose entropy coding the device decodes: bytes of the upload, and
// of work besides coefficients and later stages.
size_t ocl_entropy_bytes(const struct ocl_scan *s);
uint64_t ocl_entropy_work(const struct ocl_scan *s, bool gpu);
// Adds the source of picture i. False: the window is empty, or as ocl_plan_add.
bool ocl_plan_entropy(struct ocl_plan *plan, int i,
                      const struct hr__picture *pic, struct hr__rect window,
                      struct ocl_item *item);
// The same from the coefficients of its lead, for all pixels of both.
void ocl_plan_recolor(struct ocl_plan *plan, int i,
                      const struct hr__picture *pic,
                      const struct ocl_item *item);
// Item i begins with a file: finds one before it in the batch that reads the
// same file, if possible the same pixels of it; or what those show that do among
// from .. end, which are behind it.
void ocl_views_find(struct ocl_plan *plan, const struct ocl_batch *batch, int i,
                    struct ocl_item *item, const struct ocl_item *from,
                    const struct ocl_item *end);
// ocl_plan_entropy(), once for all views of a source. window: of the picture.
bool ocl_plan_views(struct ocl_plan *plan, int i, const struct hr__picture *pic,
                    struct hr__rect window, struct ocl_item *item);
// For ocl_describe_entropy(), of an item that has a lead, which is packed.
void ocl_views_pack(const struct ocl_batch *batch, struct ocl_item *item);
// The engine's copy_file(), into pinned memory.
void ocl_copy_file(struct hr__engine *e, const struct hr__picture *pic,
                   struct hr__payload *ahead);
// Copies its scan to where the plan wants it, unless it lies in pinned memory.
// If the scan is irregular, item->why says so, and no kernel decodes it. flags:
// where they begin in the download.
void ocl_describe_entropy(struct ocl_item *item, struct hr__kernel_picture *p,
                          size_t flags, uint8_t *to);
// Called when the batch is done: returns why the host must make the picture; 0
// = it need not.
unsigned ocl_entropy_failed(const struct ocl_item *item, const uint8_t *down);

// The rows of its planes that the plan wants; `to` counts from the item's
// start. How many.
int ocl_describe_copies(const struct ocl_item *item,
                        const struct hr__picture *pic,
                        const struct hr__payload *in,
                        struct ocl_copy copies[3]);

// The tensor as the kernels write it: without gaps.
struct hr__dst ocl_packed(const struct hr__dst *d, size_t *size);

#endif
