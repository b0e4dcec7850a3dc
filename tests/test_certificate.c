// SPDX-License-Identifier: Apache-2.0
// Certificates: a device that is wrong is not used, and everybody is told; one
// that is right is tested once and then known from disk, whatever happens to
// the file; one that hangs does not open.
#define _GNU_SOURCE
#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu_fallback/specimen.h"
#include "scene.h"

#define ALL(x)        \
    {                 \
        (x), (x), (x) \
    }

static struct scene scene;
static char cache[256];  // XDG_CACHE_HOME

// ---- The folder --------------------------------------------------------------

// The one file in the cache, or "" and how many there are.
static int the_file(char path[1024])
{
    char dir[512];
    const struct dirent *entry;
    int found = 0;
    DIR *d;

    path[0] = '\0';
    snprintf(dir, sizeof(dir), "%s/headrace", cache);
    if (!(d = opendir(dir)))
        return 0;
    while ((entry = readdir(d))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, 1024, "%s/%s", dir, entry->d_name);
        found++;
    }
    closedir(d);
    return found;
}

static void empty_cache(void)
{
    char path[1024];

    while (the_file(path))
        if (unlink(path)) {
            perror(path);
            abort();
        }
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static size_t slurp(const char *path, char *to, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, room, f) : 0;

    if (f)
        fclose(f);
    return n;
}

static void spill(const char *path, const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    if (!f || fwrite(data, 1, size, f) != size || fclose(f)) {
        perror(path);
        abort();
    }
}

// Opens "fake" and returns how many tasks that took; *dev may be NULL.
static int open_fake(hr_device *dev, const struct hr_device_params *params)
{
    int before = atomic_load(&fake_counts.begun);

    *dev = hr_device_open("fake", params);
    return atomic_load(&fake_counts.begun) - before;
}

static int probes(void)
{
    hr_device dev;
    int n = open_fake(&dev, NULL);

    CHECK(dev, "open: %s", hr_last_error());
    if (dev)
        CHECK(dev->certificate.tested && dev->caps.exact, "no certificate");
    hr_device_close(&dev);
    return n;
}

// ---- Judgement -----------------------------------------------------------------

static const struct hr_span_certificate *certificate_of(hr_device dev,
                                                        uint32_t bit)
{
    for (int i = 0; i < dev->certificate.num_spans; i++) {
        const struct hr_span_certificate *s = &dev->certificate.spans[i];

        if (HR__SPAN_BIT(s->span.first, s->span.last) == bit)
            return s;
    }
    return NULL;
}

// All samples of a job in that tier come out right; returns how many the fake
// engine had a part in, and checks that why has CERTIFICATE for the others.
static int by_fake(hr_device dev, enum hr_tier tier, enum scene_source source)
{
    struct watched w;
    int made = 0;

    scene_init(&scene, dev, 12, source);
    watch_submit(&w, &scene, hr_job_params(.tier = tier));
    CHECK(watch_wait(&w) == HR_OK, "tier %d", tier);
    CHECK(scene_check_results(&scene, w.job, HR_ON_ERROR_FAIL) == 12, "right");
    for (int i = 0; i < 12; i++) {
        const struct hr_result *r = &w.job->results[i];
        bool fake = false;

        for (int k = 0; k < r->num_spans; k++)
            fake |= !strcmp(r->spans[k].device, dev->name);
        made += fake;
        CHECK(fake || r->why == HR_WHY_CERTIFICATE, "sample %d: why %#x", i,
              r->why);
        CHECK(r->fallbacks == 0, "sample %d changed engine", i);
    }
    watch_finish(&w);
    scene_finish(&scene);
    return made;
}

