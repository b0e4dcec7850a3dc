// SPDX-License-Identifier: Apache-2.0
// headrace validate, in this process: its numbers against a plain count of the
// two results, and the engines that must have made them for a comparison to
// mean something.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_engine.h"
#include "tools/common/options.h"
#include "validate_run.h"

enum { SIDE = 48, NUMBERS = 3 * SIDE * SIDE, BINS = 10 };

#define PLAIN_OPS "decode,resize=64,center_crop=48"

static const char *const bins[BINS] = {"0",      "< 1",    "1",    "2",
                                       "3-4",    "5-8",    "9-16", "17-32",
                                       "33-128", "129-255"};

// ---- A plain count --------------------------------------------------------

struct counted {
    int samples, differing, max, bins[BINS];
    double sum, squares;
};

// Makes one picture on one device, in levels: [c][y][x].
static void levels_of(const char *device, const char *path, const char *text,
                      enum hr_dtype dtype, int levels[NUMBERS])
{
    static const float mean[] = {.485f, .456f, .406f},
                       std[] = {.229f, .224f, .225f};
    const bool normal = strstr(text, "normalize") != NULL;
    struct hr_image_params params = {
        .w = SIDE, .h = SIDE, .c = 3, .dtype = dtype, .layout = HR_NCHW};
    auto_device dev = hr_device_open(device, NULL);
    auto_image image = hr_image_create(dev, &params);
    struct ops_list ops;
    struct hr_sample sample = {.path = path, .out = image};
    auto_job job = NULL;

    CU_ASSERT_FATAL(!hr_ops_parse(text, ops.ops, &ops.num));
    sample.ops = ops.ops;
    sample.num_ops = ops.num;
    job = hr_submit(dev, &sample, 1, NULL, NULL);
    CU_ASSERT_EQUAL(hr_job_wait(job, HR_FOREVER), HR_OK);
    for (int i = 0; i < NUMBERS; i++) {
        int c = i / (SIDE * SIDE);
        const void *data = image->params.data;
        double v = dtype == HR_U8 ? ((const uint8_t *)data)[i]
                   : dtype == HR_F32
                       ? (double)((const float *)data)[i]
                       : hr_f16_value(((const uint16_t *)data)[i]);

        if (normal)
            v = v * (double)std[c] + (double)mean[c];
        levels[i] = (int)lround(normal ? 255 * v : v);
    }
}

static void count(const int *a, const int *b, struct counted *n)
{
    static const int upto[BINS] = {0, 0, 1, 2, 4, 8, 16, 32, 128, 255};

    for (int i = 0; i < NUMBERS; i++) {
        int d = abs(a[i] - b[i]), bin = 0;

        while (d > upto[bin])
            bin++;
        n->samples++;
        n->differing += d > 0;
        n->max = d > n->max ? d : n->max;
        n->sum += d;
        n->squares += d * d;
        n->bins[bin]++;
    }
}

// ---- What validate says ---------------------------------------------------

static void near(json_t *json, const char *key, double right, const char *what)
{
    double is = json_number_value(json_object_get(json, key));

    CHECK(fabs(is - right) <= 1e-7 * fabs(right), "%s: %s is %.9g, not %.9g",
          what, key, is, right);
}

static void same_numbers(json_t *json, const struct counted *n,
                         const char *what)
{
    CHECK(json_is_object(json), "%s: nothing", what);
    CHECK(number_at(json, "samples") == n->samples, "%s: samples", what);
    CHECK(number_at(json, "differing") == n->differing, "%s: differing", what);
    near(json, "percent", 100.0 * n->differing / n->samples, what);
    near(json, "mean", n->sum / n->samples, what);
    near(json, "psnr", 10 * log10(255.0 * 255 * n->samples / n->squares), what);
    // Whole levels are said as such.
    CHECK(json_number_value(json_object_get(json, "max")) == n->max,
          "%s: max is %.9g, not %d", what,
          json_number_value(json_object_get(json, "max")), n->max);
}

static json_t *json_of(const char *ops, const char *dtype, int code)
{
    struct validate_ran r = validate_run((const char *const[]){
        validate_in, "--backend", "fake", "--tier", "exact", "--ops", ops,
        "--dtype", dtype, "--json", "--report", validate_report, NULL});
    json_t *json = json_loads(r.out, 0, NULL);

    CHECK(r.code == code && json, "exit %d, not %d: %s%.300s", r.code, code,
          r.err, r.out);
    validate_done(&r);
    return json;
}

static json_t *end_of(json_t *json)
{
    return json_object_get(json_object_get(json, "stages"), "end_to_end");
}

static void by_kind(json_t *json, const struct counted *gray,
                    const struct counted *rest)
{
    json_t *kinds = json_object_get(json, "kinds"), *kind;
    size_t i;

    CU_ASSERT_EQUAL(json_array_size(kinds), 2);
    json_array_foreach(kinds, i, kind)
        same_numbers(json_object_get(kind, "end_to_end"),
                     strstr(text_at(kind, "kind"), "gray") ? gray : rest,
                     text_at(kind, "kind"));
}

