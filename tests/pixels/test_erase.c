// SPDX-License-Identifier: Apache-2.0
// Ops erase and random_erasing: rectangles, types and layouts, element by
// element; the drawn parameters; where they may stand.
#include <math.h>

#include "hal/shape/shape.h"
#include "testing.h"

enum { W = 23, H = 17, C = 3 };

static float block[C * H * W];

// The right value of element (c, y, x) of the tensor.
static float want(const struct hr_erase *e, float before, int c, int y, int x)
{
    size_t at;

    if (x < e->x || y < e->y || x - e->x >= e->w || y - e->y >= e->h)
        return before;
    at = ((size_t)c * (size_t)e->h + (size_t)(y - e->y)) * (size_t)e->w +
         (size_t)(x - e->x);
    return e->values ? e->values[at] : e->value[c];
}

static float element(hr_image image, int c, int y, int x)
{
    const struct hr_image_params *p = &image->params;
    size_t size = hr_dtype_size(p->dtype);
    const uint8_t *at = (const uint8_t *)p->data + p->stride_h * (size_t)y;
    uint16_t half;
    float f;

    at += p->layout == HR_NCHW ? p->stride_c * (size_t)c + size * (size_t)x
                               : size * ((size_t)x * (size_t)p->c + (size_t)c);
    memcpy(&f, at, p->dtype == HR_F32 ? sizeof(f) : 0);
    memcpy(&half, at, p->dtype == HR_F16 ? sizeof(half) : 0);
    return p->dtype == HR_F32   ? f
           : p->dtype == HR_F16 ? (float)hr_f16_value(half)
                                : (float)*at;
}

static float as(enum hr_dtype dtype, float x)
{
    if (dtype == HR_F16)
        return (float)hr_f16_value(hr__f16_from_f32(x));
    return dtype == HR_F32 ? x : fminf(fmaxf(truncf(x), 0), 255);
}

static hr_image gray(hr_device dev)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = W, .h = H, .c = C, .dtype = HR_U8,
                             .layout = HR_NHWC));

    memset(image->params.data, 100, image->size);
    return image;
}

static hr_image make(hr_device dev, hr_image from, const struct hr_op *ops,
                     int n, struct hr_random key, enum hr_dtype dtype,
                     enum hr_layout layout)
{
    struct hr_sample s = {
        .image = from, .ops = ops, .num_ops = n, .random = key};
    hr_image out = hr_apply(dev, &s,
                            hr_image_params(.dtype = dtype, .layout = layout));

    CHECK(out && !hr_image_wait(out, HR_FOREVER), "%s", hr_last_error());
    return out;
}

static void compare(hr_image got, const struct hr_erase *erases, int n)
{
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float expected = 100;

                for (int i = 0; i < n; i++)
                    expected = want(&erases[i], expected, c, y, x);
                expected = as(got->params.dtype, expected);
                if (element(got, c, y, x) != expected)
                    CHECK(false, "(%d, %d, %d): %g, not %g", c, y, x,
                          (double)element(got, c, y, x), (double)expected);
            }
}

static int below(int n)
{
    static uint64_t rnd;

    rnd = (rnd ? rnd : test_seed) * 6364136223846793005u + 1442695040888963407u;
    return (int)((rnd >> 33) % (uint64_t)n);
}

// Sides of 0, and parts that lie outside.
static struct hr_erase draw(void)
{
    struct hr_erase e = {
        .x = below(W + 5), .y = below(H + 5), .w = below(W), .h = below(H)};

    for (int c = 0; c < C; c++)
        e.value[c] = (float)(below(4000) - 1000) / 10;
    e.values = below(2) ? block : NULL;
    return e;
}

