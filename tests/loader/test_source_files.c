// SPDX-License-Identifier: Apache-2.0
// Sources that are files with many samples: tar (WebDataset) and RecordIO.
// Whatever such a file holds, every whole sample is found, and the rest is an
// error or a fault that names it.
#include <endian.h>
#include <sys/stat.h>

#include "loader_data.h"
#include "shard_data.h"

enum { N = 24 };

// ---- RecordIO --------------------------------------------------------------

// A JPEG that has the first word of a record in it, after some bytes of header.
static struct bytes with_magic(const struct bytes *file, int times)
{
    uint32_t magic = htole32(SHARD_MAGIC);
    struct bytes b = {malloc(file->size + 64), 0};
    // A comment, so that the record's words are at multiples of 4.
    uint8_t head[] = {0xff, 0xd8, 0xff, 0xfe, 0, (uint8_t)(2 + 2 + 4 * times),
                      0,    0};

    memcpy(b.data, head, sizeof(head));
    b.size = sizeof(head);
    for (int i = 0; i < times; i++, b.size += 4)
        memcpy(b.data + b.size, &magic, 4);
    memcpy(b.data + b.size, file->data + 2, file->size - 2);
    b.size += file->size - 2;
    return b;
}

// Also numbers of classes that six digits do not tell apart.
static const char *record_label(int i)
{
    static const char *const labels[] = {"0",        "1",       "2",
                                         "1000000",  "1000001", "2.5",
                                         "16777215", "0.1",     "1.2345678"};

    return labels[i % (int)(sizeof(labels) / sizeof(*labels))];
}

TEST_CASE(records)
{
    struct shard m = {0};
    struct data_calls c;
    struct bytes odd[N] = {{0}};
    struct hr_encoded got = {0};
    hr_source s;
    char name[4200];

    data_calls_init(&c, N, test_seed);
    for (int i = 0; i < N; i++) {
        odd[i] = with_magic(&c.files[i], i % 4);
        shard_image(&m, &odd[i], strtof(record_label(i), NULL), i % 5);
    }
    s = hr_source_open(shard_write(&m, ".rec"));
    CHECK(s && s->num == N && !s->num_faults, "%s",
          s && s->num_faults ? s->faults[0] : hr_last_error());
    for (int i = 0; s && i < N; i++) {
        char want[16];

        CHECK(!hr_source_read(s, (uint64_t)i, 0, &got) &&
                  got.size == odd[i].size &&
                  !memcmp(got.data, odd[i].data, got.size),
              "%d: %s", i, hr_last_error());
        CHECK(!strcmp(hr_source_item(s, (uint64_t)i).label, record_label(i)),
              "%d: %s", i, hr_source_item(s, (uint64_t)i).label);
        snprintf(want, sizeof(want), "%08d", i);
        CHECK(!strcmp(hr_source_name(s, (uint64_t)i, name, sizeof(name)), want),
              "%s", name);
        free(odd[i].data);
    }
    hr_encoded_finish(&got);
    hr_source_close(&s);
    shard_finish(&m);
    data_calls_finish(&c, N);
}

// Whole or in parts: a record too short for its header is a fault, and the
// record behind it is found.
TEST_CASE(short_records)
{
    OWN(shard_finish) struct shard m = {0};
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(30, 20, &seed);
    auto_source s = NULL;

    for (uint32_t at = 0; at < 6; at++) {  // the word that cuts; 5: none
        struct shard own = {0};

        for (uint32_t i = 0; i < 5; i++)
            shard_word(&own, i == at ? SHARD_MAGIC : 0);
        shard_record(&m, own.data, own.size);
        shard_finish(&own);
    }
    shard_image(&m, &file, 3, 0);
    s = hr_source_open(shard_write(&m, ".rec"));
    CHECK(s && s->num == 1 && s->num_faults == 6, "%d samples, %zu faults",
          s ? (int)s->num : 0, s ? s->num_faults : 0);
    for (size_t i = 0; s && i < s->num_fault_texts; i++)
        CHECK(strstr(s->faults[i], "no picture's header"), "%s", s->faults[i]);
    CHECK(s && !strcmp(hr_source_item(s, 0).label, "3"), "the label");
}

// ---- Tar -------------------------------------------------------------------

