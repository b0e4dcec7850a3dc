// SPDX-License-Identifier: Apache-2.0
// The part kinds/: one sound file of every kind of JPEG and PNG; and the part
// bad/: damaged and hostile files.
#ifndef HEADRACE_TOOLS_SAMPLES_KINDS_H
#define HEADRACE_TOOLS_SAMPLES_KINDS_H

#include "out.h"

// Write the kinds that out wants. false: told on stderr.
bool samples_make_kinds(struct samples_out *out, uint64_t seed);
bool samples_make_damage(struct samples_out *out, uint64_t seed);

// Print the name of every kind, one per line.
void samples_print_kinds(void);
void samples_print_damage(void);

#endif
