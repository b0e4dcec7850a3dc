// SPDX-License-Identifier: Apache-2.0
// keep.h: packed on the device, read back behind the batches, given to caches.
#include "backends/opencl/keep.h"

#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "kernels/plan.h"

// Bytes per second of packed pictures: a twelfth of what PCIe 4.0 carries with
// 16 lanes, and 11,000 pictures of ImageNet. What is left over in a while may
// come at once.
#define RATE INT64_C(2000000000)
#define BURST ((int64_t)64 << 20)
// A command of reading: others use the bus in between.
#define CHUNK ((size_t)1 << 20)
enum { MOST_STRIKES = 3 };

_Static_assert((int)HR__PACK_HEAD == (int)HR__PACKED_HEAD &&
                   (int)HR__PACK_PAD == (int)HR__PACKED_PAD,
               "head and padding of kernels and HAL are the same");

enum hr_status ocl_keep_wanted(int64_t *rate)
{
    const char *text = secure_getenv("HEADRACE_OPENCL_KEEP");
    char *end = NULL;
    long mb;

    *rate = RATE;
    if (!text || !*text)
        return HR_OK;
    mb = strtol(text, &end, 10);
    if (*end || mb < 0 || mb > 1000000)
        return hr__fail(HR_EINVAL,
                        "HEADRACE_OPENCL_KEEP is '%.32s', not MB per second",
                        text);
    *rate = mb * INT64_C(1000000);
    return HR_OK;
}

bool ocl_keep_on(const struct ocl *o)
{
    return o->keeps && atomic_load(&o->keeps->strikes) < MOST_STRIKES;
}

// ---- Slots -----------------------------------------------------------------

// Locked
static struct ocl_keep *find(const struct ocl *o, enum ocl_keep_state state)
{
    for (int i = 0; o->keeps && i < OCL_KEEPS; i++)
        if (o->keeps->slots[i].state == state)
            return &o->keeps->slots[i];
    return NULL;
}

bool ocl_keep_waits(const struct ocl *o)
{
    return find(o, OCL_KEEP_PACKED);
}

bool ocl_keep_idle(const struct ocl *o)
{
    for (int i = 0; o->keeps && i < OCL_KEEPS; i++)
        if (o->keeps->slots[i].state != OCL_KEEP_FREE)
            return false;
    return true;
}

static void set_state(struct ocl *o, struct ocl_keep *keep,
                      enum ocl_keep_state state)
{
    pthread_mutex_lock(&o->guard.lock);
    keep->state = state;
    pthread_cond_signal(&o->guard.lanes[0].wake);
    pthread_mutex_unlock(&o->guard.lock);
}

// The lock is not held. (A driver thread that was left behind may do the same.)
static void drop_pictures(struct ocl *o, struct ocl_keep *keep)
{
    struct hr__later gone[OCL_BATCH];
    int n = 0;

    pthread_mutex_lock(&o->guard.lock);
    for (int i = 0; i < OCL_BATCH; i++)
        if (keep->pictures[i].later.cache) {
            gone[n++] = keep->pictures[i].later;
            keep->pictures[i].later.cache = NULL;
        }
    pthread_mutex_unlock(&o->guard.lock);
    while (n)
        hr__later_drop(&gone[--n]);
}

// Whoever has the slot gives it up.
static void give_up(struct ocl *o, struct ocl_keep *keep)
{
    drop_pictures(o, keep);
    set_state(o, keep, OCL_KEEP_FREE);
}

void ocl_keep_drop(struct ocl *o, struct ocl_batch *batch)
{
    if (batch->keep)
        give_up(o, batch->keep);
    batch->keep = NULL;
}

// Something has failed that a sample does not need.
static void strike(struct ocl *o, const char *text)
{
    int n = atomic_fetch_add(&o->keeps->strikes, 1) + 1;

    hr__guard_log(&o->guard, HR_LOG_WARN, "pictures are not kept%s: %s",
                  n == MOST_STRIKES ? ", from now on the host packs them" : "",
                  text);
}

// ---- The keeper ------------------------------------------------------------

static void keep_pictures(struct ocl *o, struct ocl_keep *keep)
{
    const uint8_t *bytes = keep->host.host;
    bool ok = keep->result == CL_COMPLETE;

    for (int i = 0; i < keep->num_pictures; i++) {
        struct ocl_kept *k = &keep->pictures[i];

        if (ok && k->size &&
            hr__later_keep(&k->later, &k->facts, bytes + k->at, k->size))
            atomic_fetch_add(&o->keeps->kept, 1);
    }
    // Those that are not there.
    drop_pictures(o, keep);
    if (ok)
        atomic_store(&o->keeps->strikes, 0);
    else
        strike(o, "reading failed");
}

