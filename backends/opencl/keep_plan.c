// SPDX-License-Identifier: Apache-2.0
// Which pictures of a batch are kept, and what the kernels that pack them are
// told of memory.
#include <string.h>

#include "backends/opencl/keep.h"
#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

// What is left over of the bytes per second in a while may come at once.
#define BURST ((int64_t)64 << 20)

_Static_assert((int)HR__PACK_HEAD == (int)HR__PACKED_HEAD &&
                   (int)HR__PACK_PAD == (int)HR__PACKED_PAD,
               "head and padding of kernels and HAL are the same");

// As hr__pack.scan says it: of all blocks.
static uint32_t plan_blocks(struct ocl_plan *plan, struct ocl_kept *k,
                            const struct ocl_scan *s)
{
    struct hr__pack *pack = &k->pack;
    uint32_t blocks = 0, at;

    plan->work = hr__kernel_round(plan->work, OCL_ALIGN);
    at = (uint32_t)plan->work;
    for (uint32_t i = 0; i < s->num_components; i++) {
        struct hr__entropy_component *c = &pack->scan.comp[i];

        c->blocks_w = s->mcus_w * s->comp[i].h;
        c->blocks_h = s->mcus_h * s->comp[i].v;
        c->coefs = at + blocks * 64 * (uint32_t)sizeof(int16_t);
        blocks += c->blocks_w * c->blocks_h;
    }
    pack->row_lines = s->mcu_lines;
    pack->segments = pack->row_lines * s->mcus_h;
    pack->head = HR__PACK_HEAD + (pack->segments + 1) * 4;
    plan->work += blocks * (uint64_t)(64 * sizeof(int16_t));
    pack->facts = (uint32_t)plan->work;
    plan->work += hr__kernel_round(blocks * UINT64_C(4), OCL_ALIGN);
    pack->lines = (uint32_t)plan->work;
    plan->work += hr__kernel_round(pack->segments * UINT64_C(8), OCL_ALIGN);
    return blocks;
}

static void describe(struct hr__packed_facts *f, const struct ocl_scan *s,
                     const struct hr_info *info)
{
    *f = (struct hr__packed_facts){.width = (uint32_t)info->width,
                                   .height = (uint32_t)info->height,
                                   .orientation = (uint32_t)info->orientation,
                                   .num_components = s->num_components,
                                   .color = info->color};
    for (uint32_t i = 0; i < s->num_components; i++) {
        f->h[i] = s->comp[i].h;
        f->v[i] = s->comp[i].v;
        ocl_scan_quant(s, i, f->quant[i]);
    }
}

// Of the kernels for one picture; each list may be completed.
static uint32_t groups_of(const struct hr__kernel_picture *p,
                          const struct hr__pack *pack)
{
    return hr__kernel_groups(p, HR__KERNEL_WRITE) +
           hr__kernel_groups(p, HR__KERNEL_DC) + p->num_coefs / HR__GROUP + 1 +
           2 * pack->segments + 1 + OCL_KEEP_LAUNCHES;
}

// Blocks of a picture, in 64 bits: it may be larger than any buffer.
static uint64_t all_blocks(const struct ocl_scan *s)
{
    return (uint64_t)ocl_scan_mcus(s) * s->mcu_blocks;
}

static uint64_t all_lines(const struct ocl_scan *s)
{
    return (uint64_t)s->mcus_h * s->mcu_lines;
}

uint64_t ocl_keep_work(const struct ocl_scan *s)
{
    return all_blocks(s) * (64 * sizeof(int16_t) + 4) + all_lines(s) * 8 +
           4 * OCL_ALIGN;
}

// A coefficient that is not 0 takes 12 bits at most where its code takes 3 or
// more: few pictures take three times their scan, most half as much again.
uint64_t ocl_keep_room(const struct ocl_scan *s)
{
    return 3 * (uint64_t)s->size + 6 * all_blocks(s) + 4 * (all_lines(s) + 1) +
           HR__PACK_HEAD + HR__PACK_PAD + HR__PACK_ALIGN;
}

void ocl_keep_ask(struct ocl *o, const struct ocl_scan *s)
{
    if (!ocl_keep_on(o))
        return;
    o->plan.keep_work += ocl_keep_work(s);
    o->plan.keep_room += ocl_keep_room(s);
}

