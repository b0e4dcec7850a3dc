// SPDX-License-Identifier: Apache-2.0
// Media engines are silicon with a decoder of its own, behind a driver that may
// say success over a stale surface. So some of their pictures are made a second
// time, by the CPU, and compared: the first of a device, then one in a
// thousand. Bit for bit where the certificate says exact, else within what it
// measured; what its video processor scaled and coloured (tier FAST), like the
// CPU's. A device that differs is left for good, and the sample has the CPU's
// picture.
//
// Only media engines: what OpenCL runs are our own integers, and its
// certificate is a proof; a decoder that is not ours can only be sampled.
#include <string.h>

#include "hal/job/crosscheck.h"

enum { FIRST = 16, EVERY = 1000 };

// ---- The device's picture, put aside ---------------------------------------

static void copy(const struct hr__dst *d, uint8_t *packed, bool back)
{
    size_t n = hr__dst_row_bytes(d);

    for (int i = 0; i < hr__dst_rows(d); i++, packed += n) {
        if (back)
            memcpy(hr__dst_row(d, i), packed, n);
        else
            memcpy(packed, hr__dst_row(d, i), n);
    }
}

static bool by_media(const struct hr__work *work)
{
    return hr__engine_at(work, 0)->backend->media &&
           work->plan.spans[0].span.first == HR_ENTROPY;
}

// Ops that change pixels make more of a deviation than the certificate knows
// of.
static bool magnifies(const struct hr__work *work)
{
    struct hr__values values;

    return work->pic.geo.num_augments ||
           hr__ops_values(work->sample.ops, work->sample.num_ops, &values);
}

bool hr__check_wanted(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    uint64_t n;

    if (work->check || dev->probing || !by_media(work) || magnifies(work) ||
        hr__job_stops(work->job))
        return false;
    n = atomic_fetch_add(&dev->media_pictures, 1);
    // After a mismatch the pictures that were under way are made again, too.
    return n < FIRST || n % EVERY == 0 || atomic_load(&dev->mismatched);
}

// Takes the check back: the sample shall not be made again after all.
static void drop(struct hr__work *work)
{
    work->excluded = work->check->excluded;
    work->why = work->check->why;
    work->plan = work->check->plan;
    hr__pool_put(&work->job->dev->pool, work->check);
    work->check = NULL;
}

// The picture at dst.data is put aside.
static struct hr__check *put_aside(struct hr__work *work, bool looked)
{
    struct hr__device *dev = work->job->dev;
    const struct hr_result *r = &work->job->results[work->index];
    const struct hr__dst *d = &work->pic.dst;
    size_t size = hr__dst_row_bytes(d) * (size_t)hr__dst_rows(d);
    struct hr__check *check = hr__pool_get(&dev->pool, sizeof(*check) + size);

    if (!check)
        return NULL;
    check->looked = looked;
    check->excluded = work->excluded;
    check->why = work->why;
    check->plan = work->plan;
    check->num_spans = r->num_spans;
    memcpy(check->spans, r->spans, sizeof(check->spans));
    copy(d, check->picture, false);
    return check;
}

bool hr__check_begin(struct hr__work *work)
{
    struct hr__device *dev = work->job->dev;
    struct hr__dst *d = &work->pic.dst;
    struct hr__outcome made = work->out;
    bool looked = !d->data;

    if (looked)
        d->data = work->result;
    if ((work->check = put_aside(work, looked))) {
        work->excluded |= (1u << (dev->num_engines - 1)) - 1;
        if (hr__prepare_plan(work)) {
            hr__payloads_free(work, work->payloads, HR_NUM_STAGES);
            work->job->results[work->index].num_spans = 0;
            return true;
        }
        drop(work);
    }
    if (looked)
        d->data = NULL;
    work->out = made;
    return false;
}

// ---- Comparing -------------------------------------------------------------

