// SPDX-License-Identifier: Apache-2.0
// Errands: calls of the library that may wait for foreign code, for a server,
// or for ever. Each is made on a thread of its own, so that the caller can hear
// signals, and can leave it behind.
//
// The mutex guards what is in struct errand, and the number of errands. The
// thread that holds it does not ask for the GIL.
#include "flight.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct errand {
    void (*run)(void *ctx);
    void (*leave)(void *ctx);
    void *ctx;
    bool done, left;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;  // one has
static int going;             // that have not

static const int64_t slice_ns = 50000000;  // between two looks for signals

int64_t core_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

struct timespec core_slice(int64_t end)
{
    int64_t slice = core_now() + slice_ns;

    if (end > slice)
        end = slice;
    return (struct timespec){end / 1000000000, end % 1000000000};
}

void core_init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

static void *go(void *errand)
{
    struct errand *e = errand;
    PyGILState_STATE state;
    bool left;

    e->run(e->ctx);
    pthread_mutex_lock(&mutex);
    e->done = true;
    left = e->left;
    going -= !left;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&mutex);
    if (!left)
        return NULL;
    if (!flight_closed()) {
        state = PyGILState_Ensure();
        e->leave(e->ctx);
        PyGILState_Release(state);
    }
    free(e);
    pthread_mutex_lock(&mutex);
    going--;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

// Signals are for the program's threads.
static bool start(struct errand *e)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    bool started;

    pthread_mutex_lock(&mutex);
    going++;
    pthread_mutex_unlock(&mutex);
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    started = !pthread_create(&thread, &attr, go, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    pthread_mutex_lock(&mutex);
    going -= !started;
    pthread_mutex_unlock(&mutex);
    return started;
}

static struct errand *make(void (*run)(void *ctx), void (*leave)(void *ctx),
                           void *ctx)
{
    struct errand *e = malloc(sizeof(*e));

    if (e)
        *e = (struct errand){.run = run, .leave = leave, .ctx = ctx};
    return e;
}

bool errand_send(void (*run)(void *ctx), void (*leave)(void *ctx), void *ctx)
{
    struct errand *e = make(run, leave, ctx);

    if (!e)
        return false;
    e->left = true;
    if (start(e))
        return true;
    free(e);
    return false;
}

// Waits for a slice of time at most, without the GIL; says whether it is done.
static bool wait_slice(const struct errand *e, int64_t end)
{
    PyThreadState *gil = PyEval_SaveThread();
    struct timespec t = core_slice(end);
    bool done;

    pthread_mutex_lock(&mutex);
    if (!e->done)
        pthread_cond_timedwait(&ended, &mutex, &t);
    done = e->done;
    pthread_mutex_unlock(&mutex);
    PyEval_RestoreThread(gil);
    return done;
}

bool errand_do(void (*run)(void *ctx), void (*hasten)(void *ctx),
               void (*leave)(void *ctx), void *ctx, int64_t patience_ns,
               bool signals)
{
    int64_t end = patience_ns < 0 ? INT64_MAX : core_now() + patience_ns;
    struct errand *e = make(run, leave, ctx);
    bool done;

    if (!e || !start(e)) {
        // A machine without memory or threads: here, then.
        free(e);
        WITHOUT_GIL(run(ctx));
        return true;
    }
    do
        done = wait_slice(e, end);
    while (!done && core_now() < end && (!signals || !PyErr_CheckSignals()));
    if (!done && hasten)
        hasten(ctx);
    pthread_mutex_lock(&mutex);
    done = e->done;
    e->left = !done;
    pthread_mutex_unlock(&mutex);
    if (done)
        free(e);
    return done;
}

void errand_exit(int64_t end)
{
    PyThreadState *gil;
    struct timespec t;
    bool left;

    do {
        gil = PyEval_SaveThread();
        t = core_slice(end);
        pthread_mutex_lock(&mutex);
        if (going)
            pthread_cond_timedwait(&ended, &mutex, &t);
        left = going;
        pthread_mutex_unlock(&mutex);
        PyEval_RestoreThread(gil);
        if (left && PyErr_CheckSignals()) {
            PyErr_Clear();
            return;
        }
    } while (left && core_now() < end);
}

void errand_init(void)
{
    core_init_cond(&ended);
}

// The parent's errands do not run here.
void errand_forked(void)
{
    pthread_mutex_init(&mutex, NULL);
    core_init_cond(&ended);
    going = 0;
}
