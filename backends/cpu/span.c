// SPDX-License-Identifier: Apache-2.0
// One task: rows stream from their source through the steps into the tensor, or
// to where the span ends. The full picture never exists, but between two steps.
#include "backends/cpu/cpu.h"

// ---- The steps of a span ----------------------------------------------------

// A step whose output is turned goes through memory.
static bool run_turned(struct cpu_run *run, const struct hr__step *step,
                       const struct cpu_sink *from, struct cpu_sink *to)
{
    to->column = step->out_h;
    if (!cpu_step_run(run, step, from, to))
        return false;
    to->column = 0;
    return true;
}

// The payload is the output of a step.
static bool take_step(struct cpu_run *run, const struct hr__step *step,
                      struct cpu_sink *to)
{
    struct cpu_rows rows = {.window = {0, 0, step->out_w, step->out_h}};

    return cpu_rows_payload(run, &rows) && cpu_rows_copy(run, &rows, to);
}

// The steps, and the codes between them; those behind the last if augment.
// made: the step whose output the payload is, or -1.
static bool run_steps(struct cpu_run *run, struct cpu_sink *final, int made,
                      bool augment)
{
    const struct hr__picture *pic = run->pic;
    const struct hr__geometry *geo = &pic->geo;
    struct cpu_sink between[2];
    enum hr_stage given = made < 0 ? HR_COLOR : run->task->in->after;
    int first = made < 0 ? 0 : made;

    for (int i = first; i < geo->num_steps; i++) {
        const struct hr__step *step = &geo->steps[i];
        struct cpu_sink *from = i > first ? &between[(i - 1) & 1] : NULL;
        struct cpu_sink *to = &between[i & 1];
        bool last = i == geo->num_steps - 1;
        bool codes = step->augments && (!last || augment);
        int channels = from ? from->channels : hr__picture_channels(pic, given);

        if (last && !codes && !step->transpose && i != made)
            return cpu_step_run(run, step, from, final);
        if (!cpu_sink_memory(run, to, step->out_w, step->out_h, channels,
                             cpu_codes_bytes(run, step)))
            return false;
        if (!(i == made         ? take_step(run, step, to)
              : step->transpose ? run_turned(run, step, from, to)
                                : cpu_step_run(run, step, from, to)))
            return false;
        if (codes && !cpu_codes_run(run, step, to, last ? final : NULL))
            return false;
        if (last && !codes)
            return cpu_sink_rows(run, to, step->out_h, final);
    }
    return true;
}

// ---- Spans that end or begin elsewhere --------------------------------------

bool cpu_rows_copy(struct cpu_run *run, struct cpu_rows *rows,
                   const struct cpu_sink *s)
{
    const uint8_t *src[CPU_DECODE_ROWS];

    while (rows->next < rows->window.h) {
        int y = rows->next, n = cpu_rows_read(run, rows, src, CPU_DECODE_ROWS);

        if (!n)
            return false;
        for (int i = 0; i < n; i++)
            cpu_sink_row(run, s, y + i, src[i]);
    }
    return true;
}

// ..color: the window that the first step reads, as pixels.
static bool run_decode(struct cpu_run *run)
{
    struct cpu_rows rows = {0};
    struct cpu_sink s;
    bool ok;

    if (!cpu_step_window(run, &rows.window) ||
        !cpu_sink_payload(run, &s, rows.window) || !cpu_rows_open(run, &rows))
        return false;
    ok = cpu_rows_copy(run, &rows, &s);
    return cpu_rows_finish(run, &rows) && ok;
}

// store..store: the payload is the whole output.
static bool run_store(struct cpu_run *run)
{
    struct cpu_rows rows = {.window = {0, 0, run->pic->dst.w, run->pic->dst.h}};
    struct cpu_sink s = {.pic = run->pic};

    run->out.stage = HR_STORE;
    return cpu_rows_payload(run, &rows) && cpu_rows_copy(run, &rows, &s);
}

bool cpu_run_span(struct cpu_run *run)
{
    const struct hr_span *span = &run->task->span;
    const struct hr__geometry *geo = &run->pic->geo;
    const struct hr__step *step = &geo->steps[geo->num_steps - 1];
    struct hr__rect out = {0, 0, geo->out_w, geo->out_h};
    struct cpu_sink final = {.pic = run->pic};
    int made = span->first == HR_AUGMENT                    ? geo->num_steps - 1
               : run->task->in && run->task->in->first_step ? 0
                                                            : -1;

    if (span->last == HR_ENTROPY)
        return cpu_run_entropy(run);
    if (span->last == HR_RECONSTRUCT)
        return cpu_run_planes(run);
    if (span->last == HR_COLOR)
        return run_decode(run);
    if (span->first == HR_STORE)
        return run_store(run);
    if (span->last == HR_RESAMPLE)
        out = (struct hr__rect){0, 0, step->out_w, step->out_h};
    if (span->last < HR_STORE && !cpu_sink_payload(run, &final, out))
        return false;
    run->out.stage = span->first == HR_AUGMENT ? HR_AUGMENT : run->out.stage;
    return run_steps(run, &final, made, span->last >= HR_AUGMENT);
}

// Returns the part for the time behind the last lap: the end of a decoder, or a
// span of one stage.
static enum hr_part last_part(const struct cpu_run *run)
{
    const struct hr_span *span = &run->task->span;

    return span->last == HR_ENTROPY     ? HR_PART_ENTROPY
           : span->first == HR_STORE    ? HR_PART_STORE
           : span->first == HR_AUGMENT  ? HR_PART_AUGMENT
           : span->first == HR_RESAMPLE ? HR_PART_RESAMPLE
                                        : run->decode_part;
}

static void report(struct cpu_run *run, int64_t begin)
{
    struct hr__engine *e = run->w->engine->e;

    cpu_lap(run, last_part(run));
    for (int i = 0; run->lap && i < HR_NUM_PARTS; i++)
        if (run->spent[i])
            hr__watch_sum(e, (enum hr_part)i, run->spent[i]);
    for (int i = 0; run->lap && i < HR__NUM_AUGMENT; i++)
        if (run->code_times[i])
            hr__watch_code(e, (enum hr__augment_code)i, run->code_spent[i],
                           run->code_times[i]);
    hr__watch_task(run->task, begin);
}

struct cpu_run cpu_run_begin(struct cpu_worker *w, struct hr__task *task)
{
    struct cpu_run run = {
        .w = w, .task = task, .pic = task->pic, .decode_part = HR_PART_DECODE};

    run.begin = hr__watch_begin();
    run.lap = hr__watched() & HR__WATCH_TIMES ? run.begin : 0;
    run.deadline = hr__now() + (int64_t)task->pic->limits->item_ms * 1000000;
    run.out = (struct hr__outcome){.offset = -1, .stage = task->span.first};
    return run;
}

void cpu_run_end(struct cpu_run *run)
{
    report(run, run->begin);
    hr__task_done(run->task, &run->out);
}

void cpu_run(struct cpu_worker *w, struct hr__task *task,
             struct hr__payload *payload)
{
    struct cpu_run run = cpu_run_begin(w, task);
    bool ok;

    run.payload = payload;
    // If our own decoder gives up, the picture is made again from its source,
    // within the same time limit.
    do {
        run.out = (struct hr__outcome){.offset = -1, .stage = task->span.first};
        run.plain = run.redo;
        run.redo = false;
        ok = cpu_run_span(&run);
        cpu_arena_clear(&w->arena, CPU_KEEP);
    } while (run.redo);
    if (!ok && !run.out.status)
        cpu_run_fail(&run, HR_ECORRUPT, "");
    cpu_run_end(&run);
}
