// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/report/report.h"
#include "validate.h"

static const char usage[] =
    "INPUT... [--backend NAME] [OPTION...]\n\n"
    "INPUT is a file or a folder; --list may stand in its place.\n";

static const char example[] =
    "\nRuns the chain of --ops on the device and on the CPU, to its end and\n"
    "cut after each stage, and compares every sample.\n"
    "Exit codes: 0 within the tier's contract; 1 not, or an input could not\n"
    "be read; 2 could not run, or the device did not make the pictures.\n"
    "\nExample: a thousand pictures of a folder, with a report\n"
    "  headrace validate train/ --backend opencl --limit 1000 \\\n"
    "    --report validate.html\n"
    "Example: this machine's CPU kernels against the readable C\n"
    "  headrace validate photos/ --backend cpu --against reference\n";

// Reads the options that the table leaves as text.
static int read_texts(struct validate *v)
{
    struct validate_options *opt = &v->opt;

    opt->ops_text = options_ops("validate", opt->ops_text, opt->dtype,
                                &opt->ops);
    if (!opt->ops_text)
        return TOOLS_CANNOT;
    if (opt->report && !report_writable(opt->report)) {
        tools_warn("%s: the report cannot be written: %s", opt->report,
                   strerror(errno));
        return TOOLS_CANNOT;
    }
    return options_source(&v->line, &opt->limits, &v->in) ? TOOLS_OK
                                                          : TOOLS_CANNOT;
}

static const char *const sides[] = {"cpu", "reference", NULL};

#define AT(field) offsetof(struct validate_options, field)
static const struct option table[] = {
    {"backend", OPTION_TEXT, AT(backend), "device to check [auto]",
     .arg = "NAME"},
    {"against", OPTION_CHOICE, AT(against),
     "the CPU engine with its kernels, or its readable C [cpu; for "
     "the CPU itself: reference]",
     "cpu|reference", .words = sides},
    {"ops", OPTION_TEXT, AT(ops_text),
     "what to do with each picture [" OPS_EVALUATION "]", .arg = "LIST"},
    {"tier", OPTION_CHOICE, AT(tier), "how exact pictures must be [exact]",
     "exact|close|fast", .words = options_tiers},
    {"dtype", OPTION_CHOICE, AT(dtype), "element type [f32]", "f32|f16|u8",
     .words = options_dtypes},
    {"reference", OPTION_REFERENCE, 0,
     "release whose pixels both make [pillow-13]",
     .arg = "pillow-12|pillow-12.2|pillow-13|torch-2"},
    {"limit", OPTION_COUNT, AT(limit), "only N pictures, chosen by the seed",
     .arg = "N"},
    {"seed", OPTION_SEED, AT(seed), "seed of that choice and of random ops [0]",
     .arg = "N"},
    {"report", OPTION_TEXT, AT(report), "write a page with the differences",
     .arg = "FILE.html"},
    {"threads", OPTION_INT, AT(threads), "host threads; 0 = usable cores [0]",
     "N", .max = 4096},
    {"json", OPTION_FLAG, AT(json), .what = "print one JSON object"},
    {"quiet", OPTION_FLAG, AT(quiet), "only the verdict, no progress",
     .letter = 'q'},
    {0},
};
#undef AT

int validate_options(struct validate *v, int argc, char **argv)
{
    int code;

    v->opt.against = VALIDATE_UNSAID;
    v->line = (struct options){"validate", usage, example, .pictures = true};
    code = options_parse(&v->line, table, &v->opt, argc, argv);
    return code || v->line.done ? code : read_texts(v);
}
