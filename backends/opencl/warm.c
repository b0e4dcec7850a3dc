// SPDX-License-Identifier: Apache-2.0
// Batches of made-up pictures, when a device is opened. Every kernel runs once:
// some drivers compile a kernel when it is first launched, and a device that
// cannot run them must be known before a sample meets it.
#include <string.h>

#include "backends/opencl/opencl.h"

enum { SIDE = 16, OUT = SIDE / 2, BLOCKS = SIDE / 8, SEGMENTS = 3 * BLOCKS };

// The payload of each block, behind its DC: the masks of four rows, 18 nibbles
// of which three escape, and these three as bytes.
static const uint8_t payload[] = {0x1e, 0x1f, 0x1f, 0x0f, 0x21, 0xf3,
                                  0x10, 0x2e, 0x01, 0xd2, 0x3f, 0x10,
                                  0x12, 20,   0xe8, 9};
enum { ROWS = 0x0f };

// A file of one component and SIDE x SIDE pixels, all grey: each code has one
// symbol, a difference of 0 and the end of a block, and both codes are a bit 0.
static const uint8_t file_begin[] = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
static const uint8_t file_end[] = {
    0xff, 0xc0, 0,    11,   8, 0, SIDE, 0,    SIDE, 1,  1,  0x11, 0,    0xff,
    0xc4, 0,    20,   0x00, 1, 0, 0,    0,    0,    0,  0,  0,    0,    0,
    0,    0,    0,    0,    0, 0, 0,    0xff, 0xc4, 0,  20, 0x10, 1,    0,
    0,    0,    0,    0,    0, 0, 0,    0,    0,    0,  0,  0,    0,    0,
    0,    0xff, 0xda, 0,    8, 1, 1,    0x00, 0,    63, 0,  0x00, 0xff, 0xd9};
enum { QUANTIZERS = 64 };

// Sizes of packed coefficients: the head with its offsets, and a segment.
enum {
    HEAD = sizeof(struct hr__coefficients) + (SEGMENTS + 1) * sizeof(uint32_t),
    LINE = 2 + (3 + sizeof(payload)) * BLOCKS,
};
union packed {
    struct hr__coefficients head;
    uint8_t bytes[HEAD + SEGMENTS * LINE];
};

// A segment.
static void make_line(uint8_t *to)
{
    *to++ = 0;
    *to++ = 0;
    for (int i = 0; i < BLOCKS; i++) {
        to[i] = (uint8_t)(i * 37 % 251 - 125);
        to[BLOCKS + i] = ROWS;
        to[2 * BLOCKS + i] = sizeof(payload);
        memcpy(to + 3 * BLOCKS + i * (int)sizeof(payload), payload,
               sizeof(payload));
    }
}

static void make_coefficients(union packed *to)
{
    struct hr__coefficients *c = &to->head;

    *c = (struct hr__coefficients){.magic = HR__COEF_MAGIC,
                                   .num_components = 3,
                                   .color = HR_COLOR_YCC,
                                   .h_max = 1,
                                   .v_max = 1,
                                   .w = SIDE,
                                   .h = SIDE,
                                   .segments = SEGMENTS};
    for (uint32_t i = 0; i < 3; i++) {
        c->comp[i] = (struct hr__coef_component){.h = 1,
                                                 .v = 1,
                                                 .width = SIDE,
                                                 .height = SIDE,
                                                 .blocks_w = BLOCKS,
                                                 .blocks_h = BLOCKS,
                                                 .first = i * BLOCKS};
        for (int k = 0; k < 64; k++)
            c->comp[i].quant[k] = 2;
    }
    for (uint32_t i = 0; i <= SEGMENTS; i++)
        c->offset[i] = HEAD + LINE * i;
    for (int i = 0; i < SEGMENTS; i++)
        make_line(to->bytes + c->offset[i]);
}

static void make_picture(struct hr__picture *pic)
{
    *pic = (struct hr__picture){
        .width = SIDE, .height = SIDE, .channels = 3, .erases = 1};
    pic->dst = (struct hr__dst){
        .w = OUT, .h = OUT, .c = 3, .dtype = HR_F32, .layout = HR_NCHW};
    pic->geo.num_steps = 1;
    pic->geo.steps[0] = (struct hr__step){.in_w = SIDE,
                                          .in_h = SIDE,
                                          .src = {0, 0, SIDE, SIDE},
                                          .resized = true,
                                          .box = {0, 0, SIDE, SIDE},
                                          .rs_w = OUT,
                                          .rs_h = OUT,
                                          .filter = HR_BILINEAR,
                                          .win = {0, 0, OUT, OUT},
                                          .out_w = OUT,
                                          .out_h = OUT};
}

