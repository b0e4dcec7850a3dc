// SPDX-License-Identifier: Apache-2.0
// The room ops: what users may ask of a picture. Each op is a file of its name
// and a row in table.c (op_def.h says what of); list.c walks lists of them. All
// of it is pure: no lock, no device. hr__ops_check() is in hal/engine/base.h.
#ifndef HR__OPS_H
#define HR__OPS_H

#include "hal/engine/augment.h"
#include "hal/engine/picture.h"
#include "hal/facts/facts.h"

// Folds ops to steps for a picture of w x h. On failure *text is the reason.
// reference: whose order of passes resizes have that do not say one; it does
// not change the size of anything.
enum hr_status hr__geometry_build(struct hr__geometry *out,
                                  const struct hr_op *ops, int num_ops,
                                  enum hr_reference reference, int w, int h,
                                  int orientation, char text[128]);
// Does the same for a list with random ops, which are drawn from key first.
enum hr_status hr__geometry_draw(struct hr__geometry *out,
                                 const struct hr_op *ops, int num_ops,
                                 const struct hr_random *key,
                                 enum hr_reference reference, int w, int h,
                                 int orientation, char text[128]);
void hr__geometry_size(const struct hr__geometry *geo, int *w, int *h);
// Bytes of the u8 pictures between its steps and codes, as the CPU engine keeps
// them.
size_t hr__geometry_bytes(const struct hr__geometry *geo, int channels);

// Computes the result for each byte of the ops that change values. The store's
// table absorbs these ops, so they cost nothing and every engine does them. If
// the list has ops of stage augment, or a picture is padded or resized behind
// such an op, they become codes instead, and the picture is stored without
// these values. False: the list has no such op, or they are codes of each
// picture. ops have passed hr__ops_check().
bool hr__ops_values(const struct hr_op *ops, int num_ops,
                    struct hr__values *out);

// Returns the most codes that the list may become. 0: it has no op of stage
// augment.
int hr__ops_augments(const struct hr_op *ops, int num_ops);

// Returns how many ops make the tensor; the ops behind them paint on it. ops
// may be unchecked, but for their number.
int hr__ops_making(const struct hr_op *ops, int num_ops);
// Returns the list's normalize; NULL: the tensor has the bytes themselves.
const struct hr_normalize *hr__ops_normalize(const struct hr_op *ops,
                                             int num_ops);
// Writes the rectangles to paint on a tensor of w x h, in order; returns how
// many. ops have passed hr__ops_check().
int hr__ops_erases(const struct hr_op *ops, int num_ops,
                   const struct hr_random *key, int w, int h,
                   struct hr_erase out[HR_MAX_OPS]);
// Writes n of the normal numbers that `noise` stands for, from number first on.
void hr__random_normals(int noise, uint64_t first, float *out, int n);

// Four words for draw number draw of the op at that place in its list.
void hr__random_words(const struct hr_random *key, int place, int draw,
                      uint32_t out[4]);
// The window that is cut out of a picture of w x h.
struct hr_crop hr__random_window(const struct hr_random_resized_crop *op,
                                 const struct hr_random *key, int place, int w,
                                 int h);

#endif
