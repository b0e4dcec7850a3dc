// SPDX-License-Identifier: Apache-2.0
#include "simd_color.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "simd_axes.h"

enum { MOST = 700, GUARD = 64, FILL = 0x99, ROWS = 3, PAGE = 65536 };

// A row of the source: `before` bytes, n, `behind`, then a page that faults.
struct source {
    uint8_t *map, *end;
};

static struct source source_make(void)
{
    struct source s;

    s.map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s.map == MAP_FAILED || mprotect(s.map + PAGE, PAGE, PROT_NONE))
        abort();
    s.end = s.map + PAGE;
    return s;
}

static const uint8_t *source_fill(const struct source *s, size_t bytes,
                                  size_t behind, int kind)
{
    uint8_t *row = s->end - behind - bytes;

    for (uint8_t *p = row - GUARD; p < s->end; p++)
        *p = (uint8_t)(kind == 0   ? 0
                       : kind == 1 ? 255
                       : kind == 2 ? ((p - row) & 1) * 255
                       : kind == 3 ? ((p - row) & 2) * 127
                                   : test_rnd());
    return row;
}

struct target {
    uint8_t bytes[GUARD + 4 * MOST + CPU_SLACK + 2 * GUARD];
};

static uint8_t *target_fill(struct target *t, int at)
{
    memset(t->bytes, FILL, sizeof(t->bytes));
    return t->bytes + GUARD + at;
}

static bool target_intact(const struct target *t, const uint8_t *row,
                          size_t bytes)
{
    const uint8_t *behind = row + bytes + CPU_SLACK;

    for (const uint8_t *p = t->bytes; p < row; p++)
        if (*p != FILL)
            return false;
    for (const uint8_t *p = behind; p < t->bytes + sizeof(t->bytes); p++)
        if (*p != FILL)
            return false;
    return true;
}

enum kernel { GATHER, REPLICATE, H2V1, H1V2, H2V2, YCC, JOIN, KERNELS };
static const char *const names[KERNELS] = {"gather",        "replicate",
                                           "upsample_h2v1", "upsample_h1v2",
                                           "upsample_h2v2", "ycc_to_rgb",
                                           "join_rgb"};

// Bytes written.
static size_t call(const struct cpu_ops *ops, enum kernel k, uint8_t *dst,
                   const uint8_t *const src[ROWS], int n, int number)
{
    switch (k) {
    case GATHER:
        ops->gather(dst, src[0], n, number);
        return (size_t)n;
    case REPLICATE:
        ops->replicate(dst, src[0], n, number);
        return (size_t)(n * number);
    case H2V1:
        ops->upsample_h2v1(dst, src[0], n);
        return (size_t)n * 2;
    case H1V2:
        ops->upsample_h1v2(dst, src[0], src[1], n, number & 1);
        return (size_t)n;
    case H2V2:
        ops->upsample_h2v2(dst, src[0], src[1], n);
        return (size_t)n * 2;
    case YCC:
        ops->ycc_to_rgb(dst, src[0], src[1], src[2], n);
        return (size_t)n * 3;
    default:
        ops->join_rgb(dst, src[0], src[1], src[2], n);
        return (size_t)n * 3;
    }
}

static bool one(const struct cpu_ops *ops, const struct cpu_ops *c,
                const struct source *sources, enum kernel k)
{
    static struct target want, got;
    int n = test_rnd_int(1, test_rnd() % 4 ? 80 : MOST);
    int number = k == GATHER ? 1 << test_rnd_int(0, 2) : test_rnd_int(1, 4);
    int at = test_rnd_int(0, 40);
    const uint8_t *src[ROWS];
    uint8_t *a = target_fill(&want, at), *b = target_fill(&got, at);
    size_t bytes = (size_t)n;

    if (k == GATHER)
        bytes = (size_t)(n - 1) * (size_t)number + 1;
    for (int i = 0; i < ROWS; i++)
        src[i] = source_fill(&sources[i], bytes, k == GATHER ? 0 : CPU_SLACK,
                             test_rnd_int(0, 7));
    bytes = call(c, k, a, src, n, number);
    call(ops, k, b, src, n, number);
    if (!memcmp(a, b, bytes) && target_intact(&got, b, bytes) &&
        target_intact(&want, a, bytes))
        return true;
    printf("  %s %s differs: n %d, number %d\n", ops->name, names[k], n,
           number);
    return false;
}

