// SPDX-License-Identifier: Apache-2.0
// headrace validate, in this process: its report of pictures whose two sides
// end in different ways.

#include <jansson.h>

#include "fake_engine.h"
#include "testing.h"
#include "tools/common/tools.h"
#include "tools/validate/validate.h"
#include "validate_run.h"

enum { W = 96, H = 640 };

// A picture that is whole at the top: three quarters down is a marker that has
// nothing to do there.
static const char *damaged_below(void)
{
    uint64_t seed = 3;
    auto_bytes b = test_jpeg(W, H, &seed);
    size_t at = b.size * 3 / 4;
    const char *path;

    b.data[at] = 0xff;
    b.data[at + 1] = 0xc0;
    path = test_file(&b, ".jpg");
    return path;
}

// Runs it and returns its output; free().
static char *run(const char *path, const char *ops, const char *more, int code)
{
    struct validate_ran r = validate_run((const char *const[]){
        path, "--backend", "fake", "--ops", ops, "--tier", "exact",
        more ? more : "--dtype", more ? NULL : "f32", NULL});

    CHECK(r.code == code, "exit %d, not %d: %s", r.code, code, r.err);
    free(r.err);
    return r.out;
}

// The CPU finds the marker below the window, the device does not.
TEST_CASE(below_the_window)
{
    static const char *const ops = "decode,crop=0,0,64,32";
    const char *path = damaged_below();
    json_t *json, *p;
    char *text;

    fake_reset(&(struct fake_script){.spans = {FAKE_DRS, FAKE_DRS, FAKE_DRS},
                                     .never_fails = true});
    text = run(path, ops, NULL, 1);
    CHECK(strstr(text, "damaged picture data on the CPU, success on the "
                       "device [") != NULL,
          "%s", text);
    CHECK(strstr(text, "1 end otherwise than on the CPU") != NULL, "%s", text);
    free(text);
    text = run(path, ops, "--json", 1);
    json = json_loads(text, 0, NULL);
    p = json_array_get(json_object_get(json, "pictures"), 0);
    CHECK(!strcmp(json_string_value(json_object_get(p, "reference_status")),
                  "HR_ECORRUPT") &&
              !strcmp(json_string_value(json_object_get(p, "status")), "HR_OK"),
          "%s", text);
    CHECK(!json_object_get(p, "status_differs_after"), "%s", text);
    json_decref(json);
    free(text);
}

// An engine that leaves the picture to the CPU ends as the CPU does.
TEST_CASE(honest)
{
    const char *path = damaged_below();
    auto_heap char *text = NULL;

    fake_reset_spans(FAKE_D);
    text = run(path, "decode,crop=0,0,64,32", NULL, 2);
    CHECK(strstr(text, "1 cannot be made, on both sides alike\n"), "%s", text);
}
