// SPDX-License-Identifier: Apache-2.0
// The queue, the driver thread and its start and stop; vaapi.h draws how the
// threads work together, waiter.c is the other one.
#include <stdio.h>
#include <string.h>

#include "backends/vaapi/vaapi.h"

#define OPEN_NS INT64_C(15000000000)
#define STOP_NS INT64_C(2000000000)

// ---- The queue -------------------------------------------------------------

void va_push(struct va *va, struct hr__task *list)
{
    pthread_mutex_lock(&va->lock);
    *va->tail = list;
    while (*va->tail)
        va->tail = &(*va->tail)->next;
    pthread_cond_signal(&va->work);
    // If nobody else will, the nurse ends them.
    pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
}

struct hr__task *va_take_queue(struct va *va)
{
    struct hr__task *list = va->head;

    va->head = NULL;
    va->tail = &va->head;
    return list;
}

static void end_stopped(struct hr__task *task)
{
    struct hr__outcome out = {.offset = -1};

    if (!task)
        return;
    out.status = hr__task_stop_status(task);
    out.stage = task->span.first;
    hr__task_done(task, &out);
}

void va_cancel_queued(struct va *va)
{
    struct hr__task **at, *stopped = NULL, *next;

    pthread_mutex_lock(&va->lock);
    for (at = &va->head; *at;) {
        struct hr__task *t = *at;

        if (!hr__task_stop(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = stopped;
        stopped = t;
    }
    va->tail = at;
    pthread_mutex_unlock(&va->lock);
    for (; stopped; stopped = next) {
        next = stopped->next;
        end_stopped(stopped);
    }
}

// ---- Around calls ----------------------------------------------------------

static bool one_at_a_time(const struct va *va)
{
    // (Before the vendor is known there is one thread only.)
    return va->facts.driver && !(va->facts.driver->quirks & VA_QUIRK_SAFE);
}

void va_enter(struct va *va, int thread)
{
    pthread_mutex_lock(&va->lock);
    va->busy_since[thread] = hr__now();
    // It looks again when it wakes; mostly it would wake early enough.
    if (va->nurse_due > va->busy_since[thread] + va->deadline)
        pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    if (one_at_a_time(va))
        pthread_mutex_lock(&va->calls);
}

bool va_leave(struct va *va, int thread)
{
    bool alive;

    if (one_at_a_time(va))
        pthread_mutex_unlock(&va->calls);
    pthread_mutex_lock(&va->lock);
    va->busy_since[thread] = 0;
    alive = !va->dead;
    pthread_mutex_unlock(&va->lock);
    return alive;
}

// ---- The driver thread -----------------------------------------------------

// Pictures that are the driver's, those included that were given up.
static int in_flight(const struct va *va)
{
    return va_count_slots(va, VA_FLYING) + va_count_slots(va, VA_READING);
}

// A slot for the first task of the queue. NULL: none now.
static struct va_slot *slot_for_head(struct va *va)
{
    const struct hr_info *info = &va->head->pic->info;
    int flying = in_flight(va);
    struct va_slot *slot;
    struct va_key key;

    if (flying >= va->depth)
        return NULL;
    va_key_of(va, info, &key);
    // A larger context is made when nothing uses the one that is there; a new
    // one after a failure, too.
    if (flying && (va->lost || !va_context_fits(va, key.w, key.h)))
        return NULL;
    if (!(slot = va_slot_take(va, &key)))
        return NULL;
    slot->task = va->head;
    va->head = slot->task->next;
    if (!va->head)
        va->tail = &va->head;
    return slot;
}

// Waits for work and for a slot to do it in. NULL: stop.
static struct va_slot *next_picture(struct va *va)
{
    struct va_slot *slot = NULL;

    pthread_mutex_lock(&va->lock);
    while (!va->stop && !va->dead && (!va->head || !(slot = slot_for_head(va))))
        va_cond_wait(&va->work, &va->lock, INT64_MAX);
    pthread_mutex_unlock(&va->lock);
    return slot;
}

// The slot goes back; its task, if the nurse has not taken it, is the
// caller's to end.
static struct hr__task *give_back(struct va *va, struct va_slot *slot)
{
    struct hr__task *task;

    pthread_mutex_lock(&va->lock);
    task = slot->task;
    slot->task = NULL;
    slot->state = VA_FREE;
    pthread_cond_signal(&va->work);
    pthread_mutex_unlock(&va->lock);
    if (task)
        task->next = NULL;
    return task;
}

static void picture_failed(struct va *va, struct va_slot *slot,
                           const struct va_fault *fault)
{
    struct hr__task *task = give_back(va, slot);

    pthread_mutex_lock(&va->lock);
    va->lost |= (fault->why & HR_WHY_LOST) != 0;
    if (!(fault->why & HR_WHY_DAMAGED))
        va_breaker_note(&va->breaker, false, hr__now());
    pthread_mutex_unlock(&va->lock);
    if (!task)
        return;
    va_log(va, HR_LOG_WARN, "a picture failed: %s", fault->text);
    va_fail_tasks(task, fault->why, fault->text);
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
        pthread_mutex_lock(&va->hal);
        slot->bytes = va->e ? hr__alloc(va->e->device, slot->room) : NULL;
        pthread_mutex_unlock(&va->hal);
        if (!slot->bytes) {
            slot->room = 0;
            *fault = (struct va_fault){HR_WHY_MEMORY, "out of memory"};
            return false;
        }
    }
    memcpy(slot->bytes, pic->data + slot->jpeg.scan_at, size);
    plan_planes(slot, &pic->info);
    return true;
}

// All slots are back, or false after a while. va->lock
static bool all_free(struct va *va, const struct va_slot *but, int64_t deadline)
{
    for (;;) {
        int busy = 0;

        for (int i = 0; i < va->num_slots; i++)
            busy += va->slots[i].state != VA_FREE && &va->slots[i] != but;
        if (!busy)
            return true;
        if (va->dead || !va_cond_wait(&va->work, &va->lock, deadline))
            return false;
    }
}

static void close_all(struct va *va)
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
    bool free, ok;

    pthread_mutex_lock(&va->lock);
    free = all_free(va, mine, hr__now() + va->deadline / 4);
    pthread_mutex_unlock(&va->lock);
    if (!free) {
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                   "the device was lost"};
        return false;
    }
    va_log(va, HR_LOG_WARN, "opening the device again");
    va_enter(va, VA_DRIVER);
    close_all(va);
    ok = va_display_open(va, fault);
    ok = va_leave(va, VA_DRIVER) && ok;
    pthread_mutex_lock(&va->lock);
    va->lost = !ok;
    pthread_mutex_unlock(&va->lock);
    return ok;
}

