// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

// Bytes that libjpeg may still allocate after open: for tables between the end
// of the picture and EOI, at most 4 + 8 of them and below 400 bytes each.
#define RESERVE 8192

struct jpeg_decode {
    struct cpu_jpeg j;  // first
    int comps;          // bytes per pixel of libjpeg's rows
    int left;           // the window's first pixel in them
};

static struct jpeg_decode *jpeg_decode(struct cpu_decode *d)
{
    return (struct jpeg_decode *)d;
}

// ---- opening ----

// Pillow's choice of mode per number of components (JpegImagePlugin.py). Four
// are always CMYK to it, whatever marker the file has.
static void choose_output(struct jpeg_decode *d)
{
    const struct cpu_decode_params *p = &d->j.base.p;
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;

    switch (cinfo->num_components) {
    case 1:
        cinfo->out_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        break;
    case 3:
        cinfo->out_color_space = JCS_RGB;
        break;
    case 4:
        cinfo->out_color_space = JCS_CMYK;
        break;
    default:
        cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "number of components");
    }
}

// Block smoothing looks two blocks to the left, but with a cropped width it
// takes the first block of the crop for the edge of the picture (jdcoefct.c).
// It is used when a progressive file left some of the coefficients that it
// estimates unknown or coarse; asking about all of them is on the safe side.
static bool may_smooth(const struct jpeg_decompress_struct *cinfo)
{
    if (!cinfo->progressive_mode || !cinfo->coef_bits)
        return false;
    for (int c = 0; c < cinfo->num_components; c++)
        for (int i = 0; i < DCTSIZE2; i++)
            if (cinfo->coef_bits[c][i] != 0)
                return true;
    return false;
}

// Has libjpeg decode only the columns that the window needs. Where a component
// is upsampled horizontally, the outermost column at a cut lacks its
// neighbour: one more is asked for and dropped. Two iMCUs at least, because
// below 3 samples per row the upsampler becomes another one (jdsample.c).
static void crop(struct jpeg_decode *d)
{
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    const struct hr__rect *w = &d->j.base.p.window;
    int unit = DCTSIZE * cinfo->max_h_samp_factor;
    int margin = 0, left, right;
    JDIMENSION x, width;

    d->left = w->x;
    if (may_smooth(cinfo))
        return;
    for (int c = 0; c < cinfo->num_components; c++)
        if (cinfo->comp_info[c].h_samp_factor != cinfo->max_h_samp_factor)
            margin = 1;
    left = w->x > margin ? (w->x - margin) / unit * unit : 0;
    right = w->x + w->w + margin;
    if (right - left < 2 * unit) {
        left = left > unit ? left - unit : 0;
        right = right - left < 2 * unit ? left + 2 * unit : right;
    }
    right = right < d->j.base.p.width ? right : d->j.base.p.width;
    x = (JDIMENSION)left;
    width = (JDIMENSION)(right - left);
    if (width == cinfo->output_width)
        return;
    jpeg_crop_scanline(cinfo, &x, &width);
    d->left = w->x - (int)x;
}

static void open_step(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;

    cpu_jpeg_begin(&d->j);
    choose_output(d);
    cpu_jpeg_start(&d->j);
    crop(d);
    d->comps = cinfo->output_components;
    cpu_decode_alloc_lines(base, (size_t)cinfo->output_width * d->comps);
    if (!cpu_pool_seal(&base->pool, RESERVE))
        cpu_jpeg_refuse(&d->j, CPU_NOMEM, "out of memory");
    // One skip, from the top: a skip that starts inside a row group gives
    // wrong rows (libjpeg-turbo issue 915).
    if (base->p.window.y)
        jpeg_skip_scanlines(cinfo, (JDIMENSION)base->p.window.y);
}

// ---- rows ----

static void read_lines(struct jpeg_decode *d, int want)
{
    JSAMPROW lines[CPU_DECODE_ROWS];
    int got = 0;

    for (int i = 0; i < want; i++)
        lines[i] = d->j.base.lines + (size_t)i * d->j.base.pitch;
    while (got < want) {
        int n = (int)jpeg_read_scanlines(&d->j.cinfo, lines + got,
                                         (JDIMENSION)(want - got));

        // Only a source that suspends could make it stop here.
        if (n == 0)
            cpu_jpeg_refuse(&d->j, CPU_CORRUPT, "no more rows");
        got += n;
    }
}

static void rows_step(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);
    const struct cpu_ops *ops = base->ops;
    int width = base->p.window.w;

    read_lines(d, base->max);
    for (int i = 0; i < base->max; i++) {
        uint8_t *row = base->lines + (size_t)i * base->pitch +
                       (size_t)d->left * d->comps;

        if (d->comps == 4)
            ops->cmyk_to_rgb(row, row, width);
        if (d->comps >= 3 && base->p.channels == 1)
            ops->rgb_to_gray(row, row, width);
        base->rows[i] = row;
    }
    base->got = base->max;
}

// A file of several scans was read to its end by jpeg_start_decompress().
static void finish_step(struct cpu_decode *base)
{
    struct jpeg_decode *d = jpeg_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;

    if (jpeg_has_multiple_scans(cinfo))
        return;
    while (cinfo->output_scanline < cinfo->output_height) {
        JDIMENSION left = cinfo->output_height - cinfo->output_scanline;

        // Without vertical subsampling rows can be skipped from anywhere.
        if (cinfo->max_v_samp_factor == 1 && left > 1)
            left -= jpeg_skip_scanlines(cinfo, left - 1);
        read_lines(d, left < CPU_DECODE_ROWS ? (int)left : CPU_DECODE_ROWS);
    }
    d->j.tail = true;
    jpeg_finish_decompress(cinfo);
}

const struct cpu_decode_kind cpu_jpeg_decoder = {
    .size = sizeof(struct jpeg_decode),
    .open = open_step,
    .rows = rows_step,
    .finish = finish_step,
    .close = cpu_jpeg_close,
};
