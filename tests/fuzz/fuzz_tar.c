// SPDX-License-Identifier: Apache-2.0
// Fuzz target of tar files in WebDataset form.
#define _GNU_SOURCE  // memfd_create
#include "fuzz_shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_source(&hr__container_tar, fuzz_file(data, size), size);
    return 0;
}
