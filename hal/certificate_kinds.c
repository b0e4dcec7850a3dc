// SPDX-License-Identifier: Apache-2.0
// The test behind a media engine's certificate: generated pictures of every
// kind of JPEG, decoded by it and by the CPU's readable C; the planes of both
// compared sample by sample, before anybody upsamples. What comes after is
// other engines' work, and they have certificates of their own.
//
// Each side is one job on a device that nobody else knows yet, cut so that
// planes go from one engine to another, where dev->tap copies them.
#include <stdio.h>
#include <string.h>

#include "hal/certificate.h"
#include "hal/likeness.h"

enum { MAX_PICTURES = 64 };
#define JOB_NS INT64_C(20000000000)  // and two deadlines of a span

static const char *const names[HR_NUM_KINDS] = {"gray",  "4:2:0", "4:2:2",
                                                "4:4:0", "4:4:4", "4:1:1"};

const char *hr_jpeg_kind_name(enum hr_jpeg_kind kind)
{
    return kind >= 0 && kind < HR_NUM_KINDS ? names[kind] : "";
}

int hr__jpeg_kind(const struct hr_info *info)
{
    static const uint8_t factors[HR_NUM_KINDS] = {0,    0x22, 0x21,
                                                  0x12, 0x11, 0x41};

    if (info->format != HR_FORMAT_JPEG)
        return -1;
    if (info->components == 1)
        return HR_KIND_GRAY;
    if (info->components != 3 || info->h[1] != 1 || info->v[1] != 1 ||
        info->h[2] != 1 || info->v[2] != 1)
        return -1;
    for (int k = 1; k < HR_NUM_KINDS; k++)
        if (factors[k] == (info->h[0] << 4 | info->v[0]))
            return k;
    return -1;
}

// One picture; planes without gaps, [0] the CPU's, [1] the device's.
struct picture {
    struct hr_info info;
    uint8_t *bytes;
    size_t size, samples;  // of all its components
    uint8_t *planes[2];
    bool have[2];
    hr_image out[2];
};

struct probe {
    struct hr__device *dev[2];
    struct hr_certificate *cert;
    int64_t job_ns;
    int n;
    struct picture pictures[MAX_PICTURES];
    struct hr_op op;
    struct hr_sample samples[2][MAX_PICTURES];
    uint8_t room[HR__SOURCE_BYTES];
    atomic_int refs;  // ours and one per job, which may hang for ever
};

// ---- Pictures --------------------------------------------------------------

static size_t side(int size, int factor, int most)
{
    return ((size_t)size * (size_t)factor + (size_t)most - 1) / (size_t)most;
}

static size_t samples_of(const struct hr_info *info)
{
    int h = 1, v = 1;
    size_t n = 0;

    for (int i = 0; i < info->components; i++) {
        h = info->h[i] > h ? info->h[i] : h;
        v = info->v[i] > v ? info->v[i] : v;
    }
    for (int i = 0; i < info->components; i++)
        n += side(info->width, info->h[i], h) *
             side(info->height, info->v[i], v);
    return n;
}

static enum hr_status add_picture(struct probe *p, size_t size)
{
    struct picture *pic = &p->pictures[p->n];

    if (hr_probe(p->room, size, NULL, &pic->info) ||
        hr__jpeg_kind(&pic->info) < 0)
        return HR_OK;
    pic->size = size;
    pic->samples = samples_of(&pic->info);
    if (!(pic->bytes = hr__alloc(NULL, size + 2 * pic->samples)))
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    memcpy(pic->bytes, p->room, size);
    for (int k = 0; k < 2; k++) {
        pic->planes[k] = pic->bytes + size + (size_t)k * pic->samples;
        pic->out[k] = hr_image_create(&p->dev[k]->pub,
                                      hr_image_params(.w = pic->info.width,
                                                      .h = pic->info.height,
                                                      .c = 3, .dtype = HR_U8));
        if (!pic->out[k])
            return hr_last_status();
        p->samples[k][p->n] = (struct hr_sample){.data = pic->bytes,
                                                 .size = size,
                                                 .ops = &p->op,
                                                 .num_ops = 1,
                                                 .out = pic->out[k],
                                                 .name = "test picture"};
    }
    p->n++;
    return HR_OK;
}

static enum hr_status make_pictures(struct probe *p)
{
    static const int from[] = {0, HR__SPECIMENS_LARGE};
    struct hr__engine *host = hr__host(p->dev[1]);
    size_t size;

    p->op = (struct hr_op)hr_op_decode(0);
    for (int k = 0; k < 2 && host->backend->specimen; k++)
        for (int i = from[k];
             p->n < MAX_PICTURES &&
             host->backend->specimen(host, i, p->room, HR__SOURCE_BYTES, &size);
             i++) {
            enum hr_status status = add_picture(p, size);

            if (status)
                return status;
        }
    return HR_OK;
}

static void drop(void *ctx, const struct hr_job_t *job)
{
    struct probe *p = ctx;

    (void)job;
    if (atomic_fetch_sub(&p->refs, 1) != 1)
        return;
    for (int i = 0; i < MAX_PICTURES; i++)
        hr__free(p->pictures[i].bytes);
    hr__free(p);
}

// ---- Running ---------------------------------------------------------------

static void copy_planes(struct picture *pic, int k,
                        const struct hr__payload *payload)
{
    const struct hr__planes *planes = payload->extra;
    uint8_t *to = pic->planes[k], *end = to + pic->samples;

    for (uint32_t c = 0; planes && c < planes->num_components; c++) {
        const struct hr__plane *p = &planes->comp[c];

        if ((size_t)p->cols * p->rows > (size_t)(end - to))
            return;
        for (uint32_t y = 0; y < p->rows; y++)
            for (uint32_t x = 0; x < p->cols; x++)
                *to++ = ((const uint8_t *)
                             payload->data)[p->at + (size_t)p->stride * y +
                                            (size_t)p->step * x];
    }
    pic->have[k] = to == end;
}

