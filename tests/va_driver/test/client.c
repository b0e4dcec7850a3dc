// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static va_driver_control_fn *control;

// libva-drm asks libdrm what a descriptor is: here everything is a render
// node. Exported by -rdynamic.
int drmGetNodeTypeFromFd(int fd);
__attribute__((visibility("default"))) int drmGetNodeTypeFromFd(int fd)
{
    (void)fd;
    return 2;
}

bool client_init(void)
{
    void *driver = dlopen(VA_DRIVER_DIR "/headrace_drv_video.so", RTLD_NOW);
    void *entry = driver ? dlsym(driver, VA_DRIVER_CONTROL) : NULL;

    if (!entry)
        return false;
    memcpy(&control, &entry, sizeof(entry));
    setenv("LIBVA_DRIVERS_PATH", VA_DRIVER_DIR, 1);
    setenv("LIBVA_DRIVER_NAME", "headrace", 1);
    setenv("LIBVA_MESSAGING_LEVEL", "0", 1);
    unsetenv("HEADRACE_VA_DRIVER");
    return true;
}

struct va_driver_counters client_control(const char *options)
{
    struct va_driver_counters c;
    int rc = control(options, &c);

    CHECK(rc == 0, "the driver does not know %s", options);
    return c;
}

void client_open(struct client *c, const char *options)
{
    int major, minor;
    char text[256];

    snprintf(text, sizeof(text), "default reset %s", options);
    client_control(text);
    c->fd = memfd_create("node", MFD_CLOEXEC);
    c->display = vaGetDisplayDRM(c->fd);
    if (!c->display ||
        vaInitialize(c->display, &major, &minor) != VA_STATUS_SUCCESS)
        abort();
    c->config = c->context = VA_INVALID_ID;
    if (vaCreateConfig(c->display, VAProfileJPEGBaseline, VAEntrypointVLD, NULL,
                       0, &c->config) != VA_STATUS_SUCCESS ||
        vaCreateContext(c->display, c->config, 64, 64, VA_PROGRESSIVE, NULL, 0,
                        &c->context) != VA_STATUS_SUCCESS)
        abort();
}

void client_close(struct client *c)
{
    struct va_driver_counters n;

    client_control("fault=none");
    vaDestroyContext(c->display, c->context);
    vaDestroyConfig(c->display, c->config);
    vaTerminate(c->display);
    close(c->fd);
    n = client_control(NULL);
    CHECK(n.left == 0 && n.displays == 0 && n.surfaces == 0 && n.memfds == 0 &&
              n.in_flight == 0 && n.hanging == 0,
          "left %ld, displays %ld, memfds %ld, hanging %ld", n.left, n.displays,
          n.memfds, n.hanging);
}

// ---- from a file to buffers ------------------------------------------------

static void read_frame(struct submission *s, const uint8_t *at)
{
    s->picture.picture_height = (uint16_t)(at[1] << 8 | at[2]);
    s->picture.picture_width = (uint16_t)(at[3] << 8 | at[4]);
    s->picture.num_components = at[5];
    for (int i = 0; i < at[5]; i++) {
        s->picture.components[i].component_id = at[6 + 3 * i];
        s->picture.components[i].h_sampling_factor = at[7 + 3 * i] >> 4;
        s->picture.components[i].v_sampling_factor = at[7 + 3 * i] & 15;
        s->picture.components[i].quantiser_table_selector = at[8 + 3 * i];
    }
}

static void read_huffman(struct submission *s, const uint8_t *at, size_t n)
{
    for (size_t i = 0; i + 17 <= n;) {
        int t = at[i] & 1;
        bool ac = at[i] >> 4;
        size_t values = 0;

        for (int k = 0; k < 16; k++)
            values += at[i + 1 + (size_t)k];
        memcpy(ac ? s->huffman.huffman_table[t].num_ac_codes
                  : s->huffman.huffman_table[t].num_dc_codes,
               at + i + 1, 16);
        memcpy(ac ? s->huffman.huffman_table[t].ac_values
                  : s->huffman.huffman_table[t].dc_values,
               at + i + 17, values);
        s->huffman.load_huffman_table[t] = 1;
        i += 17 + values;
    }
}

static void read_scan(struct submission *s, const uint8_t *at)
{
    s->slice.num_components = at[0];
    for (int i = 0; i < at[0]; i++) {
        s->slice.components[i].component_selector = at[1 + 2 * i];
        s->slice.components[i].dc_table_selector = at[2 + 2 * i] >> 4;
        s->slice.components[i].ac_table_selector = at[2 + 2 * i] & 15;
    }
}

