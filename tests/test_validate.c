// SPDX-License-Identifier: Apache-2.0
// headrace validate, in this process, on engines that are wrong on purpose:
// the verdict must name the stage and the pictures.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "fake_engine.h"
#include "report.h"
#include "testing.h"
#include "tools.h"

enum { PICTURES = 6, ODD_ONE = 3, MAX_WORDS = 16 };

static char folder[64], report[96];
static const char *const names[PICTURES] = {
    "a.jpg", "b<script>&.jpg", "c.jpg", "d'\xff.jpg", "e.jpg", "grey.jpg",
};

// All equal in shape behind the ops; picture number ODD_ONE is known by its
// width.
static int width_of(int i)
{
    return 120 + 10 * i;
}

static void remove_folder(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    if (system(command))
        fprintf(stderr, "%s is left behind\n", folder);
}

static void put(const char *name, const struct bytes *b)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/in/%s", folder, name);
    file = fopen(path, "w");
    if (!file || fwrite(b->data, 1, b->size, file) != b->size || fclose(file))
        abort();
}

static void make_folder(void)
{
    uint64_t seed = 5;
    char path[128];

    strcpy(folder, "/tmp/test_validate.XXXXXX");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    snprintf(report, sizeof(report), "%s/report.html", folder);
    snprintf(path, sizeof(path), "%s/in", folder);
    mkdir(path, 0700);
    for (int i = 0; i < PICTURES; i++) {
        struct jpeg_spec spec = {.w = width_of(i),
                                 .h = 90,
                                 .quality = 90,
                                 .space = JCS_YCbCr,
                                 .factors = {0x22}};
        struct bytes b;

        if (i == PICTURES - 1)
            spec = (struct jpeg_spec){.w = width_of(i),
                                      .h = 90,
                                      .quality = 90,
                                      .space = JCS_GRAYSCALE};
        b = test_jpeg_of(&spec, &seed);
        put(names[i], &b);
        free(b.data);
    }
}

// ---- Running it ------------------------------------------------------------

struct ran {
    int code;
    char *out, *err;
};

static char *take(FILE *file)
{
    long size = ftell(file);
    char *text = calloc(1, (size_t)size + 1);

    rewind(file);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size)
        abort();
    fclose(file);
    return text;
}

// Swaps stdout and stderr for files while the command runs.
static struct ran run(const char *const *words)
{
    char *argv[MAX_WORDS + 2] = {(char *)"headrace validate"};
    int argc = 1, old[2] = {dup(1), dup(2)};
    FILE *out = tmpfile(), *err = tmpfile();
    struct ran r;

    while (words[argc - 1]) {
        argv[argc] = (char *)words[argc - 1];
        argc++;
    }
    fflush(NULL);
    dup2(fileno(out), 1);
    dup2(fileno(err), 2);
    r.code = cmd_validate(argc, argv);
    fflush(NULL);
    dup2(old[0], 1);
    dup2(old[1], 2);
    close(old[0]);
    close(old[1]);
    fseek(out, 0, SEEK_END);
    fseek(err, 0, SEEK_END);
    r.out = take(out);
    r.err = take(err);
    return r;
}

static void done(struct ran *r)
{
    free(r->out);
    free(r->err);
}

#define RUN(...)                         \
    run((const char *const[]){           \
        __VA_ARGS__, "--quiet", "--ops", \
        "decode,resize=64,center_crop=48,normalize=imagenet", NULL})

static char *input(void)
{
    static char path[96];

    snprintf(path, sizeof(path), "%s/in", folder);
    return path;
}

// The --json of a run on the fake engine; NULL: none. Compared with exit.
static json_t *json_of(const char *tier, int code)
{
    struct ran r = RUN(input(), "--backend", "fake", "--tier", tier, "--json",
                       "--report", report);
    json_error_t error;
    json_t *json = json_loads(r.out, 0, &error);

    CHECK(r.code == code, "exit %d, not %d: %s", r.code, code, r.err);
    CHECK(json != NULL, "no JSON: %s in %.200s", error.text, r.out);
    CHECK(access(report, F_OK) == 0, "no report");
    done(&r);
    return json;
}

