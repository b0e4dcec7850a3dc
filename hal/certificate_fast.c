// SPDX-License-Identifier: Apache-2.0
// The test of a media engine's video processor: generated pictures of every
// kind of JPEG cropped, scaled and mirrored by it in tier FAST, and by the
// readable C of a CPU device. Nobody says how a processor scales, so it is not
// asked for bits: how far off it is is measured, and hr__alike() says what is
// too far.
#include <stdio.h>
#include <string.h>

#include "hal/certificate.h"
#include "hal/likeness.h"

enum { PICTURES = 16, CASES = 5, MOST = PICTURES * CASES };
#define TOTAL_NS INT64_C(10000000000)  // and two deadlines of a span

struct sums {
    double sum, squares, elements, differing;
};

struct probe {
    struct hr__device *dev[2];  // [0] the CPU
    struct hr_certificate *cert;
    int64_t deadline;
    int n, pictures;
    bool broke;  // the device failed: it may do better
    struct sums sums[HR_NUM_KINDS];
    int kinds[PICTURES];
    struct hr_op ops[MOST][4];
    struct hr_sample samples[2][MOST];
    hr_image out[2][MOST];
    uint8_t bytes[PICTURES][HR__SOURCE_BYTES];
    atomic_int refs;  // ours and one per job, which may hang for ever
};

// ---- Cases -----------------------------------------------------------------

// Corners on whole chroma, scaled by less than 2: what is asked of it later.
static int make_ops(int i, int w, int h, struct hr_op *ops)
{
    int n = 0;

    ops[n++] = (struct hr_op)hr_op_decode(0);
    if (i == 1 || i == 3)
        ops[n++] = (struct hr_op)hr_op_crop(.x = 8, .y = 4, .w = w - 24,
                                            .h = h - 12);
    if (i == 2 || i == 3)
        ops[n++] = (struct hr_op)hr_op_resize(.w = w * 2 / 3, .h = h * 5 / 8);
    if (i == 4)
        ops[n++] = (struct hr_op)hr_op_resize(.w = w * 3 / 2, .h = h * 4 / 3);
    if (i == 1)
        ops[n++] = (struct hr_op)hr_op_flip(.horizontal = true);
    if (i == 2)
        ops[n++] = (struct hr_op)hr_op_flip(.vertical = true);
    return n;
}

static enum hr_status make_case(struct probe *p, size_t size,
                                const struct hr_info *info)
{
    struct hr_op *ops = p->ops[p->n];
    int n = make_ops(p->n % CASES, info->width, info->height, ops), w, h;

    if (hr_ops_output_size(ops, n, info->width, info->height, 1, &w, &h))
        return hr_last_status();
    for (int k = 0; k < 2; k++) {
        p->out[k][p->n] = hr_image_create(
            &p->dev[k]->pub,
            hr_image_params(.w = w, .h = h, .c = 3, .dtype = HR_U8));
        if (!p->out[k][p->n])
            return hr_last_status();
        p->samples[k][p->n] = (struct hr_sample){.data = p->bytes[p->pictures],
                                                 .size = size,
                                                 .ops = ops,
                                                 .num_ops = n,
                                                 .out = p->out[k][p->n],
                                                 .name = "test picture"};
    }
    p->n++;
    return HR_OK;
}

// Whether such a picture as it is would be its: of a kind that is decoded well
// enough, too.
static bool takes(const struct probe *p, const struct hr_sample *s,
                  const struct hr_info *info, int kind)
{
    struct hr__device *dev = p->dev[1];
    struct hr__picture pic = {.data = s->data,
                              .size = s->size,
                              .info = *info,
                              .width = info->width,
                              .height = info->height,
                              .channels = 3,
                              .tier = HR_FAST,
                              .limits = &dev->pub.params.limits};
    struct hr__offer offer = {0};
    char text[128];

    if (kind < 0 || !p->cert->kinds[kind].pictures ||
        p->cert->kinds[kind].max > HR__CLOSE_LEVELS ||
        hr__geometry_build(&pic.geo, s->ops, s->num_ops, HR_REFERENCE_DEFAULT,
                           pic.width, pic.height, info->orientation, text))
        return false;
    hr__device_offer(dev, 0, &pic, &offer);
    return offer.spans & HR__FAST_SPAN;
}

