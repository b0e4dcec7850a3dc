// SPDX-License-Identifier: Apache-2.0
// The spans of a sample that an engine may do: those of its offer, less the
// spans that its certificate denies, that are not tested now, or that it lost
// by wrong pixels.
#include "hal/device/device.h"

// Returns the remaining spans of an engine that cannot run the picture's codes.
// Codes between two steps belong to resample. If codes make one channel of
// three, the host does all that follows.
static uint32_t without_augment(const struct hr__picture *pic, bool first_step)
{
    const struct hr__geometry *geo = &pic->geo;
    bool between = geo->num_augments >
                       geo->steps[geo->num_steps - 1].augments &&
                   !first_step;
    uint32_t spans = 0;

    for (int bit = 0; bit < HR_NUM_SPANS; bit++) {
        struct hr_span span = hr_span_of(bit);

        if (span.last < (between ? HR_RESAMPLE : HR_AUGMENT) ||
            (span.first > HR_AUGMENT && pic->channels == pic->dst.c))
            spans |= UINT32_C(1) << bit;
    }
    return spans;
}

// Returns the spans that make the first step, in the planner's terms, and the
// spans that end before it.
static uint32_t to_color(uint32_t spans)
{
    uint32_t to = 0;

    for (int first = 0; first <= HR_COLOR; first++) {
        for (int last = first; last < HR_COLOR; last++)
            to |= spans & HR_SPAN_BIT(first, last);
        if (spans & HR_SPAN_BIT(first, HR_RESAMPLE))
            to |= HR_SPAN_BIT(first, HR_COLOR);
    }
    return to;
}

static bool has_code(const struct hr__geometry *geo, uint32_t codes)
{
    bool has = false;

    for (int i = 0; codes && i < geo->num_augments; i++)
        has = has || codes >> geo->augments[i].code & 1;
    return has;
}

void hr__device_offer(struct hr__device *dev, int i,
                      const struct hr__picture *pic, struct hr__offer *out)
{
    struct hr__engine *e = dev->engines[i];
    int kind = pic->data ? hr__jpeg_kind(&pic->info) : -1;
    uint32_t refused =
        dev->refused[i][kind < 0 ? HR_NUM_KINDS : kind][pic->tier];

    bool wrong = has_code(&pic->geo, dev->wrong_codes[i]);

    e->backend->offer(e, pic, out);
    // Engines that do them say so by the span that begins with them.
    if (pic->geo.num_augments && !e->host &&
        (wrong ||
         !(out->spans & ~refused & HR_SPAN_BIT(HR_AUGMENT, HR_STORE)))) {
        uint32_t can = without_augment(pic, out->first_step);

        if (out->spans & ~can)
            out->why |= HR_WHY_AUGMENT | (wrong ? HR_WHY_CERTIFICATE : 0);
        out->spans &= can;
    }
    if (dev->probing && !e->host)
        out->spans &= i ? 0 : dev->probing;
    else if (dev->probing && dev->num_engines == 1)
        out->spans &= dev->probing;
    if (out->spans & refused)
        out->why |= HR_WHY_CERTIFICATE;
    out->spans &= ~refused;
    if (atomic_load(&dev->mismatched) >> i & 1) {
        out->spans = 0;
        out->why |= HR_WHY_MISMATCH;
    }
    if (out->first_step)
        out->spans = to_color(out->spans);
}

bool hr__device_exact(const struct hr__device *dev, int i, struct hr_span span,
                      bool first_step, const struct hr__picture *pic)
{
    int kind = pic->data ? hr__jpeg_kind(&pic->info) : -1;
    uint32_t refused =
        dev->refused[i][kind < 0 ? HR_NUM_KINDS : kind][HR_EXACT];
    enum hr_stage last = first_step && span.last == HR_COLOR ? HR_RESAMPLE
                                                             : span.last;

    return !(refused & HR_SPAN_BIT(span.first, last));
}

const char *hr_augment_code_name(int code)
{
    static const char *const names[HR__NUM_AUGMENT] = {
#define X(NAME, name) #name,
        HR__AUGMENT_MAP(X)
#undef X
    };

    return code >= 0 && code < HR__NUM_AUGMENT ? names[code] : NULL;
}

const struct hr_certificate_record *hr__certificate_record(
    const struct hr_certificate *cert, uint32_t span, int kind)
{
    for (int i = 0; i < cert->num_records; i++) {
        const struct hr_certificate_record *r = &cert->records[i];

        if (HR_SPAN_BIT(r->span.first, r->span.last) == span &&
            (r->kind == HR_KIND_ALL || (int)r->kind == kind))
            return r;
    }
    return NULL;
}
