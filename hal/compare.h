// SPDX-License-Identifier: Apache-2.0
// The one comparer of pictures: for certificates, for the cross-check and
// behind hr_image_compare().
#ifndef HR__COMPARE_H
#define HR__COMPARE_H

#include "hal/hal.h"

size_t hr__dst_row_bytes(const struct hr__dst *dst);
int hr__dst_rows(const struct hr__dst *dst);
uint8_t *hr__dst_row(const struct hr__dst *dst, int i);
// The same picture at data, with rows without gaps.
struct hr__dst hr__dst_packed(const struct hr__dst *dst, uint8_t *data);

// How much a step of one level of 256 changes an element of each channel.
// table: what the elements mean, made for that type; NULL: they are levels.
void hr__level_units(const struct hr__table *table, enum hr_dtype made,
                     int channels, double units[3]);
// Both have the same size and type, and lie on the host. Nothing else of the
// library is used: any thread, no lock.
void hr__compare(const struct hr__dst *a, const struct hr__dst *b,
                 const double units[3], struct hr_difference *out);
// As struct hr_certificate_record says; squares: the sum of the differences'.
double hr__psnr(double squares, double elements);

#endif