int test_simd_color(const struct cpu_ops *ops, int cases)
{
    struct source sources[ROWS];
    struct cpu_ops c;
    int bad = 0;

    cpu_ops_init(&c, CPU_FLAG_C);
    for (int i = 0; i < ROWS; i++)
        sources[i] = source_make();
    for (int k = 0; k < KERNELS; k++)
        for (int i = 0; i < cases && bad < 9; i++)
            bad += !one(ops, &c, sources, (enum kernel)k);
    for (int i = 0; i < ROWS; i++)
        munmap(sources[i].map, 2 * PAGE);
    return bad;
}

static uint8_t clamped(int64_t v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// Rounded half up, as floor(x + 1/2).
static int64_t part(int64_t v)
{
    int64_t w = v + 32768;

    return w >= 0 ? w / 65536 : -((-w + 65535) / 65536);
}

int test_simd_ycc(const struct cpu_ops *ops)
{
    static const uint8_t lumas[] = {0, 1, 77, 128, 254, 255};
    uint8_t y[256 + CPU_SLACK], cb[256 + CPU_SLACK], cr[256 + CPU_SLACK];
    uint8_t rgb[768 + CPU_SLACK];
    int bad = 0;

    for (int i = 0; i < 256 * 6; i++) {
        for (int x = 0; x < 256; x++) {
            y[x] = lumas[i / 256];
            cb[x] = (uint8_t)x;
            cr[x] = (uint8_t)i;
        }
        ops->ycc_to_rgb(rgb, y, cb, cr, 256);
        for (int x = 0; x < 256; x++) {
            int64_t b = cb[x] - 128, r = cr[x] - 128;

            bad += rgb[3 * x] != clamped(y[x] + part(91881 * r)) ||
                   rgb[3 * x + 1] !=
                       clamped(y[x] + part(-22554 * b - 46802 * r)) ||
                   rgb[3 * x + 2] != clamped(y[x] + part(116130 * b));
        }
    }
    return bad;
}

// ---- Times -----------------------------------------------------------------

enum { BENCH_W = 1920, BENCH_H = 1080, BENCH_ROW = BENCH_W + 2 * CPU_SLACK };

struct bench {
    const struct cpu_ops *ops;
    uint8_t *planes;  // BENCH_H * 2 rows
    uint8_t *cb, *cr, *rgb;
};

static const uint8_t *plane_row(const struct bench *b, int y)
{
    return b->planes + (size_t)y * BENCH_ROW + CPU_SLACK;
}

static void convert(const struct bench *b, int y, const uint8_t *cb,
                    const uint8_t *cr)
{
    b->ops->ycc_to_rgb(b->rgb + (size_t)(y & 15) * 3 * BENCH_ROW,
                       plane_row(b, y), cb, cr, BENCH_W);
}

static void bench_444(struct bench *b)
{
    for (int y = 0; y < BENCH_H; y++)
        convert(b, y, plane_row(b, y / 2), plane_row(b, BENCH_H + y / 2));
}

static void bench_422(struct bench *b)
{
    for (int y = 0; y < BENCH_H; y++) {
        b->ops->upsample_h2v1(b->cb, plane_row(b, y), BENCH_W / 2);
        b->ops->upsample_h2v1(b->cr, plane_row(b, y) + BENCH_W / 2,
                              BENCH_W / 2);
        convert(b, y, b->cb, b->cr);
    }
}

static void bench_440(struct bench *b)
{
    for (int y = 0; y < BENCH_H; y++) {
        const uint8_t *near = plane_row(b, BENCH_H + y / 2);
        const uint8_t *far = plane_row(b, BENCH_H + y / 2 + 1);

        b->ops->upsample_h1v2(b->cb, near, far, BENCH_W, y & 1);
        b->ops->upsample_h1v2(b->cr, far, near, BENCH_W, y & 1);
        convert(b, y, b->cb, b->cr);
    }
}

static void bench_420(struct bench *b)
{
    for (int y = 0; y < BENCH_H; y++) {
        const uint8_t *near = plane_row(b, BENCH_H + y / 2);
        const uint8_t *far = plane_row(b, BENCH_H + y / 2 + 1);

        b->ops->upsample_h2v2(b->cb, near, far, BENCH_W / 2);
        b->ops->upsample_h2v2(b->cr, near + BENCH_W / 2, far + BENCH_W / 2,
                              BENCH_W / 2);
        convert(b, y, b->cb, b->cr);
    }
}

static void bench_411(struct bench *b)
{
    for (int y = 0; y < BENCH_H; y++) {
        b->ops->replicate(b->cb, plane_row(b, y), BENCH_W / 4, 4);
        b->ops->replicate(b->cr, plane_row(b, y) + BENCH_W / 2, BENCH_W / 4, 4);
        convert(b, y, b->cb, b->cr);
    }
}

static void bench_rgb(struct bench *b)
{
    for (int y = 0; y < BENCH_H; y++)
        b->ops->join_rgb(b->rgb + (size_t)(y & 15) * 3 * BENCH_ROW,
                         plane_row(b, y), plane_row(b, y + 1),
                         plane_row(b, y + 2), BENCH_W);
}

static void bench_gather(struct bench *b)
{
    for (int y = 0; y < BENCH_H / 2; y++) {
        b->ops->gather(b->cb, plane_row(b, y), BENCH_W / 2, 2);
        b->ops->gather(b->cr, plane_row(b, y) + 1, BENCH_W / 2, 2);
    }
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// Best of many: others use the machine too.
static double best_ns(void (*f)(struct bench *), struct bench *b)
{
    double best = 1e18, start = now_ns();

    for (int i = 0; i < 5 || (i < 300 && now_ns() - start < 1e8); i++) {
        double t = now_ns();

        f(b);
        t = now_ns() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void bench_line(const char *name, void (*f)(struct bench *),
                       struct bench *b)
{
    struct cpu_ops ops;
    double c;

    b->ops = &ops;
    cpu_ops_init(&ops, CPU_FLAG_C);
    c = best_ns(f, b);
    printf("  %-33s c %9.0f ns", name, c);
    for (unsigned set = CPU_FLAG_AVX2; set <= CPU_FLAG_AVX512; set *= 2) {
        double t;

        if (!(cpu_detect() & set))
            continue;
        cpu_ops_init(&ops, set | CPU_FLAG_AVX2);
        t = best_ns(f, b);
        printf("   %s %8.0f ns %5.1fx", ops.name, t, c / t);
    }
    printf("\n");
}

void test_simd_color_bench(void)
{
    size_t size = (size_t)BENCH_ROW * (BENCH_H * 2 + 2);
    struct bench b = {.planes = malloc(size),
                      .cb = malloc(BENCH_ROW),
                      .cr = malloc(BENCH_ROW),
                      .rgb = malloc((size_t)BENCH_ROW * 3 * 16)};

    if (!b.planes || !b.cb || !b.cr || !b.rgb)
        abort();
    for (size_t i = 0; i < size; i++)
        b.planes[i] = (uint8_t)test_rnd();
    printf("planes %dx%d -> RGB\n", BENCH_W, BENCH_H);
    bench_line("4:4:4, all rows", bench_444, &b);
    bench_line("4:2:2 fancy, all rows", bench_422, &b);
    bench_line("4:4:0 fancy, all rows", bench_440, &b);
    bench_line("4:2:0 fancy, all rows", bench_420, &b);
    bench_line("4:1:1, all rows", bench_411, &b);
    bench_line("RGB, all rows", bench_rgb, &b);
    bench_line("NV12's chroma apart, all rows", bench_gather, &b);
    free(b.planes);
    free(b.cb);
    free(b.cr);
    free(b.rgb);
}
