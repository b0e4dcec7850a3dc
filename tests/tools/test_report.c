// SPDX-License-Identifier: Apache-2.0
// The report writer: its file is whole, small and closed against hostile text.
// report_test.sh opens in a browser what `test_report --sample FILE`
// writes.
#define _GNU_SOURCE  // memmem
#include <errno.h>

#include <CUnit/Basic.h>

#include "tools/common/manifest.h"
#include "tools/report/report.h"
#include "testing.h"

// 1: Chart.js is in the page.
extern const int report_page_charts;

static char *command[] = {"headrace validate", "it's; <b>", "--report=x.html"};
static const char hostile[] = "</script><script>alert(\"1\")</script>"
                              "<!--\\u003c' & \x80\xff\xe2\x80\xa8.jpg";

// Every kind of item; a name may be the hostile one.
#define JSON(...) #__VA_ARGS__
static const char drawn[] = JSON([
    {"is" : "figure", "name" : "pictures", "value" : "12", "note" : "11"},
    {"is" : "figure", "name" : "differing samples", "value" : "0.0102 %"},
    {"is" : "text", "tone" : "warn", "text" : "The device made 1 of 2."},
    {"is" : "section", "title" : "Tables", "text" : "A hostile name."}, {
        "is" : "table",
        "caption" : "Rows",
        "columns" : [
            {"title" : "picture"}, {
                "title" : "differing",
                "number" : true,
                "bars" : true,
                "digits" : 4,
                "unit" : " %"
            },
            {"title" : "img/s", "number" : true}
        ],
        "cells" : [
            "HOSTILE", 12.5, null, "a/b.jpg", 0.00001, 1234.5678, "c.jpg", 0,
            0.0421
        ],
        "tones" : {"0" : "bad"}
    },
    {"is" : "section", "title" : "Charts"}
]);
// Bars belong to devices and have a range.
static const char ranges[] = JSON({
    "is" : "chart",
    "kind" : "rows",
    "title" : "Ranges",
    "y" : "times the first",
    "labels" : [ "cpu, 1 thread", "cpu, 2 threads", "opencl, 1 thread" ],
    "series" : [ {
        "name" : "speed-up",
        "values" : [ 1, 0.6, 2.4 ],
        "groups" : [ 0, 0, 1 ],
        "low" : [ 0.9, 0.58, 1.5 ],
        "high" : [ 1.2, 0.6, 2.5 ]
    } ]
});
static const char lines[] = JSON([
    {"name" : "memory", "points" : [ [ 1, 1 ], [ 2, 2 ], [ 4, 3.5 ] ]},
    {"name" : "planned", "points" : [ [ 1, 2 ], [ 2, null ], [ 4, 1 ] ]}
]);
static const char bars[] = JSON([
    {"name" : "entropy", "values" : [ 1, 2, 3.5, 4 ]},
    {"name" : "resample", "values" : [ 2, null, 1, 0 ]}
]);
static const char steps[] = JSON(
    [ {"name" : "samples", "values" : [ 100000, 700, 1, 0 ]} ]);

static json_t *json_of(const char *text)
{
    return json_loads(text, 0, NULL);
}

static json_t *chart(const char *kind)
{
    bool histogram = !strcmp(kind, "histogram");

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:[s, s, s, o], s:o}",
                     "is", "chart", "kind", kind, "title", "Bars", "text",
                     "Two series.", "x", "backend", "y", "img/s", "log",
                     histogram, "labels", "cpu, 1 thread", "cpu, 2 threads",
                     "opencl", manifest_text(hostile), "series",
                     json_of(histogram               ? steps
                             : strcmp(kind, "lines") ? bars
                                                     : lines));
}

// As many series as a device's stages have: each wants a colour of its own.
static json_t *parts(void)
{
    json_t *series = json_array();

    for (int part = 0; part < HR_NUM_PARTS; part++)
        json_array_append_new(series,
                              json_pack("{s:s, s:[i]}", "name",
                                        hr_part_name((enum hr_part)part),
                                        "values", 10 + part));
    return json_pack("{s:s, s:s, s:s, s:s, s:[s], s:o}", "is", "chart", "kind",
                     "rows", "title", "Parts", "y", "ms", "labels",
                     "cpu: host threads", "series", series);
}

static json_t *pictures(struct report *r)
{
    enum { W = 64, H = 48 };
    static uint8_t a[W * H * 3], b[W * H * 3];

    for (int i = 0; i < W * H * 3; i++) {
        a[i] = (uint8_t)(i / 3 % W * 4);
        b[i] = (uint8_t)(a[i] + (i % 7 == 0));
    }
    return json_pack("{s:s, s:o, s:s, s:[o, o, o]}", "is", "pictures", "title",
                     manifest_text(hostile), "text", "One level off.", "list",
                     report_picture(r, "cpu", a, W, H, 3),
                     report_picture(r, "device", b, W, H, 3),
                     report_difference(r, a, b, W, H, 3));
}

static struct report *sample(void)
{
    static const char *const kinds[] = {"bars", "stacked", "rows", "lines",
                                        "histogram"};
    struct report *r = report_new("headrace report sample", 3, command);
    json_t *items = json_of(drawn);

    json_array_set_new(json_object_get(json_array_get(items, 4), "cells"), 0,
                       manifest_text(hostile));
    for (int i = 0; i < 5; i++)
        json_array_append_new(items, chart(kinds[i]));
    json_array_append_new(items, json_of(ranges));
    json_array_append_new(items, parts());
    json_array_append_new(items, pictures(r));
    report_set(r, "verdict",
               json_pack("{s:s, s:s, s:s}", "tone", "bad", "text",
                         "2 of 12 pictures differ: resample", "more",
                         "Of 12 pictures the device made 11."));
    report_fact(r, "device", "%s", hostile);
    report_set(r, "items", items);
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
    json_t *list = json_array();
    uint32_t x = 1;
    char *text;

    for (size_t i = 0; i < num; i++)
        noise[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    for (int i = 0; i < 20; i++)
        json_array_append_new(list,
                              report_picture(r, "noise", noise, 300, 300, 3));
    report_set(r, "list", list);
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
    json_t *list = json_array();
    size_t size, all = 0;
    char *text;

    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * i * 37);
    for (int h = 1; h <= MOST; h++)
        json_array_append_new(list,
                              report_picture(r, "picture", pixels, 1, h, 3));
    report_set(r, "list", list);
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
    struct report *r = report_new("differences", 1, command);
    json_t *first = report_difference(r, none, shown[0], 1, 1, 3);

    for (int i = 0; i < 5; i++) {
        const uint8_t *a = i < 4 ? shown[i] : none;
        json_t *other = report_difference(r, i % 2 ? none : a, i % 2 ? a : none,
                                          1, 1, 3);

        CU_ASSERT_EQUAL(json_equal(json_object_get(first, "src"),
                                   json_object_get(other, "src")),
                        i < 4);
        json_decref(other);
    }
    json_decref(first);
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
    report_set(NULL, "x", json_true());
    report_fact(NULL, "x", "y");
    CU_ASSERT_PTR_NULL(report_picture(NULL, "x", NULL, 1, 1, 1));
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
