// SPDX-License-Identifier: Apache-2.0
// headrace devices: what is here, what each engine offers, how it compared with
// the CPU, and why something is absent.
#include <jansson.h>
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

static json_t *record_json(const struct hr_certificate_record *r)
{
    bool exact = r->pictures && !r->failed && !(r->differing > 0);
    const char *kind = hr_jpeg_kind_name(r->kind);
    json_t *json = json_object();
    char text[64];

    tools_span_text(text, sizeof(text), r->span);
    json_object_set_new(json, "span", json_string(text));
    json_object_set_new(json, "kind", *kind ? json_string(kind) : json_null());
    json_object_set_new(json, "tier", json_string(tier_names[r->tier]));
    json_object_set_new(json, "exact", json_boolean(exact));
    json_object_set_new(json, "failed", json_boolean(r->failed));
    json_object_set_new(json, "pictures", json_integer(r->pictures));
    json_object_set_new(json, "percent", json_real(100 * r->differing));
    json_object_set_new(json, "max", json_real(r->max));
    json_object_set_new(json, "mean", json_real(r->mean));
    json_object_set_new(json, "psnr",
                        r->psnr > 0 ? json_real(r->psnr) : json_null());
    return json;
}

static json_t *certificate_json(const struct hr_certificate *cert)
{
    json_t *json = json_object(), *records = json_array();
    char when[32];

    if (!tested_text(cert, when)) {
        json_decref(json);
        json_decref(records);
        return json_null();
    }
    for (int i = 0; i < cert->num_records; i++)
        json_array_append_new(records, record_json(&cert->records[i]));
    json_object_set_new(json, "tested", json_string(when));
    json_object_set_new(json, "records", records);
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

static void print_record(const struct hr_certificate_record *r)
{
    const char *kind = hr_jpeg_kind_name(r->kind);
    char span[64];

    tools_span_text(span, sizeof(span), r->span);
    printf("%-12s   %s%s%s%s: ", "", span, *kind ? " of " : "", kind,
           r->tier == HR_FAST ? " in tier fast" : "");
    if (r->failed)
        printf("failed%s, not used\n",
               r->pictures ? " or was too far off" : "");
    else if (!r->pictures)
        puts("could not be compared, not used");
    else if (!(r->differing > 0))
        printf("exact, %d pictures\n", r->pictures);
    else
        printf("differs in %.4f %% of %d pictures' elements, by %.3f of 256 "
               "levels at most, %.3g on average, PSNR %.1f dB\n",
               100 * r->differing, r->pictures, r->max, r->mean, r->psnr);
}

static void print_certificate(const struct hr_certificate *cert)
{
    char when[32];

    if (!tested_text(cert, when))
        return;
    printf("%-12s tested %s\n", "", when);
    for (int i = 0; i < cert->num_records; i++)
        print_record(&cert->records[i]);
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

static const struct option table[] = {
    {"json", OPTION_FLAG, 0, .what = "print one JSON object"},
    {0},
};

int cmd_devices(int argc, char **argv)
{
    bool json = false;
    struct options line = {"devices", "[OPTION...]", .example = example};
    int code = options_parse(&line, table, &json, argc, argv);

    if (!code && !line.done)
        code = poptPeekArg(line.con)
                   ? options_fail("devices", "'%s' was not expected",
                                  poptPeekArg(line.con))
                   : list(json);
    options_finish(&line);
    return code;
}
