// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // program_invocation_short_name
#include "testing.h"

#include <CUnit/TestRun.h>
#include <errno.h>
#include <png.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>

uint64_t test_seed;

static const char *current = "";
static int complaints, not_run;

// ---- Running --------------------------------------------------------------

void test_begin(void)
{
    const char *text = getenv("HEADRACE_SEED");
    static bool begun;

    if (begun)
        return;
    begun = true;
    test_seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
    fprintf(stderr, "HEADRACE_SEED=%llu\n", (unsigned long long)test_seed);
}

int test_loops(int n)
{
    const char *text = getenv("HEADRACE_TEST_SCALE");
    double scale = text ? atof(text) : 1;

    if (!(scale > 0) || scale > 1)
        scale = 1;
    n = (int)(n * scale);
    return n > 0 ? n : 1;
}

bool test_races_only(void)
{
    return TEST_RACES && test_loops(2) < 2;
}

void test_check(bool holds, const char *func, int line, const char *fmt, ...)
{
    va_list args;

    if (!holds && complaints++ < 40) {
        fprintf(stderr, "\n%s:%d: ", func, line);
        va_start(args, fmt);
        vfprintf(stderr, fmt, args);
        va_end(args);
    }
    CU_assertImplementation(holds, (unsigned)line, func, "", "", CU_FALSE);
}

void test_not_run(const char *why)
{
    printf("\nnot run: %s%s%s: %.*s\n", program_invocation_short_name,
           *current ? ", " : "", current, (int)strcspn(why, "\n"), why);
    fflush(stdout);
    not_run++;
}

void test_fewer(int n, int all, const char *what)
{
    char why[120];

    if (n >= all)
        return;
    snprintf(why, sizeof(why), "%d of %d %s", n, all, what);
    test_not_run(why);
}

bool test_is_absent(void)
{
    if (hr_last_status() == HR_ENODEVICE)
        return true;
    fprintf(stderr, "a device does not open: %s\n", hr_last_error());
    return false;
}

void test_no_device(void)
{
    CHECK(hr_last_status() == HR_ENODEVICE, "open: %s", hr_last_error());
    if (hr_last_status() == HR_ENODEVICE)
        test_not_run(hr_last_error());
}

static void hung(int sig)
{
    static const char text[] = "\nhung in test case ";

    (void)sig;
    if (write(2, text, sizeof(text) - 1) < 0 ||
        write(2, current, strlen(current)) < 0 || write(2, "\n", 1) < 0)
        _exit(3);
    signal(SIGABRT, SIG_DFL);
    abort();
}

static struct test_case *first, *at;

void test_add(struct test_case *c)
{
    struct test_case **to = &first;

    while (*to && (*to)->line < c->line)
        to = &(*to)->next;
    c->next = *to;
    *to = c;
}

static void run_one(void)
{
    const char *text = getenv("HEADRACE_TEST_ALARM");
    unsigned seconds = text ? (unsigned)atoi(text) : 240;

    current = at->name;
    alarm(seconds);
    at->run();
    alarm(0);
}

static bool wanted(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return true;
    for (int i = 1; i < argc; i++)
        if (!strcmp(name, argv[i]))
            return true;
    return false;
}

// Prints the failures that CHECK() has not printed: CU_ASSERT() and the like.
static void print_failures(void)
{
    for (CU_pFailureRecord f = CU_get_failure_list(); f; f = f->pNext)
        if (f->strFileName && f->strFileName[0])
            fprintf(stderr, "\n%s:%u: %s", f->strFileName, f->uiLineNumber,
                    f->strCondition);
}

bool test_is_held(pthread_mutex_t *lock)
{
    for (int i = 0; i < 1000; i++) {
        if (!pthread_mutex_trylock(lock)) {
            pthread_mutex_unlock(lock);
            return false;
        }
        test_sleep(TEST_MS);
    }
    return true;
}

// A case that asserts nothing and does not say that it was not run.
static bool empty_case(int not_run_before)
{
    if (CU_get_number_of_asserts() || not_run > not_run_before)
        return false;
    fprintf(stderr, "\n%s asserts nothing", current);
    return true;
}

