// SPDX-License-Identifier: Apache-2.0
#include "decode_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if HR_HAVE_PNG
#include <png.h>
#endif

uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int random_below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

bool read_file(const char *path, struct bytes *out)
{
    struct stat info;
    long size = -1;
    FILE *f;

    *out = (struct bytes){0};
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) ||
        !(f = fopen(path, "rb")))
        return false;
    if (fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
        (out->data = malloc((size_t)size + 1))) {
        out->size = (size_t)size;
        if (fread(out->data, 1, out->size, f) != out->size) {
            free(out->data);
            out->data = NULL;
        }
    }
    fclose(f);
    return out->data != NULL;
}

// ---- JPEG: writing ----

void jpeg_leave(j_common_ptr cinfo)
{
    longjmp(((struct jpeg_way_out *)cinfo->err)->jump, 1);
}

static int components_of(J_COLOR_SPACE space)
{
    return space == JCS_GRAYSCALE                   ? 1
           : space == JCS_CMYK || space == JCS_YCCK ? 4
                                                    : 3;
}

static void fill_row(uint8_t *row, int w, int comps, int y, uint64_t *seed)
{
    for (int x = 0; x < w; x++)
        for (int c = 0; c < comps; c++) {
            int noise = random_below(seed, 64);

            row[x * comps + c] = (uint8_t)((x * (3 + c) + y * (5 - c) + noise +
                                            ((x / 7 + y / 5) & 1) * 90) &
                                           255);
        }
}

static int script(const struct jpeg_spec *spec, int comps,
                  jpeg_scan_info scans[MAX_COMPONENTS])
{
    static const jpeg_scan_info dc = {1, {0}, 0, 0, 0, 1};
    int n = 0;

    if (spec->partial) {  // all DC, then a little AC of the first
        scans[n] = dc;
        scans[n].comps_in_scan = comps;
        for (int c = 0; c < comps; c++)
            scans[n].component_index[c] = c;
        n++;
        scans[n++] = (jpeg_scan_info){1, {0}, 1, 5, 0, 2};
    } else if (spec->separate) {
        for (int c = 0; c < comps; c++)
            scans[n++] = (jpeg_scan_info){1, {c}, 0, 63, 0, 0};
    }
    return n;
}

static void configure(struct jpeg_compress_struct *c,
                      const struct jpeg_spec *spec, jpeg_scan_info *scans)
{
    jpeg_set_defaults(c);
    jpeg_set_colorspace(c, spec->space);
    jpeg_set_quality(c, spec->quality ? spec->quality : 80, TRUE);
    for (int i = 0; i < c->num_components; i++) {
        int f = spec->factors[i] ? spec->factors[i] : 0x11;

        c->comp_info[i].h_samp_factor = f >> 4;
        c->comp_info[i].v_samp_factor = f & 15;
    }
    if (spec->mixed) {
        c->comp_info[1].ac_tbl_no = 0;
        c->comp_info[2].dc_tbl_no = 0;
    }
    c->restart_interval = (unsigned)spec->restart;
    c->optimize_coding = spec->optimize;
    c->arith_code = spec->arithmetic;
    if (spec->progressive)
        jpeg_simple_progression(c);
    c->num_scans = script(spec, c->num_components, scans);
    if (c->num_scans)
        c->scan_info = scans;
    else if (spec->progressive)
        jpeg_simple_progression(c);
}

static void encode(struct jpeg_compress_struct *c, const struct jpeg_spec *spec,
                   uint64_t *seed, uint8_t *row)
{
    int comps = components_of(spec->space);
    jpeg_scan_info scans[MAX_COMPONENTS];

    c->image_width = (JDIMENSION)spec->w;
    c->image_height = (JDIMENSION)spec->h;
    c->input_components = comps;
    c->in_color_space = comps == 1   ? JCS_GRAYSCALE
                        : comps == 3 ? JCS_RGB
                                     : JCS_CMYK;
    configure(c, spec, scans);
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < c->image_height) {
        fill_row(row, spec->w, comps, (int)c->next_scanline, seed);
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
}

bool make_jpeg(const struct jpeg_spec *spec, uint64_t *seed, struct bytes *out)
{
    struct jpeg_compress_struct c = {0};
    struct jpeg_way_out errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    uint8_t *const row = malloc((size_t)spec->w * 4);

    c.err = jpeg_std_error(&errors.pub);
    errors.pub.error_exit = jpeg_leave;
    if (setjmp(errors.jump)) {
        jpeg_destroy_compress(&c);
        free(data);
        free(row);
        return false;
    }
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, &size);
    encode(&c, spec, seed, row);
    jpeg_destroy_compress(&c);
    free(row);
    *out = (struct bytes){data, size};
    return true;
}