static const char *text_at(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

static json_int_t number_at(json_t *json, const char *key)
{
    return json_integer_value(json_object_get(json, key));
}

static json_t *picture_at(json_t *json, int i)
{
    return json_array_get(json_object_get(json, "pictures"), (size_t)i);
}

// ---- Right -----------------------------------------------------------------

static void exact_engine(void)
{
    static const uint32_t spans[] = {FAKE_DRS, FAKE_D, FAKE_RS, FAKE_S,
                                     FAKE_D | FAKE_R | FAKE_S};

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        json_t *json, *end;

        fake_reset_spans(spans[i]);
        json = json_of("exact", 0);
        end = json_object_get(json_object_get(json, "stages"), "end_to_end");
        CU_ASSERT_EQUAL(number_at(json, "checked"), PICTURES);
        CU_ASSERT_EQUAL(number_at(json, "by_device"), PICTURES);
        CU_ASSERT_EQUAL(number_at(end, "differing"), 0);
        CU_ASSERT_EQUAL(number_at(end, "samples"), PICTURES * 3 * 48 * 48);
        CU_ASSERT(!strncmp(text_at(json, "verdict"), "exact: 0 of ", 12));
        CU_ASSERT(json_is_true(json_object_get(json, "within")));
        json_decref(json);
    }
}

// ---- Wrong -----------------------------------------------------------------

static void expect_stage(const char *stage, uint32_t spans,
                         enum fake_fault fault, int least)
{
    json_t *json, *begins;

    fake_reset(
        &(struct fake_script){.spans = {spans, spans, spans}, .fault = fault});
    json = json_of("exact", 1);
    begins = json_object_get(json, "begins");
    CHECK(number_at(begins, stage) >= least && json_object_size(begins) == 1,
          "fault %d, spans %x: %s, expected %s", fault, spans,
          text_at(json, "verdict"), stage);
    CHECK(strstr(text_at(json, "verdict"), stage) != NULL, "not in: %s",
          text_at(json, "verdict"));
    for (int i = 0; i < least; i++) {
        json_t *p = picture_at(json, i);

        CHECK(!strcmp(text_at(p, "begins"), stage), "%s: %s",
              text_at(p, "path"), text_at(p, "begins"));
        CU_ASSERT(json_is_false(json_object_get(p, "within")));
        CU_ASSERT(json_is_true(json_object_get(p, "repeats")));
    }
    json_decref(json);
}

