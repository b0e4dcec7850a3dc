// SPDX-License-Identifier: Apache-2.0
// For engines: what the HAL does for all of them, and how they tell what they
// do. backend.h includes it.
#ifndef HR__SERVICE_H
#define HR__SERVICE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <headrace/headrace.h>

struct hr__device;
struct hr__engine;
struct hr__task;

// ---- Services --------------------------------------------------------------

// Sets hr_last_status() and hr_last_error() of this thread; returns status.
enum hr_status hr__fail(enum hr_status status, const char *fmt, ...)
    HR_PRINTF(2, 3);

// To the device's log.
void hr__log(struct hr__device *dev, enum hr_log_level level, const char *fmt,
             ...) HR_PRINTF(3, 4);

// CLOCK_MONOTONIC in nanoseconds.
int64_t hr__now(void);
// Conditions by that clock. wait: false if the deadline has passed; INT64_MAX =
// never.
void hr__cond_init(pthread_cond_t *cond);
bool hr__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                   int64_t deadline);

// Extends a deadline by a second at a time while the driver works: while its
// threads use CPU time, or a process that it has started runs (a linker). A
// hung driver sleeps and gets no extension after the first. Ends a minute of
// such work later, or at `most`. What the rest of the process does is not
// asked.
struct hr__patience {
    int64_t deadline, most;
    const pthread_t *caller;  // the thread that is in the driver; may be NULL
    int64_t cpu, used;        // CPU time when it was looked at last; ns that
                              // it has worked since
    int looks;
};
bool hr__wait_longer(struct hr__patience *p);

// Runs fn, which may hang in a driver, on a thread of its own; false if it has
// not come back in time, or never began. arg is of hr__alloc(): it is the
// caller's again after true, and freed when fn no longer uses it after false.
bool hr__call_with_deadline(void (*fn)(void *arg), void *arg,
                            int64_t timeout_ns);

// A revocable pointer to the engine, for threads that may outlive it inside a
// hung driver. Around anything that calls into the HAL or the user (the log)
// use get and put: e is valid between them, unless get returns NULL. revoke is
// for close(): it waits for those in between.
struct hr__engine_ref {
    pthread_mutex_t lock;  // taken alone
    pthread_cond_t unused;
    struct hr__engine *e;  // NULL: revoked
    int users;
    struct hr__engine_ref *next;  // of those that are revoked
};
void hr__engine_ref_init(struct hr__engine_ref *ref, struct hr__engine *e);
struct hr__engine *hr__engine_ref_get(struct hr__engine_ref *ref);
void hr__engine_ref_put(struct hr__engine_ref *ref);
// What the pointer is a part of is left behind for good.
void hr__engine_ref_revoke(struct hr__engine_ref *ref);
// What only counts needs no get; each takes the lock, and does nothing once
// the pointer is revoked. counter: offsetof(struct hr__meter, ...).
void hr__engine_ref_count(struct hr__engine_ref *ref, size_t counter,
                          uint64_t n);
// Bytes of device memory that the engine has got, or let go (< 0), as far as it
// knows.
void hr__engine_ref_bytes(struct hr__engine_ref *ref, int64_t change);
// hr__alloc(), counted for the device as long as it is there. ref may be NULL.
void *hr__engine_ref_alloc(struct hr__engine_ref *ref, size_t size);
// As hr__watch_thread(), _part() (begin 0: nothing) and _device() below.
void hr__engine_ref_thread(struct hr__engine_ref *ref, const char *name);
void hr__engine_ref_part(struct hr__engine_ref *ref, enum hr_part part,
                         uint64_t batch, int64_t begin);
void hr__engine_ref_device(struct hr__engine_ref *ref, const char *queue,
                           enum hr_part part, uint64_t batch, int64_t begin,
                           int64_t end);

// The kind of a JPEG, enum hr_jpeg_kind; -1: none of them.
int hr__jpeg_kind(const struct hr_info *info);
// What keeps a JPEG decoder of whole scans, Huffman and 8 bits from it, besides
// colours and chroma: HR_WHY_*; HR_WHY_FORMAT alone, if it is no JPEG.
unsigned hr__why_not_baseline(const struct hr_info *info);

