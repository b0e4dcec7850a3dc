// SPDX-License-Identifier: Apache-2.0
// Helpers of a picture: in turn with its owner, on the owner's thread, as a
// seed says, so that a run can be repeated; or threads.
#ifndef HEADRACE_TESTS_SPLIT_HELP_H
#define HEADRACE_TESTS_SPLIT_HELP_H

#include <pthread.h>
#include <stdint.h>

#include "cpu_fallback/helpers.h"

// Each picture is worth it, and rows ahead have the least memory that is taken.
struct turns_help {
    struct cpu_helpers h;  // first
    uint64_t *seed;
    int most;     // pieces before it leaves: up to so many
    long pieces;  // that it did
};
void turns_help_init(struct turns_help *t, uint64_t *seed, int most,
                     size_t bytes);

enum { HELP_THREADS = 3 };

struct thread_help {
    struct cpu_helpers h;  // first
    pthread_t thread[HELP_THREADS];
    int n;
    uint64_t seed;
    // Guarded by lock.
    pthread_mutex_t lock;
    pthread_cond_t wake, alone;
    struct cpu_help *help;
    bool stop;
    long pieces;
};
void thread_help_start(struct thread_help *t, int n, uint64_t seed,
                       size_t bytes);
void thread_help_stop(struct thread_help *t);

#endif
