// SPDX-License-Identifier: Apache-2.0
// The video processor of the software VA driver, against what its README
// promises: what it makes, what it takes, what it can be told to get wrong.
#include <stdlib.h>
#include <string.h>

#include "client.h"

static uint64_t seed;

static VAStatus process(struct client *c, VASurfaceID to,
                        const VAProcPipelineParameterBuffer *p)
{
    VAConfigID config = VA_INVALID_ID;
    VAContextID context = VA_INVALID_ID;
    VABufferID id = VA_INVALID_ID;
    VAStatus status;

    vaCreateConfig(c->display, VAProfileNone, VAEntrypointVideoProc, NULL, 0,
                   &config);
    vaCreateContext(c->display, config, 0, 0, 0, NULL, 0, &context);
    vaCreateBuffer(c->display, context, VAProcPipelineParameterBufferType,
                   sizeof(*p), 1, (void *)p, &id);
    vaBeginPicture(c->display, context, to);
    status = vaRenderPicture(c->display, context, &id, 1);
    vaDestroyBuffer(c->display, id);
    if (vaEndPicture(c->display, context) == VA_STATUS_SUCCESS)
        status = vaSyncSurface(c->display, to);
    vaDestroyContext(c->display, context);
    vaDestroyConfig(c->display, config);
    return status;
}

enum { W = 24, H = 16 };

// Where pixel x, y of a turned and mirrored picture comes from.
static void source_of(uint32_t rotation, uint32_t mirror, int w, int h, int x,
                      int y, int *sx, int *sy)
{
    if (mirror & VA_MIRROR_HORIZONTAL)
        x = w - 1 - x;
    if (mirror & VA_MIRROR_VERTICAL)
        y = h - 1 - y;
    *sx = rotation == VA_ROTATION_90    ? y
          : rotation == VA_ROTATION_180 ? w - 1 - x
          : rotation == VA_ROTATION_270 ? h - 1 - y
                                        : x;
    *sy = rotation == VA_ROTATION_90    ? w - 1 - x
          : rotation == VA_ROTATION_180 ? h - 1 - y
          : rotation == VA_ROTATION_270 ? x
                                        : y;
}

static void moves_lose_nothing(void)
{
    uint8_t in[W * H];
    struct client c;
    VASurfaceID from;

    for (int i = 0; i < W * H; i++)
        in[i] = (uint8_t)next_random(&seed);
    client_open(&c, "");
    from = client_surface(&c, VA_RT_FORMAT_YUV400, VA_FOURCC_Y800, W, H);
    client_write(&c, from, VA_FOURCC_Y800, W, H, in);
    for (uint32_t turn = 0; turn < 4; turn++) {
        for (uint32_t mirror = 0; mirror < 4; mirror++) {
            bool on_side = turn & 1;
            int w = on_side ? 8 : 10, h = on_side ? 10 : 8, sx, sy, bad = 0;
            VARectangle crop = {7, 5, 10, 8};
            VASurfaceID to = client_surface(&c, VA_RT_FORMAT_YUV400,
                                            VA_FOURCC_Y800, w, h);
            VAProcPipelineParameterBuffer p = {.surface = from,
                                               .surface_region = &crop,
                                               .rotation_state = turn,
                                               .mirror_state = mirror};
            VAStatus status = process(&c, to, &p);
            uint8_t *out = client_read(&c, to, VA_FOURCC_Y800, w, h);

            for (int i = 0; out && i < w * h; i++) {
                source_of(turn, mirror, w, h, i % w, i / w, &sx, &sy);
                bad += out[i] != in[(sy + 5) * W + sx + 7];
            }
            CHECK(status == VA_STATUS_SUCCESS && out && !bad,
                  "turn %u mirror %u: %d wrong", turn, mirror, bad);
            free(out);
            vaDestroySurfaces(c.display, &to, 1);
        }
    }
    vaDestroySurfaces(c.display, &from, 1);
    client_close(&c);
}

