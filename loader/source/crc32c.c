// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of TFRecord files. Processors with SSE 4.2
// have an instruction for it; the tables take eight bytes at a time elsewhere.
#include <pthread.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

enum { SLICES = 8 };

#define POLYNOMIAL UINT32_C(0x82f63b78)  // bits reversed

static uint32_t tables[SLICES][256];

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t sum = i;

        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
        tables[0][i] = sum;
    }
    for (int k = 1; k < SLICES; k++)
        for (int i = 0; i < 256; i++)
            tables[k][i] = tables[k - 1][i] >> 8 ^
                           tables[0][tables[k - 1][i] & 0xff];
}

uint32_t hr__crc32c_table(const void *data, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *p = data;
    uint32_t sum = UINT32_MAX;

    pthread_once(&once, fill_tables);
    for (; size >= SLICES; size -= SLICES, p += SLICES) {
        uint32_t low = sum ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 |
                              (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);

        sum = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^
              tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^
              tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
              tables[0][p[7]];
    }
    while (size--)
        sum = sum >> 8 ^ tables[0][(sum ^ *p++) & 0xff];
    return ~sum;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t sum_sse42(const void *data,
                                                            size_t size)
{
    const unsigned char *p = data;
    uint64_t sum = UINT32_MAX, word;

    for (; size >= sizeof(word); size -= sizeof(word), p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        sum = __builtin_ia32_crc32di(sum, word);
    }
    while (size--)
        sum = __builtin_ia32_crc32qi((uint32_t)sum, *p++);
    return ~(uint32_t)sum;
}

uint32_t hr__crc32c(const void *data, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? sum_sse42(data, size)
                                            : hr__crc32c_table(data, size);
}

#else

uint32_t hr__crc32c(const void *data, size_t size)
{
    return hr__crc32c_table(data, size);
}

#endif
