// SPDX-License-Identifier: Apache-2.0
// Many shards at once: their indexes are read by some threads, each to a source
// of its own, and put behind each other in the order in which they were named.
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "hal/engine/base.h"
#include "source.h"

enum { THREADS = 8 };  // each has a window of a shard

struct opening {
    struct hr__source *made;
    bool is_shard;  // false: it is added in its turn
    enum {
        OPENING_NEXT,  // not taken by a thread yet
        OPENING_TAKEN,
        OPENING_DONE
    } state;
    atomic_bool stop;
    enum hr_status status;
    char why[256];
};

struct all {
    struct hr__source *s;   // the caller's thread alone adds to it
    struct hr__http *http;  // NULL: no shard is of the web
    const char *const *paths;
    struct opening *openings;
    size_t num, next;
    pthread_mutex_t lock;  // guards next and states
    pthread_cond_t done;
};

// ---- One of them -----------------------------------------------------------

static bool open_made(struct all *a, struct opening *o, const char *path)
{
    hr_source made = hr_source_create();

    if (!made)
        return false;
    o->made = hr__source_of(made);
    o->made->http = a->http;
    memcpy(o->made->fields, a->s->fields, sizeof(a->s->fields));
    o->made->until.stop[0] = &o->stop;
    o->made->until.stop[1] = &a->s->stopped;
    return hr__source_input(o->made, path);
}

// Opens path i. With the lock, which it opens meanwhile.
static void open_one(struct all *a, size_t i)
{
    struct opening *o = &a->openings[i];

    o->state = OPENING_TAKEN;
    pthread_mutex_unlock(&a->lock);
    if (!open_made(a, o, a->paths[i])) {
        o->status = hr_last_status();
        snprintf(o->why, sizeof(o->why), "%s", hr_last_error());
    }
    pthread_mutex_lock(&a->lock);
    o->state = OPENING_DONE;
    pthread_cond_broadcast(&a->done);
}

