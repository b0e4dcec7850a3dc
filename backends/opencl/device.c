// SPDX-License-Identifier: Apache-2.0
// Which OpenCL devices there are, opening and closing one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/device_memory.h"
#include "backends/opencl/opencl.h"

extern const struct hr__backend hr__backend_opencl;

enum { MAX_PLATFORMS = 8, MAX_SIDE = 16384 };
#define LIST_NS INT64_C(10000000000)
#define OPEN_NS INT64_C(60000000000)
// Most memory of one buffer of a slot, which has four, and of planes.
#define SLOT_BYTES ((size_t)64 << 20)
#define WORK_BYTES ((size_t)256 << 20)
#define COPY_BYTES ((size_t)16 << 20)

struct ocl *ocl_of(struct hr__engine *e)
{
    assert(e->backend == &hr__backend_opencl);
    return ((struct ocl_engine *)e->priv)->o;
}

// ---- Finding --------------------------------------------------------------

static void platform_text(const struct ocl_api *api, cl_platform_id id,
                          cl_platform_info what, char text[OCL_TEXT])
{
    char all[512] = "";

    api->clGetPlatformInfo(id, what, sizeof(all) - 1, all, NULL);
    snprintf(text, OCL_TEXT, "%.*s", OCL_TEXT - 1, all);
}

static void device_text(const struct ocl_api *api, cl_device_id id,
                        cl_device_info what, char text[OCL_TEXT])
{
    char all[512] = "";

    api->clGetDeviceInfo(id, what, sizeof(all) - 1, all, NULL);
    snprintf(text, OCL_TEXT, "%.*s", OCL_TEXT - 1, all);
}

static bool describe(const struct ocl_api *api, struct ocl_facts *f)
{
    cl_bool available = CL_FALSE, compiler = CL_FALSE, little = CL_FALSE;
    cl_bool unified = CL_FALSE;
    cl_int err = 0;
#define GET(what, to)                                                    \
    err |= api->clGetDeviceInfo(f->device, CL_DEVICE_##what, sizeof(to), \
                                &(to), NULL)
    GET(TYPE, f->type);
    GET(MAX_COMPUTE_UNITS, f->units);
    GET(MAX_WORK_GROUP_SIZE, f->max_group);
    GET(MAX_MEM_ALLOC_SIZE, f->max_alloc);
    GET(GLOBAL_MEM_SIZE, f->global);
    GET(LOCAL_MEM_SIZE, f->local);
    GET(AVAILABLE, available);
    GET(COMPILER_AVAILABLE, compiler);
    GET(ENDIAN_LITTLE, little);
    GET(HOST_UNIFIED_MEMORY, unified);
#undef GET
    platform_text(api, f->platform_id, CL_PLATFORM_NAME, f->platform);
    platform_text(api, f->platform_id, CL_PLATFORM_VERSION,
                  f->platform_version);
    device_text(api, f->device, CL_DEVICE_VENDOR, f->vendor);
    device_text(api, f->device, CL_DEVICE_NAME, f->name);
    device_text(api, f->device, CL_DRIVER_VERSION, f->driver);
    f->unified = unified;
    return !err && available && compiler && little;
}

int ocl_find_devices(const struct ocl_api *api, struct ocl_facts *facts)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint num_platforms = 0;
    int n = 0;

    if (api->clGetPlatformIDs(MAX_PLATFORMS, platforms, &num_platforms))
        return 0;
    for (cl_uint p = 0; p < num_platforms && p < MAX_PLATFORMS; p++) {
        cl_device_id ids[OCL_MAX_DEVICES];
        cl_uint num = 0;

        if (api->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL,
                                OCL_MAX_DEVICES, ids, &num))
            continue;
        for (cl_uint i = 0;
             i < num && i < OCL_MAX_DEVICES && n < OCL_MAX_DEVICES; i++) {
            facts[n] = (struct ocl_facts){.platform_id = platforms[p],
                                          .device = ids[i],
                                          .index = n};
            facts[n].usable = describe(api, &facts[n]);
            n++;
        }
    }
    return n;
}

