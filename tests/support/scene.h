// SPDX-License-Identifier: Apache-2.0
// A job's worth of samples, their expected results, and the checks that hold
// for every job, whatever happened to it.
#ifndef HEADRACE_TESTS_SCENE_H
#define HEADRACE_TESTS_SCENE_H

#include "fake_engine.h"
#include "testing.h"

enum { SCENE_MAX = 64, SCENE_W = 24, SCENE_H = 20, SCENE_FILES = 4 };

enum scene_source {
    SCENE_BYTES,
    SCENE_PATH,
    SCENE_IMAGE,
    SCENE_MIXED,
    SCENE_CODES  // mixed, each with codes of stage augment and an erase
};

// n different samples to f32 3 x 20 x 24, each with ops of its own.
struct scene {
    hr_device dev;
    int n;
    bool codes;
    struct hr_op ops[SCENE_MAX][8];
    struct hr_sample samples[SCENE_MAX];
    hr_batch out;
    uint8_t *expected;  // by a CPU device with the readable C; as out
};

void scene_init(struct scene *s, hr_device dev, int n,
                enum scene_source source);
void scene_finish(struct scene *s);

// True if slot i holds what it must; zeros; or its byte pattern of before.
bool scene_right(const struct scene *s, int i);
bool scene_zero(const struct scene *s, int i);
bool scene_kept(const struct scene *s, int i);
void scene_fill(struct scene *s);  // the byte pattern

// A job under observation: callback, eventfd and fd.
struct watched {
    hr_job job;
    struct test_done done;
    int event_fd;
};

// params: on_done, ctx and event_fd are overwritten. False: refused.
bool watch_submit(struct watched *w, struct scene *s,
                  const struct hr_job_params *params);
// Waits, checks that the job ended exactly once in every way there is to
// learn of it, and returns its status. The job is still there.
enum hr_status watch_wait(struct watched *w);
void watch_finish(struct watched *w);

// Each result: OK with spans that cover its stages in order and the right
// pixels; or an error with a text. Returns how many are OK.
int scene_check_results(const struct scene *s, hr_job job,
                        enum hr_on_error on_error);

// A picture of RGB bytes, interleaved, with nothing in it; one sample from one
// image to another, by one op or none. Both end the case if there is none.
hr_image scene_blank(hr_device dev, int side);
hr_job scene_copy(hr_device dev, hr_image from, hr_image to,
                  const struct hr_op *op);

// Bytes in flight are 0 after everything has ended.
void check_idle(hr_device dev);

// Keeps a worker of the CPU busy until scene_let_go(): it has made this small
// image of 8 x 8, and gives the source back. One at a time.
hr_job scene_hold_worker(hr_device dev, hr_image to);
void scene_let_go(void);

#endif
