// SPDX-License-Identifier: Apache-2.0
#include "opencl_env.h"

#include <jansson.h>
#include <sys/stat.h>

#include "hal/trust/trust.h"
#include "tools/common/tools.h"
#include "tools/samples/samples.h"

#define SAMPLES_SEED "31"

struct opencl_env env;

double opencl_ms_since(int64_t start)
{
    return (double)(hr__now() - start) / 1e6;
}

// ---- Jobs -----------------------------------------------------------------

struct opencl_run opencl_start(hr_device dev, const struct hr_sample *samples,
                               int n, const struct hr_batch_params *params)
{
    struct opencl_run r;

    r.batch = hr_batch_create(dev, params);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.batch);
    r.job = hr_submit(dev, samples, n, r.batch,
                      hr_job_params(.on_error = HR_ON_ERROR_ZERO,
                                    .wait_for_room = true));
    CU_ASSERT_PTR_NOT_NULL_FATAL(r.job);
    return r;
}

void opencl_finish(struct opencl_run *r)
{
    hr_job_release(&r->job);
    hr_batch_destroy(&r->batch);
}

size_t opencl_stride(const struct opencl_run *r)
{
    return r->batch->params.stride_n;
}

const void *opencl_slot(const struct opencl_run *r, int i)
{
    return (const uint8_t *)r->batch->params.data +
           opencl_stride(r) * (size_t)i;
}

int opencl_differences(struct opencl_run *a, struct opencl_run *b, int n,
                       const char *what)
{
    int bad = 0;

    CU_ASSERT_EQUAL(hr_job_wait(a->job, 2 * OPENCL_PATIENCE), HR_OK);
    CU_ASSERT_EQUAL(hr_job_wait(b->job, 2 * OPENCL_PATIENCE), HR_OK);
    for (int i = 0; i < n; i++) {
        const struct hr_result *x = &a->job->results[i];
        const struct hr_result *y = &b->job->results[i];

        if (x->status == y->status &&
            !memcmp(opencl_slot(a, i), opencl_slot(b, i), opencl_stride(a)))
            continue;
        if (++bad < 5)
            printf("\n  %s: sample %d %s: %s, %s %s", what, i,
                   i < env.num_files ? env.files[i] : "",
                   hr_status_name(x->status), hr_status_name(y->status),
                   y->message);
    }
    return bad;
}

int opencl_count_spans(const struct opencl_run *r, int n, enum hr_stage first)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < r->job->results[i].num_spans; k++) {
            const struct hr_span_result *s = &r->job->results[i].spans[k];

            count += s->span.first == first && !strncmp(s->device, "opencl", 6);
        }
    return count;
}

static int num_photos(void)
{
    int n = 0;

    while (n < env.num_files && strstr(env.files[n], "/photos/"))
        n++;
    return n;
}

void opencl_fill(struct hr_sample *s, struct hr_op (*ops)[4], int n)
{
    const int photos = num_photos();

    for (int i = 0; i < n; i++) {
        ops[i][0] = hr_op_decode(0);
        ops[i][1] = hr_op_crop(.x = i % 50, .y = i % 31, .w = 100 + i % 90,
                               .h = 90 + i % 70);
        ops[i][2] = hr_op_resize(.w = OPENCL_SIDE, .h = OPENCL_SIDE);
        ops[i][3] = OPENCL_NORMALIZE;
        s[i] = (struct hr_sample){.path = photos ? env.files[i % photos] : NULL,
                                  .ops = ops[i],
                                  .num_ops = 4};
    }
}

// ---- The program ----------------------------------------------------------

static bool list_samples(const char *dir)
{
    char path[256];
    json_error_t error;
    json_t *list, *entry;
    size_t i;

    snprintf(path, sizeof(path), "%s/samples.json", dir);
    if (!(list = json_load_file(path, 0, &error)))
        return false;
    for (int photos = 1; photos >= 0; photos--)
        json_array_foreach(list, i, entry)
        {
            const char *name = json_string_value(
                json_object_get(entry, "path"));

            if (env.num_files == OPENCL_FILES ||
                (strncmp(name, "photos/", 7) == 0) != photos ||
                json_is_true(json_object_get(entry, "limit")))
                continue;
            snprintf(path, sizeof(path), "%s/%s", dir, name);
            env.files[env.num_files++] = strdup(path);
        }
    json_decref(list);
    return env.num_files > 100;
}

static bool make_samples(void)
{
    const char *dir = test_folder();
    const char *args[] = {"headrace samples", dir, "--seed", SAMPLES_SEED,
                          "--count",          "8", NULL};

    printf("samples of seed %s\n", SAMPLES_SEED);
    return cmd_samples(6, (char **)(uintptr_t)args) == TOOLS_OK &&
           list_samples(dir);
}

static void own_caches(void)
{
    char path[256];

    env.folder = test_folder();
    snprintf(path, sizeof(path), "%s/cache", env.folder);
    mkdir(path, 0700);
    setenv("XDG_CACHE_HOME", path, 1);
    snprintf(path, sizeof(path), "%s/pocl", env.folder);
    mkdir(path, 0700);
    // PoCL's goes by the kernels' text: that of ./dev serves all programs.
    setenv("POCL_CACHE_DIR", path, 0);
}

int opencl_main(int argc, char **argv)
{
    int64_t begin = hr__now();
    int failed;

    own_caches();
    // On a busy machine the driver compiles for minutes.
    hr__test_probe_limits(0, 5 * OPENCL_PATIENCE, 10 * OPENCL_PATIENCE);
    env.ocl = hr_device_open("opencl",
                             hr_device_params(.deadline_ns = OPENCL_PATIENCE));
    if (!env.ocl) {
        if (!test_is_absent())
            return 1;
        test_not_run(hr_last_error());
        return TEST_NOT_RUN;
    }
    printf("%s: %s\nfirst open: %.0f ms\n", env.ocl->name, env.ocl->description,
           opencl_ms_since(begin));
    env.cpu = test_device("cpu", 0, 0);
    if (!make_samples()) {
        fprintf(stderr, "the samples cannot be made\n");
        return 1;
    }
    failed = test_main(argc, argv);
    hr_device_close(&env.ocl);
    hr_device_close(&env.cpu);
    for (int i = 0; i < env.num_files; i++)
        free(env.files[i]);
    return failed;
}
