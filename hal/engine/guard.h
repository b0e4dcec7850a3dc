// SPDX-License-Identifier: Apache-2.0
// For engines whose driver may hang in any call. The guard has the queue of
// tasks, the threads that call the driver, and a clock thread that
// never does. It is written as an engine is: the HAL does not know of it.
//
//   submit() -> hr__guard_push() -> queue -> thread 0: hr__guard_pop(), work
//
// A thread says when it is in the driver (enter, leave). If a call takes longer
// than the deadline, the clock thread ends every task that the device holds, so
// that other engines make them, and the device is dead: nothing is offered to
// it. If the call returns after all, the device goes on with its tasks; the
// next failure then counts as a lost device, unless a task succeeds before
// (doubt). After three late calls, each within an hour of the one before, the
// device stays out until it is opened anew. A thread that is still in its call
// when the device is closed is left behind, with all the memory that it can
// reach.
//
// An engine keeps a struct hr__guard in memory of its own, which is freed only
// if hr__guard_stop() says so.
//
// Locks: guard->lock guards the members marked so, and any data of the
// engine's. It is not held together with the lock of guard->ref, nor in a call
// to the driver, in hr__task_done() or in the log.
#ifndef HR__ENGINE_GUARD_H
#define HR__ENGINE_GUARD_H

#include "hal/engine/engine.h"

// ---- When an engine that fails rests ----------------------------------------

// Failures of an engine in a row, and the rest they earn; zeroed it is closed.
// The caller locks.
struct hr__breaker {
    int strikes;
    bool open;
    int64_t until, rest;  // ns
    int tokens;           // samples let in on probation
};
// 0 = offer; else HR_WHY_BREAKER. After a rest so many samples (`tokens`) are
// let in, one per call.
unsigned hr__breaker_ask(struct hr__breaker *b, int tokens, int64_t now);
void hr__breaker_note(struct hr__breaker *b, bool ok, int64_t now);

// ---- What an engine fills in -----------------------------------------------

enum { HR__GUARD_THREADS = 2 };

// owner: what hr__guard_init() was given. "Locked": guard->lock is held.
struct hr__guard_ops {
    // Thread names in traces and profiles. clock NULL: not named.
    const char *threads[HR__GUARD_THREADS], *clock;
    // Called on thread 0, once the device is open: does tasks until
    // guard->stop, then closes the device. False: the driver still has memory
    // of the owner's.
    bool (*drive)(void *owner);

    // All that follows is optional.

    // Opens the device, on thread 0; HR_OK or hr__fail(..).
    enum hr_status (*open)(void *owner);
    // A second thread; returns when guard->stop and all is done.
    void (*second)(void *owner);

    // Locked. The thread does not return from its call: the tasks that
    // the device holds, as a list; but not what another thread is about to end
    // itself. NULL: the one that hr__guard_next() gave.
    struct hr__task *(*take)(void *owner, int thread);
    // Locked: tasks that the device has had for too long, as
    // hr__guard_overdue() says.
    struct hr__task *(*overdue)(void *owner, int64_t now, int64_t *due);
    // Locked: nothing of the queue will be taken up soon, so it ends.
    bool (*hopeless)(const void *owner);
    // Locked: whether a task may stay in the queue while
    // guard->held. The task is claimed.
    bool (*stays)(void *owner, struct hr__task *task, int64_t now);
    // Locked, but may unlock meanwhile: more work for the clock
    // thread. True: call again.
    bool (*turn)(void *owner);

    // Threads go on after a late call, also when the device closes or has
    // closed: they close what they have.
    bool outlives;
};

// ---- The guard -------------------------------------------------------------

struct hr__guard_thread {
    struct hr__guard *guard;
    pthread_t id;
    pthread_cond_t wake;  // the thread waits here
    // Locked
    bool started, gone;
    bool known;  // id is set, as the thread itself sees it
    pthread_t self;
    bool late;           // in a call for too long
    int64_t busy_since;  // in a call to the driver; 0 = not
};

struct hr__guard {
    const struct hr__guard_ops *ops;
    void *owner;
    char name[64];  // before each line in the log; open may change it
    struct hr__engine_ref ref;

