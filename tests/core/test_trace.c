// SPDX-License-Identifier: Apache-2.0
// Traces and profiles: the facts that a user of a timeline relies on. The
// file's form is held to check_trace.py as well; here it is read with jansson.
#include <jansson.h>
#include <sys/wait.h>

#include "fake_engine.h"
#include "hal/trace/trace.h"
#include "testing.h"

enum { PICTURES = 12, JOBS = 6 };

static const struct hr_op ops[] = {
    {.type = HR_OP_DECODE},
    {.type = HR_OP_RESIZE, .resize = {.w = 20, .h = 16}},
};

struct scene {
    hr_device dev;
    struct bytes file[PICTURES];
    struct hr_sample samples[PICTURES];
    hr_batch batch;
};

static void scene_open(struct scene *s, const char *name)
{
    uint64_t seed = test_seed;

    s->dev = test_device(name, 2, 0);
    s->batch = hr_batch_create(s->dev, hr_batch_params(.n = PICTURES, .c = 3,
                                                       .h = 16, .w = 20));
    for (int i = 0; i < PICTURES; i++) {
        s->file[i] = test_jpeg(120, 90, &seed);
        s->samples[i] = test_sample(&s->file[i], ops, 2);
    }
}

static void scene_close(struct scene *s)
{
    hr_batch_destroy(&s->batch);
    hr_device_close(&s->dev);
    for (int i = 0; i < PICTURES; i++)
        free(s->file[i].data);
}

static void on_done(void *ctx, const struct hr_job_t *job)
{
    (void)ctx;
    (void)job;
}

static void run_jobs(struct scene *s, int n)
{
    for (int i = 0; i < n; i++) {
        hr_job job = hr_submit(s->dev, s->samples, PICTURES, s->batch,
                               hr_job_params(.on_done = on_done));

        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              hr_last_error());
        hr_job_release(&job);
        // A job that is done may still be on the list of those in flight.
        hr_wait_all(s->dev, HR_FOREVER);
    }
}

// ---- Reading a file --------------------------------------------------------

static json_t *written(void)
{
    char path[] = "/tmp/headrace-trace-XXXXXX";
    int fd = mkstemp(path);
    json_error_t err;
    json_t *json;

    close(fd);
    CHECK(hr_trace_write(path) == HR_OK, "%s", hr_last_error());
    json = json_load_file(path, 0, &err);
    CHECK(json != NULL, "line %d: %s", err.line, err.text);
    unlink(path);
    return json;
}

static const char *str(const json_t *event, const char *name)
{
    const char *text = json_string_value(json_object_get(event, name));

    return text ? text : "";
}

static int count(const json_t *json, const char *ph, const char *name)
{
    const json_t *events = json_object_get(json, "traceEvents");
    int n = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);

        n += !strcmp(str(e, "ph"), ph) &&
             (!name || !strcmp(str(e, "name"), name));
    }
    return n;
}

static int64_t other(const json_t *json, const char *name)
{
    const char *text = str(json_object_get(json, "otherData"), name);

    return *text ? strtoll(text, NULL, 10) : -1;
}

// ---- Tests -----------------------------------------------------------------

TEST_CASE(a_trace_has_everything)
{
    struct scene s;
    json_t *json;

    scene_open(&s, "cpu");
    CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
    CHECK(hr_trace_start(NULL) == HR_EINVAL, "two traces at once");
    run_jobs(&s, JOBS);
    hr_trace_span("step of mine", hr__now() - 1000, hr__now());
    hr_trace_stop();
    json = written();
    CHECK(other(json, "dropped_events") == 0, "%d dropped",
          (int)other(json, "dropped_events"));
    CHECK(count(json, "X", "entropy..store") == JOBS * PICTURES, "%d spans",
          count(json, "X", "entropy..store"));
    CHECK(count(json, "X", "prepare") == JOBS * PICTURES, "prepare");
    CHECK(count(json, "X", "submit") == JOBS, "submit");
    CHECK(count(json, "X", "callback") == JOBS, "callback");
    CHECK(count(json, "X", "done") == JOBS, "done");
    CHECK(count(json, "X", "step of mine") == 1, "the program's own");
    CHECK(count(json, "s", "job") == JOBS, "arrows from");
    CHECK(count(json, "f", "job") == JOBS, "arrows to");
    CHECK(count(json, "b", "job") == JOBS, "jobs begin");
    CHECK(count(json, "e", "job") == JOBS, "jobs end");
    // (the waiter may be told of a job's end before that is counted)
    CHECK(count(json, "C", "jobs in flight") >= 2 * JOBS - 1, "jobs in flight");
    CHECK(count(json, "C", "bytes in flight") > 0, "bytes in flight");
    // (a worker that came too late for any work has none)
    CHECK(count(json, "M", "thread_name") >= 2, "names of threads");
    CHECK(other(json, "wall_minus_monotonic_ns") > 0, "no offset");
    json_decref(json);
    // Stopped is stopped.
    run_jobs(&s, 1);
    json = written();
    CHECK(count(json, "X", "submit") == JOBS, "events after the stop");
    json_decref(json);
    scene_close(&s);
}

