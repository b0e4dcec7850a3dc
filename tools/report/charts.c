// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "parts.h"
#include "tools/common/manifest.h"

static const char *kind_name(enum report_chart_kind kind)
{
    static const char *const names[] = {"bars", "stacked", "rows", "lines",
                                        "histogram"};

    return names[kind];
}

void report_chart(struct report *r, const struct report_chart *chart)
{
    json_t *item, *labels;

    if (!r)
        return;
    item = report_item(r, "chart");
    report_set(r, item, "kind", json_string(kind_name(chart->kind)));
    report_set(r, item, "title", manifest_text(chart->title));
    report_set(r, item, "text", report_or_null(chart->text));
    report_set(r, item, "x", report_or_null(chart->x_title));
    report_set(r, item, "y", report_or_null(chart->y_title));
    report_set(r, item, "log", json_boolean(chart->log_y));
    report_set(r, item, "labels", labels = json_array());
    for (int i = 0; i < chart->num_labels; i++)
        report_append(r, labels, manifest_text(chart->labels[i]));
    report_set(r, item, "series", json_array());
}

static json_t *new_series(struct report *r, const char *name)
{
    json_t *series = json_object();

    report_set(r, series, "name", manifest_text(name));
    report_append(r, json_object_get(r->last, "series"), series);
    return series;
}

void report_series(struct report *r, const char *name, const double *values,
                   int num)
{
    json_t *list;

    if (!r)
        return;
    report_set(r, new_series(r, name), "values", list = json_array());
    for (int i = 0; i < num; i++)
        report_append(r, list, report_number(values[i]));
}

static json_t *last_series(struct report *r)
{
    json_t *list = json_object_get(r->last, "series");

    return json_array_get(list, json_array_size(list) - 1);
}

void report_series_tone(struct report *r, enum report_tone tone)
{
    if (r)
        report_set(r, last_series(r), "tone",
                   json_string(report_tone_name(tone)));
}

void report_series_groups(struct report *r, const int *groups, int num)
{
    json_t *list;

    if (!r)
        return;
    report_set(r, last_series(r), "groups", list = json_array());
    for (int i = 0; i < num; i++)
        report_append(r, list, json_integer(groups[i]));
}

void report_series_range(struct report *r, const double *low,
                         const double *high, int num)
{
    json_t *lows, *highs;

    if (!r)
        return;
    report_set(r, last_series(r), "low", lows = json_array());
    report_set(r, last_series(r), "high", highs = json_array());
    for (int i = 0; i < num; i++) {
        report_append(r, lows, report_number(low[i]));
        report_append(r, highs, report_number(high[i]));
    }
}

void report_points(struct report *r, const char *name, const double *x,
                   const double *y, int num)
{
    json_t *list;

    if (!r)
        return;
    report_set(r, new_series(r, name), "points", list = json_array());
    for (int i = 0; i < num; i++) {
        json_t *point = json_array();

        report_append(r, point, report_number(x[i]));
        report_append(r, point, report_number(y[i]));
        report_append(r, list, point);
    }
}

// ---- Timelines -------------------------------------------------------------

void report_timeline(struct report *r, const char *title, const char *text)
{
    json_t *item;

    if (!r)
        return;
    item = report_item(r, "timeline");
    report_set(r, item, "title", manifest_text(title));
    report_set(r, item, "text", report_or_null(text));
    report_set(r, item, "lanes", json_array());
    report_set(r, item, "names", json_array());
    report_set(r, item, "spans", json_array());
    r->spans = 0;
}

int report_lane(struct report *r, const char *name)
{
    json_t *lanes;

    if (!r)
        return 0;
    lanes = json_object_get(r->last, "lanes");
    report_append(r, lanes, manifest_text(name));
    return (int)json_array_size(lanes) - 1;
}

// Each name is kept once; there are few.
static size_t name_index(struct report *r, const char *name)
{
    json_t *names = json_object_get(r->last, "names");
    json_t *text = manifest_text(name);
    size_t i, n = json_array_size(names);

    for (i = 0; i < n; i++)
        if (json_equal(json_array_get(names, i), text))
            break;
    if (i < n)
        json_decref(text);
    else
        report_append(r, names, text);
    return i;
}

void report_span(struct report *r, int lane, const char *name, double begin_ms,
                 double end_ms, const char *remark)
{
    json_t *span;

    if (!r)
        return;
    if (r->spans++ >= REPORT_MAX_SPANS) {
        report_set(r, r->last, "dropped",
                   json_integer((json_int_t)(r->spans - REPORT_MAX_SPANS)));
        return;
    }
    span = json_array();
    report_append(r, span, json_integer(lane));
    report_append(r, span, json_integer((json_int_t)name_index(r, name)));
    // Nanoseconds are more than a page can show.
    report_append(r, span, report_number(floor(begin_ms * 1e4) / 1e4));
    report_append(r, span, report_number(ceil(end_ms * 1e4) / 1e4));
    if (remark)
        report_append(r, span, manifest_text(remark));
    report_append(r, json_object_get(r->last, "spans"), span);
}
