// SPDX-License-Identifier: Apache-2.0
// The report writer: its file is whole, small and closed against hostile text.
// report_test.sh opens in a browser what `test_report --sample FILE`
// writes.
#define _GNU_SOURCE  // memmem
#include <errno.h>
#include <math.h>

#include <CUnit/Basic.h>

#include "tools/report/parts.h"
#include "testing.h"

static char *command[] = {"headrace validate", "it's; <b>", "--report=x.html"};
static const char hostile[] = "</script><script>alert(\"1\")</script>"
                              "<!--\\u003c' & \x80\xff\xe2\x80\xa8.jpg";

static void add_tables(struct report *r)
{
    static const struct report_column columns[] = {
        {.title = "picture"},
        {.title = "differing",
         .number = true,
         .bars = true,
         .digits = 4,
         .unit = " %"},
        {.title = "img/s", .number = true, .auto_digits = true},
    };

    report_section(r, "Tables", "The first row has a hostile name.");
    report_table(r, "Rows", columns, 3);
    report_text_cell(r, "%s", hostile);
    report_number_cell(r, 12.5);
    report_number_cell(r, NAN);
    report_tone_row(r, REPORT_BAD);
    report_text_cell(r, "a/b.jpg");
    report_number_cell(r, 0.00001);
    report_number_cell(r, 1234.5678);
    report_text_cell(r, "c.jpg");
    report_number_cell(r, 0);
    report_number_cell(r, 0.0421);
}

static void add_charts(struct report *r)
{
    static const char *const labels[] = {"cpu, 1 thread", "cpu, 2 threads",
                                         "opencl", hostile};
    const double a[] = {1, 2, 3.5, 4}, b[] = {2, NAN, 1, 0}, x[] = {1, 2, 4, 8};
    const double many[] = {100000, 700, 1, 0};
    struct report_chart chart = {.title = "Bars",
                                 .text = "Two series.",
                                 .x_title = "backend",
                                 .y_title = "img/s",
                                 .labels = labels,
                                 .num_labels = 4};

    report_section(r, "Charts", NULL);
    for (int kind = REPORT_BARS; kind <= REPORT_HISTOGRAM; kind++) {
        chart.kind = (enum report_chart_kind)kind;
        chart.log_y = kind == REPORT_HISTOGRAM;
        report_chart(r, &chart);
        if (kind == REPORT_LINES) {
            report_points(r, "memory", x, a, 4);
            report_points(r, "planned", x, b, 4);
        } else if (kind == REPORT_HISTOGRAM) {
            report_series(r, "samples", many, 4);
        } else {
            report_series(r, "entropy", a, 4);
            report_series(r, "resample", b, 4);
        }
    }
}

// One series, whose bars belong to devices and have a range.
static void add_ranges(struct report *r)
{
    static const char *const labels[] = {"cpu, 1 thread", "cpu, 2 threads",
                                         "opencl, 1 thread"};
    static const int groups[] = {0, 0, 1};
    const double values[] = {1, .6, 2.4}, low[] = {.9, .58, 1.5},
                 high[] = {1.2, .6, 2.5};

    report_chart(r, &(struct report_chart){.kind = REPORT_ROWS,
                                           .title = "Ranges",
                                           .y_title = "times the first",
                                           .labels = labels,
                                           .num_labels = 3});
    report_series(r, "speed-up", values, 3);
    report_series_groups(r, groups, 3);
    report_series_range(r, low, high, 3);
}

// As many series as a device's stages have: each wants a colour of its own.
static void add_parts(struct report *r)
{
    static const char *const labels[] = {"cpu: host threads"};

    report_chart(r, &(struct report_chart){.kind = REPORT_ROWS,
                                           .title = "Parts",
                                           .y_title = "ms",
                                           .labels = labels,
                                           .num_labels = 1});
    for (int part = 0; part < HR_NUM_PARTS; part++)
        report_series(r, hr_part_name((enum hr_part)part),
                      &(const double){10 + part}, 1);
}

static void add_pictures(struct report *r)
{
    enum { W = 64, H = 48 };
    static uint8_t a[W * H * 3], b[W * H * 3];

    for (int i = 0; i < W * H * 3; i++) {
        a[i] = (uint8_t)(i / 3 % W * 4);
        b[i] = (uint8_t)(a[i] + (i % 7 == 0));
    }
    report_section(r, "Pictures", NULL);
    report_pictures(r, hostile, "One level off here and there.");
    report_picture(r, "cpu", a, W, H, 3);
    report_picture(r, "device", b, W, H, 3);
    report_difference(r, a, b, W, H, 3);
}

static struct report *sample(void)
{
    struct report *r = report_new("headrace report sample", 3, command);

    report_verdict(r, REPORT_BAD, "2 of 12 pictures differ: resample");
    report_verdict_text(r, "Of 12 pictures the device made 11.");
    report_fact(r, "device", "%s", hostile);
    report_figure(r, "pictures", "12", "11 on the device");
    report_figure(r, "differing samples", "0.0102 %", NULL);
    report_figure(r, "largest difference", "1 level", "of 255");
    report_note(r, REPORT_WARN, "The device made 1 of 2 pictures.");
    add_tables(r);
    add_charts(r);
    add_ranges(r);
    add_parts(r);
    add_pictures(r);
    return r;
}

