// SPDX-License-Identifier: Apache-2.0
// Lists of ops: what can be said of them before any picture is known, random
// ops made plain, the geometry that they come to.
#include <math.h>
#include <string.h>

#include "hal/ops/op_def.h"

// Sizes and draws follow from no reference, and Pillow's refuses no resize.
#define ANY_REFERENCE HR_REFERENCE_NEWEST

// ---- Checks ----------------------------------------------------------------

// Checks that both are 0, or a range above 0, or within the field's limits.
static enum hr_status check_range(const char *op, const struct hr_op_field *f,
                                  const double r[2], char text[128])
{
    bool limits = f->lo != 0 || f->hi != 0;

    if ((r[0] == 0 && r[1] == 0) ||
        (r[0] <= r[1] && (limits ? r[0] >= f->lo && r[1] <= f->hi
                                 : r[0] > 0 && isfinite(r[1]))))
        return HR_OK;
    return limits ? HR__BAD("%s: %s %g .. %g: must rise within %g .. %g", op,
                            f->name, r[0], r[1], f->lo, f->hi)
                  : HR__BAD("%s: %s %g .. %g: must rise from above 0", op,
                            f->name, r[0], r[1]);
}

static enum hr_status check_number(const char *op, const struct hr_op_field *f,
                                   double x, char text[128])
{
    if (x >= f->lo && x <= f->hi)
        return HR_OK;
    return HR__BAD("%s: %s must be %g .. %.0f, not %.15g", op, f->name, f->lo,
                   f->hi, x);
}

static enum hr_status check_value(const char *op, const struct hr_op_field *f,
                                  int x, char text[128])
{
    for (const struct hr_op_value *v = f->values; v->name; v++)
        if (v->value == x)
            return HR_OK;
    return HR__BAD("%s: there is no %s with the number %d", op, f->name, x);
}

static enum hr_status check_field(const char *op, const struct hr_op_field *f,
                                  const void *at, char text[128])
{
    const float *box = at;
    const double *number = at;

    switch (f->kind) {
    case HR_FIELD_INT:
        return check_number(op, f, *(const int *)at, text);
    case HR_FIELD_DOUBLE:
        return check_number(op, f, *number, text);
    case HR_FIELD_ENUM:
        return check_value(op, f, *(const int *)at, text);
    case HR_FIELD_RANGE:
        return check_range(op, f, number, text);
    case HR_FIELD_BOX:
        if (isfinite(box[0]) && isfinite(box[1]) && isfinite(box[2]) &&
            isfinite(box[3]))
            return HR_OK;
        return HR__BAD("%s: %s is not finite", op, f->name);
    case HR_FIELD_DOUBLES:
        for (size_t i = 0; i < f->size / sizeof(double); i++)
            if (!isfinite(number[i]))
                return HR__BAD("%s: %s is not finite", op, f->name);
        break;
    case HR_FIELD_BOOL:
    case HR_FIELD_CHANNELS:
    case HR_FIELD_TABLE:
    case HR_FIELD_BLOCK:
    case HR_FIELD_BYTES:
    case HR_FIELD_COLOR:
        break;
    }
    return HR_OK;
}

// int[2] of the size that an op makes of any picture, or NULL.
static const int *size_of(const struct hr__op_def *def, const struct hr_op *op)
{
    const int *size = (const void *)((const char *)op + def->size);

    return def->size && (size[0] || size[1]) ? size : NULL;
}

enum hr_status hr__op_check(const struct hr__op_def *def,
                            const struct hr_op *op, int channels,
                            char text[128])
{
    const struct hr_op_info *info = &def->info;
    enum hr_status status = def->check ? def->check(op, text) : HR_OK;
    const int *size = size_of(def, op);

    if (!status && def->check_for)
        status = def->check_for(op, channels, text);
    if (!status && size &&
        (size[0] < 1 || size[1] < 1 || size[0] > HR_MAX_SIDE ||
         size[1] > HR_MAX_SIDE))
        return HR__BAD("%s to %dx%d: a side must be 1 .. %d", info->name,
                       size[0], size[1], HR_MAX_SIDE);
    for (int i = 0; i < info->num_fields && !status; i++)
        status = check_field(info->name, &info->fields[i],
                             hr__field_of(op, &info->fields[i]), text);
    return status;
}

int hr__op_draws(const struct hr__op_def *def, const struct hr_op *op)
{
    int draws = def->draws;

    if (def->draws_at)
        memcpy(&draws, (const char *)op + def->draws_at, sizeof(draws));
    return draws ? draws : 1;
}

