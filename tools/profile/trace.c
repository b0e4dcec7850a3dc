// SPDX-License-Identifier: Apache-2.0
// What the trace of a watched run tells besides its sums. It is read from the
// file that hr_trace_write() made, as any other program would.
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

static void read_span(struct reader *r, const json_t *e)
{
    bool device = !strcmp(text(e, "cat"), "device");
    double begin = number(e, "ts"), end = begin + number(e, "dur");

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
    if (!r->intervals)
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
    return true;
}

bool profile_read_trace(struct profile *p, const struct profile_config *c,
                        struct profile_watch *w, const char *path, double from,
                        double to)
{
    struct reader r = {.from = from * 1e6, .to = to * 1e6};
    json_error_t error;
    json_t *trace = json_load_file(path, 0, &error), *events;
    bool ok;

    if (!trace) {
        tools_warn("profile: a trace could not be read: %s", error.text);
        return false;
    }
    events = json_object_get(trace, "traceEvents");
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
