// SPDX-License-Identifier: Apache-2.0
// The pixels of the software VA driver: against libjpeg itself, and against
// what its README promises of the video processor and of exports.
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

// ---- the video processor ---------------------------------------------------

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

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(decodes_as_libjpeg),
        TEST_CASE(other_samplings),
        TEST_CASE(idcts_deviate),
        TEST_CASE(personalities_make_fourccs),
        TEST_CASE(personalities_lack_calls),
        TEST_CASE(exports_are_the_pixels),
        TEST_CASE(moves_lose_nothing),
        TEST_CASE(colours),
    };

    if (!client_init()) {
        test_not_run("the software VA driver was not built");
        return TEST_NOT_RUN;
    }
    seed = 1;
    return test_main("va_driver_pixels", cases, sizeof(cases) / sizeof(*cases),
                     argc, argv);
}
