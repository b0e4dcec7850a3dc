// SPDX-License-Identifier: Apache-2.0
// From samples that are read to a batch that is ready.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "loader.h"

#define ROOM_NS INT64_C(5000000)

// ---- The samples of a job --------------------------------------------------

// Samples that are pixels go to the job as images, over the memory in which
// they lie. Planes stay planes: every engine reads them.
bool hr__slot_image(struct hr__slot *slot, int j)
{
    const struct hr_encoded *from = &slot->samples[j].from;
    hr_image *image = &slot->images[j];
    const struct hr_image_params *has = *image ? &(*image)->params : NULL;

    // Pixels of a CIFAR file lie where those before them lay, so that nothing
    // is allocated for them.
    if (has && has->data == from->data && has->w == from->w &&
        has->h == from->h && has->c == from->c && has->layout == from->layout)
        return true;
    hr_image_release(image);
    *image = hr_image_create(
        slot->loader->params.device,
        hr_image_params(.w = from->w, .h = from->h, .c = from->c,
                        .dtype = HR_U8, .layout = from->layout,
                        .data = (void *)(uintptr_t)from->data));
    return *image != NULL;
}

// Appends the path of sample j to the names; false: no memory.
static bool put_name(struct hr__slot *slot, int j)
{
    const struct hr__loader_sample *sample = &slot->samples[j];
    char buffer[PATH_MAX];
    const char *path = sample->is_lent ? sample->lent.path : NULL;
    size_t size;

    if (!path)
        path = hr_source_path(slot->loader->params.source, slot->indices[j],
                              buffer, sizeof(buffer));
    size = strlen(path) + 1;
    if (slot->names_capacity - slot->names_used < size) {
        size_t more = 2 * slot->names_capacity + PATH_MAX;
        char *names = hr__alloc(NULL, more);

        if (!names)
            return false;
        if (slot->names_used)
            memcpy(names, slot->names, slot->names_used);
        hr__free(slot->names);
        slot->names = names;
        slot->names_capacity = more;
    }
    slot->samples[j].name = slot->names_used;
    memcpy(slot->names + slot->names_used, path, size);
    slot->names_used += size;
    return true;
}

// Takes a sample that is pixels. False: there is no image, and the sample has
// failed.
static bool take_pixels(struct hr__slot *slot, int j)
{
    struct hr_sample *s = &slot->list[j * slot->loader->num_views];

    if (!hr__slot_image(slot, j)) {
        slot->samples[j].status = hr_last_status();
        snprintf(slot->results[j].message, sizeof(slot->results[j].message),
                 "%s: %s", s->name, hr_last_error());
        return false;
    }
    s->data = NULL;
    s->size = 0;
    s->image = slot->images[j];
    return true;
}

// A sample that could not be read becomes a picture that fails, so that its
// place in the batch is cleared as that of any other.
static void fill_source(struct hr__slot *slot, int j)
{
    const struct hr__loader *l = slot->loader;
    const struct hr__loader_sample *sample = &slot->samples[j];
    const struct hr_encoded *from = &sample->from;
    struct hr_sample *s = &slot->list[j * l->num_views];

    *s = (struct hr_sample){
        .data = from->data,
        .size = from->size,
        .name = slot->names + sample->name,
        .verified = from->verified,
        .out = l->params.own_size ? slot->outs[j] : NULL,
    };
    if (from->w && !sample->status && take_pixels(slot, j))
        return;
    if (!from->data && !sample->status)
        s->path = from->path              ? from->path
                  : l->source->calls.read ? NULL
                                          : s->name;
    if (!sample->status && (s->path || (s->data && s->size)))
        return;
    s->data = "";
    s->size = 0;
    s->path = NULL;
    s->verified = false;
}

// The sample of each view: the same source, but by other ops, from another key,
// to another place.
static void fill_sample(struct hr__slot *slot, int j)
{
    const struct hr__loader *l = slot->loader;
    struct hr_sample *first = &slot->list[j * l->num_views];

    fill_source(slot, j);
    for (int i = 0; i < l->num_views; i++) {
        const struct hr__view *v = &l->views[i];
        struct hr_sample *s = first + i;
        int skip = first->image != NULL;  // it is decoded

        if (i)
            *s = *first;
        s->ops = v->ops + skip;
        s->num_ops = v->num_ops - skip;
        s->random = slot->keys[j];
        if (!l->params.num_views)
            continue;
        s->random.index = s->random.index * (uint64_t)l->num_views +
                          (uint64_t)i;
        s->out = slot->outs[i * slot->all + j];
    }
}

