// SPDX-License-Identifier: Apache-2.0
// The pictures of a run: files as named, folders walked down, lists of files,
// pack files.
// Kept small: a million names are the largest thing the command holds.
#ifndef HEADRACE_TOOLS_COMMON_INPUTS_H
#define HEADRACE_TOOLS_COMMON_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

#define INPUTS_MAX_FAULTS 20  // texts of them that are kept

struct inputs_dir {
    char *path;      // as opened; "" = the current folder
    size_t rel;      // offset of its part below the folder the user named
    uint32_t label;  // of the pictures in it
    uint32_t pack;   // of a pack file: its number + 1; 0 = a folder
    bool link;       // found as a link
};

struct inputs_item {
    const char *name;  // last component
    uint32_t dir, label;
    uint32_t number;  // in its pack file
};

// Labels are kept once and meant by their index; 0 is "", no label.
struct inputs_label {
    const char *text;
    int64_t number;  // of its class, by inputs_find_classes(); -1 = none
};

struct inputs {
    struct inputs_item *items;
    size_t num, capacity;
    struct inputs_dir *dirs;
    size_t num_dirs, dirs_capacity;
    struct inputs_label *labels;
    size_t num_labels, labels_capacity;
    const char **classes;  // sorted
    size_t num_classes;
    char **blocks;  // names are carved from these
    size_t num_blocks, block_used;
    hr_pack_file *packs;
    size_t num_packs;
    void *seen, *known_labels, *known_dirs;  // trees of tsearch()
    size_t skipped;       // picture names that are not regular files
    char *first_skipped;  // one of them; NULL if memory was short
    size_t others;        // regular files of folders that are named otherwise
    char *first_other;
    // Folders and files that could not be read: what is behind them is
    // missing.
    size_t num_faults;
    char *faults[INPUTS_MAX_FAULTS];  // PATH: REASON; may be NULL
    char error[4608];                 // of the last call that failed
};

// Adds what argument names. A file is taken whatever it is called; of a pack
// file, which ends in .hrp, all pictures, with their names and labels; a folder
// gives its regular files, also through links, that end in .jpg .jpeg .jpe
// .jfif .png or .mpo, sorted by the bytes of their relative path. Links to
// folders are followed; a folder is gone through once, however many names it
// has: under its own rather than a link's, else under the first. A folder
// below that cannot be read is one of faults. False: inputs->error says which
// path and why.
bool inputs_add(struct inputs *inputs, const char *argument);

// Adds the files that a list names: PATH, or PATH, a tab and LABEL, a line
// each, or each ended by a zero byte. The last tab counts; empty lines do not.
// list "-" is standard input. Paths are relative to the folder of the list.
// The files are not looked at.
bool inputs_add_list(struct inputs *inputs, const char *list, bool zero);

// Adds the file at path, which is not looked at, without a label.
bool inputs_add_file(struct inputs *inputs, const char *path);

// Notes a fault if picture i is no file that can be opened.
void inputs_look(struct inputs *inputs, size_t i);

// Makes picture i the source of *sample, which then has its path, as by
// inputs_path(), or data of a pack file; it must live until the job is submitted.
// Not HR_OK: it is damaged, or its file was changed; then *sample has a source
// that will fail, and hr_last_error() says why.
enum hr_status inputs_source(const struct inputs *inputs, size_t i,
                             const char *path, struct hr_sample *sample);
// A job has made it.
void inputs_passed(const struct inputs *inputs, size_t i);
// Header facts of picture i, as by hr_probe_path().
enum hr_status inputs_probe(const struct inputs *inputs, size_t i,
                            const struct hr_limits *limits,
                            struct hr_info *info);
// The pack file that picture i lies in, and its number there. NULL: none.
hr_pack_file inputs_pack(const struct inputs *inputs, size_t i, size_t *number);
// Whether a file is one by its name.
bool inputs_is_pack(const char *name);

// Path to open, or relative path (names the output), of picture i. The text
// is written to buffer; NULL if it does not fit, never with
// PATH_MAX bytes.
const char *inputs_path(const struct inputs *inputs, size_t i, char *buffer,
                        size_t size);
const char *inputs_name(const struct inputs *inputs, size_t i, char *buffer,
                        size_t size);

// As torchvision's ImageFolder has it: the first folder below the one that was
// named. Of a picture that was named itself, or a folder without pictures
// further down, the folder it lies in. Of a list, what stands there. "": none.
const char *inputs_label(const struct inputs *inputs, size_t i);

// Makes inputs->classes, the labels of all pictures, sorted by their bytes,
// and gives them numbers. False: out of memory.
bool inputs_find_classes(struct inputs *inputs);
int64_t inputs_class(const struct inputs *inputs, size_t i);  // -1 = none

// The relative path with its extension replaced by .npy.
const char *inputs_output(const struct inputs *inputs, size_t i, char *buffer,
                          size_t size);

// Looks for two pictures with the same output name. *a < *b, or false. Out of
// memory counts as none found, with inputs->error set.
bool inputs_clash(struct inputs *inputs, size_t *a, size_t *b);

bool inputs_is_picture(const char *name);

void inputs_finish(struct inputs *inputs);

#endif
