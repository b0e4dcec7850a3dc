// SPDX-License-Identifier: Apache-2.0
// Stage augment: the codes behind a step, on whole pictures, in place or
// between two of them.
#include "backends/cpu/cpu.h"

static const struct hr__augment *codes_of(const struct hr__geometry *geo,
                                          const struct hr__step *step)
{
    const struct hr__augment *codes = geo->augments;

    for (const struct hr__step *s = geo->steps; s < step; s++)
        codes += s->augments;
    return codes;
}

size_t cpu_codes_bytes(const struct cpu_run *run, const struct hr__step *step)
{
    const struct hr__augment *codes = codes_of(&run->pic->geo, step);
    size_t c = (size_t)run->pic->channels;
    size_t most = cpu_row_pitch((size_t)step->out_w * c) * (size_t)step->out_h;

    for (int i = 0; i < step->augments; i++) {
        size_t size = cpu_row_pitch((size_t)codes[i].w * c) *
                      (size_t)codes[i].h;

        most = size > most ? size : most;
    }
    return most;
}

// If the last code amounts to a table, the store applies it with its own; else,
// or without memory, the code writes to *to.
static const struct cpu_sink *by_store(struct cpu_run *run,
                                       const struct hr__augment *code,
                                       const struct cpu_pixels *p,
                                       const struct cpu_sink *to,
                                       struct cpu_sink *stored)
{
    // (Bytes that stay bytes are copied, faster than by a table.)
    bool copied = to->pic->dst.dtype == HR_U8 && to->pic->table->u8_identity;
    struct hr__values values;
    struct hr__table *table;

    if (copied ||
        !cpu_augment_table(&run->w->engine->ops.augment, code, p, &values) ||
        !(table = cpu_arena_alloc(&run->w->arena, sizeof(*table))))
        return to;
    hr__table_through(table, to->pic->table, &values, p->channels,
                      to->pic->dst.dtype);
    *stored = *to;
    stored->table = table;
    return stored;
}

// A code ends here.
static void code_lap(struct cpu_run *run, enum hr__augment_code code)
{
    int64_t before = run->spent[HR_PART_AUGMENT];

    cpu_lap(run, HR_PART_AUGMENT);
    if (!run->lap)
        return;
    run->code_spent[code] += run->spent[HR_PART_AUGMENT] - before;
    run->code_times[code]++;
}

bool cpu_codes_run(struct cpu_run *run, const struct hr__step *step,
                   struct cpu_sink *s, const struct cpu_sink *to)
{
    const struct hr__augment *codes = codes_of(&run->pic->geo, step);
    struct cpu_arena *arena = &run->w->arena;
    struct cpu_pixels p = {s->data, s->stride, step->out_w, step->out_h,
                           s->channels};
    struct cpu_sink by_table;
    uint8_t *other = NULL;

    run->out.stage = HR_AUGMENT;
    for (int i = 0; i < step->augments; i++) {
        bool apart = hr__augment_apart(codes[i].code);
        uint8_t *before = p.data;

        run->asked |= 31;  // a code may take long: the clock is asked each time
        if (cpu_run_stops(run))
            return false;
        if (i == step->augments - 1 && to && to->pic &&
            (to = by_store(run, &codes[i], &p, to, &by_table)) == &by_table) {
            code_lap(run, codes[i].code);
            break;
        }
        if (apart && !other)
            other = cpu_arena_alloc(arena, cpu_codes_bytes(run, step));
        if ((apart && !other) ||
            !cpu_augment_run(&run->w->engine->ops.augment, &codes[i], 1, &p,
                             other, arena))
            return cpu_run_fail(run, HR_ENOMEM, "no room for a picture");
        if (p.data != before)
            other = before;
        code_lap(run, codes[i].code);
    }
    s->data = p.data;
    s->stride = p.stride;
    s->channels = p.channels;
    return !to || cpu_sink_rows(run, s, p.h, to);
}
