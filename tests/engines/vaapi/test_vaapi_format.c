// SPDX-License-Identifier: Apache-2.0
// Where the samples of a component lie in an image of each format, as
// va/va.h and the fourccs' definitions have it: written out once more, for no
// driver makes all of them.
#include "backends/vaapi/vaapi.h"
#include "hal/job/work.h"
#include "testing.h"

// One pixel of luma and its chroma: the bytes Y, U (Cb), V (Cr) as they stand
// in a plane from its first byte on; '-' is a luma of the next pixel.
static const struct {
    uint32_t fourcc;
    enum hr_jpeg_kind kind;
    const char *planes[3];
} formats[] = {
    {VA_FOURCC_NV12, HR_KIND_420, {"Y", "UV"}},
    {VA_FOURCC_NV21, HR_KIND_420, {"Y", "VU"}},
    {VA_FOURCC_I420, HR_KIND_420, {"Y", "U", "V"}},
    {VA_FOURCC_IYUV, HR_KIND_420, {"Y", "U", "V"}},
    {VA_FOURCC_IMC3, HR_KIND_420, {"Y", "U", "V"}},
    {VA_FOURCC_YV12, HR_KIND_420, {"Y", "V", "U"}},
    {VA_FOURCC_422H, HR_KIND_422, {"Y", "U", "V"}},
    {VA_FOURCC_YUY2, HR_KIND_422, {"YU-V"}},
    {VA_FOURCC_UYVY, HR_KIND_422, {"UYV-"}},
    {VA_FOURCC_422V, HR_KIND_440, {"Y", "U", "V"}},
    {VA_FOURCC_444P, HR_KIND_444, {"Y", "U", "V"}},
    {VA_FOURCC_411P, HR_KIND_411, {"Y", "U", "V"}},
};

TEST_CASE(places)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        for (int c = 0; c < 3; c++) {
            struct va_samples s = {0};
            const char *text, *at = NULL;
            int plane = -1;

            while (!at && formats[i].planes[++plane])
                at = strchr(formats[i].planes[plane], "YUV"[c]);
            text = formats[i].planes[plane];
            CHECK(va_samples_of(formats[i].fourcc, formats[i].kind, c, &s),
                  "format %zu", i);
            CHECK((int)s.plane == plane && (int)s.first == (int)(at - text),
                  "format %zu, %c: plane %d, byte %d", i, "YUV"[c],
                  (int)s.plane, (int)s.first);
            // Luma comes twice in a packed unit.
            CHECK((size_t)s.step ==
                      strlen(text) / (strchr(text, '-') && !c ? 2 : 1),
                  "format %zu, %c: step %d", i, "YUV"[c], (int)s.step);
        }
}

// Surfaces are of whole units, and of 16 rows and columns at least: formats
// that halve them have whole samples then.
TEST_CASE(surfaces)
{
    static const struct {
        int w, h, components;
        uint8_t factors;
        int surface_w, surface_h;
    } cases[] = {
        {8, 8, 1, 0x11, 16, 16},       {17, 33, 1, 0x22, 32, 48},
        {8, 8, 3, 0x11, 16, 16},       {17, 17, 3, 0x22, 32, 32},
        {16, 24, 3, 0x21, 16, 32},     {33, 16, 3, 0x41, 64, 16},
        {100, 100, 3, 0x12, 112, 112},
    };
    static struct va va;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t h = cases[i].factors >> 4, v = cases[i].factors & 15;
        struct hr_info info = {.format = HR_FORMAT_JPEG,
                               .width = cases[i].w,
                               .height = cases[i].h,
                               .components = cases[i].components,
                               .h = {h, 1, 1},
                               .v = {v, 1, 1}};
        struct va_key key;

        va_key_of(&va, &info, &key);
        CHECK(key.w == cases[i].surface_w && key.h == cases[i].surface_h,
              "case %zu: %d x %d", i, key.w, key.h);
    }
}

// ---- The video processor ---------------------------------------------------

static struct hr__picture picture(const struct hr_op *ops, int n)
{
    struct hr__picture pic = {.width = 96,
                              .height = 80,
                              .channels = 3,
                              .tier = HR_FAST,
                              .info = {.format = HR_FORMAT_JPEG,
                                       .width = 96,
                                       .height = 80,
                                       .components = 3,
                                       .color = HR_COLOR_YCC,
                                       .h = {2, 1, 1},
                                       .v = {2, 1, 1}}};
    char text[128];

    CHECK(!hr__geometry_build(&pic.geo, ops, n, HR_REFERENCE_DEFAULT, 96, 80, 1,
                              text),
          "%s", text);
    return pic;
}

