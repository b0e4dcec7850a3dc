// SPDX-License-Identifier: Apache-2.0
// Packed coefficients: every line comes back as it was, on every instruction
// set, in whatever parts it is read; damaged lines are refused, or do no harm.
#include "corpus_list.h"
#include "cpu_fallback/decode.h"
#include "packed_blocks.h"
#include "packed_picture.h"
#include "simd_axes.h"
#include "simd_levels.h"
#include "testing.h"

enum { MOST = 70 };

static _Alignas(64) int16_t line[MOST][64], back[MOST][64];
static uint8_t segment[2 + MOST * 234 + 64 + CPU_PACKED_PAD];

static bool returns(const struct cpu_ops *ops, const int16_t (*blocks)[64],
                    int n, const uint8_t *packed, int first, int count)
{
    memset(back, 0x99, sizeof(back));
    ops->unpack_line(back, packed, n, first, count);
    return !memcmp(back, blocks[first], (size_t)count * sizeof(back[0]));
}

// ---- The check, plainly -----------------------------------------------------

// Bytes of the payload that begins at p, value by value; -1: it would not end
// before `end`, or says of DC or of a row what it must not.
static int plain_payload(const uint8_t *p, const uint8_t *end, unsigned rows)
{
    const uint8_t *begin = p;
    int n = 0, bytes = 0;

    if (end - p < __builtin_popcount(rows) || (rows & 1 && *p & 1))
        return -1;
    for (unsigned r = rows; r; r &= r - 1, p++) {
        if (!*p)
            return -1;
        n += __builtin_popcount(*p);
    }
    if (end - p < (n + 1) / 2 || (n & 1 && p[n / 2] >> 4))
        return -1;
    for (int i = 0; i < n; i++)
        bytes += !(p[i / 2] >> (i & 1) * 4 & 15);
    p += (n + 1) / 2;
    if (end - p < bytes)
        return -1;
    n = bytes;
    for (int i = 0; i < n; i++)
        bytes += p[i] ? 0 : 2;
    return end - p < bytes ? -1 : (int)(p - begin) + bytes;
}

static bool plain_check(const uint8_t *p, size_t size, int n)
{
    size_t escapes = 0, sum = 0, blocks = (size_t)n;
    const uint8_t *end = p + size, *at;

    if (n < 1 || size < 2 + 3 * blocks)
        return false;
    for (size_t i = 0; i < blocks; i++) {
        escapes += p[2 + i] == 0x80;
        sum += p[2 + 2 * blocks + i];
    }
    if (escapes != (size_t)(p[0] | p[1] << 8) ||
        size != 2 + 3 * blocks + 2 * escapes + sum)
        return false;
    at = p + 2 + 3 * blocks + 2 * escapes;
    for (size_t i = 0; i < blocks; at += p[2 + 2 * blocks + i++])
        if (plain_payload(at, end, p[2 + blocks + i]) != p[2 + 2 * blocks + i])
            return false;
    return true;
}

// The verdict of the check, whatever lies behind the segment.
static bool takes(const uint8_t *p, size_t size, int n)
{
    static const uint8_t behind[] = {0, 0xff, 0x10};
    auto_heap uint8_t *copy = malloc(size + CPU_PACKED_PAD);
    bool ok = plain_check(p, size, n);

    if (!copy)
        abort();
    memcpy(copy, p, size);
    for (size_t i = 0; i < sizeof(behind); i++) {
        memset(copy + size, behind[i], CPU_PACKED_PAD);
        CHECK(cpu_packed_check_line(copy, size, n) == ok,
              "%d blocks, %zu bytes: taken or not", n, size);
    }
    return ok;
}

// Lines with one byte that is another.
TEST_CASE(wrong_lines)
{
    int loops = test_loops(40000), taken = 0;
    uint64_t seed = test_seed;
    struct cpu_ops ops;

    cpu_ops_init(&ops, ~0u);
    test_rnd_seed(test_seed);
    for (int i = 0; i < loops; i++) {
        int n = 1 + random_below(&seed, 12);
        size_t size;

        packed_blocks_fill(
            line, n, (enum packed_kind)(random_below(&seed, PACKED_KINDS)));
        size = ops.pack_line(segment, (const int16_t(*)[64])line, n);
        segment[random_below(&seed, (int)size)] ^=
            (uint8_t)(1 << random_below(&seed, 8));
        taken += takes(segment, size, n);
    }
    CHECK(taken > loops / 20 && taken < loops, "%d of %d were taken", taken,
          loops);
}

// ---- Round trips ----------------------------------------------------------

