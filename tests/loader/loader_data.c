// SPDX-License-Identifier: Apache-2.0
#include "loader_data.h"

#include <errno.h>
#include <sys/stat.h>

#include "pack_data.h"

const struct hr_op data_ops[DATA_OPS] = {
    HR_OP_DECODE(0),
    HR_OP_RANDOM_RESIZED_CROP(.w = DATA_SIDE, .h = DATA_SIDE),
    HR_OP_RANDOM_FLIP(.horizontal = .5),
    HR_OP_NORMALIZE(.mean = {.5f, .5f, .5f}, .std = {.5f, .25f, .2f}),
};

struct hr_loader_params data_params(hr_source source, int64_t epochs)
{
    return (struct hr_loader_params){
        .source = source,
        .ops = data_ops,
        .num_ops = DATA_OPS,
        .batch = 8,
        .shuffle = true,
        .seed = test_seed,
        .epochs = epochs,
    };
}

static struct bytes picture(int i, uint64_t seed)
{
    uint64_t own = seed + (uint64_t)i * 977;

    return test_jpeg(30 + i % 17, 28 + i % 13, &own);
}

static void print_path(char *path, size_t size, const char *dir, int i)
{
    snprintf(path, size, "%s/%c/%03d.jpg", dir, "dcab"[i % 4], i);
}

const char *data_folder(int n, uint64_t seed)
{
    const char *dir = test_folder();
    char path[4200];

    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%c", dir, "dcab"[i]);
        if (mkdir(path, 0700) && errno != EEXIST)
            abort();
    }
    for (int i = 0; i < n; i++) {
        auto_bytes b = picture(i, seed);

        print_path(path, sizeof(path), dir, i);
        test_write(path, b.data, b.size);
    }
    return dir;
}

const char *data_pack(const char *folder)
{
    const char *path = pack_path("data.hrp");
    hr_pack_writer w = hr_pack_writer_open(path);
    auto_source source = hr_source_open(folder);
    bool ok = true;

    for (uint64_t i = 0; source && w && ok && i < source->num; i++) {
        auto_encoded file = {0};
        char name[4200];
        void *packed = NULL;
        size_t size = 0;

        ok = !hr_source_read(source, i, 0, &file) &&
             !hr_pack(file.data, file.size, NULL, &packed, &size) &&
             !hr_pack_writer_add(
                 w, &(struct hr_pack_entry){
                        .name = hr_source_name(source, i, name, sizeof(name)),
                        .label = hr_source_item(source, i).label,
                        .data = packed,
                        .size = size,
                        .source = file.size,
                        .packed = true});
        hr_packed_free(packed);
    }
    CHECK(w && ok && !hr_pack_writer_finish(w), "%s", hr_last_error());
    hr_pack_writer_close(&w);
    return path;
}

// ---- Callbacks -------------------------------------------------------------

static enum hr_status calls_read(void *ctx, uint64_t i, struct hr_encoded *to,
                                 char message[256])
{
    struct data_calls *c = ctx;
    int in = atomic_fetch_add(&c->in, 1) + 1, most = atomic_load(&c->most);
    enum hr_status status = HR_OK;

    while (in > most && !atomic_compare_exchange_weak(&c->most, &most, in))
        ;
    while (atomic_load(&c->gate) || atomic_load(&c->hold) == (int)i + 1 ||
           atomic_load(&c->most) < atomic_load(&c->wait_for))
        test_sleep(TEST_MS / 4);
    atomic_fetch_add(&c->reads, 1);
    if (c->bad && (int)i < c->num_bad && c->bad[i]) {
        snprintf(message, 256, "the test wants it so");
        status = HR_EIO;
    } else {
        to->path = c->path;
        to->data = c->path ? NULL : c->files[i].data;
        to->size = c->path ? 0 : c->files[i].size;
        to->owner = c;
        atomic_fetch_add(&c->lent, 1);
    }
    atomic_fetch_sub(&c->in, 1);
    return status;
}

static void calls_done(void *ctx, uint64_t i, const struct hr_encoded *from)
{
    struct data_calls *c = ctx;

    if (from->owner == c && from->path == c->path &&
        from->data == (c->path ? NULL : c->files[i].data))
        atomic_fetch_add(&c->done, 1);
}

static int64_t calls_class(void *ctx, uint64_t i)
{
    (void)ctx;
    return (int64_t)i % 4;
}

void data_calls_init(struct data_calls *c, int n, uint64_t seed)
{
    *c = (struct data_calls){.calls = {.num = (uint64_t)n,
                                       .ctx = c,
                                       .read = calls_read,
                                       .done = calls_done,
                                       .class_of = calls_class}};
    c->files = calloc((size_t)n, sizeof(*c->files));
    for (int i = 0; i < n; i++)
        c->files[i] = picture(i, seed);
}

