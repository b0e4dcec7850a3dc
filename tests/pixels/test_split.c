// SPDX-License-Identifier: Apache-2.0
// Pictures that several threads decode: whichever thread does a row, the rows,
// the results and the pictures given up are those of one thread. In turns drawn
// from a seed, and by threads.
#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/jpeg/entropy.h"
#include "cpu_fallback/jpeg/split.h"
#include "decode_run.h"
#include "packed_picture.h"
#include "split_help.h"

// ---- Files ----

// Makes a picture of many rows of MCUs; restart: MCUs between markers, 0 none,
// -1: some rows.
static bool draw_picture(int kind, int restart, struct jpeg_spec *spec,
                         struct bytes *file)
{
    static const struct jpeg_spec kinds[] = {
        {.space = JCS_YCbCr},
        {.space = JCS_YCbCr, .factors = {0x21, 0x11, 0x11}},
        {.space = JCS_YCbCr, .factors = {0x22, 0x11, 0x11}},
        {.space = JCS_YCbCr, .factors = {0x12, 0x11, 0x11}},
        {.space = JCS_YCbCr, .factors = {0x11, 0x22, 0x22}},
        {.space = JCS_GRAYSCALE},
        {.space = JCS_GRAYSCALE, .factors = {0x22}},
        {.space = JCS_RGB},
    };
    static const int across[] = {8, 16, 16, 8, 16, 8, 8, 8};

    *spec = kinds[kind % 8];
    spec->w = 1 + random_below(&dt_seed, 70);
    spec->h = 100 + random_below(&dt_seed, 400);
    spec->quality = 30 + random_below(&dt_seed, 70);
    spec->restart = restart >= 0
                        ? restart
                        : (spec->w + across[kind % 8] - 1) / across[kind % 8] *
                              (1 + random_below(&dt_seed, 4));
    return make_jpeg(spec, &dt_seed, file);
}

static int restart_of(int i)
{
    return i % 4 == 0 ? 0 : i % 4 == 1 ? 1 + random_below(&dt_seed, 9) : -1;
}

// ---- The same rows ----

static void compare_packed(const char *name, const struct bytes *file,
                           const struct plain *full)
{
    auto_heap struct cpu_packed_head *head =
        packed_picture(file->data, file->size, &dt_ops, NULL, NULL);
    struct bytes packed;

    CU_ASSERT_FATAL(head != NULL);
    packed = (struct bytes){(uint8_t *)head, head->size};
    dt_compare_windows(&cpu_packed_decoder, name, &packed, full, 3);
}

static void compare_rows(int n)
{
    for (int i = 0; i < n; i++) {
        struct jpeg_spec spec;
        auto_plain full = {0};
        auto_bytes file = {0};
        char name[64];

        CU_ASSERT_FATAL(draw_picture(i, restart_of(i), &spec, &file));
        snprintf(name, sizeof(name), "kind %d, markers %d", i % 8,
                 spec.restart);
        plain_decode(file.data, file.size, 1 << 20, &full);
        CU_ASSERT_FATAL(full.result == PLAIN_OK);
        cpu_ops_init(&dt_ops, (2u << i % 3) - 1);
        dt_compare_windows(&cpu_sequential_decoder, name, &file, &full, 4);
        compare_packed(name, &file, &full);
    }
}

// Between the steps of the owner a helper does some pieces: none, one, all.
TEST_CASE(turns)
{
    static const int most[] = {0, 1, 3, 100};
    int n = 8 + test_loops(40);
    long pieces = 0;

    for (int i = 0; i < 4; i++) {
        struct turns_help t;

        turns_help_init(&t, &dt_seed, most[i], i % 2 ? 40000 : 1 << 20);
        dt_helpers = &t.h;
        compare_rows(n);
        pieces += t.pieces;
    }
    CHECK(pieces > 200 * n, "%ld pieces", pieces);
}

TEST_CASE(threads)
{
    struct thread_help t;
    long pieces = 0;

    for (int n = 1; n <= HELP_THREADS; n++) {
        thread_help_start(&t, n, dt_seed, n % 2 ? 40000 : 1 << 20);
        dt_helpers = &t.h;
        // They come when the system lets them.
        for (int i = 0; i < 2000 && t.pieces < 100; i++)
            compare_rows(8);
        thread_help_stop(&t);
        pieces += t.pieces;
    }
    CHECK(pieces >= 300, "%ld pieces", pieces);
}

// ---- The same end ----

static int taken, given_up;

