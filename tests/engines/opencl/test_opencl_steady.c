// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine over fault_opencl.c, which counts its calls: the calls that
// it avoids while all is well, batch after batch; where payloads lie in memory
// that the device can fetch; and that its queues work at several batches at a
// time.
#include "hal/trace/trace.h"
#include "opencl_faults.h"

// ---- Without faults -------------------------------------------------------

// entropy: the device decodes that, too.
static void check_steady(bool discrete, bool entropy)
{
    int live = faults_now().live, most = entropy ? 9 : 6;
    struct fault_counts c;
    hr_device dev;

    snprintf(faults.label, sizeof(faults.label), "no faults");
    faults.ctl.discrete(discrete);
    setenv("HEADRACE_OPENCL_ENTROPY", entropy ? "device" : "host", 1);
    dev = faults_open_scene(FAULTS_PATIENCE, SCENE_MIXED);
    unsetenv("HEADRACE_OPENCL_ENTROPY");
    faults.ctl.mark_thread();
    // A batch gets its buffers when it is first needed, which may be late;
    // there are few batches, so one of these rounds finds them all there.
    for (int round = 0; round < 6; round++) {
        faults_calm();
        for (int i = 0; i < 10; i++)
            CHECK(faults_run(FAULTS_PATIENCE) > 0, "the device made nothing");
        c = faults_now();
        if (!c.calls[FAULT_clCreateBuffer])
            break;
    }
    CHECK(c.on_marked == 0, "%d calls on the submitting thread", c.on_marked);
    CHECK(c.calls[FAULT_clFinish] == 0 && c.blocking == 0,
          "%d clFinish, %d calls that block", c.calls[FAULT_clFinish],
          c.blocking);
    CHECK(c.calls[FAULT_clCreateBuffer] == 0, "%d buffers made",
          c.calls[FAULT_clCreateBuffer]);
    CHECK(c.batch_launches > (entropy ? 6 : 0) && c.batch_launches <= most,
          "%d launches in one batch", c.batch_launches);
    CHECK(discrete ? c.calls[FAULT_clEnqueueReadBuffer] > 0
                   : c.calls[FAULT_clEnqueueReadBuffer] == 0,
          "%d reads", c.calls[FAULT_clEnqueueReadBuffer]);
    // (No word on how long that takes: a driver may still compile a kernel.)
    scene_finish(&faults.scene);
    hr_device_close(&dev);
    faults_check_objects(live);
}

TEST_CASE(no_faults)
{
    for (int i = 0; i < 4; i++)
        check_steady(i & 1, i & 2);
    printf(
        "\n  at most 6 launches in a batch, 9 with entropy, nothing blocks ");
}

// ---- Payloads in pinned memory --------------------------------------------

static int chunks(struct ocl *o, int *holders)
{
    int n = 0;

    *holders = 0;
    pthread_mutex_lock(&o->pinned.lock);
    for (int i = 0; i < OCL_CHUNKS; i++) {
        n += o->pinned.chunks[i].buffer.mem != NULL;
        *holders += o->pinned.chunks[i].holders;
    }
    pthread_mutex_unlock(&o->pinned.lock);
    return n;
}

// The memory of the last task and batch is released a moment after the job has
// ended.
static void check_let_go(struct ocl *o, int left)
{
    int64_t begin = hr__now();
    int holders;

    while (chunks(o, &holders),
           holders != left && hr__now() - begin < 30 * SECOND)
        test_sleep(TEST_MS);
    CHECK(holders == left, "%d hold pinned memory, not %d", holders, left);
}

