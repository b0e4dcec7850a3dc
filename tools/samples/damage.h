// SPDX-License-Identifier: Apache-2.0
// The part bad/: damaged and hostile files. What a decoder must make of each
// is known: refuse it, mend it, or not even notice.
#ifndef HEADRACE_TOOLS_SAMPLES_DAMAGE_H
#define HEADRACE_TOOLS_SAMPLES_DAMAGE_H

#include "out.h"

// Writes the damaged files that out wants. false: told on stderr.
bool samples_make_damage(struct samples_out *out, uint64_t seed);

// Prints the name of every one, one per line.
void samples_print_damage(void);

#endif
