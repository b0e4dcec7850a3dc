// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELP = 1 };  // what popt gives for it

const char *const options_dtypes[] = {"f32", "f16", "u8", NULL};
const char *const options_tiers[] = {"exact", "close", "fast", NULL};

int options_fail(const char *command, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tools_warn("%s: %s", command, text);
    return TOOLS_CANNOT;
}

// Index of word in a list that ends with NULL; -1 with a message.
static int choose(const char *command, const char *option, const char *word,
                  const char *const *list)
{
    char all[128] = "";

    for (int i = 0; list[i]; i++) {
        if (!strcmp(word, list[i]))
            return i;
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
                 i ? ", " : "", list[i]);
    }
    options_fail(command, "%s: '%s' is not one of %s", option, word, all);
    return -1;
}

// Numbers are read here and not by popt, whose messages name the text or the
// option, never both. False with a message.
static bool read_int(const char *command, const char *option, const char *text,
                     int min, int max, int *value)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (end == text || *end || number < min || number > max)
        return !options_fail(command, "%s: '%s' is not a number in %d .. %d",
                             option, text, min, max);
    *value = (int)number;
    return true;
}

// A number above 0, of thousands, millions or billions behind a letter.
static bool read_count(const char *command, const char *option,
                       const char *text, uint64_t *value)
{
    size_t n = strlen(text);
    const char *unit = n ? strchr("KMG", text[n - 1]) : NULL;
    uint64_t times;
    char digits[24];

    if (!unit || !*unit)
        return (tools_parse_u64(text, value) && *value) ||
               !options_fail(command,
                             "%s: '%s' is not a number in 1 .. 2^64 - 1",
                             option, text);
    times = *unit == 'K' ? 1000 : *unit == 'M' ? 1000000 : 1000000000;
    snprintf(digits, sizeof(digits), "%.*s", (int)(n - 1), text);
    return (tools_parse_u64(digits, value) && *value &&
            !__builtin_mul_overflow(*value, times, value)) ||
           !options_fail(command, "%s: '%s' is not a number such as 200M",
                         option, text);
}

static bool read_size(const char *command, const char *option, const char *text,
                      size_t *value)
{
    uint64_t bytes;

    if (!tools_parse_size(text, &bytes) || bytes > SIZE_MAX)
        return !options_fail(command, "%s: '%s' is not a size such as 64M",
                             option, text);
    *value = (size_t)bytes;
    return true;
}

static bool read_number(const char *command, const char *option,
                        const char *text, int max, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return (end != text && !*end && *value > 0 && *value <= max) ||
           !options_fail(command,
                         "%s: '%s' is not a number above 0, at most %d", option,
                         text, max);
}

static bool set_reference(const char *command, const char *text)
{
    const char *names[HR_NUM_REFERENCES] = {NULL};
    int chosen = 0;

    for (int i = 1; i < HR_NUM_REFERENCES; i++)
        names[i - 1] = hr_reference_name((enum hr_reference)i);
    if (text)
        chosen = 1 + choose(command, "--reference", text, names);
    return (!text || chosen > 0) &&
           hr_set_reference((enum hr_reference)chosen) == HR_OK;
}

const char *options_ops(const char *command, const char *text,
                        enum hr_dtype dtype, struct ops_list *list)
{
    if (!text)
        text = dtype == HR_U8 ? OPS_EVALUATION_U8 : OPS_EVALUATION;
    if (hr_ops_parse(text, list->ops, &list->num)) {
        options_fail(command, "--ops: %s", hr_last_error());
        return NULL;
    }
    if (!list->num || list->ops[0].type != HR_OP_DECODE) {
        options_fail(command, "--ops: files need decode, not image");
        return NULL;
    }
    for (int i = 0; i < list->num; i++) {
        if (dtype != HR_U8 || list->ops[i].type != HR_OP_NORMALIZE)
            continue;
        options_fail(command,
                     "--dtype u8 keeps whole levels, 0 .. 255: to_tensor and "
                     "normalize make fractions, of which nothing would be "
                     "left; leave them out, or take f32 or f16");
        return NULL;
    }
    return text;
}

