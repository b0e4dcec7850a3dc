// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "braces.h"
#include "out_file.h"
#include "tools.h"

static bool fail(struct inputs *in, const char *text)
{
    snprintf(in->error, sizeof(in->error), "%s", text);
    return false;
}

// ---- Adding ----------------------------------------------------------------

static void keep_fault(struct inputs *in, const char *text)
{
    if (in->num_faults < INPUTS_MAX_FAULTS)
        in->faults[in->num_faults] = strdup(text);
    in->num_faults++;
}

static bool put_items(struct inputs *in, size_t first)
{
    size_t num = in->num + (size_t)in->source->num - first;
    struct inputs_item *items;

    if (num > in->capacity) {
        size_t more = num > 2 * in->capacity ? num : 2 * in->capacity;

        items = reallocarray(in->items, more, sizeof(*items));
        if (!items)
            return fail(in, "out of memory");
        in->items = items;
        in->capacity = more;
    }
    for (; in->num < num; first++)
        in->items[in->num++].number = first;
    return true;
}

// Takes over what the source has since it had `first` samples.
static bool take(struct inputs *in, enum hr_status status, size_t first)
{
    hr_source source = in->source;

    if (status)
        fail(in, hr_last_error());
    for (; in->num_copied < source->num_fault_texts; in->num_copied++)
        keep_fault(in, source->faults[in->num_copied]);
    for (; in->num_copied < source->num_faults; in->num_copied++)
        in->num_faults++;
    in->others = source->others;
    in->first_other = source->first_other;
    return !status && put_items(in, first);
}

static bool begin(struct inputs *in, size_t *first)
{
    if (!in->source && !(in->source = hr_source_create()))
        return fail(in, hr_last_error());
    *first = (size_t)in->source->num;
    return true;
}

// Remembers a folder or container that has no picture.
static void note_root(struct inputs *in, const char *path, size_t first)
{
    struct stat st;

    if ((size_t)in->source->num > first || stat(path, &st) < 0)
        return;
    if (!in->num_roots++ && (in->first_root = strdup(path)))
        for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
            in->first_root[n - 1] = '\0';
}

static bool add_one(void *ctx, const char *path)
{
    struct inputs *in = ctx;
    enum hr_status status;
    size_t first;

    if (!begin(in, &first))
        return false;
    status = in->cifar ? hr_source_add_cifar(in->source, path,
                                             (enum hr_cifar)(in->cifar - 1))
                       : hr_source_add(in->source, path);
    if (!take(in, status, first))
        return false;
    note_root(in, path, first);
    return true;
}

struct paths {
    struct inputs *in;
    char **list;
    size_t num, capacity;
};

static bool keep_path(void *ctx, const char *path)
{
    struct paths *p = ctx;

    if (p->num == p->capacity) {
        size_t more = p->capacity ? 2 * p->capacity : 64;
        char **list = reallocarray(p->list, more, sizeof(*list));

        if (!list)
            return fail(p->in, "out of memory");
        p->list = list;
        p->capacity = more;
    }
    if (!(p->list[p->num] = strdup(path)))
        return fail(p->in, "out of memory");
    p->num++;
    return true;
}

static bool add_all(struct inputs *in, const struct paths *p)
{
    size_t first;

    if (!begin(in, &first) ||
        !take(in,
              hr_source_add_all(in->source, (const char *const *)p->list,
                                p->num),
              first))
        return false;
    for (size_t i = 0; i < p->num; i++)
        note_root(in, p->list[i], first);
    return true;
}

// Shards are opened side by side.
static bool add_braces(struct inputs *in, const char *argument)
{
    struct paths p = {.in = in};
    bool ok;

    if (in->cifar)
        return braces_expand(argument, add_one, in);
    ok = braces_expand(argument, keep_path, &p) && add_all(in, &p);
    while (p.num)
        free(p.list[--p.num]);
    free(p.list);
    return ok;
}

bool inputs_add(struct inputs *in, const char *argument)
{
    struct stat st;

    return lstat(argument, &st) ? add_braces(in, argument)
                                : add_one(in, argument);
}

bool inputs_add_list(struct inputs *in, const char *list, bool zero)
{
    size_t first;

    return begin(in, &first) &&
           take(in, hr_source_add_list(in->source, list, zero), first);
}

