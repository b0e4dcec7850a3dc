// SPDX-License-Identifier: Apache-2.0
// The work of a code of stage augment is counted, not timed: eight times the
// pixels, along either side, are eight times the work and no more. The readable
// C is compiled into this program once more, and the compiler lets each block
// of it call in here.
#include "cpu_fallback/cpu_ops.h"
#include "heaps.h"
#include "testing.h"

static uint64_t blocks;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    blocks++;
}

enum { SHORT = 16, LONG = 8 * SHORT, MOST = 10, CHANNELS = 3 };

static uint64_t work_of(struct hr__augment code, int w, int h)
{
    static uint8_t first[LONG * LONG * 64], second[sizeof(first)];
    struct cpu_pixels p = {first, cpu_row_pitch((size_t)w * CHANNELS), w, h,
                           CHANNELS};
    struct cpu_arena arena;
    struct cpu_ops c;

    cpu_ops_init(&c, CPU_FLAG_C);
    code.w = w;
    code.h = h;
    cpu_arena_init(&arena, &plain_heap);
    for (size_t i = 0; i < sizeof(first); i++)
        first[i] = (uint8_t)(i * 37 >> 3);
    blocks = 0;
    CHECK(cpu_augment_run(&c.augment, &code, 1, &p, second, &arena),
          "no memory");
    cpu_arena_finish(&arena);
    return blocks;
}

// (What a picture costs beside its pixels makes the ratio less, borders that
// are only copied make it more.)
static void check(const char *name, const struct hr__augment *code)
{
    uint64_t one = work_of(*code, SHORT, SHORT);
    uint64_t high = work_of(*code, SHORT, LONG);
    uint64_t wide = work_of(*code, LONG, SHORT);

    CHECK(one > 0, "%s: nothing is counted", name);
    CHECK(high <= one * MOST, "%s: %llu blocks for %d rows, %llu for %d", name,
          (unsigned long long)one, SHORT, (unsigned long long)high, LONG);
    CHECK(wide <= one * MOST, "%s: %llu blocks for %d columns, %llu for %d",
          name, (unsigned long long)one, SHORT, (unsigned long long)wide, LONG);
}

TEST_CASE(codes)
{
#define X(NAME, name) #name,
    static const char *const names[] = {HR__AUGMENT_MAP(X)};
#undef X

    for (int i = 0; i < HR__NUM_AUGMENT; i++) {
        struct hr__augment code = {.code = (enum hr__augment_code)i};

        if (i == HR__AUGMENT_WARP)
            continue;
        if (i == HR__AUGMENT_BOX) {
            code.box.x = (struct hr__box){6, 1000000, 1000000};
            code.box.y = code.box.x;
            code.box.passes = 3;
        } else if (i == HR__AUGMENT_MIX_MEAN || i == HR__AUGMENT_MIX_LUMA ||
                   i == HR__AUGMENT_MIX_SMOOTH) {
            code.factor = .4f;
        }
        check(names[i], &code);
    }
}

// Turned a little, so that most places are in the picture.
TEST_CASE(warps)
{
    static const char *const names[] = {"axes", "fixed", "sums", "affine",
                                        "perspective"};

    for (int way = HR__WARP_AXES; way <= HR__WARP_PERSPECTIVE; way++) {
        struct hr__augment code = {
            .code = HR__AUGMENT_WARP,
            .warp = {.way = (enum hr__warp_way)way,
                     .filter = way < HR__WARP_AFFINE ? HR_NEAREST : HR_BILINEAR,
                     .m = {1, .01, 0, .01, 1, 0},
                     .fixed = {65536, 655, 32768, 655, 65536, 32768}}};

        check(names[way], &code);
    }
}
