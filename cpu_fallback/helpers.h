// SPDX-License-Identifier: Apache-2.0
// Threads that have nothing else to do, lent to one picture. The decoder says
// what there is to help with, whoever has the threads sends them.
#ifndef CPU_HELPERS_H
#define CPU_HELPERS_H

#include <stdbool.h>
#include <stddef.h>

// What a picture wants help with.
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
    // How many threads have nothing to do right now.
    int (*idle)(struct cpu_helpers *h);
    // n threads would find something to do. Those that are idle come, and those
    // that become so later. Does not wait.
    void (*call)(struct cpu_helpers *h, struct cpu_help *help, int n);
    // Waits until none is in help->run(). None comes any more.
    void (*end)(struct cpu_helpers *h, struct cpu_help *help);
    int pixels;    // of a picture that is worth it, at least
    size_t bytes;  // that rows ahead may take, if four of them take less
};

#endif
