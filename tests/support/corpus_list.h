// SPDX-License-Identifier: Apache-2.0
// The files of the shared corpus, as its manifest lists them or a folder of it.
#ifndef HEADRACE_TESTS_CORPUS_LIST_H
#define HEADRACE_TESTS_CORPUS_LIST_H

#include <dirent.h>
#include <stdbool.h>

enum { CORPUS_COLUMNS = 12, CORPUS_FILE = 0 };

struct corpus_entry {
    char line[8192];
    char *columns[CORPUS_COLUMNS];  // in line
    char path[2048];
};

// HEADRACE_CORPUS, or ../shared/corpus beside the sources. False: it is not
// there, which is printed; the program was not run.
bool corpus_open(void);
// The next file; false behind the last one.
bool corpus_next(struct corpus_entry *e);
void corpus_rewind(void);
void corpus_close(void);

// A folder of it: its files by name, so that each machine has the same first
// ones.
struct corpus_folder {
    char root[1100];
    struct dirent **entries;
    int num, next;
    const char *name;  // of the file at hand
    char path[1400];
};

// False: the folder is not there.
bool corpus_folder_open(struct corpus_folder *f, const char *below);
// The next file, or the step-th one. False behind the last one.
bool corpus_folder_next(struct corpus_folder *f, int step);
void corpus_folder_close(struct corpus_folder *f);

#endif
