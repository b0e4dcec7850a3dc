// SPDX-License-Identifier: Apache-2.0
// The drivers that this one plays: vendor string, formats, limits, habits. Real
// drivers are described from their sources, not from hardware.
#include <string.h>

#include "driver.h"

#define CC(name) VA_FOURCC_##name
#define RT(name) VA_RT_FORMAT_##name
#define TURNS                                                             \
    (1 << VA_ROTATION_NONE | 1 << VA_ROTATION_90 | 1 << VA_ROTATION_180 | \
     1 << VA_ROTATION_270)
#define MIRRORS (VA_MIRROR_HORIZONTAL | VA_MIRROR_VERTICAL)

const struct personality personalities[] = {
    {.name = "plain",
     .vendor = "Headrace software media engine",
     .decode_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400) |
                  RT(YUV411) | RT(RGBP) | RT(RGB32),
     .vpp_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400) | RT(YUV411) |
               RT(RGBP) | RT(RGB32),
     .decode_fourccs = {CC(NV12), CC(IMC3), CC(Y800), CC(411P), CC(422H),
                        CC(422V), CC(444P), CC(YUY2), CC(UYVY), CC(RGBP)},
     .vpp_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(UYVY), CC(422H),
                     CC(422V), CC(444P), CC(411P), CC(Y800), CC(IMC3), CC(RGBA),
                     CC(BGRA), CC(RGBX), CC(BGRX), CC(RGBP)},
     .image_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(UYVY),
                       CC(422H), CC(422V), CC(444P), CC(411P), CC(Y800),
                       CC(IMC3), CC(RGBA), CC(BGRA), CC(RGBX), CC(BGRX),
                       CC(RGBP)},
     .by_sampling = {CC(Y800), CC(NV12), CC(YUY2), CC(422V), CC(444P),
                     CC(411P)},
     .min_size = 1,
     .max_size = 16384,
     .vpp_min_size = 1,
     .max_targets = 127,
     .align = 16,
     .rotation_flags = TURNS,
     .mirror_flags = MIRRORS,
     .flags = PERSON_KEEP_TABLES | PERSON_LIKE_DERIVED},
    {.name = "ihd",
     .vendor = "Intel iHD driver for Intel(R) Gen Graphics - 23.1.1 ()",
     .decode_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400) |
                  RT(YUV411) | RT(RGB32),
     .vpp_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400) | RT(YUV411) |
               RT(RGB32) | RT(RGBP),
     .decode_fourccs = {CC(NV12), CC(IMC3), CC(Y800), CC(411P), CC(422H),
                        CC(422V), CC(444P), CC(RGBP)},
     .vpp_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(422H), CC(422V),
                     CC(RGBA), CC(BGRA), CC(RGBX), CC(RGBP)},
     .image_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(UYVY),
                       CC(422H), CC(422V), CC(444P), CC(411P), CC(Y800),
                       CC(IMC3), CC(RGBP), CC(RGBA), CC(BGRA), CC(RGBX)},
     .by_sampling = {CC(Y800), CC(NV12), CC(YUY2), CC(422V), CC(444P),
                     CC(411P)},
     .min_size = 1,
     .max_size = 16384,
     .vpp_min_size = 16,
     .max_targets = 127,
     .align = 32,
     .rotation_flags = TURNS,
     .mirror_flags = MIRRORS,
     .flags = PERSON_DC_12 | PERSON_444},
    {.name = "i965",
     .vendor = "Intel i965 driver for Intel(R) Skylake - 2.4.1",
     .decode_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400) |
                  RT(YUV411),
     .vpp_rt = RT(YUV420) | RT(YUV422) | RT(RGB32),
     .decode_fourccs = {CC(IMC3), CC(422H), CC(422V), CC(444P), CC(411P),
                        CC(Y800)},
     .vpp_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(RGBA), CC(RGBX),
                     CC(BGRA), CC(BGRX)},
     .image_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(IMC3),
                       CC(422V), CC(444P), CC(411P), CC(Y800), CC(RGBA),
                       CC(RGBX), CC(BGRA), CC(BGRX)},
     .by_sampling = {CC(Y800), CC(IMC3), CC(422H), CC(422V), CC(444P),
                     CC(411P)},
     .min_size = 1,
     .max_size = 4096,
     .vpp_min_size = 16,
     .max_targets = 127,
     .align = 32,
     .rotation_flags = TURNS,
     .flags = PERSON_SERIAL | PERSON_NO_SYNC2 | PERSON_RESHAPE |
              PERSON_NO_FOURCC | PERSON_NO_CONVERT | PERSON_CONVERT_420},
    {.name = "mesa22",
     .vendor = "Mesa Gallium driver 22.3.6 for AMD Radeon RX 6600 "
               "(navi23, LLVM 15.0.6, DRM 3.49, 6.1.0)",
     .decode_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400),
     .vpp_rt = RT(YUV420) | RT(RGB32),
     .decode_fourccs = {CC(NV12), CC(YUY2), CC(Y800), CC(444P)},
     .vpp_fourccs = {CC(NV12), CC(YV12), CC(I420), CC(BGRA), CC(RGBA), CC(BGRX),
                     CC(RGBX)},
     .image_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(UYVY),
                       CC(Y800), CC(444P), CC(BGRA), CC(RGBA), CC(BGRX),
                       CC(RGBX)},
     .by_sampling = {CC(Y800), CC(NV12), CC(YUY2), 0, CC(444P), 0},
     .min_size = 64,
     .max_size = 4096,
     .vpp_min_size = 16,
     .max_targets = 127,
     .align = 16,
     .flags = PERSON_NO_SYNC2 | PERSON_MUTE_STATUS | PERSON_NO_SYNC |
              PERSON_NO_OFFSET | PERSON_LIMITED | PERSON_RESHAPE |
              PERSON_BAD_GREY | PERSON_CONVERT_NV12 | PERSON_FAKE_YUYV},
    // src/gallium/frontends/va as of 2026: postproc.c keeps to the range, and
    // asks for one mirror or the other; surface.c lists the formats that
    // shaders sample.
    {.name = "mesa_main",
     .vendor = "Mesa Gallium driver 26.0.0-devel for AMD Radeon RX 6600 "
               "(navi23, LLVM 20.1.2, DRM 3.64, 6.16.0)",
     .decode_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400),
     .vpp_rt = RT(YUV420) | RT(YUV422) | RT(YUV444) | RT(YUV400) | RT(RGB32),
     .decode_fourccs = {CC(NV12), CC(YUY2), CC(Y800), CC(444P)},
     .vpp_fourccs = {CC(NV12), CC(YV12), CC(I420), CC(Y800), CC(UYVY), CC(YUY2),
                     CC(422V), CC(444P), CC(BGRA), CC(RGBA), CC(BGRX),
                     CC(RGBX)},
     .image_fourccs = {CC(NV12), CC(I420), CC(YV12), CC(YUY2), CC(UYVY),
                       CC(Y800), CC(444P), CC(BGRA), CC(RGBA), CC(BGRX),
                       CC(RGBX)},
     .by_sampling = {CC(Y800), CC(NV12), CC(YUY2), 0, CC(444P), 0},
     .min_size = 64,
     .max_size = 4096,
     .vpp_min_size = 16,
     .max_targets = 127,
     .align = 16,
     .rotation_flags = TURNS,
     .mirror_flags = MIRRORS,
     .flags = PERSON_NO_SYNC | PERSON_RESHAPE | PERSON_CONVERT_NV12 |
              PERSON_ONE_MIRROR},
    {.name = "nvidia",
     .vendor = "VA-API NVDEC driver [direct backend]",
     .decode_rt = RT(YUV420),
     .vpp_rt = RT(YUV420) | RT(RGB32),
     .decode_fourccs = {CC(NV12)},
     .vpp_fourccs = {CC(NV12), CC(RGBX), CC(BGRX)},
     .image_fourccs = {CC(NV12)},
     .by_sampling = {CC(NV12), CC(NV12), 0, 0, 0, 0},
     .min_size = 64,
     .max_size = 8192,
     .vpp_min_size = 16,
     .max_targets = 32,
     .align = 16,
     .flags = PERSON_NO_STATUS | PERSON_NO_SYNC2 | PERSON_NO_CONVERT |
              PERSON_NO_SCALE},
    {.name = NULL},
};

const struct personality *personality_find(const char *name)
{
    for (const struct personality *p = personalities; p->name; p++)
        if (!strcmp(p->name, name))
            return p;
    return NULL;
}

// The lists end with 0 or with the array.
bool lists(const uint32_t *fourccs, uint32_t fourcc)
{
    for (int i = 0; i < MAX_FOURCCS && fourccs[i]; i++)
        if (fourccs[i] == fourcc)
            return true;
    return false;
}
