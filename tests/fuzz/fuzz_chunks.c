// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the indexes of MDS and litData. Files that they name as numbers
// may be the index itself.
#define _GNU_SOURCE  // memfd_create
#include "fuzz_shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hr_source source = hr_source_create();
    struct hr__source *s = hr__source_of(source);

    promise(source);
    if (hr__source_chunks(s, fuzz_file(data, size))) {
        s->pub.num = s->num;
        fuzz_read_all(s, size);
    }
    hr_source_close(&source);
    return 0;
}
