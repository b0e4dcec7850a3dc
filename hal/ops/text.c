// SPDX-License-Identifier: Apache-2.0
// Reads lists of ops. Each op's file describes its own text.
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "hal/ops/text.h"

// The parser's position. Every reading function returns false after it has
// written why.
struct parser {
    const char *text, *at;
    struct hr_op *ops;
    int num, plain;  // plain: of the ops when they are drawn
    bool image;      // the list is for pixels: it has no decode
    char why[256];
};

static bool fail_at(struct parser *p, const char *at, const char *format, ...)
    HR_PRINTF(3, 4);

static bool fail_at(struct parser *p, const char *at, const char *format, ...)
{
    int used = snprintf(p->why, sizeof(p->why),
                        "character %d: ", (int)(at - p->text) + 1);
    va_list args;

    va_start(args, format);
    vsnprintf(p->why + used, sizeof(p->why) - (size_t)used, format, args);
    va_end(args);
    return false;
}

// ---- Characters and words --------------------------------------------------

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

// Names that are stride bytes apart, the last NULL, as "a, b or c".
static void join(const void *names, size_t stride, char *to, size_t size)
{
    const char *name, *next;
    const char *const *at = names;

    *to = '\0';
    for (name = *at; name; name = next) {
        size_t used = strlen(to);

        at = (const void *)((const char *)at + stride);
        next = *at;
        snprintf(to + used, size - used, "%s%s",
                 !used  ? ""
                 : next ? ", "
                        : " or ",
                 name);
    }
}

// ---- Numbers and names -----------------------------------------------------

static bool read_int(struct parser *p, double lo, double hi, int *value)
{
    const char *at = p->at;
    char *end;
    long number;

    if (*at != '-' && (*at < '0' || *at > '9'))
        return fail_at(p, at, "a whole number is missing");
    number = strtol(at, &end, 10);
    if (end == at)
        return fail_at(p, at, "a whole number is missing");
    if (number < (long)lo || number > (long)hi)
        return fail_at(p, at, "%.*s is not in %.0f .. %.0f", (int)(end - at),
                       at, lo, hi);
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
    if (end == p->at)
        return fail_at(p, p->at, "a number is missing");
    if (!isfinite(*value))
        return fail_at(p, p->at, "%.*s is not a finite number",
                       (int)(end - p->at), p->at);
    p->at = end;
    return true;
}

static bool read_double(struct parser *p, const struct hr_op_field *f,
                        double *value)
{
    const char *at = p->at;

    if (!read_real(p, value))
        return false;
    return (*value >= f->lo && *value <= f->hi) ||
           fail_at(p, at, "%.*s is not in %g .. %g", (int)(p->at - at), at,
                   f->lo, f->hi);
}

// Reads one number for all n, or n. A comma before anything that is not a
// number ends the op.
static bool read_reals(struct parser *p, int n, double limit, double *out)
{
    const char *begin = p->at;
    int num = 0;

    do {
        const char *at = p->at;

        if (num == n)
            return fail_at(p, at, "there are 1 or %d numbers, not more", n);
        if (!read_real(p, &out[num]))
            return false;
        if (fabs(out[num++]) > limit)
            return fail_at(p, at, "%.*s is not in %g .. %g", (int)(p->at - at),
                           at, -limit, limit);
    } while (*p->at == ',' &&
             starts_number(p->at + 1 + strspn(p->at + 1, " \t\n")) &&
             take(p, ','));
    for (int i = num; num == 1 && i < n; i++)
        out[i] = out[0];
    return num == 1 || num == n ||
           fail_at(p, begin, "there are 1 or %d numbers, not %d", n, num);
}

static bool read_name(struct parser *p, const char *what,
                      const struct hr_op_value *values, int *value)
{
    const char *article = strchr("aeiou", *what) ? "an" : "a";
    char all[200];
    int length;

    for (const struct hr_op_value *v = values; v->name; v++)
        if (take_word(p, v->name)) {
            *value = v->value;
            return true;
        }
    join(&values->name, sizeof(*values), all, sizeof(all));
    length = (int)word_length(p->at);
    if (!length)
        return fail_at(p, p->at, "%s %s is missing: %s", article, what, all);
    return fail_at(p, p->at, "'%.*s' is not %s %s: %s",
                   length < 40 ? length : 40, p->at, article, what, all);
}

