// SPDX-License-Identifier: Apache-2.0
// Measurements for bench.py without an interpreter in the figures, as JSON:
//   bench_core stages ROUNDS FILE...
//   bench_core symbols FILE...
//   bench_core open DEVICE                      nanoseconds of a first open
//   bench_core copies                           .. of a sample without work
//   bench_core probe FILE...                    .. of hr_probe()
//   bench_core submit DEVICE ROUNDS FILE        .. of hr_submit(), 256 samples
//   bench_core steady DEVICE CACHE BATCH FILE...   allocations in 10 epochs
//   bench_core turns DEVICE THREADS WATCH FILE...   see turns()
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_core.h"
#include "cpu_fallback/cpu_ops.h"
#include "hal/job/work.h"
#if HR_HAVE_OPENCL
#include "backends/opencl/opencl.h"
#endif

#define MOST 256  // samples of a job
static const char train[] = "decode,random_resized_crop=224,random_hflip,"
                            "normalize=imagenet";

static void die(const char *what)
{
    fprintf(stderr, "bench_core: %s: %s\n", what, hr_last_error());
    exit(1);
}

static struct bench_file *read_files(char **paths, int n)
{
    struct bench_file *files = calloc((size_t)n + 1, sizeof(*files));

    for (int i = 0; files && i < n; i++) {
        FILE *f = fopen(paths[i], "rb");

        if (!f || fseek(f, 0, SEEK_END))
            die(paths[i]);
        files[i].size = (size_t)ftell(f);
        files[i].data = malloc(files[i].size + 1);
        rewind(f);
        if (!files[i].data ||
            fread(files[i].data, 1, files[i].size, f) != files[i].size)
            die(paths[i]);
        fclose(f);
        files[i].taken = true;
    }
    return files;
}

static hr_device open_device(const char *name, int threads, size_t cache_bytes)
{
    hr_cache cache = cache_bytes ? hr_cache_create(cache_bytes) : NULL;
    hr_device dev = hr_device_open(name, hr_device_params(.threads = threads,
                                                          .cache = cache));

    hr_cache_release(&cache);
    if (!dev)
        die(name);
    return dev;
}

// ---- Jobs -------------------------------------------------------------------

struct jobs {
    hr_device dev;
    hr_batch batch;
    struct hr_sample samples[MOST];
    int n;
};

// Nanoseconds of a job, from submit to release; *submit: of hr_submit() alone.
static int64_t run(const struct jobs *j, int64_t *submit)
{
    int64_t start = hr__now();
    hr_job job = hr_submit(j->dev, j->samples, j->n, j->batch,
                           hr_job_params(.tier = HR_EXACT));

    *submit = hr__now() - start;
    if (!job || hr_job_wait(job, HR_FOREVER))
        die("a job");
    hr_job_release(&job);
    return hr__now() - start;
}

// 8x8 pixels copied: all of its time is the library's, and a copy of 192 bytes.
static void copies(void)
{
    static uint8_t pixels[MOST][8 * 8 * 3], out[MOST][8 * 8 * 3];
    static struct jobs j = {.n = MOST};
    int64_t sum = 0, submit;

    j.dev = open_device("cpu", 1, 0);
    for (int i = 0; i < j.n; i++)
        j.samples[i].image = hr_image_create(
            j.dev, hr_image_params(.w = 8, .h = 8, .c = 3, .dtype = HR_U8,
                                   .layout = HR_NHWC, .data = pixels[i]));
    j.batch = hr_batch_create(
        j.dev, hr_batch_params(.n = MOST, .c = 3, .h = 8, .w = 8,
                               .dtype = HR_U8, .layout = HR_NHWC, .data = out));
    run(&j, &submit);
    for (int r = 0; r < 16; r++)
        sum += run(&j, &submit);
    printf("%f\n", (double)sum / 16 / MOST);
}

static void probe(const struct bench_file *files, int n)
{
    int64_t start = hr__now();
    struct hr_info info;

    for (int r = 0; r < 20; r++)
        for (int i = 0; i < n; i++)
            if (hr_probe(files[i].data, files[i].size, NULL, &info))
                die("hr_probe()");
    printf("%f\n", (double)(hr__now() - start) / 20 / n);
}

