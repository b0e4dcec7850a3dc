// SPDX-License-Identifier: Apache-2.0
// For engines: what travels between them and the HAL. A picture with all that
// is known of it before an engine starts, and what one span leaves for the next
// one. Plain data; backend.h says who does what with it.
#ifndef HR__PICTURE_H
#define HR__PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

struct hr__engine;

enum {
    HR__MAX_ENGINES = 4,  // in the chain of one device, the CPU included
    HR__MAX_STEPS = 8,    // resample steps of one sample
};

// ---- Geometry: what crop, resize and flip come to --------------------------

struct hr__rect {
    int x, y, w, h;
};

// One resample step, in the order in which it happens:
//   in  -> keep src -> mirror (pre) -> resize to rs (box, filter)
//       -> keep win -> transpose, mirror (post) -> out
// Several steps follow each other when an op list is not one of these.
struct hr__step {
    int in_w, in_h;       // the picture this step reads
    struct hr__rect src;  // inside it; the filter sees nothing else
    bool pre_x, pre_y;    // mirrored before the filter
    bool resized;         // false: rs is src, the filter does not run
    float box[4];         // Pillow's box, relative to src
    int rs_w, rs_h;
    enum hr_filter filter;
    bool v_first;         // the vertical pass comes before the horizontal one
                          // (with 8 bits between them, as always)
    struct hr__rect win;  // of the resized picture; may leave it (padding:
                          // what lies outside is byte 0)
    bool transpose, post_x, post_y;
    int out_w, out_h;
};

struct hr__geometry {
    int num_steps;  // >= 1
    struct hr__step steps[HR__MAX_STEPS];
};

// The weights of one axis of a step, made once here for every engine
// (hal/axis.c; Pillow src/libImaging/Resample.c precompute_coeffs): output i
// = sum of n[i] input samples from lo[i] on, in coordinates of the step's
// input; 22 fraction bits. Mirroring before and after is already in it.
struct hr__axis {
    int out;              // outputs that lie inside the resized picture
    int pad_before;       // outputs of win that lie outside, before them
    int taps, stride;     // largest n; weights from output to output
    int32_t *lo, *n, *w;  // [out], [out], [out * stride]
    int src_lo, src_hi;   // inputs that are read: [src_lo, src_hi)
    bool identity;        // every output is input src_lo + i
};

// Bytes that hr__axis_build() needs at mem (8-byte aligned). which: 0 = x,
// 1 = y.
size_t hr__axis_size(const struct hr__step *step, int which);
// At most so many inputs come into one output.
int hr__axis_taps(const struct hr__step *step, int which);
void hr__axis_build(struct hr__axis *axis, const struct hr__step *step,
                    int which, void *mem);

// ---- The picture: everything that is known before an engine starts ---------

// The store stage as a table; hal/table.c makes it once per job.
struct hr__table {
    float f32[3][256];
    uint16_t f16[3][256];
    uint8_t u8[3][256];
    bool u8_identity;
};

// Memory that an engine made, see memory_alloc. What else it must know of it
// the engine keeps behind this struct.
struct hr__memory {
    struct hr__engine *owner;
    size_t size;
    void *host;  // NULL: device memory; else the host may use it as its own
    struct hr_native native;
};

// Where the tensor shall be. data is NULL only for the engine whose own memory
// that is: it writes it in place, at byte `at`. Everybody else has data.
struct hr__dst {
    uint8_t *data;
    size_t stride_c, stride_h;  // bytes
    int w, h, c;
    enum hr_dtype dtype;
    enum hr_layout layout;
    struct hr__memory *memory;  // NULL: ordinary host memory
    size_t at;
};
// Of struct hr_image_params or hr_batch_params (its first slot), on the host.
#define HR__DST_OF(params)                            \
    ((struct hr__dst){.data = (params)->data,         \
                      .stride_c = (params)->stride_c, \
                      .stride_h = (params)->stride_h, \
                      .w = (params)->w,               \
                      .h = (params)->h,               \
                      .c = (params)->c,               \
                      .dtype = (params)->dtype,       \
                      .layout = (params)->layout})

