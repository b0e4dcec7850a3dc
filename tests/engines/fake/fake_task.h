// SPDX-License-Identifier: Apache-2.0
// Private to the scripted engine: the state that tasks are worked on with.
#ifndef HEADRACE_TESTS_FAKE_TASK_H
#define HEADRACE_TESTS_FAKE_TASK_H

#include <pthread.h>

#include "fake_engine.h"

struct fake {
    struct fake_script s;
    struct hr__engine *e;
    pthread_t thread;
    bool started, stop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct hr__task *head, **tail;
    int begun;  // tasks, under the lock
    int copies;
    uint8_t *last;  // what the last task left, for stale_width
    size_t last_size;
};

// Does what the script has for the next task, and ends it.
void fake_run(struct fake *f, struct hr__task *task);
// Counts it, too.
void fake_end(struct hr__task *task, const struct hr__outcome *out);

// And what hangs waits for fake_wake() again.
void fake_gate_close(void);
void fake_sleep(int64_t ns);

#endif
