// SPDX-License-Identifier: Apache-2.0
// Pictures in lanes, whole and in windows, damaged or not: if a lane does not
// give a picture up, its rows are libjpeg's, and libjpeg has no warning about
// it; and a lane gives up no picture of the kinds that lanes are for. Some are
// packed on the way, to the bytes that cpu_pack() makes of the file. The
// neighbours in the lanes are random, and so is the moment when each is ended.
#include "corpus_list.h"
#include "cpu_fallback/jpeg/decode_lanes.h"
#include "decode_run.h"

enum { MOST = 64 };  // jobs at a time

struct job {
    char name[64];
    struct bytes file;
    struct cpu_decode_params p;
    struct cpu_arena arena;
    struct cpu_lane_picture pic;
    uint8_t *out;
    int got;
    bool packs, opened, through, made;
};

static struct job jobs[MOST];
static int num_jobs, num_packed;
static struct cpu_lanes *lanes, *others;
static struct cpu_pieces pieces;

static size_t row_bytes(const struct job *j)
{
    return (size_t)j->p.window.w * (size_t)j->p.channels;
}

static bool take_rows(void *ctx)
{
    struct job *j = ctx;

    while (j->got < j->pic.there) {
        const uint8_t *rows[CPU_DECODE_ROWS];
        int most = j->pic.there - j->got;
        int n = cpu_planes_read(j->pic.from, rows, most < 16 ? most : 16);

        for (int i = 0; i < n; i++)
            memcpy(j->out + row_bytes(j) * (size_t)(j->got + i), rows[i],
                   row_bytes(j));
        j->got += n;
    }
    return true;
}

static void through(void *ctx, enum cpu_lane_result result)
{
    struct job *j = ctx;

    CHECK(!j->through, "%s: twice", j->name);
    j->through = true;
    j->made = result == CPU_LANE_ROWS;
}

static void open_job(struct job *j)
{
    const struct cpu_lane_calls calls = {take_rows, through, j};

    cpu_arena_init(&j->arena, &dt_heap.heap);
    j->out = calloc(row_bytes(j), (size_t)j->p.window.h);
    j->opened = cpu_lane_open(&j->pic, lanes, &j->p, &dt_ops, &j->arena, &calls,
                              j->packs ? &pieces : NULL);
}

// Compares the job's rows with libjpeg's.
static void check_job(const struct job *j)
{
    size_t size = row_bytes(j) * (size_t)j->p.window.h;
    auto_heap uint8_t *want = calloc(1, size);
    struct cpu_decode_error err;
    bool check = j->p.window.y + j->p.window.h == j->p.height;
    enum cpu_result result = dt_decode(&cpu_jpeg_decoder, &j->p, check, want,
                                       &err);

    CHECK(result == CPU_OK && !err.warnings, "%s: libjpeg %d, %s", j->name,
          result, err.text);
    CHECK(j->got == j->p.window.h, "%s: %d of %d rows", j->name, j->got,
          j->p.window.h);
    CHECK(!memcmp(j->out, want, size), "%s, window %d,%d %dx%d: differs",
          j->name, j->p.window.x, j->p.window.y, j->p.window.w, j->p.window.h);
}

static uint8_t *written(const struct cpu_pack *pack)
{
    uint8_t *to = aligned_alloc(8, (pack->size + 7) & ~(size_t)7);

    cpu_pack_write(pack, to);
    return to;
}

static void check_packed(struct job *j)
{
    struct cpu_decode_error err;
    struct cpu_pack ours, want;
    bool ok = cpu_packing_end(&j->pic.packing, 1, &ours);
    enum cpu_result result = cpu_pack(&j->p, 1, &dt_ops, &dt_arena, &want,
                                      &err);
    uint8_t *a, *b;

    CHECK(ok == !result, "%s: packed %d, cpu_pack() %d", j->name, ok, result);
    if (!ok || result)
        return;
    CHECK(ours.size == want.size, "%s: %zu bytes, cpu_pack() %zu", j->name,
          ours.size, want.size);
    a = written(&ours);
    b = written(&want);
    CHECK(ours.size == want.size && !memcmp(a, b, want.size),
          "%s: not what cpu_pack() makes", j->name);
    free(a);
    free(b);
    cpu_arena_clear(&dt_arena, 0);
    num_packed++;
}

// As threads do that share what has left its lanes: with other lanes' memory,
// in any order.
static void finish_apart(void)
{
    struct cpu_lane_rest rest[CPU_LANES];
    int n = cpu_lanes_leave(lanes, rest);

    while (n) {
        int i = random_below(&dt_seed, n);

        cpu_lanes_alone(others, &rest[i]);
        rest[i] = rest[--n];
    }
}

// One of them only.
static void finish_one(void)
{
    struct cpu_lane_rest rest;

    for (int i = 0; i < num_jobs; i++)
        if (jobs[i].opened && !jobs[i].through) {
            cpu_lanes_leave_one(lanes, &jobs[i].pic, &rest);
            cpu_lanes_alone(others, &rest);
            CHECK(jobs[i].through, "%s: left, and not through", jobs[i].name);
            return;
        }
}

