// SPDX-License-Identifier: Apache-2.0
// A batch of pictures: planned on the host, packed into pinned memory, put on
// the queues (enqueue.c). Nothing here waits but for the driver to take a
// command.
#include "backends/opencl/memory/device_memory.h"
#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

// ---- Planning -------------------------------------------------------------

// The tensor of the sample; or, where a span ends before store, pixels.
static void find_tensor(const struct ocl *o, struct ocl_item *item)
{
    const struct hr__picture *pic = item->task->pic;
    const struct hr__step *step = &pic->geo.steps[0];

    item->tensor = pic->dst;
    item->table = pic->table;
    item->augment = item->task->span.last == HR_STORE && pic->geo.num_augments;
    if (item->task->span.last == HR_STORE)
        return;
    item->tensor = (struct hr__dst){.w = step->out_w,
                                    .h = step->out_h,
                                    .c = pic->channels,
                                    .dtype = HR_U8,
                                    .layout = HR_NHWC};
    item->table = &o->levels;
}

// The device memory that its pixels come from and go to, if any.
static bool find_memory(const struct ocl *o, struct ocl_item *item)
{
    const struct hr__picture *pic = item->task->pic;
    bool in_place = item->tensor.memory && !item->tensor.data;
    bool reads = pic->image && !pic->pixels && !item->task->in;

    item->dst = in_place ? ocl_memory_object(o, item->tensor.memory) : NULL;
    item->src = reads ? ocl_memory_object(o, pic->memory) : NULL;
    return (item->dst || !in_place) && (item->src || !reads);
}

// Pinned memory that a transfer reaches, for a tensor without gaps; else NULL.
static uint8_t *direct(const struct ocl *o, const struct hr__dst *d)
{
    size_t size;
    struct hr__dst packed = ocl_packed(d, &size);

    return d->data && d->memory && d->memory->direct &&
                   d->stride_h == packed.stride_h &&
                   (d->layout == HR_NHWC || d->stride_c == packed.stride_c) &&
                   ocl_memory_object(o, d->memory)
               ? d->data
               : NULL;
}

// Planes in another engine's memory are imported, or the host must reach them.
static bool find_planes(const struct ocl_item *item)
{
    struct hr__payload *in = item->task->in;

    return !in || !in->external || item->import || hr__payload_map(in);
}

// Coefficients, or a file that was copied ahead, where the device fetches them.
static void find_pinned(struct ocl *o, struct ocl_item *item)
{
    const struct hr__task *task = item->task;
    const struct hr__payload *in = task->ahead ? task->ahead : task->in;

    item->pinned = NULL;
    item->facts = NULL;
    if (!in || !(task->ahead || in->after == HR_ENTROPY) ||
        !ocl_pinned_has(&o->pinned, in->data))
        return;
    item->pinned = in->data;
    item->facts = task->ahead ? in->extra : NULL;
}

enum planned { ENDED, LATER, PLANNED };

// Adds one item as number i, behind which come from .. end of the batch. LATER:
// one launch does not reach its memory and that of those before it.
static enum planned plan_one(struct ocl *o, struct ocl_batch *batch, int i,
                             struct ocl_item *item, const struct ocl_item *from,
                             const struct ocl_item *end)
{
    struct hr__task *task = item->task;
    struct hr_erase erases[HR_MAX_OPS];
    bool ok, found, later;

    if (!ocl_claim(task))
        return ENDED;
    item->num_erases = hr__task_erases(task, erases);
    item->erases = erases;
    item->file = ocl_file_of(batch, i);
    find_pinned(o, item);
    item->import = ocl_import_of(o, task->in);
    find_tensor(o, item);
    found = find_memory(o, item) && find_planes(item);
    item->to = direct(o, &item->tensor);
    later = found && i && (item->dst != batch->dst || item->src != batch->src);
    ocl_views_find(&o->plan, batch, i, item, from, end);
    ok = found && !later &&
         ocl_plan_add(&o->plan, i, task->pic, task->in, item);
    item->erases = NULL;
    hr__task_unclaim(task);
    if (later)
        return LATER;
    if (!found)
        ocl_end_one(task, HR_EDEVICE, HR_WHY_FAILED | HR_WHY_LOST,
                    "its memory was lost with the device");
    else if (!ok)
        ocl_end_one(task, HR_EDEVICE, HR_WHY_FAILED | HR_WHY_MEMORY,
                    "the batch could not be planned");
    return ok ? PLANNED : ENDED;
}

