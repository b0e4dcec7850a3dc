// SPDX-License-Identifier: Apache-2.0
// Data sets in chunks as sources: MDS and litData.
#include "loader/source/source.h"

#include <endian.h>
#include <sys/resource.h>

#include "loader_data.h"
#include "shard_data.h"
#include "web_data.h"

enum { N = 24, PER_FILE = 8, FILES = N / PER_FILE };

// ---- Writers ----------------------------------------------------------------

static const char mds_config[] = "{\"column_names\": [\"image\"]}";

// A sample: MDS has no size for the label, litData has one for each column.
static void put_sample(struct shard *m, const struct bytes *file, int i,
                       bool mds)
{
    uint64_t label = htole64((uint64_t)(i * 7 % 10));

    shard_word(m, (uint32_t)file->size);
    if (!mds)
        shard_word(m, sizeof(label));
    shard_word(m, 3);
    shard_append(m, file->data, file->size);
    shard_append(m, &label, sizeof(label));
    shard_append(m, "abc", 3);
}

// Samples first .. of a file; ends[] are those of samples, in the file.
static void put_file(struct shard *m, const struct data_calls *c, int first,
                     bool mds)
{
    size_t config = mds ? sizeof(mds_config) - 1 : 0;
    struct shard body = {0};
    size_t at[PER_FILE + 1] = {4 * (PER_FILE + 2) + config};

    for (int k = 0; k < PER_FILE; k++) {
        put_sample(&body, &c->files[first + k], first + k, mds);
        at[k + 1] = at[0] + body.size;
    }
    shard_word(m, PER_FILE);
    for (int k = 0; k <= PER_FILE; k++)
        shard_word(m, (uint32_t)at[k]);
    shard_append(m, mds_config, config);
    shard_append(m, body.data, body.size);
    for (int k = 0; k < PER_FILE; k++)
        m->ends[m->num++] = at[k + 1];
    shard_finish(&body);
}

static void text(struct shard *m, const char *what)
{
    shard_append(m, what, strlen(what));
}

static void put_index(struct shard *m, bool mds)
{
    char file[512];

    text(m, mds ? "{\"shards\": [" : "{\"chunks\": [");
    for (int k = 0; k < FILES; k++) {
        if (mds)
            snprintf(file, sizeof(file),
                     "%s{\"column_encodings\":[\"jpeg\",\"int\",\"str\"],"
                     "\"column_names\":[\"image\",\"label\",\"n\\u0061me\"],"
                     "\"column_sizes\":[null,8,null],\"compression\":null,"
                     "\"hashes\":[],\"raw_data\":{\"basename\":\"%d.bin\","
                     "\"bytes\":1,\"hashes\":{}},\"samples\":%d,"
                     "\"size_limit\":67108864,\"version\":2}",
                     k ? ", " : "", k, PER_FILE);
        else
            snprintf(file, sizeof(file),
                     "%s{\"chunk_bytes\":1,\"chunk_size\":%d,\"dim\":null,"
                     "\"filename\":\"%d.bin\"}",
                     k ? ", " : "", PER_FILE, k);
        text(m, file);
    }
    text(m, mds ? "], \"version\": 2}"
                : "], \"config\": {\"compression\": null, \"data_format\": "
                  "[\"jpeg\", \"int\", \"str\"], \"data_spec\": \"[1, "
                  "{\\\"type\\\": \\\"builtins.dict\\\", \\\"context\\\": "
                  "\\\"[\\\\\\\"image\\\\\\\", \\\\\\\"label\\\\\\\", "
                  "\\\\\\\"name\\\\\\\"]\\\", \\\"children_spec\\\": []}]\"}, "
                  "\"updated_at\": \"1.5e3\"}");
}

struct set {
    struct data_calls c;
    const char *folder;
    struct shard files[FILES], index;
};

static void set_write(const struct set *set, int k)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%d.bin", set->folder, k);
    test_write(path, set->files[k].data, set->files[k].size);
}

static void set_init_of(struct set *set, bool mds, uint64_t seed)
{
    char path[300];

    *set = (struct set){.folder = test_folder()};
    data_calls_init(&set->c, N, seed);
    for (int k = 0; k < FILES; k++) {
        put_file(&set->files[k], &set->c, k * PER_FILE, mds);
        set_write(set, k);
    }
    put_index(&set->index, mds);
    snprintf(path, sizeof(path), "%s/index.json", set->folder);
    test_write(path, set->index.data, set->index.size);
}

