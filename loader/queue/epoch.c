// SPDX-License-Identifier: Apache-2.0
// Chooses the samples of a batch, and keeps the loader's position and state.
#include <endian.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hal/engine/base.h"
#include "loader.h"

// ---- Order -----------------------------------------------------------------

bool hr__cursor_batch(const struct hr__loader *l, struct hr__cursor *at, int *n)
{
    for (int epochs = 0; epochs < 2; epochs++) {
        bool in_one = l->rest && at->k == l->resumed.k &&
                      at->epoch == l->resumed.epoch;
        uint64_t batch = in_one ? l->rest : (uint64_t)l->pub.batch, left;

        if (l->params.epochs >= 0 && at->epoch >= (uint64_t)l->params.epochs)
            return false;
        left = at->k < l->pub.samples ? l->pub.samples - at->k : 0;
        if (left && (left >= batch || !l->params.drop_remainder)) {
            *n = (int)(left < batch ? left : batch);
            return true;
        }
        at->epoch++;
        at->k = 0;
    }
    return false;
}

void hr__slot_place(struct hr__slot *slot, int j)
{
    const struct hr__loader *l = slot->loader;
    struct hr__loader_sample *sample = &slot->samples[j];
    uint64_t own = hr__sampler_position(&l->sampler, sample->k);
    uint64_t position = hr__sampler_position(
        &l->sampler, (sample->k + (uint64_t)sample->tries) % l->pub.samples);

    slot->indices[j] = hr__sampler_index(&l->sampler, slot->pub.epoch,
                                         position);
    // A sample that takes another's place draws as that one.
    slot->keys[j] = (struct hr_random){.seed = l->params.seed,
                                       .index = own,
                                       .epoch = slot->pub.epoch};
    slot->results[j].status = HR_PENDING;
    sample->wanted = sample->pending = true;
}

// Says whether no batch of the epoch begins with sample k.
static bool is_last(const struct hr__loader *l, uint64_t k)
{
    uint64_t left = l->pub.samples - k;

    return !left || (l->params.drop_remainder && left < (uint64_t)l->pub.batch);
}

static void fill_slot(struct hr__loader *l, struct hr__slot *slot, int n)
{
    slot->state = SLOT_READ;
    slot->seq = l->seq;
    slot->pub.n = slot->all = slot->end = slot->wanted = n;
    slot->begin = 0;
    slot->measured = false;
    slot->pub.epoch = (uint32_t)l->plan.epoch;
    slot->pub.number = l->plan.k / (uint64_t)l->pub.batch;
    slot->pub.through = true;
    slot->pub.last = slot->is_last = is_last(l, l->plan.k + (uint64_t)n);
    slot->pub.failed = slot->pub.replaced = 0;
    slot->broken = HR_OK;
    for (int j = 0; j < n; j++) {
        slot->samples[j] = (struct hr__loader_sample){
            .slot = slot, .k = l->plan.k + (uint64_t)j};
        hr__slot_place(slot, j);
    }
}

// Passes over the batches that were delivered before the loader was saved. Says
// whether there is a batch behind them that may be planned now, and how many
// samples it has.
static bool next_batch(struct hr__loader *l, int *n)
{
    while (hr__cursor_batch(l, &l->plan, n)) {
        if (l->seq >= 64 || !(l->skip >> l->seq & 1))
            return l->seq - l->base < HR__LOADER_DEPTH &&
                   (!l->params.epochs_apart || l->plan.k || l->seq == l->base);
        l->plan.k += (uint64_t)*n;
        l->seq++;
    }
    return false;
}

struct hr__slot *hr__slot_find(const struct hr__loader *l,
                               enum hr__slot_state state,
                               bool (*fits)(const struct hr__slot *slot))
{
    struct hr__slot *found = NULL;

    for (int i = 0; i < l->pub.depth; i++) {
        struct hr__slot *slot = &l->slots[i];

        if (slot->state == state && (!fits || fits(slot)) &&
            (!found || slot->seq < found->seq))
            found = slot;
    }
    return found;
}

struct hr__slot *hr__loader_plan(struct hr__loader *l)
{
    struct hr__slot *slot = NULL;
    int n, ahead = 0;

    for (int i = 0; i < l->pub.depth; i++) {
        struct hr__slot *s = &l->slots[i];

        ahead += s->state != SLOT_FREE && s->state != SLOT_HELD;
        // One that has a batch, if there is one.
        if (s->state == SLOT_FREE &&
            (!slot || (s->pub.batch && !slot->pub.batch)))
            slot = s;
    }
    if (!slot || ahead >= l->settings.depth || !next_batch(l, &n))
        return NULL;
    fill_slot(l, slot, n);
    l->plan.k += (uint64_t)n;
    l->seq++;
    return slot;
}

bool hr__loader_passed(struct hr__loader *l, uint64_t seq)
{
    uint64_t was = l->base;
    bool full = l->seq - was >= HR__LOADER_DEPTH;
    int n;

    l->delivered |= UINT64_C(1) << (seq - l->base);
    while (l->delivered & 1) {
        if (hr__cursor_batch(l, &l->saved, &n))
            l->saved.k += (uint64_t)n;
        l->delivered >>= 1;
        l->base++;
    }
    return l->base > was &&
           (full || (l->params.epochs_apart && l->seq == l->base));
}

