// SPDX-License-Identifier: Apache-2.0
// A report: one HTML file with everything in it, for people. It opens without
// a network, in light and dark, on a telephone and on paper.
//
//   struct report *r = report_new("headrace validate", argc, argv);
//   report_verdict(r, REPORT_GOOD, "exact: 0 of 1806336 samples differ");
//   report_fact(r, "device", "%s", dev->description);
//   report_figure(r, "pictures", "12", "11 on the device");
//   report_section(r, "By stage", "Where a difference begins.");
//   report_table(r, "Stages", columns, 3);
//   report_text_cell(r, "resample"); report_number_cell(r, 0); ...
//   report_chart(r, &(struct report_chart){.kind = REPORT_BARS, ...});
//   report_series(r, "cpu", values, n);
//   if (!report_write(r, path)) ...;    // errno
//   report_free(&r);
//
// Everything goes to the end of what is there: cells to the last table, series
// to the last chart, pictures to the last row of pictures. All but report_new()
// take NULL. Memory that runs short is noticed by report_write() only: ENOMEM.
// Text may be any bytes: names of files are hostile input, in the page they are
// text and nothing else.
//
// Charts are drawn by Chart.js, which the build takes from the system
// (Debian: libjs-chart.js) and puts into the file with its licence. A build
// without it makes reports that show a table in place of each chart.
//
// How a script knows that a page came up whole: <html data-selfcheck="ok">;
// any other value says what went wrong. A chart is whole if each value has an
// element, at its place on the axes and in the colour of its series.
// data-charts, data-tables and data-images count the drawn ones, data-width is
// the page's width.
//
// Threads: one report belongs to one thread.
#ifndef HEADRACE_TOOLS_REPORT_H
#define HEADRACE_TOOLS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/headrace.h>

struct report;

enum { REPORT_MAX_BYTES = 2000000 };  // of a file

enum report_tone { REPORT_PLAIN, REPORT_GOOD, REPORT_WARN, REPORT_BAD };

// Title, date, the command line (argv[0] is shown as it is), versions of
// headrace, libjpeg-turbo and libpng, the reference. NULL if memory is short.
struct report *report_new(const char *title, int argc, char *const *argv);
void report_free(struct report **report);  // NULL is fine

// The one sentence at the top; the last call counts.
void report_verdict(struct report *r, enum report_tone tone,
                    const char *sentence);
// The text below it, in plain type; after report_verdict().
void report_verdict_text(struct report *r, const char *text);
// A line of the head: device, driver, library. In order of the calls.
void report_fact(struct report *r, const char *name, const char *format, ...)
    HR_PRINTF(3, 4);
// The certificate of a device, if it has one, as a section with a table.
void report_device(struct report *r, hr_device dev);

// A large number with a word and, if note is not NULL, a remark. Figures in a
// row stand side by side.
void report_figure(struct report *r, const char *name, const char *value,
                   const char *note);

// Begins a section; text may be NULL.
void report_section(struct report *r, const char *title, const char *text);
void report_text(struct report *r, const char *format, ...) HR_PRINTF(2, 3);
// The same, marked: advice, a warning.
void report_note(struct report *r, enum report_tone tone, const char *format,
                 ...) HR_PRINTF(3, 4);

// ---- Tables ----------------------------------------------------------------

// A click on a head sorts. Numbers stand right, with digits behind the point
// (or fewer, if auto_digits: three that count); bars = with a bar in the cell,
// as long as the number in its column.
struct report_column {
    const char *title;
    bool number, bars, auto_digits;
    int digits;
    const char *unit;  // behind each number; NULL = none
};
// columns are copied. Cells then fill it row by row.
void report_table(struct report *r, const char *caption,
                  const struct report_column *columns, int num);
void report_text_cell(struct report *r, const char *format, ...)
    HR_PRINTF(2, 3);
void report_number_cell(struct report *r, double value);  // NAN: a dash
// Colours the row of the last cell.
void report_tone_row(struct report *r, enum report_tone tone);

// ---- Charts ----------------------------------------------------------------

enum report_chart_kind {
    REPORT_BARS,       // groups side by side, one per series
    REPORT_STACKED,    // series on top of each other
    REPORT_ROWS,       // stacked bars that lie: long labels
    REPORT_LINES,      // points (x, y) per series
    REPORT_HISTOGRAM,  // one series, bars that touch
};

struct report_chart {
    enum report_chart_kind kind;
    const char *title;              // also what a screen reader says
    const char *text;               // what to see in it, or NULL
    const char *x_title, *y_title;  // with the unit
    bool log_y;                     // for values > 0; 0 is drawn as nothing
    const char *const *labels;      // of the bars; copied
    int num_labels;
};
void report_chart(struct report *r, const struct report_chart *chart);
// One value per label. NAN: a gap.
void report_series(struct report *r, const char *name, const double *values,
                   int num);
// Gives the last series the colour of a tone, where it means one.
void report_series_tone(struct report *r, enum report_tone tone);
// Colours the bars of the last series by what they belong to: group n has the
// colour of series n of other charts. One group per value.
void report_series_groups(struct report *r, const int *groups, int num);
// Marks the range of each value of the last series: bars get a line from low to
// high.
void report_series_range(struct report *r, const double *low,
                         const double *high, int num);
// For REPORT_LINES.
void report_points(struct report *r, const char *name, const double *x,
                   const double *y, int num);

// ---- Pictures --------------------------------------------------------------

// A row of pictures that belong together: two sides and their difference.
void report_pictures(struct report *r, const char *title, const char *text);
// 8 bits, c = 1 or 3 interleaved channels, packed rows of w * c. When the file
// would grow over its limit, a line says that the picture was left out.
void report_picture(struct report *r, const char *caption,
                    const uint8_t *pixels, int w, int h, int c);
// Draws the difference of two pictures of one size, from black over red to
// white, amplified so that the largest difference is white.
void report_difference(struct report *r, const uint8_t *a, const uint8_t *b,
                       int w, int h, int c);

// ---- The file --------------------------------------------------------------

// Writes the file under its name only when it is whole. False with errno.
bool report_write(struct report *r, const char *path);
// Says whether path can be written, before hours of work; leaves nothing
// behind. A picture is not written over. False with errno.
bool report_writable(const char *path);

#endif
