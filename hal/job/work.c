// SPDX-License-Identifier: Apache-2.0
// The state machine of a work, from its turn to its end: the states, what
// happens in each, and which comes next. Other files do the work of a state;
// only this file decides the next one.
//
//   TURN -> HOST -> PREPARE -> BYTES -> READ -> PLAN -> SPAN.. -> CHECK -> MADE
//             ^                  `-> WAIT                ^  `-> FALL         |
//             `----------------------'                   `-FETCH   [BRING] <-'
//   any -> END -> [CLEAR] -> DONE                                     `-> END
//
// enter() runs on whatever thread has the work and returns the next state; or
// HR__AWAY, when an engine or a list has the work: it is not touched any more
// then, as it may be anywhere, or gone. A work that comes back from an engine
// passes back(), with its outcome.
//
// Each thread has one list of works that are ready, and one loop that runs
// them. Works that become ready while the loop runs go to the list's end.
#include <assert.h>

#include "hal/job/crosscheck.h"
#include "hal/job/cache_fill.h"
#include "hal/job/report.h"

// ---- Before the picture ----------------------------------------------------

static enum hr__work_state stopped(struct hr__work *w)
{
    w->out = (struct hr__outcome){.status = hr__stop_status(w->job),
                                  .stage = w->out.stage,
                                  .offset = -1};
    return HR__END;
}

// Its turn has come. Copies by an engine need not wait for the host's queue,
// nor does a job that runs on its caller's thread.
static enum hr__work_state turn_has_come(struct hr__work *w)
{
    return w->job->no_picture && (w->copy.memory || w->job->here) ? HR__MOVE
                                                                  : HR__HOST;
}

static enum hr__work_state next_on_host(struct hr__work *w)
{
    if (hr__job_stops(w->job))
        return stopped(w);
    return w->job->no_picture ? HR__MOVE : HR__PREPARE;
}

static enum hr__work_state prepare(struct hr__work *w)
{
    if (hr__job_stops(w->job))
        return stopped(w);
    return hr__prepare_facts(w) ? HR__BYTES : HR__END;
}

static enum hr__work_state take_bytes(struct hr__work *w)
{
    return hr__budget_take(&w->wait) ? HR__READ : HR__WAIT;
}

// A waiting work holds neither memory nor a file: it begins anew. Nor do the
// lists of other engines wait for it.
static enum hr__work_state wait_for_bytes(struct hr__work *w)
{
    hr__prepare_drop(w);
    hr__cache_fill_drop(w);
    hr__leave_upstream(w);
    hr__works_resume(hr__budget_ungrant(&w->wait));
    return hr__budget_wait(&w->wait) ? HR__PREPARE : HR__AWAY;
}

static enum hr__work_state read_rest(struct hr__work *w)
{
    return hr__prepare_read(w) ? HR__PLAN : HR__END;
}

static enum hr__work_state plan(struct hr__work *w)
{
    if (!hr__prepare_plan(w))
        return HR__END;
    w->prepared = true;
    return HR__SPAN;
}

// ---- Spans -----------------------------------------------------------------

// The work of the host's thread that is in hr__task_prepare(), while it is run;
// and whether that thread has it now.
static _Thread_local struct hr__work *at_hand;
static _Thread_local bool taken;

static enum hr__work_state begin_span(struct hr__work *w)
{
    switch (hr__reach(w)) {
    case HR__NO_MEMORY:
        return HR__END;
    case HR__MUST_FETCH:
        return HR__FETCH;
    default:
        taken |= hr__hand_over(w, w == at_hand);
        return HR__AWAY;
    }
}

// The next engine must not be given what is not there.
static enum hr__work_state made_nothing(struct hr__work *w)
{
    w->out = (struct hr__outcome){.status = HR_EDEVICE,
                                  .why = HR_WHY_FAILED,
                                  .stage = w->plan.spans[w->at].span.last,
                                  .offset = -1,
                                  .text = "the device reports success, but has "
                                          "left nothing to go on from"};
    return HR__FALL;
}

