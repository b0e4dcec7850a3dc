// SPDX-License-Identifier: Apache-2.0
// Time and threads: the monotonic clock, waiting with a deadline, starting a
// thread of the library.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hal/base/base.h"

int64_t hr__read_clock(clockid_t clock)
{
    struct timespec t = {0};

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hr__now(void)
{
    return hr__read_clock(CLOCK_MONOTONIC);
}

int64_t hr__deadline(int64_t timeout_ns)
{
    int64_t end;

    if (timeout_ns < 0 || __builtin_add_overflow(hr__now(), timeout_ns, &end))
        return INT64_MAX;
    return end;
}

void hr__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool hr__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                   int64_t deadline)
{
    struct timespec t = {deadline / 1000000000, deadline % 1000000000};

    if (deadline == INT64_MAX) {
        pthread_cond_wait(cond, lock);
        return true;
    }
    if (hr__now() >= deadline)
        return false;
    return pthread_cond_timedwait(cond, lock, &t) != ETIMEDOUT;
}

// ---- Threads ----------------------------------------------------------------

static _Thread_local bool library_thread;

bool hr__on_library_thread(void)
{
    return library_thread;
}

struct start {
    void *(*run)(void *arg);
    void *arg;
};

// The library's threads, kept without a lock, which a fork could inherit
// locked.
enum { MAX_LISTED = 1024 };
static _Atomic pid_t listed[MAX_LISTED];

static _Atomic pid_t *list_thread(void)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);

    for (int i = 0; i < MAX_LISTED; i++) {
        pid_t none = 0;

        if (atomic_compare_exchange_strong(&listed[i], &none, tid))
            return &listed[i];
    }
    return NULL;
}

bool hr__is_library_thread(pid_t tid)
{
    for (int i = 0; i < MAX_LISTED; i++)
        if (atomic_load_explicit(&listed[i], memory_order_relaxed) == tid)
            return true;
    return false;
}

static void *thread_main(void *arg)
{
    struct start start = *(struct start *)arg;
    _Atomic pid_t *entry = list_thread();
    void *result;

    hr__free(arg);
    library_thread = true;
    result = start.run(start.arg);
    if (entry)
        atomic_store(entry, 0);
    return result;
}

bool hr__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
    struct start *start = hr__alloc(NULL, sizeof(*start));
    sigset_t all, old;
    int err;

    if (!start || hr__test_should_fail()) {
        hr__free(start);
        return false;
    }
    *start = (struct start){run, arg};
    // The program's signals are for its own threads.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(thread, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err)
        hr__free(start);
    return err == 0;
}

void hr__thread_gives_way(pthread_t thread)
{
    struct sched_param param;
    int policy;

    if (!pthread_getschedparam(thread, &policy, &param) &&
        policy == SCHED_OTHER)
        pthread_setschedparam(thread, SCHED_BATCH, &param);
}