// Each stage, in every span that holds it.
static void stage_is_named(void)
{
    static const uint32_t all = FAKE_D | FAKE_DR | FAKE_DRS | FAKE_R | FAKE_RS |
                                FAKE_S;
    static const struct {
        const char *stage;
        enum fake_fault fault;
        int pictures;  // grey has no chroma
        uint32_t spans[4];
    } cases[] = {
        {"reconstruct",
         FAKE_FAULT_RECONSTRUCT,
         PICTURES,
         {FAKE_D, FAKE_DR, FAKE_DRS, all}},
        {"color",
         FAKE_FAULT_COLOR,
         PICTURES - 1,
         {FAKE_D, FAKE_DR, FAKE_DRS, all}},
        {"color",
         FAKE_FAULT_CHROMA,
         PICTURES - 1,
         {FAKE_D, FAKE_DR, FAKE_DRS, all}},
        {"resample",
         FAKE_FAULT_RESAMPLE,
         PICTURES,
         {FAKE_R, FAKE_RS, FAKE_DRS, all}},
        {"store", FAKE_FAULT_STORE, PICTURES, {FAKE_S, FAKE_RS, FAKE_DRS, all}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < 4; k++)
            expect_stage(cases[i].stage, cases[i].spans[k], cases[i].fault,
                         cases[i].pictures);
}

// wrong = a bit of every result, also of what has nothing to store but bytes:
// no cut can tell, only the spans by themselves can.
static void span_tells(void)
{
    static const uint32_t spans = FAKE_D | FAKE_R | FAKE_S;
    json_t *json;

    fake_reset(
        &(struct fake_script){.spans = {spans, spans, spans}, .wrong = true});
    json = json_of("exact", 1);
    CHECK(number_at(json_object_get(json, "begins"), "store") == PICTURES, "%s",
          text_at(json, "verdict"));
    json_decref(json);
}

static void one_picture(void)
{
    struct ran r;

    fake_reset(&(struct fake_script){.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                     .fault = FAKE_FAULT_CHROMA,
                                     .fault_width = width_of(ODD_ONE)});
    r = run((const char *const[]){input(), "--backend", "fake", "--ops",
                                  "decode,resize=64,center_crop=48", NULL});
    CU_ASSERT_EQUAL(r.code, 1);
    CHECK(strstr(r.out, "/in/d'") != NULL, "%s", r.out);
    CHECK(!strstr(r.out, "/in/a.jpg"), "%s", r.out);
    CHECK(strstr(r.out, "differs from color on") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "verdict: not within tier close: 1 of 6 pictures") !=
              NULL,
          "%s", r.out);
    CHECK(strstr(r.out, "; begins at color (1): d'") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "entropy..store on fake:0") != NULL, "%s", r.out);
    done(&r);
}

static void stale_picture(void)
{
    json_t *json, *p;

    fake_reset(&(struct fake_script){.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                     .stale_width = width_of(ODD_ONE)});
    json = json_of("close", 1);
    p = picture_at(json, ODD_ONE);
    CU_ASSERT_EQUAL(number_at(json, "stale"), 1);
    CU_ASSERT_EQUAL(number_at(json, "outside"), 1);
    CHECK(strstr(text_at(p, "pixels_of"), "/in/c.jpg") != NULL, "%s",
          text_at(p, "pixels_of"));
    CHECK(strstr(text_at(json, "verdict"), "another picture's pixels") != NULL,
          "%s", text_at(json, "verdict"));
    json_decref(json);
}

// One level is within close if it comes from before resample; so is an inverse
// DCT that is 2 levels off, whatever color and resample make of that.
static void tiers(void)
{
    static const struct {
        const char *tier;
        enum fake_fault fault;
        int code;
    } cases[] = {
        {"exact", FAKE_FAULT_RECONSTRUCT, 1}, {"close", FAKE_FAULT_COLOR, 0},
        {"close", FAKE_FAULT_RECONSTRUCT, 0}, {"close", FAKE_FAULT_RESAMPLE, 1},
        {"close", FAKE_FAULT_STORE, 1},       {"close", FAKE_FAULT_CHROMA, 1},
        {"close", FAKE_FAULT_IDCT, 0},        {"close", FAKE_FAULT_LUMA, 1},
        {"fast", FAKE_FAULT_RESAMPLE, 0},     {"fast", FAKE_FAULT_CHROMA, 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fake_reset(&(struct fake_script){
            .spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS}, .fault = cases[i].fault});
        json_decref(json_of(cases[i].tier, cases[i].code));
    }
}

// ---- Status ----------------------------------------------------------------

