// SPDX-License-Identifier: Apache-2.0
// Memory for encoded samples: pieces of some sizes that are used again, within
// a limit. No locks: the loader has one.
#ifndef HEADRACE_LOADER_ROOM_H
#define HEADRACE_LOADER_ROOM_H

#include <stdbool.h>
#include <stddef.h>

enum { HR__ROOM_SIZES = 256 };

struct hr__room {
    size_t limit;        // bytes that it has at most, but for `must`
    size_t bytes, peak;  // that it has, also unused ones
    struct hr__room_piece {
        struct hr__room_piece *next;
    } * unused[HR__ROOM_SIZES];
};

// At least *size bytes; *size becomes what it has. NULL with *full: the limit is
// reached, and must was not said; else there is no memory.
void *hr__room_get(struct hr__room *room, size_t *size, bool must, bool *full);
// Gives back what hr__room_get() gave, with its size. NULL is fine.
void hr__room_put(struct hr__room *room, void *memory, size_t size);
void hr__room_finish(struct hr__room *room);  // when all is given back

#endif
