// SPDX-License-Identifier: Apache-2.0
// headrace validate, in this process, on engines that are wrong on purpose:
// the verdict must name the stage and the pictures.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_engine.h"
#include "tools/report/report.h"
#include "validate_run.h"

enum { ODD_ONE = 3 };

// ---- Right ----------------------------------------------------------------

TEST_CASE(exact_engine)
{
    static const uint32_t spans[] = {FAKE_DRS, FAKE_D, FAKE_RS, FAKE_S,
                                     FAKE_D | FAKE_R | FAKE_S};

    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        json_t *json, *end;

        fake_reset_spans(spans[i]);
        json = validate_json("exact", 0);
        end = json_object_get(json_object_get(json, "stages"), "end_to_end");
        CU_ASSERT_EQUAL(number_at(json, "checked"), VALIDATE_PICTURES);
        CU_ASSERT_EQUAL(number_at(json, "by_device"), VALIDATE_PICTURES);
        CU_ASSERT_EQUAL(number_at(end, "differing"), 0);
        CU_ASSERT_EQUAL(number_at(end, "samples"),
                        VALIDATE_PICTURES * 3 * 48 * 48);
        CU_ASSERT(!strncmp(text_at(json, "verdict"), "exact: 0 of ", 12));
        CU_ASSERT(json_is_true(json_object_get(json, "within")));
        json_decref(json);
    }
}

// A device of several engines is none of them by name.
TEST_CASE(several_engines)
{
    struct validate_ran r;

    fake_reset_spans(FAKE_DRS);
    r = VALIDATE_RUN(validate_in, "--backend", "fake+fake");
    CHECK(r.code == 0 && !strstr(r.out, "made none of them") &&
              !strstr(r.out, "warning"),
          "exit %d: %s%s", r.code, r.err, r.out);
    validate_done(&r);
}

// ---- Wrong ----------------------------------------------------------------

static void expect_stage(const char *stage, uint32_t spans,
                         enum fake_fault fault, int least)
{
    json_t *json, *begins;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(spans), .fault = fault});
    json = validate_json("exact", 1);
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

// Each stage, in every span that holds it; in sanitizer builds in one of them.
TEST_CASE(stage_is_named)
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
         VALIDATE_PICTURES,
         {FAKE_D, FAKE_DR, FAKE_DRS, all}},
        {"color",
         FAKE_FAULT_COLOR,
         VALIDATE_PICTURES - 1,
         {FAKE_D, FAKE_DR, FAKE_DRS, all}},
        {"color",
         FAKE_FAULT_CHROMA,
         VALIDATE_PICTURES - 1,
         {FAKE_D, FAKE_DR, FAKE_DRS, all}},
        {"resample",
         FAKE_FAULT_RESAMPLE,
         VALIDATE_PICTURES,
         {FAKE_R, FAKE_RS, FAKE_DRS, all}},
        {"store",
         FAKE_FAULT_STORE,
         VALIDATE_PICTURES,
         {FAKE_S, FAKE_RS, FAKE_DRS, all}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int k = 0; k < 4; k++)
            if (test_loops(4) == 4 || k == (int)i % 4)
                expect_stage(cases[i].stage, cases[i].spans[k], cases[i].fault,
                             cases[i].pictures);
}

// wrong = a bit of every result, also of samples that only store bytes: no cut
// can tell, only the spans by themselves can.
TEST_CASE(span_tells)
{
    static const uint32_t spans = FAKE_D | FAKE_R | FAKE_S;
    json_t *json;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(spans), .wrong = true});
    json = validate_json("exact", 1);
    CHECK(number_at(json_object_get(json, "begins"), "store") ==
              VALIDATE_PICTURES,
          "%s", text_at(json, "verdict"));
    json_decref(json);
}

TEST_CASE(one_picture)
{
    struct validate_ran r;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .fault = FAKE_FAULT_CHROMA,
                                     .fault_width = validate_width(ODD_ONE)});
    r = validate_run(
        (const char *const[]){validate_in, "--backend", "fake", "--ops",
                              "decode,resize=64,center_crop=48", NULL});
    CU_ASSERT_EQUAL(r.code, 1);
    CHECK(strstr(r.out, "/in/d'") != NULL, "%s", r.out);
    CHECK(!strstr(r.out, "/in/a.jpg"), "%s", r.out);
    CHECK(strstr(r.out, "differs from color on") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "verdict: not within tier exact: 1 of 6 pictures") !=
              NULL,
          "%s", r.out);
    CHECK(strstr(r.out, "; begins at color (1): d'") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "entropy..store on fake:0") != NULL, "%s", r.out);
    validate_done(&r);
}

