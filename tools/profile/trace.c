// SPDX-License-Identifier: Apache-2.0
// Reads the trace of a watched run, for figures that its sums do not hold. It
// reads the file that hr_trace_write() made, as any other program would.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

enum { FIRST_ROW = 1 << 30 };

struct reader {
    double from, to;  // microseconds
    struct profile_interval *intervals;
    size_t num;
    double jobs_at, jobs;  // counter: since when, how many
    double area, empty;    // of the counter
    double submitting;     // threads together
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

// Work, as opposed to waiting for it.
static bool is_work(const char *name)
{
    static const char *const none[] = {"idle",   "wait for results",
                                       "submit", "wait for room",
                                       "done",   "callback"};

    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        if (!strcmp(name, none[i]))
            return false;
    return true;
}

static void read_span(struct reader *r, const json_t *e)
{
    bool device = !strcmp(text(e, "cat"), "device");
    double begin = fmax(number(e, "ts"), r->from);
    double end = fmin(number(e, "ts") + number(e, "dur"), r->to);
    long long row = (long long)number(e, "tid") - FIRST_ROW;

    if (begin < end && !strcmp(text(e, "name"), "submit"))
        r->submitting += end - begin;
    if (begin < end && (device || is_work(text(e, "name"))))
        r->intervals[r->num++] =
            (struct profile_interval){begin, end, device ? (int)(row & 7) : -1};
}

// ---- The queue -------------------------------------------------------------

static void advance(struct reader *r, double at)
{
    double time = fmin(at, r->to) - fmax(r->jobs_at, r->from);

    if (time > 0) {
        r->area += r->jobs * time;
        r->empty += r->jobs > 0 ? 0 : time;
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

static bool read_events(struct reader *r, const json_t *events)
{
    json_t *e;
    size_t i;

    r->intervals = calloc(json_array_size(events) + 1, sizeof(*r->intervals));
    if (!r->intervals)
        return false;
    json_array_foreach(events, i, e)
    {
        if (!strcmp(text(e, "ph"), "X"))
            read_span(r, e);
        else if (!strcmp(text(e, "ph"), "C"))
            read_counter(r, e);
    }
    advance(r, r->to);
    return true;
}

// For --trace: each process by what it measured.
static bool keep(struct profile *p, const struct profile_config *c,
                 json_t *trace)
{
    json_t *events = json_object_get(trace, "traceEvents"), *e;
    size_t i;

    if (!p->opt.trace)
        return true;
    json_array_foreach(events, i, e)
    {
        if (!strcmp(text(e, "name"), "process_name"))
            json_object_set_new(json_object_get(e, "args"), "name",
                                json_sprintf("headrace %s, %d threads",
                                             p->opt.backends[c->backend],
                                             c->threads));
    }
    if (p->events)
        return !json_array_extend(json_object_get(p->events, "traceEvents"),
                                  events);
    p->events = json_incref(trace);
    return true;
}

bool profile_read_trace(struct profile *p, const struct profile_config *c,
                        const char *path)
{
    struct profile_watch *w = &p->watch[c->backend];
    struct reader r = {.from = w->begun * 1e6, .to = w->ended * 1e6};
    json_error_t error;
    json_t *trace = json_load_file(path, 0, &error);
    bool ok;

    if (!trace)
        return tools_warn("profile: a trace could not be read: %s", error.text);
    ok = read_events(&r, json_object_get(trace, "traceEvents"));
    w->overlap = profile_overlap(r.intervals, r.num);
    w->occupancy = r.to > r.from ? r.area / (r.to - r.from) : 0;
    w->empty = r.to > r.from ? r.empty / (r.to - r.from) : 0;
    w->wait_submit = r.to > r.from ? r.submitting / (r.to - r.from) : 0;
    ok = ok && keep(p, c, trace);
    if (!ok)
        tools_warn("out of memory");
    free(r.intervals);
    json_decref(trace);
    return ok;
}
