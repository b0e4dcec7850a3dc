// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/options.h"
#include "tools/common/tools.h"

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

// The CPU is always measured: everything is compared with it. The names stay
// in text, which is cut.
static int read_backends(struct profile *p, char *text)
{
    char *save = NULL;
    bool ok = add_backend(&p->opt, "cpu");

    if (!text) {
        profile_find_automatic(p);
        text = p->automatic;
    }
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
    int cores = profile_cores();

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

static bool read_number(const char *option, const char *text, double most,
                        double *value)
{
    char *end;

    if (!text)
        return true;
    *value = strtod(text, &end);
    if (end != text && !*end && *value > 0 && *value <= most)
        return true;
    options_fail("profile", "%s: '%s' is not a number above 0, at most %.0f",
                 option, text, most);
    return false;
}

static int read_times(struct profile_options *opt,
                      const struct profile_words *w)
{
    if (!read_number("--seconds", w->seconds, 86400, &opt->seconds) ||
        !read_number("--consumer", w->consumer, 60000, &opt->consumer_ms) ||
        !options_int("profile", "--consumer-cpu", w->consumer_cpu, 0, 100,
                     &opt->consumer_cpu))
        return TOOLS_CANNOT;
    if (opt->consumer_cpu && opt->consumer_ms <= 0)
        return options_fail("profile", "--consumer-cpu needs --consumer MS");
    return TOOLS_OK;
}

static int read_run(struct run_options *run, const struct profile_words *w)
{
    int dtype = options_choose("profile", "--dtype",
                               w->dtype ? w->dtype : "f32", options_dtypes);
    int tier = options_choose("profile", "--tier", w->tier ? w->tier : "close",
                              options_tiers);

    if (dtype < 0 || tier < 0 || !options_reference("profile", w->reference) ||
        !options_count("profile", "--limit", w->limit, &run->limit) ||
        !options_int("profile", "--batch", w->batch, 1, 65536, &run->batch))
        return TOOLS_CANNOT;
    run->epochs = 1;
    run->dtype = (enum hr_dtype)dtype;
    run->tier = (enum hr_tier)tier;
    run->ops_text = options_ops("profile", w->ops, run->dtype, &run->ops);
    return run->ops_text ? TOOLS_OK : TOOLS_CANNOT;
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

static int read_inputs(struct profile *p, poptContext con)
{
    uint64_t limit = p->opt.run.limit ? p->opt.run.limit : 4096;

    if (!options_source("profile", con, &p->words.source, &p->opt.run.limits,
                        &p->in))
        return TOOLS_CANNOT;
    thin_out(&p->in, limit < INT_MAX ? (size_t)limit : INT_MAX);
    for (size_t i = 0; i < p->in.num; i++)
        inputs_look(&p->in, i);
    shuffle(&p->in);
    return options_pictures(&p->in, p->opt.quiet) ? TOOLS_OK : TOOLS_CANNOT;
}

static int read_all(struct profile *p, poptContext con)
{
    struct profile_options *opt = &p->opt;
    const struct profile_words *w = &p->words;

    opt->trace = w->trace;
    opt->report = w->report;
    opt->memory = w->memory;
    opt->json = w->json;
    opt->quiet = w->quiet;
    opt->run.batch = 64;
    opt->seconds = 20;
    if (read_times(opt, w) || read_run(&opt->run, w) ||
        read_backends(p, w->backends) || read_threads(opt, w->threads) ||
        read_inputs(p, con))
        return TOOLS_CANNOT;
    return check_outputs(opt);
}

static int act(struct profile *p, poptContext con, bool *done)
{
    int code;

    if (!con)
        return options_fail("profile", "out of memory");
    poptSetOtherOptionHelp(con, "INPUT... [OPTION...]\n\n"
                                "INPUT is a file or a folder; --list may stand "
                                "in its place.\n");
    code = options_read("profile", con, example, done);
    if (code || *done)
        return code;
    return read_all(p, con);
}

int profile_options(struct profile *p, int argc, char **argv, bool *done)
{
    struct profile_words *w = &p->words;
    struct poptOption source[OPTIONS_SOURCE_TABLE];
    const struct poptOption table[] = {
#define TEXT(name, field, what, arg) \
    {name, 0, POPT_ARG_STRING, &w->field, 0, what, arg}
#define FLAG(name, field, what)                          \
    {                                                    \
        name, 0, POPT_ARG_NONE, &w->field, 0, what, NULL \
    }
        TEXT("backends", backends,
             "devices besides cpu, which always is [auto]", "NAME,..."),
        TEXT("ops", ops, "what to do with each picture [" OPS_EVALUATION "]",
             "LIST"),
        TEXT("batch", batch, "pictures per job [64]", "N"),
        TEXT("threads", threads, "host threads [1,2,4,.. cores]", "N,..."),
        TEXT("consumer", consumer, "a network takes MS per batch", "MS"),
        TEXT("consumer-cpu", consumer_cpu,
             "and takes PCT % of one core meanwhile [0]", "PCT"),
        TEXT("seconds", seconds, "to measure, about, all in all [20]", "S"),
        FLAG("memory", memory, "pictures are read before, not on the way"),
        TEXT("limit", limit, "only N pictures, spread over all [4096]", "N"),
        TEXT("dtype", dtype, "element type [f32]", "f32|f16|u8"),
        TEXT("tier", tier, "how exact [close]", "exact|close|fast"),
        TEXT("reference", reference, "whose resize [pillow-13]",
             "pillow-12|pillow-12.2|pillow-13"),
        TEXT("trace", trace, "write a trace of a part of it", "FILE.json"),
        TEXT("report", report, "write a page with charts", "FILE.html"),
        FLAG("json", json, "print everything as one JSON object"),
        {"quiet", 'q', POPT_ARG_NONE, &w->quiet, 0, "no progress", NULL},
        {"help", 'h', POPT_ARG_NONE, NULL, OPTIONS_HELP, "show this", NULL},
        OPTIONS_SOURCE(source),
        POPT_TABLEEND
#undef TEXT
#undef FLAG
    };
    poptContext con;
    int code;

    *w = (struct profile_words){0};
    options_source_table(&w->source, source);
    con = poptGetContext(NULL, argc, (const char **)argv, table, 0);
    code = act(p, con, done);
    poptFreeContext(con);
    return code;
}

void profile_options_finish(struct profile *p)
{
    char **words[] = {&p->words.backends,     &p->words.ops,
                      &p->words.threads,      &p->words.trace,
                      &p->words.report,       &p->words.limit,
                      &p->words.dtype,        &p->words.tier,
                      &p->words.consumer,     &p->words.batch,
                      &p->words.consumer_cpu, &p->words.seconds,
                      &p->words.reference};

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        free(*words[i]);
    options_source_finish(&p->words.source);
    inputs_finish(&p->in);
}
