// SPDX-License-Identifier: Apache-2.0
// cl_intel_va_api_media_sharing over a driver without it: a surface's plane
// becomes an image that is filled, at each acquire, with the bytes that the
// stock libva gets of the surface; so tiled surfaces are no different. Calls
// that a client must not make are counted as misused: see fault_opencl.h.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <va/va_drmcommon.h>

#include "fault_calls.h"
// After the header that chooses the version
#include <CL/cl_va_api_media_sharing_intel.h>

enum { MOST = 256 };

struct shared {
    cl_mem mem;  // NULL: this one is free
    VADisplay display;
    const VASurfaceID *named;  // as drivers do: the pointer is kept
    VASurfaceID surface;
    cl_uint plane;
    size_t w, h, whole_w, whole_h;
    cl_command_queue queue;  // that it is acquired on
};

static struct {
    pthread_mutex_t lock;
    struct shared of[MOST];
} s = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- Libraries --------------------------------------------------------------

#define VA_CALLS(X)          \
    X(vaDisplayIsValid)      \
    X(vaExportSurfaceHandle) \
    X(vaQuerySurfaceStatus)  \
    X(vaCreateImage)         \
    X(vaGetImage)            \
    X(vaMapBuffer)           \
    X(vaUnmapBuffer)         \
    X(vaDestroyImage)
#define CL_CALLS(X)        \
    X(clCreateImage)       \
    X(clEnqueueWriteImage) \
    X(clSetMemObjectDestructorCallback)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
#define X(name) __typeof__(&name) name;
    VA_CALLS(X)
    CL_CALLS(X)
#undef X
} lib;

static void load(void)
{
    void *va = dlopen("libva.so.2", RTLD_NOW | RTLD_LOCAL), *entry;
    void *cl = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);