static void *run_keeper(void *owner)
{
    struct ocl *o = owner;
    struct ocl_keep *keep;

    pthread_mutex_lock(&o->guard.lock);
    while ((keep = find(o, OCL_KEEP_THERE)) || !o->keeps->stop) {
        if (!keep) {
            pthread_cond_wait(&o->keeps->wake, &o->guard.lock);
            continue;
        }
        pthread_mutex_unlock(&o->guard.lock);
        keep_pictures(o, keep);
        set_state(o, keep, OCL_KEEP_FREE);
        pthread_mutex_lock(&o->guard.lock);
    }
    pthread_mutex_unlock(&o->guard.lock);
    return NULL;
}

bool ocl_keep_init(struct ocl *o)
{
    struct ocl_keeps *keeps;

    if (!o->keep_rate)
        return true;
    if (!(keeps = hr__engine_ref_alloc(&o->guard.ref, sizeof(*keeps))))
        return false;
    memset(keeps, 0, sizeof(*keeps));
    keeps->rate = o->keep_rate;
    hr__cond_init(&keeps->wake);
    for (int i = 0; i < OCL_KEEPS; i++)
        keeps->slots[i].o = o;
    o->keeps = keeps;
    return true;
}

void ocl_keep_finish(struct ocl *o, bool free)
{
    struct ocl_keeps *keeps = o->keeps;

    if (!keeps)
        return;
    pthread_mutex_lock(&o->guard.lock);
    keeps->stop = true;
    pthread_cond_signal(&keeps->wake);
    pthread_mutex_unlock(&o->guard.lock);
    if (keeps->started)
        pthread_join(keeps->keeper, NULL);
    for (int i = 0; i < OCL_KEEPS; i++)
        drop_pictures(o, &keeps->slots[i]);
    if (free) {
        pthread_cond_destroy(&keeps->wake);
        hr__free(keeps);
        o->keeps = NULL;
    }
}

// ---- Planning --------------------------------------------------------------

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
        pack->row_lines += s->comp[i].v;
    }
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
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->num_components; i++)
        n += (uint64_t)ocl_scan_mcus(s) * s->comp[i].h * s->comp[i].v;
    return n;
}

static uint64_t all_lines(const struct ocl_scan *s)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->num_components; i++)
        n += (uint64_t)s->mcus_h * s->comp[i].v;
    return n;
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
                const struct ocl_scan *s, const struct hr_info *info)
{
    struct ocl_kept *k = &keep->pictures[keep->num_pictures];
    struct ocl_plan *plan = &o->plan, before = *plan;
    struct hr__kernel_picture *p;
    const struct hr__kernel_picture *of;
    uint64_t room = hr__kernel_round(keep->room + ocl_keep_room(s),
                                     HR__PACK_ALIGN);

    if (all_blocks(s) > UINT32_MAX / 256 || room > o->buffer_bytes ||
        room > UINT32_MAX / (OCL_BATCH + 1))
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
        // (What was added to its data may stay.)
        plan->work = before.work;
        plan->flags = before.flags;
        plan->groups = before.groups;
        return false;
    }
    describe(&k->facts, s, info);
    keep->room = (size_t)room;
    keep->num_pictures++;
    return true;
}

static struct ocl_keep *take_slot(struct ocl *o)
{
    struct ocl_keep *keep;

    pthread_mutex_lock(&o->guard.lock);
    if ((keep = find(o, OCL_KEEP_FREE)))
        keep->state = OCL_KEEP_PACKING;
    pthread_mutex_unlock(&o->guard.lock);
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

static bool start_keeper(struct ocl *o)
{
    struct ocl_keeps *keeps = o->keeps;

    if (!keeps->started &&
        !(keeps->started = hr__thread_start(&keeps->keeper, run_keeper, o)))
        atomic_store(&keeps->strikes, MOST_STRIKES);
    return keeps->started;
}

// Whether a cache wants it; then later says which.
static bool is_wanted(struct ocl_item *item, struct hr_info *info,
                      struct hr__later *later)
{
    struct hr__task *task = item->task;
    bool wanted;

    if (!hr__task_claim(task))
        return false;
    wanted = task->pic->keep &&
             hr__task_keep_later(task, item->file->scan.size, later);
    *info = task->pic->info;
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
        struct hr_info info;