// ---- Save and restore ------------------------------------------------------

// Little endian.
struct state {
    char magic[8];
    uint64_t source, seed, total, weights, epoch, k, delivered;
    uint32_t shards, shard, flags, batch;
    uint64_t window, sum;
};

_Static_assert(sizeof(struct state) == sizeof(struct hr_loader_state),
               "the state has no gaps");

static const char magic[8] = "HRLOAD1";

enum { FLAGS = 2 };  // bits of flags; above them samples of the batch at k

static uint64_t sum_of(const struct state *state)
{
    return XXH3_64bits(state, offsetof(struct state, sum));
}

// Samples of the oldest batch that were delivered, in parts.
static uint32_t part_of(const struct hr__loader *l)
{
    for (int i = 0; l->params.own_size && i < l->pub.depth; i++) {
        const struct hr__slot *slot = &l->slots[i];

        if (slot->state != SLOT_FREE && slot->seq == l->base)
            return (uint32_t)(slot->state == SLOT_HELD ? slot->end
                              : slot->measured         ? slot->begin
                                                       : 0);
    }
    return 0;
}

// The lock is held.
static void fill_state(const struct hr__loader *l, uint64_t source,
                       struct state *out)
{
    const struct hr__sampler *s = &l->sampler;
    struct hr__cursor at = l->saved;
    uint32_t part = part_of(l);
    int n;
    size_t weights = s->sums ? (size_t)s->num * sizeof(*s->sums) : 0;

    if (part)  // of the batch that begins there, maybe in the next epoch
        hr__cursor_batch(l, &at, &n);
    *out = (struct state){
        .source = htole64(source),
        .seed = htole64(s->seed),
        .total = htole64(s->total),
        .weights = htole64(weights ? XXH3_64bits(s->sums, weights) : 0),
        .epoch = htole64(at.epoch),
        .k = htole64(at.k),
        .delivered = htole64(l->delivered),
        .shards = htole32(s->shards),
        .shard = htole32(s->shard),
        .flags = htole32((uint32_t)s->shuffle | (uint32_t)s->drop << 1 |
                         part << FLAGS),
        .batch = htole32((uint32_t)l->pub.batch),
        .window = htole64(s->window),
    };
    memcpy(out->magic, magic, sizeof(magic));
    out->sum = htole64(sum_of(out));
}

enum hr_status hr_loader_save(hr_loader loader, struct hr_loader_state *out)
{
    struct hr__loader *l = hr__loader_of(loader);
    struct state state;
    uint64_t source;

    if (!l || !out)
        return hr__fail(HR_EINVAL, "hr_loader_save: no loader, or no place");
    if (l->pid != getpid())
        return hr__fail(HR_EFORK, "the loader is the parent process's");
    source = hr_source_identity(l->params.source);
    pthread_mutex_lock(&l->lock);
    fill_state(l, source, &state);
    pthread_mutex_unlock(&l->lock);
    memcpy(out->bytes, &state, sizeof(state));
    return HR_OK;
}

static enum hr_status differs(const char *what)
{
    return hr__fail(HR_EINVAL, "the loader was saved with another %s", what);
}

static enum hr_status no_state(void)
{
    return hr__fail(HR_EINVAL, "this is not the state of a loader");
}

enum hr_status hr__loader_resume(struct hr__loader *l,
                                 const struct hr_loader_state *bytes)
{
    struct state was, now;
    uint32_t part;

    memcpy(&was, bytes->bytes, sizeof(was));
    if (memcmp(was.magic, magic, sizeof(magic)) ||
        le64toh(was.sum) != sum_of(&was))
        return no_state();
    fill_state(l, hr_source_identity(l->params.source), &now);
    if (was.source != now.source)
        return differs("source");
    if (was.seed != now.seed)
        return differs("seed");
    if (was.total != now.total)
        return differs("number of samples");
    if (was.weights != now.weights)
        return differs("list of weights");
    if (was.shards != now.shards || was.shard != now.shard)
        return differs("shard");
    part = le32toh(was.flags) >> FLAGS;
    if ((le32toh(was.flags) ^ le32toh(now.flags)) & ((1u << FLAGS) - 1))
        return differs("shuffle or shard_drop");
    if (was.window != now.window)
        return differs("shuffle_buffer");
    if (was.delivered && was.batch != now.batch)
        return differs("batch, and batches came as ready");
    // (The oldest batch is one that was not delivered.)
    if (le64toh(was.delivered) & 1 || part >= le32toh(was.batch))
        return no_state();
    l->saved.epoch = le64toh(was.epoch);
    l->saved.k = le64toh(was.k) + part;
    l->resumed = l->saved;
    if (part && was.batch == now.batch)
        l->rest = (uint64_t)l->pub.batch - part;
    l->plan = l->saved;
    l->skip = l->delivered = le64toh(was.delivered);
    return HR_OK;
}
