// SPDX-License-Identifier: Apache-2.0
#if HR_HAVE_OPENCL
#include "kernel_bench.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32 };
enum bench_kind {
    BENCH_EVAL,
    BENCH_TRAIN,
    BENCH_PIXELS,
    BENCH_TURNED,
    BENCH_VERTICAL,  // as BENCH_EVAL, the vertical pass first
};

// The picture as pixels instead of coefficients.
static void bench_pixels(struct kernel_picture *p)
{
    p->num_ops = 0;
    p->pixels = kernel_rgb(&p->jpeg);
    kernel_jpeg_free(&p->jpeg);
    p->source = (struct hr_image_params){.w = p->w,
                                         .h = p->h,
                                         .c = 3,
                                         .dtype = HR_U8,
                                         .layout = HR_NHWC,
                                         .stride_h = (size_t)p->w * 3,
                                         .data = p->pixels};
}

static bool bench_picture(struct kernel_picture *p, const char *path,
                          enum bench_kind kind)
{
    char text[128];

    memset(p, 0, sizeof(*p));
    if (!kernel_jpeg_read(&p->jpeg, path))
        return false;
    p->w = p->jpeg.w, p->h = p->jpeg.h, p->c = 3;
    p->ops[p->num_ops++] = hr_op_decode(0);
    if (kind == BENCH_PIXELS)
        bench_pixels(p);
    if (kind == BENCH_TURNED)
        p->ops[p->num_ops++] = hr_op_flip(.transpose = true);
    if (kind != BENCH_TRAIN) {
        p->ops[p->num_ops++] = hr_op_resize(.short_side = 256,
                                            .order = kind == BENCH_VERTICAL
                                                         ? HR_ORDER_VERTICAL
                                                         : HR_ORDER_HORIZONTAL);
        p->ops[p->num_ops++] = hr_op_crop(.center = true, .w = 224, .h = 224);
    } else {
        // About the mean of RandomResizedCrop(scale = (0.08, 1)).
        int w = (int)(p->w * (0.4 + kernel_pick(0, 60) / 100.));
        int h = (int)(p->h * (0.4 + kernel_pick(0, 60) / 100.));

        p->ops[p->num_ops++] = hr_op_crop(.x = kernel_pick(0, p->w - w),
                                          .y = kernel_pick(0, p->h - h), .w = w,
                                          .h = h);
        p->ops[p->num_ops++] = hr_op_resize(.w = 224, .h = 224,
                                            .order = HR_ORDER_HORIZONTAL);
        p->ops[p->num_ops++] = hr_op_flip(.horizontal = kernel_pick(0, 1));
    }
    if (hr__geometry_build(&p->geo, p->ops, p->num_ops, HR_REFERENCE_DEFAULT,
                           p->w, p->h, 1, text))
        return false;
    p->out = (struct hr_image_params){.w = 224,
                                      .h = 224,
                                      .c = 3,
                                      .stride_h = 224 * 4,
                                      .stride_c = 224 * 224 * 4};
    p->out_size = 224 * 224 * 12;
    p->want = malloc(p->out_size);
    p->got = malloc(p->out_size);
    p->ops[p->num_ops++] = hr_op_normalize(.mean = {.485f, .456f, .406f},
                                           .std = {.229f, .224f, .225f});
    hr__table_build(&p->table, &p->ops[p->num_ops - 1].normalize, NULL, 3,
                    HR_F32);
    kernel_make_item(p);
    return p->item.coefs || p->pixels;
}

static void bench_batch(struct kernel_env *env, hr_device cpu,
                        struct kernel_picture *p, int n, double *us)
{
    struct kernel_item items[KERNEL_MAX_BATCH];
    int bad;

    for (int i = 0; i < n; i++)
        items[i] = p[i].item;
    env->rounds = 10;
    kernel_run(env, items, n);
    for (int k = 0; k < HR__NUM_KERNELS; k++)
        us[k] += env->us[k];
    kernel_cpu_run(cpu, p, n);
    if ((bad = kernel_compare(p, n)))
        printf("    %d of %d pictures differ\n", bad, n);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **list_folder(const char *folder, int *n)
{
    DIR *dir = opendir(folder);
    struct dirent *d;
    char **names = NULL;

    for (*n = 0; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.') {
            names = realloc(names, sizeof(*names) * (size_t)(*n + 1));
            names[*n] = malloc(strlen(folder) + strlen(d->d_name) + 2);
            sprintf(names[(*n)++], "%s/%s", folder, d->d_name);
        }
    if (dir)
        closedir(dir);
    if (*n)
        qsort(names, (size_t)*n, sizeof(*names), by_name);
    return names;
}

static void bench(struct kernel_env *env, hr_device cpu, const char *folder,
                  enum bench_kind kind, int most)
{
    static const char *const kinds[] = {"eval", "train", "pixels", "turned",
                                        "vertical"};
    struct kernel_picture p[KERNEL_MAX_BATCH];
    double us[HR__NUM_KERNELS] = {0}, sum = 0;
    int n, num = 0, done = 0;
    char **files = list_folder(folder, &n);
    static const char *const text[] = {
#define X(name, string, stage) string,
        HR__KERNELS(X)
#undef X
    };

    for (int i = 0; i < n; i++) {
        if (done + num < most && bench_picture(&p[num], files[i], kind))
            num++;
        if (num == BATCH || (i == n - 1 && num)) {
            bench_batch(env, cpu, p, num, us);
            done += num;
            for (; num > 0; num--)
                kernel_picture_free(&p[num - 1]);
        }
        free(files[i]);
    }
    free(files);
    printf("%s, batches of %d, %d pictures, us per picture:", kinds[kind],
           BATCH, done);
    for (int k = HR__KERNEL_INDEX; k < HR__NUM_KERNELS; k++) {
        printf(" %s %.0f", text[k], us[k] / done);
        sum += us[k] / done;
    }
    printf(" sum %.0f\n", sum);
}

void kernel_bench(struct kernel_env *env, hr_device cpu, const char *folder,
                  int most)
{
    for (int k = BENCH_EVAL; k <= BENCH_VERTICAL; k++)
        bench(env, cpu, folder, (enum bench_kind)k, most);
}
#endif
