// SPDX-License-Identifier: Apache-2.0
// What a device may do, by how its pictures compared with the CPU's: the
// certificate is made or read when the device opens, and from then on
// narrows what the engine offers.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal/certificate.h"

// Changes with the pictures and the judgement below.
enum { PROBE_VERSION = 5 };

// ---- Judgement -------------------------------------------------------------

static bool is_exact(const struct hr_span_certificate *s)
{
    return s->pictures && !s->failed && !(s->differing > 0);
}

// Outside EXACT an inverse DCT may be another one, within limits; resample
// and store may not.
static bool allowed(const struct hr_span_certificate *s, enum hr_tier tier)
{
    if (is_exact(s))
        return true;
    return tier != HR_EXACT && s->pictures && !s->failed &&
           s->span.first < HR_RESAMPLE && s->max <= HR__CLOSE_LEVELS;
}

// The video processor, certificate_fast.c.
static void judge_fast(struct hr__device *dev,
                       const struct hr_certificate *cert)
{
    for (int k = 0; k < HR_NUM_KINDS; k++)
        if (!cert->fast[k].pictures || cert->fast[k].failed)
            dev->refused_fast |= 1u << k;
    for (int i = 1; i < cert->num_spans; i++)
        if (cert->spans[i].failed || !cert->spans[i].pictures)
            dev->refused[0][HR_FAST] |= HR__FAST_SPAN;
}

// Media engines: kinds of JPEG one by one, and the span if it failed, or if no
// kind is left.
static void judge_media(struct hr__device *dev,
                        const struct hr_certificate *cert)
{
    const struct hr_span_certificate *s = &cert->spans[0];
    struct hr_caps *caps = &dev->pub.caps;
    bool exact = true;

    for (int tier = 0; tier <= HR_FAST; tier++) {
        double most = tier == HR_EXACT ? 0 : HR__CLOSE_LEVELS;
        bool any = false;

        for (int k = 0; k < HR_NUM_KINDS; k++) {
            const struct hr_kind_certificate *kind = &cert->kinds[k];

            if (!s->failed && kind->pictures && kind->max <= most)
                any = true;
            else
                dev->refused_kinds[tier] |= 1u << k;
            exact = exact && !(kind->max > 0);
        }
        if (!any)
            dev->refused[0][tier] = UINT32_MAX;
    }
    judge_fast(dev, cert);
    for (int tier = 0; tier <= HR_FAST; tier++)
        caps->spans[tier] &= ~dev->refused[0][tier];
    caps->exact = exact && !s->failed && s->pictures;
}

// Of engine k; what the device can do is what its first engine can.
static void judge(struct hr__device *dev, int k,
                  const struct hr_certificate *cert)
{
    struct hr_caps *caps = &dev->pub.caps;
    uint32_t *refused = dev->refused[k];

    if (dev->engines[k]->backend->media) {
        judge_media(dev, cert);
        return;
    }
    for (int i = 0; i < cert->num_spans; i++) {
        const struct hr_span_certificate *s = &cert->spans[i];

        for (int tier = 0; tier <= HR_FAST; tier++)
            if (!allowed(s, (enum hr_tier)tier))
                refused[tier] |= HR__SPAN_BIT(s->span.first, s->span.last);
        if (!is_exact(s))
            caps->exact = false;
    }
    for (int tier = 0; tier <= HR_FAST && !k; tier++)
        caps->spans[tier] &= ~refused[tier];
}

void hr__device_offer(struct hr__device *dev, int i,
                      const struct hr__picture *pic, struct hr__offer *out)
{
    struct hr__engine *e = dev->engines[i];
    uint32_t refused = dev->refused[i][pic->tier];

    e->backend->offer(e, pic, out);
    if (dev->probing && !e->host)
        out->spans &= i ? 0 : dev->probing;
    else if (dev->probing && dev->num_engines == 1)
        out->spans &= dev->probing;
    if (e->backend->media && pic->data && !dev->probing) {
        int kind = hr__jpeg_kind(&pic->info);

        if (kind >= 0 && dev->refused_fast >> kind & 1)
            refused |= HR__FAST_SPAN;
        if (kind >= 0 && dev->refused_kinds[pic->tier] >> kind & 1)
            refused = UINT32_MAX;
    }
    if (out->spans & refused)
        out->why |= HR_WHY_CERTIFICATE;
    out->spans &= ~refused;
    if (atomic_load(&dev->liars) >> i & 1) {
        out->spans = 0;
        out->why |= HR_WHY_LIED;
    }
}

// ---- Opening ---------------------------------------------------------------

static void make_key(const struct hr__device *dev, int k,
                     char key[HR__CERTIFICATE_KEY])
{
    struct hr__engine *e = dev->engines[k];
    struct hr__engine *host = hr__host((struct hr__device *)dev);
    const char *of_engine = "", *of_host = "";

    if (e->backend->fingerprint)
        of_engine = e->backend->fingerprint(e);
    if (host->backend->fingerprint)
        of_host = host->backend->fingerprint(host);
    // The last line ends in a newline, cut or not.
    snprintf(key, HR__CERTIFICATE_KEY - 1,
             "%d\nheadrace %s %d\n%s\n%s\n%" PRIx32 " %" PRIx32 "\n%s\n%s",
             PROBE_VERSION, hr_version(), HR_API_VERSION, e->backend->name,
             e->description, e->caps.spans[HR_EXACT], e->caps.spans[HR_CLOSE],
             of_host, of_engine ? of_engine : "");
    strcat(key, "\n");
}

// A media engine's video processor.
static bool scales(const struct hr__device *dev,
                   const struct hr_span_certificate *s)
{
    return dev->engines[0]->backend->media && s->span.last == HR_RESAMPLE;
}