// Levels that an element may differ by; < 0: the pictures must be equal.
static double allowed(const struct hr__work *work)
{
    const struct hr_certificate_record *r =
        hr__certificate_record(&work->job->dev->pub.certificate,
                               HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT),
                               hr__jpeg_kind(&work->pic.info));

    // Colour conversion and a filter's negative lobes amplify an error.
    return r && r->max > 0 ? 4 * r->max + 1 : -1;
}

enum verdict { SAME, CLOSE, DIFFERENT };

static enum verdict compare(const struct hr__work *work)
{
    const struct hr__dst *d = &work->pic.dst;
    const struct hr__check *check = work->check;
    struct hr__dst aside = hr__dst_packed(d, (uint8_t *)check->picture);
    struct hr_difference diff;
    double units[3];
    bool alike;

    hr__level_units(work->pic.table, d->dtype, d->c, units);
    hr__compare(d, &aside, units, &diff);
    if (!diff.differing)
        return SAME;
    // A bound on levels does not apply to pictures scaled by the video
    // processor.
    alike = check->plan.spans[0].span.last == HR_RECONSTRUCT
                ? diff.max <= allowed(work)
                : diff.alike;
    return alike ? CLOSE : DIFFERENT;
}

static void tell(struct hr__work *work, bool differs)
{
    struct hr__device *dev = work->job->dev;
    int engine = work->check->plan.spans[0].engine;
    unsigned bit = 1u << engine;

    pthread_mutex_lock(&dev->lock);
    dev->stats.checked++;
    dev->stats.mismatches += differs;
    pthread_mutex_unlock(&dev->lock);
    if (differs && !(atomic_fetch_or(&dev->mismatched, bit) & bit))
        hr__log(dev, HR_LOG_ERROR,
                "%s: sample %d is not what the CPU makes of it: the device is "
                "not used any more",
                dev->engines[engine]->name, work->index);
}

// The sample has the device's picture, and all that is told of it.
static void keep(struct hr__work *work, bool overwritten)
{
    struct hr_result *r = &work->job->results[work->index];
    const struct hr__check *check = work->check;

    if (check->looked)
        work->pic.dst.data = NULL;  // where it belongs it is already
    else if (overwritten)
        copy(&work->pic.dst, (uint8_t *)check->picture, true);
    work->why = check->why;
    r->num_spans = check->num_spans;
    memcpy(r->spans, check->spans, sizeof(check->spans));
}

// The CPU has made it, too.
static void judge(struct hr__work *work)
{
    enum verdict verdict = compare(work);

    tell(work, verdict == DIFFERENT);
    if (verdict != DIFFERENT) {
        // The same file gives the same bytes, checked or not.
        keep(work, verdict == CLOSE);
        return;
    }
    work->job->results[work->index].fallbacks++;
    work->why |= HR_WHY_MISMATCH;
    if (work->job->params.strict)
        work->out =
            (struct hr__outcome){.status = HR_EDEVICE,
                                 .why = HR_WHY_MISMATCH,
                                 .stage = HR_RECONSTRUCT,
                                 .offset = -1,
                                 .text = "its picture is not the CPU's"};
}

// Says whether the status is the file's fault: every decoder would report it.
static bool of_the_file(enum hr_status status)
{
    return status == HR_ECORRUPT || status == HR_ETRUNCATED ||
           status == HR_EFORMAT;
}

void hr__check_end(struct hr__work *work)
{
    struct hr__check *check = work->check;
    struct hr__outcome *out = &work->out;

    if (!check)
        return;
    if (out->status && !of_the_file(out->status)) {
        // It is not checked, and that is not the picture's fault.
        keep(work, true);
        *out = (struct hr__outcome){.stage = HR_STORE, .offset = -1};
    } else if (!out->status && out->warnings) {
        // Every decoder mends damage in its own way: the CPU's counts.
        work->why |= HR_WHY_DAMAGED;
    } else if (!out->status) {
        judge(work);
    }
    work->check = NULL;
    hr__pool_put(&work->job->dev->pool, check);
}
