// SPDX-License-Identifier: Apache-2.0
// cl_khr_external_memory with dma-bufs over a driver that has it not: what is
// imported is mapped and becomes a buffer in the host's memory. The descriptor
// is ours from then on, as the extension says.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault_calls.h"

static const char words[] =
    " cl_khr_external_memory cl_khr_external_memory_dma_buf";

enum { MOST = 128 };

struct object {
    cl_mem mem;  // NULL: this one is free
    int fd;
    void *map;
    size_t size;
    cl_command_queue queue;  // that it is acquired on
};

static struct {
    pthread_mutex_t lock;
    bool on;
    struct object of[MOST];
} x = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fault_external(bool on)
{
    pthread_mutex_lock(&x.lock);
    x.on = on;
    pthread_mutex_unlock(&x.lock);
}

static bool is_on(void)
{
    bool on;

    pthread_mutex_lock(&x.lock);
    on = x.on;
    pthread_mutex_unlock(&x.lock);
    return on;
}

cl_int fault_extensions(cl_device_id id, size_t size, void *value, size_t *used)
{
    char more[FAULT_WORDS + sizeof(words)];
    size_t own = 0, n;
    cl_int code;

    fault_sharing_words(more);
    if (is_on())
        strcat(more, words);
    code = fault_real.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 0, NULL, &own);
    n = own + strlen(more);
    if (used)
        *used = n;
    if (code || !value)
        return code;
    if (size < n)
        return CL_INVALID_VALUE;
    code = fault_real.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, size, value,
                                      NULL);
    if (!code)
        strcat(value, more);
    return code;
}

// ---- Objects -----------------------------------------------------------------

// x.lock; NULL finds a free one.
static struct object *find(cl_mem mem)
{
    for (int i = 0; i < MOST; i++)
        if (x.of[i].mem == mem)
            return &x.of[i];
    return NULL;
}

// The driver has let go of it, and nothing reads it any more.
static void CL_CALLBACK on_destroyed(cl_mem mem, void *arg)
{
    struct object *o = arg, was;

    (void)mem;
    pthread_mutex_lock(&x.lock);
    was = *o;
    *o = (struct object){0};
    pthread_mutex_unlock(&x.lock);
    munmap(was.map, was.size);
    // Somebody else has closed what was given to us.
    fault_note(close(was.fd) != 0, -1, was.queue ? -1 : 0);
}

static cl_mem make(cl_context context, int fd, cl_mem_flags flags, size_t size,
                   cl_int *err)
{
    cl_int (*when_destroyed)(cl_mem, void(CL_CALLBACK *)(cl_mem, void *),
                             void *);
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    struct object *o;
    struct stat st;
    void *map, *entry;
    cl_mem mem;

    entry = library ? dlsym(library, "clSetMemObjectDestructorCallback") : NULL;
    memcpy(&when_destroyed, &entry, sizeof(entry));
    *err = CL_INVALID_VALUE;
    if (!entry || fstat(fd, &st) || (size_t)st.st_size < size)
        return NULL;
    map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    mem = fault_real.clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, size,
                                    map, err);
    if (!mem) {
        munmap(map, size);
        return NULL;
    }
    pthread_mutex_lock(&x.lock);
    if (!(o = find(NULL)))
        abort();
    *o = (struct object){.mem = mem, .fd = fd, .map = map, .size = size};
    pthread_mutex_unlock(&x.lock);
    when_destroyed(mem, on_destroyed, o);
    fault_note(0, 1, 0);
    return mem;
}

EXPORT cl_mem CL_API_CALL clCreateBufferWithProperties(
    cl_context context, const cl_ulong *properties, cl_mem_flags flags,
    size_t size, void *host, cl_int *err);
EXPORT cl_mem CL_API_CALL clCreateBufferWithProperties(
    cl_context context, const cl_ulong *properties, cl_mem_flags flags,
    size_t size, void *host, cl_int *err)
{
    struct fault_rule rule = fault_begin(FAULT_clCreateBufferWithProperties);
    cl_int code = rule.code;
    cl_mem mem = NULL;

    if (!code &&
        (!is_on() || host || !fault_use(context, false) || !properties ||
         properties[0] != CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR ||
         properties[2])) {
        fault_note(1, 0, 0);
        code = CL_INVALID_VALUE;
    }
    if (!code)
        mem = make(context, (int)properties[1], flags, size, &code);
    if (mem)
        fault_made(mem);
    fault_finish(&rule);
    *err = code;
    return mem;
}

// ---- Commands ------------------------------------------------------------------

