// SPDX-License-Identifier: Apache-2.0
// Media engines are silicon with a decoder of its own, behind a driver that may
// say success over a stale surface. So some of their pictures are made a second
// time, by the CPU, and compared: the first of a device, then one in a thousand.
// Bit for bit where the certificate says exact, else within what it measured.
// A device that differs has lied: it is left for good, and the sample has the
// CPU's picture.
//
// Only media engines: what OpenCL runs are our own integers, and its
// certificate is a proof; a decoder that is not ours can only be sampled.
#include <math.h>
#include <string.h>

#include "hal/hal.h"

enum { FIRST = 16, EVERY = 1000 };

// ---- The device's picture, put aside ---------------------------------------

static size_t row_bytes(const struct hr__dst *d)
{
    return (size_t)d->w * hr_dtype_size(d->dtype) *
           (d->layout == HR_NCHW ? 1 : (size_t)d->c);
}

static int num_rows(const struct hr__dst *d)
{
    return d->h * (d->layout == HR_NCHW ? d->c : 1);
}

static uint8_t *row(const struct hr__dst *d, int i)
{
    return d->data + d->stride_c * (size_t)(i / d->h) +
           d->stride_h * (size_t)(i % d->h);
}

static void copy(const struct hr__dst *d, uint8_t *packed, bool back)
{
    size_t n = row_bytes(d);

    for (int i = 0; i < num_rows(d); i++, packed += n) {
        if (back)
            memcpy(row(d, i), packed, n);
        else
            memcpy(packed, row(d, i), n);
    }
}

static bool by_media(const struct hr__work *work)
{
    const struct hr__device *dev = work->job->dev;
    const struct hr_span *first = &work->plan.spans[0].span;

    return dev->engines[work->plan.spans[0].engine]->backend->media &&
           first->first == HR_ENTROPY && first->last == HR_RECONSTRUCT;
}

static bool wanted(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    uint64_t n;

    // (What an engine stored in its own memory cannot be looked at here.)
    if (work->check || dev->probing || !by_media(work) || !work->pic.dst.data ||
        hr__job_stops(work->job))
        return false;
    n = atomic_fetch_add(&dev->media_pictures, 1);
    // What was on its way when it was found out is made again, too.
    return n < FIRST || n % EVERY == 0 || atomic_load(&dev->liars);
}

bool hr__check_begin(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    const struct hr_result *r = &work->job->results[work->index];
    const struct hr__dst *d = &work->pic.dst;
    struct hr__outcome out = {.offset = -1};
    struct hr__check *check;

    if (!wanted(work))
        return false;
    check = hr__pool_get(&dev->pool,
                         sizeof(*check) + row_bytes(d) * (size_t)num_rows(d));
    if (!check)
        return false;
    check->engine = work->plan.spans[0].engine;
    check->excluded = work->excluded;
    check->plan = work->plan;
    check->num_spans = r->num_spans;
    memcpy(check->spans, r->spans, sizeof(check->spans));
    copy(d, check->picture, false);
    work->check = check;
    work->excluded |= (1u << (dev->num_engines - 1)) - 1;
    if (!hr__replan(work, &out)) {
        hr__check_drop(work);
        return false;
    }
    hr__payloads_free(work, work->payloads, HR_NUM_STAGES);
    work->job->results[work->index].num_spans = 0;
    hr__dispatch_planned(work, false);
    return true;
}

void hr__check_drop(struct hr__work *work)
{
    if (!work->check)
        return;
    work->excluded = work->check->excluded;
    work->plan = work->check->plan;
    hr__pool_put(&work->job->dev->pool, work->check);
    work->check = NULL;
}

// ---- Comparing -------------------------------------------------------------

static double from_f16(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double x = exponent == 31 ? NAN
               : exponent     ? ldexp(fraction + 1024, exponent - 25)
                              : ldexp(fraction, -24);

    return h & 0x8000 ? -x : x;
}

static double value(const struct hr__dst *d, const void *at)
{
    uint16_t half;
    float f;

    switch (d->dtype) {
    case HR_F32:
        memcpy(&f, at, sizeof(f));
        return f;
    case HR_F16:
        memcpy(&half, at, sizeof(half));
        return from_f16(half);
    default:
        return *(const uint8_t *)at;
    }
}

