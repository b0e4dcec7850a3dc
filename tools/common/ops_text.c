// SPDX-License-Identifier: Apache-2.0
#include "ops_text.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Where the parser stands. Every reading function returns false after it has
// written the error.
struct parser {
    const char *text, *at;
    char *error;
    size_t error_size;
    struct ops_list *list;
};

static bool fail_at(struct parser *p, const char *at, const char *format, ...)
    HR_PRINTF(3, 4);

static bool fail_at(struct parser *p, const char *at, const char *format, ...)
{
    va_list args;
    int used = snprintf(p->error, p->error_size,
                        "character %d: ", (int)(at - p->text) + 1);

    if (used < 0 || (size_t)used >= p->error_size)
        return false;
    va_start(args, format);
    vsnprintf(p->error + used, p->error_size - (size_t)used, format, args);
    va_end(args);
    return false;
}

// Length of the word at p->at: what may stand in a name.
static size_t word_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyz"
                      "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

// Blanks may stand around commas.
static void skip_blanks(struct parser *p)
{
    p->at += strspn(p->at, " \t\n");
}

static bool take(struct parser *p, char c)
{
    if (*p->at != c)
        return false;
    p->at++;
    if (c == ',')
        skip_blanks(p);
    return true;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t length = word_length(p->at);

    if (length != strlen(word) || strncmp(p->at, word, length))
        return false;
    p->at += length;
    return true;
}

static bool need_equals(struct parser *p, const char *what)
{
    return take(p, '=') || fail_at(p, p->at, "'=%s' is missing", what);
}

static bool read_int(struct parser *p, int least, int *value)
{
    const char *at = p->at;
    char *end;
    long number;

    if (*at != '-' && (*at < '0' || *at > '9'))
        return fail_at(p, at, "a whole number is missing");
    number = strtol(at, &end, 10);
    if (end == at)
        return fail_at(p, at, "a whole number is missing");
    if (number < least || number > HR_MAX_SIDE)
        return fail_at(p, at, "%.*s is not in %d .. %d", (int)(end - at), at,
                       least, HR_MAX_SIDE);
    p->at = end;
    *value = (int)number;
    return true;
}

static bool starts_number(const char *at)
{
    return (*at >= '0' && *at <= '9') || *at == '-' || *at == '+' || *at == '.';
}

static bool read_real(struct parser *p, double *value)
{
    char *end;

    if (!starts_number(p->at))
        return fail_at(p, p->at, "a number is missing");
    *value = strtod(p->at, &end);
    if (end == p->at || !isfinite(*value))
        return fail_at(p, p->at, "a number is missing");
    p->at = end;
    return true;
}

// "=N" gives *h = 0, "=WxH" both.
static bool read_size(struct parser *p, int *w, int *h)
{
    *h = 0;
    return need_equals(p, "SIZE or WIDTHxHEIGHT") && read_int(p, 1, w) &&
           (!take(p, 'x') || read_int(p, 1, h));
}

// "=N" is N x N.
static bool read_area(struct parser *p, int *w, int *h)
{
    if (!read_size(p, w, h))
        return false;
    *h = *h ? *h : *w;
    return true;
}

#define FILTERS "nearest, box, bilinear, hamming, bicubic or lanczos"

// The filter, and behind it which pass comes first.
static bool read_filter(struct parser *p, enum hr_filter *filter,
                        enum hr_order *order)
{
    int length;
    static const char *const names[HR_NUM_FILTERS] = {
        [HR_BILINEAR] = "bilinear", [HR_NEAREST] = "nearest",
        [HR_BOX] = "box",           [HR_HAMMING] = "hamming",
        [HR_BICUBIC] = "bicubic",   [HR_LANCZOS] = "lanczos",
    };

    *filter = HR_BILINEAR;
    if (!take(p, ':'))
        return true;
    for (int i = 0; i < HR_NUM_FILTERS; i++) {
        if (!take_word(p, names[i]))
            continue;
        *filter = (enum hr_filter)i;
        if (!take(p, ':'))
            return true;
        *order = take_word(p, "horizontal") ? HR_ORDER_HORIZONTAL
                 : take_word(p, "vertical") ? HR_ORDER_VERTICAL
                                            : HR_ORDER_REFERENCE;
        return *order || fail_at(p, p->at, "horizontal or vertical is missing");
    }
    length = (int)word_length(p->at);
    if (!length)
        return fail_at(p, p->at, "a filter is missing: " FILTERS);
    return fail_at(p, p->at, "'%.*s' is not a filter: " FILTERS,
                   length < 40 ? length : 40, p->at);
}

static bool read_arith(struct parser *p, enum hr_arith *arith)
{
    if (!take(p, ':'))
        return true;
    if (take_word(p, "v2"))
        *arith = HR_ARITH_MUL;
    else if (take_word(p, "v1"))
        *arith = HR_ARITH_DIV;
    else
        return fail_at(p, p->at, "v1 or v2 is missing");
    return true;
}

