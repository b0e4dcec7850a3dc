// SPDX-License-Identifier: Apache-2.0
// Numbers of random ops. Every one is a pure function of (seed, epoch, index,
// place of the op), by Philox4x32-10 (Random123), so the same picture comes out
// on any thread, in any batch and order, of any engine.
#include <string.h>

#include <Random123/philox.h>

#include "hal/ops/ops.h"

void hr__random_words(const struct hr_random *key, int op, int draw,
                      uint32_t out[4])
{
    // op < HR_MAX_OPS and draw, of few, share a word.
    philox4x32_ctr_t counter = {{
        (uint32_t)key->index,
        (uint32_t)(key->index >> 32),
        key->epoch,
        (uint32_t)op << 16 | (uint32_t)draw,
    }};
    philox4x32_key_t words = {{
        (uint32_t)key->seed,
        (uint32_t)(key->seed >> 32),
    }};
    philox4x32_ctr_t made = philox4x32(counter, words);

    memcpy(out, made.v, sizeof(made.v));
}