// ---- The end of a job ------------------------------------------------------

// The lock is held. Samples that failed go back to the readers.
static bool replace(struct hr__slot *slot)
{
    const struct hr__loader *l = slot->loader;
    bool any = false;

    for (int j = 0; j < slot->pub.n; j++) {
        struct hr__loader_sample *sample = &slot->samples[j];

        if (slot->results[j].status == HR_OK || l->stop ||
            sample->tries + 1 >= HR__LOADER_TRIES ||
            (uint64_t)sample->tries + 1 >= l->pub.samples)
            continue;
        sample->tries++;
        hr__slot_place(slot, j);
        slot->wanted++;
        any = true;
    }
    return any;
}

// The lock is held; no job of the slot is in flight.
static void finish(struct hr__slot *slot)
{
    struct hr__loader *l = slot->loader;

    slot->names_used = 0;
    slot->pub.made_ns = hr__now() - slot->submitted;
    if (l->params.on_error == HR_ON_ERROR_SKIP && !slot->broken &&
        replace(slot)) {
        slot->state = SLOT_READ;
        hr__loader_wake(l);
        return;
    }
    for (int j = slot->begin; j < slot->end; j++) {
        slot->pub.failed += slot->results[j].status != HR_OK;
        slot->pub.replaced += slot->samples[j].tries > 0;
    }
    if (l->params.map && !hr__slot_fails(slot)) {
        slot->state = SLOT_MAP;
        hr__loader_wake(l);
        return;
    }
    slot->state = SLOT_READY;
    hr__loader_flow(l);
    l->stats.ready++;
    hr__loader_signal(l);
}

static void keep_result(struct hr__slot *slot, int j,
                        const struct hr_result *result)
{
    const struct hr__loader_sample *sample = &slot->samples[j];
    struct hr_result *to = &slot->results[j];
    char why[sizeof(to->message)];
    struct hr_source_item of;

    memcpy(why, to->message, sizeof(why));
    *to = *result;
    if (sample->status) {
        to->status = sample->status;
        to->stage = HR_READ;
        to->offset = -1;
        memcpy(to->message, why, sizeof(why));
    } else if (!to->status) {
        of = hr_source_item(slot->loader->params.source, slot->indices[j]);
        if (of.pack)
            hr_pack_passed(of.pack, of.number);
    }
}

// The first of the views that failed, or the first.
static const struct hr_result *worst(const struct hr_result *results, int n)
{
    for (int i = 0; i < n; i++)
        if (results[i].status)
            return &results[i];
    return results;
}

// Called on a thread of the device's. ctx is the job's first sample.
static void job_done(void *ctx, const struct hr_job_t *job)
{
    struct hr__loader_sample *first = ctx;
    struct hr__slot *slot = first->slot;
    struct hr__loader *l = slot->loader;
    int begin = (int)(first - slot->samples);
    int n = job->num_samples / l->num_views;
    hr_job release;

    for (int i = 0; i < n; i++) {
        keep_result(slot, begin + i,
                    worst(&job->results[i * l->num_views], l->num_views));
        hr__sample_give_back(first + i);
    }
    pthread_mutex_lock(&l->lock);
    hr__loader_flow(l);
    l->making -= n;
    for (int i = 0; i < n; i++)
        first[i].pending = false;
    first->job_ended = true;
    release = first->job;
    first->job = NULL;
    // Before the slot may be used again, which can end the loader, too.
    hr_job_release(&release);
    if (!--slot->jobs && !slot->submitting)
        finish(slot);
    l->ends++;
    pthread_cond_broadcast(&l->bytes);
    if (!--l->in_flight)
        pthread_cond_broadcast(&l->ended);
    pthread_mutex_unlock(&l->lock);
}

// ---- Submitting ------------------------------------------------------------

