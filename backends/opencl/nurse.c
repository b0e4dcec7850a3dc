// SPDX-License-Identifier: Apache-2.0
// The nurse: delivers what has landed, and ends what the driver does not give
// back in time. It never calls OpenCL.
#include "backends/opencl/opencl.h"

// ---- What she looks at ------------------------------------------------------

void ocl_enter(struct ocl *o)
{
    pthread_mutex_lock(&o->lock);
    o->busy_since = hr__now();
    // It looks again when it wakes; mostly it would wake early enough.
    if (o->nurse_due > o->busy_since + o->deadline)
        pthread_cond_signal(&o->landed);
    pthread_mutex_unlock(&o->lock);
}

// The call that was too long has come back. ocl->lock
static void come_back(struct ocl *o)
{
    int64_t now = hr__now();

    o->dead = false;
    o->breaker.doubt = true;
    ocl_import_resume(o);
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state == OCL_FLYING && !o->slots[i].stuck)
            o->slots[i].since = now;
    pthread_cond_signal(&o->landed);
}

bool ocl_leave(struct ocl *o)
{
    bool late, back;

    pthread_mutex_lock(&o->lock);
    o->busy_since = 0;
    late = o->dead;
    // Who has left this thread behind has given up what it needs to go on.
    back = late && !o->abandoned;
    if (back)
        come_back(o);
    pthread_mutex_unlock(&o->lock);
    if (back)
        ocl_log(o, HR_LOG_WARN, "the driver answers again");
    return !late;
}

// ---- The nurse ------------------------------------------------------------

static void CL_CALLBACK on_downloaded(cl_event event, cl_int result, void *arg)
{
    struct ocl_slot *slot = arg;
    struct ocl *o = slot->o;

    (void)event;
    pthread_mutex_lock(&o->lock);
    slot->result = result;
    slot->state = OCL_LANDED;
    pthread_cond_signal(&o->landed);
    pthread_mutex_unlock(&o->lock);
}

bool ocl_fly(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault)
{
    cl_int err;

    // Before the callback is there: it may come at once, on this thread.
    pthread_mutex_lock(&o->lock);
    slot->state = OCL_FLYING;
    slot->stuck = false;
    slot->since = hr__now();
    pthread_mutex_unlock(&o->lock);
    err = o->api.clSetEventCallback(slot->downloaded, CL_COMPLETE,
                                    on_downloaded, slot);
    if (!ocl_failed(fault, err, "clSetEventCallback"))
        return true;
    pthread_mutex_lock(&o->lock);
    slot->state = OCL_BUSY;
    pthread_mutex_unlock(&o->lock);
    return false;
}

// What has been enqueued behind a batch that is through now has had to wait for
// it: its turn begins. ocl->lock
static void start_clocks(struct ocl *o, const struct ocl_slot *through)
{
    int64_t now = hr__now();

    for (int i = 0; i < OCL_SLOTS; i++) {
        struct ocl_slot *slot = &o->slots[i];

        if (slot->state != OCL_FLYING || slot->since < through->since)
            continue;
        slot->since = now;
        for (int k = 0; k < slot->num_items; k++)
            hr__task_begun(slot->items[k].task);
    }
}

// ocl->lock is held; it is not while the pictures are copied.
static void deliver(struct ocl *o, struct ocl_slot *slot)
{
    struct hr__task *failed = NULL;
    struct ocl_fault fault = {0};
    int n = slot->num_items;

    slot->state = OCL_DELIVERING;
    start_clocks(o, slot);
    if (ocl_failed(&fault, slot->result, "a batch")) {
        failed = ocl_take_items(slot, 0);
        o->lost |= fault.why & HR_WHY_LOST || o->breaker.doubt;
    }
    // A batch that was given up has had its strike.
    if (n)
        hr__breaker_note(&o->breaker, !failed, hr__now());
    pthread_mutex_unlock(&o->lock);
    // Nobody knows whether it was for that.
    if (failed && slot->num_holds && !(fault.why & HR_WHY_LOST))
        ocl_import_give_up(o, ocl_import_used(slot), &fault);
    // Its commands have run: surfaces need not wait for the delivery.
    ocl_import_let(slot);
    if (failed) {
        ocl_log(o, HR_LOG_WARN, "a batch failed: %s", fault.text);
        hr__tasks_failed(failed, fault.why, fault.text);
    } else {
        ocl_deliver(o, slot);
    }
    ocl_pinned_let(&o->pinned, slot);
    pthread_mutex_lock(&o->lock);
    slot->num_items = 0;
    slot->state = OCL_FREE;
    pthread_cond_signal(&o->work);
}

