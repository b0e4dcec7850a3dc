// SPDX-License-Identifier: Apache-2.0
// Submitting: check, admit, copy, take turns, hand over. Nothing here waits
// for an engine; everything the job needs lies in one block of the pool.
#include <string.h>

#include "hal/job/cache_fill.h"
#include "hal/job/report.h"
#include "hal/job/work.h"

// ---- Checking ---------------------------------------------------------------

// Host memory goes with every device, that of an engine with its own.
static bool goes_with(const struct hr__device *its,
                      const struct hr__memory *memory, int i,
                      const struct hr__device *dev)
{
    if (its == dev)
        return true;
    if (hr__device_forked(its))
        return hr__fail(HR_EFORK, "sample %d: memory made before fork", i),
               false;
    if (memory)
        return hr__fail(HR_EINVAL, "sample %d: memory of another device (%s)",
                        i, its->pub.name),
               false;
    return true;
}

// An image that another device still uses is waited for, and then a device goes
// on in its own threads.
static bool image_goes_with(const struct hr__image *image, int i,
                            const struct hr__device *dev)
{
    if (!goes_with(image->dev, image->device, i, dev))
        return false;
    if (image->dev == dev || dev->pub.params.threads != HR_THREADS_NONE)
        return true;
    return hr__fail(HR_EINVAL,
                    "sample %d: an image of another device (%s), and this one "
                    "has no threads",
                    i, image->dev->pub.name),
           false;
}

// Says whether sample i has a destination that it may write.
static bool check_dst(const struct hr_sample *s, int i, struct hr__device *dev,
                      const struct hr__batch *batch,
                      const struct hr_job_params *params)
{
    const struct hr__image *out = (const struct hr__image *)s->out;
    int64_t slot = (int64_t)params->first_slot + i;

    if (out)
        return image_goes_with(out, i, dev);
    if (!batch || slot < 0 || slot >= batch->pub.params.n)
        return hr__fail(HR_EINVAL,
                        "sample %d: no destination (slot %lld of %d)", i,
                        (long long)slot, batch ? batch->pub.params.n : 0),
               false;
    return goes_with(batch->dev, batch->device, i, dev);
}

// The destination of a sample that has one, but for where it lies.
static struct hr__dst form_of(const struct hr_sample *s,
                              const struct hr__batch *batch)
{
    return s->out ? HR__DST_OF(&s->out->params)
                  : HR__DST_OF(&batch->pub.params);
}

// Finds the destination of sample i.
static void find_dst(const struct hr_sample *s, int i,
                     const struct hr__batch *batch,
                     const struct hr_job_params *params, struct hr__dst *dst)
{
    *dst = form_of(s, batch);
    if (s->out) {
        dst->memory = ((const struct hr__image *)s->out)->device;
        return;
    }
    dst->memory = batch->device;
    dst->at = batch->pub.params.stride_n * (size_t)(params->first_slot + i);
    if (dst->data)
        dst->data += dst->at;
}

static bool check_sample(const struct hr_sample *s, int i,
                         struct hr__device *dev)
{
    const struct hr__image *image = (const struct hr__image *)s->image;
    int sources = !!s->data + !!s->path + !!s->image;
    char text[128];

    if (sources != 1)
        return hr__fail(HR_EINVAL,
                        "sample %d: %d sources, must be one of "
                        "data, path, image",
                        i, sources),
               false;
    if (hr__ops_check(s->ops, s->num_ops, image ? s->image->params.c : 0, text))
        return hr__fail(HR_EINVAL, "sample %d: %s", i, text), false;
    if (!image)
        return true;
    if (!image_goes_with(image, i, dev))
        return false;
    if (s->image->params.dtype != HR_U8)
        return hr__fail(HR_EINVAL, "sample %d: source images must be u8", i),
               false;
    if (s->image == s->out)
        return hr__fail(HR_EINVAL,
                        "sample %d: source and destination are the "
                        "same image",
                        i),
               false;
    return true;
}

// ---- The block --------------------------------------------------------------

static size_t round64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static const struct hr_normalize *normalize_of(const struct hr_sample *s)
{
    return hr__ops_normalize(s->ops, s->num_ops);
}

// Ops that stand at the same place are copied once; so are equal tables.
static bool same_ops(const struct hr_sample *a, const struct hr_sample *b)
{
    return a->ops == b->ops && a->num_ops == b->num_ops;
}

static bool same_normalize(const struct hr_normalize *a,
                           const struct hr_normalize *b)
{
    if (!a || !b)
        return a == b;
    return a->arith == b->arith && a->table == b->table &&
           !memcmp(a->mean, b->mean, sizeof(a->mean)) &&
           !memcmp(a->std, b->std, sizeof(a->std));
}

