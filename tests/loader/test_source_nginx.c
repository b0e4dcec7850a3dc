// SPDX-License-Identifier: Apache-2.0
// Sources by HTTP and HTTPS from nginx: the same samples as of local files; and
// how fast they come when each answer is late.
#include <signal.h>
#include <sys/stat.h>

#include "hal/base/base.h"
#include "nginx.h"
#include "shard_data.h"
#include "web_data.h"

// The data once more, under the names that the server of the test has.
static const char *served(void)
{
    const char *dir = test_folder();
    const char *const from[] = {web_set.tar, web_set.rec, web_set.pack,
                                web_set.list};
    const char *const to[] = {"x.tar", "x.rec", "x.hrp", "list.txt"};
    char path[4300];

    snprintf(path, sizeof(path), "%s/d", dir);
    mkdir(path, 0755);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/d/%s", dir, to[i]);
        if (symlink(from[i], path))
            abort();
    }
    return dir;
}

static hr_source trusting(const char *certificate)
{
    hr_source s = hr_source_create();

    CHECK(s && !hr_source_set_http(s, hr_http_params(.retries = -1,
                                                     .ca_file = certificate)),
          "%s", hr_last_error());
    return s;
}

TEST_CASE(nginx)
{
    struct nginx n;
    char why[256], url[256];
    auto_source got = NULL;

    web_make_set();
    if (!nginx_start(&n, served(), why)) {
        test_not_run(why);
        return;
    }
    web_check_forms(web_quick, NULL, n.http);
    snprintf(url, sizeof(url), "%s/moved", n.http);
    web_check_forms(web_quick, NULL, url);
    if (!*n.https) {
        test_not_run("https: openssl made no certificate");
    } else {
        web_check_forms(trusting, n.certificate, n.https);
        got = trusting(NULL);
        snprintf(url, sizeof(url), "%s/d/x.tar", n.https);
        CHECK(hr_source_add(got, url) == HR_EIO &&
                  strstr(hr_last_error(), "certificate"),
              "%s", hr_last_error());
        hr_source_close(&got);
        got = trusting(n.certificate);
        snprintf(url, sizeof(url), "%s/down/x.tar", n.https);
        CHECK(hr_source_add(got, url) == HR_EIO &&
                  strstr(hr_last_error(), "out of https"),
              "%s", hr_last_error());
        hr_source_close(&got);
    }
    nginx_stop(&n);
    got = web_quick(NULL);
    snprintf(url, sizeof(url), "%s/d/x.tar", n.http);
    CHECK(hr_source_add(got, url) == HR_EIO &&
              strstr(hr_last_error(), "6 tries"),
          "%s", hr_last_error());
}

// Photos, where the tests have some; else pictures of their size.
static const char *photo_tar(void)
{
    auto_source photos = hr_source_open(HR_SOURCE_DIR
                                        "/../shared/corpus/photos/"
                                        "imagenet-sample"),
                some = hr_source_create();
    int n = TEST_SANITIZED ? 20 : 200;
    const char *dir = test_folder(), *tar;
    uint64_t seed = test_seed;
    char path[4300];

    for (int i = 0; i < n; i++) {
        struct bytes b = {0};

        snprintf(path, sizeof(path), "%s/%d.jpg", dir, i);
        if (!photos) {
            b = test_jpeg(500, 375, &seed);
            test_write(path, b.data, b.size);
        } else {
            hr_source_path(photos, (uint64_t)i % photos->num, path,
                           sizeof(path));
        }
        free(b.data);
        if (hr_source_add_file(some, path, NULL))
            abort();
    }
    tar = shard_tar(some);
    return tar;
}

struct way {
    bool shuffle, tuned;
    int connections;  // 0: the default
};

