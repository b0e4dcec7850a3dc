// SPDX-License-Identifier: Apache-2.0
// Pictures that differ, again: each span that the device offers by itself, the
// CPU doing the rest.
#include <string.h>

#include "validate.h"

// A device may be several engines in a row: none of them has its name, and its
// capabilities are those of the first. So the spans that they can do are read
// from the results.
static uint32_t spans_done(const struct hr_result *r)
{
    uint32_t spans = 0;

    for (int i = 0; i < r->num_spans; i++)
        if (strcmp(r->spans[i].device, "cpu") != 0)
            spans |= HR_SPAN_BIT(r->spans[i].span.first, r->spans[i].span.last);
    return spans;
}

// bit < 0: the whole chain, as it was the first time.
static bool run(struct validate *v, int bit, uint32_t mask)
{
    uint32_t spans = bit < 0 ? 0 : UINT32_C(1) << bit;
    hr_job job = validate_submit(v, VALIDATE_DEVICE, HR_STORE, mask, spans);

    if (!job)
        return false;
    hr_job_wait(job, HR_FOREVER);
    for (int i = 0, n = 0; i < v->num; i++) {
        struct validate_picture *p = &v->pictures[i];
        const struct hr_result *r;
        bool equal;

        if (!(mask >> i & 1))
            continue;
        r = &job->results[n++];
        if (r->status || (bit >= 0 && !(spans_done(r) & spans)))
            continue;
        equal = validate_equal(v->images[0][i], v->images[1][i]);
        p->looked = true;
        if (bit < 0)
            p->repeats = !equal;
        else if (equal)
            p->spans_equal |= spans;
        else
            p->spans_differ |= spans;
    }
    hr_job_release(&job);
    return true;
}

static bool run_reference(struct validate *v, uint32_t mask)
{
    hr_job job = validate_images(v, HR_STORE, mask)
                     ? validate_submit(v, VALIDATE_REFERENCE, HR_STORE, mask, 0)
                     : NULL;

    if (!job)
        return false;
    hr_job_wait(job, HR_FOREVER);
    hr_job_release(&job);
    return true;
}

bool validate_spans(struct validate *v)
{
    hr_device dev = v->dev[VALIDATE_DEVICE];
    uint32_t mask = 0, spans = dev->caps.spans[v->opt.tier];
    bool ok;

    // Pictures that both sides can make, and that differ.
    for (int i = 0; i < v->num; i++)
        if (v->pictures[i].differs && v->pictures[i].cut[HR_STORE]) {
            mask |= UINT32_C(1) << i;
            spans |= spans_done(&v->pictures[i].results[VALIDATE_DEVICE]);
        }
    if (!mask)
        return true;
    ok = run_reference(v, mask) && run(v, -1, mask);
    // The CPU is cut into no spans.
    for (int bit = 0; ok && bit < HR_NUM_SPANS; bit++)
        if (spans >> bit & 1 && strcmp(dev->backend, "cpu"))
            ok = run(v, bit, mask);
    return ok;
}