static void right_engine(void)
{
    static const uint32_t spans[] = {FAKE_RS,  FAKE_D, FAKE_DR,
                                     FAKE_DRS, FAKE_R, FAKE_S};
    uint32_t all = 0;
    struct hr_stats stats;
    hr_device dev;

    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++)
        all |= spans[i];
    empty_cache();
    fake_reset(&(struct fake_script){
        .spans = ALL(all), .tested = true, .own_buffers = true});
    CHECK(open_fake(&dev, NULL) > 0, "not tested");
    CHECK(dev && dev->caps.exact && dev->certificate.tested > 1700000000, "%s",
          hr_last_error());
    CHECK(dev->certificate.num_spans == 6, "%d", dev->certificate.num_spans);
    for (size_t i = 0; i < sizeof(spans) / sizeof(*spans); i++) {
        const struct hr_span_certificate *s = certificate_of(dev, spans[i]);

        CHECK(s && s->pictures > 200 && !(s->differing > 0) && !(s->max > 0) &&
                  !(s->mean > 0) && !s->failed,
              "span %zu: %d pictures, %g", i, s ? s->pictures : -1,
              s ? s->differing : -1);
    }
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(dev->caps.spans[t] == all, "tier %d: %#x", t, dev->caps.spans[t]);
    // The test leaves no trace in what the user counts.
    hr_device_stats(dev, &stats);
    CHECK(!stats.jobs && !stats.samples && !stats.failed && !stats.fallbacks &&
              !stats.peak_bytes && !stats.bytes_in_flight,
          "%d samples are counted", (int)stats.samples);
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(by_fake(dev, (enum hr_tier)t, SCENE_MIXED) == 12, "tier %d", t);
    hr_device_close(&dev);
    test_reaches(&fake_counts.closes, 1);
    CHECK(atomic_load(&fake_counts.buffers) == 0, "buffers leaked");
}

static void wrong_engine(void)
{
    uint64_t seed = test_seed;
    struct bytes jpeg = test_jpeg(40, 30, &seed);
    const struct hr_op op = hr_op_decode(0);
    const struct hr_sample s = {
        .data = jpeg.data, .size = jpeg.size, .ops = &op, .num_ops = 1};
    hr_device dev;

    for (int round = 0; round < 2; round++) {  // 1: from disk
        const struct hr_span_certificate *c;
        int begun;

        if (!round)
            empty_cache();
        fake_reset(&(struct fake_script){
            .spans = ALL(FAKE_RS), .tested = true, .wrong = true});
        begun = open_fake(&dev, NULL);
        CHECK(!begun == (round == 1), "round %d: %d", round, begun);
        CHECK(dev && !dev->caps.exact, "exact");
        for (int t = 0; t <= HR_FAST; t++)
            CHECK(dev->caps.spans[t] == 0, "tier %d", t);
        c = certificate_of(dev, FAKE_RS);
        CHECK(c && c->pictures > 200 && c->differing > 0 &&
                  c->differing < 0.01 && c->max >= 1 && c->max < 1.01 &&
                  c->mean > 0 && c->mean < c->max,
              "%d pictures, %g of the elements, by %g, %g",
              c ? c->pictures : -1, c ? c->differing : 0, c ? c->max : 0,
              c ? c->mean : 0);
        CHECK(hr_device_check(dev, &s) == HR_WHY_CERTIFICATE, "why %#x",
              hr_device_check(dev, &s));
        begun = atomic_load(&fake_counts.begun);
        for (int t = 0; t <= HR_FAST; t++)
            CHECK(by_fake(dev, (enum hr_tier)t, SCENE_MIXED) == 0, "used");
        CHECK(atomic_load(&fake_counts.begun) == begun, "it had tasks");
        hr_device_close(&dev);
    }
    free(jpeg.data);
}

// A decode that is not libjpeg's may be used where 2 levels are allowed.
static void close_engine(void)
{
    static const struct {
        uint8_t bits;
        bool close;
    } rounds[] = {{1, true}, {2, true}, {4, false}, {0x80, false}};

    for (size_t i = 0; i < sizeof(rounds) / sizeof(*rounds); i++) {
        uint32_t close = rounds[i].close ? FAKE_DRS : 0;
        hr_device dev;

        empty_cache();
        fake_reset(&(struct fake_script){.spans = ALL(FAKE_DRS),
                                         .tested = true,
                                         .wrong = true,
                                         .wrong_bits = rounds[i].bits});
        open_fake(&dev, NULL);
        CHECK(dev && !dev->caps.exact, "exact");
        CHECK(dev->caps.spans[HR_EXACT] == 0, "exact");
        CHECK(dev->caps.spans[HR_CLOSE] == close &&
                  dev->caps.spans[HR_FAST] == close,
              "bits %#x: %#x, max %g", rounds[i].bits,
              dev->caps.spans[HR_CLOSE], dev->certificate.spans[0].max);
        CHECK(by_fake(dev, HR_EXACT, SCENE_BYTES) == 0, "used");
        hr_device_close(&dev);
    }
}

