// SPDX-License-Identifier: Apache-2.0
// What engines would each write for themselves: ends of whole lists, what
// baseline is, whose driver it is after a fork.
#include <stdio.h>
#include <unistd.h>

#include "hal/backend.h"

void hr__tasks_failed(struct hr__task *list, unsigned why, const char *text)
{
    struct hr__outcome out = {.status = HR_EDEVICE, .why = why, .offset = -1};

    snprintf(out.text, sizeof(out.text), "%s", text);
    for (struct hr__task *next; list; list = next) {
        next = list->next;
        out.stage = list->span.first;
        hr__task_done(list, &out);
    }
}

void hr__tasks_stopped(struct hr__task *list)
{
    struct hr__outcome out = {.offset = -1};

    for (struct hr__task *next; list; list = next) {
        next = list->next;
        out.status = hr__task_stop_status(list);
        out.stage = list->span.first;
        hr__task_done(list, &out);
    }
}

unsigned hr__why_not_baseline(const struct hr_info *info)
{
    unsigned why = 0;

    if (info->format != HR_FORMAT_JPEG)
        return HR_WHY_FORMAT;
    if (info->process == HR_PROCESS_PROGRESSIVE)
        why |= HR_WHY_PROGRESSIVE;
    if (info->process == HR_PROCESS_LOSSLESS)
        why |= HR_WHY_LOSSLESS;
    if (info->arithmetic)
        why |= HR_WHY_ARITHMETIC;
    if (info->precision != 8)
        why |= HR_WHY_PRECISION;
    if (!info->interleaved && info->process != HR_PROCESS_PROGRESSIVE)
        why |= HR_WHY_MULTISCAN;
    return why;
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
