// SPDX-License-Identifier: Apache-2.0
// Pack files: what goes in comes out, by index and by name; pixels are those of
// the files; whatever a file holds, a reader says so or reads it right.
#define _GNU_SOURCE  // memfd_create
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/pack_format.h"
#include "pack_data.h"

// ---- What goes in comes out ------------------------------------------------

static void same_entry(hr_pack_file file, size_t i, const struct pack_datum *d)
{
    struct hr_pack_entry e;
    size_t found;

    if (hr_pack_entry(file, i, &e) != HR_OK) {
        CHECK(false, "entry %zu: %s", i, hr_last_error());
        return;
    }
    CHECK(!strcmp(e.name, d->name) && !strcmp(e.label, d->label), "%zu: names",
          i);
    CHECK(e.size == d->entry.size && e.source == d->file.size &&
              e.packed == d->entry.packed,
          "%zu: sizes", i);
    CHECK(!memcmp(e.data, d->entry.data, e.size), "%zu: data", i);
    CHECK((uintptr_t)e.data % 64 == 0, "%zu: alignment", i);
    CHECK(hr_pack_find(file, d->name, strlen(d->name), &found) == HR_OK &&
              found == i,
          "%zu is not found", i);
}

static void same_sample(hr_pack_file file, size_t i, const struct pack_datum *d,
                        bool first)
{
    struct hr_sample s = {.path = "x", .num_ops = 7, .verified = true};

    CHECK(hr_pack_sample_unchecked(file, i, &s) == HR_OK &&
              s.verified == (!first && d->entry.packed),
          "%zu: not checked yet", i);
    s = (struct hr_sample){.path = "x", .num_ops = 7, .verified = true};
    CHECK(hr_pack_sample(file, i, &s) == HR_OK, "%zu: %s", i, hr_last_error());
    CHECK(!s.path && !s.image && s.num_ops == 7, "%zu: what is set", i);
    CHECK(s.size == d->entry.size && !memcmp(s.data, d->entry.data, s.size),
          "%zu: data", i);
    CHECK(!strcmp(s.name, d->name) && s.verified == d->entry.packed,
          "%zu: name, verified", i);
}

