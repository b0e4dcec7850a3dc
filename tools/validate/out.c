// SPDX-License-Identifier: Apache-2.0
// Prints the results of validate: a few lines, or one JSON object.
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "tools/common/manifest.h"
#include "tools/common/options.h"
#include "validate.h"

// ---- JSON ------------------------------------------------------------------

static json_t *stats_json(const struct validate_stats *s)
{
    double psnr = validate_psnr(s);

    return json_pack("{s:I, s:I, s:f, s:f, s:f, s:o}", "samples",
                     (json_int_t)s->samples, "differing",
                     (json_int_t)s->differing, "percent", validate_percent(s),
                     "max", s->max, "mean", validate_mean(s), "psnr",
                     isfinite(psnr) ? json_real(psnr) : json_null());
}

// The statistics of many pictures.
static json_t *totals_json(const struct validate_stats *s)
{
    json_t *json = stats_json(s);

    json_object_set_new(json, "pictures",
                        json_integer((json_int_t)s->pictures));
    json_object_set_new(json, "differing_pictures",
                        json_integer((json_int_t)s->differing_pictures));
    return json;
}

// cut: those of one picture; NULL: of all.
static json_t *stages_json(const struct validate_stats *at, const bool *cut)
{
    json_t *json = json_object();

    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++)
        if (cut ? cut[s] : at[s].pictures > 0)
            json_object_set_new(json,
                                s == HR_STORE ? "end_to_end"
                                              : hr_stage_name((enum hr_stage)s),
                                cut ? stats_json(&at[s]) : totals_json(&at[s]));
    return json;
}

json_t *validate_name_json(const struct validate *v, size_t index)
{
    char path[PATH_MAX];
    const char *name = inputs_path(&v->in, index, path, sizeof(path));

    return manifest_text(name ? name : "?");
}

static json_t *picture_json(const struct validate *v,
                            const struct validate_picture *p)
{
    char path[PATH_MAX] = "";
    const struct manifest_entry entry = {
        .path = inputs_path(&v->in, p->index, path, sizeof(path)),
        .label = inputs_item(&v->in, p->index).label,
        .index = -1,
        .result = &p->results[VALIDATE_DEVICE],
    };
    bool early = p->status_differs && p->status_cut != HR_STORE;
    json_t *json = manifest_entry_json(&entry);
    json_t *more = json_pack(
        "{s:s, s:s, s:s*, s:b, s:o, s:s?, s:o*, s:o*, s:o*, s:o*}", "kind",
        p->kind, "reference_status",
        hr_status_name(p->results[VALIDATE_REFERENCE].status),
        "status_differs_after",
        early ? hr_stage_name((enum hr_stage)p->status_cut) : NULL, "within",
        p->within, "stages", stages_json(p->at, p->cut), "begins",
        p->begins < 0 ? NULL : hr_stage_name((enum hr_stage)p->begins),
        "repeats", p->looked ? json_boolean(p->repeats) : NULL, "spans_equal",
        p->looked ? manifest_spans_json(p->spans_equal) : NULL,
        "spans_differing",
        p->looked ? manifest_spans_json(p->spans_differ) : NULL, "pixels_of",
        p->stale_of < 0 ? NULL : validate_name_json(v, (size_t)p->stale_of));

    json_object_update(json, more);
    json_decref(more);
    return json;
}

static json_t *begins_json(const uint64_t begins[HR_NUM_STAGES])
{
    json_t *json = json_object();

    for (int s = 0; s < HR_NUM_STAGES; s++)
        manifest_count(json, hr_stage_name((enum hr_stage)s), begins[s]);
    return json;
}

static json_t *kinds_json(const struct validate *v)
{
    json_t *list = json_array();

    for (int i = 0; i < v->num_kinds; i++) {
        const struct validate_kind *k = &v->kinds[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "kind", k->name,
                      "pictures", (json_int_t)k->pictures, "by_device",
                      (json_int_t)k->by_device, "outside",
                      (json_int_t)k->outside, "begins", begins_json(k->begins),
                      "end_to_end", totals_json(&k->stats)));
    }
    return list;
}

