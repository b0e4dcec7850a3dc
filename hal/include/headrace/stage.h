// SPDX-License-Identifier: Apache-2.0
// The six stages that a picture passes, in this one direction:
//
//   bytes --entropy--> coefficients --reconstruct--> YCbCr planes
//         --color--> RGB u8 --resample--> RGB u8 --augment--> RGB u8
//         --store--> tensor
//
// decode is entropy..color; crop, resize and flip are the geometry of
// resample; what changes pixels is augment; normalize, type and layout are
// store. A picture that is already pixels enters at resample, and one without
// such ops has no augment. A span is a run of stages one engine does in one
// go; a plan is the cut of a sample's stages into spans.
#ifndef HEADRACE_STAGE_H
#define HEADRACE_STAGE_H

#include <stdint.h>

#include <headrace/version.h>

HR_BEGIN_DECLS

// The list of stages: names, parts of a profile and spans come from it.
#define HR_STAGE_MAP(X)                                                        \
    X(ENTROPY, entropy)         /* Huffman or arithmetic: bytes -> blocks */   \
    X(RECONSTRUCT, reconstruct) /* inverse DCT: blocks -> component planes */  \
    X(COLOR, color)             /* upsample, convert: planes -> RGB or grey */ \
    X(RESAMPLE, resample)       /* crop, resize, flip: u8 -> u8 */             \
    X(AUGMENT, augment)         /* colours, blurs, warps: u8 -> u8 */          \
    X(STORE, store)             /* normalise, type, layout: u8 -> tensor */

enum hr_stage {
#define HR__STAGE(NAME, name) HR_##NAME,
    HR_STAGE_MAP(HR__STAGE)
#undef HR__STAGE
        HR_NUM_STAGES,
    // These come before the stages; only a result that failed there has them.
    HR_READ = 16,  // the file
    HR_HEADER,     // its header, its sizes, the limits
};

struct hr_span {
    enum hr_stage first, last;  // both included; first <= last
};

// A set of spans has a bit for each, in the order of their last stages.
#define HR_NUM_SPANS (HR_NUM_STAGES * (HR_NUM_STAGES + 1) / 2)
#define HR_SPAN_BIT(first, last) \
    (UINT32_C(1) << ((last) * ((last) + 1) / 2 + (first)))

// The span of bit 0 .. HR_NUM_SPANS - 1.
static inline struct hr_span hr_span_of(int bit)
{
    struct hr_span span;
    int last = 0;

    for (; bit > last; last++)
        bit -= last + 1;
    span.first = (enum hr_stage)bit;
    span.last = (enum hr_stage)last;
    return span;
}

// "entropy", "reconstruct", ..., "read", "header"; static storage. Threads:
// any.
static inline const char *hr_stage_name(enum hr_stage stage)
{
    switch (stage) {
#define HR__STAGE(NAME, name) \
    case HR_##NAME:           \
        return #name;
        HR_STAGE_MAP(HR__STAGE)
#undef HR__STAGE
    case HR_READ:
        return "read";
    case HR_HEADER:
        return "header";
    case HR_NUM_STAGES:
        break;
    }
    return "?";
}

// A tier says how exact a job's pictures must be.
enum hr_tier {
    HR_EXACT,  // default: only spans that are bit-exact on this machine, so the
               // device changes the speed and never the picture
    HR_CLOSE,  // also a media engine's own IDCT, if it measured <= 2 levels
               // from libjpeg-turbo here; resample, store stay exact
    HR_FAST,   // also what a media engine's video processor crops, scales,
               // mirrors and colours in its own way, if its pictures measured
               // alike here; cpu and opencl: as HR_EXACT
};

HR_END_DECLS
#endif
