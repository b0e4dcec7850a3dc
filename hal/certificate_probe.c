// SPDX-License-Identifier: Apache-2.0
// The test behind a certificate: generated pictures x geometries x element
// types, each made by every span of the engine alone (the host does the
// stages around it) and by the readable C of a CPU device; compared bit for
// bit.
//
// It runs through the public way of a job, on a device that nobody else knows
// yet: dev->probing leaves the planner one span, strict forbids it to fall
// back. What the user limited is lifted meanwhile, and the counters start
// again afterwards. Bounded: the cases of one picture are one job, small
// pictures all; the clock that finds a hung engine starts again with each job,
// for a busy machine is slow at all of them. An engine that gets on but is not
// through in TOTAL_NS opens without the spans that nobody has seen to the end.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hal/certificate.h"
#include "hal/likeness.h"

enum { NUM_CASES = HR__CASES, MAX_OPS = HR__CASE_OPS + 2 };
// Of one job, besides two deadlines of a span. These are the user's, as far as
// they are neither for ever nor short: some drivers still compile.
#define JOB_NS INT64_C(10000000000)
#define MIN_SPAN_NS INT64_C(10000000000)
#define MAX_SPAN_NS INT64_C(60000000000)
#define TOTAL_NS INT64_C(120000000000)

static const float mean[3] = {.485f, .456f, .406f};
static const float deviation[3] = {.229f, .224f, .225f};

static struct {
    int64_t span_ns, job_ns, total_ns;
} limits = {MIN_SPAN_NS, JOB_NS, TOTAL_NS};

struct sums {
    uint64_t elements, differing;
    double sum, squares;
};

struct probe {
    struct hr__device *dev;
    hr_device cpu;
    struct hr_certificate *cert;
    int64_t deadline, job_ns, span_ns;  // of all of it; one job; one span
    bool late;
    struct sums sums[HR_NUM_STAGES * (HR_NUM_STAGES + 1) / 2];

    // The picture at hand: encoded bytes, or an image on each device.
    int number, w, h, c;
    size_t size;
    hr_image source[2];
    // Its cases; [0] on the CPU, [1] on the device.
    int n;
    struct hr_op ops[NUM_CASES][MAX_OPS];
    struct hr_sample samples[2][NUM_CASES];
    hr_image out[2][NUM_CASES];
    bool normalized[NUM_CASES];

    atomic_int refs;  // ours and one per job: a job that hangs for ever
                      // still reads bytes
    uint8_t bytes[HR__SOURCE_BYTES];
};

// ---- Cases -----------------------------------------------------------------

// Case i of the picture at hand; false: out of memory, or not a valid list.
static bool make_case(struct probe *p, int i)
{
    struct hr_op *ops = p->ops[i];
    enum hr_dtype dtype = (enum hr_dtype)((i + p->number) % 3);
    enum hr_layout layout = (i + p->number) / 3 % 2 ? HR_NHWC : HR_NCHW;
    bool gray = p->size && (i * 7 + p->number) % 5 == 4;
    int c = gray ? 1 : p->c, n = 0, w, h;

    if (p->size)
        ops[n++] = hr_op_decode(.mode = gray ? HR_GRAY : HR_RGB);
    n += hr__certificate_case(i, p->w, p->h, ops + n);
    if (hr_ops_output_size(ops, n, p->w, p->h, 1, &w, &h))
        return false;
    p->normalized[i] = dtype != HR_U8 && (i + p->number) / 2 % 2;
    if (p->normalized[i]) {
        ops[n] = (struct hr_op){.type = HR_OP_NORMALIZE};
        memcpy(ops[n].normalize.mean, mean, sizeof(mean));
        memcpy(ops[n++].normalize.std, deviation, sizeof(deviation));
    }
    for (int k = 0; k < 2; k++) {
        p->out[k][i] = hr_image_create(k ? &p->dev->pub : p->cpu,
                                       hr_image_params(.w = w, .h = h, .c = c,
                                                       .dtype = dtype,
                                                       .layout = layout));
        if (!p->out[k][i])
            return false;
        p->samples[k][i] = (struct hr_sample){.data = p->size ? p->bytes : NULL,
                                              .size = p->size,
                                              .image = p->source[k],
                                              .ops = ops,
                                              .num_ops = n,
                                              .out = p->out[k][i],
                                              .name = "test picture"};
    }
    return true;
}