// The processor of this machine by another name: PoCL, llvmpipe, Oclgrind.
static bool is_software(const struct ocl_facts *f)
{
    return f->type & CL_DEVICE_TYPE_CPU;
}

enum hr_status ocl_find(struct ocl *o)
{
    struct ocl_facts *facts = hr__alloc(NULL, OCL_MAX_DEVICES * sizeof(*facts));
    enum hr_status status;
    int n, chosen;

    if (!facts)
        return hr__fail(HR_ENOMEM, "out of memory");
    n = ocl_find_devices(&o->api, facts);
    ocl_surface_find(o, facts, n);
    if (!(status = ocl_choose(facts, n, o->which, &chosen)))
        o->facts = facts[chosen];
    hr__free(facts);
    return status;
}

// ---- Listing --------------------------------------------------------------

struct listing {
    enum hr_status status;
    char text[160];
    int n;
    struct ocl_facts facts[OCL_MAX_DEVICES];
};

static void list_devices(void *arg)
{
    struct listing *l = arg;
    struct ocl_api api;

    if ((l->status = ocl_api_load(&api)))
        snprintf(l->text, sizeof(l->text), "%.159s", hr_last_error());
    else
        l->n = ocl_find_devices(&api, l->facts);
}

static int list_none(struct hr_device_info *infos, int max, const char *why)
{
    if (max < 1)
        return 1;
    memset(infos, 0, sizeof(*infos));
    snprintf(infos->name, sizeof(infos->name), "opencl");
    snprintf(infos->reason, sizeof(infos->reason), "%s", why);
    return 1;
}

static int list_some(struct hr_device_info *infos, int max,
                     const struct listing *l)
{
    for (int i = 0; i < l->n && i < max; i++) {
        memset(&infos[i], 0, sizeof(*infos));
        snprintf(infos[i].name, sizeof(infos->name), "opencl:%d", i);
        snprintf(infos[i].description, sizeof(infos->description),
                 "%.90s, %.90s", l->facts[i].name,
                 l->facts[i].platform_version);
        infos[i].caps.software = is_software(&l->facts[i]);
        if (!l->facts[i].usable)
            snprintf(infos[i].reason, sizeof(infos->reason),
                     "not available, or without a compiler");
    }
    return l->n;
}

static int ocl_list(struct hr_device_info *infos, int max)
{
    struct listing *l;
    int n;

    if (ocl_api_check())
        return list_none(infos, max, hr_last_error());
    if (!(l = hr__alloc(NULL, sizeof(*l))))
        return list_none(infos, max, "out of memory");
    memset(l, 0, sizeof(*l));
    if (!hr__call_with_deadline(list_devices, l, LIST_NS))
        return list_none(infos, max, "a driver does not answer");
    n = l->status ? list_none(infos, max, l->text)
        : l->n    ? list_some(infos, max, l)
                  : list_none(infos, max,
                              "no OpenCL driver with a device is "
                                 "installed");
    hr__free(l);
    return n;
}

// ---- Opening and closing --------------------------------------------------

static bool make_context(struct ocl *o, struct ocl_fault *fault)
{
    cl_context_properties properties[8] = {
        CL_CONTEXT_PLATFORM, (cl_context_properties)o->facts.platform_id};
    cl_int err;

    o->knows_display = ocl_surface_properties(o, properties + 2) != 0;
    o->context = o->api.clCreateContext(properties, 1, &o->facts.device, NULL,
                                        NULL, &err);
    if (!ocl_failed(fault, err, "clCreateContext"))
        return true;
    o->context = NULL;
    return false;
}

bool ocl_context_open(struct ocl *o, struct ocl_fault *fault)
{
    cl_ulong most = o->facts.global / 4;
    bool ok = make_context(o, fault);

    if (!ok && o->knows_display) {
        // Perhaps for the display's sake.
        ocl_import_give_up(o, fault);
        *fault = (struct ocl_fault){0};
        ok = make_context(o, fault);
    }
    if (!ok)
        return false;
    most = most < o->facts.max_alloc ? most : o->facts.max_alloc;
    o->batch = OCL_BATCH;
    o->work_bytes = most < WORK_BYTES ? (size_t)most : WORK_BYTES;
    o->slot_bytes = most / 4 < SLOT_BYTES ? (size_t)most / 4 : SLOT_BYTES;
    return true;
}