struct hr__picture {
    const uint8_t *data;  // encoded source, NULL if it is pixels
    size_t size;
    struct hr_info info;    // of the encoded source
    hr_image image;         // or the source pixels (u8): its size and layout
    const uint8_t *pixels;  // and where it begins on the host; NULL only
    struct hr__memory *memory;  // for the engine that owns its memory, where
                                // it begins at byte 0
    int width, height;          // of the source
    enum hr_mode mode;          // of the decode
    int channels;               // 3 or 1, what color..store carry
    struct hr__geometry geo;
    const struct hr__table *table;
    struct hr__dst dst;
    enum hr_tier tier;
    const struct hr_limits *limits;
};

// First stage of a picture: HR_ENTROPY, or HR_RESAMPLE if it is pixels.
static inline enum hr_stage hr__picture_first(const struct hr__picture *pic)
{
    return pic->data ? HR_ENTROPY : HR_RESAMPLE;
}

// ---- Between spans ---------------------------------------------------------

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
// again before the payload is released and everybody has let go.
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
    // An engine that reads it by commands holds it while the task is claimed,
    // and lets go when the last of them has run; also if the task has ended
    // long since, and also after the maker was closed. One whose driver does
    // not answer never lets go. Any thread, no lock held, does not wait.
    void (*hold)(const struct hr__external *external);
    void (*let)(const struct hr__external *external);
    // Only its maker makes it reachable for the host: gives the payload data
    // and size, and hr__planes that fit. May wait for the maker's
    // driver, not for ever.
    bool (*map)(struct hr__payload *payload);
};

// What the memory of an engine belongs to. An engine that opens behind it makes
// its own objects for that, or does without; it holds the handle before it
// tells a driver of it, and lets go when no driver has it any more. One whose
// driver does not answer never lets go, and then the handle stays open.
struct hr__origin {
    unsigned kind;  // HR__VA_SURFACE, or 0: there is none
    void *handle;   // the VADisplay: any thread may call its driver
    void *ctx;
    void (*hold)(void *ctx);  // any thread, no lock held, do not wait
    void (*let)(void *ctx);
};

// What a span that ends in ENTROPY leaves in its payload: one block of memory,
// compact enough for a bus, with this header at its start. Little endian, no
// padding; device code reads it as it is. The window of the picture that the
// geometry needs is in it, and around that window one more sample of every
// component on each side where the picture goes on.
enum { HR__COEF_MAGIC = 0x31434f45 };

struct hr__coef_component {
    uint32_t h, v;                // sampling factors
    uint32_t width, height;       // samples of the whole component, unpadded:
                                  // upsampling clamps its neighbours to them
    uint32_t block_x, block_y;    // the first block that is here, in the
                                  // component's own grid of 8x8 blocks
    uint32_t blocks_w, blocks_h;  // how many are here
    uint32_t first;               // its first record
    uint16_t quant[64];           // natural (row by row) order
};

// One block: the DC coefficient, which of the others are not 0 (bit i of
// mask = natural position i), and where their values begin, from the start of
// the values: one int8 each, low positions first; -128 is an escape, the
// int16 behind it is the value (two bytes, low first).
struct hr__coef_block {
    uint32_t values;
    int16_t dc;
    uint16_t reserved;
    uint32_t mask[2];  // low, high; bit 0 of low is never set
};

struct hr__coefficients {
    uint32_t magic;
    uint32_t num_components;  // 1 or 3
    uint32_t color;           // enum hr_color: GRAY, YCC or RGB
    uint32_t h_max, v_max;
    uint32_t x, y, w, h;  // the window, in pixels
    uint32_t num_blocks;
    uint32_t blocks_at;  // bytes from the header to the records
    uint32_t values_at;  // and to the values
    uint32_t values_size;
    uint32_t range;  // 1: some sum may leave 16 bits, where
                     // decoders differ (SIMD semantics decide)
    struct hr__coef_component comp[3];
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
