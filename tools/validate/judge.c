// SPDX-License-Identifier: Apache-2.0
// From numbers to words: where a difference begins, whether the contract
// holds, and the totals.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/options.h"
#include "tools/common/tools.h"
#include "validate.h"

#define CLOSE_LEVELS 2.0  // as device.h says of certificates
// The bound behind color for planes that are so far off: 2 of luma, 1.772 times
// 2 of Cb in blue, rounded. Then the bound behind a filter with lobes.
#define CLOSE_COLORS 6.0
#define CLOSE_FILTERED 9.0
#define SAID_NAMES 3    // in the verdict
#define SAID_BYTES 200  // .. of each

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
    static const char *const colors[] = {"gray", "YCbCr", "RGB", "CMYK",
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

// ---- One picture -----------------------------------------------------------

static uint32_t stages_of(uint32_t spans, bool all)
{
    uint32_t stages = all ? (UINT32_C(1) << HR_NUM_STAGES) - 1 : 0;

    for (int bit = 0; bit < HR_NUM_SPANS; bit++) {
        uint32_t these = 0;

        if (!(spans >> bit & 1))
            continue;
        for (int s = hr_span_of(bit).first; s <= (int)hr_span_of(bit).last; s++)
            these |= UINT32_C(1) << s;
        stages = all ? stages & these : stages | these;
    }
    return stages;
}

// The first cut that differs, unless spans that were run alone say that it
// cannot be there. Behind color, a luma that is another one in at least every
// tenth pixel is no accident of the conversion.
static int find_begin(const struct validate_picture *p)
{
    uint32_t suspects = stages_of(p->spans_differ, true) &
                        ~stages_of(p->spans_equal, false);
    const struct validate_stats *color = &p->at[HR_COLOR];
    int first = VALIDATE_FIRST_CUT;

    while (first < HR_STORE && !p->at[first].differing)
        first++;
    if (!p->spans_differ || !suspects)
        suspects = UINT32_MAX;
    if (first == HR_COLOR && color->alike * 10 >= color->pixels &&
        suspects >> HR_RECONSTRUCT & 1)
        return HR_RECONSTRUCT;
    if (suspects >> first & 1)
        return first;
    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++)
        if (suspects >> s & 1)
            return s;
    return first;
}

// Levels of tier close: a bound on the planes that an inverse DCT leaves, or on
// what another early stage does.
static double close_levels(const struct validate_picture *p, int cut)
{
    if (p->begins != HR_RECONSTRUCT || cut == HR_RECONSTRUCT ||
        p->info.components == 1)
        return CLOSE_LEVELS;
    return cut == HR_COLOR ? CLOSE_COLORS : CLOSE_FILTERED;
}

static bool is_close(const struct validate_picture *p)
{
    for (int cut = VALIDATE_FIRST_CUT; cut <= HR_STORE; cut++)
        // They are whole, but for what floats make of them.
        if (p->at[cut].max >= close_levels(p, cut) + 0.5)
            return false;
    return p->begins < HR_RESAMPLE && p->at[HR_COLOR].luma <= CLOSE_LEVELS;
}

