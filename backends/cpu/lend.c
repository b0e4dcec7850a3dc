// SPDX-License-Identifier: Apache-2.0
// Idle workers help with a large picture. A task always comes first: a helping
// worker checks after each row of MCUs whether there is one.
#include "backends/cpu/cpu.h"

static struct cpu_engine *engine_of(struct cpu_helpers *h)
{
    return (struct cpu_engine *)((char *)h -
                                 offsetof(struct cpu_engine, helpers));
}

static int idle(struct cpu_helpers *h)
{
    struct cpu_engine *c = engine_of(h);
    int n;

    pthread_mutex_lock(&c->lock);
    n = c->head ? 0 : c->idle;
    pthread_mutex_unlock(&c->lock);
    return n;
}

static void call(struct cpu_helpers *h, struct cpu_help *help, int n)
{
    struct cpu_engine *c = engine_of(h);

    pthread_mutex_lock(&c->lock);
    if (!help->calls++) {
        help->next = c->helps;
        c->helps = help;
    }
    help->wanted = n;
    n = n < c->idle ? n : c->idle;
    for (; n > 0; n--)
        pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

static void end(struct cpu_helpers *h, struct cpu_help *help)
{
    struct cpu_engine *c = engine_of(h);
    struct cpu_help **at = &c->helps;

    pthread_mutex_lock(&c->lock);
    while (*at && *at != help)
        at = &(*at)->next;
    if (*at)
        *at = help->next;
    while (help->inside)
        pthread_cond_wait(&c->alone, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void cpu_lend_init(struct cpu_engine *c)
{
    c->helpers = (struct cpu_helpers){.idle = idle,
                                      .call = call,
                                      .end = end,
                                      .pixels = HR__HELPED_PIXELS,
                                      .bytes = HR__HELPED_BYTES};
}

struct cpu_help *cpu_lend_take(struct cpu_engine *c, unsigned *call)
{
    struct cpu_help *help = c->helps;

    while (help && !help->wanted)
        help = help->next;
    if (help) {
        help->wanted--;
        help->inside++;
        *call = help->calls;
    }
    return help;
}

static bool task_waits(void *ctx)
{
    struct cpu_engine *c = ctx;

    return atomic_load_explicit(&c->queued, memory_order_relaxed);
}

void cpu_lend_run(struct cpu_engine *c, struct cpu_help *help, unsigned call)
{
    int64_t begin = hr__watch_begin();

    help->run(help, task_waits, c);
    // (All of it counts as entropy; the parts are not measured.)
    hr__watch_part(c->e, HR_PART_ENTROPY, 0, begin);
    pthread_mutex_lock(&c->lock);
    // The work of this call is done: further helpers would find nothing.
    if (help->calls == call)
        help->wanted = 0;
    if (--help->inside == 0)
        pthread_cond_broadcast(&c->alone);
    pthread_mutex_unlock(&c->lock);
}