static bool add(struct ocl *o, struct ocl_keep *keep, int item,
                const struct ocl_scan *s, const struct hr__packed_facts *facts)
{
    struct ocl_kept *k = &keep->pictures[keep->num_pictures];
    struct ocl_plan *plan = &o->plan, before = *plan;
    struct hr__kernel_picture *p;
    const struct hr__kernel_picture *of;
    uint64_t room = hr__kernel_round(keep->room + ocl_keep_room(s),
                                     HR__PACK_ALIGN);

    // (The cursor along the room has 32 bits.)
    if (all_blocks(s) > UINT32_MAX / 256 || room > o->buffer_bytes ||
        room > UINT32_MAX / 2)
        return false;
    *k = (struct ocl_kept){.item = item, .guess = s->size + s->size / 2};
    if (!ocl_plan_more(plan, &k->picture))
        return false;
    p = ocl_plan_picture(plan, k->picture);
    of = ocl_plan_picture(plan, item);
    *p = (struct hr__kernel_picture){.num_subs = of->num_subs,
                                     .num_intervals = of->num_intervals};
    p->num_coefs = plan_blocks(plan, k, s);
    p->coefs = k->pack.scan.comp[0].coefs;
    k->table_at = (size_t)plan->flags;
    plan->flags += 2 * sizeof(hr__word);
    plan->groups += groups_of(p, &k->pack);
    if (!ocl_fits(o, plan)) {
        ocl_plan_return(plan, &before);
        return false;
    }
    k->facts = *facts;
    keep->room = (size_t)room;
    keep->num_pictures++;
    return true;
}

static struct ocl_keep *begin(struct ocl *o)
{
    struct ocl_keep *keep = ocl_keep_take(o);

    if (keep) {
        keep->num_pictures = 0;
        keep->room = 0;
        keep->cursor_at = (size_t)o->plan.flags;
        o->plan.flags += 2 * sizeof(hr__word);
    }
    return keep;
}

// Of the bytes per second.
static bool is_allowed(struct ocl_keeps *keeps)
{
    int64_t now = hr__now(), most = BURST, passed = now - keeps->since;

    passed = passed < 1000000000 ? passed : 1000000000;
    keeps->since = now;
    keeps->allowance += (int64_t)((double)keeps->rate * 1e-9 * (double)passed);
    if (keeps->allowance > most)
        keeps->allowance = most;
    return keeps->allowance > 0;
}

// Whether a cache wants it; then later says which. (The quantizers lie in the
// file, which nobody keeps for us after that.)
static bool is_wanted(struct ocl_item *item, struct hr__packed_facts *facts,
                      struct hr__later *later)
{
    struct hr__task *task = item->task;
    bool wanted;

    if (!hr__task_claim(task))
        return false;
    wanted = task->pic->keep &&
             hr__task_keep_later(task, item->file->scan.size, later);
    if (wanted)
        describe(facts, &item->file->scan, &task->pic->info);
    hr__task_unclaim(task);
    return wanted;
}

void ocl_keep_plan(struct ocl *o, struct ocl_batch *batch)
{
    struct ocl_keeps *keeps = o->keeps;
    struct ocl_keep *keep = NULL;

    o->plan.keep_work = o->plan.keep_room = 0;
    if (!ocl_keep_on(o) || batch->items[0].task->span.first != HR_ENTROPY)
        return;
    for (int i = 0; i < batch->num_items; i++) {
        struct ocl_item *item = &batch->items[i];
        struct hr__later later;
        struct hr__packed_facts facts;

        if (!is_allowed(keeps) || !is_wanted(item, &facts, &later))
            continue;
        if (ocl_keep_start(o) && (keep || (keep = begin(o))) &&
            add(o, keep, i, &item->file->scan, &facts)) {
            struct ocl_kept *k = &keep->pictures[keep->num_pictures - 1];

            pthread_mutex_lock(&o->guard.lock);
            k->later = later;
            pthread_mutex_unlock(&o->guard.lock);
            keeps->allowance -= (int64_t)k->guess;
        } else {
            hr__later_drop(&later);
        }
    }
    batch->keep = keep;
}

void ocl_keep_made_up(struct ocl *o, struct ocl_batch *batch,
                      const struct hr__picture *pic)
{
    const struct ocl_scan *s = &batch->items[0].file->scan;
    struct hr__packed_facts facts;

    describe(&facts, s, &pic->info);
    if (ocl_keep_on(o) && (batch->keep = begin(o)))
        add(o, batch->keep, 0, s, &facts);
}