// Drivers that were touched before fork() hang the child. *user: the process
// that has used this one, from the first call with use. HR_EFORK with the
// reason: a parent has.
enum hr_status hr__fork_check(_Atomic pid_t *user, bool use, const char *what);

// Which loaded library has that address: its build id, or else its file's size,
// date and name. One line without its end; "" if none has it.
void hr__library_text(uintptr_t address, char *text, size_t size);

// What the library keeps on disk: files in $XDG_CACHE_HOME/headrace, or in
// ~/.cache/headrace; in no folder for a program with more rights than its user
// (secure_getenv()). Read only if nobody else can have written it: folder and
// file belong to the effective user or to root, and others may not write there.
//
// open: a descriptor of a regular file, at its begin; -1: as if there were
// none, and why says so if something is there ("" if not). write: the parts as
// one file, there with all its bytes or not at all; false with errno. name:
// without '/'.
enum { HR__CACHE_WHY = 160 };
int hr__cache_open(const char *name, size_t *size, char why[HR__CACHE_WHY]);
bool hr__cache_write(const char *name, const struct iovec *parts, int n);
// False: there are not so many bytes.
bool hr__read_all(int fd, void *to, size_t size);

// ---- Watching (meter.c, trace.c) -------------------------------------------
//
// How an engine tells what it does. Each function may be called on any thread,
// under any lock, costs one load if nobody watches, and never fails.
//
//   int64_t begin = hr__watch_begin();        // 0: nobody watches
//   ... the work ...
//   hr__watch_task(task, begin);              // a span of one sample, or
//   hr__watch_part(e, HR_PART_PACK, batch, begin);  // what is not a sample's
//
// Both end now, on the thread that began, nested or apart. What a device did
// in its own time goes to hr__watch_device(), on one row per queue.

enum { HR__WATCH_TRACE = 1, HR__WATCH_TIMES = 2 };
extern _Atomic unsigned hr__watch;  // bits

static inline unsigned hr__watched(void)
{
#if HR_NO_WATCH  // tests/trace_cost.py: what does all this cost?
    return 0;
#endif
    return atomic_load_explicit(&hr__watch, memory_order_relaxed);
}

static inline int64_t hr__watch_begin(void)
{
    return hr__watched() ? hr__now() : 0;
}

static inline void hr__count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

// First thing on a host thread of an engine: its name (printf) in the trace,
// and its CPU time in the profile. e NULL: a thread of no engine.
void hr__watch_thread(struct hr__engine *e, const char *format, ...)
    HR_PRINTF(2, 3);
void hr__watch_task(const struct hr__task *task, int64_t begin);
// batch: the engine's, from 1 on, as hr__watch_device() has it.
void hr__watch_part(struct hr__engine *e, enum hr_part part, uint64_t batch,
                    int64_t begin);
// A part that is in pieces, or within a span that is reported: only summed.
void hr__watch_sum(struct hr__engine *e, enum hr_part part, int64_t ns);
// A thread waits for work, and has waited: always both, begin being what the
// first one says. Any lock of the engine's may be held.
int64_t hr__watch_idle_begin(struct hr__engine *e);
void hr__watch_idle_end(struct hr__engine *e, int64_t begin);
// On a device, in hr__now()'s time as far as that can be told; on one queue in
// order and apart. queue: static text, "compute". batch: which, from 1 on.
void hr__watch_device(struct hr__engine *e, const char *queue,
                      enum hr_part part, uint64_t batch, int64_t begin,
                      int64_t end);

// The only way the library gets heap memory: counted, and failed on purpose
// by tests. dev may be NULL. Memory is 64-byte aligned, not cleared.
void *hr__alloc(struct hr__device *dev, size_t size);
void hr__free(void *mem);

// Starts a thread of the library with all signals blocked. The only way: the
// HAL must know its threads (they may not take a device down), and tests fail
// them. False if the system says no.
bool hr__thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

// *out = a * b; false if it does not fit.
static inline bool hr__mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

// Set by tests: 1 = the next allocation or thread start fails, 2 = the one
// after it, ...; 0 = none. Each failure is passed on as HR_ENOMEM.
void hr__test_fail_alloc(int64_t nth, bool for_ever);
int64_t hr__test_allocs(void);    // so far, of all devices
bool hr__test_should_fail(void);  // for other resources: threads, fds

#endif
