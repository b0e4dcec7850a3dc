// SPDX-License-Identifier: Apache-2.0
#include "coef_files.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "decode_files.h"
#include "tools/samples/scene.h"

static uint64_t state = 1;

void coef_seed(uint64_t seed)
{
    state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

// xorshift64
uint32_t coef_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

int coef_pick(int from, int to)
{
    return from + (int)(coef_random() % (uint32_t)(to - from + 1));
}

// ---- Files ----------------------------------------------------------------

#define KIND(name, ...) \
    {                   \
        name,           \
        {               \
            __VA_ARGS__ \
        }               \
    }
const struct coef_kind coef_kinds[COEF_KINDS] = {
    KIND("444", .quality = 95),
    KIND("422", .sampling = 0x21, .quality = 90),
    KIND("420", .sampling = 0x22, .quality = 85),
    KIND("440", .sampling = 0x12, .quality = 85),
    KIND("411", .sampling = 0x41),
    KIND("410", .sampling = 0x42),
    KIND("441", .sampling = 0x14),
    KIND("3x1", .sampling = 0x31),
    KIND("1x3", .sampling = 0x13),
    KIND("all 2x1", .sampling = 0x212121),
    KIND("luma less", .sampling = 0x112222),
    KIND("uneven", .sampling = 0x222112),
    KIND("4 high, context", .sampling = 0x141211),
    KIND("gray", .color = SAMPLES_GRAY, .quality = 90),
    KIND("gray 2x2", .color = SAMPLES_GRAY, .sampling = 0x22),
    KIND("rgb", .color = SAMPLES_RGB, .quality = 90),
    KIND("rgb without Adobe", .color = SAMPLES_RGB, .no_adobe = true),
    KIND("420 restart", .sampling = 0x22, .restart_mcus = 3),
    KIND("444 restart", .restart_rows = 1, .quality = 98),
    KIND("420 optimized", .sampling = 0x22, .optimize = true),
    KIND("444 q100", .quality = 100),
    KIND("420 q3", .sampling = 0x22, .quality = 3),
    KIND("444 wide tables", .quality = 1, .wide_quant = true),
};
#undef KIND

bool coef_file_make(struct coef_file *f, const struct samples_jpeg *jpeg, int w,
                    int h, bool harsh)
{
    struct samples_picture p;
    bool ok;

    *f = (struct coef_file){.w = w, .h = h};
    ok = harsh ? samples_harsh_make(&p, w, h, coef_random())
               : samples_scene_make(&p, w, h, coef_pick(0, SAMPLES_THEMES - 1),
                                    coef_random());
    CU_ASSERT_FATAL(ok);
    ok = samples_jpeg_encode(jpeg, &p, &f->bytes);
    samples_picture_finish(&p);
    return ok;
}

// Values in about one of `sparse` places; rows below the first are empty in
// some blocks, for their short cut.
static void spoil_block(JCOEF *block, int limit)
{
    int sparse = coef_pick(1, 12), rows = coef_pick(0, 3) ? 64 : 8;

    for (int i = 0; i < 64; i++) {
        block[i] = 0;
        if (i < rows && coef_pick(1, sparse) == 1)
            block[i] = (JCOEF)coef_pick(-limit, limit);
    }
}

static void spoil_blocks(struct jpeg_decompress_struct *d,
                         jvirt_barray_ptr *arrays)
{
    for (int c = 0; c < d->num_components; c++) {
        jpeg_component_info *comp = &d->comp_info[c];

        for (JDIMENSION y = 0; y < comp->height_in_blocks; y++) {
            JBLOCKARRAY row = d->mem->access_virt_barray((j_common_ptr)d,
                                                         arrays[c], y, 1, TRUE);
            // The encoder codes the difference of neighbouring first ones.
            for (JDIMENSION x = 0; x < comp->width_in_blocks; x++)
                spoil_block(row[0][x], coef_pick(0, 2) ? 60 : 1023);
        }
    }
}

// The tables get any 16 bits, some of them small: products wrap, sums saturate.
static void spoil_tables(struct jpeg_compress_struct *c)
{
    for (int t = 0; t < NUM_QUANT_TBLS; t++) {
        int most = coef_pick(0, 2) ? 300 : 65535;

        if (c->quant_tbl_ptrs[t])
            for (int i = 0; i < 64; i++)
                c->quant_tbl_ptrs[t]->quantval[i] = (UINT16)coef_pick(1, most);
    }
}

// Tables of 16 bits make libjpeg warn.
static void no_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

bool coef_file_spoil(struct coef_file *f)
{
    struct jpeg_decompress_struct d = {0};
    struct jpeg_compress_struct c = {0};
    struct jpeg_way_out errors;
    unsigned char *data = NULL;
    unsigned long size = 0;
    jvirt_barray_ptr *arrays;
    volatile bool ok = false;

    d.err = c.err = jpeg_std_error(&errors.pub);
    errors.pub.output_message = no_output;
    errors.pub.error_exit = jpeg_leave;
    if (!setjmp(errors.jump)) {
        jpeg_create_decompress(&d);
        jpeg_create_compress(&c);
        jpeg_mem_src(&d, f->bytes.data, f->bytes.size);
        jpeg_read_header(&d, TRUE);
        arrays = jpeg_read_coefficients(&d);
        spoil_blocks(&d, arrays);
        jpeg_mem_dest(&c, &data, &size);
        jpeg_copy_critical_parameters(&d, &c);
        spoil_tables(&c);
        c.restart_interval = d.restart_interval;
        c.optimize_coding = TRUE;
        jpeg_write_coefficients(&c, arrays);
        jpeg_finish_compress(&c);
        ok = true;
    }
    jpeg_destroy_compress(&c);
    jpeg_destroy_decompress(&d);
    coef_file_finish(f);
    f->bytes = (struct samples_bytes){.data = data, .size = size};
    return ok;
}

void coef_file_finish(struct coef_file *f)
{
    samples_bytes_finish(&f->bytes);
}