int hr__ops_making(const struct hr_op *ops, int num_ops)
{
    while (num_ops) {
        const struct hr__op_def *def = hr__op_def(ops[num_ops - 1].type);

        if (!def || def->place != HR__BEHIND)
            break;
        num_ops--;
    }
    return num_ops;
}

const struct hr_normalize *hr__ops_normalize(const struct hr_op *ops,
                                             int num_ops)
{
    int n = hr__ops_making(ops, num_ops);

    return n && ops[n - 1].type == HR_OP_NORMALIZE ? &ops[n - 1].normalize
                                                   : NULL;
}

// i: where it stands among num, the ops that make the tensor.
static enum hr_status check_place(const struct hr__op_def *def, bool may_decode,
                                  int i, int num, char text[128])
{
    if (def->place == HR__FIRST && !may_decode)
        return HR__BAD("%s must be the first op of an encoded picture",
                       def->info.name);
    if (def->place == HR__LAST && i < num - 1)
        return HR__BAD("%s must be the last op", def->info.name);
    if (def->place == HR__BEHIND && i < num)
        return HR__BAD("%s must stand behind all that makes the tensor",
                       def->info.name);
    return HR_OK;
}

enum hr_status hr__ops_check(const struct hr_op *ops, int num_ops, int channels,
                             char text[128])
{
    bool encoded = !channels;
    int plain = 0, making;

    text[0] = '\0';
    if (num_ops < 0 || num_ops > HR_MAX_OPS || (num_ops && !ops))
        return HR__BAD("%d ops (at most %d)", num_ops, HR_MAX_OPS);
    making = hr__ops_making(ops, num_ops);
    if (encoded && (!num_ops || ops[0].type != HR_OP_DECODE))
        return HR__BAD("an encoded picture needs decode as its first op");
    if (encoded)
        channels = ops[0].decode.mode == HR_GRAY ? 1 : 3;
    for (int i = 0; i < num_ops; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);

        if (!def)
            return HR__BAD("unknown op %d", (int)ops[i].type);
        if (check_place(def, encoded && i == 0, i, making, text) ||
            hr__op_check(def, &ops[i], channels, text))
            return HR_EINVAL;
        channels = hr_ops_channels(&ops[i], 1, channels);
        plain += hr__op_draws(def, &ops[i]);
    }
    if (plain > HR_MAX_OPS)
        return HR__BAD("%d ops with those that random ones become (at most %d)",
                       plain, HR_MAX_OPS);
    return hr__groups_check(ops, num_ops, text);
}

const char *hr__ops_lost(const struct hr_op *ops, int num_ops,
                         enum hr_dtype dtype)
{
    const struct hr_normalize *normalize = hr__ops_normalize(ops, num_ops);

    return dtype == HR_U8 && normalize && !normalize->table
               ? "normalize makes numbers around 0, of which u8 keeps nothing"
               : NULL;
}

// ---- Geometry --------------------------------------------------------------

static bool augments(const struct hr__op_def *def, const struct hr_op *op)
{
    return def->info.stage == HR_AUGMENT ||
           (def->augments && def->augments(op));
}

// Says whether ops that change values make the same of each picture: no other
// op of the list makes codes, and none of a group may be left out.
static bool same_values(const struct hr_op *ops, int num_ops)
{
    for (int i = 0; i < num_ops; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);

        if (def && (augments(def, &ops[i]) || def->group))
            return false;
    }
    return true;
}

static enum hr__value_way value_way(const struct hr_op *ops, int num_ops)
{
    if (!hr__ops_augments(ops, num_ops))
        return HR__VALUES_STORED;
    return same_values(ops, num_ops) ? HR__VALUES_EITHER : HR__VALUES_CODES;
}

static enum hr_status fold(struct hr__fold *f, const struct hr_op *ops,
                           int num_ops)
{
    enum hr_status status = HR_OK;

    for (int i = 0; i < num_ops && !status; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);

        if (!def || def->info.random)
            return snprintf(f->text, 128, "op %d has not been drawn",
                            (int)ops[i].type),
                   HR_EINVAL;
        if (def->fold)
            status = def->fold(f, &ops[i]);
        if (!status && def->value && f->values != HR__VALUES_STORED)
            hr__fold_values(f, def, &ops[i]);
    }
    return status;
}

