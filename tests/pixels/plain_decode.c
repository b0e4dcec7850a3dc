// SPDX-License-Identifier: Apache-2.0
// The reference of our decoders: stock libjpeg.
#include <stdlib.h>
#include <string.h>

#include <jerror.h>

#include "decode_files.h"

static void quiet(j_common_ptr cinfo, int level)
{
    if (level < 0)
        cinfo->err->num_warnings++;
}

struct source {
    struct jpeg_source_mgr pub;
    bool ran_out;
    bool ran_out_in_rows;  // before the last row was out
    bool rows_done;
};

static void nothing(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static boolean end_of_data(j_decompress_ptr cinfo)
{
    static const JOCTET eoi[] = {0xff, JPEG_EOI};
    struct source *s = (struct source *)cinfo->src;

    s->ran_out = true;
    s->pub.next_input_byte = eoi;
    s->pub.bytes_in_buffer = sizeof(eoi);
    return TRUE;
}

static void skip_bytes(j_decompress_ptr cinfo, long n)
{
    while (n > (long)cinfo->src->bytes_in_buffer) {
        n -= (long)cinfo->src->bytes_in_buffer;
        end_of_data(cinfo);
    }
    if (n > 0) {
        cinfo->src->next_input_byte += n;
        cinfo->src->bytes_in_buffer -= (size_t)n;
    }
}

struct watch {
    struct jpeg_progress_mgr pub;
    long left;
};

static void watch(j_common_ptr cinfo)
{
    if (--((struct watch *)cinfo->progress)->left < 0)
        ERREXIT(cinfo, JERR_OUT_OF_MEMORY);
}

static int clip(int x)
{
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

static int mul255(int a, int b)
{
    int t = a * b + 128;

    return ((t >> 8) + t) >> 8;
}

void plain_gray(uint8_t *dst, const uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (uint8_t)((rgb[3 * i] * 19595 + rgb[3 * i + 1] * 38470 +
                            rgb[3 * i + 2] * 7471 + 0x8000) >>
                           16);
}

// Inverted on reading ("CMYK;I"), then cmyk2rgb.
static void plain_row(uint8_t *dst, const uint8_t *src, int w, int comps)
{
    for (int x = 0; x < w; x++)
        for (int c = 0; c < 3; c++) {
            const uint8_t *p = src + x * comps;

            if (comps == 4) {
                int light = 255 - (255 - p[3]);

                dst[3 * x + c] = (uint8_t)clip(light -
                                               mul255(255 - p[c], light));
            } else {
                dst[3 * x + c] = p[comps == 1 ? 0 : c];
            }
        }
}

// Rows into out->rgb; the caller frees on a jump.
static void plain_rows(struct jpeg_decompress_struct *d, struct plain *out,
                       uint8_t **row)
{
    struct source *s = (struct source *)d->src;

    d->out_color_space = d->num_components == 1   ? JCS_GRAYSCALE
                         : d->num_components == 3 ? JCS_RGB
                                                  : JCS_CMYK;
    jpeg_start_decompress(d);
    *row = malloc((size_t)out->w * 4);
    out->rgb = malloc((size_t)out->w * (size_t)out->h * 3);
    while (d->output_scanline < d->output_height) {
        uint8_t *to = out->rgb +
                      (size_t)d->output_scanline * (size_t)out->w * 3;

        jpeg_read_scanlines(d, row, 1);
        plain_row(to, *row, out->w, d->num_components);
    }
    out->gray = malloc((size_t)out->w * (size_t)out->h);
    // A grey file's component is its grey; the formula keeps it as it is.
    plain_gray(out->gray, out->rgb, (size_t)out->w * (size_t)out->h);
    // A progressive file has been read to its end by now.
    s->ran_out_in_rows = s->ran_out;
    s->rows_done = true;
    jpeg_finish_decompress(d);
}

void plain_decode(const uint8_t *data, size_t size, int64_t max_pixels,
                  struct plain *out)
{
    struct jpeg_decompress_struct d = {0};
    struct jpeg_way_out errors;
    struct source source = {.pub = {data, size, nothing, end_of_data,
                                    skip_bytes, jpeg_resync_to_restart,
                                    nothing}};
    struct watch progress = {.left = 20000};
    uint8_t *row = NULL;
    uint8_t **volatile row_at = &row;

    memset(out, 0, sizeof(*out));
    d.err = jpeg_std_error(&errors.pub);
    errors.pub.error_exit = jpeg_leave;
    errors.pub.emit_message = quiet;
    progress.pub.progress_monitor = watch;
    out->result = PLAIN_REFUSED;
    if (setjmp(errors.jump) == 0) {
        jpeg_create_decompress(&d);
        d.src = &source.pub;
        d.progress = &progress.pub;
        jpeg_read_header(&d, TRUE);
        out->w = (int)d.image_width;
        out->h = (int)d.image_height;
        if ((int64_t)out->w * out->h > max_pixels)
            out->result = PLAIN_NOT_RUN;
        else if (d.min_DCT_scaled_size == 1 || d.data_precision != 8)
            ;  // libjpeg-turbo 3 decodes it, by other functions
        else if (d.num_components == 1 || d.num_components == 3 ||
                 d.num_components == 4) {
            plain_rows(&d, out, row_at);
            out->result = PLAIN_OK;
        }
    }
    // Pillow's source would have suspended where ours ran out; rows that
    // libjpeg makes of the substitute end do not count.
    if (progress.left < 0)
        out->result = PLAIN_NOT_RUN;
    else if (source.ran_out && source.rows_done && !source.ran_out_in_rows)
        out->result = PLAIN_OK;
    else if (source.ran_out && out->result != PLAIN_NOT_RUN)
        out->result = PLAIN_TRUNCATED;
    out->warnings = (int)errors.pub.num_warnings;
    out->no_end = source.ran_out;
    jpeg_destroy_decompress(&d);
    free(row);
    if (out->result != PLAIN_OK) {
        free(out->rgb);
        free(out->gray);
        out->rgb = out->gray = NULL;
    }
}

void plain_free(struct plain *p)
{
    free(p->rgb);
    free(p->gray);
    memset(p, 0, sizeof(*p));
}
