// SPDX-License-Identifier: Apache-2.0
// CIFAR files, and other samples that are pixels: the samples read, the tensors
// made of them, and the errors for files that are not as they should be.
#include <sys/stat.h>

#include "loader_data.h"

enum { SIDE = 32, PIXELS = SIDE * SIDE * 3, N = 50 };

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    return *x ^= *x << 17;
}

// n records with so many bytes of labels: the last of record i is i % classes,
// one before it i % 20. Free them.
static uint8_t *records(int n, int labels, int classes, uint64_t seed)
{
    size_t record = (size_t)labels + PIXELS;
    uint8_t *data = malloc((size_t)n * record);

    seed |= 1;
    for (int i = 0; i < n; i++) {
        uint8_t *at = data + (size_t)i * record;

        at[0] = (uint8_t)(i % 20);
        at[labels - 1] = (uint8_t)(i % classes);
        for (int k = 0; k < PIXELS; k++)
            at[labels + k] = (uint8_t)(next(&seed) >> 32);
    }
    return data;
}

// The path of a file in one folder, until the next call.
static const char *place(const char *name)
{
    static const char *folder;
    static char path[4200];

    folder = folder ? folder : test_folder();
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static const char *put(const char *name, const void *data, size_t size)
{
    test_write(place(name), data, size);
    return place(name);
}

// The records of CIFAR-10 in a file of its own.
static uint8_t *cifar10(const char **path, int n)
{
    uint8_t *data = records(n, 1, 10, test_seed);

    *path = put("data_batch_1.bin", data, (size_t)n * (1 + PIXELS));
    return data;
}

static hr_source opened(const char *path, enum hr_cifar kind)
{
    hr_source source = hr_source_create();

    if (hr_source_add_cifar(source, path, kind))
        hr_source_close(&source);
    return source;
}

// ---- What is read ----------------------------------------------------------

static void reads_all(hr_source s, const uint8_t *data, int labels, int taken)
{
    auto_encoded to = {0};

    for (int i = 0; i < N; i++) {
        const uint8_t *record = data + (size_t)i * (size_t)(labels + PIXELS);
        uint64_t at = (uint64_t)i;
        char name[32], want[32];

        CHECK(!hr_source_read(s, at, 0, &to) && to.size == PIXELS &&
                  to.w == SIDE && to.h == SIDE && to.c == 3 &&
                  to.layout == HR_NCHW &&
                  !memcmp(to.data, record + labels, PIXELS),
              "%d: %s", i, hr_last_error());
        CHECK(hr_source_class(s, at) == record[taken], "%d is of class %d", i,
              (int)hr_source_class(s, at));
        snprintf(want, sizeof(want), "%05d", i);
        CHECK(!strcmp(hr_source_name(s, at, name, sizeof(name)), want) &&
                  !hr_source_item(s, at).is_file,
              "%s", name);
    }
}

TEST_CASE(ten)
{
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    auto_source s = opened(path, HR_CIFAR10);
    size_t num = 0;

    CHECK(s && s->num == N && !s->num_faults, "%s", hr_last_error());
    CHECK(s && hr_source_classes(s, &num) && num == 10, "%zu classes", num);
    CHECK(!strcmp(hr_source_item(s, 7).label, "7"), "%s",
          hr_source_item(s, 7).label);
    reads_all(s, data, 1, 0);
    // Another one behind it goes on with its numbers.
    CHECK(!hr_source_add_cifar(s, path, HR_CIFAR10) && s->num == 2 * N, "%s",
          hr_last_error());
}

TEST_CASE(hundred)
{
    // (Of 100 classes N occur.)
    auto_heap uint8_t *data = records(N, 2, N, test_seed);
    const char *path = put("train.bin", data, (size_t)N * (2 + PIXELS));
    auto_source fine = opened(path, HR_CIFAR100);
    auto_source coarse = opened(path, HR_CIFAR100_COARSE);

    CHECK(fine && coarse, "%s", hr_last_error());
    CHECK(!strcmp(hr_source_item(fine, 7).label, "7"), "%s",
          hr_source_item(fine, 7).label);
    reads_all(fine, data, 2, 1);
    reads_all(coarse, data, 2, 0);
}

TEST_CASE(names)
{
    static const char text[] = "airplane\nautomobile\r\nbird\ncat\ndeer\ndog\n"
                               "frog\nhorse\nship\ntruck\n\n";
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    char file[4200];
    hr_source s;

    snprintf(file, sizeof(file), "%s", path);
    put("batches.meta.txt", text, sizeof(text) - 1);
    s = opened(file, HR_CIFAR10);
    CHECK(s && !strcmp(hr_source_item(s, 1).label, "automobile") &&
              !strcmp(hr_source_item(s, 19).label, "truck"),
          "%s", s ? hr_source_item(s, 1).label : hr_last_error());
    reads_all(s, data, 1, 0);
    hr_source_close(&s);
    put("batches.meta.txt", text, sizeof(text) - 8);  // without the last
    CHECK(!opened(file, HR_CIFAR10) && hr_last_status() == HR_EFORMAT &&
              strstr(hr_last_error(), "batches.meta.txt: 9 names of 10"),
          "%s", hr_last_error());
    unlink(place("batches.meta.txt"));
}

// The class is the record's, whichever others there are, and however they are
// called.
TEST_CASE(named)
{
    static const char *const texts[] = {
        "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n",
        "t\ns\nh\nf\ndog\nd\nc\nb\nA\na\n"};
    auto_heap uint8_t *data = records(10, 1, 10, test_seed);
    const char *const *classes;
    char file[4200];
    size_t num;

    snprintf(file, sizeof(file), "%s",
             put("few.bin", data + 7 * (1 + PIXELS), 2 * (1 + PIXELS)));
    for (int i = 0; i < 2; i++) {
        auto_source s = NULL;

        put("batches.meta.txt", texts[i], strlen(texts[i]));
        s = opened(file, HR_CIFAR10);
        classes = hr_source_classes(s, &num);
        CHECK(s && s->num == 2 && num == 10 && hr_source_class(s, 0) == 7 &&
                  hr_source_class(s, 1) == 8 &&
                  !strcmp(classes[8], hr_source_item(s, 1).label),
              "%d: %d and %d of %zu", i, (int)hr_source_class(s, 0),
              (int)hr_source_class(s, 1), num);
    }
    unlink(place("batches.meta.txt"));
}

// ---- Tensors ---------------------------------------------------------------

static const float mean[3] = {.4914f, .4822f, .4465f};
static const float std[3] = {.2470f, .2435f, .2616f};
static const struct hr_op train[] = {
    HR_OP_DECODE(0),
    HR_OP_RANDOM_CROP(.w = SIDE, .h = SIDE, .pad = 4),
    HR_OP_RANDOM_FLIP(.horizontal = .5),
    HR_OP_NORMALIZE(.mean = {.4914f, .4822f, .4465f},
                    .std = {.2470f, .2435f, .2616f}),
};

// The value that torchvision's ToTensor and Normalize give a byte, in float32.
static float value(uint8_t byte, int channel)
{
    return ((float)byte / 255.0f - mean[channel]) / std[channel];
}

// True if out holds a record's pixels after the drawn crop and flip.
static bool is_made(const float *out, const uint8_t *planes,
                    const struct hr_op *ops, int num)
{
    int x0 = 0, y0 = 0;
    bool mirror = false;

    for (int i = 0; i < num; i++) {
        if (ops[i].type == HR_OP_CROP) {
            x0 = ops[i].crop.x;
            y0 = ops[i].crop.y;
        } else if (ops[i].type == HR_OP_FLIP) {
            mirror = ops[i].flip.horizontal;
        }
    }
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int sx = x0 + (mirror ? SIDE - 1 - x : x), sy = y0 + y;
                bool in = sx >= 0 && sx < SIDE && sy >= 0 && sy < SIDE;
                uint8_t byte = in ? planes[(c * SIDE + sy) * SIDE + sx] : 0;

                if (out[(c * SIDE + y) * SIDE + x] != value(byte, c))
                    return false;
            }
    return true;
}

