// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/options.h"
#include "tools/common/tools.h"

static const char usage[] =
    "INPUT... [OPTION...]\n\n"
    "INPUT is a file or a folder; --list may stand in its place.\n";

static const char example[] =
    "\nMeasures every backend with every number of threads in turns, and says\n"
    "what the device gains and where the time goes.\n"
    "\nExample: would OpenCL feed a network that takes 30 ms per batch?\n"
    "  headrace profile train/ --backends cpu,opencl --consumer 30 \\\n"
    "    --report profile.html --trace profile.json\n";

static bool add_backend(struct profile_options *opt, const char *name)
{
    for (int i = 0; i < opt->num_backends; i++)
        if (!strcmp(opt->backends[i], name))
            return true;
    if (opt->num_backends == PROFILE_BACKENDS)
        return false;
    opt->backends[opt->num_backends++] = name;
    return true;
}

// The CPU is always measured: everything is compared with it.
static int read_backends(struct profile *p)
{
    char *text = p->automatic, *save = NULL;
    bool ok = add_backend(&p->opt, "cpu");

    if (p->opt.names)
        text = p->names = strdup(p->opt.names);
    else
        profile_find_automatic(p);
    if (!text)
        return options_fail("profile", "out of memory");
    for (char *w = strtok_r(text, ",", &save); ok && w;
         w = strtok_r(NULL, ",", &save))
        ok = add_backend(&p->opt, w);
    return ok ? TOOLS_OK
              : options_fail("profile", "--backends: more than %d devices",
                             PROFILE_BACKENDS - 1);
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void default_threads(struct profile_options *opt)
{
    int cores = tools_cores();

    for (int n = 1; n < cores && opt->num_threads < PROFILE_THREADS - 1; n *= 2)
        opt->threads[opt->num_threads++] = n;
    opt->threads[opt->num_threads++] = cores > 0 ? cores : 1;
}

static int read_threads(struct profile_options *opt, const char *text)
{
    int n = 0;
    char *end;

    for (const char *at = text; at; at = end + 1) {
        long value = strtol(at, &end, 10);

        if (end == at || (*end && *end != ',') || value < 1 || value > 256 ||
            opt->num_threads == PROFILE_THREADS)
            return options_fail("profile",
                                "--threads: '%s' is not a list of at most 16 "
                                "numbers in 1 .. 256",
                                text);
        opt->threads[opt->num_threads++] = (int)value;
        if (!*end)
            break;
    }
    if (!text)
        default_threads(opt);
    qsort(opt->threads, (size_t)opt->num_threads, sizeof(int), compare_ints);
    for (int i = 0; i < opt->num_threads; i++)
        if (!n || opt->threads[i] != opt->threads[n - 1])
            opt->threads[n++] = opt->threads[i];
    opt->num_threads = n;
    return TOOLS_OK;
}

static int check_times(const struct profile_options *opt)
{
    if (opt->consumer_cpu && opt->consumer_ms <= 0)
        return options_fail("profile", "--consumer-cpu needs --consumer MS");
    if (opt->run.latency_ms && !opt->run.balance)
        return options_fail("profile", "--latency needs --balance");
    return TOOLS_OK;
}

// Before anything is measured.
static int check_outputs(const struct profile_options *opt)
{
    const char *paths[] = {opt->report, opt->trace};

    if (opt->report && opt->trace && !strcmp(opt->report, opt->trace))
        return options_fail("profile", "--report and --trace are one file");
    for (int i = 0; i < 2; i++)
        if (paths[i] && !report_writable(paths[i])) {
            tools_warn("%s: cannot be written: %s", paths[i], strerror(errno));
            return TOOLS_CANNOT;
        }
    return TOOLS_OK;
}

// Spread over all of them: one folder may hold one kind of picture.
static void thin_out(struct inputs *in, size_t limit)
{
    if (in->num <= limit)
        return;
    for (size_t i = 0; i < limit; i++)
        in->items[i] =
            in->items[(size_t)((double)i * (double)in->num / (double)limit)];
    in->num = limit;
}

// In an order that is the same for all: however few of a sorted folder's
// pictures there is time for, they are of all kinds.
static void shuffle(struct inputs *in)
{
    uint64_t state = 1;

    for (size_t i = in->num; i > 1; i--) {
        size_t k;

        state = state * 6364136223846793005u + 1442695040888963407u;
        k = (size_t)((state >> 33) % i);
        if (k != i - 1) {
            struct inputs_item item = in->items[i - 1];

            in->items[i - 1] = in->items[k];
            in->items[k] = item;
        }
    }
}

static int read_inputs(struct profile *p)
{
    struct run_options *run = &p->opt.run;
    uint64_t limit = run->limit ? run->limit : 4096;

    if (!options_source(&p->line, &run->limits, &p->in))
        return TOOLS_CANNOT;
    thin_out(&p->in, limit < INT_MAX ? (size_t)limit : INT_MAX);
    for (size_t i = 0; i < p->in.num; i++)
        inputs_look(&p->in, i);
    shuffle(&p->in);
    return options_pictures(&p->in, p->opt.quiet) ? TOOLS_OK : TOOLS_CANNOT;
}

// Reads the options that the table leaves as text.
static int read_texts(struct profile *p)
{
    struct profile_options *opt = &p->opt;
    struct run_options *run = &opt->run;

    if (check_times(opt))
        return TOOLS_CANNOT;
    run->ops_text = options_ops("profile", run->ops_text, run->dtype,
                                &run->ops);
    if (!run->ops_text || read_backends(p) ||
        read_threads(opt, opt->threads_text) || read_inputs(p))
        return TOOLS_CANNOT;
    return check_outputs(opt);
}

#define AT(field) offsetof(struct profile_options, field)
static const struct option table[] = {
    {"backends", OPTION_TEXT, AT(names),
     "devices besides cpu, which is always measured [auto]", .arg = "NAME,..."},
    {"ops", OPTION_TEXT, AT(run.ops_text),
     "what to do with each picture [" OPS_EVALUATION "]", .arg = "LIST"},
    {"batch", OPTION_INT, AT(run.batch), "pictures per job [64]", "N", .min = 1,
     .max = 65536},
    {"threads", OPTION_TEXT, AT(threads_text), "host threads [1,2,4,.. cores]",
     .arg = "N,..."},
    {"balance", OPTION_FLAG, AT(run.balance),
     .what = "share the pictures between a device and the CPU"},
    {"cpu-cap", OPTION_INT, AT(run.cpu_cap),
     "bound on the host threads, in percent of the cores [100]", "PCT",
     .min = 1, .max = 100},
    {"latency", OPTION_INT, AT(run.latency_ms),
     "with --balance: target for the 99th percentile of a batch's latency",
     "MS", .min = 1, .max = 3600000},
    {"consumer", OPTION_NUMBER, AT(consumer_ms),
     "the network takes MS per batch", "MS", .max = 60000},
    {"consumer-cpu", OPTION_INT, AT(consumer_cpu),
     "the network takes PCT % of one core meanwhile [0]", "PCT", .max = 100},
    {"seconds", OPTION_NUMBER, AT(seconds),
     "about how long to measure, in all [20]", "S", .max = 86400},
    {"memory", OPTION_FLAG, AT(memory),
     .what = "read the pictures before, not while measuring"},
    {"cache", OPTION_SIZE, AT(run.cache),
     "memory that keeps pictures for the next time [none]", .arg = "BYTES"},
    {"limit", OPTION_COUNT, AT(run.limit),
     "only N pictures, spread over all [4096]", .arg = "N"},
    {"dtype", OPTION_CHOICE, AT(run.dtype), "element type [f32]", "f32|f16|u8",
     .words = options_dtypes},
    {"tier", OPTION_CHOICE, AT(run.tier), "how exact pictures must be [exact]",
     "exact|close|fast", .words = options_tiers},
    {"reference", OPTION_REFERENCE, 0,
     "release whose pixels are made [pillow-13]",
     .arg = "pillow-12|pillow-12.2|pillow-13|torch-2"},
    {"trace", OPTION_TEXT, AT(trace), "write a trace of a part of it",
     .arg = "FILE.json"},
    {"report", OPTION_TEXT, AT(report), "write a page with charts",
     .arg = "FILE.html"},
    {"json", OPTION_FLAG, AT(json),
     .what = "print everything as one JSON object"},
    {"quiet", OPTION_FLAG, AT(quiet), "no progress", .letter = 'q'},
    {0},
};
#undef AT

int profile_options(struct profile *p, int argc, char **argv)
{
    int code;

    p->opt.run.batch = 64;
    p->opt.run.epochs = 1;
    p->opt.seconds = 20;
    p->line = (struct options){"profile", usage, example, .pictures = true};
    code = options_parse(&p->line, table, &p->opt, argc, argv);
    return code || p->line.done ? code : read_texts(p);
}

void profile_options_finish(struct profile *p)
{
    free(p->names);
    options_finish(&p->line);
    inputs_finish(&p->in);
}
