// SPDX-License-Identifier: Apache-2.0
// See null_opencl.h.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "null_opencl.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL EXPORT CL_API_CALL

enum { PAGE = 4096 };
static const unsigned char binary[] = "null";

// Handles: only memory is more than an address.
static char platform, device, context, queue, program, kernel, event;
struct _cl_mem {
    size_t size;
    void *host;
};

static struct {
    _Atomic uint64_t plan_ns, pack_ns, enqueue_ns, callback_ns;
    _Atomic uint64_t batches, launches, writes, reads, up_bytes, down_bytes;
    _Atomic uint64_t locks, contended;
} n;

// ---- Where the driver thread's time goes ------------------------------------

static __thread struct {
    enum { PLAN, PACK, ENQUEUE } phase;
    int64_t since;
} t;

static int64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void charge(_Atomic uint64_t *to)
{
    int64_t now = cpu_ns();

    atomic_fetch_add(to, (uint64_t)(now - t.since));
    t.since = now;
}

static void packs(void)
{
    if (t.phase == PLAN) {
        charge(&n.plan_ns);
        t.phase = PACK;
    }
}

static void enqueues(void)
{
    packs();
    if (t.phase == PACK) {
        charge(&n.pack_ns);
        t.phase = ENQUEUE;
    }
}

// ---- Events -----------------------------------------------------------------

enum { HELD = 16 };  // more than the engine sends
typedef void(CL_CALLBACK *event_notify)(cl_event, cl_int, void *);

// Guards the calls that are due when nothing is held any more.
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool held;
static int num_calls;
static struct {
    event_notify fn;
    void *arg;
} calls[HELD];

static bool call_later(event_notify fn, void *arg)
{
    bool later;

    if (!held)
        return false;
    pthread_mutex_lock(&held_lock);
    if ((later = held)) {
        if (num_calls == HELD)
            abort();
        calls[num_calls].fn = fn;
        calls[num_calls++].arg = arg;
    }
    pthread_mutex_unlock(&held_lock);
    return later;
}

EXPORT void null_hold(bool on)
{
    pthread_mutex_lock(&held_lock);
    held = on;
    for (; !on && num_calls; num_calls--)
        calls[num_calls - 1].fn((cl_event)&event, CL_COMPLETE,
                                calls[num_calls - 1].arg);
    pthread_mutex_unlock(&held_lock);
}

CALL cl_int clSetEventCallback(cl_event e, cl_int type,
                               void(CL_CALLBACK *fn)(cl_event, cl_int, void *),
                               void *arg)
{
    (void)type;
    charge(&n.enqueue_ns);
    // This runs before the event can be known to be complete.
    atomic_fetch_add(&n.batches, 1);
    if (!call_later(fn, arg))
        fn(e, CL_COMPLETE, arg);
    charge(&n.callback_ns);
    t.phase = PLAN;
    return CL_SUCCESS;
}

// The engine asks about events that it was not called back for.
CALL cl_int clGetEventInfo(cl_event e, cl_event_info what, size_t size,
                           void *value, size_t *size_out)
{
    const cl_int state = held ? CL_RUNNING : CL_COMPLETE;

    (void)e, (void)what, (void)size, (void)size_out;
    memcpy(value, &state, sizeof(state));
    if (state != CL_COMPLETE)
        return CL_SUCCESS;
    charge(&n.enqueue_ns);
    atomic_fetch_add(&n.batches, 1);
    charge(&n.callback_ns);
    t.phase = PLAN;
    return CL_SUCCESS;
}

static const char *_Atomic refused;

EXPORT void null_refuse(const char *name)
{
    refused = name;
}

EXPORT void null_counts(struct null_counts *out)
{
    *out = (struct null_counts){n.plan_ns,     n.pack_ns, n.enqueue_ns,
                                n.callback_ns, n.batches, n.launches,
                                n.writes,      n.reads,   n.up_bytes,
                                n.down_bytes,  n.locks,   n.contended};
}

// ---- Platforms and devices --------------------------------------------------

static cl_int answer(const void *from, size_t bytes, size_t size, void *value,
                     size_t *used)
{
    if (used)
        *used = bytes;
    if (value && size < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, from, bytes);
    return CL_SUCCESS;
}

CALL cl_int clGetPlatformIDs(cl_uint max, cl_platform_id *ids, cl_uint *num)
{
    if (max && ids)
        ids[0] = (cl_platform_id)&platform;
    if (num)
        *num = 1;
    return CL_SUCCESS;
}

