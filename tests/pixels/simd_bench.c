// SPDX-License-Identifier: Apache-2.0
#include "simd_bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "heaps.h"
#include "simd_axes.h"
#include "simd_time.h"

#define MAX_ROWS 16  // that the horizontal pass gets at a time

struct bench {
    const struct cpu_ops *ops;
    struct axis h, v;
    struct cpu_arena *arena;
    int channels;
    bool planar;
    enum hr_dtype type;
    size_t in_stride, out_stride;  // of src, and of mid and out
    uint8_t *src, *mid, *out, *tensor;
    struct hr__table table;
};

static void pack(void *bench)
{
    struct bench *b = bench;

    cpu_arena_clear(b->arena, SIZE_MAX);
    if (b->ops->pack_h && !b->ops->pack_h(&b->h.a, b->channels, b->arena))
        abort();
}

static void use(void *bench, const struct cpu_ops *ops)
{
    ((struct bench *)bench)->ops = ops;
    pack(bench);
}

static void bench_h(void *bench)
{
    struct bench *b = bench;
    for (int y = 0; y < b->v.a.in; y += MAX_ROWS) {
        uint8_t *dst[MAX_ROWS];
        const uint8_t *src[MAX_ROWS];
        int rows = b->v.a.in - y < MAX_ROWS ? b->v.a.in - y : MAX_ROWS;
        for (int r = 0; r < rows; r++) {
            dst[r] = b->mid + (size_t)(y + r) * b->out_stride;
            src[r] = b->src + (size_t)(y + r) * b->in_stride;
        }
        b->ops->resample_h(dst, src, rows, b->channels, &b->h.a);
    }
}

static void bench_v(void *bench)
{
    struct bench *b = bench;
    const uint8_t *rows[4096];
    const struct cpu_axis *v = &b->v.a;
    for (int y = 0; y < v->out; y++) {
        for (int k = 0; k < v->n[y]; k++)
            rows[k] = b->mid + (size_t)(v->lo[y] + k) * b->out_stride;
        b->ops->resample_v(b->out + (size_t)y * b->out_stride, rows,
                           v->w + (size_t)y * v->stride, v->n[y],
                           (size_t)b->h.a.out * b->channels);
    }
}

static void bench_store(void *bench)
{
    struct bench *b = bench;
    static const size_t sizes[] = {4, 2, 1};
    size_t w = (size_t)b->h.a.out, h = (size_t)b->v.a.out;
    size_t size = sizes[b->type], plane = w * h * size;
    for (size_t y = 0; y < h; y++) {
        uint8_t *to = b->tensor +
                      y * w * size * (b->planar ? 1 : (size_t)b->channels);
        void *const dst[3] = {to, to + plane, to + 2 * plane};
        b->ops->store(dst, y + 1 < h ? w * size : 0, b->out + y * b->out_stride,
                      (int)w, b->channels, b->planar, b->type, &b->table);
    }
}

static void bench_size(int w, int h, int out, int channels, int filter,
                       const char *name, struct cpu_arena *arena)
{
    static struct bench b;
    b = (struct bench){.arena = arena, .channels = channels};
    test_axis_filter(&b.h, w, out, filter);
    test_axis_filter(&b.v, h, out, filter);
    b.in_stride = (size_t)w * channels + CPU_SLACK;
    b.out_stride = (size_t)out * channels + CPU_SLACK;
    b.src = malloc(b.in_stride * (size_t)h);
    b.mid = malloc(b.out_stride * (size_t)h);
    b.out = malloc(b.out_stride * (size_t)out);
    b.tensor = malloc((size_t)out * out * 3 * 4);
    if (!b.src || !b.mid || !b.out || !b.tensor)
        abort();
    for (size_t i = 0; i < b.in_stride * (size_t)h; i++)
        b.src[i] = (uint8_t)test_rnd();
    for (int i = 0; i < 768; i++) {
        b.table.f32[i / 256][i % 256] = (float)test_rnd();
        b.table.f16[i / 256][i % 256] = (uint16_t)test_rnd();
        b.table.u8[i / 256][i % 256] = (uint8_t)test_rnd();
    }

    printf("%s %dx%d -> %dx%d, %d channels\n", name, w, h, out, out, channels);
    simd_time_without_c("pack_h", pack, use, &b);
    simd_time("resample_h, all rows", bench_h, use, &b);
    simd_time("resample_v, all rows", bench_v, use, &b);
    if (filter == TEST_BILINEAR) {
        b.planar = true;
        simd_time("store f32 planar, all rows", bench_store, use, &b);
        b.type = HR_F16;
        simd_time("store f16 planar, all rows", bench_store, use, &b);
        b.type = HR_U8;
        simd_time("store u8 planar, all rows", bench_store, use, &b);
        b.planar = false;
        b.type = HR_F32;
        simd_time("store f32 interleaved, all rows", bench_store, use, &b);
    }
    test_axis_finish(&b.h);
    test_axis_finish(&b.v);
    free(b.src);
    free(b.mid);
    free(b.out);
    free(b.tensor);
}

void test_simd_bench(void)
{
    struct cpu_arena arena;
    cpu_arena_init(&arena, &plain_heap);
    bench_size(500, 375, 224, 3, TEST_BILINEAR, "bilinear", &arena);
    bench_size(280, 280, 224, 3, TEST_BILINEAR, "bilinear", &arena);
    bench_size(120, 120, 224, 3, TEST_BILINEAR, "bilinear", &arena);
    bench_size(500, 375, 224, 3, TEST_BICUBIC, "bicubic", &arena);
    bench_size(500, 375, 224, 3, TEST_LANCZOS, "lanczos", &arena);
    bench_size(500, 375, 224, 3, TEST_NEAREST, "nearest", &arena);
    bench_size(500, 375, 224, 1, TEST_BILINEAR, "bilinear", &arena);
    bench_size(2500, 1600, 224, 3, TEST_BILINEAR, "bilinear", &arena);
    bench_size(2500, 1600, 100, 1, TEST_BILINEAR, "bilinear", &arena);
    cpu_arena_finish(&arena);
}
