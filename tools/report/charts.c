// SPDX-License-Identifier: Apache-2.0
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
