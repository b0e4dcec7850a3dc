// SPDX-License-Identifier: Apache-2.0
// Measures the loader for its settings, and applies the changed ones.
#include "hal/engine/base.h"
#include "loader.h"

enum { READS = 8, BYTES = 64 << 20 };

void hr__loader_flow(struct hr__loader *l)
{
    struct hr__flow *f = &l->flow;
    int64_t now = hr__now();
    double s = (double)(now - l->flowed) * 1e-9;

    l->flowed = now;
    f->seconds = (double)(now - l->made_at) * 1e-9;
    f->ready += s * l->stats.ready;
    f->reading += s * l->stats.reading;
    f->full += s * l->full;
    f->making += s * l->making;
    f->starved += l->making ? 0 : s;
    // (A consumer that polls the descriptor is not in hr_loader_next().)
    if (!l->signaled && (l->waiting || !l->held))
        f->waited += s;
}

// ---- What there may be -----------------------------------------------------

static int less_than(int n, int most)
{
    return n < most ? n : most;
}

static int most_threads(const struct hr__loader *l)
{
    const struct hr_loader_params *p = &l->params;
    int cores = hr__usable_cores(), most = cores - p->reserve;

    if (p->cpu_share > 0)
        most = less_than(most, (int)(p->cpu_share * cores));
    if (p->device)
        most = less_than(most, p->device->caps.threads);
    return most < 1 ? 1 : most;
}

enum hr_status hr__loader_tune_init(struct hr__loader *l)
{
    const struct hr_loader_params *p = &l->params;
    const struct hr_loader_settings most = {
        .threads = most_threads(l),
        .reads = p->reads,
        .depth = l->pub.depth,
        .bytes = l->pages.limit ? l->pages.limit : 1,
    };
    struct hr_loader_settings *now = &l->settings;
    enum hr_status status = hr__device_use_threads(p->device, 0,
                                                   &l->threads_before);

    if (status)
        return status;
    l->made_at = l->flowed = hr__now();
    *now = (struct hr_loader_settings){
        .threads = p->start.threads ? p->start.threads : l->threads_before,
        .reads = p->start.reads ? p->start.reads
                 : p->autotune  ? READS
                                : p->reads,
        .depth = now->depth,
        .bytes = p->start.bytes ? p->start.bytes
                 : p->autotune  ? BYTES
                                : most.bytes,
    };
    now->reads = less_than(now->reads, most.reads);
    now->bytes = now->bytes < most.bytes ? now->bytes : most.bytes;
    l->threads_set = l->threads_before;
    if (p->autotune || p->start.threads)
        now->threads = less_than(now->threads, most.threads);
    if (p->autotune) {
        hr__tune_init(&l->tune, now, &most, l->pub.batch);
        *now = l->tune.now;
    }
    l->pages.limit = now->bytes;
    return HR_OK;
}

// ---- Changes ---------------------------------------------------------------

void hr__loader_tune(struct hr__loader *l)
{
    l->flow.samples = (double)l->stats.samples;
    if (!l->params.autotune || !hr__tune_batch(&l->tune, &l->flow))
        return;
    l->settings = l->tune.now;
    l->pages.limit = l->settings.bytes;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->bytes);
    pthread_cond_broadcast(&l->unused);
}

bool hr__loader_set_threads(struct hr__loader *l)
{
    int threads = l->settings.threads;

    if (threads == l->threads_set || l->setting_threads)
        return false;
    l->setting_threads = true;
    hr__loader_wake(l);
    pthread_mutex_unlock(&l->lock);
    hr__device_use_threads(l->params.device, threads, NULL);
    pthread_mutex_lock(&l->lock);
    l->threads_set = threads;
    l->setting_threads = false;
    return true;
}

void hr__loader_tune_finish(struct hr__loader *l)
{
    if (l->threads_set != l->threads_before)
        hr__device_use_threads(l->params.device, l->threads_before, NULL);
}
