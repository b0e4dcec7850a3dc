// SPDX-License-Identifier: Apache-2.0
// The pixels of the software VA driver: against libjpeg itself, and against
// what its README promises of exports.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

static uint64_t seed;

static struct bytes make(int w, int h, int kind)
{
    // Grey, 4:2:0, 4:2:2, 4:4:0, 4:4:4, 4:1:1
    static const uint8_t luma[] = {0x11, 0x22, 0x21, 0x12, 0x11, 0x41};
    struct jpeg_spec spec = {.w = w, .h = h, .quality = 90};
    struct bytes file;

    spec.space = kind ? JCS_YCbCr : JCS_GRAYSCALE;
    spec.factors[0] = luma[kind];
    file = test_jpeg_of(&spec, &seed);
    return file;
}

static bool same(const uint8_t *a, const uint8_t *b, size_t n)
{
    return a && b && !memcmp(a, b, n);
}

// A picture into a surface, read back in a planar format.
static uint8_t *through(struct client *c, const struct bytes *file, unsigned rt,
                        uint32_t fourcc, uint32_t read_as)
{
    struct submission s;
    VASurfaceID to;
    VAStatus status;
    uint8_t *pixels;
    int w, h;

    submission_of(&s, file);
    w = s.picture.picture_width;
    h = s.picture.picture_height;
    to = client_surface(c, rt, fourcc, w, h);
    status = client_decode(c, to, &s);
    CHECK(status == VA_STATUS_SUCCESS, "decode: %s", vaErrorStr(status));
    status = vaSyncSurface(c->display, to);
    CHECK(status == VA_STATUS_SUCCESS, "sync: %s", vaErrorStr(status));
    pixels = client_read(c, to, read_as, w, h);
    vaDestroySurfaces(c->display, &to, 1);
    return pixels;
}

static void decodes_as_libjpeg(void)
{
    static const struct {
        int kind;
        unsigned rt;
        uint32_t fourcc, read_as;
    } cases[] = {
        {1, VA_RT_FORMAT_YUV420, 0, VA_FOURCC_I420},
        {1, VA_RT_FORMAT_YUV420, VA_FOURCC_IMC3, VA_FOURCC_I420},
        {4, VA_RT_FORMAT_YUV444, VA_FOURCC_444P, VA_FOURCC_444P},
        {0, VA_RT_FORMAT_YUV400, VA_FOURCC_Y800, VA_FOURCC_Y800},
        {0, VA_RT_FORMAT_YUV420, VA_FOURCC_NV12, VA_FOURCC_Y800},
    };
    struct client c;

    client_open(&c, "pitch=128 offset=4096");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        for (int size = 1; size < 70; size += 17) {
            struct bytes file = make(size + 3, size, cases[i].kind);
            uint8_t *got = through(&c, &file, cases[i].rt, cases[i].fourcc,
                                   cases[i].read_as);
            uint8_t *want = client_reference(&file, cases[i].read_as);

            CHECK(same(got, want,
                       client_size(cases[i].read_as, size + 3, size)),
                  "case %zu, size %d", i, size);
            free(got);
            free(want);
            free(file.data);
        }
    }
    client_close(&c);
}

// Chroma of other samplings arrives as the surface has it: luma is the same.
static void other_samplings(void)
{
    struct client c;

    client_open(&c, "");
    for (int kind = 1; kind < 6; kind++) {
        struct bytes file = make(61, 35, kind);
        uint8_t *got = through(&c, &file, VA_RT_FORMAT_YUV420, VA_FOURCC_NV12,
                               VA_FOURCC_Y800);
        uint8_t *want = client_reference(&file, VA_FOURCC_Y800);

        CHECK(same(got, want, 61 * 35), "kind %d", kind);
        free(got);
        free(want);
        free(file.data);
    }
    client_close(&c);
}

