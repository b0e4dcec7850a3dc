// SPDX-License-Identifier: Apache-2.0
// Fuzz target of TFRecord files: the first byte says whether the others are the
// file, or the tf.Example of a record whose checksums are right.
#define _GNU_SOURCE  // memfd_create
#include <endian.h>
#include <stdlib.h>

#include "fuzz_shard.h"

enum { HEAD = 12, SUM = 4 };

static void put_sum(uint8_t *at, const void *data, size_t size)
{
    uint32_t sum = hr__crc32c_table(data, size);

    sum = htole32((sum >> 15 | sum << 17) + UINT32_C(0xa282ead8));
    memcpy(at, &sum, sizeof(sum));
}

static const char *record_file(const uint8_t *data, size_t size)
{
    uint8_t *made = malloc(HEAD + size + SUM);
    uint64_t length = htole64(size);
    const char *path;

    promise(made);
    memcpy(made, &length, sizeof(length));
    put_sum(made + sizeof(length), made, sizeof(length));
    memcpy(made + HEAD, data, size);
    put_sum(made + HEAD + size, data, size);
    path = fuzz_file(made, HEAD + size + SUM);
    free(made);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool whole = size && *data % 2;

    data += size > 0;
    size -= size > 0;
    if (whole)
        fuzz_source(&hr__container_tfrecord, fuzz_file(data, size), size);
    else
        fuzz_source(&hr__container_tfrecord, record_file(data, size),
                    HEAD + size + SUM);
    return 0;
}
