// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: a target is that one function.
#ifndef HEADRACE_TESTS_FUZZ_H
#define HEADRACE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A broken one is found as a crash is.
#define promise(x)   \
    do {             \
        if (!(x))    \
            abort(); \
    } while (0)

#endif