// ---- Arguments -------------------------------------------------------------

// "WxH", or "N": then no second number was read, and *h is 0.
static bool read_size(struct parser *p, int *w, int *h)
{
    *h = 0;
    return read_int(p, 1, HR_MAX_SIDE, w) &&
           (!take(p, 'x') || read_int(p, 1, HR_MAX_SIDE, h));
}

static bool read_color(struct parser *p, uint8_t *to)
{
    const char *at = p->at;
    double x[3];

    if (!read_reals(p, 3, 255, x))
        return false;
    for (int c = 0; c < 3; c++) {
        if (x[c] < 0 || x[c] != floor(x[c]))
            return fail_at(p, at, "a colour has whole numbers 0 .. 255");
        to[c] = (uint8_t)x[c];
    }
    return true;
}

static bool read_field(struct parser *p, const struct hr_op_field *f,
                       const struct hr_op_value *values, struct hr_op *op)
{
    void *to = hr__field(op, f);
    int n = (int)(f->size / sizeof(float));
    double x[4];

    switch (f->kind) {
    case HR_FIELD_INT:
        return read_int(p, f->lo, f->hi, to);
    case HR_FIELD_DOUBLE:
        return read_double(p, f, to);
    case HR_FIELD_RANGE:
    case HR_FIELD_DOUBLES:
        return read_reals(p, (int)(f->size / sizeof(double)), DBL_MAX, to);
    case HR_FIELD_COLOR:
        return read_color(p, to);
    case HR_FIELD_BOX:
    case HR_FIELD_CHANNELS:
        if (!read_reals(p, n, FLT_MAX, x))
            return false;
        for (int i = 0; i < n; i++)
            ((float *)to)[i] = (float)x[i];
        return true;
    default:
        return read_name(p, f->name, values ? values : f->values, to);
    }
}

void hr__text_around(const struct hr_op_field *f, double x, double range[2])
{
    double middle = f->lo < 0 ? 0 : 1;

    range[0] = x > 0 ? fmax(middle - x, f->lo) : 0;
    range[1] = x > 0 ? middle + x : 0;
}

static bool read_around(struct parser *p, const struct hr_op_field *f,
                        double range[2])
{
    const char *at = p->at;
    double x;

    if (!read_real(p, &x))
        return false;
    if (x < 0 || x > f->hi)
        return fail_at(p, at, "%.*s is not in 0 .. %g", (int)(p->at - at), at,
                       f->hi);
    hr__text_around(f, x, range);
    return true;
}

static bool read_four(struct parser *p, const struct hr_op_field *f,
                      struct hr_op *op)
{
    bool read = read_field(p, f, NULL, op);

    for (int i = 1; i < 4 && read; i++)
        read = take(p, ',')
                   ? read_field(p, &f[i], NULL, op)
                   : fail_at(p, p->at, "',' is missing: %s,%s,%s,%s", f[0].name,
                             f[1].name, f[2].name, f[3].name);
    return read;
}

static bool read_argument(struct parser *p, const struct hr__argument *a,
                          const struct hr_op_field *f, struct hr_op *op)
{
    const char *at = p->at;
    int *to = hr__field(op, f);
    const float *c = hr__field(op, f);

    if (a->as == HR__AS_FIELD || a->as == HR__AS_ABOVE_0)
        return read_field(p, f, a->values, op) &&
               (a->as == HR__AS_FIELD || (c[0] > 0 && c[1] > 0 && c[2] > 0) ||
                fail_at(p, at, "a standard deviation is not above 0"));
    if (a->as == HR__AS_AROUND)
        return read_around(p, f, hr__field(op, f));
    if (a->as == HR__AS_FOUR)
        return read_four(p, f, op);
    if (!read_size(p, to, hr__field(op, &f[1])))
        return false;
    if (*(int *)hr__field(op, &f[1]))
        return true;
    *(int *)hr__field(op, &f[a->as == HR__AS_AREA ? 1 : 2]) = *to;
    if (a->as == HR__AS_SHORT)
        *to = 0;
    return true;
}

static bool is_pointer(const struct hr_op_field *f)
{
    return f->kind == HR_FIELD_TABLE || f->kind == HR_FIELD_BLOCK ||
           f->kind == HR_FIELD_BYTES;
}

