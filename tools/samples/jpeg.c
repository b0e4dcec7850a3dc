// SPDX-License-Identifier: Apache-2.0
#include "jpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define MAX_SCANS 640

struct fault {
    struct jpeg_error_mgr pub;
    jmp_buf leave;
    bool hit_end;  // the file ended before its picture
};

static void fault_exit(j_common_ptr cinfo)
{
    longjmp(((struct fault *)cinfo->err)->leave, 1);
}

static void fault_message(j_common_ptr cinfo, int level)
{
    struct fault *fault = (struct fault *)cinfo->err;
    if (level >= 0)
        return;
    fault->pub.num_warnings++;
    if (fault->pub.msg_code == JWRN_JPEG_EOF)
        fault->hit_end = true;
}

static struct jpeg_error_mgr *fault_init(struct fault *fault)
{
    struct jpeg_error_mgr *err = jpeg_std_error(&fault->pub);
    err->error_exit = fault_exit;
    err->emit_message = fault_message;
    fault->hit_end = false;
    return err;
}

struct script {
    jpeg_scan_info scans[MAX_SCANS];
    int num;
};

static void add_scan(struct script *s, int first, int comps, int from, int to,
                     int high, int low)
{
    jpeg_scan_info *scan = &s->scans[s->num++];
    scan->comps_in_scan = comps;
    for (int i = 0; i < comps; i++)
        scan->component_index[i] = first + i;
    scan->Ss = from;
    scan->Se = to;
    scan->Ah = high;
    scan->Al = low;
}

// Scans of `width` coefficients each, over all components, then `refine` more
// passes with one bit each.
static void add_fine_scans(struct script *s, int comps, int width, int refine)
{
    add_scan(s, 0, comps, 0, 0, 0, 0);
    for (int low = refine; low >= 0; low--) {
        for (int c = 0; c < comps; c++) {
            for (int k = 1; k <= 63; k += width) {
                int last = k + width > 64 ? 63 : k + width - 1;
                add_scan(s, c, 1, k, last, low < refine ? low + 1 : 0, low);
            }
        }
    }
}

static void script_init(struct script *s, enum samples_order order, int comps)
{
    s->num = 0;
    switch (order) {
    case SAMPLES_SEPARATE:
        for (int c = 0; c < comps; c++)
            add_scan(s, c, 1, 0, 63, 0, 0);
        break;
    case SAMPLES_PARTLY:
        add_scan(s, 0, 1, 0, 63, 0, 0);
        add_scan(s, 1, comps - 1, 0, 63, 0, 0);
        break;
    case SAMPLES_SPECTRAL:
        for (int c = 0; c < comps; c++)
            add_scan(s, c, 1, 0, 0, 0, 0);
        for (int c = 0; c < comps; c++)
            add_scan(s, c, 1, 1, 9, 0, 0);
        for (int c = comps - 1; c >= 0; c--)
            add_scan(s, c, 1, 10, 63, 0, 0);
        break;
    case SAMPLES_DC_ONLY:
        add_scan(s, 0, comps, 0, 0, 0, 0);
        break;
    case SAMPLES_EVERY_COEF:
        add_fine_scans(s, comps, 1, 0);
        break;
    case SAMPLES_EVERY_BIT:
        add_fine_scans(s, comps, 1, 2);
        break;
    case SAMPLES_PAIRS:
        add_fine_scans(s, comps, 2, 0);
        break;
    default:
        break;
    }
}

static void set_color(struct jpeg_compress_struct *c,
                      const struct samples_jpeg *p)
{
    static const J_COLOR_SPACE in[] = {JCS_RGB, JCS_RGB, JCS_RGB, JCS_CMYK,
                                       JCS_CMYK};
    static const J_COLOR_SPACE coded[] = {JCS_YCbCr, JCS_GRAYSCALE, JCS_RGB,
                                          JCS_CMYK, JCS_YCCK};
    c->in_color_space = in[p->color];
    c->input_components = in[p->color] == JCS_CMYK ? 4 : 3;
    jpeg_set_defaults(c);
    jpeg_set_colorspace(c, coded[p->color]);
    if (p->no_jfif)
        c->write_JFIF_header = FALSE;
    if (p->no_adobe)
        c->write_Adobe_marker = FALSE;
}

