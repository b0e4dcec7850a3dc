// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that cross the bus and times kernels, for
// tools/gpu_report.sh: HEADRACE_OPENCL_LIBRARY names this library, which passes
// every call on to the real one and counts. At the end it writes one JSON
// object to the file that HEADRACE_TRACE names, with OpenCL's facts about the
// kernels. Queues are opened with profiling, which costs a little: do not take
// rates from the same run. HEADRACE_TRACE_DISCRETE: every device reports memory
// of its own, so that bytes move where they need not.
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_KERNELS = 32, ROUNDS = 4 };
#define COPY_BYTES ((size_t)64 << 20)

static struct {
    pthread_mutex_t lock;
    uint64_t up, down;  // bytes
    // 10^9 bytes per second, 0 = not known: of memory when the device copies
    // (read and written), and of the bus from and to pinned memory
    double copy_rate, up_rate, down_rate;
    bool measured;
    int n;
    struct {
        cl_kernel handle;
        char name[64];
        uint64_t launches, timed, ns, items;
        // The driver's answers: the most items of a group, and a good divisor
        // of it; items of the group launched; bytes that a group and an item
        // have of their own.
        size_t most, multiple, group;
        cl_ulong local, own;
        bool asked;
    } kernels[MAX_KERNELS];
    cl_uint units, mhz;
    cl_ulong local, cache;  // bytes: of a group, at most; of the memory's cache
} t = {.lock = PTHREAD_MUTEX_INITIALIZER};

// The loader is linked, so that it has what is not here; by its own name it
// gives what is.
static void *real(const char *name)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, name) : NULL;

    if (!entry) {
        fprintf(stderr, "bench_trace: no %s\n", name);
        abort();
    }
    return entry;
}

#define REAL(name)                                   \
    static __typeof__(&name) real_##name;            \
    if (!real_##name) {                              \
        void *entry = real(#name);                   \
        memcpy(&real_##name, &entry, sizeof(entry)); \
    }

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what,
                              size_t size, void *value, size_t *size_out)
{
    static const cl_bool no = CL_FALSE;
    cl_int err;

    REAL(clGetDeviceInfo)
    err = real_clGetDeviceInfo(device, what, size, value, size_out);
    if (!err && what == CL_DEVICE_HOST_UNIFIED_MEMORY && value &&
        size >= sizeof(no) && getenv("HEADRACE_TRACE_DISCRETE"))
        memcpy(value, &no, sizeof(no));
    return err;
}

// ---- What the device could do ---------------------------------------------

// Waits for the event and takes it; 0 if that failed.
static double rate(cl_int err, cl_event event, size_t bytes)
{
    cl_ulong from = 0, to = 0;

    if (err)
        return 0;
    err = clWaitForEvents(1, &event);
    err |= clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START,
                                   sizeof(from), &from, NULL);
    err |= clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(to),
                                   &to, NULL);
    clReleaseEvent(event);
    return !err && to > from ? (double)bytes / (double)(to - from) : 0;
}

static void best(double *of, double x)
{
    *of = x > *of ? x : *of;
}

static void measure_copies(cl_command_queue queue, cl_mem mem[2], void *pinned)
{
    cl_event event;
    cl_int err;

    REAL(clEnqueueWriteBuffer)
    REAL(clEnqueueReadBuffer)
    for (int i = 0; i < ROUNDS; i++) {
        err = clEnqueueCopyBuffer(queue, mem[0], mem[1], 0, 0, COPY_BYTES, 0,
                                  NULL, &event);
        best(&t.copy_rate, rate(err, event, 2 * COPY_BYTES));
        if (!pinned)
            continue;
        err = real_clEnqueueWriteBuffer(queue, mem[0], CL_FALSE, 0, COPY_BYTES,
                                        pinned, 0, NULL, &event);
        best(&t.up_rate, rate(err, event, COPY_BYTES));
        err = real_clEnqueueReadBuffer(queue, mem[0], CL_FALSE, 0, COPY_BYTES,
                                       pinned, 0, NULL, &event);
        best(&t.down_rate, rate(err, event, COPY_BYTES));
    }
}

