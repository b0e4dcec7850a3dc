// SPDX-License-Identifier: Apache-2.0
// The second look at a media engine's pictures: where the way of a work meets
// crosscheck.c.
#ifndef HR__CROSSCHECK_H
#define HR__CROSSCHECK_H

#include "hal/job/work.h"

// A media engine's picture of a sample, kept while the CPU makes it again.
struct hr__check {
    bool looked;  // the result is in device memory
    unsigned excluded, why;
    struct hr__plan plan;  // the media engine's span is the first
    int num_spans;
    struct hr_span_result spans[HR_NUM_STAGES];
    uint8_t picture[];  // packed
};
// Says whether a sample that has been made is to be made again.
bool hr__check_wanted(struct hr__work *work);
// Puts the picture aside, which is at dst.data, or at work->result if it has
// been copied there to be looked at, and plans the work for the CPU alone.
// False: that is impossible, and nothing has changed.
bool hr__check_begin(struct hr__work *work);
// Called when the sample is made, or has failed. If it was made again: judges,
// and work->out may become a failure. If the CPU could not make it again, for
// another reason than the file, work->out becomes HR_OK and the picture is the
// device's.
void hr__check_end(struct hr__work *work);

#endif