// A table with the values, and, where these may be codes, one without.
static int tables_of(const struct hr_sample *s, struct hr__values *values)
{
    return hr__ops_values(s->ops, s->num_ops, values) &&
                   hr__ops_augments(s->ops, s->num_ops)
               ? 2
               : 1;
}

static bool same_values(const struct hr_sample *a, const struct hr_sample *b)
{
    struct hr__values va, vb;
    bool in_a, in_b;

    if (same_ops(a, b))
        return true;
    in_a = hr__ops_values(a->ops, a->num_ops, &va);
    in_b = hr__ops_values(b->ops, b->num_ops, &vb);
    return in_a == in_b && (!in_a || !memcmp(&va, &vb, sizeof(va))) &&
           tables_of(a, &va) == tables_of(b, &vb);
}

static bool same_table(const struct hr_sample *a, const struct hr_sample *b,
                       const struct hr__batch *batch)
{
    struct hr__dst fa = form_of(a, batch), fb = form_of(b, batch);

    return fa.dtype == fb.dtype && fa.c == fb.c &&
           same_normalize(normalize_of(a), normalize_of(b)) &&
           same_values(a, b);
}

struct sizes {
    size_t ops, text, tables, augments, bytes;  // bytes: that the job will hold
    size_t total;
};

static bool measure(struct sizes *z, const struct hr_sample *s, int n,
                    struct hr__device *dev, const struct hr__batch *batch,
                    const struct hr_job_params *params)
{
    struct hr__dst dst;
    struct hr__values values;
    size_t augments = 0;
    const char *lost;

    *z = (struct sizes){0};
    for (int i = 0; i < n; i++) {
        if (!check_sample(&s[i], i, dev) ||
            !check_dst(&s[i], i, dev, batch, params))
            return false;
        dst = form_of(&s[i], batch);
        lost = hr__ops_lost(s[i].ops, s[i].num_ops, dst.dtype);
        if (lost)
            return hr__fail(HR_EINVAL, "sample %d: %s", i, lost), false;
        if (!i || !same_ops(&s[i], &s[i - 1]))
            z->ops += sizeof(struct hr_op) * (size_t)s[i].num_ops;
        if (!i || !same_table(&s[i], &s[i - 1], batch))
            z->tables += (size_t)tables_of(&s[i], &values);
        if (!i || !same_ops(&s[i], &s[i - 1]))
            augments = (size_t)hr__ops_augments(s[i].ops, s[i].num_ops);
        z->augments += augments;
        z->text += s[i].path ? strlen(s[i].path) + 1 : 0;
        z->text += s[i].name ? strlen(s[i].name) + 1 : 0;
        z->bytes += (size_t)dst.w * (size_t)dst.h * (size_t)dst.c *
                    hr_dtype_size(dst.dtype);
        if (!i || s[i].data != s[i - 1].data)
            z->bytes += s[i].size;
        // It may have to come to the host.
        if (s[i].image && !s[i].image->params.data)
            z->bytes += s[i].image->size;
    }
    z->total = hr__job_size(n) + round64(sizeof(struct hr__table) * z->tables) +
               round64(sizeof(struct hr__augment) * z->augments) +
               round64(z->ops) + round64(z->text);
    z->bytes += z->total;
    return true;
}

// ---- Filling it -------------------------------------------------------------

struct fill {
    struct hr__augment *augments;
    struct hr_op *ops;
    char *text;
    int tables;
};

const char *hr__copy_text(char **to, const char *text)
{
    char *copy = *to;

    if (!text)
        return NULL;
    *to += strlen(text) + 1;
    return strcpy(copy, text);
}

static void fill_picture(struct hr__work *w)
{
    struct hr__picture *pic = &w->pic;

    pic->tier = w->job->params.tier;
    pic->limits = &w->job->dev->pub.params.limits;
    pic->mode = w->sample.image ? HR_RGB : w->sample.ops[0].decode.mode;
    pic->channels = pic->mode == HR_GRAY ? 1 : 3;
}

static void fill_tables(struct hr__job *job, int i, const struct hr_sample *s,
                        struct fill *f)
{
    const struct hr_normalize *normalize = normalize_of(&s[i]);
    struct hr__work *w = &job->works[i];
    const struct hr__dst *dst = &w->pic.dst;
    struct hr__table *table = &job->tables[f->tables];
    struct hr__values values;
    int n = tables_of(&s[i], &values);

    if (i && same_table(&s[i], &s[i - 1], job->batch)) {
        w->pic.table = job->works[i - 1].pic.table;
        w->codes_table = job->works[i - 1].codes_table;
        return;
    }
    f->tables += n;
    hr__table_build(table, normalize,
                    hr__ops_values(s[i].ops, s[i].num_ops, &values) ? &values
                                                                    : NULL,
                    dst->c, dst->dtype);
    w->pic.table = table;
    if (n == 1)
        return;
    hr__table_build(table + 1, normalize, NULL, dst->c, dst->dtype);
    w->codes_table = table + 1;
}