        if (!is_allowed(keeps) || !is_wanted(item, &info, &later))
            continue;
        if (start_keeper(o) && (keep || (keep = take_slot(o))) &&
            add(o, keep, i, &item->file->scan, &info)) {
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
    if (o->keeps && (batch->keep = take_slot(o)))
        add(o, batch->keep, 0, &batch->items[0].file->scan, &pic->info);
}

// ---- Buffers ---------------------------------------------------------------

void ocl_keep_grow(struct ocl *o, struct ocl_batch *batch)
{
    struct ocl_keep *keep = batch->keep;
    struct ocl_fault fault = {0};

    if (!keep || (keep->num_pictures &&
                  ocl_buffer_grow(o, &keep->packed, keep->room, false, &fault)))
        return;
    ocl_keep_drop(o, batch);
    if (fault.why)
        strike(o, fault.text);
}

bool ocl_keep_open(struct ocl *o, struct ocl_fault *fault)
{
    static const char *const names[HR__NUM_PACK_KERNELS] = {
#define X(name, text) [HR__PACK_##name] = text,
        HR__PACK_KERNELS(X)
#undef X
    };
    struct ocl_keeps *keeps = o->keeps;
    cl_int err;

    if (!keeps)
        return true;
    keeps->queue = o->api.clCreateCommandQueue(o->context, o->facts.device, 0,
                                               &err);
    if (ocl_failed(fault, err, "clCreateCommandQueue")) {
        keeps->queue = NULL;
        return false;
    }
    for (int i = 0; i < HR__NUM_PACK_KERNELS; i++) {
        keeps->kernels[i] = o->api.clCreateKernel(o->program, names[i], &err);
        if (ocl_failed(fault, err, "clCreateKernel")) {
            keeps->kernels[i] = NULL;
            return false;
        }
    }
    return true;
}

void ocl_keep_close(struct ocl *o)
{
    struct ocl_keeps *keeps = o->keeps;

    if (!keeps)
        return;
    for (int i = 0; i < OCL_KEEPS; i++) {
        ocl_buffer_drop(o, &keeps->slots[i].packed);
        ocl_buffer_drop(o, &keeps->slots[i].host);
    }
    for (int i = 0; i < HR__NUM_PACK_KERNELS; i++) {
        if (keeps->kernels[i])
            o->api.clReleaseKernel(keeps->kernels[i]);
        keeps->kernels[i] = NULL;
    }
    if (keeps->queue)
        o->api.clReleaseCommandQueue(keeps->queue);
    keeps->queue = NULL;
}

void ocl_keep_forget(struct ocl *o)
{
    for (int i = 0; o->keeps && i < OCL_KEEPS; i++) {
        struct ocl_keep *keep = &o->keeps->slots[i];
        bool ours;

        pthread_mutex_lock(&o->guard.lock);
        ours = keep->state == OCL_KEEP_FREE || keep->state == OCL_KEEP_PACKING;
        pthread_mutex_unlock(&o->guard.lock);
        if (ours)
            keep->packed = keep->host = (struct ocl_buffer){0};
    }
}

// ---- Commands --------------------------------------------------------------

// Kernels of stage entropy among those of packing.
static const struct {
    bool pack;
    int kernel;
} launches[OCL_KEEP_LAUNCHES] = {
    {true, HR__PACK_CLEAR},   {false, HR__KERNEL_WRITE}, {false, HR__KERNEL_DC},
    {true, HR__PACK_MEASURE}, {true, HR__PACK_PLACE},    {true, HR__PACK_WRITE},
};

static uint32_t groups(const struct hr__kernel_picture *p,
                       const struct hr__pack *pack, int launch)
{
    int kernel = launches[launch].kernel;

    if (!launches[launch].pack)
        return hr__kernel_groups(p, kernel);
    if (kernel == HR__PACK_CLEAR)
        return (p->num_coefs + HR__GROUP - 1) / HR__GROUP;
    return kernel == HR__PACK_PLACE ? 1 : pack->segments;
}

// What the kernels are told of a picture. False: the device does not decode it.
static bool tell(struct ocl *o, struct ocl_batch *batch, struct ocl_kept *k,
                 bool first)
{
    const struct ocl_item *item = &batch->items[k->item];
    const struct hr__entropy *e = &item->file->entropy;
    struct hr__kernel_picture *of = ocl_plan_picture(&o->plan, k->item);
    struct hr__kernel_picture *p = ocl_plan_picture(&o->plan, k->picture);
    struct hr__entropy *scan = &k->pack.scan;
    uint32_t at = (uint32_t)ocl_entropy_pack_at();

    if (item->dropped || item->why)
        return false;
    for (uint32_t i = 0; i < e->num_components; i++) {
        struct hr__entropy_component all = scan->comp[i];

        scan->comp[i] = e->comp[i];
        scan->comp[i].block_x = scan->comp[i].block_y = 0;
        scan->comp[i].blocks_w = all.blocks_w;
        scan->comp[i].blocks_h = all.blocks_h;
        scan->comp[i].coefs = all.coefs;
    }
    memcpy(scan, e, offsetof(struct hr__entropy, comp));
    scan->scan -= at;
    scan->intervals -= at;
    scan->codes -= at;
    k->table_at += ocl_plan_flags(&o->plan);
    k->pack.table = (hr__word)k->table_at;
    k->pack.cursor = (hr__word)batch->keep->cursor_at;
    k->pack.room = (hr__word)batch->keep->room;
    k->pack.first = first;
    p->entropy = of->entropy + at;
    p->num_subs = of->num_subs;
    p->num_intervals = of->num_intervals;
    memcpy((uint8_t *)batch->up.host + p->entropy, &k->pack, sizeof(k->pack));
    return true;
}

void ocl_keep_fill(struct ocl *o, struct ocl_batch *batch)
{
    uint32_t *words = batch->up.host;
    uint32_t *end = words + batch->lists[OCL_LAUNCHES];
    struct ocl_keep *keep = batch->keep;
    bool told[OCL_BATCH], first = true;

    if (!keep)
        return;
    keep->cursor_at += ocl_plan_flags(&o->plan);
    for (int i = 0; i < keep->num_pictures; i++) {
        told[i] = tell(o, batch, &keep->pictures[i], first);
        first &= !told[i];
    }
    for (int s = 0; s < OCL_KEEP_LAUNCHES; s++) {
        uint32_t *list = end;

        batch->keep_lists[s] = (uint32_t)(list - words);
        for (int i = 0; i < keep->num_pictures; i++) {
            const struct ocl_kept *k = &keep->pictures[i];

            if (told[i])
                end = hr__kernel_list(end, (uint32_t)k->picture,
                                      groups(ocl_plan_picture(&o->plan,
                                                              k->picture),
                                             &k->pack, s));
        }
        end = hr__kernel_pad(list, end);
    }
    batch->keep_lists[OCL_KEEP_LAUNCHES] = (uint32_t)(end - words);
    if (first)
        ocl_keep_drop(o, batch);
}

static bool set_args(struct ocl *o, struct ocl_batch *batch, cl_kernel k,
                     cl_uint list, bool pack, struct ocl_fault *fault)
{
    bool unified = o->facts.unified;
    cl_mem in = unified ? batch->up.mem : batch->in.mem;
    cl_mem out = unified ? batch->down.mem : batch->out.mem;
    const cl_mem mem[] = {in, o->planes.mem, out, batch->keep->packed.mem};
    cl_int err = o->api.clSetKernelArg(k, HR__ARG_PLAN, sizeof(in), &in);

    if (!err)
        err = o->api.clSetKernelArg(k, HR__ARG_LIST, sizeof(list), &list);
    for (cl_uint i = 0; i < (pack ? 4 : 3) && !err; i++)
        err = o->api.clSetKernelArg(k, HR__ARG_FIRST_BUFFER + i, sizeof(cl_mem),
                                    &mem[i]);
    return !ocl_failed(fault, err, "clSetKernelArg");
}

bool ocl_keep_launch(struct ocl *o, struct ocl_batch *batch, cl_event *last,
                     struct ocl_fault *fault)
{
    static const size_t local[2] = {HR__GROUP, 1};
    const uint32_t *lists = batch->keep_lists;

