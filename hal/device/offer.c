// SPDX-License-Identifier: Apache-2.0
// What an engine may do of a sample: what it offers, without what its
// certificate denies it, what is not tested now, what the host does faster, and
// what it lost by wrong pixels.
#include "hal/device/device.h"

// Whether engine i gets such a file from its first bit on.
static bool gets_file(struct hr__device *dev, int i, int kind,
                      const struct hr__picture *pic)
{
    const struct hr_entropy_choice *choice = &dev->pub.entropy;
    int n = atomic_load_explicit(&dev->num_samples, memory_order_relaxed), at;

    if (!(dev->choosing >> i & 1))
        return true;
    if (i || !choice->num_records)
        return false;
    if (dev->divide.batch)  // hal/job/share.c decides
        return true;
    at = hr__choice_of(choice, pic->width, pic->height, kind, n);
    return choice->records[at].device;
}

void hr__device_offer(struct hr__device *dev, int i,
                      const struct hr__picture *pic, struct hr__offer *out)
{
    struct hr__engine *e = dev->engines[i];
    int kind = pic->data ? hr__jpeg_kind(&pic->info) : -1;
    uint32_t refused =
        dev->refused[i][kind < 0 ? HR_NUM_KINDS : kind][pic->tier];

    e->backend->offer(e, pic, out);
    if (dev->probing && !e->host)
        out->spans &= i ? 0 : dev->probing;
    else if (dev->probing && dev->num_engines == 1)
        out->spans &= dev->probing;
    if (out->spans & refused)
        out->why |= HR_WHY_CERTIFICATE;
    out->spans &= ~refused;
    if (!dev->probing && out->spans & HR__SPAN_BIT(HR_ENTROPY, HR_STORE) &&
        !gets_file(dev, i, kind, pic))
        out->spans &= ~HR__SPAN_BIT(HR_ENTROPY, HR_STORE);
    if (atomic_load(&dev->mismatched) >> i & 1) {
        out->spans = 0;
        out->why |= HR_WHY_MISMATCH;
    }
}

bool hr__device_exact(const struct hr__device *dev, int i, struct hr_span span,
                      const struct hr__picture *pic)
{
    int kind = pic->data ? hr__jpeg_kind(&pic->info) : -1;
    uint32_t refused =
        dev->refused[i][kind < 0 ? HR_NUM_KINDS : kind][HR_EXACT];

    return !(refused & HR__SPAN_BIT(span.first, span.last));
}

const struct hr_certificate_record *hr__certificate_record(
    const struct hr_certificate *cert, uint32_t span, int kind)
{
    for (int i = 0; i < cert->num_records; i++) {
        const struct hr_certificate_record *r = &cert->records[i];

        if (HR__SPAN_BIT(r->span.first, r->span.last) == span &&
            (r->kind == HR_KIND_ALL || (int)r->kind == kind))
            return r;
    }
    return NULL;
}
