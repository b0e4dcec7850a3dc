// SPDX-License-Identifier: Apache-2.0
// The ops as their descriptions say, one after the other on whole pictures: no
// geometry, no windows, no tricks. The library's folded ops must equal these.
#ifndef HEADRACE_TESTS_NAIVE_H
#define HEADRACE_TESTS_NAIVE_H

#include <headrace/op.h>
#include <headrace/reference.h>
#include <stdbool.h>
#include <stdint.h>

struct picture {
    int w, h, c;
    uint8_t *data;  // interleaved, packed; malloc
};

// Whose resize those without an order of their own are: written down a
// second time, from its description. Set once, before threads.
extern enum hr_reference naive_reference;

// Applies one op to p. False if the op is not valid for it (p is unchanged).
bool naive_apply(struct picture *p, const struct hr_op *op, int orientation);

// Weights of output i of a resize of `in` samples, box0 .. box1, to `out`:
// Pillow's, straight from its documentation and sources. n weights from *lo on
// with 22 fraction bits; w has room for naive_taps().
int naive_taps(int in, int out, double box0, double box1,
               enum hr_filter filter);
void naive_weights(int in, int out, double box0, double box1,
                   enum hr_filter filter, int i, int *lo, int *n, int32_t *w);
// The same for all outputs of torch's resize, with the same number of taps
// each; returns how many fraction bits they have.
int naive_torch_weights(int in, int out, enum hr_filter filter, int *lo, int *n,
                        int32_t *w);
int naive_torch_nearest(int in, int out, int i);
// Rounds a sum of samples times Pillow's weights.
uint8_t naive_round(int64_t sum);
// NEAREST: the input of output i, -1 = outside.
int naive_nearest(int in, int out, double box0, double box1, int i);

#endif
