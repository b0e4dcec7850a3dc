// SPDX-License-Identifier: Apache-2.0
// Memory of files, between FileBytes (file.c) and SharedFiles (shared_files.c).
#ifndef HR_PY_FILE_H
#define HR_PY_FILE_H

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core.h"

enum { GRAIN = 16384, GRAINS = 4096, MOST_OWNERS = 200 };

// Facts about lent bytes, for the other process. It lies in front of them.
struct head {
    size_t size;  // of the bytes
    struct stat status;
    int known;    // it was the same before and after they were read,
    int settled;  // and any later change will change it
};
enum { HEAD = 192 };
_Static_assert(sizeof(struct head) <= HEAD, "the bytes begin behind it");

#define ROOM_BYTES (GRAINS + (size_t)GRAIN * GRAINS)

struct room {
    _Atomic(uint8_t) *owners;  // [GRAINS], then the grains
    pid_t pid;                 // whose objects are counted
    int refs;                  // with the GIL
    bool shared;
    size_t mapped;  // grains from the first on whose pages this process has
};

struct file {
    PyObject ob_base;
    struct room *room;  // NULL: of malloc()
    uint8_t *data;      // HEAD bytes behind the begin of its memory
    struct head head;
    hr_cached cached;     // NULL: it was read
    unsigned generation;  // .. by the process of this one
};

static inline bool file_is_ours(const struct room *room)
{
    return room->pid == getpid();
}

static inline uint8_t *file_grain(const struct room *room, size_t i)
{
    return (uint8_t *)room->owners + GRAINS + i * GRAIN;
}

// fd: of a memory file, which stays the caller's; -1: none. NULL: no memory.
struct room *file_room_new(int fd);
void file_room_leave(struct room *room);
// From now on this process reads into that memory. False with an exception.
bool file_own(int fd);
// A file without memory yet. NULL with an exception.
struct file *file_new(struct core *core);

#endif
