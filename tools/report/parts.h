// SPDX-License-Identifier: Apache-2.0
// Private to tools/report/:
//
//   report.c  head, text, tables
//   charts.c  charts
//   file.c    pictures, the file
//   page.html, report.css, report.js, charts.js   the page
#ifndef HEADRACE_TOOLS_REPORT_PARTS_H
#define HEADRACE_TOOLS_REPORT_PARTS_H

#include <jansson.h>

#include "report.h"

struct report {
    json_t *root, *facts, *items;
    json_t *last;        // the item that is being filled
    int num_columns;     // of the last table
    size_t image_bytes;  // of all pictures, as text
    bool failed;         // memory ran short
};

// Both take value over. A NULL of it, or of what it goes to, means that memory
// ran short.
void report_set(struct report *r, json_t *object, const char *key,
                json_t *value);
void report_append(struct report *r, json_t *array, json_t *value);
// An item at the end, also r->last; it is taken over. NULL as above.
void report_add(struct report *r, json_t *item);
// A member of the last item: its list of cells, of series, of pictures.
json_t *report_last(const struct report *r, const char *key);
const char *report_tone_name(enum report_tone tone);
json_t *report_number(double value);       // null if it is none
json_t *report_or_null(const char *text);  // null if it is NULL

// The page on both sides of the data, as the build put it together.
extern const char report_page_head[], report_page_tail[];
extern const int report_page_charts;  // 1: Chart.js is in it

#endif