// Counts by engine, and for each by the spans that it did.
static json_t *engines_json(const struct validate *v)
{
    json_t *json = json_object();

    for (int i = 0; i < v->num_engines; i++) {
        const struct validate_engine *e = &v->engines[i];
        json_t *spans = json_object();

        for (int bit = 0; bit < HR_NUM_SPANS; bit++) {
            char text[64];

            tools_span_text(text, sizeof(text), hr_span_of(bit));
            manifest_count(spans, text, e->spans[bit]);
        }
        json_object_set_new(json, e->name,
                            json_pack("{s:I, s:o}", "pictures",
                                      (json_int_t)e->pictures, "spans", spans));
    }
    return json;
}

static json_t *made_json(const struct validate *v)
{
    json_t *made = json_object();

    for (int i = 0; i < v->num_made; i++)
        manifest_count(made, v->made[i].text, v->made[i].pictures);
    return made;
}

static json_t *bins_json(const struct validate_stats *end)
{
    json_t *bins = json_object();

    for (int i = 0; i < VALIDATE_BINS; i++)
        json_object_set_new(bins, validate_bin_names[i],
                            json_integer((json_int_t)end->bins[i]));
    return bins;
}

json_t *validate_results_json(const struct validate *v)
{
    hr_device dev = v->dev[VALIDATE_DEVICE];
    char sentence[VALIDATE_SENTENCE];
    enum validate_finding finding = validate_verdict(v, sentence,
                                                     sizeof(sentence));

    return json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:s, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:I,"
        " s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o}",
        "version", hr_version(), "device", manifest_text(dev->name),
        "description", manifest_text(dev->description), "against",
        v->opt.against == VALIDATE_C ? "reference" : "cpu", "reference",
        hr_reference_name(hr_device_reference(dev)), "libjpeg",
        hr_jpeg_library(), "ops", manifest_text(v->opt.ops_text), "dtype",
        hr_dtype_name(v->opt.dtype), "tier", options_tiers[v->opt.tier],
        "checked", (json_int_t)v->done, "by_device", (json_int_t)v->by_device,
        "failed_alike", (json_int_t)v->failed_both, "unread",
        (json_int_t)validate_unread(v), "status_differs",
        (json_int_t)v->status_differs, "stale", (json_int_t)v->stale,
        "mismatches", (json_int_t)validate_mismatches(v), "outside",
        (json_int_t)v->outside, "stages", stages_json(v->at, NULL), "kinds",
        kinds_json(v), "begins", begins_json(v->begins), "made_by",
        made_json(v), "engines", engines_json(v), "handed_on",
        (json_int_t)v->handed, "fallbacks", manifest_reasons_json(v->fallbacks),
        "histogram", bins_json(&v->at[HR_STORE]), "verdict",
        manifest_text(sentence), "within",
        finding == VALIDATE_UNKNOWN ? json_null()
                                    : json_boolean(finding == VALIDATE_HOLDS));
}

// Prints an object without its opening brace, so that it continues another one.
static void print_members(json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));

    json_decref(json);
    if (text)
        puts(text + 1);
    free(text);
}

// ---- Text ------------------------------------------------------------------

static void print_engines(const struct validate_picture *p)
{
    char text[160];

    validate_made_text(&p->results[VALIDATE_DEVICE], text, sizeof(text));
    printf(" [%s", text);
    for (unsigned why = p->results[VALIDATE_DEVICE].why; why; why &= why - 1)
        printf("; %s", hr_why_text(why));
    puts("]");
}

static void print_picture(const struct validate *v,
                          const struct validate_picture *p)
{
    const struct validate_stats *s = &p->at[validate_told_cut(p)];
    char path[PATH_MAX], name[4 * PATH_MAX], cut[64];

    if (!inputs_path(&v->in, p->index, path, sizeof(path)))
        path[0] = '\0';
    tools_escape(name, sizeof(name), path);
    printf("%s: ", name);
    if (p->status_differs) {
        printf("%s on the CPU, %s on the device",
               hr_status_text(p->status[VALIDATE_REFERENCE]),
               hr_status_text(p->status[VALIDATE_DEVICE]));
        // Damage below the window that is wanted ends only the whole decode.
        if (p->status_cut != HR_STORE)
            printf(", if cut after %s",
                   hr_stage_name((enum hr_stage)p->status_cut));
    } else {
        printf("differs from %s on, %.4f %% of samples, max %.4g, mean %.3g, "
               "PSNR %.1f dB%s",
               hr_stage_name((enum hr_stage)p->begins), validate_percent(s),
               s->max, validate_mean(s), validate_psnr(s),
               validate_told_text(p, cut));
    }
    if (p->stale_of >= 0 &&
        inputs_path(&v->in, (size_t)p->stale_of, path, sizeof(path))) {
        tools_escape(name, sizeof(name), path);
        printf("; these are the pixels of %s", name);
    }
    if (p->looked && !p->repeats && p->at[HR_STORE].differing)
        printf("; not so the second time");
    print_engines(p);
}