// Either form goes on where the other one was.
static void run(void)
{
    static unsigned runs;

    cpu_lanes_run(lanes, runs++ % CPU_LANE_FORMS);
}

// Runs them all and forgets them. Returns how many a lane has made.
static int run_jobs(void)
{
    int next = 0, made = 0;

    while (next < num_jobs || cpu_lanes_empty(lanes) < CPU_LANES) {
        while (next < num_jobs && cpu_lanes_empty(lanes))
            open_job(&jobs[next++]);
        if (random_below(&dt_seed, 16))
            run();
        else if (random_below(&dt_seed, 2))
            finish_one();
        else if (random_below(&dt_seed, 2))
            cpu_lanes_finish(lanes);
        else
            finish_apart();
    }
    for (int i = 0; i < num_jobs; i++) {
        struct job *j = &jobs[i];

        CHECK(j->through == j->opened, "%s: never through", j->name);
        made += j->made;
        if (j->made)
            check_job(j);
        if (j->made && j->packs)
            check_packed(j);
        if (j->opened && j->packs)
            cpu_packing_drop(&j->pic.packing);
        CHECK(pieces.spare <= pieces.keep, "%d pieces kept", pieces.spare);
        cpu_arena_finish(&j->arena);
        free(j->out);
        free(j->file.data);
        *j = (struct job){0};
    }
    num_jobs = 0;
    return made;
}

// A window of the picture. The file is copied.
static int add_window(const char *name, const struct bytes *file, int w, int h,
                      struct hr__rect r)
{
    struct job *j = &jobs[num_jobs++];

    snprintf(j->name, sizeof(j->name), "%s", name);
    j->file = dt_copy(file, file->size);
    j->packs = random_below(&dt_seed, 3) == 0;
    j->p = dt_params(&j->file, w, h, r, random_below(&dt_seed, 4) ? 3 : 1);
    return num_jobs == MOST ? run_jobs() : 0;
}

// Any window of it, or all.
static int add_job(const char *name, const struct bytes *file, int w, int h,
                   bool whole)
{
    struct hr__rect r = {0, 0, w, h};

    if (!whole)
        r = dt_random_rect(w, h);
    return add_window(name, file, w, h, r);
}

static bool begin(void)
{
    if (!dt_ops.lanes) {
        test_not_run("this processor has no lanes");
        return false;
    }
    if (!lanes)
        lanes = cpu_lanes_create(dt_ops.lanes, &dt_heap.heap);
    if (!others)
        others = cpu_lanes_create(dt_ops.lanes, &dt_heap.heap);
    CU_ASSERT_FATAL(lanes && others);
    pieces = (struct cpu_pieces){.heap = &dt_heap.heap, .keep = 20};
    return true;
}

static void release(void)
{
    CU_ASSERT(cpu_lanes_empty(lanes) == CPU_LANES);
    cpu_pieces_finish(&pieces);
    cpu_lanes_destroy(&lanes);
    cpu_lanes_destroy(&others);
}

static void end(void)
{
    CU_ASSERT(num_packed > 0);
    num_packed = 0;
    release();
}

// ---- Cases ----

// One or three components whose factors divide the largest, no restart markers;
// grey only in rows of its own height.
static bool is_for_lanes(int kind, int variant)
{
    return kind < 14 && kind != 12 &&
           (variant == 0 || variant == 6 ||
            // One component has no scans of its own.
            (variant == 3 && kind == 11));
}

TEST_CASE(windows)
{
    int want = 0, most = 0, made = 0;

    if (!begin())
        return;
    for (int i = 0; i < test_loops(30); i++)
        for (int kind = 0; kind < DT_JPEG_KINDS; kind++) {
            int w = 1 + random_below(&dt_seed, i % 2 ? 60 : 250);
            int h = 1 + random_below(&dt_seed, i % 2 ? 60 : 250);
            auto_bytes file = {0};
            char name[64];

            snprintf(name, sizeof(name), "kind %d variant %d %dx%d", kind,
                     i % 7, w, h);
            if (!dt_make_jpeg(kind, i % 7, w, h, &file))
                continue;
            // (The least have too little data.)
            want += is_for_lanes(kind, i % 7) && w * h > 400;
            most += is_for_lanes(kind, i % 7);
            made += add_job(name, &file, w, h, i % 3 == 0);
        }
    made += run_jobs();
    CHECK(made >= want, "%d of %d were made", made, want);
    CHECK(made <= most, "%d of at most %d were made", made, most);
    end();
}

TEST_CASE(damaged)
{
    int all = 0, made = 0;

    if (!begin())
        return;
    for (int i = 0; i < test_loops(60); i++) {
        int kind = random_below(&dt_seed, 14);
        int w = 1 + random_below(&dt_seed, 150);
        int h = 1 + random_below(&dt_seed, 150);
        auto_bytes file = {0};

        if (!dt_make_jpeg(kind, i % 2 ? 6 : 0, w, h, &file))
            continue;
        for (int k = 0; k < 20; k++, all++) {
            auto_bytes copy = dt_damaged(&file, k % 8 ? dt_scan(&file) : 0,
                                         NULL);

            made += add_job("damaged", &copy, w, h, k % 2);
        }
    }
    made += run_jobs();
    fprintf(stderr, "\n  damaged: %d of %d made ", made, all);
    CU_ASSERT(made > all / 8 && made < all);
    end();
}

