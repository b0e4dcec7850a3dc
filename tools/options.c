// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const options_dtypes[] = {"f32", "f16", "u8", NULL};
const char *const options_tiers[] = {"close", "exact", "fast", NULL};

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

int options_read(const char *command, poptContext con, const char *example,
                 bool *done)
{
    int rc = poptGetNextOpt(con);

    if (rc < -1)
        return options_fail(command, "%s: %s",
                            poptBadOption(con, POPT_BADOPTION_NOALIAS),
                            poptStrerror(rc));
    *done = rc == OPTIONS_HELP;
    if (!*done)
        return TOOLS_OK;
    poptPrintHelp(con, stdout, 0);
    fputs(example, stdout);
    return tools_flush_stdout();
}

int options_choose(const char *command, const char *option, const char *word,
                   const char *const *list)
{
    char all[128] = "";

    for (int i = 0; list[i]; i++) {
        if (!strcmp(word, list[i]))
            return i;
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
                 i ? ", " : "", list[i]);
    }
    options_fail(command, "%s: '%s' is none of %s", option, word, all);
    return -1;
}

bool options_int(const char *command, const char *option, const char *text,
                 int min, int max, int *value)
{
    long number;
    char *end;

    if (!text)
        return true;
    number = strtol(text, &end, 10);
    if (end == text || *end || number < min || number > max) {
        options_fail(command, "%s: '%s' is not a number in %d .. %d", option,
                     text, min, max);
        return false;
    }
    *value = (int)number;
    return true;
}

bool options_count(const char *command, const char *option, const char *text,
                   uint64_t *value)
{
    if (!text || (tools_parse_u64(text, value) && *value))
        return true;
    options_fail(command, "%s: '%s' is not a number in 1 .. 2^64 - 1", option,
                 text);
    return false;
}

bool options_seed(const char *command, const char *text, uint64_t *value)
{
    if (!text || tools_parse_u64(text, value))
        return true;
    options_fail(command, "--seed: '%s' is not a number in 0 .. 2^64 - 1",
                 text);
    return false;
}

bool options_reference(const char *command, const char *text)
{
    enum hr_reference reference = hr_reference_find(text);
    char all[128] = "";

    if (!text || reference) {
        hr_set_reference(reference);
        return true;
    }
    for (int i = 1; i < HR_NUM_REFERENCES; i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
                 i > 1 ? ", " : "", hr_reference_name((enum hr_reference)i));
    options_fail(command, "--reference: '%s' is none of %s", text, all);
    return false;
}

const char *options_ops(const char *command, const char *text,
                        enum hr_dtype dtype, struct ops_list *list)
{
    char error[320];

    if (!text)
        text = dtype == HR_U8 ? OPS_EVALUATION_U8 : OPS_EVALUATION;
    if (ops_parse(list, text, error, sizeof(error)))
        return text;
    options_fail(command, "--ops: %s", error);
    return NULL;
}

bool options_inputs(const char *command, poptContext con, struct inputs *inputs)
{
    const char *input;

    if (!poptPeekArg(con)) {
        options_fail(command,
                     "name a folder or a picture (see headrace %s --help)",
                     command);
        return false;
    }
    while ((input = poptGetArg(con)))
        if (!inputs_add(inputs, input)) {
            tools_warn("%s", inputs->error);
            return false;
        }
    return true;
}

bool options_pictures(const struct inputs *inputs, bool quiet)
{
    if (inputs->skipped && !quiet)
        tools_warn("passed over %zu %s (%s%s)", inputs->skipped,
                   inputs->skipped == 1 ? "entry that is no regular file"
                                        : "entries that are no regular files",
                   inputs->skipped == 1 ? "" : "the first is ",
                   inputs->first_skipped ? inputs->first_skipped : "?");
    if (!inputs->num)
        tools_warn("no pictures found (.jpg .jpeg .jpe .jfif .png .mpo)");
    return inputs->num > 0;
}
