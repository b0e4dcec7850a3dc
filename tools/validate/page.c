// SPDX-License-Identifier: Apache-2.0
// The picture report of validate: its JSON, and the pictures.
#include <errno.h>
#include <string.h>

#include "tools/common/manifest.h"
#include "tools/report/report.h"
#include "validate.h"

static json_t *worst_json(const struct validate *v, struct report *r)
{
    json_t *worst = json_array();

    for (int i = 0; i < v->num_worst; i++) {
        const struct validate_worst *w = &v->worst[i];
        const uint8_t *a = w->pixels[VALIDATE_REFERENCE];
        const uint8_t *b = w->pixels[VALIDATE_DEVICE];
        const char *name = v->dev[VALIDATE_DEVICE]->name;

        if (!a || !b)
            continue;
        json_array_append_new(
            worst, json_pack("{s:o, s:o, s:[o, o, o]}", "title",
                             validate_name_json(v, w->index), "text",
                             manifest_text(w->note), "list",
                             report_picture(r, validate_against_text(v), a,
                                            w->w, w->h, w->c),
                             report_picture(r, name, b, w->w, w->h, w->c),
                             report_difference(r, a, b, w->w, w->h, w->c)));
    }
    return worst;
}

static void add_facts(const struct validate *v, struct report *r)
{
    static const char *const tiers[] = {
        "exact: not a bit",
        "close: an inverse DCT 2 levels off at most; the rest exact",
        "fast: alike, as another way of scaling makes them",
    };
    hr_device reference = v->dev[VALIDATE_REFERENCE];

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

// Adds the members that the page reads beside the results.
static void add_more(const struct validate *v, struct report *r)
{
    json_t *outside = json_array(), *cuts = json_array();

    for (int i = 0; i < v->num_names; i++)
        json_array_append_new(outside, validate_name_json(v, v->names[i]));
    for (int s = VALIDATE_FIRST_CUT; s <= HR_STORE; s++)
        json_array_append_new(cuts, json_string(hr_stage_name(s)));
    report_set(r, "outside", outside);
    report_set(r, "cuts", cuts);
    report_set(r, "passing", json_integer((json_int_t)v->passing));
    report_set(r, "silent", json_boolean(validate_is_silent(v)));
    report_set(r, "worst", worst_json(v, r));
    report_set(r, "certificate",
               manifest_certificate_json(
                   &v->dev[VALIDATE_DEVICE]->certificate));
}

bool validate_page(struct validate *v)
{
    struct report *r = report_new("headrace validate", v->argc, v->argv);
    bool ok;

    add_facts(v, r);
    report_set(r, "results", validate_results_json(v));
    add_more(v, r);
    ok = report_write(r, v->opt.report);
    if (!ok)
        tools_warn("%s: the report cannot be written: %s", v->opt.report,
                   strerror(errno));
    report_free(&r);
    return ok;
}
