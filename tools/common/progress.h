// SPDX-License-Identifier: Apache-2.0
// One line on a terminal that says how far a run is. Silent where stderr is
// no terminal.
#ifndef HEADRACE_TOOLS_COMMON_PROGRESS_H
#define HEADRACE_TOOLS_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool on, color, drawn;
    uint64_t total, done, failed;
    double begun, last;
};

// on = wanted at all. Looks at the terminal, TERM and NO_COLOR.
void progress_begin(struct progress *progress, uint64_t total, bool on);
// Draws ten times a second at most.
void progress_update(struct progress *progress, uint64_t done, uint64_t failed);
// Wipes the line, before a message or at the end.
void progress_clear(struct progress *progress);

// The line itself: width columns at most, no control bytes but colours.
void progress_text(const struct progress *progress, double elapsed, int width,
                   char *out, size_t size);

#endif
