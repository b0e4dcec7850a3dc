// SPDX-License-Identifier: Apache-2.0
// Rings to JSON: Chrome's trace event format. Everything is gathered and
// sorted first, so that what encloses comes before what is enclosed, and an
// arrow is drawn only if both its ends are there.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hal/trace/trace.h"

enum { MAX_ROWS = 64, FIRST_ROW = 1 << 30 };

struct line {
    struct hr__event event;
    int tid;
};

struct row {  // of a device's queue
    const char *name;
    uint32_t serial;
};

struct thread {
    int tid;
    char name[32];
};

struct writer {
    FILE *f;
    int pid;
    bool wall;
    int64_t shift;  // added to each time
    uint64_t dropped;
    struct line *lines;
    size_t num;
    struct thread *threads;
    size_t num_threads;
    uint64_t *submits, *dones;  // jobs, sorted
    size_t num_submits, num_dones;
    struct row rows[MAX_ROWS];
    int num_rows;
    bool first;
};

// ---- Gathering -------------------------------------------------------------

// A thread may have waited since before the trace began.
static void clip(struct hr__event *event, int64_t start)
{
    if (event->kind == HR__EVENT_COUNTER || event->kind == HR__EVENT_ASYNC)
        return;
    if (event->begin < start)
        event->begin = start;
    if (event->end < event->begin)
        event->end = event->begin;
}

static int compare_lines(const void *a, const void *b)
{
    const struct hr__event *x = &((const struct line *)a)->event;
    const struct hr__event *y = &((const struct line *)b)->event;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return 0;
}

static int compare_jobs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static bool has_job(const uint64_t *jobs, size_t n, uint64_t job)
{
    return n && bsearch(&job, jobs, n, sizeof(*jobs), compare_jobs);
}

static void read_ring(struct writer *w, const struct hr__ring *ring, size_t max,
                      int64_t start, struct hr__event *scratch)
{
    size_t n = hr__ring_read(ring, scratch, max);

    for (size_t i = 0; i < n; i++) {
        struct hr__event *event = &scratch[i];

        clip(event, start);
        w->lines[w->num++] = (struct line){*event, ring->tid};
        if (event->kind == HR__EVENT_SUBMIT)
            w->submits[w->num_submits++] = event->job;
        if (event->kind == HR__EVENT_DONE)
            w->dones[w->num_dones++] = event->job;
    }
}

// Counts, for the last trace, the threads, the events at most, and the dropped
// events.
static uint64_t survey(struct writer *w, const struct hr__trace_state *state,
                       uint64_t *largest)
{
    uint64_t total = 0, gone;

    w->dropped = state->homeless;
    *largest = 0;
    for (const struct hr__ring *r = state->rings; r; r = r->next) {
        uint64_t kept = hr__ring_kept(r, &gone);

        if (r->generation != state->generation)
            continue;
        w->num_threads++;
        w->dropped += gone;
        total += r->capacity < kept + 64 ? r->capacity : kept + 64;
        *largest = r->capacity > *largest ? r->capacity : *largest;
    }
    return total;
}

// Copies the events to write, as they are now; under the trace's lock.
static bool gather(struct writer *w, const struct hr__trace_state *state)
{
    uint64_t largest, total = survey(w, state, &largest);
    struct hr__event *scratch = hr__alloc(NULL,
                                          (size_t)largest * sizeof(*scratch));
    size_t capacity = (size_t)total;
    struct thread *t;

    w->wall = state->wall;
    w->lines = hr__alloc(NULL, capacity * sizeof(*w->lines));
    w->submits = hr__alloc(NULL, capacity * sizeof(*w->submits));
    w->dones = hr__alloc(NULL, capacity * sizeof(*w->dones));
    w->threads = t = hr__alloc(NULL, w->num_threads * sizeof(*w->threads));
    if (!scratch || !w->lines || !w->submits || !w->dones || !t) {
        hr__free(scratch);
        return false;
    }
    for (const struct hr__ring *r = state->rings; r; r = r->next)
        if (r->generation == state->generation) {
            size_t left = capacity - w->num, max = (size_t)r->capacity;

            read_ring(w, r, max < left ? max : left, state->start, scratch);
            t->tid = r->tid;
            memcpy(t++->name, r->name, sizeof(t->name));
        }
    hr__free(scratch);
    return true;
}

