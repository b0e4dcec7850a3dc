// SPDX-License-Identifier: Apache-2.0
// The corpus gate: every file of the shared corpus (HEADRACE_CORPUS, or
// ../shared/corpus beside the sources; without it nothing is run) is decoded
// in full with default limits. What Pillow 9.4 decodes must decode, what it
// refuses must fail, but for the files listed below with the reason; none may
// take long or much memory.
#include "corpus_list.h"
#include "testing.h"

enum { PILLOW = 10 };  // column of the manifest

// ---- Where we differ from Pillow on purpose -------------------------------

static const struct exception {
    const char *name;       // the end of it
    enum hr_status status;  // ours
    const char *reason;
} exceptions[] = {
    {"com-flood-30000.jpg", HR_ELIMIT, "30000 segments before the picture"},
    {"8e5e74dbf9b68a322fbb9512db837329.jpg", HR_ELIMIT, "193 x 31237"},
    {"scanbomb-empty-dcrefine-500.jpg", HR_ELIMIT, "block visits"},
    {"scanbomb-empty-huffman-1000.jpg", HR_ELIMIT, "block visits"},
    {"scanbomb-legal-883-4096.jpg", HR_ELIMIT, "883 scans"},
    // Pillow's own header reader gives up at a marker of which libjpeg takes
    // no notice; djpeg decodes it.
    {"a7326ba8f3f4559991126474dd30083d.jpg", HR_OK, "marker FF 01"},
    {".gif", HR_EFORMAT, "not decoded here"},
#if !HR_HAVE_WEBP
    {".webp", HR_EUNSUPPORTED, "built without libwebp"},
#endif
};
enum { EXCEPTIONS = sizeof(exceptions) / sizeof(*exceptions) };

static bool used[EXCEPTIONS];

static const struct exception *exception_of(const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < EXCEPTIONS; i++) {
        size_t k = strlen(exceptions[i].name);

        if (n >= k && !strcmp(name + n - k, exceptions[i].name)) {
            used[i] = true;
            return &exceptions[i];
        }
    }
    return NULL;
}

// ---- One file -------------------------------------------------------------

struct outcome {
    enum hr_status status;
    char message[384];
    double wall, cpu;  // seconds
    size_t peak, cap;  // bytes: of the library's books, and what they may
    long rss;          // growth of the resident set at its peak, bytes
};

static double seconds(clockid_t clock)
{
    return (double)test_clock(clock) / 1e9;
}

// Peak (VmHWM) or present (VmRSS) resident bytes; 0 = not known.
static long resident(const char *what)
{
    long kib = test_proc("/proc/self/status", what);

    return kib < 0 ? 0 : kib * 1024;
}

// Lets VmHWM start again at VmRSS. False: this kernel does not.
static bool reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    bool ok = f && fputs("5", f) >= 0;

    if (f)
        ok = !fclose(f) && ok;
    return ok;
}

static void run(hr_device dev, const char *path, hr_image out,
                struct outcome *o)
{
    const struct hr_op op = hr_op_decode(0);
    struct hr_sample s = {.path = path, .ops = &op, .num_ops = 1, .out = out};
    double wall = seconds(CLOCK_MONOTONIC);
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    hr_job job = hr_submit(dev, &s, 1, NULL, NULL);

    if (!job)
        abort();
    o->status = hr_job_wait(job, HR_FOREVER);
    o->wall = seconds(CLOCK_MONOTONIC) - wall;
    o->cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    snprintf(o->message, sizeof(o->message), "%s", job->results[0].message);
    CHECK(o->status == job->results[0].status && o->status != HR_PENDING,
          "%s: job and result differ", path);
    CHECK(o->status == HR_OK || job->results[0].message[0], "%s: no message",
          path);
    hr_job_release(&job);
    hr_wait_all(dev, HR_FOREVER);
}

static void decode(const char *path, struct outcome *o)
{
    auto_device dev = test_device("cpu", 1, 0);
    struct hr_info info = {0};
    bool good = hr_probe_path(path, NULL, &info) == HR_OK;
    struct hr_image_params p = {.w = good ? info.width : 1,
                                .h = good ? info.height : 1,
                                .c = 3,
                                .dtype = HR_U8,
                                .layout = HR_NHWC};
    auto_image out = hr_image_create(dev, &p);
    struct hr_stats stats;
    long before;

    if (!out)
        abort();
    // The destination is touched before, so that it does not count.
    memset(out->params.data, 1, out->size);
    o->rss = reset_peak() ? 0 : -1;
    before = resident("VmRSS:");
    run(dev, path, out, o);
    if (o->rss == 0)
        o->rss = resident("VmHWM:") - before;
    hr_device_stats(dev, &stats);
    CHECK(stats.bytes_in_flight == 0, "%s: bytes in flight", path);
    o->peak = stats.peak_bytes - (stats.peak_bytes < out->size ? 0 : out->size);
    o->cap = dev->params.limits.item_bytes;
}

// ---- All files ------------------------------------------------------------

TEST_CASE(gate)
{
    struct corpus_entry e;
    struct outcome o;
    int files = 0, ok = 0, differ = 0;
    double slowest = 0;

    while (corpus_next(&e)) {
        const char *name = e.columns[CORPUS_FILE];
        const struct exception *x = exception_of(name);
        bool picture = !strstr(name, "archives/");
        bool good = picture && (!strcmp(e.columns[PILLOW], "ok") ||
                                !strcmp(e.columns[PILLOW], "warn"));

        decode(e.path, &o);
        files++;
        ok += o.status == HR_OK;
        differ += x != NULL;
        if (x)
            CHECK(o.status == x->status, "%s: %s instead of %s (%s): %s", name,
                  hr_status_name(o.status), hr_status_name(x->status),
                  x->reason, o.message);
        else
            CHECK((o.status == HR_OK) == good, "%s: Pillow %s, here %s: %s",
                  name, e.columns[PILLOW], hr_status_name(o.status), o.message);
        // By the processor's time: the machine may be busy.
        CHECK(TEST_SANITIZED || o.cpu < 1, "%s: %.2f s (%.2f s of CPU)", name,
              o.wall, o.cpu);
        CHECK(o.peak <= o.cap, "%s: %zu bytes by the books", name, o.peak);
        CHECK(TEST_SANITIZED || o.rss <= (long)o.peak + (24 << 20),
              "%s: %ld KiB resident, %zu KiB by the books", name, o.rss / 1024,
              o.peak / 1024);
        if (o.cpu > slowest) {
            slowest = o.cpu;
            printf("\n  %.2f s CPU, %.2f s wall: %s", o.cpu, o.wall, name);
        }
    }
    printf("\n  %d files: %d decoded, %d refused, %d of the list ", files, ok,
           files - ok, differ);
    for (int i = 0; i < EXCEPTIONS; i++)
        CHECK(used[i], "%s is on the list, but not in the corpus",
              exceptions[i].name);
}

int main(int argc, char **argv)
{
    int result;

    if (!corpus_open())
        return TEST_NOT_RUN;
    result = test_main(argc, argv);
    corpus_close();
    return result;
}
