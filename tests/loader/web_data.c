// SPDX-License-Identifier: Apache-2.0
#include "web_data.h"

#include "loader_data.h"
#include "shard_data.h"

enum { N = WEB_N };

struct web_set web_set;
const char *const web_shards[] = {"/d/x.tar", "/d/x.rec", "/d/x.hrp"};

void web_make_set(void)
{
    FILE *f;
    char name[4200];

    if (web_set.folder)
        return;
    web_set.dir = data_folder(N, test_seed);
    web_set.folder = hr_source_open(web_set.dir);
    web_set.tar = shard_tar(web_set.folder);
    web_set.rec = shard_rec(web_set.folder);
    web_set.pack = data_pack(web_set.dir);
    snprintf(web_set.list, sizeof(web_set.list), "%s/list.txt", web_set.dir);
    f = fopen(web_set.list, "w");
    for (uint64_t i = 0; i < N; i++)
        fprintf(f, "%s\t%s\n", hr_source_name(web_set.folder, i, name, 4200),
                hr_source_item(web_set.folder, i).label);
    fclose(f);
}

struct http_server *web_start(void)
{
    struct http_server *s = http_server_start();

    web_make_set();
    http_server_put_file(s, "/d/x.tar", web_set.tar);
    http_server_put_file(s, "/d/x.rec", web_set.rec);
    http_server_put_file(s, "/d/x.hrp", web_set.pack);
    http_server_put_file(s, "/d/list.txt", web_set.list);
    return s;
}

// Retries come at once.
hr_source web_quick(const char *header)
{
    hr_source s = hr_source_create();
    const char *const headers[] = {header, NULL};

    CHECK(s && !hr_source_set_http(s, hr_http_params(.backoff_ms = 1,
                                                     .deadline_ms = 8000,
                                                     .headers = headers)),
          "%s", hr_last_error());
    return s;
}

const char *web_at(const struct http_server *s, const char *path)
{
    static char url[8][256];
    static int num;
    char *made = url[num++ % 8];

    snprintf(made, sizeof(url[0]), "%s%s", s->url, path);
    return made;
}

// Number of samples that are not those of `want`, bytes, names, labels.
int web_differing(hr_source got, hr_source want)
{
    auto_encoded a = {0}, b = {0};
    char name[2][4200];
    int bad = got->num != want->num;

    for (uint64_t i = 0; i < got->num && i < want->num; i++)
        bad += hr_source_read(got, i, 0, &a) ||
               hr_source_read(want, i, 0, &b) || a.size != b.size ||
               memcmp(a.data, b.data, a.size) ||
               strcmp(hr_source_name(got, i, name[0], 4200),
                      hr_source_name(want, i, name[1], 4200)) ||
               strcmp(hr_source_item(got, i).label,
                      hr_source_item(want, i).label) ||
               hr_source_class(got, i) != hr_source_class(want, i) ||
               hr_source_item(got, i).is_file;
    return bad;
}

hr_source web_local(int shard)
{
    return hr_source_open(shard == 0   ? web_set.tar
                          : shard == 1 ? web_set.rec
                                       : web_set.pack);
}

// Checks all forms at url, against any server.
void web_check_forms(hr_source (*make)(const char *), const char *with,
                     const char *url)
{
    char text[512];

    for (int i = 0; i < 3; i++) {
        auto_source want = web_local(i), got = make(with);

        snprintf(text, sizeof(text), "%s%s?key=secret", url, web_shards[i]);
        CHECK(got && !hr_source_add(got, text) && !got->num_faults, "%s: %s",
              text, hr_last_error());
        CHECK(!web_differing(got, want), "%s: %s", text, hr_last_error());
        CHECK(hr_source_identity(got) == hr_source_identity(want), "%s", text);
    }
}

// Each third request has it.
enum http_fault web_each_third(struct http_server *s, int n, const char *path)
{
    (void)path;
    return n % 3 == 1 ? s->which : HTTP_GOOD;
}

enum http_fault web_always(struct http_server *s, int n, const char *path)
{
    (void)n, (void)path;
    return s->which;
}

// Files that are larger than a window, with what is passed over.
hr_source web_large_folder(const size_t *sizes, int n)
{
    const char *dir = test_folder();
    uint64_t x = test_seed | 1;
    char path[4200];

    for (int i = 0; i < n; i++) {
        size_t size = sizes[i % 10];
        auto_heap uint8_t *data = malloc(size);

        for (size_t k = 0; k < size; k++)
            data[k] = (uint8_t)((x = x * 6364136223846793005u + 1) >> 56);
        snprintf(path, sizeof(path), "%s/%03d.jpg", dir, i);
        test_write(path, data, size);
    }
    return hr_source_open(dir);
}

hr_loader web_loader(hr_source s, enum hr_on_error on_error, bool shuffle)
{
    hr_loader loader = hr_loader_create(
        hr_loader_params(.source = s, .ops = data_ops, .num_ops = DATA_OPS,
                         .batch = 8, .shuffle = shuffle, .seed = test_seed,
                         .epochs = 10, .on_error = on_error));

    CHECK(loader, "%s", hr_last_error());
    return loader;
}

int web_main(int argc, char **argv)
{
    // A proxy of the user's is not for the loopback.
    setenv("no_proxy", "127.0.0.1,localhost", 1);
    hr_source probe = hr_source_create();
    int result;

    if (probe && hr_source_set_http(probe, hr_http_params(0))) {
        test_not_run(hr_last_error());
        return TEST_NOT_RUN;
    }
    hr_source_close(&probe);
    result = test_main(argc, argv);
    hr_source_close(&web_set.folder);
    return result;
}