static uint32_t mcus(const struct submission *s)
{
    int h = 1, v = 1;

    for (int i = 0; i < s->picture.num_components && i < 3; i++) {
        if (s->picture.components[i].h_sampling_factor > h)
            h = s->picture.components[i].h_sampling_factor;
        if (s->picture.components[i].v_sampling_factor > v)
            v = s->picture.components[i].v_sampling_factor;
    }
    return (uint32_t)((s->picture.picture_width + 8 * h - 1) / (8 * h) *
                      ((s->picture.picture_height + 8 * v - 1) / (8 * v)));
}

void submission_of(struct submission *s, const struct bytes *file)
{
    size_t at = 2, n;

    memset(s, 0, sizeof(*s));
    for (; at + 4 < file->size; at += 2 + n) {
        const uint8_t *p = file->data + at;

        n = (size_t)(p[2] << 8 | p[3]);
        if (p[1] == 0xc0)
            read_frame(s, p + 4);
        else if (p[1] == 0xc4)
            read_huffman(s, p + 4, n - 2);
        else if (p[1] == 0xdd)
            s->slice.restart_interval = (uint16_t)(p[4] << 8 | p[5]);
        for (size_t i = 4; p[1] == 0xdb && i + 65 <= n + 2; i += 65) {
            memcpy(s->iq.quantiser_table[p[i] & 3], p + i + 1, 64);
            s->iq.load_quantiser_table[p[i] & 3] = 1;
        }
        if (p[1] != 0xda)
            continue;
        read_scan(s, p + 4);
        s->data = p + 2 + n;
        s->slice.slice_data_size = (uint32_t)(file->size - at - 2 - n - 2);
        s->slice.slice_data_flag = VA_SLICE_DATA_FLAG_ALL;
        s->slice.num_mcus = mcus(s);
        return;
    }
    abort();
}

VAStatus client_decode(struct client *c, VASurfaceID to,
                       const struct submission *s)
{
    const struct part {
        VABufferType type;
        const void *data;
        size_t size;
    } parts[] = {
        {VAPictureParameterBufferType, &s->picture, sizeof(s->picture)},
        {VAIQMatrixBufferType, &s->iq, sizeof(s->iq)},
        {VAHuffmanTableBufferType, &s->huffman, sizeof(s->huffman)},
        {VASliceParameterBufferType, &s->slice, sizeof(s->slice)},
        {VASliceDataBufferType, s->data, s->slice.slice_data_size},
    };
    VAStatus status = vaBeginPicture(c->display, c->context, to), end;

    if (status != VA_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < 5 && status == VA_STATUS_SUCCESS; i++) {
        VABufferID id;

        status = vaCreateBuffer(c->display, c->context, parts[i].type,
                                (unsigned)parts[i].size, 1,
                                (void *)parts[i].data, &id);
        if (status != VA_STATUS_SUCCESS)
            break;
        status = vaRenderPicture(c->display, c->context, &id, 1);
        vaDestroyBuffer(c->display, id);
    }
    end = vaEndPicture(c->display, c->context);
    return status != VA_STATUS_SUCCESS ? status : end;
}

VASurfaceID client_surface(struct client *c, unsigned rt, uint32_t fourcc,
                           int w, int h)
{
    VASurfaceAttrib a = {.type = VASurfaceAttribPixelFormat,
                         .flags = VA_SURFACE_ATTRIB_SETTABLE};
    VASurfaceID id = VA_INVALID_ID;
    VAStatus status;

    a.value.type = VAGenericValueTypeInteger;
    a.value.value.i = (int)fourcc;
    status = vaCreateSurfaces(c->display, rt, (unsigned)w, (unsigned)h, &id, 1,
                              fourcc ? &a : NULL, fourcc ? 1 : 0);
    CHECK(status == VA_STATUS_SUCCESS, "no surface: %s", vaErrorStr(status));
    return id;
}

// ---- pixels ----------------------------------------------------------------

static void plane_size(uint32_t fourcc, int i, int w, int h, int *pw, int *ph)
{
    bool half = i > 0 && fourcc == VA_FOURCC_I420;

    *pw = half ? (w + 1) / 2 : fourcc == VA_FOURCC_RGBA ? 4 * w : w;
    *ph = half ? (h + 1) / 2 : h;
}

