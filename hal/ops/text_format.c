// SPDX-License-Identifier: Apache-2.0
// Writes lists of ops, as text.c reads them.
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "hal/ops/text.h"

struct printer {
    char *at, *end;
    bool full;
};

static void print(struct printer *o, const char *format, ...) HR_PRINTF(2, 3);

static void print(struct printer *o, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(o->at, (size_t)(o->end - o->at), format, args);
    va_end(args);
    o->full |= n >= o->end - o->at;
    o->at = o->full ? o->end - 1 : o->at + n;
}

// Says whether a number that comes back is written as people do: 30, not 3e+01.
static bool is_plain(const char *text, double x)
{
    return !strchr(text, 'e') || fabs(x) < 1 || fabs(x) >= 1e15;
}

// The shortest digits that come back.
static void print_real(struct printer *o, double x, bool is_float)
{
    char text[40];

    for (int digits = 1; digits <= 17; digits++) {
        double back;

        snprintf(text, sizeof(text), "%.*g", digits, x);
        back = strtod(text, NULL);
        if ((is_float ? (float)back == (float)x : back == x) &&
            is_plain(text, x))
            break;
    }
    print(o, "%s", text);
}

static void print_reals(struct printer *o, const void *from, size_t size, int n)
{
    bool one = true;

    for (int i = 1; i < n; i++)
        one &= !memcmp(from, (const char *)from + size * (size_t)i, size);
    for (int i = 0; i < (one ? 1 : n); i++) {
        bool is_float = size == sizeof(float);

        print(o, "%s", i ? "," : "");
        print_real(o,
                   is_float ? ((const float *)from)[i]
                            : ((const double *)from)[i],
                   is_float);
    }
}

static void print_field(struct printer *o, const struct hr_op_field *f,
                        const struct hr_op_value *values, const void *from)
{
    const int *number = from;
    const uint8_t *color = from;

    switch (f->kind) {
    case HR_FIELD_INT:
        print(o, "%d", *number);
        break;
    case HR_FIELD_DOUBLE:
    case HR_FIELD_RANGE:
    case HR_FIELD_DOUBLES:
        print_reals(o, from, sizeof(double), (int)(f->size / sizeof(double)));
        break;
    case HR_FIELD_COLOR:
        print(o, "%d", color[0]);
        if (color[1] != color[0] || color[2] != color[0])
            print(o, ",%d,%d", color[1], color[2]);
        break;
    case HR_FIELD_BOX:
    case HR_FIELD_CHANNELS:
        print_reals(o, from, sizeof(float), (int)(f->size / sizeof(float)));
        break;
    default:
        for (const struct hr_op_value *v = values ? values : f->values;
             v && v->name; v++)
            if (v->value == *number)
                print(o, "%s", v->name);
    }
}

// The shortest number that comes back, if there is one.
static void print_around(struct printer *o, const struct hr_op_field *f,
                         const double *range)
{
    double x = range[1] - (f->lo < 0 || range[1] == 0 ? 0 : 1);
    char text[40];

    for (int digits = 1; digits <= 17; digits++) {
        double back[2];

        snprintf(text, sizeof(text), "%.*g", digits, x);
        hr__text_around(f, strtod(text, NULL), back);
        if (!memcmp(back, range, sizeof(back)) && is_plain(text, x))
            break;
    }
    print(o, "%s", text);
}

static void print_argument(struct printer *o, const struct hr__argument *a,
                           const struct hr_op_field *f, const struct hr_op *op)
{
    const int *number = hr__field_of(op, f);

    if (a->as == HR__AS_SHORT && !*number)
        return print_field(o, &f[2], NULL, hr__field_of(op, &f[2]));
    if (a->as == HR__AS_AROUND)
        return print_around(o, f, hr__field_of(op, f));
    print_field(o, f, a->values, number);
    for (int i = 1; a->as == HR__AS_FOUR && i < 4; i++) {
        print(o, ",");
        print_field(o, &f[i], NULL, hr__field_of(op, &f[i]));
    }
    if ((a->as == HR__AS_AREA && number[1] != *number) || a->as == HR__AS_SHORT)
        print(o, "x%d", number[1]);
}

