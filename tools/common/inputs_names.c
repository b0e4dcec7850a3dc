// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // qsort_r
// What the pictures of a run are called, going in and coming out.
#include "inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Prints "DIR/NAME"; a folder that is "" or ends in a slash needs none.
static const char *print_path(char *buffer, size_t size, const char *dir,
                              const char *name, int name_length,
                              const char *suffix)
{
    size_t length = strlen(dir);
    const char *slash = length && dir[length - 1] != '/' ? "/" : "";
    int used = snprintf(buffer, size, "%s%s%.*s%s", dir, slash, name_length,
                        name, suffix);

    return used >= 0 && (size_t)used < size ? buffer : NULL;
}

static const char *rel_dir(const struct inputs *in, size_t i)
{
    const struct inputs_dir *dir = &in->dirs[in->items[i].dir];

    return dir->path + dir->rel;
}

// A leading dot is part of the name, not the start of an extension.
static int stem_length(const char *name)
{
    const char *dot = strrchr(name, '.');

    return (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
}

const char *inputs_path(const struct inputs *in, size_t i, char *buffer,
                        size_t size)
{
    const struct inputs_item *item = &in->items[i];

    return print_path(buffer, size, in->dirs[item->dir].path, item->name,
                      (int)strlen(item->name), "");
}

const char *inputs_name(const struct inputs *in, size_t i, char *buffer,
                        size_t size)
{
    const char *name = in->items[i].name;

    return print_path(buffer, size, rel_dir(in, i), name, (int)strlen(name),
                      "");
}

const char *inputs_output(const struct inputs *in, size_t i, char *buffer,
                          size_t size)
{
    const char *name = in->items[i].name;

    return print_path(buffer, size, rel_dir(in, i), name, stem_length(name),
                      ".npy");
}

static uint32_t label_of(const struct inputs *in, size_t i)
{
    const struct inputs_item *item = &in->items[i];

    return item->label ? item->label : in->dirs[item->dir].label;
}

const char *inputs_label(const struct inputs *in, size_t i)
{
    return in->labels[label_of(in, i)].text;
}

int64_t inputs_class(const struct inputs *in, size_t i)
{
    return in->labels[label_of(in, i)].number;
}

static int compare_labels(const void *a, const void *b)
{
    const struct inputs_label *const *la = a, *const *lb = b;

    return strcmp((*la)->text, (*lb)->text);
}

bool inputs_find_classes(struct inputs *in)
{
    struct inputs_label **used = calloc(in->num_labels + 1, sizeof(*used));
    size_t num = 0;

    free(in->classes);
    in->num_classes = 0;
    in->classes = calloc(in->num_labels + 1, sizeof(*in->classes));
    if (!used || !in->classes) {
        free(used);
        return false;
    }
    for (size_t i = 0; i < in->num; i++) {
        struct inputs_label *label = &in->labels[label_of(in, i)];

        if (*label->text && label->number < 0)
            label->number = 0, used[num++] = label;
    }
    qsort(used, num, sizeof(struct inputs_label *), compare_labels);
    for (size_t i = 0; i < num; i++) {
        used[i]->number = (int64_t)i;
        in->classes[i] = used[i]->text;
    }
    in->num_classes = num;
    free(used);
    return true;
}

static int compare_outputs(const void *a, const void *b, void *context)
{
    const struct inputs *in = context;
    size_t ia = *(const size_t *)a, ib = *(const size_t *)b;
    const char *na = in->items[ia].name, *nb = in->items[ib].name;
    int la = stem_length(na), lb = stem_length(nb);
    int order = strcmp(rel_dir(in, ia), rel_dir(in, ib));

    if (!order)
        order = memcmp(na, nb, (size_t)(la < lb ? la : lb));
    return order ? order : la - lb;
}

bool inputs_clash(struct inputs *in, size_t *a, size_t *b)
{
    size_t *sorted = calloc(in->num, sizeof(*sorted));
    bool found = false;

    in->error[0] = '\0';
    if (!sorted) {
        snprintf(in->error, sizeof(in->error), "out of memory");
        return false;
    }
    for (size_t i = 0; i < in->num; i++)
        sorted[i] = i;
    qsort_r(sorted, in->num, sizeof(*sorted), compare_outputs, in);
    for (size_t i = 1; i < in->num && !found; i++) {
        if (compare_outputs(&sorted[i - 1], &sorted[i], in))
            continue;
        found = true;
        *a = sorted[i - 1] < sorted[i] ? sorted[i - 1] : sorted[i];
        *b = sorted[i - 1] < sorted[i] ? sorted[i] : sorted[i - 1];
    }
    free(sorted);
    return found;
}
