// SPDX-License-Identifier: Apache-2.0
// Chooses the engine for a work if several engines of its device could make it
// (hr_device_params.balance): asks the schedule, and tells it how the work
// went. It chooses only among engines that make the same bytes, so no picture
// depends on the choice.
#include "hal/job/work.h"

static bool is_balanced(const struct hr__work *w)
{
    const struct hr__device *dev = w->job->dev;

    return dev->pub.params.balance && dev->num_engines > 1 && !dev->probing &&
           !w->job->no_picture && !w->check;
}

// The user's choice of engines counts, and so do engines that have failed.
static bool may_choose(const struct hr__work *w)
{
    return !w->excluded && !w->job->params.spans && !w->job->params.strict;
}

// The first of its engines in the chain.
static int head_of(const struct hr__plan *plan)
{
    int head = HR__MAX_ENGINES;

    for (int i = 0; i < plan->num_spans; i++)
        if (plan->spans[i].engine < head)
            head = plan->spans[i].engine;
    return head;
}

// Says whether it makes the host's bytes, and by something that is not the
// host.
static bool is_exact(const struct hr__work *w, const struct hr__plan *plan,
                     const struct hr__offer *offers)
{
    const struct hr__device *dev = w->job->dev;

    for (int i = 0; i < plan->num_spans; i++) {
        int k = plan->spans[i].engine;

        if (!dev->engines[k]->host &&
            (dev->engines[k]->caps.software ||
             !hr__device_exact(dev, k, plan->spans[i].span,
                               offers[k].first_step, &w->pic)))
            return false;
    }
    return true;
}

// Returns the engines that the sample's chain can begin with, a bit per index;
// *head: the one that it begins with by default.
static unsigned find_engines(const struct hr__work *w,
                             const struct hr__offer *offers, int *head)
{
    struct hr__offer left[HR__MAX_ENGINES];
    int n = w->job->dev->num_engines;
    unsigned may = 0;

    *head = -1;
    for (int i = 0; i < n; i++)
        left[i] = offers[i];
    for (int i = 0; i < n; i++) {
        struct hr__plan plan;

        if (!hr__plan_build(&plan, hr__picture_stages(&w->pic), left, n) &&
            head_of(&plan) == i) {
            if (is_exact(w, &plan, left))
                may |= 1u << i;
            if (*head < 0)
                *head = i;
        }
        left[i] = (struct hr__offer){0};
    }
    // One that deviates is the user's choice for all that it can do.
    return *head >= 0 && may >> *head & 1 && may_choose(w) ? may : 0;
}

static int64_t latest(const struct hr__work *w)
{
    int64_t target = w->job->dev->pub.params.latency_ns;

    return target ? w->job->since + target : INT64_MAX;
}

static void give(struct hr__work *w, int chosen, int64_t now)
{
    struct hr__device *dev = w->job->dev;

    if (!w->assigned)
        dev->unassigned--;
    w->assigned = true;
    w->chosen = chosen + 1;
    w->chosen_since = now;
    hr__schedule_give(&dev->schedule, chosen, now);
    w->chosen_load = dev->schedule.engines[chosen].in_flight;
}

// ---- All of it -------------------------------------------------------------

void hr__share_plan(struct hr__work *w, struct hr__offer *offers)
{
    struct hr__device *dev = w->job->dev;
    int64_t now;
    unsigned may;
    int head, chosen;

    if (!is_balanced(w))
        return;
    may = find_engines(w, offers, &head);
    if (head < 0)
        return;
    now = hr__now();
    pthread_mutex_lock(&dev->lock);
    hr__allowance_fill(&dev->schedule.allowance, now);
    chosen = head;
    if (may & (may - 1))
        chosen = hr__schedule_pick(&dev->schedule,
                                   &(struct hr__schedule_ask){
                                       .may = may,
                                       .waiting = dev->unassigned -
                                                  !w->assigned,
                                       .latest = latest(w),
                                   },
                                   now);
    give(w, chosen, now);
    pthread_mutex_unlock(&dev->lock);
    if (chosen == head)
        return;
    w->why |= HR_WHY_BUSY;
    for (int i = 0; i < chosen; i++)
        offers[i].spans = 0;
}

void hr__share_begun(struct hr__work *w, int engine)
{
    if (w->chosen != engine + 1)
        return;
    w->chosen_since = hr__now();
    w->chosen_load = w->job->dev->schedule.engines[engine].in_flight;
}

void hr__share_made(struct hr__work *w, int engine)
{
    struct hr__device *dev = w->job->dev;

    if (w->chosen != engine + 1)
        return;
    w->chosen = 0;
    pthread_mutex_lock(&dev->lock);
    hr__schedule_end(&dev->schedule, engine, w->chosen_since, w->chosen_load,
                     hr__now());
    pthread_mutex_unlock(&dev->lock);
}

void hr__share_left(struct hr__work *w, int engine)
{
    struct hr__device *dev = w->job->dev;
    int chosen = w->chosen - 1;

    w->chosen = 0;
    if (chosen < 0)
        return;
    pthread_mutex_lock(&dev->lock);
    hr__schedule_drop(&dev->schedule, chosen, chosen == engine, hr__now());
    pthread_mutex_unlock(&dev->lock);
}

void hr__share_end(struct hr__work *w)
{
    struct hr__device *dev = w->job->dev;

    hr__share_left(w, -1);
    if (w->assigned || w->job->no_picture || !dev->pub.params.balance)
        return;
    pthread_mutex_lock(&dev->lock);
    dev->unassigned--;
    pthread_mutex_unlock(&dev->lock);
}