static enum hr_status build(struct hr__geometry *out, const struct hr_op *ops,
                            int num_ops, enum hr__value_way values,
                            enum hr_reference reference, int w, int h,
                            int orientation, char text[128])
{
    struct hr__fold f = {.geo = out,
                         .reference = reference,
                         .orientation = orientation,
                         .values = values,
                         .text = text};
    enum hr_status status;

    hr__fold_begin(&f, w, h);
    status = fold(&f, ops, num_ops);
    return status ? status : hr__fold_end(&f);
}

enum hr_status hr__geometry_build(struct hr__geometry *out,
                                  const struct hr_op *ops, int num_ops,
                                  enum hr_reference reference, int w, int h,
                                  int orientation, char text[128])
{
    return build(out, ops, num_ops, value_way(ops, num_ops), reference, w, h,
                 orientation, text);
}

// A code of its own for each, and one of the tables before it.
int hr__ops_augments(const struct hr_op *ops, int num_ops)
{
    bool any = false, values = false, group = false;
    int plain = 0;

    for (int i = 0; i < num_ops; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);

        if (!def)
            continue;
        any |= augments(def, &ops[i]) ||
               (values && def->mixes && def->mixes(&ops[i]));
        values |= def->value != NULL;
        group |= def->group > 0;
        plain += hr__op_draws(def, &ops[i]);
    }
    return any || (values && group) ? 2 * plain : 0;
}

static bool any_value(const struct hr_op *ops, int num_ops)
{
    if (!same_values(ops, num_ops))
        return false;
    for (int i = 0; i < num_ops; i++)
        if (hr__op_def(ops[i].type)->value)
            return true;
    return false;
}

bool hr__ops_values(const struct hr_op *ops, int num_ops,
                    struct hr__values *out)
{
    if (!any_value(ops, num_ops))
        return false;
    for (int k = 0; k < 3 * 256; k++) {
        uint8_t x = (uint8_t)(k % 256);

        for (int i = 0; i < num_ops; i++) {
            const struct hr__op_def *def = hr__op_def(ops[i].type);

            x = def->value ? def->value(&ops[i], k / 256, x) : x;
        }
        out->of[k / 256][k % 256] = x;
    }
    return true;
}

// A list without random ops: ops itself if it has none, else what was drawn.
struct plain {
    const struct hr_op *ops;
    int num_ops;
    struct hr_op drawn[HR_MAX_OPS];
};

static bool any_random(const struct hr_op *ops, int num_ops)
{
    for (int i = 0; i < num_ops; i++)
        if (hr__op_def(ops[i].type)->info.random)
            return true;
    return false;
}

// Returns how many plain ops are written to *out; -1 with the reason.
static int draw_op(const struct hr_op *ops, int num_ops, struct hr__draw d,
                   struct hr_op *out, bool off[HR_MAX_OPS])
{
    const struct hr_op *op = &ops[d.place];
    const struct hr__op_def *def = hr__op_def(op->type);

    *out = *op;
    if (!def->info.random)
        return 1;
    hr__draw_words(&d, 0, d.word);
    if (def->draw)
        return def->draw(op, &d, out);
    return hr__group_drop(ops, num_ops, &d, off), 0;
}

// ops have passed hr__ops_check(). On failure *text is the reason.
static enum hr_status plain_ops(struct plain *out, const struct hr_op *ops,
                                int num_ops, const struct hr_random *key,
                                enum hr_reference reference, int w, int h,
                                int orientation, char text[128])
{
    struct hr__geometry geo = {0};
    // (No picture is made of it: one on the way may be larger than any.)
    struct hr__fold f = {.geo = &geo,
                         .reference = reference,
                         .orientation = orientation,
                         .text = text};
    int folded = 0;  // so many of the drawn ops
    bool off[HR_MAX_OPS] = {false};

    text[0] = '\0';
    out->ops = ops;
    out->num_ops = num_ops;
    if (!any_random(ops, num_ops))
        return HR_OK;
    out->ops = out->drawn;
    out->num_ops = 0;
    hr__fold_begin(&f, w, h);
    for (int i = 0; i < num_ops; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);
        struct hr_op *to = &out->drawn[out->num_ops];
        enum hr_status status;
        int n;

        if (off[i])
            continue;
        if (def->sees_size) {
            status = fold(&f, out->drawn + folded, out->num_ops - folded);
            if (status)
                return status;
            hr__fold_size(&f, &w, &h);
            folded = out->num_ops;
        }
        n = draw_op(ops, num_ops, (struct hr__draw){key, i, w, h, .text = text},
                    to, off);
        if (n < 0)
            return HR_EINVAL;
        out->num_ops += n;
    }
    return HR_OK;
}

