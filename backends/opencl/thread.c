// SPDX-License-Identifier: Apache-2.0
// The driver thread; opencl.h draws how the threads work.
#include <stdio.h>
#include <string.h>

#include "backends/opencl/device_memory.h"
#include "backends/opencl/opencl.h"

#define LAND_NS INT64_C(1500000000)  // less than closing may take
#define IDLE_NS INT64_C(500000000)

// ---- The driver thread ----------------------------------------------------

static bool all_free(struct ocl *o)
{
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state != OCL_FREE)
            return false;
    return true;
}

// Keeps a new program on disk. Some drivers compile once more for that, which
// takes longer than everything before; so it is done when there has been
// nothing else to do, or at the end. What comes meanwhile waits or goes on
// elsewhere, as guard.c decides.
static void keep_program(struct ocl *o)
{
    bool keep;

    pthread_mutex_lock(&o->guard.lock);
    if (o->guard.head && !o->guard.stop) {  // it has just come
        pthread_mutex_unlock(&o->guard.lock);
        return;
    }
    keep = o->unkept && !o->guard.dead && !o->guard.lost;
    o->unkept = false;
    o->guard.held = keep;
    o->compiled = hr__now() + OCL_COMPILE_NS;
    o->overcompiled = false;
    pthread_mutex_unlock(&o->guard.lock);
    if (!keep)
        return;
    ocl_program_save(o);
    pthread_mutex_lock(&o->guard.lock);
    o->guard.held = false;
    pthread_mutex_unlock(&o->guard.lock);
}

// False: nothing has come for so long that the program may be kept.
static bool wait_for_work(struct ocl *o)
{
    int64_t deadline = INT64_MAX;

    if (o->unkept && !o->guard.head && all_free(o))
        deadline = hr__now() + IDLE_NS;
    return hr__cond_wait(&o->guard.lanes[0].wake, &o->guard.lock, deadline) ||
           o->guard.head || o->guard.stop || o->requests || o->old_slabs;
}

// slot: a FREE one, to try the device with.
static bool open_all(struct ocl *o, struct ocl_slot *slot,
                     struct ocl_fault *fault)
{
    if (!ocl_context_open(o, fault) || !ocl_ring_open(o, fault) ||
        !ocl_program_open(o, fault) || !ocl_warm_up(o, slot, fault) ||
        !ocl_variant_choose(o, slot, fault))
        return false;
    pthread_mutex_lock(&o->guard.lock);
    o->unkept = !o->program_cached || o->timed_now;
    pthread_mutex_unlock(&o->guard.lock);
    return true;
}

static void close_all(struct ocl *o)
{
    ocl_ring_close(o);
    ocl_program_close(o);
    ocl_context_close(o);
}

// Waits for what is on its way in the other slots. False: something will not
// come back. In a call to the driver, as far as the guard can tell.
static bool others_free(struct ocl *o, const struct ocl_slot *mine)
{
    bool wait = true, free = false;
    int64_t deadline;

    pthread_mutex_lock(&o->guard.lock);
    deadline = hr__now() + o->guard.deadline / 4;
    while (wait && !free && !o->guard.dead) {
        free = true;
        for (int i = 0; i < OCL_SLOTS; i++) {
            const struct ocl_slot *slot = &o->slots[i];

            free &= slot == mine || slot->state == OCL_FREE;
            // Given up by the guard.
            wait &= slot->state != OCL_FLYING || !slot->stuck;
        }
        if (wait && !free)
            wait = hr__cond_wait(&o->guard.lanes[0].wake, &o->guard.lock,
                                 deadline);
    }
    pthread_mutex_unlock(&o->guard.lock);
    return free;
}

// A lost context does not come back; a new one may. Not while the old one
// still holds a slot: its callback would come into the new one's.
static bool open_again(struct ocl *o, struct ocl_slot *mine,
                       struct ocl_fault *fault)
{
    bool ok;

    if (!others_free(o, mine)) {
        *fault = (struct ocl_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                    "the device was lost"};
        return false;
    }
    hr__guard_log(&o->guard, HR_LOG_WARN, "opening the device again");
    close_all(o);
    ok = open_all(o, &o->slots[mine == &o->slots[0]], fault);
    ocl_memory_renew(o);
    hr__guard_renewed(&o->guard, ok);
    return ok;
}

static void serve_memory(struct ocl *o)
{
    struct ocl_fault fault = {0};
    bool ok = true, asked;

    pthread_mutex_lock(&o->guard.lock);
    asked = o->requests;
    pthread_mutex_unlock(&o->guard.lock);
    ocl_enter(o);
    if (asked && hr__guard_is_lost(&o->guard))
        ok = open_again(o, NULL, &fault);
    ocl_memory_serve(o, ok ? NULL : &fault);
    ocl_leave(o);
}