static void print_stages(const struct validate *v)
{
    printf("%-12s %9s %9s %14s %11s %8s %8s %8s\n", "cut after", "pictures",
           "differing", "samples", "differing %", "max", "mean", "PSNR dB");
    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++) {
        const struct validate_stats *a = &v->at[s];

        if (!a->pictures)
            continue;
        printf("%-12s %9" PRIu64 " %9" PRIu64 " %14" PRIu64
               " %11.5f %8.4g %8.3g %8.1f\n",
               s == HR_STORE ? "end to end" : hr_stage_name((enum hr_stage)s),
               a->pictures, a->differing_pictures, a->samples,
               validate_percent(a), a->max, validate_mean(a), validate_psnr(a));
    }
}

static void print_totals(const struct validate *v)
{
    hr_device dev = v->dev[VALIDATE_DEVICE];

    printf("%s (%s) against %s\nreference %s, %s\n%s, %s\n", dev->name,
           dev->description, validate_against_text(v),
           hr_reference_name(hr_device_reference(dev)), hr_jpeg_library(),
           v->opt.ops_text, hr_dtype_name(v->opt.dtype));
    print_stages(v);
    if (v->at[HR_RECONSTRUCT].pictures < v->at[HR_COLOR].pictures)
        puts("(only grey JPEGs can be cut after reconstruct; max and mean in "
             "levels of 255)");
    for (int i = 0; i < v->num_made; i++)
        printf("%" PRIu64 " made by %s\n", v->made[i].pictures,
               v->made[i].text);
    for (int bit = 0; bit < 32; bit++)
        if (v->fallbacks[bit])
            printf("%" PRIu64 " handed to the next engine: %s\n",
                   v->fallbacks[bit], hr_why_text(1u << bit));
    if (v->failed_both)
        printf("%" PRIu64 " cannot be made, on both sides alike\n",
               v->failed_both);
    if (validate_unread(v))
        printf("%" PRIu64 " could not be read\n", validate_unread(v));
    if (v->opt.against == VALIDATE_C)
        puts("the readable C is built in; python3 -m headrace.validate "
             "compares with Pillow and torchvision themselves");
}

// ---- Both ------------------------------------------------------------------

void validate_out_begin(struct validate *v)
{
    if (v->opt.json)
        fputs("{\"pictures\": [", stdout);
}

void validate_out_picture(struct validate *v, const struct validate_picture *p)
{
    if (v->opt.json) {
        json_t *json = picture_json(v, p);

        puts(v->begun ? "," : "");
        json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        json_decref(json);
        v->begun = true;
        return;
    }
    if (v->opt.quiet || (!p->differs && !p->status_differs))
        return;
    progress_clear(&v->progress);
    if (v->listed++ < VALIDATE_NAMES)
        print_picture(v, p);
}

int validate_out_end(struct validate *v, const char *error)
{
    char sentence[VALIDATE_SENTENCE];

    if (error) {
        if (v->opt.json)
            puts("\n], \"within\": false, \"interrupted\": true}");
        tools_flush_stdout();
        return TOOLS_CANNOT;
    }
    validate_verdict(v, sentence, sizeof(sentence));
    if (v->opt.json) {
        fputs("\n],", stdout);
        print_members(validate_results_json(v));
        return tools_flush_stdout();
    }
    if (v->listed > VALIDATE_NAMES)
        printf("... and %" PRIu64 " more; --json has all of them\n",
               v->listed - VALIDATE_NAMES);
    if (!v->opt.quiet)
        print_totals(v);
    printf("verdict: %s\n", sentence);
    return tools_flush_stdout();
}