enum hr_status hr__geometry_draw(struct hr__geometry *out,
                                 const struct hr_op *ops, int num_ops,
                                 const struct hr_random *key,
                                 enum hr_reference reference, int w, int h,
                                 int orientation, char text[128])
{
    struct plain plain;
    enum hr_status status = plain_ops(&plain, ops, num_ops, key, reference, w,
                                      h, orientation, text);

    return status
               ? status
               : build(out, plain.ops, plain.num_ops, value_way(ops, num_ops),
                       reference, w, h, orientation, text);
}

int hr__ops_erases(const struct hr_op *ops, int num_ops,
                   const struct hr_random *key, int w, int h,
                   struct hr_erase out[HR_MAX_OPS])
{
    int num = 0;

    for (int i = hr__ops_making(ops, num_ops); i < num_ops; i++) {
        struct hr_op op;
        char text[128];

        if (draw_op(ops, num_ops, (struct hr__draw){key, i, w, h, .text = text},
                    &op, NULL) > 0)
            out[num++] = op.erase;
    }
    return num;
}

enum hr_status hr_ops_output_size(const struct hr_op *ops, int num_ops,
                                  int width, int height, int orientation,
                                  int *out_w, int *out_h)
{
    static const struct hr_random any;
    struct hr__geometry geo = {0};
    char text[128];
    enum hr_status status;

    if (width < 1 || height < 1 || width > HR_MAX_SIDE ||
        height > HR_MAX_SIDE || !out_w || !out_h)
        return hr__fail(HR_EINVAL, "picture of %dx%d", width, height);
    // Without decode any image may be meant, a grey one too.
    status = hr__ops_check(
        ops, num_ops, num_ops > 0 && ops && ops[0].type == HR_OP_DECODE ? 0 : 1,
        text);
    if (!status)
        status = hr__geometry_draw(&geo, ops, num_ops, &any, ANY_REFERENCE,
                                   width, height, orientation, text);
    if (status)
        return hr__fail(status, "%s", text);
    hr__geometry_size(&geo, out_w, out_h);
    return HR_OK;
}

int hr_ops_channels(const struct hr_op *ops, int num_ops, int channels)
{
    for (int i = 0; ops && i < num_ops; i++) {
        if (ops[i].type == HR_OP_DECODE)
            channels = ops[i].decode.mode == HR_GRAY ? 1 : 3;
        else if (ops[i].type == HR_OP_GRAYSCALE && ops[i].grayscale.single)
            channels = 1;
    }
    return channels;
}

bool hr_ops_fixed_size(const struct hr_op *ops, int num_ops, int *w, int *h)
{
    int fixed = -1;

    for (int i = 0; ops && i < num_ops; i++) {
        const struct hr__op_def *def = hr__op_def(ops[i].type);
        const int *size = def ? size_of(def, &ops[i]) : NULL;

        if (size) {
            fixed = i;
            *w = size[0];
            *h = size[1];
        }
    }
    fixed++;
    return fixed > 0 &&
           !hr_ops_output_size(ops + fixed, num_ops - fixed, *w, *h, 1, w, h);
}

enum hr_status hr_ops_draw(const struct hr_op *ops, int num_ops,
                           const struct hr_random *key, int width, int height,
                           int orientation, struct hr_op *out, int *num_out)
{
    static const struct hr_random zero;
    struct hr__geometry geo = {0};
    struct plain plain;
    char text[128];
    enum hr_status status;
    int w, h;

    if (!out || !num_out)
        return hr__fail(HR_EINVAL, "no place for the ops");
    // Finds the faults that do not depend on the key.
    if ((status = hr_ops_output_size(ops, num_ops, width, height, orientation,
                                     &w, &h)))
        return status;
    status = plain_ops(&plain, ops, num_ops, key ? key : &zero, ANY_REFERENCE,
                       width, height, orientation, text);
    if (!status)
        status = hr__geometry_build(&geo, plain.ops, plain.num_ops,
                                    ANY_REFERENCE, width, height, orientation,
                                    text);
    if (status)
        return hr__fail(status, "%s", text);
    if (plain.num_ops)
        memmove(out, plain.ops, sizeof(*out) * (size_t)plain.num_ops);
    *num_out = plain.num_ops;
    return HR_OK;
}
