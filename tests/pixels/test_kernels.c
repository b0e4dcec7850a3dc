// SPDX-License-Identifier: Apache-2.0
// kernels/ against libjpeg-turbo and the CPU engine, byte for byte: each stage
// by itself, then whole chains in batches. On PoCL; with
// HEADRACE_TEST_OPENCL=all on every platform, with =NAME on those whose name
// has it. HEADRACE_SEED repeats a run, HEADRACE_TEST_SMALL=1 makes it
// tiny (for simulators).
#include <stdio.h>
#include <stdlib.h>

#if !HR_HAVE_OPENCL
int main(void)
{
    puts("not run: built without OpenCL kernels");
    return 77;
}
#else
#include <time.h>

#include <CUnit/Basic.h>

#include "augment_random.h"
#include "cpu_fallback/cpu_ops.h"
#include "heaps.h"
#include "kernel_picture.h"
#include "simd_axes.h"

enum { ROOM = (3 * AUGMENT_SIDE + 2 * CPU_SLACK) * AUGMENT_SIDE + CPU_SLACK };

// CUnit's tests take no argument.
static struct kernel_env env;
static hr_device cpu;
static bool small;

static void run_and_compare(struct kernel_picture *p, int n)
{
    struct kernel_item items[KERNEL_MAX_BATCH];

    for (int i = 0; i < n; i++)
        items[i] = p[i].item;
    CU_ASSERT_TRUE(kernel_cpu_run(cpu, p, n));
    CU_ASSERT_TRUE(kernel_run(&env, items, n));
    CU_ASSERT_TRUE(env.launches <= 7);
    CU_ASSERT_EQUAL(kernel_compare(p, n), 0);
    for (int i = 0; i < n; i++)
        kernel_picture_free(&p[i]);
}

// ---- Stages ---------------------------------------------------------------

static int check_planes(const struct kernel_jpeg *j)
{
    const struct hr__kernel_picture *p = &env.pics[0];
    struct kernel_planes raw;
    int bad = 0;

    if (p->fused_blocks)
        return 0;  // they were never there
    CU_ASSERT_TRUE_FATAL(kernel_raw(j, &raw));
    for (int i = 0; i < j->components; i++) {
        const struct hr__kernel_component *k = &p->comp[i];

        for (int x = k->x; x < k->x + (int)k->blocks_w * 8; x++)
            for (int y = k->y; y < k->y + (int)k->blocks_h * 8; y++)
                bad += env.work[k->plane + (size_t)(x - k->x) * k->stride +
                                (size_t)(y - k->y)] !=
                       raw.plane[i][raw.stride[i] * (size_t)y + (size_t)x];
    }
    free(raw.plane[0]);
    return bad;
}

static int check_colors(const struct kernel_jpeg *j, struct hr__rect w)
{
    const struct hr__kernel_picture *p = &env.pics[0];
    uint8_t *rgb = kernel_rgb(j);
    int bad = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(rgb);
    for (int y = w.y; y < w.y + w.h; y++)
        for (int x = w.x; x < w.x + w.w; x++)
            for (int c = 0; c < 3; c++) {
                size_t o = p->rgb + (size_t)c * p->rgb_plane +
                           (size_t)(x - p->x) * p->rgb_stride +
                           (size_t)(y - p->y);
                bad += p->color != HR__KERNEL_GRAY &&
                       env.work[o] !=
                           rgb[((size_t)y * (size_t)j->w + (size_t)x) * 3 +
                               (size_t)c];
            }
    free(rgb);
    return bad;
}

// Its ops are known: the rest by chance.
static void make_item(struct kernel_picture *p)
{
    char text[128];

    CU_ASSERT_EQUAL(hr__geometry_build(&p->geo, p->ops, p->num_ops,
                                       HR_REFERENCE_DEFAULT, p->w, p->h, 1,
                                       text),
                    HR_OK);
    kernel_random_out(p);
    kernel_random_table(p);
    kernel_make_item(p);
}