static void set_init(struct set *set, bool mds)
{
    set_init_of(set, mds, test_seed);
}

static void set_finish(struct set *set)
{
    for (int k = 0; k < FILES; k++)
        shard_finish(&set->files[k]);
    shard_finish(&set->index);
    data_calls_finish(&set->c, N);
}

// ---- Whole ones -------------------------------------------------------------

static bool is_sample(hr_source s, uint64_t i, const struct set *set, int k)
{
    auto_encoded got = {0};

    return !hr_source_read(s, i, 0, &got) && got.size == set->c.files[k].size &&
           !memcmp(got.data, set->c.files[k].data, got.size) &&
           hr_source_class(s, i) == k * 7 % 10;
}

// Numbers begin anew in each file, and names are not to come twice.
static void expect_name(hr_source s, int i)
{
    char name[4200], want[32];

    snprintf(want, sizeof(want), "%d.bin/%08d", i / PER_FILE, i % PER_FILE);
    CHECK(!strcmp(hr_source_name(s, (uint64_t)i, name, sizeof(name)), want),
          "%s", name);
}

static void expect_all(hr_source s, const struct set *set, const char *what)
{
    CHECK(s && s->num == N && !s->num_faults, "%s: %d, %s", what,
          s ? (int)s->num : -1,
          s && s->num_faults ? s->faults[0] : hr_last_error());
    for (int i = 0; s && i < N && s->num == N; i++) {
        CHECK(is_sample(s, (uint64_t)i, set, i), "%s: %d: %s", what, i,
              hr_last_error());
        expect_name(s, i);
    }
}

// A folder, its index, and beside others, which are opened side by side.
TEST_CASE(whole)
{
    for (int mds = 0; mds < 2; mds++) {
        OWN(set_finish) struct set set;
        char index[300];
        hr_source s;

        set_init(&set, mds);
        snprintf(index, sizeof(index), "%s/index.json", set.folder);
        expect_all(s = hr_source_open(set.folder), &set, set.folder);
        hr_source_close(&s);
        expect_all(s = hr_source_open(index), &set, index);
        hr_source_close(&s);
        s = hr_source_create();
        CHECK(!hr_source_add_all(s, (const char *[]){index, index, index}, 3) &&
                  s->num == 3 * N && is_sample(s, 2 * N + 9, &set, 9) &&
                  is_sample(s, N - 1, &set, N - 1),
              "%s", hr_last_error());
        hr_source_close(&s);
    }
}

// Each of two has its own files.
TEST_CASE(beside_others)
{
    OWN(set_finish) struct set first;
    OWN(set_finish) struct set second;
    char index[2][300];
    auto_source s = hr_source_create();

    set_init_of(&first, true, test_seed);
    set_init_of(&second, false, test_seed + 1);
    snprintf(index[0], sizeof(index[0]), "%s/index.json", first.folder);
    snprintf(index[1], sizeof(index[1]), "%s/index.json", second.folder);
    CHECK(!hr_source_add_all(s, (const char *[]){index[0], index[1]}, 2) &&
              s->num == 2 * N,
          "%s", hr_last_error());
    for (int i = 0; i < N && s->num == 2 * N; i++)
        CHECK(is_sample(s, (uint64_t)i, &first, i) &&
                  is_sample(s, (uint64_t)(N + i), &second, i),
              "%d", i);
}

