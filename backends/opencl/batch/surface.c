// SPDX-License-Identifier: Apache-2.0
// VA-API surfaces of the media engine in front, by
// cl_intel_va_api_media_sharing: the context knows that engine's display, and
// each plane of an NV12 surface is an image, whatever its tiling. Images are
// made once for each surface; a batch copies the rectangle that is wanted of
// them into its own input, as import.c says. Surfaces are synchronised before
// they come here, so drivers need not wait for them.
#include <string.h>

#include "backends/opencl/opencl.h"

#if __has_include(<CL/cl_va_api_media_sharing_intel.h>) && \
    __has_include(<va/va.h>)
#include <CL/cl_va_api_media_sharing_intel.h>

enum { MAX_FORMATS = 32 };

// ---- The device, the context -----------------------------------------------

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

static bool has_extension(struct ocl *o, cl_device_id device, const char *name)
{
    size_t size = 0;
    char *text;
    bool has;

    if (o->api.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size) ||
        !size || !(text = hr__alloc(NULL, size + 1)))
        return false;
    memset(text, 0, size + 1);
    has = !o->api.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, text,
                                  NULL) &&
          has_word(text, name);
    hr__free(text);
    return has;
}

// *to: a pointer to the function. False: there is none.
static bool find_entry(struct ocl *o, cl_platform_id platform, const char *name,
                       void *to)
{
    void *entry = o->api.clGetExtensionFunctionAddressForPlatform(platform,
                                                                  name);

    memcpy(to, &entry, sizeof(entry));
    return entry != NULL;
}

// Says whether the device is one that reads that display's surfaces.
static bool of_adapter(struct ocl *o, const struct ocl_facts *f)
{
    clGetDeviceIDsFromVA_APIMediaAdapterINTEL_fn ask;
    cl_device_id ids[OCL_MAX_DEVICES];
    cl_uint n = 0;
    bool found = false;

    if (!find_entry(o, f->platform_id,
                    "clGetDeviceIDsFromVA_APIMediaAdapterINTEL", &ask) ||
        ask(f->platform_id, CL_VA_API_DISPLAY_INTEL, o->display.handle,
            CL_PREFERRED_DEVICES_FOR_VA_API_INTEL, OCL_MAX_DEVICES, ids, &n))
        return false;
    for (cl_uint i = 0; i < n && i < OCL_MAX_DEVICES; i++)
        found |= ids[i] == f->device;
    return found;
}

void ocl_surface_find(struct ocl *o, struct ocl_facts *facts, int n)
{
    if (o->display.kind != HR__VA_SURFACE ||
        !o->api.clGetExtensionFunctionAddressForPlatform ||
        !o->api.clEnqueueCopyImageToBuffer)
        return;
    for (int i = 0; i < n; i++)
        facts[i].shares = facts[i].usable &&
                          has_extension(o, facts[i].device,
                                        "cl_intel_va_api_media_sharing") &&
                          of_adapter(o, &facts[i]);
}

int ocl_surface_properties(const struct ocl *o, cl_context_properties *to)
{
    if (!o->facts.shares || atomic_load(&o->imports.failed))
        return 0;
    to[0] = CL_CONTEXT_VA_API_DISPLAY_INTEL;
    to[1] = (cl_context_properties)o->display.handle;
    to[2] = CL_CONTEXT_INTEROP_USER_SYNC;
    to[3] = CL_TRUE;
    return 4;
}

// Drivers that cannot be asked take NV12. The query was added later, and its
// first version had no plane, so only drivers that name it are asked.
static bool takes_nv12(struct ocl *o)
{
    static const char name[] = "clGetSupportedVA_APIMediaSurfaceFormatsINTEL";
    clGetSupportedVA_APIMediaSurfaceFormatsINTEL_fn ask;
    VAImageFormat formats[MAX_FORMATS];
    int found = 0;

    if (!has_extension(o, o->facts.device, "cl_intel_sharing_format_query"))
        return true;
    if (!find_entry(o, o->facts.platform_id, name, &ask))
        return true;
    for (cl_uint plane = 0; plane < OCL_PLANES; plane++) {
        cl_uint n = 0, i = 0;

        memset(formats, 0, sizeof(formats));
        if (ask(o->context, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D, plane,
                MAX_FORMATS, formats, &n))
            return false;
        n = n < MAX_FORMATS ? n : MAX_FORMATS;
        while (i < n && formats[i].fourcc != VA_FOURCC_NV12)
            i++;
        found += i < n;
    }
    return found == OCL_PLANES;
}

bool ocl_surface_open(struct ocl *o)
{
    struct ocl_imports *im = &o->imports;
    cl_platform_id id = o->facts.platform_id;

    return o->knows_display &&
           find_entry(o, id, "clCreateFromVA_APIMediaSurfaceINTEL",
                      &im->from_surface) &&
           find_entry(o, id, "clEnqueueAcquireVA_APIMediaSurfacesINTEL",
                      &im->acquire) &&
           find_entry(o, id, "clEnqueueReleaseVA_APIMediaSurfacesINTEL",
                      &im->release) &&
           takes_nv12(o);
}

// ---- Images ----------------------------------------------------------------

static cl_mem make_plane(struct ocl *o, struct ocl_import *m, cl_uint plane,
                         struct ocl_fault *fault)
{
    clCreateFromVA_APIMediaSurfaceINTEL_fn create;
    cl_int err = CL_SUCCESS;
    cl_mem mem;

    memcpy(&create, &o->imports.from_surface, sizeof(create));
    // Drivers keep the pointer, too.
    mem = create(o->context, CL_MEM_READ_ONLY, &m->of.surface, plane, &err);
    if (!mem && !err)
        err = CL_INVALID_VALUE;
    return ocl_failed(fault, err, "clCreateFromVA_APIMediaSurfaceINTEL") ? NULL
                                                                         : mem;
}

bool ocl_surface_import(struct ocl *o, struct ocl_import *m,
                        struct ocl_fault *fault)
{
    if (!(m->mem = make_plane(o, m, 0, fault)))
        return false;
    if ((m->chroma = make_plane(o, m, 1, fault)))
        return true;
    o->api.clReleaseMemObject(m->mem);
    m->mem = NULL;
    return false;
}

#else  // headers of the extension, or of VA-API, are missing

void ocl_surface_find(struct ocl *o, struct ocl_facts *facts, int n)
{
    (void)o, (void)facts, (void)n;
}

int ocl_surface_properties(const struct ocl *o, cl_context_properties *to)
{
    (void)o, (void)to;
    return 0;
}

bool ocl_surface_open(struct ocl *o)
{
    (void)o;
    return false;
}

bool ocl_surface_import(struct ocl *o, struct ocl_import *m,
                        struct ocl_fault *fault)
{
    (void)o, (void)m, (void)fault;
    return false;
}

#endif
