// SPDX-License-Identifier: Apache-2.0
// Names of numbered files in braces, as shards are named: a-{000..127}.tar
#ifndef HEADRACE_TOOLS_COMMON_BRACES_H
#define HEADRACE_TOOLS_COMMON_BRACES_H

#include <stdbool.h>

typedef bool (*braces_fn)(void *ctx, const char *name);

// Calls take with each name that pattern stands for, until it returns false;
// returns what the last call did. {A..B} are the numbers from A to B, up or
// down, with as many digits as A has at least. The first of several changes
// slowest. A pattern without such braces, or that stands for more than a
// million names, is the name itself.
bool braces_expand(const char *pattern, braces_fn take, void *ctx);

#endif