static void idcts_deviate(void)
{
    static const char *const options[] = {"idct=islow", "idct=float",
                                          "deviate=2"};
    static const int limits[] = {0, 1, 2};
    struct bytes file = make(64, 64, 1);
    size_t n = client_size(VA_FOURCC_I420, 64, 64);
    uint8_t *want = client_reference(&file, VA_FOURCC_I420);

    for (int i = 0; i < 3; i++) {
        struct client c;
        uint8_t *got;
        int most = 0;

        client_open(&c, options[i]);
        got = through(&c, &file, VA_RT_FORMAT_YUV420, 0, VA_FOURCC_I420);
        for (size_t k = 0; got && k < n; k++)
            most = abs(got[k] - want[k]) > most ? abs(got[k] - want[k]) : most;
        CHECK(got && most <= limits[i] && (i == 0 || most > 0), "%s: %d",
              options[i], most);
        free(got);
        client_close(&c);
    }
    free(want);
    free(file.data);
}

// ---- personalities ---------------------------------------------------------

// The fourcc of a surface without one after a picture; 0: it was refused.
static uint32_t made_fourcc(struct client *c, unsigned rt, int kind)
{
    struct bytes file = make(64, 64, kind);
    struct submission s;
    VASurfaceID to = client_surface(c, rt, 0, 64, 64);
    VAImage image;
    uint32_t fourcc = 0;

    submission_of(&s, &file);
    if (client_decode(c, to, &s) == VA_STATUS_SUCCESS &&
        vaDeriveImage(c->display, to, &image) == VA_STATUS_SUCCESS) {
        fourcc = image.format.fourcc;
        vaDestroyImage(c->display, image.image_id);
    }
    vaDestroySurfaces(c->display, &to, 1);
    free(file.data);
    return fourcc;
}

