// SPDX-License-Identifier: Apache-2.0
// The end of a work: writes its result in words and numbers, clears its
// destination if it failed, and releases all that it held. Also finds
// the engine that a work leaves after a failure.
#include <stdio.h>
#include <string.h>

#include "hal/job/cache_fill.h"
#include "hal/job/work.h"

// ---- The result ------------------------------------------------------------

// Returns the stage of a failure. Before the first stage there is the file, and
// then its header.
static enum hr_stage where(const struct hr__work *work)
{
    const struct hr__outcome *out = &work->out;

    if (!work->prepared && out->stage == HR_ENTROPY)
        return out->status == HR_EIO ? HR_READ : HR_HEADER;
    return out->stage;
}

// The status is said in words unless the text says the same.
static const char *status_text(const struct hr__outcome *out)
{
    bool said = out->status == HR_EIO || out->status == HR_ELIMIT;

    return said && out->text[0] ? "" : hr_status_text(out->status);
}

static void write_message(struct hr__work *work)
{
    const struct hr__outcome *out = &work->out;
    enum { NAME = 200 };
    struct hr_result *r = &work->job->results[work->index];
    const struct hr_sample *s = &work->sample;
    const char *name = s->path ? s->path : s->name, *status = status_text(out);
    char number[32], offset[40] = "";
    size_t len = name ? strlen(name) : 0;

    snprintf(number, sizeof(number), "sample %d", work->index);
    if (out->offset >= 0)
        snprintf(offset, sizeof(offset), " at byte %lld",
                 (long long)out->offset);
    // The end of a long path tells more than its beginning.
    snprintf(r->message, sizeof(r->message), "%s%s: %s%s: %s%s%s",
             len > NAME ? "..." : "",
             !name        ? number
             : len > NAME ? name + len - NAME
                          : name,
             hr_stage_name(r->stage), offset, status,
             *status && out->text[0] ? ": " : "", out->text);
}

static void write_result(struct hr__work *work)
{
    const struct hr__outcome *out = &work->out;
    struct hr_result *r = &work->job->results[work->index];

    r->status = out->status;
    r->why = work->why | out->why;
    work->why = r->why;
    r->warnings = out->warnings;
    r->stage = where(work);
    r->offset = out->status ? out->offset : -1;
    if (!out->status)
        return;
    r->num_spans = 0;
    write_message(work);
    hr__log(work->job->dev, HR_LOG_INFO, "%s", r->message);
}

// ---- The end ---------------------------------------------------------------

static bool has_turn(const struct hr__work *work)
{
    bool open;

    hr__graph_lock();
    open = work->writes.open;
    hr__graph_unlock();
    return open;
}

bool hr__clears(const struct hr__work *work)
{
    // Without its turn the memory belongs to others.
    return work->out.status && !work->job->no_picture &&
           work->job->params.on_error != HR_ON_ERROR_SKIP && has_turn(work);
}

static struct hr__waiter *join(struct hr__waiter *a, struct hr__waiter *b)
{
    struct hr__waiter **end = &a;

    while (*end)
        end = &(*end)->next;
    *end = b;
    return a;
}

// Ends the turns of a work. Returns the waiters whose turn has come, linked by
// next.
static struct hr__waiter *leave_tracks(struct hr__work *work)
{
    struct hr__image *out = (struct hr__image *)work->sample.out;
    enum hr_status status = work->out.status;
    struct hr__waiter *list;

    hr__graph_lock();
    if (work->writes.open)
        work->writes.track->status = status;
    else if (work->writes.track)
        hr__track_drop(&work->writes, status);
    list = hr__track_remove(&work->reads);
    list = join(list, hr__track_remove(&work->writes));
    if (out)
        pthread_cond_broadcast(&out->idle);
    hr__graph_unlock();
    return list;
}

static void count(struct hr__work *work)
{
    struct hr_stats *s = &work->job->dev->stats;
    enum hr_status status = work->out.status;

    if (work->job->no_picture)
        return;
    pthread_mutex_lock(&work->job->dev->lock);
    s->samples++;
    s->failed += status != HR_OK && status != HR_ECANCELED;
    s->canceled += status == HR_ECANCELED;
    s->shared += work->out.shared && !status;
    s->cache_hits += work->hit;
    s->cache_misses += work->missed;
    s->fallbacks += work->job->results[work->index].fallbacks > 0;
    for (unsigned why = work->why; why; why &= why - 1)
        s->fallback_reasons[__builtin_ctz(why)]++;
    pthread_mutex_unlock(&work->job->dev->lock);
}

struct hr__waiter *hr__work_finish(struct hr__work *work)
{
    struct hr__job *job = work->job;
    hr_image in = work->sample.image, dst = work->sample.out;
    struct hr__waiter *list;

    write_result(work);
    hr__cache_fill_end(work);
    hr__prepare_drop(work);
    if (!work->given_up)
        hr__work_free(work);
    list = hr__budget_ungrant(&work->wait);
    count(work);
    hr__share_end(work);
    hr__leave_upstream(work);
    list = join(leave_tracks(work), list);
    hr_image_release(&in);
    hr_image_release(&dst);
    if (atomic_fetch_sub(&job->left, 1) == 1)
        list = join(hr__job_ended(job), list);
    return list;
}

// ---- A failed span ---------------------------------------------------------

// The one that failed it; or, if the host could not make what another engine
// was to go on with, or could not go on with what another has made, and says
// why, that one.
int hr__engine_to_leave(const struct hr__work *work)
{
    int engine = work->plan.spans[work->at].engine;

    if (!hr__engine_at(work, work->at)->host || !work->out.why)
        return engine;
    for (int i = work->at + 1; i < work->plan.num_spans; i++)
        if (!hr__engine_at(work, i)->host)
            return work->plan.spans[i].engine;
    for (int i = work->at - 1; i >= 0; i--)
        if (!hr__engine_at(work, i)->host)
            return work->plan.spans[i].engine;
    return engine;
}

// The other engines make the sample again from its source. Never silent:
// counted, with the reason.
void hr__fall_back(struct hr__work *work, int engine)
{
    struct hr__device *dev = work->job->dev;
    struct hr_result *r = &work->job->results[work->index];
    const struct hr__outcome *out = &work->out;

    // An engine that cannot divide its entropy coding may still do the rest.
    if (out->why == HR_WHY_SERIAL)
        work->serial = true;
    else
        work->excluded |= 1u << engine;
    work->why |= out->why ? out->why : HR_WHY_FAILED;
    r->fallbacks++;
    r->num_spans = 0;
    hr__log(dev, out->why == HR_WHY_SERIAL ? HR_LOG_INFO : HR_LOG_WARN,
            "%s: sample %d falls back: %s", dev->engines[engine]->name,
            work->index,
            out->text[0] ? out->text : hr_status_text(out->status));
    hr__payloads_free(work, &work->ahead, 1);
    hr__payloads_free(work, work->payloads, HR_NUM_STAGES);
}
