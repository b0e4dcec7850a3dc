// SPDX-License-Identifier: Apache-2.0
// headrace validate in this process: pictures for it, its output, and the parts
// of its JSON.
#ifndef HEADRACE_TESTS_VALIDATE_RUN_H
#define HEADRACE_TESTS_VALIDATE_RUN_H

#include <jansson.h>

#include "testing.h"

enum { VALIDATE_PICTURES = 6 };

// Makes the pictures: all equal in shape behind the ops, the last one grey.
// Once, before all that is below.
void validate_init(void);
// By which picture i is known.
int validate_width(int i);
void validate_path(int i, char path[300]);
// One more.
void validate_put(const char *name, const struct bytes *b);
// A folder of the tests' own; in it that of the pictures, and a report.
extern const char *validate_folder;
extern char validate_in[256], validate_report[256];

struct validate_ran {
    int code;  // exit
    char *out, *err;
};
// words end with NULL.
struct validate_ran validate_run(const char *const *words);
void validate_done(struct validate_ran *r);
#define VALIDATE_RUN(...)                \
    validate_run((const char *const[]){  \
        __VA_ARGS__, "--quiet", "--ops", \
        "decode,resize=64,center_crop=48,normalize=imagenet", NULL})

// The --json of a run on the fake engine, which must end with that code and
// write a report; NULL: none.
json_t *validate_json(const char *tier, int code);
// "", 0 and NULL if there is none.
const char *text_at(json_t *json, const char *key);
json_int_t number_at(json_t *json, const char *key);
json_t *picture_at(json_t *json, int i);

#endif
