// SPDX-License-Identifier: Apache-2.0
#include "opencl_faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>

struct faults faults;
static const char *root;
// Objects that are alive while no device is open; -1: unknown, because objects
// left behind on purpose may still go.
static int left;

const char *const faults_names[FAULT_ENTRIES] = {
#define X(name) #name,
    OCL_ENTRY_POINTS(X)
#undef X
};

// ---- What may go wrong: as the OpenCL 1.2 reference pages name it ---------

#define ALWAYS CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
#define ENQUEUE                                                         \
    ALWAYS, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_INVALID_MEM_OBJECT,    \
        CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_VALUE, \
        CL_INVALID_EVENT_WAIT_LIST
#define TRANSFER                              \
    ENQUEUE, CL_MISALIGNED_SUB_BUFFER_OFFSET, \
        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CL_INVALID_OPERATION

const cl_int faults_codes[FAULT_ENTRIES][FAULTS_CODES] = {
    [FAULT_clGetPlatformIDs] = {CL_OUT_OF_HOST_MEMORY, CL_INVALID_VALUE,
                                -1001},  // CL_PLATFORM_NOT_FOUND_KHR
    [FAULT_clGetPlatformInfo] = {CL_OUT_OF_HOST_MEMORY, CL_INVALID_PLATFORM,
                                 CL_INVALID_VALUE},
    [FAULT_clGetDeviceIDs] = {ALWAYS, CL_DEVICE_NOT_FOUND, CL_INVALID_PLATFORM,
                              CL_INVALID_DEVICE_TYPE, CL_INVALID_VALUE},
    [FAULT_clGetDeviceInfo] = {ALWAYS, CL_INVALID_DEVICE, CL_INVALID_VALUE},
    [FAULT_clCreateContext] = {ALWAYS, CL_DEVICE_NOT_AVAILABLE,
                               CL_INVALID_PLATFORM, CL_INVALID_PROPERTY,
                               CL_INVALID_VALUE, CL_INVALID_DEVICE},
    [FAULT_clReleaseContext] = {ALWAYS, CL_INVALID_CONTEXT},
    [FAULT_clCreateCommandQueue] = {ALWAYS, CL_INVALID_CONTEXT,
                                    CL_INVALID_DEVICE, CL_INVALID_VALUE,
                                    CL_INVALID_QUEUE_PROPERTIES},
    [FAULT_clReleaseCommandQueue] = {ALWAYS, CL_INVALID_COMMAND_QUEUE},
    [FAULT_clCreateBuffer] = {ALWAYS, CL_MEM_OBJECT_ALLOCATION_FAILURE,
                              CL_INVALID_CONTEXT, CL_INVALID_VALUE,
                              CL_INVALID_BUFFER_SIZE, CL_INVALID_HOST_PTR},
    [FAULT_clReleaseMemObject] = {ALWAYS, CL_INVALID_MEM_OBJECT},
    [FAULT_clCreateProgramWithSource] = {ALWAYS, CL_INVALID_CONTEXT,
                                         CL_INVALID_VALUE},
    [FAULT_clCreateProgramWithBinary] = {ALWAYS, CL_INVALID_BINARY,
                                         CL_INVALID_CONTEXT, CL_INVALID_VALUE,
                                         CL_INVALID_DEVICE},
    [FAULT_clBuildProgram] = {ALWAYS, CL_BUILD_PROGRAM_FAILURE,
                              CL_COMPILER_NOT_AVAILABLE, CL_INVALID_PROGRAM,
                              CL_INVALID_VALUE, CL_INVALID_DEVICE,
                              CL_INVALID_BINARY, CL_INVALID_BUILD_OPTIONS,
                              CL_INVALID_OPERATION},
    [FAULT_clReleaseProgram] = {ALWAYS, CL_INVALID_PROGRAM},
    [FAULT_clGetProgramInfo] = {ALWAYS, CL_INVALID_VALUE, CL_INVALID_PROGRAM,
                                CL_INVALID_PROGRAM_EXECUTABLE},
    [FAULT_clGetProgramBuildInfo] = {ALWAYS, CL_INVALID_DEVICE,
                                     CL_INVALID_VALUE, CL_INVALID_PROGRAM},
    [FAULT_clCreateKernel] = {ALWAYS, CL_INVALID_PROGRAM,
                              CL_INVALID_PROGRAM_EXECUTABLE,
                              CL_INVALID_KERNEL_NAME,
                              CL_INVALID_KERNEL_DEFINITION, CL_INVALID_VALUE},
    [FAULT_clReleaseKernel] = {ALWAYS, CL_INVALID_KERNEL},
    [FAULT_clSetKernelArg] = {ALWAYS, CL_INVALID_KERNEL, CL_INVALID_ARG_INDEX,
                              CL_INVALID_ARG_VALUE, CL_INVALID_MEM_OBJECT,
                              CL_INVALID_SAMPLER, CL_INVALID_ARG_SIZE},
    [FAULT_clEnqueueNDRangeKernel] = {ENQUEUE, CL_INVALID_PROGRAM_EXECUTABLE,
                                      CL_INVALID_KERNEL, CL_INVALID_KERNEL_ARGS,
                                      CL_INVALID_WORK_DIMENSION,
                                      CL_INVALID_GLOBAL_WORK_SIZE,
                                      CL_INVALID_GLOBAL_OFFSET,
                                      CL_INVALID_WORK_GROUP_SIZE,
                                      CL_INVALID_WORK_ITEM_SIZE,
                                      CL_MISALIGNED_SUB_BUFFER_OFFSET},
    [FAULT_clEnqueueWriteBuffer] = {TRANSFER},
    [FAULT_clEnqueueReadBuffer] = {TRANSFER},
    [FAULT_clEnqueueMapBuffer] = {TRANSFER, CL_MAP_FAILURE},
    [FAULT_clEnqueueUnmapMemObject] = {ENQUEUE},
    [FAULT_clReleaseEvent] = {ALWAYS, CL_INVALID_EVENT},
    [FAULT_clSetEventCallback] = {ALWAYS, CL_INVALID_EVENT, CL_INVALID_VALUE},
    [FAULT_clGetEventInfo] = {ALWAYS, CL_INVALID_EVENT, CL_INVALID_VALUE},
    [FAULT_clGetEventProfilingInfo] = {ALWAYS, CL_PROFILING_INFO_NOT_AVAILABLE,
                                       CL_INVALID_VALUE, CL_INVALID_EVENT},
    [FAULT_clFlush] = {ALWAYS, CL_INVALID_COMMAND_QUEUE},
    [FAULT_clFinish] = {ALWAYS, CL_INVALID_COMMAND_QUEUE},
};

