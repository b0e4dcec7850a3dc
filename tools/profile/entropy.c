// SPDX-License-Identifier: Apache-2.0
// The CPU decodes a picture in one go. What of that is entropy decoding is
// estimated apart: libjpeg decodes all coefficients to make the picture in an
// eighth of its size, and little else.
#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "profile.h"
#include "tools/common/tools.h"

enum { PICTURES = 16, REPEAT = 3 };

struct errors {
    struct jpeg_error_mgr mgr;
    jmp_buf out;
};

static void leave(j_common_ptr info)
{
    longjmp(((struct errors *)info->err)->out, 1);
}

static void quiet(j_common_ptr info, int level)
{
    (void)info;
    (void)level;
}

static void rows(struct jpeg_decompress_struct *d)
{
    JSAMPARRAY row;

    jpeg_start_decompress(d);
    row = d->mem->alloc_sarray((j_common_ptr)d, JPOOL_IMAGE,
                               d->output_width * (JDIMENSION)d->num_components,
                               1);
    while (d->output_scanline < d->output_height)
        jpeg_read_scanlines(d, row, 1);
    jpeg_finish_decompress(d);
}

// Seconds for one decode; < 0: libjpeg refuses.
static double decode(const void *data, size_t size, bool all)
{
    struct jpeg_decompress_struct d;
    struct errors errors;
    volatile double begin = tools_thread_seconds();

    d.err = jpeg_std_error(&errors.mgr);
    errors.mgr.error_exit = leave;
    errors.mgr.emit_message = quiet;
    if (setjmp(errors.out)) {
        jpeg_destroy_decompress(&d);
        return -1;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, data, (unsigned long)size);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = all && d.num_components == 3 ? JCS_RGB
                                                     : d.jpeg_color_space;
    d.scale_denom = all ? 1 : 8;
    rows(&d);
    jpeg_destroy_decompress(&d);
    return tools_thread_seconds() - begin;
}

// The shortest of some tries: others only make it longer.
static void add(const void *data, size_t size, double *entropy, double *all)
{
    double least[2] = {1e9, 1e9};

    for (int k = 0; k < 2 * REPEAT; k++) {
        double seconds = decode(data, size, k % 2);

        if (seconds < 0)
            return;
        least[k % 2] = seconds < least[k % 2] ? seconds : least[k % 2];
    }
    *entropy += least[0];
    *all += least[1];
}

double profile_entropy_share(struct inputs *in)
{
    double entropy = 0, all = 0;
    size_t step = in->num > PICTURES ? in->num / PICTURES : 1;

    for (size_t i = 0; i < in->num; i += step) {
        char path[PATH_MAX];
        size_t size = 0;
        unsigned char *data = NULL;

        if (inputs_path(in, i, path, sizeof(path)))
            data = profile_read_file(path, &size);
        if (data && size > 3 && data[0] == 0xff)
            add(data, size, &entropy, &all);
        free(data);
    }
    if (all <= 0)
        return -1;
    return entropy < all ? entropy / all : 1;
}