static void colours(void)
{
    // Y U V, then R G B in full and in limited range.
    static const uint8_t cases[][9] = {
        {128, 128, 128, 128, 128, 128, 130, 130, 130},
        {76, 85, 255, 254, 0, 0, 255, 0, 0},
        {150, 44, 21, 0, 255, 1, 0, 255, 0},
        {16, 128, 128, 16, 16, 16, 0, 0, 0},
        {235, 128, 128, 235, 235, 235, 255, 255, 255},
    };
    struct client c;
    VASurfaceID from, to;
    uint8_t in[3 * W * H];

    client_open(&c, "");
    from = client_surface(&c, VA_RT_FORMAT_YUV444, VA_FOURCC_444P, W, H);
    to = client_surface(&c, VA_RT_FORMAT_RGB32, VA_FOURCC_RGBA, W, H);
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        bool limited = i & 1;
        const uint8_t *v = cases[i / 2], *want = v + (limited ? 6 : 3);
        VAProcPipelineParameterBuffer p = {
            .surface = from,
            .surface_color_standard = VAProcColorStandardBT601};
        uint8_t *out;

        p.input_color_properties.color_range = limited ? VA_SOURCE_RANGE_REDUCED
                                                       : VA_SOURCE_RANGE_FULL;
        for (int k = 0; k < 3; k++)
            memset(in + k * W * H, v[k], W * H);
        client_write(&c, from, VA_FOURCC_444P, W, H, in);
        process(&c, to, &p);
        out = client_read(&c, to, VA_FOURCC_RGBA, W, H);
        CHECK(out && out[3] == 255 && abs(out[0] - want[0]) <= 1 &&
                  abs(out[1] - want[1]) <= 1 && abs(out[2] - want[2]) <= 1,
              "case %zu: %d %d %d", i, out[0], out[1], out[2]);
        free(out);
    }
    vaDestroySurfaces(c.display, &from, 1);
    vaDestroySurfaces(c.display, &to, 1);
    client_close(&c);
}

// ---- what goes in -----------------------------------------------------------

static bool listed(struct client *c, uint32_t fourcc)
{
    VASurfaceAttrib list[64];
    unsigned n = sizeof(list) / sizeof(*list);
    VAConfigID config = VA_INVALID_ID;
    bool found = false;

    vaCreateConfig(c->display, VAProfileNone, VAEntrypointVideoProc, NULL, 0,
                   &config);
    CHECK(vaQuerySurfaceAttributes(c->display, config, list, &n) ==
              VA_STATUS_SUCCESS,
          "attributes");
    vaDestroyConfig(c->display, config);
    for (unsigned i = 0; i < n; i++)
        found |= list[i].type == VASurfaceAttribPixelFormat &&
                 (uint32_t)list[i].value.value.i == fourcc;
    return found;
}

// What a personality lists it takes, and nothing else.
static void takes_what_it_lists(void)
{
    static const struct {
        uint32_t fourcc;
        unsigned rt;
    } forms[] = {
        {VA_FOURCC_Y800, VA_RT_FORMAT_YUV400},
        {VA_FOURCC_NV12, VA_RT_FORMAT_YUV420},
        {VA_FOURCC_422H, VA_RT_FORMAT_YUV422},
        {VA_FOURCC_YUY2, VA_RT_FORMAT_YUV422},
        {VA_FOURCC_422V, VA_RT_FORMAT_YUV422},
        {VA_FOURCC_444P, VA_RT_FORMAT_YUV444},
        {VA_FOURCC_411P, VA_RT_FORMAT_YUV411},
    };
    // Which of those, by bits.
    static const struct {
        const char *name;
        unsigned takes;
    } cases[] = {{"plain", 0x7f},  {"ihd", 0x1e},       {"i965", 0x0a},
                 {"mesa22", 0x02}, {"mesa_main", 0x3b}, {"nvidia", 0x02}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char options[64];
        struct client c;
        VASurfaceID to;

        snprintf(options, sizeof(options), "personality=%s", cases[i].name);
        client_open(&c, options);
        to = client_surface(&c, VA_RT_FORMAT_RGB32, VA_FOURCC_RGBX, 64, 64);
        for (size_t k = 0; k < sizeof(forms) / sizeof(*forms); k++) {
            bool takes = cases[i].takes >> k & 1;
            VAProcPipelineParameterBuffer p = {.surface = VA_INVALID_ID};
            VASurfaceAttrib format = {.type = VASurfaceAttribPixelFormat,
                                      .flags = VA_SURFACE_ATTRIB_SETTABLE};

            format.value.type = VAGenericValueTypeInteger;
            format.value.value.i = (int)forms[k].fourcc;
            CHECK(listed(&c, forms[k].fourcc) == takes, "%s lists %.4s",
                  cases[i].name, (const char *)&forms[k].fourcc);
            if (vaCreateSurfaces(c.display, forms[k].rt, 64, 64, &p.surface, 1,
                                 &format, 1) != VA_STATUS_SUCCESS) {
                CHECK(!takes, "%s has no %.4s", cases[i].name,
                      (const char *)&forms[k].fourcc);
                continue;
            }
            CHECK((process(&c, to, &p) == VA_STATUS_SUCCESS) == takes,
                  "%s takes %.4s", cases[i].name,
                  (const char *)&forms[k].fourcc);
            vaDestroySurfaces(c.display, &p.surface, 1);
        }
        vaDestroySurfaces(c.display, &to, 1);
        client_close(&c);
    }
}