// The samples of a source, as WebDataset: KEY.jpg, KEY.cls, KEY.json.
static void put_samples(struct shard *m, hr_source from)
{
    auto_encoded file = {0};
    char name[4200], member[4300];

    shard_header(m, "a/", '5', 0);
    for (uint64_t i = 0; i < from->num; i++) {
        const char *label = hr_source_item(from, i).label;

        hr_source_name(from, i, name, sizeof(name));
        CHECK(!hr_source_read(from, i, 0, &file), "%s", hr_last_error());
        name[strlen(name) - 4] = '\0';
        snprintf(member, sizeof(member), i % 2 ? "./%s.cls" : "%s.json", name);
        shard_member(m, member, label, strlen(label));
        snprintf(member, sizeof(member), i % 3 ? "%s.jpg" : "%s.left.JPEG",
                 name);
        shard_member(m, member, file.data, file.size);
        snprintf(member, sizeof(member), i % 2 ? "%s.json" : "%s.cls", name);
        shard_member(m, member, i % 2 ? "{}" : label,
                     i % 2 ? 2 : strlen(label));
        m->ends[m->num++] = m->size;
    }
}

TEST_CASE(tars)
{
    hr_source files = hr_source_open(data_folder(N, test_seed)), s;
    struct hr_encoded a = {0}, b = {0};
    struct shard m = {0};
    char name[4200];

    if (shard_have_tar()) {
        put_samples(&m, files);
        shard_member(&m, ".hidden.jpg", "x", 1);
        shard_member(&m, "no_extension", "x", 1);
        shard_end_tar(&m);
        s = shard_open(&m, ".tar");
        CHECK(s && s->num == N && !s->num_faults, "%s", hr_last_error());
        for (uint64_t i = 0; s && i < s->num; i++) {
            CHECK(!hr_source_read(files, i, 0, &a) &&
                      !hr_source_read(s, i, 0, &b) && a.size == b.size &&
                      !memcmp(a.data, b.data, a.size),
                  "%d: %s", (int)i, hr_last_error());
            CHECK(!strcmp(hr_source_item(s, i).label,
                          hr_source_item(files, i).label),
                  "label %s", hr_source_item(s, i).label);
            hr_source_name(s, i, name, sizeof(name));
            CHECK(strstr(name, i % 3 ? ".jpg" : ".left.JPEG"), "%s", name);
        }
        hr_encoded_finish(&a);
        hr_encoded_finish(&b);
        hr_source_close(&s);
    }
    hr_source_close(&files);
}

static void expect_fault(struct shard *m, const char *name)
{
    auto_source s = NULL;

    shard_member(m, "good.jpg", "xyz", 3);
    shard_end_tar(m);
    s = shard_open(m, ".tar");
    CHECK(s && s->num == 1 && s->num_faults == 1 && strstr(s->faults[0], name),
          "%s: %s", name, s && s->num_faults ? s->faults[0] : hr_last_error());
}

static void expect_error(struct shard *m, const char *reason)
{
    auto_source s = hr_source_create();
    int fd = dup(0), next;
    enum hr_status status;

    close(fd);
    shard_end_tar(m);
    status = hr_source_add(s, shard_write(m, ".tar"));
    shard_finish(m);
    CHECK(status == HR_ECORRUPT && strstr(hr_last_error(), reason) && !s->num,
          "%s, not %s", hr_last_error(), reason);
    close(next = dup(0));
    CHECK(next == fd, "a file that could not be added is open");
}

TEST_CASE(hostile_tars)
{
    static const char *const names[] = {"/tmp/evil.jpg", "../evil.jpg",
                                        "a//b.jpg"};
    static const struct {
        const char *name;
        char type;
    } no_files[] = {{"link.jpg", '2'}, {"hard.jpg", '1'}, {"pipe.jpg", '6'}};
    struct shard m = {0};
    hr_source s;

    if (!shard_have_tar())
        return;
    for (int i = 0; i < 3; i++) {
        shard_member(&m, names[i], "x", 1);
        expect_fault(&m, names[i]);
        shard_header(&m, no_files[i].name, no_files[i].type, 0);
        expect_fault(&m, no_files[i].name);
    }
    shard_member(&m, "a.cls", "a\0b", 3);
    expect_fault(&m, "a.cls");
    shard_member(&m, "a.jpg", "x", 1);
    shard_member(&m, "b.jpg", "x", 1);
    shard_member(&m, "a.cls", "x", 1);
    expect_error(&m, "do not follow each other");
    shard_member(&m, "a.jpg", "x", 1);
    shard_member(&m, "a.jpg", "x", 1);
    expect_error(&m, "two pictures");
    shard_member(&m, "a.left.jpg", "x", 1);
    shard_member(&m, "a.right.jpg", "x", 1);
    expect_error(&m, "two pictures");
    shard_member(&m, "a.cls", "x", 1);
    shard_member(&m, "a.cls", "x", 1);
    expect_error(&m, "two labels");
    shard_append(&m, "not a tar file, but a letter", 28);
    shard_pad(&m, 1024);
    s = shard_open(&m, ".tar");
    CHECK(!s && hr_last_status() == HR_EFORMAT, "%s", hr_last_error());
}

