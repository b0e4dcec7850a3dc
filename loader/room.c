// SPDX-License-Identifier: Apache-2.0
#include "room.h"

#include <stdint.h>

#include "hal/engine/base.h"

#define LEAST ((size_t)16 << 10)

// Four sizes to each power of two, so that at most a quarter is in vain.
static size_t rounded(size_t size, int *at)
{
    size_t step = LEAST / 4, units;
    int octave = 0;

    size = size < LEAST ? LEAST : size;
    while (step <= SIZE_MAX / 16 && size > 8 * step) {
        step *= 2;
        octave++;
    }
    units = (size + step - 1) / step;  // 4 .. 8
    *at = 4 * octave + (int)units - 4;
    return units * step;
}

static void drop(struct hr__room *room, size_t size, int at)
{
    struct hr__room_piece *piece = room->unused[at];

    room->unused[at] = piece->next;
    room->bytes -= size;
    hr__free(piece);
}

static size_t size_at(int at)
{
    return (LEAST / 4 << at / 4) * (size_t)(at % 4 + 4);
}

// Frees unused pieces, the largest first, until `more` bytes fit.
static void make_way(struct hr__room *room, size_t more)
{
    for (int at = HR__ROOM_SIZES - 1; at >= 0; at--)
        while (room->unused[at] && room->bytes + more > room->limit)
            drop(room, size_at(at), at);
}

// An unused piece of size number at, or one that is up to twice as large: which
// sizes are at work at the same time changes for ever, their sum hardly does.
static void *take(struct hr__room *room, int at, size_t *size)
{
    for (int i = at; i <= at + 4 && i < HR__ROOM_SIZES; i++) {
        struct hr__room_piece *piece = room->unused[i];

        if (!piece)
            continue;
        room->unused[i] = piece->next;
        *size = size_at(i);
        return piece;
    }
    return NULL;
}

void *hr__room_get(struct hr__room *room, size_t *size, bool must, bool *full)
{
    struct hr__room_piece *piece;
    int at;

    *full = false;
    if (*size > SIZE_MAX / 16)
        return NULL;
    *size = rounded(*size, &at);
    if ((piece = take(room, at, size)))
        return piece;
    make_way(room, *size);
    if (room->bytes + *size > room->limit && !must) {
        *full = true;
        return NULL;
    }
    if ((piece = hr__alloc(NULL, *size)))
        room->bytes += *size;
    if (room->bytes > room->peak)
        room->peak = room->bytes;
    return piece;
}

void hr__room_put(struct hr__room *room, void *memory, size_t size)
{
    struct hr__room_piece *piece = memory;
    int at;

    if (!piece)
        return;
    size = rounded(size, &at);
    piece->next = room->unused[at];
    room->unused[at] = piece;
    if (room->bytes > room->limit)
        drop(room, size, at);
}

void hr__room_finish(struct hr__room *room)
{
    for (int at = 0; at < HR__ROOM_SIZES; at++)
        while (room->unused[at])
            drop(room, size_at(at), at);
}
