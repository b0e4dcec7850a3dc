// SPDX-License-Identifier: Apache-2.0
// Pack files for tests: a few pictures of every sort, and files of them.
#ifndef HEADRACE_TESTS_PACK_DATA_H
#define HEADRACE_TESTS_PACK_DATA_H

#include <headrace/headrace.h>

#include "testing.h"

enum { PACK_SORTS = 8 };

// One of them: as a file, and as it is to be put into a pack file.
struct pack_datum {
    char name[80], label[24];
    struct bytes file;
    struct hr_pack_entry entry;  // points into this
    void *packed;
};

// Number i; i % PACK_SORTS says which sort: JPEGs, one in eight each a PNG, a
// cut JPEG and an empty file; names with UTF-8, a newline, and bytes that are
// none; labels, or none.
void pack_datum_make(struct pack_datum *d, int i, uint64_t seed);
void pack_datum_finish(struct pack_datum *d);

// Writes numbers 0 .. n - 1 to path, going on with what is there. False: not to
// its end, with hr_last_error().
bool pack_data_write(const char *path, int n, uint64_t seed);

// A path in a new folder of its own; lives until the program ends.
const char *pack_path(const char *name);

#endif