static void sort(struct writer *w)
{
    qsort(w->lines, w->num, sizeof(*w->lines), compare_lines);
    qsort(w->submits, w->num_submits, sizeof(*w->submits), compare_jobs);
    qsort(w->dones, w->num_dones, sizeof(*w->dones), compare_jobs);
}

// ---- Writing ---------------------------------------------------------------

static void text(struct writer *w, const char *s)
{
    putc('"', w->f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            fprintf(w->f, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            fprintf(w->f, "\\u%04x", c);
        else
            putc(c, w->f);
    }
    putc('"', w->f);
}

// ns as microseconds: begin of an event and of a length.
static void micros(struct writer *w, const char *name, int64_t ns)
{
    fprintf(w->f, ",\"%s\":%" PRId64 ".%03d", name, ns / 1000,
            (int)(ns % 1000));
}

static void begin(struct writer *w, const char *ph, const char *name, int tid)
{
    fprintf(w->f, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"name\":",
            w->first ? "" : ",", ph, w->pid, tid);
    w->first = false;
    text(w, name);
}

static void span_name(const struct hr__event *event, char name[40])
{
    if (event->name)
        snprintf(name, 40, "%s", event->name);
    else if (event->first == event->last)
        snprintf(name, 40, "%s", hr_stage_name(event->first));
    else
        snprintf(name, 40, "%s..%s", hr_stage_name(event->first),
                 hr_stage_name(event->last));
}

static void args(struct writer *w, const struct hr__event *event)
{
    const char *comma = "";

    fputs(",\"args\":{", w->f);
    if (event->row && event->kind != HR__EVENT_DEVICE) {
        fputs("\"engine\":", w->f);
        text(w, event->row);
        comma = ",";
    }
    if (event->job) {
        fprintf(w->f, "%s\"%s\":%" PRIu64, comma,
                event->of_batch ? "batch" : "job", event->job);
        comma = ",";
    }
    if (event->sample >= 0)
        fprintf(w->f, "%s\"sample\":%d", comma, (int)event->sample);
    fputs("}}", w->f);
}

static int row_of(struct writer *w, const struct hr__event *event)
{
    for (int i = 0; i < w->num_rows; i++)
        if (w->rows[i].name == event->row && w->rows[i].serial == event->serial)
            return FIRST_ROW + i;
    if (w->num_rows == MAX_ROWS)
        return FIRST_ROW + MAX_ROWS;
    w->rows[w->num_rows] = (struct row){event->row, event->serial};
    return FIRST_ROW + w->num_rows++;
}

static void write_span(struct writer *w, const struct line *line)
{
    const struct hr__event *event = &line->event;
    bool device = event->kind == HR__EVENT_DEVICE;
    char name[40];

    span_name(event, name);
    begin(w, "X", name, device ? row_of(w, event) : line->tid);
    fprintf(w->f, ",\"cat\":\"%s\"", device ? "device" : "host");
    micros(w, "ts", event->begin + w->shift);
    micros(w, "dur", event->end - event->begin);
    args(w, event);
}

// Viewers take equal ids for one thing, whatever process they come from.
static void write_id(struct writer *w, const struct hr__event *event)
{
    fprintf(w->f, ",\"id\":\"%d.%" PRIu64, w->pid, event->job);
    if (event->kind == HR__EVENT_ASYNC)
        fprintf(w->f, ".%d", (int)event->sample);
    putc('"', w->f);
}

static void write_async(struct writer *w, const struct line *line)
{
    const struct hr__event *event = &line->event;
    const char *cat = event->sample >= 0 ? "sample" : "job";
    char name[40];

    span_name(event, name);
    for (int end = 0; end < 2; end++) {
        begin(w, end ? "e" : "b", name, line->tid);
        fprintf(w->f, ",\"cat\":\"%s\"", cat);
        write_id(w, event);
        micros(w, "ts", (end ? event->end : event->begin) + w->shift);
        args(w, event);
    }
}

static void write_counter(struct writer *w, const struct line *line)
{
    const struct hr__event *event = &line->event;

    begin(w, "C", event->name, line->tid);
    fprintf(w->f, ",\"id\":\"%s/%" PRIu32 "\"", event->row, event->serial);
    micros(w, "ts", event->begin + w->shift);
    fprintf(w->f, ",\"args\":{\"value\":%" PRId64 "}}", event->end);
}

static void write_arrow(struct writer *w, const struct line *line)
{
    const struct hr__event *event = &line->event;
    bool from = event->kind == HR__EVENT_SUBMIT;

    if (!has_job(w->submits, w->num_submits, event->job) ||
        !has_job(w->dones, w->num_dones, event->job))
        return;
    begin(w, from ? "s" : "f", event->name, line->tid);
    fprintf(w->f, ",\"cat\":\"job\"%s", from ? "" : ",\"bp\":\"e\"");
    write_id(w, event);
    micros(w, "ts", event->begin + w->shift);
    putc('}', w->f);
}

static void write_events(struct writer *w)
{
    for (size_t i = 0; i < w->num; i++) {
        const struct line *line = &w->lines[i];

        switch ((enum hr__event_kind)line->event.kind) {
        case HR__EVENT_SPAN:
        case HR__EVENT_DEVICE:
            write_span(w, line);
            break;
        case HR__EVENT_ASYNC:
            write_async(w, line);
            break;
        case HR__EVENT_COUNTER:
            write_counter(w, line);
            break;
        case HR__EVENT_SUBMIT:
        case HR__EVENT_DONE:
            write_arrow(w, line);
            break;
        }
    }
}

static void write_name(struct writer *w, const char *what, int tid,
                       const char *name)
{
    begin(w, "M", what, tid);
    fputs(",\"args\":{\"name\":", w->f);
    text(w, name);
    fputs("}}", w->f);
}

static void write_names(struct writer *w)
{
    write_name(w, "process_name", 0, "headrace");
    for (size_t i = 0; i < w->num_threads; i++)
        write_name(w, "thread_name", w->threads[i].tid, w->threads[i].name);
    for (int i = 0; i < w->num_rows; i++)
        write_name(w, "thread_name", FIRST_ROW + i, w->rows[i].name);
}

static int64_t wall_minus_monotonic(void)
{
    int64_t before = hr__now(), wall = hr__read_clock(CLOCK_REALTIME);
    int64_t after = hr__now();

    return wall - (before + (after - before) / 2);
}

static bool write_all(struct writer *w)
{
    int64_t offset = wall_minus_monotonic();

    w->pid = (int)getpid();
    w->shift = w->wall ? offset : 0;
    w->first = true;
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", w->f);
    write_events(w);
    write_names(w);
    fprintf(w->f,
            "\n],\"otherData\":{\"producer\":\"headrace %s\",\"clock\":\"%s\","
            "\"wall_minus_monotonic_ns\":\"%" PRId64 "\","
            "\"dropped_events\":\"%" PRIu64 "\"}}\n",
            hr_version(), w->wall ? "wall" : "CLOCK_MONOTONIC", offset,
            w->dropped);
    return !ferror(w->f);
}

enum hr_status hr_trace_write(const char *path)
{
    struct writer w = {0};
    enum hr_status status = HR_OK;
    bool gathered;
    int err = 0;

    if (!path)
        return hr__fail(HR_EINVAL, "no path");
    if (!(w.f = fopen(path, "we")))
        return hr__fail(HR_EIO, "%.200s: %s", path, strerror(errno));
    gathered = gather(&w, hr__trace_lock());
    // Threads may want a ring meanwhile, and the file may be a slow reader's.
    hr__trace_unlock();
    errno = 0;
    if (!gathered) {
        status = HR_ENOMEM;
    } else {
        sort(&w);
        err = write_all(&w) ? 0 : errno ? errno : EIO;
    }
    if (fclose(w.f) && !err)
        err = errno ? errno : EIO;
    hr__free(w.lines);
    hr__free(w.submits);
    hr__free(w.dones);
    hr__free(w.threads);
    if (status)
        return hr__fail(status, "no memory to sort the trace in");
    return err ? hr__fail(HR_EIO, "%.200s: %s", path, strerror(err)) : HR_OK;
}