static void warn_skipped(size_t num, const char *first, const char *one,
                         const char *many)
{
    if (num)
        tools_warn("skipped %zu %s (%s%s)", num, num == 1 ? one : many,
                   num == 1 ? "" : "the first is ", first ? first : "?");
}

// Warns of named files that are no pictures of the run, by reason.
static void warn_left_out(hr_source source)
{
    size_t num[HR_SKIP_WORD + 1] = {0}, first[HR_SKIP_WORD + 1];
    char path[PATH_MAX];
    enum hr_skip why;

    for (size_t i = source ? source->skipped : 0; i--; num[why]++) {
        (void)hr_source_skipped(source, i, path, sizeof(path), &why);
        first[why] = i;
    }
    for (int k = 0; k <= HR_SKIP_WORD; k++)
        if (num[k] &&
            hr_source_skipped(source, first[k], path, sizeof(path), &why))
            tools_warn("left out %zu: %s (%s%s)", num[k], hr_skip_text(why),
                       num[k] == 1 ? "" : "the first is ", path);
}

// Folders in which nothing was found, if there are any, by the first.
static void warn_none(const struct inputs *inputs)
{
    const char *first = inputs->first_root ? inputs->first_root : "?";
    const struct hr_format_info *info;
    char ends[256] = "";

    for (int i = HR_FORMAT_JPEG; (info = hr_format_info(i)); i++)
        snprintf(ends + strlen(ends), sizeof(ends) - strlen(ends), "%s%s",
                 *ends && *info->suffixes ? " " : "", info->suffixes);
    if (!inputs->num_roots)
        tools_warn("no pictures found: the list names none");
    else if (inputs->num_roots > 1)
        tools_warn("no pictures found in %s and %zu more (%s)", first,
                   inputs->num_roots - 1, ends);
    else
        tools_warn("no pictures found in %s (%s)", first, ends);
}

bool options_pictures(const struct inputs *inputs, bool quiet)
{
    for (size_t i = 0; i < inputs->num_faults && i < INPUTS_MAX_FAULTS; i++)
        tools_warn("%s", inputs->faults[i] ? inputs->faults[i] : "?");
    if (inputs->num_faults > INPUTS_MAX_FAULTS)
        tools_warn("... and %zu more that could not be read",
                   inputs->num_faults - INPUTS_MAX_FAULTS);
    if (!quiet) {
        warn_left_out(inputs->source);
        warn_skipped(inputs->others, inputs->first_other,
                     "file of another type", "files of other types");
    }
    if (!inputs->num)
        warn_none(inputs);
    return inputs->num > 0;
}

// ---- Which pictures, and their limits --------------------------------------

#define LIMIT(field) offsetof(struct options, source.limits.field)
#define SOURCE(field) offsetof(struct options, source.field)
static const struct option pictures[] = {
    {"list", OPTION_TEXT, SOURCE(list),
     "pictures by name, a line each, and their labels behind a tab",
     .arg = "FILE|-"},
    {"null", OPTION_FLAG, SOURCE(zero),
     "zero bytes end the entries of --list, not newlines", .letter = '0'},
    {"classes", OPTION_TEXT, SOURCE(classes),
     "labels of the classes, a line each: the only ones, in that order",
     .arg = "FILE"},
    {"fields", OPTION_TEXT, SOURCE(fields),
     "of records: the fields with the picture and its label",
     .arg = "IMAGE[,LABEL]"},
    {"max-pixels", OPTION_COUNT, LIMIT(pixels),
     "pixels of a picture [100000000]", .arg = "N"},
    {"max-side", OPTION_INT, LIMIT(side), "width, and height [16384]",
     .arg = "N", .min = 1, .max = INT_MAX},
    {"max-block-visits", OPTION_COUNT, LIMIT(block_visits),
     "scans times 8x8 blocks [50000000]", .arg = "N"},
    {"max-scans", OPTION_INT, LIMIT(scans), "scans of a JPEG [100]", .arg = "N",
     .min = 1, .max = INT_MAX},
    {"max-item-bytes", OPTION_SIZE, LIMIT(item_bytes),
     "memory to decode a picture [512M]", .arg = "BYTES"},
    {"max-marker-bytes", OPTION_SIZE, LIMIT(marker_bytes),
     "bytes of markers before the first scan [16M]", .arg = "BYTES"},
    {"max-segments", OPTION_INT, LIMIT(segments),
     "markers before the first scan [4096]", .arg = "N", .min = 1,
     .max = INT_MAX},
    {"max-file-bytes", OPTION_SIZE, LIMIT(file_bytes), "size of a file [256M]",
     .arg = "BYTES"},
    {"max-item-ms", OPTION_INT, LIMIT(item_ms),
     "CPU milliseconds to decode a picture [30000]", .arg = "N", .min = 1,
     .max = INT_MAX},
    {0},
};
#undef LIMIT
#undef SOURCE