// Items that were ended leave the batch; tasks that do not fit go to *rest.
static void plan_batch(struct ocl *o, struct ocl_batch *batch,
                       struct hr__task **rest)
{
    struct ocl_plan *plan = &o->plan;
    int n = batch->num_items, kept = 0;

    for (int i = 0; i < n; i++) {
        struct ocl_item item = batch->items[i];
        struct ocl_plan before = *plan;
        enum planned planned = plan_one(o, batch, kept, &item,
                                        batch->items + i + 1, batch->items + n);

        if (planned == LATER) {
            *rest = item.task;
            rest = &item.task->next;
            *rest = NULL;
        }
        if (planned != PLANNED)
            continue;
        if (!ocl_fits(o, plan)) {
            ocl_plan_return(plan, &before);
            if (!kept && item.all.w) {
                ocl_plan_begin(plan, n);
                plan->alone = true;
                // (Others' weights may be what leaves no room.)
                ocl_axes_begin(&o->axes, 0);
                i--;
                continue;
            }
            if (!kept) {
                ocl_end_one(item.task, HR_EDEVICE, HR_WHY_SIZE,
                            "larger than the device's buffers");
                ocl_plan_begin(plan, n);
                continue;
            }
            *rest = ocl_batch_take(batch, i);
            break;
        }
        batch->dst = item.dst;
        batch->src = item.src;
        batch->items[kept++] = item;
    }
    batch->num_items = kept;
}

// ---- Packing --------------------------------------------------------------

// Decides where tensors are downloaded to: all of them straight to their
// places, or none. The place of a task that was given up belongs to others.
static void arrange_downs(struct ocl_batch *batch)
{
    struct ocl_down *last = NULL;

    batch->num_downs = 0;
    for (int i = 0; i < batch->num_items; i++) {
        const struct ocl_item *item = &batch->items[i];

        if (!item->to) {
            batch->num_downs = -1;
            return;
        }
        if (item->dropped)
            continue;
        if (last && last->from + last->size == item->out_at &&
            last->to + last->size == item->to) {
            last->size += item->out_bytes;
            continue;
        }
        last = &batch->downs[batch->num_downs++];
        *last = (struct ocl_down){item->out_at, item->out_bytes, item->to};
    }
}

// Tasks that were given up meanwhile stay in the plan, but no group works at
// them; the guard ends them with the others. False: all were.
static bool pack_batch(struct ocl *o, struct ocl_batch *batch)
{
    size_t base = ocl_plan_bytes(&o->plan);
    uint8_t *up = batch->up.host;
    int64_t begin = hr__watch_begin();
    bool some = false;

    // (Only this thread sends batches.)
    batch->times.number = atomic_load(&o->batches) + 1;

    for (int i = 0; i < batch->num_items; i++) {
        struct ocl_item *item = &batch->items[i];

        item->dropped = !hr__task_claim(item->task);
        if (item->dropped)
            continue;
        hr__task_begun(item->task);
        some = true;
        if (item->pinned)
            ocl_pinned_retain(&o->pinned, batch, item->pinned);
        if (item->lead)
            ocl_views_pack(batch, item);
        else if (item->task->span.first == HR_ENTROPY)
            ocl_describe_entropy(item, ocl_plan_picture(&o->plan, i),
                                 ocl_plan_flags(&o->plan),
                                 up + base + item->in_at);
        else if (item->import)
            ocl_import_retain(batch, item, item->task->in);
        else if (!item->pinned)
            ocl_describe(item, item->task->pic, item->task->in,
                         up + base + item->in_at);
        hr__task_unclaim(item->task);
    }
    arrange_downs(batch);
    ocl_import_arrange(batch,
                       ocl_pinned_arrange(batch, base + (size_t)o->plan.in));
    hr__engine_ref_part(&o->guard.ref, HR_PART_PACK, batch->times.number,
                        begin);
    return some;
}

// ---- Memory --------------------------------------------------------------

