// SPDX-License-Identifier: Apache-2.0
// The plan of a batch as memory that grows: pictures, and the tables that they
// share.
#include <string.h>

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

enum { PLAN_MIN = 256 << 10 };

// Room for size bytes at *at.
static bool take(struct ocl_plan *plan, size_t size, size_t *at)
{
    *at = plan->size;
    if (!ocl_host_grow(plan->ref, &plan->data, &plan->capacity, plan->size,
                       plan->size + ocl_aligned(size), PLAN_MIN))
        return false;
    plan->size += ocl_aligned(size);
    return true;
}

bool ocl_plan_begin(struct ocl_plan *plan, int n)
{
    size_t at;

    plan->size = 0;
    plan->in = plan->out = plan->pinned = plan->flags = 0;
    plan->work = HR__SLACK;
    plan->groups = 0;
    plan->alone = false;
    plan->table = NULL;
    plan->levels_at = 0;
    return take(plan, (size_t)n * sizeof(struct hr__kernel_picture), &at);
}

struct hr__kernel_picture *ocl_plan_picture(struct ocl_plan *plan, int i)
{
    return (struct hr__kernel_picture *)plan->data + i;
}

void ocl_plan_return(struct ocl_plan *plan, const struct ocl_plan *before)
{
    struct ocl_plan after = *plan;

    *plan = *before;
    plan->data = after.data;  // it may have moved
    plan->capacity = after.capacity;
}

size_t ocl_plan_bytes(const struct ocl_plan *plan)
{
    size_t rows = plan->groups / HR__ROW_GROUPS + HR__NUM_KERNELS;
    size_t groups = plan->groups + rows;  // the last of each may be completed

    return ocl_aligned(plan->size + groups * 2 * sizeof(uint32_t));
}

bool ocl_fits(const struct ocl *o, const struct ocl_plan *plan)
{
    return ocl_plan_bytes(plan) + plan->in + plan->pinned +
                   ocl_axes_new(plan->axes) + HR__PAYLOAD <=
               o->buffer_bytes &&
           plan->axes->used <= o->buffer_bytes &&
           ocl_plan_out(plan) <= o->buffer_bytes &&
           plan->work + HR__SLACK <= o->work_bytes;
}

void *ocl_plan_reserve(struct ocl_plan *plan, size_t size, uint32_t *word)
{
    size_t at;

    if (!take(plan, size, &at))
        return NULL;
    *word = (uint32_t)(at / sizeof(uint32_t));
    return memset(plan->data + at, 0, ocl_aligned(size));
}

// ---- Tables ---------------------------------------------------------------

bool ocl_plan_table(struct ocl_plan *plan, const struct hr__table *t,
                    enum hr_dtype dtype, int channels)
{
    size_t channel = 256 * hr_dtype_size(dtype), at;
    const void *from = dtype == HR_F32   ? (const void *)t->f32
                       : dtype == HR_F16 ? (const void *)t->f16
                                         : (const void *)t->u8;

    if (plan->table == t)
        return true;
    if (!take(plan, 3 * channel, &at))
        return false;
    memcpy(plan->data + at, from, channel * (size_t)channels);
    plan->table = t;
    plan->table_at = (uint32_t)(at / sizeof(uint32_t));
    return true;
}

bool ocl_plan_levels(struct ocl_plan *plan)
{
    uint8_t *to;

    if (plan->levels_at)
        return true;
    if (!(to = ocl_plan_reserve(plan, 3 * 256, &plan->levels_at)))
        return false;
    for (int i = 0; i < 3 * 256; i++)
        to[i] = (uint8_t)i;
    return true;
}
