// SPDX-License-Identifier: Apache-2.0
// A work and its cache: the packed picture that it begins with, or that is made
// of it on the way.
#include <string.h>
#include <sys/stat.h>

#include "hal/job/cache_fill.h"
#include "hal/job/work.h"

// The spans that begin with a stage.
static uint32_t begin_with(const struct hr__work *work, int engine,
                           enum hr_stage stage)
{
    uint32_t with = 0;

    for (int last = (int)stage; last < HR_NUM_STAGES; last++)
        with |= HR_SPAN_BIT(stage, last);
    return work->job->dev->engines[engine]->caps.spans[work->pic.tier] & with;
}

// An engine that decodes files itself makes its own picture of them, unless it
// goes on from coefficients, too: then it leaves to the host what is to be
// kept.
static bool host_decodes(const struct hr__work *work)
{
    for (int i = 0; i < work->job->dev->num_engines - 1; i++)
        if (begin_with(work, i, HR_ENTROPY) &&
            !begin_with(work, i, HR_RECONSTRUCT))
            return false;
    return true;
}

void hr__cache_fill_begin(struct hr__work *work)
{
    hr_cache own = work->sample.cache;
    struct hr__cache *all = work->job->cache;

    const struct hr__cache_entry *held;

    if (work->sample.cached) {
        held = (const struct hr__cache_entry *)work->sample.cached;
        // (None in the child of a fork: there it is a packed picture.)
        work->cache = hr__cache_of((hr_cache)held->cache, NULL);
        return;
    }
    // (A device that is tested makes everything itself.)
    if ((!own && !all) || work->sample.image || work->job->dev->probing ||
        !host_decodes(work))
        return;
    work->cache = own ? hr__cache_of(own, NULL)
                      : (struct hr__cache *)hr__cache_retain((hr_cache)all);
}

bool hr__cache_fill_find(struct hr__work *work)
{
    const struct hr_sample *s = &work->sample;
    const uint8_t *data = s->data;
    struct stat st;

    if (!work->cache)
        return false;
    if (s->cached) {
        work->entry = hr__cache_hold((struct hr__cache_entry *)s->cached);
        return work->hit = true;
    }
    if (s->path) {
        if (stat(s->path, &st))
            return false;  // opening it will tell
        hr__cache_key_file(&work->key, &st);
    } else {
        if (s->size < 2 || data[0] != 0xff || data[1] != 0xd8)
            return false;  // no JPEG
        if (s->status)
            hr__cache_key_file(&work->key, s->status);
        else
            hr__cache_key_data(work->cache, &work->key, data, s->size);
    }
    work->entry = hr__cache_find(work->cache, &work->key);
    return work->hit = work->entry != NULL;
}

void hr__cache_fill_opened(struct hr__work *work, const struct stat *st)
{
    work->settled = work->cache && hr__cache_key_file(&work->key, st);
}

void hr__cache_fill_want(struct hr__work *work)
{
    const struct hr_info *info = &work->pic.info;

    if (!work->cache || info->format != HR_FORMAT_JPEG ||
        info->precision != 8 || info->components > 3 ||
        info->process == HR_PROCESS_LOSSLESS ||
        info->all_scans == HR_SCANS_MISSING)
        return;
    work->pic.keep = !work->sample.path || work->settled;
    work->missed = true;
}

void *hr__task_keep(struct hr__task *task, size_t size)
{
    struct hr__work *work = hr__work_of(task);

    // (One that was made for an engine that has failed since.)
    hr__cache_drop(work->entry);
    work->entry = hr__cache_make(work->cache, &work->key, size, &work->pic.info,
                                 work->pic.data);
    return work->entry ? work->entry->data : NULL;
}

// ---- The end ----------------------------------------------------------------

void hr__cache_fill_end(struct hr__work *work)
{
    const struct hr__outcome *out = &work->out;

    if (work->hit || work->missed)
        hr__cache_count(work->cache, work->hit);
    if (work->entry && !work->hit && !out->status && !out->warnings)
        hr__cache_publish(work->entry);
}

void hr__cache_fill_drop(struct hr__work *work)
{
    hr__cache_drop(work->entry);
    work->entry = NULL;
    work->hit = false;
}