// A random window of the picture, no resize: its planes are looked at.
static void check_stages(int layout, int w, int h, bool harsh)
{
    struct kernel_jpeg_params j = kernel_params(layout, w, h);
    struct kernel_picture p = {.w = w, .h = h, .c = 3};
    struct hr__rect win;
    int planes, colors;

    j.harsh = harsh;
    CU_ASSERT_TRUE_FATAL(kernel_jpeg_make(&p.jpeg, &j));
    p.ops[p.num_ops++] = hr_op_decode(0);
    if (kernel_pick(0, 2))
        p.ops[p.num_ops++] = kernel_random_crop(w, h, false);
    make_item(&p);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p.item.coefs);
    win = kernel_window(&p.item.step);
    CU_ASSERT_TRUE_FATAL(kernel_run(&env, &p.item, 1));
    planes = check_planes(&p.jpeg);
    colors = check_colors(&p.jpeg, win);
    CU_ASSERT_EQUAL(planes, 0);
    CU_ASSERT_EQUAL(colors, 0);
    if (planes || colors)
        printf("    layout %d %dx%d window %d,%d %dx%d harsh %d: %d samples, "
               "%d colours differ\n",
               layout, w, h, win.x, win.y, win.w, win.h, harsh, planes, colors);
    kernel_picture_free(&p);
}

static void test_stages(void)
{
    for (int layout = 0; layout < KERNEL_LAYOUTS; layout++)
        for (int i = 0; i < (small ? 1 : 12); i++)
            check_stages(layout, kernel_pick(1, small ? 20 : 70),
                         kernel_pick(1, small ? 20 : 70), false);
}

static void test_harsh_stages(void)
{
    for (int layout = 0; layout < KERNEL_LAYOUTS; layout++)
        for (int i = 0; i < (small ? 1 : 12); i++)
            check_stages(layout, kernel_pick(1, small ? 20 : 200),
                         kernel_pick(1, small ? 20 : 200), true);
}

// Every size of the smallest pictures, where upsampling has its exceptions.
static void test_tiny_stages(void)
{
    for (int layout = 0; layout < KERNEL_LAYOUTS; layout++)
        for (int w = 1; w <= (small ? 2 : 6); w++)
            for (int h = 1; h <= (small ? 2 : 6); h++)
                check_stages(layout, w, h, false);
}

// ---- Chains ---------------------------------------------------------------

static void test_chain(void)
{
    struct kernel_picture p[KERNEL_MAX_BATCH];

    for (int i = 0; i < (small ? 4 : 250); i++) {
        CU_ASSERT_TRUE_FATAL(kernel_random_picture(
            &p[0], i % KERNEL_LAYOUTS, small ? 20 : 70, false, false));
        run_and_compare(p, 1);
    }
}

// From planes that another engine has made, alone and beside coefficients and
// pixels.
static void test_planes(void)
{
    struct kernel_picture p[3];

    for (int i = 0; i < (small ? 6 : 250); i++) {
        int layout = i % KERNEL_LAYOUTS, most = small ? 20 : i % 4 ? 70 : 7;

        CU_ASSERT_TRUE_FATAL(
            kernel_random_picture(&p[0], layout, most, false, false));
        CU_ASSERT_TRUE_FATAL(kernel_use_planes(&p[0]));
        if (i % 3 == 0) {
            CU_ASSERT_TRUE_FATAL(
                kernel_random_picture(&p[1], layout, most, false, false));
            CU_ASSERT_TRUE_FATAL(
                kernel_random_picture(&p[2], layout, most, false, true));
        }
        run_and_compare(p, i % 3 ? 1 : 3);
    }
}

// The vertical pass first, beside pictures of the other order.
static void test_v_first(void)
{
    struct kernel_picture p[2];

    for (int i = 0; i < (small ? 12 : 150); i++) {
        for (bool ok = false; !ok;) {
            CU_ASSERT_TRUE_FATAL(kernel_random_picture(
                &p[0], i % KERNEL_LAYOUTS, small ? 20 : 90, false, i % 3 == 0));
            ok = p[0].geo.steps[0].v_first;
            if (!ok)
                kernel_picture_free(&p[0]);
        }
        CU_ASSERT_TRUE_FATAL(kernel_random_picture(
            &p[1], i % KERNEL_LAYOUTS, small ? 20 : 90, false, i % 3 == 0));
        run_and_compare(p, 2);
    }
}

