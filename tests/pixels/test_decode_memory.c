// SPDX-License-Identifier: Apache-2.0
// The decoders: stopping, and where their memory comes from.
#include "decode_run.h"
#include "malloc_counts.h"

struct stopper {
    int asked, at;
};

static bool stop_at(void *ctx)
{
    struct stopper *s = ctx;

    return ++s->asked == s->at;
}

static void stop_everywhere(const struct cpu_decode_kind *kind,
                            const struct bytes *file, int w, int h, int least)
{
    struct cpu_decode_params p = dt_params(file, w, h, dt_everything, 3);
    struct stopper s = {0, -1};
    struct cpu_decode_error err;
    uint64_t start = dt_seed;  // the same sizes of groups each time
    int asked;

    p.stop = stop_at;
    p.stop_ctx = &s;
    CU_ASSERT(dt_decode(kind, &p, true, NULL, &err) == CPU_OK);
    asked = s.asked;
    CHECK(asked >= least, "asked %d times", asked);
    for (int i = 1; i <= asked; i += 1 + asked / 50) {
        s = (struct stopper){0, i};
        dt_seed = start;
        CU_ASSERT(dt_decode(kind, &p, true, NULL, &err) == CPU_STOPPED);
        CU_ASSERT(s.asked == i);
    }
}

// Under a limit and a heap that fails at every allocation in turn: an error
// and no leak, or the picture.
static void starve(const struct cpu_decode_kind *kind, const struct bytes *file,
                   int w, int h)
{
    struct cpu_decode_params p = dt_params(file, w, h, dt_everything, 3);
    struct cpu_arena saved = dt_arena;
    struct cpu_decode_error err;
    enum cpu_result result = CPU_NOMEM;
    size_t at = 1, live = dt_heap.blocks;
    size_t limit = 256;

    p.jpeg = NULL;
    dt_heap.fail_once = true;
    for (; result == CPU_NOMEM && at < 100; at++) {
        cpu_arena_init(&dt_arena, &dt_heap.heap);
        dt_heap.fail_at = dt_heap.allocs + at;
        result = dt_decode(kind, &p, true, NULL, &err);
        cpu_arena_finish(&dt_arena);
        CU_ASSERT(dt_heap.blocks == live);
    }
    dt_heap.fail_at = 0;
    CU_ASSERT(at > 2 && result == CPU_OK);
    for (result = CPU_NOMEM; result == CPU_NOMEM && limit < 1 << 28;
         limit += limit / 16) {
        cpu_arena_init(&dt_arena, &dt_heap.heap);
        dt_arena.limit = limit;
        result = dt_decode(kind, &p, true, NULL, &err);
        CU_ASSERT(dt_arena.used == 0);
        cpu_arena_finish(&dt_arena);
        CU_ASSERT(dt_heap.blocks == live);
    }
    CU_ASSERT(limit > 4096 && result == CPU_OK);
    dt_arena = saved;
}

static void no_allocation(const struct cpu_decode_kind *kind,
                          const struct bytes *file, int w, int h)
{
    struct cpu_decode_params p = dt_params(file, w, h, dt_everything, 3);
    struct cpu_decode_error err;
    size_t before;
    long calls;

    CU_ASSERT(dt_decode(kind, &p, true, NULL, &err) == CPU_OK);
    before = dt_heap.allocs;
    calls = atomic_load(&malloc_counts.calls);
    for (int i = 0; i < 5; i++)
        CU_ASSERT(dt_decode(kind, &p, true, NULL, &err) == CPU_OK);
    CU_ASSERT(dt_heap.allocs == before);
    // (CUnit notes an assertion only when it fails.)
    calls = atomic_load(&malloc_counts.calls) - calls;
    CHECK(!calls, "%ld calls of malloc", calls);
}

