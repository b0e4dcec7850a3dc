// SPDX-License-Identifier: Apache-2.0
// Inside the room job: the way of a work, and what happens on it.
#ifndef HR__WORK_H
#define HR__WORK_H

#include "hal/job/job.h"

static inline struct hr__work *hr__work_of(const struct hr__task *task)
{
    return ((const struct hr__engine_task *)task)->work;
}
// The engine whose task that is.
static inline struct hr__engine *hr__engine_of(const struct hr__engine_task *et)
{
    return et->work->job->dev->engines[et - et->work->tasks];
}
// The engine of a span of its plan.
static inline struct hr__engine *hr__engine_at(const struct hr__work *work,
                                               int span)
{
    return work->job->dev->engines[work->plan.spans[span].engine];
}

// work.c: the way of a work, and the only doors to it besides those of engines
// (hr__task_done(), hr__task_prepare()). Each runs what it makes ready, on this
// thread, unless that is just doing so: then it is done there, afterwards. No
// stack grows with the length of a list.
//
// Works whose turn has come, or that got their bytes; NULL is fine.
void hr__works_resume(struct hr__waiter *list);
// Ends works that waited and shall not begin, since their job stops.
void hr__works_stop(struct hr__waiter *list);
// Watchdog: takes the sample from an engine that does not answer. False: it
// has just answered, or is at the memory.
bool hr__give_up(struct hr__engine_task *et);
// For docs and tests: what there is to know of a state. next: bit per state
// that may follow.
struct hr__state_facts {
    const char *name, *what;
    uint32_t next;
};
struct hr__state_facts hr__state_facts(enum hr__work_state state);

// prepare.c: each false with work->out if the sample cannot be made, or HR_OK.
// facts: reads the header (of a file, with its beginning), folds the geometry;
// sets work->needs. read: the rest of the file. drop: what was read of it.
// plan: cuts the stages for engines that have not failed it.
bool hr__prepare_facts(struct hr__work *work);
bool hr__prepare_read(struct hr__work *work);
void hr__prepare_drop(struct hr__work *work);
bool hr__prepare_plan(struct hr__work *work);
// Says whether the image that a work reads, if it reads one, could be made, now
// that it is the work's turn; if not, work->out says so.
bool hr__input_made(struct hr__work *work);
// Reads the header, which is all that the work wants; work->out says how.

// share.c: which engine makes a work (hal/device/schedule.c). plan: narrows the
// offers to it. begun: the engine gets its task now, device->lock held. made:
// has ended it. left: has failed it. end: the work ends.
void hr__share_plan(struct hr__work *w, struct hr__offer *offers);
void hr__share_begun(struct hr__work *w, int engine);
void hr__share_made(struct hr__work *w, int engine);
void hr__share_left(struct hr__work *w, int engine);
void hr__share_end(struct hr__work *w);

// dispatch.c
// To the host's queue: a list of works of one device, linked by next.
void hr__queue_at_host(struct hr__work *list);
// Hands the next span to its engine. True: it is the host's and shall run here.
bool hr__hand_over(struct hr__work *work, bool here);
// A work is upstream while the host works at it and it may still come to a
// list of tasks for another engine; such a list is submitted when nothing is
// upstream any more. So a work that will not come soon leaves.
void hr__leave_upstream(struct hr__work *work);

// transfer.c
// Makes memory reachable for the engine that is next. FETCH: the copy is set
// up. NO_MEMORY: work->out says so.
enum hr__reach { HR__REACHED, HR__MUST_FETCH, HR__NO_MEMORY };
enum hr__reach hr__reach(struct hr__work *work);
// Set up the copy of a result; false: there is none to be made.
bool hr__copy_look(struct hr__work *work);
bool hr__copy_bring(struct hr__work *work);
bool hr__copy_clear(struct hr__work *work);
// The next piece of the copy goes to the engine that owns the memory (true: it
// is under way), or all of it is copied here; or *out says why not.
bool hr__copy_next(struct hr__work *work, struct hr__outcome *out);
// A piece has been copied. Says whether there are more.
bool hr__copy_more(struct hr__work *work);

// span_clock.c: the task is in the engine's hands from now on, which must have
// ended it at `latest`.
void hr__clock_start(struct hr__engine_task *et, int64_t latest);
// The engine does something.
void hr__clock_alive(const struct hr__engine_task *et);
bool hr__clock_over(const struct hr__engine_task *et, int64_t now);

// outcome.c
// Whether another engine makes what this one failed.
static inline bool hr__may_fall_back(const struct hr__work *work, int engine)
{
    const struct hr__job *job = work->job;

    return !job->dev->engines[engine]->host && !job->params.strict;
}
// The engine that a failed span leaves, which is no longer asked; its reasons
// are counted.
void hr__fall_back(struct hr__work *work, int engine);
int hr__engine_to_leave(const struct hr__work *work);
// Says whether the destination of a failed work is to be cleared.
bool hr__clears(const struct hr__work *work);
// Writes the result, gives memory and bytes back and counts. Returns works that
// get them.
struct hr__waiter *hr__work_finish(struct hr__work *work);

// payload.c
// Says whether the span that has just ended left a payload that the next one
// can go on from. The contents of coefficients and planes are checked by their
// readers.
bool hr__payload_made(const struct hr__work *work);
void hr__payloads_free(struct hr__work *work, struct hr__payload *payloads,
                       int n);
// Frees what a work holds besides its turns.
void hr__work_free(struct hr__work *work);

// job_end.c
// All works have ended. Returns works that get the bytes of the job.
struct hr__waiter *hr__job_ended(struct hr__job *job);
bool hr__callbacks_start(struct hr__device *dev);
// Says whether this thread is in the on_done of that job.
bool hr__callback_of(const struct hr__job *job);

bool hr__watchdog_start(struct hr__device *dev);

#endif
