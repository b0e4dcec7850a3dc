// SPDX-License-Identifier: Apache-2.0
// The engine table: lists devices, opens and closes one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/memory/device_memory.h"
#include "backends/opencl/opencl.h"

enum { MAX_SIDE = 16384 };
#define LIST_NS INT64_C(10000000000)
#define OPEN_NS INT64_C(60000000000)
#define COPY_BYTES ((size_t)16 << 20)
// Most time that stopping may take, without and with a program to be kept.
#define STOP_NS INT64_C(2000000000)
#define KEEP_NS INT64_C(15000000000)
#define LEAST_NS INT64_C(1000000000)

// PoCL, llvmpipe and Oclgrind are this machine's processor by another name.
static bool is_software(const struct ocl_facts *f)
{
    return f->type & CL_DEVICE_TYPE_CPU;
}

// ---- Listing ---------------------------------------------------------------

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

// ---- Opening and closing ---------------------------------------------------

static void fill_caps(struct hr__engine *e, const struct ocl *o)
{
    const struct ocl_facts *f = &o->facts;

    snprintf(e->name, sizeof(e->name), "opencl:%d", f->index);
    snprintf(e->description, sizeof(e->description),
             "%.80s, %.44s, driver %.40s, %s%s", f->name, f->platform_version,
             f->driver, ocl_variant_name(o->variant),
             o->entropy ? ", entropy" : "");
    e->caps.batch = o->most < OCL_LIST ? o->most : OCL_LIST;
    e->caps.max_side = MAX_SIDE;
    e->caps.exact = true;
    e->copy_bytes = o->buffer_bytes < COPY_BYTES ? o->buffer_bytes : COPY_BYTES;
    e->caps.software = is_software(f);
    for (int tier = 0; tier <= HR_FAST; tier++)
        e->caps.spans[tier] = ocl_spans(o);
}

static const char *wanted(const char *which)
{
    const char *name = secure_getenv("HEADRACE_OPENCL_DEVICE");

    return *which || !name ? which : name;
}

static enum hr_status ocl_open(struct hr__engine *e, const char *which)
{
    enum ocl_variant variant;
    enum hr_status status;
    enum hr_where where, codes;
    struct ocl *o;

    if ((status = ocl_api_check()) || (status = ocl_variant_wanted(&variant)) ||
        (status = ocl_entropy_wanted(e->params.entropy, &where)) ||
        (status = ocl_augment_wanted(&codes)))
        return status;
    if (!(o = hr__alloc(e->device, sizeof(*o))))
        return hr__fail(HR_ENOMEM, "out of memory");
    memset(o, 0, sizeof(*o));
    ((struct ocl_engine *)e->priv)->o = o;
    hr__guard_init(&o->guard, &ocl_guard_ops, o, e);
    for (int i = 0; i < OCL_BATCHES; i++)
        o->batch[i].o = o;
    o->variant = variant;
    o->where = where;
    o->codes = codes;
    o->first = !e->index;
    o->budget = e->params.budget;
    o->plan.ref = o->axes.ref = &o->guard.ref;
    o->plan.axes = &o->axes;
    o->levels.u8_identity = true;
    for (int i = 0; i < 3 * 256; i++)
        o->levels.u8[i / 256][i % 256] = (uint8_t)i;
    o->display = e->display;
    ocl_pool_init(&o->pool);
    ocl_pinned_init(&o->pinned);
    ocl_deliver_init(o);
    snprintf(o->which, sizeof(o->which), "%s", wanted(which));
    if (o->display.kind)
        o->display.retain(o->display.ctx);
    if (!(status = hr__guard_start(&o->guard, e, OPEN_NS))) {
        ocl_deliver_start(o, e->params.threads);
        fill_caps(e, o);
    }
    return status;
}

static bool stop(struct ocl *o, struct hr__engine *e)
{
    int64_t ns = e->params.deadline_ns;
    bool keeps;

    // A compiler that is left behind may crash when the process ends.
    pthread_mutex_lock(&o->guard.lock);
    keeps = o->guard.held || o->unkept;
    pthread_mutex_unlock(&o->guard.lock);
    ns = ns < LEAST_NS ? LEAST_NS : ns < KEEP_NS ? ns : KEEP_NS;
    return hr__guard_stop(&o->guard, e, keeps ? ns : STOP_NS, keeps,
                          sizeof(*o));
}

static void ocl_close(struct hr__engine *e)
{
    struct ocl *o = ocl_of(e);
    bool stopped;

    if (!o)
        return;
    stopped = stop(o, e);
    ocl_deliver_stop(o);
    ocl_pool_finish(&o->pool);
    if (!stopped)
        return;
    ocl_release_display(o);
    ocl_pinned_finish(&o->pinned);
    hr__free(o->plan.data);
    for (int i = 0; i < OCL_BATCHES; i++)
        hr__free(o->batch[i].files);
    ocl_axes_free(&o->axes);
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

// The key of the program's binary: kernels, options, platform, device, driver.
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
    .copy_file = ocl_copy_file,
    .memory_alloc = ocl_memory_alloc,
    .memory_free = ocl_memory_free,
    .copy = ocl_submit,
    .imports = ocl_import_kinds,
    .fingerprint = ocl_fingerprint,
};
