// SPDX-License-Identifier: Apache-2.0
// Every entry point that the engine uses, in three steps: the script's rule for
// the call; the driver; the objects that it made or released.
#include <stdlib.h>
#include <string.h>

#include "fault_calls.h"

#define real fault_real

// ---- What all entry points have in common ---------------------------------

static bool use_events(cl_uint n, const cl_event *events)
{
    for (cl_uint i = 0; i < n; i++)
        if (!fault_use(events[i], false))
            return false;
    return true;
}

static cl_int made_event(cl_int code, const cl_event *event)
{
    if (!code && event)
        fault_made(*event);
    return code;
}

// HEADRACE_FAULT_KERNEL is OLD=NEW, both as long: kernels that are wrong.
static const char **wrong_kernel(cl_uint n, const char **text)
{
    const char *words = getenv("HEADRACE_FAULT_KERNEL");
    size_t length = words ? strcspn(words, "=") : 0;
    static char *kept[16];  // till the next program: the driver has copied it
    char old[128];

    if (!length || length >= sizeof(old) || n > 16 ||
        strlen(words) != 2 * length + 1)
        return text;
    memcpy(old, words, length);
    old[length] = '\0';
    for (cl_uint i = 0; i < n; i++) {
        free(kept[i]);
        kept[i] = strdup(text[i]);
        for (char *at = kept[i]; at && (at = strstr(at, old)); at += length)
            memcpy(at, words + length + 1, length);
    }
    return (const char **)kept;
}

