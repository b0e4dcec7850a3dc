// SPDX-License-Identifier: Apache-2.0
// The threads' rings, start and stop. A thread gets its ring with its first
// event; when it ends, the ring stays until a new trace begins.
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hal/trace/trace.h"

enum {
    MAX_RINGS = 512,
    MAX_TEXTS = 512,
    DEFAULT_BYTES = 1 << 20,
    EVENT_BYTES = HR__EVENT_WORDS * 8,
};

_Atomic unsigned hr__watch;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hr__trace_state state;
static uint64_t capacity;
static _Atomic uint64_t current;  // state.generation, for threads to look at
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct hr__ring *mine;
static _Thread_local char thread_name[32];

// ---- Text ------------------------------------------------------------------

static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static void init_once(void);

const char *hr__intern(const char *text)
{
    static char texts[MAX_TEXTS][72];
    static int num;
    const char *found = NULL;

    pthread_once(&once, init_once);
    pthread_mutex_lock(&texts_lock);
    for (int i = 0; i < num && !found; i++)
        if (!strncmp(texts[i], text, sizeof(texts[i]) - 1))
            found = texts[i];
    if (!found && num < MAX_TEXTS) {
        snprintf(texts[num], sizeof(texts[num]), "%s", text);
        found = texts[num++];
    }
    pthread_mutex_unlock(&texts_lock);
    return found ? found : "other";
}

void hr__trace_thread(const char *name)
{
    snprintf(thread_name, sizeof(thread_name), "%s", name);
}

// ---- Rings -----------------------------------------------------------------

struct hr__trace_state *hr__trace_lock(void)
{
    pthread_mutex_lock(&lock);
    return &state;
}

void hr__trace_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

// A thread ends, or goes on with another ring.
static void disown(void *ring)
{
    pthread_mutex_lock(&lock);
    ((struct hr__ring *)ring)->owned = false;
    pthread_mutex_unlock(&lock);
}

// The child of a fork has one thread and no trace; what the others held at
// that moment is left as it lies.
static void in_child(void)
{
    atomic_store(&hr__watch, atomic_load(&hr__watch) & HR__WATCH_TIMES);
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&texts_lock, NULL);
    state.rings = NULL;
    state.homeless = 0;
    state.generation++;
    atomic_store(&current, state.generation);
    mine = NULL;
    pthread_setspecific(key, NULL);
}

static void init_once(void)
{
    pthread_key_create(&key, disown);
    pthread_atfork(NULL, NULL, in_child);
}

static struct hr__ring *make_ring(uint64_t events)
{
    size_t size = sizeof(struct hr__ring) + (size_t)events * EVENT_BYTES;
    struct hr__ring *ring = hr__alloc(NULL, size);

    if (!ring)
        return NULL;
    // Not the words: pages that are never written cost nothing.
    memset(ring, 0, sizeof(*ring));
    ring->capacity = events;
    ring->tid = (int)syscall(SYS_gettid);
    if (thread_name[0])
        memcpy(ring->name, thread_name, sizeof(ring->name));
    else if (pthread_getname_np(pthread_self(), ring->name, sizeof(ring->name)))
        ring->name[0] = '\0';
    return ring;
}

static int num_rings(void)
{
    int n = 0;

    for (const struct hr__ring *ring = state.rings; ring; ring = ring->next)
        n++;
    return n;
}

// This thread's ring of the trace that runs, or NULL.
static struct hr__ring *take_ring(void)
{
    struct hr__ring *ring = NULL;

    if (mine)
        disown(mine);
    pthread_mutex_lock(&lock);
    if (num_rings() < MAX_RINGS)
        ring = make_ring(capacity);
    if (ring) {
        ring->owned = true;
        ring->generation = state.generation;
        ring->next = state.rings;
        state.rings = ring;
    } else {
        state.homeless++;
    }
    pthread_mutex_unlock(&lock);
    mine = ring;
    pthread_setspecific(key, ring);
    return ring;
}

void hr__trace(const struct hr__event *event)
{
    struct hr__ring *ring = mine;
    _Atomic uint64_t *at;
    uint64_t head, words[HR__EVENT_WORDS] = {0};

    if (!ring || ring->generation !=
                     atomic_load_explicit(&current, memory_order_relaxed))
        if (!(ring = take_ring()))
            return;
    memcpy(words, event, sizeof(*event));
    head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    at = &ring->words[(head & (ring->capacity - 1)) * HR__EVENT_WORDS];
    // A reader that sees any of this also sees the head before it, and knows
    // that what was here is gone.
    for (int i = 0; i < HR__EVENT_WORDS; i++)
        atomic_store_explicit(&at[i], words[i], memory_order_release);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

uint64_t hr__ring_kept(const struct hr__ring *ring, uint64_t *dropped)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);

    *dropped = head > ring->capacity ? head - ring->capacity : 0;
    return head - *dropped;
}

size_t hr__ring_read(const struct hr__ring *ring, struct hr__event *to,
                     size_t max)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t from = head > ring->capacity ? head - ring->capacity : 0;
    size_t n = 0;

    from = head - from > max ? head - max : from;
    for (uint64_t i = from; i < head; i++) {
        const _Atomic uint64_t *at =
            &ring->words[(i & (ring->capacity - 1)) * HR__EVENT_WORDS];
        uint64_t words[HR__EVENT_WORDS];

        for (int k = 0; k < HR__EVENT_WORDS; k++)
            words[k] = atomic_load_explicit(&at[k], memory_order_acquire);
        // Still there? The one at head is being written over its forerunner.
        if (i + ring->capacity >
            atomic_load_explicit(&ring->head, memory_order_acquire))
            memcpy(&to[n++], words, sizeof(*to));
    }
    return n;
}

// ---- Start, stop -----------------------------------------------------------

static void free_old_rings(void)
{
    struct hr__ring **at = &state.rings;

    while (*at) {
        struct hr__ring *ring = *at;

        if (ring->owned) {
            at = &ring->next;
            continue;
        }
        *at = ring->next;
        hr__free(ring);
    }
}

enum hr_status hr_trace_start(const struct hr_trace_params *params)
{
    size_t bytes = params && params->thread_bytes ? params->thread_bytes
                                                  : (size_t)DEFAULT_BYTES;
    bool runs;

    pthread_once(&once, init_once);
    pthread_mutex_lock(&lock);
    runs = hr__traced();
    if (!runs) {
        free_old_rings();
        capacity = 16;
        while (capacity < UINT64_C(1) << 24 &&
               capacity * 2 * EVENT_BYTES <= bytes)
            capacity *= 2;
        state.generation++;
        state.homeless = 0;
        state.wall = params && params->wall_time;
        state.start = hr__now();
        atomic_store(&current, state.generation);
        atomic_fetch_or(&hr__watch, (unsigned)HR__WATCH_TRACE);
    }
    pthread_mutex_unlock(&lock);
    return runs ? hr__fail(HR_EINVAL, "a trace is running") : HR_OK;
}

void hr_trace_stop(void)
{
    atomic_fetch_and(&hr__watch, ~(unsigned)HR__WATCH_TRACE);
}

void hr_trace_span(const char *name, int64_t begin, int64_t end)
{
    struct hr__event event = {.name = name,
                              .begin = begin,
                              .end = end < begin ? begin : end,
                              .sample = -1,
                              .kind = HR__EVENT_SPAN,
                              .first = HR_NUM_STAGES};

    if (name && hr__traced())
        hr__trace(&event);
}
