// SPDX-License-Identifier: Apache-2.0
// For engines: what one span leaves for the next one, and how its bytes lie.
#ifndef HR__ENGINE_PAYLOAD_H
#define HR__ENGINE_PAYLOAD_H

#include "hal/engine/picture.h"

// What a span leaves for the next one, in memory that the next engine named
// (its buffer_alloc, e.g. pinned upload memory). Freed by the HAL.
struct hr__payload {
    enum hr_stage after;  // the stage that made it
    void *data;
    size_t size;
    struct hr__rect rect;  // after COLOR: the window of the picture that is
                           // there; after RESAMPLE: the whole output
    size_t stride;         // bytes from row to row (pixels: interleaved u8)
    void *extra;           // after RECONSTRUCT: struct hr__planes
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
// again before the payload is released and everybody has released it.
enum { HR__VA_SURFACE = 1 };  // kinds, as bits

struct hr__external {
    unsigned kind;
    size_t size;  // bytes of what hr__planes speaks of
    // Of HR__VA_SURFACE, in NV12; how its bytes lie only drivers know, so
    // hr__planes says where they would if the surface had rows of `width`
    // bytes without gaps, and chroma followed after `height` of them.
    uint32_t surface, width, height;
    uint64_t id;  // of this memory, in this process never used again
    int place;    // at the maker, from 0 on: memory with another id at
                  // the same place means that the one before is gone
    void *ctx;    // the maker's
    // An engine that reads it by commands retains it while the task is claimed,
    // and releases it when the last of them has run; also if the task has ended
    // long since, and also after the maker was closed. One whose driver does
    // not answer never does. Any thread, no lock held, does not wait.
    void (*retain)(const struct hr__external *external);
    void (*release)(const struct hr__external *external);
    // Only its maker makes it reachable for the host: gives the payload data
    // and size, and hr__planes that fit. May wait for the maker's
    // driver, not for ever.
    bool (*map)(struct hr__payload *payload);
};

// What the memory of an engine belongs to. An engine that opens behind it makes
// its own objects for that, or does without; it retains the handle before it
// tells a driver of it, and releases it when no driver has it any more. One
// whose driver does not answer never does, and then the handle stays open.
struct hr__shared_display {
    unsigned kind;  // HR__VA_SURFACE, or 0: there is none
    void *handle;   // the VADisplay: any thread may call its driver
    void *ctx;
    void (*retain)(void *ctx);  // any thread, no lock held, do not wait
    void (*release)(void *ctx);
};

// What a span that ends in ENTROPY leaves in its payload: one block of memory,
// compact enough for a bus, with this header at its start, its offsets behind
// it, and then segments, one behind the other. A segment is a line of 8x8
// blocks of one component, packed as a cache keeps them; what its bytes are
// stands in cpu_fallback/packed.h. Little endian, no padding; device code reads
// it as it is. The window of the picture that the geometry needs is in it, and
// around that window one more sample of every component on each side where the
// picture goes on. What came from outside was checked before it came here.
enum { HR__COEF_MAGIC = 0x32464f43 };

struct hr__coef_component {
    uint16_t quant[64];           // natural (row by row) order
    uint32_t h, v;                // sampling factors
    uint32_t width, height;       // samples of the whole component, unpadded:
                                  // upsampling clamps its neighbours to them
    uint32_t block_x, block_y;    // the first block that is here, in the
                                  // component's own grid of 8x8 blocks
    uint32_t blocks_w, blocks_h;  // how many are here
    uint32_t first;               // its first segment; the others follow line
                                  // by line
    uint32_t reserved[3];         // 0
};

struct hr__coefficients {
    uint32_t magic;
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;
    uint32_t x, y, w, h;  // the window, in pixels
    uint32_t segments;
    uint32_t reserved[2];  // 0; quantizers lie at multiples of 16
    struct hr__coef_component comp[3];
    // From the start of this header to each segment, and to behind the last.
    uint32_t offset[];
};

// What a span that ends in RECONSTRUCT leaves: the samples of each component
// as the IDCT made them, before upsampling. This header is at payload.extra
// (its memory is the payload's, or lives as long); the sample in column c and
// row r of component i is the byte comp[i].at + (r - y) * stride +
// (c - x) * step of payload.data. Packed by an engine of ours the header is the
// beginning of data; a surface that is mapped as it lies has its header
// elsewhere. Interleaved chroma (NV12) has step 2, that of YUY2 step 4. What
// is there covers the window of the picture that the geometry needs and one
// more sample of every component on each side where the picture goes on; it
// may be more, up to width and height, and nothing behind payload.size is
// read. Who reads it checks it: a header that cannot be true ends the span.
struct hr__plane {
    uint32_t h, v;           // sampling factors, 1 .. 4
    uint32_t width, height;  // samples of the whole component, unpadded:
                             // upsampling clamps its neighbours to them.
                             // ceil(picture * h / h_max), .. * v / v_max
    uint32_t x, y;           // the first sample that is here
    uint32_t cols, rows;     // how many are: x + cols <= width, ..
    uint32_t stride, step;   // bytes from row to row; sample to sample: 1, 2, 4
    uint64_t at;             // bytes from data to sample (x, y)
};

struct hr__planes {
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;    // multiples of every h, v; equal to those of an
                              // only component
    uint32_t x, y, w, h;      // the window that was wanted, in pixels
    struct hr__plane comp[3];
};

#endif
