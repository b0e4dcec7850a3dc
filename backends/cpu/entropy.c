// SPDX-License-Identifier: Apache-2.0
// Span entropy..entropy: packed coefficients for an engine that does the rest.
#include <stddef.h>

#include "backends/cpu/cpu.h"
#include "cpu_fallback/coefficients.h"

// What is packed goes out as it is.
#define SAME(type, field)                           \
    (offsetof(struct hr__coef##type, field) ==      \
         offsetof(struct cpu_coef##type, field) &&  \
     sizeof(((struct hr__coef##type *)0)->field) == \
         sizeof(((struct cpu_coef##type *)0)->field))
_Static_assert(sizeof(struct hr__coefficients) ==
                       sizeof(struct cpu_coefficients) &&
                   SAME(ficients, magic) && SAME(ficients, num_components) &&
                   SAME(ficients, color) && SAME(ficients, h_max) &&
                   SAME(ficients, v_max) && SAME(ficients, x) &&
                   SAME(ficients, y) && SAME(ficients, w) &&
                   SAME(ficients, h) && SAME(ficients, segments) &&
                   SAME(ficients, comp) &&
                   offsetof(struct hr__coefficients, offset) ==
                       offsetof(struct cpu_coefficients, offset),
               "the headers of HAL and CPU have one layout");
_Static_assert(sizeof(struct hr__coef_component) ==
                       sizeof(struct cpu_coef_component) &&
                   SAME(_component, h) && SAME(_component, v) &&
                   SAME(_component, width) && SAME(_component, height) &&
                   SAME(_component, block_x) && SAME(_component, block_y) &&
                   SAME(_component, blocks_w) && SAME(_component, blocks_h) &&
                   SAME(_component, first) && SAME(_component, quant),
               "the components of HAL and CPU have one layout");
#undef SAME
_Static_assert((int)HR__COEF_MAGIC == (int)CPU_COEF_MAGIC,
               "the magic of HAL and CPU is the same");

// ---- What it offers --------------------------------------------------------

bool cpu_entropy_takes(const struct hr__picture *pic)
{
    const struct hr_info *info = &pic->info;

    if (info->format == HR_FORMAT_PACKED)
        return cpu_planes_color(pic) && !cpu_step_empty(&pic->geo.steps[0]);
    return cpu_planes_takes(pic) &&
           (info->process == HR_PROCESS_BASELINE ||
            info->process == HR_PROCESS_EXTENDED) &&
           !info->arithmetic && info->interleaved;
}

// ---- The span --------------------------------------------------------------

bool cpu_run_entropy(struct cpu_run *run)
{
    struct cpu_worker *w = run->w;
    struct cpu_decode_params p = cpu_run_decode(run);
    struct cpu_decode_error err = {.offset = -1};
    struct cpu_coef_lines lines;
    struct hr__payload *out;

    if (!cpu_step_window(run, &p.window))
        return false;
    run->out.stage = HR_ENTROPY;
    if (!cpu_run_packed(run, &p))
        return false;
    if (run->packed
            ? cpu_coef_cut(&p, &w->engine->ops, &w->arena, &lines, &err)
            : cpu_coef_decode(&p, &w->engine->ops, &w->arena, &lines, &err))
        return cpu_run_damaged(run, &err);
    out = cpu_run_payload(run, lines.size, p.window,
                          "no room for the coefficients between two engines");
    if (out)
        cpu_coef_write(&lines, out->data);
    return out != NULL;
}