// The CPU says that the file ends early, the device that all is well.
static void fails_on_one_side(void)
{
    uint64_t seed = 9;
    struct bytes bad = test_damaged(150, 110, &seed);
    json_t *json, *p;
    char path[128];

    put("y.jpg", &bad);
    fake_reset(&(struct fake_script){.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                     .never_fails = true});
    json = json_of("close", 1);
    p = picture_at(json, PICTURES);
    CU_ASSERT_EQUAL(number_at(json, "status_differs"), 1);
    CU_ASSERT_EQUAL(number_at(json, "outside"), 1);
    CHECK(!strcmp(text_at(p, "reference_status"), "HR_ETRUNCATED"), "%s",
          text_at(p, "reference_status"));
    CHECK(!strcmp(text_at(p, "status"), "HR_OK"), "%s", text_at(p, "status"));
    CHECK(strstr(text_at(json, "verdict"), "1 end otherwise") != NULL, "%s",
          text_at(json, "verdict"));
    json_decref(json);
    snprintf(path, sizeof(path), "%s/in/y.jpg", folder);
    unlink(path);
    free(bad.data);
}

// A device that fails hands over to the CPU: right, but not by the device.
static void falls_back(void)
{
    json_t *json;

    fake_reset(&(struct fake_script){.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                     .fail_from = 1});
    json = json_of("exact", 0);
    CU_ASSERT_EQUAL(number_at(json, "by_device"), 0);
    CU_ASSERT(json_object_size(json_object_get(json, "fallbacks")) > 0);
    json_decref(json);
}

static void bad_pictures(void)
{
    uint64_t seed = test_seed;
    struct bytes bad = test_damaged(150, 110, &seed);
    struct bytes none = {.data = (uint8_t *)"no picture", .size = 10};
    char half[128], text[128];
    json_t *json;
    struct ran r;

    put("y.jpg", &bad);
    put("z.jpg", &none);
    fake_reset_spans(FAKE_RS);
    json = json_of("exact", 0);
    CU_ASSERT_EQUAL(number_at(json, "checked"), PICTURES + 2);
    CU_ASSERT_EQUAL(number_at(json, "failed_alike"), 2);
    json_decref(json);
    snprintf(half, sizeof(half), "%s/in/y.jpg", folder);
    snprintf(text, sizeof(text), "%s/in/z.jpg", folder);
    r = RUN(half, text, "--backend", "fake");
    CU_ASSERT_EQUAL(r.code, 2);  // nothing was compared
    CHECK(strstr(r.out, "nothing to compare") != NULL, "%s", r.out);
    done(&r);
    unlink(half);
    unlink(text);
    free(bad.data);
}

// ---- Words -----------------------------------------------------------------

static void expect_words(const char *what, const char *const *words)
{
    struct ran r = run(words);

    CHECK(r.code == 2, "%s: exit %d", what, r.code);
    CHECK(strstr(r.err, what) != NULL, "'%s' is not in '%s'", what, r.err);
    CHECK(strchr(r.err, '\n') == r.err + strlen(r.err) - 1,
          "not one sentence: %s", r.err);
    CHECK(!*r.out, "%s prints %s", what, r.out);
    done(&r);
}

#define WORDS(what, ...) \
    expect_words(what, (const char *const[]){__VA_ARGS__, NULL})

static void bad_words(void)
{
    char empty[96], locked[96];

    snprintf(empty, sizeof(empty), "%s/empty", folder);
    snprintf(locked, sizeof(locked), "%s/locked", folder);
    mkdir(empty, 0700);
    mkdir(locked, 0);
    WORDS("no pictures found", empty, "--backend", "cpu");
    WORDS("No such file", "/nowhere/at/all", "--backend", "cpu");
    if (access(locked, R_OK) < 0)
        WORDS("Permission denied", locked, "--backend", "cpu");
    else
        test_not_run("an unreadable folder: this user may read all of them");
    WORDS("quantum", input(), "--backend", "quantum");
    WORDS("report cannot be written", input(), "--backend", "cpu", "--report",
          "/nowhere/at/all.html");
    WORDS("report cannot be written", input(), "--backend", "cpu", "--report",
          folder);
    WORDS("none of cpu, reference", input(), "--against", "gpu");
    WORDS("none of close, exact, fast", input(), "--tier", "sloppy");
    WORDS("--limit", input(), "--limit", "0");
    WORDS("--seed", input(), "--seed", "x");
    WORDS("--ops", input(), "--ops", "resise=2");
    WORDS("name a folder", "--backend", "cpu");
    rmdir(empty);
    rmdir(locked);
}

