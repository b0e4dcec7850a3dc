// SPDX-License-Identifier: Apache-2.0
// The work on one task of the scripted engine.
#include "fake_task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_pixels.h"

// One gate and one alarm clock for all engines of the program.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool open, awake;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

void fake_gate_open(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.lock);
}

void fake_gate_close(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = gate.awake = false;
    pthread_mutex_unlock(&gate.lock);
}

void fake_wake(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.awake = true;
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
    atomic_fetch_add(&fake_counts.hanging, 1);
    while (!gate.awake)
        pthread_cond_wait(&gate.cond, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    atomic_fetch_sub(&fake_counts.hanging, 1);
}

void fake_sleep(int64_t ns)
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
        fake_sleep(f->s.hang_ns);
    else
        wait_for_wake();
}

static void fail(struct hr__outcome *out, const struct fake *f, int k)
{
    out->status = f->s.fail_status ? f->s.fail_status : HR_EDEVICE;
    out->why = f->s.fail_why;
    snprintf(out->text, sizeof(out->text), "the script fails task %d", k);
}

void fake_end(struct hr__task *task, const struct hr__outcome *out)
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

// The codes of stage augment that it does, a bit for each.
static uint32_t codes_of(const struct hr__task *task)
{
    const struct hr__geometry *geo = &task->pic->geo;
    uint32_t codes = 0;

    for (int i = 0; task->span.first <= HR_AUGMENT && i < geo->num_augments;
         i++)
        codes |= UINT32_C(1) << geo->augments[i].code;
    return codes;
}

static bool wrong_codes(const struct fake *f, const struct hr__task *task)
{
    uint32_t codes = codes_of(task), all = f->s.wrong_together;

    return codes & f->s.wrong_codes || (all && (codes & all) == all);
}

static void end_picture(const struct fake *f, const struct hr__task *task)
{
    const struct hr__dst *d = &task->pic->dst;

    atomic_fetch_add(&fake_counts.elements, d->w * d->h * d->c);
    if (!f->s.wrong && !wrong_codes(f, task))
        return;
    *fake_dst(d) ^= f->s.wrong_bits ? f->s.wrong_bits : 1;
    atomic_fetch_add(&fake_counts.wrong, 1);
}

// Runs a claimed task, whose memory cannot be taken away.
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
    if (f->s.idle && task->span.last == HR_STORE)
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
    if (!out->status && task->span.last == HR_STORE)
        end_picture(f, task);
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

// Meters the device's part of the delay.
static void meter(struct fake *f, int k, int64_t begin)
{
    struct hr__meter *m = &f->e->meter;
    int64_t end = begin + f->s.device_ns, half = (begin + end) / 2;

    hr__count(&m->bytes_up, (uint64_t)f->s.bytes_up);
    hr__count(&m->bytes_down, (uint64_t)f->s.bytes_down);
    hr__count(&m->bytes_imported, (uint64_t)f->s.bytes_imported);
    if (!begin || !f->s.device_ns)
        return;
    hr__watch_device(f->e, "compute", HR_PART_RESAMPLE, (uint64_t)k, begin,
                     end);
    hr__watch_device(f->e, "copy", HR_PART_DOWNLOAD, (uint64_t)k, half, end);
}

void fake_run(struct fake *f, struct hr__task *task)
{
    struct hr__outcome out = {.offset = -1, .stage = task->span.first};
    int64_t begin;
    int k;

    if (task->copy.memory) {
        run_copy(f, task);
        return;
    }
    pthread_mutex_lock(&f->lock);
    k = ++f->begun;
    pthread_mutex_unlock(&f->lock);
    atomic_fetch_add(&fake_counts.begun, 1);
    atomic_fetch_add(&fake_counts.complete, task->pic->info.ends);
    atomic_fetch_add(&fake_counts.views, task->source != NULL);
    if (f->s.gate)
        wait_for_gate();
    hr__task_begun(task);
    begin = hr__watch_begin();
    fake_sleep(f->s.delay_ns);
    meter(f, k, begin);
    if (f->s.slow_every && k % f->s.slow_every == 0)
        fake_sleep(f->s.slow_ns);
    burn_ns(f->s.burn_ns);
    if (!f->s.fail_late && within(k, f->s.fail_from, f->s.fail_to)) {
        fail(&out, f, k);
        fake_end(task, &out);
        return;
    }
    if (!f->s.hang_claimed && within(k, f->s.hang_from, f->s.hang_to))
        hang(f);
    if (!hr__task_claim(task) || (f->s.claims_twice && !hr__task_claim(task))) {
        atomic_fetch_add(&fake_counts.claims_lost, 1);
        if (!f->s.done_after_lost)
            fail(&out, f, k);
        fake_end(task, &out);
        return;
    }
    work(f, task, k, &out);
    if (k % 2)  // done() alone must be enough
        hr__task_unclaim(task);
    fake_end(task, &out);
}
