// SPDX-License-Identifier: Apache-2.0
// What crosses the bus and how long kernels run, for tools/gpu_report.sh:
// HEADRACE_OPENCL_LIBRARY names this library, which lets the real one do
// everything and counts. At the end it writes one JSON object to the file that
// HEADRACE_TRACE names. Queues are opened with profiling, which costs a little:
// do not take rates from the same run. HEADRACE_TRACE_DISCRETE: every device
// says that its memory is its own, so that bytes move where they need not.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_KERNELS = 32 };

static struct {
    pthread_mutex_t lock;
    uint64_t up, down;  // bytes
    int n;
    struct {
        cl_kernel handle;
        char name[64];
        uint64_t launches, timed, ns;
    } kernels[MAX_KERNELS];
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

EXPORT cl_command_queue
clCreateCommandQueue(cl_context context, cl_device_id device,
                     cl_command_queue_properties properties, cl_int *err)
{
    REAL(clCreateCommandQueue)
    return real_clCreateCommandQueue(context, device,
                                     properties | CL_QUEUE_PROFILING_ENABLE,
                                     err);
}

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

static int find(cl_kernel kernel)
{
    int found = -1;

    pthread_mutex_lock(&t.lock);
    for (int i = 0; i < t.n; i++)
        if (t.kernels[i].handle == kernel)
            found = i;
    if (found >= 0)
        t.kernels[found].launches++;
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
    int i = find(kernel);
    cl_int err;

    REAL(clEnqueueNDRangeKernel)
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
    fprintf(f, "{\"up_bytes\": %llu, \"down_bytes\": %llu, \"kernels\": {",
            (unsigned long long)t.up, (unsigned long long)t.down);
    for (int i = 0; i < t.n; i++)
        fprintf(f,
                "%s\"%s\": {\"launches\": %llu, \"timed\": %llu, "
                "\"ns\": %llu}",
                i ? ", " : "", t.kernels[i].name,
                (unsigned long long)t.kernels[i].launches,
                (unsigned long long)t.kernels[i].timed,
                (unsigned long long)t.kernels[i].ns);
    fprintf(f, "}}\n");
    pthread_mutex_unlock(&t.lock);
    fclose(f);
}
