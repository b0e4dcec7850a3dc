// SPDX-License-Identifier: Apache-2.0
// Images and batches: layouts, strides, memory of the caller's; not a byte
// outside of the elements is written.
#include "testing.h"

static hr_device dev;

// ---- What is refused ------------------------------------------------------

TEST_CASE(bad_images)
{
    static uint8_t mem[4096];
    const struct hr_image_params good = {
        .w = 8, .h = 4, .c = 3, .data = mem + 1, .dtype = HR_U8};
    struct hr_image_params p;
    auto_image image = NULL;

#define TRY(what, ...)                                                    \
    (p = good, __VA_ARGS__, image = hr_image_create(dev, &p),             \
     CHECK(!image && hr_last_status() == HR_EINVAL && hr_last_error()[0], \
           "%s", what),                                                   \
     hr_image_release(&image))
    TRY("w 0", p.w = 0);
    TRY("h -1", p.h = -1);
    TRY("c 2", p.c = 2);
    TRY("c 4", p.c = 4);
    TRY("too wide", p.w = HR_MAX_SIDE + 1);
    TRY("dtype", p.dtype = (enum hr_dtype)9);
    TRY("layout", p.layout = (enum hr_layout)2);
    TRY("row too short", p.stride_h = 7);
    TRY("planes overlap", p.stride_c = 20);
    TRY("unaligned", p.dtype = HR_F32);
    TRY("odd stride", p.dtype = HR_F16, p.data = mem, p.stride_h = 17);
    TRY("huge stride", p.stride_h = SIZE_MAX / 2);
    TRY("huge plane", p.stride_c = SIZE_MAX - 7);
#undef TRY
    CHECK(!hr_image_create(dev, NULL), "no params");
    image = hr_image_create(dev, &good);
    CHECK(image, "the good one: %s", hr_last_error());
    hr_image_release(&image);
    // Planes row by row are a layout, too.
    p = good;
    p.stride_c = 8;
    p.stride_h = 24;
    image = hr_image_create(dev, &p);
    CHECK(image && image->size == 3 * 24 + 24, "row by row: %s",
          hr_last_error());
}

TEST_CASE(bad_batches)
{
    const struct hr_batch_params good = {.n = 2, .c = 3, .h = 4, .w = 8};
    struct hr_batch_params p;
    hr_batch batch;

#define TRY(what, ...)                                           \
    (p = good, __VA_ARGS__, batch = hr_batch_create(dev, &p),    \
     CHECK(!batch && hr_last_status() == HR_EINVAL, "%s", what), \
     hr_batch_destroy(&batch))
    TRY("n 0", p.n = 0);
    TRY("c 2", p.c = 2);
    TRY("pictures overlap", p.stride_n = 4);
    TRY("odd stride", p.stride_n = 3 * 4 * 8 * 4 + 2);
    TRY("huge", p.stride_n = SIZE_MAX / 2);
#undef TRY
    CHECK(!hr_batch_create(dev, NULL), "no params");
    batch = hr_batch_create(dev, &good);
    CHECK(batch && batch->size == 2 * 3 * 4 * 8 * 4 &&
              (uintptr_t)batch->params.data % 64 == 0,
          "aligned to 64");
    for (size_t i = 0; batch && i < batch->size; i++)
        CHECK(((uint8_t *)batch->params.data)[i] == 0, "byte %zu", i);
    hr_batch_destroy(&batch);
    // More than the machine has. (A sanitizer's malloc would end the program.)
    if (TEST_SANITIZED)
        return;
    batch = hr_batch_create(dev, hr_batch_params(.n = 1 << 20, .c = 3,
                                                 .h = 60000, .w = 60000));
    CHECK(!batch && hr_last_status() == HR_ENOMEM, "10^16 bytes");
}

// ---- Every layout, inside and outside -------------------------------------

enum { N = 2, W = 13, H = 7, GUARD = 0xee };

static size_t element(const struct hr_batch_params *p, int i, int c, int y,
                      int x)
{
    size_t e = hr_dtype_size(p->dtype);
    size_t at = (size_t)i * p->stride_n + (size_t)y * p->stride_h;

    return p->layout == HR_NCHW
               ? at + (size_t)c * p->stride_c + (size_t)x * e
               : at + ((size_t)x * (size_t)p->c + (size_t)c) * e;
}

