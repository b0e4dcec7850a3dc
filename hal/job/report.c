// SPDX-License-Identifier: Apache-2.0
// Reports of jobs and their works to the trace.
#include "hal/job/report.h"
#include "hal/job/work.h"

static void of_work(struct hr__event *event, const struct hr__work *work)
{
    event->job = work->job->id;
    event->sample = work->index;
}

static void trace_span(const struct hr__engine_task *et,
                       enum hr__event_kind kind, int64_t begin)
{
    struct hr__event event;

    if (!begin || !hr__traced())
        return;
    event = hr__event(kind, NULL, begin, hr__now());
    event.first = (uint8_t)et->task.span.first;
    event.last = (uint8_t)et->task.span.last;
    of_work(&event, et->work);
    hr__event_of_engine(&event, hr__engine_of(et));
    hr__trace(&event);
}

void hr__watch_task(const struct hr__task *task, int64_t begin)
{
    trace_span((const struct hr__engine_task *)task, HR__EVENT_SPAN, begin);
}

// (The begin of the host's tasks is not recorded.)
void hr__watch_span(const struct hr__engine_task *et)
{
    hr__count(&hr__engine_of(et)->meter.tasks, 1);
    trace_span(et, HR__EVENT_ASYNC, et->begun);
}

void hr__watch_work(const struct hr__work *work, enum hr_part part,
                    int64_t begin)
{
    struct hr__engine *host = hr__host(work->job->dev);
    struct hr__event event;

    if (!begin)
        return;
    event = hr__event(HR__EVENT_SPAN, hr_part_name(part), begin, hr__now());
    of_work(&event, work);
    hr__event_of_engine(&event, host);
    hr__watch_sum(host, part, event.end - begin);
    if (hr__traced())
        hr__trace(&event);
}

static void job_event(const struct hr__job *job, struct hr__event event)
{
    event.job = job->id;
    hr__event_of_engine(&event, job->dev->engines[0]);
    hr__trace(&event);
}

void hr__watch_submit(struct hr__job *job, int64_t begin)
{
    if (!begin || !hr__traced())
        return;
    job_event(job, hr__event(HR__EVENT_SPAN, "submit", begin, hr__now()));
    job_event(job, hr__event(HR__EVENT_SUBMIT, "job", begin, begin));
}

void hr__watch_callback(const struct hr__job *job, int64_t begin)
{
    if (begin && hr__traced())
        job_event(job, hr__event(HR__EVENT_SPAN, "callback", begin, hr__now()));
}

void hr__watch_done(const struct hr__job *job, int64_t begin)
{
    int64_t now;

    if (!begin || !hr__traced())
        return;
    now = hr__now();
    job_event(job, hr__event(HR__EVENT_SPAN, "done", begin, now));
    job_event(job, hr__event(HR__EVENT_DONE, "job", begin, begin));
    if (job->begun)
        job_event(job, hr__event(HR__EVENT_ASYNC, "job", job->begun, begin));
}