static bool read_decode(struct parser *p, struct hr_op *op)
{
    if (!take(p, '='))
        return true;
    do {
        if (take_word(p, "gray"))
            op->decode.mode = HR_GRAY;
        else if (take_word(p, "rgb"))
            op->decode.mode = HR_RGB;
        else if (take_word(p, "exif"))
            op->decode.apply_orientation = true;
        else
            return fail_at(p, p->at, "gray, rgb or exif is missing");
    } while (take(p, ':'));
    return true;
}

static bool read_resize(struct parser *p, struct hr_op *op)
{
    struct hr_resize *resize = &op->resize;

    if (!read_size(p, &resize->w, &resize->h) ||
        !read_filter(p, &resize->filter, &resize->order))
        return false;
    if (!resize->h) {
        resize->short_side = resize->w;
        resize->w = 0;
    }
    return true;
}

static bool read_fit(struct parser *p, struct hr_op *op)
{
    return read_area(p, &op->fit.w, &op->fit.h) &&
           read_filter(p, &op->fit.filter, &op->fit.order);
}

static bool read_center_crop(struct parser *p, struct hr_op *op)
{
    return read_area(p, &op->crop.w, &op->crop.h);
}

static bool read_crop(struct parser *p, struct hr_op *op)
{
    int *const number[] = {&op->crop.x, &op->crop.y, &op->crop.w, &op->crop.h};

    if (!need_equals(p, "X,Y,WIDTH,HEIGHT"))
        return false;
    for (int i = 0; i < 4; i++) {
        if (i && (!take(p, ',') || !starts_number(p->at)))
            return fail_at(p, p->at,
                           "crop takes four numbers: X,Y,WIDTH,HEIGHT");
        if (!read_int(p, i < 2 ? -HR_MAX_SIDE : 1, number[i]))
            return false;
    }
    return true;
}

static bool read_random_resized_crop(struct parser *p, struct hr_op *op)
{
    struct hr_random_resized_crop *crop = &op->random_resized_crop;

    return read_area(p, &crop->w, &crop->h) &&
           read_filter(p, &crop->filter, &crop->order);
}

static bool read_random_crop(struct parser *p, struct hr_op *op)
{
    struct hr_random_crop *crop = &op->random_crop;

    return read_area(p, &crop->w, &crop->h) &&
           (!take(p, ':') || read_int(p, 0, &crop->pad));
}

// It is all in the name.
static bool read_nothing(struct parser *p, struct hr_op *op)
{
    (void)p;
    (void)op;
    return true;
}

static bool read_probability(struct parser *p, double *probability)
{
    const char *at;

    *probability = 0.5;
    if (!take(p, '='))
        return true;
    at = p->at;
    if (!read_real(p, probability))
        return false;
    return (*probability >= 0 && *probability <= 1) ||
           fail_at(p, at, "a probability is in 0 .. 1");
}

// The library refuses a random flip that never flips. A 0 that was written was
// meant.
static bool read_random_flip(struct parser *p, struct hr_op *op,
                             double *probability)
{
    if (!read_probability(p, probability))
        return false;
    if (*probability == 0)
        *op = hr_op_flip(0);
    return true;
}

static bool read_random_hflip(struct parser *p, struct hr_op *op)
{
    return read_random_flip(p, op, &op->random_flip.horizontal);
}

static bool read_random_vflip(struct parser *p, struct hr_op *op)
{
    return read_random_flip(p, op, &op->random_flip.vertical);
}

static bool read_to_tensor(struct parser *p, struct hr_op *op)
{
    return read_arith(p, &op->normalize.arith);
}

// One number for all channels, or three. A comma before anything that is not
// a number ends the op.
static bool read_channels(struct parser *p, const char *what, float out[3])
{
    const char *at = p->at;
    double value;
    int num = 0;

    do {
        if (num == 3)
            return fail_at(p, p->at, "%s takes 1 or 3 numbers", what);
        if (!read_real(p, &value))
            return false;
        out[num++] = (float)value;
    } while (*p->at == ',' &&
             starts_number(p->at + 1 + strspn(p->at + 1, " \t\n")) &&
             take(p, ','));
    if (num == 2)
        return fail_at(p, at, "%s takes 1 or 3 numbers", what);
    if (num == 1)
        out[1] = out[2] = out[0];
    return true;
}

static bool read_normalize(struct parser *p, struct hr_op *op)
{
    struct hr_normalize *norm = &op->normalize;
    const char *at;

    if (!need_equals(p, "imagenet or MEANS/STDS"))
        return false;
    if (take_word(p, "imagenet"))
        return read_arith(p, &norm->arith);
    if (!starts_number(p->at))
        return fail_at(p, p->at, "imagenet or MEANS/STDS is missing");
    if (!read_channels(p, "mean", norm->mean))
        return false;
    if (!take(p, '/'))
        return fail_at(p, p->at, "'/' and the standard deviations are missing");
    at = p->at;
    if (!read_channels(p, "std", norm->std))
        return false;
    for (int i = 0; i < 3; i++)
        if (!(norm->std[i] > 0))
            return fail_at(p, at, "a standard deviation is not above 0");
    return read_arith(p, &norm->arith);
}