// A window of the mirrored picture is another part of the surface; mirrored
// twice is not mirrored; no more than halved.
TEST_CASE(passes)
{
    const struct hr_op cut[] = {hr_op_decode(0), hr_op_flip(.horizontal = true),
                                hr_op_crop(.x = 8, .y = 4, .w = 40, .h = 32)};
    const struct hr_op twice[] = {hr_op_decode(0),
                                  hr_op_flip(.horizontal = true),
                                  hr_op_resize(.w = 64, .h = 60),
                                  hr_op_flip(.horizontal = true)};
    const struct hr_op half[] = {hr_op_decode(0),
                                 hr_op_resize(.w = 48, .h = 40)};
    const struct hr_op less[] = {hr_op_decode(0),
                                 hr_op_resize(.w = 47, .h = 40)};
    static struct va va;
    static struct va_frame frame;
    struct hr__picture pic = picture(cut, 3);

    va.vpp.mirrors[HR_KIND_420] = ~0u;
    va_vpp_plan(&frame, &pic);
    CHECK(frame.crop.x == 48 && frame.crop.y == 4 && frame.crop.width == 40 &&
              frame.crop.height == 32 && frame.mirror == VA_MIRROR_HORIZONTAL,
          "from %d, %d, mirror %u", frame.crop.x, frame.crop.y, frame.mirror);
    pic = picture(twice, 4);
    va_vpp_plan(&frame, &pic);
    CHECK(!frame.mirror && frame.out_w == 64, "mirror %u", frame.mirror);
    pic = picture(half, 2);
    CHECK(!va_vpp_why_not(&va, &pic), "half: %#x", va_vpp_why_not(&va, &pic));
    pic = picture(less, 2);
    CHECK(va_vpp_why_not(&va, &pic) == HR_WHY_GEOMETRY, "less than half");
}

// RGBX, RGBA, BGRX, BGRA, as vpp.c numbers them.
TEST_CASE(pixels)
{
    static const uint8_t from[2][4] = {{1, 2, 3, 9}, {3, 2, 1, 9}};
    static struct va va;
    struct va_output o = {.w = 1, .h = 1, .image = {.pitches = {4}}};
    uint8_t to[3];

    for (va.vpp.format = 0; va.vpp.format < 4; va.vpp.format++) {
        va_vpp_pack(&va, &o, from[va.vpp.format / 2], to);
        CHECK(to[0] == 1 && to[1] == 2 && to[2] == 3, "format %d: %d %d %d",
              va.vpp.format, to[0], to[1], to[2]);
    }
}

// Planes of 10 x 4 pixels, in images that have room for them or lack a byte of
// it: nothing is read that the driver does not say is there.
TEST_CASE(planes_room)
{
    static const struct {
        uint32_t fourcc, planes, w, h, pitches[3], offsets[3], size;
        bool fits;
    } cases[] = {
        {VA_FOURCC_I420, 3, 10, 4, {16, 8, 8}, {0, 64, 80}, 93, true},
        {VA_FOURCC_I420, 3, 10, 4, {16, 8, 8}, {0, 64, 80}, 92, false},
        {VA_FOURCC_YV12, 3, 10, 4, {16, 8, 8}, {0, 64, 80}, 92, false},
        {VA_FOURCC_I420, 3, 10, 4, {16, 8, 8}, {0, 80, 64}, 93, true},
        {VA_FOURCC_I420, 3, 10, 4, {16, 8, 8}, {0, 80, 64}, 92, false},
        {VA_FOURCC_I420, 3, 10, 4, {16, 8, 8}, {35, 0, 16}, 93, true},
        {VA_FOURCC_I420, 3, 10, 4, {16, 8, 8}, {36, 0, 16}, 93, false},
        {VA_FOURCC_I420, 3, 10, 4, {10, 5, 5}, {0, 40, 50}, 60, true},
        {VA_FOURCC_I420, 3, 10, 4, {9, 5, 5}, {0, 40, 50}, 60, false},
        {VA_FOURCC_I420, 3, 10, 4, {10, 5, 4}, {0, 40, 50}, 60, false},
        {VA_FOURCC_I420, 2, 10, 4, {16, 8, 8}, {0, 64, 80}, 93, false},
        {VA_FOURCC_I420, 3, 9, 4, {16, 8, 8}, {0, 64, 80}, 93, false},
        {VA_FOURCC_I420, 3, 10, 3, {16, 8, 8}, {0, 64, 80}, 93, false},
        {VA_FOURCC_NV12, 2, 10, 4, {16, 16}, {0, 64}, 90, true},
        {VA_FOURCC_NV12, 2, 10, 4, {16, 16}, {0, 64}, 89, false},
        {VA_FOURCC_NV12, 2, 10, 4, {16, 10}, {0, 64}, 84, true},
        {VA_FOURCC_NV12, 2, 10, 4, {16, 9}, {0, 64}, 84, false},
        // No sum of 32 bits.
        {VA_FOURCC_NV12, 2, 10, 4, {16, 1u << 31}, {0, 64}, 90, false},
        {VA_FOURCC_NV12, 2, 10, 4, {16, 16}, {0, UINT32_MAX}, 90, false},
    };
    static struct va va;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct hr__planes planes = {.num_components = 3, .w = 10, .h = 4};
        VAImage image = {.format = {.fourcc = cases[i].fourcc},
                         .width = (uint16_t)cases[i].w,
                         .height = (uint16_t)cases[i].h,
                         .num_planes = cases[i].planes,
                         .data_size = cases[i].size};
        struct va_fault fault = {0};
        bool fits;

        memcpy(image.pitches, cases[i].pitches, sizeof(image.pitches));
        memcpy(image.offsets, cases[i].offsets, sizeof(image.offsets));
        for (int c = 0; c < 3; c++)
            planes.comp[c] = (struct hr__plane){.cols = c ? 5 : 10,
                                                .rows = c ? 2 : 4};
        fits = va_place(&va, HR_KIND_420, &planes, &image, &fault);
        CHECK(fits == cases[i].fits && !fault.why == fits, "case %zu: %d: %s",
              i, fits, fault.text);
    }
}

