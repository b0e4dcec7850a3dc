// SPDX-License-Identifier: Apache-2.0
// headrace validate, in this process: its report of pictures that differ only
// if their chain is cut, and of a chain of engines.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fake_engine.h"
#include "validate_run.h"

enum { PAGE = 1 << 20 };

static void read_page(char page[PAGE])
{
    FILE *file = fopen(validate_report, "r");
    size_t size = file ? fread(page, 1, PAGE - 1, file) : 0;

    CU_ASSERT(size > 0);
    page[size] = '\0';
    if (file)
        fclose(file);
}

// The window has no wrong pixel, the whole decode does.
TEST_CASE(only_when_cut)
{
    static const char *const words[] = {
        "1 of 1 pictures differ, by 1 levels at most; begins at color (1), but "
        "not at the end",
        "1 of 1 pictures; begins at color (1), but not at the end"};

    for (int i = 0; i < 2; i++) {
        const char *tier = i ? "exact" : "close";
        static char page[PAGE];
        char path[300];
        struct validate_ran r;

        snprintf(path, sizeof(path), "%s/a.jpg", validate_in);
        fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_D),
                                         .fault = FAKE_FAULT_COLOR});
        r = validate_run((const char *const[]){path, "--backend", "fake",
                                               "--ops", "decode,crop=1,0,4,1",
                                               "--tier", tier, "--report",
                                               validate_report, NULL});
        CHECK(r.code == i, "exit %d: %s%s", r.code, r.err, r.out);
        CHECK(strstr(r.out, words[i]) != NULL, "%s", r.out);
        CHECK(strstr(r.out, " dB, if cut after color, but not at the end [") &&
                  !strstr(r.out, "inf dB,"),
              "%s", r.out);
        read_page(page);
        CHECK(strstr(page, "samples differ, if cut after color, but not at the "
                           "end, by 1 levels at most") != NULL,
              "the note of the picture");
        validate_done(&r);
    }
}

// Spans by themselves, of a device whose name is no engine's.
TEST_CASE(of_several_engines)
{
    struct validate_ran r;
    json_t *json, *spans;

    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_D),
                                     .fault = FAKE_FAULT_RECONSTRUCT});
    r = VALIDATE_RUN(validate_in, "--backend", "fake+fake", "--tier", "close",
                     "--json");
    json = json_loads(r.out, 0, NULL);
    spans = json_object_get(picture_at(json, 0), "spans_differing");
    CHECK(r.code == 0, "exit %d: %s", r.code, r.err);
    CHECK(json_array_size(spans) == 1 &&
              !strcmp(json_string_value(json_array_get(spans, 0)),
                      "entropy..color"),
          "%d spans differ", (int)json_array_size(spans));
    json_decref(json);
    validate_done(&r);
}

// A long name is cut to its end, which tells it from others.
TEST_CASE(long_name)
{
    uint64_t seed = 3;
    auto_bytes jpeg = test_jpeg(64, 64, &seed);
    char dir[512], name[230];
    struct validate_ran r;

    memset(name, '0', sizeof(name));
    strcpy(name + sizeof(name) - 8, "/a.jpg");
    snprintf(dir, sizeof(dir), "%s/%.*s", validate_in, (int)sizeof(name) - 8,
             name);
    mkdir(dir, 0700);
    validate_put(name, &jpeg);
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_D),
                                     .fault = FAKE_FAULT_COLOR});
    r = VALIDATE_RUN(validate_in, "--backend", "fake", "--tier", "exact");
    CHECK(strstr(r.out, ": ...000") && strstr(r.out, "000/a.jpg"), "%s", r.out);
    validate_done(&r);
}

// Names may begin with any byte; that alone makes none of them a long one.
TEST_CASE(odd_name)
{
    uint64_t seed = 4;
    auto_bytes jpeg = test_jpeg(64, 64, &seed);
    char dir[512];
    struct validate_ran r;

    snprintf(dir, sizeof(dir), "%s/odd", validate_in);
    mkdir(dir, 0700);
    validate_put("odd/\x80\x81.jpg", &jpeg);
    fake_reset(&(struct fake_script){.spans = FAKE_ALL(FAKE_D),
                                     .fault = FAKE_FAULT_COLOR});
    r = VALIDATE_RUN(dir, "--backend", "fake", "--tier", "exact");
    CHECK(strstr(r.out, ": \x80\x81.jpg") != NULL, "%s", r.out);
    validate_done(&r);
}

int main(int argc, char **argv)
{
    validate_init();
    return test_main(argc, argv);
}