// More files than a process may have open: the first one, again and again.
TEST_CASE(more_files_than_may_be_open)
{
    enum { MORE = 150, MAY = 90 };
    OWN(set_finish) struct set set;
    struct shard index = {0};
    struct rlimit was, few;
    char path[300], file[80];
    auto_source s = NULL;

    set_init(&set, false);
    text(&index, "{\"chunks\": [");
    for (int i = 0; i < MORE; i++) {
        snprintf(file, sizeof(file),
                 "%s{\"chunk_size\":%d,\"filename\":"
                 "\"0.bin\"}",
                 i ? "," : "", PER_FILE);
        text(&index, file);
    }
    text(&index, strstr((const char *)set.index.data, "], \"config"));
    snprintf(path, sizeof(path), "%s/index.json", set.folder);
    test_write(path, index.data, index.size);
    shard_finish(&index);
    CHECK(!getrlimit(RLIMIT_NOFILE, &was), "%s", "limits");
    few = (struct rlimit){MAY, was.rlim_max};
    CHECK(!setrlimit(RLIMIT_NOFILE, &few), "%s", "limits");
    s = hr_source_open(path);
    CHECK(s && s->num == MORE * PER_FILE && !s->num_faults, "%s",
          s && s->num_faults ? s->faults[0] : hr_last_error());
    for (int i = 0; s && i < (int)s->num; i++)
        CHECK(is_sample(s, (uint64_t)i, &set, i % PER_FILE), "%d: %s", i,
              hr_last_error());
    setrlimit(RLIMIT_NOFILE, &was);
}

// Files that are not there, compressed ones, and an index of other things.
TEST_CASE(refused)
{
    static const struct {
        const char *index, *says;
        enum hr_status status;
    } cases[] = {
        {"{\"shards\": [{\"raw_data\": {\"basename\": \"../x\"}}]}",
         "not a relative path", HR_EFORMAT},
        {"{\"shards\": [{\"raw_data\": {\"basename\": \"x\"}, \"samples\": 3}]}",
         "no columns", HR_EFORMAT},
        {"{\"shards\": [{\"column_names\": [\"a\"], \"column_encodings\": "
         "[\"pkl\"], \"raw_data\": {\"basename\": \"x\"}}]}",
         "a (pkl)", HR_EINVAL},
        {"{\"shards\": [{\"column_names\": [\"image\"], \"column_encodings\": "
         "[\"jpeg\"], \"compression\": \"zstd:3\", \"raw_data\": "
         "{\"basename\": \"x\"}}]}",
         "compressed (zstd:3)", HR_EUNSUPPORTED},
        {"{\"chunks\": [], \"config\": {\"compression\": \"zstd\"}}", "zstd",
         HR_EUNSUPPORTED},
        {"{\"chunks\": [], \"config\": {\"encryption\": {\"algorithm\": "
         "\"fernet\", \"level\": \"sample\"}}}",
         "(encryption)", HR_EUNSUPPORTED},
        {"{\"shards\": [", "damaged", HR_EFORMAT},
        {"{\"shards\": [{\"samples\": -1}]}", "damaged", HR_EFORMAT},
    };
    const char *folder = test_folder();
    char path[300];
    auto_source s = hr_source_create();

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "%s/index.json", folder);
        test_write(path, cases[i].index, strlen(cases[i].index));
        CHECK(hr_source_add(s, folder) == cases[i].status &&
                  strstr(hr_last_error(), cases[i].says),
              "%s: %s", cases[i].index, hr_last_error());
    }
    // A folder of pictures may have a file of that name.
    test_write(path, "{\"cat\": 0}", 10);
    CHECK(!hr_source_add(s, folder) && !s->num, "%s", hr_last_error());
}

// ---- Damage -----------------------------------------------------------------

static int sample_at(const struct shard *m, size_t at)
{
    int k = 0;

    while (k < m->num && m->ends[k] <= at)
        k++;
    return k;
}

// Counts samples that differ from the set; missing ones are named, with file
// and offset.
static int num_other(hr_source s, const struct set *set)
{
    int other = 0, at = 0;

    for (int k = 0; k < N; k++) {
        if (s && at < (int)s->num && is_sample(s, (uint64_t)at, set, k)) {
            at++;
            continue;
        }
        other++;
        at += s && (int)s->num - at == N - k;
    }
    if (s && s->num < N)
        CHECK(s->num_faults && strstr(s->faults[0], ".bin: offset "), "%s",
              s->num_faults ? s->faults[0] : "not named");
    return other;
}

