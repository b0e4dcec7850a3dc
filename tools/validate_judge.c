// SPDX-License-Identifier: Apache-2.0
// From numbers to words: where a difference begins, whether the contract
// holds, and the totals.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools.h"
#include "validate.h"

#define CLOSE_LEVELS 2.0  // as device.h says of certificates
#define FAST_PSNR 30.0    // the tier promises nothing; this is no picture

// ---- Kinds -----------------------------------------------------------------

static const char *sampling(const struct hr_info *info)
{
    int h = info->h[0], v = info->v[0];

    for (int i = 1; i < 3; i++)
        if (info->h[i] != 1 || info->v[i] != 1)
            return info->h[1] == h && info->h[2] == h && info->v[1] == v &&
                           info->v[2] == v
                       ? "4:4:4"
                       : "odd sampling";
    return h == 1 && v == 1   ? "4:4:4"
           : h == 2 && v == 2 ? "4:2:0"
           : h == 2 && v == 1 ? "4:2:2"
           : h == 1 && v == 2 ? "4:4:0"
           : h == 4 && v == 1 ? "4:1:1"
                              : "odd sampling";
}

void validate_kind_name(const struct hr_info *info, char out[64])
{
    static const char *const processes[] = {"baseline", "extended",
                                            "progressive", "lossless"};
    static const char *const colors[] = {"grey", "YCbCr", "RGB", "CMYK",
                                         "YCCK"};
    bool color = info->components == 3;

    if (info->format != HR_FORMAT_JPEG) {
        snprintf(out, 64, "PNG%s", info->adam7 ? ", interlaced" : "");
        return;
    }
    snprintf(out, 64, "JPEG %s %s%s%s%s%s", processes[info->process],
             colors[info->color], color ? " " : "", color ? sampling(info) : "",
             info->arithmetic ? ", arithmetic" : "",
             info->restart_interval ? ", restarts" : "");
}

// ---- Engines ---------------------------------------------------------------

bool validate_by_device(const struct validate *v, const struct hr_result *r)
{
    for (int i = 0; i < r->num_spans; i++)
        if (!strcmp(r->spans[i].device, v->dev[VALIDATE_DEVICE]->name))
            return true;
    return false;
}

void validate_made_text(const struct hr_result *r, char *out, size_t size)
{
    size_t used = 0;

    snprintf(out, size, "nothing");
    for (int i = 0; i < r->num_spans && used < size; i++) {
        char span[64];

        tools_span_text(span, sizeof(span), r->spans[i].span);
        used += (size_t)snprintf(out + used, size - used, "%s%s on %s",
                                 i ? ", " : "", span, r->spans[i].device);
    }
}

// ---- One picture -----------------------------------------------------------

static uint32_t stages_of(uint32_t spans, bool all)
{
    uint32_t stages = all ? (UINT32_C(1) << HR_NUM_STAGES) - 1 : 0;

    for (int bit = 0; bit < HR_NUM_STAGES * HR_NUM_STAGES; bit++) {
        uint32_t these = 0;

        if (!(spans >> bit & 1))
            continue;
        for (int s = bit / HR_NUM_STAGES; s <= bit % HR_NUM_STAGES; s++)
            these |= UINT32_C(1) << s;
        stages = all ? stages & these : stages | these;
    }
    return stages;
}

// The first cut that differs, unless spans that were run alone say that it
// cannot be there.
static int find_begin(const struct validate_picture *p)
{
    uint32_t suspects = stages_of(p->spans_differ, true) &
                        ~stages_of(p->spans_equal, false);
    int first = VALIDATE_FIRST_CUT;

    while (first < HR_STORE && !p->at[first].differing)
        first++;
    if (!p->spans_differ || !suspects || suspects >> first & 1)
        return first;
    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++)
        if (suspects >> s & 1)
            return s;
    return first;
}

static bool holds(const struct validate *v, const struct validate_picture *p)
{
    if (p->status_differs)
        return false;
    if (!p->differs)
        return true;
    if (p->stale_of >= 0 || v->opt.tier == HR_EXACT)
        return false;
    if (v->opt.tier == HR_FAST)
        return validate_psnr(&p->at[HR_STORE]) >= FAST_PSNR;
    for (int cut = VALIDATE_FIRST_CUT; cut <= HR_STORE; cut++)
        if (p->at[cut].max > CLOSE_LEVELS)
            return false;
    return p->begins < HR_RESAMPLE;
}

static struct validate_kind *kind_of(struct validate *v, const char *name)
{
    for (int i = 0; i < v->num_kinds; i++)
        if (!strcmp(v->kinds[i].name, name))
            return &v->kinds[i];
    if (v->num_kinds == VALIDATE_KINDS)
        return &v->kinds[VALIDATE_KINDS - 1];
    if (v->num_kinds == VALIDATE_KINDS - 1)
        name = "other kinds";
    strcpy(v->kinds[v->num_kinds].name, name);
    return &v->kinds[v->num_kinds++];
}