TEST_CASE(the_oldest_are_dropped_and_counted)
{
    struct scene s;
    json_t *json;

    scene_open(&s, "cpu");
    CHECK(hr_trace_start(hr_trace_params(.thread_bytes = 2048)) == HR_OK, "%s",
          hr_last_error());
    run_jobs(&s, 20);
    hr_trace_span("the last", hr__now(), hr__now());
    hr_trace_stop();
    json = written();
    CHECK(other(json, "dropped_events") > 0, "nothing dropped");
    CHECK(count(json, "X", NULL) <= 32 * count(json, "M", "thread_name"),
          "%d kept of %d threads", count(json, "X", NULL),
          count(json, "M", "thread_name"));
    CHECK(count(json, "X", "the last") == 1, "the newest is gone");
    CHECK(count(json, "s", NULL) == count(json, "f", NULL),
          "an arrow without its end");
    CHECK(count(json, "b", NULL) == count(json, "e", NULL), "begins and ends");
    json_decref(json);
    scene_close(&s);
}

static atomic_bool go_on;

static void *write_again_and_again(void *arg)
{
    (void)arg;
    while (atomic_load(&go_on)) {
        if (hr_trace_write("/dev/null"))
            return arg;
    }
    return NULL;
}

// For ThreadSanitizer, too.
TEST_CASE(it_may_be_written_while_it_runs)
{
    struct scene s;
    pthread_t thread;
    void *failed;
    json_t *json;

    scene_open(&s, "cpu");
    CHECK(hr_trace_start(hr_trace_params(.thread_bytes = 4096)) == HR_OK, "%s",
          hr_last_error());
    atomic_store(&go_on, true);
    pthread_create(&thread, NULL, write_again_and_again, &s);
    run_jobs(&s, test_loops(60));
    json = written();
    CHECK(count(json, "X", NULL) > 0, "nothing in it");
    json_decref(json);
    atomic_store(&go_on, false);
    pthread_join(thread, &failed);
    CHECK(!failed, "writing failed");
    hr_trace_stop();
    // And start again, with threads that have rings of the trace before.
    for (int i = 0; i < 5; i++) {
        CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
        run_jobs(&s, 2);
        hr_trace_stop();
    }
    json = written();
    CHECK(count(json, "X", "submit") == 2, "%d: not the last trace",
          count(json, "X", "submit"));
    json_decref(json);
    scene_close(&s);
}

// A worker that had nothing to do so far needs its memory late: the steady
// state is a stretch without.
TEST_CASE(no_trace_no_allocation)
{
    int64_t allocs = -1;
    struct scene s;

    scene_open(&s, "cpu");
    run_jobs(&s, 8);
    for (int i = 0; i < 20 && allocs != hr__test_allocs(); i++) {
        allocs = hr__test_allocs();
        run_jobs(&s, 8);
    }
    CHECK(hr__test_allocs() == allocs, "allocates");
    scene_close(&s);
}

TEST_CASE(bad_paths)
{
    CHECK(hr_trace_write(NULL) == HR_EINVAL, "NULL");
    CHECK(hr_trace_write("/nowhere/at/all.json") == HR_EIO, "no folder");
    CHECK(strstr(hr_last_error(), "/nowhere/at/all.json"), "%s",
          hr_last_error());
    CHECK(hr_trace_write("/dev/full") == HR_EIO, "a full disk");
}

TEST_CASE(no_memory_is_no_harm)
{
    struct scene s;
    json_t *json;

    scene_open(&s, "cpu");
    run_jobs(&s, 2);
    CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
    hr__test_fail_alloc(1, true);
    hr_trace_span("lost", 1, 2);
    CHECK(hr_trace_write("/dev/null") == HR_ENOMEM, "writes without memory");
    hr__test_fail_alloc(0, false);
    run_jobs(&s, 2);
    hr_trace_stop();
    json = written();
    CHECK(count(json, "X", "lost") == 0 && other(json, "dropped_events") == 1,
          "%d dropped", (int)other(json, "dropped_events"));
    CHECK(count(json, "X", "submit") == 2, "never recovers");
    json_decref(json);
    scene_close(&s);
}