// Provenance: whose the stages of a span are. A cache has done the first.
static void note_span(struct hr__work *w)
{
    struct hr_result *r = &w->job->results[w->index];
    struct hr_span span = w->plan.spans[w->at].span;
    const char *name = hr__engine_at(w, w->at)->name;

    if (w->hit && span.first == HR_ENTROPY) {
        r->spans[r->num_spans++] =
            (struct hr_span_result){{HR_ENTROPY, HR_ENTROPY}, "cache"};
        if (span.last == HR_ENTROPY)
            return;
        span.first = HR_RECONSTRUCT;
    }
    r->spans[r->num_spans++] = (struct hr_span_result){span, name};
}

static enum hr__work_state span_is_back(struct hr__work *w,
                                        const struct hr__outcome *out)
{
    struct hr__device *dev = w->job->dev;
    struct hr_span span = w->plan.spans[w->at].span;
    struct hr__outcome before = w->out;

    // The spans mend different faults of one picture: all of them count.
    w->out = *out;
    w->out.warnings += before.warnings;
    w->out.shared |= before.shared;
    if (out->status)
        return HR__FALL;
    if (!hr__payload_made(w))
        return made_nothing(w);
    note_span(w);
    hr__share_made(w, w->plan.spans[w->at].engine);
    if (span.last == HR_RECONSTRUCT && dev->on_planes &&
        hr__payload_map(&w->payloads[w->at]))
        dev->on_planes(dev->planes_ctx, &w->payloads[w->at]);
    return ++w->at < w->plan.num_spans ? HR__SPAN : HR__CHECK;
}

static enum hr__work_state fall_back(struct hr__work *w)
{
    struct hr__outcome failed = w->out;
    int engine = hr__engine_to_leave(w);

    hr__share_left(w, w->plan.spans[w->at].engine);
    // (An engine that cannot divide entropy coding leaves only that to the
    // host.)
    if (!hr__may_fall_back(w, engine) && w->out.why != HR_WHY_SERIAL)
        return HR__END;
    // A stopped job's sample is not made elsewhere.
    if (hr__job_stops(w->job))
        return stopped(w);
    hr__fall_back(w, engine);
    if (hr__prepare_plan(w))
        return HR__SPAN;
    w->out = failed;
    return HR__END;
}

// ---- The picture is there --------------------------------------------------

static enum hr__work_state check(struct hr__work *w)
{
    if (!hr__check_wanted(w))
        return HR__MADE;
    // A result in an engine's own memory is copied to the host for the check.
    if (w->pic.dst.data)
        return HR__AGAIN;
    return hr__copy_look(w) ? HR__LOOK : HR__MADE;
}

static enum hr__work_state make_again(struct hr__work *w)
{
    return hr__check_begin(w) ? HR__SPAN : HR__MADE;
}

static int erases_of(const struct hr__work *w, struct hr_erase *out)
{
    return hr__ops_erases(w->sample.ops, w->sample.num_ops, &w->sample.random,
                          w->pic.dst.w, w->pic.dst.h, out);
}

int hr__task_erases(const struct hr__task *task,
                    struct hr_erase out[HR_MAX_OPS])
{
    const struct hr__work *w = hr__work_of(task);

    return w->paints && task->span.last == HR_STORE ? erases_of(w, out) : 0;
}

// The host does it where the engine that has stored the tensor has not.
static void paint(struct hr__work *w)
{
    struct hr_erase erases[HR_MAX_OPS];
    int n = w->paints ? 0 : erases_of(w, erases);

    for (int i = 0; i < n; i++)
        hr__paint(&w->pic.dst, &erases[i]);
}

// The check is judged before the result is painted on, and before it leaves the
// host.
static enum hr__work_state judge(struct hr__work *w)
{
    hr__check_end(w);
    if (!w->out.status && w->pic.dst.data)
        paint(w);
    return !w->out.status && hr__copy_bring(w) ? HR__BRING : HR__END;
}