static void *open_some(void *ctx)
{
    struct all *a = ctx;

    pthread_mutex_lock(&a->lock);
    while (a->next < a->num) {
        size_t i = a->next++;

        if (a->openings[i].is_shard && a->openings[i].state == OPENING_NEXT)
            open_one(a, i);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void close_made(struct opening *o)
{
    hr_source made = o->made ? &o->made->pub : NULL;

    if (made)
        o->made->http = NULL;  // it is not its own
    hr_source_close(&made);
    o->made = NULL;
}

// ---- All in their order ----------------------------------------------------

// Moves the opened shards to the source: from now on each is closed with one of
// the two.
static bool move_shards(struct hr__source *s, struct hr__source *made)
{
    size_t num = made->num_shards, base = s->num_shards;

    while (s->shards_capacity < base + num)
        if (!hr__source_grow(&s->shards, &s->shards_capacity,
                             s->shards_capacity, sizeof(*s->shards)))
            return false;
    for (size_t i = 0; i < num; i++) {
        const char *path = made->shards[i].path;

        if (!(s->shards[base + i].path = hr__source_text(s, path,
                                                         strlen(path))))
            return false;
    }
    for (size_t i = 0; i < num; i++) {
        made->shards[i].path = s->shards[base + i].path;
        made->shards[i].number = (uint32_t)(base + i);
        s->shards[base + i] = made->shards[i];
    }
    s->num_shards += num;
    made->num_shards = 0;
    for (; made->num_packs; made->num_packs--) {
        if (!hr__source_grow(&s->packs, &s->packs_capacity, s->num_packs,
                             sizeof(*s->packs)))
            return false;
        s->packs[s->num_packs++] = made->packs[made->num_packs - 1];
    }
    return true;
}

// base: shards that were there before those of the folder's source.
static bool move_dir(struct hr__source *s, size_t base,
                     struct hr__source_dir dir, uint32_t *index)
{
    // (A file is one pack, or has one or many shards.)
    dir.pack = dir.pack ? (uint32_t)s->num_packs : 0;
    dir.shard += dir.shard ? (uint32_t)base : 0;
    return hr__source_put_dir_once(s, dir, index);
}

// Samples of a folder follow each other, or almost.
static bool move_items(struct hr__source *s, size_t base,
                       const struct hr__source *made)
{
    uint32_t from = UINT32_MAX, dir = 0, label;
    char number[HR__NUMBER_TEXT];

    for (size_t i = 0; i < made->num; i++) {
        const struct hr__source_item *item = &made->items[i];
        const char *name = hr__source_item_name(made, item, number);
        const struct hr__source_label *of = &made->labels[item->label];

        if (item->dir != from &&
            !move_dir(s, base, made->dirs[item->dir], &dir))
            return false;
        from = item->dir;
        if (!hr__source_intern(s, of->text, of->is_name, &label) ||
            !hr__source_put(s, dir, item->name ? name : NULL, label,
                            item->number))
            return false;
    }
    return true;
}

static bool move_classes(struct hr__source *s, const struct hr__source *made)
{
    uint32_t label;

    for (size_t i = 0; i < made->num_named; i++) {
        const struct hr__source_class *named = &made->named[i];

        if (!hr__source_name_class(s, made->labels[named->label].text,
                                   named->fixed ? &named->number : NULL,
                                   &label))
            return false;
    }
    return true;
}

static bool move_skipped(struct hr__source *s, size_t base,
                         const struct hr__source *made)
{
    char number[HR__NUMBER_TEXT];
    uint32_t dir;

    for (size_t i = 0; i < made->pub.skipped; i++) {
        const struct hr__source_item *item = &made->skipped[i];

        if (!move_dir(s, base, made->dirs[item->dir], &dir) ||
            !hr__source_skip(s, dir, hr__source_item_name(made, item, number),
                             (enum hr_skip)item->number))
            return false;
    }
    return true;
}

static void move_faults(struct hr__source *s, const struct hr__source *made)
{
    size_t texts = (size_t)made->pub.num_fault_texts;

    for (size_t i = 0; i < texts; i++)
        hr__source_fault_text(s, made->faults[i]);
    s->pub.num_faults += made->pub.num_faults - texts;
}

// Waits for shard i, or opens it, and puts it behind the others.
static bool take(struct all *a, size_t i)
{
    struct opening *o = &a->openings[i];
    size_t base = a->s->num_shards;
    bool ok;

    if (!o->is_shard)
        return hr__source_input(a->s, a->paths[i]);
    pthread_mutex_lock(&a->lock);
    if (o->state == OPENING_NEXT)
        open_one(a, i);
    while (o->state != OPENING_DONE)
        pthread_cond_wait(&a->done, &a->lock);
    pthread_mutex_unlock(&a->lock);
    if (o->made)
        move_faults(a->s, o->made);
    ok = o->status
             ? hr__source_fail(o->status, "%s", o->why)
             : move_classes(a->s, o->made) && move_shards(a->s, o->made) &&
                   move_skipped(a->s, base, o->made) &&
                   move_items(a->s, base, o->made);
    close_made(o);
    return ok;
}

// Stops the openings that are not needed any more.
static void stop(struct all *a)
{
    pthread_mutex_lock(&a->lock);
    a->next = a->num;
    for (size_t i = 0; i < a->num; i++)
        atomic_store(&a->openings[i].stop, true);
    pthread_mutex_unlock(&a->lock);
}

static bool take_all(struct all *a, int num_threads)
{
    pthread_t threads[THREADS];
    int started = 0;
    bool ok = true;

    while (started < num_threads &&
           hr__thread_start(&threads[started], open_some, a))
        started++;
    for (size_t i = 0; i < a->num && ok; i++)
        ok = take(a, i);
    if (!ok) {
        enum hr_status status = hr_last_status();
        char why[256];

        snprintf(why, sizeof(why), "%s", hr_last_error());
        stop(a);
        hr__source_fail(status, "%s", why);
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < a->num; i++)
        close_made(&a->openings[i]);
    return ok;
}

// ---- Which they are --------------------------------------------------------

static bool is_shard(const char *path)
{
    struct stat st;

    return hr__source_has_many(path) &&
           (hr__http_is_url(path) ||
            (stat(path, &st) == 0 && S_ISREG(st.st_mode)));
}

// Returns how many threads to use: shards of the web wait, the others compute.
static int look(struct all *a)
{
    int shards = 0, web = 0, most = hr__usable_cores();

    for (size_t i = 0; i < a->num; i++) {
        bool is = is_shard(a->paths[i]);

        a->openings[i] = (struct opening){.is_shard = is};
        shards += is && shards < THREADS;
        web += is && hr__http_is_url(a->paths[i]);
    }
    most = web || most > THREADS ? THREADS : most;
    if (web && !(a->http = hr__source_web(a->s)))
        return -1;
    return shards < 2 ? 0 : shards < most ? shards : most;
}

static bool add_all(struct hr__source *s, const char *const *paths, size_t num)
{
    struct all a = {.s = s, .paths = paths, .num = num};
    size_t size = 0;
    int threads;
    bool ok;

    if (num < 2)
        return !num || hr__source_input(s, *paths);
    if (!hr__mul(&size, num, sizeof(*a.openings)) ||
        !(a.openings = hr__alloc(NULL, size)))
        return hr__source_fail(HR_ENOMEM, "out of memory");
    pthread_mutex_init(&a.lock, NULL);
    pthread_cond_init(&a.done, NULL);
    threads = look(&a);
    ok = threads >= 0 && take_all(&a, threads);
    pthread_cond_destroy(&a.done);
    pthread_mutex_destroy(&a.lock);
    hr__free(a.openings);
    return ok;
}

enum hr_status hr_source_add_all(hr_source source, const char *const *paths,
                                 size_t num)
{
    struct hr__source *s = hr__source_of(source);
    enum hr_status status = hr__source_refuse(source, paths ? "" : NULL);

    for (size_t i = 0; i < num && !status; i++)
        status = hr__source_refuse(source, paths[i]);
    return status ? status : hr__source_added(s, add_all(s, paths, num));
}
