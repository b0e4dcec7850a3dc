// SPDX-License-Identifier: Apache-2.0
// Memory for encoded samples: a few large chunks, of which each sample has as
// many pages as it needs, within a limit. No locks: the loader has one.
#ifndef HEADRACE_LOADER_ROOM_H
#define HEADRACE_LOADER_ROOM_H

#include <stdbool.h>
#include <stddef.h>

struct hr__room {
    size_t limit;        // bytes that it has at most, but for HR__ROOM_MUST
    size_t bytes, peak;  // that it has, also unused ones
    struct hr__room_chunk *chunks;
};

// Where a sample may have its bytes from: memory that is there, also new memory
// within the limit, or any.
enum hr__room_way { HR__ROOM_KEPT, HR__ROOM_LIMIT, HR__ROOM_MUST };

// At least size bytes, aligned to 64. NULL with *full: there are none by this
// way; else there is no memory.
void *hr__room_get(struct hr__room *room, size_t size, enum hr__room_way way,
                   bool *full);
// Gives back what hr__room_get() gave. NULL is fine.
void hr__room_put(struct hr__room *room, void *memory);
void hr__room_finish(struct hr__room *room);  // when all is given back

#endif
