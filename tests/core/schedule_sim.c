// SPDX-License-Identifier: Apache-2.0
#include "schedule_sim.h"

static int host(const struct sim *s)
{
    return s->num - 1;
}

// When what engine e begins now will end.
static int64_t end_of(const struct sim *s, int e)
{
    const struct sim_engine *engine = &s->engines[e];
    bool slow = s->now >= engine->slow_from && s->now < engine->slow_to;
    int64_t end = s->now + engine->takes * (slow ? engine->slow : 1);

    if (s->now >= engine->stall_to || end <= engine->stall_from)
        return end;
    return end + engine->stall_to -
           (s->now > engine->stall_from ? s->now : engine->stall_from);
}

// Submits jobs until `ring` of them are in flight. The caller waits for whole
// jobs in order, so that fewer samples are in flight while one waits for a
// stalled engine.
static void submit(struct sim *s)
{
    while (s->known < s->samples &&
           s->known / s->job < s->done / s->job + s->ring) {
        s->submitted[s->known] = s->now;
        s->known++;
    }
}

static void finish(struct sim *s, int sample)
{
    s->ended[sample] = s->now;
    s->ends[sample]++;
    s->done++;
    s->end = s->now;
    submit(s);
}

static void queue_at(struct sim *s, int e, int sample)
{
    s->queue[e][s->tail[e]++] = sample;
    s->begun[sample] = s->now;
    s->load[sample] = s->schedule.engines[e].in_flight;
}

// An engine in front takes up what is in its queue.
static void begin_more(struct sim *s, int e)
{
    for (int i = 0; i < s->engines[e].depth; i++)
        if (s->slots[e][i].sample < 0 && s->head[e] < s->tail[e]) {
            s->slots[e][i].sample = s->queue[e][s->head[e]++];
            s->slots[e][i].until = end_of(s, e);
        }
}

static void use_host(struct sim *s, int64_t ns)
{
    s->host_ns += ns;
    s->schedule.allowance.level -= ns;
}

// A thread of the host looks for work; it rests if the cap says so.
static void take(struct sim *s, int i)
{
    int64_t rest;

    hr__allowance_fill(&s->schedule.allowance, s->now);
    rest = hr__allowance_wait(&s->schedule.allowance);
    s->slots[host(s)][i].sample = -1;
    s->slots[host(s)][i].until = rest ? s->now + rest : INT64_MAX;
    if (rest || s->taken == s->known)
        return;
    s->slots[host(s)][i].sample = s->taken++;
    s->slots[host(s)][i].decides = true;
    s->slots[host(s)][i].until = s->now + s->prepare;
}

static int choose(struct sim *s, int sample)
{
    struct hr__schedule_ask ask = {
        .may = (1u << s->num) - 1,
        .waiting = s->known - s->taken,
        .latest = s->target ? s->submitted[sample] + s->target : INT64_MAX,
    };

    hr__allowance_fill(&s->schedule.allowance, s->now);
    return s->only >= 0 ? s->only
                        : hr__schedule_pick(&s->schedule, &ask, s->now);
}

static void decide(struct sim *s, int i)
{
    int sample = s->slots[host(s)][i].sample, e = choose(s, sample);

    use_host(s, s->prepare);
    s->engine_of[sample] = e;
    hr__schedule_give(&s->schedule, e, s->now);
    if (s->schedule.engines[e].in_flight > s->most[e])
        s->most[e] = s->schedule.engines[e].in_flight;
    if (e == host(s)) {
        s->slots[e][i].decides = false;
        s->slots[e][i].until = end_of(s, e);
        s->begun[sample] = s->now;
        s->load[sample] = s->schedule.engines[e].in_flight;
        return;
    }
    queue_at(s, e, sample);
    begin_more(s, e);
    take(s, i);
}

static void end(struct sim *s, int e, int i)
{
    int sample = s->slots[e][i].sample;

    hr__schedule_end(&s->schedule, e, s->begun[sample], s->load[sample],
                     s->now);
    s->slots[e][i].sample = -1;
    s->slots[e][i].until = INT64_MAX;
    if (e == host(s))
        use_host(s, s->now - s->begun[sample]);
    finish(s, sample);
    if (e != host(s))
        begin_more(s, e);
}

static void step(struct sim *s, int e, int i)
{
    bool works = s->slots[e][i].sample >= 0;

    if (works && e == host(s) && s->slots[e][i].decides) {
        decide(s, i);
        return;
    }
    if (works)
        end(s, e, i);
    if (e == host(s))
        take(s, i);
    // An idle host thread looks at the samples that have arrived.
    for (int k = 0; k < s->engines[host(s)].depth; k++)
        if (s->slots[host(s)][k].sample < 0 &&
            s->slots[host(s)][k].until == INT64_MAX && s->taken < s->known)
            take(s, k);
}

static bool next(struct sim *s, int *engine, int *slot)
{
    int64_t first = INT64_MAX;

    for (int e = 0; e < s->num; e++)
        for (int i = 0; i < s->engines[e].depth; i++)
            if (s->slots[e][i].until < first) {
                first = s->slots[e][i].until;
                *engine = e;
                *slot = i;
            }
    if (first == INT64_MAX)
        return false;
    s->now = first;
    return true;
}

void sim_run(struct sim *s)
{
    int e, i;

    hr__schedule_init(&s->schedule, s->num);
    for (e = 0; e < s->num; e++) {
        s->schedule.engines[e].depth = s->engines[e].depth;
        s->head[e] = s->tail[e] = s->most[e] = 0;
        for (i = 0; i < SIM_SLOTS; i++) {
            s->slots[e][i].sample = -1;
            s->slots[e][i].until = INT64_MAX;
        }
    }
    s->schedule.allowance.milli = s->cap_milli;
    for (i = 0; i < s->samples; i++)
        s->ends[i] = 0;
    s->now = s->end = s->host_ns = 0;
    s->taken = s->done = s->known = 0;
    submit(s);
    for (i = 0; i < s->engines[host(s)].depth; i++)
        take(s, i);
    while (s->done < s->samples && next(s, &e, &i))
        step(s, e, i);
}

double sim_rate(const struct sim *s, int engine, int64_t from, int64_t to)
{
    int n = 0;

    for (int i = 0; i < s->samples; i++)
        n += (engine < 0 || s->engine_of[i] == engine) && s->ended[i] >= from &&
             s->ended[i] < to;
    return n / ((double)(to - from) / 1e9);
}

static int by_time(const void *a, const void *b)
{
    int64_t d = *(const int64_t *)a - *(const int64_t *)b;

    return d < 0 ? -1 : d > 0;
}

int64_t sim_late(const struct sim *s, double past)
{
    static int64_t took[SIM_SAMPLES];
    int n = 0;

    for (int i = 0; i < s->samples; i++) {
        int64_t t = s->ended[i] - s->submitted[i];

        if (i % s->job == 0)
            took[n++] = t;
        else if (t > took[n - 1])
            took[n - 1] = t;
    }
    qsort(took, (size_t)n, sizeof(*took), by_time);
    return took[n - 1 - (int)(past * n)];
}

double sim_sum(const struct sim *s)
{
    double sum = 0;

    for (int e = 0; e < s->num; e++)
        sum += s->engines[e].depth * 1e9 / (double)s->engines[e].takes;
    return sum;
}