static void round_trip_of(int n)
{
    const char *path = pack_path("round.hrp");
    uint64_t sums[2] = {0}, packed = 0;
    hr_pack_file file;
    struct stat st;

    CHECK(pack_data_write(path, n, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    CHECK(file != NULL, "%s", hr_last_error());
    if (!file)
        return;
    CHECK(file->num == (size_t)n && file->version == 1, "%zu", file->num);
    // From the end, so that no order of reading is needed.
    for (int i = n - 1; i >= 0; i--) {
        struct pack_datum d;

        pack_datum_make(&d, i, test_seed);
        same_entry(file, (size_t)i, &d);
        same_sample(file, (size_t)i, &d, true);
        same_sample(file, (size_t)i, &d, false);
        sums[0] += d.entry.size;
        sums[1] += d.file.size;
        packed += d.entry.packed;
        pack_datum_finish(&d);
    }
    CHECK(file->data_bytes == sums[0] && file->source_bytes == sums[1] &&
              file->packed == packed,
          "sums");
    CHECK(n < PACK_SORTS || (packed && packed < (uint64_t)n), "both sorts");
    CHECK(!stat(path, &st) && file->bytes == (uint64_t)st.st_size, "bytes");
    CHECK(hr_pack_sample(file, (size_t)n, &(struct hr_sample){0}) == HR_EINVAL,
          "there is no picture %d", n);
    CHECK(hr_pack_entry(file, SIZE_MAX, NULL) == HR_EINVAL, "nor that");
    CHECK(hr_pack_sample_unchecked(file, (size_t)n, &(struct hr_sample){0}) ==
              HR_EINVAL,
          "nor so");
    hr_pack_passed(file, (size_t)n + 9);
    hr_pack_close(&file);
    CHECK(!file, "closed");
}

static void round_trip(void)
{
    round_trip_of(0);
    round_trip_of(1);
    round_trip_of(2);
    round_trip_of(test_loops(100));
}

static void absent_names(void)
{
    static const char *const names[] = {
        "", "n", "n00000.jp", "n00000.jpgx", "zzz", "\xff\xff", "a/b/1.png/",
    };
    const char *path = pack_path("names.hrp");
    hr_pack_file file;
    size_t i = 77;

    pack_data_write(path, 20, test_seed);
    file = hr_pack_open(path);
    for (size_t k = 0; file && k < sizeof(names) / sizeof(*names); k++)
        CHECK(hr_pack_find(file, names[k], strlen(names[k]), &i) == HR_EINVAL,
              "'%s' is found", names[k]);
    CHECK(file && hr_pack_find(file, "n00000.jpgx", 10, &i) == HR_OK && i == 0,
          "a length");
    CHECK(file && hr_pack_find(file, "n00000.jpg\0", 11, &i) == HR_EINVAL,
          "a zero byte");
    hr_pack_close(&file);
}

// ---- What a writer refuses -------------------------------------------------

static void refuses(hr_pack_writer w, const char *name, const char *label,
                    bool packed)
{
    struct hr_pack_entry e = {
        .name = name, .label = label, .data = "x", .size = 1, .packed = packed};
    uint64_t before = w->bytes;

    CHECK(hr_pack_writer_add(w, &e) == HR_EINVAL, "'%.40s' is taken",
          name ? name : "NULL");
    CHECK(w->num == 1 && w->bytes == before, "something was added");
}

static void refused(void)
{
    static const char *const names[] = {
        "",     "/a",     "a/",  "a//b", ".",     "..", "../a",
        "a/..", "a/../b", "./a", "a/.",  "a/./b", "/",
    };
    const char *path = pack_path("refused.hrp");
    hr_pack_writer w = hr_pack_writer_open(path);
    char text[5000];

    CHECK(w && hr_pack_writer_add(w, &(struct hr_pack_entry){.name = "...",
                                                             .label = ""}) ==
                   HR_OK,
          "%s", hr_last_error());
    if (!w)
        return;
    memset(text, 'x', sizeof(text));
    text[4096] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        refuses(w, names[i], "", false);
    refuses(w, text, "", false);
    refuses(w, "b", text, false);
    refuses(w, "...", "", false);
    refuses(w, NULL, "", false);
    refuses(w, "b", NULL, false);
    refuses(w, "b", "", true);
    CHECK(hr_pack_writer_add(w, &(struct hr_pack_entry){.name = "b",
                                                        .label = "",
                                                        .size = 1}) ==
              HR_EINVAL,
          "no data");
    text[4095] = '\0';
    CHECK(hr_pack_writer_add(
              w, &(struct hr_pack_entry){.name = text, .label = text}) == HR_OK,
          "%s", hr_last_error());
    CHECK(hr_pack_writer_finish(w) == HR_OK, "%s", hr_last_error());
    CHECK(hr_pack_writer_finish(w) == HR_EINVAL, "twice");
    CHECK(hr_pack_writer_add(w, &(struct hr_pack_entry){.name = "c",
                                                        .label = ""}) ==
              HR_EINVAL,
          "behind its end");
    hr_pack_writer_close(&w);
    hr_pack_writer_close(&w);
    hr_pack_writer_close(NULL);
    hr_pack_close(NULL);
}

// ---- Pixels ----------------------------------------------------------------

static hr_batch run(hr_device dev, const struct hr_sample *samples, int n,
                    enum hr_status *statuses)
{
    hr_batch batch = hr_batch_create(dev, hr_batch_params(.n = n, .c = 3,
                                                          .h = 20, .w = 24));
    hr_job job = hr_submit(dev, samples, n, batch,
                           hr_job_params(.on_error = HR_ON_ERROR_ZERO));

    if (!job) {
        CHECK(false, "%s", hr_last_error());
        return batch;
    }
    hr_job_wait(job, HR_FOREVER);
    for (int i = 0; i < n; i++)
        statuses[i] = job->results[i].status;
    hr_job_release(&job);
    return batch;
}

// The job checks what was not; what has passed is not checked again.
static void unchecked(hr_device dev, hr_pack_file file,
                      struct hr_sample *samples)
{
    hr_pack_file again = hr_pack_open(file->path);
    enum hr_status status;
    hr_batch batch;

    CHECK(again && !hr_pack_sample_unchecked(again, 0, samples) &&
              !samples->verified,
          "checked before");
    batch = run(dev, samples, 1, &status);
    CHECK(status == HR_OK, "%s", hr_status_name(status));
    hr_pack_passed(again, 0);
    CHECK(!hr_pack_sample_unchecked(again, 0, samples) && samples->verified &&
              !hr_pack_sample_unchecked(again, 4, samples) &&
              !samples->verified,
          "it has passed");
    hr_batch_destroy(&batch);
    hr_pack_close(&again);
}

static void pixels(void)
{
    enum { N = 16 };
    const struct hr_op ops[] = {
        hr_op_decode(0),
        hr_op_random_resized_crop(.w = 24, .h = 20),
        hr_op_random_flip(.horizontal = .5),
        hr_op_normalize(.mean = {.4f}, .std = {.2f}),
    };
    struct hr_sample from_files[N], from_pack[N];
    enum hr_status file_status[N], pack_status[N];
    struct pack_datum data[N];
    hr_device dev = test_device("cpu", 2, 0);
    const char *path = pack_path("pixels.hrp");
    hr_pack_file file;
    hr_batch a, b;
    int ok = 0;

    CHECK(pack_data_write(path, N, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    for (int i = 0; i < N; i++) {
        pack_datum_make(&data[i], i, test_seed);
        from_files[i] = (struct hr_sample){.ops = ops,
                                           .num_ops = 4,
                                           .random = {.seed = 5,
                                                      .index = (uint64_t)i}};
        from_pack[i] = from_files[i];
        from_files[i].data = data[i].file.data;
        from_files[i].size = data[i].file.size;
        hr_pack_sample(file, (size_t)i, &from_pack[i]);
    }
    a = run(dev, from_files, N, file_status);
    b = run(dev, from_pack, N, pack_status);
    unchecked(dev, file, from_pack);
    for (int i = 0; i < N; i++) {
        CHECK(file_status[i] == pack_status[i], "%d: %s, %s", i,
              hr_status_name(file_status[i]), hr_status_name(pack_status[i]));
        ok += file_status[i] == HR_OK;
        pack_datum_finish(&data[i]);
    }
    CHECK(ok >= N / 2, "%d made", ok);
    CHECK(!memcmp(a->params.data, b->params.data, N * a->params.stride_n),
          "pixels differ");
    hr_batch_destroy(&a);
    hr_batch_destroy(&b);
    hr_device_close(&dev);
    hr_pack_close(&file);
}

// ---- Hostile files ---------------------------------------------------------

// In memory: thousands of them.
static const char *memory_file(int *fd)
{
    static char path[64];

    *fd = memfd_create("hostile.hrp", MFD_CLOEXEC);
    if (*fd < 0)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
    return path;
}

static void put(int fd, const void *data, size_t size)
{
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

static struct bytes whole(const char *path)
{
    struct bytes b = {0};

    if (!read_file(path, &b))
        abort();
    return b;
}

static struct bytes made(int n)
{
    const char *path = pack_path("made.hrp");

    CHECK(pack_data_write(path, n, test_seed), "%s", hr_last_error());
    return whole(path);
}

// What all bytes come to, so that all are read.
static volatile uint8_t sum;

// Opens the file and reads what it says is there. HR_OK, or why not.
static enum hr_status walk(const char *path)
{
    hr_pack_file file = hr_pack_open(path);
    struct hr_sample s = {0};
    struct hr_pack_entry e;
    size_t found;

    if (!file)
        return hr_last_status();
    for (size_t i = 0; i < file->num; i++) {
        CHECK(hr_pack_entry(file, i, &e) == HR_OK &&
                  hr_pack_find(file, e.name, strlen(e.name), &found) == HR_OK &&
                  found == i,
              "%zu is not found", i);
        if (hr_pack_sample(file, i, &s) != HR_OK)
            continue;
        for (size_t k = 0; k < s.size; k++)
            sum ^= ((const uint8_t *)s.data)[k];
    }
    hr_pack_close(&file);
    return HR_OK;
}

static void cut_anywhere(void)
{
    int fd;
    const char *path = memory_file(&fd);
    struct pack_header header;
    struct bytes b;
    size_t index;

    b = made(9);
    memcpy(&header, b.data, sizeof(header));
    index = (size_t)le64toh(header.index);
    for (size_t n = 0; n < b.size; n++) {
        enum hr_status want = n ? HR_ETRUNCATED : HR_EFORMAT;

        if (n > 64 && n < index - 8 && n % 97)
            continue;
        put(fd, b.data, n);
        CHECK(walk(path) == want, "cut at %zu: %s", n, hr_last_error());
        CHECK(strstr(hr_last_error(), ": offset") != NULL, "text: %s",
              hr_last_error());
    }
    free(b.data);
    close(fd);
}

// With each byte of header and index changed: their checksums notice.
static void flipped_bytes(void)
{
    int fd;
    const char *path = memory_file(&fd);
    struct pack_header header;
    struct bytes b;
    size_t index;

    b = made(9);
    memcpy(&header, b.data, sizeof(header));
    index = (size_t)le64toh(header.index);
    for (size_t at = 0; at < b.size; at == 63 ? at = index : at++) {
        uint8_t was = b.data[at];

        b.data[at] ^= (uint8_t)(1u << at % 8);
        put(fd, b.data, b.size);
        CHECK(walk(path) != HR_OK, "byte %zu is not missed", at);
        b.data[at] = was;
    }
    free(b.data);
    close(fd);
}

static void seal(struct bytes *b)
{
    struct pack_header h;
    uint64_t index;

    memcpy(&h, b->data, sizeof(h));
    index = le64toh(h.index);
    if (index <= b->size)
        h.index_sum = htole64(pack_sum(b->data + index, b->size - index));
    h.sum = htole64(pack_header_sum(&h));
    memcpy(b->data, &h, sizeof(h));
}

// A change behind which the checksums are right: that of who means harm.
static void forge(int fd, const char *path, const struct bytes *b, size_t at,
                  const void *bytes, size_t size, bool may_pass,
                  const char *what)
{
    struct bytes copy = {test_copy(b->data, b->size), b->size};
    enum hr_status status;

    memcpy(copy.data + at, bytes, size);
    seal(&copy);
    put(fd, copy.data, copy.size);
    status = walk(path);
    CHECK(status != HR_OK || may_pass, "%s at %zu passes", what, at);
    free(copy.data);
}

static void forge_number(int fd, const char *path, const struct bytes *b,
                         size_t at, size_t size, bool may_pass,
                         const char *what)
{
    static const uint64_t values[] = {1,          7,         63,
                                      64,         255,       4096,
                                      UINT32_MAX, INT64_MAX, UINT64_MAX};
    uint64_t was = 0, x;

    memcpy(&was, b->data + at, size);
    for (size_t i = 0; i < 2 * sizeof(values) / sizeof(*values); i++) {
        // Beside what it was, too: off by one, by 64, wrapped round.
        x = htole64(values[i / 2] + (i % 2 ? le64toh(was) : 0));
        if (memcmp(&x, &was, size))
            forge(fd, path, b, at, &x, size, may_pass, what);
    }
}

static void forged_fields(void)
{
    static const struct {
        size_t at, size;
        bool may_pass;  // what a file was made of is nobody's business
        const char *what;
    } fields[] = {
        {0, 8, false, "offset"},      {8, 8, true, "size"},
        {16, 8, true, "source"},      {24, 8, true, "data_sum"},
        {32, 8, false, "name"},       {40, 4, false, "name_size"},
        {44, 4, false, "label_size"}, {48, 4, true, "flags"},
        {52, 4, false, "zeros"},      {56, 4, false, "zeros"},
        {60, 4, false, "zeros"},
    };
    int fd;
    const char *path = memory_file(&fd);
    size_t index;
    struct bytes b;
    uint64_t x;

    b = made(5);
    memcpy(&x, b.data + 32, sizeof(x));
    index = (size_t)le64toh(x);
    forge_number(fd, path, &b, 8, 4, false, "version");
    forge_number(fd, path, &b, 12, 4, false, "zero");
    forge_number(fd, path, &b, 16, 8, false, "num");
    forge_number(fd, path, &b, 24, 8, false, "bytes");
    forge_number(fd, path, &b, 32, 8, false, "index");
    forge_number(fd, path, &b, 48, 8, false, "zeros");
    for (size_t e = 0; e < 5; e++)
        for (size_t f = 0; f < sizeof(fields) / sizeof(*fields); f++)
            forge_number(fd, path, &b, index + e * 64 + fields[f].at,
                         fields[f].size, fields[f].may_pass, fields[f].what);
    for (size_t i = 0; i < 6; i++)  // the sixth are the zeros behind the order
        forge_number(fd, path, &b, index + 5 * 64 + 4 * i, 4, false, "order");
    for (size_t at = index + 5 * 64 + 24; at < b.size; at++)
        forge(fd, path, &b, at, "/", 1, b.data[at] != 0, "text");
    for (size_t at = index + 5 * 64 + 24; at < b.size; at++)
        forge(fd, path, &b, at, "", 1, b.data[at] == 0, "zero in a text");
    free(b.data);
    close(fd);
}

// It ends with its entry, at the end of a page: the texts would be behind it.
static void index_without_texts(void)
{
    struct pack_header h = {.version = htole32(1),
                            .num = htole64(1),
                            .bytes = htole64(4096),
                            .index = htole64(4032)};
    struct pack_index e = {.offset = htole64(192),
                           .size = htole64(4032 - 192),
                           .name_size = htole32(1)};
    uint8_t page[4096] = {0};
    struct bytes b = {page, sizeof(page)};
    int fd;
    const char *path = memory_file(&fd);

    memcpy(h.magic, PACK_MAGIC, 8);
    memcpy(page, &h, sizeof(h));
    memcpy(page + 4032, &e, sizeof(e));
    seal(&b);
    put(fd, page, sizeof(page));
    CHECK(!hr_pack_open(path) && hr_last_status() == HR_ECORRUPT &&
              strstr(hr_last_error(), "offset 16:"),
          "%s", hr_last_error());
    close(fd);
}

static void random_files(void)
{
    int fd;
    const char *path = memory_file(&fd);
    uint64_t seed = test_seed;
    struct bytes b;

    b = made(9);
    for (int i = 0; i < test_loops(400); i++) {
        struct bytes copy = {test_copy(b.data, b.size), b.size};
        int changes = 1 + (int)(next_random(&seed) % 6);
        size_t index = (size_t)le64toh(((uint64_t *)(void *)b.data)[4]);

        for (int k = 0; k < changes; k++) {
            size_t at = next_random(&seed) % 3 ? index : 0;
            size_t room = at ? b.size - index : 64;

            copy.data[at + next_random(&seed) % room] = (uint8_t)next_random(
                &seed);
        }
        if (i % 2)
            seal(&copy);
        put(fd, copy.data, copy.size);
        walk(path);
        for (size_t k = i % 4 == 3 ? 0 : copy.size; k < copy.size; k++)
            copy.data[k] = (uint8_t)next_random(&seed);
        memcpy(copy.data, PACK_MAGIC "\1\0\0", 12);
        seal(&copy);
        put(fd, copy.data, copy.size);
        walk(path);
        free(copy.data);
    }
    free(b.data);
    close(fd);
}

// A picture that is damaged harms no other.
static void damaged_data(void)
{
    enum { N = 16 };
    const char *path = pack_path("damaged.hrp");
    const char *base = NULL;
    uint64_t seed = test_seed;
    hr_pack_file file;
    size_t places[N];
    struct bytes b;

    CHECK(pack_data_write(path, N, test_seed), "%s", hr_last_error());
    b = whole(path);
    file = hr_pack_open(path);
    for (size_t i = 0; file && i < N; i++) {
        struct hr_pack_entry e = {0};

        hr_pack_entry(file, i, &e);
        // Its record, with a short name and label, is before it.
        base = i ? base
                 : (const char *)e.data -
                       PACK_ROUND(64 + 64 + strlen(e.name) + strlen(e.label));
        // (The zeros at the end of a packed picture are nobody's.)
        places[i] = e.size ? (size_t)((const char *)e.data - base) +
                                 next_random(&seed) %
                                     (e.packed ? e.size - 128 : e.size)
                           : 0;
    }
    hr_pack_close(&file);
    for (size_t i = 0; i < N; i++) {
        struct hr_sample s = {.name = "as it was"};

        if (!places[i])
            continue;
        b.data[places[i]] ^= 0x10;
        test_write(path, b.data, b.size);
        b.data[places[i]] ^= 0x10;
        file = hr_pack_open(path);
        for (size_t k = 0; file && k < N; k++) {
            enum hr_status got = hr_pack_sample(file, k, &s);

            CHECK(k == i ? got == HR_ECORRUPT : got == HR_OK, "%zu of %zu: %s",
                  k, i, hr_last_error());
        }
        CHECK(file && hr_pack_check(file, i) == HR_ECORRUPT, "the second time");
        CHECK(!file || i % PACK_SORTS != 1 ||
                  hr_pack_sample_unchecked(file, i, &s) == HR_ECORRUPT,
              "%zu: no job would check it", i);
        hr_pack_close(&file);
    }
    free(b.data);
}

// ---- Files that are changed while they are open ----------------------------

static void changed_while_open(void)
{
    const char *path = pack_path("changed.hrp");
    struct hr_sample s = {0};
    hr_pack_file file;
    int fd;

    CHECK(pack_data_write(path, 4, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    CHECK(file && hr_pack_sample(file, 0, &s) == HR_OK, "%s", hr_last_error());
    fd = open(path, O_RDWR);
    test_sleep(20 * TEST_MS);  // a clock tick
    CHECK(pwrite(fd, "x", 1, 100) == 1, "write");
    CHECK(file && hr_pack_sample(file, 0, &s) == HR_EIO, "written");
    CHECK(!ftruncate(fd, 100), "cut");
    CHECK(file && hr_pack_sample(file, 0, &s) == HR_EIO, "cut");
    CHECK(file && hr_pack_check(file, 3) == HR_EIO, "cut");
    close(fd);
    hr_pack_close(&file);
}

static void not_files(void)
{
    const char *folder = test_folder();
    char fifo[300];

    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    CHECK(!mkfifo(fifo, 0600), "fifo");
    CHECK(!hr_pack_open(fifo) && hr_last_status() == HR_EFORMAT, "a FIFO");
    CHECK(!hr_pack_open(folder) && hr_last_status() == HR_EFORMAT, "a folder");
    CHECK(!hr_pack_open("/nowhere/x.hrp") && hr_last_status() == HR_EIO &&
              strstr(hr_last_error(), "No such file"),
          "%s", hr_last_error());
    CHECK(!hr_pack_open(NULL) && hr_last_status() == HR_EINVAL, "NULL");
    CHECK(!hr_pack_writer_open("/nowhere/x.hrp") && hr_last_status() == HR_EIO,
          "%s", hr_last_error());
    CHECK(!hr_pack_writer_open("") && hr_last_status() == HR_EINVAL, "\"\"");
}

// ---- Threads ---------------------------------------------------------------

struct reader {
    hr_pack_file file;
    uint64_t seed;
    int wrong;
};

static void *read_some(void *arg)
{
    struct reader *r = arg;

    for (int i = 0; i < 500; i++) {
        size_t k = next_random(&r->seed) % r->file->num, found = 0;
        struct hr_sample s = {0};

        r->wrong += hr_pack_sample(r->file, k, &s) != HR_OK ||
                    hr_pack_find(r->file, s.name, strlen(s.name), &found) ||
                    found != k;
    }
    return NULL;
}

static void threads(void)
{
    const char *path = pack_path("threads.hrp");
    struct reader readers[4];
    pthread_t ids[4];
    hr_pack_file file;

    CHECK(pack_data_write(path, 64, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    for (int i = 0; file && i < 4; i++) {
        readers[i] = (struct reader){file, test_seed + (uint64_t)i, 0};
        pthread_create(&ids[i], NULL, read_some, &readers[i]);
    }
    for (int i = 0; file && i < 4; i++) {
        pthread_join(ids[i], NULL);
        CHECK(!readers[i].wrong, "%d", readers[i].wrong);
    }
    hr_pack_close(&file);
}

// ---- A million -------------------------------------------------------------

// Plain tests take fewer. The file's pages are not its reader's memory.
static void many(void)
{
    int n = getenv("HEADRACE_TEST_LONG") ? 1000000 : test_loops(50000);
    const char *path = pack_path("many.hrp");
    hr_pack_writer w = hr_pack_writer_open(path);
    char name[64], label[16];
    struct hr_pack_entry e = {.name = name, .label = label};
    int64_t begun;
    hr_pack_file file;
    double seconds;
    size_t k;

    for (int i = 0; w && i < n; i++) {
        // An order that is not that of the names.
        snprintf(name, sizeof(name), "train/n%05d/%d.JPEG", i % 1000,
                 (int)((unsigned)i * 2654435761u % 1000000007u));
        snprintf(label, sizeof(label), "n%05d", i % 1000);
        if (hr_pack_writer_add(w, &e) != HR_OK)
            break;
    }
    CHECK(w && w->num == (size_t)n && hr_pack_writer_finish(w) == HR_OK, "%s",
          hr_last_error());
    hr_pack_writer_close(&w);
    begun = test_clock(CLOCK_THREAD_CPUTIME_ID);
    file = hr_pack_open(path);
    seconds = (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e9;
    CHECK(file && file->num == (size_t)n, "%s", hr_last_error());
    CHECK(TEST_SANITIZED || seconds <= 2e-6 * n + .1, "%.3f s", seconds);
    begun = test_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; file && i < 1000; i++)
        CHECK(hr_pack_find(file, name, strlen(name), &k) == HR_OK &&
                  k == (size_t)n - 1,
              "find");
    printf("%d pictures: open %.3f s, find %.2f us\n", n, seconds,
           (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e6);
    hr_pack_close(&file);
}

static const struct test_case cases[] = {
    TEST_CASE(round_trip),
    TEST_CASE(absent_names),
    TEST_CASE(refused),
    TEST_CASE(pixels),
    TEST_CASE(cut_anywhere),
    TEST_CASE(flipped_bytes),
    TEST_CASE(forged_fields),
    TEST_CASE(index_without_texts),
    TEST_CASE(random_files),
    TEST_CASE(damaged_data),
    TEST_CASE(changed_while_open),
    TEST_CASE(not_files),
    TEST_CASE(threads),
    TEST_CASE(many),
};

int main(int argc, char **argv)
{
    return test_main("pack_file", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
