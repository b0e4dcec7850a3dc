// SPDX-License-Identifier: Apache-2.0
#include "pack.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"
#include "tools/common/manifest.h"
#include "tools/common/stop.h"

static const char usage[] =
    "INPUT... --out FILE.hrp [OPTION...]\n"
    "\n"
    "Puts every picture that an INPUT (a file, a folder, a pack file) or --list\n"
    "names into one file, or into several. JPEGs are prepared, so that they are\n"
    "read many times faster from then on; other pictures stay as they are.\n"
    "Pixels, names and labels stay the same. If it is interrupted, the same\n"
    "command goes on.\n";

static const char example[] =
    "\nExample: a training set, once; then epochs of it\n"
    "  headrace pack train/ --out train.hrp\n"
    "  headrace run train.hrp --out none --epochs 3 --ops \\\n"
    "    decode,random_resized_crop=224,random_hflip,normalize=imagenet\n";

#define AT(field) offsetof(struct pack_options, field)
static const struct option table[] = {
    {"out", OPTION_TEXT, AT(out), "the pack file", .arg = "FILE.hrp"},
    {"split", OPTION_INT, AT(split),
     "N files of equal counts, FILE-00000-of-0000N.hrp and so on [1]", "N",
     .min = 1, .max = 512},
    {"threads", OPTION_INT, AT(threads), "host threads; 0 = usable cores [0]",
     "N", .max = 1024},
    {"json", OPTION_FLAG, AT(json),
     .what = "print the summary as one JSON object"},
    {"quiet", OPTION_FLAG, AT(quiet), "no progress, no summary; errors only",
     .letter = 'q'},
    {0},
};
#undef AT

const char *pack_bytes(char text[32], uint64_t bytes)
{
    static const char units[][3] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;

    while (value >= 1000 && unit < 4) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 32, "%.*f %s", unit ? 1 : 0, value, units[unit]);
    return text;
}

// ---- Before any work -------------------------------------------------------

// Two pictures of one name would be found after hours only.
static bool names_differ(struct inputs *in)
{
    char name[PATH_MAX];
    size_t a, b;

    if (!inputs_clash(in, false, &a, &b))
        return !in->error[0] || tools_warn("%s", in->error);
    return tools_warn("two pictures are called '%s'; put them into folders, "
                      "and name the folder above them",
                      inputs_name(in, a, name, sizeof(name)));
}

// Allows replacing an existing file only if it is a pack file, even a damaged
// one.
static bool may_replace(const char *path)
{
    hr_pack_file file;

    if (access(path, F_OK) < 0)
        return true;
    file = hr_pack_open(path);
    hr_pack_close(&file);
    return hr_last_status() != HR_EFORMAT ||
           tools_warn("%s, and is not written over", hr_last_error());
}

static bool shard_path(const struct pack *pack, int i, char path[PATH_MAX])
{
    size_t stem = strlen(pack->opt.out) - 4;
    int n = pack->opt.split;
    int length = n == 1 ? snprintf(path, PATH_MAX, "%s", pack->opt.out)
                        : snprintf(path, PATH_MAX, "%.*s-%05d-of-%05d.hrp",
                                   (int)stem, pack->opt.out, i, n);

    return length < PATH_MAX || tools_warn("--out: the name is too long");
}

static struct timespec written(const char *path)
{
    char part[PATH_MAX + 8];
    struct stat st;

    snprintf(part, sizeof(part), "%s.part", path);
    return lstat(part, &st) ? (struct timespec){0} : st.st_mtim;
}

static bool open_writers(struct pack *pack)
{
    char path[PATH_MAX];

    pack->writers = calloc((size_t)pack->opt.split, sizeof(*pack->writers));
    pack->left = calloc((size_t)pack->opt.split, sizeof(*pack->left));
    if (!pack->writers || !pack->left)
        return tools_warn("out of memory");
    for (int i = 0; i < pack->opt.split; i++) {
        if (!shard_path(pack, i, path) || !may_replace(path))
            return false;
        pack->left[i] = written(path);
        pack->writers[i] = hr_pack_writer_open(path);
        if (!pack->writers[i])
            return tools_warn("%s", hr_last_error());
    }
    return true;
}

// ---- What became of them ---------------------------------------------------