// hr_submit() never looks into the data, so a small file will do.
static void submit(const char *name, int rounds, const struct bench_file *file)
{
    static struct jobs j = {.n = MOST};
    struct hr_op ops[HR_MAX_OPS];
    int num_ops;

    if (hr_ops_parse("decode,crop=1,2,12,12,resize=8x8,hflip,"
                     "normalize=imagenet",
                     ops, &num_ops))
        die("ops");
    j.dev = open_device(name, 0, 0);
    j.batch = hr_batch_create(j.dev, hr_batch_params(.n = MOST, .c = 3, .h = 8,
                                                     .w = 8, .dtype = HR_F32));
    for (int i = 0; i < j.n; i++)
        j.samples[i] = (struct hr_sample){.data = file->data,
                                          .size = file->size,
                                          .ops = ops,
                                          .num_ops = num_ops};
    for (int r = -20; r < rounds; r++) {
        int64_t ns;

        run(&j, &ns);
        if (r >= 0)
            printf("%s%lld", r ? ", " : "[", (long long)ns);
    }
    printf("]\n");
}

// ---- What a steady state allocates ------------------------------------------

struct counts {
    uint64_t heap, batches, launches;
    unsigned long long mallocs;
};

static struct counts count(hr_device dev)
{
    struct hr_stats stats;
    struct counts c = {0};

    hr_device_stats(dev, &stats);
    c.heap = stats.heap_allocations;
    c.mallocs = bench_malloc_calls();
#if HR_HAVE_OPENCL
    if (!strcmp(dev->backend, "opencl")) {
        struct ocl *o = ocl_of(
            ((struct hr__device *)(uintptr_t)dev)->engines[0]);

        c.batches = atomic_load(&o->batches);
        c.launches = atomic_load(&o->launches);
    }
#endif
    return c;
}

static void epoch(struct jobs *j, const struct bench_file *files, int num,
                  const struct hr_op *ops, int num_ops, int batch)
{
    int64_t submit;

    for (int at = 0; at < num; at += batch) {
        j->n = num - at < batch ? num - at : batch;
        for (int i = 0; i < j->n; i++)
            j->samples[i] = (struct hr_sample){.data = files[at + i].data,
                                               .size = files[at + i].size,
                                               .ops = ops,
                                               .num_ops = num_ops,
                                               .random = {1, at + i, 0}};
        run(j, &submit);
    }
}

static int64_t cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// How many threads are at the same buffer at once is chance, so the beginning
// has no fixed length: until three times in a row nothing is allocated.
static void steady(const char *name, size_t cache, int batch,
                   const struct bench_file *files, int num)
{
    static struct jobs j;
    struct hr_op ops[HR_MAX_OPS];
    struct counts before, now;
    int num_ops, clean = 0;

    if (hr_ops_parse(train, ops, &num_ops))
        die("ops");
    j.dev = open_device(name, strcmp(name, "cpu") ? 0 : 1, cache);
    j.batch = hr_batch_create(j.dev,
                              hr_batch_params(.n = batch, .c = 3, .h = 224,
                                              .w = 224, .dtype = HR_F32));
    for (int r = 0; r < 25 && clean < 3; r++) {
        before = count(j.dev);
        epoch(&j, files, num, ops, num_ops, batch);
        clean = count(j.dev).heap == before.heap ? clean + 1 : 0;
    }
    before = count(j.dev);
    for (int r = 0; r < 10; r++)
        epoch(&j, files, num, ops, num_ops, batch);
    now = count(j.dev);
    printf("{\"heap\": %lld, \"counting\": %s, \"malloc\": %lld, "
           "\"launches\": %f}\n",
           (long long)(now.heap - before.heap), now.mallocs ? "true" : "false",
           (long long)(now.mallocs - before.mallocs),
           (double)(now.launches - before.launches) /
               (double)(now.batches - before.batches + !now.batches));
}