TEST_CASE(a_child_has_no_trace)
{
    int status = -1;
    json_t *json;
    pid_t pid;

    if (TEST_SANITIZED) {
        test_not_run("fork under a sanitizer");
        return;
    }
    CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
    hr_trace_span("here", 1, 2);
    pid = fork();
    if (pid == 0) {
        hr_trace_span("there", 1, 2);
        _exit(hr_trace_start(NULL) != HR_OK);  // HR_EINVAL, if one runs
    }
    waitpid(pid, &status, 0);
    CHECK(status == 0, "the child says %d", status);
    CHECK(hr_trace_start(NULL) == HR_EINVAL, "the parent's goes on");
    hr_trace_stop();
    json = written();
    CHECK(count(json, "X", "here") == 1 && !count(json, "X", "there"), "spans");
    json_decref(json);
}

TEST_CASE(sums)
{
    struct hr_profile p;
    struct scene s;
    uint64_t cpu = 0;

    scene_open(&s, "cpu");
    run_jobs(&s, 2);
    hr_wait_all(s.dev, HR_FOREVER);
    hr_device_profile(s.dev, &p);
    CHECK(p.num_engines == 1 && !strcmp(p.engines[0].name, "cpu"), "engines");
    CHECK(p.engines[0].tasks == 2 * PICTURES, "%llu tasks",
          (unsigned long long)p.engines[0].tasks);
    CHECK(p.engines[0].parts[HR_PART_ENTROPY].ns == 0, "times, though off");
    // (the next job may be there before the last is off the list)
    CHECK(p.peak_jobs >= 1 && p.jobs_in_flight == 0, "jobs");
    CHECK(p.peak_samples >= PICTURES && p.peak_bytes > 0, "peaks");
    hr_profile_times(true);
    run_jobs(&s, 4);
    hr_profile_times(false);
    hr_device_profile(s.dev, &p);
    for (int i = 0; i < HR_PROFILE_THREADS; i++)
        cpu += p.engines[0].cpu_ns[i];
    // Our own decoder made them: libjpeg-turbo would be HR_PART_DECODE.
    CHECK(p.engines[0].parts[HR_PART_DECODE].ns == 0, "decoded in one go");
    CHECK(p.engines[0].parts[HR_PART_ENTROPY].ns > 0 &&
              p.engines[0].parts[HR_PART_RECONSTRUCT].ns > 0 &&
              p.engines[0].parts[HR_PART_COLOR].ns > 0 &&
              p.engines[0].parts[HR_PART_RESAMPLE].ns > 0 &&
              p.engines[0].parts[HR_PART_STORE].ns > 0,
          "stages without time");
    CHECK(p.engines[0].parts[HR_PART_ENTROPY].times == 4 * PICTURES, "times");
    // A part of the CPU's time cannot be much more than all of it.
    CHECK(cpu > 0 && p.engines[0].parts[HR_PART_RESAMPLE].ns < 100 * cpu,
          "CPU time %llu", (unsigned long long)cpu);
    for (int i = 0; i < HR_NUM_PARTS; i++)
        CHECK(strcmp(hr_part_name((enum hr_part)i), "?") != 0, "part %d", i);
    // A thread may begin late, and a job be done before it is waited for.
    hr_profile_times(true);
    for (int i = 0;
         i < 3000 && (p.engines[0].num_threads < 2 || !p.result_waits); i++) {
        run_jobs(&s, 1);
        test_sleep(10 * TEST_MS);
        hr_device_profile(s.dev, &p);
    }
    hr_profile_times(false);
    CHECK(p.engines[0].num_threads == 2, "%d threads",
          p.engines[0].num_threads);
    CHECK(p.result_waits > 0 && p.result_wait_ns > 0, "no waits");
    scene_close(&s);
}