// The whole, or a part; helped as alone.
static void compare_end(const char *name, const struct bytes *file, int w,
                        int h)
{
    struct hr__rect window = {0, 0, w, h};
    struct cpu_decode_error alone_err, err;
    struct cpu_decode_params p;
    enum cpu_result alone, result;
    uint8_t *want, *got;
    size_t size;

    if (random_below(&dt_seed, 2))
        window.h = 1 + random_below(&dt_seed, h);
    p = dt_params(file, w, h, window, 3);
    size = (size_t)w * (size_t)window.h * 3;
    want = calloc(2, size);
    got = want + size;
    p.helpers = NULL;
    alone = dt_decode(&cpu_sequential_decoder, &p, window.h == h, want,
                      &alone_err);
    p.helpers = dt_helpers;
    result = dt_decode(&cpu_sequential_decoder, &p, window.h == h, got, &err);
    CHECK(result == alone && err.warnings == alone_err.warnings &&
              !strcmp(err.text, alone_err.text),
          "%s: %d, %d alone", name, result, alone);
    // (The rows of a picture that is given up are undefined.)
    CHECK(result || !memcmp(want, got, size), "%s: differs", name);
    taken += result == CPU_OK;
    given_up += result == CPU_REDO;
    free(want);
}

static void compare_damaged(int n)
{
    taken = given_up = 0;
    for (int i = 0; i < n; i++) {
        struct jpeg_spec spec;
        auto_bytes file = {0};

        CU_ASSERT_FATAL(draw_picture(i, restart_of(i), &spec, &file));
        compare_end("sound", &file, spec.w, spec.h);
        for (int k = 0; k < 12; k++) {
            const char *how;
            auto_bytes copy = dt_damaged(&file, dt_scan(&file) + 14, &how);

            compare_end(how, &copy, spec.w, spec.h);
        }
    }
    CHECK(taken > n && given_up > 2 * n, "%d taken, %d given up", taken,
          given_up);
}

TEST_CASE(damage_in_turns)
{
    for (int i = 0; i < 3; i++) {
        struct turns_help t;

        turns_help_init(&t, &dt_seed, 20, i % 2 ? 40000 : 1 << 20);
        dt_helpers = &t.h;
        compare_damaged(8 + test_loops(52));
    }
}

TEST_CASE(damage_by_threads)
{
    struct thread_help t;

    thread_help_start(&t, HELP_THREADS, dt_seed, 1 << 20);
    dt_helpers = &t.h;
    compare_damaged(8 + test_loops(52));
    thread_help_stop(&t);
}

// ---- Stopped ----

static bool stop_soon(void *ctx)
{
    return --*(int *)ctx < 0;
}

// Wherever the picture is stopped, no thread works on it when it is closed: the
// next picture has the same memory.
TEST_CASE(stopped)
{
    struct thread_help t;
    int stopped = 0;

    thread_help_start(&t, HELP_THREADS, dt_seed, 1 << 20);
    dt_helpers = &t.h;
    for (int i = 0; i < 120; i++) {
        int asks = random_below(&dt_seed, 40);
        struct cpu_decode_error err;
        struct cpu_decode_params p;
        struct jpeg_spec spec;
        auto_bytes file = {0};
        enum cpu_result result;

        CU_ASSERT_FATAL(draw_picture(i, restart_of(i), &spec, &file));
        p = dt_params(&file, spec.w, spec.h, dt_everything, 3);
        p.stop = stop_soon;
        p.stop_ctx = &asks;
        result = dt_decode(&cpu_sequential_decoder, &p, true, NULL, &err);
        CHECK(result == (asks < 0 ? CPU_STOPPED : CPU_OK), "%d", result);
        stopped += result == CPU_STOPPED;
    }
    thread_help_stop(&t);
    CHECK(stopped > 20, "%d of 120 were stopped", stopped);
}

// ---- Bands ----

// Where restart markers lie between rows.
TEST_CASE(bands)
{
    static const struct {
        int w, h, restart, period;
    } cases[] = {
        {80, 160, 0, 20},   {80, 160, 10, 1}, {80, 160, 5, 1},
        {80, 160, 1, 1},    {80, 160, 20, 2}, {80, 160, 15, 3},
        {80, 160, 4, 2},    {80, 160, 7, 7},  {80, 160, 199, 20},
        {80, 160, 200, 20}, {80, 160, 30, 3},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct jpeg_spec spec = {.w = cases[i].w,
                                 .h = cases[i].h,
                                 .space = JCS_YCbCr,
                                 .restart = cases[i].restart,
                                 .quality = 80};
        const uint8_t *starts[20];
        struct cpu_scan scan;
        auto_bytes file = {0};
        int period;

        CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
        CU_ASSERT_FATAL(cpu_scan_parse(&scan, file.data, file.size));
        period = cpu_entropy_period(&scan);
        CHECK(period == cases[i].period, "%d MCUs: %d rows", cases[i].restart,
              period);
        CU_ASSERT(cpu_entropy_find(&scan, starts, (20 + period - 1) / period));
        for (int b = 1; b < (20 + period - 1) / period; b++)
            CHECK(starts[b][-2] == 0xff &&
                      (starts[b][-1] & 7) ==
                          ((b * period * 10 / spec.restart - 1) & 7),
                  "%d MCUs: band %d", cases[i].restart, b);
    }
}