// The tier promises no more than alike pictures. Checks every cut: a caller may
// ask for less than the whole chain.
static bool is_alike(const struct validate_picture *p)
{
    for (int cut = VALIDATE_FIRST_CUT; cut <= HR_STORE; cut++)
        if (p->at[cut].unlike)
            return false;
    return true;
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
        return is_alike(p);
    return is_close(p);
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

static void count_status(struct validate *v, const struct validate_picture *p)
{
    const struct hr_result *b = &p->results[VALIDATE_DEVICE];

    if (p->status_differs)
        v->status_differs++;
    else if (b->status)
        v->failed_both++;
    // A line each, but not for a thousand.
    if (!p->status_differs && b->status && b->stage == HR_READ &&
        v->unread++ < TOOLS_MAX_TOLD) {
        progress_clear(&v->progress);
        tools_warn("%s", b->message);
    }
    validate_engines_count(v, b);
}

int validate_told_cut(const struct validate_picture *p)
{
    int cut = HR_STORE;

    while (cut > VALIDATE_FIRST_CUT && !p->at[cut].differing)
        cut--;
    return p->at[cut].differing ? cut : HR_STORE;
}

const char *validate_told_text(const struct validate_picture *p, char out[64])
{
    int cut = validate_told_cut(p);

    *out = '\0';
    if (cut != HR_STORE)
        snprintf(out, 64, ", if cut after %s%s",
                 hr_stage_name((enum hr_stage)cut),
                 p->at[HR_STORE].pictures ? ", but not at the end" : "");
    return out;
}

static void note_worst(struct validate *v, const struct validate_picture *p)
{
    const struct validate_stats *s = &p->at[validate_told_cut(p)];
    char cut[64], samples[32];

    for (int i = 0; i < v->num_worst; i++)
        if (v->worst[i].index == p->index)
            snprintf(v->worst[i].note, sizeof(v->worst[i].note),
                     "%s. From %s on; %.4f %% of %s samples differ%s, by %.3g "
                     "levels at most, PSNR %.1f dB.",
                     p->kind, hr_stage_name((enum hr_stage)p->begins),
                     validate_percent(s), validate_grouped(s->samples, samples),
                     validate_told_text(p, cut), s->max, validate_psnr(s));
}

void validate_judge(struct validate *v, struct validate_picture *p)
{
    struct validate_kind *kind = kind_of(v, p->kind);
    bool device = validate_by_device(v, &p->results[VALIDATE_DEVICE]);

    if (p->differs) {
        p->begins = find_begin(p);
        v->begins[p->begins]++;
        kind->begins[p->begins]++;
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

// The end of a long name, from a whole character on: that tells it from others.
static const char *name_end(const char *name)
{
    size_t length = strlen(name);

    if (length <= SAID_BYTES)
        return name;  // whatever its first byte is
    name += length - SAID_BYTES;
    while ((*name & 0xc0) == 0x80)
        name++;
    return name;
}

static void say_names(const struct validate *v, char *out, size_t size)
{
    int n = v->num_names < SAID_NAMES ? v->num_names : SAID_NAMES;
    char path[PATH_MAX], name[4 * PATH_MAX];

    for (int i = 0; i < n; i++) {
        const char *text = inputs_name(&v->in, v->names[i], path, sizeof(path));
        const char *end;

        tools_escape(name, sizeof(name), text ? text : "?");
        end = name_end(name);
        validate_say(out, size, "%s%s%s", i ? ", " : ": ",
                     end == name ? "" : "...", end);
    }
    if (v->outside > (uint64_t)n)
        validate_say(out, size, " and %" PRIu64 " more",
                     v->outside - (uint64_t)n);
}

void validate_begins_text(const uint64_t begins[HR_NUM_STAGES], char *out,
                          size_t size)
{
    *out = '\0';
    for (int s = 0; s < HR_NUM_STAGES; s++)
        if (begins[s])
            validate_say(out, size, "%s%s (%" PRIu64 ")", *out ? ", " : "",
                         hr_stage_name((enum hr_stage)s), begins[s]);
}

static void say_findings(const struct validate *v, char *out, size_t size)
{
    char begins[128];

    validate_begins_text(v->begins, begins, sizeof(begins));
    if (*begins)
        validate_say(out, size, "; begins at %s%s", begins,
                     v->at[HR_STORE].differing ? "" : ", but not at the end");
    if (v->status_differs)
        validate_say(out, size, "; %" PRIu64 " end otherwise than on the CPU",
                     v->status_differs);
    if (v->stale)
        validate_say(out, size, "; %" PRIu64 " have another picture's pixels",
                     v->stale);
    if (validate_mismatches(v))
        validate_say(out, size,
                     "; the library found %" PRIu64 " more and left the device",
                     validate_mismatches(v));
}

// Levels: of what the user gets; if that is equal, of the cuts.
static double most(const struct validate *v)
{
    double levels = v->at[HR_STORE].max;

    for (int s = VALIDATE_FIRST_CUT; !v->at[HR_STORE].differing && s < HR_STORE;
         s++)
        levels = v->at[s].max > levels ? v->at[s].max : levels;
    return levels;
}

uint64_t validate_mismatches(const struct validate *v)
{
    struct hr_stats stats = {0};

    hr_device_stats(v->dev[VALIDATE_DEVICE], &stats);
    return stats.mismatches;
}

uint64_t validate_unread(const struct validate *v)
{
    return v->in.num_faults + v->unread;
}

// Says how far the pictures are equal, whichever engine made them.
static void say_equal(const struct validate *v, char *out, size_t size)
{
    const struct validate_stats *end = &v->at[HR_STORE];
    const char *tier = options_tiers[v->opt.tier];
    uint64_t differ = 0;
    char samples[32];

    for (int s = 0; s < HR_NUM_STAGES; s++)
        differ += v->begins[s];
    if (differ) {
        validate_say(out, size,
                     "within tier %s: %" PRIu64 " of %" PRIu64
                     " pictures differ, by %.3g levels at most",
                     tier, differ, v->done, most(v));
        say_findings(v, out, size);
    } else {
        validate_say(out, size,
                     "exact: 0 of %s samples differ in %" PRIu64 " picture%s",
                     validate_grouped(end->samples, samples), end->pictures,
                     end->pictures > 1 ? "s" : "");
    }
}

// Equal pictures prove nothing of an engine that did not make them.
static void say_makers(const struct validate *v, char *out, size_t size)
{
    char text[768];

    validate_spans_text(v, text, sizeof(text));
    if (*text)
        validate_say(out, size, "; made by %s", text);
    if (!v->handed || validate_is_silent(v))
        return;
    validate_reasons_text(v, text, sizeof(text));
    validate_say(out, size, "; %" PRIu64 " handed to the next engine: %s",
                 v->handed, text);
}

static enum validate_finding say_good(const struct validate *v, char *out,
                                      size_t size)
{
    if (!v->at[HR_STORE].pictures) {
        validate_say(out, size,
                     "nothing to compare: none of %" PRIu64
                     " pictures could be made, on both sides alike",
                     v->done);
        return VALIDATE_UNKNOWN;
    }
    if (validate_is_silent(v)) {
        char who[1024];

        validate_silence_text(v, who, sizeof(who));
        validate_say(out, size, "nothing shown: %s; what others made is ", who);
        say_equal(v, out, size);
        say_makers(v, out, size);
        return VALIDATE_UNKNOWN;
    }
    say_equal(v, out, size);
    say_makers(v, out, size);
    return VALIDATE_HOLDS;
}

enum validate_finding validate_verdict(const struct validate *v, char *out,
                                       size_t size)
{
    const char *tier = options_tiers[v->opt.tier];
    uint64_t mismatches = validate_mismatches(v);

    *out = '\0';
    if (!v->outside && !mismatches)
        return say_good(v, out, size);
    if (v->outside) {
        validate_say(out, size,
                     "not within tier %s: %" PRIu64 " of %" PRIu64 " pictures",
                     tier, v->outside, v->done);
        say_findings(v, out, size);
        say_names(v, out, size);
    } else {
        // The user got the CPU's; what was asked about is the device.
        validate_say(out, size,
                     "not within tier %s: the library found %" PRIu64
                     " of the device's pictures wrong, gave the CPU's instead "
                     "and left the device",
                     tier, mismatches);
    }
    return VALIDATE_BROKEN;
}
