// SPDX-License-Identifier: Apache-2.0
#include "manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "options.h"
#include "tools.h"

// Length of the UTF-8 sequence at text, 0 if there is none: RFC 3629, so no
// surrogates, no overlong forms, nothing above U+10FFFF.
static size_t utf8_length(const unsigned char *text)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t length;

    if (text[0] < 0x80)
        return 1;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    length = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] == 0xe0)
        low = 0xa0;
    else if (text[0] == 0xed)
        high = 0x9f;
    else if (text[0] == 0xf0)
        low = 0x90;
    else if (text[0] == 0xf4)
        high = 0x8f;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    return length;
}

bool manifest_is_utf8(const char *bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    size_t length = 1;

    for (; *at && length; at += length)
        length = utf8_length(at);
    return length != 0;
}

json_t *manifest_text(const char *bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    size_t size, used = 0, length;
    json_t *text;
    char *out;

    if (manifest_is_utf8(bytes))
        return json_string(bytes);
    if (!tools_mul(&size, strlen(bytes) + 1, 4) || !(out = malloc(size)))
        return NULL;
    for (; *at; at += length ? length : 1) {
        length = utf8_length(at);
        if (!length)
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", *at);
        memcpy(out + used, at, length);
        used += length;
    }
    out[used] = '\0';
    text = json_string(out);
    free(out);
    return text;
}

static json_t *hex(const char *bytes)
{
    size_t length = strlen(bytes), size;
    char *out;
    json_t *text;

    if (!tools_mul(&size, length + 1, 2) || !(out = malloc(size)))
        return NULL;
    for (size_t i = 0; i < length; i++)
        snprintf(out + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
    text = json_string(out);
    free(out);
    return text;
}

static json_t *spans_json(const struct hr_result *result)
{
    json_t *spans = json_array();

    for (int i = 0; spans && i < result->num_spans; i++) {
        char span[64];
        tools_span_text(span, sizeof(span), result->spans[i].span);
        json_array_append_new(spans,
                              json_pack("{s:s, s:s}", "span", span, "device",
                                        result->spans[i].device));
    }
    return spans;
}

static json_t *why_json(unsigned why)
{
    json_t *reasons = json_array();

    for (; reasons && why; why &= why - 1)
        json_array_append_new(reasons, json_string(hr_why_text(why)));
    return reasons;
}

json_t *manifest_spans_json(uint32_t spans)
{
    json_t *json = json_array();

    for (int bit = 0; bit < HR_NUM_SPANS; bit++) {
        char text[64];

        if (!(spans >> bit & 1))
            continue;
        tools_span_text(text, sizeof(text), hr_span_of(bit));
        json_array_append_new(json, json_string(text));
    }
    return json;
}

void manifest_count(json_t *to, const char *name, uint64_t count)
{
    if (count)
        json_object_set_new(to, name, json_integer((json_int_t)count));
}

json_t *manifest_statuses_json(const uint64_t *counts, int num)
{
    json_t *json = json_object();

    for (int i = 1; json && i < num; i++)
        manifest_count(json, hr_status_text((enum hr_status) - i), counts[i]);
    return json;
}

bool manifest_tested_text(const struct hr_certificate *cert, char text[32])
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
    char text[64];

    tools_span_text(text, sizeof(text), r->span);
    return json_pack("{s:s, s:s?, s:s, s:b, s:b, s:i, s:f, s:f, s:f, s:o}",
                     "span", text, "kind", *kind ? kind : NULL, "tier",
                     options_tiers[r->tier], "exact", exact, "failed",
                     r->failed, "pictures", r->pictures, "percent",
                     100 * r->differing, "max", r->max, "mean", r->mean, "psnr",
                     r->psnr > 0 ? json_real(r->psnr) : json_null());
}

json_t *manifest_certificate_json(const struct hr_certificate *cert)
{
    json_t *records, *codes;
    char when[32];

    if (!manifest_tested_text(cert, when))
        return json_null();
    records = json_array();
    codes = json_array();
    for (int i = 0; i < cert->num_records; i++)
        json_array_append_new(records, record_json(&cert->records[i]));
    for (int i = 0; hr_augment_code_name(i); i++)
        if (cert->wrong_codes >> i & 1)
            json_array_append_new(codes, json_string(hr_augment_code_name(i)));
    return json_pack("{s:s, s:o, s:o}", "tested", when, "records", records,
                     "wrong_codes", codes);
}

