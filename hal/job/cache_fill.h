// SPDX-License-Identifier: Apache-2.0
// Inside the room job: the picture of a work in a cache.
#ifndef HR__CACHE_FILL_H
#define HR__CACHE_FILL_H

#include "hal/job/job.h"

struct stat;

// Called at submit, when the job has its own cache.
void hr__cache_fill_begin(struct hr__work *work);
// Says whether its picture is there; then work->entry has it.
bool hr__cache_fill_find(struct hr__work *work);
// What is known of its file, and then of its header: is it to be kept?
void hr__cache_fill_opened(struct hr__work *work, const struct stat *st);
void hr__cache_fill_want(struct hr__work *work);
// The work ends, with its result.
void hr__cache_fill_end(struct hr__work *work);
// Gives the entry back.
void hr__cache_fill_drop(struct hr__work *work);

#endif
