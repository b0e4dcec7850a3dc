// SPDX-License-Identifier: Apache-2.0
// Finds out whether devices and drivers are those of the parent after a fork.
#include <pthread.h>
#include <unistd.h>

#include "hal/base/base.h"

static _Atomic unsigned forks;

static void in_child(void)
{
    atomic_fetch_add(&forks, 1);
    hr__exit_forget();
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

// Not getpid(): that enters the kernel, and this is asked several times per
// sample.
unsigned hr__forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

enum hr_status hr__fork_check(_Atomic pid_t *user, bool use, const char *what)
{
    pid_t first = 0;

    if (use ? atomic_compare_exchange_strong(user, &first, getpid())
            : !(first = atomic_load(user)))
        return HR_OK;
    if (first == getpid())
        return HR_OK;
    return hr__fail(HR_EFORK,
                    "the parent process has used %s before fork; use it first "
                    "in the child (with Python: multiprocessing spawn or "
                    "forkserver)",
                    what);
}
