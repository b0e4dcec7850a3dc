// SPDX-License-Identifier: Apache-2.0
// Objects by number. A number is kind, generation and slot: one that was given
// back is not valid again for the next 1023 objects of its slot.
#include <stdlib.h>

#include "driver.h"

enum { SLOT_BITS = 16, GENERATION_BITS = 10, MAX_SLOTS = 1 << SLOT_BITS };

static long *const alive[NUM_KINDS] = {
    [KIND_CONFIG] = &counters.configs,   [KIND_CONTEXT] = &counters.contexts,
    [KIND_SURFACE] = &counters.surfaces, [KIND_BUFFER] = &counters.buffers,
    [KIND_IMAGE] = &counters.images,
};

static uint32_t make_id(enum kind kind, uint32_t generation, size_t slot)
{
    return (uint32_t)kind << (SLOT_BITS + GENERATION_BITS) |
           generation << SLOT_BITS | (uint32_t)slot;
}

static bool grow(struct heap *h)
{
    size_t size = h->size ? 2 * h->size : 64;
    void **slots = realloc(h->slots, size * sizeof(*slots));
    uint32_t *generations;

    if (slots)
        h->slots = slots;
    generations = realloc(h->generations, size * sizeof(*generations));
    if (generations)
        h->generations = generations;
    if (!slots || !generations || size > MAX_SLOTS)
        return false;
    for (size_t i = h->size; i < size; i++) {
        slots[i] = NULL;
        generations[i] = 0;
    }
    h->size = size;
    return true;
}

// VA_INVALID_ID: no memory; the object is still the caller's.
uint32_t object_add(struct display *d, enum kind kind, void *object)
{
    struct heap *h = &d->heaps[kind];
    size_t i = 0;

    while (i < h->size && h->slots[i])
        i++;
    if (i == h->size && !grow(h))
        return VA_INVALID_ID;
    h->slots[i] = object;
    count(alive[kind], 1);
    return make_id(kind, h->generations[i], i);
}

void *object_peek(struct display *d, enum kind kind, uint32_t id)
{
    struct heap *h = &d->heaps[kind];
    size_t slot = id & (MAX_SLOTS - 1);

    if (slot >= h->size || !h->slots[slot] ||
        id != make_id(kind, h->generations[slot], slot))
        return NULL;
    return h->slots[slot];
}

// As object_peek(), but an unknown number is the client's mistake.
void *object_get(struct display *d, enum kind kind, uint32_t id)
{
    void *object = object_peek(d, kind, id);

    if (!object)
        count(&counters.bad_ids, 1);
    return object;
}

// The object is the caller's from here on, its number is not valid any more.
void *object_take(struct display *d, enum kind kind, uint32_t id)
{
    struct heap *h = &d->heaps[kind];
    size_t slot = id & (MAX_SLOTS - 1);
    void *object = object_get(d, kind, id);

    if (!object)
        return NULL;
    h->slots[slot] = NULL;
    h->generations[slot]++;
    h->generations[slot] &= (1 << GENERATION_BITS) - 1;
    count(alive[kind], -1);
    return object;
}

// Some object of the kind, to empty the heap; NULL: none is left.
void *object_any(struct display *d, enum kind kind, uint32_t *id)
{
    struct heap *h = &d->heaps[kind];

    for (size_t i = 0; i < h->size; i++) {
        if (h->slots[i]) {
            *id = make_id(kind, h->generations[i], i);
            return h->slots[i];
        }
    }
    return NULL;
}

void heaps_finish(struct display *d)
{
    for (int i = 0; i < NUM_KINDS; i++) {
        free(d->heaps[i].slots);
        free(d->heaps[i].generations);
    }
}
