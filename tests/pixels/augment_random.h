// SPDX-License-Identifier: Apache-2.0
// Codes of stage augment by chance (test_rnd_seed()), for whatever does them.
#ifndef AUGMENT_RANDOM_H
#define AUGMENT_RANDOM_H

#include "hal/engine/augment.h"

enum { AUGMENT_SIDE = 70 };  // the longest

// Returns an augmentation of a w x h picture, with any parameters that a plan
// may have. w, h of the result are set where it has a size of its own.
struct hr__augment augment_random(enum hr__augment_code code, int w, int h);
// n bytes: flat, black and white, of a narrow range, or noise.
void augment_noise(uint8_t *to, int n);

#endif