// A table of that class (0: DC) with one symbol more, or its last one made that
// (more: false). The file has room for it.
static bool change_table(struct bytes *file, int class, bool more,
                         uint8_t symbol)
{
    uint8_t *dht = memmem(file->data, file->size, "\xff\xc4", 2), *counts, *end;

    for (; dht && dht[1] == 0xc4; dht = end) {
        int length = 0, sum = 0;

        end = dht + 2 + dht[2] * 256 + dht[3];
        for (counts = dht + 5; counts[-1] >> 4 != class && counts < end;) {
            for (int i = sum = 0; i < 16; i++)
                sum += counts[i];
            counts += 16 + sum + 1;
        }
        if (counts >= end)
            continue;
        for (int i = sum = 0; i < 16; i++) {
            sum += counts[i];
            length = counts[i] ? i : length;
        }
        if (!more) {
            counts[16 + sum - 1] = symbol;
            return true;
        }
        counts[length]++;
        dht[3]++;
        memmove(counts + 16 + sum + 1, counts + 16 + sum,
                (size_t)(file->data + file->size - (counts + 16 + sum)));
        counts[16 + sum] = symbol;
        file->size++;
        return dht[3] != 0;
    }
    return false;
}

// The first rows of a high picture: a lane makes them, and does not read on
// alone.
enum { TOP_W = 64, TOP_H = 600 };
static const struct hr__rect top = {0, 0, TOP_W, 16};

// A code of nothing but ones, a difference of more than 15 bits: also where no
// block has them.
TEST_CASE(refused)
{
    static const struct {
        int class;
        bool more;
        uint8_t symbol;
    } changes[] = {{0, true, 0}, {1, true, 0}, {0, false, 16}};

    if (!begin())
        return;
    for (int i = 0; i < COUNT(changes); i++) {
        auto_bytes file = {0};
        int made;

        CU_ASSERT_FATAL(dt_make_jpeg(0, 0, TOP_W, TOP_H, &file));
        made = add_window("as it was", &file, TOP_W, TOP_H, top) + run_jobs();
        CHECK(made == 1, "%d: not made before", i);
        file.data = realloc(file.data, file.size + 1);
        CU_ASSERT_FATAL(change_table(&file, changes[i].class, changes[i].more,
                                     changes[i].symbol));
        made = add_window("refused table", &file, TOP_W, TOP_H, top);
        made += run_jobs();
        CHECK(!made, "%d: made", i);
    }
    release();
}

// Stale lane contents are not taken for the rest of a file that ends.
TEST_CASE(too_little)
{
    struct bytes file;
    int made = 0;

    if (!begin())
        return;
    CU_ASSERT_FATAL(dt_make_jpeg(0, 0, TOP_W, TOP_H, &file));
    for (int i = 0; i < CPU_LANES; i++)
        made += add_window("all of it", &file, TOP_W, TOP_H, top);
    made += run_jobs();
    CHECK(made == CPU_LANES, "%d were made", made);
    made = 0;
    file.size = dt_scan(&file) + 14;
    for (int i = 0; i < 2 * CPU_LANES; i++, file.size++)
        made += add_window("its begin", &file, TOP_W, TOP_H, top);
    made += run_jobs();
    CHECK(!made, "%d were made", made);
    free(file.data);
    release();
}

static int folder(const char *name, int step, int times, int *made)
{
    struct corpus_folder f;
    int n = 0;

    if (!corpus_folder_open(&f, name))
        return 0;
    while (corpus_folder_next(&f, step)) {
        struct cpu_scan scan;
        auto_bytes file = {0};

        if (!read_file(f.path, &file))
            continue;
        if (cpu_scan_parse(&scan, file.data, file.size) &&
            (int64_t)scan.width * scan.height < 3 << 20)
            for (int k = 0; k < times; k++, n++)
                *made += add_job(f.name, &file, scan.width, scan.height, !k);
    }
    corpus_folder_close(&f);
    *made += run_jobs();
    return n;
}

TEST_CASE(corpus)
{
    bool all = getenv("HEADRACE_TEST_LONG") != NULL;
    int made = 0, n;

    if (!begin())
        return;
    n = folder("photos/imagenet-sample", all ? 1 : 5, all ? 8 : 2, &made);
    fprintf(stderr, "\n  photos: %d of %d made", made, n);
    // A few are too wide.
    CU_ASSERT(made >= n - n / 20);
    if (n) {
        made = 0;
        n = folder("kinds", 1, all ? 8 : 1, &made);
        fprintf(stderr, "\n  kinds: %d of %d made", made, n);
        made = 0;
        n = folder("bad", 1, all ? 8 : 1, &made);
        fprintf(stderr, "\n  bad: %d of %d made ", made, n);
    } else {
        test_not_run("there is no corpus");
    }
    end();
}

TEST_MAIN(dt_main)