static int report_line(const struct pack *pack, double seconds)
{
    const struct pack_counts *n = &pack->counts;
    uint64_t all = n->packed + n->kept;
    char source[32], data[32];

    printf("%" PRIu64 " picture%s in %s: %" PRIu64 " packed, %" PRIu64
           " kept as they are",
           all, all == 1 ? "" : "s", pack->opt.out, n->packed, n->kept);
    tools_print_statuses(n->why, PACK_NUM_STATUS);
    printf("\n%s for %s of files (%.2fx), %.1f pictures/s",
           pack_bytes(data, n->data_bytes), pack_bytes(source, n->source_bytes),
           n->source_bytes ? (double)n->data_bytes / (double)n->source_bytes
                           : 1,
           seconds > 0 ? (double)(all - n->again) / seconds : 0);
    if (n->again)
        printf(", %" PRIu64 " of an earlier run", n->again);
    if (n->failed)
        printf(", %" PRIu64 " could not be read", n->failed);
    putchar('\n');
    return tools_flush_stdout();
}

static int report_json(const struct pack *pack, double seconds)
{
    const struct pack_counts *n = &pack->counts;
    return manifest_print(json_pack(
        "{s:s, s:i, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:i}", "version",
        hr_version(), "files", pack->opt.split, "packed", (json_int_t)n->packed,
        "kept", (json_int_t)n->kept, "kept_reasons",
        manifest_statuses_json(n->why, PACK_NUM_STATUS), "failed",
        (json_int_t)n->failed, "from_earlier_run", (json_int_t)n->again,
        "source_bytes", (json_int_t)n->source_bytes, "data_bytes",
        (json_int_t)n->data_bytes, "seconds", seconds, "threads",
        pack->opt.threads));
}

static int finish(struct pack *pack)
{
    double seconds = tools_seconds() - pack->begun;
    int code = TOOLS_OK;

    for (int i = 0; i < pack->opt.split; i++)
        if (hr_source_pack_classes(pack->in.source, pack->writers[i]) ||
            hr_pack_writer_finish(pack->writers[i])) {
            tools_warn("%s", hr_last_error());
            return TOOLS_CANNOT;
        }
    if (pack->num_told > TOOLS_MAX_TOLD)
        tools_warn("... and %" PRIu64 " more that could not be read",
                   pack->num_told - TOOLS_MAX_TOLD);
    if (pack->opt.json)
        code = report_json(pack, seconds);
    else if (!pack->opt.quiet)
        code = report_line(pack, seconds);
    return code                                         ? code
           : pack->counts.failed || pack->in.num_faults ? TOOLS_FAILED
                                                        : TOOLS_OK;
}

static int stopped(const struct pack *pack)
{
    const struct pack_counts *n = &pack->counts;

    tools_warn("%s after %" PRIu64 " of %zu pictures; the same command goes on "
               "from there",
               stop_signal() ? "interrupted" : "stopped",
               n->packed + n->kept + n->failed, pack->in.num);
    return stop_signal() ? 128 + stop_signal() : TOOLS_CANNOT;
}

static int run(struct pack *pack)
{
    size_t n = (size_t)pack->opt.split, num = pack->in.num;
    bool ok = true;

    if (!options_pictures(&pack->in, pack->opt.quiet) ||
        !names_differ(&pack->in) || !open_writers(pack))
        return TOOLS_CANNOT;
    stop_install();
    pack->begun = tools_seconds();
    progress_begin(&pack->progress, num, !pack->opt.quiet);
    // None gets its name before all are whole.
    for (size_t i = 0; ok && i < n; i++)
        ok = pack_shard(pack, i, num * i / n, num * (i + 1) / n);
    progress_clear(&pack->progress);
    return ok ? finish(pack) : stopped(pack);
}

static int read_options(struct pack *pack, int argc, char **argv)
{
    struct pack_options *opt = &pack->opt;
    int code;

    opt->split = 1;
    pack->line = (struct options){"pack", usage, example, .pictures = true};
    code = options_parse(&pack->line, table, opt, argc, argv);
    if (code || pack->line.done)
        return code;
    if (!opt->out || !inputs_is_pack(opt->out))
        return options_fail("pack", "--out: name a file that ends in .hrp");
    if (!opt->threads)
        opt->threads = tools_cores();
    return options_source(&pack->line, &pack->limits, &pack->in) ? TOOLS_OK
                                                                 : TOOLS_CANNOT;
}

int cmd_pack(int argc, char **argv)
{
    struct pack pack = {0};
    int code = read_options(&pack, argc, argv);

    if (code == TOOLS_OK && !pack.line.done)
        code = run(&pack);
    for (int i = 0; pack.writers && i < pack.opt.split; i++)
        hr_pack_writer_close(&pack.writers[i]);
    free(pack.writers);
    free(pack.left);
    inputs_finish(&pack.in);
    options_finish(&pack.line);
    return code;
}
