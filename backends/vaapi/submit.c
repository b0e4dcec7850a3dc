// SPDX-License-Identifier: Apache-2.0
// What the driver thread does with a task: its bytes into a slot, the slot's
// surface to the driver.
#include <string.h>

#include "backends/vaapi/vaapi.h"

// ---- Which picture is next -------------------------------------------------

// A slot for the first task of the queue. NULL: none now.
static struct va_slot *slot_for_head(struct va *va)
{
    struct va_slot *slot;
    struct va_key key;

    va_key_of(va, &va->guard.head->pic->info, &key);
    if (!(slot = va_slot_take(va, &key)))
        return NULL;
    slot->task = hr__guard_pop(&va->guard);
    return slot;
}

struct va_slot *va_next_picture(struct va *va)
{
    struct va_slot *slot = NULL;

    pthread_mutex_lock(&va->guard.lock);
    while (!va->guard.stop &&
           (va->guard.dead || !va->guard.head || !(slot = slot_for_head(va))))
        hr__cond_wait(&va->guard.lanes[VA_DRIVER].wake, &va->guard.lock,
                      INT64_MAX);
    pthread_mutex_unlock(&va->guard.lock);
    return slot;
}

// The slot goes back; its task, if the guard has not taken it, is the
// caller's to end.
static struct hr__task *give_back(struct va *va, struct va_slot *slot)
{
    struct hr__task *task;

    pthread_mutex_lock(&va->guard.lock);
    task = slot->task;
    slot->task = NULL;
    slot->state = VA_FREE;
    pthread_cond_signal(&va->guard.lanes[VA_DRIVER].wake);
    pthread_mutex_unlock(&va->guard.lock);
    if (task)
        task->next = NULL;
    return task;
}

// tried: the fault is of the driver's calls.
static void picture_failed(struct va *va, struct va_slot *slot,
                           const struct va_fault *fault, bool tried)
{
    struct hr__task *task = give_back(va, slot);

    pthread_mutex_lock(&va->guard.lock);
    // The late call has been counted as a failure already.
    hr__guard_failed(&va->guard,
                     tried ? fault->why : fault->why & HR_WHY_DAMAGED,
                     task && !va->guard.dead);
    pthread_mutex_unlock(&va->guard.lock);
    if (!task)
        return;
    va_log(va, HR_LOG_WARN, "a picture failed: %s", fault->text);
    hr__tasks_failed(task, fault->why, fault->text);
}

static void plan_planes(struct va_slot *slot, const struct hr_info *info)
{
    struct hr__planes *p = &slot->planes;

    *p = (struct hr__planes){.num_components = (uint32_t)info->components,
                             .color = (uint32_t)info->color,
                             .h_max = 1,
                             .v_max = 1,
                             .w = (uint32_t)info->width,
                             .h = (uint32_t)info->height};
    for (uint32_t i = 0; i < p->num_components; i++) {
        // The only component's factors mean nothing.
        p->comp[i].h = p->num_components == 1 ? 1 : info->h[i];
        p->comp[i].v = p->num_components == 1 ? 1 : info->v[i];
        p->h_max = p->comp[i].h > p->h_max ? p->comp[i].h : p->h_max;
        p->v_max = p->comp[i].v > p->v_max ? p->comp[i].v : p->v_max;
    }
    for (uint32_t i = 0; i < p->num_components; i++) {
        struct hr__plane *c = &p->comp[i];

        c->width = (p->w * c->h + p->h_max - 1) / p->h_max;
        c->height = (p->h * c->v + p->v_max - 1) / p->v_max;
        c->cols = c->width;
        c->rows = c->height;
    }
    slot->kind = va_kind_of(info);
}

// The task's bytes and tables into the slot: then the driver may take its
// time, and the HAL may give the task up. False: it has ended, or failed.
static bool take_bytes(struct va *va, struct va_slot *slot,
                       struct va_fault *fault)
{
    const struct hr__picture *pic = slot->task->pic;
    unsigned why = va_jpeg_read(pic->data, pic->size, &pic->info, &slot->jpeg);
    size_t size = slot->jpeg.scan_size;

    if (why) {
        *fault = (struct va_fault){why, "the file changed"};
        return false;
    }
    if (size > slot->room) {
        hr__free(slot->bytes);
        // By halves, so that it does not grow every time.
        slot->room = size + size / 2;
        slot->bytes = hr__engine_ref_alloc(&va->guard.ref, slot->room);
        if (!slot->bytes) {
            slot->room = 0;
            *fault = (struct va_fault){HR_WHY_MEMORY, "out of memory"};
            return false;
        }
    }
    memcpy(slot->bytes, pic->data + slot->jpeg.scan_at, size);
    plan_planes(slot, &pic->info);
    if ((slot->pixels = slot->task->span.last == HR_RESAMPLE))
        va_vpp_plan(slot, pic);
    return true;
}

bool va_all_free(struct va *va, const struct va_slot *but, int64_t deadline)
{
    for (;;) {
        int busy = 0;

        for (int i = 0; i < va->num_slots; i++)
            busy += va->slots[i].state != VA_FREE && &va->slots[i] != but;
        if (!busy)
            return true;
        if (va->guard.dead || !hr__cond_wait(&va->guard.lanes[VA_DRIVER].wake,
                                             &va->guard.lock, deadline))
            return false;
    }
}

void va_close_all(struct va *va)
{
    for (int i = 0; i < va->num_slots; i++)
        va_surface_drop(va, &va->slots[i]);
    va_context_close(va);
    va_config_close(va);
    va_display_close(va);
}

