// SPDX-License-Identifier: Apache-2.0
// Makes, stops and closes a source.
#include "source.h"

#include <stdint.h>

#include "hal/engine/base.h"

static struct hr__source *create(void)
{
    struct hr__source *s = hr__alloc(NULL, sizeof(*s));

    if (!s)
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    *s = (struct hr__source){0};
    s->pub.faults = s->faults;
    s->until.stop[0] = &s->stopped;
    pthread_mutex_init(&s->lock, NULL);
    s->forks = hr__forks();
    return s;
}

hr_source hr_source_create(void)
{
    struct hr__source *s = create();

    return s ? &s->pub : NULL;
}

hr_source hr_source_of_calls(const struct hr_source_calls *calls)
{
    struct hr__source *s;

    if (!calls || !calls->read || calls->threads < 0)
        return hr__fail(HR_EINVAL,
                        "a source of calls needs read, and threads >= 0"),
               NULL;
    if (!(s = create()))
        return NULL;
    s->calls = *calls;
    s->pub.num = calls->num;
    return &s->pub;
}

void hr_source_stop(hr_source source)
{
    if (source)
        atomic_store(&hr__source_of(source)->stopped, true);
}

static void forget(struct hr__source *s)
{
    for (size_t i = 0; i < s->num_blocks; i++)
        hr__free(s->blocks[i]);
    for (size_t i = 0; i < s->num_packs; i++)
        hr_pack_close(&s->packs[i]);
    for (size_t i = 0; i < s->num_shards; i++)
        hr__shard_close(&s->shards[i]);
    hr__http_destroy(s->http);
    hr__free(s->shards);
    hr__free(s->known_labels.keys);
    hr__free(s->known_dirs.keys);
    hr__free(s->classes);
    hr__free(s->packs);
    hr__free(s->blocks);
    hr__free(s->known_seen.keys);
    hr__free(s->seen);
    hr__free(s->named);
    hr__free(s->skipped);
    hr__free(s->labels);
    hr__free(s->dirs);
    hr__free(s->items);
}

void hr_source_close(hr_source *source)
{
    struct hr__source *s = source ? hr__source_of(*source) : NULL;

    if (!s)
        return;
    forget(s);
    pthread_mutex_destroy(&s->lock);
    hr__free(s);
    *source = NULL;
}