static enum hr_status make_cases(struct probe *p)
{
    const struct hr_op decode = hr_op_decode(0);
    struct hr__engine *host = hr__host(p->dev[1]);
    enum hr_status status = HR_OK;
    struct hr_info info;
    size_t size;

    for (int i = HR__SPECIMENS_LARGE;
         p->pictures < PICTURES && host->backend->specimen &&
         host->backend->specimen(host, i, p->bytes[p->pictures],
                                 HR__SOURCE_BYTES, &size);
         i++) {
        const struct hr_sample plain = {.data = p->bytes[p->pictures],
                                        .size = size,
                                        .ops = &decode,
                                        .num_ops = 1};

        if (hr_probe(plain.data, size, NULL, &info))
            continue;
        p->kinds[p->pictures] = hr__jpeg_kind(&info);
        if (!takes(p, &plain, &info, p->kinds[p->pictures]))
            continue;
        for (int k = 0; k < CASES && !status; k++)
            status = make_case(p, size, &info);
        if (status)
            return status;
        p->pictures++;
    }
    return HR_OK;
}

static void drop(void *ctx, const struct hr_job_t *job)
{
    struct probe *p = ctx;

    (void)job;
    if (atomic_fetch_sub(&p->refs, 1) == 1)
        hr__free(p);
}

// ---- Comparing -------------------------------------------------------------

static void compare(struct probe *p, int i)
{
    const struct hr_image_params *a = &p->out[0][i]->params;
    struct hr__dst d = {.data = a->data,
                        .stride_c = a->stride_c,
                        .stride_h = a->stride_h,
                        .w = a->w,
                        .h = a->h,
                        .c = a->c,
                        .dtype = a->dtype,
                        .layout = a->layout};
    int kind = p->kinds[i / CASES];
    struct hr_fast_certificate *cert = &p->cert->fast[kind];
    struct sums *s = &p->sums[kind];
    struct hr__likeness l;

    hr__liken(&d, NULL, p->out[1][i]->params.data, &l);
    cert->pictures++;
    cert->failed = cert->failed || !hr__alike(&l);
    cert->max = l.max > cert->max ? l.max : cert->max;
    s->sum += l.sum;
    s->squares += l.squares;
    s->elements += (double)l.elements;
    s->differing += (double)l.differing;
}

// Samples that it does not take say nothing.
static enum hr_status look(struct probe *p, hr_job cpu, hr_job job)
{
    enum hr_status status;

    for (int i = 0; i < p->n; i++) {
        const struct hr_result *r = &job->results[i];

        if (cpu->results[i].status || r->status == HR_EUNSUPPORTED)
            continue;
        if (!r->status) {
            compare(p, i);
            continue;
        }
        if ((status = hr__certificate_failed(r)))
            return status;
        p->cert->fast[p->kinds[i / CASES]].failed = true;
        p->broke = true;
    }
    return HR_OK;
}

static void add_up(struct hr_fast_certificate *cert, const struct sums *s)
{
    if (!cert->pictures)
        return;
    cert->mean = hr__certificate_rounded(s->sum / s->elements);
    cert->max = hr__certificate_rounded(cert->max);
    cert->psnr = hr__psnr(s->squares, s->elements);
}