// Only one span of two is wrong.
static void one_span(void)
{
    hr_device dev;

    empty_cache();
    // It is the last stage that the script spoils.
    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_D | FAKE_RS), .tested = true, .wrong = true});
    open_fake(&dev, NULL);
    CHECK(dev && !dev->caps.exact, "exact");
    for (int t = 0; t <= HR_FAST; t++)
        CHECK(dev->caps.spans[t] == FAKE_D, "tier %d: %#x", t,
              dev->caps.spans[t]);
    CHECK(by_fake(dev, HR_EXACT, SCENE_BYTES) == 12, "decode is right");
    hr_device_close(&dev);
}

// A span that no plan can have is not known to be right.
static void out_of_reach(void)
{
    uint32_t span = HR__SPAN_BIT(HR_ENTROPY, HR_ENTROPY);
    hr_device dev;

    empty_cache();
    fake_reset(
        &(struct fake_script){.spans = ALL(span | FAKE_RS), .tested = true});
    open_fake(&dev, NULL);
    CHECK(dev && certificate_of(dev, span) &&
              certificate_of(dev, span)->pictures == 0,
          "compared");
    CHECK(dev->caps.spans[HR_EXACT] == FAKE_RS &&
              dev->caps.spans[HR_CLOSE] == FAKE_RS && !dev->caps.exact,
          "%#x", dev->caps.spans[HR_CLOSE]);
    hr_device_close(&dev);
}

// ---- On disk -------------------------------------------------------------------

static void reset_right(const char *fingerprint)
{
    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_RS), .tested = true, .fingerprint = fingerprint});
}

static void kept(void)
{
    char path[1024];
    struct stat st;

    empty_cache();
    reset_right(NULL);
    CHECK(probes() > 0, "the first open");
    CHECK(the_file(path) == 1, "files in the cache");
    CHECK(!stat(path, &st) && (st.st_mode & 077) == 0, "others may read it");
    CHECK(probes() == 0, "the second open");
    setenv("HEADRACE_CERTIFICATE", "again", 1);
    CHECK(probes() > 0, "again");
    unsetenv("HEADRACE_CERTIFICATE");
    CHECK(the_file(path) == 1, "replaced");
    reset_right("kernels 1");
    CHECK(probes() > 0, "another fingerprint");
    CHECK(probes() == 0, "the same one");
    reset_right("kernels 2");
    CHECK(probes() > 0, "yet another");
    reset_right("kernels 1");
    CHECK(probes() == 0, "as before");
    CHECK(the_file(path) == 3, "files");
    fake_reset(
        &(struct fake_script){.spans = ALL(FAKE_R | FAKE_S), .tested = true});
    CHECK(probes() > 0, "other spans");
}

static void off(void)
{
    hr_device dev;

    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_RS), .tested = true, .wrong = true});
    setenv("HEADRACE_CERTIFICATE", "off", 1);
    CHECK(open_fake(&dev, NULL) == 0, "tested");
    unsetenv("HEADRACE_CERTIFICATE");
    CHECK(dev && !dev->certificate.tested &&
              dev->caps.spans[HR_EXACT] == FAKE_RS,
          "refused");
    hr_device_close(&dev);
}

