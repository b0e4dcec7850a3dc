// SPDX-License-Identifier: Apache-2.0
// For engines: a sample with all that is known of it before an engine starts.
// Plain data.
#ifndef HR__ENGINE_PICTURE_H
#define HR__ENGINE_PICTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

#include "hal/engine/augment.h"
#include "hal/engine/plain.h"

struct hr__engine;

enum {
    HR__MAX_ENGINES = 4,  // in the chain of one device, the CPU included
    HR__MAX_STEPS = 8,    // resample steps of one sample
};

// ---- Geometry: what crop, resize and flip come to --------------------------

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
    bool torch;           // with the weights of torch, not Pillow's
    bool v_first;         // the vertical pass comes before the horizontal one
                          // (with 8 bits between them, as always)
    struct hr__rect win;  // of the resized picture; may leave it (padding:
                          // what lies outside is byte 0)
    bool transpose, post_x, post_y;
    int out_w, out_h;
    int augments;  // codes that work on its output, before the next step
};

// The codes of all steps follow each other in `augments`, which has room for
// `capacity`; NULL: they are not kept, as where only a size is asked for.
struct hr__geometry {
    int num_steps;  // >= 1
    struct hr__step steps[HR__MAX_STEPS];
    struct hr__augment *augments;
    int num_augments, capacity;
    int out_w, out_h;  // of the whole
};

// The weights of one axis of a step, made once here for every engine
// (hal/shape/axis.c; Pillow src/libImaging/Resample.c precompute_coeffs):
// output i = sum of n[i] input samples from lo[i] on, in coordinates of the
// step's input; 22 fraction bits. Mirroring before and after is already in it.
struct hr__axis {
    int out;              // outputs that lie inside the resized picture
    int pad_before;       // outputs of win that lie outside, before them
    int taps, stride;     // largest n; weights from output to output
    int32_t *lo, *n, *w;  // [out], [out], [out * stride]
    int src_lo, src_hi;   // inputs that are read: [src_lo, src_hi)
    bool identity;        // every output is input src_lo + i
    int base;             // what lo counts from: 0, see hr__axis_alone()
};

// Bytes that hr__axis_build() needs at mem (8-byte aligned). which: 0 = x,
// 1 = y.
size_t hr__axis_size(const struct hr__step *step, int which);
// Returns the most inputs of one output.
int hr__axis_taps(const struct hr__step *step, int which);
void hr__axis_build(struct hr__axis *axis, const struct hr__step *step,
                    int which, void *mem);
// Computes only src_lo and src_hi, in less time. mem: as above, of
// hr__axis_size() bytes.
void hr__axis_reach(const struct hr__step *step, int which, void *mem, int *lo,
                    int *hi);
// A step whose axis 0 is that one, but for where in the picture it begins: what
// is returned is to be added to its lo, src_lo and src_hi. Steps that need the
// same weights get the same bytes.
int hr__axis_alone(const struct hr__step *step, int which, struct hr__step *to);

// The table of a store whose bytes go through values first. dtype: that of
// table.
void hr__table_through(struct hr__table *out, const struct hr__table *table,
                       const struct hr__values *values, int channels,
                       enum hr_dtype dtype);

// ---- The picture: everything that is known before an engine starts ---------

// Memory that an engine made, see memory_alloc. The engine keeps its own data
// behind this struct.
struct hr__memory {
    struct hr__engine *owner;
    size_t size;
    void *host;   // NULL: device memory; else the host may use it as its own
    bool direct;  // .. but transfers of the engine's write there, too, also for
                  // a task that was given up and has not ended:
    atomic_int late;  // tasks whose transfers may still come; others may not
                      // write meanwhile
    struct hr_native native;
};

// The place of the tensor. data is NULL only for the engine that owns the
// memory: it writes in place, at byte `at`. For all other engines data is set.
struct hr__dst {
    uint8_t *data;
    size_t stride_c, stride_h;  // bytes
    int w, h, c;
    enum hr_dtype dtype;
    enum hr_layout layout;
    struct hr__memory *memory;  // NULL: ordinary host memory
    size_t at;
};
// Makes the struct from hr_image_params or hr_batch_params (its first slot),
// for memory on the host.
#define HR__DST_OF(params)                            \
    ((struct hr__dst){.data = (params)->data,         \
                      .stride_c = (params)->stride_c, \
                      .stride_h = (params)->stride_h, \
                      .w = (params)->w,               \
                      .h = (params)->h,               \
                      .c = (params)->c,               \
                      .dtype = (params)->dtype,       \
                      .layout = (params)->layout})

// Op erase, on a tensor that is complete and lies on the host
// (hal/shape/paint.c).
void hr__paint(const struct hr__dst *dst, const struct hr_erase *erase);

struct hr__picture {
    const uint8_t *data;  // encoded source, NULL if it is pixels
    size_t size;
    struct hr_info info;    // of the encoded source
    bool verified;          // a packed picture, known to be sound
    bool keep;              // its decoder packs it, too: hr__task_keep()
    hr_image image;         // or the source pixels (u8): its size and layout
    const uint8_t *pixels;  // and where it begins on the host; NULL only
    struct hr__memory *memory;  // for the engine that owns its memory, where
                                // it begins at byte 0
    int width, height;          // of the source
    enum hr_mode mode;          // of the decode
    int channels;  // 3 or 1, what color..resample carry, and store, unless an
                   // op of stage augment makes one of them: dst.c
    struct hr__geometry geo;
    const struct hr__table *table;
    int erases;  // ops that may paint on the tensor: struct hr__offer
    struct hr__dst dst;
    enum hr_tier tier;
    const struct hr_limits *limits;
};

// First stage of a picture: HR_ENTROPY, or HR_RESAMPLE if it is pixels.
static inline enum hr_stage hr__picture_first(const struct hr__picture *pic)
{
    return pic->data ? HR_ENTROPY : HR_RESAMPLE;
}

// Channels of its pixels behind that stage.
static inline int hr__picture_channels(const struct hr__picture *pic,
                                       enum hr_stage after)
{
    const struct hr__geometry *geo = &pic->geo;
    int n = after < HR_RESAMPLE ? 0 : geo->num_augments;

    if (after == HR_RESAMPLE)
        n -= geo->steps[geo->num_steps - 1].augments;
    while (n-- > 0)
        if (geo->augments[n].code == HR__AUGMENT_LUMA &&
            geo->augments[n].single)
            return 1;
    return pic->channels;
}

// The stages that it passes, a bit each.
static inline unsigned hr__picture_stages(const struct hr__picture *pic)
{
    unsigned all = (1u << HR_NUM_STAGES) - (1u << hr__picture_first(pic));

    return pic->geo.num_augments ? all : all & ~(1u << HR_AUGMENT);
}

// Makes the pixels of HR_FORMAT_OTHER by the program's decoder: channels bytes
// of each, row by row. Not HR_OK: text says why.
enum hr_status hr__decode_other(const uint8_t *data, size_t size,
                                const struct hr_info *info, int channels,
                                uint8_t *pixels, char text[128]);
// The kind of a JPEG, enum hr_jpeg_kind; -1: none of them.
int hr__jpeg_kind(const struct hr_info *info);
// Returns the reasons (HR_WHY_*), besides colours and chroma, why a decoder of
// whole scans, Huffman coding and 8 bits cannot decode it; HR_WHY_FORMAT alone,
// if it is no JPEG.
unsigned hr__why_not_baseline(const struct hr_info *info);
// Says whether every component is smaller than the largest by whole numbers:
// others libjpeg does not upsample.
bool hr__sampling_is_whole(const struct hr_info *info);

#endif