bool inputs_set_fields(struct inputs *in, const char *fields)
{
    const char *comma = strchr(fields, ',');
    size_t length = comma ? (size_t)(comma - fields) : strlen(fields), first;
    char image[256];

    snprintf(image, sizeof(image), "%.*s", (int)length, fields);
    if (!begin(in, &first))
        return false;
    if (length >= sizeof(image))
        return fail(in, "--fields: a name is too long");
    return take(in,
                hr_source_set_fields(in->source, *image ? image : NULL,
                                     comma && comma[1] ? comma + 1 : NULL),
                first);
}

// Lines of a file: a class each, whose number is that of its line, from 0.
struct names {
    char **labels;
    int64_t *numbers;
    size_t num, capacity;
};

static bool keep_name(struct inputs *in, struct names *n, const char *line,
                      int64_t number)
{
    size_t more = n->capacity ? 2 * n->capacity : 64;
    void *labels, *numbers;

    if (!*line)
        return true;  // a number that no class has
    if (n->num == n->capacity) {
        if ((labels = reallocarray(n->labels, more, sizeof(*n->labels))))
            n->labels = labels;
        if ((numbers = reallocarray(n->numbers, more, sizeof(*n->numbers))))
            n->numbers = numbers;
        if (!labels || !numbers)
            return fail(in, "out of memory");
        n->capacity = more;
    }
    if (!(n->labels[n->num] = strdup(line)))
        return fail(in, "out of memory");
    n->numbers[n->num++] = number;
    return true;
}

bool inputs_set_classes(struct inputs *in, const char *path)
{
    FILE *file = fopen(path, "re");
    struct names n = {0};
    char *line = NULL;
    size_t size, capacity = 0;
    bool ok = file != NULL;

    for (int64_t i = 0; ok && getline(&line, &capacity, file) > 0; i++) {
        line[strcspn(line, "\r\n")] = '\0';
        ok = keep_name(in, &n, line, i);
    }
    if (!file || (ok && ferror(file))) {
        snprintf(in->error, sizeof(in->error), "%s: %s", path, strerror(errno));
        ok = false;
    }
    if (ok && (ok = begin(in, &size)) &&
        hr_source_set_classes(in->source, (const char *const *)n.labels,
                              n.numbers, n.num)) {
        snprintf(in->error, sizeof(in->error), "%s: %s", path, hr_last_error());
        ok = false;
    }
    while (n.num)
        free(n.labels[--n.num]);
    free(n.labels);
    free(n.numbers);
    free(line);
    if (file)
        fclose(file);
    return ok;
}

void inputs_look(struct inputs *in, size_t i)
{
    char path[PATH_MAX], text[PATH_MAX + 128];
    struct stat st;
    int fd, error = 0;

    if (!inputs_item(in, i).is_file)
        return;  // what it lies in is open
    inputs_path(in, i, path, sizeof(path));
    // A FIFO without a writer must not keep the caller.
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        error = errno;
    else if (!S_ISREG(st.st_mode))
        error = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    if (fd >= 0)
        close(fd);
    if (!error)
        return;
    snprintf(text, sizeof(text), "%s: %s", path, strerror(error));
    keep_fault(in, text);
}

void inputs_finish(struct inputs *in)
{
    for (size_t i = 0; i < INPUTS_MAX_FAULTS; i++)
        free(in->faults[i]);
    hr_source_close(&in->source);
    free(in->first_root);
    free(in->items);
    *in = (struct inputs){0};
}

// ---- What a picture is made of ---------------------------------------------

bool inputs_is_pack(const char *name)
{
    size_t length = strlen(name);

    return length > 4 && !strcasecmp(name + length - 4, ".hrp");
}

struct hr_source_item inputs_item(const struct inputs *in, size_t i)
{
    return hr_source_item(in->source, in->items[i].number);
}

enum hr_status inputs_read(const struct inputs *in, size_t i,
                           struct hr_encoded *to)
{
    return hr_source_read(in->source, in->items[i].number, in->file_bytes, to);
}

enum hr_status inputs_source(const struct inputs *in, size_t i,
                             const char *path, struct hr_encoded *memory,
                             struct hr_sample *sample)
{
    struct hr_source_item of = inputs_item(in, i);
    bool read = !of.pack && !of.is_file;
    enum hr_status status;

