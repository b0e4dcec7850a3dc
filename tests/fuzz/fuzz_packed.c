// SPDX-License-Identifier: Apache-2.0
// Fuzz target of packed coefficients. The first byte says what the others are:
// a segment (of as many blocks as the second byte says), blocks, or a picture,
// which is sealed if there is an end to it. Every instruction set reads bytes
// that the check takes alike, from memory that ends there; blocks come back.
#include <string.h>

#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/packed/packed.h"
#include "fuzz.h"

enum { MOST = 256, LEVELS = 3 };

static struct cpu_ops ops[LEVELS];
static _Alignas(64) int16_t in[MOST][64], want[MOST][64], got[MOST][64];

static void read_line(const uint8_t *segment, int n, int first)
{
    size_t bytes = (size_t)(n - first) * sizeof(want[0]);

    ops[0].unpack_line(want, segment, n, first, n - first);
    for (int i = 1; i < LEVELS; i++) {
        ops[i].unpack_line(got, segment, n, first, n - first);
        promise(!memcmp(want, got, bytes));
    }
}

static void segment(const uint8_t *data, size_t size, int n)
{
    uint8_t *copy = malloc(size + CPU_PACKED_PAD);

    promise(copy);
    memcpy(copy, data, size);
    memset(copy + size, 0x80, CPU_PACKED_PAD);
    if (cpu_packed_check_line(copy, size, n)) {
        read_line(copy, n, n / 2);
        read_line(copy, n, 0);
    }
    free(copy);
}

static void blocks(const uint8_t *data, size_t size)
{
    static uint8_t first[2 + MOST * 234 + 64 + CPU_PACKED_PAD];
    static uint8_t other[sizeof(first)];
    int n;

    size = size < sizeof(in) ? size : sizeof(in);
    n = (int)((size + sizeof(in[0]) - 1) / sizeof(in[0]));
    if (!n)
        return;
    memset(in, 0, (size_t)n * sizeof(in[0]));
    memcpy(in, data, size);
    size = ops[0].pack_line(first, (const int16_t(*)[64])in, n);
    promise(cpu_packed_check_line(first, size, n));
    for (int i = 1; i < LEVELS; i++) {
        promise(ops[i].pack_line(other, (const int16_t(*)[64])in, n) == size);
        promise(!memcmp(first, other, size));
    }
    read_line(first, n, 0);
    promise(!memcmp(in, want, (size_t)n * sizeof(in[0])));
}

static void seal(struct cpu_packed_head *head, size_t size)
{
    size_t at;

    if (size < sizeof(*head))
        return;
    at = sizeof(*head) + (size_t)head->segments * sizeof(uint32_t);
    if (at + sizeof(uint32_t) <= size &&
        head->offset[head->segments] == size - CPU_PACKED_PAD)
        cpu_packed_seal(head);
}

static void picture(const uint8_t *data, size_t size)
{
    struct cpu_packed_head *head = malloc(size ? size : 1);

    promise(head);
    memcpy(head, data, size);
    seal(head, size);
    if (cpu_packed_check(head, size))
        for (int i = 0; i < (int)head->num_components; i++)
            for (int y = 0; y < (int)(head->rows * head->comp[i].v); y++)
                if (head->comp[i].columns <= MOST)
                    read_line(cpu_packed_line(head, i, y),
                              (int)head->comp[i].columns, 0);
    free(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (unsigned i = 0; i < LEVELS && !ops[i].name; i++)
        cpu_ops_init(&ops[i], (2u << i) - 1);
    if (size < 2)
        return 0;
    if (data[0] % 3 == 0)
        segment(data + 2, size - 2, data[1] + 1);
    else if (data[0] % 3 == 1)
        blocks(data + 1, size - 1);
    else
        picture(data + 1, size - 1);
    return 0;
}