// The driver thread has been in one call for too long: until it comes back
// nothing is the device's. What it and its slots hold, the CPU can make.
static struct hr__task *declare_dead(struct ocl *o, int64_t now)
{
    struct hr__task *list = ocl_take_queue(o), **end = &list;

    o->dead = true;
    hr__breaker_slow(&o->breaker, o->deadline, now);
    atomic_store(&o->imports.on, false);
    pthread_cond_broadcast(&o->changed);
    while (*end)
        end = &(*end)->next;
    for (int i = 0; i < OCL_SLOTS; i++)
        if (o->slots[i].state == OCL_BUSY || o->slots[i].state == OCL_FLYING) {
            *end = ocl_take_items(&o->slots[i], 0);
            while (*end)
                end = &(*end)->next;
        }
    return list;
}

// Nobody else can do it: its bytes are device memory; or may.
static bool only_here(const struct hr__task *t)
{
    const struct hr__picture *pic = t->pic;

    return !hr__task_may_leave(t) || !pic->dst.data ||
           (pic->image && !pic->pixels);
}

// While a new program is being completed nothing else is begun, and the device
// is not to blame for that. What only it can do waits, and its clock does not
// run; what has a time limit goes on elsewhere at once, and so does what the
// HAL has given up. True: it may stay in the queue.
static bool may_stay(const struct ocl *o, struct hr__task *t, int64_t now)
{
    bool stays;

    if (!hr__task_claim(t))
        return false;
    stays = only_here(t) || !hr__task_is_timed(t);
    if (only_here(t) && now < o->compiled)
        hr__task_waits(t);
    hr__task_unclaim(t);
    return stays;
}

static struct hr__task *go_elsewhere(struct ocl *o)
{
    struct hr__task *list = NULL, **end = &list, **at;
    int64_t now = hr__now();

    if (!o->compiling)
        return NULL;
    for (at = &o->head; *at;) {
        struct hr__task *t = *at;

        if (may_stay(o, t, now)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        *end = t;
        end = &t->next;
    }
    *end = NULL;
    o->tail = at;
    // So long that it must be a driver that hangs.
    if (list && now >= o->compiled)
        hr__breaker_note(&o->breaker, false, now);
    return list;
}

// Tasks that the device has had for too long; *due = when to look again.
static struct hr__task *overdue(struct ocl *o, int64_t *due)
{
    struct hr__task *list = NULL, **end = &list;
    int64_t now = hr__now(), at;

    *due = o->compiling && o->head ? now + o->deadline / 3 : INT64_MAX;
    if (o->busy_since && !o->dead) {
        at = o->busy_since + o->deadline;
        if (now >= at)
            return declare_dead(o, now);
        *due = at < *due ? at : *due;
    }
    for (int i = 0; i < OCL_SLOTS; i++) {
        struct ocl_slot *slot = &o->slots[i];

        at = slot->since + o->deadline;
        if (slot->state != OCL_FLYING || slot->stuck || o->dead)
            continue;
        if (now < at) {
            *due = at < *due ? at : *due;
            continue;
        }
        slot->stuck = true;
        if (slot->num_items)
            hr__breaker_note(&o->breaker, false, now);
        *end = ocl_take_items(slot, 0);
        while (*end)
            end = &(*end)->next;
    }
    return list;
}

void *ocl_nurse(void *arg)
{
    struct ocl *o = arg;
    struct ocl_slot *slot;
    struct hr__task *late, *left, *gone;
    bool was_dead, died;
    int64_t due;

    ocl_times_thread(o, "opencl results");
    pthread_mutex_lock(&o->lock);
    while (!o->driver_gone && !o->abandoned) {
        if ((slot = ocl_find_slot(o, OCL_LANDED))) {
            deliver(o, slot);
            continue;
        }
        was_dead = o->dead;
        late = overdue(o, &due);
        died = o->dead && !was_dead;
        left = ocl_hopeless(o) ? ocl_take_queue(o) : NULL;
        gone = go_elsewhere(o);
        if (late || left || gone || died) {
            pthread_mutex_unlock(&o->lock);
            if (died)
                ocl_log(o, HR_LOG_WARN,
                        "the driver does not answer, nothing is given to it "
                        "until it does");
            hr__tasks_failed(gone, HR_WHY_TIMEOUT,
                             "the device completes its program");
            hr__tasks_failed(late, HR_WHY_FAILED | HR_WHY_TIMEOUT,
                             "the device did not answer in time");
            hr__tasks_failed(left, HR_WHY_FAILED | HR_WHY_LOST,
                             "the device does not answer any more");
            pthread_mutex_lock(&o->lock);
            continue;
        }
        o->nurse_due = due;
        hr__cond_wait(&o->landed, &o->lock, due);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}