static void drop_picture(struct probe *p)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < NUM_CASES; i++)
            hr_image_release(&p->out[k][i]);
        hr_image_release(&p->source[k]);
    }
}

static enum hr_status make_cases(struct probe *p)
{
    for (p->n = 0; p->n < NUM_CASES; p->n++)
        if (!make_case(p, p->n))
            return hr_last_status();
    return HR_OK;
}

// ---- Comparing -------------------------------------------------------------

static double element(const struct hr_image_params *p, size_t i)
{
    float f;

    switch (p->dtype) {
    case HR_F32:
        memcpy(&f, (const uint8_t *)p->data + 4 * i, sizeof(f));
        return f;
    case HR_F16:
        return hr_f16_value(((const uint16_t *)p->data)[i]);
    default:
        return ((const uint8_t *)p->data)[i];
    }
}

static void compare(struct probe *p, int k, int i)
{
    const struct hr_image_params *a = &p->out[0][i]->params;
    const struct hr_image_params *b = &p->out[1][i]->params;
    struct hr_span_certificate *s = &p->cert->spans[k];
    size_t elem = hr_dtype_size(a->dtype), plane = (size_t)a->w * (size_t)a->h;
    size_t n = plane * (size_t)a->c;

    s->pictures++;
    p->sums[k].elements += n;
    if (!memcmp(a->data, b->data, n * elem))
        return;
    for (size_t j = 0; j < n; j++) {
        size_t c = a->layout == HR_NCHW ? j / plane : j % (size_t)a->c;
        double scale = p->normalized[i] ? 255 * (double)deviation[c] : 1;
        double diff;

        if (!memcmp((const uint8_t *)a->data + j * elem,
                    (const uint8_t *)b->data + j * elem, elem))
            continue;
        diff = fabs(element(a, j) - element(b, j)) * scale;
        diff = diff < 255 ? diff : 255;  // also what is not a number
        p->sums[k].differing++;
        p->sums[k].sum += diff;
        p->sums[k].squares += diff * diff;
        s->max = diff > s->max ? diff : s->max;
    }
}

// ---- Running ---------------------------------------------------------------

static void drop(void *ctx, const struct hr_job_t *job)
{
    struct probe *p = ctx;

    (void)job;
    if (atomic_fetch_sub(&p->refs, 1) == 1)
        hr__free(p);
}

// A job of a hung device ends by the deadlines of its spans; false: not even
// so, it is left behind.
static bool wait_for(struct probe *p, hr_job job)
{
    hr_job_wait(job, p->job_ns + 2000000000);
    return hr_job_poll(job, 0) != HR_PENDING;
}

static hr_job start(struct probe *p, int k, enum hr_tier tier)
{
    hr_job job;

    atomic_fetch_add(&p->refs, 1);
    job = hr_submit(k ? &p->dev->pub : p->cpu, p->samples[k], p->n, NULL,
                    hr_job_params(.tier = tier, .strict = k == 1,
                                  .on_error = HR_ON_ERROR_ZERO,
                                  .timeout_ns = p->job_ns, .on_done = drop,
                                  .ctx = p));
    if (!job)
        drop(p, NULL);
    return job;
}

// What the results of span k say. Samples that the engine does not take, and
// those that even the CPU could not make, say nothing.
static enum hr_status look(struct probe *p, int k, hr_job cpu, hr_job job)
{
    enum hr_status status;

