// SPDX-License-Identifier: Apache-2.0
// The process's end, while a thread is in a driver that must not be left there.
#include <stdlib.h>
#include <time.h>

#include "hal/base/base.h"

#define WAIT_NS INT64_C(2000000000)   // longer while the driver works,
#define MOST_NS INT64_C(60000000000)  // as closing a device waits
#define STEP_NS 1000000
#define HANDLERS 8

static atomic_int holds, handlers;
static atomic_bool ending;

static void wait_for_holds(void)
{
    struct hr__patience p = {.deadline = hr__now() + WAIT_NS,
                             .most = hr__now() + MOST_NS};
    const struct timespec step = {.tv_nsec = STEP_NS};

    // A driver that hung in an earlier handler's time has had its time; and a
    // callback that ends the process may be on the very thread that holds it.
    if (atomic_exchange(&ending, true) || hr__on_library_thread())
        return;
    while (atomic_load(&holds) &&
           (hr__now() < p.deadline || hr__wait_longer(&p)))
        nanosleep(&step, NULL);
}

// exit() calls the last handler first, and what a driver registers in a call
// must come after ours.
static void register_again(void)
{
    if (atomic_load(&handlers) < HANDLERS &&
        atomic_fetch_add(&handlers, 1) < HANDLERS)
        atexit(wait_for_holds);
}

bool hr__exit_hold(void)
{
    hr__forks();  // has in_child() called
    atomic_fetch_add(&holds, 1);
    if (!atomic_load(&ending))
        return true;
    atomic_fetch_sub(&holds, 1);
    return false;
}

void hr__exit_release(void)
{
    register_again();
    atomic_fetch_sub(&holds, 1);
}

void hr__exit_forget(void)
{
    atomic_store(&holds, 0);
}