static void trip(const struct cpu_ops *ops, int n, enum packed_kind kind)
{
    size_t size;

    packed_blocks_fill(line, n, kind);
    size = ops->pack_line(segment, (const int16_t(*)[64])line, n);
    CHECK(size <= cpu_packed_bound((size_t)n) - 64, "%s: %d of kind %d: %zu",
          ops->name, n, kind, size);
    CHECK(takes(segment, size, n), "%s: %d of kind %d", ops->name, n, kind);
    CHECK(!takes(segment, size - 1, n) && !takes(segment, size + 1, n) &&
              !takes(segment, size, n + 1),
          "%s: %d of kind %d are more or less", ops->name, n, kind);
    CHECK(returns(ops, (const int16_t(*)[64])line, n, segment, 0, n),
          "%s: %d of kind %d differ", ops->name, n, kind);
}

TEST_CASE(lines)
{
    struct cpu_ops ops;

    test_rnd_seed(test_seed);
    for (int i = 0; i < CPU_LEVELS; i++)
        if (simd_level_ops(i, &ops))
            for (int n = 1; n <= MOST; n++)
                for (int kind = 0; kind <= PACKED_KINDS; kind++)
                    trip(&ops, n, (enum packed_kind)kind);
}

TEST_CASE(parts)
{
    struct cpu_ops ops;

    test_rnd_seed(test_seed);
    packed_blocks_fill(line, MOST, PACKED_KINDS);
    for (int i = 0; i < CPU_LEVELS; i++) {
        if (!simd_level_ops(i, &ops))
            continue;
        ops.pack_line(segment, (const int16_t(*)[64])line, MOST);
        for (int first = 0; first < MOST; first++)
            for (int n = 1; n <= MOST - first; n++)
                CHECK(returns(&ops, (const int16_t(*)[64])line, MOST, segment,
                              first, n),
                      "%s: %d from %d on differ", ops.name, n, first);
    }
}

// A cut from a line equals a pack of those blocks, and nothing is written
// behind it.
TEST_CASE(cuts)
{
    static uint8_t want[sizeof(segment)], got[sizeof(segment)];
    struct cpu_ops ops;

    test_rnd_seed(test_seed);
    cpu_ops_init(&ops, CPU_FLAG_C);
    packed_blocks_fill(line, MOST, PACKED_KINDS);
    ops.pack_line(segment, (const int16_t(*)[64])line, MOST);
    for (int first = 0; first < MOST; first++)
        for (int n = 1; n <= MOST - first; n++) {
            struct cpu_packed_cut cut = {
                .segment = segment, .n = MOST, .first = first, .count = n};
            size_t size = ops.pack_line(want,
                                        (const int16_t(*)[64])line + first, n);

            memset(got, 0xa5, sizeof(got));
            want[size] = 0xa5;
            CHECK(cpu_packed_cut(&cut) == size, "%d from %d on: size", n,
                  first);
            cpu_packed_cut_write(&cut, got);
            CHECK(!memcmp(got, want, size + 1), "%d from %d on differ", n,
                  first);
        }
}

// The same of lines as wide as pictures get, whose blocks are as long as they
// get: sums in few bits would overflow.
TEST_CASE(wide_cuts)
{
    enum { WIDE = 2500, FIRST = 1201, COUNT = 1203 };
    int16_t(*blocks)[64] = calloc(WIDE, sizeof(*blocks));
    auto_heap uint8_t *from = malloc(cpu_packed_bound(WIDE));
    auto_heap uint8_t *want = malloc(cpu_packed_bound(COUNT));
    auto_heap uint8_t *got = malloc(cpu_packed_bound(COUNT));
    struct cpu_packed_cut cut = {
        .segment = from, .n = WIDE, .first = FIRST, .count = COUNT};
    struct cpu_ops ops;
    size_t size;

    cpu_ops_init(&ops, CPU_FLAG_C);
    for (int i = 0; i < WIDE; i++) {
        blocks[i][0] = (int16_t)(i % 7 ? 90 * (i % 2) : 1000);
        for (int k = 1; k < 64; k++)
            blocks[i][k] = (int16_t)(300 + k);
    }
    ops.pack_line(from, (const int16_t(*)[64])blocks, WIDE);
    size = ops.pack_line(want, (const int16_t(*)[64])blocks + FIRST, COUNT);
    CU_ASSERT_EQUAL(cpu_packed_cut(&cut), size);
    cpu_packed_cut_write(&cut, got);
    CU_ASSERT(!memcmp(got, want, size));
    free(blocks);
}

