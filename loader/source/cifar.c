// SPDX-License-Identifier: Apache-2.0
// Binary files of CIFAR: records of fixed size, one behind the other, with no
// header.
//
//   CIFAR-10    u8 class, pixels
//   CIFAR-100   u8 coarse class, u8 class, pixels
//
// Pixels are 32 x 32 bytes of red, so many of green, so many of blue. Beside
// the files lies a text with the names of the classes, a line each.
//
// (https://www.cs.toronto.edu/~kriz/cifar.html)
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "source.h"

enum { LABELS = 2, CLASSES = 100, NAMES_BYTES = 16 << 10 };

static const struct form {
    unsigned labels, taken;    // bytes in front of the pixels; which is taken
    unsigned classes[LABELS];  // how many each tells apart
    const char *names;
} forms[] = {
    [HR_CIFAR10] = {1, 0, {10}, "batches.meta.txt"},
    [HR_CIFAR100] = {2, 1, {20, 100}, "fine_label_names.txt"},
    [HR_CIFAR100_COARSE] = {2, 0, {20, 100}, "coarse_label_names.txt"},
};

// The names of classes.
struct names {
    bool are_words;
    const char *of[CLASSES];
    char text[NAMES_BYTES];
};

static bool check_size(const struct hr__shard *shard, const struct form *form)
{
    uint64_t record = form->labels + HR__CIFAR_BYTES;
    uint64_t rest = shard->size % record;

    if (shard->size && !rest)
        return true;
    return hr__source_fail(
        HR_EFORMAT,
        "%s: offset %llu: a record of CIFAR-%u has %llu bytes, here are %llu",
        hr__source_short(shard->path), (unsigned long long)(shard->size - rest),
        form->labels == 1 ? 10U : 100U, (unsigned long long)record,
        (unsigned long long)rest);
}

// ---- Names of classes ------------------------------------------------------

static void *names_room(void *ctx, size_t size)
{
    return size < NAMES_BYTES ? ((struct names *)ctx)->text : NULL;
}

static void number_classes(struct names *names, const struct form *form)
{
    char *at = names->text;

    for (unsigned i = 0; i < form->classes[form->taken]; i++) {
        names->of[i] = at;
        at += snprintf(at, 8, "%u", i) + 1;
    }
}

// Reads the names in the file at path; empty lines do not count.
static bool read_names(struct names *names, const struct form *form,
                       const char *path)
{
    unsigned num = 0, want = form->classes[form->taken];
    size_t size;
    char *rest, *line;

    if (hr__source_file(path, NAMES_BYTES - 1, names_room, names, &size))
        return false;
    names->text[size] = '\0';
    line = strtok_r(names->text, "\r\n", &rest);
    for (; line; line = strtok_r(NULL, "\r\n", &rest), num++)
        if (num < want)
            names->of[num] = line;
    return num == want ||
           hr__source_fail(HR_EFORMAT, "%s: %u names of %u classes",
                           hr__source_short(path), num, want);
}

static bool find_names(struct names *names, const struct form *form,
                       const char *file)
{
    const char *slash = strrchr(file, '/');
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%.*s%s",
                          slash ? (int)(slash - file) + 1 : 0, file,
                          form->names);

    names->are_words = length > 0 && (size_t)length < sizeof(path) &&
                       !access(path, F_OK);
    if (names->are_words)
        return read_names(names, form, path);
    number_classes(names, form);
    return true;
}

// Names all classes, whether they have pictures or not. Where the names are
// sorted, as CIFAR's are, their places are the records' numbers.
static bool name_classes(struct hr__source *s, const struct names *names,
                         const struct form *form)
{
    int64_t num = form->classes[form->taken];
    bool sorted = true;
    uint32_t unused;

    for (int64_t i = 1; i < num && names->are_words; i++)
        sorted = sorted && hr__source_order(names->of[i - 1], names->of[i]) < 0;
    for (int64_t i = 0; i < num && names->are_words; i++)
        if (!hr__source_name_class(s, names->of[i], sorted ? NULL : &i,
                                   &unused))
            return false;
    return true;
}

// ---- Records ---------------------------------------------------------------

// Adds a record. False: stop, with hr_last_error().
static bool put_record(struct hr__source *s, struct hr__shard *shard,
                       const struct form *form, const struct names *names,
                       uint64_t offset)
{
    struct hr__range range = {.offset = offset + form->labels,
                              .size = HR__CIFAR_BYTES};
    uint8_t labels[LABELS];
    char text[64];

    if (hr__shard_read(shard, labels, form->labels, offset))
        return false;
    for (unsigned i = 0; i < form->labels; i++) {
        if (labels[i] < form->classes[i])
            continue;
        snprintf(text, sizeof(text), "label %u, there are %u classes",
                 labels[i], form->classes[i]);
        if (!offset)
            return hr__source_fail(HR_EFORMAT, "%s: offset %u: %s",
                                   hr__source_short(shard->path), i, text);
        hr__shard_fault(s, shard, offset + i, NULL, text);
        return true;
    }
    snprintf(text, sizeof(text), "%05llu",
             (unsigned long long)(offset / (form->labels + HR__CIFAR_BYTES)));
    return hr__shard_put(s, shard, text, names->of[labels[form->taken]], range);
}

static bool read_records(struct hr__source *s, struct hr__shard *shard,
                         const struct form *form, const char *path)
{
    struct names names;

    if (!check_size(shard, form) || !find_names(&names, form, path) ||
        !name_classes(s, &names, form))
        return false;
    shard->pixels = true;
    shard->names = names.are_words;
    for (uint64_t offset = 0; offset < shard->size;
         offset += form->labels + HR__CIFAR_BYTES)
        if (!put_record(s, shard, form, &names, offset))
            return false;
    return true;
}

bool hr__source_cifar(struct hr__source *s, const char *path,
                      enum hr_cifar kind)
{
    struct hr__shard *shard = hr__shard_open(s, path);

    return shard &&
           hr__shard_opened(shard, read_records(s, shard, &forms[kind], path));
}