static struct hr_loader_params train_params(hr_source source, hr_device dev)
{
    return (struct hr_loader_params){
        .source = source,
        .device = dev,
        .ops = train,
        .num_ops = 4,
        .batch = 16,
        .shuffle = true,
        .seed = test_seed,
        .epochs = 2,
    };
}

static void trains_on(const char *device)
{
    auto_device dev = hr_device_open(device, hr_device_params(.threads = 2));
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    auto_source source = opened(path, HR_CIFAR10);
    struct hr_loader_params p = train_params(source, dev);
    auto_loader loader = dev ? hr_loader_create(&p) : NULL;
    int seen[N] = {0}, moved = 0, by_device = 0;
    hr_loaded b = NULL;

    if (!dev)
        return test_no_device();
    while (loader && !hr_loader_next(loader, HR_FOREVER, &b) && b) {
        const float *out = b->batch->params.data;

        for (int i = 0; i < b->n; i++) {
            uint64_t index = b->indices[i];
            struct hr_op drawn[HR_MAX_OPS];
            int num = 0;

            seen[index]++;
            CHECK(!b->results[i].status && b->results[i].width == SIDE &&
                      b->classes[i] == (int64_t)index % 10,
                  "%s", b->results[i].message);
            // (Pixels are submitted without decode.)
            CHECK(!hr_ops_draw(train + 1, 3, &b->keys[i], SIDE, SIDE, 1, drawn,
                               &num),
                  "%s", hr_last_error());
            CHECK(is_made(out + (size_t)i * PIXELS,
                          data + index * (1 + PIXELS) + 1, drawn, num),
                  "sample %d", (int)index);
            for (int k = 0; k < b->results[i].num_spans; k++)
                by_device += !!strcmp(b->results[i].spans[k].device, "cpu");
            for (int k = 0; k < num; k++)
                moved += drawn[k].type == HR_OP_CROP && drawn[k].crop.x != 0;
        }
        hr_loaded_release(&b);
    }
    for (int i = 0; i < N; i++)
        CHECK(seen[i] == 2, "%d came %d times", i, seen[i]);
    CHECK(moved > N, "nothing was drawn: %d", moved);
    CHECK(!strcmp(device, "cpu") || by_device >= 2 * N, "%d by the device",
          by_device);
}