    for (int i = 0; i < p->n; i++) {
        const struct hr_result *r = &job->results[i];

        if (cpu->results[i].status || r->status == HR_EUNSUPPORTED)
            continue;
        if (!r->status) {
            compare(p, k, i);
            continue;
        }
        if ((status = hr__certificate_failed(r)))
            return status;
        p->cert->spans[k].failed = true;
    }
    return HR_OK;
}

static enum hr_status run_span(struct probe *p, int k, hr_job cpu)
{
    struct hr_span span = p->cert->spans[k].span;
    uint32_t bit = HR__SPAN_BIT(span.first, span.last);
    bool exact = p->dev->engines[0]->caps.spans[HR_EXACT] & bit;
    enum hr_status status;
    hr_job job;

    // What stands there must not be what the span before has made.
    for (int i = 0; i < p->n; i++)
        memset(p->out[1][i]->params.data, 0xa5, p->out[1][i]->size);
    p->dev->probing = bit;
    if (!(job = start(p, 1, exact ? HR_EXACT : HR_CLOSE)))
        return hr_last_status();
    if (!wait_for(p, job))
        status = hr__certificate_gave_up("it does not answer");
    else
        status = look(p, k, cpu, job);
    hr_job_release(&job);
    return status;
}

// Every span that has a part in such pictures, on the picture at hand.
static enum hr_status run_picture(struct probe *p)
{
    enum hr_status status = make_cases(p);
    hr_job cpu;

    if (status)
        return status;
    if (!(cpu = start(p, 0, HR_EXACT)))
        return hr_last_status();
    if (!wait_for(p, cpu))
        status = hr__certificate_gave_up("the CPU is too slow for it");
    for (int k = 0; k < p->cert->num_spans && !status; k++)
        if (p->size || p->cert->spans[k].span.first >= HR_RESAMPLE)
            status = run_span(p, k, cpu);
    hr_job_release(&cpu);
    return status;
}

// ---- Pictures --------------------------------------------------------------

// A picture that is pixels already: number i, noise in the first device's
// image, copied to the other's.
static enum hr_status make_image(struct probe *p, int i)
{
    const struct hr_image_params kinds[] = {
        {.w = 57, .h = 43, .c = 3, .dtype = HR_U8, .layout = HR_NHWC},
        {.w = 37, .h = 31, .c = 1, .dtype = HR_U8, .layout = HR_NHWC},
        {.w = 29, .h = 53, .c = 3, .dtype = HR_U8, .layout = HR_NCHW},
    };
    uint32_t x = 0x9e3779b9u + (uint32_t)i;

    if (i >= (int)(sizeof(kinds) / sizeof(*kinds)))
        return HR_PENDING;  // that was all
    p->size = 0;
    p->w = kinds[i].w;
    p->h = kinds[i].h;
    p->c = kinds[i].c;
    for (int k = 0; k < 2; k++)
        if (!(p->source[k] = hr_image_create(k ? &p->dev->pub : p->cpu,
                                             &kinds[i])))
            return hr_last_status();
    for (size_t at = 0; at < p->source[0]->size; at++) {
        // xorshift32 (Marsaglia, 2003)
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        ((uint8_t *)p->source[0]->params.data)[at] = (uint8_t)(x >> 24);
    }
    memcpy(p->source[1]->params.data, p->source[0]->params.data,
           p->source[0]->size);
    return HR_OK;
}

static enum hr_status make_encoded(struct probe *p, int i)
{
    struct hr__engine *host = hr__host(p->dev);
    struct hr_info info;

    if (!host->backend->specimen ||
        !host->backend->specimen(host, i, p->bytes, sizeof(p->bytes),
                                 &p->size) ||
        hr_probe(p->bytes, p->size, NULL, &info))
        return HR_PENDING;
    p->w = info.width;
    p->h = info.height;
    p->c = 3;
    return HR_OK;
}

static enum hr_status run_all(struct probe *p)
{
    enum hr_status status = HR_OK;

    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; !status; i++, p->number++) {
            if ((p->late = hr__now() >= p->deadline))
                return HR_OK;
            status = kind ? make_image(p, i) : make_encoded(p, i);
            if (!status)
                status = run_picture(p);
            drop_picture(p);
        }
        if (status != HR_PENDING)
            return status;
        status = HR_OK;
    }
    return HR_OK;
}