// What one level of 256 comes to in channel c.
static double level(const struct hr__dst *d, const struct hr__table *t, int c)
{
    double step = 1;

    if (d->dtype == HR_F32)
        step = ((double)t->f32[c][255] - (double)t->f32[c][0]) / 255;
    else if (d->dtype == HR_F16)
        step = (from_f16(t->f16[c][255]) - from_f16(t->f16[c][0])) / 255;
    return fabs(step) > 0 ? fabs(step) : 1;
}

static bool row_close(const struct hr__work *work, int i, const uint8_t *packed,
                      double most)
{
    const struct hr__dst *d = &work->pic.dst;
    size_t elem = hr_dtype_size(d->dtype), n = row_bytes(d) / elem;
    const uint8_t *mine = row(d, i);

    for (size_t k = 0; k < n; k++) {
        int c = d->layout == HR_NCHW ? i / d->h : (int)(k % (size_t)d->c);
        double diff = fabs(value(d, mine + k * elem) -
                           value(d, packed + k * elem));

        if (!(diff <= most * level(d, work->pic.table, c)))
            return false;
    }
    return true;
}

// Levels that an element may differ by; 0 = none.
static double allowed(const struct hr__work *work)
{
    const struct hr_certificate *cert = &work->job->dev->pub.certificate;
    int kind = hr__jpeg_kind(&work->pic.info);

    if (!cert->tested || kind < 0 || !cert->kinds[kind].pictures)
        return 0;
    // Colour and a filter's lobes make more of a sample's deviation.
    return cert->kinds[kind].max > 0 ? 4 * cert->kinds[kind].max + 1 : 0;
}

enum verdict { SAME, CLOSE, LIE };

static enum verdict compare(const struct hr__work *work)
{
    const struct hr__dst *d = &work->pic.dst;
    const uint8_t *packed = work->check->picture;
    double most = allowed(work);
    enum verdict verdict = SAME;

    for (int i = 0; i < num_rows(d); i++, packed += row_bytes(d)) {
        if (!memcmp(row(d, i), packed, row_bytes(d)))
            continue;
        if (!(most > 0) || !row_close(work, i, packed, most))
            return LIE;
        verdict = CLOSE;
    }
    return verdict;
}

static void tell(struct hr__work *work, bool lie)
{
    struct hr__device *dev = work->job->dev;
    unsigned bit = 1u << work->check->engine;
    bool first;

    pthread_mutex_lock(&dev->lock);
    dev->stats.checked++;
    dev->stats.lies += lie;
    pthread_mutex_unlock(&dev->lock);
    if (!lie)
        return;
    first = !(atomic_fetch_or(&dev->liars, bit) & bit);
    if (first)
        hr__log(dev, HR_LOG_ERROR,
                "%s: sample %d is not what the CPU makes of it: the device is "
                "not used any more",
                dev->engines[work->check->engine]->name, work->index);
}

// The CPU has made it, too.
static void judge(struct hr__work *work, struct hr__outcome *out)
{
    struct hr_result *r = &work->job->results[work->index];
    struct hr__check *check = work->check;
    bool strict = work->job->params.strict || work->job->dev->pub.params.strict;
    enum verdict verdict = compare(work);

    tell(work, verdict == LIE);
    if (verdict != LIE) {
        // The device's: the same file gives the same bytes, checked or not.
        if (verdict == CLOSE)
            copy(&work->pic.dst, check->picture, true);
        r->num_spans = check->num_spans;
        memcpy(r->spans, check->spans, sizeof(check->spans));
        return;
    }
    r->fallbacks++;
    work->why |= HR_WHY_LIED;
    if (strict)
        *out = (struct hr__outcome){.status = HR_EDEVICE,
                                    .why = HR_WHY_LIED,
                                    .stage = HR_RECONSTRUCT,
                                    .offset = -1,
                                    .text = "its picture is not the CPU's"};
}

void hr__check_end(struct hr__work *work, struct hr__outcome *out)
{
    struct hr__check *check = work->check;

    if (!check)
        return;
    // Damage is mended by everybody in their own way: the CPU's counts.
    if (!out->status && !out->warnings)
        judge(work, out);
    work->check = NULL;
    hr__pool_put(&work->job->dev->pool, check);
}
