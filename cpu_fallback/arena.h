// SPDX-License-Identifier: Apache-2.0
// Scratch memory of one worker: bump allocation, freed all at once. It grows
// while a picture needs more than any before it and then stays, so that a
// steady state allocates nothing.
#ifndef CPU_ARENA_H
#define CPU_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_ALIGN 64  // of every allocation: one cache line, one zmm register
#define CPU_SLACK 64  // bytes that kernels may touch behind a row's end

static inline size_t cpu_aligned(size_t n)
{
    return (n + CPU_ALIGN - 1) & ~(size_t)(CPU_ALIGN - 1);
}

// Returns the distance of rows of so many bytes, with their slack. Rows 4 KiB
// apart share cache sets, and stores stall loads behind them.
static inline size_t cpu_row_pitch(size_t bytes)
{
    size_t pitch = cpu_aligned(bytes + CPU_SLACK);

    return pitch % 4096 ? pitch : pitch + CPU_ALIGN;
}

// Where blocks come from. Returns CPU_ALIGN-aligned memory or NULL.
struct cpu_heap {
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *block, size_t size);
    void *ctx;
};

// Plain memory of the process, which no budget counts.
extern const struct cpu_heap cpu_plain_heap;

struct cpu_arena_block;

// Threads: one thread at a time.
struct cpu_arena {
    const struct cpu_heap *heap;
    struct cpu_arena_block *first;  // all blocks, in the order of use
    struct cpu_arena_block *at;     // allocation goes on here
    size_t used;                    // in all blocks up to `at`
    size_t limit;                   // used may not pass this; 0 = no limit
    bool limited;                   // it said no since the last clear
    size_t block;                   // bytes of a new block; 0 = 128 KiB
};

struct cpu_mark {
    struct cpu_arena_block *at;
    size_t at_used, used;
};

void cpu_arena_init(struct cpu_arena *a, const struct cpu_heap *heap);
void cpu_arena_finish(struct cpu_arena *a);  // frees every block

// CPU_ALIGN-aligned, not cleared, CPU_SLACK bytes may be touched behind it.
// NULL if the heap or the limit says no.
void *cpu_arena_alloc(struct cpu_arena *a, size_t size);
void *cpu_arena_array(struct cpu_arena *a, size_t n, size_t size);  // checked

struct cpu_mark cpu_arena_mark(const struct cpu_arena *a);
void cpu_arena_reset(struct cpu_arena *a, struct cpu_mark mark);

// Forget everything; keep at most `keep` bytes of blocks, so one giant
// picture does not hold its memory for ever.
void cpu_arena_clear(struct cpu_arena *a, size_t keep);

#endif