static void personalities_make_fourccs(void)
{
    static const struct {
        const char *name;
        uint32_t rt420_by_420, rt420_by_422, rt420_by_444;
    } cases[] = {
        {"plain", VA_FOURCC_NV12, VA_FOURCC_NV12, VA_FOURCC_NV12},
        {"ihd", VA_FOURCC_NV12, VA_FOURCC_NV12, VA_FOURCC_444P},
        {"i965", VA_FOURCC_IMC3, VA_FOURCC_422H, VA_FOURCC_444P},
        {"mesa22", VA_FOURCC_NV12, VA_FOURCC('Y', 'U', 'Y', 'V'),
         VA_FOURCC_444P},
        {"mesa_main", VA_FOURCC_NV12, VA_FOURCC_YUY2, VA_FOURCC_444P},
        {"nvidia", VA_FOURCC_NV12, 0, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char options[64];
        struct client c;
        uint32_t got[3];

        snprintf(options, sizeof(options), "personality=%s", cases[i].name);
        client_open(&c, options);
        got[0] = made_fourcc(&c, VA_RT_FORMAT_YUV420, 1);
        got[1] = made_fourcc(&c, VA_RT_FORMAT_YUV420, 2);
        got[2] = made_fourcc(&c, VA_RT_FORMAT_YUV420, 4);
        CHECK(got[0] == cases[i].rt420_by_420 &&
                  got[1] == cases[i].rt420_by_422 &&
                  got[2] == cases[i].rt420_by_444,
              "%s: %.4s %.4s %.4s", cases[i].name, (char *)&got[0],
              (char *)&got[1], (char *)&got[2]);
        client_close(&c);
    }
}

static void personalities_lack_calls(void)
{
    VASurfaceStatus status = (VASurfaceStatus)77;
    struct bytes file = make(64, 64, 1);
    struct submission s;
    struct client c;
    VASurfaceID to;

    submission_of(&s, &file);
    client_open(&c, "personality=nvidia");
    to = client_surface(&c, VA_RT_FORMAT_YUV420, 0, 64, 64);
    CHECK(client_decode(&c, to, &s) == VA_STATUS_SUCCESS, "nvidia");
    CHECK(vaQuerySurfaceStatus(c.display, to, &status) ==
              VA_STATUS_ERROR_UNIMPLEMENTED,
          "nvidia has a status");
    CHECK(vaSyncSurface2(c.display, to, 1) == VA_STATUS_ERROR_UNIMPLEMENTED,
          "nvidia has SyncSurface2");
    vaDestroySurfaces(c.display, &to, 1);
    client_close(&c);

    client_open(&c, "personality=mesa22 latency=100");
    to = client_surface(&c, VA_RT_FORMAT_YUV420, 0, 64, 64);
    CHECK(client_decode(&c, to, &s) == VA_STATUS_SUCCESS, "mesa22");
    CHECK(vaQuerySurfaceStatus(c.display, to, &status) == VA_STATUS_SUCCESS &&
              status == (VASurfaceStatus)77,
          "mesa22 writes a status");
    CHECK(vaSyncSurface(c.display, to) == VA_STATUS_SUCCESS &&
              client_control(NULL).in_flight == 1,
          "mesa22 waits for a decode");
    vaDestroySurfaces(c.display, &to, 1);
    client_close(&c);

    client_open(&c, "personality=i965");
    to = client_surface(&c, VA_RT_FORMAT_YUV420, VA_FOURCC_IMC3, 64, 64);
    CHECK(client_decode(&c, to, &s) == VA_STATUS_ERROR_INVALID_SURFACE,
          "i965 takes a surface with a fourcc");
    vaDestroySurfaces(c.display, &to, 1);
    client_close(&c);
    free(file.data);
}

// ---- exports ---------------------------------------------------------------

static void exports_are_the_pixels(void)
{
    struct bytes file = make(50, 30, 1);
    uint8_t *want = client_reference(&file, VA_FOURCC_I420);
    VADRMPRIMESurfaceDescriptor x;
    struct submission s;
    struct client c;
    VASurfaceID to;
    uint8_t *at;

    submission_of(&s, &file);
    client_open(&c, "offset=512 pitch=256");
    to = client_surface(&c, VA_RT_FORMAT_YUV420, VA_FOURCC_NV12, 50, 30);
    client_decode(&c, to, &s);
    vaSyncSurface(c.display, to);
    CHECK(vaExportSurfaceHandle(
              c.display, to, VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2,
              VA_EXPORT_SURFACE_READ_ONLY | VA_EXPORT_SURFACE_SEPARATE_LAYERS,
              &x) == VA_STATUS_SUCCESS,
          "no export");
    CHECK(x.num_objects == 1 && x.num_layers == 2 &&
              x.layers[0].offset[0] == 512 && x.layers[0].pitch[0] == 256 &&
              x.layers[1].drm_format == VA_FOURCC('G', 'R', '8', '8') &&
              x.objects[0].drm_format_modifier == 0,
          "layers");
    // The descriptor outlives the surface.
    vaDestroySurfaces(c.display, &to, 1);
    at = mmap(NULL, x.objects[0].size, PROT_READ, MAP_SHARED, x.objects[0].fd,
              0);
    for (int y = 0; at != MAP_FAILED && y < 30; y++)
        CHECK(!memcmp(at + x.layers[0].offset[0] + y * 256, want + y * 50, 50),
              "luma row %d", y);
    for (int y = 0; at != MAP_FAILED && y < 15; y++)
        for (int i = 0; i < 25; i++)
            CHECK(at[x.layers[1].offset[0] + (unsigned)(y * 256 + 2 * i)] ==
                      want[50 * 30 + y * 25 + i],
                  "U %d %d", i, y);
    munmap(at, x.objects[0].size);
    close(x.objects[0].fd);
    client_close(&c);

    client_open(&c, "modifier=0x0100000000000001");
    to = client_surface(&c, VA_RT_FORMAT_YUV420, VA_FOURCC_NV12, 50, 30);
    CHECK(vaExportSurfaceHandle(c.display, to,
                                VA_SURFACE_ATTRIB_MEM_TYPE_DRM_PRIME_2,
                                VA_EXPORT_SURFACE_COMPOSED_LAYERS,
                                &x) == VA_STATUS_SUCCESS &&
              x.num_layers == 1 && x.layers[0].num_planes == 2 &&
              x.objects[0].drm_format_modifier == 0x0100000000000001,
          "tiled");
    close(x.objects[0].fd);
    vaDestroySurfaces(c.display, &to, 1);
    client_close(&c);
    free(want);
    free(file.data);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(decodes_as_libjpeg),
        TEST_CASE(other_samplings),
        TEST_CASE(idcts_deviate),
        TEST_CASE(personalities_make_fourccs),
        TEST_CASE(personalities_lack_calls),
        TEST_CASE(exports_are_the_pixels),
    };

    if (!client_init()) {
        test_not_run("the software VA driver was not built");
        return TEST_NOT_RUN;
    }
    seed = 1;
    return test_main("va_driver_pixels", cases, sizeof(cases) / sizeof(*cases),
                     argc, argv);
}