// By one thread the pictures reach the engine in their order, so that the one
// made before is known.
TEST_CASE(stale_picture)
{
    struct validate_ran r;
    json_t *json, *p;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .stale_width = validate_width(ODD_ONE)});
    r = VALIDATE_RUN(validate_in, "--backend", "fake", "--tier", "close",
                     "--threads", "1", "--json");
    CHECK(r.code == 1, "exit %d: %s", r.code, r.err);
    json = json_loads(r.out, 0, NULL);
    p = picture_at(json, ODD_ONE);
    CU_ASSERT_EQUAL(number_at(json, "stale"), 1);
    CU_ASSERT_EQUAL(number_at(json, "outside"), 1);
    CHECK(strstr(text_at(p, "pixels_of"), "/in/c.jpg") != NULL, "%s",
          text_at(p, "pixels_of"));
    CHECK(strstr(text_at(json, "verdict"), "another picture's pixels") != NULL,
          "%s", text_at(json, "verdict"));
    json_decref(json);
    validate_done(&r);
}

// One level is within close if it comes from before resample; so is an inverse
// DCT that is 2 levels off, whatever color and resample make of that.
TEST_CASE(tiers)
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
        fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                         .fault = cases[i].fault});
        json_decref(validate_json(cases[i].tier, cases[i].code));
    }
}

// ---- Status ---------------------------------------------------------------

// The CPU says that the file ends early, the device that all is well.
TEST_CASE(fails_on_one_side)
{
    uint64_t seed = 9;
    auto_bytes bad = test_damaged(150, 110, &seed);
    json_t *json, *p;
    char path[300];

    validate_put("y.jpg", &bad);
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_DRS),
                                     .never_fails = true});
    json = validate_json("close", 1);
    p = picture_at(json, VALIDATE_PICTURES);
    CU_ASSERT_EQUAL(number_at(json, "status_differs"), 1);
    CU_ASSERT_EQUAL(number_at(json, "outside"), 1);
    CHECK(!strcmp(text_at(p, "reference_status"), "HR_ETRUNCATED"), "%s",
          text_at(p, "reference_status"));
    CHECK(!strcmp(text_at(p, "status"), "HR_OK"), "%s", text_at(p, "status"));
    CHECK(strstr(text_at(json, "verdict"), "1 end otherwise") != NULL, "%s",
          text_at(json, "verdict"));
    json_decref(json);
    snprintf(path, sizeof(path), "%s/y.jpg", validate_in);
    unlink(path);
}

// A device that fails hands over to the CPU: right, but not by the device, of
// which that says nothing.
TEST_CASE(falls_back)
{
    json_t *json;

    fake_reset(
        &(struct fake_script){.spans = FAKE_ALL(FAKE_DRS), .fail_from = 1});
    json = validate_json("exact", 2);
    CU_ASSERT_EQUAL(number_at(json, "by_device"), 0);
    CU_ASSERT(json_object_size(json_object_get(json, "fallbacks")) > 0);
    json_decref(json);
}

TEST_CASE(bad_pictures)
{
    uint64_t seed = test_seed;
    auto_bytes bad = test_damaged(150, 110, &seed);
    struct bytes none = {.data = (uint8_t *)"no picture", .size = 10};
    char half[300], text[300];
    json_t *json;
    struct validate_ran r;

    validate_put("y.jpg", &bad);
    validate_put("z.jpg", &none);
    fake_reset_spans(FAKE_RS);
    json = validate_json("exact", 0);
    CU_ASSERT_EQUAL(number_at(json, "checked"), VALIDATE_PICTURES + 2);
    CU_ASSERT_EQUAL(number_at(json, "failed_alike"), 2);
    json_decref(json);
    snprintf(half, sizeof(half), "%s/y.jpg", validate_in);
    snprintf(text, sizeof(text), "%s/z.jpg", validate_in);
    r = VALIDATE_RUN(half, text, "--backend", "fake");
    CU_ASSERT_EQUAL(r.code, 2);  // nothing was compared
    CHECK(strstr(r.out, "nothing to compare") != NULL, "%s", r.out);
    validate_done(&r);
    unlink(half);
    unlink(text);
}

// ---- Words ----------------------------------------------------------------

static void expect_words(const char *what, const char *const *words)
{
    struct validate_ran r = validate_run(words);

    CHECK(r.code == 2, "%s: exit %d", what, r.code);
    CHECK(strstr(r.err, what) != NULL, "'%s' is not in '%s'", what, r.err);
    CHECK(strchr(r.err, '\n') == r.err + strlen(r.err) - 1,
          "not one sentence: %s", r.err);
    CHECK(!*r.out, "%s prints %s", what, r.out);
    validate_done(&r);
}

