// SPDX-License-Identifier: Apache-2.0
// Inside the room job: the picture of a work in a cache.
#ifndef HR__KEEP_H
#define HR__KEEP_H

#include "hal/job/job.h"

struct stat;

// At submit, when the job has its own cache.
void hr__keep_begin(struct hr__work *work);
// Whether its picture is there; then work->entry has it.
bool hr__keep_find(struct hr__work *work);
// What is known of its file, and then of its header: is it to be kept?
void hr__keep_opened(struct hr__work *work, const struct stat *st);
void hr__keep_want(struct hr__work *work);
// The work ends, with its result.
void hr__keep_end(struct hr__work *work);
// Gives the entry back.
void hr__keep_drop(struct hr__work *work);

#endif
