// SPDX-License-Identifier: Apache-2.0
// The picture report of validate.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/report/report.h"
#include "validate.h"

static const char *name_of(const struct validate *v, size_t index,
                           char path[PATH_MAX])
{
    const char *name = inputs_path(&v->in, index, path, PATH_MAX);

    return name ? name : "?";
}

static void add_figures(const struct validate *v, struct report *r)
{
    const struct validate_stats *end = &v->at[HR_STORE];
    char value[64], note[96], number[32];

    snprintf(note, sizeof(note), "%s compared to the end",
             validate_grouped(end->pictures, number));
    report_figure(r, "pictures", validate_grouped(v->done, value), note);
    for (int i = 0; i < v->num_engines; i++)
        report_figure(r, v->engines[i].name,
                      validate_grouped(v->engines[i].pictures, value),
                      "pictures it had a part in");
    snprintf(note, sizeof(note), "end to end, of %s",
             validate_grouped(end->samples, number));
    report_figure(r, "differing samples",
                  validate_grouped(end->differing, value), note);
    snprintf(value, sizeof(value), "%.4g", end->max);
    report_figure(r, "largest difference", value, "levels of 255");
    if (end->squares > 0)
        snprintf(value, sizeof(value), "%.1f dB", validate_psnr(end));
    else
        snprintf(value, sizeof(value), "\u221e");
    report_figure(r, "PSNR", value,
                  end->squares > 0 ? "end to end" : "for nothing differs");
}

static void stats_cells(struct report *r, const struct validate_stats *s)
{
    bool any = s->pictures > 0;

    report_number_cell(r, (double)s->differing_pictures);
    report_number_cell(r, any ? validate_percent(s) : (double)NAN);
    report_number_cell(r, any ? s->max : (double)NAN);
    report_number_cell(r, any ? validate_mean(s) : (double)NAN);
    report_number_cell(r, any ? validate_psnr(s) : (double)NAN);
}

#define STATS_COLUMNS                                               \
    {.title = "pictures differ", .number = true},                   \
        {.title = "samples differ",                                 \
         .number = true,                                            \
         .bars = true,                                              \
         .digits = 4,                                               \
         .unit = " %"},                                             \
        {.title = "largest", .number = true, .auto_digits = true},  \
        {.title = "mean", .number = true, .auto_digits = true},     \
    {                                                               \
        .title = "PSNR", .number = true, .digits = 1, .unit = " dB" \
    }

static void add_stages(const struct validate *v, struct report *r)
{
    static const struct report_column columns[] = {
        {.title = "cut after"},
        {.title = "pictures", .number = true},
        {.title = "begins here", .number = true},
        STATS_COLUMNS,
    };

    report_section(r, "By stage",
                   "The chain, run to its end and cut behind each stage. A "
                   "picture begins to differ at the first cut that differs, "
                   "unless running each of the device's spans by itself says "
                   "that it must be another stage. Only grey JPEGs can be cut "
                   "behind reconstruct; in colour JPEGs, equal errors in R, G "
                   "and B point to the luma.");
    report_table(r, "Stages", columns, 8);
    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++) {
        if (!v->at[s].pictures && !v->begins[s])
            continue;
        report_text_cell(r, "%s",
                         s == HR_STORE ? "store (end to end)"
                                       : hr_stage_name((enum hr_stage)s));
        report_number_cell(r, (double)v->at[s].pictures);
        report_number_cell(r, (double)v->begins[s]);
        stats_cells(r, &v->at[s]);
        if (v->begins[s])
            report_tone_row(r, v->outside ? REPORT_BAD : REPORT_WARN);
    }
}

static void add_histogram(const struct validate *v, struct report *r)
{
    const struct validate_stats *end = &v->at[HR_STORE];
    double values[VALIDATE_BINS];
    char number[32];

    report_section(r, "Differences", NULL);
    if (!end->differing) {
        report_text(r,
                    "All %s samples are equal at the end, bit for bit. There "
                    "is nothing to draw.",
                    validate_grouped(end->samples, number));
        return;
    }
    for (int i = 0; i < VALIDATE_BINS; i++)
        values[i] = (double)end->bins[i];
    report_chart(r, &(struct report_chart){
                        .kind = REPORT_HISTOGRAM,
                        .title = "How far apart samples are, end to end",
                        .text = "Each step of the upright axis is ten times "
                                "the one below.",
                        .x_title = "difference in levels of 0 .. 255",
                        .y_title = "samples",
                        .log_y = true,
                        .labels = validate_bin_names,
                        .num_labels = VALIDATE_BINS});
    report_series(r, "samples", values, VALIDATE_BINS);
}

