// SPDX-License-Identifier: Apache-2.0
// Stage augment of a picture: whether the device does its codes, and what the
// kernel must know of them (kernels/augment_plan.h). Only the host works here.
#include "backends/opencl/opencl.h"
#include "kernels/augment_plan.h"

unsigned ocl_augment_items(const struct ocl *o)
{
    unsigned items = HR__GROUP;

    if (o->variant == OCL_GPU)
        while (items < HR__AUGMENT_MOST && 2 * items <= o->facts.items)
            items *= 2;
    return items;
}

unsigned ocl_why_not_augment(const struct ocl *o, const struct hr__picture *pic,
                             uint64_t *work)
{
    const struct hr__kernel_codes codes = hr__kernel_codes(&pic->geo);
    unsigned why = 0;

    for (int i = 0; i < codes.num; i++) {
        const struct hr__augment *a = &codes.list[i];

        if (a->code != HR__AUGMENT_WARP)
            continue;
        if (a->warp.way == HR__WARP_SUMS)
            why |= HR_WHY_SIZE;
        else if (a->warp.way > HR__WARP_SUMS && !o->facts.doubles)
            why |= HR_WHY_FP64;
    }
    if (hr__kernel_augment_rounds(&codes, ocl_augment_items(o)) >=
        HR__MAX_ROUNDS)
        why |= HR_WHY_SIZE;
    *work = 6 * hr__kernel_plane(&codes) + 2 * HR__LANES;
    return why;
}

bool ocl_plan_augment(struct ocl_plan *plan, int i,
                      const struct hr__picture *pic,
                      const struct hr__step *step, const struct hr__dst *tensor,
                      uint64_t out_at)
{
    const struct hr__kernel_codes c = hr__kernel_codes(&pic->geo);
    struct hr__kernel_picture *p;
    struct hr__dst planes;
    uint32_t word;
    void *to = ocl_plan_reserve(plan,
                                hr__kernel_augment_words(&c) * sizeof(uint32_t),
                                &word);

    if (!to)
        return false;
    plan->work = hr__kernel_augment(to, &c, word, pic->channels, tensor, out_at,
                                    plan->table_at, &planes, plan->work);
    p = ocl_plan_picture(plan, i);  // it may have moved
    p->augment = word;
    p->cost = (uint32_t)hr__kernel_augment_rounds(&c, HR__GROUP);
    hr__kernel_store(p, step, &planes, ((struct hr__kernel_augment *)to)->from,
                     plan->levels_at, true);
    return true;
}