// The span is what its kinds are that are used; or all, if none is.
static void sum_up(struct probe *p)
{
    struct hr_span_certificate *span = &p->cert->spans[p->cert->num_spans - 1];
    struct sums all = {0};
    bool any = false;

    for (int k = 0; k < HR_NUM_KINDS; k++) {
        add_up(&p->cert->fast[k], &p->sums[k]);
        any = any || (p->cert->fast[k].pictures && !p->cert->fast[k].failed);
        span->failed = span->failed || p->cert->fast[k].failed;
    }
    span->failed = span->failed && !any;
    for (int k = 0; k < HR_NUM_KINDS; k++) {
        const struct hr_fast_certificate *kind = &p->cert->fast[k];

        if (any && kind->failed)
            continue;
        span->pictures += kind->pictures;
        span->max = kind->max > span->max ? kind->max : span->max;
        all.sum += p->sums[k].sum;
        all.squares += p->sums[k].squares;
        all.elements += p->sums[k].elements;
        all.differing += p->sums[k].differing;
    }
    if (!span->pictures)
        return;
    span->mean = hr__certificate_rounded(all.sum / all.elements);
    span->differing = hr__certificate_rounded(all.differing / all.elements);
    span->psnr = hr__psnr(all.squares, all.elements);
}

// ---- Running ---------------------------------------------------------------

// NULL: hr_last_status(). A job that hangs for ever is left behind, and p.
static hr_job run(struct probe *p, int k)
{
    int64_t left = p->deadline - hr__now();
    hr_job job;

    atomic_fetch_add(&p->refs, 1);
    job = hr_submit(&p->dev[k]->pub, p->samples[k], p->n, NULL,
                    hr_job_params(.tier = k ? HR_FAST : HR_EXACT,
                                  .strict = k == 1,
                                  .on_error = HR_ON_ERROR_ZERO,
                                  .timeout_ns = left > 0 ? left : 1,
                                  .on_done = drop, .ctx = p));
    if (!job) {
        drop(p, NULL);
        return NULL;
    }
    hr_job_wait(job, (left > 0 ? left : 0) + 2000000000);
    if (hr_job_poll(job, 0) != HR_PENDING)
        return job;
    hr_job_release(&job);
    hr__certificate_gave_up("it does not answer");
    return NULL;
}

static enum hr_status run_both(struct probe *p)
{
    hr_job cpu, job = NULL;
    enum hr_status status = make_cases(p);

    if (status || !p->n)
        return status;
    p->dev[1]->probing = HR__FAST_SPAN;
    if ((cpu = run(p, 0)) && (job = run(p, 1)))
        status = look(p, cpu, job);
    else
        status = hr_last_status();
    // (What hangs goes on looking at what it may do.)
    if (job)
        p->dev[1]->probing = 0;
    hr_job_release(&cpu);
    hr_job_release(&job);
    return status;
}

static enum hr_status run_lifted(struct probe *p)
{
    struct hr_device_params mine = hr__certificate_lift(p->dev[1]);
    enum hr_status status;

    if ((status = run_both(p)))
        return status;
    hr__certificate_end(p->dev[1], &mine);
    sum_up(p);
    return HR_OK;
}

enum hr_status hr__certificate_fast(struct hr__device *dev,
                                    struct hr_certificate *cert, bool *keep)
{
    enum hr_status status;
    struct probe *p;
    hr_device cpu;

    if (!(dev->engines[0]->caps.spans[HR_FAST] & HR__FAST_SPAN))
        return HR_OK;
    if (!(p = hr__alloc(NULL, sizeof(*p))))
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    memset(p, 0, sizeof(*p));
    atomic_init(&p->refs, 1);
    p->cert = cert;
    cert->spans[cert->num_spans++].span = (struct hr_span){HR_ENTROPY,
                                                           HR_RESAMPLE};
    p->deadline = hr__deadline(TOTAL_NS + 2 * hr__certificate_span_ns(dev));
    cpu = hr__certificate_cpu(dev);
    p->dev[0] = (struct hr__device *)cpu;
    p->dev[1] = dev;
    status = cpu ? run_lifted(p) : hr_last_status();
    *keep = *keep && !p->broke;
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < 2; k++)
            hr_image_release(&p->out[k][i]);
    hr_device_close(&cpu);
    drop(p, NULL);
    return status;
}