// The bytes are the format: one line, written down by hand.
// DCs 5, -32768, 4: the differences from the second on are 7ffb and 8004
// modulo 2^16.
static const uint8_t hand[] = {
    2,    0,                       // differences that escape
    5,    0x80, 0x80,              // d
    0x81, 0,    1,                 // rows
    5,    0,    5,                 // len
    0xfb, 0x7f, 0x04, 0x80,        // what escapes
    0x06, 0x80, 0xf8, 0x00, 8,     // -8 -1, and 8 that escapes
    0x02, 0x00, 0,    0x80, 0x00,  // 128 escapes twice
};

TEST_CASE(bytes)
{
    struct cpu_ops ops;

    memset(line, 0, 3 * sizeof(line[0]));
    line[0][0] = 5;
    line[0][1] = -8;
    line[0][2] = -1;
    line[0][63] = 8;
    line[1][0] = -32768;
    line[2][0] = 4;
    line[2][1] = 128;
    for (int i = 0; i < CPU_LEVELS; i++)
        if (simd_level_ops(i, &ops)) {
            size_t n = ops.pack_line(segment, (const int16_t(*)[64])line, 3);

            CHECK(n == sizeof(hand) && !memcmp(segment, hand, n),
                  "%s writes another format", ops.name);
        }
}

// Lines that differ in one byte and are invalid.
TEST_CASE(wrong_bytes)
{
    static const struct {
        int at, byte;
    } faults[] = {
        {0, 1},     {1, 1},     {2, 0x80},  {3, 0},  {5, 0x01},
        {5, 0x83},  {6, 1},     {7, 0},     {8, 4},  {8, 6},
        {9, 1},     {10, 4},    {15, 0x05},  // DC
        {15, 0x02}, {15, 0},    {15, 0x0e}, {16, 0}, {17, 0x08},
        {18, 0x10},  // behind the last nibble
        {19, 0},    {20, 0x06}, {21, 0x10}, {21, 1}, {22, 1},
    };
    uint8_t bad[sizeof(hand)];

    CU_ASSERT(takes(hand, sizeof(hand), 3));
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        memcpy(bad, hand, sizeof(bad));
        bad[faults[i].at] = (uint8_t)faults[i].byte;
        CHECK(!takes(bad, sizeof(bad), 3), "byte %d may be %d", faults[i].at,
              faults[i].byte);
    }
}

// ---- Pictures -------------------------------------------------------------

struct compare {
    const struct cpu_ops *c;
    uint64_t bytes;
    int bad;
};

// The bytes of C, and what they are made of back again by all of them.
static void compare_line(void *ctx, const int16_t (*blocks)[64], int n,
                         const uint8_t *packed, size_t size)
{
    static uint8_t again[2 + 1024 * 234 + 64];
    static _Alignas(64) int16_t out[1024][64];
    struct compare *cmp = ctx;
    struct cpu_ops ops;

    if (n > 1024) {
        cmp->bad++;
        return;
    }
    cmp->bad += cmp->c->pack_line(again, blocks, n) != size ||
                memcmp(again, packed, size) != 0;
    for (int i = 0; i < CPU_LEVELS; i++)
        if (simd_level_ops(i, &ops)) {
            ops.unpack_line(out, packed, n, 0, n);
            cmp->bad += memcmp(out, blocks, (size_t)n * sizeof(*out)) != 0;
        }
}

static int one_picture(const char *name, const struct bytes *file,
                       uint64_t *packed)
{
    struct cpu_ops ops, c;
    struct compare cmp = {.c = &c};
    auto_heap struct cpu_packed_head *head = NULL;

    cpu_ops_init(&c, CPU_FLAG_C);
    cpu_ops_init(&ops, ~0u);
    head = packed_picture(file->data, file->size, &ops, compare_line, &cmp);
    if (!head)
        return 0;
    CHECK(!cmp.bad, "%s: %d lines differ", name, cmp.bad);
    CHECK(cpu_packed_check(head, (size_t)head->size), "%s is refused", name);
    *packed += head->size;
    return 1;
}

static int folder(const char *name)
{
    struct corpus_folder f;
    uint64_t files = 0, packed = 0;
    int n = 0;

    if (!corpus_folder_open(&f, name))
        return 0;
    while (corpus_folder_next(&f, 1)) {
        auto_bytes file = {0};

        if (!read_file(f.path, &file))
            continue;
        if (one_picture(f.name, &file, &packed)) {
            files += file.size;
            n++;
        }
    }
    corpus_folder_close(&f);
    printf(" (%s: %d files, packed %.3f times as large)", name, n,
           n ? (double)packed / (double)files : 0);
    return n;
}

