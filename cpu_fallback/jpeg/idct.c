// SPDX-License-Identifier: Apache-2.0
// libjpeg-turbo with our own inverse DCT: where its SIMD form is not that of
// x86, it rounds damaged coefficients, and others that no encoder writes, to
// other samples (NEON narrows where x86 saturates).
#include <string.h>

#include "cpu_fallback/cpu_kernels.h"
#include "reader.h"

typedef void inverse_fn(j_decompress_ptr cinfo, jpeg_component_info *info,
                        JCOEFPTR block, JSAMPARRAY rows, JDIMENSION column);

// The beginning of that of src/jpegint.h, which is not installed everywhere; it
// is the same in every release since libjpeg 6.
struct jpeg_inverse_dct {
    void (*start_pass)(j_decompress_ptr cinfo);
    inverse_fn *inverse_DCT[MAX_COMPONENTS];
};

static void inverse(j_decompress_ptr cinfo, jpeg_component_info *info,
                    JCOEFPTR block, JSAMPARRAY rows, JDIMENSION column)
{
    // (A component that no scan has has no quantizers and no coefficients.)
    static const uint16_t none[DCTSIZE2];
    uint8_t samples[DCTSIZE2];

    (void)cinfo;
    cpu_reconstruct_c(samples, DCTSIZE, (const int16_t(*)[64])block, 1,
                      info->quant_table ? info->quant_table->quantval : none);
    for (int y = 0; y < DCTSIZE; y++)
        memcpy(rows[y] + column, samples + DCTSIZE * y, DCTSIZE);
}

void cpu_jpeg_own_idct(struct jpeg_decompress_struct *cinfo)
{
    for (int i = 0; i < cinfo->num_components; i++)
        cinfo->idct->inverse_DCT[i] = inverse;
}

void cpu_jpeg_start(struct cpu_jpeg *d)
{
    jpeg_start_decompress(&d->cinfo);
#if !defined(__x86_64__)
    cpu_jpeg_own_idct(&d->cinfo);
#endif
}