// Fills a slot with one run of equal spans. Locked.
static void take_batch(struct ocl *o, struct ocl_slot *slot)
{
    struct hr_span span = o->guard.head->span;
    const struct hr__memory *copy = o->guard.head->copy.memory;
    const struct hr__task *t;

    slot->num_items = 0;
    while (slot->num_items < o->batch && (t = o->guard.head) &&
           t->span.first == span.first && t->span.last == span.last &&
           !t->copy.memory == !copy)
        slot->items[slot->num_items++] = (struct ocl_item){
            .task = hr__guard_pop(&o->guard)};
    slot->state = OCL_BUSY;
}

// Waits for work and a slot to do it in; memory comes first. NULL: stop.
static struct ocl_slot *next_batch(struct ocl *o)
{
    struct ocl_slot *slot = NULL;

    pthread_mutex_lock(&o->guard.lock);
    while (!o->guard.stop && !o->guard.dead &&
           (o->requests || o->old_slabs || !o->guard.head ||
            !(slot = ocl_find_slot(o, OCL_FREE)))) {
        bool asked = o->requests || o->old_slabs;

        if (!asked && (ocl_times_idle(o) || wait_for_work(o)))
            continue;
        pthread_mutex_unlock(&o->guard.lock);
        if (asked)
            serve_memory(o);
        else
            keep_program(o);
        pthread_mutex_lock(&o->guard.lock);
    }
    if (o->guard.stop || o->guard.dead)
        slot = NULL;
    else
        take_batch(o, slot);
    pthread_mutex_unlock(&o->guard.lock);
    return slot;
}

static void let_go(struct ocl *o, struct ocl_slot *slot)
{
    ocl_pinned_let(&o->pinned, slot);
    ocl_import_let(slot);
}

// The slot goes back, unless the guard has taken everything away.
static void batch_failed(struct ocl *o, struct ocl_slot *slot,
                         const struct ocl_fault *fault)
{
    struct hr__task *list;

    if (!o->guard.dead)  // it has been mended, nothing reads its payloads
        let_go(o, slot);
    pthread_mutex_lock(&o->guard.lock);
    list = ocl_take_items(slot, 0);
    slot->state = OCL_FREE;
    hr__guard_failed(&o->guard, fault->why, list);
    pthread_mutex_unlock(&o->guard.lock);
    if (!list)
        return;
    hr__guard_log(&o->guard, HR_LOG_WARN, "a batch failed: %s", fault->text);
    hr__tasks_failed(list, fault->why, fault->text);
}

// The last batch in this slot failed on its way: nobody knows whether its
// pinned memory is mapped. False: it took too long.
static bool mend_failed(struct ocl *o, struct ocl_slot *slot)
{
    if (slot->result == CL_COMPLETE)
        return true;
    slot->result = CL_COMPLETE;
    ocl_enter(o);
    ocl_mend(o, slot);
    return ocl_leave(o);
}

static void serve(struct ocl *o)
{
    struct ocl_slot *slot;

    while ((slot = next_batch(o))) {
        struct ocl_fault fault = {0};
        struct hr__task *rest = NULL;
        bool ok = mend_failed(o, slot);

        if (ok && hr__guard_is_lost(&o->guard)) {
            ocl_enter(o);
            ok = open_again(o, slot, &fault);
            ok = ocl_leave(o) && ok;
        }
        if (!ok || !ocl_run_batch(o, slot, &rest, &fault))
            batch_failed(o, slot, &fault);
        hr__guard_put_back(&o->guard, rest);
    }
}

// True: nothing of ours is in the driver's hands any more.
static bool all_landed(struct ocl *o)
{
    int64_t deadline = hr__now() + LAND_NS;
    bool ok;

    pthread_mutex_lock(&o->guard.lock);
    while (!o->guard.dead && !(ok = all_free(o)) &&
           hr__cond_wait(&o->guard.lanes[0].wake, &o->guard.lock, deadline))
        ;
    ok = !o->guard.dead && all_free(o);
    pthread_mutex_unlock(&o->guard.lock);
    return ok;
}

// No driver has it, or has it any more.
void ocl_let_origin(struct ocl *o)
{
    if (o->origin.kind)
        o->origin.let(o->origin.ctx);
    o->origin = (struct hr__origin){0};
}

static enum hr_status open_first(struct ocl *o)
{
    struct ocl_fault fault = {0};
    enum hr_status status;

    if ((status = ocl_api_load(&o->api)) || (status = ocl_find(o)))
        return status;
    snprintf(o->guard.name, sizeof(o->guard.name), "opencl:%d", o->facts.index);
    if (!o->facts.shares)
        ocl_let_origin(o);
    ocl_variant_settle(o);
    if (!open_all(o, &o->slots[0], &fault)) {
        close_all(o);
        return hr__fail(HR_EDEVICE, "%s", fault.text);
    }
    ocl_memory_renew(o);
    return HR_OK;
}

enum hr_status ocl_open_first(void *owner)
{
    struct ocl *o = owner;
    enum hr_status status = open_first(o);

    if (status)
        ocl_let_origin(o);
    return status;
}

bool ocl_drive(void *owner)
{
    struct ocl *o = owner;

    serve(o);
    if (!all_landed(o))
        return false;
    keep_program(o);
    ocl_memory_close(o);
    close_all(o);
    ocl_let_origin(o);
    return true;
}