TEST_CASE(trains)
{
    trains_on("cpu");
}

TEST_CASE(trains_device)
{
    trains_on(test_device_name());
}

// Resized as the same pixels in another layout, which the test has turned.
TEST_CASE(resizes)
{
    static const struct hr_op ops[] = {
        HR_OP_DECODE(0),
        HR_OP_RESIZE(.w = 48, .h = 40),
    };
    auto_device dev = test_device("cpu", 2, 0);
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    auto_source source = opened(path, HR_CIFAR10);
    auto_loader loader = hr_loader_create(
        hr_loader_params(.source = source, .device = dev, .ops = ops,
                         .num_ops = 2, .batch = N, .dtype = HR_U8));
    auto_image from = hr_image_create(
        dev, hr_image_params(.w = SIDE, .h = SIDE, .c = 3, .dtype = HR_U8,
                             .layout = HR_NHWC));
    auto_batch want = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = 3, .h = 40, .w = 48, .dtype = HR_U8));
    struct hr_sample s = {.image = from, .ops = ops + 1, .num_ops = 1};
    hr_loaded b = NULL;

    CHECK(loader && !hr_loader_next(loader, HR_FOREVER, &b) && b, "%s",
          hr_last_error());
    for (int i = 0; b && i < N; i += 7) {
        const uint8_t *planes = data + (size_t)i * (1 + PIXELS) + 1;
        uint8_t *to = from->params.data;
        auto_job job = NULL;

        for (int k = 0; k < PIXELS; k++)
            to[k] = planes[k % 3 * SIDE * SIDE + k / 3];
        job = hr_submit(dev, &s, 1, want, NULL);
        CHECK(hr_job_wait(job, HR_FOREVER) == HR_OK, "%s", hr_last_error());
        CHECK(!memcmp(want->params.data,
                      (const uint8_t *)b->batch->params.data +
                          b->batch->params.stride_n * (size_t)i,
                      want->size),
              "sample %d", i);
    }
    hr_loaded_release(&b);
}

