// SPDX-License-Identifier: Apache-2.0
// Small JPEGs of every kind that engines take, made by libjpeg's encoder from
// fixed random numbers: what a device is tested with before it is trusted.
#ifndef CPU_SPECIMEN_H
#define CPU_SPECIMEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Writes number i (0, 1, ...) to capacity bytes; the same bytes each time.
// False: there is no such one, or libjpeg refused. Its memory is libjpeg's own,
// some 100 KB, and freed at return. Threads: any.
bool cpu_specimen_make(int i, uint8_t *to, size_t capacity, size_t *size);
int cpu_specimen_count(void);

// Returns the library whose arithmetic the pictures are compared with: name and
// version.
const char *cpu_specimen_library(void);

#endif
