// SPDX-License-Identifier: Apache-2.0
// What validate prints: a few lines, or one JSON object.
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
    json_t *json = json_pack("{s:I, s:I, s:f, s:f, s:f}", "samples",
                             (json_int_t)s->samples, "differing",
                             (json_int_t)s->differing, "percent",
                             validate_percent(s), "max", s->max, "mean",
                             validate_mean(s));

    json_object_set_new(json, "psnr",
                        isfinite(psnr) ? json_real(psnr) : json_null());
    return json;
}

static json_t *stages_json(const struct validate_stats *at, const bool *cut)
{
    json_t *json = json_object();

    for (int s = VALIDATE_FIRST_CUT; s < HR_STORE; s++)
        if (cut ? cut[s] : at[s].pictures > 0)
            json_object_set_new(json, hr_stage_name((enum hr_stage)s),
                                stats_json(&at[s]));
    if (cut ? cut[HR_STORE] : at[HR_STORE].pictures > 0)
        json_object_set_new(json, "end_to_end", stats_json(&at[HR_STORE]));
    return json;
}

static json_t *spans_json(uint32_t spans)
{
    json_t *json = json_array();

    for (int bit = 0; bit < HR_NUM_STAGES * HR_NUM_STAGES; bit++) {
        char text[64];

        if (!(spans >> bit & 1))
            continue;
        tools_span_text(text, sizeof(text), validate_span_of(bit));
        json_array_append_new(json, json_string(text));
    }
    return json;
}

static json_t *name_json(const struct validate *v, size_t index)
{
    char path[PATH_MAX];

    return manifest_text(inputs_path(&v->in, index, path, sizeof(path)));
}

static json_t *picture_json(const struct validate *v,
                            const struct validate_picture *p)
{
    char path[PATH_MAX] = "";
    const struct manifest_entry entry = {
        .path = inputs_path(&v->in, p->index, path, sizeof(path)),
        .label = inputs_label(&v->in, p->index),
        .index = -1,
        .result = &p->results[VALIDATE_DEVICE],
    };
    enum hr_status reference = p->results[VALIDATE_REFERENCE].status;
    json_t *json = manifest_entry_json(&entry);

    json_object_set_new(json, "kind", json_string(p->kind));
    json_object_set_new(json, "reference_status",
                        json_string(hr_status_name(reference)));
    if (p->status_differs && p->status_cut != HR_STORE)
        json_object_set_new(json, "status_differs_after",
                            json_string(
                                hr_stage_name((enum hr_stage)p->status_cut)));
    json_object_set_new(json, "within", json_boolean(p->within));
    json_object_set_new(json, "stages", stages_json(p->at, p->cut));
    json_object_set_new(
        json, "begins",
        p->begins < 0 ? json_null()
                      : json_string(hr_stage_name((enum hr_stage)p->begins)));
    if (p->looked) {
        json_object_set_new(json, "repeats", json_boolean(p->repeats));
        json_object_set_new(json, "spans_equal", spans_json(p->spans_equal));
        json_object_set_new(json, "spans_differing",
                            spans_json(p->spans_differ));
    }
    if (p->stale_of >= 0)
        json_object_set_new(json, "pixels_of",
                            name_json(v, (size_t)p->stale_of));
    return json;
}

static json_t *begins_json(const uint64_t begins[HR_NUM_STAGES])
{
    json_t *json = json_object();

    for (int s = 0; s < HR_NUM_STAGES; s++)
        if (begins[s])
            json_object_set_new(json, hr_stage_name((enum hr_stage)s),
                                json_integer((json_int_t)begins[s]));
    return json;
}

static json_t *kinds_json(const struct validate *v)
{
    json_t *list = json_array();

    for (int i = 0; i < v->num_kinds; i++) {
        const struct validate_kind *k = &v->kinds[i];
        json_t *json = json_pack("{s:s, s:I, s:I, s:I}", "kind", k->name,
                                 "pictures", (json_int_t)k->pictures,
                                 "by_device", (json_int_t)k->by_device,
                                 "outside", (json_int_t)k->outside);

        json_object_set_new(json, "begins", begins_json(k->begins));
        json_object_set_new(json, "end_to_end", stats_json(&k->stats));
        json_array_append_new(list, json);
    }
    return list;
}

