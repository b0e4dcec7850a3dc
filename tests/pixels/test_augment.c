// SPDX-License-Identifier: Apache-2.0
// Stage augment: each code by each instruction set against the readable C, on
// random and extreme pictures of all small sizes. compare_ops.py holds
// the stage against Pillow.
#include "cpu_fallback/cpu_ops.h"
#include "augment_random.h"
#include "heaps.h"
#include "simd_axes.h"
#include "testing.h"

enum {
    MOST = AUGMENT_SIDE,
    PITCH = 3 * MOST + 2 * CPU_SLACK,
    ROOM = PITCH * MOST
};

struct made {
    uint8_t first[ROOM + CPU_SLACK], second[ROOM + CPU_SLACK];
    struct cpu_pixels p;
};

static int below(int limit)
{
    return test_rnd_int(0, limit - 1);
}

static void run(struct made *to, const struct cpu_ops *ops,
                const uint8_t *pixels, int w, int h, int channels,
                const struct hr__augment *code, struct cpu_arena *arena)
{
    to->p = (struct cpu_pixels){to->first,
                                cpu_row_pitch((size_t)w * (size_t)channels), w,
                                h, channels};
    memset(to->first, 0x5a, sizeof(to->first));
    for (int y = 0; y < h; y++)
        memcpy(to->first + to->p.stride * (size_t)y,
               pixels + (size_t)y * (size_t)w * (size_t)channels,
               (size_t)w * (size_t)channels);
    CHECK(cpu_augment_run(&ops->augment, code, 1, &to->p, to->second, arena),
          "no memory");
}

static bool equal(const struct cpu_pixels *a, const struct cpu_pixels *b)
{
    size_t bytes = (size_t)a->w * (size_t)a->channels;

    for (int y = 0; y < a->h; y++)
        if (memcmp(a->data + a->stride * (size_t)y,
                   b->data + b->stride * (size_t)y, bytes))
            return false;
    return a->w == b->w && a->h == b->h && a->channels == b->channels;
}

TEST_CASE(sisters)
{
    static struct made want, got;
    struct cpu_arena arena;
    struct cpu_ops c, sister;

    test_rnd_seed(test_seed);
    cpu_arena_init(&arena, &plain_heap);
    cpu_ops_init(&c, CPU_FLAG_C);
    for (int i = 0; i < test_loops(12000); i++) {
        int w = 1 + below(MOST), h = 1 + below(below(3) ? 9 : MOST);
        int channels = below(4) ? 3 : 1;
        struct hr__augment code =
            augment_random((enum hr__augment_code)(i % HR__NUM_AUGMENT), w, h);
        static uint8_t pixels[3 * MOST * MOST];

        augment_noise(pixels, w * h * channels);
        run(&want, &c, pixels, w, h, channels, &code, &arena);
        for (int k = 1; k < CPU_LEVELS; k++) {
            if (cpu_levels[k].flags & ~cpu_detect())
                continue;
            cpu_ops_init(&sister, cpu_levels[k].flags);
            run(&got, &sister, pixels, w, h, channels, &code, &arena);
            CHECK(equal(&want.p, &got.p), "%s: code %d of %dx%dx%d, seed %d",
                  sister.name, code.code, w, h, channels, i);
        }
    }
    cpu_arena_finish(&arena);
}

static int clamped(int i, int size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

// One pass along x or y of a box, tap by tap.
static void naive_box(uint8_t *to, const uint8_t *from, int w, int h,
                      bool along_x, const struct hr__box *box)
{
    int n = along_x ? w : h, step = along_x ? 1 : w;

    for (int i = 0; i < w * h; i++) {
        int at = along_x ? i % w : i / w;
        const uint8_t *line = from + i - at * step;
        uint32_t sum = 0, both;

        for (int k = -box->reach; k <= box->reach; k++)
            sum += line[clamped(at + k, n) * step];
        both = (uint32_t)line[clamped(at - box->reach - 1, n) * step] +
               line[clamped(at + box->reach + 1, n) * step];
        to[i] = (uint8_t)((sum * box->inner + both * box->outer + (1u << 23)) >>
                          24);
    }
}

// A blur of thousands of pixels costs a small picture neither memory nor time.
TEST_CASE(wide_boxes)
{
    static struct made got;
    struct cpu_arena arena;
    struct cpu_ops c;

    test_rnd_seed(test_seed);
    cpu_arena_init(&arena, &plain_heap);
    arena.limit = 4 << 10;
    cpu_ops_init(&c, CPU_FLAG_C);
    for (int i = 0; i < 60; i++) {
        int w = 1 + below(9), h = 1 + below(9);
        struct hr__box box = {.reach = 4 + below(i % 2 ? 12 : 9000)};
        struct hr__augment code = {.code = HR__AUGMENT_BOX, .w = w, .h = h};
        uint8_t pixels[81], once[81], twice[81];

        box.inner = (1u << 24) / ((uint32_t)box.reach * 2 + 2);
        box.outer = box.inner / 2;
        code.box.x = code.box.y = box;
        code.box.passes = 1;
        augment_noise(pixels, w * h);
        naive_box(once, pixels, w, h, true, &box);
        naive_box(twice, once, w, h, false, &box);
        run(&got, &c, pixels, w, h, 1, &code, &arena);
        for (int y = 0; y < h; y++)
            CHECK(!memcmp(got.p.data + got.p.stride * (size_t)y, twice + w * y,
                          (size_t)w),
                  "reach %d, %dx%d, row %d", box.reach, w, h, y);
        cpu_arena_clear(&arena, 0);
    }
    cpu_arena_finish(&arena);
}

// All 2^24 colours, each with one shift.
TEST_CASE(hues)
{
    static uint8_t src[256 * 3 + CPU_SLACK], a[256 * 3 + CPU_SLACK],
        b[256 * 3 + CPU_SLACK];
    struct cpu_ops c, sister;

    test_rnd_seed(test_seed);
    cpu_ops_init(&c, CPU_FLAG_C);
    for (int i = 0; i < test_loops(8000); i++) {
        int rg = below(65536), shift = below(256);

        for (int blue = 0; blue < 256; blue++) {
            src[3 * blue] = (uint8_t)(rg >> 8);
            src[3 * blue + 1] = (uint8_t)rg;
            src[3 * blue + 2] = (uint8_t)blue;
        }
        c.augment.hue(a, src, 256, shift);
        for (int k = 1; k < CPU_LEVELS; k++) {
            if (cpu_levels[k].flags & ~cpu_detect())
                continue;
            cpu_ops_init(&sister, cpu_levels[k].flags);
            sister.augment.hue(b, src, 256, shift);
            CHECK(!memcmp(a, b, 256 * 3), "%s: red %d, green %d, by %d",
                  sister.name, rg >> 8, rg & 255, shift);
        }
    }
}
