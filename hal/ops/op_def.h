// SPDX-License-Identifier: Apache-2.0
// Everything that the library asks of an op, in one struct: one file of hal/ops
// defines it, table.c lists it. Parsers, bindings and checks read the table.
#ifndef HR__OP_DEF_H
#define HR__OP_DEF_H

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "hal/ops/ops.h"

// ---- Fields ----------------------------------------------------------------

// Describes a member of one of struct hr_op's structs; lo and hi, or values,
// follow.
#define HR__FIELD_AS(is_called, op, member, is, ...)                \
    {                                                               \
        .name = is_called, .kind = HR_FIELD_##is,                   \
        .offset = offsetof(struct hr_op, op.member),                \
        .size = sizeof(((struct hr_op *)0)->op.member), __VA_ARGS__ \
    }
#define HR__FIELD(op, member, is, ...) \
    HR__FIELD_AS(#member, op, member, is, __VA_ARGS__)
#define HR__SIDE .lo = 1, .hi = HR_MAX_SIDE
#define HR__TURNS 1e6  // degrees at most
#define HR__DEGREES .lo = -HR__TURNS, .hi = HR__TURNS
#define HR__NUM(array) ((int)(sizeof(array) / sizeof(*(array))))

#define HR__AT .lo = -HR__RESIZED_MOST, .hi = HR__RESIZED_MOST
extern const struct hr_op_value hr__filters[], hr__orders[], hr__edges[];
extern const struct hr_op_value hr__warp_filters[];  // that a warp has

static inline bool hr__is_black(const uint8_t fill[3])
{
    return !fill[0] && !fill[1] && !fill[2];
}

static inline bool hr__finite(const float of[3])
{
    return isfinite(of[0]) && isfinite(of[1]) && isfinite(of[2]);
}

// Bits of fields by their places, for forms.
#define HR__FIELDS(n) ((1u << (n)) - 1)

static inline void *hr__field(struct hr_op *op, const struct hr_op_field *f)
{
    return (char *)op + f->offset;
}

static inline const void *hr__field_of(const struct hr_op *op,
                                       const struct hr_op_field *f)
{
    return (const char *)op + f->offset;
}

// ---- Folding ---------------------------------------------------------------

// A resize may name a larger picture than any that is made (3 x 1000 with a
// short side of 256): only a window of it need be one.
enum { HR__RESIZED_MOST = 1 << 24 };

// The form in which ops that change values are applied.
enum hr__value_way {
    HR__VALUES_STORED,  // the store's table has them: nothing here
    HR__VALUES_CODES,
    HR__VALUES_EITHER,  // codes, if a picture has any; else as STORED
};

// State of the fold: the last step of geo is the one being built. Each function
// writes the reason of a failure to text.
struct hr__fold {
    struct hr__geometry *geo;
    enum hr_reference reference;
    int orientation;  // of the file
    enum hr__value_way values;
    bool changed;             // `table` is what ops make of bytes; no code yet
    struct hr__values table;  // (never of HR__VALUES_STORED)
    bool sided;               // codes of the last step know left from right
    char *text;               // [128]
};

void hr__fold_begin(struct hr__fold *f, int w, int h);
enum hr_status hr__fold_end(struct hr__fold *f);
// The picture as it is at this op.
void hr__fold_size(const struct hr__fold *f, int *w, int *h);
// Transposes first, then mirrors.
enum hr_status hr__fold_turn(struct hr__fold *f, bool transpose, bool x,
                             bool y);
// pad: what lies outside of the picture is black; else it is an error.
enum hr_status hr__fold_crop(struct hr__fold *f, struct hr__rect r, bool pad);
// Does the same with a colour outside, for an op of stage augment: as a code,
// where it may be one, and not as another step.
enum hr_status hr__fold_shift(struct hr__fold *f, struct hr__rect r,
                              const uint8_t fill[3]);
// Adds the window r, with the surroundings that edges names.
enum hr_status hr__fold_window(struct hr__fold *f, struct hr__rect r,
                               enum hr_edges edges, const uint8_t fill[3]);
struct hr__op_def;
// An op that changes values, where these are codes.
void hr__fold_values(struct hr__fold *f, const struct hr__op_def *def,
                     const struct hr_op *op);
// Adds a code; w and h of it are the picture's, where they are 0.
enum hr_status hr__fold_augment(struct hr__fold *f,
                                const struct hr__augment *code);
// Adds a code that mixes the picture with another; a factor of 1 changes none.
enum hr_status hr__fold_mix(struct hr__fold *f, enum hr__augment_code code,
                            double factor);
// The matrix of one that is around a point.
void hr__affine_around(const double m[6], double x, double y, double out[6]);
// Adds an affine op in as few codes as possible.
enum hr_status hr__fold_affine(struct hr__fold *f, const struct hr_affine *op);
// Adds boxes of these radii along x and y; none for a radius of 0.
enum hr_status hr__fold_boxes(struct hr__fold *f, const double radius[2],
                              int passes);
// Checks both values of a blur's field; text: "OP: FIELD must be ...".
enum hr_status hr__box_check(const char *what, const double x[2],
                             char text[128]);
// Adds a resize whose short_side has been replaced by w and h.
enum hr_status hr__fold_resize(struct hr__fold *f, const struct hr_resize *op);

// ---- Drawing ---------------------------------------------------------------

// The key and place that a random op is drawn from, and the picture's size at
// this op.
struct hr__draw {
    const struct hr_random *key;
    int place;  // of the op in its list
    int w, h;
    uint32_t word[4];  // of draw number 0
    char *text;        // [128]: why it cannot be drawn
};

static inline void hr__draw_words(const struct hr__draw *d, int draw,
                                  uint32_t out[4])
{
    hr__random_words(d->key, d->place, draw, out);
}

static inline double hr__draw_uniform(uint32_t word, double low, double high)
{
    return low + (high - low) * ((double)word * 0x1p-32);
}

static inline bool hr__draw_chance(uint32_t word, double p)
{
    return hr__draw_uniform(word, 0, 1) < p;
}

static inline int hr__draw_below(uint32_t word, int limit)
{
    return (int)((uint64_t)word * (uint64_t)limit >> 32);
}

// ---- Text ------------------------------------------------------------------
//
// How hr_ops_parse() and hr_ops_format() write an op: a name, then arguments.
// Every op has a text by its fields; words are shorter.

enum hr__argument_form {
    HR__AS_FIELD,    // as the kind of the field says
    HR__AS_AREA,     // fields w and h: W x H, or one number for both
    HR__AS_SHORT,    // fields w, h, side: W x H, or one number, the side
    HR__AS_ABOVE_0,  // as the field says, and above 0
    HR__AS_FOUR,     // four fields of one kind: A,B,C,D
    HR__AS_AROUND,   // one number, the range around what changes nothing: 1 of
                     // factors, of which none is below 0, else 0
};

struct hr__argument {
    char before;  // '=', ':', ',' or '/'; '\0' behind the last argument
    bool optional;
    int field;  // the first of them
    enum hr__argument_form as;
    const struct hr_op_value *values;  // NULL: the field's own
};

// A word behind '=' that gives a field a value; others may follow, after ':'.
struct hr__flag {
    const char *name;
    int field, value;
};

struct hr__word {
    const char *name;
    const char *syntax;   // of what follows '='
    const char *literal;  // what follows must be this; else the next word of
                          // the same name is meant
    struct hr_op op;      // before the arguments
    const struct hr__flag *flags;
    struct hr__argument arguments[6];
    void (*done)(struct hr_op *op);  // after them; may be NULL
};

#define HR__ARG(n)                       \
    {                                    \
        ':', true, n, HR__AS_FIELD, NULL \
    }

// A list of words, and the word of most ops: a name, '=', the first field.
// clang-format off
#define HR__WORDS(...) (const struct hr__word[]){__VA_ARGS__, {0}}
#define HR__WORD(is_called, is, follows, ...)                             \
    {.name = is_called, .syntax = follows, .op = {.type = HR_OP_##is},    \
     .arguments = {{.before = '='}, __VA_ARGS__}}
// clang-format on

// ---- The op ----------------------------------------------------------------

enum hr__op_place {
    HR__ANYWHERE,
    HR__FIRST,   // of an encoded picture, and only there
    HR__LAST,    // of what makes the tensor
    HR__BEHIND,  // all of that: it paints on the tensor
};

// An op without fields, one with an array `fields`, and one with `forms` of its
// own, too. Without these its only form has all fields, none of them set.
#define HR__CALLED(is_called, is, by) \
    .name = is_called, .type = HR_OP_##is, .stage = HR_##by
#define HR__ONE_FORM(is_called, is, bits)                                \
    .forms = &(                                                          \
        const struct hr_op_form){is_called, bits, {.type = HR_OP_##is}}, \
    .num_forms = 1
#define HR__PLAIN(is_called, is, by) \
    HR__CALLED(is_called, is, by), HR__ONE_FORM(is_called, is, 0)
#define HR__INFO(is_called, is, by)                      \
    HR__CALLED(is_called, is, by),                       \
        .fields = fields, .num_fields = HR__NUM(fields), \
        HR__ONE_FORM(is_called, is, HR__FIELDS(HR__NUM(fields)))
#define HR__INFO_FORMS(is_called, is, by)                                \
    HR__CALLED(is_called, is, by),                                       \
        .fields = fields, .num_fields = HR__NUM(fields), .forms = forms, \
        .num_forms = HR__NUM(forms)

struct hr__op_def {
    struct hr_op_info info;  // the public part
    enum hr__op_place place;
    int draws;        // a random op becomes so many plain ones at most
    bool sees_size;   // draw() asks for the size of the picture
    size_t draws_at;  // offset of an int that is this number; 0: draws is
    size_t group;  // offset of int count: so many items behind it are its own
                   // (0 = 1); 0: it is no group
    const struct hr__word *words;  // the last has no name
    size_t size;  // offset of int w, h, which are the size of any picture that
                  // it makes, unless w is 0; 0: the picture's own decides
    // Refuse what fields cannot say one by one, of any picture and of one with
    // so many channels. May be NULL.
    enum hr_status (*check)(const struct hr_op *op, char text[128]);
    enum hr_status (*check_for)(const struct hr_op *op, int channels,
                                char text[128]);
    // Adds the op to the geometry; NULL: it changes none.
    enum hr_status (*fold)(struct hr__fold *f, const struct hr_op *op);
    // Says whether pixels are mixed or added, so that it does not commute with
    // an op that changes values; NULL: never.
    bool (*mixes)(const struct hr_op *op);
    // Says whether it may add codes though its stage is another one; NULL:
    // never.
    bool (*augments)(const struct hr_op *op);
    // Maps a byte of a channel. The store applies it, or, where the list has
    // codes, a code.
    uint8_t (*value)(const struct hr_op *op, int channel, uint8_t x);
    // Random ops: writes the plain ops that it becomes, and returns how many;
    // -1 with the reason.
    int (*draw)(const struct hr_op *op, const struct hr__draw *draw,
                struct hr_op *out);
    // Groups: says whether its item of that number, from 0, runs.
    bool (*stays)(const struct hr_op *op, const struct hr__draw *draw,
                  int item);
};

// Checks one op as far as that is possible before the picture is known.
enum hr_status hr__op_check(const struct hr__op_def *def,
                            const struct hr_op *op, int channels,
                            char text[128]);

// Says whether each group of a list has its items, and these keep the size. The
// ops have passed hr__op_check().
enum hr_status hr__groups_check(const struct hr_op *ops, int num_ops,
                                char text[128]);
// Sets off[] of the items of the group at draw->place that do not run.
void hr__group_drop(const struct hr_op *ops, int num_ops,
                    const struct hr__draw *draw, bool off[HR_MAX_OPS]);

// A random op becomes so many plain ones at most; any other is one.
int hr__op_draws(const struct hr__op_def *def, const struct hr_op *op);

// Computes the matrix of Pillow's rotate() by degrees, counter-clockwise, for a
// `centered` affine.
void hr__rotation_matrix(double degrees, double matrix[6]);
// Writes the same for a picture of w x h as plain ops; returns how many: 0 or
// 1.
int hr__rotation(double degrees, int w, int h, enum hr_filter filter,
                 const uint8_t fill[3], struct hr_op *out);

// Returns the op's definition; NULL: there is no such op.
const struct hr__op_def *hr__op_def(enum hr_op_type type);

#define HR__BAD(...) (snprintf(text, 128, __VA_ARGS__), HR_EINVAL)

#endif