// Masks and the like, named as WebDataset does, may stand anywhere in a sample.
TEST_CASE(pictures_beside)
{
    static const char *const names[] = {"a.depth.png", "a.edge.png", "a.jpg",
                                        "a.seg.png",   "b.jpg",      "b.x.jpg",
                                        "b.y.jpg",     "c.ppm",      "c.z.jpg",
                                        "d.left.jpg"};
    static const char *const right[] = {"a.jpg", "b.jpg", "c.ppm",
                                        "d.left.jpg"};
    struct shard m = {0};
    char name[4200];
    hr_source s;

    if (!shard_have_tar())
        return;
    for (int i = 0; i < COUNT(names); i++)
        shard_member(&m, names[i], "x", 1);
    s = shard_open(&m, ".tar");
    CU_ASSERT_PTR_NOT_NULL_FATAL(s);
    CU_ASSERT_EQUAL_FATAL(s->num, COUNT(right));
    for (int i = 0; i < COUNT(right); i++)
        CHECK(strstr(hr_source_name(s, i, name, sizeof(name)), right[i]), "%s",
              name);
    hr_source_close(&s);
}

// A face data set's index, an empty record, samples of other formats or without
// a picture are no samples; all but the first are told.
TEST_CASE(no_pictures)
{
    static const struct bytes nothing = {0};
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(30, 20, &seed);
    struct shard rec = {0}, tar = {0};
    char name[4200];
    enum hr_skip why;
    hr_source s;

    shard_image(&rec, &nothing, 5822654, 2);
    shard_image(&rec, &file, 3, 0);
    shard_image(&rec, &nothing, 4, 0);
    shard_image(&rec, &file, 12, 1);
    shard_image(&rec, &nothing, 90000, 2);
    s = shard_open(&rec, ".rec");
    CHECK(s && s->num == 2 && !s->num_faults && s->skipped == 1 &&
              hr_source_class(s, 0) == 3 && hr_source_class(s, 1) == 12,
          "%d samples, %s", s ? (int)s->num : 0, hr_last_error());
    CHECK(hr_source_skipped(s, 0, name, sizeof(name), &why) &&
              strstr(name, ".rec/offset ") && why == HR_SKIP_NO_PICTURE,
          "%s", name);
    CHECK(!hr_source_skipped(s, 1, name, sizeof(name), &why), "%s", name);
    hr_source_close(&s);
    if (shard_have_tar()) {
        shard_member(&tar, "a.jpg", file.data, file.size);
        shard_member(&tar, "a.cls", "2", 1);
        shard_member(&tar, "b.cls", "1", 1);
        shard_member(&tar, "b.WebP", "RIFF", 4);
        shard_member(&tar, "x/c.json", "{}", 2);
        shard_member(&tar, "d.bmp", "BM", 2);
        shard_member(&tar, "d.jpg", file.data, file.size);
        shard_end_tar(&tar);
        s = shard_open(&tar, ".tar");
        CHECK(s && s->num == 3 && !s->num_faults && s->skipped == 1 &&
                  hr_source_class(s, 0) == 2 && hr_source_class(s, 1) == 1,
              "%d samples, %s", s ? (int)s->num : 0, hr_last_error());
        CHECK(hr_source_skipped(s, 0, name, sizeof(name), &why) &&
                  strstr(name, ".tar/x/c.json") && why == HR_SKIP_NO_PICTURE,
              "%s", name);
        hr_source_close(&s);
    }
}

