// SPDX-License-Identifier: Apache-2.0
// Shared by the decoders: the head of a decoder, the way errors come out of the
// depths of a foreign library, and the memory.
//
// libjpeg and libpng report errors through a handler that must not return.
// Every call into them therefore runs inside cpu_decode_guard(), and every
// handler ends in cpu_decode_throw(). Steps keep no local state across the
// guard.
#ifndef CPU_DECODE_IMPL_H
#define CPU_DECODE_IMPL_H

#include <setjmp.h>

#include "decode.h"

// Memory of one decoder. While it opens, all of it comes from the arena; from
// then on from a reserve made in time, since the arena's next bytes are the
// caller's now.
struct cpu_pool {
    struct cpu_arena *arena;
    uint8_t *reserve;
    size_t reserve_left;
    bool sealed;
};

// CPU_ALIGN-aligned with slack, not cleared; NULL if there is no more.
void *cpu_pool_alloc(struct cpu_pool *pool, size_t size);
// Takes the reserve from the arena and seals the pool. false = no memory.
bool cpu_pool_seal(struct cpu_pool *pool, size_t reserve);

struct cpu_decode_kind {
    size_t size;                           // of its struct, cpu_decode first
    void (*open)(struct cpu_decode *d);    // a step: may throw
    void (*rows)(struct cpu_decode *d);    // a step: fills rows[0..got)
    void (*finish)(struct cpu_decode *d);  // a step: reads on to the end
    void (*close)(struct cpu_decode *d);   // never throws; d half open or open;
                                           // NULL: nothing to do
};

struct cpu_decode {
    const struct cpu_decode_kind *kind;
    struct cpu_decode_params p;
    const struct cpu_ops *ops;
    struct cpu_pool pool;
    jmp_buf *jump;                // where throw() goes; NULL outside a guard
    int done;                     // rows of the window delivered
    struct cpu_decode_error err;  // the first failure; the kind sets offset
                                  // before it throws
    char warning[sizeof(((struct cpu_decode_error *)0)->text)];  // the first

    const uint8_t **rows;  // arguments and result of the step rows()
    int max, got;

    uint8_t *lines;  // CPU_DECODE_ROWS rows of our own
    size_t pitch;
};

// Runs step(d); false if it threw. Guards do not nest.
bool cpu_decode_guard(struct cpu_decode *d, void (*step)(struct cpu_decode *));

_Noreturn void cpu_decode_throw(struct cpu_decode *d, enum cpu_result result,
                                const char *text);

// Counts a fault that was mended; keeps the text of the first.
void cpu_decode_warn(struct cpu_decode *d, const char *text);

// Throws CPU_STOPPED when the user wants to stop.
void cpu_decode_check_stop(struct cpu_decode *d);

// Memory of the arena for n things of that size. Throws CPU_NOMEM.
void *cpu_decode_alloc(struct cpu_decode *d, size_t n, size_t size);

// d->lines: rows of `bytes` bytes, with slack. Throws CPU_NOMEM.
void cpu_decode_alloc_lines(struct cpu_decode *d, size_t bytes);

// ---- What a window needs ----

// Samples *lo .. *hi that pixels [from, from + len) are made of: those under
// them, and one more on each side where the component goes on.
void cpu_cover(unsigned from, unsigned len, unsigned ratio, unsigned samples,
               unsigned *lo, unsigned *hi);

// Returns the most rows of MCUs that decoding the window to rows reads. No
// sample of the window's, or beside it, lies lower.
int cpu_rows_to_read(const struct hr__rect *window, int v_max, int rows);

#endif
