// SPDX-License-Identifier: Apache-2.0
// headrace devices: what is here, what each engine offers, how it compared with
// the CPU, and why something is absent.
#include "devices.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/manifest.h"
#include "tools/common/options.h"
#include "tools/common/tools.h"

static const char example[] =
    "\nExample: the names that --backend takes here\n"
    "  headrace devices --json | jq -r '.devices[]|select(.available).name'\n";

static bool offers(uint32_t spans, int first, int last)
{
    return first >= 0 && last < HR_NUM_STAGES &&
           spans & HR_SPAN_BIT(first, last);
}

static json_t *info_json(const struct hr_device_info *info)
{
    const struct hr_caps *caps = &info->caps;
    json_t *json = json_pack("{s:o, s:o, s:b, s:o}", "name",
                             manifest_text(info->name), "backend",
                             manifest_text(info->backend), "available",
                             info->available, "description",
                             manifest_text(info->description));
    json_t *more;

    if (!info->available) {
        json_object_set_new(json, "reason", manifest_text(info->reason));
        return json;
    }
    more = json_pack("{s:b, s:b, s:i, s:i, s:i, s:b, s:{s:o, s:o, s:o}, s:o}",
                     "exact", caps->exact, "software", caps->software,
                     "threads", caps->threads, "max_side",
                     caps->max_side ? caps->max_side : HR_MAX_SIDE, "batch",
                     caps->batch, "host_memory", caps->host_memory, "spans",
                     options_tiers[0], manifest_spans_json(caps->spans[0]),
                     options_tiers[1], manifest_spans_json(caps->spans[1]),
                     options_tiers[2], manifest_spans_json(caps->spans[2]),
                     "certificate",
                     manifest_certificate_json(&info->certificate));
    json_object_update(json, more);
    json_decref(more);
    return json;
}

// Ops by the stage that does them; decode goes through all from the first.
static bool is_of(const struct hr_op_info *op, enum hr_stage stage)
{
    return op->stage == HR_COLOR ? stage <= HR_COLOR : op->stage == stage;
}

// Pictures without ops of augment pass it by in longer spans: what has the
// stage has spans that begin with it.
static bool covers(struct hr_span span, enum hr_stage stage)
{
    return stage == HR_AUGMENT ? span.first == stage
                               : span.first <= stage && span.last >= stage;
}

static bool does(const struct hr_device_info *info, enum hr_stage stage)
{
    for (int i = 0; i < HR_NUM_SPANS; i++)
        if (covers(hr_span_of(i), stage) &&
            (info->caps.spans[HR_EXACT] | info->caps.spans[HR_FAST]) >> i & 1)
            return info->available;
    return false;
}

static json_t *stage_json(const struct hr_device_info *infos, int num,
                          enum hr_stage stage)
{
    json_t *ops = json_array(), *devices = json_array();
    const struct hr_op_info *op;

    for (int i = 1; (op = hr_op_info((enum hr_op_type)i)); i++)
        if (is_of(op, stage))
            json_array_append_new(ops, json_string(op->name));
    for (int i = 0; i < num; i++)
        if (does(&infos[i], stage))
            json_array_append_new(devices, json_string(infos[i].name));
    return json_pack("{s:s, s:o, s:o}", "stage", hr_stage_name(stage), "ops",
                     ops, "devices", devices);
}

static json_t *libraries_json(void)
{
    json_t *rows = json_array();
    const struct hr_library_info *l;

    for (int i = 0; (l = hr_library_info(i)); i++)
        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:s, s:b, s:b}", "name", l->name,
                            "purpose", l->purpose, "package", l->package,
                            "built", l->built, "found", hr_library_found(i)));
    return rows;
}

// A file that the user names in place of a library is told by its name.
static void print_found(const struct hr_library_info *l, bool found)
{
    const char *other = l->variable ? secure_getenv(l->variable) : NULL;

    printf("%s", found ? "found" : "missing");
    if (other && *other)
        printf(" as %s=%s", l->variable, other);
    if (!found)
        printf(", Debian package %s", l->package);
    putchar('\n');
}

static void print_libraries(void)
{
    const struct hr_library_info *l;

    for (int i = 0; (l = hr_library_info(i)); i++) {
        printf("%-12s %s, for %s: ", i ? "" : "libraries", l->name, l->purpose);
        if (!l->built)
            puts("this build was made without it");
        else
            print_found(l, hr_library_found(i));
    }
}

static int print_json(const struct hr_device_info *infos, int num)
{
    json_t *devices = json_array(), *stages = json_array(), *json;

    for (int i = 0; i < num; i++)
        json_array_append_new(devices, info_json(&infos[i]));
    for (int i = 0; i < HR_NUM_STAGES; i++)
        json_array_append_new(stages, stage_json(infos, num, (enum hr_stage)i));
    json = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "version", hr_version(),
                     "reference", hr_reference_name(hr_device_reference(NULL)),
                     "libjpeg", hr_jpeg_library(), "stages", stages, "devices",
                     devices, "libraries", libraries_json());
    return manifest_print(json);
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

    if (!manifest_tested_text(cert, when))
        return;
    printf("%-12s tested %s\n", "", when);
    for (int i = 0; i < cert->num_records; i++)
        print_record(&cert->records[i]);
    for (int i = 0; hr_augment_code_name(i); i++)
        if (cert->wrong_codes >> i & 1)
            printf("%-12s   %s of stage augment differs, not used\n", "",
                   hr_augment_code_name(i));
}

static void print_entropy(const struct hr_device_info *info)
{
    if (!strcmp(info->backend, "opencl"))
        printf("%-12s entropy coding of JPEGs: by the %s\n", "",
               offers(info->caps.spans[HR_EXACT], HR_ENTROPY, HR_STORE)
                   ? "device"
                   : "host");
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
        uint32_t spans = info->caps.spans[i];

        if (i && spans == info->caps.spans[i - 1])
            continue;
        printf("%-12s does ", "");
        print_spans(spans);
        if (!i && spans == info->caps.spans[HR_CLOSE] &&
            spans == info->caps.spans[HR_FAST])
            puts(", in every tier");
        else
            printf(", in tier %s%s\n", options_tiers[i],
                   i < 2 && spans == info->caps.spans[i + 1]
                       ? " and faster ones"
                       : "");
    }
    if (info->caps.software)
        printf("%-12s runs on this machine's own processor: not chosen by "
               "\"auto\"\n",
               "");
    print_entropy(info);
    print_certificate(&info->certificate);
}

static int list(bool json)
{
    struct hr_device_info *infos = NULL;
    int capacity = 16, num, code;

    // Devices may appear between the two calls.
    for (;;) {
        free(infos);
        if (!(infos = calloc((size_t)capacity, sizeof(*infos)))) {
            tools_warn("out of memory");
            return TOOLS_CANNOT;
        }
        num = hr_device_list(infos, capacity);
        if (num <= capacity)
            break;
        capacity = num;
    }
    if (json) {
        code = print_json(infos, num);
    } else {
        for (int i = 0; i < num; i++)
            print_info(&infos[i]);
        printf("%-12s %s, %s\n", "reference",
               hr_reference_name(hr_device_reference(NULL)), hr_jpeg_library());
        print_libraries();
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
