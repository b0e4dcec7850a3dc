// SPDX-License-Identifier: Apache-2.0
// Turns: the order in which works read and write images and slots of batches.
#ifndef HR__TRACK_H
#define HR__TRACK_H

#include "hal/engine/base.h"

struct hr__waiter;

// The queue of accesses to an image or to a slot of a batch. Accesses queue in
// the order of submission; consecutive readers go together.
struct hr__access {
    struct hr__access *prev, *next;
    struct hr__track *track;
    struct hr__waiter *waiter;
    bool write;
    bool open;             // its turn has come
    enum hr_status input;  // a reader's: not HR_OK if the writer before
                           // it ended without having had its turn
};

struct hr__track {
    struct hr__access *head, *tail;
    int writers;             // of them
    enum hr_status status;   // how the last writer ended
    enum hr_status dropped;  // not HR_OK if the last one that was queued
                             // ended without having had its turn
};

// The graph lock, one for all devices of the process. init: before the
// first of them. wait: hr__cond_wait().
void hr__graph_init(void);
void hr__graph_lock(void);
void hr__graph_unlock(void);
bool hr__graph_wait(pthread_cond_t *cond, int64_t deadline);
// All are called under that lock. add: true if its turn is now. remove: returns
// the waiters, of any device, that became ready, linked by next.
bool hr__track_add(struct hr__track *track, struct hr__access *a,
                   struct hr__waiter *w, bool write);
struct hr__waiter *hr__track_remove(struct hr__access *a);
// A writer ends before its turn: tells the readers that wait for its pixels.
void hr__track_drop(struct hr__access *a, enum hr_status status);

#endif
