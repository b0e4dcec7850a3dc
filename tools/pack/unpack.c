// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pack.h"
#include "parts.h"
#include "tools/common/out_file.h"
#include "tools/common/stop.h"

static const char usage[] =
    "FILE.hrp... --out DIR/ [OPTION...]\n"
    "\n"
    "Writes the pictures of pack files into a folder, by their names: packed ones\n"
    "as PNG, with .png behind the name, all others as the files they were.\n";

static const char example[] = "\nExample: look at the pictures\n"
                              "  headrace unpack train.hrp --out pictures/\n";

struct unpack_options {
    const char *out;
    int threads;
    bool quiet;
};

#define AT(field) offsetof(struct unpack_options, field)
static const struct option table[] = {
    {"out", OPTION_TEXT, AT(out), "the folder, which is created",
     .arg = "DIR/"},
    {"threads", OPTION_INT, AT(threads), "host threads; 0 = usable cores [0]",
     "N", .max = 1024},
    {"quiet", OPTION_FLAG, AT(quiet), "no progress, no summary; errors only",
     .letter = 'q'},
    {0},
};
#undef AT

struct unpack {
    const struct unpack_options *opt;
    hr_device dev;
    hr_pack_file file;
    atomic_size_t next;
    _Atomic uint64_t pixels, files, failed;
    _Atomic bool broken;  // the folder cannot be written: all stop
};

static void tell(struct unpack *u, const char *message)
{
    if (atomic_fetch_add(&u->failed, 1) < TOOLS_MAX_TOLD)
        tools_warn("%s", message);
}

// ---- One picture -----------------------------------------------------------

// A packed picture as it decodes, grey if it is grey; not turned by its EXIF
// orientation.
static hr_image decode(struct unpack *u, const struct hr_pack_entry *entry)
{
    struct hr_decode op = {0};
    hr_image image = NULL;
    struct hr_info info;

    if (hr_probe(entry->data, entry->size, NULL, &info) == HR_OK) {
        op.mode = info.components == 1 ? HR_GRAY : HR_RGB;
        image = hr_decode(u->dev, entry->data, entry->size, &op);
    }
    if (image && hr_image_wait(image, HR_FOREVER) != HR_OK)
        hr_image_release(&image);
    return image;
}

static bool write_bytes(struct out_file *file,
                        const struct hr_pack_entry *entry, hr_image image)
{
    return image ? pack_png_write(file, image->params.data, image->params.w,
                                  image->params.h, image->params.c,
                                  image->params.stride_h)
                 : out_file_write(file, entry->data, entry->size);
}

static bool write_file(struct unpack *u, const struct hr_pack_entry *entry,
                       hr_image image)
{
    struct out_file file = OUT_FILE_CLOSED;
    char name[PATH_MAX], path[2 * PATH_MAX] = "";
    const char *out = u->opt->out;
    bool ok;

    errno = ENAMETOOLONG;
    ok = out_file_name(name, sizeof(name), entry->name, image ? ".png" : "") &&
         snprintf(path, sizeof(path), "%s%s%s", out,
                  out[strlen(out) - 1] == '/' ? "" : "/",
                  name) < (int)sizeof(path) &&
         out_file_parents(path) && out_file_open_part(&file, path) &&
         write_bytes(&file, entry, image) && out_file_close(&file) &&
         out_file_rename(&file);
    if (!ok) {
        tools_warn("%s: %s", *path ? path : entry->name, strerror(errno));
        atomic_store(&u->broken, true);
    }
    out_file_discard(&file);
    return ok;
}

static void unpack_one(struct unpack *u, size_t i)
{
    struct hr_pack_entry entry;
    hr_image image = NULL;

    hr_pack_entry(u->file, i, &entry);
    if (hr_pack_check(u->file, i) ||
        (entry.packed && !(image = decode(u, &entry)))) {
        tell(u, hr_last_error());
        return;
    }
    if (write_file(u, &entry, image))
        atomic_fetch_add(image ? &u->pixels : &u->files, 1);
    hr_image_release(&image);
}