// Notes that field i is told; false: it was before.
static bool told_once(struct parser *p, const char *at, int i, uint32_t *told)
{
    if (*told >> i & 1)
        return fail_at(p, at, "'%.*s' tells a field again",
                       (int)word_length(at), at);
    *told |= UINT32_C(1) << i;
    return true;
}

// Reads any op by its fields: the ones that are not 0, in any order.
static bool read_fields(struct parser *p, const struct hr_op_info *info,
                        struct hr_op *op)
{
    uint32_t told = 0;

    *op = (struct hr_op){.type = info->type};
    while (take(p, ':')) {
        const struct hr_op_field *f = info->fields;
        const struct hr_op_field *end = f + info->num_fields;
        const char *at = p->at;

        while (f < end && (is_pointer(f) || !take_word(p, f->name)))
            f++;
        if (f == end)
            return fail_at(p, p->at, "'%.*s' is not a field of %s",
                           (int)word_length(p->at), p->at, info->name);
        if (!told_once(p, at, (int)(f - info->fields), &told))
            return false;
        if (f->kind == HR_FIELD_BOOL)
            *(bool *)hr__field(op, f) = true;
        else if (!take(p, '='))
            return fail_at(p, p->at, "'=' is missing");
        else if (!read_field(p, f, NULL, op))
            return false;
    }
    return true;
}

static bool read_flags(struct parser *p, const struct hr__word *w,
                       const struct hr_op_field *fields, struct hr_op *op)
{
    uint32_t told = 0;
    char all[100];

    if (!take(p, '='))
        return true;
    do {
        const struct hr__flag *f = w->flags;
        const char *at = p->at;

        while (f->name && !take_word(p, f->name))
            f++;
        if (!f->name) {
            join(&w->flags->name, sizeof(*f), all, sizeof(all));
            return fail_at(p, p->at, "%s is missing", all);
        }
        if (!told_once(p, at, f->field, &told))
            return false;
        if (fields[f->field].kind == HR_FIELD_BOOL)
            *(bool *)hr__field(op, &fields[f->field]) = f->value;
        else
            *(int *)hr__field(op, &fields[f->field]) = f->value;
    } while (take(p, ':'));
    return true;
}

static bool read_arguments(struct parser *p, const struct hr__word *w,
                           const struct hr_op_field *fields, struct hr_op *op)
{
    *op = w->op;
    if (w->flags)
        return read_flags(p, w, fields, op);
    for (const struct hr__argument *a = w->arguments; a->before; a++) {
        if (!take(p, a->before)) {
            if (a->optional)
                break;
            return a->before == '='
                       ? fail_at(p, p->at, "'=%s' is missing", w->syntax)
                       : fail_at(p, p->at, "'%c' is missing: %s=%s", a->before,
                                 w->name, w->syntax);
        }
        if (!read_argument(p, a, &fields[a->field], op))
            return false;
    }
    if (w->done)
        w->done(op);
    return true;
}

// Says whether the name of w stands there, and what must follow it.
static bool take_name(struct parser *p, const struct hr__word *w)
{
    const char *at = p->at;

    if (take_word(p, w->name) &&
        (!w->literal || (take(p, '=') && take_word(p, w->literal))))
        return true;
    p->at = at;
    return false;
}

// Says whether an op is written by its fields here: no word has its name, or
// ':' follows.
static bool takes_fields(struct parser *p, const struct hr__op_def *def)
{
    const struct hr__word *w = def->words;
    const char *at = p->at;

    if (!take_word(p, def->info.name))
        return false;
    while (w->name && strcmp(w->name, def->info.name))
        w++;
    if (!w->name || *p->at == ':')
        return true;
    p->at = at;
    return false;
}

static bool read_op(struct parser *p, struct hr_op *op)
{
    char all[300] = "";
    const char *at = p->at;
    size_t length = word_length(at);
    const struct hr__op_def *def;

    if (!length)
        return fail_at(p, at, "the name of an op is missing");
    for (int i = 1; (def = hr__op_def((enum hr_op_type)i)); i++) {
        if (takes_fields(p, def))
            return read_fields(p, &def->info, op);
        for (const struct hr__word *w = def->words; w->name; w++) {
            size_t used = strlen(all);

            if (take_name(p, w))
                return read_arguments(p, w, def->info.fields, op);
            if (!w->literal)
                snprintf(all + used, sizeof(all) - used, "%s%s",
                         used ? ", " : "", w->name);
        }
    }
    return fail_at(p, at, "'%.*s' is not an op (%s)",
                   (int)(length < 40 ? length : 40), at, all);
}