    pthread_mutex_t lock;
    pthread_cond_t clock;           // the clock thread waits here,
    pthread_cond_t changed;         // and others. All CLOCK_MONOTONIC
    struct hr__task *head, **tail;  // locked, and all that follows
    struct hr__task *in_hand;       // of hr__guard_next()
    struct hr__guard_thread threads[HR__GUARD_THREADS];
    int64_t deadline;  // ns that a call may take
    bool stop;         // threads shall end
    bool lost;         // the device must be opened again
    bool held;         // the engine's: nothing is taken up for a while
    // These two may be read without the lock.
    atomic_bool abandoned;  // closed while a thread was in a call
    atomic_bool dead;       // some thread is late
    bool doubt;             // of what the driver has kept over a late call
    bool out;               // it was late too often
    bool left_behind;       // see ops->drive
    int late_calls;
    int64_t last_late, back;  // when a call was late, and when it returned
    int64_t due, sweep_at;    // when the clock thread looks again
    struct hr__breaker breaker;
    bool opened;
    enum hr_status open_status;
    char open_text[192];
    bool have_clock;
    pthread_t clock_thread;
};

// The deadline of an engine's calls: the HAL's watchdog comes first.
int64_t hr__guard_deadline(const struct hr__engine *e);

void hr__guard_init(struct hr__guard *g, const struct hr__guard_ops *ops,
                    void *owner, struct hr__engine *e);
// Starts the threads and waits until the device is open: for the user's
// deadline, or most (ns) if that is less; longer while the driver works. A
// failure is in hr_last_error(); hr__guard_stop() must follow then, too.
enum hr_status hr__guard_start(struct hr__guard *g, const struct hr__engine *e,
                               int64_t most);
// Waits for ns; patient: longer while the driver works. True: all is closed,
// *g and its owner (of that size) can be freed. False: they must be left as
// they are; the engine is told, and the log.
bool hr__guard_stop(struct hr__guard *g, struct hr__engine *e, int64_t ns,
                    bool patient, size_t size);

// For backend->submit, ->copy and ->cancel, on any thread.
void hr__guard_push(struct hr__guard *g, const struct hr__engine *e,
                    struct hr__task *list);
void hr__guard_cancel(struct hr__guard *g);
// For backend->offer: 0, or why nothing is offered now. tokens: samples that
// are let in to try the device after a rest.
unsigned hr__guard_ask(struct hr__guard *g, int tokens);
// Writes to the device's log, unless this thread was left behind.
void hr__guard_log(struct hr__guard *g, enum hr_log_level level,
                   const char *fmt, ...) HR_PRINTF(3, 4);

// Around calls to the driver. leave: false = too long, the tasks that
// the thread had are gone.
void hr__guard_enter(struct hr__guard *g, int thread);
bool hr__guard_leave(struct hr__guard *g, int thread);
// For an engine that does its tasks one by one, on thread 0. next waits for a
// task; NULL: stop. finish, once the driver has done it or failed (why != 0):
// the task, to be ended; NULL if it took too long, then it has been.
struct hr__task *hr__guard_next(struct hr__guard *g);
struct hr__task *hr__guard_finish(struct hr__guard *g, unsigned why);
// Puts tasks that could not be done yet at the front of the queue.
void hr__guard_put_back(struct hr__guard *g, struct hr__task *list);
// The device was opened again; or could not be.
void hr__guard_renewed(struct hr__guard *g, bool ok);
bool hr__guard_is_lost(struct hr__guard *g);

// ---- Locked ----------------------------------------------------------------

// The first task of the queue, off it. There is one.
struct hr__task *hr__guard_pop(struct hr__guard *g);
// Some work came out well; or failed for those reasons. strike: it counts as a
// failure in a row (what was late has been counted already).
void hr__guard_worked(struct hr__guard *g);
void hr__guard_failed(struct hr__guard *g, unsigned why, bool strike);
// Says whether work submitted at `since` is past its deadline; if not, *due is
// a lower bound of that time.
bool hr__guard_overdue(const struct hr__guard *g, int64_t since, int64_t now,
                       int64_t *due);
// Says whether the queued tasks have no chance to be taken up soon.
bool hr__guard_hopeless(const struct hr__guard *g);
// The clock thread shall look at that time at the latest.
void hr__guard_look(struct hr__guard *g, int64_t at);
// Wakes all threads that wait at the guard's conditions.
void hr__guard_wake_all(struct hr__guard *g);
// Says whether the caller is that thread.
bool hr__guard_is_thread(const struct hr__guard *g, int thread);

// ---- Between the guard's own files -----------------------------------------

struct hr__task *hr__guard_take_queue(struct hr__guard *g);
struct hr__task *hr__guard_take_in_hand(struct hr__guard *g);
// Takes tasks that must not wait any longer out of the queue; looks for them
// now and then.
struct hr__task *hr__guard_sweep(struct hr__guard *g, int64_t now);
void *hr__guard_clock(void *guard);
bool hr__guard_all_gone(const struct hr__guard *g);

#endif
