// SPDX-License-Identifier: Apache-2.0
// How alike two pictures are, in levels.
#ifndef HR__LIKENESS_H
#define HR__LIKENESS_H

#include "hal/hal.h"

// Two pictures of one destination, one at dst->data, the other
// packed: rows without gaps.
struct hr__likeness {
    size_t elements, differing;
    double sum, squares, max;  // of differences, in levels of 0 .. 255
    double even;   // of differences' sums over blocks, without their signs
    double busy;   // of dst's own elements from those right of and below them
    double rough;  // the same squared, of both pictures
};
size_t hr__dst_row_bytes(const struct hr__dst *dst);
int hr__dst_rows(const struct hr__dst *dst);
uint8_t *hr__dst_row(const struct hr__dst *dst, int i);
// table: what the elements mean; NULL for u8.
void hr__liken(const struct hr__dst *dst, const struct hr__table *table,
               const uint8_t *packed, struct hr__likeness *out);
// As like as another way of scaling makes them.
bool hr__alike(const struct hr__likeness *likeness);
// As struct hr_span_certificate says; squares: the sum of the differences'.
double hr__psnr(double squares, double elements);

#endif
