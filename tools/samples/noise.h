// SPDX-License-Identifier: Apache-2.0
// Random numbers and noise planes for the sample pictures. Integer arithmetic
// only: the same seed gives the same numbers on every machine.
#ifndef HEADRACE_TOOLS_SAMPLES_NOISE_H
#define HEADRACE_TOOLS_SAMPLES_NOISE_H

#include <stdbool.h>
#include <stdint.h>

// A stream of numbers is a key and a counter; streams of different keys are
// unrelated, so a picture does not depend on which pictures came before it.
struct samples_rng {
    uint64_t key;
    uint64_t next;
};

// The counter's number in the key's stream, all 64 bits well mixed.
uint64_t samples_mix(uint64_t key, uint64_t counter);

// A whole number from lo to hi, both included; lo <= hi.
int samples_pick(struct samples_rng *rng, int lo, int hi);

struct samples_fractal {
    int cell_x, cell_y;  // coarsest cell in pixels, both >= 2
    int octaves;         // each halves the cells; stops at 1.5 pixels
    int gain;            // amplitude from octave to octave, in 1/256
};

// A new plane of w x h values about 0: value noise summed over octaves, with
// a standard deviation near 256. NULL when memory ran out; free() it.
int16_t *samples_fractal_make(const struct samples_fractal *f, int w, int h,
                              uint64_t seed);

// Largest whole number whose square is <= v.
uint32_t samples_root(uint32_t v);

#endif
