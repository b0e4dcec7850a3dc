// SPDX-License-Identifier: Apache-2.0
// The driver thread; opencl.h draws how the threads work.
#include <stdio.h>
#include <string.h>

#include "backends/opencl/device_memory.h"
#include "backends/opencl/opencl.h"

// The user's deadline, at least LEAST and at most these, to open and to stop
// with a program to be kept; if the driver works then, longer. Just to stop.
#define OPEN_NS INT64_C(60000000000)
#define KEEP_NS INT64_C(15000000000)
#define LEAST_NS INT64_C(1000000000)
#define MOST_NS INT64_C(300000000000)  // on a busy machine
#define STOP_NS INT64_C(2000000000)
#define LAND_NS INT64_C(1500000000)  // < STOP_NS
#define IDLE_NS INT64_C(500000000)

// ---- The driver thread ----------------------------------------------------

struct ocl_slot *ocl_find_slot(struct ocl *o, enum ocl_slot_state state)
{
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state == state)
            return &o->slots[i];
    return NULL;
}

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
// elsewhere, as the nurse decides.
static void keep_program(struct ocl *o)
{
    bool keep;

    pthread_mutex_lock(&o->lock);
    if (o->head && !o->stop) {  // it has just come
        pthread_mutex_unlock(&o->lock);
        return;
    }
    keep = o->unkept && !o->dead && !o->lost;
    o->unkept = false;
    o->compiling = keep;
    o->compiled = hr__now() + OCL_COMPILE_NS;
    pthread_mutex_unlock(&o->lock);
    if (!keep)
        return;
    ocl_program_save(o);
    pthread_mutex_lock(&o->lock);
    o->compiling = false;
    pthread_mutex_unlock(&o->lock);
}

// False: nothing has come for so long that the program may be kept.
static bool wait_for_work(struct ocl *o)
{
    int64_t deadline = INT64_MAX;

    if (o->unkept && !o->head && all_free(o))
        deadline = hr__now() + IDLE_NS;
    return hr__cond_wait(&o->work, &o->lock, deadline) || o->head || o->stop ||
           o->requests || o->old_slabs;
}

// slot: a FREE one, to try the device with.
static bool open_all(struct ocl *o, struct ocl_slot *slot,
                     struct ocl_fault *fault)
{
    if (!ocl_context_open(o, fault) || !ocl_ring_open(o, fault) ||
        !ocl_program_open(o, fault) || !ocl_warm_up(o, slot, fault) ||
        !ocl_variant_choose(o, slot, fault))
        return false;
    pthread_mutex_lock(&o->lock);
    o->unkept = !o->program_cached || o->timed_now;
    pthread_mutex_unlock(&o->lock);
    return true;
}

static void close_all(struct ocl *o)
{
    ocl_ring_close(o);
    ocl_program_close(o);
    ocl_context_close(o);
}

// Waits for what is on its way in the other slots. False: something will not
// come back. In a call to the driver, as far as the nurse can tell.
static bool others_free(struct ocl *o, const struct ocl_slot *mine)
{
    bool wait = true, free = false;
    int64_t deadline;

    pthread_mutex_lock(&o->lock);
    deadline = hr__now() + o->deadline / 4;
    while (wait && !free && !o->dead) {
        free = true;
        for (int i = 0; i < OCL_SLOTS; i++) {
            const struct ocl_slot *slot = &o->slots[i];

            free &= slot == mine || slot->state == OCL_FREE;
            // Given up by the nurse.
            wait &= slot->state != OCL_FLYING || !slot->stuck;
        }
        if (wait && !free)
            wait = hr__cond_wait(&o->work, &o->lock, deadline);
    }
    pthread_mutex_unlock(&o->lock);
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
    ocl_log(o, HR_LOG_WARN, "opening the device again");
    close_all(o);
    ok = open_all(o, &o->slots[mine == &o->slots[0]], fault);
    ocl_memory_renew(o);
    pthread_mutex_lock(&o->lock);
    o->lost = !ok;
    o->breaker.doubt = false;
    pthread_mutex_unlock(&o->lock);
    return ok;
}

