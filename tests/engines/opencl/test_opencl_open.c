// SPDX-License-Identifier: Apache-2.0
// Opening a device of the OpenCL engine: its names, the variables, no driver,
// a child of fork(); the cache of programs, whatever happens to its file; and
// the first job, for which the compiler may take longer than a sample may.
#define _GNU_SOURCE  // fork(), truncate(), memmem()
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "opencl_env.h"

// ---- Names ----------------------------------------------------------------

TEST_CASE(names)
{
    static const char *const good[] = {"opencl", "opencl:0"};
    auto_device dev = NULL;

    for (int i = 0; i < COUNT(good); i++) {
        CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open(good[i], NULL));
        if (dev)
            CU_ASSERT_EQUAL(strncmp(dev->name, "opencl:", 7), 0);
        hr_device_close(&dev);
    }
    // The first word of the driver's name for it.
    char name[64] = "opencl:";
    const char *driver = opencl_private(env.ocl)->facts.name;
    snprintf(name + 7, sizeof(name) - 7, "%.*s", (int)strcspn(driver, " "),
             driver);
    CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open(name, NULL));
}

TEST_CASE(wrong_names)
{
    static const char *const bad[] = {"opencl:no-such", "opencl:99",
                                      "opencl:0x", "opencl:-1"};

    for (int i = 0; i < COUNT(bad); i++) {
        CU_ASSERT_PTR_NULL(hr_device_open(bad[i], NULL));
        CU_ASSERT_EQUAL(hr_last_status(), HR_ENODEVICE);
        CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "there are: 0 = "));
        CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), bad[i]));
    }
}

TEST_CASE(variable)
{
    hr_device dev;

    setenv("HEADRACE_OPENCL_DEVICE", "no-such", 1);
    CU_ASSERT_PTR_NULL(dev = hr_device_open("opencl", NULL));
    CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open("opencl:0", NULL));
    hr_device_close(&dev);
    setenv("HEADRACE_OPENCL_DEVICE", "0", 1);
    CU_ASSERT_PTR_NOT_NULL(dev = hr_device_open("opencl", NULL));
    hr_device_close(&dev);
    unsetenv("HEADRACE_OPENCL_DEVICE");
}

TEST_CASE(no_library)
{
    struct hr_device_info infos[8];
    bool listed = false;
    int n;

    setenv("HEADRACE_OPENCL_LIBRARY", "/nonexistent/libOpenCL.so.1", 1);
    CU_ASSERT_PTR_NULL(hr_device_open("opencl", NULL));
    CU_ASSERT_EQUAL(hr_last_status(), HR_ENODEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "no OpenCL loader"));
    n = hr_device_list(infos, COUNT(infos));
    for (int i = 0; i < n && i < COUNT(infos); i++)
        listed |= !strcmp(infos[i].name, "opencl") && !infos[i].available &&
                  strstr(infos[i].reason, "no OpenCL loader");
    CU_ASSERT_TRUE(listed);
    // A library that is not OpenCL.
    setenv("HEADRACE_OPENCL_LIBRARY", "libm.so.6", 1);
    CU_ASSERT_PTR_NULL(hr_device_open("opencl", NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(hr_last_error(), "has no clGetPlatformIDs"));
    unsetenv("HEADRACE_OPENCL_LIBRARY");
}

// The child is told, and does not hang.
TEST_CASE(forked)
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    if (!(child = fork())) {
        alarm(20);
        _exit(!hr_device_open("opencl", NULL) && hr_last_status() == HR_EFORK &&
                      strstr(hr_last_error(), "fork")
                  ? 0
                  : 1);
    }
    CU_ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
// ---- The cache ------------------------------------------------------------

static bool find_cache(char *path, size_t size)
{
    char dir[256];
    struct dirent *entry;
    int found = 0;
    DIR *d;

    snprintf(dir, sizeof(dir), "%s/cache/headrace", env.folder);
    if (!(d = opendir(dir)))
        return false;
    while ((entry = readdir(d)))
        if (strstr(entry->d_name, ".bin")) {
            snprintf(path, size, "%s/%s", dir, entry->d_name);
            found++;
        }
    closedir(d);
    return found == 1;
}

// A thread writes it when the device is open and has had nothing to do; PoCL
// compiles once more for that.
static bool await_cache(char *path, size_t size)
{
    int64_t end = hr__now() + OPENCL_PATIENCE;

    while (!find_cache(path, size) && hr__now() < end)
        test_sleep(50 * TEST_MS);
    return find_cache(path, size);
}