static enum hr__work_state end(struct hr__work *w)
{
    // The CPU could not make the sample again: the device's picture counts, and
    // may have to leave the host.
    if (w->check)
        return HR__MADE;
    if (!hr__clears(w))
        return HR__DONE;
    if (hr__copy_clear(w))
        return HR__CLEAR;
    if (!hr__on_device(w->pic.dst.memory))
        hr__dst_clear(&w->pic.dst);
    return HR__DONE;
}

// ---- Copies ----------------------------------------------------------------

static enum hr__work_state move(struct hr__work *w)
{
    if (hr__job_stops(w->job))
        return stopped(w);
    return hr__input_made(w) ? HR__MOVING : HR__END;
}

// A result that cannot be looked at has been made nevertheless; one that cannot
// be cleared has failed before.
static enum hr__work_state copied(struct hr__work *w,
                                  const struct hr__outcome *out)
{
    if (w->state == HR__LOOK)
        return out->status ? HR__MADE : HR__AGAIN;
    if (w->state == HR__CLEAR) {
        if (out->status)
            hr__log(w->job->dev, HR_LOG_WARN,
                    "sample %d failed and could not be cleared: %s", w->index,
                    out->text[0] ? out->text : hr_status_text(out->status));
        return HR__DONE;
    }
    if (out->status || w->state == HR__MOVING) {
        w->out = *out;
        w->out.stage = w->state == HR__FETCH ? HR_RESAMPLE : HR_STORE;
    }
    if (out->status || w->state != HR__FETCH)
        return HR__END;
    w->pic.pixels = w->source;
    return HR__SPAN;
}

static enum hr__work_state copy(struct hr__work *w)
{
    struct hr__outcome out = {.offset = -1, .stage = HR_STORE};

    if (!w->copied)
        hr__leave_upstream(w);
    return hr__copy_next(w, &out) ? HR__AWAY : copied(w, &out);
}

static enum hr__work_state copy_is_back(struct hr__work *w,
                                        const struct hr__outcome *out)
{
    return !out->status && hr__copy_more(w) ? w->state : copied(w, out);
}

// ---- The host's queue, and the end -----------------------------------------

// Stopped while it was in the queue.
static enum hr__work_state not_taken(struct hr__work *w,
                                     const struct hr__outcome *out)
{
    enum hr_stage stage = w->out.stage;

    w->out = *out;
    w->out.stage = stage;
    return HR__END;
}

static enum hr__work_state queue_at_host(struct hr__work *w);
static enum hr__work_state finish(struct hr__work *w);

// ---- The table -------------------------------------------------------------

#define TO(name) (UINT32_C(1) << HR__##name)