// The same pictures for the same seed, others for others.
static void limited(void)
{
    char chosen[4][4096];
    uint64_t bits = 0;

    fake_reset_spans(FAKE_DRS);
    for (int i = 0; i < 4; i++) {
        const char *seed = i == 0 || i == 1 ? "1" : i == 2 ? "2" : "3";
        struct ran r = RUN(input(), "--backend", "fake", "--limit", "2",
                           "--seed", seed, "--json");
        json_t *json = json_loads(r.out, 0, NULL);

        CU_ASSERT_EQUAL(number_at(json, "checked"), 2);
        snprintf(chosen[i], sizeof(chosen[i]), "%s %s",
                 text_at(picture_at(json, 0), "path"),
                 text_at(picture_at(json, 1), "path"));
        json_decref(json);
        done(&r);
    }
    CU_ASSERT_STRING_EQUAL(chosen[0], chosen[1]);
    for (int i = 2; i < 4; i++)
        bits |= strcmp(chosen[0], chosen[i]) ? 1 : 0;
    CU_ASSERT(bits);
}

static void against_reference(void)
{
    struct ran r = run((const char *const[]){input(), "--backend", "cpu",
                                             "--dtype", "f16", NULL});

    CU_ASSERT_EQUAL(r.code, 0);
    CHECK(strstr(r.out, "the readable C") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "python3 -m headrace.validate") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "verdict: exact: 0 of") != NULL, "%s", r.out);
    done(&r);
}

// ---- The corpus ------------------------------------------------------------

static void corpus(void)
{
    const char *given = getenv("HEADRACE_CORPUS");
    bool all = getenv("HEADRACE_TEST_LONG") != NULL;
    char path[512];
    hr_device dev = hr_device_open("opencl:pocl", NULL);
    struct ran r;

    snprintf(path, sizeof(path), "%s/photos",
             given ? given : HR_SOURCE_DIR "/../shared/corpus");
    if (!dev || access(path, R_OK) < 0) {
        if (dev)
            test_not_run("the corpus is not there");
        else
            test_no_device();
        hr_device_close(&dev);
        return;
    }
    hr_device_close(&dev);
    r = run((const char *const[]){path, "--backend", "opencl:pocl", "--tier",
                                  "exact", "--limit", all ? "1000000" : "24",
                                  "--seed", "7", NULL});
    CHECK(r.code == 0, "%s", r.err);
    CHECK(strstr(r.out, "verdict: exact: 0 of") != NULL, "%s", r.out);
    done(&r);
}

// A report of findings, for tests/report_test.sh to look at.
static int sample(const char *path)
{
    struct ran r;

    fake_reset(&(struct fake_script){.spans = {FAKE_D, FAKE_D, FAKE_D},
                                     .fault = FAKE_FAULT_CHROMA,
                                     .fault_width = width_of(ODD_ONE)});
    r = run((const char *const[]){input(), "--backend", "fake", "--report",
                                  path, NULL});
    return r.code == 1 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(exact_engine),
        TEST_CASE(stage_is_named),
        TEST_CASE(span_tells),
        TEST_CASE(one_picture),
        TEST_CASE(stale_picture),
        TEST_CASE(tiers),
        TEST_CASE(fails_on_one_side),
        TEST_CASE(falls_back),
        TEST_CASE(bad_pictures),
        TEST_CASE(bad_words),
        TEST_CASE(limited),
        TEST_CASE(against_reference),
        TEST_CASE(corpus),
    };

    make_folder();
    if (argc == 3 && !strcmp(argv[1], "--sample"))
        return sample(argv[2]);
    return test_main("validate", cases, sizeof(cases) / sizeof(cases[0]), argc,
                     argv);
}