TEST_CASE(rectangles)
{
    auto_device dev = hr_device_open("cpu", NULL);
    auto_image from = gray(dev);

    for (int i = 0; i < C * H * W; i++)
        block[i] = (float)(below(40000) - 10000) / 100;
    for (int i = 0; i < test_loops(600); i++) {
        struct hr_erase erases[3];
        struct hr_op ops[3];
        int n = 1 + below(3);
        auto_image got = NULL;

        for (int k = 0; k < n; k++) {
            erases[k] = draw();
            ops[k] = (struct hr_op){.type = HR_OP_ERASE, .erase = erases[k]};
        }
        got = make(dev, from, ops, n, (struct hr_random){0},
                   (enum hr_dtype)(i % 3), i % 2 ? HR_NCHW : HR_NHWC);
        compare(got, erases, n);
    }
}

// A random list makes what the list that hr_ops_draw() writes makes.
TEST_CASE(drawn)
{
    const struct hr_op ops[] = {
        {.type = HR_OP_RANDOM_ERASING,
         .random_erasing = {.p = .7, .value = {1, 2, 3}}},
        {.type = HR_OP_RANDOM_ERASING,
         .random_erasing = {.p = .7, .scale = {.1, .9}, .noise = true}}};
    auto_device dev = hr_device_open("cpu", NULL);
    auto_image from = gray(dev);
    int counts[3] = {0};

    for (int i = 0; i < 200; i++) {
        struct hr_random key = {test_seed, (uint64_t)i, 1};
        struct hr_op plain[HR_MAX_OPS];
        auto_image a = make(dev, from, ops, 2, key, HR_F32, HR_NCHW), b = NULL;
        int n;

        CHECK(!hr_ops_draw(ops, 2, &key, W, H, 1, plain, &n), "%s",
              hr_last_error());
        counts[n]++;
        b = make(dev, from, plain, n, (struct hr_random){0}, HR_F32, HR_NCHW);
        CHECK(!memcmp(a->params.data, b->params.data, a->size), "key %d", i);
    }
    CHECK(counts[0] > 2 && counts[1] > 40 && counts[2] > 40,
          "drawn: %d, %d, %d", counts[0], counts[1], counts[2]);
}

TEST_CASE(noise)
{
    double sum = 0, squares = 0;
    enum { N = 100000 };
    static float x[N], part[50];

    hr__random_normals(5, 0, x, N);
    hr__random_normals(5, 1027, part, 50);
    CHECK(!memcmp(x + 1027, part, sizeof(part)), "from the middle");
    for (int i = 0; i < N; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    CHECK(fabs(sum / N) < .01 && fabs(squares / N - 1) < .02,
          "mean %g, square %g", sum / N, squares / N);
    hr__random_normals(6, 0, part, 50);
    CHECK(memcmp(x, part, sizeof(part)) != 0, "another noise");
}

// Where it may stand, and what is refused.
TEST_CASE(refused)
{
    const struct hr_op erase = {.type = HR_OP_ERASE};
    const struct hr_op lists[][2] = {
        {erase, hr_op_flip(.horizontal = true)},
        {erase, {.type = HR_OP_NORMALIZE}},
        {{.type = HR_OP_ERASE, .erase = {.x = -1}}, erase},
        {{.type = HR_OP_ERASE, .erase = {.values = block, .noise = 1}}, erase},
        {{.type = HR_OP_RANDOM_ERASING}, erase},
        {{.type = HR_OP_RANDOM_ERASING,
          .random_erasing = {.p = 1, .scale = {.1, 1.1}}},
         erase},
    };
    static const char *const words[] = {"erase must stand behind",
                                        "erase must stand behind",
                                        "x must be 0",
                                        "both values and noise",
                                        "p must be above 0",
                                        "scale must be at most 1"};
    int w, h;

    for (int i = 0; i < 6; i++) {
        CHECK(hr_ops_output_size(lists[i], 2, W, H, 1, &w, &h) == HR_EINVAL,
              "list %d", i);
        CHECK(strstr(hr_last_error(), words[i]), "%s", hr_last_error());
    }
}