// Samples of a second; processor time is added to *cpu.
static double rate(hr_source s, int epochs, const struct way *way, double *cpu)
{
    static const struct hr_op ops[] = {
        HR_OP_DECODE(0), HR_OP_RANDOM_RESIZED_CROP(.w = 224, .h = 224),
        HR_OP_RANDOM_FLIP(.horizontal = .5),
        HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                        .std = {.229f, .224f, .225f})};
    auto_device dev = test_device("cpu", 0, 0);
    auto_loader loader = hr_loader_create(
        hr_loader_params(.device = dev, .source = s, .ops = ops, .num_ops = 4,
                         .shuffle = way->shuffle, .seed = test_seed,
                         .autotune = way->tuned, .epochs = HR_ENDLESS));
    // The trials of tuning are left out of the measurement.
    int warm = way->tuned ? 200 : 0, n = 0, most = epochs * (int)s->num;
    int64_t begun = hr__now(), used = test_clock(CLOCK_PROCESS_CPUTIME_ID);
    hr_loaded step;

    while (loader && n < most && !hr_loader_next(loader, HR_FOREVER, &step) &&
           step) {
        n += warm ? 0 : step->n - step->failed;
        hr_loaded_release(&step);
        if (warm && !--warm) {
            begun = hr__now();
            used = test_clock(CLOCK_PROCESS_CPUTIME_ID);
        }
    }
    begun = hr__now() - begun;
    *cpu += (double)(test_clock(CLOCK_PROCESS_CPUTIME_ID) - used) / 1e9;
    CHECK(n >= most, "%d: %s", n, hr_last_error());
    return n * 1e9 / (double)begun;
}

static double clock_of(pid_t pid)
{
    clockid_t clock;

    return clock_getcpuclockid(pid, &clock) ? 0
                                            : (double)test_clock(clock) / 1e9;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

// The median of the ratios of rates.
static double compare_rates(const struct nginx *n, hr_source files,
                            hr_source web, const struct way *way)
{
    int rounds = !getenv("HEADRACE_TEST_LONG") || way->tuned ? 1 : 3;
    int epochs = rounds > 1 || way->tuned ? 2 : 1;
    double ratios[5], best[2] = {0}, cpu[2] = {0}, server = clock_of(n->pid);

    for (int i = 0; i < rounds; i++) {
        double a = rate(files, epochs, way, &cpu[0]);
        double b = rate(web, epochs, way, &cpu[1]);

        best[0] = a > best[0] ? a : best[0];
        best[1] = b > best[1] ? b : best[1];
        ratios[i] = b / a;
    }
    qsort(ratios, (size_t)rounds, sizeof(*ratios), compare_doubles);
    printf("%s, %d connections%s: %.0f of %.0f img/s (best); ratio %.3f (%.3f "
           "to %.3f); processor time %.2f of %.2f s, nginx %.2f s\n",
           way->shuffle ? "shuffled" : "in order", way->connections,
           way->tuned ? ", tuned" : "", best[1], best[0], ratios[rounds / 2],
           ratios[0], ratios[rounds - 1], cpu[1], cpu[0],
           clock_of(n->pid) - server);
    fflush(stdout);
    return ratios[rounds - 1];
}

// Each answer 20 ms late, against local files, by turns. (So many objects that
// no more than a part of them is kept.)
TEST_CASE(late)
{
    static const struct way ways[] = {
        {.shuffle = true},
        {.shuffle = false},
        {.shuffle = true, .connections = 128},
        {.shuffle = true, .tuned = true},
        {.shuffle = false, .tuned = true},
    };
    // (A sanitizer's rates say nothing, and some took 20 minutes.)
    bool is_long = getenv("HEADRACE_TEST_LONG") && !TEST_SANITIZED;
    struct nginx n;
    char why[256] = "late answers: nginx has no echo module here", url[256];
    const char *tar = photo_tar(), *slash = strrchr(tar, '/');
    char folder[4200];

    snprintf(folder, sizeof(folder), "%.*s", (int)(slash - tar), tar);
    if (!nginx_start(&n, folder, why) || !*n.late)
        test_not_run(why);
    for (int i = 0; *n.late && i < (is_long ? 5 : 2); i++) {
        auto_source files = hr_source_create(), web = hr_source_create();

        hr_source_set_http(web,
                           hr_http_params(.connections = ways[i].connections));
        for (int k = 0; k < (is_long ? 4 : 1); k++) {
            snprintf(url, sizeof(url), "%s%s?%d", n.late, slash, k);
            CHECK(!hr_source_add(files, tar) && !hr_source_add(web, url) &&
                      web->num == files->num,
                  "%s", hr_last_error());
        }
        CHECK(compare_rates(&n, files, web, &ways[i]) > .3 || TEST_SANITIZED,
              "reads one by one?");
    }
    nginx_stop(&n);
}

TEST_MAIN(web_main)