static void against_a_count(const char *ops, enum hr_dtype dtype)
{
    static int a[NUMBERS], b[NUMBERS];
    struct counted all = {0}, gray = {0}, rest = {0};
    json_t *json, *histogram;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .fault = FAKE_FAULT_SPREAD});
    json = json_of(ops, hr_dtype_name(dtype), 1);
    for (int i = 0; i < VALIDATE_PICTURES; i++) {
        json_t *p = picture_at(json, i);
        char path[300];
        struct counted one = {0};

        validate_path(i, path);
        levels_of("cpu", path, ops, dtype, a);
        levels_of("fake", path, ops, dtype, b);
        count(a, b, &one);
        CHECK(one.max >= 100 && one.differing < one.samples, "the fault");
        same_numbers(end_of(p), &one, text_at(p, "path"));
        count(a, b, &all);
        count(a, b, strstr(text_at(p, "kind"), "gray") ? &gray : &rest);
    }
    same_numbers(end_of(json), &all, "all");
    by_kind(json, &gray, &rest);
    histogram = json_object_get(json, "histogram");
    CU_ASSERT_EQUAL(json_object_size(histogram), BINS);
    for (int i = 0; i < BINS; i++)
        CHECK(number_at(histogram, bins[i]) == all.bins[i],
              "%d samples at '%s', not %d", (int)number_at(histogram, bins[i]),
              bins[i], all.bins[i]);
    json_decref(json);
}

TEST_CASE(numbers_f32)
{
    against_a_count(PLAIN_OPS ",normalize=imagenet", HR_F32);
}

TEST_CASE(numbers_f16)
{
    against_a_count(PLAIN_OPS ",normalize=imagenet", HR_F16);
}

TEST_CASE(numbers_u8)
{
    against_a_count(PLAIN_OPS, HR_U8);
}

// ---- The page -------------------------------------------------------------

// The data of the page.
static json_t *page_data(void)
{
    static char page[1 << 20];
    FILE *file = fopen(validate_report, "r");
    size_t size = file ? fread(page, 1, sizeof(page) - 1, file) : 0;
    const char *data;

    page[size] = '\0';
    if (file)
        fclose(file);
    data = strstr(page, "type=\"application/json\"");
    data = data ? strchr(data, '{') : NULL;
    return data ? json_loads(data, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

// At the end the narrowest pictures are off by most; cut after color the widest
// ones are, by more. The page shows the worst at the end, in that order.
TEST_CASE(worst_at_the_end)
{
    json_t *page, *items, *json;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .fault = FAKE_FAULT_RANKS});
    json = json_of(PLAIN_OPS, "f32", 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(page = page_data());
    items = json_object_get(page, "worst");
    for (int i = 0; i < 5; i++) {
        json_t *row = json_array_get(items, (size_t)i);
        char levels[64], name[64], path[300];

        CHECK(!row == (i == 4), "picture %d of the worst", i);
        if (!row)
            break;
        validate_path(i, path);
        snprintf(name, sizeof(name), "/%.2s", strrchr(path, '/') + 1);
        snprintf(levels, sizeof(levels), " by %d levels at most", 8 - i);
        CHECK(strstr(text_at(row, "title"), name) != NULL, "%d: %s, not %s", i,
              text_at(row, "title"), name);
        CHECK(strstr(text_at(row, "text"), levels) != NULL, "%d: %s, not %s", i,
              text_at(row, "text"), levels);
    }
    json_decref(page);
    json_decref(json);
}

// The PNGs of the worst pictures of a run, as the page has them.
static json_t *shown(const char *ops, const char *dtype)
{
    json_t *page, *list = json_array(), *row;
    size_t i;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .fault = FAKE_FAULT_RANKS});
    json_decref(json_of(ops, dtype, 1));
    CU_ASSERT_PTR_NOT_NULL_FATAL(page = page_data());
    json_array_foreach(json_object_get(page, "worst"), i, row)
        json_array_append(list, json_object_get(row, "list"));
    json_decref(page);
    return list;
}

// Whatever numbers a tensor has: the page shows the picture, in its colours.
TEST_CASE(pictures_show_levels)
{
    json_t *levels = shown(PLAIN_OPS, "u8");
    static const char *const types[] = {"f32", "f16"};

    CU_ASSERT_EQUAL(json_array_size(levels), 4);
    for (int t = 0; t < 2; t++) {
        json_t *numbers = shown(PLAIN_OPS ",normalize=imagenet", types[t]);

        for (size_t i = 0; i < 4; i++) {
            json_t *a = json_array_get(levels, i);
            json_t *b = json_array_get(numbers, i);
            const char *is = text_at(json_array_get(b, 0), "src");

            CHECK(!strncmp(is, "data:image/png", 14) &&
                      !strcmp(is, text_at(json_array_get(a, 0), "src")),
                  "%s, picture %zu: other colours", types[t], i);
        }
        json_decref(numbers);
    }
    json_decref(levels);
}

