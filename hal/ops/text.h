// SPDX-License-Identifier: Apache-2.0
// Shared by the reader (text.c) and the writer (text_format.c) of lists of ops.
#ifndef HR__OPS_TEXT_H
#define HR__OPS_TEXT_H

#include <locale.h>

#include "hal/ops/op_def.h"

// Numbers are those of the C locale; programs may have a decimal comma.
struct hr__numbers {
    locale_t plain, old;
};
struct hr__numbers hr__numbers_begin(void);
void hr__numbers_end(struct hr__numbers n);

// x on both sides of what changes nothing; 0: no range.
void hr__text_around(const struct hr_op_field *f, double x, double range[2]);

// Says whether the text is one op.
bool hr__text_read(const char *text, struct hr_op *op);
// A list that is not valid has no text.
enum hr_status hr__text_check(const char *text, int num_ops);

#endif
