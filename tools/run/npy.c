// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <stdio.h>
#include <string.h>

#define PREFIX 10  // magic, two version bytes, little-endian u16 length

static const char *descr(enum hr_dtype dtype)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return dtype == HR_U8 ? "|u1" : dtype == HR_F16 ? ">f2" : ">f4";
#else
    return dtype == HR_U8 ? "|u1" : dtype == HR_F16 ? "<f2" : "<f4";
#endif
}

// "(3,)" has a comma that "(3, 4)" has not, as Python writes its tuples.
static void print_shape(char *out, size_t size, const uint64_t *shape, int dims)
{
    size_t used = 0;

    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%llu",
                                 i ? ", " : "", (unsigned long long)shape[i]);
    if (dims == 1)
        snprintf(out + used, size - used, ",");
}

void npy_header(unsigned char out[NPY_HEADER_SIZE], enum hr_dtype dtype,
                const uint64_t *shape, int dims)
{
    static const unsigned char magic[8] = "\x93NUMPY\x01";
    const unsigned length = NPY_HEADER_SIZE - PREFIX;
    char tuple[96], dict[NPY_HEADER_SIZE + 64];
    int used;

    print_shape(tuple, sizeof(tuple), shape, dims);
    used = snprintf(dict, sizeof(dict),
                    "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                    descr(dtype), tuple);
    memcpy(out, magic, sizeof(magic));
    out[8] = (unsigned char)(length & 0xff);
    out[9] = (unsigned char)(length >> 8);
    memset(out + PREFIX, ' ', length);
    memcpy(out + PREFIX, dict,
           (size_t)used < length ? (size_t)used : length - 1);
    out[NPY_HEADER_SIZE - 1] = '\n';
}
