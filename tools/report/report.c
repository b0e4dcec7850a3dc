// SPDX-License-Identifier: Apache-2.0
// A report is a JSON tree while it is put together; the page makes a document
// of it. So nothing here knows HTML.
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// jpeglib.h wants these first.
#include <jpeglib.h>
#include <png.h>

#include "parts.h"
#include "tools/common/manifest.h"
#include "tools/common/tools.h"

#define TO_TEXT(x) #x
#define AS_TEXT(x) TO_TEXT(x)

const char *report_tone_name(enum report_tone tone)
{
    static const char *const names[] = {"plain", "good", "warn", "bad"};

    return names[tone];
}

void report_set(struct report *r, json_t *object, const char *key,
                json_t *value)
{
    if (json_object_set_new(object, key, value) && r)
        r->failed = true;
}

void report_append(struct report *r, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) && r)
        r->failed = true;
}

json_t *report_or_null(const char *text)
{
    return text ? manifest_text(text) : json_null();
}

void report_add(struct report *r, json_t *item)
{
    if (!r) {
        json_decref(item);
        return;
    }
    report_append(r, r->items, item);
    r->last = r->failed ? NULL : item;  // the tree keeps it
}

json_t *report_last(const struct report *r, const char *key)
{
    return r ? json_object_get(r->last, key) : NULL;
}

// ---- Head ------------------------------------------------------------------

static json_t *vtext(const char *format, va_list args)
{
    char text[8192];

    vsnprintf(text, sizeof(text), format, args);
    return manifest_text(text);
}

static void set_command(struct report *r, int argc, char *const *argv)
{
    json_t *words = json_array();

    for (int i = 0; i < argc; i++)
        report_append(r, words, manifest_text(argv[i]));
    report_set(r, r->root, "command", words);
}

static void set_date(struct report *r)
{
    time_t now = time(NULL);
    char text[64] = "";
    struct tm tm;

    if (localtime_r(&now, &tm))
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M %Z", &tm);
    report_set(r, r->root, "date", json_string(text));
}

struct report *report_new(const char *title, int argc, char *const *argv)
{
    struct report *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->root = json_object();
    report_set(r, r->root, "title", manifest_text(title));
    set_date(r);
    set_command(r, argc, argv);
    report_set(r, r->root, "facts", r->facts = json_array());
    report_set(r, r->root, "items", r->items = json_array());
    report_fact(r, "headrace", "%s", hr_version());
    report_fact(r, "reference", "%s, %s",
                hr_reference_name(hr_device_reference(NULL)),
                hr_jpeg_library());
    report_fact(r, "built with", "libjpeg-turbo %s, libpng %s",
                AS_TEXT(LIBJPEG_TURBO_VERSION), PNG_LIBPNG_VER_STRING);
    return r;
}

void report_free(struct report **report)
{
    if (!report || !*report)
        return;
    json_decref((*report)->root);
    free(*report);
    *report = NULL;
}

void report_verdict(struct report *r, enum report_tone tone,
                    const char *sentence)
{
    if (r)
        report_set(r, r->root, "verdict",
                   json_pack("{s:s, s:o}", "tone", report_tone_name(tone),
                             "text", manifest_text(sentence)));
}

void report_verdict_text(struct report *r, const char *text)
{
    if (r)
        report_set(r, json_object_get(r->root, "verdict"), "more",
                   manifest_text(text));
}

void report_fact(struct report *r, const char *name, const char *format, ...)
{
    va_list args;

    if (!r)
        return;
    va_start(args, format);
    report_append(r, r->facts,
                  json_pack("[o, o]", manifest_text(name),
                            vtext(format, args)));
    va_end(args);
}

static void certificate_row(struct report *r,
                            const struct hr_certificate_record *c)
{
    bool exact = c->pictures && !c->failed && !(c->differing > 0);
    const char *kind = hr_jpeg_kind_name(c->kind);
    char text[64];

    tools_span_text(text, sizeof(text), c->span);
    report_text_cell(r, "%s", text);
    report_text_cell(r, "%s", *kind ? kind : "all");
    report_text_cell(r, "%s",
                     c->failed            ? "failed"
                     : !c->pictures       ? "not tested"
                     : exact              ? "exact"
                     : c->tier == HR_FAST ? "alike, for tier fast"
                                          : "differs");
    report_number_cell(r, c->pictures);
    report_number_cell(r, 100 * c->differing);
    report_number_cell(r, c->max);
    report_number_cell(r, c->mean);
    report_number_cell(r, c->psnr > 0 ? c->psnr : (double)NAN);
    report_tone_row(r, exact || (c->tier == HR_FAST && !c->failed)
                           ? REPORT_PLAIN
                           : REPORT_WARN);
}

