// SPDX-License-Identifier: Apache-2.0
#if HR_HAVE_OPENCL
#include "kernel_env.h"

#include <setjmp.h>
#include <stdlib.h>

#include <jpeglib.h>

uint64_t kernel_seed = 1;

uint32_t kernel_random(void)
{
    kernel_seed ^= kernel_seed << 13;
    kernel_seed ^= kernel_seed >> 7;
    kernel_seed ^= kernel_seed << 17;
    return (uint32_t)(kernel_seed >> 32);
}

struct error {
    struct jpeg_error_mgr mgr;
    jmp_buf jump;
};

static void on_error(j_common_ptr cinfo)
{
    char text[JMSG_LENGTH_MAX];

    cinfo->err->format_message(cinfo, text);
    fprintf(stderr, "libjpeg: %s\n", text);
    longjmp(((struct error *)cinfo->err)->jump, 1);
}

// Tables of 16 bits make libjpeg warn.
static void no_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static struct jpeg_error_mgr *error_init(struct error *e)
{
    jpeg_std_error(&e->mgr);
    e->mgr.output_message = no_output;
    e->mgr.error_exit = on_error;
    return &e->mgr;
}

// ---- Files ----------------------------------------------------------------

static void draw_row(unsigned char *row, const struct kernel_jpeg_params *p,
                     int y, const int *slope)
{
    for (int x = 0; x < p->w; x++)
        for (int c = 0; c < p->components; c++) {
            int v = 128 + (x * slope[2 * c] + y * slope[2 * c + 1]) / 16;

            if (p->noise)
                v += kernel_pick(-90, 90);
            else if (((x >> 3) ^ (y >> 2)) % 5 == c)
                v += 60;
            *row++ = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
}

static void set_params(struct jpeg_compress_struct *c,
                       const struct kernel_jpeg_params *p)
{
    c->image_width = (JDIMENSION)p->w;
    c->image_height = (JDIMENSION)p->h;
    c->input_components = p->components;
    c->in_color_space = p->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    if (p->rgb)
        jpeg_set_colorspace(c, JCS_RGB);
    jpeg_set_quality(c, p->quality, TRUE);
    c->restart_interval = p->restart;
    for (int i = 0; i < p->components; i++) {
        c->comp_info[i].h_samp_factor = p->hs[i];
        c->comp_info[i].v_samp_factor = p->vs[i];
    }
}

static bool encode(struct kernel_jpeg *j, const struct kernel_jpeg_params *p)
{
    struct jpeg_compress_struct c;
    unsigned char *row = malloc((size_t)p->w * 3);
    struct error e;
    int slope[6];

    memset(&c, 0, sizeof(c));
    c.err = error_init(&e);
    if (setjmp(e.jump)) {
        jpeg_destroy_compress(&c);
        free(row);
        return false;
    }
    for (int i = 0; i < 6; i++)
        slope[i] = kernel_pick(-40, 40);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &j->data, &j->size);
    set_params(&c, p);
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < p->h; y++) {
        draw_row(row, p, y, slope);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return true;
}

// Random values in about one of `sparse` places; rows below the first are
// left empty in some blocks, for their short cut.
static void spoil_block(JCOEF *block, int limit)
{
    int sparse = kernel_pick(1, 12), rows = kernel_pick(0, 3) ? 64 : 8;

    for (int i = 0; i < 64; i++) {
        block[i] = 0;
        if (i < rows && kernel_pick(1, sparse) == 1)
            block[i] = (JCOEF)kernel_pick(-limit, limit);
    }
}

static void spoil(struct jpeg_decompress_struct *d, jvirt_barray_ptr *arrays)
{
    for (int c = 0; c < d->num_components; c++) {
        jpeg_component_info *comp = &d->comp_info[c];

        for (JDIMENSION y = 0; y < comp->height_in_blocks; y++) {
            JBLOCKARRAY row = d->mem->access_virt_barray((j_common_ptr)d,
                                                         arrays[c], y, 1, TRUE);
            // The encoder codes the difference of neighbouring first ones.
            for (JDIMENSION x = 0; x < comp->width_in_blocks; x++)
                spoil_block(row[0][x], kernel_pick(0, 2) ? 60 : 1023);
        }
    }
}