// Once, while the device is opened and nothing else runs on it.
static void measure(cl_context context, cl_command_queue queue)
{
    cl_mem mem[3];
    void *pinned = NULL;
    cl_int err, bad = 0;

    for (int i = 0; i < 3; i++) {
        mem[i] = clCreateBuffer(context,
                                CL_MEM_READ_WRITE |
                                    (i == 2 ? CL_MEM_ALLOC_HOST_PTR : 0),
                                COPY_BYTES, NULL, &err);
        bad |= err;
    }
    if (!bad)
        pinned = clEnqueueMapBuffer(queue, mem[2], CL_TRUE,
                                    CL_MAP_READ | CL_MAP_WRITE, 0, COPY_BYTES,
                                    0, NULL, NULL, &err);
    if (!bad)
        measure_copies(queue, mem, err ? NULL : pinned);
    if (pinned)
        clEnqueueUnmapMemObject(queue, mem[2], pinned, 0, NULL, NULL);
    clFinish(queue);
    for (int i = 0; i < 3; i++)
        if (mem[i])
            clReleaseMemObject(mem[i]);
}

EXPORT cl_command_queue
clCreateCommandQueue(cl_context context, cl_device_id device,
                     cl_command_queue_properties properties, cl_int *err)
{
    cl_command_queue queue;
    bool first;

    REAL(clCreateCommandQueue)
    queue = real_clCreateCommandQueue(context, device,
                                      properties | CL_QUEUE_PROFILING_ENABLE,
                                      err);
    pthread_mutex_lock(&t.lock);
    first = queue && !t.measured;
    t.measured |= first;
    pthread_mutex_unlock(&t.lock);
    if (first)
        measure(context, queue);
    return queue;
}

// ---- What it does ---------------------------------------------------------

EXPORT cl_kernel clCreateKernel(cl_program program, const char *name,
                                cl_int *err)
{
    cl_kernel kernel;

    REAL(clCreateKernel)
    kernel = real_clCreateKernel(program, name, err);
    pthread_mutex_lock(&t.lock);
    for (int i = 0; kernel && i < MAX_KERNELS; i++) {
        if (i < t.n && strcmp(t.kernels[i].name, name))
            continue;
        snprintf(t.kernels[i].name, sizeof(t.kernels[i].name), "%s", name);
        t.kernels[i].handle = kernel;
        t.n = i < t.n ? t.n : i + 1;
        break;
    }
    pthread_mutex_unlock(&t.lock);
    return kernel;
}

static void CL_CALLBACK ended(cl_event event, cl_int status, void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;
    cl_ulong from = 0, to = 0;

    if (status == CL_COMPLETE &&
        !clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START,
                                 sizeof(from), &from, NULL) &&
        !clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(to),
                                 &to, NULL)) {
        pthread_mutex_lock(&t.lock);
        t.kernels[i].ns += to - from;
        t.kernels[i].timed++;
        pthread_mutex_unlock(&t.lock);
    }
    clReleaseEvent(event);
}

static void ask_device(cl_device_id d)
{
    clGetDeviceInfo(d, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(t.units), &t.units,
                    NULL);
    clGetDeviceInfo(d, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof(t.mhz), &t.mhz,
                    NULL);
    clGetDeviceInfo(d, CL_DEVICE_LOCAL_MEM_SIZE, sizeof(t.local), &t.local,
                    NULL);
    clGetDeviceInfo(d, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof(t.cache),
                    &t.cache, NULL);
}

// As far as OpenCL knows what decides how many groups run at once. Locked
static void ask_kernel(cl_command_queue queue, int i, cl_uint dims,
                       const size_t *local)
{
    cl_kernel k = t.kernels[i].handle;
    cl_device_id d;

    t.kernels[i].asked = true;
    if (clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(d), &d, NULL))
        return;
    if (!t.units)
        ask_device(d);
    t.kernels[i].group = local ? 1 : 0;
    for (cl_uint n = 0; local && n < dims; n++)
        t.kernels[i].group *= local[n];
#define ASK(what, to) \
    clGetKernelWorkGroupInfo(k, d, what, sizeof(to), &(to), NULL)
    ASK(CL_KERNEL_WORK_GROUP_SIZE, t.kernels[i].most);
    ASK(CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, t.kernels[i].multiple);
    ASK(CL_KERNEL_LOCAL_MEM_SIZE, t.kernels[i].local);
    ASK(CL_KERNEL_PRIVATE_MEM_SIZE, t.kernels[i].own);
