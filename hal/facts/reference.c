// SPDX-License-Identifier: Apache-2.0
// References: their names, the process's choice, and the order of passes that
// each of them has.
#include <stdatomic.h>

#include "hal/facts/facts.h"

static const char *const names[HR_NUM_REFERENCES] = {
    [HR_REFERENCE_PILLOW_12] = "pillow-12",
    [HR_REFERENCE_PILLOW_12_2] = "pillow-12.2",
    [HR_REFERENCE_PILLOW_13] = "pillow-13",
    [HR_REFERENCE_TORCH_2] = "torch-2",
};

static atomic_int chosen = HR_REFERENCE_NEWEST;

enum hr_status hr_set_reference(enum hr_reference reference)
{
    if ((unsigned)reference >= HR_NUM_REFERENCES)
        return hr__fail(HR_EINVAL, "unknown reference %d", (int)reference);
    atomic_store(&chosen, reference ? reference : HR_REFERENCE_NEWEST);
    return HR_OK;
}

enum hr_reference hr_device_reference(hr_device dev)
{
    return dev && dev->params.reference
               ? dev->params.reference
               : (enum hr_reference)atomic_load(&chosen);
}

const char *hr_reference_name(enum hr_reference reference)
{
    if ((unsigned)reference >= HR_NUM_REFERENCES)
        return NULL;
    return names[reference ? reference : hr_device_reference(NULL)];
}

// Pillow 12.2 src/PIL/Image.py, Image.resize.
static bool pillow_12_2(int64_t width, int64_t height, int64_t h)
{
    return height > width * 100 && h < height;
}

// Pillow 13.0 src/libImaging/Resample.c, ImagingResampleInner. Its differences
// are signed: a picture that grows in width and shrinks in height at all goes
// the vertical way first.
static bool pillow_13(int64_t width, int64_t height, int64_t w, int64_t h)
{
    return height - h > 0 && height - h > 2 * (width - w);
}

enum hr_order hr_resize_order(enum hr_reference reference, int width,
                              int height, int w, int h)
{
    bool vertical = false;

    if (!reference)
        reference = hr_device_reference(NULL);
    if (reference == HR_REFERENCE_TORCH_2)
        return HR_ORDER_TORCH;
    if (reference == HR_REFERENCE_PILLOW_12_2)
        vertical = pillow_12_2(width, height, h);
    if (reference == HR_REFERENCE_PILLOW_13)
        vertical = pillow_13(width, height, w, h);
    return vertical ? HR_ORDER_VERTICAL : HR_ORDER_HORIZONTAL;
}
