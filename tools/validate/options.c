// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/report/report.h"
#include "validate.h"

static const char example[] =
    "\nRuns the chain of --ops on the device and on the CPU, to its end and\n"
    "cut after each stage, and compares every sample.\n"
    "Exit codes: 0 within the tier's contract, 1 not, or something could not\n"
    "be read, 2 could not run, or the device did not make what was compared.\n"
    "\nExample: a thousand pictures of a folder, with a report to look at\n"
    "  headrace validate train/ --backend opencl --limit 1000 \\\n"
    "    --report validate.html\n"
    "Example: this machine's CPU kernels against the readable C\n"
    "  headrace validate photos/ --backend cpu --against reference\n";

static int read_words(struct validate_options *opt,
                      const struct validate_words *words)
{
    static const char *const sides[] = {"cpu", "reference", NULL};
    int side = options_choose("validate", "--against",
                              words->against ? words->against : "cpu", sides);
    int dtype = options_choose("validate", "--dtype",
                               words->dtype ? words->dtype : "f32",
                               options_dtypes);
    int tier = options_choose("validate", "--tier",
                              words->tier ? words->tier : "close",
                              options_tiers);

    if (side < 0 || dtype < 0 || tier < 0 ||
        !options_reference("validate", words->reference))
        return TOOLS_CANNOT;
    opt->against = (enum validate_against)side;
    opt->dtype = (enum hr_dtype)dtype;
    opt->tier = (enum hr_tier)tier;
    return TOOLS_OK;
}

static int read_rest(struct validate_options *opt,
                     const struct validate_words *words)
{
    if (!options_count("validate", "--limit", words->limit, &opt->limit) ||
        !options_seed("validate", words->seed, &opt->seed) ||
        !options_int("validate", "--threads", words->threads, 0, 4096,
                     &opt->threads))
        return TOOLS_CANNOT;
    opt->json = words->json;
    opt->quiet = words->quiet;
    opt->backend = words->backend;
    opt->report = words->report;
    opt->ops_text = options_ops("validate", words->ops, opt->dtype, &opt->ops);
    if (!opt->ops_text)
        return TOOLS_CANNOT;
    if (opt->report && !report_writable(opt->report)) {
        tools_warn("%s: the report cannot be written: %s", opt->report,
                   strerror(errno));
        return TOOLS_CANNOT;
    }
    return TOOLS_OK;
}

static int read_all(struct validate *v, poptContext con)
{
    if (read_words(&v->opt, &v->words) || read_rest(&v->opt, &v->words) ||
        !options_source("validate", con, &v->words.source, &v->opt.limits,
                        &v->in))
        return TOOLS_CANNOT;
    return TOOLS_OK;
}

int validate_options(struct validate *v, int argc, char **argv, bool *done)
{
    struct validate_words *t = &v->words;
    struct poptOption source[OPTIONS_SOURCE_TABLE];
    const struct poptOption table[] = {
#define TEXT(name, field, what, arg) \
    {name, 0, POPT_ARG_STRING, &t->field, 0, what, arg}
#define FLAG(name, letter, field, what)                       \
    {                                                         \
        name, letter, POPT_ARG_NONE, &t->field, 0, what, NULL \
    }
        TEXT("backend", backend, "device to look at [auto]", "NAME"),
        TEXT("against", against,
             "the CPU engine as it is used, or its readable C [cpu; of the "
             "CPU: reference]",
             "cpu|reference"),
        TEXT("ops", ops, "what to do with each picture [" OPS_EVALUATION "]",
             "LIST"),
        TEXT("tier", tier, "the contract to hold [close]", "exact|close|fast"),
        TEXT("dtype", dtype, "element type [f32]", "f32|f16|u8"),
        TEXT("reference", reference, "whose resize both make [pillow-13]",
             "pillow-12|pillow-12.2|pillow-13"),
        TEXT("limit", limit, "only N pictures, chosen by the seed", "N"),
        TEXT("seed", seed, "of that choice and of random ops [0]", "N"),
        TEXT("report", report, "write a page to look at", "FILE.html"),
        TEXT("threads", threads, "host threads; 0 = usable cores [0]", "N"),
        FLAG("json", 0, json, "print one JSON object"),
        FLAG("quiet", 'q', quiet, "only the verdict, no progress"),
        {"help", 'h', POPT_ARG_NONE, NULL, OPTIONS_HELP, "show this", NULL},
        OPTIONS_SOURCE(source),
        POPT_TABLEEND
#undef TEXT
#undef FLAG
    };
    poptContext con;
    int code;

    options_source_table(&t->source, source);
    con = poptGetContext(NULL, argc, (const char **)argv, table, 0);
    if (!con)
        return options_fail("validate", "out of memory");
    poptSetOtherOptionHelp(con, "INPUT... [--backend NAME] [OPTION...]\n\n"
                                "INPUT is a file or a folder; --list may stand "
                                "in its place.\n");
    code = options_read("validate", con, example, done);
    if (code == TOOLS_OK && !*done)
        code = read_all(v, con);
    poptFreeContext(con);
    return code;
}

void validate_words_finish(struct validate_words *words)
{
    free(words->ops);
    free(words->backend);
    free(words->against);
    free(words->tier);
    free(words->dtype);
    free(words->limit);
    free(words->seed);
    free(words->report);
    free(words->threads);
    free(words->reference);
    options_source_finish(&words->source);
}