TEST_CASE(test_stop_and_memory)
{
    for (int kind = 0; kind < DT_JPEG_KINDS; kind += 2)
        for (int variant = 0; variant < 7; variant += 2) {
            auto_bytes file = {0};

            if (!dt_make_jpeg(kind, variant, 90, 200, &file))
                continue;
            for (int own = 0; own <= (kind < 14 && !variant); own++) {
                const struct cpu_decode_kind *of = own ? &cpu_sequential_decoder
                                                       : &cpu_jpeg_decoder;

                stop_everywhere(of, &file, 90, 200, 5);
                starve(of, &file, 90, 200);
                no_allocation(of, &file, 90, 200);
            }
        }
#if HR_HAVE_PNG
    for (int i = 0; i < 30; i++) {
        auto_bytes file = {0};
        auto_plain full = {0};

        CU_ASSERT_FATAL(dt_make_png(i, &file, &full));
        stop_everywhere(&cpu_png_decoder, &file, full.w, full.h, 1);
        starve(&cpu_png_decoder, &file, full.w, full.h);
        no_allocation(&cpu_png_decoder, &file, full.w, full.h);
    }
#else
    printf("\nnot run: test_decode_memory: PNG, built without\n");
#endif
#if !MALLOC_COUNTS
    printf("\nnot run: test_decode_memory: counting malloc, for this is a "
           "sanitizer build or another libc\n");
#endif
}

// stop() is also asked while the rows above the window are skipped.
TEST_CASE(test_stop_in_skip)
{
    struct jpeg_spec spec = {
        .w = 1500, .h = 1200, .space = JCS_YCbCr, .quality = 95};
    struct hr__rect bottom = {0, 1190, 10, 10};
    struct stopper s = {0, 1};
    struct cpu_decode_params p;
    struct cpu_decode_error err;
    auto_bytes file = {0};

    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
    CU_ASSERT(file.size > (size_t)1 << 19);
    p = dt_params(&file, 1500, 1200, bottom, 3);
    p.stop = stop_at;
    p.stop_ctx = &s;
    CU_ASSERT(dt_decode(&cpu_jpeg_decoder, &p, false, NULL, &err) ==
              CPU_STOPPED);
    CU_ASSERT(err.offset > 0 && err.offset < (int64_t)file.size / 2);
}

// A decoder allocates at open all that it needs later: memory that the caller
// takes and returns in between is not touched.
static void nothing_taken_later(const struct cpu_decode_kind *kind,
                                const struct bytes *file, int w, int h)
{
    struct cpu_mark start = cpu_arena_mark(&dt_arena), mark;
    struct cpu_decode_params p = dt_params(file, w, h, dt_everything, 3);
    struct cpu_decode_error err;
    struct cpu_decode *d = cpu_decode_open(kind, &p, &dt_ops, &dt_arena, &err);

    CU_ASSERT_FATAL(d != NULL);
    mark = cpu_arena_mark(&dt_arena);
    for (int y = 0; y < h;) {
        const uint8_t *rows[CPU_DECODE_ROWS];
        int n = cpu_decode_rows(d, rows, CPU_DECODE_ROWS, &err);

        CU_ASSERT_FATAL(n > 0);
        y += n;
        CU_ASSERT(dt_arena.used == mark.used);
    }
    CU_ASSERT(cpu_decode_close(d, true, &err) == CPU_OK);
    CU_ASSERT(dt_arena.used == mark.used);
    cpu_arena_reset(&dt_arena, start);
}

TEST_CASE(test_arena_between)
{
    for (int kind = 0; kind < DT_JPEG_KINDS; kind++) {
        auto_bytes file = {0};

        if (!dt_make_jpeg(kind, kind % 7, 300, 200, &file))
            continue;
        nothing_taken_later(&cpu_jpeg_decoder, &file, 300, 200);
    }
#if HR_HAVE_PNG
    for (int i = 0; i < 30; i++) {
        auto_bytes file = {0};
        auto_plain full = {0};

        CU_ASSERT_FATAL(dt_make_png(i, &file, &full));
        nothing_taken_later(&cpu_png_decoder, &file, full.w, full.h);
    }
#endif
}

TEST_MAIN(dt_main)