// Other kinds of URLs, and archives, are refused by their names.
TEST_CASE(refused)
{
    static const char *const foreign[] = {"az://b/a.tar",      "gs://b/a.jpg",
                                          "file:///tmp/x.jpg", "ftp://h/x.tar",
                                          "pipe:cat x.tar",    "PIPE:x"};
    static const char *const archives[] = {"x.tar.gz", "x.TGZ", "x.tar.zst",
                                           "x.zip"};
    const char *dir = test_folder();
    char path[300];
    auto_source s = hr_source_create();

    for (size_t i = 0; i < sizeof(foreign) / sizeof(char *); i++)
        CHECK(hr_source_add(s, foreign[i]) == HR_EUNSUPPORTED &&
                  strstr(hr_last_error(), "only http, https and s3") &&
                  hr_source_add_file(s, foreign[i], NULL) == HR_EUNSUPPORTED,
              "%s: %s", foreign[i], hr_last_error());
    for (size_t i = 0; i < sizeof(archives) / sizeof(char *); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, archives[i]);
        test_write(path, "x", 1);
        CHECK(hr_source_add(s, path) == HR_EUNSUPPORTED &&
                  strstr(hr_last_error(), "unpack it"),
              "%s: %s", path, hr_last_error());
    }
    snprintf(path, sizeof(path), "%s/list", dir);
    test_write(path, "gs://b/a.jpg\t1\nb.jpg\t2\n", 23);
    CHECK(!hr_source_add_list(s, path, false) && s->num == 1 &&
              s->num_faults == 1 && strstr(s->faults[0], "only http"),
          "%d samples, %zu faults", (int)s->num, s->num_faults);
}

// Classes that the program names: a record with another label is no sample.
TEST_CASE(given)
{
    static const char *const names[] = {"b", "zebra", "d", "1"};
    static const int64_t numbers[] = {4, 0, 4, 7};
    const char *dir = data_folder(N, test_seed);
    auto_source s = hr_source_create();
    const char *const *classes;
    uint64_t all = 0;
    size_t num;

    CHECK(!hr_source_set_classes(s, names, NULL, 4), "%s", hr_last_error());
    CHECK(!hr_source_add(s, dir) && s->num && s->num < N &&
              s->num + s->skipped == N,
          "%d, %d skipped", (int)s->num, (int)s->skipped);
    hr_source_add_file(s, "x.jpg", "1");
    hr_source_add_file(s, "x.jpg", "01");
    hr_source_add_file(s, "x.jpg", "");
    for (uint64_t i = 0; i < s->num; i++) {
        int64_t got = hr_source_class(s, i);

        CHECK(got == (*hr_source_item(s, i).label == 'b'   ? 0
                      : *hr_source_item(s, i).label == 'd' ? 2
                      : i == s->num - 2                    ? 3
                                                           : -1),
              "%d: '%s' is %d", (int)i, hr_source_item(s, i).label, (int)got);
        all += got >= 0;
    }
    CHECK(all == s->num - 1, "%d of a class", (int)all);
    classes = hr_source_classes(s, &num);
    CHECK(num == 4 && !strcmp(classes[1], "zebra"), "%zu classes", num);
    CHECK(hr_source_set_classes(s, names, NULL, 4) == HR_EINVAL, "too late");
    hr_source_close(&s);
    s = hr_source_create();
    CHECK(!hr_source_set_classes(s, names, numbers, 4) &&
              !hr_source_add(s, dir) && hr_source_class(s, 0) == 4 &&
              hr_source_class(s, s->num - 1) == 4,
          "%s", hr_last_error());
    classes = hr_source_classes(s, &num);
    CHECK(num == 8 && !strcmp(classes[4], "b") && !*classes[1], "%zu classes",
          num);
    hr_source_close(&s);
    s = hr_source_create();
    CHECK(hr_source_set_classes(s, (const char *[]){"a", "a"}, NULL, 2) ==
                  HR_EINVAL &&
              strstr(hr_last_error(), "'a'") &&
              hr_source_set_classes(s, (const char *[]){""}, NULL, 1) ==
                  HR_EINVAL,
          "%s", hr_last_error());
}

// ---- Whatever is in them ---------------------------------------------------

// Reads all of it: there are at least n samples, and each can be read.
static void read_all(hr_source s, const struct shard *m, int n,
                     const char *what)
{
    auto_encoded to = {0};
    size_t num;

    CHECK((s ? s->num : 0) >= (uint64_t)n, "%s: %d samples of %d", what,
          s ? (int)s->num : 0, n);
    for (uint64_t i = 0; s && i < s->num; i++) {
        enum hr_status status = hr_source_read(s, i, 1 << 20, &to);

        CHECK(!status, "%s, %d: %s", what, (int)i, hr_last_error());
        CHECK(to.size <= m->size, "%s: %zu bytes", what, to.size);
    }
    if (s)
        hr_source_classes(s, &num);
}