// Returns the bytes that a full batch of such pictures would need: a buffer
// that must grow grows to that, so that no batch after it waits for memory.
// Single pictures are not taken for the beginning of many.
static size_t when_full(struct ocl *o, const struct ocl_batch *batch,
                        const struct ocl_buffer *b, size_t size)
{
    size_t most = ocl_buffer_most(o, b), full;
    int n;

    // (The driver is in a call: the batch may just be given up.)
    pthread_mutex_lock(&o->guard.lock);
    n = batch->num_items;
    pthread_mutex_unlock(&o->guard.lock);
    if (o->facts.unified || n < OCL_BATCH_LEAST || n >= o->most)
        return size;
    full = size / (size_t)n * (size_t)o->most;
    return full < most ? full : size < most ? most : size;
}

static bool grow(struct ocl *o, const struct ocl_batch *batch,
                 struct ocl_buffer *b, size_t size, bool pinned,
                 struct ocl_fault *fault)
{
    return (b->mem && b->size >= size) ||
           ocl_buffer_grow(o, b, when_full(o, batch, b, size), pinned, fault);
}

bool ocl_grow(struct ocl *o, struct ocl_batch *batch, struct ocl_fault *fault)
{
    const struct ocl_plan *plan = &o->plan;
    size_t up = ocl_plan_bytes(plan) + (size_t)plan->in;
    size_t in = up + (size_t)plan->pinned + HR__PAYLOAD,
           out = ocl_plan_out(plan), axes;

    if (!ocl_axes_grow(o, &axes, fault))
        return false;
    // They lie behind what else is uploaded.
    batch->axes_at = ocl_aligned(o->facts.unified ? in : up);
    // If the device has no input of its own, what is not copied into the upload
    // lies in the same buffer.
    return grow(o, batch, &batch->up, batch->axes_at + axes, true, fault) &&
           grow(o, batch, &batch->down, out, true, fault) &&
           (o->facts.unified ||
            (grow(o, batch, &batch->in, in, false, fault) &&
             grow(o, batch, &batch->out, out, false, fault))) &&
           grow(o, batch, &o->planes, (size_t)plan->work + HR__SLACK, false,
                fault);
}

// ---- All of it -------------------------------------------------------------

static bool run_pictures(struct ocl *o, struct ocl_batch *batch,
                         struct hr__task **rest, struct ocl_fault *fault)
{
    enum hr_stage first = batch->items[0].task->span.first;
    bool ok;

    if (!ocl_import_all(o, batch))
        return false;
    ocl_axes_begin(&o->axes, o->buffer_bytes);
    if (!ocl_plan_begin(&o->plan, batch->num_items)) {
        *fault = (struct ocl_fault){HR_WHY_FAILED | HR_WHY_MEMORY,
                                    "out of memory"};
        return false;
    }
    plan_batch(o, batch, rest);
    if (!batch->num_items) {
        ocl_batch_end(o, batch, NULL);
        return true;
    }
    ocl_enter(o);
    ocl_batch_release_events(o, batch);
    ok = ocl_grow(o, batch, fault);
    ocl_pinned_grow(o);
    if (!ocl_leave(o) || !ok)
        return false;
    if (!pack_batch(o, batch)) {
        ocl_batch_end(o, batch, NULL);
        return true;
    }
    ocl_fill(o, batch, first);
    // From here on the guard may take the items away at any time.
    ocl_enter(o);
    ok = ocl_batch_send(o, batch, OCL_DOWNLOAD, ocl_enqueue(o, batch, fault),
                        fault);
    // (A batch that was sent comes back, however late it is.)
    ocl_leave(o);
    return ok;
}

// Says whether only reading other engines' memory failed: then the same
// pictures can come through the host.
static bool try_again(struct ocl *o, struct ocl_batch *batch)
{
    bool ok;

    if (!batch->num_acquires || atomic_load(&o->imports.on))
        return false;
    pthread_mutex_lock(&o->guard.lock);
    ok = !o->guard.dead && !o->guard.lost && batch->num_items;
    pthread_mutex_unlock(&o->guard.lock);
    if (!ok)
        return false;
    ocl_batch_release(o, batch);
    return true;
}

bool ocl_run_batch(struct ocl *o, struct ocl_batch *batch,
                   struct hr__task **rest, struct ocl_fault *fault)
{
    if (batch->items[0].task->copy.memory)
        return ocl_run_copies(o, batch, rest, fault);
    if (run_pictures(o, batch, rest, fault))
        return true;
    if (!try_again(o, batch))
        return false;
    *fault = (struct ocl_fault){0};
    hr__guard_put_back(&o->guard, *rest);
    *rest = NULL;
    return run_pictures(o, batch, rest, fault);
}