// In the driver: the surface, the context, the picture.
static bool submit_picture(struct va *va, struct va_slot *slot,
                           const struct va_key *key, struct va_fault *fault)
{
    bool ok;

    va_enter(va, VA_DRIVER);
    ok = va_surface_fit(va, slot, key, fault) &&
         va_context_open(va, key->w, key->h, fault) &&
         va_decode(va, slot, fault);
    if (va_leave(va, VA_DRIVER))
        return ok;
    if (!fault->why)
        *fault = (struct va_fault){HR_WHY_FAILED | HR_WHY_LOST,
                                   "the device does not answer any more"};
    return false;
}

static void fly(struct va *va, struct va_slot *slot)
{
    uint64_t flying;

    pthread_mutex_lock(&va->lock);
    slot->state = VA_FLYING;
    slot->since = hr__now();
    slot->number = slot->used = ++va->next_number;
    flying = (uint64_t)va_count_slots(va, VA_FLYING);
    pthread_cond_signal(&va->flown);
    if (va->nurse_due > slot->since + va->deadline)
        pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    if (flying > atomic_load(&va->most_in_flight))
        atomic_store(&va->most_in_flight, flying);
}

static bool is_lost(struct va *va)
{
    bool lost;

    pthread_mutex_lock(&va->lock);
    lost = va->lost;
    pthread_mutex_unlock(&va->lock);
    return lost;
}

static void take_up(struct va *va, struct va_slot *slot)
{
    struct va_fault fault = {0};
    struct hr__task *task = slot->task;
    struct va_key key;
    bool ok;

    if (!hr__task_claim(task)) {
        va_fail_tasks(give_back(va, slot), HR_WHY_TIMEOUT, "");
        return;
    }
    if (hr__task_stop(task)) {
        end_stopped(give_back(va, slot));
        return;
    }
    ok = take_bytes(va, slot, &fault);
    va_key_of(va, &task->pic->info, &key);
    hr__task_begun(task);
    hr__task_unclaim(task);
    // From here on the nurse may take it.
    ok = ok && (!is_lost(va) || open_again(va, slot, &fault)) &&
         submit_picture(va, slot, &key, &fault);
    if (ok)
        fly(va, slot);
    else
        picture_failed(va, slot, &fault);
}

// True: nothing of ours is in the driver's hands any more.
static bool all_landed(struct va *va)
{
    bool ok;

    pthread_mutex_lock(&va->lock);
    ok = all_free(va, NULL, hr__now() + STOP_NS / 4) && !va->dead;
    pthread_mutex_unlock(&va->lock);
    return ok;
}

