// SPDX-License-Identifier: Apache-2.0
// For engines whose threads may be left behind in a driver: the pointer to the
// engine that they have (hal/device/engine_ref.c).
#ifndef HR__ENGINE_REF_H
#define HR__ENGINE_REF_H

#include "hal/engine/trace.h"

// A revocable pointer to the engine, for threads that may outlive it inside a
// hung driver. Around anything that calls into the HAL or the user (the log)
// use get and put: e is valid between them, unless get returns NULL. revoke is
// for close(): it waits for those in between.
struct hr__engine_ref {
    pthread_mutex_t lock;  // taken alone
    pthread_cond_t unused;
    struct hr__engine *e;  // NULL: revoked
    int users;
    struct hr__engine_ref *next;  // the list of revoked ones
};
void hr__engine_ref_init(struct hr__engine_ref *ref, struct hr__engine *e);
struct hr__engine *hr__engine_ref_get(struct hr__engine_ref *ref);
void hr__engine_ref_put(struct hr__engine_ref *ref);
// Revokes the pointer: the object that contains it is left behind for good.
void hr__engine_ref_revoke(struct hr__engine_ref *ref);
// These count and report without get and put: each takes the lock, and does
// nothing once the pointer is revoked. counter: offsetof(struct hr__meter,
// ...).
void hr__engine_ref_count(struct hr__engine_ref *ref, size_t counter,
                          uint64_t n);
// Bytes of device memory that the engine has got, or let go (< 0), as far as it
// knows.
void hr__engine_ref_bytes(struct hr__engine_ref *ref, int64_t change);
// hr__alloc(), counted for the device as long as it is there. ref may be NULL.
void *hr__engine_ref_alloc(struct hr__engine_ref *ref, size_t size);
// Report as hr__watch_thread(), _part() (begin 0: nothing) and _device() below.
void hr__engine_ref_thread(struct hr__engine_ref *ref, const char *name);
void hr__engine_ref_part(struct hr__engine_ref *ref, enum hr_part part,
                         uint64_t batch, int64_t begin);
void hr__engine_ref_device(struct hr__engine_ref *ref, const char *queue,
                           enum hr_part part, uint64_t batch, int64_t begin,
                           int64_t end);

#endif