// Tables of any 16-bit values, some small: products wrap, sums saturate.
static void spoil_tables(struct jpeg_compress_struct *c)
{
    for (int t = 0; t < NUM_QUANT_TBLS; t++) {
        int most = kernel_pick(0, 2) ? 300 : 65535;

        if (c->quant_tbl_ptrs[t])
            for (int i = 0; i < 64; i++)
                c->quant_tbl_ptrs[t]->quantval[i] = (UINT16)kernel_pick(1,
                                                                        most);
    }
}

static bool harsh(struct kernel_jpeg *j)
{
    struct jpeg_decompress_struct d;
    struct jpeg_compress_struct c;
    struct error e;
    unsigned char *old = j->data;
    jvirt_barray_ptr *arrays;
    volatile bool ok = false;

    memset(&d, 0, sizeof(d));
    memset(&c, 0, sizeof(c));
    d.err = c.err = error_init(&e);
    if (setjmp(e.jump))
        goto error;
    jpeg_create_decompress(&d);
    jpeg_create_compress(&c);
    jpeg_mem_src(&d, old, j->size);
    jpeg_read_header(&d, TRUE);
    arrays = jpeg_read_coefficients(&d);
    spoil(&d, arrays);
    j->data = NULL;
    j->size = 0;
    jpeg_mem_dest(&c, &j->data, &j->size);
    jpeg_copy_critical_parameters(&d, &c);
    spoil_tables(&c);
    c.optimize_coding = TRUE;
    jpeg_write_coefficients(&c, arrays);
    jpeg_finish_compress(&c);
    ok = true;
error:
    jpeg_destroy_compress(&c);
    jpeg_destroy_decompress(&d);
    free(old);
    return ok;
}

bool kernel_jpeg_make(struct kernel_jpeg *j, const struct kernel_jpeg_params *p)
{
    *j =
        (struct kernel_jpeg){.w = p->w, .h = p->h, .components = p->components};
    return encode(j, p) && (!p->harsh || harsh(j));
}

bool kernel_jpeg_read(struct kernel_jpeg *j, const char *path)
{
    struct hr_info info;
    FILE *file = fopen(path, "rb");
    long size;

    *j = (struct kernel_jpeg){0};
    if (!file)
        return false;
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    j->data = malloc((size_t)size + 1);
    j->size = fread(j->data, 1, (size_t)size, file);
    fclose(file);
    if (hr_probe(j->data, j->size, NULL, &info) ||
        info.format != HR_FORMAT_JPEG || info.components > 3) {
        kernel_jpeg_free(j);
        return false;
    }
    j->w = info.width;
    j->h = info.height;
    j->components = info.components;
    return true;
}

void kernel_jpeg_free(struct kernel_jpeg *j)
{
    free(j->data);
    j->data = NULL;
}

// ---- Coefficients ---------------------------------------------------------

// Blocks of samples [from / step - 1, to / step + 1], inside the component.
static void range(uint32_t from, uint32_t len, uint32_t step, uint32_t size,
                  uint32_t *first, uint32_t *count)
{
    uint32_t lo = from / step, hi = (from + len - 1) / step + 1;

    lo = lo ? lo - 1 : 0;
    hi = hi < size ? hi : size - 1;
    *first = lo / 8;
    *count = hi / 8 - lo / 8 + 1;
}