// A device with memory of its own fetches coefficients where the CPU wrote
// them, in fewer commands than there are pictures; without room they are
// copied. A chunk that is held outlives a lost context.
TEST_CASE(pinned_payloads)
{
    int live = faults_now().live, holders, taken = 0;
    static void *all[OCL_CHUNKS * 64];
    hr_device dev;
    struct ocl *o;

    snprintf(faults.label, sizeof(faults.label), "pinned payloads");
    faults.ctl.discrete(true);
    dev = faults_open_scene(FAULTS_PATIENCE, SCENE_BYTES);
    o = opencl_private(dev);
    for (int i = 0; i < 3; i++)
        faults_run(FAULTS_PATIENCE);
    CHECK(chunks(o, &holders) >= 1, "no payload is pinned");
    faults_calm();
    CHECK(faults_run(FAULTS_PATIENCE) > 0, "the device made nothing");
    CHECK(o->transfers > 2 * o->batches, "nothing was fetched");
    check_let_go(o, 0);
    // Others have it all.
    for (int round = 0; round < OCL_CHUNKS + 1; round++) {
        while (taken < (int)(sizeof(all) / sizeof(*all)) &&
               (all[taken] = ocl_pinned_alloc(&o->pinned, OCL_CHUNK_BYTES / 2)))
            taken++;
        CHECK(faults_run(FAULTS_PATIENCE) > 0,
              "no room: the device made nothing");
    }
    CHECK(chunks(o, &holders) == OCL_CHUNKS, "%d chunks", chunks(o, &holders));
    faults_calm();
    CHECK(faults_run(FAULTS_PATIENCE) > 0, "no room: the device made nothing");
    // Lost while all of it is held.
    faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_RESOURCES);
    faults_run(FAULTS_PATIENCE);
    faults_hit(FAULT_clEnqueueNDRangeKernel);
    faults_calm();
    CHECK(faults_run(FAULTS_PATIENCE) > 0, "it was not opened again");
    memset(all[0], 0xa5, OCL_CHUNK_BYTES / 2);  // still there
    check_let_go(o, taken);
    while (taken)
        CHECK(ocl_pinned_free(&o->pinned, all[--taken]), "not from there");
    for (int i = 0; i < 3; i++)
        CHECK(faults_run(FAULTS_PATIENCE) > 0,
              "let go: the device made nothing");
    check_let_go(o, 0);
    faults_close(&dev, live);
    faults.ctl.discrete(false);
}

// ---- Several batches at a time ----------------------------------------------

enum { PICTURES = 64, IN_FLIGHT = 4, EVENTS = 1 << 14 };

// Collects the queues' events of each batch, in the device's time.
static int device_events(struct hr__event *to)
{
    struct hr__trace_state *state = hr__trace_lock();
    int n = 0;

    for (const struct hr__ring *r = state->rings; r; r = r->next) {
        int got = (int)hr__ring_read(r, to + n, (size_t)(EVENTS - n));

        for (int i = n, end = n + got; i < end; i++)
            if (to[i].kind == HR__EVENT_DEVICE)
                to[n++] = to[i];
    }
    hr__trace_unlock();
    return n;
}

static bool of_queue(const struct hr__event *event, const char *queue)
{
    return event->row && strstr(event->row, queue);
}

// How often a transfer of one batch ran while the device computed for another:
// of one behind it (1), or before it (-1).
static int beside(const struct hr__event *all, int n, const char *queue,
                  int which)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        for (int k = 0; k < n && of_queue(&all[i], queue); k++)
            count += of_queue(&all[k], "compute") &&
                     (which > 0 ? all[i].job > all[k].job
                                : all[i].job < all[k].job) &&
                     all[i].begin < all[k].end && all[k].begin < all[i].end;
    return count;
}

static void run_jobs(hr_device dev, const struct bytes *b)
{
    const struct hr_op ops[] = {hr_op_decode(0),
                                hr_op_resize(.w = 224, .h = 224)};
    struct hr_sample s[PICTURES];
    hr_batch batch[IN_FLIGHT];
    hr_job job[IN_FLIGHT];

    for (int i = 0; i < PICTURES; i++)
        s[i] = test_sample(b, ops, 2);
    for (int i = 0; i < IN_FLIGHT; i++) {
        batch[i] = hr_batch_create(dev, hr_batch_params(.n = PICTURES, .c = 3,
                                                        .h = 224, .w = 224));
        CU_ASSERT_PTR_NOT_NULL_FATAL(batch[i]);
        job[i] = hr_submit(dev, s, PICTURES, batch[i],
                           hr_job_params(.wait_for_room = true));
        CU_ASSERT_PTR_NOT_NULL_FATAL(job[i]);
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        CHECK(!hr_job_wait(job[i], HR_FOREVER), "%s", hr_last_error());
        hr_job_release(&job[i]);
        hr_batch_destroy(&batch[i]);
    }
}

TEST_CASE(overlap)
{
    static struct hr__event all[EVENTS];
    int live = faults_now().live, up = 0, down = 0, rounds = 0, n = 0;
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg(320, 240, &seed);
    hr_device dev;

    snprintf(faults.label, sizeof(faults.label), "overlap");
    faults_calm();
    faults.ctl.discrete(true);
    CHECK(!hr_trace_start(NULL), "%s", hr_last_error());
    if (!(dev = faults_open(FAULTS_PATIENCE)))
        abort();
    for (; rounds < 20 && !(up && down); rounds++) {
        run_jobs(dev, &b);
        n = device_events(all);
        up = beside(all, n, "upload", 1);
        down = beside(all, n, "download", -1);
    }
    CHECK(up && down, "%d uploads and %d downloads beside kernels, %d events",
          up, down, n);
    printf("\n  %d uploads, %d downloads beside kernels, %d rounds ", up, down,
           rounds);
    hr_trace_stop();
    free(b.data);
    faults_close(&dev, live);
    faults.ctl.discrete(false);
}

FAULTS_MAIN
