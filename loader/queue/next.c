// SPDX-License-Identifier: Apache-2.0
// Delivery.
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "loader.h"

// ---- What can be had -------------------------------------------------------

// Says whether no batch must come before it. Epochs do not mix, and the last
// batch of one comes last: consumers may rely on that.
static bool may_come(const struct hr__loader *l, const struct hr__slot *slot,
                     uint64_t epoch)
{
    return slot->seq == l->base || (l->params.as_ready && !slot->pub.last &&
                                    slot->pub.epoch == (uint32_t)epoch);
}

// Returns the next batch, if it is ready. The lock is held.
static struct hr__slot *find_ready(const struct hr__loader *l)
{
    struct hr__cursor oldest = l->saved;
    struct hr__slot *found = NULL;
    int n;

    if (!l->stats.ready || !hr__cursor_batch(l, &oldest, &n))
        return NULL;
    for (int i = 0; i < l->pub.depth; i++) {
        struct hr__slot *slot = &l->slots[i];

        if (slot->state == SLOT_READY && may_come(l, slot, oldest.epoch) &&
            (!found || slot->seq < found->seq))
            found = slot;
    }
    return found;
}

// Says whether all batches were delivered. The lock is held.
static bool at_end(const struct hr__loader *l)
{
    struct hr__cursor at = l->saved;
    int n;

    return !hr__cursor_batch(l, &at, &n);
}

void hr__loader_signal(struct hr__loader *l)
{
    bool now = l->stop || find_ready(l) || at_end(l);

    if (now)
        pthread_cond_broadcast(&l->ready);
    if (now == l->signaled)
        return;
    hr__loader_flow(l);
    if (now)
        eventfd_write(l->pub.fd, 1);
    else
        eventfd_read(l->pub.fd, &(eventfd_t){0});
    l->signaled = now;
}

// ---- Giving back -----------------------------------------------------------

// The delivered batch or part has been given back: frees the slot, or makes its
// next part due. Then there is work. The lock is held.
static void free_slot(struct hr__slot *slot)
{
    slot->state = slot->end < slot->all ? SLOT_MEMORY : SLOT_FREE;
    if (slot->state == SLOT_MEMORY)
        hr__slot_next_part(slot);
}

void hr_loaded_release(hr_loaded *loaded)
{
    struct hr__slot *slot = loaded ? (struct hr__slot *)(uintptr_t)*loaded
                                   : NULL;
    struct hr__loader *l;
    hr_batch unused = NULL;
    bool wake;

    if (!slot)
        return;
    *loaded = NULL;
    l = slot->loader;
    if (l->pid != getpid())
        return;
    hr__slot_drop_outs(slot, false);
    pthread_mutex_lock(&l->lock);
    hr__loader_flow(l);
    l->held--;
    if (slot->pub.batch && l->params.autotune &&
        l->num_made > l->settings.depth + 1 + l->held) {
        unused = slot->pub.batch;
        slot->pub.batch = NULL;
        l->num_made--;
        l->stats.batch_bytes -= l->batch_size;
    }
    free_slot(slot);
    wake = hr__loader_may_wake(l);
    pthread_mutex_unlock(&l->lock);
    if (wake)
        pthread_cond_signal(&l->work);
    hr_batch_destroy(&unused);
    hr__loader_unref(l);
}

// ---- Next ------------------------------------------------------------------

// The sample that the thread's last hr_loader_next() failed for.
static _Thread_local struct {
    bool is;
    struct hr_result result;
    uint64_t index;
} failed;

const struct hr_result *hr_loader_failed(uint64_t *index)
{
    if (index)
        *index = failed.is ? failed.index : 0;
    return failed.is ? &failed.result : NULL;
}

static const char *why_of(const struct hr__slot *slot, enum hr_status *status)
{
    *status = slot->broken;
    for (int i = 0; i < slot->pub.n && !slot->broken; i++)
        if (slot->pub.results[i].status) {
            failed.is = true;
            failed.result = slot->pub.results[i];
            failed.index = slot->pub.indices[i];
            *status = failed.result.status;
            return failed.result.message;
        }
    return slot->broken_text;
}

