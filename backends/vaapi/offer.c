// SPDX-License-Identifier: Apache-2.0
// Decides which spans of a picture the engine takes, and why not more, before
// anything is submitted.
#include "backends/vaapi/vaapi.h"

#define TO_PLANES HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT)
#define TO_PIXELS HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE)

static unsigned why_not_coding(const struct hr_info *info)
{
    unsigned why = hr__why_not_baseline(info);

    if (why & HR_WHY_FORMAT)
        return why;
    // Drivers ignore how a file without JFIF marks its colours, so the other
    // colour spaces are refused.
    if (info->color != HR_COLOR_GRAY && info->color != HR_COLOR_YCC &&
        info->color != HR_COLOR_RGB)
        why |= HR_WHY_COLOR;
    if (!info->ends)
        why |= HR_WHY_DAMAGED;
    return why;
}

static unsigned why_not_surface(const struct va *va, const struct hr_info *info)
{
    const struct va_facts *f = &va->facts;
    int kind = hr__jpeg_kind(info);

    if (info->components != 1 && info->components != 3)
        return HR_WHY_COLOR;
    if (kind < 0 || !f->kinds[kind].fourcc)
        return HR_WHY_CHROMA;
    if (info->width < f->min_w || info->height < f->min_h ||
        info->width > f->max_w || info->height > f->max_h)
        return HR_WHY_SIZE;
    return 0;
}

void va_key_of(const struct va *va, const struct hr_info *info,
               struct va_key *key)
{
    int kind = hr__jpeg_kind(info);
    int gray = info->components == 1;
    int mcu_w = gray ? 8 : 8 * info->h[0], mcu_h = gray ? 8 : 8 * info->v[0];

    // Drivers write whole MCUs. Some formats halve rows, so they are even.
    mcu_w = mcu_w < 16 ? 16 : mcu_w;
    mcu_h = mcu_h < 16 ? 16 : mcu_h;
    *key = (struct va_key){.rt_format = va->facts.kinds[kind].rt_format,
                           .fourcc = va->facts.kinds[kind].fourcc,
                           .w = (info->width + mcu_w - 1) / mcu_w * mcu_w,
                           .h = (info->height + mcu_h - 1) / mcu_h * mcu_h};
}

void va_offer(struct hr__engine *e, const struct hr__picture *pic,
              struct hr__offer *out)
{
    struct va *va = va_of(e);
    struct va_jpeg jpeg;

    *out = (struct hr__offer){0};
    // A decoder cannot begin with pixels, whatever the picture is.
    if (!pic->data) {
        out->why = HR_WHY_FORMAT;
        return;
    }
    out->why = why_not_coding(&pic->info);
    if (!(out->why & HR_WHY_FORMAT))
        out->why |= why_not_surface(va, &pic->info);
    if (!out->why)
        out->why = va_jpeg_read(pic->data, pic->size, &pic->info, &jpeg);
    if (out->why)
        return;
    out->why = hr__guard_ask(&va->guard, VA_FRAMES);
    if (out->why)
        return;
    out->spans = TO_PLANES;
    if (pic->tier != HR_FAST || !va_vpp_any(va))
        return;
    if ((out->why = va_vpp_why_not(va, pic)))
        return;
    out->spans |= TO_PIXELS;
    out->first_step = pic->geo.num_steps > 1;
    out->why = out->first_step ? HR_WHY_GEOMETRY : 0;
}