#undef ASK
}

static int find(cl_command_queue queue, cl_kernel kernel, size_t items,
                cl_uint dims, const size_t *local)
{
    int found = -1;

    pthread_mutex_lock(&t.lock);
    for (int i = 0; i < t.n; i++)
        if (t.kernels[i].handle == kernel)
            found = i;
    if (found >= 0) {
        t.kernels[found].launches++;
        t.kernels[found].items += items;
        if (!t.kernels[found].asked)
            ask_kernel(queue, found, dims, local);
    }
    pthread_mutex_unlock(&t.lock);
    return found;
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                     cl_uint dims, const size_t *offset,
                                     const size_t *global, const size_t *local,
                                     cl_uint num_events, const cl_event *events,
                                     cl_event *event)
{
    cl_event own = NULL;
    size_t items = 1;
    cl_int err;
    int i;

    REAL(clEnqueueNDRangeKernel)
    for (cl_uint d = 0; d < dims; d++)
        items *= global[d];
    i = find(queue, kernel, items, dims, local);
    err = real_clEnqueueNDRangeKernel(queue, kernel, dims, offset, global,
                                      local, num_events, events, &own);
    if (err)
        return err;
    if (event) {
        clRetainEvent(own);
        *event = own;
    }
    if (i < 0 ||
        clSetEventCallback(own, CL_COMPLETE, ended, (void *)(uintptr_t)i))
        clReleaseEvent(own);
    return err;
}

static void add(uint64_t *to, size_t bytes)
{
    pthread_mutex_lock(&t.lock);
    *to += bytes;
    pthread_mutex_unlock(&t.lock);
}

EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem,
                                   cl_bool blocking, size_t offset, size_t size,
                                   const void *from, cl_uint num_events,
                                   const cl_event *events, cl_event *event)
{
    REAL(clEnqueueWriteBuffer)
    add(&t.up, size);
    return real_clEnqueueWriteBuffer(queue, mem, blocking, offset, size, from,
                                     num_events, events, event);
}

EXPORT cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem,
                                  cl_bool blocking, size_t offset, size_t size,
                                  void *to, cl_uint num_events,
                                  const cl_event *events, cl_event *event)
{
    REAL(clEnqueueReadBuffer)
    add(&t.down, size);
    return real_clEnqueueReadBuffer(queue, mem, blocking, offset, size, to,
                                    num_events, events, event);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("HEADRACE_TRACE");
    FILE *f = path ? fopen(path, "w") : NULL;

    if (!f)
        return;
    pthread_mutex_lock(&t.lock);
    fprintf(f,
            "{\"up_bytes\": %llu, \"down_bytes\": %llu, "
            "\"copy_gbps\": %.3f, \"up_gbps\": %.3f, \"down_gbps\": %.3f, "
            "\"units\": %u, \"mhz\": %u, \"local_bytes\": %llu, "
            "\"cache_bytes\": %llu, \"kernels\": {",
            (unsigned long long)t.up, (unsigned long long)t.down, t.copy_rate,
            t.up_rate, t.down_rate, (unsigned)t.units, (unsigned)t.mhz,
            (unsigned long long)t.local, (unsigned long long)t.cache);
    for (int i = 0; i < t.n; i++)
        fprintf(f,
                "%s\"%s\": {\"launches\": %llu, \"timed\": %llu, "
                "\"ns\": %llu, \"items\": %llu, \"most\": %zu, "
                "\"multiple\": %zu, \"group\": %zu, \"local\": %llu, "
                "\"private\": %llu}",
                i ? ", " : "", t.kernels[i].name,
                (unsigned long long)t.kernels[i].launches,
                (unsigned long long)t.kernels[i].timed,
                (unsigned long long)t.kernels[i].ns,
                (unsigned long long)t.kernels[i].items, t.kernels[i].most,
                t.kernels[i].multiple, t.kernels[i].group,
                (unsigned long long)t.kernels[i].local,
                (unsigned long long)t.kernels[i].own);
    fprintf(f, "}}\n");
    pthread_mutex_unlock(&t.lock);
    fclose(f);
}