// What was lost does not come back; a new display may work. Not while somebody
// still reads from a surface of the old one.
static bool open_again(struct va *va, struct va_slot *mine,
                       struct va_fault *fault)
{
    bool free, ok, may;

    pthread_mutex_lock(&va->guard.lock);
    free = va_all_free(va, mine, hr__now() + va->guard.deadline / 4);
    pthread_mutex_unlock(&va->guard.lock);
    if (!free) {
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                   "the device was lost"};
        return false;
    }
    va_log(va, HR_LOG_WARN, "opening the device again");
    if ((ok = va_enter(va, VA_DRIVER))) {
        va_close_all(va);
        ok = va_display_open(va, fault);
    }
    may = va_leave(va, VA_DRIVER);
    // (Also if it was slow: nobody has seen it fail yet.)
    hr__guard_renewed(&va->guard, ok);
    return ok && may;
}

// Perhaps none of those that fly ever lands. va->guard.lock
static bool none_will_land(const struct va *va)
{
    for (int i = 0; i < va->num_slots; i++)
        if (va->slots[i].state == VA_FLYING && !va->slots[i].stuck)
            return false;
    return true;
}

// What is ready waits here until fewer pictures than may be are the driver's,
// those included that were given up. A larger context, and a new one after a
// failure, is made when nothing uses the one that is there; not if that may be
// never.
static bool wait_for_turn(struct va *va, const struct va_key *key,
                          struct va_fault *fault)
{
    bool go = false, hopeless;
    int flying;

    pthread_mutex_lock(&va->guard.lock);
    while (!(hopeless = hr__guard_hopeless(&va->guard)) && !va->guard.stop) {
        flying = va_count_slots(va, VA_FLYING);
        go = !flying || (flying < va->depth && !va->guard.lost &&
                         va_context_fits(va, key->w, key->h));
        if (go || none_will_land(va))
            break;
        va->waits = true;
        hr__cond_wait(&va->guard.lanes[VA_DRIVER].wake, &va->guard.lock,
                      INT64_MAX);
        va->waits = false;
    }
    // So many that did not land: there may be more to it.
    va->guard.doubt |= hopeless;
    pthread_mutex_unlock(&va->guard.lock);
    if (hopeless)
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                   "the device does not answer any more"};
    else if (!go)
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_TIMEOUT,
                                   "an earlier picture does not come back"};
    return go;
}

// In the driver: the surface, the context, the picture.
static bool submit_picture(struct va *va, struct va_slot *slot,
                           const struct va_key *key, struct va_fault *fault)
{
    int64_t begin = hr__watch_begin();
    bool ok;

    ok = va_enter(va, VA_DRIVER) && va_surface_fit(va, slot, key, fault) &&
         va_context_open(va, key->w, key->h, fault) &&
         (!slot->pixels ||
          va_vpp_fit(va, &slot->out, slot->out_w, slot->out_h, fault)) &&
         va_decode(va, slot, fault) &&
         (!slot->pixels || va_vpp_run(va, slot->surface, &slot->crop,
                                      slot->mirror, &slot->out, fault));
    if (!va_leave(va, VA_DRIVER))
        return false;
    va_times_host(va, HR_PART_PACK, va->next_number + 1, begin);
    return ok;
}

// Also what was too late, and has no task any more: its surface must land
// before it is used again. While the waiter is late nobody looks for it, so
// then its task ends here.
static void fly(struct va *va, struct va_slot *slot)
{
    struct hr__task *lost = NULL;
    uint64_t flying;

    pthread_mutex_lock(&va->guard.lock);
    slot->state = VA_FLYING;
    slot->stuck = false;
    slot->since = hr__now();
    slot->sent = hr__watch_begin();
    if (slot->task)  // it has waited for its turn
        hr__task_begun(slot->task);
    if (va->guard.dead && (lost = slot->task)) {
        slot->task = NULL;
        lost->next = NULL;
    }
    slot->number = slot->used = ++va->next_number;
    flying = (uint64_t)va_count_slots(va, VA_FLYING);
    pthread_cond_signal(&va->guard.lanes[VA_WAITER].wake);
    hr__guard_look(&va->guard, slot->since + va->guard.deadline);
    pthread_mutex_unlock(&va->guard.lock);
    if (flying > atomic_load(&va->most_in_flight))
        atomic_store(&va->most_in_flight, flying);
    hr__tasks_failed(lost, HR_WHY_FAILED | HR_WHY_LOST,
                     "the device does not answer any more");
}

void va_take_up(struct va *va, struct va_slot *slot)
{
    struct va_fault fault = {0};
    struct hr__task *task = slot->task;
    struct va_key key;
    int64_t begin = hr__watch_begin();
    bool ready, ok;

    if (!hr__task_claim(task)) {
        hr__tasks_failed(give_back(va, slot), HR_WHY_TIMEOUT, "");
        return;
    }
    if (hr__task_stop(task)) {
        hr__tasks_stopped(give_back(va, slot));
        return;
    }
    ready = take_bytes(va, slot, &fault);
    va_key_of(va, &task->pic->info, &key);
    slot->wanted = hr__task_imports(task) & HR__VA_SURFACE;
    hr__task_begun(task);
    hr__task_unclaim(task);
    va_times_host(va, HR_PART_PACK, va->next_number + 1, begin);
    // From here on the guard may take it.
    ready = ready && wait_for_turn(va, &key, &fault);
    ok = ready &&
         (!hr__guard_is_lost(&va->guard) || open_again(va, slot, &fault)) &&
         submit_picture(va, slot, &key, &fault);
    if (ok)
        fly(va, slot);
    else
        picture_failed(va, slot, &fault, ready);
}