static void fill_work(struct hr__job *job, int i, const struct hr_sample *s,
                      struct fill *f)
{
    struct hr__work *w = &job->works[i];

    w->sample = s[i];
    w->sample.path = hr__copy_text(&f->text, s[i].path);
    w->sample.name = hr__copy_text(&f->text, s[i].name);
    hr__image_retain(s[i].image);
    hr__image_retain(s[i].out);
    if (s[i].image)
        w->reads.track = &((struct hr__image *)s[i].image)->track;
    w->writes.track = s[i].out ? &((struct hr__image *)s[i].out)->track
                               : &job->batch->slots[job->params.first_slot + i];
    if (i && same_ops(&s[i], &s[i - 1])) {
        w->sample.ops = job->works[i - 1].sample.ops;
    } else {
        w->sample.ops = f->ops;
        if (s[i].num_ops)
            memcpy(f->ops, s[i].ops, sizeof(*f->ops) * (size_t)s[i].num_ops);
        f->ops += s[i].num_ops;
    }
    find_dst(&s[i], i, job->batch, &job->params, &w->pic.dst);
    fill_tables(job, i, s, f);
    w->pic.geo.augments = f->augments;
    w->pic.geo.capacity = i && same_ops(&s[i], &s[i - 1])
                              ? job->works[i - 1].pic.geo.capacity
                              : hr__ops_augments(s[i].ops, s[i].num_ops);
    f->augments += w->pic.geo.capacity;
    fill_picture(w);
    hr__cache_fill_begin(w);
}

size_t hr__job_size(int n)
{
    return round64(sizeof(struct hr__job)) +
           round64(sizeof(struct hr__work) * (size_t)n) +
           round64(sizeof(struct hr_result) * (size_t)n);
}

// A job of n works in a block of size bytes of the pool, and what all jobs are
// at first.
static struct hr__job *make(struct hr__device *dev, int n, size_t size,
                            size_t bytes, const struct hr_job_params *params)
{
    struct hr__job *job = hr__pool_get(&dev->pool, size);
    size_t works = round64(sizeof(struct hr__work) * (size_t)n);
    size_t head = hr__job_size(n);

    if (!job)
        return hr__fail(HR_ENOMEM, "out of memory for a job of %d", n), NULL;
    // Tables are written whole; the rest must start as zero.
    memset(job, 0, head);
    job->works = (struct hr__work *)((char *)job + round64(sizeof(*job)));
    job->results = (struct hr_result *)((char *)job->works + works);
    job->tables = (struct hr__table *)((char *)job + head);
    job->pub = (struct hr_job_t){&dev->pub, n, job->results, params->ctx,
                                 hr_device_reference(&dev->pub)};
    job->dev = dev;
    job->params = *params;
    job->params.strict = params->strict || dev->pub.params.strict;
    job->bytes = bytes;
    job->fd = -1;
    atomic_init(&job->refs, 3);
    atomic_init(&job->left, n);
    pthread_mutex_init(&job->lock, NULL);
    hr__cond_init(&job->done_cond);
    for (int i = 0; i < n; i++) {
        struct hr__work *w = &job->works[i];

        w->wait.dev = dev;
        w->wait.stop = &job->stop;
        w->job = job;
        w->index = i;
        w->fd = -1;
        w->out.offset = -1;
        for (int e = 0; e < HR__MAX_ENGINES; e++)
            w->tasks[e].work = w;
        job->results[i].stage = HR_ENTROPY;
        job->results[i].offset = -1;
        job->results[i].status = HR_PENDING;
    }
    return job;
}

static void fill_job(struct hr__job *job, const struct sizes *z,
                     const struct hr_sample *s, int n)
{
    struct fill f = {0};

    f.augments = (struct hr__augment *)((char *)job->tables +
                                        round64(sizeof(struct hr__table) *
                                                z->tables));
    f.ops = (struct hr_op *)((char *)f.augments +
                             round64(sizeof(struct hr__augment) * z->augments));
    f.text = (char *)f.ops + round64(z->ops);
    job->cache = hr__cache_of(NULL, job->dev->pub.params.cache);
    for (int i = 0; i < n; i++)
        fill_work(job, i, s, &f);
}

// ---- Samples that read the same bytes ---------------------------------------

static bool same_source(const struct hr__work *a, const struct hr__work *b)
{
    const struct hr_sample *s = &a->sample, *t = &b->sample;

    return s->data == t->data && s->size == t->size && s->cached == t->cached &&
           s->verified == t->verified && a->cache == b->cache;
}

