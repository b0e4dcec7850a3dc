// SPDX-License-Identifier: Apache-2.0
#include "split_help.h"

#include <stdlib.h>

#include "decode_files.h"

// ---- In turn ----------------------------------------------------------------

struct turn {
    struct turns_help *t;
    int left;
};

static bool after_some(void *ctx)
{
    struct turn *turn = ctx;

    // (Asked before each piece; whether there was one is not told.)
    turn->t->pieces += turn->left > 0;
    return turn->left-- <= 0;
}

static int always_idle(struct cpu_helpers *h)
{
    (void)h;
    return 1;
}

static void call_in_turn(struct cpu_helpers *h, struct cpu_help *help, int n)
{
    struct turns_help *t = (struct turns_help *)h;
    struct turn turn = {t, random_below(t->seed, t->most + 1)};

    if (n < 1 || n > 16)
        abort();
    help->run(help, after_some, &turn);
}

static void end_of_turns(struct cpu_helpers *h, struct cpu_help *help)
{
    (void)h;
    (void)help;
}

void turns_help_init(struct turns_help *t, uint64_t *seed, int most,
                     size_t bytes)
{
    *t = (struct turns_help){.h = {.idle = always_idle,
                                   .call = call_in_turn,
                                   .end = end_of_turns,
                                   .bytes = bytes},
                             .seed = seed,
                             .most = most};
}

// ---- Threads ----------------------------------------------------------------

struct visit {
    struct thread_help *t;
    uint64_t seed;
    long pieces;
};

static bool now_and_then(void *ctx)
{
    struct visit *v = ctx;

    v->pieces++;
    return random_below(&v->seed, 20) == 0;
}

static void *lent(void *arg)
{
    struct thread_help *t = arg;
    struct visit v = {.t = t};
    struct cpu_help *help;

    pthread_mutex_lock(&t->lock);
    v.seed = ++t->seed;
    for (;;) {
        while (!t->stop && !(t->help && t->help->wanted))
            pthread_cond_wait(&t->wake, &t->lock);
        if (t->stop)
            break;
        help = t->help;
        help->wanted--;
        help->inside++;
        pthread_mutex_unlock(&t->lock);
        help->run(help, now_and_then, &v);
        pthread_mutex_lock(&t->lock);
        t->pieces += v.pieces;
        v.pieces = 0;
        if (--help->inside == 0)
            pthread_cond_broadcast(&t->alone);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void call_threads(struct cpu_helpers *h, struct cpu_help *help, int n)
{
    struct thread_help *t = (struct thread_help *)h;

    pthread_mutex_lock(&t->lock);
    // (One that was not ended, and the next picture has its memory.)
    if (t->help && !help->calls)
        abort();
    t->help = help;
    help->calls++;
    help->wanted = n;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static void end_of_help(struct cpu_helpers *h, struct cpu_help *help)
{
    struct thread_help *t = (struct thread_help *)h;

    pthread_mutex_lock(&t->lock);
    t->help = NULL;
    while (help->inside)
        pthread_cond_wait(&t->alone, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void thread_help_start(struct thread_help *t, int n, uint64_t seed,
                       size_t bytes)
{
    *t = (struct thread_help){.h = {.idle = always_idle,
                                    .call = call_threads,
                                    .end = end_of_help,
                                    .bytes = bytes},
                              .n = n,
                              .seed = seed};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->alone, NULL);
    for (int i = 0; i < n; i++)
        if (pthread_create(&t->thread[i], NULL, lent, t))
            abort();
}

void thread_help_stop(struct thread_help *t)
{
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->n; i++)
        pthread_join(t->thread[i], NULL);
    pthread_cond_destroy(&t->alone);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
}
