// SPDX-License-Identifier: Apache-2.0
// Which kernels suit a device. Nobody knows but the device, so where it is
// worth it both ways are timed once on pictures as they mostly are; what comes
// out is kept with the program. On the host's own processor it is not worth
// it: compiling one more kernel takes longer than such a device may take to
// open, so it is asked for or it is not done.
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

// As most pictures of ImageNet: 500 x 375, a sample of each component for
// every pixel, 18 coefficients per block.
enum {
    WIDTH = 500,
    HEIGHT = 375,
    COLS = (WIDTH + 7) / 8,
    ROWS = (HEIGHT + 7) / 8,
    BLOCKS = COLS * ROWS,
    VALUES = 18,
    OUT = 224,
    PICTURES = 8,
    ROUNDS = 3,
};

static const char *const names[] = {
    [OCL_UNKNOWN] = "unknown",
    [OCL_STAGED] = "staged",
    [OCL_FUSED] = "fused",
    [OCL_TIMED] = "timed",
};

const char *ocl_variant_name(enum ocl_variant variant)
{
    return names[variant];
}

enum hr_status ocl_variant_wanted(enum ocl_variant *wanted)
{
    const char *name = secure_getenv("HEADRACE_OPENCL_VARIANT");

    *wanted = OCL_UNKNOWN;
    if (!name || !*name)
        return HR_OK;
    for (int v = OCL_STAGED; v <= OCL_TIMED; v++)
        if (!strcmp(name, names[v]))
            *wanted = (enum ocl_variant)v;
    if (*wanted)
        return HR_OK;
    return hr__fail(HR_EINVAL,
                    "HEADRACE_OPENCL_VARIANT is '%.32s', not staged, fused or "
                    "timed",
                    name);
}

void ocl_variant_settle(struct ocl *o)
{
    if (!o->wish)
        o->wish = o->facts.type & CL_DEVICE_TYPE_CPU ? OCL_STAGED : OCL_TIMED;
}

// ---- A realistic picture --------------------------------------------------

struct sample {
    struct hr__table table;
    struct hr__picture pic;
    struct hr__coefficients head;
    struct hr__coef_block blocks[3 * BLOCKS];
    int8_t values[3 * BLOCKS * VALUES];
};

static void make_head(struct hr__coefficients *c)
{
    *c =
        (struct hr__coefficients){.magic = HR__COEF_MAGIC,
                                  .num_components = 3,
                                  .color = HR_COLOR_YCC,
                                  .h_max = 1,
                                  .v_max = 1,
                                  .w = WIDTH,
                                  .h = HEIGHT,
                                  .num_blocks = 3 * BLOCKS,
                                  .blocks_at = offsetof(struct sample, blocks) -
                                               offsetof(struct sample, head),
                                  .values_at = offsetof(struct sample, values) -
                                               offsetof(struct sample, head),
                                  .values_size = 3 * BLOCKS * VALUES};
    for (uint32_t i = 0; i < 3; i++) {
        c->comp[i] = (struct hr__coef_component){.h = 1,
                                                 .v = 1,
                                                 .width = WIDTH,
                                                 .height = HEIGHT,
                                                 .blocks_w = COLS,
                                                 .blocks_h = ROWS,
                                                 .first = i * BLOCKS};
        for (int k = 0; k < 64; k++)
            c->comp[i].quant[k] = 2;
    }
}

// 18 coefficients besides the first, in the lowest places, of both signs.
static void make_blocks(struct sample *s)
{
    static const uint32_t low[8] = {0x1e, 0x1f, 0x1f, 0x0f};
    uint64_t mask = 0;

    for (int row = 0; row < 4; row++)
        mask |= (uint64_t)low[row] << 8 * row;
    for (uint32_t i = 0; i < 3 * BLOCKS; i++)
        s->blocks[i] = (struct hr__coef_block){
            .values = i * VALUES,
            .dc = (int16_t)(i * 37 % 512) - 256,
            .mask = {(uint32_t)mask, (uint32_t)(mask >> 32)}};
    for (int i = 0; i < 3 * BLOCKS * VALUES; i++)
        s->values[i] = (int8_t)(i * 29 % 61 - 30);
}

static void make_picture(struct sample *s)
{
    s->pic = (struct hr__picture){
        .width = WIDTH,
        .height = HEIGHT,
        .channels = 3,
        .table = &s->table,
        .dst = {.w = OUT, .h = OUT, .c = 3, .dtype = HR_F32, .layout = HR_NCHW}};
    s->pic.geo.num_steps = 1;
    s->pic.geo.steps[0] = (struct hr__step){.in_w = WIDTH,
                                            .in_h = HEIGHT,
                                            .src = {0, 0, WIDTH, HEIGHT},
                                            .resized = true,
                                            .box = {0, 0, WIDTH, HEIGHT},
                                            .rs_w = OUT,
                                            .rs_h = OUT,
                                            .filter = HR_BILINEAR,
                                            .win = {0, 0, OUT, OUT},
                                            .out_w = OUT,
                                            .out_h = OUT};
}

// ---- Timing ---------------------------------------------------------------

// The best of some rounds after one that does not count.
static bool time_one(struct ocl *o, struct ocl_slot *slot, struct sample *s,
                     bool fuse, int64_t *best, struct ocl_fault *fault)
{
    struct hr__payload in = {.after = HR_ENTROPY,
                             .data = &s->head,
                             .size = sizeof(*s) -
                                     offsetof(struct sample, head)};
    int64_t ns;

    o->plan.fuse = fuse;
    *best = INT64_MAX;
    for (int i = 0; i <= ROUNDS; i++) {
        if (!ocl_try(o, slot, &s->pic, &in, PICTURES, &ns, fault))
            return false;
        if (i && ns < *best)
            *best = ns;
    }
    return true;
}

static bool time_both(struct ocl *o, struct ocl_slot *slot,
                      struct ocl_fault *fault)
{
    struct sample *s = hr__alloc(NULL, sizeof(*s));
    int64_t staged, fused;
    bool ok;

    if (!s) {
        *fault = (struct ocl_fault){HR_WHY_MEMORY, "out of memory"};
        return false;
    }
    memset(s, 0, sizeof(*s));
    make_head(&s->head);
    make_blocks(s);
    make_picture(s);
    ok = time_one(o, slot, s, false, &staged, fault) &&
         time_one(o, slot, s, true, &fused, fault);
    hr__free(s);
    if (!ok)
        return false;
    o->timed = fused < staged ? OCL_FUSED : OCL_STAGED;
    o->timed_now = true;
    hr__guard_log(&o->guard, HR_LOG_INFO,
                  "%d pictures take %d us staged, %d us fused: %s it is",
                  PICTURES, (int)(staged / 1000), (int)(fused / 1000),
                  names[o->timed]);
    return true;
}

bool ocl_variant_choose(struct ocl *o, struct ocl_slot *slot,
                        struct ocl_fault *fault)
{
    o->timed_now = false;
    if (o->wish == OCL_TIMED && !o->timed && !time_both(o, slot, fault))
        return false;
    o->plan.fuse = (o->wish == OCL_TIMED ? o->timed : o->wish) == OCL_FUSED;
    return true;
}