static bool is_lost(struct ocl *o)
{
    bool lost;

    pthread_mutex_lock(&o->lock);
    lost = o->lost;
    pthread_mutex_unlock(&o->lock);
    return lost;
}

static void serve_memory(struct ocl *o)
{
    struct ocl_fault fault = {0};
    bool ok = true, asked;

    pthread_mutex_lock(&o->lock);
    asked = o->requests;
    pthread_mutex_unlock(&o->lock);
    ocl_enter(o);
    if (asked && is_lost(o))
        ok = open_again(o, NULL, &fault);
    ocl_memory_serve(o, ok ? NULL : &fault);
    ocl_leave(o);
}

// Waits for work and a slot to do it in; memory comes first. NULL: stop.
static struct ocl_slot *next_batch(struct ocl *o)
{
    struct ocl_slot *slot = NULL;

    pthread_mutex_lock(&o->lock);
    while (!o->stop && !o->dead &&
           (o->requests || o->old_slabs || !o->head ||
            !(slot = ocl_find_slot(o, OCL_FREE)))) {
        bool asked = o->requests || o->old_slabs;

        if (!asked && (ocl_times_idle(o) || wait_for_work(o)))
            continue;
        pthread_mutex_unlock(&o->lock);
        if (asked)
            serve_memory(o);
        else
            keep_program(o);
        pthread_mutex_lock(&o->lock);
    }
    if (o->stop || o->dead)
        slot = NULL;
    else
        ocl_take_batch(o, slot);
    pthread_mutex_unlock(&o->lock);
    return slot;
}

static void let_go(struct ocl *o, struct ocl_slot *slot)
{
    ocl_pinned_let(&o->pinned, slot);
    ocl_import_let(slot);
}

// The slot goes back, unless the nurse has taken everything away.
static void batch_failed(struct ocl *o, struct ocl_slot *slot,
                         const struct ocl_fault *fault)
{
    struct hr__task *list;
    bool dead;

    pthread_mutex_lock(&o->lock);
    dead = o->dead;
    pthread_mutex_unlock(&o->lock);
    if (!dead)  // it has been mended, nothing reads its payloads
        let_go(o, slot);
    pthread_mutex_lock(&o->lock);
    list = ocl_take_items(slot, 0);
    slot->state = OCL_FREE;
    if (fault->why)
        o->lost |= fault->why & HR_WHY_LOST || o->breaker.doubt;
    // Who was too late has had a strike for that.
    if (list)
        hr__breaker_note(&o->breaker, false, hr__now());
    pthread_mutex_unlock(&o->lock);
    if (!list)
        return;
    ocl_log(o, HR_LOG_WARN, "a batch failed: %s", fault->text);
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

        if (ok && is_lost(o)) {
            ocl_enter(o);
            ok = open_again(o, slot, &fault);
            ok = ocl_leave(o) && ok;
        }
        if (!ok || !ocl_run_batch(o, slot, &rest, &fault))
            batch_failed(o, slot, &fault);
        ocl_put_back(o, rest);
    }
}

// True: nothing of ours is in the driver's hands any more.
static bool all_landed(struct ocl *o)
{
    int64_t deadline = hr__now() + LAND_NS;
    bool ok;

    pthread_mutex_lock(&o->lock);
    while (!o->dead && !(ok = all_free(o)) &&
           hr__cond_wait(&o->work, &o->lock, deadline))
        ;
    ok = !o->dead && all_free(o);
    pthread_mutex_unlock(&o->lock);
    return ok;
}