void ocl_context_close(struct ocl *o)
{
    if (o->context)
        o->api.clReleaseContext(o->context);
    o->context = NULL;
}

static void fill_caps(struct hr__engine *e, const struct ocl *o)
{
    const struct ocl_facts *f = &o->facts;

    snprintf(e->name, sizeof(e->name), "opencl:%d", f->index);
    snprintf(e->description, sizeof(e->description),
             "%.80s, %.44s, driver %.40s, %s", f->name, f->platform_version,
             f->driver,
             ocl_variant_name(o->plan.fuse ? OCL_FUSED : OCL_STAGED));
    e->caps.batch = o->batch;
    e->caps.max_side = MAX_SIDE;
    e->caps.exact = true;
    e->copy_bytes = o->slot_bytes < COPY_BYTES ? o->slot_bytes : COPY_BYTES;
    e->caps.software = is_software(f);
    for (int tier = 0; tier <= HR_FAST; tier++)
        e->caps.spans[tier] = ocl_spans();
}

static const char *wanted(const char *which)
{
    const char *name = secure_getenv("HEADRACE_OPENCL_DEVICE");

    return *which || !name ? which : name;
}

static enum hr_status ocl_open(struct hr__engine *e, const char *which)
{
    enum ocl_variant wish;
    enum hr_status status;
    struct ocl *o;

    if ((status = ocl_api_check()) || (status = ocl_variant_wanted(&wish)))
        return status;
    if (!(o = hr__alloc(e->device, sizeof(*o))))
        return hr__fail(HR_ENOMEM, "out of memory");
    memset(o, 0, sizeof(*o));
    ((struct ocl_engine *)e->priv)->o = o;
    hr__guard_init(&o->guard, &ocl_guard_ops, o, e);
    for (int i = 0; i < OCL_SLOTS; i++)
        o->slots[i].o = o;
    o->wish = wish;
    o->plan.ref = &o->guard.ref;
    o->origin = e->origin;
    ocl_pool_init(&o->pool);
    ocl_pinned_init(&o->pinned);
    snprintf(o->which, sizeof(o->which), "%s", wanted(which));
    if (o->origin.kind)
        o->origin.hold(o->origin.ctx);
    if (!(status = hr__guard_start(&o->guard, e, OPEN_NS)))
        fill_caps(e, o);
    return status;
}

static void ocl_close(struct hr__engine *e)
{
    struct ocl *o = ocl_of(e);
    bool stopped;

    if (!o)
        return;
    stopped = ocl_stop(o, e);
    ocl_pool_finish(&o->pool);
    if (!stopped)
        return;
    ocl_let_origin(o);
    ocl_pinned_finish(&o->pinned);
    hr__free(o->plan.data);
    hr__free(o);
}

static void ocl_submit(struct hr__engine *e, struct hr__task *list)
{
    hr__guard_push(&ocl_of(e)->guard, e, list);
}

static void ocl_cancel(struct hr__engine *e)
{
    hr__guard_cancel(&ocl_of(e)->guard);
}

// Kernels, options, platform, device and driver, as for the program's binary.
static const char *ocl_fingerprint(struct hr__engine *e)
{
    return ocl_of(e)->key;
}

const struct hr__backend hr__backend_opencl = {
    .name = "opencl",
    .engine_size = sizeof(struct ocl_engine),
    .list = ocl_list,
    .open = ocl_open,
    .close = ocl_close,
    .offer = ocl_offer,
    .submit = ocl_submit,
    .cancel = ocl_cancel,
    .buffer_alloc = ocl_buffer_alloc,
    .buffer_free = ocl_buffer_free,
    .memory_alloc = ocl_memory_alloc,
    .memory_free = ocl_memory_free,
    .copy = ocl_submit,
    .native = ocl_native,
    .imports = ocl_import_kinds,
    .fingerprint = ocl_fingerprint,
};
