// SPDX-License-Identifier: Apache-2.0
// Memory that ends where it may no longer be read: a page that faults.
#ifndef HEADRACE_TESTS_FENCED_H
#define HEADRACE_TESTS_FENCED_H

#include <stddef.h>
#include <stdint.h>

struct fenced {
    uint8_t *map, *end;  // end: the first byte that faults
    size_t size;         // of all of it
};

// At least size bytes, zero; the program ends without memory.
void fenced_init(struct fenced *f, size_t size);
// A copy right in front of the end.
uint8_t *fenced_copy(struct fenced *f, const uint8_t *from, size_t size);
void fenced_finish(struct fenced *f);

#endif
