// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the decoders: a heap that counts and fails, files of
// every kind, decoding a window and comparing it with the full decode.
#ifndef HEADRACE_TESTS_DECODE_RUN_H
#define HEADRACE_TESTS_DECODE_RUN_H

#include "cpu_fallback/decode.h"
#include "heaps.h"
#include "testing.h"

// At first test_seed.
extern uint64_t dt_seed;
extern struct cpu_ops dt_ops;
extern struct cpu_arena dt_arena;
extern struct cpu_jpeg_state *dt_state;
extern struct counting_heap dt_heap;    // of which these two are
extern struct cpu_helpers *dt_helpers;  // of dt_params(); at first NULL

// Sets everything up, runs the cases, returns what main() returns.
int dt_main(int argc, char **argv);

extern const struct hr__rect dt_everything;  // for dt_params()
struct cpu_decode_params dt_params(const struct bytes *file, int w, int h,
                                   struct hr__rect r, int channels);
// Decodes the window into out (may be NULL) in groups of random sizes.
enum cpu_result dt_decode(const struct cpu_decode_kind *kind,
                          const struct cpu_decode_params *p, bool check,
                          uint8_t *out, struct cpu_decode_error *err);
enum plain_class dt_class(enum cpu_result result);
// Any window, often as wide as the picture.
struct hr__rect dt_random_rect(int w, int h);

// The whole picture as RGB and as grey, and some random windows.
void dt_compare_windows(const struct cpu_decode_kind *kind, const char *name,
                        const struct bytes *file, const struct plain *full,
                        int windows);

// Kinds are samplings and colour spaces, variants (0 .. 6) codings. False if
// libjpeg cannot write it.
#define DT_JPEG_KINDS 18
bool dt_make_jpeg(int kind, int variant, int w, int h, struct bytes *file);
// Copies of a file, exactly as long as they say, for the sanitizer; free .data.
struct bytes dt_copy(const struct bytes *file, size_t size);
// Damaged behind `from`: a byte, a bit or the rest of it, or the next restart
// marker if there is one. *how says how, if it is not NULL.
struct bytes dt_damaged(const struct bytes *file, size_t from,
                        const char **how);
size_t dt_scan(const struct bytes *file);  // where the first scan begins
// Forms 0 .. 59: type and depth, interlaced, with tRNS; of random size.
bool dt_make_png(int form, struct bytes *file, struct plain *full);

#endif