bool options_source(const struct options *o, struct hr_limits *limits,
                    struct inputs *inputs)
{
    const char *input;

    *limits = o->source.limits;
    inputs->file_bytes = limits->file_bytes;
    if (o->source.zero && !o->source.list)
        return !options_fail(o->command,
                             "--null is of --list, which is missing");
    if (!poptPeekArg(o->con) && !o->source.list)
        return !options_fail(
            o->command, "name a folder or a picture (see headrace %s --help)",
            o->command);
    if (o->source.classes && !inputs_set_classes(inputs, o->source.classes))
        goto error;
    if (o->source.fields && !inputs_set_fields(inputs, o->source.fields))
        goto error;
    while ((input = poptGetArg(o->con)))
        if (!inputs_add(inputs, input))
            goto error;
    if (!o->source.list ||
        inputs_add_list(inputs, o->source.list, o->source.zero))
        return true;
error:
    return tools_warn("%s", inputs->error);
}

// ---- A whole command line --------------------------------------------------

static bool take(const struct options *o, const struct option *option, int i,
                 void *value)
{
    const char *text = o->given[i].text;
    char name[32];
    int index;

    snprintf(name, sizeof(name), "--%s", option->name);
    if (option->kind == OPTION_FLAG)
        *(bool *)value |= o->given[i].set;
    if (option->kind == OPTION_REFERENCE)
        return set_reference(o->command, text);
    if (!text)
        return true;
    switch (option->kind) {
    case OPTION_INT:
        return read_int(o->command, name, text, option->min, option->max,
                        value);
    case OPTION_COUNT:
        return read_count(o->command, name, text, value);
    case OPTION_SIZE:
        return read_size(o->command, name, text, value);
    case OPTION_NUMBER:
        return read_number(o->command, name, text, option->max, value);
    case OPTION_SEED:
        return tools_parse_u64(text, value) ||
               !options_fail(o->command,
                             "%s: '%s' is not a number in 0 .. 2^64 - 1", name,
                             text);
    case OPTION_CHOICE:
        index = choose(o->command, name, text, option->words);
        *(unsigned *)value = (unsigned)index;
        return index >= 0;
    default:
        *(const char **)value = text;
        return true;
    }
}

// Takes the values of a table's options, of which the first is number i.
static bool take_all(const struct options *o, const struct option *table, int i,
                     void *values)
{
    for (; table->name; table++, i++)
        if (!take(o, table, i, (char *)values + table->at))
            return false;
    return true;
}

// Adds a table's options to popt's, from number i on; returns the next one's.
static int fill_table(struct options *o, const struct option *table, int i)
{
    for (; table->name; table++, i++) {
        bool flag = table->kind == OPTION_FLAG;

        assert(i < OPTIONS_MAX);
        o->table[i] = (struct poptOption){
            table->name,
            table->letter,
            flag ? POPT_ARG_NONE : POPT_ARG_STRING,
            flag ? (void *)&o->given[i].set : &o->given[i].text,
            0,
            table->what,
            table->arg};
    }
    return i;
}