#define X(name)                             \
    if (!va || !(entry = dlsym(va, #name))) \
        abort();                            \
    memcpy(&lib.name, &entry, sizeof(entry));
    VA_CALLS(X)
#undef X
#define X(name)                             \
    if (!cl || !(entry = dlsym(cl, #name))) \
        abort();                            \
    memcpy(&lib.name, &entry, sizeof(entry));
    CL_CALLS(X)
#undef X
}

// ---- Images -----------------------------------------------------------------

// s.lock; NULL finds a free one.
static struct shared *find(cl_mem mem)
{
    for (int i = 0; i < MOST; i++)
        if (s.of[i].mem == mem)
            return &s.of[i];
    return NULL;
}

static void CL_CALLBACK on_destroyed(cl_mem mem, void *arg)
{
    struct shared *o = arg;
    bool acquired;

    (void)mem;
    pthread_mutex_lock(&s.lock);
    acquired = o->queue;
    *o = (struct shared){0};
    pthread_mutex_unlock(&s.lock);
    fault_note(acquired, -1, acquired ? -1 : 0);
}

static bool size_of(VADisplay display, VASurfaceID surface, struct shared *to)
{
    VADRMPRIMESurfaceDescriptor d;

    memset(&d, 0, sizeof(d));
    if (lib.vaExportSurfaceHandle(
            display, surface, VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2,
            VA_EXPORT_SURFACE_READ_ONLY | VA_EXPORT_SURFACE_SEPARATE_LAYERS,
            &d))
        return false;
    for (uint32_t i = 0; i < d.num_objects; i++)
        close(d.objects[i].fd);
    to->whole_w = d.width;
    to->whole_h = d.height;
    to->w = to->plane ? d.width / 2 : d.width;
    to->h = to->plane ? d.height / 2 : d.height;
    return d.fourcc == VA_FOURCC_NV12;
}

static cl_mem make(cl_context context, cl_mem_flags flags,
                   const VASurfaceID *surface, cl_uint plane, cl_int *err)
{
    // (CL_RG, really, which not every driver has. A pixel is two bytes.)
    cl_image_format format = {CL_R, plane ? CL_UNORM_INT16 : CL_UNORM_INT8};
    struct shared made = {.display = fault_display_of(context),
                          .named = surface,
                          .surface = *surface,
                          .plane = plane},
                  *at;
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D};
    cl_mem mem;

    pthread_once(&once, load);
    *err = CL_INVALID_VA_API_MEDIA_SURFACE_INTEL;
    if (!size_of(made.display, *surface, &made))
        return NULL;
    desc.image_width = made.w;
    desc.image_height = made.h;
    mem = lib.clCreateImage(context, flags, &format, &desc, NULL, err);
    if (!mem)
        return NULL;
    made.mem = mem;
    pthread_mutex_lock(&s.lock);
    if (!(at = find(NULL)))
        abort();
    *at = made;
    pthread_mutex_unlock(&s.lock);
    lib.clSetMemObjectDestructorCallback(mem, on_destroyed, at);
    fault_note(0, 1, 0);
    return mem;
}

static cl_mem CL_API_CALL create(cl_context context, cl_mem_flags flags,
                                 VASurfaceID *surface, cl_uint plane,
                                 cl_int *err)
{
    struct fault_rule rule = fault_begin(
        FAULT_clCreateFromVA_APIMediaSurfaceINTEL);
    cl_int code = rule.code;
    cl_mem mem = NULL;

    if (!code && (!fault_use(context, false) || !fault_display_of(context) ||
                  !surface || plane > 1 || flags != CL_MEM_READ_ONLY)) {
        fault_note(1, 0, 0);
        code = CL_INVALID_VALUE;
    }
    if (!code)
        mem = make(context, flags, surface, plane, &code);
    if (mem)
        fault_made(mem);
    fault_finish(&rule);
    *err = code;
    return mem;
}

// ---- Commands ---------------------------------------------------------------

// The plane's pixels as the media driver gives them out.
static bool fill(const struct shared *o, cl_command_queue queue)
{
    VAImageFormat format = {.fourcc = VA_FOURCC_NV12};
    size_t origin[3] = {0}, region[3] = {o->w, o->h, 1};
    VASurfaceStatus status = 0;
    VAImage image;
    void *data;
    bool ok;

    // This does not wait for the surface, which must be there still.
    if (*o->named != o->surface ||
        lib.vaQuerySurfaceStatus(o->display, o->surface, &status) ||
        status != VASurfaceReady) {
        fault_note(1, 0, 0);
        return false;
    }
    if (lib.vaCreateImage(o->display, &format, (int)o->whole_w, (int)o->whole_h,
                          &image))
        return false;
    ok = !lib.vaGetImage(o->display, o->surface, 0, 0, (unsigned)o->whole_w,
                         (unsigned)o->whole_h, image.image_id) &&
         !lib.vaMapBuffer(o->display, image.buf, &data);
    if (ok) {
        ok = !lib.clEnqueueWriteImage(queue, o->mem, CL_TRUE, origin, region,
                                      image.pitches[o->plane], 0,
                                      (uint8_t *)data + image.offsets[o->plane],
                                      0, NULL, NULL);
        lib.vaUnmapBuffer(o->display, image.buf);
    }
    lib.vaDestroyImage(o->display, image.image_id);
    fault_note_filled();
    return ok;
}

// Moves each to its next state; illegal moves are counted.
static int move(cl_uint n, const cl_mem *mems, cl_command_queue from,
                cl_command_queue to)
{
    int wrong = 0;

    pthread_mutex_lock(&s.lock);
    for (cl_uint i = 0; i < n; i++) {
        struct shared *o = mems[i] ? find(mems[i]) : NULL;

        if (!o || o->queue != from)
            wrong++;
        else
            o->queue = to;
    }
    pthread_mutex_unlock(&s.lock);
    fault_note(wrong + !n, 0, (to ? 1 : -1) * ((int)n - wrong));
    return wrong + !n;
}

static bool fill_all(cl_command_queue queue, cl_uint n, const cl_mem *mems)
{
    bool ok = true;

    for (cl_uint i = 0; i < n && ok; i++) {
        struct shared o;

        pthread_mutex_lock(&s.lock);
        o = *find(mems[i]);
        pthread_mutex_unlock(&s.lock);
        ok = fill(&o, queue);
    }
    return ok;
}

static cl_int marker(cl_command_queue queue, cl_uint n, const cl_event *wait,
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

// One that fails has acquired nothing.
static cl_int CL_API_CALL acquire(cl_command_queue queue, cl_uint n,
                                  const cl_mem *mems, cl_uint num_wait,
                                  const cl_event *wait, cl_event *event)
{
    struct fault_rule rule = fault_begin(
        FAULT_clEnqueueAcquireVA_APIMediaSurfacesINTEL);

    if (!rule.code && (!fault_use(queue, false) || move(n, mems, NULL, queue)))
        rule.code = CL_INVALID_MEM_OBJECT;
    if (!rule.code && !fill_all(queue, n, mems)) {
        move(n, mems, queue, NULL);
        rule.code = CL_INVALID_VA_API_MEDIA_SURFACE_INTEL;
    }
    if (!rule.code)
        rule.code = marker(queue, num_wait, wait, event);
    fault_finish(&rule);
    return rule.code;
}

// One that fails counts as having done so.
static cl_int CL_API_CALL release(cl_command_queue queue, cl_uint n,
                                  const cl_mem *mems, cl_uint num_wait,
                                  const cl_event *wait, cl_event *event)
{
    struct fault_rule rule = fault_begin(
        FAULT_clEnqueueReleaseVA_APIMediaSurfacesINTEL);

    if (!fault_use(queue, false) || move(n, mems, queue, NULL))
        rule.code = CL_INVALID_MEM_OBJECT;
    if (!rule.code)
        rule.code = marker(queue, num_wait, wait, event);
    fault_finish(&rule);
    return rule.code;
}

// Acquired on that queue, its surface still there, and inside.
static bool may_copy(cl_command_queue queue, cl_mem image, const size_t *at,
                     const size_t *region)
{
    VASurfaceStatus status;
    struct shared *o, was = {0};

    pthread_mutex_lock(&s.lock);
    if ((o = image ? find(image) : NULL))
        was = *o;
    pthread_mutex_unlock(&s.lock);
    return o && was.queue == queue && region[0] && region[1] &&
           at[0] + region[0] <= was.w && at[1] + region[1] <= was.h && !at[2] &&
           region[2] == 1 &&
           !lib.vaQuerySurfaceStatus(was.display, was.surface, &status);
}

CALL cl_int clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem from,
                                       cl_mem to, const size_t *from_at,
                                       const size_t *region, size_t to_at,
                                       cl_uint n, const cl_event *wait,
                                       cl_event *event)
{
    struct fault_rule rule = fault_begin(FAULT_clEnqueueCopyImageToBuffer);
    bool alive;

    pthread_once(&once, load);
    alive = fault_use(queue, false) && fault_use(from, false) &&
            fault_use(to, false);

    if (alive && !may_copy(queue, from, from_at, region)) {
        fault_note(1, 0, 0);
        alive = false;
    }
    if (!rule.code && !alive)
        rule.code = CL_INVALID_MEM_OBJECT;
    if (!rule.code)
        rule.code = fault_real.clEnqueueCopyImageToBuffer(
            queue, from, to, from_at, region, to_at, n, wait, event);
    if (!rule.code && event)
        fault_made(*event);
    fault_finish(&rule);
    return rule.code;
}

// ---- Questions --------------------------------------------------------------

static cl_int CL_API_CALL devices(cl_platform_id platform,
                                  cl_va_api_device_source_intel type,
                                  void *adapter, cl_va_api_device_set_intel set,
                                  cl_uint most, cl_device_id *to, cl_uint *n)
{
    struct fault_rule rule = fault_begin(
        FAULT_clGetDeviceIDsFromVA_APIMediaAdapterINTEL);

    pthread_once(&once, load);
    if (!rule.code && (type != CL_VA_API_DISPLAY_INTEL || !adapter ||
                       !lib.vaDisplayIsValid(adapter) ||
                       (set != CL_PREFERRED_DEVICES_FOR_VA_API_INTEL &&
                        set != CL_ALL_DEVICES_FOR_VA_API_INTEL))) {
        fault_note(1, 0, 0);
        rule.code = CL_INVALID_VALUE;
    }
    if (!rule.code && fault_how() & FAULT_SHARES_ELSEWHERE)
        rule.code = CL_DEVICE_NOT_FOUND;
    if (!rule.code)
        rule.code = fault_real.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL,
                                              most, to, n);
    fault_finish(&rule);
    return rule.code;
}

static cl_int CL_API_CALL formats(cl_context context, cl_mem_flags flags,
                                  cl_mem_object_type type, cl_uint plane,
                                  cl_uint most, VAImageFormat *to, cl_uint *n)
{
    struct fault_rule rule = fault_begin(
        FAULT_clGetSupportedVA_APIMediaSurfaceFormatsINTEL);
    bool nv12 = fault_how() & FAULT_SHARES_NV12;
    const uint32_t list[] = {VA_FOURCC_P010,
                             nv12 ? VA_FOURCC_NV12 : VA_FOURCC_YUY2};

    if (!rule.code &&
        (!fault_display_of(context) || flags != CL_MEM_READ_ONLY ||
         type != CL_MEM_OBJECT_IMAGE2D || plane > 1)) {
        fault_note(1, 0, 0);
        rule.code = CL_INVALID_VALUE;
    }
    if (!rule.code) {
        *n = 2;
        for (cl_uint i = 0; to && i < 2 && i < most; i++)
            to[i] = (VAImageFormat){.fourcc = list[i]};
    }
    fault_finish(&rule);
    return rule.code;
}

void *fault_sharing_entry(const char *name)
{
    unsigned how = fault_how();
    void *entry = NULL;

    if (!(how & FAULT_SHARES))
        return NULL;
#define ENTRY(cl_name, fn)                  \
    if (!strcmp(name, #cl_name)) {          \
        __typeof__(&cl_name) as = fn;       \
        memcpy(&entry, &as, sizeof(entry)); \
    }
    ENTRY(clGetDeviceIDsFromVA_APIMediaAdapterINTEL, devices)
    ENTRY(clCreateFromVA_APIMediaSurfaceINTEL, create)
    ENTRY(clEnqueueAcquireVA_APIMediaSurfacesINTEL, acquire)
    ENTRY(clEnqueueReleaseVA_APIMediaSurfacesINTEL, release)
    ENTRY(clGetSupportedVA_APIMediaSurfaceFormatsINTEL, formats)
#undef ENTRY
    return entry;
}