// The check of a packed picture is not colour's: here a corner of a large one
// is all that is decoded.
TEST_CASE(packed_parts)
{
    static const struct hr_op corner[] = {HR_OP_DECODE(.mode = HR_RGB),
                                          HR_OP_CROP(.w = 8, .h = 8)};
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(1200, 900, &seed);
    hr_device dev = test_device("cpu", 1, 0);
    hr_batch out = hr_batch_create(
        dev, hr_batch_params(.n = 1, .c = 3, .h = 8, .w = 8, .dtype = HR_U8));
    struct hr_sample s = {.ops = corner, .num_ops = 2};
    struct hr_profile p;
    void *packed = NULL;

    CU_ASSERT_FATAL(hr_pack(file.data, file.size, NULL, &packed, &s.size) ==
                    HR_OK);
    s.data = packed;
    hr_profile_times(true);
    for (int i = 0; i < 10; i++) {
        auto_job job = hr_submit(dev, &s, 1, out, NULL);

        CHECK(job && hr_job_wait(job, HR_FOREVER) == HR_OK, "%s",
              hr_last_error());
    }
    hr_profile_times(false);
    hr_device_profile(dev, &p);
    CHECK(p.engines[0].parts[HR_PART_ENTROPY].ns >
              p.engines[0].parts[HR_PART_COLOR].ns,
          "entropy %llu ns, color %llu",
          (unsigned long long)p.engines[0].parts[HR_PART_ENTROPY].ns,
          (unsigned long long)p.engines[0].parts[HR_PART_COLOR].ns);
    hr_batch_destroy(&out);
    hr_device_close(&dev);
    hr_packed_free(packed);
}

static bool has_opencl(void)
{
    auto_device dev = hr_device_open("opencl", hr_device_params(.threads = 1));
    bool has = dev != NULL;

    if (!has)
        test_no_device();
    return has;
}

// The times of the last batches are read when all is quiet.
static void all_read(struct scene *s, struct hr_profile *p)
{
    for (int i = 0; i < 3000; i++) {
        hr_device_profile(s->dev, p);
        if (p->engines[0].parts[HR_PART_DOWNLOAD].times >=
            p->engines[0].batches)
            return;
        test_sleep(10 * TEST_MS);
    }
}

// Where there is an OpenCL driver: rows of its queues, in the host's time.
TEST_CASE(device_rows)
{
    int64_t begin, end;
    struct hr_profile p;
    struct scene s;
    const json_t *events;
    json_t *json;
    int rows = 0;

    if (!has_opencl())
        return;
    hr_profile_times(true);
    scene_open(&s, "opencl");
    begin = hr__now();
    CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
    run_jobs(&s, JOBS);
    all_read(&s, &p);
    hr_trace_stop();
    hr_profile_times(false);
    end = hr__now();
    CHECK(p.engines[0].device_times, "no device times");
    CHECK(p.engines[0].batches >= JOBS, "batches");
    CHECK(p.engines[0].launches >= JOBS, "launches");
    CHECK(p.engines[0].bytes_up > 0 && p.engines[0].bytes_down > 0, "bytes");
    CHECK(p.engines[0].parts[HR_PART_STORE].ns > 0, "the store kernel's time");
    json = written();
    events = json_object_get(json, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        double ts = json_number_value(json_object_get(e, "ts")) * 1000;

        if (strcmp(str(e, "cat"), "device") || strcmp(str(e, "name"), "store"))
            continue;
        rows++;
        // The clocks are compared by an upload that began and ended in the
        // trace: in the middle of that, so by half of it they may be off.
        CHECK(ts > (double)begin - (double)(end - begin) / 2 &&
                  ts < (double)end + (double)(end - begin) / 2,
              "a kernel ran at %f, the trace is %f .. %f", ts, (double)begin,
              (double)end);
    }
    CHECK(rows == JOBS, "%d store kernels", rows);
    CHECK(count(json, "b", "reconstruct..store") == JOBS * PICTURES,
          "samples on the device");
    json_decref(json);
    scene_close(&s);
}

// Rows from another engine's planes are no reading of files.
TEST_CASE(planes_of_another)
{
    struct hr_profile p;
    struct scene s;

    fake_reset_spans(FAKE_P);
    scene_open(&s, "fake");
    hr_profile_times(true);
    run_jobs(&s, 2);
    hr_profile_times(false);
    hr_device_profile(s.dev, &p);
    CHECK(p.num_engines == 2 && p.engines[1].tasks == 2 * PICTURES, "tasks");
    CHECK(p.engines[1].parts[HR_PART_READ].ns == 0, "bytes were in memory");
    CHECK(p.engines[1].parts[HR_PART_RESAMPLE].ns > 0, "resample");
    scene_close(&s);
}