static void broken_files(void)
{
    char path[1024], good[4096], bad[8192];
    size_t size;
    uint64_t seed = test_seed;

    empty_cache();
    reset_right(NULL);
    probes();
    CHECK(the_file(path) == 1, "files");
    size = slurp(path, good, sizeof(good));
    CHECK(size > 40 && size < sizeof(good), "%zu bytes", size);
    for (int i = 0; i < test_loops(24); i++) {
        size_t n = size;

        memcpy(bad, good, size);
        memset(bad + size, '1', sizeof(bad) - size);
        seed = seed * UINT64_C(6364136223846793005) + 1;
        if (i == 0)
            n = 0;
        else if (i == 1)
            n = sizeof(bad);
        else if (i == 2)
            n = size + 1;
        else if (i % 2)
            n = (size_t)(seed >> 33) % size;
        else
            // (Without the high bit it may be a hexadecimal digit's case.)
            bad[(size_t)(seed >> 33) % size] ^= (char)(0x80 |
                                                       1 << (seed >> 61) % 7);
        spill(path, bad, n);
        CHECK(probes() > 0, "broken in way %d, %zu bytes", i, n);
        CHECK(the_file(path) == 1, "files");
        CHECK(probes() == 0, "mended after way %d", i);
    }
    unlink(path);
    CHECK(!mkdir(path, 0700), "folder");
    CHECK(probes() > 0 && probes() > 0, "a folder in its place");
    rmdir(path);
}

static void no_folder(void)
{
    static const char *const places[] = {"/dev/null", "/proc/self", "/proc",
                                         "/no/such/place"};
    char path[1024];

    reset_right("elsewhere");
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        setenv("XDG_CACHE_HOME", places[i], 1);
        CHECK(probes() > 0 && probes() > 0, "%s", places[i]);
    }
    setenv("XDG_CACHE_HOME", cache, 1);
    empty_cache();
    if (geteuid() == 0) {
        test_not_run("a folder without write permission: we are root");
        return;
    }
    probes();
    the_file(path);
    *strrchr(path, '/') = '\0';
    empty_cache();
    chmod(path, 0500);
    CHECK(probes() > 0 && probes() > 0, "read-only");
    chmod(path, 0700);
}

// ---- Trouble -------------------------------------------------------------------

static void failing(void)
{
    hr_device dev;
    char path[1024];

    empty_cache();
    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_RS), .tested = true, .fail_from = 3, .fail_to = 3});
    CHECK(open_fake(&dev, NULL) > 0, "not tested");
    CHECK(dev && certificate_of(dev, FAKE_RS)->failed, "failed");
    CHECK(dev->caps.spans[HR_FAST] == 0 && !dev->caps.exact, "offered");
    CHECK(by_fake(dev, HR_CLOSE, SCENE_BYTES) == 0, "used");
    hr_device_close(&dev);
    CHECK(the_file(path) == 0, "kept, though it may do better");
    reset_right(NULL);
    CHECK(probes() > 0, "tested anew");
}

static void hanging(void)
{
    for (int claimed = 0; claimed < 2; claimed++) {
        int64_t start = hr__now();
        hr_device dev;
        char path[1024];

        empty_cache();
        fake_reset(&(struct fake_script){.spans = ALL(FAKE_RS),
                                         .tested = true,
                                         .hang_from = 5,
                                         .hang_to = 5,
                                         .hang_claimed = claimed});
        // Memory that is claimed cannot be taken away: the clock of the job
        // ends that.
        hr__test_probe_limits(TEST_MS, (1000 * TEST_MS), 0);
        open_fake(&dev, hr_device_params(.deadline_ns = 200 * TEST_MS));
        CHECK(!dev && hr_last_status() == HR_EDEVICE, "status %d",
              hr_last_status());
        CHECK(strstr(hr_last_error(), "fake") &&
                  strstr(hr_last_error(), "its test ended early"),
              "%s", hr_last_error());
        hr__test_probe_limits(0, 0, 0);
        CHECK(hr__now() - start < 8 * (1000 * TEST_MS), "%d ms",
              (int)((hr__now() - start) / TEST_MS));
        CHECK(the_file(path) == 0, "kept");
        fake_wake();
        CHECK(test_reaches(&fake_counts.closes, 1), "never closed");
    }
}

// The deadline of a span is for work, when no driver compiles any more.
static void short_deadline(void)
{
    struct watched w;
    unsigned why = 0;
    hr_device dev;

    empty_cache();
    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_RS), .tested = true, .delay_ns = 4 * TEST_MS});
    open_fake(&dev, hr_device_params(.deadline_ns = TEST_MS));
    CHECK(dev && dev->caps.exact, "%s", hr_last_error());
    // Then it counts.
    scene_init(&scene, dev, 12, SCENE_BYTES);
    watch_submit(&w, &scene, NULL);
    CHECK(watch_wait(&w) == HR_OK, "%s", w.job->results[0].message);
    for (int i = 0; i < 12; i++)
        why |= w.job->results[i].why;
    CHECK(why & HR_WHY_TIMEOUT, "why %#x", why);
    watch_finish(&w);
    scene_finish(&scene);
    hr_device_close(&dev);
}

