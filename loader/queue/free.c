// SPDX-License-Identifier: Apache-2.0
// Gives back the bytes of samples, and in the end frees the loader itself.
#include <pthread.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "loader.h"

bool hr__loader_may_wake(struct hr__loader *l)
{
    bool may = l->idle && !l->waking;

    l->waking = l->waking || may;
    return may;
}

void hr__loader_wake(struct hr__loader *l)
{
    if (hr__loader_may_wake(l))
        pthread_cond_signal(&l->work);
}

void hr__sample_give_back(struct hr__loader_sample *sample)
{
    struct hr__loader *l = sample->slot->loader;
    const struct hr_source_calls *calls = &l->source->calls;
    uint64_t index = sample->slot->indices[sample - sample->slot->samples];

    if (sample->is_lent && calls->done)
        calls->done(calls->ctx, index, &sample->lent);
    sample->is_lent = false;
    if (!sample->memory)
        return;
    pthread_mutex_lock(&l->lock);
    hr__page_pool_put(&l->pages, sample->memory);
    sample->memory = NULL;
    if (l->full)
        pthread_cond_broadcast(&l->bytes);
    pthread_mutex_unlock(&l->lock);
}

static void free_loader(struct hr__loader *l)
{
    for (int i = 0; l->slots && i < l->pub.depth; i++) {
        struct hr__slot *slot = &l->slots[i];
        hr_batch batch = slot->pub.batch;

        hr_batch_destroy(&batch);
        hr__slot_drop_outs(slot, true);
        for (int j = 0; slot->images && j < l->pub.batch; j++)
            hr_image_release(&slot->images[j]);
        hr__free(slot->names);
        hr__free(slot->samples);
    }
    hr__page_pool_finish(&l->pages);
    hr__free(l->slots);
    hr__free(l->views);
    hr__free((void *)(uintptr_t)l->sampler.sums);
    if (l->pub.fd >= 0)
        close(l->pub.fd);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->bytes);
    pthread_cond_destroy(&l->unused);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->ended);
    pthread_mutex_destroy(&l->lock);
    hr__free(l);
}

void hr__loader_unref(struct hr__loader *l)
{
    bool last;

    pthread_mutex_lock(&l->lock);
    last = !--l->refs;
    pthread_mutex_unlock(&l->lock);
    if (last)
        free_loader(l);
}