// A byte in the offsets is of two samples, any other of one; samples lost by a
// cut are named.
TEST_CASE(damaged)
{
    struct set sets[2];

    set_init(&sets[0], false);
    set_init(&sets[1], true);
    for (int i = 0; i < 50; i++) {
        struct set *set = &sets[i % 2];
        uint64_t seed = test_seed + (uint64_t)i;
        struct shard *m = &set->files[i % FILES];
        size_t at = next_random(&seed) % (i % 3 ? m->size : 64), size = m->size;
        uint8_t was = m->data[at];
        hr_source s;
        int other;

        m->data[at] ^= (uint8_t)(1 + next_random(&seed) % 255);
        set_write(set, i % FILES);
        other = num_other(s = hr_source_open(set->folder), set);
        CHECK(s && other <= (at < 4 * (PER_FILE + 2) ? 2 : 1),
              "byte %zu: %d differ: %s", at, other, hr_last_error());
        hr_source_close(&s);
        m->data[at] = was;
        m->size = at;
        set_write(set, i % FILES);
        other = num_other(s = hr_source_open(set->folder), set);
        CHECK(s && other == PER_FILE - sample_at(m, at), "cut at %zu: %d: %s",
              at, other, hr_last_error());
        hr_source_close(&s);
        m->size = size;
        set_write(set, i % FILES);
    }
    set_finish(&sets[0]);
    set_finish(&sets[1]);
}

TEST_CASE(stopped)
{
    OWN(set_finish) struct set set;
    auto_source source = hr_source_create();
    struct hr__source *s = hr__source_of(source);
    char path[300];

    set_init(&set, true);
    snprintf(path, sizeof(path), "%s/index.json", set.folder);
    atomic_store(&s->stopped, true);
    CHECK(!hr__container_chunks.add(s, path) &&
              hr_last_status() == HR_ECANCELED && !s->num,
          "%s, %d samples", hr_last_error(), (int)s->num);
}

// An index that is damaged gives nothing but samples of its files.
TEST_CASE(damaged_index)
{
    struct set sets[2];
    auto_encoded to = {0};

    set_init(&sets[0], false);
    set_init(&sets[1], true);
    for (int i = 0; i < test_loops(200); i++) {
        struct set *set = &sets[i % 2];
        uint64_t seed = test_seed + (uint64_t)i;
        uint8_t *at = &set->index.data[next_random(&seed) % set->index.size];
        uint8_t was = *at;
        char path[300];
        hr_source s;

        snprintf(path, sizeof(path), "%s/index.json", set->folder);
        *at ^= (uint8_t)(1 + next_random(&seed) % 255);
        test_write(path, set->index.data, set->index.size);
        *at = was;
        s = hr_source_open(path);
        CHECK(s || strstr(hr_last_error(), set->folder), "%s", hr_last_error());
        for (uint64_t k = 0; s && k < s->num; k++)
            CHECK(!hr_source_read(s, k, 0, &to), "%s", hr_last_error());
        hr_source_close(&s);
    }
    set_finish(&sets[0]);
    set_finish(&sets[1]);
}

// ---- The web ----------------------------------------------------------------

TEST_CASE(web)
{
    for (int mds = 0; mds < 2; mds++) {
        OWN(set_finish) struct set set;
        struct http_server *server = http_server_start();
        hr_source s = hr_source_create();

        set_init(&set, mds);
        http_server_put(server, "/d/index.json", set.index.data,
                        set.index.size);
        for (int k = 0; k < FILES; k++)
            http_server_put(
                server, (const char *[]){"/d/0.bin", "/d/1.bin", "/d/2.bin"}[k],
                set.files[k].data, set.files[k].size);
        if (hr_source_add(s, web_at(server, "/d/index.json")) ==
            HR_EUNSUPPORTED)
            test_not_run("no libcurl");
        else
            expect_all(s, &set, "web");
        hr_source_close(&s);
        http_server_stop(server);
    }
}

// A server that has not all files: no data set that is smaller.
TEST_CASE(web_without_a_file)
{
    OWN(set_finish) struct set set;
    struct http_server *server = http_server_start();
    hr_source s = hr_source_create();
    enum hr_status status;

    set_init(&set, true);
    http_server_put(server, "/d/index.json", set.index.data, set.index.size);
    http_server_put(server, "/d/0.bin", set.files[0].data, set.files[0].size);
    status = hr_source_add(s, web_at(server, "/d/index.json"));
    if (status == HR_EUNSUPPORTED)
        test_not_run("no libcurl");
    else
        CHECK(status == HR_EIO && !s->num && strstr(hr_last_error(), "1.bin"),
              "%d: %s", (int)status, hr_last_error());
    hr_source_close(&s);
    http_server_stop(server);
}

TEST_MAIN(test_main)