static char *written(struct report *r, size_t *size)
{
    char path[] = "/tmp/test_report.XXXXXX", *text;
    int fd = mkstemp(path);
    long length;
    FILE *file;

    CU_ASSERT_FATAL(fd >= 0);
    close(fd);
    CU_ASSERT(report_write(r, path));
    CU_ASSERT_PTR_NOT_NULL_FATAL(file = fopen(path, "r"));
    fseek(file, 0, SEEK_END);
    length = ftell(file);
    rewind(file);
    text = malloc((size_t)length + 1);
    *size = fread(text, 1, (size_t)length, file);
    text[*size] = '\0';
    fclose(file);
    unlink(path);
    return text;
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

TEST_CASE(hostile_text)
{
    struct report *r = sample(), *plain = report_new("plain", 1, command);
    size_t size, plain_size;
    char *text = written(r, &size), *empty = written(plain, &plain_size);

    // Whatever the names are, the page has the tags of an empty one.
    CU_ASSERT_EQUAL(count(text, "</script"), count(empty, "</script"));
    CU_ASSERT_EQUAL(count(text, "<script"), count(empty, "<script"));
    CU_ASSERT_EQUAL(count(text, "<!--"), count(empty, "<!--"));
    CU_ASSERT_EQUAL(strlen(text), size);
    CU_ASSERT(strstr(text, "\\u003c/script\\u003e") != NULL);
    CU_ASSERT(strstr(text, "\\\\x80\\\\xff") != NULL);
    // Nothing is loaded.
    CU_ASSERT_EQUAL(count(text, "src=\"http"), 0);
    CU_ASSERT_EQUAL(count(text, "<link"), 1);
    CU_ASSERT(size < REPORT_MAX_BYTES);
    if (report_page_charts) {
        CU_ASSERT(strstr(text, "Permission is hereby granted") != NULL);
    } else {
        test_not_run("charts: built without Chart.js");
    }
    free(text);
    free(empty);
    report_free(&r);
    report_free(&plain);
    CU_ASSERT_PTR_NULL(r);
}

// Noise cannot be compressed; the file stays small all the same.
TEST_CASE(size_limit)
{
    struct report *r = report_new("large", 1, command);
    size_t size, num = 300 * 300 * 3;
    uint8_t *noise = malloc(num);
    uint32_t x = 1;
    char *text;

    for (size_t i = 0; i < num; i++)
        noise[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    report_pictures(r, "Noise", NULL);
    for (int i = 0; i < 20; i++)
        report_picture(r, "noise", noise, 300, 300, 3);
    text = written(r, &size);
    CU_ASSERT(size < REPORT_MAX_BYTES);
    CU_ASSERT(count(text, "data:image/png") < 20);
    CU_ASSERT(count(text, "data:image/png") >= 3);
    free(text);
    free(noise);
    report_free(&r);
}

// A picture is there to its last byte: a PNG ends in the same bytes, which as
// base64 are one of three texts, by what is left of the size by three. Browsers
// show it all the same without the last one.
TEST_CASE(pictures_to_their_end)
{
    static const char *const ends[] = {"SUVORK5CYII=\"", "ElFTkSuQmCC\"",
                                       "JRU5ErkJggg==\""};
    enum { MOST = 24 };
    struct report *r = report_new("ends", 1, command);
    uint8_t pixels[MOST * 3];
    size_t size, all = 0;
    char *text;

    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * i * 37);
    report_pictures(r, "Ends", NULL);
    for (int h = 1; h <= MOST; h++)
        report_picture(r, "picture", pixels, 1, h, 3);
    text = written(r, &size);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT(count(text, ends[i]) > 0);
        all += count(text, ends[i]);
    }
    CU_ASSERT_EQUAL(all, MOST);
    free(text);
    report_free(&r);
}

// The picture of a difference is by the largest of a pixel's channels,
// whichever that is.
TEST_CASE(difference_of_channels)
{
    static const uint8_t none[3],
        shown[4][3] = {{40, 0, 0}, {0, 40, 0}, {0, 0, 40}, {40, 20, 0}};
    static const char uri[] = "data:image/png;base64,";
    struct report *r = report_new("differences", 1, command);
    const char *pictures[5], *at;
    size_t size, length;
    char *text;

    report_pictures(r, "Channels", NULL);
    for (int i = 0; i < 4; i++)
        report_difference(r, i % 2 ? none : shown[i], i % 2 ? shown[i] : none,
                          1, 1, 3);
    report_difference(r, none, none, 1, 1, 3);
    at = text = written(r, &size);
    for (int i = 0; i < 5; i++) {
        pictures[i] = at = strstr(at, uri);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        at += sizeof(uri);
    }
    length = strcspn(pictures[0], "\"") + 1;
    for (int i = 1; i < 5; i++)
        CU_ASSERT((i < 4) == !strncmp(pictures[0], pictures[i], length));
    free(text);
    report_free(&r);
}

TEST_CASE(bad_paths)
{
    struct report *r = report_new("t", 1, command);

    CU_ASSERT(!report_write(r, "/nowhere/at/all.html"));
    CU_ASSERT_EQUAL(errno, ENOENT);
    CU_ASSERT(!report_writable("/nowhere/at/all.html"));
    CU_ASSERT_EQUAL(errno, ENOENT);
    CU_ASSERT(!report_writable("/tmp"));
    CU_ASSERT_EQUAL(errno, EISDIR);
    CU_ASSERT(report_writable("/tmp/test_report_writable.html"));
    CU_ASSERT(access("/tmp/test_report_writable.html", F_OK) < 0);
    CU_ASSERT(!report_write(NULL, "/tmp/test_report_writable.html"));
    CU_ASSERT_EQUAL(errno, ENOMEM);
    report_free(&r);
    report_free(&r);
    // All of it takes NULL: callers do not check in between.
    report_text_cell(NULL, "x");
    report_picture(NULL, "x", NULL, 1, 1, 1);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--sample")) {
        struct report *r;
        bool ok;

        r = sample();
        ok = report_write(r, argv[2]);
        report_free(&r);
        return ok ? 0 : 1;
    }
    return test_main(argc, argv);
}
