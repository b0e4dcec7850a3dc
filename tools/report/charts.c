// SPDX-License-Identifier: Apache-2.0
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
    json_t *labels = json_array();

    for (int i = 0; i < chart->num_labels; i++)
        report_append(r, labels, manifest_text(chart->labels[i]));
    report_add(r, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:[]}",
                            "is", "chart", "kind", kind_name(chart->kind),
                            "title", manifest_text(chart->title), "text",
                            report_or_null(chart->text), "x",
                            report_or_null(chart->x_title), "y",
                            report_or_null(chart->y_title), "log", chart->log_y,
                            "labels", labels, "series"));
}

static void add_series(struct report *r, const char *name, const char *key,
                       json_t *values)
{
    report_append(r, report_last(r, "series"),
                  json_pack("{s:o, s:o}", "name", manifest_text(name), key,
                            values));
}

static json_t *numbers(struct report *r, const double *values, int num)
{
    json_t *list = json_array();

    for (int i = 0; i < num; i++)
        report_append(r, list, report_number(values[i]));
    return list;
}

void report_series(struct report *r, const char *name, const double *values,
                   int num)
{
    add_series(r, name, "values", numbers(r, values, num));
}

static json_t *last_series(struct report *r)
{
    json_t *list = report_last(r, "series");

    return json_array_get(list, json_array_size(list) - 1);
}

void report_series_tone(struct report *r, enum report_tone tone)
{
    report_set(r, last_series(r), "tone", json_string(report_tone_name(tone)));
}

void report_series_groups(struct report *r, const int *groups, int num)
{
    json_t *list = json_array();

    for (int i = 0; i < num; i++)
        report_append(r, list, json_integer(groups[i]));
    report_set(r, last_series(r), "groups", list);
}

void report_series_range(struct report *r, const double *low,
                         const double *high, int num)
{
    report_set(r, last_series(r), "low", numbers(r, low, num));
    report_set(r, last_series(r), "high", numbers(r, high, num));
}

void report_points(struct report *r, const char *name, const double *x,
                   const double *y, int num)
{
    json_t *list = json_array();

    for (int i = 0; i < num; i++)
        report_append(r, list,
                      json_pack("[o, o]", report_number(x[i]),
                                report_number(y[i])));
    add_series(r, name, "points", list);
}
