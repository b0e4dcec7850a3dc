// SPDX-License-Identifier: Apache-2.0
// A display and what its driver says it can do; its configuration and context.
// All of it on the driver thread.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/vaapi/vaapi.h"

enum {
    FIRST_NODE = 128,
    MAX_ENTRYPOINTS = 256,
    DEFAULT_SIDE = 4096,
    MAX_SIDE = 16384
};

// ---- Messages of driver and library ----------------------------------------

static void message(struct va *va, enum hr_log_level level, const char *text)
{
    int n = (int)strcspn(text, "\n");

    if (n)
        va_log(va, level, "driver: %.*s", n > 300 ? 300 : n, text);
}

static void on_error(void *va, const char *text)
{
    message(va, HR_LOG_WARN, text);
}

static void on_info(void *va, const char *text)
{
    message(va, HR_LOG_DEBUG, text);
}

// ---- Capabilities ----------------------------------------------------------

static bool has_entrypoint(struct va *va, VAProfile profile,
                           VAEntrypoint wanted)
{
    VAEntrypoint list[MAX_ENTRYPOINTS];
    int n = 0;

    if (va->api.vaMaxNumEntrypoints(va->display) > MAX_ENTRYPOINTS ||
        va->api.vaQueryConfigEntrypoints(va->display, profile, list, &n) ||
        n > MAX_ENTRYPOINTS)
        return false;
    while (n > 0 && list[n - 1] != wanted)
        n--;
    return n > 0;
}

static int value_of(const VASurfaceAttrib *list, unsigned n,
                    VASurfaceAttribType type)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i].type == type)
            return list[i].value.value.i;
    return 0;
}

static bool query_surfaces(struct va *va, struct va_fault *fault)
{
    struct va_facts *f = &va->facts;
    VASurfaceAttrib list[VA_MAX_ATTRIBUTES];
    unsigned n = va_query_attributes(va, va->config, list, fault);

    f->num_fourccs = 0;
    for (unsigned i = 0; i < n && f->num_fourccs < VA_MAX_FORMATS; i++)
        if (list[i].type == VASurfaceAttribPixelFormat)
            f->fourccs[f->num_fourccs++] = (uint32_t)list[i].value.value.i;
    f->min_w = value_of(list, n, VASurfaceAttribMinWidth);
    f->min_h = value_of(list, n, VASurfaceAttribMinHeight);
    f->max_w = value_of(list, n, VASurfaceAttribMaxWidth);
    f->max_h = value_of(list, n, VASurfaceAttribMaxHeight);
    return n || va_wrong(fault, "the driver: no surface attributes");
}

static void query_images(struct va *va)
{
    struct va_facts *f = &va->facts;

    if (va->api.vaMaxNumImageFormats(va->display) > VA_MAX_IMAGE_FORMATS ||
        va->api.vaQueryImageFormats(va->display, f->images, &f->num_images) ||
        f->num_images > VA_MAX_IMAGE_FORMATS)
        f->num_images = 0;
}

static int limit(int value, int other, int none)
{
    value = value > 0 ? value : other;
    return value > 0 && value < MAX_SIDE ? value : value > 0 ? MAX_SIDE : none;
}

static bool query(struct va *va, struct va_fault *fault)
{
    struct va_facts *f = &va->facts;
    VAConfigAttrib attributes[] = {
        {.type = VAConfigAttribRTFormat},
        {.type = VAConfigAttribMaxPictureWidth},
        {.type = VAConfigAttribMaxPictureHeight},
    };
    const uint32_t none = VA_ATTRIB_NOT_SUPPORTED;
    unsigned rt_formats;

    if (!VA_OK(va, fault, vaGetConfigAttributes, VAProfileJPEGBaseline,
               VAEntrypointVLD, attributes, 3) ||
        !query_surfaces(va, fault))
        return false;
    query_images(va);
    rt_formats = attributes[0].value == none ? 0 : attributes[0].value;
    for (int i = 1; i < 3; i++)
        attributes[i].value = attributes[i].value == none
                                  ? 0
                                  : attributes[i].value & INT32_MAX;
    f->max_w = limit(f->max_w, (int)attributes[1].value, DEFAULT_SIDE);
    f->max_h = limit(f->max_h, (int)attributes[2].value, DEFAULT_SIDE);
    f->min_w = f->min_w > f->driver->min_side ? f->min_w : f->driver->min_side;
    f->min_h = f->min_h > f->driver->min_side ? f->min_h : f->driver->min_side;
    for (int k = 0; k < HR_NUM_KINDS; k++)
        va_kind_surface((enum hr_jpeg_kind)k, rt_formats, f->fourccs,
                        f->num_fourccs, &f->kinds[k]);
    f->vpp = has_entrypoint(va, VAProfileNone, VAEntrypointVideoProc);
    return true;
}

