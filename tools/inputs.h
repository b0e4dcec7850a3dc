// SPDX-License-Identifier: Apache-2.0
// The pictures of a run: files as named, folders walked down. Kept small: a
// million names are the largest thing the command holds.
#ifndef HEADRACE_INPUTS_H
#define HEADRACE_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inputs_dir {
    char *path;  // as opened; "" = the current folder
    size_t rel;  // offset of its part below the folder the user named
};

struct inputs_item {
    const char *name;  // last component
    uint32_t dir;
};

struct inputs {
    struct inputs_item *items;
    size_t num, capacity;
    struct inputs_dir *dirs;
    size_t num_dirs, dirs_capacity;
    char **blocks;  // names are carved from these
    size_t num_blocks, block_used;
    size_t skipped;       // picture names that are no regular files
    char *first_skipped;  // one of them; NULL if memory was short
    char error[4608];     // of the last call that failed
};

// Adds what argument names. A file is taken whatever it is called; a folder
// gives its regular files, also through links, that end in .jpg .jpeg .jpe
// .jfif .png or .mpo, sorted by the bytes of their relative path. Links that
// lead back up and everything that is neither file nor folder are passed
// over. False: inputs->error says which path and why.
bool inputs_add(struct inputs *inputs, const char *argument);

// Path to open, or relative path (names the output), of picture i. The text
// is written to buffer; NULL if it does not fit, never with
// PATH_MAX bytes.
const char *inputs_path(const struct inputs *inputs, size_t i, char *buffer,
                        size_t size);
const char *inputs_name(const struct inputs *inputs, size_t i, char *buffer,
                        size_t size);

// Name of the folder that picture i lies in; "" if its path names none.
const char *inputs_label(const struct inputs *inputs, size_t i);

// The relative path with its extension replaced by .npy.
const char *inputs_output(const struct inputs *inputs, size_t i, char *buffer,
                          size_t size);

// Looks for two pictures with the same output name. *a < *b, or false. Out of
// memory counts as none found, with inputs->error set.
bool inputs_clash(struct inputs *inputs, size_t *a, size_t *b);

bool inputs_is_picture(const char *name);

void inputs_finish(struct inputs *inputs);

#endif
