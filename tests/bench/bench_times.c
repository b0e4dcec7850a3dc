// SPDX-License-Identifier: Apache-2.0
// What Python times runs here, so that no interpreter is in the figures.
#include <time.h>

#include "bench_shim.h"

static double now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

// Nanoseconds of each of rounds runs (submit, wait, release), and of
// hr_submit() alone; either may be NULL. Returns the first bad status.
EXPORT(int, shim_set_time, struct shim_set *set, int rounds, double *run_ns,
       double *submit_ns)
{
    for (int r = 0; r < rounds; r++) {
        double start = now_ns();
        hr_job job = hr_submit(set->dev, set->samples, set->n, set->batch,
                               hr_job_params(.tier = HR_EXACT));
        double submitted = now_ns();
        enum hr_status status;

        if (!job)
            return hr_last_status();
        status = hr_job_wait(job, HR_FOREVER);
        hr_job_release(&job);
        if (status)
            return status;
        if (run_ns)
            run_ns[r] = now_ns() - start;
        if (submit_ns)
            submit_ns[r] = submitted - start;
    }
    return HR_OK;
}

// Submits one set after the other, as a loader that prefetches: with at most
// depth jobs in flight. submit_ns: of all hr_submit() together. The first bad
// status, or HR_OK.
EXPORT(int, shim_stream, struct shim_set *const *sets, int n, int depth,
       double *submit_ns)
{
    hr_job jobs[16] = {0};
    enum hr_status status = HR_OK;

    depth = depth > 16 ? 16 : depth;
    *submit_ns = 0;
    for (int i = 0; i < n + depth; i++) {
        hr_job *job = &jobs[i % depth];

        if (*job) {
            enum hr_status one = hr_job_wait(*job, HR_FOREVER);

            status = status ? status : one;
            hr_job_release(job);
        }
        if (i < n) {
            double start = now_ns();

            *job = hr_submit(
                sets[i]->dev, sets[i]->samples, sets[i]->n, sets[i]->batch,
                hr_job_params(.tier = HR_EXACT, .wait_for_room = true));
            *submit_ns += now_ns() - start;
            if (!*job)
                status = hr_last_status();
        }
    }
    return status;
}

// Calls of malloc and the like in the process during rounds runs; -1: one
// failed. Only counts if this library is preloaded.
EXPORT(int64_t, shim_set_mallocs, struct shim_set *set, int rounds)
{
    unsigned long long before = shim_malloc_calls();

    if (shim_set_time(set, rounds, NULL, NULL))
        return -1;
    return (int64_t)(shim_malloc_calls() - before);
}

// Mean nanoseconds of hr_probe() per file.
EXPORT(double, shim_probe_ns, const struct shim_source *sources, int n,
       int rounds)
{
    double start = now_ns();

    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < n; i++) {
            struct hr_info info;

            if (hr_probe(sources[i].data, sources[i].size, NULL, &info))
                return -1;
        }
    }
    return (now_ns() - start) / rounds / n;
}

// Nanoseconds to open a device: what a process pays once.
EXPORT(double, shim_open_ns, const char *name, int threads)
{
    double start = now_ns(), end;
    hr_device dev = hr_device_open(name, hr_device_params(.threads = threads));

    end = now_ns();
    if (!dev)
        return -1;
    hr_device_close(&dev);
    return end - start;
}