enum { CHART_KINDS = 16 };  // the most frequent

static void add_kinds_chart(const struct validate *v, struct report *r)
{
    int n = v->num_kinds < CHART_KINDS ? v->num_kinds : CHART_KINDS;
    const char *labels[CHART_KINDS];
    double device[CHART_KINDS], cpu[CHART_KINDS], bad[CHART_KINDS];

    for (int i = 0; i < n; i++) {
        const struct validate_kind *k = &v->kinds[i];
        uint64_t out = k->outside < k->by_device ? k->outside : k->by_device;

        labels[i] = k->name;
        bad[i] = (double)k->outside;
        device[i] = (double)(k->by_device - out);
        cpu[i] = (double)(k->pictures - k->by_device) -
                 (double)(k->outside - out);
    }
    report_chart(r, &(struct report_chart){
                        .kind = REPORT_ROWS,
                        .title = "Engines of the pictures",
                        .text = v->num_kinds > n ? "The 16 most frequent kinds."
                                                 : NULL,
                        .y_title = "pictures",
                        .labels = labels,
                        .num_labels = n});
    report_series(r, "the device, alone or with the CPU", device, n);
    report_series(r, "the CPU, or no engine", cpu, n);
    report_series(r, "outside of the contract", bad, n);
    report_series_tone(r, REPORT_BAD);
}

static void add_kinds(const struct validate *v, struct report *r)
{
    static const struct report_column columns[] = {
        {.title = "kind"},
        {.title = "pictures", .number = true},
        {.title = "by the device", .number = true},
        {.title = "begins at"},
        STATS_COLUMNS,
    };
    char begins[128];

    report_section(r, "By kind of picture", NULL);
    add_kinds_chart(v, r);
    report_table(r, "Kinds, end to end", columns, 9);
    for (int i = 0; i < v->num_kinds; i++) {
        const struct validate_kind *k = &v->kinds[i];

        report_text_cell(r, "%s", k->name);
        report_number_cell(r, (double)k->pictures);
        report_number_cell(r, (double)k->by_device);
        validate_begins_text(k->begins, begins, sizeof(begins));
        report_text_cell(r, "%s", *begins ? begins : "\u2013");
        stats_cells(r, &k->stats);
        report_tone_row(r, k->outside                    ? REPORT_BAD
                           : k->stats.differing_pictures ? REPORT_WARN
                                                         : REPORT_PLAIN);
    }
}

static void add_engines(const struct validate *v, struct report *r)
{
    static const struct report_column made[] = {
        {.title = "spans and engines"},
        {.title = "pictures", .number = true, .bars = true},
    };
    static const struct report_column why[] = {
        {.title = "reason"},
        {.title = "pictures", .number = true, .bars = true},
    };
    bool any = false;

    report_section(r, "Which engine did what", NULL);
    report_table(r, "Made by", made, 2);
    for (int i = 0; i < v->num_made; i++) {
        report_text_cell(r, "%s", v->made[i].text);
        report_number_cell(r, (double)v->made[i].pictures);
    }
    for (int bit = 0; bit < 32; bit++)
        any |= v->fallbacks[bit] > 0;
    if (!any)
        return;
    report_table(r, "Why pictures were handed to the next engine", why, 2);
    for (int bit = 0; bit < 32; bit++)
        if (v->fallbacks[bit]) {
            report_text_cell(r, "%s", hr_why_text(1u << bit));
            report_number_cell(r, (double)v->fallbacks[bit]);
        }
}

static void add_worst(const struct validate *v, struct report *r)
{
    char path[PATH_MAX];

    if (!v->num_worst)
        return;
    report_section(r, "The worst pictures",
                   "As the user gets them, or cut after the last stage that "
                   "shows it, and where they differ. Of large pictures a part "
                   "around the largest difference is shown.");
    for (int i = 0; i < v->num_worst; i++) {
        const struct validate_worst *w = &v->worst[i];
        const uint8_t *a = w->pixels[VALIDATE_REFERENCE];
        const uint8_t *b = w->pixels[VALIDATE_DEVICE];

        if (!a || !b)
            continue;
        report_pictures(r, name_of(v, w->index, path), w->note);
        report_picture(r, validate_against_text(v), a, w->w, w->h, w->c);
        report_picture(r, v->dev[VALIDATE_DEVICE]->name, b, w->w, w->h, w->c);
        report_difference(r, a, b, w->w, w->h, w->c);
    }
}