static void print_fields(struct printer *o, const struct hr_op_info *info,
                         const struct hr_op *op)
{
    static const struct hr_op zero;

    print(o, "%s", info->name);
    for (int i = 0; i < info->num_fields; i++) {
        const struct hr_op_field *f = &info->fields[i];
        const void *from = hr__field_of(op, f);

        if (!memcmp(from, &zero, f->size))
            continue;
        print(o, ":%s%s", f->name, f->kind == HR_FIELD_BOOL ? "" : "=");
        if (f->kind != HR_FIELD_BOOL)
            print_field(o, f, NULL, from);
    }
}

// most: of the arguments that may be left out.
static void print_word(struct printer *o, const struct hr__word *w,
                       const struct hr_op_field *fields, const struct hr_op *op,
                       int most)
{
    char before = '=';

    print(o, "%s%s%s", w->name, w->literal ? "=" : "",
          w->literal ? w->literal : "");
    for (const struct hr__flag *f = w->flags; f && f->name; f++) {
        const void *from = hr__field_of(op, &fields[f->field]);
        int value = fields[f->field].kind == HR_FIELD_BOOL ? *(const bool *)from
                                                           : *(const int *)from;

        if (!value || value != f->value)
            continue;
        print(o, "%c%s", before, f->name);
        before = ':';
    }
    for (const struct hr__argument *a = w->arguments; a->before; a++) {
        if (a->optional && most-- <= 0)
            break;
        print(o, "%c", a->before);
        print_argument(o, a, &fields[a->field], op);
    }
}

static bool equal(const struct hr_op_info *info, const struct hr_op *a,
                  const struct hr_op *b)
{
    bool same = a->type == b->type;

    for (int i = 0; same && i < info->num_fields; i++)
        same = !memcmp(hr__field_of(a, &info->fields[i]),
                       hr__field_of(b, &info->fields[i]), info->fields[i].size);
    return same;
}

// Says whether text is op; then it is printed.
static bool print_if(struct printer *o, const char *text,
                     const struct hr_op_info *info, const struct hr_op *op)
{
    struct hr_op back;
    bool same = hr__text_read(text, &back) && equal(info, op, &back);

    if (same)
        print(o, "%s", text);
    return same;
}

// The first and shortest text that comes back as op.
static bool print_op(struct printer *o, const struct hr_op *op)
{
    const struct hr__op_def *def = hr__op_def(op->type);
    char text[600];

    for (const struct hr__word *w = def ? def->words : NULL; w && w->name; w++)
        for (int most = 0; most < HR__NUM(w->arguments); most++) {
            struct printer one = {text, text + sizeof(text), false};

            print_word(&one, w, def->info.fields, op, most);
            if (print_if(o, text, &def->info, op))
                return true;
        }
    if (def)
        print_fields(&(struct printer){text, text + sizeof(text), false},
                     &def->info, op);
    return def && print_if(o, text, &def->info, op);
}

enum hr_status hr_ops_format(const struct hr_op *ops, int num_ops, char *text,
                             size_t size)
{
    struct printer o = {text, text + size, false};
    enum hr_status status = HR_OK;
    struct hr__numbers numbers;
    int i;

    if (num_ops < 0 || (num_ops && !ops) || !text || !size)
        return hr__fail(HR_EINVAL, "no ops, or no place for the text");
    *text = '\0';
    numbers = hr__numbers_begin();
    if (!num_ops || ops[0].type != HR_OP_DECODE)
        print(&o, "image");
    for (i = 0; i < num_ops && !status; i++) {
        print(&o, "%s", o.at > text ? "," : "");
        if (!print_op(&o, &ops[i]))
            status = hr__fail(HR_EUNSUPPORTED, "op %d: no text says it", i);
    }
    if (!status && o.full)
        status = hr__fail(HR_ELIMIT, "the text needs more than %zu bytes",
                          size);
    if (!status)
        status = hr__text_check(text, num_ops);
    hr__numbers_end(numbers);
    return status;
}