static void tap_cpu(void *ctx, int i, const struct hr__payload *payload)
{
    copy_planes(&((struct probe *)ctx)->pictures[i], 0, payload);
}

static void tap_device(void *ctx, int i, const struct hr__payload *payload)
{
    copy_planes(&((struct probe *)ctx)->pictures[i], 1, payload);
}

// What the results of the device say. Samples that it does not take say
// nothing.
static enum hr_status look(struct probe *p, hr_job job)
{
    enum hr_status status;

    for (int i = 0; i < p->n; i++) {
        const struct hr_result *r = &job->results[i];

        if (!r->status || r->status == HR_EUNSUPPORTED)
            continue;
        if ((status = hr__certificate_failed(r)))
            return status;
        p->cert->spans[0].failed = true;
    }
    return HR_OK;
}

static enum hr_status run(struct probe *p, int k)
{
    struct hr__device *dev = p->dev[k];
    uint32_t cut = HR__SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT);
    enum hr_status status = HR_OK;
    hr_job job;

    dev->tap = k ? tap_device : tap_cpu;
    dev->tap_ctx = p;
    dev->probing = k ? cut : cut | HR__SPAN_BIT(HR_COLOR, HR_STORE);
    atomic_fetch_add(&p->refs, 1);
    job = hr_submit(&dev->pub, p->samples[k], p->n, NULL,
                    hr_job_params(.tier = HR_CLOSE, .strict = k == 1,
                                  .on_error = HR_ON_ERROR_ZERO,
                                  .timeout_ns = p->job_ns, .on_done = drop,
                                  .ctx = p));
    if (!job) {
        drop(p, NULL);
        return hr_last_status();
    }
    // A job of a hung device ends by the deadlines of its spans; or not even
    // so, then it is left behind, and p with it.
    hr_job_wait(job, p->job_ns + 2000000000);
    if (hr_job_poll(job, 0) == HR_PENDING)
        status = hr__certificate_gave_up("it does not answer");
    else if (k)
        status = look(p, job);
    hr_job_release(&job);
    if (!status) {
        dev->tap = NULL;
        dev->probing = 0;
    }
    return status;
}

// ---- Comparing -------------------------------------------------------------

static void compare(struct probe *p)
{
    struct hr_certificate *cert = p->cert;
    struct hr_span_certificate *s = &cert->spans[0];
    double sums[HR_NUM_KINDS] = {0}, counts[HR_NUM_KINDS] = {0};
    double sum = 0, count = 0, differing = 0, squares = 0;

    for (int i = 0; i < p->n; i++) {
        const struct picture *pic = &p->pictures[i];
        int kind = hr__jpeg_kind(&pic->info);
        struct hr_kind_certificate *k = &cert->kinds[kind];

        if (!pic->have[0] || !pic->have[1])
            continue;
        k->pictures++;
        s->pictures++;
        counts[kind] += (double)pic->samples;
        for (size_t j = 0; j < pic->samples; j++) {
            int diff = pic->planes[0][j] - pic->planes[1][j];

            diff = diff < 0 ? -diff : diff;
            differing += diff != 0;
            squares += diff * diff;
            sums[kind] += diff;
            k->max = diff > k->max ? diff : k->max;
        }
    }
    for (int k = 0; k < HR_NUM_KINDS; k++) {
        struct hr_kind_certificate *c = &cert->kinds[k];

        c->mean = counts[k] > 0 ? hr__certificate_rounded(sums[k] / counts[k])
                                : 0;
        s->max = c->max > s->max ? c->max : s->max;
        sum += sums[k];
        count += counts[k];
    }
    s->mean = count > 0 ? hr__certificate_rounded(sum / count) : 0;
    s->differing = count > 0 ? hr__certificate_rounded(differing / count) : 0;
    s->psnr = hr__psnr(squares, count);
}

static enum hr_status run_both(struct probe *p)
{
    struct hr_device_params mine = hr__certificate_lift(p->dev[1]);
    enum hr_status status;

    if ((status = make_pictures(p)) || (status = run(p, 0)) ||
        (status = run(p, 1)))
        return status;
    compare(p);
    hr__certificate_end(p->dev[1], &mine);
    return HR_OK;
}

enum hr_status hr__certificate_kinds(struct hr__device *dev,
                                     struct hr_certificate *cert)
{
    struct probe *p = hr__alloc(NULL, sizeof(*p));
    enum hr_status status;
    hr_device cpu;

    memset(cert, 0, sizeof(*cert));
    cert->num_spans = 1;
    cert->spans[0].span = (struct hr_span){HR_ENTROPY, HR_RECONSTRUCT};
    if (!p)
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    memset(p, 0, sizeof(*p));
    atomic_init(&p->refs, 1);
    p->cert = cert;
    p->job_ns = JOB_NS + 2 * hr__certificate_span_ns(dev);
    cpu = hr__certificate_cpu(dev);
    p->dev[0] = (struct hr__device *)cpu;
    p->dev[1] = dev;
    status = cpu ? run_both(p) : hr_last_status();
    for (int i = 0; i < MAX_PICTURES; i++)
        for (int k = 0; k < 2; k++)
            hr_image_release(&p->pictures[i].out[k]);
    hr_device_close(&cpu);
    drop(p, NULL);
    return status;
}
