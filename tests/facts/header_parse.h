// SPDX-License-Identifier: Apache-2.0
// The JPEG header parser on bytes of header_bytes.h, each time on a heap block
// of its exact size, so that a sanitizer sees each byte read too far.
#ifndef HEADRACE_TESTS_HEADER_PARSE_H
#define HEADRACE_TESTS_HEADER_PARSE_H

#include "hal/facts/facts.h"
#include "header_bytes.h"

// The results of the last parse().
extern struct hr_info header_info;
extern struct hr__header_error header_err;

enum hr_status parse(const uint8_t *p, size_t n, bool whole,
                     const struct hr_limits *limits);
enum hr_status parse_all(const struct growing *b);
// Parses and drops b; says what came out if it is not what was wanted. text:
// a part of the error's; NULL: any.
void expect(struct growing *b, const char *what, enum hr_status wanted,
            const char *text);

// Tables, a frame with that marker and n components, a scan and the end.
void frame(struct growing *b, unsigned marker, int n, const uint8_t *ids);

#endif
