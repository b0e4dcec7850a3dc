// SPDX-License-Identifier: Apache-2.0
// How `headrace profile` fills its jobs: with random ops as they are, and without
// a look at any file by the thread that submits, unless sizes depend on them.
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "tools/profile/profile.h"
#include "testing.h"

enum { FILES = 20 };

// Reads in one profile_fill() with these ops, less those of test_reads() itself.
static long reads_of_fill(struct profile_child *c, const char *ops, bool fixed)
{
    struct hr_encoded read[FILES] = {{0}};
    struct profile_slot slot = {.read = read};
    struct run *run = &c->run;
    char error[320];
    long before, own;

    CU_ASSERT_FATAL(ops_from_text(&run->opt.ops, ops, error, sizeof(error)));
    run->w = 30;
    run->h = 20;
    run->fixed_shape = hr_ops_fixed_size(run->opt.ops.ops, run->opt.ops.num,
                                         &run->w, &run->h);
    CU_ASSERT_EQUAL(run->fixed_shape, fixed);
    run->equal_shapes = true;
    c->next = 0;
    own = test_reads();
    own = test_reads() - own;
    before = test_reads();
    CU_ASSERT(profile_fill(c, &slot));
    CU_ASSERT_EQUAL(slot.num, FILES);
    return test_reads() - before - own;
}

static void no_file_is_read(void)
{
    struct profile_child *c = calloc(1, sizeof(*c));
    struct run *run = &c->run;
    struct hr_sample samples[FILES];
    struct profile_picture pics[FILES] = {{0}};
    uint64_t seed = test_seed;
    long sized;

    if (test_reads() < 0) {
        test_not_run("no count of reads in /proc/thread-self/io");
        free(c);
        return;
    }
    for (int i = 0; i < FILES; i++) {
        struct bytes jpeg = test_jpeg(30, 20, &seed);

        CU_ASSERT_FATAL(inputs_add(&run->in, test_file(&jpeg, ".jpg")));
        free(jpeg.data);
    }
    c->samples = samples;
    c->pics = pics;
    run->batch = FILES;
    run->total = FILES;
    run->slot_bytes = 1 << 20;
    run->opt.seed = 77;
    run->epoch = 3;
    run->dev = test_device("cpu", 1, 0);
    CU_ASSERT_EQUAL(
        reads_of_fill(c, "random_resized_crop=8x6,random_hflip", true), 0);
    for (int i = 0; i < FILES; i++) {
        const struct hr_random *key = &samples[i].random;

        CU_ASSERT(key->seed == 77 && key->epoch == 3 &&
                  key->index == (uint64_t)i);
        CU_ASSERT_EQUAL(samples[i].num_ops, 3);
        CU_ASSERT_EQUAL(samples[i].ops[1].type, HR_OP_RANDOM_RESIZED_CROP);
    }
    // And the count is one.
    sized = reads_of_fill(c, "random_hflip", false);
    CHECK(sized >= FILES, "%ld reads", sized);
    for (int i = 0; i < run->batch; i++)
        free(pics[i].path);
    inputs_finish(&run->in);
    hr_device_close(&run->dev);
    free(c);
}

// A RecordIO file of n pictures of about 4000 bytes.
static const char *records(int n)
{
    struct bytes all = {NULL, 0};
    uint32_t head[8] = {htole32(0xced7230a), htole32(24 + 4000)};
    size_t each = sizeof(head) + 4000;
    const char *path;

    all.size = (size_t)n * each;
    all.data = calloc(1, all.size);
    for (int i = 0; i < n; i++)
        memcpy(all.data + (size_t)i * each, head, sizeof(head));
    path = test_file(&all, ".rec");
    free(all.data);
    return path;
}

// What is read to memory ends a job, too, and goes back with it.
static void what_is_read_is_bounded(void)
{
    struct profile_child *c = calloc(1, sizeof(*c));
    struct run *run = &c->run;
    struct hr_encoded read[FILES] = {{0}};
    struct profile_slot slot = {.read = read};
    struct hr_sample samples[FILES];
    struct profile_picture pics[FILES] = {{0}};
    char error[320];

    CU_ASSERT_FATAL(inputs_add(&run->in, records(FILES)));
    CU_ASSERT_FATAL(run->in.num == FILES);
    CU_ASSERT_FATAL(
        ops_from_text(&run->opt.ops, "center_crop=2", error, sizeof(error)));
    c->samples = samples;
    c->pics = pics;
    run->batch = FILES;
    run->total = FILES;
    run->slot_bytes = 13000;
    run->fixed_shape = run->equal_shapes = true;
    run->w = run->h = 2;
    for (size_t first = 0; first < 8; first += 4) {
        CU_ASSERT(profile_fill(c, &slot));
        CU_ASSERT_EQUAL(slot.first, first);
        CU_ASSERT_EQUAL(slot.num, 4);
        CU_ASSERT_EQUAL(samples[3].size, 4000);
        CU_ASSERT_PTR_EQUAL(samples[3].data, read[3].data);
        profile_release(c, &slot);
        CU_ASSERT_PTR_NULL(read[3].memory);
    }
    for (int i = 0; i < run->batch; i++)
        free(pics[i].path);
    inputs_finish(&run->in);
    free(c);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(no_file_is_read), TEST_CASE(what_is_read_is_bounded)};

    return test_main("profile_fill", cases, 2, argc, argv);
}