// ---- PNG ----

#if HR_HAVE_PNG

static void append(png_structp png, png_bytep data, size_t n)
{
    struct bytes *out = png_get_io_ptr(png);

    out->data = realloc(out->data, out->size + n);
    memcpy(out->data + out->size, data, n);
    out->size += n;
}

static void no_flush(png_structp png)
{
    (void)png;
}

static int channels_of(int type)
{
    static const int channels[] = {1, 0, 3, 1, 2, 0, 4};

    return channels[type];
}

// Makes Pillow's samples of one pixel: the wanted ones and, for RGB, three.
static void expected_pixel(const struct png_spec *spec, const int *v,
                           const uint8_t *palette, uint8_t *rgb)
{
    int max = (1 << spec->bits) - 1;

    for (int c = 0; c < 3; c++) {
        int s = v[spec->type == 2 || spec->type == 6 ? c : 0];

        if (spec->type == 3)
            rgb[c] = s < spec->colors ? palette[3 * s + c] : 0;
        else if (spec->type == 0 && spec->bits == 16)
            rgb[c] = (uint8_t)(s > 255 ? 255 : s);
        else if (spec->bits == 16)
            rgb[c] = (uint8_t)(s >> 8);
        else
            rgb[c] = (uint8_t)(s * 255 / max);
    }
}

static void put_sample(uint8_t *row, size_t index, int bits, int v)
{
    if (bits == 16) {
        row[2 * index] = (uint8_t)(v >> 8);
        row[2 * index + 1] = (uint8_t)v;
    } else if (bits == 8) {
        row[index] = (uint8_t)v;
    } else {
        size_t bit = index * (size_t)bits;

        row[bit / 8] |= (uint8_t)(v << (8 - bits - (int)(bit % 8)));
    }
}

static void png_rows(const struct png_spec *spec, uint64_t *seed,
                     uint8_t **rows, const uint8_t *palette,
                     struct plain *pixels)
{
    int channels = channels_of(spec->type), max = 1 << spec->bits;

    for (int y = 0; y < spec->h; y++)
        for (int x = 0; x < spec->w; x++) {
            int v[4];

            for (int c = 0; c < channels; c++) {
                v[c] = random_below(seed, max);
                if (spec->bits == 16 && random_below(seed, 2))
                    v[c] &= 511;
                put_sample(rows[y], (size_t)(x * channels + c), spec->bits,
                           v[c]);
            }
            expected_pixel(spec, v, palette,
                           pixels->rgb +
                               ((size_t)y * (size_t)spec->w + (size_t)x) * 3);
        }
    plain_gray(pixels->gray, pixels->rgb, (size_t)spec->w * (size_t)spec->h);
}

static void png_header(png_structp png, png_infop info,
                       const struct png_spec *spec, const uint8_t *palette)
{
    png_color_16 key = {1, 2, 3, 4, 1};
    png_color entries[256];
    png_byte alpha[256] = {3, 250, 0};

    png_set_IHDR(png, info, (png_uint_32)spec->w, (png_uint_32)spec->h,
                 spec->bits, spec->type,
                 spec->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    for (int i = 0; i < 256; i++)
        entries[i] = (png_color){palette[3 * i], palette[3 * i + 1],
                                 palette[3 * i + 2]};
    if (spec->type == 3)
        png_set_PLTE(png, info, entries, spec->colors);
    if (spec->transparency)
        png_set_tRNS(png, info, alpha, spec->type == 3 ? 1 : 0, &key);
    png_set_gAMA(png, info, 0.5);
    png_write_info(png, info);
}

bool make_png(const struct png_spec *spec, uint64_t *seed, struct bytes *file,
              struct plain *pixels)
{
    size_t n = (size_t)spec->w * (size_t)spec->h;
    size_t row_bytes = (size_t)spec->w * 8;
    uint8_t *samples = calloc((size_t)spec->h, row_bytes);
    uint8_t **rows = malloc((size_t)spec->h * sizeof(*rows));
    uint8_t palette[768];
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL,
                                              NULL);
    png_infop info = png_create_info_struct(png);

    *file = (struct bytes){0};
    *pixels = (struct plain){
        .w = spec->w, .h = spec->h, .rgb = malloc(n * 3), .gray = malloc(n)};
    for (int i = 0; i < 768; i++)
        palette[i] = (uint8_t)random_below(seed, 256);
    for (int y = 0; y < spec->h; y++)
        rows[y] = samples + (size_t)y * row_bytes;
    png_rows(spec, seed, rows, palette, pixels);
    png_set_write_fn(png, file, append, no_flush);
    png_set_check_for_invalid_index(png, -1);
    png_header(png, info, spec, palette);
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(samples);
    free(rows);
    return true;
}

#endif
