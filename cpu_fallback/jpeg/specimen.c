// SPDX-License-Identifier: Apache-2.0
#include "specimen.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "hal/engine/plain.h"

enum { MAX_W = 1600 };

enum content {
    SMOOTH,  // gradients with some noise
    HARSH,   // each sample black or white: the largest coefficients there are
    COEFS,   // coefficients written as such, no pixels: sums that must be
             // clamped
};

static const struct kind {
    int w, h;
    int sample_h, sample_v;  // of the first component; the others are 1 x 1
    J_COLOR_SPACE color;
    int quality;
    int restart;  // MCUs
    enum content content;
} kinds[] = {
    {40, 40, 1, 1, JCS_YCbCr, 90, 0, SMOOTH},
    {61, 45, 2, 1, JCS_YCbCr, 85, 0, SMOOTH},
    {67, 51, 2, 2, JCS_YCbCr, 85, 0, SMOOTH},
    {45, 61, 1, 2, JCS_YCbCr, 85, 0, SMOOTH},
    {71, 37, 4, 1, JCS_YCbCr, 85, 0, SMOOTH},
    {53, 39, 1, 1, JCS_GRAYSCALE, 80, 0, SMOOTH},
    {41, 43, 1, 1, JCS_RGB, 85, 0, SMOOTH},
    {64, 48, 2, 2, JCS_YCbCr, 75, 4, SMOOTH},
    {59, 33, 2, 1, JCS_YCbCr, 60, 3, HARSH},
    {33, 47, 2, 2, JCS_YCbCr, 100, 0, HARSH},
    {35, 29, 1, 1, JCS_YCbCr, 5, 0, HARSH},
    {47, 49, 1, 1, JCS_GRAYSCALE, 100, 5, HARSH},
    {48, 40, 2, 2, JCS_YCbCr, 90, 0, COEFS},
    {31, 50, 1, 1, JCS_RGB, 50, 0, COEFS},
    {3, 2, 2, 2, JCS_YCbCr, 90, 0, HARSH},
    {1, 1, 2, 1, JCS_YCbCr, 90, 0, SMOOTH},
    {161, 123, 2, 2, JCS_YCbCr, 80, 0, SMOOTH},
};

// From HR__SPECIMENS_LARGE on: every sampling, at least 64 x 64.
static const struct kind large[] = {
    {83, 77, 1, 1, JCS_YCbCr, 90, 0, SMOOTH},
    {94, 70, 2, 1, JCS_YCbCr, 85, 5, SMOOTH},
    {89, 95, 2, 2, JCS_YCbCr, 85, 0, SMOOTH},
    {70, 101, 1, 2, JCS_YCbCr, 85, 0, SMOOTH},
    {127, 66, 4, 1, JCS_YCbCr, 85, 0, SMOOTH},
    {75, 81, 1, 1, JCS_GRAYSCALE, 80, 0, SMOOTH},
    {81, 69, 1, 1, JCS_YCbCr, 95, 0, HARSH},
    {77, 73, 2, 1, JCS_YCbCr, 60, 3, HARSH},
    {99, 65, 2, 2, JCS_YCbCr, 100, 0, HARSH},
    {65, 99, 1, 2, JCS_YCbCr, 90, 0, HARSH},
    {131, 71, 4, 1, JCS_YCbCr, 90, 2, HARSH},
    {67, 67, 1, 1, JCS_GRAYSCALE, 100, 0, HARSH},
    {96, 80, 2, 2, JCS_YCbCr, 90, 0, COEFS},
    {80, 80, 1, 1, JCS_YCbCr, 90, 0, COEFS},
    {96, 72, 2, 1, JCS_YCbCr, 90, 0, COEFS},
};

struct writer {
    struct jpeg_compress_struct cinfo;  // first: the error handler casts
    struct jpeg_error_mgr error;
    struct jpeg_destination_mgr dest;
    jmp_buf escape;
    jvirt_barray_ptr arrays[3];  // libjpeg reads them till the end
    uint64_t random;
    const struct kind *kind;
};

// splitmix64 (Steele, Lea, Flood, 2014).
static unsigned draw(struct writer *w, unsigned below)
{
    uint64_t z = w->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) >> 33) % below;
}

// ---- libjpeg's hooks -------------------------------------------------------

static void fail(j_common_ptr cinfo)
{
    longjmp(((struct writer *)cinfo)->escape, 1);
}

