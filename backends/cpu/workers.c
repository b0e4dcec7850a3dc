// SPDX-License-Identifier: Apache-2.0
// The worker threads of one CPU engine: one queue, each worker takes the next
// task when it is free, and if there is none helps with another's. Results
// cannot depend on which worker takes a task: it shares nothing with its
// neighbours but read-only tables.
#include "backends/cpu/cpu.h"

// n tasks have come. One by one: waking all threads for one task costs more
// than the task.
static void signal_idle(struct cpu_engine *c, int n)
{
    c->queued_tasks += n;
    atomic_store_explicit(&c->queued, true, memory_order_relaxed);
    if (n > c->idle)
        n = c->idle;
    for (; n > 0; n--)
        pthread_cond_signal(&c->wake);
}

void cpu_queue_return(struct cpu_engine *c, struct hr__task *list)
{
    struct hr__task *last = list;
    int n = 1;

    if (!list)
        return;
    for (; last->next; n++)
        last = last->next;
    pthread_mutex_lock(&c->lock);
    if (!(last->next = c->head))
        c->tail = &last->next;
    c->head = list;
    signal_idle(c, n);
    pthread_mutex_unlock(&c->lock);
}

static void run(struct cpu_worker *w, struct hr__task *task)
{
    if (task->source)
        cpu_views_run(w, task);
    else if (hr__task_prepare(task))
        cpu_many_run(w, task);
}

// For an engine without threads: this thread runs the queue, also tasks that
// come meanwhile, unless another thread does, or this one further up the stack.
static void run_here(struct cpu_engine *c)
{
    struct hr__task *task;

    pthread_mutex_lock(&c->lock);
    if (!c->at_work) {
        c->at_work = true;
        while ((task = cpu_queue_pop(c))) {
            pthread_mutex_unlock(&c->lock);
            run(c->workers, task);
            pthread_mutex_lock(&c->lock);
        }
        c->at_work = false;
    }
    pthread_mutex_unlock(&c->lock);
}

void cpu_submit(struct hr__engine *e, struct hr__task *list)
{
    struct cpu_engine *c = cpu_engine(e);
    int n = 1;

    pthread_mutex_lock(&c->lock);
    // A sample that another engine has begun goes first, since it holds memory.
    if (e->params.balance && list->in && !list->next) {
        list->next = c->head;
        if (!c->head)
            c->tail = &list->next;
        c->head = list;
    } else {
        *c->tail = list;
        while (list->next) {
            list = list->next;
            n++;
        }
        c->tail = &list->next;
    }
    signal_idle(c, n);
    pthread_mutex_unlock(&c->lock);
    if (c->here)
        run_here(c);
}