static void open_done(struct ocl *o, enum hr_status status, const char *text)
{
    pthread_mutex_lock(&o->lock);
    o->open_status = status;
    snprintf(o->open_text, sizeof(o->open_text), "%s", text);
    o->opened = true;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

// No driver has it, or has it any more.
static void let_origin(struct ocl *o)
{
    if (o->origin.kind)
        o->origin.let(o->origin.ctx);
    o->origin = (struct hr__origin){0};
}

static bool open_first(struct ocl *o)
{
    struct ocl_fault fault = {0};
    enum hr_status status;

    if ((status = ocl_api_load(&o->api)) || (status = ocl_find(o))) {
        open_done(o, status, hr_last_error());
        return false;
    }
    if (!o->facts.shares)
        let_origin(o);
    ocl_variant_settle(o);
    if (!open_all(o, &o->slots[0], &fault)) {
        close_all(o);
        open_done(o, HR_EDEVICE, fault.text);
        return false;
    }
    ocl_memory_renew(o);
    open_done(o, HR_OK, "");
    return true;
}

static void *drive(void *arg)
{
    struct ocl *o = arg;

    ocl_times_thread(o, "opencl driver");
    if (open_first(o)) {
        serve(o);
        o->left_behind = !all_landed(o);
        if (!o->left_behind) {
            keep_program(o);
            ocl_memory_close(o);
            close_all(o);
        }
    }
    if (!o->left_behind)
        let_origin(o);
    pthread_mutex_lock(&o->lock);
    o->driver_gone = true;
    pthread_cond_broadcast(&o->changed);
    pthread_cond_signal(&o->landed);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

// ---- Start and stop -------------------------------------------------------

static void init(struct ocl *o)
{
    pthread_mutex_init(&o->lock, NULL);
    hr__cond_init(&o->work);
    hr__cond_init(&o->landed);
    hr__cond_init(&o->changed);
    o->tail = &o->head;
    for (int i = 0; i < OCL_SLOTS; i++)
        o->slots[i].o = o;
}

static struct hr__patience patience(const struct ocl *o, int64_t ns,
                                    int64_t most)
{
    int64_t now = hr__now();

    ns = ns < LEAST_NS ? LEAST_NS : ns < most ? ns : most;
    return (struct hr__patience){.deadline = now + ns,
                                 .most = now + MOST_NS,
                                 .caller = &o->driver};
}

enum hr_status ocl_start(struct ocl *o, int64_t deadline)
{
    struct hr__patience p = patience(o, deadline, OPEN_NS);
    int64_t begin = hr__now();
    bool opened;

    init(o);
    if (o->origin.kind)
        o->origin.hold(o->origin.ctx);
    if (!(o->have_driver = hr__thread_start(&o->driver, drive, o))) {
        if (o->origin.kind)
            o->origin.let(o->origin.ctx);
        return hr__fail(HR_ENOMEM, "no thread for the driver");
    }
    pthread_mutex_lock(&o->lock);
    while (!o->opened && (hr__cond_wait(&o->changed, &o->lock, p.deadline) ||
                          hr__wait_longer(&p)))
        ;
    opened = o->opened;
    pthread_mutex_unlock(&o->lock);
    if (!opened)
        return hr__fail(HR_EDEVICE, "the driver did not answer in %d s",
                        (int)((hr__now() - begin) / 1000000000));
    if (o->open_status)
        return hr__fail(o->open_status, "%s", o->open_text);
    if (!(o->have_nurse = hr__thread_start(&o->nurse, ocl_nurse, o)))
        return hr__fail(HR_ENOMEM, "no thread to deliver on");
    return HR_OK;
}

bool ocl_stop(struct ocl *o, int64_t deadline)
{
    int64_t now = hr__now();
    struct hr__patience p = {.deadline = now + STOP_NS, .most = now};
    bool gone;

    pthread_mutex_lock(&o->lock);
    // Left behind, a compiler may crash when the process ends.
    if (o->compiling || o->unkept)
        p = patience(o, deadline, KEEP_NS);
    o->stop = true;
    pthread_cond_signal(&o->work);
    // Who is dead, or has not opened, has had its time; it is left behind now.
    while (o->have_driver && !o->driver_gone && !o->dead && o->opened &&
           (hr__cond_wait(&o->changed, &o->lock, p.deadline) ||
            hr__wait_longer(&p)))
        ;
    gone = !o->have_driver || o->driver_gone;
    o->abandoned = !gone;
    pthread_cond_signal(&o->landed);
    pthread_mutex_unlock(&o->lock);
    if (o->have_nurse)
        pthread_join(o->nurse, NULL);
    if (o->have_driver && gone)
        pthread_join(o->driver, NULL);
    else if (o->have_driver)
        pthread_detach(o->driver);
    return gone && !o->dead && !o->left_behind;
}