static void count_made(struct validate *v, const struct hr_result *r)
{
    char text[160];
    int i = 0;

    validate_made_text(r, text, sizeof(text));
    while (i < v->num_made && strcmp(v->made[i].text, text))
        i++;
    if (i == v->num_made && i == VALIDATE_MADE)
        return;
    if (i == v->num_made)
        strcpy(v->made[v->num_made++].text, text);
    v->made[i].pictures++;
}

static void count_status(struct validate *v, const struct validate_picture *p)
{
    const struct hr_result *b = &p->results[VALIDATE_DEVICE];

    if (p->status_differs)
        v->status_differs++;
    else if (b->status)
        v->failed_both++;
    for (int bit = 0; bit < 32; bit++)
        v->fallbacks[bit] += b->why >> bit & 1;
    if (!b->status)
        count_made(v, b);
}

static void note_worst(struct validate *v, const struct validate_picture *p)
{
    for (int i = 0; i < v->num_worst; i++)
        if (v->worst[i].index == p->index)
            snprintf(v->worst[i].note, sizeof(v->worst[i].note),
                     "%s. From %s on; %.4f %% of %" PRIu64
                     " samples differ, by %.3g levels at most, PSNR %.1f dB.",
                     p->kind, hr_stage_name((enum hr_stage)p->begins),
                     validate_percent(&p->at[HR_STORE]),
                     p->at[HR_STORE].samples, p->at[HR_STORE].max,
                     validate_psnr(&p->at[HR_STORE]));
}

void validate_judge(struct validate *v, struct validate_picture *p)
{
    struct validate_kind *kind = kind_of(v, p->kind);
    bool device = validate_by_device(v, &p->results[VALIDATE_DEVICE]);

    if (p->differs) {
        p->begins = find_begin(p);
        v->begins[p->begins]++;
        note_worst(v, p);
    }
    p->within = holds(v, p);
    v->done++;
    v->by_device += device;
    kind->pictures++;
    kind->by_device += device;
    kind->outside += !p->within;
    validate_add(&kind->stats, &p->at[HR_STORE]);
    for (int cut = VALIDATE_FIRST_CUT; cut <= HR_STORE; cut++)
        validate_add(&v->at[cut], &p->at[cut]);
    count_status(v, p);
    v->stale += p->stale_of >= 0;
    v->passing += p->looked && !p->repeats && p->at[HR_STORE].differing;
    if (!p->within) {
        v->outside++;
        if (v->num_names < VALIDATE_NAMES)
            v->names[v->num_names++] = p->index;
    }
}

// ---- Verdict ---------------------------------------------------------------

const char *validate_against_text(const struct validate *v)
{
    return v->opt.against == VALIDATE_C ? "the readable C" : "the CPU";
}

static void list_stages(const struct validate *v, char *out, size_t size)
{
    const char *before = "; begins at ";
    size_t used = 0;

    *out = '\0';
    for (int s = 0; s < HR_NUM_STAGES && used < size; s++)
        if (v->begins[s]) {
            used += (size_t)snprintf(out + used, size - used,
                                     "%s%s (%" PRIu64 ")", before,
                                     hr_stage_name((enum hr_stage)s),
                                     v->begins[s]);
            before = ", ";
        }
}

static void list_findings(const struct validate *v, char *out, size_t size)
{
    size_t used = 0;

    list_stages(v, out, size);
    used = strlen(out);
    if (v->status_differs && used < size)
        used += (size_t)snprintf(out + used, size - used,
                                 "; %" PRIu64 " end otherwise than on the CPU",
                                 v->status_differs);
    if (v->stale && used < size)
        snprintf(out + used, size - used,
                 "; %" PRIu64 " have another picture's pixels", v->stale);
}

bool validate_verdict(const struct validate *v, char *out, size_t size)
{
    static const char *const tiers[] = {"close", "exact", "fast"};
    const struct validate_stats *end = &v->at[HR_STORE];
    uint64_t differ = 0;
    char findings[512];

    for (int s = 0; s < HR_NUM_STAGES; s++)
        differ += v->begins[s];
    list_findings(v, findings, sizeof(findings));
    if (v->outside)
        snprintf(out, size,
                 "not %s: %" PRIu64 " of %" PRIu64 " pictures do "
                 "not hold to the tier%s",
                 tiers[v->opt.tier], v->outside, v->done, findings);
    else if (!end->pictures)
        snprintf(out, size,
                 "nothing to compare: none of %" PRIu64
                 " pictures could be made, on both sides alike",
                 v->done);
    else if (differ)
        snprintf(out, size,
                 "within tier %s: %" PRIu64 " of %" PRIu64
                 " pictures differ, by %.3g levels at most%s",
                 tiers[v->opt.tier], differ, v->done, end->max, findings);
    else
        snprintf(out, size,
                 "exact: 0 of %" PRIu64 " samples differ in %" PRIu64
                 " pictures",
                 end->samples, end->pictures);
    return !v->outside;
}