static double value(const uint8_t *at, enum hr_dtype dtype)
{
    float f;
    uint16_t h;

    if (dtype == HR_U8)
        return *at;
    if (dtype == HR_F32)
        return memcpy(&f, at, 4), (double)f;
    memcpy(&h, at, 2);
    // Small whole numbers only: 1.m * 2^e without subnormals.
    return h ? (double)((1024 + (h & 1023))) * (double)(1 << (h >> 10)) /
                   (double)(1 << 25)
             : 0;
}

static void check_layout(struct hr_batch_params p, size_t capacity,
                         uint8_t *mem, const hr_image *src)
{
    struct hr_sample s[N];
    auto_heap uint8_t *touched = calloc(1, capacity);
    auto_batch batch = NULL;
    auto_job job = NULL;
    bool values = true, outside = true;

    memset(mem, GUARD, capacity);
    p.data = mem + 64;
    batch = hr_batch_create(dev, &p);
    CHECK(batch, "%s", hr_last_error());
    p = batch->params;
    for (int i = 0; i < N; i++)
        s[i] = (struct hr_sample){.image = src[i]};
    job = hr_submit(dev, s, N, batch, NULL);
    CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    for (int i = 0; i < N; i++)
        for (int c = 0; c < p.c; c++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++) {
                    size_t at = 64 + element(&p, i, c, y, x);
                    const uint8_t *from = src[i]->params.data;

                    values = values && value(mem + at, p.dtype) ==
                                           from[(y * W + x) * p.c + c];
                    memset(touched + at, 1, hr_dtype_size(p.dtype));
                }
    for (size_t i = 0; i < capacity; i++)
        outside = outside && (touched[i] || mem[i] == GUARD);
    CHECK(values, "%s %s c %d strides %zu %zu %zu", hr_dtype_name(p.dtype),
          p.layout ? "nhwc" : "nchw", p.c, p.stride_n, p.stride_c, p.stride_h);
    CHECK(outside, "%s %s c %d strides %zu %zu %zu: wrote between elements",
          hr_dtype_name(p.dtype), p.layout ? "nhwc" : "nchw", p.c, p.stride_n,
          p.stride_c, p.stride_h);
}

// Interleaved pixels have no plane stride: the field is ignored.
TEST_CASE(stride_of_no_plane)
{
    uint8_t data[2 * H * W * 3] = {0};
    auto_image image = hr_image_create(
        dev, hr_image_params(.w = W, .h = H, .c = 3, .layout = HR_NHWC,
                             .dtype = HR_U8, .stride_c = SIZE_MAX / 2,
                             .data = data));
    auto_batch batch = hr_batch_create(
        dev, hr_batch_params(.n = 2, .w = W, .h = H, .c = 3, .layout = HR_NHWC,
                             .dtype = HR_U8, .stride_c = SIZE_MAX / 2,
                             .data = data));

    CHECK(image && !image->params.stride_c, "an image");
    CHECK(batch && !batch->params.stride_c, "a batch");
}

TEST_CASE(every_layout)
{
    size_t capacity = 64 << 10;
    auto_heap uint8_t *mem = aligned_alloc(64, capacity);
    uint64_t seed = test_seed;

    for (int k = 0; k < 3 * 2 * 2 * 4; k++) {
        enum hr_dtype dtype = (enum hr_dtype)(k % 3);
        enum hr_layout layout = (enum hr_layout)(k / 3 % 2);
        int c = k / 6 % 2 ? 3 : 1, what = k / 12;
        size_t e = hr_dtype_size(dtype);
        struct hr_batch_params p = {
            .n = N, .c = c, .h = H, .w = W, .dtype = dtype, .layout = layout};
        hr_image src[N];

        if (what & 1)
            p.stride_h = (W * (size_t)c + 5) * e;
        if (what & 2)
            p.stride_n = 40 * 100 * e;
        if (what == 2 && layout == HR_NCHW) {  // row by row
            p.stride_c = (W + 1) * e;
            p.stride_h = (W + 1) * 3 * e;
        }
        for (int i = 0; i < N; i++)
            src[i] = test_image(dev, W, H, c, &seed);
        check_layout(p, capacity, mem, src);
        for (int i = 0; i < N; i++)
            hr_image_release(&src[i]);
    }
}

