// SPDX-License-Identifier: Apache-2.0
// Ends of whole lists of tasks, as engines need them.
#include <stdio.h>

#include "hal/job/work.h"

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
