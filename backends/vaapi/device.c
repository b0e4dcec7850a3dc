// SPDX-License-Identifier: Apache-2.0
// Which VA-API devices there are; opening, describing, closing one.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/vaapi/vaapi.h"

extern const struct hr__backend hr__backend_vaapi;

enum { FIRST_NODE = 128, NODES = 16 };
// Most time to open in, and to stop in.
#define OPEN_NS INT64_C(15000000000)
#define STOP_NS INT64_C(2000000000)

struct va *va_of(struct hr__engine *e)
{
    assert(e->backend == &hr__backend_vaapi);
    return ((struct va_engine *)e->priv)->va;
}

// ---- Listing ---------------------------------------------------------------

static const char *wanted(const char *which)
{
    const char *name = secure_getenv("HEADRACE_VAAPI_DEVICE");

    return *which || !name ? which : name;
}

// Nodes by their names only: the HAL opens them to be sure.
static int va_list_devices(struct hr_device_info *infos, int max)
{
    int n = 0;

    if (*wanted("") && max > 0) {
        memset(infos, 0, sizeof(*infos));
        snprintf(infos->name, sizeof(infos->name), "vaapi:%.50s", wanted(""));
        n = 1;
    }
    for (int i = 0; i < NODES; i++) {
        char path[32];

        snprintf(path, sizeof(path), "/dev/dri/renderD%d", FIRST_NODE + i);
        if (access(path, F_OK))
            continue;
        if (n < max) {
            memset(&infos[n], 0, sizeof(*infos));
            snprintf(infos[n].name, sizeof(infos[n].name), "vaapi:%s", path);
        }
        n++;
    }
    if (!n && max > 0) {
        memset(infos, 0, sizeof(*infos));
        snprintf(infos->name, sizeof(infos->name), "vaapi");
        snprintf(infos->reason, sizeof(infos->reason),
                 "no /dev/dri/renderD* on this machine");
    }
    return n ? n : 1;
}

// ---- Opening and closing ---------------------------------------------------

static void set_depth(struct va *va)
{
    int most = va->facts.driver->max_surfaces, wish = va->wish;

    va->depth = wish <= 0             ? VA_DEPTH
                : wish < VA_MAX_DEPTH ? wish
                                      : VA_MAX_DEPTH;
    // As many again may be read by the next engine.
    va->num_slots = 2 * va->depth < VA_SLOTS ? 2 * va->depth : VA_SLOTS;
    if (most && va->num_slots > most)
        va->num_slots = most;
    va->depth = va->depth < va->num_slots ? va->depth : va->num_slots - 1;
}

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
    e->caps.max_side = f->max_w < f->max_h ? f->max_w : f->max_h;
    for (int tier = 0; tier <= HR_FAST; tier++)
        e->caps.spans[tier] = HR__SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT);
    if (va_vpp_any(va))
        e->caps.spans[HR_FAST] |= HR__SPAN_BIT(HR_ENTROPY, HR_RESAMPLE);
}

static void va_chained(struct hr__engine *e)
{
    struct va *va = va_of(e);
    int most = va->facts.driver->max_surfaces;

    if (!va_origin_may(va) || !(hr__chain_imports(e) & HR__VA_SURFACE))
        return;
    pthread_mutex_lock(&va->guard.lock);
    va->shares = true;
    // The next engine's batches hold them for longer than a copy takes.
    va->num_slots = most && most < VA_SLOTS ? most : VA_SLOTS;
    pthread_mutex_unlock(&va->guard.lock);
    describe(e, va);
}

void va_count_fall(struct va *va)
{
    hr__engine_ref_count(&va->guard.ref,
                         offsetof(struct hr__meter, import_falls), 1);
}

// By where its entry is, which is named by the version of VA-API that it was
// made for. (Nobody says the version of a display that is the caller's.)
static void find_file(struct va *va)
{
    enum { NEWEST = 99 };
    char name[48];
    VAPrivFunc entry = NULL;

    for (int minor = NEWEST; minor >= 0 && !entry && va->api.vaGetLibFunc;
         minor--) {
        snprintf(name, sizeof(name), "__vaDriverInit_%d_%d", VA_MAJOR_VERSION,
                 minor);
        entry = va->api.vaGetLibFunc(va->display, name);
    }
    hr__library_text((uintptr_t)entry, va->file, sizeof(va->file));
}

void va_choose(struct va *va)
{
    set_depth(va);
    va->rung = va->facts.driver->quirks & VA_QUIRK_DERIVE_FIRST ? VA_RUNG_DERIVE
                                                                : VA_RUNG_GET;
    find_file(va);
    va->sync2 = va->api.vaSyncSurface2 != NULL;
}

// HEADRACE_VAAPI_READ
static enum hr_status read_wish(struct va *va)
{
    const char *wish = secure_getenv("HEADRACE_VAAPI_READ");

    va->by_host = wish && !strcmp(wish, "host");
    if (!wish || !*wish || va->by_host)
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
    for (int i = 0; i < VA_SLOTS; i++) {
        va->slots[i].va = va;
        va->slots[i].surface = VA_INVALID_ID;
        va->slots[i].out.surface = VA_INVALID_ID;
    }
}

static enum hr_status va_open(struct hr__engine *e, const char *which)
{
    struct va *va;
    enum hr_status status;

    if ((status = va_api_check()))
        return status;
    if (!(va = hr__alloc(e->device, sizeof(*va))))
        return hr__fail(HR_ENOMEM, "out of memory");
    memset(va, 0, sizeof(*va));
    if ((status = read_wish(va))) {
        hr__free(va);
        return status;
    }
    ((struct va_engine *)e->priv)->va = va;
    init(va, e);
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
    for (int i = 0; i < VA_SLOTS; i++)
        hr__free(va->slots[i].bytes);
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
    .name = "vaapi",
    .engine_size = sizeof(struct va_engine),
    .list = va_list_devices,
    .open = va_open,
    .close = va_close,
    .offer = va_offer,
    .submit = va_submit,
    .cancel = va_cancel,
    .chained = va_chained,
    .origin = va_origin,
    .media = true,
    .fingerprint = va_fingerprint,
};