void cpu_cancel(struct hr__engine *e)
{
    struct cpu_engine *c = cpu_engine(e);
    struct hr__task *stopped = NULL, **end = &stopped, **at = &c->head;
    struct hr__outcome out = {.offset = -1, .stage = HR_ENTROPY};

    pthread_mutex_lock(&c->lock);
    while (*at) {
        struct hr__task *t = *at;

        if (!hr__task_stop(t)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        c->queued_tasks--;
        *end = t;
        end = &t->next;
        *end = NULL;
    }
    c->tail = at;
    atomic_store_explicit(&c->queued, c->head != NULL, memory_order_relaxed);
    pthread_mutex_unlock(&c->lock);
    for (struct hr__task *next; stopped; stopped = next) {
        next = stopped->next;
        out.status = hr__task_stop_status(stopped);
        hr__task_done(stopped, &out);
    }
}

int cpu_use_threads(struct hr__engine *e, int n)
{
    struct cpu_engine *c = cpu_engine(e);
    int before;

    pthread_mutex_lock(&c->lock);
    before = c->use;
    if (n > 0) {
        c->use = n < e->caps.threads ? n : e->caps.threads;
        // All threads look again: a task's signal may be on its way to one that
        // is not used any more.
        pthread_cond_broadcast(&c->wake);
        pthread_cond_broadcast(&c->unused);
    }
    pthread_mutex_unlock(&c->lock);
    return before;
}

// Waits until there may be something to do. The lock is held.
static void wait(struct cpu_engine *c, int number)
{
    if (number >= c->use) {
        pthread_cond_wait(&c->unused, &c->lock);
        return;
    }
    c->idle++;
    pthread_cond_wait(&c->wake, &c->lock);
    c->idle--;
}

// Under a cap: what this thread has used is told, and it waits until there is
// more to use.
static void rest(struct cpu_worker *w)
{
    struct cpu_engine *c = w->engine;
    struct timespec t;
    int64_t used, ns;
    bool stop = false;

    if (!c->e->params.cpu_cap || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
        return;
    used = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    hr__host_used(c->e, used - w->used);
    w->used = used;
    while (!stop && (ns = hr__host_rest(c->e)) > 0) {
        int64_t until = hr__now() + ns;

        pthread_mutex_lock(&c->lock);
        while (!c->stop && hr__cond_wait(&c->resting, &c->lock, until))
            ;
        stop = c->stop;
        pthread_mutex_unlock(&c->lock);
    }
}

// The work that a thread finds: one of these, or none at the end.
struct found {
    struct cpu_place *place;  // that has left another's lanes
    struct hr__task *task;
    struct cpu_help *help;  // meanwhile
    unsigned call;
};

// Lock held.
static bool find(struct cpu_engine *c, struct found *f)
{
    return (f->place = cpu_many_take(c)) || (f->task = cpu_queue_pop(c)) ||
           (f->help = cpu_lend_take(c, &f->call));
}

static struct found take(struct cpu_worker *w, int number)
{
    struct cpu_engine *c = w->engine;
    struct found f = {0};
    int64_t begin = 0;
    bool waited = false;

    rest(w);
    pthread_mutex_lock(&c->lock);
    while (!c->stop && (number >= c->use || !find(c, &f))) {
        if (!waited)
            begin = hr__watch_idle_begin(c->e);
        waited = true;
        wait(c, number);
    }
    // (At the end queued tasks are still done, without help for others.)
    if (c->stop && !f.place && !f.task && !f.help)
        f.task = cpu_queue_pop(c);
    pthread_mutex_unlock(&c->lock);
    if (waited)
        hr__watch_idle_end(c->e, begin);
    return f;
}

static void *work(void *arg)
{
    struct cpu_worker *w = arg;
    int number = (int)(w - w->engine->workers);
    struct found f;

    hr__watch_thread(w->engine->e, "cpu worker %d", number);
    while ((f = take(w, number)).place || f.task || f.help)
        if (f.place)
            cpu_many_finish(w, f.place);
        else if (f.help)
            cpu_lend_run(w->engine, f.help, f.call);
        else
            run(w, f.task);
    return NULL;
}

// Each thread stays near the memory that it touches first: that of its arena.
static void stay_on_nodes(struct cpu_engine *c)
{
    struct hr__nodes nodes;

    hr__nodes_find(&nodes, c->num_workers);
    if (!nodes.num)
        return;
    for (int i = 0; i < c->num_workers; i++)
        pthread_setaffinity_np(c->workers[i].thread, sizeof(cpu_set_t),
                               hr__nodes_cpus(&nodes, i));
    hr__log(c->e->device, HR_LOG_DEBUG, "%s: threads on %d NUMA nodes",
            c->e->name, nodes.num);
}

enum hr_status cpu_workers_start(struct cpu_engine *c, int threads)
{
    size_t size;

    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    pthread_cond_init(&c->unused, NULL);
    pthread_cond_init(&c->alone, NULL);
    hr__cond_init(&c->resting);
    c->use = threads;
    cpu_lend_init(c);
    c->tail = &c->head;
    if (!hr__mul(&size, sizeof(*c->workers), (size_t)threads) ||
        !(c->workers = hr__alloc(c->e->device, size)))
        return hr__fail(HR_ENOMEM, "out of memory for %d workers", threads);
    for (; c->num_workers < threads; c->num_workers++) {
        struct cpu_worker *w = &c->workers[c->num_workers];

        *w = (struct cpu_worker){.engine = c, .pieces = {.heap = &c->heap}};
        cpu_arena_init(&w->arena, &c->heap);
        w->arena.limit = c->e->params.limits.item_bytes;
        // Where most pictures are made in lanes the first one here that needs
        // a second block may be the ten thousandth.
        w->arena.block = CPU_KEEP / 16 * 3;
        if (!(w->jpeg = cpu_jpeg_state_create(&c->heap)))
            return hr__fail(HR_ENOMEM, "out of memory for a decoder");
        if (c->here)
            continue;
        if (!hr__thread_start(&w->thread, work, w)) {
            cpu_jpeg_state_destroy(&w->jpeg);
            return hr__fail(HR_ENOMEM, "cannot start worker thread %d of %d",
                            c->num_workers + 1, threads);
        }
        hr__thread_gives_way(w->thread);
    }
    if (!c->here)
        stay_on_nodes(c);
    return HR_OK;
}

void cpu_workers_finish(struct cpu_engine *c)
{
    if (!c->tail)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->wake);
    pthread_cond_broadcast(&c->unused);
    pthread_cond_broadcast(&c->resting);
    pthread_mutex_unlock(&c->lock);
    // (One may be at work at what has left the lanes of another.)
    for (int i = 0; !c->here && i < c->num_workers; i++)
        pthread_join(c->workers[i].thread, NULL);
    for (int i = 0; i < c->num_workers; i++) {
        struct cpu_worker *w = &c->workers[i];

        cpu_jpeg_state_destroy(&w->jpeg);
        cpu_many_destroy(w);
        cpu_arena_finish(&w->arena);
    }
    hr__free(c->workers);
    pthread_cond_destroy(&c->resting);
    pthread_cond_destroy(&c->alone);
    pthread_cond_destroy(&c->unused);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
}