// ---- All of it -------------------------------------------------------------

static void list_spans(struct probe *p)
{
    const struct hr_caps *caps = &p->dev->engines[0]->caps;
    uint32_t spans = caps->spans[HR_EXACT] | caps->spans[HR_CLOSE];

    for (int first = 0; first < HR_NUM_STAGES; first++)
        for (int last = first; last < HR_NUM_STAGES; last++)
            if (spans & HR__SPAN_BIT(first, last))
                p->cert->spans[p->cert->num_spans++].span =
                    (struct hr_span){(enum hr_stage)first, (enum hr_stage)last};
}

static bool sum_up(struct probe *p)
{
    bool keep = !p->late;

    for (int k = 0; k < p->cert->num_spans; k++) {
        struct hr_span_certificate *s = &p->cert->spans[k];
        double n = (double)p->sums[k].elements;

        s->differing = n > 0 ? hr__certificate_rounded(
                                   (double)p->sums[k].differing / n)
                             : 0;
        s->mean = n > 0 ? hr__certificate_rounded(p->sums[k].sum / n) : 0;
        s->max = hr__certificate_rounded(s->max);
        s->psnr = hr__psnr(p->sums[k].squares, n);
        if (p->late)
            s->pictures = 0;
        keep = keep && !s->failed;  // it may do better the next time
    }
    if (p->late)
        hr__log(p->dev, HR_LOG_WARN, "%s: not through with its test in %d s",
                p->dev->pub.name, (int)(limits.total_ns / 1000000000));
    return keep;
}

// Returns what it was. Nothing is in flight.
static int64_t set_deadline(struct hr__device *dev, int64_t ns)
{
    int64_t was = dev->engines[0]->params.deadline_ns;

    for (int i = 0; i < dev->num_engines; i++)
        dev->engines[i]->params.deadline_ns = ns;
    return was;
}

static enum hr_status run_lifted(struct probe *p)
{
    struct hr_device_params mine = hr__certificate_lift(p->dev);
    enum hr_status status;
    int64_t deadline;

    deadline = set_deadline(p->dev, p->span_ns);
    status = run_all(p);
    p->dev->probing = 0;
    if (status)
        return status;  // jobs may be left, which look at the limits
    hr__certificate_end(p->dev, &mine);
    set_deadline(p->dev, deadline);
    return HR_OK;
}

void hr__test_probe_limits(int64_t span_ns, int64_t job_ns, int64_t total_ns)
{
    limits.span_ns = span_ns ? span_ns : MIN_SPAN_NS;
    limits.job_ns = job_ns ? job_ns : JOB_NS;
    limits.total_ns = total_ns ? total_ns : TOTAL_NS;
}

enum hr_status hr__certificate_probe(struct hr__device *dev,
                                     struct hr_certificate *cert, bool *keep)
{
    int64_t span_ns = dev->pub.params.deadline_ns;
    struct probe *p = hr__alloc(NULL, sizeof(*p));
    enum hr_status status;

    if (!p)
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    memset(p, 0, sizeof(*p));
    memset(cert, 0, sizeof(*cert));
    atomic_init(&p->refs, 1);
    p->dev = dev;
    p->cert = cert;
    span_ns = span_ns > limits.span_ns ? span_ns : limits.span_ns;
    p->span_ns = span_ns;
    p->job_ns = limits.job_ns +
                2 * (span_ns < MAX_SPAN_NS ? span_ns : MAX_SPAN_NS);
    p->deadline = hr__deadline(limits.total_ns);
    list_spans(p);
    p->cpu = hr__certificate_cpu(dev);
    status = p->cpu ? run_lifted(p) : hr_last_status();
    if (!status)
        *keep = sum_up(p);
    hr_device_close(&p->cpu);
    drop(p, NULL);
    return status;
}
