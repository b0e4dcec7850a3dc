// SPDX-License-Identifier: Apache-2.0
// The script: its rule for each call, live objects, counters, and the functions
// with which tests set and read them.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fault_calls.h"

enum { MAX_OBJECTS = 1 << 14 };

struct ocl_api fault_real;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread bool marked;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct fault_rule rules[FAULT_RULES];
    int num_rules;
    struct fault_counts counts;
    int launches;              // since the last callback was set
    unsigned waiters, served;  // so far; they are let go in order
    unsigned gone;             // that waited
    bool discrete;
    const void *objects[MAX_OBJECTS];
} f = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void load(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);

#define X(name)                                               \
    {                                                         \
        void *entry = library ? dlsym(library, #name) : NULL; \
                                                              \
        memcpy(&fault_real.name, &entry, sizeof(entry));      \
    }
    OCL_ENTRY_POINTS(X)
    OCL_OPTIONAL_ENTRY_POINTS(X)
#undef X
}

// ---- The script -----------------------------------------------------------

// f.lock
static const struct fault_rule *find_rule(enum fault_entry entry)
{
    for (int i = 0; i < f.num_rules; i++) {
        const struct fault_rule *r = &f.rules[i];
        int call = f.counts.calls[r->entry];

        if ((r->entry == entry || r->entry == FAULT_ANY) && call >= r->first &&
            (!r->last || call <= r->last))
            return r;
    }
    return NULL;
}

// f.lock
static void hang(void)
{
    unsigned number = f.waiters++;

    f.counts.hung++;
    while ((int)(number - f.served) >= 0)
        pthread_cond_wait(&f.changed, &f.lock);
    f.counts.hung--;
    f.gone++;
    pthread_cond_broadcast(&f.changed);
}

void fault_hang_now(void)
{
    pthread_mutex_lock(&f.lock);
    hang();
    pthread_mutex_unlock(&f.lock);
}

static void *work(void *ms)
{
    struct timespec t;

    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec * 1000 + t.tv_nsec / 1000000 < *(cl_int *)ms);
    return NULL;
}

static void work_so_long(const struct fault_rule *rule)
{
    cl_int ms = rule->code;
    pthread_t thread;
    struct timespec t;

    if (rule->action == FAULT_WORK_APART) {
        if (pthread_create(&thread, NULL, work, &ms))
            abort();
        pthread_join(thread, NULL);
    }
    if (rule->action == FAULT_WORK) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        ms += (cl_int)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
        work(&ms);
    }
}

struct fault_rule fault_begin(enum fault_entry entry)
{
    struct fault_rule rule = {.action = FAULT_FAIL, .code = CL_SUCCESS};
    const struct fault_rule *found;

    pthread_once(&once, load);
    pthread_mutex_lock(&f.lock);
    f.counts.calls[entry]++;
    f.counts.calls[FAULT_ANY]++;
    f.counts.on_marked += marked;
    if ((found = find_rule(entry))) {
        rule = *found;
        f.counts.hits++;
        if (rule.action == FAULT_HANG)
            hang();
    }
    pthread_mutex_unlock(&f.lock);
    work_so_long(&rule);
    if (rule.action != FAULT_FAIL && rule.action != FAULT_EVENT &&
        rule.action != FAULT_HANG)
        rule.code = CL_SUCCESS;
    return rule;
}

void fault_finish(const struct fault_rule *rule)
{
    if (rule->action == FAULT_HANG_AFTER)
        fault_hang_now();
}

// ---- Objects --------------------------------------------------------------

// The driver may use an address again, and for objects of another kind.
static const void **find_object(const void *object)
{
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (f.objects[i] == object)
            return &f.objects[i];
    return NULL;
}

void fault_made(const void *object)
{
    const void **at;

    pthread_mutex_lock(&f.lock);
    if (!object || !(at = find_object(NULL))) {
        fprintf(stderr, "fault_opencl: no object, or too many\n");
        abort();
    }
    *at = object;
    f.counts.live++;
    pthread_mutex_unlock(&f.lock);
}