// Sources in planes and with long rows give the same picture.
TEST_CASE(source_layouts)
{
    uint64_t seed = test_seed;
    const struct hr_op ops[] = {hr_op_crop(.x = 2, .y = 1, .w = 9, .h = 5),
                                hr_op_resize(.w = 20, .h = 11)};

    for (int c = 1; c <= 3; c += 2) {
        auto_image plain = test_image(dev, W, H, c, &seed), planar = NULL,
                   padded = NULL;
        hr_image out[3];
        const uint8_t *from = plain->params.data;

        planar = hr_image_create(dev, hr_image_params(.w = W, .h = H, .c = c,
                                                      .dtype = HR_U8,
                                                      .stride_h = W + 6));
        padded = hr_image_create(
            dev, hr_image_params(.w = W, .h = H, .c = c, .dtype = HR_U8,
                                 .layout = HR_NHWC, .stride_h = 3 * W + 9));
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int k = 0; k < c; k++) {
                    uint8_t v = from[(y * W + x) * c + k];

                    ((uint8_t *)planar->params
                         .data)[(size_t)k * planar->params.stride_c +
                                (size_t)y * planar->params.stride_h +
                                (size_t)x] = v;
                    ((uint8_t *)padded->params
                         .data)[(size_t)y * padded->params.stride_h +
                                (size_t)(x * c + k)] = v;
                }
        for (int i = 0; i < 3; i++) {
            struct hr_sample s = {.image = i == 0   ? plain
                                           : i == 1 ? planar
                                                    : padded,
                                  .ops = ops,
                                  .num_ops = 2};
            auto_job job = NULL;

            out[i] = s.out = hr_image_create(
                dev, hr_image_params(.w = 20, .h = 11, .c = c, .dtype = HR_U8));
            job = hr_submit(dev, &s, 1, NULL, NULL);
            CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%d", i);
            CHECK(!memcmp(out[i]->params.data, out[0]->params.data,
                          out[0]->size),
                  "source layout %d, c %d", i, c);
        }
        for (int i = 0; i < 3; i++)
            hr_image_release(&out[i]);
    }
}

// ---- References -----------------------------------------------------------

static void *retain_release(void *arg)
{
    auto_image image = arg;

    for (int i = 0; i < 2000; i++) {
        auto_image mine = hr__image_retain(image);
    }
    return NULL;
}

TEST_CASE(references)
{
    static uint8_t mem[12];
    pthread_t threads[4];
    hr_image image;

    atomic_store(&test_freed, 0);
    image = hr_image_create(dev, hr_image_params(.w = 2, .h = 2, .c = 3,
                                                 .dtype = HR_U8, .data = mem,
                                                 .free_fn = test_count_free));
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, retain_release,
                       (void *)hr__image_retain(image));
    hr_image_release(&image);
    CHECK(!image, "not NULL");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&test_freed) == 1, "freed %d times",
          atomic_load(&test_freed));
}

// To where its bytes lie already, and to where they lie in part: a sanitizer
// sees a copy that may not overlap.
TEST_CASE(read_onto_itself)
{
    uint8_t mem[64], right[64];
    auto_image image = hr_image_create(
        dev,
        hr_image_params(.w = 4, .h = 4, .c = 3, .dtype = HR_U8, .data = mem));
    auto_job job = NULL;

    for (int i = 0; i < 64; i++)
        mem[i] = right[i] = (uint8_t)i;
    CHECK(!hr_image_read(image, mem, 48, HR_FOREVER) && !memcmp(mem, right, 64),
          "onto itself");
    memmove(right + 5, right, 48);
    job = hr_transfer_begin(
        hr_transfer_params(.image = image, .to = mem + 5, .size = 48), NULL);
    CHECK(job && !hr_job_wait(job, HR_FOREVER) && !memcmp(mem, right, 64),
          "beside itself");
    CHECK(hr_transfer(NULL, HR_FOREVER) == HR_EINVAL, "nothing to copy");
    CHECK(!hr_transfer_begin(NULL, NULL) && hr_last_status() == HR_EINVAL,
          "nothing to copy");
}

int main(int argc, char **argv)
{
    int result;

    dev = test_device("cpu", 2, 0);
    result = test_main(argc, argv);
    hr_device_close(&dev);
    return result;
}