// torch's weights, and its order of passes.
static void test_torch(void)
{
    hr_device of_torch = hr_device_open(
        "cpu",
        hr_device_params(.threads = 1, .reference = HR_REFERENCE_TORCH_2));
    struct kernel_picture p;
    int resized = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(of_torch);
    kernel_reference = HR_REFERENCE_TORCH_2;
    for (int i = 0; i < (small ? 6 : 200); i++) {
        CU_ASSERT_TRUE_FATAL(kernel_random_picture(
            &p, i % KERNEL_LAYOUTS, small ? 20 : 90, false, i % 3 == 0));
        resized += p.geo.steps[0].torch && p.geo.steps[0].resized;
        CU_ASSERT_TRUE(kernel_cpu_run(of_torch, &p, 1));
        CU_ASSERT_TRUE(kernel_run(&env, &p.item, 1));
        CU_ASSERT_EQUAL(kernel_compare(&p, 1), 0);
        kernel_picture_free(&p);
    }
    CU_ASSERT(small || resized > 5);
    kernel_reference = HR_REFERENCE_DEFAULT;
    hr_device_close(&of_torch);
}

static void test_batches(void)
{
    struct kernel_picture p[KERNEL_MAX_BATCH];

    for (int n = 1; n <= (small ? 3 : 33); n++) {
        int most = small ? 20 : kernel_pick(0, 3) ? 70 : 300;

        for (int i = 0; i < n; i++)
            CU_ASSERT_TRUE_FATAL(
                kernel_random_picture(&p[i], kernel_pick(0, KERNEL_LAYOUTS - 1),
                                      most, kernel_pick(0, 3) == 0, false));
        run_and_compare(p, n);
    }
}

// Launches of many rows.
static void test_large(void)
{
    for (int i = 0; i < (small ? 0 : 2); i++) {
        struct kernel_picture p = {.w = 3000, .h = 2200, .c = 3};

        kernel_random_pixels(&p);
        p.ops[p.num_ops++] = hr_op_flip(.horizontal = true, .transpose = i);
        make_item(&p);
        env.most_rows = 0;
        run_and_compare(&p, 1);
        CU_ASSERT_TRUE(env.most_rows > 1);
    }
}

// Enough pixels that the sums of luma meet their rounding.
static void test_luma(void)
{
    for (int i = 0; i < (small ? 0 : 8); i++) {
        struct kernel_jpeg_params j = kernel_params(i % 2, 400, 300);
        struct kernel_picture p = {.w = 400, .h = 300, .c = 1, .mode = HR_GRAY};

        j.noise = true;
        j.quality = 95;
        CU_ASSERT_TRUE_FATAL(kernel_jpeg_make(&p.jpeg, &j));
        p.ops[p.num_ops++] = hr_op_decode(.mode = HR_GRAY);
        make_item(&p);
        run_and_compare(&p, 1);
    }
}

// As many weights as the kernels take, in either order of the passes.
static void test_long(void)
{
    static const int sides[][2] = {{4000, 9}, {9, 4000}, {3999, 1}};

    for (int i = 0; i < (small ? 0 : 6); i++) {
        struct kernel_picture p = {.w = sides[i % 3][0],
                                   .h = sides[i % 3][1],
                                   .c = 3};

        kernel_random_pixels(&p);
        if (i >= 3)
            p.ops[p.num_ops++] = hr_op_flip(.transpose = true);
        p.ops[p.num_ops++] = hr_op_resize(.w = 3, .h = 2, .filter = HR_LANCZOS);
        make_item(&p);
        run_and_compare(&p, 1);
    }
}

// More rows for a tile than it has at a time; and at last so many weights that
// the form for GPUs leaves resizing to the other, and nothing else.
static void test_rounds(void)
{
    static const int sizes[][4] = {{3, 120, 2, 6},
                                   {1500, 1500, 40, 2},
                                   {1500, 1500, 3, 2}};

    for (int i = 0; i < (small ? 1 : 3); i++) {
        struct kernel_picture p = {.w = sizes[i][0], .h = sizes[i][1], .c = 3};
        int before = env.by_gpu;

        kernel_random_pixels(&p);
        p.ops[p.num_ops++] = hr_op_resize(.w = sizes[i][2], .h = sizes[i][3]);
        make_item(&p);
        run_and_compare(&p, 1);
        CU_ASSERT_EQUAL(env.by_gpu - before, env.gpu && i < 2);
    }
    CU_ASSERT(!env.gpu || env.by_gpu == env.runs - !small);
}