// The same batches whatever the threads and the batch, and after a while
// nothing is allocated for them.
TEST_CASE(same)
{
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    auto_source source = opened(path, HR_CIFAR10);
    auto_seen want = {0};

    for (int i = 0; i < 6; i++) {
        auto_device dev = test_device("cpu", 1 + i % 3, 0);
        struct hr_loader_params p = train_params(source, dev);
        auto_seen seen = {0};
        auto_loader loader = NULL;

        p.batch = i % 2 ? 7 : 16;
        p.reads = i < 3 ? 1 : 8;
        loader = hr_loader_create(&p);
        CHECK(loader && !data_drain(i ? &seen : &want, loader, 0), "%s",
              hr_last_error());
        CHECK(!i || (seen.num == 2 * N && data_seen_same(&want, 0, &seen)),
              "%d: %zu samples", i, seen.num);
    }
}

TEST_CASE(steady)
{
    auto_device dev = test_device("cpu", 2, 0);
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    auto_source source = opened(path, HR_CIFAR10);
    struct hr_loader_params p = train_params(source, dev);
    auto_seen seen = {0};
    int64_t before = 0, after = 1;
    auto_loader loader = NULL;

    p.epochs = HR_ENDLESS;
    loader = hr_loader_create(&p);
    for (int i = 0; loader && i < 20 && after > before; i++) {
        before = hr__test_allocs();
        CHECK(!data_drain(&seen, loader, 40), "%s", hr_last_error());
        after = hr__test_allocs();
    }
    CHECK(after == before, "%d allocations", (int)(after - before));
}

// ---- What is wrong ---------------------------------------------------------

static void refuses(const char *path, enum hr_cifar kind, enum hr_status status,
                    const char *text)
{
    auto_source s = hr_source_create();

    CHECK(hr_source_add_cifar(s, path, kind) == status &&
              strstr(hr_last_error(), text) && !s->num,
          "%s: %s", text, hr_last_error());
}

TEST_CASE(refused)
{
    auto_heap uint8_t *data = records(N, 2, 20, test_seed);
    const char *path = put("a.bin", data, 0);
    char text[64];

    refuses(path, HR_CIFAR10, HR_EFORMAT, "a.bin: offset 0: ");
    put("a.bin", data, 3073 * 5 + 17);
    snprintf(text, sizeof(text), "offset %d: a record of CIFAR-10 has 3073",
             3073 * 5);
    refuses(path, HR_CIFAR10, HR_EFORMAT, text);
    // The other kind's.
    put("a.bin", data, 3074 * 5);
    refuses(path, HR_CIFAR10, HR_EFORMAT, "offset 15365: a record of CIFAR-10");
    put("a.bin", data, 3073 * 5);
    refuses(path, HR_CIFAR100, HR_EFORMAT, "of CIFAR-100 has 3074 bytes");
    data[0] = 10;
    put("a.bin", data, 3073 * 5);
    refuses(path, HR_CIFAR10, HR_EFORMAT, "a.bin: offset 0: label 10, there");
    data[0] = 0;
    data[1] = 100;
    put("a.bin", data, 3074 * 5);
    refuses(path, HR_CIFAR100, HR_EFORMAT, "offset 1: label 100, there");
    data[0] = 20;
    put("a.bin", data, 3074 * 5);
    refuses(path, HR_CIFAR100, HR_EFORMAT, "offset 0: label 20, there");
    refuses(path, (enum hr_cifar)3, HR_EINVAL, "kind 3");
    refuses(path, (enum hr_cifar) - 1, HR_EINVAL, "kind -1");
    refuses(test_folder(), HR_CIFAR10, HR_EIO, "not a regular file");
    unlink(path);
    refuses(path, HR_CIFAR10, HR_EIO, "a.bin: No such file");
    CHECK(!mkfifo(path, 0600), "a FIFO");
    refuses(path, HR_CIFAR10, HR_EIO, "not a regular file");
    unlink(path);
    CHECK(hr_source_add_cifar(NULL, path, HR_CIFAR10) == HR_EINVAL &&
              hr_source_add_cifar(NULL, NULL, HR_CIFAR10) == HR_EINVAL,
          "nothing");
}