// A certificate is one engine's: of several in a row the device has that of the
// first, and the others theirs where they are opened alone.
static void certificate_owner(struct report *r, hr_device dev, const char *when)
{
    struct hr_profile engines;

    hr_device_profile(dev, &engines);
    report_text(r, "%s, tested %s.", engines.engines[0].name, when);
    // The last is the CPU, which needs none.
    for (int i = 1; i < engines.num_engines - 1; i++)
        report_text(r,
                    "%s, which goes on from there, has a certificate of its "
                    "own: headrace devices shows it.",
                    engines.engines[i].name);
}

void report_device(struct report *r, hr_device dev)
{
    static const struct report_column columns[] = {
        {.title = "span"},
        {.title = "kind of JPEG"},
        {.title = "result"},
        {.title = "pictures", .number = true},
        {.title = "differing", .number = true, .digits = 4, .unit = " %"},
        {.title = "largest", .number = true, .digits = 3, .unit = " levels"},
        {.title = "mean", .number = true, .digits = 4, .unit = " levels"},
        {.title = "PSNR", .number = true, .digits = 1, .unit = " dB"},
    };
    const struct hr_certificate *cert = &dev->certificate;
    time_t when = (time_t)cert->tested;
    char text[64] = "";
    struct tm tm;

    if (!cert->tested)
        return;
    if (gmtime_r(&when, &tm))
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &tm);
    report_section(r, "Certificate of the device",
                   "How each span compared with the CPU's readable C, over "
                   "generated pictures of every JPEG kind, when the device was "
                   "first opened. What differs is not used where a picture "
                   "must be exact.");
    certificate_owner(r, dev, text);
    report_table(r, "Spans", columns, 8);
    for (int i = 0; i < cert->num_records; i++)
        certificate_row(r, &cert->records[i]);
}

// ---- Text ------------------------------------------------------------------

void report_figure(struct report *r, const char *name, const char *value,
                   const char *note)
{
    report_add(r, json_pack("{s:s, s:o, s:o, s:o}", "is", "figure", "name",
                            manifest_text(name), "value", manifest_text(value),
                            "note", report_or_null(note)));
}

void report_section(struct report *r, const char *title, const char *text)
{
    report_add(r,
               json_pack("{s:s, s:o, s:o}", "is", "section", "title",
                         manifest_text(title), "text", report_or_null(text)));
}

static void add_text(struct report *r, enum report_tone tone,
                     const char *format, va_list args)
{
    report_add(r,
               json_pack("{s:s, s:s, s:o}", "is", "text", "tone",
                         report_tone_name(tone), "text", vtext(format, args)));
}

void report_text(struct report *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_text(r, REPORT_PLAIN, format, args);
    va_end(args);
}

void report_note(struct report *r, enum report_tone tone, const char *format,
                 ...)
{
    va_list args;

    va_start(args, format);
    add_text(r, tone, format, args);
    va_end(args);
}

// ---- Tables ----------------------------------------------------------------

static json_t *column_json(const struct report_column *c)
{
    return json_pack("{s:o, s:b, s:b, s:o, s:o}", "title",
                     manifest_text(c->title), "number", c->number, "bars",
                     c->bars, "digits",
                     c->auto_digits ? json_null() : json_integer(c->digits),
                     "unit", manifest_text(c->unit ? c->unit : ""));
}

void report_table(struct report *r, const char *caption,
                  const struct report_column *columns, int num)
{
    json_t *list = json_array();

    for (int i = 0; i < num; i++)
        report_append(r, list, column_json(&columns[i]));
    report_add(r, json_pack("{s:s, s:o, s:o, s:[], s:{}}", "is", "table",
                            "caption", manifest_text(caption), "columns", list,
                            "cells", "tones"));
    if (r)
        r->num_columns = num;
}

void report_text_cell(struct report *r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report_append(r, report_last(r, "cells"), vtext(format, args));
    va_end(args);
}

json_t *report_number(double value)
{
    if (!isfinite(value))
        return json_null();
    return value == floor(value) && fabs(value) < 0x1p53
               ? json_integer((json_int_t)value)
               : json_real(value);
}

void report_number_cell(struct report *r, double value)
{
    report_append(r, report_last(r, "cells"), report_number(value));
}

void report_tone_row(struct report *r, enum report_tone tone)
{
    size_t cells = json_array_size(report_last(r, "cells"));
    char row[32];

    if (!cells || tone == REPORT_PLAIN)
        return;
    snprintf(row, sizeof(row), "%zu", (cells - 1) / (size_t)r->num_columns);
    report_set(r, report_last(r, "tones"), row,
               json_string(report_tone_name(tone)));
}
