// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <math.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common/options.h"
#include "tools/common/tools.h"

static const char example[] =
    "\nNames in --ops are torchvision's: decode[=gray|rgb|exif],\n"
    "resize=N|WxH[:FILTER[:ORDER]], fit=N|WxH[:FILTER[:ORDER]],\n"
    "center_crop=N|WxH, crop=X,Y,W,H, random_crop=N|WxH[:P],\n"
    "random_resized_crop=N|WxH[:FILTER[:ORDER]], hflip, vflip, transpose,\n"
    "random_hflip[=P], random_vflip[=P], to_tensor,\n"
    "normalize=imagenet|M,M,M/S,S,S[:v2].\n"
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
    "Decodes every JPEG and PNG that an INPUT (a file or a folder) or --list\n"
    "names, does the list of ops to it, and writes the tensors as .npy files,\n"
    "with a list of what became of each picture.\n";

static int choose(const char *option, const char *word, const char *const *list)
{
    return options_choose("run", option, word, list);
}

static int read_words(struct run_options *opt, const struct run_words *words)
{
    static const char *const layouts[] = {"nchw", "nhwc", NULL};
    static const char *const policies[] = {"fail", "zero", "skip", NULL};
    static const char *const memories[] = {"host", "pinned", "device", NULL};
    int memory = choose("--memory", words->memory ? words->memory : "host",
                        memories);
    int dtype = choose("--dtype", words->dtype ? words->dtype : "f32",
                       options_dtypes);
    int layout = choose("--layout", words->layout ? words->layout : "nchw",
                        layouts);
    int policy = choose("--on-error",
                        words->on_error ? words->on_error : "fail", policies);
    int tier = choose("--tier", words->tier ? words->tier : "close",
                      options_tiers);

    if (dtype < 0 || layout < 0 || policy < 0 || tier < 0 || memory < 0 ||
        !options_reference("run", words->reference))
        return TOOLS_CANNOT;
    opt->memory = (enum hr_memory)memory;
    opt->dtype = (enum hr_dtype)dtype;
    opt->layout = (enum hr_layout)layout;
    opt->on_error = (enum hr_on_error)policy;
    opt->tier = (enum hr_tier)tier;
    return TOOLS_OK;
}

static int read_timeout(struct run_options *opt, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds > 0 && seconds <= 1e9))
        return options_fail("run",
                            "--timeout: '%s' is not a number of seconds above "
                            "0",
                            text);
    opt->timeout_ns = (int64_t)ceil(seconds * 1e9);
    return TOOLS_OK;
}

static int read_numbers(struct run_options *opt, const struct run_words *words)
{
    if (!options_seed("run", words->seed, &opt->seed) ||
        !options_count("run", "--limit", words->limit, &opt->limit) ||
        !options_int("run", "--threads", words->threads, 0, 4096,
                     &opt->threads) ||
        !options_int("run", "--batch", words->batch, 1, 65536, &opt->batch) ||
        !options_int("run", "--epochs", words->epochs, 1, 1000000,
                     &opt->epochs))
        return TOOLS_CANNOT;
    if (words->budget && !tools_parse_size(words->budget, &opt->budget))
        return options_fail("run",
                            "--budget: '%s' is not a size such as 64M or 1G",
                            words->budget);
    return words->timeout ? read_timeout(opt, words->timeout) : TOOLS_OK;
}

