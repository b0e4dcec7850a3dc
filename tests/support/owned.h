// SPDX-License-Identifier: Apache-2.0
// Locals that end with their block, the last one first: `auto_device dev =
// hr_device_open(...)`. They may be NULL, and may be ended before.
#ifndef HEADRACE_TESTS_OWNED_H
#define HEADRACE_TESTS_OWNED_H

#include <headrace/headrace.h>
#include <headrace/loader.h>
#include <stdlib.h>
#include <string.h>

#include "decode_files.h"

static inline void free_heap(void *pointer)
{
    void *heap;

    memcpy(&heap, pointer, sizeof(heap));
    free(heap);
}

static inline void free_bytes(struct bytes *b)
{
    free(b->data);
}

// (Their end alone is a use, which clang does not count.)
#define OWN(end) __attribute__((cleanup(end), unused))
#define auto_device OWN(hr_device_close) hr_device
#define auto_cache OWN(hr_cache_release) hr_cache
#define auto_job OWN(hr_job_release) hr_job
#define auto_batch OWN(hr_batch_destroy) hr_batch
#define auto_image OWN(hr_image_release) hr_image
#define auto_source OWN(hr_source_close) hr_source
#define auto_loader OWN(hr_loader_destroy) hr_loader
#define auto_bytes OWN(free_bytes) struct bytes
#define auto_encoded OWN(hr_encoded_finish) struct hr_encoded
#define auto_plain OWN(plain_free) struct plain
#define auto_heap OWN(free_heap)  // auto_heap uint8_t *pixels

#endif
