// SPDX-License-Identifier: Apache-2.0
// The table of drivers, by how their vendor string begins. Each entry names its
// source.
#include <string.h>

#include "backends/vaapi/vaapi.h"

static const struct va_driver drivers[] = {
    // Thread-safe: Chromium media/gpu/vaapi/vaapi_wrapper.cc. Derived images
    // are uncached: FFmpeg libavutil/hwcontext_vaapi.c.
    {"Intel iHD driver", VA_QUIRK_SAFE, 127, 1},
    // gst-plugins vaapi: GST_VA_HACK_SURFACE_NO_FOURCC; not thread-safe, and
    // its GetImage breaks 4:2:2 (Chromium).
    {"Intel i965 driver", VA_QUIRK_NO_FOURCC | VA_QUIRK_DERIVE_FIRST, 0, 1},
    // Smallest side: rocJPEG. Its vaSyncSurface returns at once for decodes,
    // GetImage waits: mesa src/gallium/frontends/va/surface.c. (For years its
    // video processor took YUV for limited range, whatever it was told, later
    // for grey only: postproc.c. vpp_open.c finds out.)
    {"Mesa Gallium driver", VA_QUIRK_SAFE | VA_QUIRK_NO_SYNC, 0, 64},
    // The most surfaces of a decoder: elFarto/nvidia-vaapi-driver
    // src/vabackend.c.
    {"VA-API NVDEC driver", VA_QUIRK_NO_VPP, 32, 1},
    {"", 0, 0, 1},
};

const struct va_driver *va_driver_of(const char *vendor)
{
    const struct va_driver *d = drivers;

    while (strncmp(vendor, d->vendor, strlen(d->vendor)))
        d++;
    return d;
}
