// SPDX-License-Identifier: Apache-2.0
// For engines: what one span leaves for the next one, and how its bytes lie.
#ifndef HR__ENGINE_PAYLOAD_H
#define HR__ENGINE_PAYLOAD_H

#include "hal/engine/picture.h"

// The data that a span leaves for the next one, in memory that the next engine
// has allocated (by its buffer_alloc, e.g. pinned upload memory). Freed by the
// HAL.
struct hr__payload {
    enum hr_stage after;  // the stage that made it
    void *data;
    size_t size;
    struct hr__rect rect;  // after COLOR: the window of the picture that is
                           // there; after RESAMPLE: the whole output
    bool first_step;  // after COLOR: rect is the output of the first resample
                      // step, see struct hr__offer
    size_t stride;    // bytes from row to row (pixels: interleaved u8)
    void *extra;      // after RECONSTRUCT: struct hr__planes
    struct hr__engine *owner;
    // Set by an engine whose own memory this is (a mapped surface): called
    // instead of freeing data, on any thread, no lock held.
    void (*release)(struct hr__payload *payload);
    void *release_ctx;
    // Not NULL: it lies in memory of the engine that made it, and there is no
    // data until hr__payload_map() is asked for it. As long as the payload.
    const struct hr__external *external;
};

// Memory of one engine that another one reads where it lies. The maker has
// waited for its own writes before the payload goes on, and does not write
// again before the payload is released and all its readers have released it.
enum { HR__VA_SURFACE = 1 };  // kinds, as bits

struct hr__external {
    unsigned kind;
    size_t size;  // bytes of what hr__planes speaks of
    // For HR__VA_SURFACE, in NV12. Only drivers know how its bytes lie, so
    // hr__planes describes a surface with rows of `width` bytes without gaps,
    // and with chroma after `height` of them.
    uint32_t surface, width, height;
    uint64_t id;  // of this memory, in this process never used again
    int place;    // at the maker, from 0 on: memory with another id at
                  // the same place means that the one before is gone
    void *ctx;    // the maker's
    // An engine that reads it by commands retains it while the task is claimed,
    // and releases it when the last of them has run; also if the task has ended
    // long since, and also after the maker was closed. An engine whose driver
    // does not answer never releases it. Any thread, no lock held, does not
    // wait.
    void (*retain)(const struct hr__external *external);
    void (*release)(const struct hr__external *external);
    // Makes it reachable for the host, by its maker: gives the payload data and
    // size, and hr__planes that fit. May wait for the maker's driver, not for
    // ever.
    bool (*map)(struct hr__payload *payload);
};

// The display that the memory of an engine belongs to. An engine that opens
// behind it makes its own objects for that display, or does without. It retains
// the handle before it passes it to a driver, and releases it when no driver
// has it any more. An engine whose driver does not answer never releases it,
// and then the handle stays open.
struct hr__shared_display {
    unsigned kind;  // HR__VA_SURFACE, or 0: there is none
    void *handle;   // the VADisplay: any thread may call its driver
    void *ctx;
    void (*retain)(void *ctx);  // any thread, no lock held, do not wait
    void (*release)(void *ctx);
};
#endif