// Cut anywhere: the whole records are there. Bytes flipped: nothing breaks.
static void damage(struct shard *m, const char *path, uint64_t *seed)
{
    for (int i = 0; i < test_loops(200); i++) {
        size_t at = next_random(seed) % m->size;
        int whole = 0;
        hr_source s;

        while (whole < m->num && m->ends[whole] <= at)
            whole++;
        test_write(path, m->data, at);
        s = hr_source_open(path);
        read_all(s, m, whole, "cut");
        hr_source_close(&s);
        m->data[at] ^= (uint8_t)(1 + next_random(seed) % 255);
        test_write(path, m->data, m->size);
        s = hr_source_open(path);
        read_all(s, m, 0, "flipped");
        hr_source_close(&s);
        if (i % 4)
            continue;
        for (size_t k = 0; k < 1024; k++)  // a hole, with something in it
            if (at + k < m->size)
                m->data[at + k] = (uint8_t)next_random(seed);
        test_write(path, m->data, m->size);
        s = hr_source_open(path);
        read_all(s, m, 0, "overwritten");
        hr_source_close(&s);
        return;  // m is no longer what it was
    }
}

TEST_CASE(damaged)
{
    struct shard records_of = {0}, tar = {0};
    hr_source files = hr_source_open(data_folder(N, test_seed));
    struct data_calls c;
    uint64_t seed = test_seed;
    bool with_tar = shard_have_tar();

    data_calls_init(&c, N, test_seed);
    for (int round = 0; round < test_loops(60); round++) {
        for (int i = 0; i < N; i++) {
            auto_bytes b = with_magic(&c.files[i], i % 3);

            shard_image(&records_of, &b, 1, 0);
        }
        damage(&records_of, shard_write(&records_of, ".rec"), &seed);
        shard_finish(&records_of);
        if (!with_tar)
            continue;
        put_samples(&tar, files);
        shard_end_tar(&tar);
        damage(&tar, shard_write(&tar, ".tar"), &seed);
        shard_finish(&tar);
    }
    hr_source_close(&files);
    data_calls_finish(&c, N);
}

TEST_CASE(changed)
{
    struct shard m = {0};
    struct data_calls c;
    struct hr_encoded to = {0};
    const char *path;
    hr_source s;

    data_calls_init(&c, N, test_seed);
    for (int i = 0; i < N; i++)
        shard_image(&m, &c.files[i], 1, 0);
    path = shard_write(&m, ".rec");
    s = hr_source_open(path);
    CHECK(s && !hr_source_read(s, N - 1, 0, &to), "%s", hr_last_error());
    CHECK(!truncate(path, (off_t)m.size / 2), "truncate");
    CHECK(hr_source_read(s, N - 1, 0, &to) == HR_EIO &&
              strstr(hr_last_error(), "changed while it was open"),
          "%s", hr_last_error());
    hr_encoded_finish(&to);
    hr_source_close(&s);
    shard_finish(&m);
    data_calls_finish(&c, N);
}

// ---- Through a loader ------------------------------------------------------

static void drain(struct data_seen *seen, hr_source s)
{
    auto_loader loader = hr_loader_create(
        hr_loader_params(.source = s, .ops = data_ops, .num_ops = DATA_OPS,
                         .batch = 5, .shuffle = true, .seed = test_seed));

    CHECK(loader && !data_drain(seen, loader, 0) && seen->num == N, "%s",
          hr_last_error());
}

TEST_CASE(loaded)
{
    hr_source files = hr_source_open(data_folder(N, test_seed)), s;
    struct data_seen want = {0}, seen = {0};
    struct shard m = {0};

    drain(&want, files);
    if (shard_have_tar()) {
        put_samples(&m, files);
        shard_end_tar(&m);
        s = shard_open(&m, ".tar");
        drain(&seen, s);
        CHECK(data_seen_same(&want, 0, &seen), "tar: not the same");
        hr_source_close(&s);
    }
    data_seen_finish(&seen);
    data_seen_finish(&want);
    hr_source_close(&files);
}

TEST_MAIN(data_main)