    sample->path = of.is_file ? path : NULL;
    if (sample->path)
        return HR_OK;
    status = read ? inputs_read(in, i, memory)
                  : hr_pack_sample(of.pack, of.number, sample);
    if (read) {
        sample->data = memory->data;
        sample->size = memory->size;
    }
    if (status || !sample->size) {
        sample->data = "";
        sample->size = 1;
        sample->verified = false;
    }
    sample->name = path;
    return status;
}

enum hr_status inputs_probe(const struct inputs *in, size_t i,
                            const struct hr_limits *limits,
                            struct hr_info *info)
{
    struct hr_encoded memory = {0};
    struct hr_pack_entry entry;
    enum hr_status status;
    char path[PATH_MAX];
    struct hr_source_item of = inputs_item(in, i);

    if (of.is_file)
        return inputs_path(in, i, path, sizeof(path))
                   ? hr_probe_path(path, limits, info)
                   : HR_EINVAL;
    if (of.pack) {
        hr_pack_entry(of.pack, of.number, &entry);
        return hr_probe(entry.data, entry.size, limits, info);
    }
    if (!(status = inputs_read(in, i, &memory)) && memory.w)
        *info = (struct hr_info){.width = memory.w,
                                 .height = memory.h,
                                 .components = memory.c,
                                 .precision = 8,
                                 .orientation = 1,
                                 .ends = true};
    else if (!status)
        status = hr_probe(memory.data, memory.size, limits, info);
    hr_encoded_finish(&memory);
    return status;
}

// ---- Names -----------------------------------------------------------------

const char *inputs_path(const struct inputs *in, size_t i, char *buffer,
                        size_t size)
{
    return hr_source_path(in->source, in->items[i].number, buffer, size);
}

const char *inputs_name(const struct inputs *in, size_t i, char *buffer,
                        size_t size)
{
    return hr_source_name(in->source, in->items[i].number, buffer, size);
}

// A leading dot is part of the name, not the start of an extension.
static size_t stem_length(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot && dot != name ? (size_t)(dot - path) : strlen(path);
}

const char *inputs_output(const struct inputs *in, size_t i, char *buffer,
                          size_t size)
{
    char name[PATH_MAX];

    if (!inputs_name(in, i, name, sizeof(name)))
        return NULL;
    name[stem_length(name)] = '\0';
    return out_file_name(buffer, size, name, ".npy") ? buffer : NULL;
}

int64_t inputs_class(const struct inputs *in, size_t i)
{
    return hr_source_class(in->source, in->items[i].number);
}

bool inputs_find_classes(struct inputs *in)
{
    in->classes = hr_source_classes(in->source, &in->num_classes);
    return in->classes != NULL;
}

// A picture's name, or that of its output.
struct stem {
    char *text;
    size_t i;
};

static int compare_stems(const void *a, const void *b)
{
    const struct stem *sa = a, *sb = b;
    int order = strcmp(sa->text, sb->text);

    return order ? order : (sa->i > sb->i) - (sa->i < sb->i);
}

bool inputs_clash(struct inputs *in, bool outputs, size_t *a, size_t *b)
{
    struct stem *stems = calloc(in->num, sizeof(*stems));
    bool ok = stems != NULL, found = false;
    char name[PATH_MAX + sizeof(".npy")];

    in->error[0] = '\0';
    for (size_t i = 0; ok && i < in->num; i++) {
        outputs ? inputs_output(in, i, name, sizeof(name))
                : inputs_name(in, i, name, sizeof(name));
        stems[i] = (struct stem){strdup(name), i};
        ok = stems[i].text != NULL;
    }
    if (ok)
        qsort(stems, in->num, sizeof(*stems), compare_stems);
    for (size_t i = 1; ok && i < in->num && !found; i++)
        if ((found = !strcmp(stems[i - 1].text, stems[i].text))) {
            *a = stems[i - 1].i;
            *b = stems[i].i;
        }
    for (size_t i = 0; stems && i < in->num; i++)
        free(stems[i].text);
    free(stems);
    return ok ? found : fail(in, "out of memory");
}