    for (int s = 0; batch->keep && s < OCL_KEEP_LAUNCHES; s++) {
        size_t global[2], n = (lists[s + 1] - lists[s]) / 2;
        cl_kernel k = launches[s].pack ? o->keeps->kernels[launches[s].kernel]
                                       : o->kernels[launches[s].kernel];
        cl_int err;

        global[1] = hr__kernel_rows(n, &global[0]);
        global[0] *= HR__GROUP;
        if (!set_args(o, batch, k, lists[s], launches[s].pack, fault))
            return false;
        err = o->api.clEnqueueNDRangeKernel(o->queues[OCL_COMPUTE], k, 2, NULL,
                                            global, local, 0, NULL,
                                            s == OCL_KEEP_LAUNCHES - 1 ? last
                                                                       : NULL);
        if (ocl_failed(fault, err, "clEnqueueNDRangeKernel"))
            return false;
        atomic_fetch_add(&o->launches, 1);
    }
    return true;
}

// ---- On their way ----------------------------------------------------------

void ocl_keep_done(struct ocl *o, struct ocl_batch *batch, bool ok)
{
    struct ocl_keep *keep = batch->keep;
    const uint8_t *down = batch->down.host;

    batch->keep = NULL;
    if (!keep)
        return;
    keep->bytes = 0;
    for (int i = 0; i < keep->num_pictures && ok; i++) {
        struct ocl_kept *k = &keep->pictures[i];
        hr__word table[2] = {0};

        if (k->pack.room)
            memcpy(table, down + k->table_at, sizeof(table));
        // (It is the device that says so.)
        if (table[0] % HR__PACK_ALIGN || table[0] > keep->room ||
            table[1] > keep->room - table[0])
            table[1] = 0;
        k->at = table[0];
        k->size = table[1];
        if (k->size && keep->bytes < (size_t)k->at + k->size)
            keep->bytes = (size_t)k->at + k->size;
    }
    if (!keep->bytes)
        give_up(o, keep);
    else
        set_state(o, keep, OCL_KEEP_PACKED);
}

static void CL_CALLBACK on_read(cl_event event, cl_int result, void *arg)
{
    struct ocl_keep *keep = arg;
    struct ocl *o = keep->o;

    (void)event;
    pthread_mutex_lock(&o->guard.lock);
    keep->result = result;
    keep->state = OCL_KEEP_THERE;
    pthread_cond_signal(&o->keeps->wake);
    pthread_mutex_unlock(&o->guard.lock);
}

static bool enqueue_reads(struct ocl *o, struct ocl_keep *keep, cl_event *done,
                          struct ocl_fault *fault)
{
    for (size_t at = 0; at < keep->bytes; at += CHUNK) {
        size_t left = keep->bytes - at;
        cl_int err = o->api.clEnqueueReadBuffer(
            o->keeps->queue, keep->packed.mem, CL_FALSE, at,
            left < CHUNK ? left : CHUNK, (uint8_t *)keep->host.host + at, 0,
            NULL, left <= CHUNK ? done : NULL);

        if (ocl_failed(fault, err, "clEnqueueReadBuffer"))
            return false;
    }
    return true;
}

// Nothing of it may come any more; else its memory is left behind.
static void stop_reads(struct ocl *o, struct ocl_keep *keep)
{
    if (!o->api.clFinish(o->keeps->queue))
        return;
    keep->packed = keep->host = (struct ocl_buffer){0};
    pthread_mutex_lock(&o->guard.lock);
    o->guard.lost = true;
    pthread_mutex_unlock(&o->guard.lock);
}

// After true the slot must not be touched.
static bool read_back(struct ocl *o, struct ocl_keep *keep,
                      struct ocl_fault *fault)
{
    cl_event done = NULL;
    bool ok;