static bool open_config(struct va *va, struct va_fault *fault)
{
    const char *vendor = va->api.vaQueryVendorString(va->display);

    if (!va->have_facts) {
        snprintf(va->facts.vendor, sizeof(va->facts.vendor), "%s",
                 vendor ? vendor : "");
        va->facts.driver = va_driver_of(va->facts.vendor);
    }
    if (!has_entrypoint(va, VAProfileJPEGBaseline, VAEntrypointVLD))
        return va_wrong(fault, "the driver: it does not decode JPEG");
    // As FFmpeg: without attributes, the surface's format decides.
    if (!va_make_config(va, VAProfileJPEGBaseline, VAEntrypointVLD, &va->config,
                        fault))
        return false;
    // The facts do not change any more: other threads read them.
    if (!va->have_facts && !query(va, fault))
        return false;
    va_vpp_open(va);
    return va->have_facts = true;
}

// ---- Context ---------------------------------------------------------------

bool va_context_fits(const struct va *va, int w, int h)
{
    return va->context != VA_INVALID_ID && w <= va->context_w &&
           h <= va->context_h;
}

static void close_context(struct va *va)
{
    va_drop_context(va, &va->context);
    va->context_w = va->context_h = 0;
}

// Grows by halves, so that it is not made anew for every picture.
static int grown(int have, int want, int most)
{
    int n = have > 0 ? have : 1024;

    while (n < want)
        n += n / 2;
    n = (n + 15) & ~15;
    return n < most ? n : want > most ? want : most;
}

bool va_context_open(struct va *va, int w, int h, struct va_fault *fault)
{
    if (va_context_fits(va, w, h))
        return true;
    w = grown(va->context_w, w, va->facts.max_w);
    h = grown(va->context_h, h, va->facts.max_h);
    close_context(va);
    if (!va_make_context(va, va->config, w, h, &va->context, fault))
        return false;
    va->context_w = w;
    va->context_h = h;
    return true;
}

// ---- A display -------------------------------------------------------------

bool va_node(int i, char path[VA_TEXT])
{
    snprintf(path, VA_TEXT, "/dev/dri/renderD%d", FIRST_NODE + i);
    return !access(path, F_OK);
}

static bool open_node(struct va *va, const char *path, struct va_fault *fault)
{
    int major, minor;

    if ((va->fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
        return va_wrong(fault, "%.60s: %.45s", path, strerror(errno));
    if (!(va->display = va->api.vaGetDisplayDRM(va->fd)))
        return va_wrong(fault, "%.60s: not a DRM device", path);
    // libva calls them within the calls that have something to say.
    if (va->api.vaSetErrorCallback)
        va->api.vaSetErrorCallback(va->display, on_error, va);
    if (va->api.vaSetInfoCallback)
        va->api.vaSetInfoCallback(va->display, on_info, va);
    // From here on vaTerminate() frees what it made, whatever it says.
    va->initialized = true;
    if (!VA_OK(va, fault, vaInitialize, &major, &minor))
        return false;
    if (va->have_facts)
        return true;
    va->facts.major = major;
    va->facts.minor = minor;
    snprintf(va->node, sizeof(va->node), "%s", path);
    return true;
}

void va_display_close(struct va *va)
{
    close_context(va);
    va_drop_config(va, &va->config);
    va_vpp_close(va);
    if (!va_retire_display(va)) {
        if (va->initialized && !va->foreign)
            va->api.vaTerminate(va->display);
        if (va->fd >= 0)
            close(va->fd);
    }
    va->initialized = false;
    va->display = NULL;
    va->fd = -1;
}

static bool open_path(struct va *va, const char *path, struct va_fault *fault)
{
    if (open_node(va, path, fault) && open_config(va, fault))
        return true;
    va_display_close(va);
    return false;
}

static bool open_any(struct va *va, struct va_fault *fault)
{
    char path[VA_TEXT];
    bool any = false;

    for (int i = 0; i < VA_NODES; i++) {
        if (!va_node(i, path))
            continue;
        any = true;
        if (open_path(va, path, fault))
            return true;
    }
    return any ? false
               : va_wrong(fault, "/dev/dri/renderD*: no such device node");
}

bool va_display_open(struct va *va, struct va_fault *fault)
{
    const char *which = va->which;
    char path[VA_TEXT], *end;
    long index = strtol(which, &end, 10);

    va->fd = -1;
    if (va->foreign) {
        va->display = va->foreign;
        if (!va->api.vaDisplayIsValid(va->display) ||
            !va->api.vaQueryVendorString(va->display))
            return va_wrong(fault, "the caller's VADisplay: not initialised");
        return open_config(va, fault);
    }
    if (va->node[0])  // opened before: the same again
        snprintf(path, sizeof(path), "%s", va->node);
    else if (!*which)
        return open_any(va, fault);
    else if (end != which && !*end && index >= 0 && index < VA_NODES)
        va_node((int)index, path);
    else
        snprintf(path, sizeof(path), "%s%.110s",
                 which[0] == '/' || which[0] == '.' ? "" : "/dev/dri/", which);
    return open_path(va, path, fault);
}