static void set_sampling(struct jpeg_compress_struct *c, unsigned sampling)
{
    unsigned digits = sampling ? sampling : 0x11;
    int pairs = 1;
    while (pairs < 4 && digits >> (8 * pairs))
        pairs++;
    for (int i = 0; i < c->num_components; i++) {
        unsigned hv = i < pairs ? digits >> (8 * (pairs - 1 - i)) & 0xff : 0x11;
        c->comp_info[i].h_samp_factor = (int)(hv >> 4);
        c->comp_info[i].v_samp_factor = (int)(hv & 15);
    }
}

static void set_coding(struct jpeg_compress_struct *c,
                       const struct samples_jpeg *p, struct script *script)
{
    jpeg_set_quality(c, p->quality ? p->quality : 75, !p->wide_quant);
    set_sampling(c, p->sampling);
    c->dct_method = JDCT_ISLOW;
    c->arith_code = p->arithmetic;
    c->optimize_coding = p->optimize;
    c->restart_interval = (unsigned)p->restart_mcus;
    c->restart_in_rows = p->restart_rows;
    script_init(script, p->order, c->num_components);
    if (p->order == SAMPLES_PROGRESSIVE) {
        jpeg_simple_progression(c);
    } else if (script->num) {
        c->scan_info = script->scans;
        c->num_scans = script->num;
    }
}

// The smallest EXIF block: one folder with the orientation (EXIF 2.3, 4.6).
static void write_exif(struct jpeg_compress_struct *c, int orientation, bool mm)
{
    unsigned char exif[32] = "Exif\0\0II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0";
    static const unsigned char big[26] =
        "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1";
    exif[24] = (unsigned char)orientation;
    if (mm) {
        memcpy(exif, big, 24);
        exif[24] = 0;
        exif[25] = (unsigned char)orientation;
    }
    jpeg_write_marker(c, JPEG_APP0 + 1, exif, sizeof(exif));
}

static void write_extras(struct jpeg_compress_struct *c,
                         const struct samples_jpeg *p)
{
    size_t size = p->icc_bytes > 65533 ? p->icc_bytes : 65533;
    unsigned char *bytes = c->mem->alloc_large((j_common_ptr)c, JPOOL_IMAGE,
                                               size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    if (p->orientation)
        write_exif(c, p->orientation, p->motorola);
    if (p->icc_bytes)
        jpeg_write_icc_profile(c, bytes, (unsigned)p->icc_bytes);
    for (int i = 0; i < p->app_segments; i++)
        jpeg_write_marker(c, JPEG_APP0 + 9, bytes, 65533);
    if (p->comment)
        jpeg_write_marker(c, JPEG_COM, (const JOCTET *)p->comment,
                          (unsigned)strlen(p->comment));
}

// Ink as Adobe stores it: 255 = none. Black is what all three colours share.
static void ink_row(const uint8_t *rgb, JSAMPLE *out, int w)
{
    for (int x = 0; x < w; x++, rgb += 3, out += 4) {
        int most = rgb[0] > rgb[1] ? rgb[0] : rgb[1];
        most = most > rgb[2] ? most : rgb[2];
        for (int i = 0; i < 3; i++)
            out[i] = (JSAMPLE)(most ? rgb[i] * 255 / most : 255);
        out[3] = (JSAMPLE)most;
    }
}

static void write_rows(struct jpeg_compress_struct *c,
                       const struct samples_picture *p)
{
    JSAMPROW ink = c->mem->alloc_large((j_common_ptr)c, JPOOL_IMAGE,
                                       4 * (size_t)p->w);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = p->rgb + 3 * (size_t)p->w * c->next_scanline;
        if (c->input_components == 4) {
            ink_row(row, ink, p->w);
            row = ink;
        }
        jpeg_write_scanlines(c, &row, 1);
    }
}

