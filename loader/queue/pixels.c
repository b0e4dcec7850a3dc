// SPDX-License-Identifier: Apache-2.0
// Samples that are pixels go to the job as images, over the memory in which
// they lie. Planes stay planes: every engine reads them.
#include "loader.h"

bool hr__slot_image(struct hr__slot *slot, int j)
{
    const struct hr_encoded *from = &slot->samples[j].from;
    hr_image *image = &slot->images[j];
    const struct hr_image_params *has = *image ? &(*image)->params : NULL;

    // Pixels of a CIFAR file lie where those before them lay, so that nothing
    // is allocated for them.
    if (has && has->data == from->data && has->w == from->w &&
        has->h == from->h && has->c == from->c && has->layout == from->layout)
        return true;
    hr_image_release(image);
    *image = hr_image_create(
        slot->loader->params.device,
        hr_image_params(.w = from->w, .h = from->h, .c = from->c,
                        .dtype = HR_U8, .layout = from->layout,
                        .data = (void *)(uintptr_t)from->data));
    return *image != NULL;
}
