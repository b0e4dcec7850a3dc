// SPDX-License-Identifier: Apache-2.0
// Header of NumPy's .npy format, version 1.0 (numpy/lib/format.py): magic,
// version, length, a Python dict, padding; the elements follow.
#ifndef HEADRACE_TOOLS_RUN_NPY_H
#define HEADRACE_TOOLS_RUN_NPY_H

#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

// Always: a multiple of 64 that any shape of four numbers fits, so that the
// count can be written over when it is known.
#define NPY_HEADER_SIZE 128

// Writes NPY_HEADER_SIZE bytes for dims (1 .. 4) numbers of shape, C order,
// the machine's byte order.
void npy_header(unsigned char out[NPY_HEADER_SIZE], enum hr_dtype dtype,
                const uint64_t *shape, int dims);

#endif