// The next state of each object; those that must not get there are counted.
static int move(cl_uint n, const cl_mem *mems, cl_command_queue from,
                cl_command_queue to)
{
    int wrong = 0;

    pthread_mutex_lock(&x.lock);
    for (cl_uint i = 0; i < n; i++) {
        struct object *o = mems[i] ? find(mems[i]) : NULL;

        if (!o || o->queue != from)
            wrong++;
        else
            o->queue = to;
    }
    pthread_mutex_unlock(&x.lock);
    fault_note(wrong, 0, (to ? 1 : -1) * ((int)n - wrong));
    return wrong;
}

cl_int fault_marker(cl_command_queue queue, cl_uint n, const cl_event *wait,
                    cl_event *event)
{
    cl_int (*mark)(cl_command_queue, cl_uint, const cl_event *, cl_event *);
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "clEnqueueMarkerWithWaitList")
                          : NULL;
    cl_int code;

    memcpy(&mark, &entry, sizeof(entry));
    if (!entry)
        return CL_INVALID_OPERATION;
    if (!event)
        return CL_SUCCESS;
    code = mark(queue, n, wait, event);
    if (!code)
        fault_made(*event);
    return code;
}

static cl_int CL_API_CALL acquire(cl_command_queue queue, cl_uint n,
                                  const cl_mem *mems, cl_uint num_wait,
                                  const cl_event *wait, cl_event *event)
{
    struct fault_rule rule = fault_begin(
        FAULT_clEnqueueAcquireExternalMemObjectsKHR);

    if (!rule.code && (!fault_use(queue, false) || move(n, mems, NULL, queue)))
        rule.code = CL_INVALID_MEM_OBJECT;
    if (!rule.code)
        rule.code = fault_marker(queue, num_wait, wait, event);
    fault_finish(&rule);
    return rule.code;
}

// One that fails counts as having done so.
static cl_int CL_API_CALL release(cl_command_queue queue, cl_uint n,
                                  const cl_mem *mems, cl_uint num_wait,
                                  const cl_event *wait, cl_event *event)
{
    struct fault_rule rule = fault_begin(
        FAULT_clEnqueueReleaseExternalMemObjectsKHR);

    if (!fault_use(queue, false) || move(n, mems, queue, NULL))
        rule.code = CL_INVALID_MEM_OBJECT;
    if (!rule.code)
        rule.code = fault_marker(queue, num_wait, wait, event);
    fault_finish(&rule);
    return rule.code;
}

CALL cl_int clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem from,
                                    cl_mem to, const size_t *from_at,
                                    const size_t *to_at, const size_t *region,
                                    size_t from_pitch, size_t from_slice,
                                    size_t to_pitch, size_t to_slice, cl_uint n,
                                    const cl_event *wait, cl_event *event)
{
    struct fault_rule rule = fault_begin(FAULT_clEnqueueCopyBufferRect);
    const struct object *o;

    pthread_mutex_lock(&x.lock);
    o = from ? find(from) : NULL;
    if (o && o->queue != queue)
        rule.code = CL_INVALID_OPERATION;  // not acquired
    pthread_mutex_unlock(&x.lock);
    fault_note(o && rule.code == CL_INVALID_OPERATION, 0, 0);
    if (!rule.code && !(fault_use(queue, false) && fault_use(from, false) &&
                        fault_use(to, false)))
        rule.code = CL_INVALID_MEM_OBJECT;
    if (!rule.code)
        rule.code = fault_real.clEnqueueCopyBufferRect(
            queue, from, to, from_at, to_at, region, from_pitch, from_slice,
            to_pitch, to_slice, n, wait, event);
    if (!rule.code && event)
        fault_made(*event);
    fault_finish(&rule);
    return rule.code;
}

CALL void *clGetExtensionFunctionAddressForPlatform(cl_platform_id id,
                                                    const char *name)
{
    cl_int(CL_API_CALL * fn)(cl_command_queue, cl_uint, const cl_mem *, cl_uint,
                             const cl_event *, cl_event *) = NULL;
    void *entry = NULL;

#if HR_FAULT_SHARING
    if ((entry = fault_sharing_entry(name)))
        return entry;
#endif
    if (is_on() && !strcmp(name, "clEnqueueAcquireExternalMemObjectsKHR"))
        fn = acquire;
    if (is_on() && !strcmp(name, "clEnqueueReleaseExternalMemObjectsKHR"))
        fn = release;
    memcpy(&entry, &fn, sizeof(fn));
    return fn ? entry
              : fault_real.clGetExtensionFunctionAddressForPlatform(id, name);
}