// An epoch for each line that is read: prints seconds of the process's CPU time
// and of the clock. watched: with a trace and clocks.
static void turns(const char *name, int threads, bool watched,
                  const struct bench_file *files, int num)
{
    static struct jobs j;
    struct hr_op ops[HR_MAX_OPS];
    int num_ops;
    char line[8];

    if (hr_ops_parse(train, ops, &num_ops))
        die("ops");
    hr_profile_times(watched);
    j.dev = open_device(name, threads, 0);
    hr_profile_times(false);
    j.batch = hr_batch_create(j.dev,
                              hr_batch_params(.n = 64, .c = 3, .h = 224,
                                              .w = 224, .dtype = HR_F32));
    while (fgets(line, sizeof(line), stdin)) {
        int64_t cpu, wall;

        if (watched) {
            hr_profile_times(true);
            hr_trace_start(NULL);
        }
        cpu = cpu_time();
        wall = hr__now();
        epoch(&j, files, num, ops, num_ops, 64);
        printf("%.9f %.9f\n", (double)(cpu_time() - cpu) / 1e9,
               (double)(hr__now() - wall) / 1e9);
        fflush(stdout);
        if (watched) {
            hr_trace_stop();
            hr_profile_times(false);
        }
    }
}

// ---- Stages -----------------------------------------------------------------

static void print_stages(const struct bench_stages *s)
{
    printf("{\"ticks\": [");
    for (int i = 0; i < NUM_STAGES; i++)
        printf("%s%.0f", i ? ", " : "", s->ticks[i]);
    printf("], \"ticks_per_ns\": %f, \"blocks\": %.0f, \"bytes\": %.0f}",
           s->ticks_per_ns, s->blocks, s->bytes);
}

// Levels and libjpeg-turbo take turns; the first round does not count.
static void stages(int rounds, struct bench_file *files, int n)
{
    unsigned flags = cpu_detect();
    struct bench_stages s;
    double ns[3];

    printf("[");
    for (int r = 0; r <= rounds; r++) {
        if (r)
            printf("%s{", r > 1 ? ",\n " : "");
        for (int i = flags != CPU_FLAG_C; i < CPU_LEVELS; i++) {
            if (cpu_levels[i].flags & ~flags)
                continue;
            bench_stages(files, n, cpu_levels[i].flags, &s);
            if (r) {
                printf("\"%s\": ", cpu_levels[i].name);
                print_stages(&s);
                printf(", ");
            }
        }
        bench_stages_peer(files, n, ns);
        if (r)
            printf("\"files\": %d, \"peer\": [%.0f, %.0f, %.0f]}", s.files,
                   ns[0], ns[1], ns[2]);
    }
    printf("]\n");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int first = !strcmp(what, "stages")   ? 3
                : !strcmp(what, "submit") ? 4
                : !strcmp(what, "steady") ? 5
                : !strcmp(what, "turns")  ? 5
                                          : 2;
    int n = argc > first ? argc - first : 0;
    struct bench_file *files;
    double sums[3];

    if (!strcmp(what, "open") && argc == 3) {
        int64_t start = hr__now();

        open_device(argv[2], 0, 0);
        return printf("%lld\n", (long long)(hr__now() - start)) < 0;
    }
    if (!strcmp(what, "copies"))
        return copies(), 0;
    files = read_files(argv + first, n);
    if (!files || !n)
        return 2;
    if (!strcmp(what, "stages"))
        stages(atoi(argv[2]), files, n);
    else if (!strcmp(what, "submit"))
        submit(argv[2], atoi(argv[3]), files);
    else if (!strcmp(what, "probe"))
        probe(files, n);
    else if (!strcmp(what, "symbols") && bench_symbols(files, n, sums))
        printf("[%f, %f, %f]\n", sums[0], sums[1], sums[2]);
    else if (!strcmp(what, "turns"))
        turns(argv[2], atoi(argv[3]), atoi(argv[4]), files, n);
    else if (!strcmp(what, "steady"))
        steady(argv[2], (size_t)atoll(argv[3]), atoi(argv[4]), files, n);
    else
        return 2;
    return 0;
}
