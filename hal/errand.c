// SPDX-License-Identifier: Apache-2.0
// Calls into drivers, on threads that may be left behind.
#include "hal/backend.h"

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
