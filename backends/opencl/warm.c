// SPDX-License-Identifier: Apache-2.0
// Every kernel once, on made-up pictures of every kind, when a device is
// opened: some drivers compile a kernel when it is first launched, and a
// device that cannot run them must be known now and not by a sample.
#include <string.h>

#include "backends/opencl/opencl.h"

enum { SIDE = 16, BLOCKS = 3 * (SIDE / 8) * (SIDE / 8) };

struct sample {
    struct hr__coefficients head;
    struct hr__coef_block blocks[BLOCKS];
    uint8_t values[64];
};

static void make_coefficients(struct sample *s)
{
    *s = (struct sample){.head = {.magic = HR__COEF_MAGIC,
                                  .num_components = 3,
                                  .color = HR_COLOR_YCC,
                                  .h_max = 1,
                                  .v_max = 1,
                                  .w = SIDE,
                                  .h = SIDE,
                                  .num_blocks = BLOCKS,
                                  .blocks_at = offsetof(struct sample, blocks),
                                  .values_at = offsetof(struct sample, values),
                                  .values_size = sizeof(s->values)}};
    for (uint32_t i = 0; i < 3; i++) {
        struct hr__coef_component *c = &s->head.comp[i];

        *c = (struct hr__coef_component){.h = 1,
                                         .v = 1,
                                         .width = SIDE,
                                         .height = SIDE,
                                         .blocks_w = SIDE / 8,
                                         .blocks_h = SIDE / 8,
                                         .first = i * BLOCKS / 3};
        for (int k = 0; k < 64; k++)
            c->quant[k] = 1;
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        s->blocks[i] = (struct hr__coef_block){.values = i,
                                               .dc = (int16_t)(16 * i),
                                               .mask = {2}};
    memset(s->values, 7, sizeof(s->values));
}

static void make_planes(struct hr__planes *p)
{
    *p = (struct hr__planes){.num_components = 3,
                             .color = HR_COLOR_YCC,
                             .h_max = 1,
                             .v_max = 1,
                             .w = SIDE,
                             .h = SIDE};
    for (uint32_t i = 0; i < 3; i++)
        p->comp[i] = (struct hr__plane){.h = 1,
                                        .v = 1,
                                        .width = SIDE,
                                        .height = SIDE,
                                        .cols = SIDE,
                                        .rows = SIDE,
                                        .stride = SIDE,
                                        .step = 1,
                                        .at = (uint64_t)i * SIDE * SIDE};
}

static void make_picture(struct hr__picture *pic, const struct hr__table *table)
{
    struct hr__step *step = &pic->geo.steps[0];

    *pic = (struct hr__picture){.width = SIDE,
                                .height = SIDE,
                                .channels = 3,
                                .table = table,
                                .dst = {.w = SIDE / 2,
                                        .h = SIDE / 2,
                                        .c = 3,
                                        .dtype = HR_F32,
                                        .layout = HR_NCHW}};
    pic->geo.num_steps = 1;
    *step = (struct hr__step){.in_w = SIDE,
                              .in_h = SIDE,
                              .src = {0, 0, SIDE, SIDE},
                              .resized = true,
                              .box = {0, 0, SIDE, SIDE},
                              .rs_w = SIDE / 2,
                              .rs_h = SIDE / 2,
                              .win = {0, 0, SIDE / 2, SIDE / 2},
                              .out_w = SIDE / 2,
                              .out_h = SIDE / 2};
}

bool ocl_try(struct ocl *o, struct ocl_slot *slot,
             const struct hr__picture *pic, const struct hr__payload *in, int n,
             int64_t *ns, struct ocl_fault *fault)
{
    enum hr_stage first = (enum hr_stage)(in->after + 1);
    bool ok = ocl_plan_begin(&o->plan, n);

    slot->src = slot->dst = NULL;
    for (int i = 0; ok && i < n; i++) {
        slot->items[i] = (struct ocl_item){0};
        ok = ocl_plan_add(&o->plan, i, pic, in, &slot->items[i]);
    }
    if (!ok) {
        *fault = (struct ocl_fault){HR_WHY_MEMORY, "out of memory"};
        return false;
    }
    if (!ocl_grow(o, slot, fault))
        return false;
    slot->num_items = n;
    slot->num_runs = 0;
    for (int i = 0; i < n; i++)
        ocl_pack(&slot->items[i], pic, in,
                 (uint8_t *)slot->up.host + ocl_plan_bytes(&o->plan) +
                     slot->items[i].in_at);
    ocl_fill(o, slot, first);
    *ns = -hr__now();
    ok = ocl_enqueue(o, slot, fault);
    slot->num_items = 0;
    if (!ocl_ring_drain(o) && ok) {
        *fault = (struct ocl_fault){HR_WHY_FAILED, "clFinish failed"};
        ok = false;
    }
    *ns += hr__now();
    if (!ok)
        ocl_mend(o, slot);
    ocl_slot_release_events(o, slot);
    return ok;
}

bool ocl_warm_up(struct ocl *o, struct ocl_slot *slot, struct ocl_fault *fault)
{
    struct warm {
        struct hr__table table;
        struct sample sample;
        struct hr__picture pic;
        struct hr__planes planes;
        uint8_t pixels[SIDE * SIDE * 3];
    } *w = hr__alloc(NULL, sizeof(*w));
    struct hr__payload in;
    int64_t ns;
    bool ok;

    if (!w) {
        *fault = (struct ocl_fault){HR_WHY_MEMORY, "out of memory"};
        return false;
    }
    memset(w, 0, sizeof(*w));
    make_coefficients(&w->sample);
    make_picture(&w->pic, &w->table);
    in = (struct hr__payload){.after = HR_ENTROPY,
                              .data = &w->sample,
                              .size = sizeof(w->sample)};
    o->plan.fuse = false;
    ok = ocl_try(o, slot, &w->pic, &in, 1, &ns, fault);
    o->plan.fuse = true;
    if (o->kernels[HR__KERNEL_FUSED])
        ok = ok && ocl_try(o, slot, &w->pic, &in, 1, &ns, fault);
    in = (struct hr__payload){.after = HR_COLOR,
                              .data = w->pixels,
                              .size = sizeof(w->pixels),
                              .rect = {0, 0, SIDE, SIDE},
                              .stride = SIDE * 3};
    ok = ok && ocl_try(o, slot, &w->pic, &in, 1, &ns, fault);
    make_planes(&w->planes);
    in = (struct hr__payload){.after = HR_RECONSTRUCT,
                              .data = w->pixels,
                              .size = sizeof(w->pixels),
                              .extra = &w->planes};
    ok = ok && ocl_try(o, slot, &w->pic, &in, 1, &ns, fault);
    hr__free(w);
    return ok;
}