int faults_num_codes(int entry)
{
    int n = 0;

    while (n < FAULTS_CODES && faults_codes[entry][n])
        n++;
    return n;
}

// ---- Steps of a case ------------------------------------------------------

struct fault_counts faults_now(void)
{
    struct fault_counts c;

    faults.ctl.counts(&c);
    return c;
}

// From call first on: that one, or all.
struct fault_rule faults_rule(int entry, int first, bool ever,
                              enum fault_action action, cl_int code)
{
    return (struct fault_rule){(enum fault_entry)entry, first, ever ? 0 : first,
                               action, code};
}

void faults_calm(void)
{
    faults.ctl.set(NULL, 0);
}

void faults_set(int entry, int first, bool ever, cl_int code)
{
    struct fault_rule r = faults_rule(entry, first, ever, FAULT_FAIL, code);

    snprintf(faults.label, sizeof(faults.label), "%s, call %d%s, code %d",
             entry == FAULT_ANY ? "anything" : faults_names[entry], first,
             ever ? " and on" : "", code);
    faults.may_leak = entry == FAULT_ANY || entry == FAULT_clFinish;
    faults.ctl.set(&r, 1);
}

// True if a rule of the script was hit; such a case counts.
bool faults_hit(int entry)
{
    if (!faults_now().hits)
        return false;
    if (entry < FAULT_ENTRIES)
        faults.hits[entry]++;
    faults.cases++;
    return true;
}

hr_device faults_open(int64_t deadline)
{
    return hr_device_open("opencl", hr_device_params(.threads = 2,
                                                     .deadline_ns = deadline));
}

// One job over the scene; how many of its samples the device made.
int faults_run(int64_t most)
{
    int64_t begin = hr__now();
    struct watched w;
    int on_device = 0;

    faults.why = 0;
    scene_fill(&faults.scene);
    if (!watch_submit(&w, &faults.scene, NULL)) {
        CHECK(false, "%s: refused: %s", faults.label, hr_last_error());
        return -1;
    }
    CHECK(watch_wait(&w) == HR_OK, "%s: %s", faults.label,
          w.job->results[0].message);
    for (int i = 0; i < faults.scene.n; i++) {
        const struct hr_result *r = &w.job->results[i];

        CHECK(r->status == HR_OK && scene_right(&faults.scene, i),
              "%s: sample %d is wrong: %s", faults.label, i, r->message);
        faults.why |= r->why;
        for (int k = 0; k < r->num_spans; k++)
            on_device += !strncmp(r->spans[k].device, "opencl", 6);
    }
    watch_finish(&w);
    CHECK(hr__now() - begin < most, "%s: the job took %.1f s", faults.label,
          (double)(hr__now() - begin) / 1e9);
    return on_device;
}

