// SPDX-License-Identifier: Apache-2.0
// The five stages every picture passes, in this one direction:
//
//   bytes --entropy--> coefficients --reconstruct--> YCbCr planes
//         --color--> RGB u8 --resample--> RGB u8 --store--> tensor
//
// decode is entropy..color; crop, resize and flip are the geometry of
// resample; normalize, type and layout are store. A picture that is already
// pixels enters at resample. A span is a run of stages one engine does in one
// go; a plan is the cut of a sample's stages into spans.
#ifndef HEADRACE_STAGE_H
#define HEADRACE_STAGE_H

#include <headrace/version.h>

HR_BEGIN_DECLS

enum hr_stage {
    HR_ENTROPY,      // Huffman or arithmetic decoding: bytes -> i16 blocks
    HR_RECONSTRUCT,  // dequantise + inverse DCT: blocks -> component planes
    HR_COLOR,        // upsample + colour convert: planes -> RGB or grey u8
    HR_RESAMPLE,     // crop, resize, flip: u8 -> u8
    HR_STORE,        // normalise, type, layout: u8 -> tensor
    HR_NUM_STAGES,
    // These come before the stages; only a result that failed there has them.
    HR_READ = 16,  // the file
    HR_HEADER,     // its header, its sizes, the limits
};

struct hr_span {
    enum hr_stage first, last;  // both included; first <= last
};

// "entropy", "reconstruct", ..., "read", "header"; static storage. Threads: any.
HR_API const char *hr_stage_name(enum hr_stage stage);

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