static void log_span(struct hr__device *dev,
                     const struct hr_span_certificate *s)
{
    const char *first = hr_stage_name(s->span.first);
    const char *last = hr_stage_name(s->span.last);

    if (is_exact(s))
        hr__log(dev, HR_LOG_INFO, "%s: %s..%s is exact, %d pictures compared",
                dev->pub.name, first, last, s->pictures);
    else if (s->failed || !s->pictures)
        hr__log(dev, HR_LOG_WARN, "%s: %s..%s %s, it is not used",
                dev->pub.name, first, last,
                s->failed ? "failed its test" : "could not be tested");
    else
        hr__log(dev, HR_LOG_WARN,
                "%s: %s..%s differs from the CPU in %.4f %% of %d pictures' "
                "elements, by %.3f levels at most: %s",
                dev->pub.name, first, last, 100 * s->differing, s->pictures,
                s->max,
                scales(dev, s)         ? "used in tier fast only"
                : allowed(s, HR_CLOSE) ? "not used in tier exact"
                                       : "not used");
}

static void log_kind(struct hr__device *dev, enum hr_jpeg_kind kind,
                     const struct hr_kind_certificate *k)
{
    if (k->pictures)
        hr__log(dev, HR_LOG_INFO,
                "%s: %s differs by %.0f levels at most, %.4f on average, %d "
                "pictures compared",
                dev->pub.name, hr_jpeg_kind_name(kind), k->max, k->mean,
                k->pictures);
}

static void log_fast(struct hr__device *dev, enum hr_jpeg_kind kind,
                     const struct hr_fast_certificate *f)
{
    const char *name = hr_jpeg_kind_name(kind);

    if (f->failed)
        hr__log(dev, HR_LOG_WARN,
                "%s: %s is not for its video processor, which failed or was "
                "too far off: %.3f levels on average",
                dev->pub.name, name, f->mean);
    else if (f->pictures)
        hr__log(dev, HR_LOG_INFO,
                "%s: %s by its video processor differs by %.0f levels at most, "
                "%.3f on average, %d pictures compared",
                dev->pub.name, name, f->max, f->mean, f->pictures);
}

static enum hr_status test_media(struct hr__device *dev, bool *keep)
{
    struct hr_certificate *cert = &dev->pub.certificate;
    enum hr_status status;

    if ((status = hr__certificate_kinds(dev, cert)))
        return status;
    *keep = !cert->spans[0].failed;  // it may do better
    return hr__certificate_fast(dev, cert, keep);
}

static enum hr_status test(struct hr__device *dev, const char *key)
{
    struct hr_certificate *cert = &dev->pub.certificate;
    int64_t start = hr__now();
    enum hr_status status;
    bool keep = false;

    if (dev->engines[0]->backend->media) {
        if ((status = test_media(dev, &keep)))
            return status;
    } else if ((status = hr__certificate_probe(dev, cert, &keep))) {
        return status;
    }
    cert->tested = (int64_t)time(NULL);
    for (int i = 0; i < cert->num_spans; i++)
        log_span(dev, &cert->spans[i]);
    for (int i = 0; i < HR_NUM_KINDS; i++)
        log_kind(dev, (enum hr_jpeg_kind)i, &cert->kinds[i]);
    for (int i = 0; i < HR_NUM_KINDS; i++)
        log_fast(dev, (enum hr_jpeg_kind)i, &cert->fast[i]);
    hr__log(dev, HR_LOG_INFO, "%s: tested in %d ms", dev->pub.name,
            (int)((hr__now() - start) / 1000000));
    if (keep && !hr__certificate_save(key, cert))
        hr__log(dev, HR_LOG_INFO, "%s: its certificate cannot be kept: %s",
                dev->pub.name, strerror(errno));
    return HR_OK;
}

// An engine behind the first is tested as a device of its own: there the CPU
// makes what it goes on from.
static enum hr_status test_alone(struct hr__device *dev, int k,
                                 struct hr_certificate *cert)
{
    struct hr_device_params params = dev->pub.params;
    hr_device alone;

    params.threads = 1;
    params.va_display = NULL;
    params.on_closed = NULL;
    if (!(alone = hr_device_open(dev->engines[k]->name, &params)))
        return hr_last_status();
    *cert = alone->certificate;
    hr_device_close(&alone);
    return HR_OK;
}

static enum hr_status certify(struct hr__device *dev, int k, const char *wish)
{
    struct hr_certificate *cert = &dev->pub.certificate, of_second;
    char key[HR__CERTIFICATE_KEY];
    enum hr_status status;

    if (dev->engines[k]->backend->trusted)
        return HR_OK;
    cert = k ? &of_second : cert;
    make_key(dev, k, key);
    if ((!strcmp(wish, "again") || !hr__certificate_load(dev, key, cert)) &&
        (status = k ? test_alone(dev, k, cert) : test(dev, key)))
        return status;
    judge(dev, k, cert);
    return HR_OK;
}

enum hr_status hr__certify(struct hr__device *dev)
{
    const char *wish = secure_getenv("HEADRACE_CERTIFICATE");
    enum hr_status status = HR_OK;

    wish = wish ? wish : "";
    if (!strcmp(wish, "off")) {
        hr__log(dev, HR_LOG_WARN,
                "%s: HEADRACE_CERTIFICATE=off, its pictures "
                "are not compared with the CPU's",
                dev->pub.name);
        return HR_OK;
    }
    if (dev->num_engines > 1 && *wish && strcmp(wish, "again") != 0)
        return hr__fail(HR_EINVAL,
                        "HEADRACE_CERTIFICATE is '%.32s', not again or off",
                        wish);
    for (int k = 0; k < dev->num_engines - 1 && !status; k++)
        status = certify(dev, k, wish);
    return status;
}
