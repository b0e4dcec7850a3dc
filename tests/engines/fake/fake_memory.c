// SPDX-License-Identifier: Apache-2.0
// The scripted engine's memory: host memory that only this engine may read.
#include <stdlib.h>
#include <string.h>

#include "fake_engine.h"
#include "fake_pixels.h"

enum { HEADER = 64 };  // in front of memory, for alignment
_Static_assert(sizeof(struct hr__memory) <= HEADER, "it fits");

struct hr__memory *fake_memory(struct hr__engine *e, enum hr_memory kind,
                               size_t size, bool clear)
{
    struct hr__memory *m = hr__alloc(e->device, HEADER + size);

    if (!m) {
        hr__fail(HR_ENOMEM, "out of memory");
        return NULL;
    }
    *m = (struct hr__memory){
        .owner = e,
        .size = size,
        .native = {.api = "fake", .memory = (char *)m + HEADER},
        .host = kind == HR_MEMORY_PINNED ? (char *)m + HEADER : NULL};
    memset(m->native.memory, clear ? 0 : 0xdd, size);
    atomic_fetch_add(&fake_counts.memory, 1);
    atomic_fetch_add(&fake_counts.memory_made, 1);
    return m;
}

void fake_memory_free(struct hr__engine *e, struct hr__memory *m)
{
    (void)e;
    memset(m->native.memory, 0xdd, m->size);
    hr__free(m);
    atomic_fetch_sub(&fake_counts.memory, 1);
}

void fake_do_copy(const struct hr__copy *copy)
{
    uint8_t *mem = (uint8_t *)copy->memory->native.memory + copy->at;

    if (copy->to)
        memcpy(copy->to, mem, copy->size);
    else if (copy->from)
        memcpy(mem, copy->from, copy->size);
    else
        memset(mem, 0, copy->size);
    atomic_fetch_add(copy->to     ? &fake_counts.copies_down
                     : copy->from ? &fake_counts.copies_up
                                  : &fake_counts.clears,
                     1);
}
