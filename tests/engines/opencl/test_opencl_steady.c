// SPDX-License-Identifier: Apache-2.0
// The OpenCL engine over fault_opencl.c, which counts its calls: what it does
// not do while all is well, batch after batch; and where payloads lie in
// memory that the device can fetch.
#include <stdlib.h>
#include <string.h>

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
    dev = faults_open_scene(0, SCENE_MIXED);
    unsetenv("HEADRACE_OPENCL_ENTROPY");
    faults.ctl.mark_thread();
    // A batch gets its buffers when it is first needed, which may be late; there
    // are few batches, so one of these rounds finds them all there.
    for (int round = 0; round < 6; round++) {
        faults_calm();
        for (int i = 0; i < 10; i++)
            CHECK(faults_run(5 * SECOND) > 0, "the device made nothing");
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

static void no_faults(void)
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

// What the last task and batch held goes a moment after the job has ended.
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
static void pinned_payloads(void)
{
    int live = faults_now().live, holders, taken = 0;
    static void *all[OCL_CHUNKS * 64];
    hr_device dev;
    struct ocl *o;

    snprintf(faults.label, sizeof(faults.label), "pinned payloads");
    faults.ctl.discrete(true);
    dev = faults_open_scene(0, SCENE_BYTES);
    o = opencl_private(dev);
    for (int i = 0; i < 3; i++)
        faults_run(5 * SECOND);
    CHECK(chunks(o, &holders) >= 1, "no payload is pinned");
    faults_calm();
    CHECK(faults_run(5 * SECOND) > 0, "the device made nothing");
    CHECK(o->transfers > 2 * o->batches, "nothing was fetched");
    check_let_go(o, 0);
    // Others have it all.
    for (int round = 0; round < OCL_CHUNKS + 1; round++) {
        while (taken < (int)(sizeof(all) / sizeof(*all)) &&
               (all[taken] = ocl_pinned_alloc(&o->pinned, OCL_CHUNK_BYTES / 2)))
            taken++;
        CHECK(faults_run(5 * SECOND) > 0, "no room: the device made nothing");
    }
    CHECK(chunks(o, &holders) == OCL_CHUNKS, "%d chunks", chunks(o, &holders));
    faults_calm();
    CHECK(faults_run(5 * SECOND) > 0, "no room: the device made nothing");
    // Lost while all of it is held.
    faults_set(FAULT_clEnqueueNDRangeKernel, 1, false, CL_OUT_OF_RESOURCES);
    faults_run(5 * SECOND);
    faults_hit(FAULT_clEnqueueNDRangeKernel);
    faults_calm();
    CHECK(faults_run(5 * SECOND) > 0, "it was not opened again");
    memset(all[0], 0xa5, OCL_CHUNK_BYTES / 2);  // still there
    check_let_go(o, taken);
    while (taken)
        CHECK(ocl_pinned_free(&o->pinned, all[--taken]), "not from there");
    for (int i = 0; i < 3; i++)
        CHECK(faults_run(5 * SECOND) > 0, "let go: the device made nothing");
    check_let_go(o, 0);
    faults_close(&dev, live);
    faults.ctl.discrete(false);
}

int main(int argc, char **argv)
{
    static const struct test_case table[] = {TEST_CASE(no_faults),
                                             TEST_CASE(pinned_payloads)};

    return faults_main("opencl steady", HR_FAULT_LIBRARY, table, 2, argc, argv);
}