// ---- The engines that made them -------------------------------------------

static json_int_t made_by(json_t *json, const char *engine, const char *span)
{
    json_t *e = json_object_get(json_object_get(json, "engines"), engine);

    return span ? number_at(json_object_get(e, "spans"), span)
                : number_at(e, "pictures");
}

// Says nothing of the device: exit code 2, null, and the page has the same.
static void expect_silence(const char *words)
{
    json_t *json = json_of(PLAIN_OPS, "f32", 2), *page = page_data();
    json_t *results = json_object_get(page, "results");

    CHECK(strstr(text_at(json, "verdict"), words) != NULL, "'%s' is not in: %s",
          words, text_at(json, "verdict"));
    CHECK(!strncmp(text_at(json, "verdict"), "nothing shown: ", 15), "%s",
          text_at(json, "verdict"));
    CU_ASSERT(json_is_null(json_object_get(json, "within")));
    CU_ASSERT(json_is_null(json_object_get(results, "within")));
    CU_ASSERT(json_is_true(json_object_get(page, "silent")));
    CU_ASSERT_STRING_EQUAL(text_at(results, "verdict"),
                           text_at(json, "verdict"));
    CHECK(strstr(text_at(json, "verdict"), "; what others made is exact"), "%s",
          text_at(json, "verdict"));
    json_decref(page);
    json_decref(json);
}

TEST_CASE(counted_by_engine)
{
    json_t *json;

    fake_reset_spans(FAKE_D | FAKE_RS);
    json = json_of(PLAIN_OPS, "f32", 0);
    CU_ASSERT_EQUAL(made_by(json, "fake:0", NULL), VALIDATE_PICTURES);
    CU_ASSERT_EQUAL(made_by(json, "fake:0", "entropy..color"),
                    VALIDATE_PICTURES);
    CU_ASSERT_EQUAL(made_by(json, "fake:0", "resample..store"),
                    VALIDATE_PICTURES);
    CU_ASSERT_EQUAL(made_by(json, "fake:0", "entropy..store"), 0);
    CU_ASSERT_EQUAL(number_at(json, "handed_on"), 0);
    CHECK(strstr(text_at(json, "verdict"),
                 "6 pictures; made by fake:0 entropy..color of 6, "
                 "resample..store of 6") != NULL &&
              !strstr(text_at(json, "verdict"), "handed"),
          "%s", text_at(json, "verdict"));
    json_decref(json);
}

// The second engine has nothing to do, for the first does it all; that is no
// silence. If the first hands everything on, it is.
TEST_CASE(several_engines)
{
    hr_device dev = hr_device_open("opencl:pocl", NULL);

    if (!dev) {
        test_no_device();
        return;
    }
    hr_device_close(&dev);
    for (int fails = 0; fails < 2; fails++) {
        struct validate_ran r;

        fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                         .fail_from = fails});
        r = VALIDATE_RUN(validate_in, "--backend", "fake+opencl:pocl");
        CHECK(r.code == (fails ? 2 : 0) &&
                  !strstr(r.out, "fake:0 made none of 6 pictures") == !fails,
              "exit %d: %s%s", r.code, r.err, r.out);
        validate_done(&r);
    }
}

// It offers nothing, it fails, its certificate refuses all, or only a part.
TEST_CASE(silent_devices)
{
    fake_reset_spans(0);
    expect_silence("fake:0 made none of 6 pictures");
    fake_reset(
        &(struct fake_script){.spans = FAKE_ALL(FAKE_DRS), .fail_from = 1});
    expect_silence("fake:0 made none of 6 pictures (");
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .fault = FAKE_FAULT_CHROMA,
                                     .tested = true});
    expect_silence("fake:0 made none of 6 pictures (6 its pictures differed "
                   "when it was tested)");
    // Decoding is refused; the rest, which is right, goes on.
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_D | FAKE_RS),
                                     .fault = FAKE_FAULT_CHROMA,
                                     .tested = true});
    expect_silence("fake:0 was kept from a part of its work in each of 6 "
                   "pictures (6 its pictures differed when it was tested)");
}

// A picture handed on for its own size is no silence, and is reported.
TEST_CASE(partly)
{
    json_t *json;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .fail_from = 2,
                                     .fail_to = 3,
                                     .fail_why = HR_WHY_SIZE});
    json = json_of(PLAIN_OPS, "f32", 0);
    CU_ASSERT_EQUAL(number_at(json, "handed_on"), 2);
    CU_ASSERT_EQUAL(made_by(json, "fake:0", "entropy..store"), 4);
    CHECK(strstr(text_at(json, "verdict"),
                 "; 2 handed to the next engine: 2 picture size") != NULL,
          "%s", text_at(json, "verdict"));
    CU_ASSERT(json_is_true(json_object_get(json, "within")));
    json_decref(json);
}

int main(int argc, char **argv)
{
    validate_init();
    return test_main(argc, argv);
}
