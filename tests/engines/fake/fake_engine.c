// SPDX-License-Identifier: Apache-2.0
#include "fake_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_task.h"
#include "hal/job/work.h"

struct fake_counts fake_counts;

static struct fake_script script;  // of the next open

// ---- Its thread ------------------------------------------------------------

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
        fake_run(f, t);
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
    atomic_store(&e->meter.device_times, f->s.device_ns > 0);
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
            fake_run(f, list);
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
    const struct fake *f = e->priv;

    count_list(list);
    hr__count(&e->meter.batches, 1);
    hr__count(&e->meter.launches, (uint64_t)f->s.launches);
    fake_copy(e, list);
}

static struct hr__memory *fake_memory_alloc(struct hr__engine *e,
                                            enum hr_memory kind, size_t size,
                                            bool clear, bool own_object,
                                            int64_t deadline)
{
    const struct fake *f = e->priv;

    (void)own_object;
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
        fake_end(stopped, &out);
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
    memset(data, 0xdd, size);  // a late reader will notice
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
        fake_sleep(1000000);
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
    fake_gate_close();
    backend = plain;
    backend.trusted = !s->tested;
    backend.media = s->media;
    if (s->own_buffers) {
        backend.buffer_alloc = fake_buffer_alloc;
        backend.buffer_free = fake_buffer_free;
    }
    if (s->memory) {
        backend.memory_alloc = fake_memory_alloc;
        backend.memory_free = fake_memory_free;
        backend.copy = fake_copy;
    }
    if (!registered)
        hr__registry_add(&backend);
    registered = true;
}

void fake_reset_spans(uint32_t spans)
{
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(spans)});
}