CALL cl_int clGetPlatformInfo(cl_platform_id id, cl_platform_info what,
                              size_t size, void *value, size_t *used)
{
    (void)id, (void)what;
    return answer("null", sizeof("null"), size, value, used);
}

CALL cl_int clGetDeviceIDs(cl_platform_id id, cl_device_type type, cl_uint max,
                           cl_device_id *ids, cl_uint *num)
{
    (void)id, (void)type;
    if (max && ids)
        ids[0] = (cl_device_id)&device;
    if (num)
        *num = 1;
    return CL_SUCCESS;
}

CALL cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size,
                            void *value, size_t *used)
{
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    const cl_ulong bytes = (cl_ulong)64 << 30;
    const cl_bool no = CL_FALSE, yes = CL_TRUE;
    const cl_device_fp_config doubles = CL_FP_FMA;
    const size_t items = 1024;

    (void)id;
    switch (what) {
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return answer(&doubles, sizeof(doubles), size, value, used);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return answer(&items, sizeof(items), size, value, used);
    case CL_DEVICE_TYPE:
        return answer(&gpu, sizeof(gpu), size, value, used);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return answer(&bytes, sizeof(bytes), size, value, used);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return answer(&no, sizeof(no), size, value, used);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        return answer(&yes, sizeof(yes), size, value, used);
    default:
        return answer("null", sizeof("null"), size, value, used);
    }
}

// ---- Objects ----------------------------------------------------------------

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t,
                                          void *);
typedef void(CL_CALLBACK *program_notify)(cl_program, void *);

static void *made(char *object, cl_int *err)
{
    if (err)
        *err = CL_SUCCESS;
    return object;
}

CALL cl_context clCreateContext(const cl_context_properties *properties,
                                cl_uint num, const cl_device_id *ids,
                                context_notify notify, void *arg, cl_int *err)
{
    (void)properties, (void)num, (void)ids, (void)notify, (void)arg;
    return made(&context, err);
}

CALL cl_command_queue clCreateCommandQueue(cl_context c, cl_device_id id,
                                           cl_command_queue_properties how,
                                           cl_int *err)
{
    (void)c, (void)id, (void)how;
    return made(&queue, err);
}

CALL cl_program clCreateProgramWithSource(cl_context c, cl_uint num,
                                          const char **text,
                                          const size_t *sizes, cl_int *err)
{
    (void)c, (void)num, (void)text, (void)sizes;
    return made(&program, err);
}

CALL cl_program clCreateProgramWithBinary(cl_context c, cl_uint num,
                                          const cl_device_id *ids,
                                          const size_t *sizes,
                                          const unsigned char **data,
                                          cl_int *status, cl_int *err)
{
    (void)c, (void)num, (void)ids, (void)sizes, (void)data;
    if (status)
        *status = CL_SUCCESS;
    return made(&program, err);
}

CALL cl_kernel clCreateKernel(cl_program p, const char *name, cl_int *err)
{
    const char *no = refused;

    (void)p;
    if (no && !strcmp(name, no)) {
        *err = CL_INVALID_KERNEL_NAME;
        return NULL;
    }
    return made(&kernel, err);
}

CALL cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size,
                           void *host, cl_int *err)
{
    cl_mem mem = calloc(1, sizeof(*mem));

    (void)c, (void)flags, (void)host;
    if (mem)
        mem->size = size;
    if (err)
        *err = mem ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return mem;
}

CALL cl_int clReleaseMemObject(cl_mem mem)
{
    free(mem->host);
    free(mem);
    return CL_SUCCESS;
}

#define RELEASE(name, type)       \
    CALL cl_int name(type object) \
    {                             \
        (void)object;             \
        return CL_SUCCESS;        \
    }
RELEASE(clReleaseContext, cl_context)
RELEASE(clReleaseCommandQueue, cl_command_queue)
RELEASE(clReleaseProgram, cl_program)
RELEASE(clReleaseKernel, cl_kernel)
RELEASE(clFlush, cl_command_queue)
RELEASE(clFinish, cl_command_queue)

CALL cl_int clReleaseEvent(cl_event e)
{
    (void)e;
    packs();
    return CL_SUCCESS;
}

// ---- Programs and kernels ---------------------------------------------------

CALL cl_int clBuildProgram(cl_program p, cl_uint num, const cl_device_id *ids,
                           const char *options, program_notify notify,
                           void *arg)
{
    (void)p, (void)num, (void)ids, (void)options, (void)notify, (void)arg;
    return CL_SUCCESS;
}

