// SPDX-License-Identifier: Apache-2.0
// The second look at a media engine's pictures: where the way of a work meets
// crosscheck.c.
#ifndef HR__CROSSCHECK_H
#define HR__CROSSCHECK_H

#include "hal/hal.h"

// What a media engine made of a sample, while the CPU makes it again.
struct hr__check {
    int engine, num_spans;
    enum hr_stage last;  // of the media engine's span
    bool looked;         // the result is in device memory
    unsigned excluded, why;
    struct hr__plan plan;
    struct hr_span_result spans[HR_NUM_STAGES];
    uint8_t picture[];  // packed
};
// A sample has been made, and ends as *out says. True: it is to be made again,
// and on its way.
bool hr__check_begin(struct hr__work *work, const struct hr__outcome *out);
// The same, once its result has come from device memory to work->result.
bool hr__check_looked(struct hr__work *work);
// It has: judges, if it was made again; *out may become a failure. If the CPU
// could not make it again, for another reason than the file, *out becomes HR_OK
// and the picture is the device's.
void hr__check_end(struct hr__work *work, struct hr__outcome *out);
void hr__check_drop(struct hr__work *work);

#endif
