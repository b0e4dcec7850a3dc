// SPDX-License-Identifier: Apache-2.0
// Turns on images and batch slots. Each has a queue of accesses in the order
// of submission; an access is open when nothing before it conflicts: a writer
// at the head, readers with no writer before them. All under the graph lock.
#include "hal/hal.h"

bool hr__track_add(struct hr__track *track, struct hr__access *a,
                   struct hr__work *work, bool write)
{
    struct hr__access *tail = track->tail;

    *a = (struct hr__access){
        .track = track, .work = work, .write = write, .prev = tail};
    if (write)
        track->dropped = HR_OK;
    else
        a->input = track->dropped;
    a->open = !tail || (!write && tail->open && !tail->write);
    if (tail)
        tail->next = a;
    else
        track->head = a;
    track->tail = a;
    return a->open;
}

void hr__track_drop(struct hr__access *a, enum hr_status status)
{
    struct hr__access *i;

    for (i = a->next; i && !i->write; i = i->next)
        i->input = status;
    if (!i)
        a->track->dropped = status;
}

struct hr__work *hr__track_remove(struct hr__access *a)
{
    struct hr__track *track = a->track;
    struct hr__work *ready = NULL, **end = &ready;
    struct hr__access *i;

    if (!track)
        return NULL;
    *(a->prev ? &a->prev->next : &track->head) = a->next;
    *(a->next ? &a->next->prev : &track->tail) = a->prev;
    a->track = NULL;
    for (i = track->head; i; i = i->next) {
        if (i->write && i != track->head)
            break;
        if (!i->open) {
            i->open = true;
            if (--i->work->blockers == 0) {
                *end = i->work;
                end = &i->work->next;
                *end = NULL;
            }
        }
        if (i->write)
            break;
    }
    return ready;
}
