// SPDX-License-Identifier: Apache-2.0
// Packing of coefficients: C against SIMD, to the byte and with walls behind
// what may be written; and that CPU_COEF_RANGE promises what it says.
#include <stdlib.h>
#include <string.h>

#include "coef_files.h"
#include "coef_reference.h"
#include "cpu_fallback/cpu_kernels.h"
#include "testing.h"

enum { RUN = 40 };

static int16_t random_value(int style)
{
    switch (style) {
    case 0:
        return (int16_t)(coef_pick(0, 3) ? 0 : coef_pick(-3, 3));
    case 1:
        return (int16_t)(coef_pick(0, 9) ? 0 : coef_pick(-300, 300));
    case 2:
        return (int16_t)(coef_pick(0, 1)
                             ? 0
                             : coef_pick(-2, 2) * 64 + coef_pick(-2, 2));
    case 3:
        return (int16_t)coef_random();
    default:
        return (int16_t)(coef_pick(0, 30)  ? 0
                         : coef_pick(0, 1) ? -32768
                                           : 32767);
    }
}

static void fill_blocks(int16_t (*blocks)[64], int n)
{
    int most = coef_pick(0, 4);

    for (int i = 0; i < n; i++) {
        int style = coef_pick(0, most),
            last = coef_pick(0, 1) ? 64 : coef_pick(0, 64);

        memset(blocks[i], 0, sizeof(blocks[i]));
        for (int k = 0; k < last; k++)
            blocks[i][k] = random_value(style);
    }
}

// Runs a packer with walls behind what it may write.
static bool pack_run(struct cpu_coef_sink *sink, uint8_t *to,
                     struct cpu_coef_block *out, const int16_t (*blocks)[64],
                     int n,
                     void (*run)(struct cpu_coef_sink *,
                                 struct cpu_coef_block *, const int16_t (*)[64],
                                 int))
{
    size_t room = (size_t)n * CPU_COEF_MOST + CPU_SLACK;
    bool whole = true;

    memset(to, 0xa5, room + 64);
    memset(&out[n], 0xa5, sizeof(*out));
    sink->to = to;
    sink->at = 1000;
    sink->range = false;
    run(sink, out, blocks, n);
    for (size_t i = 0; i < 64; i++)
        whole = whole && to[room + i] == 0xa5;
    for (size_t i = 0; i < sizeof(*out); i++)
        whole = whole && ((uint8_t *)&out[n])[i] == 0xa5;
    return whole && sink->at - 1000 == (uint32_t)(sink->to - to);
}

static void test_simd(void)
{
    static int16_t blocks[RUN][64] __attribute__((aligned(CPU_ALIGN)));
    static uint8_t to[2][RUN * CPU_COEF_MOST + CPU_SLACK + 64];
    static struct cpu_coef_block out[2][RUN + 1];
    struct cpu_ops ops;
    int bad = 0, ranges = 0, rounds = 20000;

    cpu_ops_init(&ops, ~0u);
    if (ops.pack_blocks == cpu_pack_blocks_c) {
        test_not_run("this machine has no SIMD to compare with");
        return;
    }
    coef_seed(test_seed);
    for (int r = 0; r < rounds; r++) {
        int n = coef_pick(1, coef_pick(0, 1) ? RUN : 2);
        int most = coef_pick(0, 2) ? 255 : 65535;
        uint16_t quant[64];
        struct cpu_coef_sink a = {.quant = quant}, b;

        for (int k = 0; k < 64; k++) {
            quant[k] = (uint16_t)coef_pick(1, coef_pick(0, 3) ? 9 : most);
            a.quant8[k] = (uint8_t)quant[k];
            a.wide |= quant[k] > 255;
        }
        fill_blocks(blocks, n);
        b = a;
        bad += !pack_run(&a, to[0], out[0], blocks, n, cpu_pack_blocks_c);
        bad += !pack_run(&b, to[1], out[1], blocks, n, ops.pack_blocks);
        bad += a.at != b.at || a.range != b.range ||
               memcmp(to[0], to[1], a.at - 1000) ||
               memcmp(out[0], out[1], (size_t)n * sizeof(out[0][0]));
        ranges += a.range;
    }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(ranges > rounds / 8 && ranges < rounds / 8 * 7);
    printf("\n  C against %s: %d runs, %d with range set; ", ops.name, rounds,
           ranges);
}

