// SPDX-License-Identifier: Apache-2.0
// Pillow PIL/ImageFilter.py Kernel((3, 3), ...), and those it has names for.
#include <math.h>

#include "hal/ops/op_def.h"

// Computes the scale of a kernel that has none, added up as in Python.
static double scale_of(const struct hr_kernel3 *k)
{
    double sum = 0;

    for (int i = 0; i < 9; i++)
        sum += k->kernel[i];
    return k->scale == 0 ? sum : k->scale;
}

static enum hr_status check(const struct hr_op *op, char text[128])
{
    float scale = (float)scale_of(&op->kernel3);

    for (int i = 0; i < 9; i++)
        if (!(fabsf((float)op->kernel3.kernel[i] / scale) <= 1e30f))
            return HR__BAD("kernel3: %g divided by the scale of %g",
                           op->kernel3.kernel[i], (double)scale);
    return HR_OK;
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *op)
{
    struct hr__augment code = {.code = HR__AUGMENT_KERNEL3,
                               .kernel3 = {
                                   .offset = (float)op->kernel3.offset}};
    float scale = (float)scale_of(&op->kernel3);

    for (int i = 0; i < 9; i++)
        code.kernel3.weights[i] = (float)op->kernel3.kernel[i] / scale;
    return hr__fold_augment(f, &code);
}

static const struct hr_op_field fields[] = {
    HR__FIELD(kernel3, kernel, DOUBLES),
    HR__FIELD(kernel3, scale, DOUBLE, .lo = -1e6, .hi = 1e6),
    HR__FIELD(kernel3, offset, DOUBLE, .lo = -1e6, .hi = 1e6),
};

#define NAMED(is_called, by, add, ...)                   \
    {                                                    \
        .name = "kernel3", .literal = is_called, .op = { \
            .type = HR_OP_KERNEL3,                       \
            .kernel3 = {.kernel = {__VA_ARGS__},         \
                        .scale = (by),                   \
                        .offset = (add)}                 \
        }                                                \
    }

static const struct hr__word words[] = {
    NAMED("contour", 1, 255, -1, -1, -1, -1, 8, -1, -1, -1, -1),
    NAMED("detail", 6, 0, 0, -1, 0, -1, 10, -1, 0, -1, 0),
    NAMED("edge_enhance", 2, 0, -1, -1, -1, -1, 10, -1, -1, -1, -1),
    NAMED("edge_enhance_more", 1, 0, -1, -1, -1, -1, 9, -1, -1, -1, -1),
    NAMED("emboss", 1, 128, -1, 0, 0, 0, 1, 0, 0, 0, 0),
    NAMED("find_edges", 1, 0, -1, -1, -1, -1, 8, -1, -1, -1, -1),
    NAMED("sharpen", 16, 0, -2, -2, -2, -2, 32, -2, -2, -2, -2),
    NAMED("smooth", 13, 0, 1, 1, 1, 1, 5, 1, 1, 1, 1),
    {.name = "kernel3",
     .syntax = "NAME or NINE NUMBERS",
     .op = {.type = HR_OP_KERNEL3},
     .arguments = {{.before = '='}, HR__ARG(1), HR__ARG(2)}},
    {0}};

const struct hr__op_def hr__op_kernel3 = {
    .info = {HR__INFO("kernel3", KERNEL3, AUGMENT),
             .usage = "kernel3=NAME|K,...,K[:SCALE[:OFFSET]]"},
    .words = words,
    .check = check,
    .fold = fold,
};
