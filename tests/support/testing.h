// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the core: CUnit with a seed, a scale and an alarm,
// pictures made here, files that go away, counting callbacks.
#ifndef HEADRACE_TESTS_TESTING_H
#define HEADRACE_TESTS_TESTING_H

#include <CUnit/CUnit.h>
#include <stdatomic.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "decode_files.h"
#include "hal/job/work.h"
#include "owned.h"

enum { TEST_NOT_RUN = 77 };

// Sanitizer builds: malloc and timing are not the program's own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

// ThreadSanitizer's build, which looks for races alone.
#if defined(__SANITIZE_THREAD__)
#define TEST_RACES 1
#else
#define TEST_RACES 0
#endif

// The seed, from HEADRACE_SEED or the clock; drawn and printed by test_main(),
// or before it by test_begin().
extern uint64_t test_seed;
void test_begin(void);
// n loops, or fewer by HEADRACE_TEST_SCALE (0 < scale <= 1); at least 1.
int test_loops(int n);
// True in a build that looks for races, where loops are shorter: checks without
// threads, and checks that other builds do on the same threads, may be left to
// those.
bool test_races_only(void);

// Like CU_ASSERT, with a text; only on the main thread.
#define CHECK(cond, ...) test_check((cond), __func__, __LINE__, __VA_ARGS__)
void test_check(bool holds, const char *func, int line, const char *fmt, ...)
    HR_PRINTF(4, 5);

// The elements of an array.
#define COUNT(a) ((int)(sizeof(a) / sizeof(*(a))))