static const struct state {
    uint32_t next;  // bits of the states that may follow
    enum hr__work_state (*enter)(struct hr__work *w);
    enum hr__work_state (*back)(struct hr__work *w,
                                const struct hr__outcome *out);
} states[HR__NUM_STATES] = {
    [HR__TURN] = {TO(HOST) | TO(MOVE) | TO(END), NULL, NULL},
    [HR__HOST] = {TO(PREPARE) | TO(MOVE) | TO(END), queue_at_host, not_taken},
    [HR__PREPARE] = {TO(BYTES) | TO(END), prepare, NULL},
    [HR__BYTES] = {TO(READ) | TO(WAIT), take_bytes, NULL},
    [HR__WAIT] = {TO(HOST) | TO(PREPARE) | TO(END), wait_for_bytes, NULL},
    [HR__READ] = {TO(PLAN) | TO(END), read_rest, NULL},
    [HR__PLAN] = {TO(SPAN) | TO(END), plan, NULL},
    [HR__FETCH] = {TO(FETCH) | TO(SPAN) | TO(END), copy, copy_is_back},
    [HR__SPAN] = {TO(SPAN) | TO(FETCH) | TO(FALL) | TO(CHECK) | TO(END),
                  begin_span, span_is_back},
    [HR__FALL] = {TO(SPAN) | TO(END), fall_back, NULL},
    [HR__CHECK] = {TO(LOOK) | TO(AGAIN) | TO(MADE), check, NULL},
    [HR__LOOK] = {TO(LOOK) | TO(AGAIN) | TO(MADE), copy, copy_is_back},
    [HR__AGAIN] = {TO(SPAN) | TO(MADE), make_again, NULL},
    [HR__MADE] = {TO(BRING) | TO(END), judge, NULL},
    [HR__BRING] = {TO(BRING) | TO(END), copy, copy_is_back},
    [HR__MOVE] = {TO(MOVING) | TO(END), move, NULL},
    [HR__MOVING] = {TO(MOVING) | TO(END), copy, copy_is_back},
    [HR__END] = {TO(MADE) | TO(CLEAR) | TO(DONE), end, NULL},
    [HR__CLEAR] = {TO(CLEAR) | TO(DONE), copy, copy_is_back},
    [HR__DONE] = {0, finish, NULL},
};

struct hr__state_facts hr__state_facts(enum hr__work_state state)
{
#define X(name, what) {#name, what, 0},
    struct hr__state_facts all[] = {HR__STATE_MAP(X)};
#undef X

    all[state].next = states[state].next;
    return all[state];
}

// ---- The loop --------------------------------------------------------------

static _Thread_local struct {
    bool runs;
    struct hr__work *head, **tail;
} ready;

static void goes_to(struct hr__work *w, enum hr__work_state next)
{
    assert(states[w->state].next >> next & 1);
    w->state = next;
}

static void put(struct hr__work *w)
{
    if (!ready.head)
        ready.tail = &ready.head;
    w->next = NULL;
    *ready.tail = w;
    ready.tail = &w->next;
}

static struct hr__work *take(void)
{
    struct hr__work *w = ready.head;

    if (w)
        ready.head = w->next;
    return w;
}

static void advance(struct hr__work *w)
{
    enum hr__work_state next;

    while ((next = states[w->state].enter(w)) != HR__AWAY)
        goes_to(w, next);
}

static void run(void)
{
    struct hr__work *w;

    if (ready.runs)
        return;
    ready.runs = true;
    while ((w = take()))
        advance(w);
    ready.runs = false;
}

// Ready works behind it that go to the same host go with it.
static enum hr__work_state queue_at_host(struct hr__work *w)
{
    struct hr__work *list = w, **end = &w->next;
    const struct hr__device *dev = w->job->dev;

    while (ready.head && ready.head->state == HR__HOST &&
           ready.head->job->dev == dev) {
        *end = take();
        end = &(*end)->next;
    }
    *end = NULL;
    hr__queue_at_host(list);
    return HR__AWAY;
}

static enum hr__work_state finish(struct hr__work *w)
{
    hr__works_resume(hr__work_finish(w));
    return HR__AWAY;
}

void hr__works_resume(struct hr__waiter *list)
{
    for (struct hr__waiter *next; list; list = next) {
        struct hr__work *w = (struct hr__work *)list;

        next = list->next;
        goes_to(w, w->state == HR__TURN ? turn_has_come(w) : HR__HOST);
        put(w);
    }
    run();
}

void hr__works_stop(struct hr__waiter *list)
{
    for (struct hr__waiter *next; list; list = next) {
        struct hr__work *w = (struct hr__work *)list;

        next = list->next;
        goes_to(w, stopped(w));
        put(w);
    }
    run();
}

// ---- The engines' doors ----------------------------------------------------

static void comes_back(struct hr__work *w, const struct hr__outcome *out)
{
    goes_to(w, states[w->state].back(w, out));
    put(w);
    run();
}