// ---- A helper that is called away ----

struct away {
    struct cpu_helpers h;  // first
    struct cpu_split split;
    struct cpu_split_band band;
    pthread_t thread;
    struct cpu_help *help;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool begun;
    int rows;
};

static bool at_once(void *ctx)
{
    struct away *a = ctx;
    bool leaves;

    pthread_mutex_lock(&a->lock);
    leaves = a->rows > 0;
    pthread_mutex_unlock(&a->lock);
    return leaves;
}

static void *help_once(void *arg)
{
    struct away *a = arg;

    a->help->run(a->help, at_once, a);
    return NULL;
}

// It is at the first row before the owner goes on.
static void call_once(struct cpu_helpers *h, struct cpu_help *help, int n)
{
    struct away *a = (struct away *)h;

    (void)n;
    if (a->help)
        return;
    a->help = help;
    CU_ASSERT_FATAL(!pthread_create(&a->thread, NULL, help_once, a));
    pthread_mutex_lock(&a->lock);
    while (!a->begun)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static void end_once(struct cpu_helpers *h, struct cpu_help *help)
{
    (void)help;
    pthread_join(((struct away *)h)->thread, NULL);
}

static bool owner_sleeps(struct away *a)
{
    bool sleeps;

    pthread_mutex_lock(&a->split.lock);
    sleeps = a->split.wakes >= 0;
    pthread_mutex_unlock(&a->split.lock);
    return sleeps;
}

static bool slow_entropy(void *ctx, int row)
{
    struct away *a = ctx;

    pthread_mutex_lock(&a->lock);
    a->begun = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    while (row == 0 && !owner_sleeps(a))
        test_sleep(TEST_MS / 10);
    pthread_mutex_lock(&a->lock);
    a->rows++;
    pthread_mutex_unlock(&a->lock);
    return true;
}

static void no_reconstruct(void *ctx, int row)
{
    (void)ctx;
    (void)row;
}

static void no_lap(void *ctx, enum cpu_stage stage)
{
    (void)ctx;
    (void)stage;
}

// The owner waits for some rows, of which the helper makes but one.
TEST_CASE(called_away)
{
    static struct away a = {.h = {.call = call_once, .end = end_once},
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    struct cpu_split_params p = {.rows = 40,
                                 .period = 40,
                                 .ring = 16,
                                 .entropy = slow_entropy,
                                 .reconstruct = no_reconstruct,
                                 .lap = no_lap,
                                 .ctx = &a,
                                 .helpers = &a.h};

    cpu_split_begin(&a.split, &p, &a.band, 1);
    for (int row = 0; row < 40; row++)
        CU_ASSERT(cpu_split_row(&a.split, row));
    cpu_split_end(&a.split);
    CHECK(a.rows == 40, "%d rows", a.rows);
}

// ---- Memory ----

TEST_CASE(no_memory)
{
    struct jpeg_spec spec = {
        .w = 330, .h = 400, .space = JCS_YCbCr, .restart = 42};
    struct cpu_decode_params p;
    struct cpu_decode_error err;
    struct turns_help t;
    auto_bytes file = {0};
    int failed = 0;

    turns_help_init(&t, &dt_seed, 100, 1 << 20);
    dt_helpers = &t.h;
    CU_ASSERT_FATAL(make_jpeg(&spec, &dt_seed, &file));
    p = dt_params(&file, 330, 400, dt_everything, 3);
    for (size_t limit = 1000; limit < 1000000; limit += 5000) {
        enum cpu_result result;

        dt_arena.limit = limit;
        result = dt_decode(&cpu_sequential_decoder, &p, true, NULL, &err);
        CHECK(result == CPU_OK || result == CPU_NOMEM, "%d", result);
        failed += result == CPU_NOMEM;
    }
    dt_arena.limit = 0;
    CU_ASSERT(failed > 10 && failed < 190);
}

TEST_MAIN(dt_main)
