// SPDX-License-Identifier: Apache-2.0
#include "validate_run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/tools.h"
#include "tools/validate/validate.h"

enum { MAX_WORDS = 16 };

const char *validate_folder;
char validate_in[256], validate_report[256];

static const char *const names[VALIDATE_PICTURES] = {
    "a.jpg", "b<script>&.jpg", "c.jpg", "d'\xff.jpg", "e.jpg", "grey.jpg",
};

int validate_width(int i)
{
    return 120 + 10 * i;
}

void validate_path(int i, char path[300])
{
    snprintf(path, 300, "%s/%s", validate_in, names[i]);
}

void validate_put(const char *name, const struct bytes *b)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", validate_in, name);
    test_write(path, b->data, b->size);
}

void validate_init(void)
{
    uint64_t seed = 5;

    validate_folder = test_folder();
    snprintf(validate_report, sizeof(validate_report), "%s/report.html",
             validate_folder);
    snprintf(validate_in, sizeof(validate_in), "%s/in", validate_folder);
    mkdir(validate_in, 0700);
    for (int i = 0; i < VALIDATE_PICTURES; i++) {
        struct jpeg_spec spec = {.w = validate_width(i),
                                 .h = 90,
                                 .quality = 90,
                                 .space = JCS_YCbCr,
                                 .factors = {0x22}};
        auto_bytes b = {0};

        if (i == VALIDATE_PICTURES - 1)
            spec = (struct jpeg_spec){.w = validate_width(i),
                                      .h = 90,
                                      .quality = 90,
                                      .space = JCS_GRAYSCALE};
        b = test_jpeg_of(&spec, &seed);
        validate_put(names[i], &b);
    }
}

// ---- Running it -----------------------------------------------------------

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
struct validate_ran validate_run(const char *const *words)
{
    char *argv[MAX_WORDS + 2] = {(char *)"headrace validate"};
    int argc = 1, old[2] = {dup(1), dup(2)};
    FILE *out = tmpfile(), *err = tmpfile();
    struct validate_ran r;

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

void validate_done(struct validate_ran *r)
{
    free(r->out);
    free(r->err);
}

// ---- JSON -----------------------------------------------------------------

json_t *validate_json(const char *tier, int code)
{
    struct validate_ran r;
    json_error_t error;
    json_t *json;

    unlink(validate_report);
    r = VALIDATE_RUN(validate_in, "--backend", "fake", "--tier", tier, "--json",
                     "--report", validate_report);
    json = json_loads(r.out, 0, &error);
    CHECK(r.code == code, "exit %d, not %d: %s", r.code, code, r.err);
    CHECK(json != NULL, "no JSON: %s in %.200s", error.text, r.out);
    CHECK(access(validate_report, F_OK) == 0, "no report");
    validate_done(&r);
    return json;
}

const char *text_at(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text ? text : "";
}

json_int_t number_at(json_t *json, const char *key)
{
    return json_integer_value(json_object_get(json, key));
}

json_t *picture_at(json_t *json, int i)
{
    return json_array_get(json_object_get(json, "pictures"), (size_t)i);
}
