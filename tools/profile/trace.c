// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // strverscmp
// What the trace of a watched run tells besides its sums. It is read from the
// file that hr_trace_write() made, as any other program would.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

enum { FIRST_ROW = 1 << 30, SHOWN_BATCHES = 4 };

struct reader {
    struct profile_watch *w;
    double from, to;  // microseconds
    double show_to;   // of the timeline
    struct profile_interval *intervals;
    size_t num;
    long long tids[24];    // of the lanes
    double jobs_at, jobs;  // counter: since when, how many
    double area, empty;    // of the counter
};

static const char *text(const json_t *e, const char *name)
{
    const char *t = json_string_value(json_object_get(e, name));

    return t ? t : "";
}

static double number(const json_t *e, const char *name)
{
    return json_number_value(json_object_get(e, name));
}

static long long tid_of(const json_t *e)
{
    return (long long)json_integer_value(json_object_get(e, "tid"));
}

// ---- Spans -----------------------------------------------------------------

// Work, as opposed to waiting for it.
static bool is_work(const char *name)
{
    static const char *const not [] = {"idle",   "wait for results",
                                       "submit", "wait for room",
                                       "done",   "callback"};

    for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++)
        if (!strcmp(name, not [i]))
            return false;
    return true;
}

static int lane_of(struct reader *r, long long tid)
{
    for (int i = 0; i < r->w->num_lanes; i++)
        if (r->tids[i] == tid)
            return i;
    if (r->w->num_lanes == 24)
        return -1;
    r->tids[r->w->num_lanes] = tid;
    snprintf(r->w->lanes[r->w->num_lanes], 48, "thread %lld", tid);
    return r->w->num_lanes++;
}

static void show(struct reader *r, const json_t *e, double begin, double end)
{
    struct profile_lane_span *s;
    const char *name = text(e, "name");
    int lane;

    if (end < r->from || begin > r->show_to || !strcmp(name, "callback") ||
        r->w->num_spans == PROFILE_SPANS || (lane = lane_of(r, tid_of(e))) < 0)
        return;
    s = &r->w->spans[r->w->num_spans++];
    s->lane = lane;
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->begin_ms = (begin > r->from ? begin - r->from : 0) / 1000;
    s->end_ms = ((end < r->show_to ? end : r->show_to) - r->from) / 1000;
}

static void read_span(struct reader *r, const json_t *e)
{
    bool device = !strcmp(text(e, "cat"), "device");
    double begin = number(e, "ts"), end = begin + number(e, "dur");

    show(r, e, begin, end);
    begin = begin > r->from ? begin : r->from;
    end = end < r->to ? end : r->to;
    if (begin >= end || (!device && !is_work(text(e, "name"))))
        return;
    r->intervals[r->num++] = (struct profile_interval){
        begin, end, device ? (int)(tid_of(e) - FIRST_ROW) & 7 : -1};
}

// ---- The queue -------------------------------------------------------------

static void advance(struct reader *r, double at)
{
    double from = r->jobs_at > r->from ? r->jobs_at : r->from;
    double to = at < r->to ? at : r->to;

    if (to > from) {
        r->area += r->jobs * (to - from);
        r->empty += r->jobs > 0 ? 0 : to - from;
    }
    r->jobs_at = at;
}

static void read_counter(struct reader *r, const json_t *e)
{
    if (strcmp(text(e, "name"), "jobs in flight"))
        return;
    advance(r, number(e, "ts"));
    r->jobs = number(json_object_get(e, "args"), "value");
}

// ---- All of it -------------------------------------------------------------

static void name_lanes(struct reader *r, const json_t *events)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);

        if (strcmp(text(e, "name"), "thread_name"))
            continue;
        for (int k = 0; k < r->w->num_lanes; k++)
            if (r->tids[k] == tid_of(e))
                snprintf(r->w->lanes[k], sizeof(r->w->lanes[k]), "%s",
                         text(json_object_get(e, "args"), "name"));
    }
}

// By name, and "worker 2" before "worker 10": the order in which threads came
// first says nothing.
static void sort_lanes(struct profile_watch *w)
{
    int to[24];  // new place of each
    char names[24][48];

    memcpy(names, w->lanes, sizeof(names));
    for (int i = 0; i < w->num_lanes; i++) {
        to[i] = 0;
        for (int k = 0; k < w->num_lanes; k++) {
            int order = strverscmp(names[k], names[i]);

            to[i] += order < 0 || (!order && k < i);
        }
    }
    for (int i = 0; i < w->num_lanes; i++)
        memcpy(w->lanes[to[i]], names[i], sizeof(names[i]));
    for (int i = 0; i < w->num_spans; i++)
        w->spans[i].lane = to[w->spans[i].lane];
}

// Each process by what it measured.
static void name_process(const struct profile *p,
                         const struct profile_config *c, json_t *events)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *e = json_array_get(events, i);

        if (!strcmp(text(e, "name"), "process_name"))
            json_object_set_new(json_object_get(e, "args"), "name",
                                json_sprintf("headrace %s, %d threads",
                                             p->opt.backends[c->backend],
                                             c->threads));
    }
}

static bool keep_events(struct profile *p, json_t *trace)
{
    json_t *events = json_object_get(trace, "traceEvents");

    if (!p->opt.trace)
        return true;
    if (!p->events) {
        p->events = json_incref(trace);
        return true;
    }
    return json_array_extend(json_object_get(p->events, "traceEvents"),
                             events) == 0;
}

static bool read_events(struct reader *r, const json_t *events)
{
    size_t n = json_array_size(events);

    r->intervals = calloc(n + 1, sizeof(*r->intervals));
    r->w->spans = calloc(PROFILE_SPANS, sizeof(*r->w->spans));
    if (!r->intervals || !r->w->spans)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(events, i);
        const char *ph = text(e, "ph");

        if (!strcmp(ph, "X"))
            read_span(r, e);
        else if (!strcmp(ph, "C"))
            read_counter(r, e);
    }
    advance(r, r->to);
    name_lanes(r, events);
    sort_lanes(r->w);
    return true;
}

bool profile_read_trace(struct profile *p, struct profile_config *c,
                        struct profile_watch *w, const char *path, double from,
                        double to)
{
    struct reader r = {.w = w, .from = from * 1e6, .to = to * 1e6};
    const struct profile_sample *s = &c->rounds[0];
    json_error_t error;
    json_t *trace = json_load_file(path, 0, &error), *events;
    bool ok;

    if (!trace) {
        tools_warn("profile: a trace could not be read: %s", error.text);
        return false;
    }
    events = json_object_get(trace, "traceEvents");
    r.show_to = r.from + (r.to - r.from) * SHOWN_BATCHES /
                             (double)(s->batches > SHOWN_BATCHES
                                          ? s->batches
                                          : SHOWN_BATCHES);
    ok = read_events(&r, events);
    if (ok) {
        w->overlap = profile_overlap(r.intervals, r.num);
        w->occupancy = r.to > r.from ? r.area / (r.to - r.from) : 0;
        w->empty = r.to > r.from ? r.empty / (r.to - r.from) : 0;
        name_process(p, c, events);
        ok = keep_events(p, trace);
    }
    if (!ok)
        tools_warn("out of memory");
    free(r.intervals);
    json_decref(trace);
    return ok;
}