// A block at the limit of CPU_COEF_RANGE in the shape that is worst for some
// sum: few large ones, signs at random.
static void limit_block(int16_t block[64], const uint16_t quant[64])
{
    int left = CPU_COEF_RANGE, n = coef_pick(1, 12);

    memset(block, 0, 64 * sizeof(*block));
    while (n-- && left > 0) {
        int k = coef_pick(0, 1) ? coef_pick(0, 63) : 8 * coef_pick(0, 7), most,
            value;

        if (block[k])
            continue;
        most = left / quant[k];
        value = n ? coef_pick(0, most) : most;
        block[k] = (int16_t)(coef_pick(0, 1) ? value : -value);
        left -= value * quant[k];
    }
}

// Range as a packer sets it for a block whose sum is `sum`, all quantizers 1.
static bool range_at(int16_t block[64], int sum, const struct cpu_ops *ops)
{
    uint16_t ones[64];
    uint8_t to[CPU_COEF_MOST + CPU_SLACK];
    struct cpu_coef_sink sink = {.quant = ones, .to = to};
    struct cpu_coef_block out;

    for (int k = 0; k < 64; k++) {
        ones[k] = sink.quant8[k] = 1;
        sum -= k ? abs(block[k]) : 0;
    }
    block[0] = (int16_t)sum;
    ops->pack_blocks(&sink, &out, (const int16_t(*)[64])block, 1);
    return sink.range;
}

static void test_limit(void)
{
    int16_t block[64] __attribute__((aligned(CPU_ALIGN)));
    struct cpu_ops ops[2];
    uint16_t ones[64];
    int bad = 0;

    cpu_ops_init(&ops[0], CPU_FLAG_C);
    cpu_ops_init(&ops[1], ~0u);
    coef_seed(test_seed);
    for (int k = 0; k < 64; k++)
        ones[k] = 1;
    for (int r = 0; r < 20000; r++) {
        if (r % 2) {
            limit_block(block, ones);
        } else {  // all of them fit into 8 bits
            block[0] = 0;
            for (int k = 1; k < 64; k++)
                block[k] = (int16_t)coef_pick(-90, 90);
        }
        for (int i = 0; i < 2; i++)
            bad += range_at(block, CPU_COEF_RANGE, &ops[i]) ||
                   !range_at(block, CPU_COEF_RANGE + 1, &ops[i]);
    }
    CU_ASSERT_EQUAL(bad, 0);
}

static void test_range(void)
{
    struct cpu_coef_block out;
    uint8_t to[CPU_COEF_MOST + CPU_SLACK], a[64], b[64];
    uint16_t quant[64];
    int16_t block[64] __attribute__((aligned(CPU_ALIGN)));
    int bad = 0, differ = 0;

    coef_seed(test_seed);
    for (int r = 0; r < 200000; r++) {
        struct cpu_coef_sink sink = {.quant = quant, .to = to, .wide = true};

        for (int k = 0; k < 64; k++)
            quant[k] = (uint16_t)(r % 2 ? 1 : coef_pick(1, 99));
        limit_block(block, quant);
        cpu_pack_blocks_c(&sink, &out, (const int16_t(*)[64]) & block, 1);
        coef_reference_idct(block, quant, a);
        coef_reference_idct32(block, quant, b);
        bad += sink.range || memcmp(a, b, 64);
        // Further out they do differ, or the flag would be for nothing.
        for (int k = 0; k < 64; k++)
            quant[k] = (uint16_t)(quant[k] * 3);
        coef_reference_idct(block, quant, a);
        coef_reference_idct32(block, quant, b);
        differ += memcmp(a, b, 64) != 0;
    }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(differ > 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"c_against_simd", test_simd},
        {"limit_of_range", test_limit},
        {"range", test_range},
    };

    return test_main("packing", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
