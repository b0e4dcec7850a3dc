// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "pack.h"
#include "parts.h"
#include "tools/common/manifest.h"
#include "tools/common/stop.h"

static const char usage[] = "FILE.hrp... [OPTION...]\n"
                            "\n"
                            "Describes pack files, and checks them.\n";

static const char example[] = "\nExample: is a copy whole?\n"
                              "  headrace info --check train.hrp\n";

struct info_options {
    bool list, check, json;
};

#define AT(field) offsetof(struct info_options, field)
static const struct option table[] = {
    {"list", OPTION_FLAG, AT(list),
     .what = "print a line for each picture: packed or kept, bytes, "
             "bytes of its file, label, name"},
    {"check", OPTION_FLAG, AT(check), .what = "read and check all pictures"},
    {"json", OPTION_FLAG, AT(json), .what = "print one JSON object a file"},
    {0},
};
#undef AT

int pack_files_open(struct options *line, hr_pack_file **files)
{
    const char **paths = poptGetArgs(line->con);
    int n = 0;

    *files = NULL;
    while (paths && paths[n])
        n++;
    if (!n) {
        options_fail(line->command, "name a pack file (see headrace %s --help)",
                     line->command);
        return 0;
    }
    if (!(*files = tools_new((size_t)n * sizeof(**files))))
        return 0;
    for (int i = 0; i < n; i++)
        if (!((*files)[i] = hr_pack_open(paths[i]))) {
            tools_warn("%s", hr_last_error());
            pack_files_close(files, i);
            return 0;
        }
    return n;
}

void pack_files_close(hr_pack_file **files, int n)
{
    for (int i = 0; *files && i < n; i++)
        hr_pack_close(&(*files)[i]);
    free(*files);
    *files = NULL;
}

// ---- One file --------------------------------------------------------------

// How many are damaged; the first of them get a line each.
static size_t check_all(hr_pack_file file)
{
    size_t bad = 0;

    for (size_t i = 0; i < file->num && !stop_signal(); i++)
        if (hr_pack_check(file, i) && bad++ < TOOLS_MAX_TOLD)
            tools_warn("%s", hr_last_error());
    if (bad > TOOLS_MAX_TOLD)
        tools_warn("... and %zu more", bad - TOOLS_MAX_TOLD);
    return bad;
}

static void print_entries(hr_pack_file file)
{
    static char label[4 * 4096], name[4 * 4096];

    for (size_t i = 0; i < file->num; i++) {
        struct hr_pack_entry entry;

        hr_pack_entry(file, i, &entry);
        tools_escape(label, sizeof(label), entry.label);
        tools_escape(name, sizeof(name), entry.name);
        printf("%s\t%zu\t%" PRIu64 "\t%s\t%s\n",
               entry.packed ? "packed" : "kept", entry.size, entry.source,
               label, name);
    }
}

static void print_file(hr_pack_file file)
{
    char data[32], source[32], rest[32], path[4 * 4096];

    tools_escape(path, sizeof(path), file->path);
    printf("%s: version %u, %zu picture%s, %zu packed, %zu kept as they are\n",
           path, file->version, file->num, file->num == 1 ? "" : "s",
           file->packed, file->num - file->packed);
    printf("%s for %s of files (%.2fx), and %s of names, places and gaps\n",
           pack_bytes(data, file->data_bytes),
           pack_bytes(source, file->source_bytes),
           file->source_bytes
               ? (double)file->data_bytes / (double)file->source_bytes
               : 1,
           pack_bytes(rest, file->bytes - file->data_bytes));
}

static json_t *entries_json(hr_pack_file file)
{
    json_t *entries = json_array();

    for (size_t i = 0; entries && i < file->num; i++) {
        struct hr_pack_entry entry;

        hr_pack_entry(file, i, &entry);
        json_array_append_new(
            entries,
            json_pack("{s:o, s:o, s:b, s:I, s:I}", "name",
                      manifest_text(entry.name), "label",
                      *entry.label ? manifest_text(entry.label) : json_null(),
                      "packed", entry.packed, "bytes", (json_int_t)entry.size,
                      "source_bytes", (json_int_t)entry.source));
    }
    return entries;
}

static int print_json(hr_pack_file file, const struct info_options *opt,
                      size_t bad)
{
    return manifest_print(json_pack(
        "{s:o, s:i, s:I, s:I, s:I, s:I, s:I, s:o*, s:o*}", "path",
        manifest_text(file->path), "version", (int)file->version, "pictures",
        (json_int_t)file->num, "packed", (json_int_t)file->packed, "bytes",
        (json_int_t)file->bytes, "data_bytes", (json_int_t)file->data_bytes,
        "source_bytes", (json_int_t)file->source_bytes, "damaged",
        opt->check ? json_integer((json_int_t)bad) : NULL, "entries",
        opt->list ? entries_json(file) : NULL));
}

static size_t look(hr_pack_file file, const struct info_options *opt)
{
    size_t bad = opt->check ? check_all(file) : 0;

    if (opt->json) {
        (void)print_json(file, opt, bad);
        return bad;
    }
    print_file(file);
    if (opt->list)
        print_entries(file);
    if (opt->check && !stop_signal())
        printf("%zu of %zu pictures are sound\n", file->num - bad, file->num);
    return bad;
}

int cmd_info(int argc, char **argv)
{
    struct options line = {.command = "info",
                           .usage = usage,
                           .example = example};
    struct info_options opt = {0};
    hr_pack_file *files = NULL;
    size_t bad = 0;
    int n = 0, code = options_parse(&line, table, &opt, argc, argv);

    if (code == TOOLS_OK && !line.done) {
        n = pack_files_open(&line, &files);
        code = n ? TOOLS_OK : TOOLS_CANNOT;
        stop_install();
    }
    for (int i = 0; i < n; i++)
        bad += look(files[i], &opt);
    if (n && tools_flush_stdout())
        code = TOOLS_CANNOT;
    pack_files_close(&files, n);
    options_finish(&line);
    return code            ? code
           : stop_signal() ? 128 + stop_signal()
           : bad           ? TOOLS_FAILED
                           : TOOLS_OK;
}