static void *run(void *arg)
{
    struct unpack *u = arg;
    size_t i;

    while (!stop_signal() && !atomic_load(&u->broken) &&
           (i = atomic_fetch_add(&u->next, 1)) < u->file->num)
        unpack_one(u, i);
    return NULL;
}

// ---- All -------------------------------------------------------------------

// Names that differ by a .png which one of them gets.
static bool no_clashes(hr_pack_file file)
{
    static char name[PATH_MAX + 8];

    for (size_t i = 0; i < file->num; i++) {
        struct hr_pack_entry entry, other;
        size_t j;

        hr_pack_entry(file, i, &entry);
        snprintf(name, sizeof(name), "%s.png", entry.name);
        if (entry.packed &&
            hr_pack_find(file, name, strlen(name), &j) == HR_OK &&
            hr_pack_entry(file, j, &other) == HR_OK && !other.packed)
            return tools_warn("%s: '%s' and '%s' would be written to the same "
                              "file",
                              file->path, entry.name, other.name);
    }
    return true;
}

// Each thread has one picture at a time.
static void run_threads(struct unpack *u, int n)
{
    pthread_t *threads = calloc((size_t)n, sizeof(*threads));
    int num = 0;

    while (threads && num < n - 1 &&
           !pthread_create(&threads[num], NULL, run, u))
        num++;
    run(u);
    while (num)
        pthread_join(threads[--num], NULL);
    free(threads);
}

static int finish(struct unpack *u)
{
    if (atomic_load(&u->broken))
        return TOOLS_CANNOT;
    if (!out_folder_sync(u->opt->out)) {
        tools_warn("%s: %s", u->opt->out, strerror(errno));
        return TOOLS_CANNOT;
    }
    if (!u->opt->quiet)
        printf("%" PRIu64 " picture%s as PNG, %" PRIu64
               " file%s as they were, %" PRIu64 " failed\n",
               atomic_load(&u->pixels), atomic_load(&u->pixels) == 1 ? "" : "s",
               atomic_load(&u->files), atomic_load(&u->files) == 1 ? "" : "s",
               atomic_load(&u->failed));
    if (tools_flush_stdout())
        return TOOLS_CANNOT;
    return stop_signal()             ? 128 + stop_signal()
           : atomic_load(&u->failed) ? TOOLS_FAILED
                                     : TOOLS_OK;
}

static int unpack_all(const struct unpack_options *opt, hr_pack_file *files,
                      int n)
{
    int threads = opt->threads ? opt->threads : tools_cores();
    struct unpack u = {.opt = opt};

    for (int i = 0; i < n; i++)
        if (!no_clashes(files[i]))
            return TOOLS_CANNOT;
    u.dev = hr_device_open("cpu",
                           &(struct hr_device_params){.threads = threads});
    if (!u.dev) {
        tools_warn("%s", hr_last_error());
        return TOOLS_CANNOT;
    }
    stop_install();
    for (int i = 0; i < n; i++) {
        u.file = files[i];
        atomic_store(&u.next, 0);
        run_threads(&u, threads);
    }
    hr_device_close(&u.dev);
    return finish(&u);
}

int cmd_unpack(int argc, char **argv)
{
    struct options line = {.command = "unpack",
                           .usage = usage,
                           .example = example};
    struct unpack_options opt = {0};
    hr_pack_file *files = NULL;
    int n = 0, code = options_parse(&line, table, &opt, argc, argv);

    if (code == TOOLS_OK && !line.done) {
        if (!opt.out || !*opt.out)
            code = options_fail("unpack", "--out is missing: DIR/");
        else if (!(n = pack_files_open(&line, &files)))
            code = TOOLS_CANNOT;
        else
            code = unpack_all(&opt, files, n);
    }
    pack_files_close(&files, n);
    options_finish(&line);
    return code;
}
