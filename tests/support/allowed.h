// SPDX-License-Identifier: Apache-2.0
// How long what ought to be quick may take.
#ifndef TESTS_ALLOWED_H
#define TESTS_ALLOWED_H

#include "testing.h"
#include <stdlib.h>
#include <unistd.h>

// Returns ns, or more on a machine that others use, too, or with a sanitizer. A
// hang that is to be told apart must take longer.
static inline int64_t test_allowed(int64_t ns)
{
    double load = 0, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);

    if (getloadavg(&load, 1) != 1 || load < cores)
        load = cores;
    return (int64_t)((double)ns * load / cores) * (TEST_SANITIZED ? 4 : 1);
}

#endif