// A name that is neither of the two is more likely mistyped than meant as a
// folder: that has its slash, or is there.
static int read_out(struct run_options *opt, const char *out)
{
    size_t length = out ? strlen(out) : 0;
    struct stat st;

    if (!length)
        return options_fail("run", "--out is missing: FILE.npy, DIR/ or none");
    opt->out = out;
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

static int read_all(struct run *run, const struct run_words *words,
                    poptContext con)
{
    struct run_options *opt = &run->opt;

    opt->json = words->json;
    opt->quiet = words->quiet;
    opt->strict = words->strict;
    opt->backend = words->backend;
    if (read_words(opt, words) || read_numbers(opt, words) ||
        read_out(opt, words->out))
        return TOOLS_CANNOT;
    opt->ops_text = options_ops("run", words->ops, opt->dtype, &opt->ops);
    return opt->ops_text && options_source("run", con, &words->source,
                                           &opt->limits, &run->in)
               ? TOOLS_OK
               : TOOLS_CANNOT;
}

static int act(struct run *run, const struct run_words *t, poptContext con,
               bool *done)
{
    int code = options_read("run", con, example, done);

    return code || *done ? code : read_all(run, t, con);
}

static int parse(struct run *run, struct run_words *t, int argc, char **argv,
                 bool *done)
{
    struct poptOption source[OPTIONS_SOURCE_TABLE];
    const struct poptOption table[] = {
#define TEXT(name, field, what, arg) \
    {name, 0, POPT_ARG_STRING, &t->field, 0, what, arg}
        TEXT("ops", ops, "what to do with each picture [" OPS_EVALUATION "]",
             "LIST"),
        TEXT("out", out, "one array, one file per picture, or nothing",
             "FILE.npy|DIR/|none"),
        TEXT("backend", backend, "device [auto]", "NAME"),
        TEXT("threads", threads, "host threads; 0 = usable cores [0]", "N"),
        TEXT("batch", batch, "pictures per job [64]", "N"),
        TEXT("seed", seed, "of the random ops [0]", "N"),
        TEXT("epochs", epochs, "passes over the input, the last is written [1]",
             "N"),
        TEXT("limit", limit, "only the first N pictures", "N"),
        TEXT("dtype", dtype, "element type [f32]", "f32|f16|u8"),
        TEXT("layout", layout, "order of the axes [nchw]", "nchw|nhwc"),
        TEXT("on-error", on_error, "what to do about a bad picture [fail]",
             "fail|skip|zero"),
        TEXT("tier", tier, "how exact [close]", "exact|close|fast"),
        TEXT("reference", reference, "whose resize [pillow-13]",
             "pillow-12|pillow-12.2|pillow-13"),
        TEXT("memory", memory, "of the tensors [host]", "host|pinned|device"),
        {"strict", 0, POPT_ARG_NONE, &t->strict, 0,
         "never fall back to another engine", NULL},
        TEXT("budget", budget,
             "memory for pictures in flight, as 64M or 1G [256M]", "BYTES"),
        TEXT("timeout", timeout, "give up on a job after this long", "SECONDS"),
        {"json", 0, POPT_ARG_NONE, &t->json, 0,
         "print the summary as one JSON object", NULL},
        {"quiet", 'q', POPT_ARG_NONE, &t->quiet, 0,
         "no progress, no summary; errors only", NULL},
        {"help", 'h', POPT_ARG_NONE, NULL, OPTIONS_HELP, "show this", NULL},
        OPTIONS_SOURCE(source),
        POPT_TABLEEND
#undef TEXT
    };
    poptContext con;
    int code;

    options_source_table(&t->source, source);
    con = poptGetContext(NULL, argc, (const char **)argv, table, 0);
    if (!con)
        return options_fail("run", "out of memory");
    poptSetOtherOptionHelp(con, usage);
    code = act(run, t, con, done);
    poptFreeContext(con);
    return code;
}

int run_options(struct run *run, int argc, char **argv, bool *done)
{
    run->opt.batch = 64;
    run->opt.epochs = 1;
    return parse(run, &run->words, argc, argv, done);
}

void run_words_finish(struct run_words *words)
{
    free(words->ops);
    free(words->out);
    free(words->backend);
    free(words->seed);
    free(words->budget);
    free(words->limit);
    free(words->dtype);
    free(words->layout);
    free(words->on_error);
    free(words->tier);
    free(words->timeout);
    free(words->memory);
    free(words->threads);
    free(words->batch);
    free(words->epochs);
    free(words->reference);
    options_source_finish(&words->source);
}