static void ignore(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

static void start(j_compress_ptr cinfo)
{
    (void)cinfo;
}

// Fails: all the room was given at once.
static boolean full(j_compress_ptr cinfo)
{
    fail((j_common_ptr)cinfo);
    return FALSE;
}

// ---- Content ---------------------------------------------------------------

static void write_pixels(struct writer *w)
{
    struct jpeg_compress_struct *cinfo = &w->cinfo;
    int n = cinfo->input_components;
    JSAMPLE line[3 * MAX_W];
    JSAMPROW row = line;

    jpeg_start_compress(cinfo, TRUE);
    while (cinfo->next_scanline < cinfo->image_height) {
        int y = (int)cinfo->next_scanline;

        for (int i = 0; i < w->kind->w * n; i++) {
            int x = i / n, c = i % n;

            line[i] = (JSAMPLE)(w->kind->content == HARSH
                                    ? draw(w, 2) * 255
                                    : (unsigned)(x * (3 + c) + y * (5 - c)) /
                                              3 % 224 +
                                          draw(w, 32));
        }
        jpeg_write_scanlines(cinfo, &row, 1);
    }
}

static void fill_block(struct writer *w, JCOEFPTR block, const UINT16 *quant)
{
    // A picture's DC is within +-1024 before quantisation. With the ACs added,
    // samples often leave 0 .. 255, but never the 16 bits of SIMD decoders.
    block[0] = (JCOEF)((int)(draw(w, 2001) - 1000) / quant[0]);
    for (int i = 1; i < 64; i++)
        if (!draw(w, 6))
            block[i] = (JCOEF)((int)(draw(w, 301) - 150) / quant[i]);
}

static void write_coefficients(struct writer *w)
{
    struct jpeg_compress_struct *cinfo = &w->cinfo;
    JDIMENSION blocks_w[3], blocks_h[3];
    int n = cinfo->num_components, h0 = w->kind->sample_h;
    int v0 = w->kind->sample_v;

    for (int c = 0; c < n; c++) {
        const jpeg_component_info *comp = &cinfo->comp_info[c];
        int mcus_w = (w->kind->w + 8 * h0 - 1) / (8 * h0);
        int mcus_h = (w->kind->h + 8 * v0 - 1) / (8 * v0);

        blocks_w[c] = (JDIMENSION)(mcus_w * comp->h_samp_factor);
        blocks_h[c] = (JDIMENSION)(mcus_h * comp->v_samp_factor);
        w->arrays[c] = cinfo->mem->request_virt_barray(
            (j_common_ptr)cinfo, JPOOL_IMAGE, TRUE, blocks_w[c], blocks_h[c],
            (JDIMENSION)comp->v_samp_factor);
    }
    cinfo->mem->realize_virt_arrays((j_common_ptr)cinfo);
    for (int c = 0; c < n; c++) {
        int table = cinfo->comp_info[c].quant_tbl_no;

        for (JDIMENSION y = 0; y < blocks_h[c]; y++) {
            JBLOCKARRAY rows = cinfo->mem->access_virt_barray(
                (j_common_ptr)cinfo, w->arrays[c], y, 1, TRUE);

            for (JDIMENSION x = 0; x < blocks_w[c]; x++)
                fill_block(w, rows[0][x],
                           cinfo->quant_tbl_ptrs[table]->quantval);
        }
    }
    jpeg_write_coefficients(cinfo, w->arrays);
}

// ---- One specimen ----------------------------------------------------------

static void set_up(struct writer *w)
{
    struct jpeg_compress_struct *cinfo = &w->cinfo;
    const struct kind *k = w->kind;
    bool gray = k->color == JCS_GRAYSCALE;

    cinfo->image_width = (JDIMENSION)k->w;
    cinfo->image_height = (JDIMENSION)k->h;
    cinfo->input_components = gray ? 1 : 3;
    cinfo->in_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(cinfo);
    jpeg_set_colorspace(cinfo, k->color);
    jpeg_set_quality(cinfo, k->quality, TRUE);
    cinfo->comp_info[0].h_samp_factor = k->sample_h;
    cinfo->comp_info[0].v_samp_factor = k->sample_v;
    for (int c = 1; c < cinfo->num_components; c++)
        cinfo->comp_info[c].h_samp_factor = cinfo->comp_info[c].v_samp_factor =
            1;
    cinfo->restart_interval = (unsigned)k->restart;
    cinfo->dct_method = JDCT_ISLOW;
}

static bool encode(struct writer *w, uint8_t *to, size_t capacity, size_t *size)
{
    w->cinfo.err = jpeg_std_error(&w->error);
    w->error.error_exit = fail;
    w->error.emit_message = ignore;
    if (setjmp(w->escape)) {
        jpeg_destroy_compress(&w->cinfo);
        return false;
    }
    jpeg_create_compress(&w->cinfo);
    w->dest = (struct jpeg_destination_mgr){
        .next_output_byte = to,
        .free_in_buffer = capacity,
        .init_destination = start,
        .empty_output_buffer = full,
        .term_destination = start,
    };
    w->cinfo.dest = &w->dest;
    set_up(w);
    if (w->kind->content == COEFS)
        write_coefficients(w);
    else
        write_pixels(w);
    jpeg_finish_compress(&w->cinfo);
    *size = capacity - w->dest.free_in_buffer;
    jpeg_destroy_compress(&w->cinfo);
    return true;
}

int cpu_specimen_count(void)
{
    return (int)(sizeof(kinds) / sizeof(*kinds));
}

static const struct kind *kind_of(int i)
{
    int num_large = (int)(sizeof(large) / sizeof(*large));

    if (i >= 0 && i < cpu_specimen_count())
        return &kinds[i];
    if (i >= HR__SPECIMENS_LARGE && i - HR__SPECIMENS_LARGE < num_large)
        return &large[i - HR__SPECIMENS_LARGE];
    return NULL;
}

bool cpu_specimen_make(int i, uint8_t *to, size_t capacity, size_t *size)
{
    struct writer w;

    memset(&w, 0, sizeof(w));
    w.kind = kind_of(i);
    w.random = (uint64_t)i + 1;
    return w.kind && encode(&w, to, capacity, size);
}

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *cpu_specimen_library(void)
{
    return "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);
}
