// SPDX-License-Identifier: Apache-2.0
// Idle threads, lent to one picture. The decoder says what there is to help
// with; the owner of the threads sends them.
#ifndef CPU_HELPERS_H
#define CPU_HELPERS_H

#include <stdbool.h>
#include <stddef.h>

// Work of one picture that other threads may share.
struct cpu_help {
    // Helps until there is nothing to do, or leave(ctx), which is asked every
    // some ten microseconds, is true. Any number of threads at once.
    void (*run)(struct cpu_help *h, bool (*leave)(void *ctx), void *ctx);
    // The lender's own.
    struct cpu_help *next;
    int wanted, inside;
    unsigned calls;
};

struct cpu_helpers {
    // Returns how many threads are idle right now.
    int (*idle)(struct cpu_helpers *h);
    // Says that n threads would find something to do. Idle threads come, and so
    // do threads that become idle later. Does not wait.
    void (*call)(struct cpu_helpers *h, struct cpu_help *help, int n);
    // Waits until no thread is in help->run(). No thread enters it afterwards.
    void (*end)(struct cpu_helpers *h, struct cpu_help *help);
    int pixels;    // of a picture that is worth it, at least
    size_t bytes;  // that rows ahead may take, if four of them take less
};

#endif
