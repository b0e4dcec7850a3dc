// SPDX-License-Identifier: Apache-2.0
// A JPEG picture into a surface, by libjpeg-turbo: an oracle that knows
// nothing of the library under test.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "driver.h"

struct trouble {
    struct jpeg_error_mgr base;
    jmp_buf jump;
};

static void fatal(j_common_ptr j)
{
    longjmp(((struct trouble *)j->err)->jump, 1);
}

static void quiet(j_common_ptr j, int level)
{
    if (level < 0)
        j->err->num_warnings++;
}

// One row of MCUs of each component, straight into the planes.
static void read_rows(struct jpeg_decompress_struct *j, struct memory *to,
                      JSAMPROW *rows)
{
    JSAMPARRAY planes[MAX_CHANNELS];
    int at = 0, mcu = (int)j->output_scanline / (j->max_v_samp_factor * 8);

    for (int i = 0; i < j->num_components; i++) {
        int n = j->comp_info[i].v_samp_factor * 8;

        planes[i] = rows + at;
        for (int y = 0; y < n; y++, at++)
            rows[at] = memory_at(to, &to->layout.format->components[i], 0,
                                 mcu * n + y);
    }
    jpeg_read_raw_data(j, planes, (JDIMENSION)j->max_v_samp_factor * 8);
}

static uint32_t planar_fourcc(const struct picture *p, bool rgb)
{
    static const uint32_t planar[] = {VA_FOURCC_Y800, VA_FOURCC_I420,
                                      VA_FOURCC_422H, VA_FOURCC_422V,
                                      VA_FOURCC_444P, VA_FOURCC_411P};
    int kind = jpeg_sampling(&p->params);

    return rgb && kind == 4 ? (uint32_t)VA_FOURCC_RGBP : planar[kind];
}

// Whole MCUs of memory for the picture's planes.
static struct memory *planes_create(const struct jpeg_decompress_struct *j,
                                    uint32_t fourcc)
{
    int mcu_w = j->max_h_samp_factor * 8, mcu_h = j->max_v_samp_factor * 8;
    struct layout l;

    layout_make(&l, format_of(fourcc),
                ((int)j->image_width + mcu_w - 1) / mcu_w * mcu_w,
                ((int)j->image_height + mcu_h - 1) / mcu_h * mcu_h, 64, 0);
    return memory_create(&l, false);
}

// NULL with the reason in `status`; planes with an error in it are damaged.
static struct memory *decode_planes(struct display *d, const uint8_t *bytes,
                                    size_t size, uint32_t fourcc,
                                    VAStatus *status)
{
    static const J_DCT_METHOD methods[] = {JDCT_ISLOW, JDCT_IFAST, JDCT_FLOAT};
    struct jpeg_decompress_struct j = {0};
    struct trouble trouble;
    JSAMPROW rows[MAX_CHANNELS * 4 * 8];
    struct memory *volatile planes = NULL;

    j.err = jpeg_std_error(&trouble.base);
    trouble.base.error_exit = fatal;
    trouble.base.emit_message = quiet;
    *status = VA_STATUS_ERROR_DECODING_ERROR;
    if (setjmp(trouble.jump))
        goto out;
    jpeg_create_decompress(&j);
    jpeg_mem_src(&j, bytes, size);
    jpeg_read_header(&j, TRUE);
    j.raw_data_out = TRUE;
    j.out_color_space = j.jpeg_color_space;
    j.dct_method = methods[d->options.idct];
    j.do_fancy_upsampling = FALSE;
    jpeg_start_decompress(&j);
    planes = planes_create(&j, fourcc);
    if (!planes) {
        *status = VA_STATUS_ERROR_ALLOCATION_FAILED;
        goto out;
    }
    while (j.output_scanline < j.output_height)
        read_rows(&j, planes, rows);
    if (!j.err->num_warnings || d->options.damage == DAMAGE_SILENT)
        *status = VA_STATUS_SUCCESS;
out:
    jpeg_destroy_decompress(&j);
    return planes;
}

// ---- what is not libjpeg's doing --------------------------------------------

// Off by up to `by` in a pattern, as another IDCT might be.
static void deviate(struct memory *m, int by)
{
    const struct layout *l = &m->layout;

    for (int i = 0; i < l->format->num_planes; i++) {
        size_t end = i + 1 < l->format->num_planes ? l->offset[i + 1] : l->size;

        for (size_t at = l->offset[i]; at < end; at++) {
            int v = m->bytes[at] +
                    (int)((at * 7 + at / l->pitch[i] * 13) %
                          (size_t)(2 * by + 1)) -
                    by;
            m->bytes[at] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

static void spoil(struct memory *m, enum fault_what what)
{
    size_t from = m->layout.offset[0];

    if (what == FAULT_ZERO)
        memset(m->bytes + from, 0, m->layout.size - from);
    for (size_t i = from; what == FAULT_WRONG && i < m->layout.size; i++)
        m->bytes[i] ^= 0x10;
}

// The layout that this driver gives the surface for this picture.
static VAStatus reshape(struct display *d, const struct picture *p)
{
    const struct format *now = format_of(p->target->fourcc);
    int kind = jpeg_sampling(&p->params);
    uint32_t to = d->person.by_sampling[kind];
    const struct format *wanted = format_of(to);
    bool change = false;

    if (d->person.flags & PERSON_NO_FOURCC)
        change = now != wanted;
    else if (d->person.flags & PERSON_RESHAPE)
        change = now->num_components != wanted->num_components ||
                 now->components[1].xs != wanted->components[1].xs ||
                 now->components[1].ys != wanted->components[1].ys;
    else if (d->person.flags & PERSON_444)
        change = kind == 4 && now->fourcc == VA_FOURCC_NV12;
    return change ? surface_reshape(d, p->target, to) : VA_STATUS_SUCCESS;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void store(struct memory *to, const struct memory *planes)
{
    memory_copy(to, 0, 0, planes, 0, 0,
                least(to->layout.width, planes->layout.width),
                least(to->layout.height, planes->layout.height));
}

VAStatus decode_run(struct display *d, struct picture *p)
{
    struct memory *to, *planes = NULL;
    VAStatus status;
    uint8_t *bytes;
    size_t size = 0;

    pthread_mutex_lock(&d->lock);
    status = reshape(d, p);
    to = memory_ref(p->target->memory);
    pthread_mutex_unlock(&d->lock);
    if (status != VA_STATUS_SUCCESS || p->fault.what == FAULT_STALE)
        goto out;
    bytes = jpeg_assemble(p, &size);
    status = VA_STATUS_ERROR_ALLOCATION_FAILED;
    if (bytes)
        planes = decode_planes(d, bytes, size,
                               planar_fourcc(p, to->layout.format->rgb),
                               &status);
    free(bytes);
    if (planes) {
        if (d->options.deviate &&
            (!d->options.deviate_in ||
             d->options.deviate_in == to->layout.format->fourcc))
            deviate(planes, (int)d->options.deviate);
        store(to, planes);
    }
    if (status == VA_STATUS_SUCCESS)
        spoil(to, p->fault.what);
out:
    memory_unref(planes);
    memory_unref(to);
    return status;
}
