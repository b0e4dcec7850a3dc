// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of packed coefficients: random numbers, and JPEG files of
// every kind.
#ifndef HEADRACE_TESTS_COEF_FILES_H
#define HEADRACE_TESTS_COEF_FILES_H

#include <stdint.h>

#include "tools/samples/jpeg.h"

void coef_seed(uint64_t seed);
uint32_t coef_random(void);
int coef_pick(int from, int to);  // both included

// The kinds of JPEG that can be packed.
enum { COEF_KINDS = 23 };
extern const struct coef_kind {
    const char *name;
    struct samples_jpeg jpeg;
} coef_kinds[COEF_KINDS];

struct coef_file {
    struct samples_bytes bytes;
    int w, h;
};
// false: libjpeg does not write such a file.
bool coef_file_make(struct coef_file *f, const struct samples_jpeg *jpeg, int w,
                    int h, bool harsh);
// Any coefficients and quantisers instead of its own.
bool coef_file_spoil(struct coef_file *f);
void coef_file_finish(struct coef_file *f);

#endif