// Links them, so that they are queued one behind the other. (Of paths nothing
// is known: each work reads what it finds there. The pictures of a certificate
// are decoded one by one.)
static void find_views(struct hr__job *job, int n)
{
    struct hr__work *w = job->works, *end = w + n, *v, **bucket;

    for (; w < end && !job->dev->probing; w++) {
        if (!w->sample.data)
            continue;
        bucket = &job->works[((uintptr_t)w->sample.data >> 4) % (size_t)n]
                      .found.bucket;
        for (v = *bucket; v && !same_source(v, w);)
            v = v->found.chain;
        if (v) {
            v->lead = w->lead = v;
            v->found.last = v->found.last->view = w;
        } else {
            w->found.chain = *bucket;
            w->found.last = *bucket = w;
        }
    }
}

// ---- The beginning ----------------------------------------------------------

static uint64_t next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

// graph lock held: from here on the watchdog knows the job, and it must not
// look for blocked works before the turns are taken.
static void enlist(struct hr__job *job)
{
    struct hr__device *dev = job->dev;

    pthread_mutex_lock(&dev->lock);
    job->next = dev->jobs;
    if (dev->jobs)
        dev->jobs->prev = job;
    dev->jobs = job;
    dev->num_jobs++;
    dev->num_samples += job->pub.num_samples;
    if (dev->pub.params.balance && !job->no_picture)
        dev->unassigned += job->pub.num_samples;
    hr__watch_jobs(dev);
    if (dev->watchdog.runs)
        pthread_cond_signal(&dev->watchdog.wake);
    pthread_mutex_unlock(&dev->lock);
}

// Takes the turns of all samples in one go, so that jobs are ordered as wholes.
// Returns the waiters that may start, linked by next.
static struct hr__waiter *take_turns(struct hr__job *job)
{
    struct hr__waiter *ready = NULL, **end = &ready;
    struct hr__work *w, *last = job->works + job->pub.num_samples;

    hr__graph_lock();
    enlist(job);
    for (w = job->works; w < last; w++) {
        struct hr__track *from = w->reads.track, *to = w->writes.track;

        w->wait.blockers = from &&
                           !hr__track_add(from, &w->reads, &w->wait, false);
        w->wait.blockers += to &&
                            !hr__track_add(to, &w->writes, &w->wait, true);
    }
    for (w = job->works; w < last; w++)
        for (struct hr__work *v = w->lead && w->lead != w ? NULL : w; v;
             v = v->view) {
            if (v->wait.blockers)
                continue;
            *end = &v->wait;
            end = &v->wait.next;
        }
    *end = NULL;
    hr__graph_unlock();
    return ready;
}

static bool threads(struct hr__device *dev, const struct hr_job_params *params)
{
    // Deadlines need the watchdog's thread.
    if ((params->timeout_ns > 0 || dev->num_engines > 1) &&
        !hr__watchdog_start(dev))
        return hr__fail(HR_ENOMEM, "cannot start the watchdog"), false;
    if (params->on_done && !hr__callbacks_start(dev))
        return hr__fail(HR_ENOMEM, "cannot start the thread for callbacks"),
               false;
    return true;
}

void hr__job_begin(struct hr__job *job, int64_t begin)
{
    job->id = next_id();
    if (job->dev->pub.params.latency_ns)
        job->since = hr__now();
    job->begun = begin;
    hr__works_resume(take_turns(job));
    hr__watch_submit(job, begin);
    hr__job_unref(job);
}

struct hr__job *hr__job_admit(struct hr__device *dev, int n, size_t size,
                              size_t bytes, const struct hr_job_params *params)
{
    int64_t ns = params->timeout_ns;
    int64_t deadline = ns > 0 ? hr__deadline(ns) : INT64_MAX;
    struct hr__job *job;
    enum hr_status status;

    if (!threads(dev, params))
        return NULL;
    status = hr__budget_admit(dev, bytes, params->wait_for_room, deadline);
    if (status)
        return hr__fail(status, "over the budget of %zu bytes",
                        dev->pub.params.budget),
               NULL;
    if (!(job = make(dev, n, size, bytes, params))) {
        hr__works_resume(hr__budget_return(dev, bytes));
        return NULL;
    }
    atomic_fetch_add(&dev->refs, 1);
    job->deadline = deadline;  // from before it waited
    return job;
}

hr_job hr__submit(struct hr__device *dev, const struct hr_sample *samples,
                  int n, struct hr__batch *batch,
                  const struct hr_job_params *params)
{
    int64_t begin = hr__watch_begin();
    struct hr__job *job;
    struct sizes z;

    if (!measure(&z, samples, n, dev, batch, params) ||
        !(job = hr__job_admit(dev, n, z.total, z.bytes, params)))
        return NULL;
    job->batch = batch;
    if (batch)
        atomic_fetch_add(&batch->refs, 1);
    fill_job(job, &z, samples, n);
    find_views(job, n);
    hr__job_begin(job, begin);
    return &job->pub;
}