// ---- Lists -----------------------------------------------------------------

// Appends op. to_tensor followed by normalize is one op, as ToTensor's
// scaling is the first step of ours; its arithmetic carries over.
static bool append(struct parser *p, const char *at, struct hr_op op)
{
    const struct hr__op_def *def = hr__op_def(op.type);
    struct hr_op *last = p->num ? &p->ops[p->num - 1] : NULL;
    int channels = hr_ops_channels(p->ops, p->num, p->image ? 1 : 3);
    char text[128];

    if (hr__op_check(def, &op, channels, text))
        return fail_at(p, at, "%s", text);
    if ((last || p->image) && def->place == HR__FIRST)
        return fail_at(p, at, "%s can only be the first op", def->info.name);
    if (last && def->place != HR__BEHIND &&
        hr__op_def(last->type)->place == HR__BEHIND)
        return fail_at(p, at, "%s cannot follow %s", def->info.name,
                       hr__op_def(last->type)->info.name);
    if (last && last->type == HR_OP_NORMALIZE && def->place != HR__BEHIND) {
        bool scaling = last->normalize.std[0] == 0;

        if (op.type != HR_OP_NORMALIZE || !scaling || op.normalize.std[0] == 0)
            return fail_at(p, at, "nothing can follow %s",
                           scaling ? "to_tensor but normalize" : "normalize");
        if (last->normalize.arith == HR_ARITH_MUL)
            op.normalize.arith = HR_ARITH_MUL;
        *last = op;
        return true;
    }
    p->plain += hr__op_draws(def, &op);
    if (p->plain > HR_MAX_OPS)
        return fail_at(p, at, "more than %d ops", HR_MAX_OPS);
    p->ops[p->num++] = op;
    return true;
}

static bool read_list(struct parser *p)
{
    char text[128];

    skip_blanks(p);
    if (!*p->at)
        return fail_at(p, p->text, "no op is named");
    do {
        struct hr_op op = {.type = HR_OP_NONE};
        const char *at = p->at, *end;

        if (!p->num && !p->image && take_word(p, "image"))
            p->image = true;
        else if (!read_op(p, &op))
            return false;
        end = p->at;
        skip_blanks(p);
        if (*p->at && *p->at != ',')
            return fail_at(p, end, "'%c' does not belong here", *end);
        if (!p->num && !p->image && op.type != HR_OP_DECODE)
            append(p, at, hr_op_decode(0));
        if (op.type && !append(p, at, op))
            return false;
    } while (take(p, ','));
    return !hr__groups_check(p->ops, p->num, text) ||
           fail_at(p, p->at, "%s", text);
}

struct hr__numbers hr__numbers_begin(void)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);

    return (struct hr__numbers){plain, uselocale(plain)};
}

void hr__numbers_end(struct hr__numbers n)
{
    uselocale(n.old);
    if (n.plain)
        freelocale(n.plain);
}

enum hr_status hr_ops_parse(const char *text, struct hr_op *ops, int *num_ops)
{
    struct parser p = {.text = text, .at = text, .ops = ops};
    struct hr__numbers numbers;
    bool read;

    if (!text || !ops || !num_ops)
        return hr__fail(HR_EINVAL, "no text, or no place for the ops");
    numbers = hr__numbers_begin();
    read = read_list(&p);
    hr__numbers_end(numbers);
    *num_ops = read ? p.num : 0;
    return read ? HR_OK : hr__fail(HR_EINVAL, "%s", p.why);
}

bool hr__text_read(const char *text, struct hr_op *op)
{
    struct parser p = {.text = text, .at = text};

    return read_op(&p, op) && !*p.at;
}

enum hr_status hr__text_check(const char *text, int num_ops)
{
    struct hr_op back[HR_MAX_OPS];
    struct parser p = {.text = text, .at = text, .ops = back};

    if (read_list(&p) && p.num == num_ops)
        return HR_OK;
    return hr__fail(HR_EINVAL, "%s: %s", text, p.why);
}
