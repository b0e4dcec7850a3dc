// SPDX-License-Identifier: Apache-2.0
// A report: one HTML file with everything in it, for people. It opens without
// a network, in light and dark, on a telephone and on paper.
//
//   struct report *r = report_new("headrace validate", argc, argv);
//   report_fact(r, "device", "%s", dev->description);
//   report_set(r, "results", the_tool_s_json);
//   if (!report_write(r, path)) ...;    // errno
//   report_free(&r);
//
// C writes only the data of the page. The tool's page.js makes figures, tables
// and charts of it: the items of report.js. Data that brings its own "items",
// as python/headrace/_html.py writes it, is drawn directly.
//
// All but report_new() take NULL. Memory that runs short is noticed by
// report_write() only: ENOMEM. Text may be any bytes: names of files are
// hostile input, in the page they are text and nothing else.
//
// Charts are drawn by Chart.js, which the build takes from the system
// (Debian: libjs-chart.js) and puts into the file with its licence. A build
// without it makes reports that show a table in place of each chart.
//
// Threads: one report belongs to one thread.
#ifndef HEADRACE_TOOLS_REPORT_H
#define HEADRACE_TOOLS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <headrace/headrace.h>

struct report;

enum { REPORT_MAX_BYTES = 2000000 };  // of a file

// Title, date, the command line (argv[0] is shown as it is), versions of
// headrace, libjpeg-turbo and libpng, the reference. NULL if memory is short.
struct report *report_new(const char *title, int argc, char *const *argv);
void report_free(struct report **report);  // NULL is fine

// A line of the head: device, driver, library. In order of the calls.
void report_fact(struct report *r, const char *name, const char *format, ...)
    HR_PRINTF(3, 4);
// A member of the page's data. The value is taken over; NULL: memory is short.
void report_set(struct report *r, const char *key, json_t *value);

// A picture of the page: 8 bits, c = 1 or 3 interleaved channels, packed rows
// of w * c. When the file would grow over its limit, a line says that the
// picture was left out.
json_t *report_picture(struct report *r, const char *caption,
                       const uint8_t *pixels, int w, int h, int c);
// The difference of two pictures of one size, from black over red to white,
// amplified so that the largest difference is white.
json_t *report_difference(struct report *r, const uint8_t *a, const uint8_t *b,
                          int w, int h, int c);

// Writes the file under its name only when it is whole. False with errno.
bool report_write(struct report *r, const char *path);
// Says whether path can be written, before hours of work; leaves nothing
// behind. A picture is not written over. False with errno.
bool report_writable(const char *path);

#endif
