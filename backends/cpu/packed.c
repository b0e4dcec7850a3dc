// SPDX-License-Identifier: Apache-2.0
// A task that begins with a packed picture: its source is one, or its source is
// packed first, to be kept. And what a device has packed is completed.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "cpu_fallback/jpeg/pack.h"

static bool take_source(struct cpu_run *run, struct cpu_decode_params *p)
{
    const struct hr__picture *pic = run->pic;

    if ((uintptr_t)p->data % 8) {
        uint8_t *copy = cpu_arena_alloc(&run->w->arena, p->size);

        if (!copy)
            return cpu_run_fail(run, HR_ENOMEM, "");
        memcpy(copy, p->data, p->size);
        p->data = copy;
    }
    run->out.stage = HR_ENTROPY;
    if (!pic->verified && !cpu_packed_check(p->data, p->size))
        return cpu_run_fail(run, HR_ECORRUPT, "a damaged packed picture");
    return run->packed = true;
}

static bool pack_source(struct cpu_run *run, struct cpu_decode_params *p)
{
    struct cpu_worker *w = run->w;
    struct cpu_decode_error err = {.offset = -1};
    struct cpu_mark mark = cpu_arena_mark(&w->arena);
    struct cpu_pack pack;
    uint8_t *to;

    if (cpu_pack(p, run->pic->info.orientation, &w->engine->ops, &w->arena,
                 &pack, &err))
        // The picture is made without keeping it: with the faults' own
        // messages, if there are any.
        return err.result != CPU_STOPPED || (cpu_run_stops(run), false);
    to = hr__task_keep(run->task, pack.size);
    if (to)
        cpu_pack_write(&pack, to);
    cpu_arena_reset(&w->arena, mark);
    cpu_lap(run, HR_PART_ENTROPY);
    if (!to)
        return true;
    p->data = to;
    p->size = pack.size;
    return run->packed = true;
}

bool cpu_run_packed(struct cpu_run *run, struct cpu_decode_params *p)
{
    run->packed = false;
    if (run->pic->info.format == HR_FORMAT_PACKED)
        return take_source(run, p);
    return !run->pic->keep || run->plain || pack_source(run, p);
}

// ---- Without a task ---------------------------------------------------------

// Each call has all that it needs to itself: what it costs is little beside
// the decoding.
enum hr_status cpu_pack_alone(const void *data, size_t size,
                              const struct hr_info *info,
                              const struct hr_limits *limits, void **packed,
                              size_t *packed_size, struct hr__outcome *out)
{
    struct cpu_decode_params p = {.data = data,
                                  .size = size,
                                  .width = info->width,
                                  .height = info->height};
    struct cpu_decode_error err = {.offset = -1};
    struct cpu_arena arena;
    struct cpu_pack pack;
    unsigned mask = cpu_mask_from_environment();
    struct cpu_ops ops;
    void *to = NULL;

    if (!mask) {
        snprintf(out->text, sizeof(out->text),
                 "HEADRACE_CPU names no instruction set");
        return out->status = HR_EINVAL;
    }
    cpu_ops_init(&ops, mask);
    cpu_arena_init(&arena, &cpu_plain_heap);
    arena.limit = limits->item_bytes;
    if (!cpu_pack(&p, info->orientation, &ops, &arena, &pack, &err)) {
        to = aligned_alloc(CPU_ALIGN, cpu_aligned(pack.size));
        if (to)
            cpu_pack_write(&pack, to);
        else
            err.result = CPU_NOMEM;
    }
    out->status = arena.limited && err.result == CPU_NOMEM
                      ? HR_ELIMIT
                      : cpu_status_of(err.result);
    out->offset = err.offset;
    snprintf(out->text, sizeof(out->text), "%s", err.text);
    cpu_arena_finish(&arena);
    *packed = to;
    *packed_size = to ? pack.size : 0;
    return out->status;
}