// Calls that return a code. alive: the objects they are given.
#define PLAIN(name, params, args, alive)                    \
    CALL cl_int name params                                 \
    {                                                       \
        struct fault_rule rule = fault_begin(FAULT_##name); \
                                                            \
        if (!rule.code && !(alive))                         \
            rule.code = CL_INVALID_VALUE;                   \
        if (!rule.code)                                     \
            rule.code = real.name args;                     \
        fault_finish(&rule);                                \
        return rule.code;                                   \
    }

// Calls that release an object. One that fails counts as a release: a client
// can do no more than call it.
#define RELEASE(name, type)                                 \
    CALL cl_int name(type object)                           \
    {                                                       \
        struct fault_rule rule = fault_begin(FAULT_##name); \
                                                            \
        if (!fault_use(object, true))                       \
            return CL_INVALID_VALUE;                        \
        if (!rule.code)                                     \
            rule.code = real.name(object);                  \
        fault_finish(&rule);                                \
        return rule.code;                                   \
    }

// Calls that create an object; the last argument of args is &code.
#define CREATE(type, name, params, args, alive)             \
    CALL type name params                                   \
    {                                                       \
        struct fault_rule rule = fault_begin(FAULT_##name); \
        cl_int code = rule.code;                            \
        type object = NULL;                                 \
                                                            \
        if (!code && !(alive))                              \
            code = CL_INVALID_VALUE;                        \
        if (!code)                                          \
            object = real.name args;                        \
        if (!code)                                          \
            fault_made(object);                             \
        fault_finish(&rule);                                \
        if (err)                                            \
            *err = code;                                    \
        return object;                                      \
    }

// Calls that may make an event.
#define ENQUEUE(name, params, args, object)                            \
    CALL cl_int name params                                            \
    {                                                                  \
        struct fault_rule rule = fault_begin(FAULT_##name);            \
                                                                       \
        if (!rule.code &&                                              \
            !(fault_use(queue, false) && fault_use((object), false) && \
              use_events(n, wait)))                                    \
            rule.code = CL_INVALID_EVENT_WAIT_LIST;                    \
        if (!rule.code)                                                \
            rule.code = made_event(real.name args, event);             \
        fault_finish(&rule);                                           \
        return rule.code;                                              \
    }

// ---- Platforms and devices ------------------------------------------------

PLAIN(clGetPlatformIDs, (cl_uint max, cl_platform_id *ids, cl_uint *n),
      (max, ids, n), true)
PLAIN(clGetPlatformInfo,
      (cl_platform_id id, cl_platform_info what, size_t size, void *value,
       size_t *used),
      (id, what, size, value, used), true)
PLAIN(clGetDeviceIDs,
      (cl_platform_id id, cl_device_type type, cl_uint max, cl_device_id *ids,
       cl_uint *n),
      (id, type, max, ids, n), true)

static cl_int device_info(cl_device_id id, cl_device_info what, size_t size,
                          void *value, size_t *used)
{
    cl_int code = real.clGetDeviceInfo(id, what, size, value, used);

    if (!code && value && what == CL_DEVICE_HOST_UNIFIED_MEMORY &&
        fault_discrete())
        memset(value, 0, sizeof(cl_bool));
    return code;
}

CALL cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size,
                            void *value, size_t *used)
{
    struct fault_rule rule = fault_begin(FAULT_clGetDeviceInfo);

    if (!rule.code)
        rule.code = what == CL_DEVICE_EXTENSIONS
                        ? fault_extensions(id, size, value, used)
                        : device_info(id, what, size, value, used);
    fault_finish(&rule);
    return rule.code;
}

// ---- Objects made and released --------------------------------------------

typedef void(CL_CALLBACK *program_notify)(cl_program, void *);

// (Contexts are made and released in fault_sharing.c.)
CREATE(cl_command_queue, clCreateCommandQueue,
       (cl_context context, cl_device_id id,
        cl_command_queue_properties properties, cl_int *err),
       (context, id, properties, &code), fault_use(context, false))
CREATE(cl_mem, clCreateBuffer,
       (cl_context context, cl_mem_flags flags, size_t size, void *host,
        cl_int *err),
       (context, flags, size, host, &code), fault_use(context, false))
CREATE(cl_program, clCreateProgramWithSource,
       (cl_context context, cl_uint n, const char **text, const size_t *sizes,
        cl_int *err),
       (context, n, wrong_kernel(n, text), sizes, &code),
       fault_use(context, false))
CREATE(cl_program, clCreateProgramWithBinary,
       (cl_context context, cl_uint n, const cl_device_id *ids,
        const size_t *sizes, const unsigned char **data, cl_int *status,
        cl_int *err),
       (context, n, ids, sizes, data, status, &code), fault_use(context, false))
CREATE(cl_kernel, clCreateKernel,
       (cl_program program, const char *name, cl_int *err),
       (program, name, &code), fault_use(program, false))

RELEASE(clReleaseCommandQueue, cl_command_queue)
RELEASE(clReleaseMemObject, cl_mem)
RELEASE(clReleaseProgram, cl_program)
RELEASE(clReleaseKernel, cl_kernel)
RELEASE(clReleaseEvent, cl_event)

// ---- Programs and kernels -------------------------------------------------

PLAIN(clBuildProgram,
      (cl_program program, cl_uint n, const cl_device_id *ids,
       const char *options, program_notify notify, void *arg),
      (program, n, ids, options, notify, arg), fault_use(program, false))
PLAIN(clGetProgramInfo,
      (cl_program program, cl_program_info what, size_t size, void *value,
       size_t *used),
      (program, what, size, value, used), fault_use(program, false))
PLAIN(clGetEventInfo,
      (cl_event event, cl_event_info what, size_t size, void *value,
       size_t *used),
      (event, what, size, value, used), fault_use(event, false))
PLAIN(clGetEventProfilingInfo,
      (cl_event event, cl_profiling_info what, size_t size, void *value,
       size_t *used),
      (event, what, size, value, used), fault_use(event, false))
PLAIN(clGetProgramBuildInfo,
      (cl_program program, cl_device_id id, cl_program_build_info what,
       size_t size, void *value, size_t *used),
      (program, id, what, size, value, used), fault_use(program, false))
PLAIN(clSetKernelArg,
      (cl_kernel kernel, cl_uint at, size_t size, const void *value),
      (kernel, at, size, value), fault_use(kernel, false))

// ---- Queues ---------------------------------------------------------------

PLAIN(clFlush, (cl_command_queue queue), (queue), fault_use(queue, false))
PLAIN(clFinish, (cl_command_queue queue), (queue), fault_use(queue, false))

ENQUEUE(clEnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dim,
         const size_t *offset, const size_t *global, const size_t *local,
         cl_uint n, const cl_event *wait, cl_event *event),
        ((fault_note_launch(dim, global, local), queue), kernel, dim, offset,
         global, local, n, wait, event),
        kernel)
ENQUEUE(clEnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t at,
         size_t size, const void *from, cl_uint n, const cl_event *wait,
         cl_event *event),
        (queue, mem, (fault_note_blocking(blocking), blocking), at, size, from,
         n, wait, event),
        mem)
ENQUEUE(clEnqueueReadBuffer,
        (cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t at,
         size_t size, void *to, cl_uint n, const cl_event *wait,
         cl_event *event),
        (queue, mem, (fault_note_blocking(blocking), blocking), at, size, to, n,
         wait, event),
        mem)
ENQUEUE(clEnqueueUnmapMemObject,
        (cl_command_queue queue, cl_mem mem, void *mapped, cl_uint n,
         const cl_event *wait, cl_event *event),
        (queue, mem, mapped, n, wait, event), mem)

CALL void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem,
                              cl_bool blocking, cl_map_flags how, size_t at,
                              size_t size, cl_uint n, const cl_event *wait,
                              cl_event *event, cl_int *err)
{
    struct fault_rule rule = fault_begin(FAULT_clEnqueueMapBuffer);
    cl_int code = rule.code;
    void *to = NULL;

    fault_note_blocking(blocking);
    if (!code && !(fault_use(queue, false) && fault_use(mem, false) &&
                   use_events(n, wait)))
        code = CL_INVALID_EVENT_WAIT_LIST;
    if (!code)
        to = real.clEnqueueMapBuffer(queue, mem, blocking, how, at, size, n,
                                     wait, event, &code);
    made_event(code || !to ? CL_MAP_FAILURE : code, event);
    fault_finish(&rule);
    if (err)
        *err = code;
    return to;
}

