// SPDX-License-Identifier: Apache-2.0
// The certificate of a device compares its pictures with the CPU's. It is made
// or read when the device opens, and from then on narrows what the engine
// offers.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal/trust/trust.h"

// Changes with the pictures and the judgement below.
enum { PROBE_VERSION = 10 };

// ---- Judgement -------------------------------------------------------------

bool hr__record_exact(const struct hr_certificate_record *r)
{
    return r->pictures && !r->failed && !(r->differing > 0);
}

// Outside EXACT an inverse DCT may be another one, within limits; resample
// and store may not.
bool hr__certificate_allows(const struct hr_certificate_record *r,
                            enum hr_tier tier)
{
    if (!r || r->failed || !r->pictures)
        return false;
    if (r->tier == HR_FAST)
        return tier == HR_FAST;
    return hr__record_exact(r) ||
           (tier != HR_EXACT && r->span.first < HR_RESAMPLE &&
            r->max <= HR__CLOSE_LEVELS);
}

// Spans of pictures of that kind in that tier.
static uint32_t allowed(const struct hr_certificate *cert, int kind,
                        enum hr_tier tier)
{
    uint32_t spans = 0;

    for (int i = 0; i < cert->num_records; i++) {
        const struct hr_certificate_record *r = &cert->records[i];

        if ((r->kind == HR_KIND_ALL || (int)r->kind == kind) &&
            hr__certificate_allows(r, tier))
            spans |= HR_SPAN_BIT(r->span.first, r->span.last);
    }
    return spans;
}

// Takes the certificate of engine k. The device's capabilities are those of its
// first engine.
static void judge(struct hr__device *dev, int k,
                  const struct hr_certificate *cert)
{
    struct hr_caps *caps = &dev->pub.caps;
    bool exact = cert->num_records > 0 && !cert->wrong_codes;

    dev->wrong_codes[k] = cert->wrong_codes;
    for (int tier = 0; tier <= HR_FAST; tier++) {
        uint32_t any = 0;

        for (int kind = 0; kind <= HR_NUM_KINDS; kind++) {
            uint32_t spans = allowed(cert, kind, (enum hr_tier)tier);

            dev->refused[k][kind][tier] = ~spans;
            any |= spans;
        }
        if (!k)
            caps->spans[tier] &= any;
    }
    for (int i = 0; i < cert->num_records; i++)
        exact = exact && (cert->records[i].tier == HR_FAST ||
                          hr__record_exact(&cert->records[i]));
    // A media engine's claim is what was found.
    caps->exact = exact && (caps->exact || dev->engines[k]->backend->media);
}

// ---- Opening ---------------------------------------------------------------

void hr__certificate_key(const struct hr__device *dev, int k,
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
             "%d\nheadrace %s %d\n%s\n%s\n%" PRIx32 " %" PRIx32 " %" PRIx32
             "\n%s\n%s",
             PROBE_VERSION, hr_version(), HR_API_VERSION, e->backend->name,
             e->description, e->caps.spans[HR_EXACT], e->caps.spans[HR_CLOSE],
             e->caps.spans[HR_FAST], of_host, of_engine ? of_engine : "");
    strcat(key, "\n");
}

static const char *use(const struct hr_certificate_record *r)
{
    return hr__certificate_allows(r, HR_CLOSE)  ? "not used in tier exact"
           : hr__certificate_allows(r, HR_FAST) ? "used in tier fast only"
                                                : "not used";
}

static void log_record(struct hr__device *dev,
                       const struct hr_certificate_record *r)
{
    const char *kind = hr_jpeg_kind_name(r->kind);
    char what[64];

    snprintf(what, sizeof(what), "%s..%s%s%s", hr_stage_name(r->span.first),
             hr_stage_name(r->span.last), *kind ? " of " : "", kind);
    if (hr__record_exact(r))
        hr__log(dev, HR_LOG_INFO, "%s: %s is exact, %d pictures compared",
                dev->pub.name, what, r->pictures);
    else if (!r->pictures)
        hr__log(dev, HR_LOG_WARN, "%s: %s %s, it is not used", dev->pub.name,
                what, r->failed ? "failed its test" : "could not be tested");
    else
        hr__log(dev, HR_LOG_WARN,
                "%s: %s %sdiffers from the CPU in %.4f %% of %d pictures' "
                "elements, by %.3f levels at most, %.3f on average: %s",
                dev->pub.name, what, r->failed ? "failed its test and " : "",
                100 * r->differing, r->pictures, r->max, r->mean, use(r));
}

static void log_code(struct hr__device *dev, int code)
{
    hr__log(dev, HR_LOG_WARN,
            "%s: %s of stage augment differs from the CPU, which makes pictures "
            "that have it",
            dev->pub.name, hr_augment_code_name(code));
}

static enum hr_status test(struct hr__device *dev, const char *key)
{
    struct hr_certificate *cert = &dev->pub.certificate;
    int64_t start = hr__now();
    enum hr_status status;
    bool keep;

    if ((status = hr__certificate_run(dev, cert, &keep)))
        return status;
    cert->tested = (int64_t)time(NULL);
    for (int i = 0; i < cert->num_records; i++)
        log_record(dev, &cert->records[i]);
    for (int i = 0; i < HR__NUM_AUGMENT; i++)
        if (cert->wrong_codes >> i & 1)
            log_code(dev, i);
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
    char key[HR__CERTIFICATE_KEY];
    struct hr__device *alone;
    enum hr_status status;

    params.threads = 1;
    params.va_display = NULL;
    params.on_closed = NULL;
    if (!(alone = hr__device_assemble(dev->engines[k]->name, &params)))
        return hr_last_status();
    hr__certificate_key(alone, 0, key);
    status = test(alone, key);
    *cert = alone->pub.certificate;
    hr__device_unref(alone);
    return status;
}

static enum hr_status certify(struct hr__device *dev, int k, const char *wish)
{
    struct hr_certificate of_second;
    struct hr_certificate *cert = k ? &of_second : &dev->pub.certificate;
    char key[HR__CERTIFICATE_KEY];
    enum hr_status status;

    if (dev->engines[k]->backend->trusted)
        return HR_OK;
    hr__certificate_key(dev, k, key);
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
