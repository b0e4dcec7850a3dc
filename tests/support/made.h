// SPDX-License-Identifier: Apache-2.0
// The engines that made a sample, by its result. Equal pixels prove nothing
// about a device: the CPU makes the samples that it does not take. Every test
// of exactness counts with these, in C here and in Python in made.py.
#ifndef HEADRACE_TESTS_MADE_H
#define HEADRACE_TESTS_MADE_H

#include <string.h>

#include <headrace/headrace.h>

// The stages from first to last as bits; both included.
static inline unsigned made_span(enum hr_stage first, enum hr_stage last)
{
    return (2u << last) - (1u << first);
}

// The stages of the sample that this engine did, as bits; device NULL: that
// any engine but the CPU did.
static inline unsigned made_stages(const struct hr_result *r,
                                   const char *device)
{
    unsigned stages = 0;

    for (int i = 0; i < r->num_spans; i++) {
        const struct hr_span_result *s = &r->spans[i];

        if (device ? !strcmp(s->device, device) : strcmp(s->device, "cpu") != 0)
            stages |= made_span(s->span.first, s->span.last);
    }
    return stages;
}

// True if the device did each stage from first to last.
static inline bool made_by(const struct hr_result *r, const char *device,
                           enum hr_stage first, enum hr_stage last)
{
    unsigned span = made_span(first, last);

    return (made_stages(r, device) & span) == span;
}

#endif
