// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/options.h"
#include "tools/common/tools.h"

static const char example[] =
    "\nExample: the ImageNet evaluation transform of a folder, one array\n"
    "  headrace run val/ --out val.npy\n"
    "Example: the files of a list; FILE may have a tab and a label behind each\n"
    "  find val/ -name '*.JPEG' | headrace run --list - --out val.npy\n"
    "Example: training crops, nothing kept, three epochs measured\n"
    "  headrace run train/ --out none --epochs 3 --ops \\\n"
    "    decode,random_resized_crop=224,random_hflip,normalize=imagenet\n";

// popt has no place of its own for a description.
static const char usage[] =
    "INPUT... --out FILE.npy|DIR/|none [OPTION...]\n"
    "\n"
    "Decodes every picture that an INPUT (a file or a folder) or --list names,\n"
    "applies the list of ops, and writes the tensors as .npy files, with a list\n"
    "of each picture's result.\n";

// A name that is neither of the two is more likely mistyped than meant as a
// folder: that has its slash, or is there.
static int read_out(struct run_options *opt)
{
    const char *out = opt->out;
    size_t length = out ? strlen(out) : 0;
    struct stat st;

    if (!length)
        return options_fail("run", "--out is missing: FILE.npy, DIR/ or none");
    if (!strcmp(out, "none"))
        opt->out_kind = RUN_OUT_NONE;
    else if (out[length - 1] == '/' || (!stat(out, &st) && S_ISDIR(st.st_mode)))
        opt->out_kind = RUN_OUT_FOLDER;
    else if (length > 4 && !strcmp(out + length - 4, ".npy"))
        opt->out_kind = RUN_OUT_ARRAY;
    else
        return options_fail("run",
                            "--out: '%s' is neither FILE.npy nor a folder "
                            "that is there; %s",
                            out,
                            strcmp(out, "-") ? "a new folder ends in a slash"
                                             : "nothing is written to standard "
                                               "output");
    return TOOLS_OK;
}

// Reads the options that the table leaves as text.
static int read_texts(struct run *run)
{
    struct run_options *opt = &run->opt;

    if (opt->latency_ms && !opt->balance)
        return options_fail("run", "--latency needs --balance");
    if (read_out(opt))
        return TOOLS_CANNOT;
    run->in.cifar = opt->cifar;
    opt->ops_text = options_ops("run", opt->ops_text, opt->dtype, &opt->ops);
    return opt->ops_text && options_source(&run->line, &opt->limits, &run->in)
               ? TOOLS_OK
               : TOOLS_CANNOT;
}

static const char *const layouts[] = {"nchw", "nhwc", NULL};
static const char *const policies[] = {"fail", "zero", "skip", NULL};
static const char *const cifars[] = {"none", "10", "100", "100-coarse", NULL};
static const char *const memories[] = {"host", "pinned", "device", NULL};

#define AT(field) offsetof(struct run_options, field)
static const struct option table[] = {
    {"ops", OPTION_TEXT, AT(ops_text),
     "what to do with each picture [" OPS_EVALUATION "]", .arg = "LIST"},
    {"out", OPTION_TEXT, AT(out), "one array, one file per picture, or nothing",
     .arg = "FILE.npy|DIR/|none"},
    {"backend", OPTION_TEXT, AT(backend), "device [auto]", .arg = "NAME"},
    {"threads", OPTION_INT, AT(threads), "host threads; 0 = usable cores [0]",
     "N", .max = 4096},
    {"balance", OPTION_FLAG, AT(balance),
     .what = "share the pictures between the device and the CPU"},
    {"cpu-cap", OPTION_INT, AT(cpu_cap),
     "bound on the host threads, in percent of the cores [100]", "PCT",
     .min = 1, .max = 100},
    {"latency", OPTION_INT, AT(latency_ms),
     "with --balance: target for the 99th percentile of a batch's latency",
     "MS", .min = 1, .max = 3600000},
    {"deadline", OPTION_INT, AT(deadline_s),
     "time of the device, before its work goes to the next engine [10]",
     "SECONDS", .min = 1, .max = 3600},
    {"batch", OPTION_INT, AT(batch), "pictures per job [64]", "N", .min = 1,
     .max = 65536},
    {"seed", OPTION_SEED, AT(seed), "seed of the random ops [0]", .arg = "N"},
    {"epochs", OPTION_INT, AT(epochs),
     "passes over the input; the last one is written [1]", "N", .min = 1,
     .max = 1000000},
    {"cifar", OPTION_CHOICE, AT(cifar),
     "each INPUT is a binary file of CIFAR-10 or CIFAR-100",
     "10|100|100-coarse", .words = cifars},
    {"limit", OPTION_COUNT, AT(limit), "only the first N pictures", .arg = "N"},
    {"dtype", OPTION_CHOICE, AT(dtype), "element type [f32]", "f32|f16|u8",
     .words = options_dtypes},
    {"layout", OPTION_CHOICE, AT(layout), "order of the axes [nchw]",
     "nchw|nhwc", .words = layouts},
    {"on-error", OPTION_CHOICE, AT(on_error),
     "fail: zero the row of a bad picture and exit with 1; zero: zero the row; "
     "skip: leave it out [fail]",
     "fail|skip|zero", .words = policies},
    {"tier", OPTION_CHOICE, AT(tier), "how exact pictures must be [exact]",
     "exact|close|fast", .words = options_tiers},
    {"reference", OPTION_REFERENCE, 0,
     "release whose pixels are made [pillow-13]",
     .arg = "pillow-12|pillow-12.2|pillow-13|torch-2"},
    {"memory", OPTION_CHOICE, AT(memory), "where the tensors lie [host]",
     "host|pinned|device", .words = memories},
    {"strict", OPTION_FLAG, AT(strict),
     .what = "never fall back to another engine"},
    {"budget", OPTION_SIZE, AT(budget),
     "memory for pictures in flight, as 64M or 1G [256M]", .arg = "BYTES"},
    {"cache", OPTION_SIZE, AT(cache),
     "memory that keeps pictures for the next epochs [none]", .arg = "BYTES"},
    {"timeout", OPTION_NUMBER, AT(timeout_s),
     "give up on a job after this long", "SECONDS", .max = 1000000000},
    {"json", OPTION_FLAG, AT(json),
     .what = "print the summary as one JSON object"},
    {"quiet", OPTION_FLAG, AT(quiet), "no progress, no summary; errors only",
     .letter = 'q'},
    {0},
};
#undef AT

int run_options(struct run *run, int argc, char **argv)
{
    struct run_options *o = &run->opt;
    int code;

    o->batch = 64;
    o->epochs = 1;
    run->line = (struct options){"run", usage, example, true, .ops = true};
    code = options_parse(&run->line, table, o, argc, argv);
    return code || run->line.done ? code : read_texts(run);
}
