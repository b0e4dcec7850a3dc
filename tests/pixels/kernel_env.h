// SPDX-License-Identifier: Apache-2.0
// For tests of kernels/: OpenCL (of the backend only the table of calls), JPEG
// files of every layout, and their coefficients packed as payload.h says.
#ifndef KERNEL_ENV_H
#define KERNEL_ENV_H

#include <stdbool.h>
#include <stdio.h>

#include "backends/opencl/opencl.h"
#include "hal/job/work.h"
#include "kernels/augment_plan.h"
#include "kernels/plan.h"

// ---- kernel_env.c: a device, and batches on it ----------------------------

struct kernel_device {
    cl_platform_id platform;
    cl_device_id device;
    char platform_name[128], name[128];
    bool doubles;
};

struct kernel_env {
    struct ocl_api cl;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[HR__NUM_KERNELS];
    // The last run:
    struct hr__kernel_picture *pics;  // [items]
    uint8_t *work;
    int launches;
    size_t most_rows;  // of a launch of any run
    bool gpu;          // the forms for GPUs where they can be
    bool doubles;
    int runs, by_gpu;  // batches, and batches by these forms
};

// False without a libOpenCL.
bool kernel_cl_load(struct ocl_api *cl);
// At most max devices of all platforms.
int kernel_devices(const struct ocl_api *cl, struct kernel_device *devices,
                   int max);
bool kernel_env_open(struct kernel_env *env, const struct ocl_api *cl,
                     const struct kernel_device *device,
                     enum ocl_variant variant);
void kernel_env_close(struct kernel_env *env);

// One picture: from coefficients, from planes, or from pixels.
struct kernel_item {
    struct hr__coefficients *coefs;  // NULL: pixels
    size_t coef_size;
    struct hr__planes *planes_of;  // or these planes,
    uint8_t *samples;              // in here
    size_t samples_size;
    const uint8_t *pixels;  // the whole picture, step.in_w x in_h
    size_t next_x, next_y, next_c;
    int planes;  // 3 or 1
    bool gray;   // luma of coefficients in colour
    struct hr__step step;
    struct hr__kernel_codes codes;  // behind it, if there are any
    const struct hr__table *table;
    struct hr__dst dst;
    size_t dst_size;
};

// Runs all items as one batch; writes dst of each.
bool kernel_run(struct kernel_env *env, struct kernel_item *items, int n);

// The window of its source that a step reads.
struct hr__rect kernel_window(const struct hr__step *step);

// ---- kernel_jpeg.c: files and coefficients --------------------------------

struct kernel_jpeg {
    unsigned char *data;
    unsigned long size;
    int w, h, components;
};

struct kernel_jpeg_params {
    int w, h;
    int components;  // 3 or 1
    int hs[3], vs[3];
    int quality;
    bool rgb;          // not converted: Adobe transform 0
    bool noise;        // else smooth
    bool harsh;        // random coefficients and quantisers
    unsigned restart;  // MCUs between restart markers, unless harsh
};

bool kernel_jpeg_make(struct kernel_jpeg *j,
                      const struct kernel_jpeg_params *p);
bool kernel_jpeg_read(struct kernel_jpeg *j, const char *path);
void kernel_jpeg_free(struct kernel_jpeg *j);

// The coefficients that a window needs; NULL: not a JPEG for this. free().
struct hr__coefficients *kernel_pack(const struct kernel_jpeg *j,
                                     struct hr__rect window, size_t *size);

// Planes as the inverse DCT leaves them (jpeg_read_raw_data), block-padded;
// free() plane[0].
struct kernel_planes {
    uint8_t *plane[3];
    size_t stride[3];
};
bool kernel_raw(const struct kernel_jpeg *j, struct kernel_planes *planes);
// All pixels as RGB; free().
uint8_t *kernel_rgb(const struct kernel_jpeg *j);

uint32_t kernel_random(void);  // of the state below
extern uint64_t kernel_seed;
static inline int kernel_pick(int from, int to)
{
    return from + (int)(kernel_random() % (uint32_t)(to - from + 1));
}

#endif