struct encoder {
    struct jpeg_compress_struct c;
    struct fault fault;
    struct script script;
};

static bool encode(struct encoder *e, const struct samples_jpeg *params,
                   const struct samples_picture *p, FILE *file)
{
    e->c.err = fault_init(&e->fault);
    jpeg_create_compress(&e->c);
    if (setjmp(e->fault.leave)) {
        jpeg_destroy_compress(&e->c);
        return false;
    }
    jpeg_stdio_dest(&e->c, file);
    e->c.image_width = (JDIMENSION)p->w;
    e->c.image_height = (JDIMENSION)p->h;
    set_color(&e->c, params);
    set_coding(&e->c, params, &e->script);
    jpeg_start_compress(&e->c, TRUE);
    write_extras(&e->c, params);
    write_rows(&e->c, p);
    jpeg_finish_compress(&e->c);
    jpeg_destroy_compress(&e->c);
    return true;
}

// To a stream in memory: libjpeg's own memory destination loses its buffer when
// encoding fails.
bool samples_jpeg_encode(const struct samples_jpeg *params,
                         const struct samples_picture *p,
                         struct samples_bytes *out)
{
    struct encoder *e = calloc(1, sizeof(*e));
    char *data = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&data, &size);
    bool ok = e && file && encode(e, params, p, file);

    ok = file && !fclose(file) && ok;
    if (ok)
        samples_bytes_add(out, data, size);
    free(data);
    free(e);
    return ok && !out->failed;
}

static void read_rows(struct jpeg_decompress_struct *d)
{
    JSAMPARRAY row = d->mem->alloc_sarray(
        (j_common_ptr)d, JPOOL_IMAGE,
        d->output_width * (JDIMENSION)d->output_components, 1);
    while (d->output_scanline < d->output_height)
        jpeg_read_scanlines(d, row, 1);
}

enum samples_expect samples_jpeg_check(const void *data, size_t size)
{
    struct jpeg_decompress_struct d;
    struct fault fault;
    volatile enum samples_expect result = SAMPLES_FAIL;
    if (!size)
        return SAMPLES_FAIL;
    d.err = fault_init(&fault);
    jpeg_create_decompress(&d);
    if (setjmp(fault.leave))
        goto error;
    jpeg_mem_src(&d, data, (unsigned long)size);
    jpeg_read_header(&d, TRUE);
    jpeg_start_decompress(&d);
    read_rows(&d);
    jpeg_finish_decompress(&d);
    if (!fault.hit_end)
        result = fault.pub.num_warnings ? SAMPLES_WARN : SAMPLES_OK;
error:
    jpeg_destroy_decompress(&d);
    return result;
}

size_t samples_jpeg_segment(const unsigned char *data, size_t size, int marker,
                            int n, size_t *len)
{
    size_t at = 2;
    while (at + 4 <= size) {
        int m = data[at + 1];
        if (data[at] != 0xff || m == 0xff) {  // junk, or a fill byte
            at++;
            continue;
        }
        *len = 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
        if (m == marker && !n--)
            return at;
        if (m == 0xda)
            break;
        at += *len;
    }
    return 0;
}

void samples_jpeg_drop(struct samples_bytes *out,
                       const struct samples_bytes *in, int marker)
{
    size_t from = 0, at, len;
    for (int n = 0;
         (at = samples_jpeg_segment(in->data, in->size, marker, n, &len));
         n++) {
        samples_bytes_add(out, in->data + from, at - from);
        from = at + len;
    }
    samples_bytes_add(out, in->data + from, in->size - from);
}

void samples_jpeg_size(const unsigned char *data, size_t size, int *w, int *h)
{
    static const int frames[] = {0xc0, 0xc1, 0xc2, 0xc3, 0xc9, 0xca};
    *w = *h = 0;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        size_t len, at = samples_jpeg_segment(data, size, frames[i], 0, &len);
        if (!at || at + 9 > size)
            continue;
        *h = data[at + 5] << 8 | data[at + 6];
        *w = data[at + 7] << 8 | data[at + 8];
        return;
    }
}