static void head(struct hr__coefficients *c, struct jpeg_decompress_struct *d,
                 struct hr__rect w)
{
    *c = (struct hr__coefficients){
        .magic = HR__COEF_MAGIC,
        .num_components = (uint32_t)d->num_components,
        .color = d->jpeg_color_space == JCS_GRAYSCALE ? HR_COLOR_GRAY
                 : d->jpeg_color_space == JCS_YCbCr   ? HR_COLOR_YCC
                                                      : HR_COLOR_RGB,
        .h_max = (uint32_t)d->max_h_samp_factor,
        .v_max = (uint32_t)d->max_v_samp_factor,
        .x = (uint32_t)w.x,
        .y = (uint32_t)w.y,
        .w = (uint32_t)w.w,
        .h = (uint32_t)w.h,
    };
    for (int i = 0; i < d->num_components; i++) {
        struct hr__coef_component *k = &c->comp[i];
        jpeg_component_info *comp = &d->comp_info[i];
        bool one = d->num_components == 1;

        k->h = (uint32_t)comp->h_samp_factor;
        k->v = (uint32_t)comp->v_samp_factor;
        // A single component is its own grid, whatever its factors.
        k->width = (d->image_width * k->h + c->h_max - 1) / c->h_max;
        k->height = (d->image_height * k->v + c->v_max - 1) / c->v_max;
        range(c->x, c->w, one ? 1 : c->h_max / k->h, k->width, &k->block_x,
              &k->blocks_w);
        range(c->y, c->h, one ? 1 : c->v_max / k->v, k->height, &k->block_y,
              &k->blocks_h);
        k->first = c->segments;
        c->segments += k->blocks_h;
        for (int q = 0; q < 64; q++)
            k->quant[q] = d->comp_info[i].quant_table->quantval[q];
    }
}

// The payload of a block, not as the library writes it.
static uint8_t *put_payload(uint8_t *to, uint8_t *rows, const JCOEF *block)
{
    uint8_t nibbles[64] = {0}, bytes[64], words[128];
    int n = 0, num_bytes = 0, num_words = 0, v;

    for (int r = 0; r < 8; r++) {
        uint8_t mask = 0;

        for (int i = 8 * r; i < 8 * r + 8; i++) {
            if (!(v = i ? block[i] : 0))
                continue;
            mask |= (uint8_t)(1 << i % 8);
            if (v < -8 || v > 7) {
                nibbles[n++] = 0;
                bytes[num_bytes++] = (uint8_t)(v >= -128 && v <= 127 ? v : 0);
            } else {
                nibbles[n++] = (uint8_t)(v & 15);
            }
            if (v >= -128 && v <= 127)
                continue;
            words[num_words++] = (uint8_t)v;
            words[num_words++] = (uint8_t)(v >> 8);
        }
        *rows |= (uint8_t)((mask != 0) << r);
        if (mask)
            *to++ = mask;
    }
    for (int i = 0; i < n; i += 2)
        *to++ = (uint8_t)(nibbles[i] | nibbles[i + 1] << 4);
    memcpy(to, bytes, (size_t)num_bytes);
    memcpy(to + num_bytes, words, (size_t)num_words);
    return to + num_bytes + num_words;
}

// A segment.
static uint8_t *put_line(uint8_t *to, const JBLOCK *row, size_t n)
{
    uint8_t *d = to + 2, *rows = d + n, *len = rows + n, *at = len + n, *begin;
    int escapes = 0, dc = 0;

    for (size_t i = 0; i < n; i++) {
        int16_t diff = (int16_t)(row[i][0] - dc);

        dc = row[i][0];
        d[i] = (uint8_t)diff;
        if (diff > -128 && diff < 128)
            continue;
        d[i] = 0x80;
        *at++ = (uint8_t)diff;
        *at++ = (uint8_t)(diff >> 8);
        escapes++;
    }
    to[0] = (uint8_t)escapes;
    to[1] = (uint8_t)(escapes >> 8);
    for (size_t i = 0; i < n; i++) {
        begin = at;
        rows[i] = 0;
        at = put_payload(at, &rows[i], row[i]);
        len[i] = (uint8_t)(at - begin);
    }
    return at;
}

// Returns its size.
static size_t pack(struct hr__coefficients *c, struct jpeg_decompress_struct *d,
                   jvirt_barray_ptr *arrays)
{
    uint8_t *to = (uint8_t *)&c->offset[c->segments + 1];
    uint32_t *offset = c->offset;

    for (int i = 0; i < d->num_components; i++) {
        const struct hr__coef_component *k = &c->comp[i];

        for (uint32_t y = 0; y < k->blocks_h; y++) {
            JBLOCKARRAY row = d->mem->access_virt_barray(
                (j_common_ptr)d, arrays[i], k->block_y + y, 1, FALSE);

            *offset++ = (uint32_t)(to - (uint8_t *)c);
            to = put_line(to, row[0] + k->block_x, k->blocks_w);
        }
    }
    *offset = (uint32_t)(to - (uint8_t *)c);
    return *offset;
}

