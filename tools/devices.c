// SPDX-License-Identifier: Apache-2.0
// headrace devices: what is here, what each engine offers, how it compared with
// the CPU, and why something is absent.
#include <jansson.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "manifest.h"
#include "options.h"
#include "tools.h"

static const char *const tier_names[] = {"close", "exact", "fast"};

static const char example[] =
    "\nExample: the names that --backend takes here\n"
    "  headrace devices --json | jq -r '.devices[]|select(.available).name'\n";

static bool offers(uint32_t spans, int first, int last)
{
    return first >= 0 && last < HR_NUM_STAGES &&
           spans >> (first * HR_NUM_STAGES + last) & 1;
}

static json_t *spans_json(uint32_t spans)
{
    json_t *json = json_array();

    for (int first = 0; first < HR_NUM_STAGES; first++) {
        for (int last = first; last < HR_NUM_STAGES; last++) {
            struct hr_span span = {(enum hr_stage)first, (enum hr_stage)last};
            char text[64];

            if (!offers(spans, first, last))
                continue;
            tools_span_text(text, sizeof(text), span);
            json_array_append_new(json, json_string(text));
        }
    }
    return json;
}

// "2026-01-31T12:00:00Z"; false: there is no certificate.
static bool tested_text(const struct hr_certificate *cert, char text[32])
{
    time_t when = (time_t)cert->tested;
    struct tm tm;

    return cert->tested && gmtime_r(&when, &tm) &&
           strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static json_t *kinds_json(const struct hr_certificate *cert)
{
    json_t *json = json_array();

    for (int i = 0; i < HR_NUM_KINDS; i++) {
        const struct hr_kind_certificate *k = &cert->kinds[i];
        const char *name = hr_jpeg_kind_name((enum hr_jpeg_kind)i);
        json_t *kind = json_object();

        json_object_set_new(kind, "kind", json_string(name));
        json_object_set_new(kind, "pictures", json_integer(k->pictures));
        json_object_set_new(kind, "max", json_real(k->max));
        json_object_set_new(kind, "mean", json_real(k->mean));
        if (k->pictures)
            json_array_append_new(json, kind);
        else
            json_decref(kind);
    }
    return json;
}

static json_t *fast_json(const struct hr_certificate *cert)
{
    json_t *json = json_array();

    for (int i = 0; i < HR_NUM_KINDS; i++) {
        const struct hr_fast_certificate *f = &cert->fast[i];
        const char *name = hr_jpeg_kind_name((enum hr_jpeg_kind)i);
        json_t *kind;

        if (!f->pictures && !f->failed)
            continue;
        kind = json_object();
        json_object_set_new(kind, "kind", json_string(name));
        json_object_set_new(kind, "failed", json_boolean(f->failed));
        json_object_set_new(kind, "pictures", json_integer(f->pictures));
        json_object_set_new(kind, "max", json_real(f->max));
        json_object_set_new(kind, "mean", json_real(f->mean));
        json_object_set_new(kind, "psnr",
                            f->psnr > 0 ? json_real(f->psnr) : json_null());
        json_array_append_new(json, kind);
    }
    return json;
}

static json_t *certificate_json(const struct hr_certificate *cert)
{
    json_t *json = json_object(), *spans = json_array();
    char text[64], when[32];

    if (!tested_text(cert, when)) {
        json_decref(json);
        json_decref(spans);
        return json_null();
    }
    for (int i = 0; i < cert->num_spans; i++) {
        const struct hr_span_certificate *s = &cert->spans[i];
        json_t *span = json_object();
        bool exact = s->pictures && !s->failed && !(s->differing > 0);

        tools_span_text(text, sizeof(text), s->span);
        json_object_set_new(span, "span", json_string(text));
        json_object_set_new(span, "exact", json_boolean(exact));
        json_object_set_new(span, "failed", json_boolean(s->failed));
        json_object_set_new(span, "pictures", json_integer(s->pictures));
        json_object_set_new(span, "percent", json_real(100 * s->differing));
        json_object_set_new(span, "max", json_real(s->max));
        json_object_set_new(span, "mean", json_real(s->mean));
        json_object_set_new(span, "psnr",
                            s->psnr > 0 ? json_real(s->psnr) : json_null());
        json_array_append_new(spans, span);
    }
    json_object_set_new(json, "tested", json_string(when));
    json_object_set_new(json, "spans", spans);
    json_object_set_new(json, "kinds", kinds_json(cert));
    json_object_set_new(json, "fast", fast_json(cert));
    return json;
}

static json_t *info_json(const struct hr_device_info *info)
{
    const struct hr_caps *caps = &info->caps;
    json_t *json = json_object(), *spans;

    json_object_set_new(json, "name", manifest_text(info->name));
    json_object_set_new(json, "backend", manifest_text(info->backend));
    json_object_set_new(json, "available", json_boolean(info->available));
    json_object_set_new(json, "description", manifest_text(info->description));
    if (!info->available) {
        json_object_set_new(json, "reason", manifest_text(info->reason));
        return json;
    }
    json_object_set_new(json, "exact", json_boolean(caps->exact));
    json_object_set_new(json, "software", json_boolean(caps->software));
    json_object_set_new(json, "threads", json_integer(caps->threads));
    json_object_set_new(json, "max_side",
                        json_integer(caps->max_side ? caps->max_side
                                                    : HR_MAX_SIDE));
    json_object_set_new(json, "batch", json_integer(caps->batch));
    json_object_set_new(json, "host_memory", json_boolean(caps->host_memory));
    spans = json_object();
    for (int tier = 0; tier < 3; tier++)
        json_object_set_new(spans, tier_names[tier],
                            spans_json(caps->spans[tier]));
    json_object_set_new(json, "spans", spans);
    json_object_set_new(json, "certificate",
                        certificate_json(&info->certificate));
    return json;
}

static int print_json(const struct hr_device_info *infos, int num)
{
    json_t *json = json_object(), *devices = json_array();

    for (int i = 0; i < num; i++)
        json_array_append_new(devices, info_json(&infos[i]));
    json_object_set_new(json, "version", json_string(hr_version()));
    json_object_set_new(json, "reference",
                        json_string(hr_reference_name(hr_get_reference())));
    json_object_set_new(json, "libjpeg", json_string(hr_jpeg_library()));
    json_object_set_new(json, "devices", devices);
    json_dumpf(json, stdout, JSON_INDENT(2));
    json_decref(json);
    putchar('\n');
    return tools_flush_stdout();
}

// Spans that no longer span of the same device contains.
static void print_spans(uint32_t spans)
{
    const char *before = "";

    for (int first = 0; first < HR_NUM_STAGES; first++) {
        for (int last = first; last < HR_NUM_STAGES; last++) {
            struct hr_span span = {(enum hr_stage)first, (enum hr_stage)last};
            bool longest = offers(spans, first, last);
            char text[64];

            for (int f = 0; f <= first; f++)
                for (int l = last; l < HR_NUM_STAGES; l++)
                    if ((f != first || l != last) && offers(spans, f, l))
                        longest = false;
            if (!longest)
                continue;
            tools_span_text(text, sizeof(text), span);
            printf("%s%s", before, text);
            before = ", ";
        }
    }
    if (!*before)
        fputs("nothing", stdout);
}

static void print_kinds(const struct hr_certificate *cert)
{
    const char *before = "levels at most, by kind: ";

    for (int i = 0; i < HR_NUM_KINDS; i++) {
        const struct hr_kind_certificate *k = &cert->kinds[i];

        if (!k->pictures)
            continue;
        if (*before == 'l')
            printf("%-12s ", "");
        printf("%s%s %g (mean %.3g)", before,
               hr_jpeg_kind_name((enum hr_jpeg_kind)i), k->max, k->mean);
        before = ", ";
    }
    if (*before != 'l')
        putchar('\n');
}

static void print_fast(const struct hr_certificate *cert)
{
    for (int i = 0; i < HR_NUM_KINDS; i++) {
        const struct hr_fast_certificate *f = &cert->fast[i];
        const char *name = hr_jpeg_kind_name((enum hr_jpeg_kind)i);

        if (f->failed)
            printf("%-12s tier fast, %s: failed or too far off (%.3g levels on "
                   "average), not used\n",
                   "", name, f->mean);
        else if (f->pictures && !(f->psnr > 0))
            printf("%-12s tier fast, %s: exact, %d pictures\n", "", name,
                   f->pictures);
        else if (f->pictures)
            printf("%-12s tier fast, %s: %g levels at most, %.3g on average, "
                   "PSNR %.1f dB\n",
                   "", name, f->max, f->mean, f->psnr);
    }
}

static void print_certificate(const struct hr_certificate *cert)
{
    char text[64], when[32];

    if (!tested_text(cert, when))
        return;
    for (int i = 0; i < cert->num_spans; i++) {
        const struct hr_span_certificate *s = &cert->spans[i];

        tools_span_text(text, sizeof(text), s->span);
        printf("%-12s tested %s: %s ", "", when, text);
        if (s->failed)
            puts("failed or too far off, not used");
        else if (!s->pictures)
            puts("could not be compared, not used");
        else if (!(s->differing > 0))
            printf("exact, %d pictures\n", s->pictures);
        else
            printf("differs in %.4f %% of %d pictures' elements, by %.3f of "
                   "256 levels at most, %.3g on average, PSNR %.1f dB\n",
                   100 * s->differing, s->pictures, s->max, s->mean, s->psnr);
    }
    print_kinds(cert);
    print_fast(cert);
}

static void print_info(const struct hr_device_info *info)
{
    char text[256];

    tools_escape(text, sizeof(text),
                 info->available ? info->description : info->reason);
    if (!info->available) {
        printf("%-12s absent: %s\n", info->name, text);
        return;
    }
    printf("%-12s %s\n", info->name, text);
    printf("%-12s %s\n", "",
           info->caps.exact ? "bit-exact on this machine"
                            : "not bit-exact in every span");
    // A tier that adds nothing to the one above it says nothing new.
    for (int i = 0; i < 3; i++) {
        static const int order[] = {HR_EXACT, HR_CLOSE, HR_FAST};
        uint32_t spans = info->caps.spans[order[i]];

        if (i && spans == info->caps.spans[order[i - 1]])
            continue;
        printf("%-12s does ", "");
        print_spans(spans);
        if (!i && spans == info->caps.spans[HR_CLOSE] &&
            spans == info->caps.spans[HR_FAST])
            puts(", in every tier");
        else
            printf(", in tier %s%s\n", tier_names[order[i]],
                   i < 2 && spans == info->caps.spans[order[i + 1]]
                       ? " and faster ones"
                       : "");
    }
    if (info->caps.software)
        printf("%-12s runs on this machine's own processor: not chosen by "
               "\"auto\"\n",
               "");
    print_certificate(&info->certificate);
}

static int list(bool json)
{
    struct hr_device_info *infos = NULL;
    int room = 16, num, code;

    // Devices may appear between the two calls.
    for (;;) {
        free(infos);
        if (!(infos = calloc((size_t)room, sizeof(*infos)))) {
            tools_warn("out of memory");
            return TOOLS_CANNOT;
        }
        num = hr_device_list(infos, room);
        if (num <= room)
            break;
        room = num;
    }
    if (json) {
        code = print_json(infos, num);
    } else {
        for (int i = 0; i < num; i++)
            print_info(&infos[i]);
        printf("%-12s %s, %s\n", "reference",
               hr_reference_name(hr_get_reference()), hr_jpeg_library());
        code = tools_flush_stdout();
    }
    free(infos);
    return code;
}

int cmd_devices(int argc, char **argv)
{
    int json = 0, code;
    bool done = false;
    const struct poptOption table[] = {
        {"json", 0, POPT_ARG_NONE, &json, 0, "print one JSON object", NULL},
        {"help", 'h', POPT_ARG_NONE, NULL, OPTIONS_HELP, "show this", NULL},
        POPT_TABLEEND};
    poptContext con = poptGetContext(NULL, argc, (const char **)argv, table, 0);

    if (!con) {
        tools_warn("out of memory");
        return TOOLS_CANNOT;
    }
    poptSetOtherOptionHelp(con, "[OPTION...]");
    code = options_read("devices", con, example, &done);
    if (code == TOOLS_OK && !done)
        code = poptPeekArg(con)
                   ? options_fail("devices", "'%s' was not expected",
                                  poptPeekArg(con))
                   : list(json);
    poptFreeContext(con);
    return code;
}