// Takes the batch out of the queue. *wake: there may be work. The lock is held.
static enum hr_status deliver(struct hr__loader *l, struct hr__slot *slot,
                              hr_loaded *loaded, bool *wake)
{
    enum hr_status status = HR_OK;
    const char *why = "";
    bool may_plan = false;

    if (hr__slot_fails(slot))
        why = why_of(slot, &status);
    hr__loader_flow(l);
    l->stats.ready--;
    l->stats.failed += (uint64_t)slot->pub.failed;
    l->stats.replaced += (uint64_t)slot->pub.replaced;
    if (slot->end == slot->all)
        may_plan = hr__loader_passed(l, slot->seq);
    if (status) {
        l->stats.dropped++;
        hr__fail(status, "%s", *why ? why : hr_status_text(status));
        free_slot(slot);
    } else {
        l->stats.batches++;
        l->stats.samples += (uint64_t)slot->pub.n;
        for (int i = 0; i < slot->pub.n; i++)
            l->stats.by_decoder += slot->pub.results[i].by_decoder;
        slot->state = SLOT_HELD;
        l->held++;
        l->refs++;
        *loaded = &slot->pub;
    }
    hr__loader_tune(l);
    hr__loader_signal(l);
    // A slot is free, the next may be planned, or one less is ahead.
    *wake = (status || may_plan || l->settings.depth < l->pub.depth) &&
            hr__loader_may_wake(l);
    return status;
}

// The lock is held.
static bool wait_more(struct hr__loader *l, int64_t deadline)
{
    bool in_time;

    hr__loader_flow(l);
    l->waiting++;
    in_time = hr__cond_wait(&l->ready, &l->lock, deadline);
    hr__loader_flow(l);
    l->waiting--;
    return in_time;
}

// The lock is held.
static enum hr_status wait_ready(struct hr__loader *l, int64_t timeout_ns,
                                 struct hr__slot **slot)
{
    int64_t begun = 0, deadline = INT64_MAX;

    for (;;) {
        if (l->stop)
            return hr__fail(HR_ECANCELED, "the loader was stopped");
        if ((*slot = find_ready(l)) || at_end(l))
            break;
        if (!begun) {
            begun = hr__now();
            deadline = timeout_ns < 0 || timeout_ns > INT64_MAX - begun
                           ? INT64_MAX
                           : begun + timeout_ns;
        }
        if (!timeout_ns || !wait_more(l, deadline))
            return HR_PENDING;
    }
    if (begun) {
        l->stats.waits++;
        l->stats.wait_ns += hr__now() - begun;
    }
    return HR_OK;
}

enum hr_status hr_loader_next(hr_loader loader, int64_t timeout_ns,
                              hr_loaded *loaded)
{
    struct hr__loader *l = hr__loader_of(loader);
    struct hr__slot *slot = NULL;
    enum hr_status status;
    bool wake = false;

    if (!l || !loaded)
        return hr__fail(HR_EINVAL, "hr_loader_next: no loader, or no place");
    *loaded = NULL;
    failed.is = false;
    if (l->pid != getpid())
        return hr__fail(HR_EFORK, "the loader is the parent process's");
    pthread_mutex_lock(&l->lock);
    status = wait_ready(l, timeout_ns, &slot);
    if (slot)
        status = deliver(l, slot, loaded, &wake);
    pthread_mutex_unlock(&l->lock);
    if (wake)
        pthread_cond_signal(&l->work);
    return status;
}

// ---- What else there is to know --------------------------------------------

void hr_loader_stats(hr_loader loader, struct hr_loader_stats *stats)
{
    struct hr__loader *l = hr__loader_of(loader);

    *stats = (struct hr_loader_stats){0};
    if (!l || l->pid != getpid())
        return;
    pthread_mutex_lock(&l->lock);
    hr__loader_flow(l);
    *stats = l->stats;
    if (l->flow.seconds > 0) {
        stats->mean_ready = l->flow.ready / l->flow.seconds;
        stats->mean_reading = l->flow.reading / l->flow.seconds;
        stats->mean_making = l->flow.making / l->flow.seconds;
        stats->starved = l->flow.starved / l->flow.seconds;
        stats->waited = l->flow.waited / l->flow.seconds;
    }
    stats->settings = l->settings;
    stats->tune_steps = l->tune.steps;
    stats->tune_backs = l->tune.backs;
    stats->encoded_bytes = l->pages.bytes;
    stats->peak_encoded_bytes = l->pages.peak;
    pthread_mutex_unlock(&l->lock);
}
