// SPDX-License-Identifier: Apache-2.0
// Kernels on PoCL in buffers that end, or begin, at inaccessible memory: an
// access outside is a crash, and a byte written at a forbidden place is found.
// PoCL's code has no sanitizer; this is in its place.
//
//   if (!guard_open()) ...;                  // once; there is no PoCL
//   guard_begin(ends);                       // where they touch the wall
//   in = guard_take(GUARD_IN, size); ...     // and fill it
//   guard_run(&picture, kernels, n);
//   guard_may(at, bytes);                    // these bytes may be written
//   guard_check();
//
// HEADRACE_TEST_OPENCL names another platform, like Oclgrind, which has no such
// memory, but sees each access itself. A broken promise aborts. One thread.
#ifndef HEADRACE_TESTS_KERNEL_GUARD_H
#define HEADRACE_TESTS_KERNEL_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/layout.h"

enum guard_buffer {
    GUARD_PLAN,
    GUARD_IN,
    GUARD_WORK,
    GUARD_OUT,
    GUARD_BUFFERS
};
enum { GUARD_BYTE = 0x5a };  // what work and out are full of at first

// False: there is no PoCL, or no OpenCL in this build; a line says why.
bool guard_open(void);
// ends: buffers end at the wall, but for the padding of their size to a
// multiple of 16; else they begin there.
void guard_begin(bool ends);
// At a multiple of 16. NULL: that is more than fits.
uint8_t *guard_take(enum guard_buffer which, size_t size);
// One picture, which is copied to the plan; of each kernel the groups that it
// needs, one at least.
void guard_run(const struct hr__kernel_picture *p, const int *kernels, int n);
// Offsets in the work buffer; in the order of their places.
void guard_may(size_t at, size_t bytes);
const uint8_t *guard_work(void);
// Checks that nothing else of work was written, nothing of `in` and plan, and
// nothing beside any of them. Only word `flag` of out may change; it may lie
// behind its end.
void guard_check(size_t flag);

#endif
