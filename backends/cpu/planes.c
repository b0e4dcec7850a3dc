// SPDX-License-Identifier: Apache-2.0
// Between the stages reconstruct and color: planes out for an engine that goes
// on from there. (Rows from planes that another engine has made: rows.c.)
#include <string.h>

#include "backends/cpu/cpu.h"
#include "cpu_fallback/pixel/planes.h"

// ---- What it offers --------------------------------------------------------

bool cpu_planes_color(const struct hr__picture *pic)
{
    const struct hr_info *info = &pic->info;
    bool gray = info->components == 1 && info->color == HR_COLOR_GRAY;
    bool color = info->components == 3 &&
                 (info->color == HR_COLOR_YCC || info->color == HR_COLOR_RGB);

    // (A PNG has no sampling factors.)
    return pic->data && info->precision == 8 && (gray || color) &&
           hr__sampling_is_whole(info);
}

bool cpu_planes_takes(const struct hr__picture *pic)
{
    // A file without an end must be searched for where it stops: for rows.
    return cpu_planes_color(pic) && pic->info.format == HR_FORMAT_JPEG &&
           pic->info.ends && pic->info.process != HR_PROCESS_LOSSLESS &&
           !cpu_step_empty(&pic->geo.steps[0]);
}

// ---- entropy..reconstruct --------------------------------------------------

bool cpu_run_planes(struct cpu_run *run)
{
    struct cpu_worker *w = run->w;
    struct cpu_decode_params p = cpu_run_decode(run);
    struct cpu_decode_error err = {.offset = -1};
    struct hr__planes *planes;
    struct hr__payload *out;
    size_t size;

    if (!cpu_step_window(run, &p.window))
        return false;
    run->out.stage = HR_ENTROPY;
    if (cpu_planes_decode(&p, &w->engine->ops, &w->arena, &planes, &size, &err))
        return cpu_run_damaged(run, &err);
    out = cpu_run_payload(run, size, p.window,
                          "no room for the planes between two engines");
    if (!out)
        return false;
    memcpy(out->data, planes, size);
    out->extra = out->data;
    return true;
}