static void add_outside(const struct validate *v, struct report *r)
{
    static const struct report_column columns[] = {{.title = "picture"}};
    char path[PATH_MAX];

    if (!v->num_names)
        return;
    report_table(r,
                 v->outside > (uint64_t)v->num_names
                     ? "The first pictures that do not hold to the contract"
                     : "Pictures that do not hold to the contract",
                 columns, 1);
    for (int i = 0; i < v->num_names; i++)
        report_text_cell(r, "%s", name_of(v, v->names[i], path));
}

// Its first clause as the headline, the rest below it.
static void add_verdict(struct report *r, enum report_tone tone, char *sentence)
{
    char *rest = strstr(sentence, "; "), text[VALIDATE_SENTENCE];

    if (rest)
        *rest = '\0';
    sentence[0] = (char)toupper((unsigned char)sentence[0]);
    report_verdict(r, tone, sentence);
    if (!rest)
        return;
    rest[2] = (char)toupper((unsigned char)rest[2]);
    snprintf(text, sizeof(text), "%s.", rest + 2);
    report_verdict_text(r, text);
}

static void add_head(const struct validate *v, struct report *r)
{
    static const char *const tiers[] = {
        "exact: not a bit",
        "close: an inverse DCT 2 levels off at most; the rest exact",
        "fast: alike, as another way of scaling makes them",
    };
    hr_device reference = v->dev[VALIDATE_REFERENCE];
    char sentence[VALIDATE_SENTENCE];
    enum validate_finding finding = validate_verdict(v, sentence,
                                                     sizeof(sentence));
    uint64_t differ = 0;

    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++)
        differ += v->at[s].differing;
    add_verdict(r,
                finding == VALIDATE_BROKEN              ? REPORT_BAD
                : differ || finding == VALIDATE_UNKNOWN ? REPORT_WARN
                                                        : REPORT_GOOD,
                sentence);
    report_fact(r, "device", "%s: %s", v->dev[VALIDATE_DEVICE]->name,
                v->dev[VALIDATE_DEVICE]->description);
    report_fact(r, "compared with", "%s (%s)", reference->description,
                v->opt.against == VALIDATE_C ? "the readable C"
                                             : "as it is used");
    report_fact(r, "ops", "%s, %s", v->opt.ops_text,
                hr_dtype_name(v->opt.dtype));
    report_fact(r, "tier", "%s", tiers[v->opt.tier]);
    report_fact(r, "pictures", "%zu of %zu%s", v->total, v->in.num,
                v->total < v->in.num ? ", chosen by the seed" : "");
}

static void add_notes(const struct validate *v, struct report *r)
{
    if (validate_mismatches(v))
        report_note(r, REPORT_BAD,
                    "%" PRIu64 " pictures of the device were not the CPU's: "
                    "the library, which makes some of them a second time, "
                    "delivered the CPU's and does not use the device any more.",
                    validate_mismatches(v));
    else if (validate_is_silent(v))
        report_note(r, REPORT_WARN,
                    "The device did not do its work, so nothing is known of "
                    "it. \u201cWhich engine did what\u201d says why.");
    if (v->failed_both)
        report_text(r,
                    "%" PRIu64 " cannot be made, on both sides alike: bad "
                    "input is no difference.",
                    v->failed_both);
    if (validate_unread(v))
        report_note(r, REPORT_WARN,
                    "%" PRIu64 " could not be read: what is in them was not "
                    "compared.",
                    validate_unread(v));
    if (v->stale)
        report_note(r, REPORT_BAD,
                    "%" PRIu64 " have the pixels of another picture: a "
                    "buffer was delivered too early or too late.",
                    v->stale);
    if (v->passing)
        report_note(r, REPORT_WARN,
                    "%" PRIu64 " were right when they were made again: the "
                    "fault comes and goes, as those of timing do.",
                    v->passing);
}

bool validate_page(struct validate *v)
{
    struct report *r = report_new("headrace validate", v->argc, v->argv);
    bool ok;

    add_head(v, r);
    add_figures(v, r);
    add_notes(v, r);
    add_outside(v, r);
    add_stages(v, r);
    add_histogram(v, r);
    add_worst(v, r);
    add_kinds(v, r);
    add_engines(v, r);
    report_device(r, v->dev[VALIDATE_DEVICE]);
    ok = report_write(r, v->opt.report);
    if (!ok)
        tools_warn("%s: the report cannot be written: %s", v->opt.report,
                   strerror(errno));
    report_free(&r);
    return ok;
}
