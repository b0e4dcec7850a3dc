// SPDX-License-Identifier: Apache-2.0
// Encoded JPEG bytes, or a packed picture -> the quantised coefficients of the
// blocks that a window needs, packed: stage entropy alone, for an engine that
// does the rest.
//
// Only pictures that every decoder reads alike are packed: Huffman coding, one
// scan, 8 bits, grey, YCbCr or RGB, and not one fault. All others are decoded
// to rows (decode.h), with their faults mended.
#ifndef CPU_COEFFICIENTS_H
#define CPU_COEFFICIENTS_H

#include "cpu_fallback/decode.h"
#include "cpu_fallback/packed/packed.h"

// ---- Making it ----

// All of it but its bytes, in memory of the arena; segments that are cut are in
// the packed picture.
struct cpu_coef_lines {
    size_t size;  // of the whole
    struct hr__coefficients *head;
    struct cpu_packed_cut *lines;  // [head->segments]
};

// Decodes what p->window needs: its samples, and around them one more sample
// of every component on each side where the component goes on, in whole
// blocks. Reads no further than decoding the window to rows does, or to where
// the last of these blocks ends; if the window touches the lower edge, up to
// the end marker. p->channels means nothing here.
// *err as of cpu_decode_close(). CPU_CORRUPT, also for a fault that decoding
// to rows would mend and count as a warning. CPU_UNSUPPORTED: no picture for
// this form. On failure the arena is as it was.
enum cpu_result cpu_coef_decode(const struct cpu_decode_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena,
                                struct cpu_coef_lines *out,
                                struct cpu_decode_error *err);

// The same of a packed picture (packed.h) that was checked: p->data, which must
// stay until all is written.
enum cpu_result cpu_coef_cut(const struct cpu_decode_params *p,
                             const struct cpu_ops *ops, struct cpu_arena *arena,
                             struct cpu_coef_lines *out,
                             struct cpu_decode_error *err);

// Writes lines->size bytes, to a multiple of 4.
void cpu_coef_write(const struct cpu_coef_lines *lines, void *to);

#endif
