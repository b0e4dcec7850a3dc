// SPDX-License-Identifier: Apache-2.0
// Random pictures for tests of kernels/, made by the CPU engine and by the
// kernels.
#ifndef KERNEL_PICTURE_H
#define KERNEL_PICTURE_H

#include "kernel_env.h"

enum { KERNEL_MAX_BATCH = 64, KERNEL_LAYOUTS = 18 };

struct kernel_picture {
    struct kernel_jpeg jpeg;
    uint8_t *pixels;  // or these
    struct hr_image_params source;
    struct hr_op ops[8];
    int num_ops;
    enum hr_mode mode;
    int w, h, c;  // of the source; channels out
    struct hr__geometry geo;
    struct hr__table table;
    float entries[768];  // of the caller's table
    struct hr_image_params out;
    size_t out_size;
    uint8_t *want, *got;
    struct kernel_item item;
};

// A JPEG of one of KERNEL_LAYOUTS kinds of sampling, its content by chance.
struct kernel_jpeg_params kernel_params(int layout, int w, int h);

// The reference of the resizes of the pictures below, DEFAULT unless a test
// says otherwise: then the CPU device that makes the expected pictures needs
// it, too.
extern enum hr_reference kernel_reference;
// All by chance, sides up to most. False: the JPEG could not be made.
bool kernel_random_picture(struct kernel_picture *p, int layout, int most,
                           bool harsh, bool pixels);
void kernel_picture_free(struct kernel_picture *p);

// Its parts. p->w, h, c and ops come first; out needs geo, table needs out.
struct hr_op kernel_random_crop(int w, int h, bool pad);
void kernel_random_pixels(struct kernel_picture *p);
void kernel_random_out(struct kernel_picture *p);
void kernel_random_table(struct kernel_picture *p);
void kernel_make_item(struct kernel_picture *p);

// Takes the coefficients away and gives planes instead, as engines leave them:
// packed, with gaps, chroma by pairs; of the whole picture.
bool kernel_use_planes(struct kernel_picture *p);

// Makes want of n pictures.
bool kernel_cpu_run(hr_device cpu, struct kernel_picture *p, int n);
// How many differ; says where the first one does.
int kernel_compare(const struct kernel_picture *p, int n);

#endif
