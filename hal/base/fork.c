// SPDX-License-Identifier: Apache-2.0
// Whose driver it is after a fork.
#include <unistd.h>

#include "hal/base/base.h"

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