    if (!ocl_buffer_grow(o, &keep->host, keep->bytes, true, fault))
        return false;
    // (Once it is sent others count on what is counted.)
    ocl_times_moved(o, 0, keep->bytes);
    ok = enqueue_reads(o, keep, &done, fault) &&
         !ocl_failed(
             fault, o->api.clSetEventCallback(done, CL_COMPLETE, on_read, keep),
             "clSetEventCallback");
    if (ok)
        o->api.clFlush(o->keeps->queue);
    else
        stop_reads(o, keep);
    ocl_event_release(o, &done);
    return ok;
}

void ocl_keep_read(struct ocl *o)
{
    struct ocl_fault fault = {0};
    struct ocl_keep *keep;
    bool lost, ok = false;

    pthread_mutex_lock(&o->guard.lock);
    if ((keep = find(o, OCL_KEEP_PACKED)))
        keep->state = OCL_KEEP_READING;
    lost = o->guard.lost;
    pthread_mutex_unlock(&o->guard.lock);
    if (!keep)
        return;
    for (int i = 0; i < keep->num_pictures; i++)
        o->keeps->allowance += (int64_t)keep->pictures[i].guess -
                               (int64_t)keep->pictures[i].size;
    if (!lost) {
        ocl_enter(o);
        ok = read_back(o, keep, &fault);
        ocl_leave(o);
    }
    if (ok)
        return;
    give_up(o, keep);
    if (!lost)
        strike(o, fault.text);
}
