// SPDX-License-Identifier: Apache-2.0
#include "fake_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_pixels.h"
#include "hal/hal.h"

struct fake_counts fake_counts;

static struct fake_script script;  // of the next open

struct fake {
    struct fake_script s;
    struct hr__engine *e;
    pthread_t thread;
    bool started, stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct hr__task *head, **tail;
    int begun;  // tasks, under the lock
    int copies;
    uint8_t *last;  // what the last task left, for stale_width
    size_t last_size;
};

// One gate and one alarm clock for all engines of the program.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool open;
    int wakes;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

void fake_gate_open(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.lock);
}

void fake_wake(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.wakes++;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.lock);
}

static void wait_for_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    while (!gate.open)
        pthread_cond_wait(&gate.cond, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void wait_for_wake(void)
{
    pthread_mutex_lock(&gate.lock);
    int wakes = gate.wakes;

    atomic_fetch_add(&fake_counts.hanging, 1);
    while (gate.wakes == wakes)
        pthread_cond_wait(&gate.cond, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    atomic_fetch_sub(&fake_counts.hanging, 1);
}

static void sleep_ns(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};

    if (ns > 0)
        nanosleep(&t, NULL);
}

static int64_t thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void burn_ns(int64_t ns)
{
    int64_t until = thread_ns() + ns;

    while (ns > 0 && thread_ns() < until)
        ;
}

// ---- One task -------------------------------------------------------------

static bool within(int k, int from, int to)
{
    return from && k >= from && (k <= to || to <= 0);
}

static void hang(struct fake *f)
{
    if (f->s.hang_ns)
        sleep_ns(f->s.hang_ns);
    else
        wait_for_wake();
}

static void fail(struct hr__outcome *out, const struct fake *f, int k)
{
    out->status = f->s.fail_status ? f->s.fail_status : HR_EDEVICE;
    out->why = f->s.fail_why;
    snprintf(out->text, sizeof(out->text), "the script fails task %d", k);
}

static void end(struct hr__task *task, const struct hr__outcome *out)
{
    atomic_fetch_add(&fake_counts.ended, 1);
    hr__task_done(task, out);
}

// Pictures of equal size only: the others are right.
static void be_stale(struct fake *f, const struct hr__picture *pic)
{
    const struct hr__dst *d = &pic->dst;
    size_t size = d->layout == HR_NCHW ? d->stride_c * (size_t)d->c
                                       : d->stride_h * (size_t)d->h;

    if (pic->width == f->s.stale_width && size == f->last_size) {
        memcpy(d->data, f->last, size);
        return;
    }
    free(f->last);
    f->last_size = (f->last = malloc(size)) ? size : 0;
    if (f->last)
        memcpy(f->last, d->data, size);
}

// Claimed: nobody takes the memory away.
static void work(struct fake *f, struct hr__task *task, int k,
                 struct hr__outcome *out)
{
    bool spoiled;

    if (f->s.hang_claimed && within(k, f->s.hang_from, f->s.hang_to))
        hang(f);
    if (!f->s.deaf && hr__task_stop(task)) {
        atomic_fetch_add(&fake_counts.stopped, 1);
        out->status = hr__task_stop_status(task);
        return;
    }
    if (within(k, f->s.empty_from, f->s.empty_to) &&
        task->span.last != HR_STORE)
        return;
    spoiled = !f->s.fault_width || task->pic->width == f->s.fault_width;
    if (task->span.last == HR_RECONSTRUCT)
        fake_planes(task, f->s.planes_form, out);
    else
        fake_pixels(task, spoiled ? f->s.fault : FAKE_RIGHT, out);
    if (f->s.never_fails)
        out->status = HR_OK;
    if (f->s.stale_width && !out->status && task->span.last == HR_STORE)
        be_stale(f, task->pic);
    if (f->s.wrong && !out->status && task->span.last == HR_STORE)
        *fake_dst(&task->pic->dst) ^= f->s.wrong_bits ? f->s.wrong_bits : 1;
    if (!out->status && f->s.fail_late &&
        within(k, f->s.fail_from, f->s.fail_to))
        fail(out, f, k);
}

static void run_copy(struct fake *f, struct hr__task *task)
{
    struct hr__outcome out = {.offset = -1, .stage = HR_STORE};
    int k;

    pthread_mutex_lock(&f->lock);
    k = ++f->copies;
    pthread_mutex_unlock(&f->lock);
    if (f->s.copy_bytes && task->copy.size > f->s.copy_bytes)
        abort();
    if (within(k, f->s.copy_hang_from, f->s.copy_hang_to))
        wait_for_wake();
    if (within(k, f->s.copy_fail_from, f->s.copy_fail_to)) {
        fail(&out, f, k);
    } else if (!f->s.deaf && hr__task_stop(task)) {
        out.status = hr__task_stop_status(task);
    } else if (!hr__task_claim(task)) {
        atomic_fetch_add(&fake_counts.claims_lost, 1);
        out.status = HR_EDEVICE;
    } else {
        fake_do_copy(&task->copy);
    }
    hr__task_done(task, &out);
}

static void run(struct fake *f, struct hr__task *task)
{
    struct hr__outcome out = {.offset = -1, .stage = task->span.first};
    int k;

    if (task->copy.memory) {
        run_copy(f, task);
        return;
    }
    pthread_mutex_lock(&f->lock);
    k = ++f->begun;
    pthread_mutex_unlock(&f->lock);
    atomic_fetch_add(&fake_counts.begun, 1);
    if (f->s.gate)
        wait_for_gate();
    hr__task_begun(task);
    sleep_ns(f->s.delay_ns);
    burn_ns(f->s.burn_ns);
    if (!f->s.fail_late && within(k, f->s.fail_from, f->s.fail_to)) {
        fail(&out, f, k);
        end(task, &out);
        return;
    }
    if (!f->s.hang_claimed && within(k, f->s.hang_from, f->s.hang_to))
        hang(f);
    if (!hr__task_claim(task) || (f->s.claims_twice && !hr__task_claim(task))) {
        atomic_fetch_add(&fake_counts.claims_lost, 1);
        if (!f->s.done_after_lost)
            fail(&out, f, k);
        end(task, &out);
        return;
    }
    work(f, task, k, &out);
    if (k % 2)  // done() alone must be enough
        hr__task_unclaim(task);
    end(task, &out);
}

static void *loop(void *arg)
{
    struct fake *f = arg;
    struct hr__task *t;

    for (;;) {
        pthread_mutex_lock(&f->lock);
        while (!f->head && !f->stop)
            pthread_cond_wait(&f->wake, &f->lock);
        if ((t = f->head)) {
            if (!(f->head = t->next))
                f->tail = &f->head;
        }
        pthread_mutex_unlock(&f->lock);
        if (!t)
            return NULL;
        run(f, t);
    }
}

// ---- The table ------------------------------------------------------------

static void fake_close(struct hr__engine *e)
{
    struct fake *f = e->priv;

    if (f->started) {
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    if (f->tail) {
        pthread_cond_destroy(&f->wake);
        pthread_mutex_destroy(&f->lock);
    }
    free(f->last);
    atomic_fetch_add(&fake_counts.closes, 1);
}

static enum hr_status fake_open(struct hr__engine *e, const char *which)
{
    struct fake *f = e->priv;

    (void)which;
    atomic_fetch_add(&fake_counts.opens, 1);
    if (script.open_fails)
        return hr__fail(HR_EDEVICE, "the script says no");
    f->s = script;
    f->e = e;
    f->tail = &f->head;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wake, NULL);
    e->caps.batch = f->s.batch;
    e->caps.host_memory = true;
    e->caps.exact = true;
    e->caps.software = f->s.software;
    e->copy_bytes = f->s.copy_bytes;
    memcpy(e->caps.spans, f->s.spans, sizeof(f->s.spans));
    snprintf(e->name, sizeof(e->name), "fake:0");
    snprintf(e->description, sizeof(e->description), "scripted engine");
    if (f->s.where == FAKE_THREAD) {
        if (!hr__thread_start(&f->thread, loop, f))
            return hr__fail(HR_ENOMEM, "no thread for the fake engine");
        f->started = true;
    }
    return HR_OK;
}

static void fake_offer(struct hr__engine *e, const struct hr__picture *pic,
                       struct hr__offer *out)
{
    const struct fake *f = e->priv;
    uint32_t decodes = FAKE_D | FAKE_DR | FAKE_DRS | FAKE_P;

    *out = (struct hr__offer){.spans = f->s.spans[pic->tier]};
    if (pic->data && pic->info.format != HR_FORMAT_JPEG &&
        (out->spans & decodes)) {
        out->spans &= ~decodes;
        out->why |= HR_WHY_FORMAT;
    }
    if ((out->spans & FAKE_P) &&
        (pic->info.color > HR_COLOR_RGB || !pic->info.ends)) {
        out->spans &= ~FAKE_P;
        out->why |= HR_WHY_COLOR;
    }
    if (f->s.takes_every_2nd && pic->width % 2) {
        out->spans = 0;
        out->why |= HR_WHY_SIZE;
    }
}

static void count_list(const struct hr__task *list)
{
    int n = 0, seen = atomic_load(&fake_counts.longest);

    atomic_fetch_add(&fake_counts.lists, 1);
    if (!list)
        atomic_fetch_add(&fake_counts.empty, 1);
    for (const struct hr__task *t = list; t; t = t->next, n++)
        if (t->span.first != list->span.first ||
            t->span.last != list->span.last)
            atomic_fetch_add(&fake_counts.mixed, 1);
    atomic_fetch_add(&fake_counts.tasks, n);
    while (n > seen &&
           !atomic_compare_exchange_weak(&fake_counts.longest, &seen, n))
        ;
}

static void fake_copy(struct hr__engine *e, struct hr__task *list)
{
    struct fake *f = e->priv;

    if (f->s.where == FAKE_INSIDE) {
        for (struct hr__task *next; list; list = next) {
            next = list->next;
            run(f, list);
        }
        return;
    }
    pthread_mutex_lock(&f->lock);
    *f->tail = list;
    while (list->next)
        list = list->next;
    f->tail = &list->next;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
}

static void fake_submit(struct hr__engine *e, struct hr__task *list)
{
    count_list(list);
    fake_copy(e, list);
}

static struct hr__memory *fake_memory_alloc(struct hr__engine *e,
                                            enum hr_memory kind, size_t size,
                                            bool clear, bool apart,
                                            int64_t deadline)
{
    const struct fake *f = e->priv;

    (void)apart;
    (void)deadline;
    if (!f->s.memory_fails)
        return fake_memory(e, kind, size, clear);
    hr__fail(HR_ENOMEM, "the fake device has no memory");
    return NULL;
}

static void fake_cancel(struct hr__engine *e)
{
    struct fake *f = e->priv;
    struct hr__task *stopped = NULL, **at = &f->head;

    if (f->s.deaf || f->s.where != FAKE_THREAD)
        return;
    pthread_mutex_lock(&f->lock);
    while (*at) {
        struct hr__task *t = *at;

        if (!hr__task_stop(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = stopped;
        stopped = t;
    }
    f->tail = at;
    pthread_mutex_unlock(&f->lock);
    for (struct hr__task *next; stopped; stopped = next) {
        struct hr__outcome out = {.offset = -1, .stage = stopped->span.first};

        next = stopped->next;
        out.status = hr__task_stop_status(stopped);
        atomic_fetch_add(&fake_counts.canceled, 1);
        end(stopped, &out);
    }
}

static void *fake_buffer_alloc(struct hr__engine *e, size_t size)
{
    const struct fake *f = e->priv;
    void *mem = f->s.buffers_fail ? NULL : hr__alloc(e->device, size);

    if (mem) {
        atomic_fetch_add(&fake_counts.buffers, 1);
        atomic_fetch_add(&fake_counts.buffers_made, 1);
    }
    return mem;
}

static void fake_buffer_free(struct hr__engine *e, void *data, size_t size)
{
    (void)e;
    memset(data, 0xdd, size);  // whoever still reads it will notice
    hr__free(data);
    atomic_fetch_sub(&fake_counts.buffers, 1);
}

static const char *fake_fingerprint(struct hr__engine *e)
{
    return ((const struct fake *)e->priv)->s.fingerprint;
}

static const struct hr__backend plain = {
    .name = "fake",
    .engine_size = sizeof(struct fake),
    .open = fake_open,
    .close = fake_close,
    .offer = fake_offer,
    .submit = fake_submit,
    .cancel = fake_cancel,
    .fingerprint = fake_fingerprint,
};

// The registry holds this one; scripts change it between devices.
static struct hr__backend backend;

// Threads of the library may still be closing devices of the last script.
static void wait_for_closes(void)
{
    for (int i = 0; i < 20000; i++) {
        if (atomic_load(&fake_counts.closes) == atomic_load(&fake_counts.opens))
            return;
        sleep_ns(1000000);
    }
    fprintf(stderr, "a fake engine was never closed\n");
    abort();
}

void fake_reset(const struct fake_script *s)
{
    static bool registered;

    wait_for_closes();
    script = *s;
    memset(&fake_counts, 0, sizeof(fake_counts));
    pthread_mutex_lock(&gate.lock);
    gate.open = false;
    pthread_mutex_unlock(&gate.lock);
    backend = plain;
    backend.trusted = !s->tested;
    if (s->own_buffers) {
        backend.buffer_alloc = fake_buffer_alloc;
        backend.buffer_free = fake_buffer_free;
    }
    if (s->memory) {
        backend.memory_alloc = fake_memory_alloc;
        backend.memory_free = fake_memory_free;
        backend.copy = fake_copy;
        backend.native = fake_native;
    }
    if (!registered)
        hr__registry_add(&backend);
    registered = true;
}

void fake_reset_spans(uint32_t spans)
{
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(spans)});
}
