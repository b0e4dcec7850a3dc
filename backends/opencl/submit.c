// SPDX-License-Identifier: Apache-2.0
// One batch on its way: planned on the host, packed into pinned memory, put on
// the queues (enqueue.c). Nothing here waits but for the driver to take a
// command.
#include <stdio.h>
#include <string.h>

#include "backends/opencl/device_memory.h"
#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

static bool fits(const struct ocl *o, const struct ocl_plan *plan)
{
    return ocl_plan_bytes(plan) + plan->in + plan->pinned <= o->slot_bytes &&
           plan->out <= o->slot_bytes &&
           plan->work + HR__SLACK <= o->work_bytes;
}

// ---- Planning -------------------------------------------------------------

void ocl_end_one(struct hr__task *task, enum hr_status status, unsigned why,
                 const char *text)
{
    struct hr__outcome out = {
        .status = status, .why = why, .offset = -1, .stage = task->span.first};

    snprintf(out.text, sizeof(out.text), "%s", text);
    hr__task_done(task, &out);
}

// Where its pixels come from and go to, if that is device memory.
static bool find_memory(const struct ocl *o, struct ocl_item *item)
{
    const struct hr__picture *pic = item->task->pic;
    bool in_place = !pic->dst.data, reads = pic->image && !pic->pixels;

    item->dst = in_place ? ocl_memory_object(o, pic->dst.memory) : NULL;
    item->src = reads ? ocl_memory_object(o, pic->memory) : NULL;
    return (item->dst || !in_place) && (item->src || !reads);
}

// Planes in another engine's memory that are not imported the host can read.
static bool find_planes(const struct ocl_item *item)
{
    struct hr__payload *in = item->task->in;

    return !in || !in->external || item->import || hr__payload_map(in);
}

enum planned { ENDED, LATER, PLANNED };

// Adds one item as number i. LATER: one launch does not reach its memory and
// that of those before it.
static enum planned plan_one(struct ocl *o, struct ocl_slot *slot, int i,
                             struct ocl_item *item)
{
    struct hr__task *task = item->task;
    bool ok, found, later;

    if (hr__task_stop(task)) {
        ocl_end_one(task, hr__task_stop_status(task), 0, "");
        return ENDED;
    }
    if (!hr__task_claim(task)) {
        ocl_end_one(task, HR_ETIMEDOUT, HR_WHY_TIMEOUT, "");
        return ENDED;
    }
    item->pinned = NULL;
    if (task->in && task->in->after == HR_ENTROPY &&
        ocl_pinned_has(&o->pinned, task->in->data))
        item->pinned = task->in->data;
    item->import = ocl_import_of(o, task->in);
    found = find_memory(o, item) && find_planes(item);
    later = found && i && (item->dst != slot->dst || item->src != slot->src);
    ok = found && !later &&
         ocl_plan_add(&o->plan, i, task->pic, task->in, item);
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

// Items that were ended leave the slot, those that do not fit go to *rest.
static void plan_batch(struct ocl *o, struct ocl_slot *slot,
                       struct hr__task **rest)
{
    struct ocl_plan *plan = &o->plan;
    int n = slot->num_items, kept = 0;

