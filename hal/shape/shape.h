// SPDX-License-Identifier: Apache-2.0
// The room shape: what a sample comes to, as pure functions: no lock, no
// device.
#ifndef HR__SHAPE_H
#define HR__SHAPE_H

#include "hal/engine/engine.h"
#include "hal/facts/facts.h"
#include "hal/ops/ops.h"

// ---- Plan (plan.c) ----------------------------------------------------------

struct hr__plan {
    int num_spans;
    struct {
        struct hr_span span;
        int engine;  // index in the chain
    } spans[HR_NUM_STAGES];
};

// Cuts a picture's stages (hr__picture_stages(); HR_STORE is one of them) into
// spans, each offered by its engine. Pure: the same offers give the same plan.
// Prefers, in this order: more stages on engines early in the chain, fewer
// spans. HR_EUNSUPPORTED if some stage has no taker.
enum hr_status hr__plan_build(struct hr__plan *out, unsigned stages,
                              const struct hr__offer *offers, int num_offers);

// ---- Tables (table.c) -------------------------------------------------------

// normalize may be NULL: bytes as they are. values: what bytes become before
// that, or NULL. Only the array of dtype is made.
void hr__table_build(struct hr__table *out,
                     const struct hr_normalize *normalize,
                     const struct hr__values *values, int channels,
                     enum hr_dtype dtype);
uint16_t hr__f16_from_f32(float x);  // round half to even, IEEE binary16

// ---- Pictures (compare.c) ---------------------------------------------------

size_t hr__dst_row_bytes(const struct hr__dst *dst);
int hr__dst_rows(const struct hr__dst *dst);
uint8_t *hr__dst_row(const struct hr__dst *dst, int i);
void hr__dst_clear(const struct hr__dst *dst);  // to 0
// Returns the same picture at data, with rows without gaps.
struct hr__dst hr__dst_packed(const struct hr__dst *dst, uint8_t *data);

// Computes how much a step of one level of 256 changes an element of each
// channel. table: the elements' values, made for that type; NULL: they are
// levels.
void hr__level_units(const struct hr__table *table, enum hr_dtype made,
                     int channels, double units[3]);
// Compares two pictures of the same size and type on the host. Nothing else of
// the library is used: any thread, no lock.
void hr__compare(const struct hr__dst *a, const struct hr__dst *b,
                 const double units[3], struct hr_difference *out);
// Computes the PSNR of struct hr_certificate_record; squares: the sum of the
// squared differences.
double hr__psnr(double squares, double elements);

#endif
