// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of packed coefficients: random numbers, JPEG files of
// every kind, a worker's memory, and the two ways to decode a window.
#ifndef HEADRACE_TESTS_COEF_FILES_H
#define HEADRACE_TESTS_COEF_FILES_H

#include "cpu_fallback/jpeg/coefficients.h"
#include "cpu_fallback/jpeg/reader.h"
#include "heaps.h"
#include "tools/samples/jpeg.h"

void coef_seed(uint64_t seed);
uint32_t coef_random(void);
int coef_pick(int from, int to);  // both included

// A worker's heap, ops and decoder. The flags are those of cpu_ops_init(); when
// it is finished, all memory must be back.
struct coef_worker {
    struct counting_heap heap;
    struct cpu_arena arena;
    struct cpu_ops ops;
    struct cpu_jpeg_state *jpeg;
};
void coef_worker_init(struct coef_worker *b, unsigned flags);
void coef_worker_finish(struct coef_worker *b);

// The kinds of JPEG that can be packed.
enum { COEF_KINDS = 23 };
extern const struct coef_kind {
    const char *name;
    struct samples_jpeg jpeg;
} coef_kinds[COEF_KINDS];

struct coef_file {
    struct samples_bytes bytes;
    int w, h;
};
// false: libjpeg does not write such a file.
bool coef_file_make(struct coef_file *f, const struct samples_jpeg *jpeg, int w,
                    int h, bool harsh);
// Any coefficients and quantisers instead of its own.
bool coef_file_spoil(struct coef_file *f);
void coef_file_finish(struct coef_file *f);

// Any window of it, often all of it.
struct hr__rect coef_window(const struct coef_file *f);
struct cpu_decode_params coef_params(const struct coef_worker *b,
                                     const struct coef_file *f,
                                     struct hr__rect window, int channels);
// Packed, in memory of exactly its size; free(). NULL: *err says why.
struct hr__coefficients *coef_pack(struct coef_worker *b,
                                   const struct coef_file *f,
                                   struct hr__rect window, size_t *size,
                                   struct cpu_decode_error *err);
// The window as rows decode it, up to the end if the window has the last row;
// free(). NULL: it failed.
uint8_t *coef_rows(struct coef_worker *b, const struct coef_file *f,
                   struct hr__rect w, int channels,
                   struct cpu_decode_error *err);

#endif