// Pixels and coefficients in one batch.
static void test_pixels(void)
{
    struct kernel_picture p[KERNEL_MAX_BATCH];

    for (int i = 0; i < (small ? 3 : 100); i++) {
        int n = kernel_pick(1, small ? 2 : 8);

        for (int k = 0; k < n; k++)
            CU_ASSERT_TRUE_FATAL(kernel_random_picture(
                &p[k], kernel_pick(0, KERNEL_LAYOUTS - 1), small ? 20 : 90,
                false, kernel_pick(0, 5) != 0));
        run_and_compare(p, n);
    }
}

// Segments of anything, which no check lets pass: the picture beside them comes
// out as ever. (In Oclgrind: and nothing outside of a buffer is read.)
static void test_wrong(void)
{
    for (int i = 0; i < (small ? 3 : 60); i++) {
        struct kernel_picture p[2];
        struct kernel_item items[2];

        for (int k = 0; k < 2; k++) {
            CU_ASSERT_TRUE_FATAL(
                kernel_random_picture(&p[k], kernel_pick(0, KERNEL_LAYOUTS - 1),
                                      small ? 20 : 90, false, false));
            items[k] = p[k].item;
        }
        for (size_t at = items[1].coefs->offset[0]; at < items[1].coef_size;
             at++)
            if (i % 3 == 0 || kernel_pick(0, 9) == 0)
                ((uint8_t *)items[1].coefs)[at] = (uint8_t)kernel_random();
        CU_ASSERT_TRUE(kernel_cpu_run(cpu, p, 1));
        CU_ASSERT_TRUE(kernel_run(&env, items, 2));
        CU_ASSERT_EQUAL(kernel_compare(p, 1), 0);
        for (int k = 0; k < 2; k++)
            kernel_picture_free(&p[k]);
    }
}

// ---- Codes ----------------------------------------------------------------

enum { CODES = 4 };

// A picture of bytes, its codes and what the CPU's readable C makes of them.
struct coded {
    uint8_t pixels[3 * AUGMENT_SIDE * AUGMENT_SIDE];
    struct hr__augment list[CODES];
    uint8_t first[ROOM], second[ROOM];
    struct cpu_pixels want;
    uint8_t *got;
};

static void want_codes(struct coded *p, const struct kernel_item *item,
                       struct cpu_arena *arena)
{
    static struct cpu_ops c;
    int w = item->step.in_w, h = item->step.in_h, channels = item->planes;
    size_t row = (size_t)w * (size_t)channels;

    cpu_ops_init(&c, CPU_FLAG_C);
    p->want = (struct cpu_pixels){p->first, cpu_row_pitch(row), w, h, channels};
    for (int y = 0; y < h; y++)
        memcpy(p->first + p->want.stride * (size_t)y,
               p->pixels + row * (size_t)y, row);
    CU_ASSERT_TRUE_FATAL(cpu_augment_run(&c.augment, p->list, item->codes.num,
                                         &p->want, p->second, arena));
}

// The device has all but warps in doubles, if it has none, and by sums.
static bool has(const struct hr__augment *a)
{
    return a->code != HR__AUGMENT_WARP || a->warp.way < HR__WARP_SUMS ||
           (a->warp.way > HR__WARP_SUMS && env.doubles);
}