// By engine, and of each by the spans that it did.
static json_t *engines_json(const struct validate *v)
{
    json_t *json = json_object();

    for (int i = 0; i < v->num_engines; i++) {
        const struct validate_engine *e = &v->engines[i];
        json_t *spans = json_object();

        for (int bit = 0; bit < HR_NUM_STAGES * HR_NUM_STAGES; bit++)
            if (e->spans[bit]) {
                char text[64];

                tools_span_text(text, sizeof(text), validate_span_of(bit));
                json_object_set_new(spans, text,
                                    json_integer((json_int_t)e->spans[bit]));
            }
        json_object_set_new(json, e->name,
                            json_pack("{s:I, s:o}", "pictures",
                                      (json_int_t)e->pictures, "spans", spans));
    }
    return json;
}

static void add_counts(const struct validate *v, json_t *json)
{
    json_t *made = json_object(), *fallbacks = json_object();
    json_t *bins = json_object();

    for (int i = 0; i < v->num_made; i++)
        json_object_set_new(made, v->made[i].text,
                            json_integer((json_int_t)v->made[i].pictures));
    for (int bit = 0; bit < 32; bit++)
        if (v->fallbacks[bit])
            json_object_set_new(fallbacks, hr_why_text(1u << bit),
                                json_integer((json_int_t)v->fallbacks[bit]));
    for (int i = 0; i < VALIDATE_BINS; i++)
        json_object_set_new(bins, validate_bin_names[i],
                            json_integer((json_int_t)v->at[HR_STORE].bins[i]));
    json_object_set_new(json, "begins", begins_json(v->begins));
    json_object_set_new(json, "made_by", made);
    json_object_set_new(json, "engines", engines_json(v));
    json_object_set_new(json, "handed_on", json_integer((json_int_t)v->handed));
    json_object_set_new(json, "fallbacks", fallbacks);
    json_object_set_new(json, "histogram", bins);
}

json_t *validate_tail_json(const struct validate *v)
{
    hr_device dev = v->dev[VALIDATE_DEVICE];
    char sentence[VALIDATE_SENTENCE];
    enum validate_finding finding = validate_verdict(v, sentence,
                                                     sizeof(sentence));
    json_t *json = json_object();

    json_object_set_new(json, "version", json_string(hr_version()));
    json_object_set_new(json, "device", manifest_text(dev->name));
    json_object_set_new(json, "description", manifest_text(dev->description));
    json_object_set_new(json, "against",
                        json_string(v->opt.against == VALIDATE_C ? "reference"
                                                                 : "cpu"));
    json_object_set_new(json, "reference",
                        json_string(
                            hr_reference_name(hr_device_reference(dev))));
    json_object_set_new(json, "libjpeg", json_string(hr_jpeg_library()));
    json_object_set_new(json, "ops", manifest_text(v->opt.ops_text));
    json_object_set_new(json, "dtype",
                        json_string(hr_dtype_name(v->opt.dtype)));
    json_object_set_new(json, "tier", json_string(options_tiers[v->opt.tier]));
    json_object_set_new(json, "checked", json_integer((json_int_t)v->done));
    json_object_set_new(json, "by_device",
                        json_integer((json_int_t)v->by_device));
    json_object_set_new(json, "failed_alike",
                        json_integer((json_int_t)v->failed_both));
    json_object_set_new(json, "unread",
                        json_integer((json_int_t)validate_unread(v)));
    json_object_set_new(json, "status_differs",
                        json_integer((json_int_t)v->status_differs));
    json_object_set_new(json, "stale", json_integer((json_int_t)v->stale));
    json_object_set_new(json, "mismatches",
                        json_integer((json_int_t)validate_mismatches(v)));
    json_object_set_new(json, "outside", json_integer((json_int_t)v->outside));
    json_object_set_new(json, "stages", stages_json(v->at, NULL));
    json_object_set_new(json, "kinds", kinds_json(v));
    add_counts(v, json);
    json_object_set_new(json, "verdict", manifest_text(sentence));
    json_object_set_new(json, "within",
                        finding == VALIDATE_UNKNOWN
                            ? json_null()
                            : json_boolean(finding == VALIDATE_HOLDS));
    return json;
}

// Without its opening brace, so that it continues an object.
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
        puts("the readable C is built in; tests/compare/compare.py of the "
             "sources compares with Pillow and torchvision themselves");
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
        print_members(validate_tail_json(v));
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