bool hr__task_prepare(struct hr__task *task)
{
    struct hr__work *w = hr__work_of(task);

    if (w->state == HR__SPAN)
        return true;
    goes_to(w, next_on_host(w));
    // The host's thread is in no loop: this is the only work that is ready.
    at_hand = w;
    taken = false;
    ready.runs = true;
    advance(w);
    ready.runs = false;
    at_hand = NULL;
    run();
    return taken;
}

static struct hr__memory *memory_of(const struct hr__work *w)
{
    return w->sample.out   ? ((struct hr__image *)w->sample.out)->device
           : w->job->batch ? w->job->batch->device
                           : NULL;
}

static void let_go_of_dst(struct hr__work *w)
{
    hr_image image = w->sample.out;

    atomic_fetch_sub(&memory_of(w)->late, 1);
    if (image)
        hr_image_release(&image);
    else
        hr__batch_unref(w->job->batch);
}

// Holds pinned memory that the engine may still write: no other engine may
// write it, and it is not freed. (The engine may end the task at the same
// time.)
static void hold_dst(struct hr__engine_task *et)
{
    struct hr__work *w = et->work;
    struct hr__memory *m = memory_of(w);

    if (et->task.copy.memory || !m || !m->direct ||
        m->owner != hr__engine_of(et))
        return;
    atomic_fetch_add(&m->late, 1);
    if (w->sample.out)
        hr__image_retain(w->sample.out);
    else
        atomic_fetch_add(&w->job->batch->refs, 1);
    if (atomic_exchange(&et->late, HR__LATE_HELD) == HR__LATE_ENDED)
        let_go_of_dst(w);
}

void hr__task_done(struct hr__task *task, const struct hr__outcome *out)
{
    struct hr__engine_task *et = (struct hr__engine_task *)task;
    struct hr__work *w = et->work;

    if (atomic_exchange(&et->state, HR__IDLE) == HR__GIVEN_UP) {
        // The driver came back after all. No work waits for it any more.
        if (atomic_exchange(&et->late, HR__LATE_ENDED) == HR__LATE_HELD)
            let_go_of_dst(w);
        hr__job_unref(w->job);
        return;
    }
    atomic_store(&et->deadline, 0);
    // A task that was only taken out of a queue is no sign of life.
    if (!hr__task_stop(task))
        hr__clock_alive(et);
    if (!task->copy.memory)
        hr__watch_span(et);
    comes_back(w, out);
}

// Payloads that the hung engine reads or makes must stay until it comes back.
static void keep_payloads(struct hr__work *w, int engine)
{
    for (int i = 0; i < 2; i++) {
        int made_by = w->at - 1 + i;

        if (made_by < 0)
            continue;
        w->kept[engine][i] = w->payloads[made_by];
        w->payloads[made_by] = (struct hr__payload){0};
    }
}

bool hr__give_up(struct hr__engine_task *et)
{
    struct hr__work *w = et->work;
    struct hr__job *job = w->job;
    int running = HR__RUNNING;
    struct hr__outcome out = {.status = HR_ETIMEDOUT,
                              .why = HR_WHY_TIMEOUT,
                              .offset = -1,
                              .text = "the device did not answer in time"};

    // It may have come back since, and hold the work's next span.
    if (!hr__clock_over(et, hr__now()))
        return false;
    // Before the exchange: the engine may come back right after it.
    atomic_fetch_add(&job->refs, 1);
    if (!atomic_compare_exchange_strong(&et->state, &running, HR__GIVEN_UP)) {
        hr__job_unref(job);
        return false;
    }
    out.stage = et->task.span.first;
    w->given_up = true;
    if (!et->task.copy.memory)
        keep_payloads(w, (int)(et - w->tasks));
    hold_dst(et);
    pthread_mutex_lock(&job->dev->lock);
    job->dev->stats.abandoned++;
    pthread_mutex_unlock(&job->dev->lock);
    comes_back(w, &out);
    return true;
}