// What an op is before the text behind its name has been read. A picture that
// is too small for a crop is padded.
static const struct op_name {
    const char *name;
    bool (*read)(struct parser *p, struct hr_op *op);
    struct hr_op op;
} op_names[] = {
    {"decode", read_decode, HR_OP_DECODE(0)},
    {"resize", read_resize, HR_OP_RESIZE(0)},
    {"fit", read_fit, HR_OP_FIT(0)},
    {"center_crop", read_center_crop, HR_OP_CROP(.center = true, .pad = true)},
    {"crop", read_crop, HR_OP_CROP(.pad = true)},
    {"random_crop", read_random_crop, HR_OP_RANDOM_CROP(.pad_if_needed = true)},
    {"random_resized_crop", read_random_resized_crop,
     HR_OP_RANDOM_RESIZED_CROP(0)},
    {"hflip", read_nothing, HR_OP_FLIP(.horizontal = true)},
    {"vflip", read_nothing, HR_OP_FLIP(.vertical = true)},
    {"transpose", read_nothing, HR_OP_FLIP(.transpose = true)},
    {"random_hflip", read_random_hflip, HR_OP_RANDOM_FLIP(0)},
    {"random_vflip", read_random_vflip, HR_OP_RANDOM_FLIP(0)},
    {"to_tensor", read_to_tensor, {.type = HR_OP_NORMALIZE}},
    {"normalize", read_normalize,
     HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                     .std = {.229f, .224f, .225f})},
};

static bool read_op(struct parser *p, struct hr_op *op)
{
    const char *at = p->at;
    size_t length = word_length(at);

    if (!length)
        return fail_at(p, at, "the name of an op is missing");
    for (size_t i = 0; i < sizeof(op_names) / sizeof(op_names[0]); i++)
        if (take_word(p, op_names[i].name)) {
            *op = op_names[i].op;
            return op_names[i].read(p, op);
        }
    return fail_at(
        p, at,
        "'%.*s' is not an op (decode, resize, fit, center_crop, "
        "crop, random_crop, random_resized_crop, hflip, vflip, transpose, "
        "random_hflip, random_vflip, to_tensor, normalize)",
        (int)(length < 40 ? length : 40), at);
}

// Appends op. to_tensor followed by normalize is one op, as ToTensor's
// scaling is the first step of ours; its arithmetic carries over.
static bool append(struct parser *p, const char *at, struct hr_op op)
{
    struct ops_list *list = p->list;
    struct hr_op *last = list->num ? &list->ops[list->num - 1] : NULL;
    int plain = 1 + (op.type == HR_OP_RANDOM_RESIZED_CROP);

    if (last && op.type == HR_OP_DECODE)
        return fail_at(p, at, "decode can only be the first op");
    if (last && last->type == HR_OP_NORMALIZE) {
        bool scaling = last->normalize.std[0] == 0;
        if (op.type != HR_OP_NORMALIZE || !scaling || op.normalize.std[0] == 0)
            return fail_at(p, at, "nothing can follow %s",
                           scaling ? "to_tensor but normalize" : "normalize");
        if (last->normalize.arith == HR_ARITH_MUL)
            op.normalize.arith = HR_ARITH_MUL;
        *last = op;
        return true;
    }
    for (int i = 0; i < list->num; i++)
        plain += 1 + (list->ops[i].type == HR_OP_RANDOM_RESIZED_CROP);
    if (plain > HR_MAX_OPS)
        return fail_at(p, at, "more than %d ops", HR_MAX_OPS);
    list->ops[list->num++] = op;
    return true;
}

bool ops_from_text(struct ops_list *list, const char *text, char *error,
                   size_t error_size)
{
    struct parser p = {text, text, error, error_size, list};

    memset(list, 0, sizeof(*list));
    skip_blanks(&p);
    if (!*p.at)
        return fail_at(&p, text, "no op is named; %s is the default",
                       OPS_EVALUATION);
    do {
        const char *at = p.at, *end;
        struct hr_op op;

        if (!read_op(&p, &op))
            return false;
        end = p.at;
        skip_blanks(&p);
        if (*p.at && *p.at != ',')
            return fail_at(&p, end, "'%c' does not belong here", *end);
        if (!list->num && op.type != HR_OP_DECODE)
            append(&p, at, hr_op_decode(0));
        if (!append(&p, at, op))
            return false;
    } while (take(&p, ','));
    return true;
}

bool ops_normalize(const struct ops_list *list)
{
    return list->ops[list->num - 1].type == HR_OP_NORMALIZE;
}

int ops_channels(const struct ops_list *list)
{
    return list->ops[0].decode.mode == HR_GRAY ? 1 : 3;
}