// A label that does not exist costs its record, no other.
TEST_CASE(fault)
{
    auto_heap uint8_t *data = records(N, 1, 10, test_seed);
    const char *path;
    hr_source s;
    char name[32];

    data[3073 * 7] = 77;
    path = put("a.bin", data, (size_t)N * 3073);
    s = opened(path, HR_CIFAR10);
    CHECK(s && s->num == N - 1 && s->num_faults == 1 &&
              strstr(s->faults[0], "a.bin: offset 21511: label 77, there"),
          "%s", s ? s->faults[0] : hr_last_error());
    CHECK(s && !strcmp(hr_source_name(s, 7, name, sizeof(name)), "00008"), "%s",
          name);
    hr_source_close(&s);
    unlink(place("a.bin"));
}

// The file is cut while it is open: lost samples are named, nothing hangs.
TEST_CASE(shrinks)
{
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    auto_source source = opened(path, HR_CIFAR10);
    auto_device dev = test_device("cpu", 2, 0);
    struct hr_loader_params p = train_params(source, dev);
    auto_encoded to = {0};
    auto_loader loader = NULL;
    hr_loaded b = NULL;

    CHECK(!truncate(path, 3073 * 20 + 100), "cut");
    CHECK(hr_source_read(source, 2, 0, &to) == HR_EIO &&
              strstr(hr_last_error(), "offset 6147: it was changed"),
          "%s", hr_last_error());
    p.on_error = HR_ON_ERROR_ZERO;
    p.shuffle = false;
    loader = hr_loader_create(&p);
    CHECK(loader && !hr_loader_next(loader, HR_FOREVER, &b) && b &&
              b->failed == 16,
          "%s", hr_last_error());
    for (int i = 0; b && i < b->n; i++)
        CHECK(b->results[i].status == HR_EIO &&
                  b->results[i].stage == HR_READ &&
                  strstr(b->results[i].message, "data_batch_1.bin: offset "),
              "%s", b->results[i].message);
    hr_loaded_release(&b);
}

TEST_CASE(no_memory)
{
    const char *path;
    auto_heap uint8_t *data = cifar10(&path, N);
    char file[4200];
    bool done = false;
    int nth;

    snprintf(file, sizeof(file), "%s", path);
    for (nth = 1; nth < 100 && !done; nth++) {
        auto_source s = hr_source_create();

        hr__test_fail_alloc(nth, false);
        done = !hr_source_add_cifar(s, file, HR_CIFAR10);
        hr__test_fail_alloc(0, false);
        CHECK(done ? s->num == N : hr_last_status() == HR_ENOMEM && !s->num,
              "%d: %s", nth, hr_last_error());
        CHECK(s->num ||
                  (!hr_source_add_cifar(s, file, HR_CIFAR10) && s->num == N),
              "%d: %d samples", nth, (int)s->num);
    }
    CHECK(done && nth > 5, "%d", nth);
}

// ---- Callbacks that lend pixels --------------------------------------------

struct lender {
    uint8_t *pixels;
    int w, h, c;
    size_t size;
    atomic_int lent, back;
};

