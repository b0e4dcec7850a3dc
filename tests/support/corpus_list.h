// SPDX-License-Identifier: Apache-2.0
// The files of the shared corpus, as its manifest lists them.
#ifndef HEADRACE_TESTS_CORPUS_LIST_H
#define HEADRACE_TESTS_CORPUS_LIST_H

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

#endif