// True if it was alive. A misuse never reaches the driver, which would crash.
bool fault_use(const void *object, bool release)
{
    const void **at;

    pthread_mutex_lock(&f.lock);
    at = object ? find_object(object) : NULL;
    if (!at) {
        f.counts.misused++;
    } else if (release) {
        *at = NULL;
        f.counts.live--;
    }
    pthread_mutex_unlock(&f.lock);
    return at != NULL;
}

void fault_note_blocking(cl_bool blocking)
{
    pthread_mutex_lock(&f.lock);
    f.counts.blocking += blocking != CL_FALSE;
    pthread_mutex_unlock(&f.lock);
}

void fault_note_launch(cl_uint dim, const size_t *global, const size_t *local)
{
    size_t groups = 1;

    for (cl_uint i = 0; i < dim; i++)
        groups *= global[i] / (local ? local[i] : 1);
    pthread_mutex_lock(&f.lock);
    f.launches++;
    f.counts.groups += groups;
    pthread_mutex_unlock(&f.lock);
}

void fault_note_batch(void)
{
    pthread_mutex_lock(&f.lock);
    if (f.launches > f.counts.batch_launches)
        f.counts.batch_launches = f.launches;
    f.launches = 0;
    pthread_mutex_unlock(&f.lock);
}

// ---- Control --------------------------------------------------------------

static void set(const struct fault_rule *rules, int n)
{
    pthread_mutex_lock(&f.lock);
    f.num_rules = n < FAULT_RULES ? n : FAULT_RULES;
    if (n)
        memcpy(f.rules, rules, (size_t)f.num_rules * sizeof(*rules));
    memset(f.counts.calls, 0, sizeof(f.counts.calls));
    f.counts.hits = f.counts.blocking = f.counts.on_marked = 0;
    f.counts.batch_launches = f.launches = 0;
    f.counts.groups = 0;
    pthread_mutex_unlock(&f.lock);
}

static void counts(struct fault_counts *out)
{
    pthread_mutex_lock(&f.lock);
    *out = f.counts;
    pthread_mutex_unlock(&f.lock);
    out->filled = fault_filled();
}

void fault_note(int misused, int imported, int acquired)
{
    pthread_mutex_lock(&f.lock);
    f.counts.misused += misused;
    f.counts.imported += imported;
    f.counts.acquired += acquired;
    pthread_mutex_unlock(&f.lock);
}

static void release(void)
{
    unsigned all;

    pthread_mutex_lock(&f.lock);
    f.served = f.waiters;
    pthread_cond_broadcast(&f.changed);
    // The calls that hang now; they may hang again before we look.
    all = f.gone + (unsigned)f.counts.hung;
    while ((int)(f.gone - all) < 0)
        pthread_cond_wait(&f.changed, &f.lock);
    pthread_mutex_unlock(&f.lock);
}

static void release_one(void)
{
    unsigned gone;

    pthread_mutex_lock(&f.lock);
    gone = f.gone;
    if (f.served != f.waiters) {
        f.served++;
        pthread_cond_broadcast(&f.changed);
        while (gone == f.gone)
            pthread_cond_wait(&f.changed, &f.lock);
    }
    pthread_mutex_unlock(&f.lock);
}

static void mark_thread(void)
{
    marked = true;
}

bool fault_discrete(void)
{
    bool on;

    pthread_mutex_lock(&f.lock);
    on = f.discrete;
    pthread_mutex_unlock(&f.lock);
    return on;
}

static void discrete(bool on)
{
    pthread_mutex_lock(&f.lock);
    f.discrete = on;
    pthread_mutex_unlock(&f.lock);
}

EXPORT void fault_control(struct fault_control *out)
{
    *out = (struct fault_control){.set = set,
                                  .counts = counts,
                                  .release = release,
                                  .release_one = release_one,
                                  .mark_thread = mark_thread,
                                  .discrete = discrete,
                                  .sharing = fault_sharing};
}