// A batch of the picture, and waits for it.
static bool run(struct ocl *o, struct ocl_batch *batch,
                const struct hr__picture *pic, const struct hr__payload *in,
                struct ocl_fault *fault)
{
    static const struct hr_erase erase = {.w = OUT / 2, .h = OUT / 2};
    enum hr_stage first = in ? (enum hr_stage)(in->after + 1) : HR_ENTROPY;
    struct ocl_item *item = &batch->items[0];
    uint8_t *to;
    bool ok;

    batch->src = batch->dst = NULL;
    *item = (struct ocl_item){.file = ocl_file_of(batch, 0),
                              .tensor = pic->dst,
                              .table = pic->table,
                              .augment = pic->geo.num_augments > 0,
                              .erases = &erase,
                              .num_erases = pic->erases};
    if (!ocl_plan_begin(&o->plan, 1) ||
        !ocl_plan_add(&o->plan, 0, pic, in, item)) {
        *fault = (struct ocl_fault){HR_WHY_MEMORY, "out of memory"};
        return false;
    }
    if (!ocl_grow(o, batch, fault))
        return false;
    batch->num_items = 1;
    batch->num_runs = 0;
    batch->num_downs = -1;
    to = (uint8_t *)batch->up.host + ocl_plan_bytes(&o->plan) + item->in_at;
    if (in)
        ocl_describe(item, pic, in, to);
    else
        ocl_describe_entropy(item, ocl_plan_picture(&o->plan, 0),
                             ocl_plan_flags(&o->plan), to);
    ocl_fill(o, batch, first);
    ok = ocl_enqueue(o, batch, fault);
    batch->num_items = 0;
    if (!ocl_drain(o) && ok) {
        *fault = (struct ocl_fault){HR_WHY_FAILED, "clFinish failed"};
        ok = false;
    }
    if (!ok)
        ocl_batch_mend(o, batch);
    ocl_batch_release_events(o, batch);
    return ok;
}

// ---- Every kernel ----------------------------------------------------------

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

static bool run_file(struct ocl *o, struct ocl_batch *batch,
                     struct hr__picture pic, struct ocl_fault *fault)
{
    uint8_t file[sizeof(file_begin) + QUANTIZERS + sizeof(file_end)], *p = file;

    memcpy(p, file_begin, sizeof(file_begin));
    p += sizeof(file_begin);
    memset(p, 1, QUANTIZERS);
    memcpy(p + QUANTIZERS, file_end, sizeof(file_end));
    pic.data = file;
    pic.size = sizeof(file);
    pic.info = (struct hr_info){.width = SIDE,
                                .height = SIDE,
                                .components = 1,
                                .color = HR_COLOR_GRAY,
                                .h = {1},
                                .v = {1}};
    pic.channels = pic.dst.c = 1;
    return run(o, batch, &pic, NULL, fault);
}

// The kernel of codes is one whatever they are.
static bool run_codes(struct ocl *o, struct ocl_batch *batch,
                      struct hr__picture pic, const struct hr__payload *in,
                      struct ocl_fault *fault)
{
    struct hr__augment code = {.code = HR__AUGMENT_LUMA, .w = OUT, .h = OUT};

    pic.geo.augments = &code;
    pic.geo.num_augments = pic.geo.steps[0].augments = 1;
    return run(o, batch, &pic, in, fault);
}

bool ocl_warm_up(struct ocl *o, struct ocl_batch *batch,
                 struct ocl_fault *fault)
{
    static const uint8_t bytes[3 * SIDE * SIDE];
    struct hr__table table = {0};
    union packed packed;
    struct hr__planes planes;
    struct hr__picture pic;
    struct hr__payload in = {.after = HR_ENTROPY,
                             .data = &packed,
                             .size = sizeof(packed.bytes)};
    struct hr__payload pixels = {.after = HR_COLOR,
                                 .data = (void *)bytes,
                                 .size = sizeof(bytes),
                                 .rect = {0, 0, SIDE, SIDE},
                                 .stride = SIDE * 3};
    struct hr__payload in_planes = {.after = HR_RECONSTRUCT,
                                    .data = (void *)bytes,
                                    .size = sizeof(bytes),
                                    .extra = &planes};
    bool ok;

    make_coefficients(&packed);
    make_planes(&planes);
    make_picture(&pic);
    pic.table = &table;
    // The form for GPUs has kernels for what cannot be fused, and for what is
    // too odd for its last one.
    o->plan.gpu = o->plan.fuse = false;
    ok = run(o, batch, &pic, &in, fault);
    o->plan.gpu = o->variant == OCL_GPU;
    ok = ok && (!o->plan.gpu || run(o, batch, &pic, &in, fault));
    o->plan.fuse = o->plan.gpu;
    return ok && (!o->plan.gpu || run(o, batch, &pic, &in, fault)) &&
           run(o, batch, &pic, &pixels, fault) &&
           run(o, batch, &pic, &in_planes, fault) &&
           (!o->augment || run_codes(o, batch, pic, &pixels, fault)) &&
           (!o->entropy || run_file(o, batch, pic, fault));
}