TEST_CASE(photos)
{
    if (!(folder("photos/imagenet-sample") + folder("photos/amd-416") +
          folder("photos/amd-tiny")))
        test_not_run("no corpus");
}

// Every factor and colour: each line is found where it was put.
struct expect {
    const uint8_t *at[512];
    int n;
    uint64_t sums[512];
};

static uint64_t sum_of(const int16_t (*blocks)[64], int n)
{
    uint64_t sum = 0;

    for (int i = 0; i < n * 64; i++)
        sum = sum * 31 + (uint16_t)blocks[i / 64][i % 64];
    return sum;
}

static void expect_line(void *ctx, const int16_t (*blocks)[64], int n,
                        const uint8_t *packed, size_t size)
{
    struct expect *e = ctx;

    (void)packed;
    (void)size;
    if (e->n < 512)
        e->sums[e->n++] = sum_of(blocks, n);
}

static void find_lines(const struct cpu_packed_head *head,
                       const struct expect *e)
{
    int k = 0, bad = 0;
    struct cpu_ops ops;

    cpu_ops_init(&ops, ~0u);
    CU_ASSERT_EQUAL(e->n, (int)head->segments);
    for (int row = 0; row < (int)head->rows; row++)
        for (int i = 0; i < (int)head->num_components; i++)
            for (int v = 0; v < (int)head->comp[i].v; v++, k++) {
                int n = (int)head->comp[i].columns;
                int y = row * (int)head->comp[i].v + v;

                ops.unpack_line(back, cpu_packed_line(head, i, y), n, 0, n);
                bad += sum_of((const int16_t(*)[64])back, n) != e->sums[k];
            }
    CU_ASSERT_EQUAL(bad, 0);
}

static struct cpu_packed_head *small(J_COLOR_SPACE space, uint8_t factors,
                                     uint64_t *seed, struct expect *e)
{
    struct jpeg_spec spec = {
        .w = 30 + random_below(seed, 60),
        .h = 30 + random_below(seed, 60),
        .space = space,
        .factors = {factors, 0x11, 0x11},
        .quality = 20 + random_below(seed, 80),
    };
    struct bytes file = test_jpeg_of(&spec, seed);
    struct cpu_packed_head *head;
    struct cpu_ops ops;

    cpu_ops_init(&ops, ~0u);
    e->n = 0;
    head = packed_picture(file.data, file.size, &ops, expect_line, e);
    free(file.data);
    if (!head)
        abort();
    return head;
}

static const struct {
    J_COLOR_SPACE space;
    uint8_t factors;
} forms[] = {
    {JCS_GRAYSCALE, 0x11}, {JCS_YCbCr, 0x11}, {JCS_YCbCr, 0x21},
    {JCS_YCbCr, 0x22},     {JCS_YCbCr, 0x12}, {JCS_YCbCr, 0x41},
    {JCS_RGB, 0x11},
};
enum { FORMS = sizeof(forms) / sizeof(*forms) };

TEST_CASE(pictures)
{
    static struct expect e;
    uint64_t seed = test_seed;

    for (int i = 0; i < FORMS; i++) {
        auto_heap struct cpu_packed_head *head =
            small(forms[i].space, forms[i].factors, &seed, &e);

        CU_ASSERT(cpu_packed_check(head, (size_t)head->size));
        CU_ASSERT(!cpu_packed_check(head, (size_t)head->size - 1));
        find_lines(head, &e);
    }
}

// ---- Damage ---------------------------------------------------------------

// All of it, and a part of each line, in memory that ends with the picture.
static void read_all(const struct cpu_packed_head *head, uint64_t *seed)
{
    struct cpu_ops ops;

    for (int level = 0; level < CPU_LEVELS; level++) {
        if (!simd_level_ops(level, &ops))
            continue;
        for (int i = 0; i < (int)head->num_components; i++)
            for (int y = 0; y < (int)(head->rows * head->comp[i].v); y++) {
                const uint8_t *from = cpu_packed_line(head, i, y);
                int n = (int)head->comp[i].columns;
                int first = random_below(seed, n);

                if (n > MOST)
                    n = 0;
                else
                    ops.unpack_line(back, from, n, 0, n);
                if (first < n)
                    ops.unpack_line(back, from, n, first, n - first);
            }
    }
}

