// SPDX-License-Identifier: Apache-2.0
// The VA-API devices of a machine; opening, describing, closing one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vaapi/vaapi.h"

// Most time to open in, and to stop in.
#define OPEN_NS INT64_C(15000000000)
#define STOP_NS INT64_C(2000000000)

// ---- Listing ---------------------------------------------------------------

static const char *wanted(const char *which)
{
    const char *name = secure_getenv("HEADRACE_VAAPI_DEVICE");

    return *which || !name ? which : name;
}

static void add(struct hr_device_info *infos, int max, int *n, const char *name,
                const char *reason)
{
    if (*n < max) {
        infos[*n] = (struct hr_device_info){0};
        snprintf(infos[*n].name, sizeof(infos->name), "vaapi%s%.50s",
                 *name ? ":" : "", name);
        snprintf(infos[*n].reason, sizeof(infos->reason), "%s", reason);
    }
    (*n)++;
}

// Nodes by their names only: the HAL opens them to be sure.
static int va_list_devices(struct hr_device_info *infos, int max)
{
    char path[VA_TEXT];
    int n = 0;

    if (*wanted(""))
        add(infos, max, &n, wanted(""), "");
    for (int i = 0; i < VA_NODES; i++)
        if (va_node(i, path))
            add(infos, max, &n, path, "");
    if (!n)
        add(infos, max, &n, "", "no /dev/dri/renderD* on this machine");
    return n;
}

// ---- Opening and closing ---------------------------------------------------

static void describe(struct hr__engine *e, const struct va *va)
{
    const struct va_facts *f = &va->facts;
    char processor[VA_PROCESSOR_TEXT] = "";

    for (int i = 0; i < VA_RUNGS; i++)
        atomic_store(&e->meter.rungs[i].name, va_rung_name((enum va_rung)i));
    snprintf(e->name, sizeof(e->name), "%s", va->guard.name);
    va_vpp_text(va, processor);
    // Whole: a certificate belongs to it.
    _Static_assert(sizeof(e->description) >= 90 + 32 + 40 + sizeof(processor),
                   "vendor, version and depth, rung, processor");
    snprintf(e->description, sizeof(e->description),
             "%.90s, VA-API %d.%d, %d in flight, %s%s", f->vendor, f->major,
             f->minor, va->depth,
             va_rung_name(va->shares ? VA_RUNG_SURFACE : va->rung), processor);
    e->caps.batch = 1;
    e->depth = va->depth;
    e->caps.max_side = f->max_w < f->max_h ? f->max_w : f->max_h;
    for (int tier = 0; tier <= HR_FAST; tier++)
        e->caps.spans[tier] = HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT);
    if (va_vpp_any(va))
        e->caps.spans[HR_FAST] |= HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE);
}

static void va_chained(struct hr__engine *e)
{
    struct va *va = va_of(e);
    int most = va->facts.driver->max_surfaces;

    if (!va_may_export(va) || !(hr__chain_imports(e) & HR__VA_SURFACE))
        return;
    va_lock(va);
    va->shares = true;
    // The next engine's batches hold them for longer than a copy takes.
    va->num_frames = most && most < VA_FRAMES ? most : VA_FRAMES;
    va_unlock(va);
    describe(e, va);
}

// HEADRACE_VAAPI_READ
static enum hr_status read_wish(bool *by_host)
{
    const char *wish = secure_getenv("HEADRACE_VAAPI_READ");

    *by_host = wish && !strcmp(wish, "host");
    if (!wish || !*wish || *by_host)
        return HR_OK;
    return hr__fail(HR_EINVAL, "HEADRACE_VAAPI_READ is '%.32s', not host",
                    wish);
}

static void init(struct va *va, struct hr__engine *e)
{
    hr__guard_init(&va->guard, &va_guard_ops, va, e);
    pthread_mutex_init(&va->calls, NULL);
    va->fd = va->retired_fd = -1;
    va->config = va->context = VA_INVALID_ID;
    va->vpp.config = va->vpp.context = VA_INVALID_ID;
    for (int i = 0; i < VA_FRAMES; i++) {
        struct va_frame *f = &va->frames[i];

        f->va = va;
        f->surface = VA_INVALID_ID;
        f->image.image_id = f->derived.image_id = VA_INVALID_ID;
        f->out = VA_NO_OUTPUT;
    }
}

static enum hr_status va_open(struct hr__engine *e, const char *which)
{
    bool by_host;
    struct va *va;
    enum hr_status status;

    if ((status = va_api_check()) || (status = read_wish(&by_host)))
        return status;
    if (!(va = hr__alloc(e->device, sizeof(*va))))
        return hr__fail(HR_ENOMEM, "out of memory");
    memset(va, 0, sizeof(*va));
    ((struct va_engine *)e->priv)->va = va;
    init(va, e);
    va->by_host = by_host;
    atomic_store(&e->meter.device_times, true);
    va->foreign = *which ? NULL : e->params.va_display;
    snprintf(va->which, sizeof(va->which), "%s",
             va->foreign ? "" : wanted(which));
    va->wish = e->params.depth;
    if (!(status = hr__guard_start(&va->guard, e, OPEN_NS)))
        describe(e, va);
    return status;
}

static void va_close(struct hr__engine *e)
{
    int64_t ns = hr__guard_deadline(e) / 2 + STOP_NS / 4;
    struct va *va = va_of(e);

    if (!va || !hr__guard_stop(&va->guard, e, ns < STOP_NS ? ns : STOP_NS,
                               false, sizeof(*va)))
        return;
    for (int i = 0; i < VA_FRAMES; i++)
        hr__free(va->frames[i].bytes);
    hr__free(va);
}

static const char *va_fingerprint(struct hr__engine *e)
{
    return va_of(e)->file;
}

static void va_submit(struct hr__engine *e, struct hr__task *list)
{
    hr__guard_push(&va_of(e)->guard, e, list);
}

static void va_cancel(struct hr__engine *e)
{
    hr__guard_cancel(&va_of(e)->guard);
}

const struct hr__backend hr__backend_vaapi = {
    .name = VA_NAME,
    .engine_size = sizeof(struct va_engine),
    .list = va_list_devices,
    .open = va_open,
    .close = va_close,
    .offer = va_offer,
    .submit = va_submit,
    .cancel = va_cancel,
    .chained = va_chained,
    .shared_display = va_share_display,
    .media = true,
    .fingerprint = va_fingerprint,
};