// The key in the file names what a program depends on, line by line: first the
// kernels' text, last the driver's version, and its file as the library knows
// it.
TEST_CASE(cache_key)
{
    auto_device dev = hr_device_open("opencl", NULL);
    static char text[4096], want[4 * OCL_TEXT];
    char path[512], file[256] = "", kernels[32];
    const struct ocl *o;
    size_t n;
    FILE *f;

    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    o = opencl_private(dev);
    hr__library_text((uintptr_t)o->api.clGetExtensionFunctionAddressForPlatform(
                         o->facts.platform_id, "clIcdGetPlatformIDsKHR"),
                     file, sizeof(file));
    CHECK(strlen(file) > 8 && strlen(o->facts.driver) > 0, "'%s', '%s'", file,
          o->facts.driver);
    n = (size_t)snprintf(want, sizeof(want), "\n%s\n%s\n%s\n", o->facts.name,
                         o->facts.driver, file);
    CU_ASSERT_FATAL(n < sizeof(want));
    CU_ASSERT_FATAL(await_cache(path, sizeof(path)));
    CU_ASSERT_PTR_NOT_NULL_FATAL(f = fopen(path, "rb"));
    n = fread(text, 1, sizeof(text), f);
    fclose(f);
    CHECK(memmem(text, n, want, strlen(want)), "the key has not:%s", want);
    snprintf(kernels, sizeof(kernels), "\n%016llx\n",
             (unsigned long long)XXH3_64bits(ocl_kernels_source,
                                             strlen(ocl_kernels_source)));
    CHECK(memmem(text, n, kernels, strlen(kernels)), "the key has not:%s",
          kernels);
    CU_ASSERT_PTR_NOT_NULL(memmem(text, n, o->facts.platform_version,
                                  strlen(o->facts.platform_version)));
}

// Opens, and says whether the program came from the cache.
static int open_cached(double *ms)
{
    int64_t start = hr__now();
    auto_device dev = hr_device_open("opencl", NULL);
    int cached;

    if (!dev)
        return -1;
    if (ms)
        *ms = opencl_ms_since(start);
    cached = opencl_private(dev)->program_cached;
    return cached;
}

TEST_CASE(cache)
{
    char path[512];
    double warm = 0, best = 1e9;
    FILE *f;

    CU_ASSERT_FATAL(await_cache(path, sizeof(path)));
    for (int i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(open_cached(&warm), 1);
        best = warm < best ? warm : best;
    }
    printf("\n  open with a warm cache: %.1f ms; ", best);
    // Cut short, one bit wrong, empty: each is built again and replaced.
    CU_ASSERT_EQUAL(truncate(path, 1000), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(f = fopen(path, "r+b"));
    fseek(f, 5000, SEEK_SET);
    int c = fgetc(f);
    fseek(f, 5000, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 1);
    CU_ASSERT_EQUAL(truncate(path, 0), 0);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    CU_ASSERT_TRUE(find_cache(path, sizeof(path)));
}

// No folder that can be written: it works, without a cache.
TEST_CASE(cache_folder)
{
    char cache[256], path[512];

    CU_ASSERT_FATAL(await_cache(path, sizeof(path)));
    snprintf(cache, sizeof(cache), "%s/cache", env.folder);
    setenv("XDG_CACHE_HOME", "/proc/self", 1);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CU_ASSERT_EQUAL(open_cached(NULL), 0);
    setenv("XDG_CACHE_HOME", cache, 1);
    CU_ASSERT_EQUAL(open_cached(NULL), 1);
}
// ---- The first job --------------------------------------------------------

// The compiler takes longer than a sample may: that is not held against the
// device, neither by its test nor by the first job.
TEST_CASE(short_deadline)
{
    enum { N = 10 };
    static const struct hr_op ops[] = {
        hr_op_decode(0), hr_op_resize(.w = OPENCL_SIDE, .h = OPENCL_SIDE)};
    char cache[256], fresh[256];
    struct hr_sample samples[N];
    auto_device dev = NULL;
    OWN(opencl_finish) struct opencl_run r = {0};

    snprintf(cache, sizeof(cache), "%s/cache", env.folder);
    snprintf(fresh, sizeof(fresh), "%s/fresh", env.folder);
    mkdir(fresh, 0700);
    setenv("XDG_CACHE_HOME", fresh, 1);
    setenv("POCL_CACHE_DIR", fresh, 1);
    dev = hr_device_open("opencl", hr_device_params(.deadline_ns = 400000000));
    setenv("XDG_CACHE_HOME", cache, 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
    CU_ASSERT_TRUE(dev->caps.exact && dev->certificate.tested);
    for (int i = 0; i < N; i++)
        samples[i] =
            (struct hr_sample){.path = env.files[i], .ops = ops, .num_ops = 2};
    r = opencl_start(dev, samples, N,
                     hr_batch_params(.n = N, .c = 3, .h = OPENCL_SIDE,
                                     .w = OPENCL_SIDE));
    CU_ASSERT_EQUAL(hr_job_wait(r.job, 60 * INT64_C(1000000000)), HR_OK);
    CU_ASSERT_EQUAL(opencl_count_spans(&r, N, HR_RECONSTRUCT), N);
}
TEST_MAIN(opencl_main)