#define WORDS(what, ...) \
    expect_words(what, (const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(bad_words)
{
    char empty[256], locked[256];

    snprintf(empty, sizeof(empty), "%s/empty", validate_folder);
    snprintf(locked, sizeof(locked), "%s/locked", validate_folder);
    mkdir(empty, 0700);
    mkdir(locked, 0);
    WORDS("no pictures found", empty, "--backend", "cpu");
    WORDS("No such file", "/nowhere/at/all", "--backend", "cpu");
    if (test_drop_root(validate_folder))
        WORDS("locked: Permission denied", locked, "--backend", "cpu");
    else
        test_not_run("an unreadable folder: root reads all of them");
    test_be_root_again();
    WORDS("quantum", validate_in, "--backend", "quantum");
    WORDS("report cannot be written", validate_in, "--backend", "cpu",
          "--report", "/nowhere/at/all.html");
    WORDS("report cannot be written", validate_in, "--backend", "cpu",
          "--report", validate_folder);
    WORDS("not one of cpu, reference", validate_in, "--against", "gpu");
    WORDS("not one of exact, close, fast", validate_in, "--tier", "sloppy");
    WORDS("--limit", validate_in, "--limit", "0");
    WORDS("--seed", validate_in, "--seed", "x");
    WORDS("--ops", validate_in, "--ops", "resise=2");
    WORDS("name a folder", "--backend", "cpu");
    rmdir(empty);
    rmdir(locked);
}

// The same pictures for the same seed, others for others.
TEST_CASE(limited)
{
    char chosen[4][4096];
    uint64_t bits = 0;

    fake_reset_spans(FAKE_DRS);
    for (int i = 0; i < 4; i++) {
        const char *seed = i == 0 || i == 1 ? "1" : i == 2 ? "2" : "3";
        struct validate_ran r = VALIDATE_RUN(validate_in, "--backend", "fake",
                                             "--limit", "2", "--seed", seed,
                                             "--json");
        json_t *json = json_loads(r.out, 0, NULL);

        CU_ASSERT_EQUAL(number_at(json, "checked"), 2);
        snprintf(chosen[i], sizeof(chosen[i]), "%s %s",
                 text_at(picture_at(json, 0), "path"),
                 text_at(picture_at(json, 1), "path"));
        json_decref(json);
        validate_done(&r);
    }
    CU_ASSERT_STRING_EQUAL(chosen[0], chosen[1]);
    for (int i = 2; i < 4; i++)
        bits |= strcmp(chosen[0], chosen[i]) ? 1 : 0;
    CU_ASSERT(bits);
}

TEST_CASE(against_reference)
{
    struct validate_ran r = validate_run((const char *const[]){
        validate_in, "--backend", "cpu", "--dtype", "f16", NULL});

    CU_ASSERT_EQUAL(r.code, 0);
    CHECK(strstr(r.out, "the readable C") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "python3 -m headrace.validate") != NULL, "%s", r.out);
    CHECK(strstr(r.out, "verdict: exact: 0 of") != NULL, "%s", r.out);
    validate_done(&r);
}

// ---- The corpus -----------------------------------------------------------

TEST_CASE(corpus)
{
    const char *given = getenv("HEADRACE_CORPUS");
    bool all = getenv("HEADRACE_TEST_LONG") != NULL;
    char path[512];
    hr_device dev = hr_device_open("opencl:pocl", NULL);
    struct validate_ran r;

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
    r = validate_run((const char *const[]){path, "--backend", "opencl:pocl",
                                           "--tier", "exact", "--limit",
                                           all ? "1000000" : "24", "--seed",
                                           "7", NULL});
    CHECK(r.code == 0, "%s", r.err);
    CHECK(strstr(r.out, "verdict: exact: 0 of") != NULL, "%s", r.out);
    validate_done(&r);
}

// A report of findings, for report_test.sh to look at.
static int sample(const char *path)
{
    struct validate_ran r;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_D),
                                     .fault = FAKE_FAULT_CHROMA,
                                     .fault_width = validate_width(ODD_ONE)});
    r = validate_run((const char *const[]){validate_in, "--backend", "fake",
                                           "--report", path, NULL});
    return r.code == 1 ? 0 : 1;
}

int main(int argc, char **argv)
{
    validate_init();
    if (argc == 3 && !strcmp(argv[1], "--sample"))
        return sample(argv[2]);
    return test_main(argc, argv);
}
