// SPDX-License-Identifier: Apache-2.0
// The inverse DCT in C against libjpeg-turbo itself: coefficients made here go
// into a file, and jpeg_read_scanlines() makes samples of them. Beyond what
// pictures hold libjpeg-turbo's forms for other processors differ from each
// other; ours is the x86 one. check_simd.c holds C against SIMD.
#include <stdio.h>
#include <jpeglib.h>

#include "cpu_fallback/cpu_ops.h"
#include "cpu_fallback/jpeg/reader.h"
#include "simd_axes.h"
#include "testing.h"

enum { BLOCKS = 24, ROWS = 10, W = 8 * BLOCKS, H = 8 * ROWS, MOST = 1023 };

struct made {
    _Alignas(CPU_ALIGN) int16_t blocks[ROWS][BLOCKS][64];
    uint16_t quant[64];
};

// ---- libjpeg --------------------------------------------------------------

// It has doubts about large quantizers.
static void say_nothing(j_common_ptr c, int level)
{
    (void)c;
    (void)level;
}

// An error ends the program: nothing here is damaged.
static void write_file(const struct made *m, unsigned char **data,
                       unsigned long *size)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr error;
    jvirt_barray_ptr array;

    c.err = jpeg_std_error(&error);
    error.emit_message = say_nothing;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, data, size);
    c.image_width = W;
    c.image_height = H;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    c.optimize_coding = TRUE;
    for (int i = 0; i < 64; i++)
        c.quant_tbl_ptrs[0]->quantval[i] = m->quant[i];
    array = c.mem->request_virt_barray((j_common_ptr)&c, JPOOL_IMAGE, FALSE,
                                       BLOCKS, ROWS, 1);
    c.mem->realize_virt_arrays((j_common_ptr)&c);
    for (JDIMENSION y = 0; y < ROWS; y++)
        memcpy(c.mem->access_virt_barray((j_common_ptr)&c, array, y, 1,
                                         TRUE)[0],
               m->blocks[y], sizeof(m->blocks[y]));
    jpeg_write_coefficients(&c, &array);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

// own: with our inverse DCT in it, as on machines other than x86.
static void decode(const struct made *m, bool own, uint8_t out[H][W])
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr error;
    auto_heap unsigned char *data = NULL;
    unsigned long size = 0;

    write_file(m, &data, &size);
    d.err = jpeg_std_error(&error);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, size);
    jpeg_read_header(&d, TRUE);
    d.dct_method = JDCT_ISLOW;
    jpeg_start_decompress(&d);
    if (own)
        cpu_jpeg_own_idct(&d);
    for (JSAMPROW row; d.output_scanline < H;) {
        row = out[d.output_scanline];
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

// ---- pictures -------------------------------------------------------------

// How often pictures went where 16 bits end: products; first rows times 4,
// below which nothing is, or nothing but products that wrap to 0.
static int wrapped, flat, vanished;

static void count(const struct made *m, const int16_t block[64])
{
    bool below = false, products = false, wide = false;

    for (int i = 0; i < 64; i++) {
        int full = block[i] * m->quant[i], v = (int16_t)full;

        wrapped += v != full;
        wide = wide || (i < 8 && v * 4 != (int16_t)(v * 4));
        below = below || (i >= 8 && block[i]);
        products = products || (i >= 8 && v);
    }
    flat += wide && !below;
    vanished += wide && below && !products;
}

// `rows` rows of a block have coefficients up to `most`, one of `sparse` not 0;
// quantizers are up to `quant`. vanish: products below the first row are 0.
struct kind {
    int most, rows, sparse, quant;
    bool vanish;
};

static void make(struct made *m, const struct kind *k)
{
    for (int i = 0; i < 64; i++)
        m->quant[i] =
            (uint16_t)(k->vanish && i >= 8 ? 256 : test_rnd_int(1, k->quant));
    for (int b = 0; b < ROWS * BLOCKS; b++) {
        int16_t *block = m->blocks[b / BLOCKS][b % BLOCKS];

        memset(block, 0, sizeof(m->blocks[0][0]));
        for (int i = 0; i < 8 * k->rows; i++) {
            if (test_rnd_int(1, k->sparse) == 1)
                block[i] = (int16_t)test_rnd_int(-k->most, k->most);
            if (k->vanish && i >= 8)
                block[i] = (int16_t)(block[i] / 256 * 256);
        }
        count(m, block);
    }
}

static void same_samples(struct kind k)
{
    static struct made m;
    static uint8_t want[H][W], got[H][W], own[H][W];
    struct cpu_ops ops;
    int bad = 0;

    cpu_ops_init(&ops, CPU_FLAG_C);
    make(&m, &k);
    decode(&m, false, want);
    decode(&m, true, own);
    for (int y = 0; y < ROWS; y++)
        ops.reconstruct(got[8 * y], W, (const int16_t(*)[64])m.blocks[y],
                        BLOCKS, m.quant);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            bad += want[y][x] != got[y][x] || want[y][x] != own[y][x];
    CHECK(!bad,
          "%d samples differ: coefficients to %d, %d rows, 1 of %d, "
          "quantizers to %d, vanish %d",
          bad, k.most, k.rows, k.sparse, k.quant, k.vanish);
}

static bool begin(bool x86)
{
    test_rnd_seed(test_seed);
    wrapped = flat = vanished = 0;
#if !defined(__x86_64__)
    if (x86) {
        test_not_run("libjpeg-turbo is not the x86 one");
        return false;
    }
#endif
    (void)x86;
    return true;
}

// ---- cases ----------------------------------------------------------------

// Nothing leaves 16 bits.
TEST_CASE(pictures)
{
    begin(false);
    for (int i = 0; i < test_loops(40); i++) {
        same_samples((struct kind){20, 8, 6, 16, false});
        same_samples((struct kind){60, 3, 2, 8, false});
        same_samples((struct kind){100, 1, 3, 10, false});
    }
    CU_ASSERT(!wrapped && !flat);
}

// Products fit, sums and passes do not.
TEST_CASE(passes_saturate)
{
    if (!begin(true))
        return;
    for (int i = 0; i < test_loops(40); i++) {
        same_samples((struct kind){MOST, 8, 1, 32, false});
        same_samples((struct kind){MOST, 8, 8, 32, false});
        same_samples((struct kind){MOST, 2, 2, 32, false});
    }
    CU_ASSERT(!wrapped);
}

TEST_CASE(products_wrap)
{
    if (!begin(true))
        return;
    for (int i = 0; i < test_loops(40); i++) {
        same_samples((struct kind){MOST, 8, 1, 65535, false});
        same_samples((struct kind){MOST, 8, 12, 65535, false});
        same_samples((struct kind){MOST, 8, 2, 300, false});
    }
    CU_ASSERT(wrapped > test_loops(1000));
}

// Blocks that take the shift in place of pass 1.
TEST_CASE(first_row_only)
{
    if (!begin(true))
        return;
    for (int i = 0; i < test_loops(40); i++) {
        same_samples((struct kind){MOST, 1, 1, 30, false});
        same_samples((struct kind){MOST, 1, 2, 65535, false});
        same_samples((struct kind){MOST, 2, 9, 100, false});
    }
    CU_ASSERT(flat > test_loops(1000));
}

// It is coefficients that decide about that, not products.
TEST_CASE(rows_vanish)
{
    if (!begin(true))
        return;
    for (int i = 0; i < test_loops(40); i++) {
        same_samples((struct kind){MOST, 2, 8, 100, true});
        same_samples((struct kind){MOST, 8, 40, 65535, true});
    }
    CU_ASSERT(vanished > test_loops(1000));
}