static void make_codes(struct coded *p, struct kernel_item *item, int first)
{
    int side = small ? 12 : AUGMENT_SIDE, w = kernel_pick(1, side);
    int h = kernel_pick(1, side), num = small ? 2 : kernel_pick(1, CODES);

    *item = (struct kernel_item){.pixels = p->pixels,
                                 .planes = kernel_pick(0, 3) ? 3 : 1};
    item->step = (struct hr__step){.in_w = w,
                                   .in_h = h,
                                   .rs_w = w,
                                   .rs_h = h,
                                   .src = {0, 0, w, h},
                                   .win = {0, 0, w, h},
                                   .out_w = w,
                                   .out_h = h};
    item->next_x = (size_t)item->planes;
    item->next_y = item->next_x * (size_t)w;
    item->next_c = 1;
    item->codes = (struct hr__kernel_codes){p->list, num, w, h};
    augment_noise(p->pixels, w * h * item->planes);
    for (int i = 0; i < num; i++) {
        int code = i ? kernel_pick(0, HR__NUM_AUGMENT - 1)
                     : first % HR__NUM_AUGMENT;

        do {
            p->list[i] = augment_random((enum hr__augment_code)code, w, h);
        } while (!has(&p->list[i]));
        p->list[i].w = w = p->list[i].w ? p->list[i].w : w;
        p->list[i].h = h = p->list[i].h ? p->list[i].h : h;
    }
}

static void give_codes(struct coded *p, struct kernel_item *item,
                       const struct hr__table *table)
{
    const struct hr__augment *last = &p->list[item->codes.num - 1];

    item->table = table;
    item->dst = (struct hr__dst){.w = last->w,
                                 .h = last->h,
                                 .c = p->want.channels,
                                 .dtype = HR_U8,
                                 .layout = HR_NHWC,
                                 .stride_h = (size_t)last->w *
                                             (size_t)p->want.channels};
    item->dst_size = item->dst.stride_h * (size_t)last->h;
    item->dst.data = p->got = malloc(item->dst_size);
}

static int compare_codes(const struct coded *p, const struct kernel_item *item)
{
    size_t row = item->dst.stride_h;
    int bad = 0;

    for (int y = 0; y < item->dst.h; y++)
        bad += memcmp(p->got + row * (size_t)y,
                      p->want.data + p->want.stride * (size_t)y, row) != 0;
    for (int i = 0; bad && i < item->codes.num; i++)
        printf("    %d rows of %dx%dx%d: code %d, to %dx%d\n", bad,
               item->step.in_w, item->step.in_h, item->planes,
               (int)p->list[i].code, p->list[i].w, p->list[i].h);
    return bad;
}

// Every code, alone and behind others, beside a picture without any.
static void test_codes(void)
{
    enum { N = 6 };
    static struct coded coded[N];
    struct kernel_item items[N + 1];
    struct kernel_picture plain[1];
    struct hr__table table = {.u8_identity = true};
    struct cpu_arena arena;

    for (int i = 0; i < 3 * 256; i++)
        table.u8[i / 256][i % 256] = (uint8_t)i;
    cpu_arena_init(&arena, &plain_heap);
    test_rnd_seed(kernel_random());
    for (int i = 0; i < (small ? 2 : 100); i++) {
        CU_ASSERT_TRUE_FATAL(
            kernel_random_picture(plain, 0, small ? 20 : 70, false, i % 2));
        CU_ASSERT_TRUE(kernel_cpu_run(cpu, plain, 1));
        for (int k = 0; k < N; k++) {
            make_codes(&coded[k], &items[k], i * N + k);
            want_codes(&coded[k], &items[k], &arena);
            give_codes(&coded[k], &items[k], &table);
        }
        items[N] = plain->item;
        CU_ASSERT_TRUE(kernel_run(&env, items, N + 1));
        CU_ASSERT_TRUE(env.launches <= 9);
        CU_ASSERT_EQUAL(kernel_compare(plain, 1), 0);
        for (int k = 0; k < N; k++) {
            CU_ASSERT_EQUAL(compare_codes(&coded[k], &items[k]), 0);
            free(coded[k].got);
        }
        kernel_picture_free(plain);
    }
    cpu_arena_finish(&arena);
}

// The structs that device code reads as they are.
static void test_layout(void)
{
    CU_ASSERT_EQUAL(sizeof(struct hr__coef_component) % 16, 0);
    CU_ASSERT_EQUAL(offsetof(struct hr__coefficients, comp) % 16, 0);
    CU_ASSERT_EQUAL(offsetof(struct hr__coef_component, quant) % 16, 0);
    CU_ASSERT_EQUAL(sizeof(struct hr__kernel_picture) % 4, 0);
    CU_ASSERT_EQUAL((int)HR__KERNEL_F32, (int)HR_F32);
    CU_ASSERT_EQUAL((int)HR__KERNEL_F16, (int)HR_F16);
    CU_ASSERT_EQUAL((int)HR__KERNEL_U8, (int)HR_U8);
}