    for (int i = 0; i < n; i++) {
        struct ocl_item item = slot->items[i];
        struct ocl_plan before = *plan;
        enum planned planned = plan_one(o, slot, kept, &item);

        if (planned == LATER) {
            *rest = item.task;
            rest = &item.task->next;
            *rest = NULL;
        }
        if (planned != PLANNED)
            continue;
        if (!fits(o, plan)) {
            // Memory may have moved; what lies in it may stay.
            plan->in = before.in;
            plan->pinned = before.pinned;
            plan->out = before.out;
            plan->work = before.work;
            plan->groups = before.groups;
            if (!kept) {
                ocl_end_one(item.task, HR_EDEVICE, HR_WHY_SIZE,
                            "larger than the device's buffers");
                ocl_plan_begin(plan, n);
                continue;
            }
            *rest = ocl_take_items(slot, i);
            break;
        }
        slot->dst = item.dst;
        slot->src = item.src;
        slot->items[kept++] = item;
    }
    slot->num_items = kept;
}

// ---- Packing --------------------------------------------------------------

// Those that were given up meanwhile stay in the plan, but no group works at
// them; the guard ends them with the others.
static void pack_batch(struct ocl *o, struct ocl_slot *slot)
{
    size_t base = ocl_plan_bytes(&o->plan);
    uint8_t *up = slot->up.host;

    for (int i = 0; i < slot->num_items; i++) {
        struct ocl_item *item = &slot->items[i];

        item->dropped = !hr__task_claim(item->task);
        if (item->dropped)
            continue;
        hr__task_begun(item->task);
        if (item->pinned)
            ocl_pinned_hold(&o->pinned, slot, item->pinned);
        else if (item->import)
            ocl_import_hold(slot, item, item->task->in);
        else
            ocl_pack(item, item->task->pic, item->task->in,
                     up + base + item->in_at);
        hr__task_unclaim(item->task);
    }
    ocl_import_arrange(slot,
                       ocl_pinned_arrange(slot, base + (size_t)o->plan.in));
}

// ---- Memory --------------------------------------------------------------

void ocl_mend(struct ocl *o, struct ocl_slot *slot)
{
    ocl_ring_drain(o);
    // Nobody knows which of them are mapped.
    ocl_buffer_drop(o, &slot->up);
    ocl_buffer_drop(o, &slot->down);
}

bool ocl_grow(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault)
{
    const struct ocl_plan *plan = &o->plan;
    size_t up = ocl_plan_bytes(plan) + (size_t)plan->in;
    size_t in = up + (size_t)plan->pinned, out = (size_t)plan->out;

    // Without an input of its own, what is not uploaded comes here, too.
    return ocl_buffer_grow(o, &slot->up, o->facts.unified ? in : up, true,
                           fault) &&
           ocl_buffer_grow(o, &slot->down, out, true, fault) &&
           (o->facts.unified ||
            (ocl_buffer_grow(o, &slot->in, in, false, fault) &&
             ocl_buffer_grow(o, &slot->out, out, false, fault))) &&
           ocl_buffer_grow(o, &o->planes, (size_t)plan->work + HR__SLACK, false,
                           fault);
}

// ---- The whole way --------------------------------------------------------

static bool some_packed(const struct ocl_slot *slot)
{
    for (int i = 0; i < slot->num_items; i++)
        if (!slot->items[i].dropped)
            return true;
    return false;
}

void ocl_nothing_left(struct ocl *o, struct ocl_slot *slot)
{
    struct hr__task *list;

    pthread_mutex_lock(&o->guard.lock);
    list = ocl_take_items(slot, 0);
    slot->state = OCL_FREE;
    pthread_mutex_unlock(&o->guard.lock);
    ocl_pinned_let(&o->pinned, slot);
    ocl_import_let(slot);
    hr__tasks_failed(list, HR_WHY_TIMEOUT, "");
}

bool ocl_depart(struct ocl *o, struct ocl_slot *slot, int queue, bool ok,
                struct ocl_fault *fault)
{
    ok = ok && ocl_fly(o, slot, fault);
    if (ok)
        // After the callback is there: on some drivers the flush runs it.
        o->api.clFlush(o->queues[queue]);
    else
        // What was enqueued reads and writes the slot: the next batch in it
        // must not meet that.
        ocl_mend(o, slot);
    return ok;
}

static bool run_pictures(struct ocl *o, struct ocl_slot *slot,
                         struct hr__task **rest, struct ocl_fault *fault)
{
    enum hr_stage first = slot->items[0].task->span.first;
    int64_t begin;
    bool ok;

    if (!ocl_import_all(o, slot))
        return false;
    if (!ocl_plan_begin(&o->plan, slot->num_items)) {
        *fault = (struct ocl_fault){HR_WHY_FAILED | HR_WHY_MEMORY,
                                    "out of memory"};
        return false;
    }
    plan_batch(o, slot, rest);
    if (!slot->num_items) {
        ocl_nothing_left(o, slot);
        return true;
    }
    ocl_enter(o);
    ocl_slot_release_events(o, slot);
    ok = ocl_grow(o, slot, fault);
    ocl_pinned_grow(o);
    if (!ocl_leave(o) || !ok)
        return false;
    begin = hr__watch_begin();
    // (Only this thread sends batches.)
    slot->times.batch = atomic_load(&o->batches) + 1;
    pack_batch(o, slot);
    ocl_times_host(o, slot, HR_PART_PACK, begin);
    if (!some_packed(slot)) {
        ocl_nothing_left(o, slot);
        return true;
    }
    ocl_fill(o, slot, first);
    // From here on the items may be taken away at any time.
    ocl_enter(o);
    ok = ocl_depart(o, slot, OCL_DOWNLOAD, ocl_enqueue(o, slot, fault), fault);
    // What flies lands, however late it was.
    ocl_leave(o);
    return ok;
}

static struct hr__task **last_of(struct hr__task **list)
{
    while (*list)
        list = &(*list)->next;
    return list;
}

// Reading other engines' memory failed, and nothing else: the same pictures
// can come through the host.
static bool again(struct ocl *o, struct ocl_slot *slot)
{
    bool ok;

    if (!slot->num_acquires || atomic_load(&o->imports.on))
        return false;
    pthread_mutex_lock(&o->guard.lock);
    ok = !o->guard.dead && !o->guard.lost && slot->num_items;
    pthread_mutex_unlock(&o->guard.lock);
    if (!ok)
        return false;
    ocl_pinned_let(&o->pinned, slot);
    ocl_import_let(slot);
    return true;
}

bool ocl_run_batch(struct ocl *o, struct ocl_slot *slot, struct hr__task **rest,
                   struct ocl_fault *fault)
{
    if (slot->items[0].task->copy.memory)
        return ocl_run_copies(o, slot, rest, fault);
    if (run_pictures(o, slot, rest, fault))
        return true;
    if (!again(o, slot))
        return false;
    *fault = (struct ocl_fault){0};
    return run_pictures(o, slot, last_of(rest), fault);
}