static int gets;  // calls of the next one

static VAStatus get_image(VADisplay display, VASurfaceID surface, int x, int y,
                          unsigned w, unsigned h, VAImageID image)
{
    (void)display;
    (void)surface;
    (void)image;
    gets++;
    return x || y || w != 10 || h != 4 ? VA_STATUS_ERROR_INVALID_PARAMETER
                                       : VA_STATUS_SUCCESS;
}

static uint8_t mapped[16];

static VAStatus map_buffer(VADisplay display, VABufferID buffer, void **at)
{
    (void)display;
    (void)buffer;
    *at = mapped;
    return VA_STATUS_SUCCESS;
}

// An image of 10 x 4 pixels in which the rows that a driver names have no room
// is not touched.
TEST_CASE(rgb_room)
{
    static const struct {
        uint32_t pitch, offset, size;
        bool fits;
    } cases[] = {
        {40, 0, 160, true},  {40, 0, 159, false},       {39, 0, 160, false},
        {48, 0, 192, true},  {48, 0, 160, false},       {40, 8, 168, true},
        {40, 8, 160, false}, {1u << 31, 0, 160, false},
    };
    static struct va va;

    va.api.vaGetImage = get_image;
    va.api.vaMapBuffer = map_buffer;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct va_output o = {.w = 10,
                              .h = 4,
                              .image = {.pitches = {cases[i].pitch},
                                        .offsets = {cases[i].offset},
                                        .data_size = cases[i].size}};
        struct va_fault fault = {0};
        uint8_t *data = NULL;
        bool fits;

        gets = 0;
        fits = va_vpp_map(&va, &o, &data, &fault);
        CHECK(fits == cases[i].fits && gets == fits && !fault.why == fits &&
                  (!fits || data == mapped + cases[i].offset),
              "case %zu: %d, %d calls: %s", i, fits, gets, fault.text);
    }
}

static VAStatus map_nothing(VADisplay display, VABufferID buffer, void **at)
{
    (void)display;
    (void)buffer;
    *at = NULL;
    return VA_STATUS_SUCCESS;
}

static int unmaps;

static VAStatus unmap_buffer(VADisplay display, VABufferID buffer)
{
    (void)display;
    (void)buffer;
    unmaps++;
    return VA_STATUS_SUCCESS;
}

// A driver that maps a buffer to nothing has failed.
TEST_CASE(nothing_mapped)
{
    static struct va va;
    VAImage image = {.data_size = 16};
    struct va_fault fault = {0};
    uint8_t *data = mapped;

    va.api.vaMapBuffer = map_nothing;
    va.api.vaUnmapBuffer = unmap_buffer;
    CHECK(!va_map_image(&va, &image, &data, &fault) && !data &&
              fault.why == HR_WHY_FAILED && unmaps == 1,
          "why %#x, unmapped %d times", fault.why, unmaps);
}
