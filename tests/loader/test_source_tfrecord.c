// SPDX-License-Identifier: Apache-2.0
// TFRecord files as sources. tests/python/test_records.py reads files that the
// real packages write.
#include "loader/source/source.h"

#include <endian.h>

#include "loader_data.h"
#include "shard_data.h"
#include "web_data.h"

enum { N = 24 };

// ---- A writer ---------------------------------------------------------------

static uint32_t mask(uint32_t sum)
{
    return (sum >> 15 | sum << 17) + UINT32_C(0xa282ead8);
}

static void put_record(struct shard *m, const void *data, size_t size)
{
    uint64_t length = htole64(size);

    shard_append(m, &length, sizeof(length));
    shard_word(m, mask(hr__crc32c_table(&length, sizeof(length))));
    shard_append(m, data, size);
    shard_word(m, mask(hr__crc32c_table(data, size)));
    if (m->num < SHARD_ENDS)
        m->ends[m->num++] = m->size;
}

static void put_varint(struct shard *m, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

        shard_append(m, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_bytes(struct shard *m, unsigned number, const void *data,
                      size_t size)
{
    put_varint(m, number << 3 | 2);
    put_varint(m, size);
    shard_append(m, data, size);
}

static void put_message(struct shard *m, unsigned number, struct shard *part)
{
    put_bytes(m, number, part->data, part->size);
    shard_finish(part);
}

// A feature of a kind (1 bytes, 2 floats, 3 int64) whose list has these bytes.
static void put_feature(struct shard *features, const char *name, unsigned kind,
                        struct shard *list, bool value_first)
{
    struct shard entry = {0}, feature = {0};

    put_message(&feature, kind, list);
    if (!value_first)
        put_bytes(&entry, 1, name, strlen(name));
    put_message(&entry, 2, &feature);
    if (value_first)
        put_bytes(&entry, 1, name, strlen(name));
    put_message(features, 1, &entry);
}

static void put_label(struct shard *features, const char *name, int i)
{
    struct shard list = {0}, values = {0};
    uint32_t half = htole32(UINT32_C(0x3f000000));  // 0.5

    switch (i % 4) {
    case 0:  // packed
        put_varint(&values, (uint64_t)i);
        put_varint(&values, 99);
        put_message(&list, 1, &values);
        put_feature(features, name, 3, &list, false);
        break;
    case 1:
        put_varint(&list, 1 << 3);
        put_varint(&list, (uint64_t)-1);
        put_feature(features, name, 3, &list, true);
        break;
    case 2:
        put_bytes(&list, 1, "cat", 3);
        put_feature(features, name, 1, &list, false);
        break;
    default:
        put_bytes(&list, 1, &half, 4);
        put_feature(features, name, 2, &list, false);
    }
}

static const char *label_of(int i)
{
    static char text[16];

    snprintf(text, sizeof(text), "%d", i);
    return (const char *[]){text, "-1", "cat", "0.5"}[i % 4];
}

static void put_example(struct shard *m, const struct bytes *file, int i,
                        const char *image, const char *label)
{
    struct shard features = {0}, list = {0}, own = {0};

    if (i % 2)
        put_label(&features, label, i);
    put_bytes(&list, 1, "JPEG", 4);
    put_feature(&features, "image/format", 1, &list, i % 3 == 0);
    if (file) {
        put_bytes(&list, 1, file->data, file->size);
        put_feature(&features, image, 1, &list, i % 3 == 1);
    }
    if (i % 2 == 0)
        put_label(&features, label, i);
    put_message(&own, 1, &features);
    put_record(m, own.data, own.size);
    shard_finish(&own);
}

// ---- Whole files ------------------------------------------------------------

struct set {
    struct data_calls c;
    struct shard m;
};

static void set_init(struct set *set, const char *image, const char *label)
{
    data_calls_init(&set->c, N, test_seed);
    set->m = (struct shard){0};
    for (int i = 0; i < N; i++)
        put_example(&set->m, &set->c.files[i], i, image, label);
}

static void set_finish(struct set *set)
{
    shard_finish(&set->m);
    data_calls_finish(&set->c, N);
}

// Says whether sample i of a source is picture k.
static bool is_picture(hr_source s, uint64_t i, const struct set *set, int k)
{
    auto_encoded got = {0};

    return !hr_source_read(s, i, 0, &got) && got.size == set->c.files[k].size &&
           !memcmp(got.data, set->c.files[k].data, got.size) &&
           !strcmp(hr_source_item(s, i).label, label_of(k));
}

static void expect_all(hr_source s, const struct set *set, const char *what)
{
    char name[4200], want[16];

    CHECK(s && s->num == N && !s->num_faults, "%s: %d, %s", what,
          s ? (int)s->num : -1,
          s && s->num_faults ? s->faults[0] : hr_last_error());
    for (int i = 0; s && i < N && s->num == N; i++) {
        CHECK(is_picture(s, (uint64_t)i, set, i), "%s: %d: %s, label %s", what,
              i, hr_last_error(), hr_source_item(s, (uint64_t)i).label);
        snprintf(want, sizeof(want), "/%08d", i);
        hr_source_name(s, (uint64_t)i, name, sizeof(name));
        CHECK(strchr(name, '/') && !strcmp(strchr(name, '/'), want), "%s",
              name);
    }
}

TEST_CASE(checksums)
{
    uint64_t seed = test_seed;
    uint8_t bytes[100];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)next_random(&seed);
    CHECK(hr__crc32c("123456789", 9) == UINT32_C(0xe3069283) &&
              hr__crc32c_table("123456789", 9) == UINT32_C(0xe3069283),
          "of the digits");
    for (size_t i = 0; i < 64; i++)
        CHECK(hr__crc32c(bytes + i % 9, i) ==
                  hr__crc32c_table(bytes + i % 9, i),
              "of %zu bytes", i);
}

// By its name, or, called as shards of TensorFlow are, by how it begins.
TEST_CASE(whole)
{
    OWN(set_finish) struct set set;
    hr_source s;

    set_init(&set, "image/encoded", "image/class/label");
    expect_all(s = hr_source_open(shard_write(&set.m, ".tfrecord")), &set,
               ".tfrecord");
    CHECK(s && hr_source_class(s, 4) == 4 && hr_source_class(s, 1) == -1 &&
              hr_source_class(s, 2) == -1,
          "classes");
    hr_source_close(&s);
    expect_all(s = hr_source_open(shard_write(&set.m, "-00000-of-00001")), &set,
               "no ending");
    hr_source_close(&s);
}

TEST_CASE(fields)
{
    OWN(set_finish) struct set set;
    hr_source s = hr_source_create();
    const char *path;

    set_init(&set, "picture", "what");
    path = shard_write(&set.m, ".tfrecords");
    CHECK(hr_source_add(s, path) == HR_EINVAL &&
              strstr(hr_last_error(), "picture") &&
              strstr(hr_last_error(), "image/format"),
          "%s", hr_last_error());
    hr_source_close(&s);
    s = hr_source_create();
    CHECK(!hr_source_set_fields(s, "picture", "what") &&
              !hr_source_add_all(s, (const char *[]){path}, 1),
          "%s", hr_last_error());
    expect_all(s, &set, "named");
    CHECK(hr_source_set_fields(s, NULL, NULL) == HR_EINVAL, "too late");
    hr_source_close(&s);
    // Side by side, too.
    s = hr_source_create();
    hr_source_set_fields(s, "picture", "what");
    CHECK(!hr_source_add_all(s, (const char *[]){path, path}, 2) &&
              s->num == 2 * N && is_picture(s, N + 2, &set, 2),
          "%s", hr_last_error());
    hr_source_close(&s);
}

// A picture whose label is another one, a mask.
static void put_mask(struct shard *m, const struct bytes *file)
{
    struct shard features = {0}, list = {0}, own = {0};

    put_bytes(&list, 1, file->data, file->size);
    put_feature(&features, "image", 1, &list, false);
    put_bytes(&list, 1, "\0\1", 2);
    put_feature(&features, "label", 1, &list, false);
    put_message(&own, 1, &features);
    put_record(m, own.data, own.size);
    shard_finish(&own);
}

// Other programs have other names for them.
TEST_CASE(usual_fields)
{
    static const char *const names[][2] = {{"jpg", "cls"},
                                           {"img", "fine_label"},
                                           {"image_bytes", "target"},
                                           {"data", "label"},
                                           {"image", "y"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        OWN(set_finish) struct set set;
        auto_source s = NULL;

        set_init(&set, names[i][0], names[i][1]);
        expect_all(s = hr_source_open(shard_write(&set.m, ".tfrecord")), &set,
                   names[i][0]);
    }
}

// An add that the program stops ends with that status, and adds no samples.
TEST_CASE(stopped)
{
    OWN(set_finish) struct set set;
    auto_source source = hr_source_create();
    struct hr__source *s = hr__source_of(source);

    set_init(&set, "image", "label");
    atomic_store(&s->stopped, true);
    CHECK(!hr__container_tfrecord.add(s, shard_write(&set.m, ".tfrecord")) &&
              hr_last_status() == HR_ECANCELED && !s->num,
          "%s, %d samples", hr_last_error(), (int)s->num);
}

TEST_CASE(no_pictures)
{
    OWN(shard_finish) struct shard m = {0};
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(30, 20, &seed);
    char name[4200];
    enum hr_skip why;
    hr_source s;

    put_record(&m, "", 0);
    put_example(&m, &file, 1, "image", "label");
    put_example(&m, NULL, 2, "image", "label");
    put_record(&m, "\x0a\xff", 2);
    put_mask(&m, &file);
    s = hr_source_open(shard_write(&m, ".tfrecord"));
    CHECK(s && s->num == 1 && s->skipped == 2 && s->num_faults == 2 &&
              strstr(s->faults[0], "no tf.Example") &&
              strstr(s->faults[1], "the label is no text"),
          "%s", s && s->num_faults ? s->faults[0] : hr_last_error());
    CHECK(s && hr_source_skipped(s, 0, name, sizeof(name), &why) &&
              strstr(name, ".tfrecord/offset 0") && why == HR_SKIP_NO_PICTURE,
          "%s", name);
    hr_source_close(&s);
    s = hr_source_open(test_file(
        &(struct bytes){(uint8_t *)"a letter to a friend", 20}, ".tfrecord"));
    CHECK(!s && hr_last_status() == HR_EFORMAT, "%s", hr_last_error());
}

// ---- Damage -----------------------------------------------------------------

// How many are skipped as samples without a picture.
static int num_empty(hr_source s)
{
    char name[4200];
    enum hr_skip why;
    int num = 0;

    for (size_t i = 0; s && i < s->skipped; i++)
        num += hr_source_skipped(s, i, name, sizeof(name), &why) &&
               why == HR_SKIP_NO_PICTURE && strstr(name, "/offset ");
    return num;
}

// Record k of the set is damaged, or those from k on are not there: all others
// are right, and it is named, when it is added or read.
static void expect_damage(hr_source s, const struct set *set, int k, bool cut,
                          const char *what)
{
    auto_encoded got = {0};
    bool named = s && s->num_faults == 1 && strstr(s->faults[0], ": offset ");
    int left = cut ? k : N - 1, at = 0;

    CHECK(s && s->num_faults <= 1 && (int)s->num >= left &&
              (int)s->num <= left + 1,
          "%s: %d samples of %d: %s", what, s ? (int)s->num : -1, left,
          hr_last_error());
    for (uint64_t i = 0; s && i < s->num; i++, at++) {
        if (at == k && !cut && s->num == (uint64_t)left + 1) {
            enum hr_status status = hr_source_read(s, i, 0, &got);

            named = named || (status == HR_ECORRUPT &&
                              strstr(hr_last_error(), ": offset "));
            continue;
        }
        at += at == k && !cut;
        CHECK(is_picture(s, i, set, at), "%s: %d: %s", what, at,
              hr_last_error());
    }
    // (A file may end between two records.)
    CHECK(named || cut || num_empty(s) == 1, "%s: %d is not named: %s", what, k,
          s && s->num_faults ? s->faults[0] : hr_last_error());
}

static int record_at(const struct shard *m, size_t at)
{
    int k = 0;

    while (m->ends[k] <= at)
        k++;
    return k;
}

TEST_CASE(damaged)
{
    OWN(set_finish) struct set set;
    uint64_t seed = test_seed;
    const char *path;

    set_init(&set, "image/encoded", "label");
    path = shard_write(&set.m, ".tfrecord");
    for (int i = 0; i < 50; i++) {
        size_t at = i < 25 ? next_random(&seed) % set.m.size : 0;
        int k = i < 25 ? record_at(&set.m, at) : i % N;
        uint8_t was;
        hr_source s;

        if (i >= 25)  // in the first 64 bytes: lengths, names
            at = (k ? set.m.ends[k - 1] : 0) + next_random(&seed) % 64;
        was = set.m.data[at];
        set.m.data[at] ^= (uint8_t)(1 + next_random(&seed) % 255);
        test_write(path, set.m.data, set.m.size);
        expect_damage(s = hr_source_open(path), &set, k, false, "flipped");
        hr_source_close(&s);
        set.m.data[at] = was;
        test_write(path, set.m.data, at);
        if (k) {
            expect_damage(s = hr_source_open(path), &set, k, true, "cut");
            hr_source_close(&s);
        }
    }
}

// ---- The web ----------------------------------------------------------------

TEST_CASE(web)
{
    OWN(set_finish) struct set set;
    struct http_server *server = http_server_start();
    hr_source s = hr_source_create();

    set_init(&set, "image", "cls");
    http_server_put_file(server, "/x.tfrecord",
                         shard_write(&set.m, ".tfrecord"));
    if (hr_source_add(s, web_at(server, "/x.tfrecord")) == HR_EUNSUPPORTED)
        test_not_run("no libcurl");
    else
        expect_all(s, &set, "web");
    hr_source_close(&s);
    http_server_stop(server);
}

TEST_MAIN(test_main)
