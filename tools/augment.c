// SPDX-License-Identifier: Apache-2.0
#include "augment.h"

#include <math.h>

#include <Random123/philox.h>

#define TRIES 10
#define SCALE_MIN 0.08
#define SCALE_MAX 1.0
#define RATIO_MIN (3.0 / 4.0)
#define RATIO_MAX (4.0 / 3.0)

void augment_draw(const struct augment_key *key, uint32_t op, uint32_t draw,
                  uint32_t out[4])
{
    // op < HR_MAX_OPS and draw < TRIES share a word; indices need no more
    // than 56 bits.
    philox4x32_ctr_t counter = {{
        (uint32_t)key->index,
        (uint32_t)(key->index >> 32),
        key->epoch,
        op << 16 | draw,
    }};
    philox4x32_key_t words = {{
        (uint32_t)key->seed,
        (uint32_t)(key->seed >> 32),
    }};
    philox4x32_ctr_t made = philox4x32(counter, words);

    for (int i = 0; i < 4; i++)
        out[i] = made.v[i];
}

static double uniform(uint32_t word, double low, double high)
{
    return low + (high - low) * ((double)word * 0x1p-32);
}

static int below(uint32_t word, int limit)
{
    return (int)((uint64_t)word * (uint64_t)limit >> 32);
}

// Central crop with the nearest ratio that is allowed.
static struct hr_crop central_crop(int w, int h)
{
    struct hr_crop crop = {.w = w, .h = h};
    double ratio = (double)w / h;

    if (ratio < RATIO_MIN)
        crop.h = (int)nearbyint(w / RATIO_MIN);
    else if (ratio > RATIO_MAX)
        crop.w = (int)nearbyint(h * RATIO_MAX);
    if (crop.h < 1)
        crop.h = 1;
    if (crop.w < 1)
        crop.w = 1;
    crop.x = (w - crop.w) / 2;
    crop.y = (h - crop.h) / 2;
    return crop;
}

// torchvision/transforms/transforms.py, RandomResizedCrop.get_params; its
// round() is Python's, half to even, as nearbyint().
struct hr_crop augment_resized_crop(const struct augment_key *key, uint32_t op,
                                    int w, int h)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        struct hr_crop crop = {0};
        double area, ratio;
        uint32_t word[4];

        augment_draw(key, op, i, word);
        area = uniform(word[0], SCALE_MIN, SCALE_MAX) * w * h;
        ratio = exp(uniform(word[1], log(RATIO_MIN), log(RATIO_MAX)));
        crop.w = (int)nearbyint(sqrt(area * ratio));
        crop.h = (int)nearbyint(sqrt(area / ratio));
        if (crop.w < 1 || crop.w > w || crop.h < 1 || crop.h > h)
            continue;
        crop.y = below(word[2], h - crop.h + 1);
        crop.x = below(word[3], w - crop.w + 1);
        return crop;
    }
    return central_crop(w, h);
}

static int add_resized_crop(const struct hr_op *resize,
                            const struct augment_key *key, uint32_t position,
                            const struct hr_info *info, struct hr_op *out,
                            int num)
{
    int w, h;

    // The window lies in the picture as it is at this op.
    if (info && hr_ops_output_size(out, num, info->width, info->height,
                                   info->orientation, &w, &h) >= 0) {
        out[num].type = HR_OP_CROP;
        out[num++].crop = augment_resized_crop(key, position, w, h);
    }
    out[num++] = *resize;
    return num;
}

int augment_ops(const struct ops_list *list, const struct augment_key *key,
                const struct hr_info *info, struct hr_op *out)
{
    int num = 0;

    for (int i = 0; i < list->num; i++) {
        const struct ops_item *item = &list->items[i];
        uint32_t word[4];

        switch (item->kind) {
        case OPS_PLAIN:
            out[num++] = item->op;
            break;
        case OPS_RANDOM_HFLIP:
        case OPS_RANDOM_VFLIP:
            augment_draw(key, (uint32_t)i, 0, word);
            if (uniform(word[0], 0, 1) < item->p)
                out[num++] = item->op;
            break;
        case OPS_RANDOM_RESIZED_CROP:
            num = add_resized_crop(&item->op, key, (uint32_t)i, info, out, num);
            break;
        }
    }
    return num;
}