// ---- --help ----------------------------------------------------------------

enum { HELP_AT = 26, HELP_WIDTH = 79 };  // columns of the texts

static void print_text(const char *text, int column)
{
    while (*text) {
        int n = (int)strcspn(text, " ");

        if (column > HELP_AT && column + 1 + n > HELP_WIDTH) {
            printf("\n%*s", HELP_AT, "");
            column = HELP_AT;
        }
        column += printf("%s%.*s", column > HELP_AT ? " " : "", n, text);
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

// A row on one line, or its names and its text on two; down to --help, or to
// the end. Returns what is behind them.
static const struct poptOption *print_rows(const struct poptOption *row)
{
    for (bool more = true; more && row->longName; row++) {
        char letter[8] = "    ";
        int column;

        if (row->shortName)
            snprintf(letter, sizeof(letter), "-%c, ", row->shortName);
        column = printf("  %s--%s%s%s", letter, row->longName,
                        row->argDescrip ? "=" : "",
                        row->argDescrip ? row->argDescrip : "");
        if (column + 2 > HELP_AT) {
            putchar('\n');
            column = 0;
        }
        printf("%*s", HELP_AT - column, "");
        print_text(row->descrip, HELP_AT);
        more = row->val != HELP;
    }
    return row;
}

static void print_ops(void)
{
    const struct hr_op_info *info;
    int column = printf("\nNames in --ops are torchvision's:") - 1;

    for (int i = 1; (info = hr_op_info((enum hr_op_type)i)); i++)
        for (const char *at = info->usage; *at;) {
            const char *end = strstr(at, ", ");
            int length = (int)(end ? end - at : (long)strlen(at));
            bool first = i == 1 && at == info->usage;
            bool wraps = column + length + 3 > 80;

            printf("%s%c%.*s", first ? "" : ",", wraps ? '\n' : ' ', length,
                   at);
            column = (wraps ? 0 : column + 2) + length;
            at += end ? length + 2 : length;
        }
    puts(".");
}

static void print_help(const struct options *o)
{
    const struct poptOption *more;

    printf("Usage: headrace %s %s\n", o->command, o->usage);
    more = print_rows(o->table);
    if (o->pictures)
        puts(
            "\nLists of pictures, and limits; a picture beyond a limit fails:");
    print_rows(more);
    if (o->ops)
        print_ops();
    fputs(o->example, stdout);
}

// To its table. --help is printed, with the example behind it.
static int read_texts(struct options *o)
{
    int rc = poptGetNextOpt(o->con);

    if (rc < -1)
        return options_fail(o->command, "%s: %s (see headrace %s --help)",
                            poptBadOption(o->con, POPT_BADOPTION_NOALIAS),
                            poptStrerror(rc), o->command);
    o->done = rc == HELP;
    if (!o->done)
        return TOOLS_OK;
    print_help(o);
    return tools_flush_stdout();
}

int options_parse(struct options *o, const struct option *table, void *values,
                  int argc, char **argv)
{
    int code, n = fill_table(o, table, 0);

    o->table[n++] = (struct poptOption){"help", 'h',  POPT_ARG_NONE,
                                        NULL,   HELP, "show this",
                                        NULL};
    if (o->pictures)
        fill_table(o, pictures, n);
    o->con = poptGetContext(NULL, argc, (const char **)argv, o->table, 0);
    if (!o->con)
        return options_fail(o->command, "out of memory");
    poptSetOtherOptionHelp(o->con, o->usage);
    code = read_texts(o);
    if (code || o->done)
        return code;
    return take_all(o, table, 0, values) &&
                   (!o->pictures || take_all(o, pictures, n, o))
               ? TOOLS_OK
               : TOOLS_CANNOT;
}

void options_finish(struct options *o)
{
    if (o->con)
        poptFreeContext(o->con);
    for (int i = 0; i < OPTIONS_MAX; i++)
        free(o->given[i].text);
}