CALL cl_int clGetProgramInfo(cl_program p, cl_program_info what, size_t size,
                             void *value, size_t *used)
{
    const size_t bytes = sizeof(binary);

    (void)p;
    if (what == CL_PROGRAM_BINARY_SIZES)
        return answer(&bytes, sizeof(bytes), size, value, used);
    if (what == CL_PROGRAM_BINARIES && value)
        memcpy(*(unsigned char **)value, binary, sizeof(binary));
    return what == CL_PROGRAM_BINARIES ? CL_SUCCESS : CL_INVALID_VALUE;
}

CALL cl_int clGetProgramBuildInfo(cl_program p, cl_device_id id,
                                  cl_program_build_info what, size_t size,
                                  void *value, size_t *used)
{
    (void)p, (void)id, (void)what;
    return answer("", 1, size, value, used);
}

CALL cl_int clSetKernelArg(cl_kernel k, cl_uint at, size_t size,
                           const void *value)
{
    (void)k, (void)at, (void)size, (void)value;
    return CL_SUCCESS;
}

CALL cl_int clGetEventProfilingInfo(cl_event e, cl_profiling_info what,
                                    size_t size, void *value, size_t *used)
{
    (void)e, (void)what, (void)size, (void)value, (void)used;
    return CL_PROFILING_INFO_NOT_AVAILABLE;
}

// ---- Commands ---------------------------------------------------------------

static cl_int enqueued(cl_event *e)
{
    enqueues();
    if (e)
        *e = (cl_event)&event;
    return CL_SUCCESS;
}

CALL cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dim,
                                   const size_t *offset, const size_t *global,
                                   const size_t *local, cl_uint num,
                                   const cl_event *wait, cl_event *e)
{
    (void)q, (void)k, (void)dim, (void)offset, (void)global, (void)local;
    (void)num, (void)wait;
    atomic_fetch_add(&n.launches, 1);
    return enqueued(e);
}

CALL cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem mem,
                                 cl_bool blocking, size_t at, size_t size,
                                 const void *from, cl_uint num,
                                 const cl_event *wait, cl_event *e)
{
    (void)q, (void)mem, (void)blocking, (void)at, (void)from, (void)num;
    (void)wait;
    atomic_fetch_add(&n.writes, 1);
    atomic_fetch_add(&n.up_bytes, size);
    return enqueued(e);
}

CALL cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem mem,
                                cl_bool blocking, size_t at, size_t size,
                                void *to, cl_uint num, const cl_event *wait,
                                cl_event *e)
{
    (void)q, (void)mem, (void)blocking, (void)at, (void)to, (void)num;
    (void)wait;
    atomic_fetch_add(&n.reads, 1);
    atomic_fetch_add(&n.down_bytes, size);
    return enqueued(e);
}

// Every page is touched, or reading it would be reading one and the same.
CALL void *clEnqueueMapBuffer(cl_command_queue q, cl_mem mem, cl_bool blocking,
                              cl_map_flags how, size_t at, size_t size,
                              cl_uint num, const cl_event *wait, cl_event *e,
                              cl_int *err)
{
    size_t bytes = (mem->size + PAGE - 1) / PAGE * PAGE;

    (void)q, (void)blocking, (void)how, (void)size, (void)num, (void)wait;
    if (!mem->host && (mem->host = aligned_alloc(PAGE, bytes)))
        memset(mem->host, 0, bytes);
    if (err)
        *err = mem->host ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (e)
        *e = (cl_event)&event;
    return mem->host ? (char *)mem->host + at : NULL;
}

CALL cl_int clEnqueueUnmapMemObject(cl_command_queue q, cl_mem mem,
                                    void *mapped, cl_uint num,
                                    const cl_event *wait, cl_event *e)
{
    (void)q, (void)mem, (void)mapped, (void)num, (void)wait;
    if (e)
        *e = (cl_event)&event;
    return CL_SUCCESS;
}

// ---- Locks ------------------------------------------------------------------

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*_Atomic real)(pthread_mutex_t *);
    int (*lock)(pthread_mutex_t *) = real;

    if (!lock) {
        void *entry = dlsym(RTLD_NEXT, "pthread_mutex_lock");

        memcpy(&lock, &entry, sizeof(entry));
        real = lock;
    }
    atomic_fetch_add_explicit(&n.locks, 1, memory_order_relaxed);
    if (!pthread_mutex_trylock(mutex))
        return 0;
    atomic_fetch_add_explicit(&n.contended, 1, memory_order_relaxed);
    return lock(mutex);
}