static int num_planes(uint32_t fourcc)
{
    return fourcc == VA_FOURCC_Y800 || fourcc == VA_FOURCC_RGBA ? 1 : 3;
}

size_t client_size(uint32_t fourcc, int w, int h)
{
    size_t size = 0;

    for (int i = 0; i < num_planes(fourcc); i++) {
        int pw, ph;

        plane_size(fourcc, i, w, h, &pw, &ph);
        size += (size_t)pw * (size_t)ph;
    }
    return size;
}

// Between an image's memory and planes without gaps.
static void move(const VAImage *v, uint8_t *image, uint8_t *tight, bool out)
{
    for (int i = 0; i < num_planes(v->format.fourcc); i++) {
        int pw, ph;

        plane_size(v->format.fourcc, i, v->width, v->height, &pw, &ph);
        for (int y = 0; y < ph; y++, tight += pw) {
            uint8_t *row = image + v->offsets[i] + (size_t)y * v->pitches[i];

            memcpy(out ? tight : row, out ? row : tight, (size_t)pw);
        }
    }
}

static VAStatus transfer(struct client *c, VASurfaceID s, uint32_t fourcc,
                         int w, int h, uint8_t *tight, bool out)
{
    VAImageFormat f = {.fourcc = fourcc};
    VAImage image;
    void *at;
    VAStatus status = vaCreateImage(c->display, &f, w, h, &image);

    if (status != VA_STATUS_SUCCESS)
        return status;
    if (out)
        status = vaGetImage(c->display, s, 0, 0, (unsigned)w, (unsigned)h,
                            image.image_id);
    if (status == VA_STATUS_SUCCESS) {
        vaMapBuffer(c->display, image.buf, &at);
        move(&image, at, tight, out);
        vaUnmapBuffer(c->display, image.buf);
    }
    if (!out)
        status = vaPutImage(c->display, s, image.image_id, 0, 0, (unsigned)w,
                            (unsigned)h, 0, 0, (unsigned)w, (unsigned)h);
    vaDestroyImage(c->display, image.image_id);
    return status;
}

uint8_t *client_read(struct client *c, VASurfaceID from, uint32_t fourcc, int w,
                     int h)
{
    uint8_t *pixels = calloc(1, client_size(fourcc, w, h));

    if (transfer(c, from, fourcc, w, h, pixels, true) == VA_STATUS_SUCCESS)
        return pixels;
    free(pixels);
    return NULL;
}

VAStatus client_write(struct client *c, VASurfaceID to, uint32_t fourcc, int w,
                      int h, const uint8_t *pixels)
{
    return transfer(c, to, fourcc, w, h, (uint8_t *)pixels, false);
}

uint8_t *client_reference(const struct bytes *file, uint32_t fourcc)
{
    struct jpeg_decompress_struct j = {0};
    struct jpeg_error_mgr errors;
    static uint8_t rows[3][32][4096];
    JSAMPROW lines[3][32];
    JSAMPARRAY planes[3] = {lines[0], lines[1], lines[2]};
    uint8_t *to, *starts[3];
    int w, h, pw[3], ph[3], done[3] = {0};

    j.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&j);
    jpeg_mem_src(&j, file->data, file->size);
    jpeg_read_header(&j, TRUE);
    j.raw_data_out = TRUE;
    j.out_color_space = j.jpeg_color_space;
    jpeg_start_decompress(&j);
    w = (int)j.image_width;
    h = (int)j.image_height;
    starts[0] = to = calloc(1, client_size(fourcc, w, h));
    for (int i = 0; i < num_planes(fourcc); i++) {
        plane_size(fourcc, i, w, h, &pw[i], &ph[i]);
        if (i < 2)
            starts[i + 1] = starts[i] + pw[i] * ph[i];
    }
    for (int i = 0; i < 3; i++)
        for (int y = 0; y < 32; y++)
            lines[i][y] = rows[i][y];
    while (j.output_scanline < j.output_height) {
        jpeg_read_raw_data(&j, planes, (JDIMENSION)j.max_v_samp_factor * 8);
        for (int i = 0; i < num_planes(fourcc); i++)
            for (int y = 0; y < j.comp_info[i].v_samp_factor * 8; y++)
                if (done[i] < ph[i])
                    memcpy(starts[i] + pw[i] * done[i]++, rows[i][y],
                           (size_t)pw[i]);
    }
    jpeg_destroy_decompress(&j);
    return to;
}