// A machine that is busy is slow at every picture: as long as they come, the
// clock starts again with each job.
static void slow(void)
{
    int64_t ms = TEST_MS * (TEST_SANITIZED ? 8 : 1);
    hr_device dev;

    empty_cache();
    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_RS), .tested = true, .delay_ns = 8 * TEST_MS});
    hr__test_probe_limits(TEST_MS, 100 * ms, 0);
    CHECK(open_fake(&dev, hr_device_params(.deadline_ns = 500 * ms)) > 200,
          "%s", hr_last_error());
    hr__test_probe_limits(0, 0, 0);
    CHECK(dev && dev->caps.exact, "%s", hr_last_error());
    hr_device_close(&dev);
}

// It opens, too, if it is never through; but what was not compared is not
// used, and the next open tries again.
static void too_slow(void)
{
    hr_device dev;
    char path[1024];

    empty_cache();
    fake_reset(&(struct fake_script){
        .spans = ALL(FAKE_D | FAKE_RS), .tested = true, .delay_ns = TEST_MS});
    hr__test_probe_limits(0, 0, 100 * TEST_MS);
    CHECK(open_fake(&dev, NULL) > 0, "not tested");
    hr__test_probe_limits(0, 0, 0);
    CHECK(dev && !dev->caps.exact, "%s", hr_last_error());
    for (int t = 0; dev && t <= HR_FAST; t++) {
        CHECK(dev->caps.spans[t] == 0, "tier %d", t);
        CHECK(by_fake(dev, (enum hr_tier)t, SCENE_MIXED) == 0, "used");
    }
    CHECK(dev && dev->certificate.spans[0].pictures == 0, "compared");
    hr_device_close(&dev);
    CHECK(the_file(path) == 0, "kept, though it may do better");
    reset_right(NULL);
    CHECK(probes() > 0, "tested anew");
}

static void small_params(void)
{
    hr_device dev;

    empty_cache();
    reset_right(NULL);
    open_fake(&dev,
              hr_device_params(.budget = 1000, .threads = 1, .strict = true,
                               .limits = {.side = 8, .pixels = 20}));
    CHECK(dev && dev->caps.exact &&
              certificate_of(dev, FAKE_RS)->pictures > 200,
          "%s", hr_last_error());
    CHECK(dev->params.budget == 1000 && dev->params.limits.side == 8 &&
              dev->params.limits.pixels == 20 && dev->params.strict,
          "the user's params");
    hr_device_close(&dev);
}

static void no_memory(void)
{
    int opened = 0;

    for (int n = 1; n < 100000 && opened < 3;
         n += n < 60 ? 1 : 1 + n / (4 * test_loops(8))) {
        hr_device dev;

        empty_cache();
        reset_right(NULL);
        hr__test_fail_alloc(n, n % 3 == 0);
        dev = hr_device_open("fake", NULL);
        hr__test_fail_alloc(0, false);
        CHECK(dev || hr_last_status() == HR_ENOMEM, "%d: %s", n,
              hr_last_error());
        // A span that was short of memory must not be called wrong for good.
        opened += dev && dev->caps.exact;
        hr_device_close(&dev);
    }
    CHECK(opened == 3, "never enough memory");
}

// ---- Auto ----------------------------------------------------------------------

