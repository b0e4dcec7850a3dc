// SPDX-License-Identifier: Apache-2.0
// Calls into drivers, on threads that may be left behind.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal/base/base.h"

#define PATIENCE_STEP INT64_C(1000000000)
#define PATIENCE_WORK INT64_C(60000000000)

// ---- Patience -------------------------------------------------------------

// The clock id that pthread_getcpuclockid() makes for a thread; tid_of() is the
// inverse, 0: the thread has ended.
static clockid_t clock_of(pid_t tid)
{
    return (clockid_t)(~(unsigned)tid << 3 | 6);
}

static pid_t tid_of(pthread_t thread)
{
    clockid_t clock;

    return pthread_getcpuclockid(thread, &clock) ? 0 : ~(clock >> 3);
}

// A thread inherits the signals that are blocked where it is started. On ours
// all are, and a program's own hardly ever block all of these.
static bool blocks_signals(pid_t tid)
{
    static const int some[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
                               SIGALRM, SIGTERM, SIGCHLD, SIGWINCH};
    unsigned long long mask = 0;
    char path[48], line[128];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
    if (!(f = fopen(path, "re")))
        return false;
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "SigBlk: %llx", &mask) == 1)
            break;
    fclose(f);
    for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++)
        if (!(mask >> (some[i] - 1) & 1))
            return false;
    return true;
}

// Compilers call linkers.
static bool has_child(pid_t tid)
{
    char path[48];
    FILE *f;
    bool any;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)tid);
    if (!(f = fopen(path, "re")))
        return false;
    any = getc(f) != EOF;
    fclose(f);
    return any;
}

// Says whether the thread runs, or would if the machine were less busy (or were
// not stopped).
static bool wants_to_run(pid_t tid)
{
    char path[48], line[128] = "";
    const char *name_ends;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    if (!(f = fopen(path, "re")))
        return false;
    name_ends = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
    fclose(f);
    return name_ends && !strncmp(name_ends, ") R", 3);
}

// Returns the CPU time of the thread that calls the driver and of the threads
// that the driver has started from ours, in this call or before it. *waits: one
// of them works without CPU time: it is ready to run and gets no core, or it
// has started a process that is still there.
static int64_t driver_cpu(pid_t caller, bool *waits)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    int64_t sum = 0;

    *waits = false;
    while (dir && (entry = readdir(dir))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (tid <= 0 || (tid != caller &&
                         (hr__is_library_thread(tid) || !blocks_signals(tid))))
            continue;
        sum += hr__read_clock(clock_of(tid));
        *waits |= wants_to_run(tid) || has_child(tid);
    }
    if (dir)
        closedir(dir);
    return sum;
}

bool hr__wait_longer(struct hr__patience *p)
{
    int64_t now = hr__now(), cpu, used;
    bool works, waits;

    if (now >= p->most || p->used >= PATIENCE_WORK)
        return false;
    cpu = driver_cpu(p->caller ? tid_of(*p->caller) : 0, &waits);
    // (Less: a thread has ended, which did something, too.)
    used = waits ? PATIENCE_STEP : llabs(cpu - p->cpu);
    works = !p->looks++ || used >= PATIENCE_STEP / 100;
    if (p->looks > 1)
        p->used += used < PATIENCE_STEP ? used : PATIENCE_STEP;
    p->cpu = cpu;
    p->deadline = now + PATIENCE_STEP;
    return works;
}

// ---- Calls ----------------------------------------------------------------

struct call {
    void (*fn)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, left;  // the second to set its own frees it
};

static void free_call(struct call *x)
{
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    hr__free(x);
}

static void *run_call(void *arg)
{
    struct call *x = arg;
    bool left;

    x->fn(x->arg);
    pthread_mutex_lock(&x->lock);
    x->done = true;
    left = x->left;
    pthread_cond_signal(&x->changed);
    pthread_mutex_unlock(&x->lock);
    if (left) {
        hr__free(x->arg);
        free_call(x);
    }
    return NULL;
}

bool hr__call_with_deadline(void (*fn)(void *arg), void *arg,
                            int64_t timeout_ns)
{
    int64_t deadline = hr__now() + timeout_ns;
    struct call *x = hr__alloc(NULL, sizeof(*x));
    pthread_t thread;
    bool done;

    if (!x) {
        hr__free(arg);
        return false;
    }
    *x = (struct call){.fn = fn, .arg = arg};
    pthread_mutex_init(&x->lock, NULL);
    hr__cond_init(&x->changed);
    if (!hr__thread_start(&thread, run_call, x)) {
        hr__free(arg);
        free_call(x);
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
    free_call(x);
    return true;
}