// TEST_CASE(name) { ... } is a case of this program, after those above it.
struct test_case {
    const char *name;
    void (*run)(void);
    int line;
    struct test_case *next;
};
#define TEST_CASE(name)                                                    \
    static void name(void);                                                \
    __attribute__((constructor)) static void add_case_##name(void)         \
    {                                                                      \
        static struct test_case test_case = {#name, name, __LINE__, NULL}; \
                                                                           \
        test_add(&test_case);                                              \
    }                                                                      \
    static void name(void)
void test_add(struct test_case *c);

// Runs all cases, or those named on the command line; each ends the program
// if it takes longer than HEADRACE_TEST_ALARM seconds (default 240), and fails
// if it leaves a descriptor open. A program without main() calls this alone.
int test_main(int argc, char **argv);
// A program that does with its arguments what `run` does.
#define TEST_MAIN(run)              \
    int main(int argc, char **argv) \
    {                               \
        return run(argc, argv);     \
    }
// Says why a case or a part of it was not run, in a line of its own: "not run:
// PROGRAM, CASE: REASON". ./dev test collects them below its table.
void test_not_run(const char *why);
// The same for a list of which only n of all were run here.
void test_fewer(int n, int all, const char *what);
// A device did not open. True: there is none here. Whatever else keeps it from
// opening is a failure, and is printed.
bool test_is_absent(void);
// In a case: not run if there is none, else failed.
void test_no_device(void);
// True if the caller holds the lock: no other thread keeps it as long as a
// second.
bool test_is_held(pthread_mutex_t *lock);

// Encoded pictures; free .data. Abort the program if libjpeg refuses.
struct bytes test_jpeg(int w, int h, uint64_t *seed);
struct bytes test_jpeg_of(const struct jpeg_spec *spec, uint64_t *seed);
struct bytes test_png(int w, int h, uint64_t *seed);
// A JPEG with bytes between the picture's end and its marker: one warning.
struct bytes test_warned(int w, int h, uint64_t *seed);
// A JPEG of which the second half is missing: HR_ETRUNCATED.
struct bytes test_damaged(int w, int h, uint64_t *seed);

// ---- testing_files.c ------------------------------------------------------
// Both live until the program ends, and are removed then, with all that was
// put there. They end the program if they cannot be made.
const char *test_folder(void);  // a new, private one
const char *test_file(const struct bytes *b, const char *suffix);
// The file's bytes, at most capacity - 1, and a NUL: how many; 0 if it is not
// there.
size_t test_read(const char *path, char *to, size_t capacity);
void test_write(const char *path, const void *data, size_t size);  // or aborts

// Root, with access to all files, becomes a user to whom the folder then
// belongs, and root again; nothing for others. False: it cannot be.
bool test_drop_root(const char *folder);
void test_be_root_again(void);

// ---- testing_fds.c --------------------------------------------------------
// Notes the open descriptors; counts the ones that are added later, within a
// minute, without the ones that a driver keeps for good. Prints the first.
// test_main() does so around each case, and fails it.
void test_fds_begin(void);
int test_fds_left(const char *after);
// In this case so many devices are left behind with a hanging driver, which may
// still use up to 26 descriptors of each: 24 surfaces, its node and a log.
// (Their memory is not lost: see hr__engine_ref_revoke().)
void test_hung(int devices);
// In a build with AddressSanitizer, if HEADRACE_TEST_LEAKS is set: whether
// there is memory that nothing points to. test_main() asks after each case.
bool test_leaks(const char *after);

// The device that is no fake, where a test wants one: HEADRACE_TEST_DEVICE, or
// "opencl".
const char *test_device_name(void);
// A device, or the program ends: threads host threads, budget bytes.
hr_device test_device(const char *name, int threads, size_t budget);
// The device whose pixels are right: one thread, the readable C. If
// test_races_only(), it has all instructions, for ThreadSanitizer is told of
// each byte that the C touches.
hr_device test_reference(void);
// Why the engine in front takes no span of encoded bytes with those ops; 0: it
// takes one.
unsigned test_offered(hr_device dev, const struct hr_sample *sample);
// Random u8 picture, NHWC, on the device.
hr_image test_image(hr_device dev, int w, int h, int c, uint64_t *seed);

// For on_done: counts calls and keeps what it saw.
struct test_done {
    atomic_int calls;
    atomic_int status;       // of hr_job_poll() inside the callback
    atomic_bool on_library;  // called on a thread of the library
};
void test_on_done(void *ctx, const struct hr_job_t *job);

// For free_fn: frees ctx, which may be NULL, and counts.
extern atomic_int test_freed;
void test_count_free(void *ctx);

// True if *value reaches at least n within some seconds.
bool test_reaches(atomic_int *value, int n);
void test_sleep(int64_t ns);
// Nanoseconds of CLOCK_THREAD_CPUTIME_ID and the like, without other work of a
// busy machine.
int64_t test_clock(clockid_t clock);
// The number behind the field in a file of /proc; -1: it is not there.
long test_proc(const char *path, const char *field);
#define TEST_MS INT64_C(1000000)

// Packed copy of a batch slot or an image; free().
uint8_t *test_copy(const void *data, size_t size);

// A picture of struct bytes, and n ops; then what else a sample has.
#define test_sample(bytes_of, list, n, ...)       \
    ((struct hr_sample){.data = (bytes_of)->data, \
                        .size = (bytes_of)->size, \
                        .ops = (list),            \
                        .num_ops = (n),           \
                        __VA_ARGS__})

// One op of an image, to memory of the same kind.
static inline hr_image test_apply(hr_device dev, hr_image src,
                                  const struct hr_op *op, enum hr_dtype dtype,
                                  enum hr_layout layout)
{
    struct hr_sample s = {.image = src, .ops = op, .num_ops = 1};

    return hr_apply(dev, &s,
                    hr_image_params(.dtype = dtype, .layout = layout,
                                    .memory = src->params.memory));
}

static inline hr_image test_decode_to(hr_device dev, const void *data,
                                      size_t size, enum hr_memory memory)
{
    struct hr_op op = hr_op_decode(0);
    struct hr_sample s = {.data = data, .size = size, .ops = &op, .num_ops = 1};

    return hr_apply(dev, &s,
                    hr_image_params(.dtype = HR_U8, .layout = HR_NHWC,
                                    .memory = memory));
}

#endif