static void automatic(void)
{
    static const struct {
        bool software, wrong, taken;
    } rounds[] = {{false, false, true},
                  {true, false, false},
                  {false, true, false}};

    unsetenv("HEADRACE_BACKEND");
    for (size_t i = 0; i < sizeof(rounds) / sizeof(*rounds); i++) {
        hr_device dev;

        empty_cache();
        fake_reset(&(struct fake_script){.spans = ALL(FAKE_RS),
                                         .tested = true,
                                         .software = rounds[i].software,
                                         .wrong = rounds[i].wrong});
        dev = hr_device_open(NULL, NULL);
        CHECK(dev && !strcmp(dev->backend, "fake") == rounds[i].taken,
              "round %zu: %s", i, dev ? dev->name : hr_last_error());
        hr_device_close(&dev);
        dev = hr_device_open("fake", NULL);
        CHECK(dev && dev->caps.software == rounds[i].software, "by name");
        hr_device_close(&dev);
    }
}

static void on_opencl(void)
{
    hr_device dev = hr_device_open("opencl", NULL);

    if (!dev) {
        test_no_device();
        return;
    }
    CHECK(dev->caps.exact, "%s is not exact", dev->description);
    CHECK(dev->certificate.num_spans > 0, "no spans");
    for (int i = 0; i < dev->certificate.num_spans; i++) {
        const struct hr_span_certificate *s = &dev->certificate.spans[i];

        CHECK(s->pictures >= 300 && !(s->differing > 0) && !s->failed,
              "span %d: %d pictures, %g, by %g", i, s->pictures, s->differing,
              s->max);
    }
    hr_device_close(&dev);
    if (strcmp(hr_get_image_backend(), "cpu"))
        printf("  auto took %s\n", hr_get_image_backend());
}

// ---- The pictures --------------------------------------------------------------

static void specimens(void)
{
    enum { ROOM = 64 << 10 };
    static uint8_t a[ROOM], b[ROOM];
    int kinds[5][3] = {{0}}, colors[5] = {0}, restarts = 0, n;
    size_t size, again;

    for (n = 0; cpu_specimen_make(n, a, ROOM, &size); n++) {
        struct hr_info info;
        struct plain d;

        CHECK(cpu_specimen_make(n, b, ROOM, &again) && again == size &&
                  !memcmp(a, b, size),
              "specimen %d differs from itself", n);
        CHECK(!cpu_specimen_make(n, b, size - 1, &again), "too small a room");
        CHECK(hr_probe(a, size, NULL, &info) == HR_OK && info.ends &&
                  info.process == HR_PROCESS_BASELINE,
              "specimen %d: %s", n, hr_last_error());
        plain_decode(a, size, 1 << 30, &d);
        CHECK(d.result == PLAIN_OK, "specimen %d", n);
        plain_free(&d);
        colors[info.color]++;
        restarts += info.restart_interval > 0;
        if (info.components == 3)
            kinds[info.h[0]][info.v[0]]++;
    }
    CHECK(n == cpu_specimen_count() && n > 10, "%d specimens", n);
    CHECK(kinds[1][1] && kinds[2][1] && kinds[2][2] && kinds[1][2] &&
              kinds[4][1],
          "a sampling is missing");
    CHECK(colors[HR_COLOR_GRAY] && colors[HR_COLOR_YCC] &&
              colors[HR_COLOR_RGB] && restarts,
          "a kind is missing");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(specimens),      TEST_CASE(right_engine),
        TEST_CASE(wrong_engine),   TEST_CASE(close_engine),
        TEST_CASE(one_span),       TEST_CASE(out_of_reach),
        TEST_CASE(kept),           TEST_CASE(off),
        TEST_CASE(broken_files),   TEST_CASE(no_folder),
        TEST_CASE(failing),        TEST_CASE(hanging),
        TEST_CASE(slow),           TEST_CASE(too_slow),
        TEST_CASE(short_deadline), TEST_CASE(small_params),
        TEST_CASE(no_memory),      TEST_CASE(automatic),
        TEST_CASE(on_opencl),
    };
    const char *tmp = getenv("TMPDIR");
    int rc;

    snprintf(cache, sizeof(cache), "%.200s/headrace-certificate-XXXXXX",
             tmp ? tmp : "/tmp");
    if (!mkdtemp(cache)) {
        perror(cache);
        return 1;
    }
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("POCL_CACHE_DIR", cache, 0);
    unsetenv("HEADRACE_CERTIFICATE");
    rc = test_main("certificate", cases, sizeof(cases) / sizeof(*cases), argc,
                   argv);
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return rc;
}
