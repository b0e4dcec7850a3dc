// SPDX-License-Identifier: Apache-2.0
// Calls into drivers, on threads that may be left behind; and their way back.
#include <time.h>

#include "hal/backend.h"

#define PATIENCE_STEP INT64_C(2000000000)

// ---- Patience -------------------------------------------------------------

static int64_t cpu_time(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool hr__wait_longer(struct hr__patience *p)
{
    int64_t now = hr__now(), cpu = cpu_time();
    bool works = !p->looks++ || cpu - p->cpu >= PATIENCE_STEP / 100;

    if (!works || now >= p->most)
        return false;
    p->cpu = cpu;
    p->deadline = now + PATIENCE_STEP;
    return true;
}

// ---- Errands --------------------------------------------------------------

struct errand {
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, left;  // the second to set its own frees it
};

static void free_errand(struct errand *x)
{
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    hr__free(x);
}

static void *run_errand(void *arg)
{
    struct errand *x = arg;
    bool left;

    x->fn(x->arg);
    pthread_mutex_lock(&x->lock);
    x->done = true;
    left = x->left;
    pthread_cond_signal(&x->changed);
    pthread_mutex_unlock(&x->lock);
    if (left)
        free_errand(x);
    return NULL;
}

bool hr__errand(void (*fn)(void *arg), void *arg, int64_t timeout_ns)
{
    int64_t deadline = hr__now() + timeout_ns;
    struct errand *x = hr__alloc(NULL, sizeof(*x));
    pthread_t thread;
    bool done;

    if (!x)
        return false;
    *x = (struct errand){.fn = fn, .arg = arg};
    pthread_mutex_init(&x->lock, NULL);
    hr__cond_init(&x->changed);
    if (!hr__thread_start(&thread, run_errand, x)) {
        free_errand(x);
        return false;
    }
    pthread_mutex_lock(&x->lock);
    while (!x->done && hr__cond_wait(&x->changed, &x->lock, deadline))
        ;
    done = x->done;
    x->left = !done;
    pthread_mutex_unlock(&x->lock);
    if (!done) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    free_errand(x);
    return true;
}

// ---- The way back ---------------------------------------------------------

void hr__way_open(struct hr__way *way, struct hr__engine *e)
{
    pthread_mutex_init(&way->lock, NULL);
    hr__cond_init(&way->empty);
    way->e = e;
}

struct hr__engine *hr__way_pass(struct hr__way *way)
{
    struct hr__engine *e;

    pthread_mutex_lock(&way->lock);
    e = way->e;
    way->passing += e != NULL;
    pthread_mutex_unlock(&way->lock);
    return e;
}

void hr__way_passed(struct hr__way *way)
{
    pthread_mutex_lock(&way->lock);
    if (!--way->passing)
        pthread_cond_broadcast(&way->empty);
    pthread_mutex_unlock(&way->lock);
}

void hr__count_bytes(struct hr__way *way, int64_t change)
{
    struct hr__device *dev;
    size_t now, peak;

    if (!change)
        return;
    pthread_mutex_lock(&way->lock);
    if (way->e) {
        dev = way->e->device;
        now = atomic_fetch_add(&dev->device_bytes, (size_t)change) +
              (size_t)change;
        peak = atomic_load(&dev->peak_device_bytes);
        while (
            change > 0 && now > peak &&
            !atomic_compare_exchange_weak(&dev->peak_device_bytes, &peak, now))
            ;
    }
    pthread_mutex_unlock(&way->lock);
}

void hr__way_close(struct hr__way *way)
{
    pthread_mutex_lock(&way->lock);
    way->e = NULL;
    while (way->passing)
        pthread_cond_wait(&way->empty, &way->lock);
    pthread_mutex_unlock(&way->lock);
}