static void break_slot(struct hr__slot *slot, int begin, int n)
{
    slot->broken = hr_last_status();
    snprintf(slot->broken_text, sizeof(slot->broken_text), "%s",
             hr_last_error());
    for (int j = begin; j < begin + n; j++) {
        hr__sample_give_back(&slot->samples[j]);
        slot->samples[j].pending = false;
        slot->results[j] = (struct hr_result){.status = slot->broken,
                                              .offset = -1};
    }
}

// Waits for room in the device's budget: until one of our jobs ends, or for a
// while, since the ends of others' jobs are not reported to us. False: the
// loader stops.
static bool wait_for_room(struct hr__loader *l, uint64_t ends)
{
    int64_t deadline = hr__now() + ROOM_NS;
    bool go_on;

    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->ends == ends)
        if (!hr__cond_wait(&l->bytes, &l->lock, deadline))
            break;
    go_on = !l->stop;
    pthread_mutex_unlock(&l->lock);
    return go_on;
}

// (Readers are threads of the library, for which hr_submit() does not wait.)
static hr_job submit_in_turn(struct hr__slot *slot, int begin, int n,
                             const struct hr_job_params *params)
{
    struct hr__loader *l = slot->loader;
    uint64_t ends;
    hr_job job;

    do {
        pthread_mutex_lock(&l->lock);
        ends = l->ends;
        pthread_mutex_unlock(&l->lock);
        job = hr_submit(l->params.device, slot->list + begin * l->num_views,
                        n * l->num_views,
                        l->params.num_views ? NULL : slot->pub.batch, params);
    } while (!job && hr_last_status() == HR_EAGAIN && wait_for_room(l, ends));
    return job;
}

static void submit(struct hr__slot *slot, int begin, int n)
{
    struct hr__loader *l = slot->loader;
    struct hr__loader_sample *first = &slot->samples[begin];
    const struct hr_job_params params = {
        .tier = l->params.tier,
        .on_error = HR_ON_ERROR_ZERO,
        .strict = l->params.strict,
        .timeout_ns = l->params.timeout_ns,
        .first_slot = l->params.own_size || l->params.num_views ? 0 : begin,
        .on_done = job_done,
        .ctx = first,
    };
    hr_job job;

    pthread_mutex_lock(&l->lock);
    first->job_ended = false;
    slot->jobs++;
    l->in_flight++;
    hr__loader_flow(l);
    l->making += n;
    pthread_mutex_unlock(&l->lock);
    job = submit_in_turn(slot, begin, n, &params);
    if (!job)
        break_slot(slot, begin, n);
    pthread_mutex_lock(&l->lock);
    if (!job) {
        slot->jobs--;
        l->in_flight--;
        hr__loader_flow(l);
        l->making -= n;
        pthread_cond_broadcast(&l->bytes);
        pthread_cond_broadcast(&l->ended);
    } else if (!first->job_ended) {
        first->job = job;
        job = NULL;
        if (l->stop)
            hr_job_cancel(first->job);
    }
    pthread_mutex_unlock(&l->lock);
    hr_job_release(&job);
}

enum { VIEWS_W = 16384 };  // elements of a row

// Memory for the tensors of all views.
static hr_batch batch_of_views(const struct hr__loader *l)
{
    size_t elements = l->views_size / hr_dtype_size(l->params.dtype);
    size_t rows = (elements + VIEWS_W - 1) / VIEWS_W;
    hr_batch batch;

    if (rows > HR_MAX_SIDE)
        return hr__fail(HR_ELIMIT, "views: a batch of %zu bytes is too large",
                        l->views_size),
               NULL;
    batch = hr_batch_create(
        l->params.device,
        hr_batch_params(.n = 1, .c = 1, .h = (int)rows, .w = VIEWS_W,
                        .dtype = l->params.dtype, .memory = l->params.memory));
    if (batch && !batch->params.data) {
        hr_batch_destroy(&batch);
        hr__fail(HR_EUNSUPPORTED, "views: only in memory of the host");
    }
    return batch;
}

