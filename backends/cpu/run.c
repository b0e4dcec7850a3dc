// SPDX-License-Identifier: Apache-2.0
// The state that all parts of a task share: how it fails, whether it has to
// stop, its payloads, the parameters of its decoder.
#include <stdio.h>

#include "backends/cpu/cpu.h"

enum hr_status cpu_status_of(enum cpu_result result)
{
    static const enum hr_status statuses[] = {
        [CPU_OK] = HR_OK,
        [CPU_CORRUPT] = HR_ECORRUPT,
        [CPU_TRUNCATED] = HR_ETRUNCATED,
        [CPU_UNSUPPORTED] = HR_EUNSUPPORTED,
        [CPU_NOMEM] = HR_ENOMEM,
        [CPU_STOPPED] = HR_ECANCELED,
        [CPU_REDO] = HR_ECORRUPT,
    };

    return statuses[result];
}

bool cpu_run_fail(struct cpu_run *run, enum hr_status status, const char *text)
{
    // The arena fails because malloc failed, or because of the user's limit.
    if (status == HR_ENOMEM && run->w->arena.limited) {
        status = HR_ELIMIT;
        text = "memory for one picture";
    }
    if (!run->out.status) {
        run->out.status = status;
        snprintf(run->out.text, sizeof(run->out.text), "%s", text);
    }
    return false;
}

bool cpu_run_stops(void *ctx)
{
    struct cpu_run *run = ctx;

    if (run->out.status)
        return true;
    if (hr__task_stop(run->task))
        cpu_run_fail(run, hr__task_stop_status(run->task), "");
    else if (run->asked++ % 32 == 31 && hr__now() >= run->deadline)
        // (the clock costs more than the question: not every time)
        cpu_run_fail(run, HR_ELIMIT, "over the time limit per picture");
    return run->out.status != HR_OK;
}

// The CPU mends damage, and says how much, in its own way: then it makes the
// picture as a whole.
bool cpu_run_damaged(struct cpu_run *run, const struct cpu_decode_error *err)
{
    run->out.offset = err->offset;
    if (err->result == CPU_STOPPED)
        return cpu_run_stops(run), false;
    if (err->result == CPU_NOMEM) {
        // As rows it takes less.
        run->out.why = HR_WHY_MEMORY;
        return cpu_run_fail(run, HR_ENOMEM, err->text);
    }
    run->out.why = HR_WHY_DAMAGED;
    return cpu_run_fail(run, HR_EUNSUPPORTED, err->text);
}

struct hr__payload *cpu_run_payload(struct cpu_run *run, size_t size,
                                    struct hr__rect rect, const char *text)
{
    struct hr__payload *out = run->payload;

    // A span that is done again writes the same pixels to the same place.
    if (!out)
        out = run->payload = hr__task_payload(run->task, size);
    if (out) {
        out->rect = (struct hr__rect){rect.x, rect.y, rect.w, rect.h};
        return out;
    }
    // The next engine's memory, not ours: another engine may have room.
    run->out.why = HR_WHY_MEMORY;
    cpu_run_fail(run, HR_ENOMEM, text);
    return NULL;
}

static void lap(void *ctx, enum cpu_stage stage)
{
    static const enum hr_part parts[] = {
        [CPU_STAGE_ENTROPY] = HR_PART_ENTROPY,
        [CPU_STAGE_RECONSTRUCT] = HR_PART_RECONSTRUCT,
        [CPU_STAGE_COLOR] = HR_PART_COLOR,
    };
    struct cpu_run *run = ctx;

    // The time until then is not counted.
    if (stage == CPU_STAGE_NONE)
        run->lap = hr__now();
    else
        cpu_lap(run, parts[stage]);
}

struct cpu_decode_params cpu_run_decode(struct cpu_run *run)
{
    const struct hr__picture *pic = run->pic;

    return (struct cpu_decode_params){.data = pic->data,
                                      .size = pic->size,
                                      .width = pic->width,
                                      .height = pic->height,
                                      .channels = pic->channels,
                                      .stop = cpu_run_stops,
                                      .stop_ctx = run,
                                      .lap = run->lap ? lap : NULL,
                                      .helpers = &run->w->engine->helpers,
                                      .jpeg = run->w->jpeg};
}
