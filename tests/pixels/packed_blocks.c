// SPDX-License-Identifier: Apache-2.0
#include "packed_blocks.h"

#include "simd_axes.h"

static int16_t edge(void)
{
    static const int16_t edges[] = {-8,   7,   -9,  8,    -128,  127,
                                    -129, 128, 256, -256, 32767, -32768};

    return test_rnd() % 3 ? 0 : edges[test_rnd() % 12];
}

static int16_t any(int low, int high)
{
    return (int16_t)test_rnd_int(low, high);
}

static int16_t coefficient(enum packed_kind kind, int i)
{
    switch (kind) {
    case PACKED_PICTURE:
        if (test_rnd_int(0, i / 2))
            return 0;
        if (test_rnd() % 5)
            return any(-7, 7);
        return test_rnd() % 32 ? any(-60, 60) : any(-300, 300);
    case PACKED_NIBBLES:
        return any(-8, 7);
    case PACKED_BYTES:
        return test_rnd() % 3 ? any(-8, 7) : any(-128, 127);
    case PACKED_WORDS:
        return test_rnd() % 3 ? any(-140, 140) : any(-1024, 1023);
    case PACKED_EDGES:
        return edge();
    case PACKED_RANDOM:
        return (int16_t)test_rnd();
    case PACKED_EXTREME:
        return test_rnd() & 1 ? INT16_MAX : INT16_MIN;
    default:
        return 0;
    }
}

static int16_t next_dc(enum packed_kind kind, int dc)
{
    static const int16_t steps[] = {0, 127, 128, -127, -128, -129};

    switch (kind) {
    case PACKED_PICTURE:
        return (int16_t)(dc + (test_rnd() % 8 ? any(-30, 30) : any(-400, 400)));
    case PACKED_LEAPS:
    case PACKED_EXTREME:
        return test_rnd() & 1 ? INT16_MAX : INT16_MIN;
    case PACKED_EMPTY:
        return 0;
    case PACKED_RANDOM:
        return (int16_t)test_rnd();
    default:
        return (int16_t)(dc + steps[test_rnd() % 6]);
    }
}

void packed_blocks_fill(int16_t (*blocks)[64], int n, enum packed_kind kind)
{
    int dc = 0;

    for (int b = 0; b < n; b++) {
        enum packed_kind k = kind;

        if (kind == PACKED_KINDS)
            k = (enum packed_kind)test_rnd_int(0, PACKED_KINDS - 1);
        dc = next_dc(k, dc);
        blocks[b][0] = (int16_t)dc;
        for (int i = 1; i < 64; i++)
            blocks[b][i] = coefficient(k, i);
    }
}