static enum hr_status lend(void *ctx, uint64_t i, struct hr_encoded *to,
                           char message[256])
{
    struct lender *l = ctx;

    (void)message;
    atomic_fetch_add(&l->lent, 1);
    to->data = l->pixels + i;
    to->size = l->size;
    to->w = l->w;
    to->h = l->h;
    to->c = l->c;
    to->layout = HR_NHWC;
    return HR_OK;
}

static void take_back(void *ctx, uint64_t i, const struct hr_encoded *from)
{
    struct lender *l = ctx;

    if (from->data == l->pixels + i)
        atomic_fetch_add(&l->back, 1);
}

// Sample i is grey, and begins with byte i. The first one, or its status.
static enum hr_status borrow(struct lender *l, uint8_t *first)
{
    static const struct hr_op ops[] = {
        HR_OP_DECODE(.mode = HR_GRAY),
        HR_OP_CROP(.w = 5, .h = 3),
    };
    auto_device dev = test_device("cpu", 2, 0);
    auto_source source = hr_source_of_calls(&(struct hr_source_calls){
        .num = N, .ctx = l, .read = lend, .done = take_back});
    hr_loader loader = hr_loader_create(
        hr_loader_params(.source = source, .device = dev, .ops = ops,
                         .num_ops = 2, .batch = 8, .dtype = HR_U8));
    enum hr_status status = HR_OK;
    hr_loaded b = NULL;

    for (bool more = loader; more;) {
        enum hr_status now = hr_loader_next(loader, HR_FOREVER, &b);

        status = status ? status : now;
        more = now || b;
        for (int i = 0; b && i < b->n; i++)
            for (int k = 0; k < 15; k++)
                if (((uint8_t *)b->batch->params.data)[i * 15 + k] !=
                    l->pixels[b->indices[i] + (unsigned)(k / 5 * l->w + k % 5)])
                    CHECK(false, "sample %d", (int)b->indices[i]);
        if (b && !b->number)
            memcpy(first, b->batch->params.data, 15);
        hr_loaded_release(&b);
    }
    hr_loader_destroy(&loader);
    CHECK(atomic_load(&l->lent) == atomic_load(&l->back), "%d of %d came back",
          atomic_load(&l->back), atomic_load(&l->lent));
    return status;
}

TEST_CASE(lent)
{
    struct lender l = {.w = 9, .h = 7, .c = 1, .size = 63};
    uint8_t first[15], bytes[N + 63];
    auto_encoded to = {0};
    auto_source s = hr_source_of_calls(&(struct hr_source_calls){
        .num = N, .ctx = &l, .read = lend, .done = take_back});

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
    l.pixels = bytes;
    CHECK(!borrow(&l, first), "%s", hr_last_error());
    CHECK(first[0] == 3 && first[5] == bytes[9], "pixels");
    CHECK(!hr_source_read(s, 4, 0, &to) && to.w == 9 && to.h == 7 &&
              to.c == 1 && to.layout == HR_NHWC &&
              !memcmp(to.data, bytes + 4, 63),
          "%s", hr_last_error());
    // Shapes that the bytes do not have.
    l.size = 62;
    CHECK(hr_source_read(s, 0, 0, &to) == HR_EINVAL &&
              strstr(hr_last_error(), "62 bytes are not 9 x 7 pixels of 1"),
          "%s", hr_last_error());
    CHECK(borrow(&l, first) == HR_EINVAL, "%s", hr_last_error());
    l.size = 63;
    l.h = -7;
    CHECK(hr_source_read(s, 0, 0, &to) == HR_EINVAL, "%s", hr_last_error());
    l.h = 0;
    CHECK(hr_source_read(s, 0, 0, &to) == HR_EINVAL, "%s", hr_last_error());
    l.h = 7;
    l.c = 2;
    CHECK(hr_source_read(s, 0, 0, &to) == HR_EINVAL, "%s", hr_last_error());
}
