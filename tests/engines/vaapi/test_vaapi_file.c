// SPDX-License-Identifier: Apache-2.0
// A certificate belongs to the driver's file, not only to the driver's name:
// the same driver elsewhere has it, another build is tested again.
#include <sys/stat.h>

#include "vaapi_env.h"

static char folder[64] = "/tmp/hr-driver-XXXXXX";
static char original[400];
static atomic_int tests;

static void on_log(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    atomic_fetch_add(&tests, strstr(text, ": tested in ") != NULL);
}

// Opens the driver that lies in a folder; how many tests that took.
static int tests_of(const char *drivers)
{
    auto_device dev = NULL;

    setenv("LIBVA_DRIVERS_PATH", drivers, 1);
    atomic_store(&tests, 0);
    dev = vaapi_open_with(hr_device_params(.log = on_log));
    CHECK(dev != NULL, "%s: %s", drivers, hr_last_error());
    CHECK(!dev || strstr(dev->description, "software media engine"), "%s",
          dev->description);
    return atomic_load(&tests);
}

static struct bytes read_driver(void)
{
    char path[512];
    struct bytes b = {.data = malloc(16 << 20)};
    FILE *f;

    snprintf(path, sizeof(path), "%s/headrace_drv_video.so", original);
    if (!(f = fopen(path, "rb")) || !b.data)
        abort();
    b.size = fread(b.data, 1, 16 << 20, f);
    fclose(f);
    return b;
}

// Where its build id is, which another build differs in; behind the name.
static uint8_t *build_id(const struct bytes *b)
{
    static const uint8_t head[] = {4, 0, 0, 0, 20,  0,   0,   0,
                                   3, 0, 0, 0, 'G', 'N', 'U', 0};
    uint8_t *note = memmem(b->data, b->size, head, sizeof(head));

    if (!note)
        abort();
    return note + sizeof(head);
}

static const char *keep(const struct bytes *b, const char *name)
{
    static char path[128];
    char file[160];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    mkdir(path, 0700);
    snprintf(file, sizeof(file), "%s/headrace_drv_video.so", path);
    test_write(file, b->data, b->size);
    return path;
}

TEST_CASE(another_build)
{
    auto_bytes b = read_driver();
    char command[160];
    const char *path;

    vaapi_driver("default,reset,personality=plain");
    if (!mkdtemp(folder))
        abort();
    CHECK(tests_of(original) == 1, "the first time");
    CHECK(tests_of(original) == 0, "the second time");
    *build_id(&b) ^= 1;
    CHECK(tests_of(keep(&b, "changed")) == 1, "another build");
    *build_id(&b) ^= 1;
    CHECK(tests_of(keep(&b, "same")) == 0, "the same one elsewhere");
    // Without a build id it is size, date and name.
    build_id(&b)[-2] = 'X';
    path = keep(&b, "without");
    CHECK(tests_of(path) == 1, "without a build id");
    CHECK(tests_of(path) == 0, "without a build id, again");
    snprintf(command, sizeof(command), "touch -d 2001-01-01 %s/*.so", path);
    CHECK(!system(command) && tests_of(path) == 1, "with another date");
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    CHECK(!system(command), "%s stays", folder);
}

TEST_CASE(texts)
{
    char text[256], again[256], small[8];

    hr__library_text((uintptr_t)&fopen, text, sizeof(text));
    hr__library_text((uintptr_t)&malloc, again, sizeof(again));
    CHECK(strlen(text) >= 16 && !strcmp(text, again), "'%s' and '%s'", text,
          again);
    hr__library_text((uintptr_t)&fopen, small, sizeof(small));
    CHECK(strlen(small) < sizeof(small) && !strncmp(small, text, strlen(small)),
          "'%s'", small);
    hr__library_text(0, text, sizeof(text));
    CHECK(!text[0], "'%s' of nothing", text);
    hr__library_text((uintptr_t)text, text, sizeof(text));
    CHECK(!text[0], "'%s' of a stack", text);
}

int main(int argc, char **argv)
{
    if (!vaapi_init())
        return TEST_NOT_RUN;
    snprintf(original, sizeof(original), "%s", getenv("LIBVA_DRIVERS_PATH"));
    return test_main(argc, argv);
}
