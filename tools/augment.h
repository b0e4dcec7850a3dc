// SPDX-License-Identifier: Apache-2.0
// Random ops made plain for one picture and one epoch. Every number is a pure
// function of (seed, epoch, index of the picture, position of the op), by
// Philox4x32-10 (Random123), so the same pictures come out for any number of
// threads, batch size, backend or order.
#ifndef HEADRACE_AUGMENT_H
#define HEADRACE_AUGMENT_H

#include <stdint.h>

#include "ops_text.h"

struct augment_key {
    uint64_t seed, index;
    uint32_t epoch;
};

// Four words for draw number draw of op number op.
void augment_draw(const struct augment_key *key, uint32_t op, uint32_t draw,
                  uint32_t out[4]);

// The window of RandomResizedCrop in a picture of w x h.
struct hr_crop augment_resized_crop(const struct augment_key *key, uint32_t op,
                                    int w, int h);

// Writes the ops of one picture to out[HR_MAX_OPS], returns how many. info
// tells the picture's size; NULL if it could not be read: then drawn crops
// are left out, and the list still makes the same output size.
int augment_ops(const struct ops_list *list, const struct augment_key *key,
                const struct hr_info *info, struct hr_op *out);

#endif
