// SPDX-License-Identifier: Apache-2.0
// Reports of jobs to the trace, see engine/trace.h.
#ifndef HR__JOB_REPORT_H
#define HR__JOB_REPORT_H

#include "hal/job/job.h"

void hr__watch_work(const struct hr__work *work, enum hr_part part,
                    int64_t begin);
void hr__watch_submit(struct hr__job *job, int64_t begin);
void hr__watch_callback(const struct hr__job *job, int64_t begin);
void hr__watch_done(const struct hr__job *job, int64_t begin);
// A span of an engine that is not the host ends.
void hr__watch_span(const struct hr__engine_task *et);

#endif