static double processor_time(int who)
{
    struct rusage r;

    if (getrusage(who, &r))
        return 0;
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

// CUnit gives a test function no argument, so each case is run by itself.
static void next_case(void)
{
    run_one();
}

int test_main(int argc, char **argv)
{
    const char *suite = program_invocation_short_name;
    unsigned failures = 0, asserts = 0;
    int run = 0, unnamed = 0;

    test_begin();
    signal(SIGALRM, hung);
    for (at = first; at; at = at->next) {
        int before = not_run;
        CU_pSuite s;
        unsigned bad;

        if (!wanted(at->name, argc, argv)) {
            unnamed++;
            continue;
        }
        if (CU_initialize_registry() ||
            !(s = CU_add_suite(suite, NULL, NULL)) ||
            !CU_add_test(s, at->name, next_case))
            return 1;
        printf("%s %s ...", suite, at->name);
        fflush(stdout);
        test_fds_begin();
        CU_run_all_tests();
        print_failures();
        bad = CU_get_number_of_failures() + empty_case(before) +
              (test_fds_left(at->name) > 0) + test_leaks(at->name);
        printf(" %s\n", bad ? "FAILED" : "passed");
        fflush(stdout);
        failures += bad;
        asserts += CU_get_number_of_asserts();
        CU_cleanup_registry();
        run++;
    }
    current = "";
    test_fewer(run, run + unnamed, "cases, those that were named");
    printf("%s: %d cases, %u asserts, %u failed, %d parts not run\n", suite,
           run, asserts, failures, not_run);
    // For ./dev slowest.
    printf("%.2f s of processor time\n",
           processor_time(RUSAGE_SELF) + processor_time(RUSAGE_CHILDREN));
    return failures || !run ? 1 : 0;
}

// ---- Pictures -------------------------------------------------------------

struct bytes test_jpeg_of(const struct jpeg_spec *spec, uint64_t *seed)
{
    struct bytes b;

    if (!make_jpeg(spec, seed, &b)) {
        fprintf(stderr, "libjpeg refused to make a picture\n");
        abort();
    }
    return b;
}

struct bytes test_jpeg(int w, int h, uint64_t *seed)
{
    return test_jpeg_of(
        jpeg_ycc(.w = w, .h = h, .factors = {0x22}, .quality = 85), seed);
}

struct bytes test_png(int w, int h, uint64_t *seed)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)w,
                       .height = (png_uint_32)h,
                       .format = PNG_FORMAT_RGB};
    size_t size = (size_t)w * (size_t)h * 3;
    uint8_t *pixels = malloc(size);
    png_alloc_size_t capacity = size * 2 + 4096;
    struct bytes b = {.data = malloc(capacity)};

    for (size_t i = 0; pixels && i < size; i++)
        pixels[i] = (uint8_t)next_random(seed);
    if (!pixels || !b.data ||
        !png_image_write_to_memory(&image, b.data, &capacity, 0, pixels, 0,
                                   NULL))
        abort();
    free(pixels);
    b.size = capacity;
    return b;
}

struct bytes test_warned(int w, int h, uint64_t *seed)
{
    enum { MORE = 40 };
    struct bytes b = test_jpeg(w, h, seed);

    b.data = realloc(b.data, b.size + MORE);
    if (!b.data)
        abort();
    memset(b.data + b.size - 2, 'x', MORE);
    b.size += MORE;
    memcpy(b.data + b.size - 2, "\xff\xd9", 2);
    return b;
}

struct bytes test_damaged(int w, int h, uint64_t *seed)
{
    struct bytes b = test_jpeg(w, h, seed);

    b.size = b.size / 2;
    return b;
}

// ---- Devices and jobs -----------------------------------------------------

const char *test_device_name(void)
{
    const char *name = getenv("HEADRACE_TEST_DEVICE");

    return name && *name ? name : "opencl";
}

hr_device test_device(const char *name, int threads, size_t budget)
{
    hr_device dev = hr_device_open(
        name, &(struct hr_device_params){.threads = threads, .budget = budget});

    if (!dev) {
        fprintf(stderr, "%s: %s\n", name, hr_last_error());
        abort();
    }
    return dev;
}

hr_device test_reference(void)
{
    hr_device ref = hr_device_open(
        "cpu", &(struct hr_device_params){
                   .threads = 1, .cpu_mask = test_races_only() ? 0 : HR_CPU_C});

    if (!ref)
        abort();
    return ref;
}

hr_image test_image(hr_device dev, int w, int h, int c, uint64_t *seed)
{
    hr_image image = hr_image_create(
        dev, hr_image_params(.w = w, .h = h, .c = c, .dtype = HR_U8,
                             .layout = HR_NHWC));
    uint8_t *p;

    if (!image)
        abort();
    p = image->params.data;
    for (size_t i = 0; i < image->size; i++)
        p[i] = (uint8_t)next_random(seed);
    return image;
}

void test_on_done(void *ctx, const struct hr_job_t *job)
{
    struct test_done *d = ctx;

    atomic_store(&d->status, hr_job_poll(job, 0));
    atomic_store(&d->on_library, hr__on_library_thread());
    atomic_fetch_add(&d->calls, 1);
}

atomic_int test_freed;

void test_count_free(void *ctx)
{
    free(ctx);
    atomic_fetch_add(&test_freed, 1);
}

void test_sleep(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};

    nanosleep(&t, NULL);
}

bool test_reaches(atomic_int *value, int n)
{
    for (int i = 0; i < 30000; i++) {
        if (atomic_load(value) >= n)
            return true;
        test_sleep(TEST_MS);
    }
    return false;
}

uint8_t *test_copy(const void *data, size_t size)
{
    uint8_t *copy = malloc(size);

    if (!copy)
        abort();
    return memcpy(copy, data, size);
}

int64_t test_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

long test_proc(const char *path, const char *field)
{
    FILE *file = fopen(path, "re");
    char line[256];
    long n = -1;

    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, field, strlen(field)))
            n = strtol(line + strlen(field), NULL, 10);
    if (file)
        fclose(file);
    return n;
}

unsigned test_offered(hr_device dev, const struct hr_sample *sample)
{
    const struct hr_limits *limits = &dev->params.limits;
    struct hr__picture pic = {.data = sample->data,
                              .size = sample->size,
                              .limits = limits,
                              .channels = 3};
    struct hr__offer offer = {0};
    char text[128];

    CHECK(!hr_probe(sample->data, sample->size, limits, &pic.info), "%s",
          hr_last_error());
    pic.width = pic.info.width;
    pic.height = pic.info.height;
    CHECK(!hr__geometry_build(&pic.geo, sample->ops, sample->num_ops,
                              HR_REFERENCE_DEFAULT, pic.width, pic.height, 1,
                              text),
          "%s", text);
    hr__device_offer((struct hr__device *)dev, 0, &pic, &offer);
    return offer.spans ? 0 : offer.why ? offer.why : HR_WHY_SPAN;
}
