// SPDX-License-Identifier: Apache-2.0
// The pictures of a run: a source of the library (headrace/source.h), of which
// a command may take some, in an order of its own.
#ifndef HEADRACE_TOOLS_COMMON_INPUTS_H
#define HEADRACE_TOOLS_COMMON_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

#define INPUTS_MAX_FAULTS 20  // texts of them that are kept

struct inputs_item {
    size_t number;  // in the source
};

struct inputs {
    hr_source source;
    size_t file_bytes;  // larger pictures are not read; 0 = the library's limit
    int cifar;  // files are CIFAR's: enum hr_cifar + 1; 0 = they are not
    struct inputs_item *items;
    size_t num, capacity;
    // Folders and files of many pictures that were named and have none: how
    // many, and the first.
    size_t num_roots;
    char *first_root;
    const char *const *classes;  // sorted
    size_t num_classes;
    size_t others;  // regular files of folders, named otherwise
    const char *first_other;
    // Folders and files that could not be read: what is behind them is
    // missing.
    size_t num_faults, num_copied;    // copied: from the source's own list
    char *faults[INPUTS_MAX_FAULTS];  // PATH: REASON; may be NULL
    char error[256];                  // of the last call that failed
};

// hr_source_set_classes() with the lines of a file, before anything is added;
// an empty line is a number without a class.
bool inputs_set_classes(struct inputs *inputs, const char *path);
// hr_source_set_fields() with "IMAGE,LABEL" or "IMAGE".
bool inputs_set_fields(struct inputs *inputs, const char *fields);

// hr_source_add() or hr_source_add_cifar(), and hr_source_add_list(). An
// argument that is no file, and has braces, stands for several, see braces.h.
// False: inputs->error says which path and why.
bool inputs_add(struct inputs *inputs, const char *argument);
bool inputs_add_list(struct inputs *inputs, const char *list, bool zero);

// Notes a fault if picture i is no file that can be opened.
void inputs_look(struct inputs *inputs, size_t i);

// Makes picture i the source of *sample, which then has its path, as by
// inputs_path(), or data of a pack file, or data that were read to *memory, of
// a tar or RecordIO file, or pixels if memory->w says so. path must live until
// the job is submitted, *memory until it is done. Not HR_OK: it is damaged, or
// its file was changed; then *sample has a source that will fail, and
// hr_last_error() says why.
enum hr_status inputs_source(const struct inputs *inputs, size_t i,
                             const char *path, struct hr_encoded *memory,
                             struct hr_sample *sample);
// The bytes of picture i, see hr_source_read().
enum hr_status inputs_read(const struct inputs *inputs, size_t i,
                           struct hr_encoded *to);
// Header facts of picture i, as by hr_probe_path().
enum hr_status inputs_probe(const struct inputs *inputs, size_t i,
                            const struct hr_limits *limits,
                            struct hr_info *info);
// The source's item of picture i.
struct hr_source_item inputs_item(const struct inputs *inputs, size_t i);
// Says whether a file is one by its name.
bool inputs_is_pack(const char *name);

// Path to open, or relative path (names the output), of picture i. The text
// is written to buffer; NULL if it does not fit, never with
// PATH_MAX bytes.
const char *inputs_path(const struct inputs *inputs, size_t i, char *buffer,
                        size_t size);
const char *inputs_name(const struct inputs *inputs, size_t i, char *buffer,
                        size_t size);

// Sets inputs->classes, the labels of all pictures, sorted by their bytes.
// False: out of memory.
bool inputs_find_classes(struct inputs *inputs);
int64_t inputs_class(const struct inputs *inputs, size_t i);  // -1 = none

// The relative path with its extension replaced by .npy, see out_file_name().
const char *inputs_output(const struct inputs *inputs, size_t i, char *buffer,
                          size_t size);

// Looks for two pictures with the same name, or if outputs, output name. *a <
// *b, or false. Out of memory counts as none found, with inputs->error set.
bool inputs_clash(struct inputs *inputs, bool outputs, size_t *a, size_t *b);

void inputs_finish(struct inputs *inputs);

#endif