bool hr__slot_make_views(struct hr__slot *slot)
{
    const struct hr__loader *l = slot->loader;
    char *data = slot->pub.batch->params.data;

    for (int k = 0; k < l->num_views * slot->all; k++) {
        const struct hr__view *v = &l->views[k / slot->all];
        struct hr_image_params p = {.w = v->w,
                                    .h = v->h,
                                    .c = l->pub.c,
                                    .dtype = l->params.dtype,
                                    .layout = l->params.layout};

        p.data = data + v->at +
                 hr_dtype_size(p.dtype) * (size_t)p.c * (size_t)p.w *
                     (size_t)p.h * (size_t)(k % slot->all);
        if (!(slot->outs[k] = hr_image_create(l->params.device, &p)))
            return false;
    }
    return true;
}

hr_batch hr__loader_batch(const struct hr__loader *l)
{
    if (l->params.num_views)
        return batch_of_views(l);
    return hr_batch_create(l->params.device,
                           hr_batch_params(.n = l->pub.batch, .c = l->pub.c,
                                           .h = l->pub.h, .w = l->pub.w,
                                           .dtype = l->params.dtype,
                                           .layout = l->params.layout,
                                           .memory = l->params.memory));
}

// Makes what the job needs. False with hr_last_error().
static bool fill_job(struct hr__slot *slot)
{
    struct hr__loader *l = slot->loader;

    if (l->params.own_size) {
        hr__slot_drop_outs(slot, false);
        if (!hr__slot_make_outs(slot))
            return false;
    } else if (!slot->pub.batch) {
        if (!(slot->pub.batch = hr__loader_batch(l)))
            return false;
        pthread_mutex_lock(&l->lock);
        l->num_made++;
        l->stats.batch_bytes += l->batch_size;
        pthread_mutex_unlock(&l->lock);
    }
    if (l->params.num_views) {
        hr__slot_drop_outs(slot, false);
        if (!hr__slot_make_views(slot))
            return false;
    }
    for (int j = slot->begin; j < slot->end; j++)
        if (slot->samples[j].pending && !put_name(slot, j))
            return hr__fail(HR_ENOMEM, "out of memory"), false;
    // When the names lie where they stay.
    for (int j = slot->begin; j < slot->end; j++)
        if (slot->samples[j].pending)
            fill_sample(slot, j);
    return true;
}

// Says whether the slot may have the memory of its pictures; else it waits for
// that.
static bool may_begin(struct hr__slot *slot)
{
    struct hr__loader *l = slot->loader;
    bool may = true;

    if (!l->params.own_size)
        return true;
    if (!slot->measured)
        hr__slot_measure(slot);
    slot->measured = true;
    pthread_mutex_lock(&l->lock);
    if (!(may = hr__slot_may_begin(slot))) {
        slot->submitting = false;
        slot->state = SLOT_MEMORY;
    }
    pthread_mutex_unlock(&l->lock);
    return may;
}

// The oldest slot that waited for memory which it may have now.
static struct hr__slot *find_waiting(const struct hr__loader *l)
{
    return l->params.own_size
               ? hr__slot_find(l, SLOT_MEMORY, hr__slot_may_begin)
               : NULL;
}

bool hr__loader_part(struct hr__loader *l)
{
    struct hr__slot *slot = find_waiting(l);

    if (!slot)
        return false;
    slot->state = SLOT_JOB;
    slot->submitting = true;
    hr__loader_wake(l);
    pthread_mutex_unlock(&l->lock);
    hr__slot_submit(slot);
    pthread_mutex_lock(&l->lock);
    return true;
}

void hr__slot_submit(struct hr__slot *slot)
{
    struct hr__loader *l = slot->loader;
    int n;
    bool filled;

    if (!may_begin(slot))
        return;
    slot->submitted = hr__now();
    filled = fill_job(slot);
    n = slot->end;
    for (int j = slot->begin, end; j < n; j = end) {
        for (end = j + 1;
             end < n && slot->samples[end].pending == slot->samples[j].pending;)
            end++;
        if (!slot->samples[j].pending)
            continue;
        if (filled)
            submit(slot, j, end - j);
        else
            break_slot(slot, j, end - j);
    }
    pthread_mutex_lock(&l->lock);
    slot->submitting = false;
    if (!slot->jobs)
        finish(slot);
    pthread_mutex_unlock(&l->lock);
}