// Lists that fill whole rows, the last of them with idle groups.
static void test_rows(void)
{
    for (size_t n = 0; n <= 5 * HR__ROW_GROUPS; n++) {
        hr__u32 list[2 * 5 * HR__ROW_GROUPS + 16];
        hr__u32 *end = hr__kernel_list(list, 7, (hr__u32)n);
        size_t width, again, rows = hr__kernel_rows(n, &width), all;
        bool ok = rows * width >= n && rows * width < n + (rows ? rows : 1) &&
                  width <= HR__ROW_GROUPS;

        all = (size_t)(hr__kernel_pad(list, end) - list) / 2;
        for (size_t i = n; i < all; i++)
            ok = ok && list[2 * i] == 7 && list[2 * i + 1] >= n;
        ok = ok && all == rows * width &&
             hr__kernel_rows(all, &again) == rows && again == width;
        CU_ASSERT_TRUE(ok);
        if (!ok)
            return;
    }
}

// ---- Main -----------------------------------------------------------------

static bool wanted(const struct kernel_device *d)
{
    const char *want = getenv("HEADRACE_TEST_OPENCL");

    if (!want || !*want)
        want = "Portable Computing Language";
    return !strcmp(want, "all") || strstr(d->platform_name, want);
}

static int run_tests(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        {"layout", test_layout},    {"stages", test_stages},
        {"tiny", test_tiny_stages}, {"harsh", test_harsh_stages},
        {"rows", test_rows},        {"chain", test_chain},
        {"planes", test_planes},    {"v first", test_v_first},
        {"torch", test_torch},      {"batches", test_batches},
        {"luma", test_luma},        {"pixels", test_pixels},
        {"long", test_long},        {"large", test_large},
        {"wrong", test_wrong},      {"codes", test_codes},
        {"rounds", test_rounds},
    };
    CU_pSuite suite;
    int failures;

    if (CU_initialize_registry())
        return -1;
    suite = CU_add_suite("kernels", NULL, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        CU_add_test(suite, tests[i].name, tests[i].run);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    failures = (int)CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures;
}

static const char *const variants[] = {
    [OCL_STAGED] = "staged", [OCL_GPU] = "gpu"};

static bool run_device(const struct ocl_api *cl, const struct kernel_device *d,
                       enum ocl_variant variant)
{
    bool ok;

    printf("device: %s, %s, %s\n", d->platform_name, d->name,
           variants[variant]);
    ok = kernel_env_open(&env, cl, d, variant) && run_tests() == 0;
    kernel_env_close(&env);
    return ok;
}

int main(void)
{
    const char *seed = getenv("HEADRACE_SEED");
    struct kernel_device devices[8];
    struct ocl_api cl;
    int n, run = 0, bad = 0;

    setbuf(stdout, NULL);  // what is said before a crash counts
    small = getenv("HEADRACE_TEST_SMALL") != NULL;
    kernel_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    printf("HEADRACE_SEED=%llu\n", (unsigned long long)kernel_seed);
    kernel_seed = kernel_seed * 0x9e3779b97f4a7c15u + 1;
    if (!kernel_cl_load(&cl) || !(n = kernel_devices(&cl, devices, 8))) {
        puts("not run: no OpenCL device");
        return 77;
    }
    cpu = hr_device_open("cpu", NULL);
    if (!cpu)
        return 1;
    for (int i = 0; i < n; i++) {
        if (!wanted(&devices[i])) {
            printf("passed over: %s\n", devices[i].platform_name);
            continue;
        }
        run++;
        for (enum ocl_variant v = OCL_STAGED; v <= OCL_GPU; v++)
            bad += !run_device(&cl, &devices[i], v);
    }
    hr_device_close(&cpu);
    return bad ? 1 : run ? 0 : 77;
}
#endif