static void open_done(struct va *va, enum hr_status status, const char *text)
{
    pthread_mutex_lock(&va->lock);
    va->open_status = status;
    snprintf(va->open_text, sizeof(va->open_text), "%s", text);
    va->opened = true;
    pthread_cond_broadcast(&va->changed);
    pthread_mutex_unlock(&va->lock);
}

static bool open_first(struct va *va)
{
    struct va_fault fault = {0};
    enum hr_status status;

    if ((status = va_api_load(&va->api))) {
        open_done(va, status, hr_last_error());
        return false;
    }
    if (!va_display_open(va, &fault)) {
        close_all(va);
        open_done(va, HR_EDEVICE, fault.text);
        return false;
    }
    va_choose(va);
    open_done(va, HR_OK, "");
    return true;
}

static void *drive(void *arg)
{
    struct va *va = arg;
    struct va_slot *slot;

    if (open_first(va)) {
        while ((slot = next_picture(va)))
            take_up(va, slot);
        if (all_landed(va)) {
            va_enter(va, VA_DRIVER);
            close_all(va);
            va_leave(va, VA_DRIVER);
        } else {
            va->left_behind = true;
        }
    }
    pthread_mutex_lock(&va->lock);
    va->gone[VA_DRIVER] = true;
    pthread_cond_broadcast(&va->changed);
    pthread_cond_broadcast(&va->flown);
    pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    return NULL;
}

// ---- Start and stop --------------------------------------------------------

static void init(struct va *va)
{
    pthread_mutex_init(&va->hal, NULL);
    pthread_mutex_init(&va->lock, NULL);
    pthread_mutex_init(&va->calls, NULL);
    va_cond_init(&va->work);
    va_cond_init(&va->flown);
    va_cond_init(&va->nurse_c);
    va_cond_init(&va->changed);
    va->tail = &va->head;
    va->fd = -1;
    va->config = va->context = VA_INVALID_ID;
    for (int i = 0; i < VA_SLOTS; i++) {
        va->slots[i].va = va;
        va->slots[i].surface = VA_INVALID_ID;
    }
}

enum hr_status va_device_start(struct va *va)
{
    int64_t deadline = hr__now() + OPEN_NS;
    bool opened;

    init(va);
    if (!(va->have[VA_DRIVER] = hr__thread_start(&va->threads[VA_DRIVER], drive,
                                                 va)))
        return hr__fail(HR_ENOMEM, "no thread for the driver");
    pthread_mutex_lock(&va->lock);
    while (!va->opened && va_cond_wait(&va->changed, &va->lock, deadline))
        ;
    opened = va->opened;
    pthread_mutex_unlock(&va->lock);
    if (!opened)
        return hr__fail(HR_EDEVICE, "the driver did not answer in %d s",
                        (int)(OPEN_NS / 1000000000));
    if (va->open_status)
        return hr__fail(va->open_status, "%s", va->open_text);
    if (!(va->have[VA_WAITER] = hr__thread_start(&va->threads[VA_WAITER],
                                                 va_wait_for_pictures, va)))
        return hr__fail(HR_ENOMEM, "no thread to wait on");
    if (!(va->have_nurse = hr__thread_start(&va->nurse, va_nurse, va)))
        return hr__fail(HR_ENOMEM, "no thread for the clock");
    return HR_OK;
}

static bool all_gone(const struct va *va)
{
    for (int i = 0; i < VA_THREADS; i++)
        if (va->have[i] && !va->gone[i])
            return false;
    return true;
}

bool va_device_stop(struct va *va)
{
    int64_t most = va->deadline / 2 + STOP_NS / 4, deadline;
    bool gone;

    deadline = hr__now() + (most < STOP_NS ? most : STOP_NS);
    pthread_mutex_lock(&va->lock);
    va->stop = true;
    pthread_cond_broadcast(&va->work);
    pthread_cond_broadcast(&va->flown);
    while (!all_gone(va) && va_cond_wait(&va->changed, &va->lock, deadline))
        ;
    gone = all_gone(va);
    va->abandoned = true;
    pthread_cond_signal(&va->nurse_c);
    pthread_mutex_unlock(&va->lock);
    if (va->have_nurse)
        pthread_join(va->nurse, NULL);
    for (int i = 0; i < VA_THREADS; i++) {
        if (!va->have[i])
            continue;
        if (gone)
            pthread_join(va->threads[i], NULL);
        else
            pthread_detach(va->threads[i]);
    }
    return gone && !va->dead && !va->left_behind;
}
