// SPDX-License-Identifier: Apache-2.0
// Between the stages reconstruct and color: planes out for an engine that goes
// on from there. (Rows from planes that another engine has made: rows.c.)
#include <stddef.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "cpu_fallback/planes.h"

// The HAL's header is handed to the functions of cpu_fallback as it is, and
// theirs to the next engine.
#define SAME(type, field)                       \
    (offsetof(struct hr__##type, field) ==      \
         offsetof(struct cpu_##type, field) &&  \
     sizeof(((struct hr__##type *)0)->field) == \
         sizeof(((struct cpu_##type *)0)->field))
_Static_assert(sizeof(struct hr__planes) == sizeof(struct cpu_planes) &&
                   SAME(planes, num_components) && SAME(planes, color) &&
                   SAME(planes, h_max) && SAME(planes, v_max) &&
                   SAME(planes, x) && SAME(planes, y) && SAME(planes, w) &&
                   SAME(planes, h) && SAME(planes, comp),
               "the headers of HAL and CPU have one layout");
_Static_assert(sizeof(struct hr__plane) == sizeof(struct cpu_plane) &&
                   SAME(plane, h) && SAME(plane, v) && SAME(plane, width) &&
                   SAME(plane, height) && SAME(plane, x) && SAME(plane, y) &&
                   SAME(plane, cols) && SAME(plane, rows) &&
                   SAME(plane, stride) && SAME(plane, step) && SAME(plane, at),
               "the components of HAL and CPU have one layout");
#undef SAME
_Static_assert((int)HR_COLOR_GRAY == (int)CPU_COLOR_GRAY &&
                   (int)HR_COLOR_YCC == (int)CPU_COLOR_YCC &&
                   (int)HR_COLOR_RGB == (int)CPU_COLOR_RGB,
               "the colours of HAL and CPU are the same");

// ---- What it offers --------------------------------------------------------

bool cpu_planes_color(const struct hr__picture *pic)
{
    const struct hr_info *info = &pic->info;
    bool gray = info->components == 1 && info->color == HR_COLOR_GRAY;
    bool color = info->components == 3 &&
                 (info->color == HR_COLOR_YCC || info->color == HR_COLOR_RGB);

    return pic->data && info->format != HR_FORMAT_PNG && info->precision == 8 &&
           (gray || color) && hr__sampling_is_whole(info);
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
    struct cpu_planes *planes;
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