void data_calls_finish(struct data_calls *c, int n)
{
    for (int i = 0; i < n; i++)
        free(c->files[i].data);
    free(c->files);
    c->files = NULL;
}

struct hr_loader_params data_begin(struct data_calls *c, int n, hr_device dev)
{
    struct hr_loader_params p;

    data_calls_init(c, n, test_seed);
    c->source = hr_source_of_calls(&c->calls);
    p = data_params(c->source, 0);
    p.device = dev;
    p.batch = 4;
    return p;
}

void data_end(struct data_calls *c)
{
    CHECK(atomic_load(&c->done) == atomic_load(&c->lent), "%d of %d came back",
          atomic_load(&c->done), atomic_load(&c->lent));
    hr_source_close(&c->source);
    data_calls_finish(c, (int)c->calls.num);
}

// ---- Consumers -------------------------------------------------------------

static uint64_t fold(uint64_t sum, const void *data, size_t size)
{
    const uint8_t *at = data;

    for (size_t i = 0; i < size; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static void add_one(struct data_seen *seen, hr_loaded loaded,
                    const uint8_t *pixels, int i)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    bool device = false;

    if (seen->num == seen->capacity) {
        seen->capacity = seen->capacity ? 2 * seen->capacity : 64;
        seen->digests = realloc(seen->digests,
                                seen->capacity * sizeof(*seen->digests));
        seen->indices = realloc(seen->indices,
                                seen->capacity * sizeof(*seen->indices));
        seen->status = realloc(seen->status,
                               seen->capacity * sizeof(*seen->status));
    }
    sum = fold(sum, pixels, loaded->batch->params.stride_n);
    sum = fold(sum, &loaded->indices[i], sizeof(*loaded->indices));
    sum = fold(sum, &loaded->classes[i], sizeof(*loaded->classes));
    sum = fold(sum, &loaded->keys[i].index, sizeof(loaded->keys[i].index));
    sum = fold(sum, &loaded->keys[i].epoch, sizeof(loaded->keys[i].epoch));
    seen->digests[seen->num] = sum;
    seen->indices[seen->num] = loaded->indices[i];
    seen->status[seen->num++] = loaded->results[i].status;
    for (int k = 0; k < loaded->results[i].num_spans; k++) {
        const char *by = loaded->results[i].spans[k].device;

        seen->by_cache += !strcmp(by, "cache");
        device = device || (strcmp(by, "cache") && strcmp(by, "cpu"));
    }
    seen->by_device += device;
}

void data_seen_add(struct data_seen *seen, hr_loaded loaded)
{
    size_t each = loaded->batch->params.stride_n;
    const uint8_t *pixels = loaded->batch->params.data;
    auto_heap uint8_t *copy = NULL;

    if (!pixels) {
        copy = malloc(each * (size_t)loaded->n);
        CHECK(hr_batch_read(loaded->batch, 0, loaded->n, copy,
                            each * (size_t)loaded->n, HR_FOREVER) == HR_OK,
              "%s", hr_last_error());
        pixels = copy;
    }
    for (int i = 0; i < loaded->n; i++)
        add_one(seen, loaded, pixels + each * (size_t)i, i);
}

enum hr_status data_drain(struct data_seen *seen, hr_loader loader,
                          uint64_t steps)
{
    enum hr_status status = HR_OK;
    hr_loaded loaded;

    for (uint64_t i = 0; !steps || i < steps; i++) {
        status = hr_loader_next(loader, HR_FOREVER, &loaded);
        if (status || !loaded)
            break;
        data_seen_add(seen, loaded);
        hr_loaded_release(&loaded);
    }
    return status;
}

void data_drain_all(struct data_seen *seen, const struct hr_loader_params *p)
{
    auto_loader loader = hr_loader_create(p);

    CHECK(loader && data_drain(seen, loader, 0) == HR_OK, "%s",
          hr_last_error());
}

bool data_seen_same(const struct data_seen *a, size_t at,
                    const struct data_seen *b)
{
    return a->num >= at + b->num &&
           (!b->num ||
            !memcmp(a->digests + at, b->digests, b->num * sizeof(*b->digests)));
}

void data_seen_finish(struct data_seen *seen)
{
    free(seen->digests);
    free(seen->indices);
    free(seen->status);
    *seen = (struct data_seen){0};
}

int data_main(int argc, char **argv)
{
    setenv("HEADRACE_BACKEND", "cpu", 1);
    return test_main(argc, argv);
}