// The largest size that the packed coefficients can have.
static size_t pack_room(const struct hr__coefficients *c)
{
    size_t size = sizeof(*c) + (c->segments + 1) * sizeof(c->offset[0]);

    for (uint32_t i = 0; i < c->num_components; i++)
        size += c->comp[i].blocks_h * (2 + 234 * (size_t)c->comp[i].blocks_w);
    return size;
}

struct hr__coefficients *kernel_pack(const struct kernel_jpeg *j,
                                     struct hr__rect window, size_t *size)
{
    struct jpeg_decompress_struct d;
    struct hr__coefficients first, *volatile c = NULL;
    struct error e;
    jvirt_barray_ptr *arrays;

    memset(&d, 0, sizeof(d));
    d.err = error_init(&e);
    if (setjmp(e.jump)) {
        jpeg_destroy_decompress(&d);
        free(c);
        return NULL;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, j->data, j->size);
    jpeg_read_header(&d, TRUE);
    arrays = jpeg_read_coefficients(&d);
    head(&first, &d, window);
    c = malloc(pack_room(&first));
    *c = first;
    *size = pack(c, &d, arrays);
    jpeg_destroy_decompress(&d);
    return c;
}

// ---- References -----------------------------------------------------------

static void raw_group(struct jpeg_decompress_struct *d,
                      struct kernel_planes *planes, JDIMENSION group)
{
    JSAMPROW rows[3][4 * DCTSIZE];
    JSAMPARRAY all[3] = {rows[0], rows[1], rows[2]};

    for (int i = 0; i < d->num_components; i++) {
        int n = d->comp_info[i].v_samp_factor * DCTSIZE;

        for (int y = 0; y < n; y++)
            rows[i][y] = planes->plane[i] +
                         planes->stride[i] *
                             (group * (JDIMENSION)n + (JDIMENSION)y);
    }
    jpeg_read_raw_data(d, all, (JDIMENSION)(d->max_v_samp_factor * DCTSIZE));
}

bool kernel_raw(const struct kernel_jpeg *j, struct kernel_planes *planes)
{
    struct jpeg_decompress_struct d;
    struct error e;
    size_t sizes[3] = {0};
    JDIMENSION groups, unit;

    memset(&d, 0, sizeof(d));
    d.err = error_init(&e);
    planes->plane[0] = NULL;
    if (setjmp(e.jump)) {
        jpeg_destroy_decompress(&d);
        return false;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, j->data, j->size);
    jpeg_read_header(&d, TRUE);
    d.raw_data_out = TRUE;
    jpeg_start_decompress(&d);
    unit = (JDIMENSION)d.max_v_samp_factor * DCTSIZE;
    groups = (d.image_height + unit - 1) / unit;
    for (int i = 0; i < d.num_components; i++) {
        jpeg_component_info *comp = &d.comp_info[i];

        // Whole MCUs are written.
        planes->stride[i] = ((size_t)comp->width_in_blocks + 8) * DCTSIZE;
        sizes[i] = planes->stride[i] * DCTSIZE * (groups + 1) *
                   (size_t)comp->v_samp_factor;
    }
    planes->plane[0] = malloc(sizes[0] + sizes[1] + sizes[2]);
    planes->plane[1] = planes->plane[0] + sizes[0];
    planes->plane[2] = planes->plane[1] + sizes[1];
    for (JDIMENSION g = 0; g < groups; g++)
        raw_group(&d, planes, g);
    jpeg_destroy_decompress(&d);
    return true;
}

uint8_t *kernel_rgb(const struct kernel_jpeg *j)
{
    struct jpeg_decompress_struct d;
    struct error e;
    uint8_t *volatile rgb = NULL;

    memset(&d, 0, sizeof(d));
    d.err = error_init(&e);
    if (setjmp(e.jump)) {
        jpeg_destroy_decompress(&d);
        free(rgb);
        return NULL;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, j->data, j->size);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    rgb = malloc((size_t)j->w * (size_t)j->h * 3);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = rgb + (size_t)d.output_scanline * (size_t)j->w * 3;

        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_destroy_decompress(&d);
    return rgb;
}
#endif