// ---- Callbacks ------------------------------------------------------------

struct callback {
    void(CL_CALLBACK *fn)(cl_event, cl_int, void *);
    void *arg;
    cl_event event;
    struct fault_rule rule;
};

static void *call_late(void *arg)
{
    struct callback *c = arg;

    fault_hang_now();
    c->fn(c->event, CL_COMPLETE, c->arg);
    free(c);
    return NULL;
}

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *arg)
{
    struct callback *c = arg;
    pthread_t thread;

    c->event = event;
    if (c->rule.action == FAULT_LATE &&
        !pthread_create(&thread, NULL, call_late, c)) {
        pthread_detach(thread);
        return;
    }
    if (c->rule.action == FAULT_EVENT)
        status = c->rule.code;
    if (c->rule.action != FAULT_SILENT)
        c->fn(event, status, c->arg);
    free(c);
}

CALL cl_int clSetEventCallback(cl_event event, cl_int type,
                               void(CL_CALLBACK *fn)(cl_event, cl_int, void *),
                               void *arg)
{
    struct fault_rule rule = fault_begin(FAULT_clSetEventCallback);
    struct callback *c;

    fault_note_batch();
    if (rule.action == FAULT_FAIL && rule.code)
        return rule.code;
    if (!fault_use(event, false) || !(c = malloc(sizeof(*c))))
        return CL_INVALID_EVENT;
    *c = (struct callback){.fn = fn, .arg = arg, .rule = rule};
    rule.code = real.clSetEventCallback(event, type, on_event, c);
    if (rule.code)
        free(c);
    fault_finish(&rule);
    return rule.code;
}