// ---- what goes wrong --------------------------------------------------------

enum { LONG = 32 };

// A picture whose luma grows to the right and down, and whose chroma is 50 and
// 200, cropped to its left half and mirrored; what comes out of it: free().
static uint8_t *mirrored_half(const char *options, uint32_t mirror)
{
    VARectangle crop = {0, 0, LONG / 2, H};
    VAProcPipelineParameterBuffer p = {.surface_region = &crop,
                                       .mirror_state = mirror};
    uint8_t in[3 * LONG * H], *out;
    struct client c;
    VASurfaceID to;

    for (int i = 0; i < LONG * H; i++)
        in[i] = (uint8_t)(i % LONG * 6 + i / LONG * 5);
    memset(in + LONG * H, 50, LONG * H);
    memset(in + 2 * LONG * H, 200, LONG * H);
    client_open(&c, options);
    p.surface = client_surface(&c, VA_RT_FORMAT_YUV444, VA_FOURCC_444P, LONG,
                               H);
    to = client_surface(&c, VA_RT_FORMAT_YUV444, VA_FOURCC_444P, LONG / 2, H);
    client_write(&c, p.surface, VA_FOURCC_444P, LONG, H, in);
    CHECK(process(&c, to, &p) == VA_STATUS_SUCCESS, "%s", options);
    out = client_read(&c, to, VA_FOURCC_444P, LONG / 2, H);
    CHECK(out != NULL, "%s", options);
    vaDestroySurfaces(c.display, &p.surface, 1);
    vaDestroySurfaces(c.display, &to, 1);
    client_close(&c);
    return out;
}

static void goes_wrong(void)
{
    enum { LAST = 6 * (LONG / 2 - 1), ALL = LAST + 5 * (H - 1) };
    static const struct {
        const char *options;
        uint32_t mirror;
        uint8_t first, u;  // luma of its first pixel
    } cases[] = {
        {"", VA_MIRROR_HORIZONTAL, LAST, 50},
        {"vpp_swap=444P", VA_MIRROR_HORIZONTAL, LAST, 200},
        {"vpp_no_flip=444P", VA_MIRROR_HORIZONTAL, 0, 50},
        // Halved, so that its first pixel is the mean of the last two.
        {"vpp_no_crop=444P", VA_MIRROR_HORIZONTAL, 6 * (LONG - 1) - 3, 50},
        {"vpp_swap=NV12,vpp_no_flip=422H,vpp_no_crop=Y800",
         VA_MIRROR_HORIZONTAL, LAST, 50},
        {"vpp_no_flip=444P,vpp_no_flip=none", VA_MIRROR_HORIZONTAL, LAST, 50},
        {"", VA_MIRROR_HORIZONTAL | VA_MIRROR_VERTICAL, ALL, 50},
        {"personality=mesa_main", VA_MIRROR_HORIZONTAL, LAST, 50},
        {"personality=mesa_main", VA_MIRROR_HORIZONTAL | VA_MIRROR_VERTICAL, 0,
         50},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t *out = mirrored_half(cases[i].options, cases[i].mirror);

        CHECK(out && out[0] == cases[i].first &&
                  out[LONG / 2 * H] == cases[i].u &&
                  out[LONG * H] == 250 - cases[i].u,
              "case %zu: %d %d %d", i, out[0], out[LONG / 2 * H],
              out[LONG * H]);
        free(out);
    }
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(moves_lose_nothing),
        TEST_CASE(colours),
        TEST_CASE(takes_what_it_lists),
        TEST_CASE(goes_wrong),
    };

    if (!client_init()) {
        test_not_run("the software VA driver was not built");
        return TEST_NOT_RUN;
    }
    seed = 1;
    return test_main("va_driver_vpp", cases, sizeof(cases) / sizeof(*cases),
                     argc, argv);
}
