// SPDX-License-Identifier: Apache-2.0
// Where the samples of a component lie in an image of each format, as
// va/va.h and the fourccs' definitions have it: written out once more, for no
// driver makes all of them.
#include <string.h>

#include "backends/vaapi/vaapi.h"
#include "testing.h"

// One pixel of luma and its chroma: the bytes Y, U (Cb), V (Cr) as they stand
// in a plane from its first byte on; '-' is a luma of the next pixel.
static const struct {
    uint32_t fourcc;
    enum va_kind kind;
    const char *planes[3];
} formats[] = {
    {VA_FOURCC_NV12, VA_KIND_420, {"Y", "UV"}},
    {VA_FOURCC_NV21, VA_KIND_420, {"Y", "VU"}},
    {VA_FOURCC_I420, VA_KIND_420, {"Y", "U", "V"}},
    {VA_FOURCC_IYUV, VA_KIND_420, {"Y", "U", "V"}},
    {VA_FOURCC_IMC3, VA_KIND_420, {"Y", "U", "V"}},
    {VA_FOURCC_YV12, VA_KIND_420, {"Y", "V", "U"}},
    {VA_FOURCC_422H, VA_KIND_422, {"Y", "U", "V"}},
    {VA_FOURCC_YUY2, VA_KIND_422, {"YU-V"}},
    {VA_FOURCC_UYVY, VA_KIND_422, {"UYV-"}},
    {VA_FOURCC_422V, VA_KIND_440, {"Y", "U", "V"}},
    {VA_FOURCC_444P, VA_KIND_444, {"Y", "U", "V"}},
    {VA_FOURCC_411P, VA_KIND_411, {"Y", "U", "V"}},
};

static void places(void)
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
static void surfaces(void)
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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {TEST_CASE(places),
                                             TEST_CASE(surfaces)};

    return test_main("vaapi format", cases, 2, argc, argv);
}
