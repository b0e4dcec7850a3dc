// SPDX-License-Identifier: Apache-2.0
// Span entropy..entropy: packed coefficients for an engine that does the rest.

#include "backends/cpu/cpu.h"
#include "cpu_fallback/jpeg/coefficients.h"

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