// No object made since then may be left; but objects of a queue that cannot be
// waited for must be.
void faults_check_objects(int live)
{
    int64_t begin = hr__now();
    int64_t most = faults.may_leak ? SECOND / 5 : 60 * SECOND;
    struct fault_counts c;

    // The last job may hold the device for a moment longer, and then it keeps
    // a new program, which takes a busy machine long.
    while ((c = faults_now()).live != live && hr__now() - begin < most) {
        if (left < 0 && c.live < live)
            break;
        test_sleep(TEST_MS);
    }
    CHECK(c.live == live || (faults.may_leak && c.live > live) ||
              (left < 0 && c.live < live),
          "%s: %d objects leaked", faults.label, c.live - live);
    if (c.live != live)
        left = -1;
    CHECK(!c.misused, "%s: %d dead objects used", faults.label, c.misused);
}

int faults_settled(void)
{
    int live = faults_now().live, same = 0;

    for (int i = 0; i < 1200 && live != left && same < 10; i++) {
        test_sleep(50 * TEST_MS);
        same = left < 0 && live == faults_now().live ? same + 1 : 0;
        live = faults_now().live;
    }
    CHECK(left < 0 || live == left, "%d objects of devices that are closed",
          live - left);
    return live;
}

void faults_close(hr_device *dev, int live)
{
    int64_t begin = hr__now();

    scene_finish(&faults.scene);
    hr_device_close(dev);
    // A driver that still compiles is waited for, up to a minute.
    CHECK(hr__now() - begin < 90 * SECOND, "%s: closing took %.1f s",
          faults.label, (double)(hr__now() - begin) / 1e9);
    faults_check_objects(live);
}

hr_device faults_open_scene(int64_t deadline, enum scene_source source)
{
    hr_device dev;

    faults_calm();
    if (!(dev = faults_open(deadline))) {
        fprintf(stderr, "open: %s\n", hr_last_error());
        abort();
    }
    scene_init(&faults.scene, dev, FAULTS_SAMPLES, source);
    return dev;
}

// Counts the calls that a job makes, once its buffers are there. (On a busy
// machine its pictures come in other batches each time, which may want larger
// ones.)
void faults_count(struct fault_counts *c)
{
    for (int i = 0; i < 3; i++)
        faults_run(SECOND);
    for (int i = 0; i < 20; i++) {
        faults_calm();
        faults_run(SECOND);
        *c = faults_now();
        if (!c->calls[FAULT_clCreateBuffer])
            break;
    }
}

void faults_cache(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    mkdir(path, 0700);
    setenv("XDG_CACHE_HOME", path, 1);
}

// No program in the cache: as at the first time.
void faults_new_cache(void)
{
    static int n;
    char name[16];

    snprintf(name, sizeof(name), "new-%d", n++);
    faults_cache(name);
}

void faults_hang_program(hr_device dev)
{
    struct fault_rule r = faults_rule(FAULT_clGetProgramInfo, 1, false,
                                      FAULT_HANG, 0);
    struct ocl *o = opencl_private(dev);

    faults.ctl.set(&r, 1);
    // It may have been kept by now, if the machine is busy.
    pthread_mutex_lock(&o->guard.lock);
    o->unkept = true;
    pthread_cond_signal(&o->guard.threads[0].wake);
    pthread_mutex_unlock(&o->guard.lock);
    for (int i = 0; i < 6000 && !faults_now().hung; i++)
        test_sleep(10 * TEST_MS);
    CHECK(faults_now().hung, "it does not keep its program");
}

// ---- The program ----------------------------------------------------------

static bool set_up(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "fault_control") : NULL;
    void (*control)(struct fault_control *);

    if (!entry) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    memcpy(&control, &entry, sizeof(control));
    control(&faults.ctl);
    root = test_folder();
    faults_cache("pocl");
    // PoCL's goes by the kernels' text: that of ./dev serves all programs.
    setenv("POCL_CACHE_DIR", getenv("XDG_CACHE_HOME"), 0);
    faults_cache("cache");
    setenv("HEADRACE_OPENCL_LIBRARY", path, 1);
    return true;
}

static int threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

int faults_main(const char *library, int argc, char **argv)
{
    const char *text = getenv("HEADRACE_TEST_LONG");
    hr_device dev;
    int rc, before;

    if (!set_up(library))
        return 1;
    if (!(dev = faults_open(0))) {
        if (!test_is_absent())
            return 1;
        test_not_run(hr_last_error());
        return TEST_NOT_RUN;
    }
    printf("%s: %s\n", dev->name, dev->description);
    hr_device_close(&dev);
    // It may keep a new program first, and the cases count what is alive.
    for (int i = 0; i < 1200 && faults_now().live; i++)
        test_sleep(50 * TEST_MS);
    before = threads();
    faults.all = text && *text && strcmp(text, "0") != 0;
    rc = test_main(argc, argv);
    // The threads that hung are ending. LeakSanitizer, which looks through the
    // stacks of all threads, does not stand one that ends meanwhile.
    for (int i = 0; i < 500 && threads() > before; i++)
        test_sleep(10 * TEST_MS);
    if (!faults.all) {
        snprintf(faults.label, sizeof(faults.label),
                 "%d faults here, every call with every code with ./dev test "
                 "--long",
                 faults.cases);
        test_not_run(faults.label);
    }
    return rc;
}