int manifest_print(json_t *json)
{
    int failed = json_dumpf(json, stdout,
                            JSON_INDENT(2) | JSON_REAL_PRECISION(9));

    json_decref(json);
    if (failed) {
        tools_warn("standard output: the summary could not be written");
        return TOOLS_CANNOT;
    }
    putchar('\n');
    return tools_flush_stdout();
}

json_t *manifest_reasons_json(const uint64_t counts[32])
{
    json_t *json = json_object();

    for (int bit = 0; bit < 32; bit++)
        manifest_count(json, hr_why_text(1u << bit), counts[bit]);
    return json;
}

json_t *manifest_entry_json(const struct manifest_entry *entry)
{
    const struct hr_result *r = entry->result;
    bool failed = r->status != HR_OK, plain = manifest_is_utf8(entry->path);
    const int64_t *number = entry->number;
    json_t *path = plain ? NULL : hex(entry->path);
    json_t *file = entry->file ? manifest_text(entry->file) : NULL;
    json_t *reason = failed ? manifest_text(r->message) : NULL;

    // o* and s* write nothing for a NULL.
    if ((!plain && !path) || (entry->file && !file) || (failed && !reason)) {
        json_decref(path);
        json_decref(file);
        json_decref(reason);
        return NULL;
    }
    return json_pack(
        "{s:o, s:o*, s:o, s:o*, s:o*, s:o*, s:s, s:i, s:i, s:o, s:o, s:i, "
        "s:s*, s:o*, s:o*}",
        "path", manifest_text(entry->path), "path_hex", path, "label",
        *entry->label ? manifest_text(entry->label) : json_null(), "class",
        !number       ? NULL
        : *number < 0 ? json_null()
                      : json_integer(*number),
        "file", file, "index",
        entry->index < 0 ? NULL : json_integer(entry->index), "status",
        hr_status_name(r->status), "width", r->width, "height", r->height,
        "spans", spans_json(r), "fallback_reasons", why_json(r->why),
        "warnings", r->warnings, "stage",
        failed ? hr_stage_name(r->stage) : NULL, "offset",
        !failed         ? NULL
        : r->offset < 0 ? json_null()
                        : json_integer(r->offset),
        "reason", reason);
}

// Writes a JSON object without its closing or its opening brace, so that the
// members of two objects and an array between them make one.
static bool write_members(struct out_file *file, json_t *object,
                          const char *before, size_t drop_first,
                          size_t drop_last, const char *after)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    size_t length = text ? strlen(text) : 0;
    bool ok = length >= drop_first + drop_last;

    if (!text) {
        json_decref(object);
        errno = ENOMEM;
        return false;
    }
    ok = ok && out_file_write(file, before, strlen(before)) &&
         out_file_write(file, text + drop_first,
                        length - drop_first - drop_last) &&
         out_file_write(file, after, strlen(after));
    free(text);
    json_decref(object);
    return ok;
}

// The members that any manifest begins with, in this order, by any version.
bool manifest_is_ours(const char *path)
{
    static const char *const begin[] = {"{\"version\":\"", "\",\"backend\":\"",
                                        "\",\"device\":\"", "\"ops\":"};
    char text[8192];
    const char *at = text;
    struct stat st;
    FILE *file;

    // Only a regular file is ever overwritten.
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
        return true;
    if (!(file = fopen(path, "re")))
        return false;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; at && i < sizeof(begin) / sizeof(*begin); i++) {
        const char *next = strstr(at, begin[i]);

        at = next && (i || next == text) ? next + strlen(begin[i]) : NULL;
    }
    return at != NULL;
}

bool manifest_open(struct manifest *manifest, const char *path)
{
    manifest->begun = false;
    return out_file_open(&manifest->file, path);
}

bool manifest_begin(struct manifest *manifest, json_t *head)
{
    manifest->begun = false;
    if (!out_file_rewind(&manifest->file)) {
        json_decref(head);
        return false;
    }
    return write_members(&manifest->file, head, "", 0, 1,
                         ",\n\"pictures\":[\n");
}

bool manifest_add(struct manifest *manifest, const struct manifest_entry *entry)
{
    const char *before = manifest->begun ? ",\n" : "";

    manifest->begun = true;
    return write_members(&manifest->file, manifest_entry_json(entry), before, 0,
                         0, "");
}

bool manifest_end(struct manifest *manifest, json_t *tail)
{
    return write_members(&manifest->file, tail, "\n],\n", 1, 0, "\n");
}