static void damage(uint8_t *p, size_t size, uint64_t *seed)
{
    size_t head = sizeof(struct cpu_packed_head);
    // Where a checksum would not tell: some in the head, most behind it.
    size_t from = random_below(seed, 8) ? head : 16;

    for (int k = 1 + random_below(seed, 4); k; k--) {
        size_t at = from + next_random(seed) % (size - from);

        p[at] = (uint8_t)(random_below(seed, 2)
                              ? next_random(seed)
                              : p[at] ^ 1u << random_below(seed, 8));
    }
}

// Seals it again, if its end can be found: a checksum is no protection.
static void seal(struct cpu_packed_head *head, size_t size)
{
    struct cpu_packed_head *whole = head;
    size_t at = sizeof(*head) + (size_t)head->segments * 4;

    if (head->segments < size && at + 4 <= size &&
        whole->offset[whole->segments] == size - CPU_PACKED_PAD)
        cpu_packed_seal(whole);
}

TEST_CASE(hostile)
{
    static struct expect e;
    uint64_t seed = test_seed;
    int taken = 0, loops = test_loops(20000);

    for (int i = 0; i < FORMS; i++) {
        auto_heap struct cpu_packed_head *head =
            small(forms[i].space, forms[i].factors, &seed, &e);
        size_t size = (size_t)head->size;
        auto_heap struct cpu_packed_head *bad = malloc(size);

        if (!bad)
            abort();
        for (int k = 0; k < loops / FORMS; k++) {
            memcpy(bad, head, size);
            damage((uint8_t *)bad, size, &seed);
            CU_ASSERT(!cpu_packed_check(bad, size) ||
                      !memcmp(bad, head, size - CPU_PACKED_PAD));
            seal(bad, size);
            if (cpu_packed_check(bad, size)) {
                taken++;
                read_all(bad, &seed);
            }
        }
    }
    // Values and quantisers that are others are none the worse for it.
    CHECK(taken > loops / 50 && taken < loops, "%d of %d were taken", taken,
          loops);
}

// A block that claims rows has a payload, and the other way round: otherwise a
// reader would take the payload of the next block, or bytes behind the segment.
TEST_CASE(empty_payloads)
{
    // Two blocks: escapes, DCs, rows, lengths, payloads.
    static const uint8_t none[] = {0, 0, 1, 2, 0, 0, 0, 0};
    static const uint8_t one[] = {0, 0, 1, 2, 4, 0, 2, 0, 2, 3};
    static const uint8_t rows_alone[] = {0, 0, 1, 2, 4, 8, 2, 0, 2, 3};
    static const uint8_t first_alone[] = {0, 0, 1, 2, 0xf4, 4, 0, 2, 2, 3};
    static const uint8_t length_alone[] = {0, 0, 1, 2, 4, 0, 2, 1, 2, 3, 1};

    CU_ASSERT(takes(none, sizeof(none), 2));
    CU_ASSERT(takes(one, sizeof(one), 2));
    CU_ASSERT(!takes(rows_alone, sizeof(rows_alone), 2));
    CU_ASSERT(!takes(first_alone, sizeof(first_alone), 2));
    CU_ASSERT(!takes(length_alone, sizeof(length_alone), 2));
}

// One fault each, sealed again.
TEST_CASE(faults)
{
    static struct expect e;
    uint64_t seed = test_seed;
    auto_heap struct cpu_packed_head *head = small(JCS_YCbCr, 0x22, &seed, &e);
    auto_heap struct cpu_packed_head *bad = malloc((size_t)head->size);
    size_t size = (size_t)head->size;

    if (!bad)
        abort();
#define FAULT(change)                            \
    do {                                         \
        memcpy(bad, head, size);                 \
        change;                                  \
        seal(bad, size);                         \
        CU_ASSERT(!cpu_packed_check(bad, size)); \
    } while (0)
    FAULT(bad->magic++);
    FAULT(bad->version++);
    FAULT(bad->width += 16);
    FAULT(bad->height = 0);
    FAULT(bad->height += 65536);
    FAULT(bad->num_components = 2);
    FAULT(bad->color = HR_COLOR_GRAY);
    FAULT(bad->comp[1].h = 0);
    FAULT(bad->comp[1].v = 3);
    FAULT(bad->comp[0].columns++);
    FAULT(bad->h_max = 1);
    FAULT(bad->mcus--);
    FAULT(bad->rows--);
    FAULT(bad->reserved = 1);
    FAULT(bad->offset[0] -= 4);
    FAULT(bad->offset[2] = bad->offset[1] - 1);
    FAULT(bad->offset[2] = UINT32_MAX);
    FAULT(bad->offset[1]++);
#undef FAULT
    memcpy(bad, head, size);
    seal(bad, size);
    CU_ASSERT(cpu_packed_check(bad, size));
}
