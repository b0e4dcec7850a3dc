// SPDX-License-Identifier: Apache-2.0
// Order when something fails on the way: a producer fails, a writer is
// cancelled before its turn. No job may read other pixels than it waits for.
#include "scene.h"

enum { SIDE = 16 };

TEST_CASE(failed_producers)
{
    uint64_t seed = test_seed;
    auto_bytes bad = test_damaged(64, 64, &seed);
    auto_device dev = test_device("cpu", 2, 0);
    hr_image a = hr_decode(dev, bad.data, bad.size, NULL);
    hr_image b = hr_resize(dev, a, &(struct hr_resize){.w = 9, .h = 9});
    hr_image c = hr_apply_op(dev, b, &hr_op_flip(.vertical = true));
    hr_image good = test_image(dev, 9, 9, 3, &seed);
    hr_job job;

    CHECK(a && b && c, "%s", hr_last_error());
    CHECK(hr_image_wait(a, HR_FOREVER) == HR_ETRUNCATED, "a: %s",
          hr_last_error());
    CHECK(hr_image_wait(b, HR_FOREVER) == HR_EINPUT, "b: %s", hr_last_error());
    CHECK(hr_image_wait(c, HR_FOREVER) == HR_EINPUT, "c: %s", hr_last_error());
    CHECK(hr_last_status() == HR_EINPUT, "last status");
    // Written again, it is good again.
    job = scene_copy(dev, good, b, NULL);
    hr_image_release(&c);
    c = hr_apply_op(dev, b, &hr_op_flip(.vertical = true));
    CHECK(hr_image_wait(b, HR_FOREVER) == HR_OK, "b again");
    CHECK(hr_image_wait(c, HR_FOREVER) == HR_OK, "c again");
    hr_job_release(&job);
    hr_image_release(&a);
    hr_image_release(&b);
    hr_image_release(&c);
    hr_image_release(&good);
    check_idle(dev);
}

// A writer is cancelled before its turn: the memory is not its own, and a job
// that wanted its pixels must not read those of another.
TEST_CASE(cancelled_before_its_turn)
{
    uint64_t seed = test_seed;
    auto_device dev = NULL;
    hr_image a, b, x, y, z;
    hr_job first, reader, second, third, last;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, 0);
    a = test_image(dev, SIDE, SIDE, 3, &seed);
    b = test_image(dev, SIDE, SIDE, 3, &seed);
    x = scene_blank(dev, SIDE);
    y = scene_blank(dev, SIDE);
    z = scene_blank(dev, SIDE);
    first = scene_copy(dev, a, x, NULL);
    reader = scene_copy(dev, x, y, NULL);  // of first
    second = scene_copy(dev, b, x, NULL);  // waits for reader
    third = scene_copy(dev, x, z, NULL);   // of second
    CHECK(test_reaches(&fake_counts.begun, 1), "first");
    hr_job_cancel(second);
    CHECK(hr_job_wait(second, HR_FOREVER) == HR_ECANCELED, "at once");
    CHECK(hr_job_poll(first, 0) == HR_PENDING, "first is still at work");
    last = scene_copy(dev, x, z, NULL);  // of second, too
    fake_gate_open();
    CHECK(hr_job_wait(first, HR_FOREVER) == HR_OK, "first");
    CHECK(hr_job_wait(reader, HR_FOREVER) == HR_OK, "reader");
    CHECK(!memcmp(y->params.data, a->params.data, y->size),
          "the reader's source was cleared under it");
    CHECK(hr_job_wait(third, HR_FOREVER) == HR_EINPUT, "third read first's");
    CHECK(hr_job_wait(last, HR_FOREVER) == HR_EINPUT, "last read first's");
    CHECK(hr_image_wait(x, HR_FOREVER) == HR_ECANCELED, "x is not b");
    hr_job_release(&first);
    first = scene_copy(dev, b, x, NULL);
    CHECK(hr_job_wait(first, HR_FOREVER) == HR_OK &&
              hr_image_wait(x, 0) == HR_OK,
          "written again");
    hr_job_release(&first);
    hr_job_release(&reader);
    hr_job_release(&second);
    hr_job_release(&third);
    hr_job_release(&last);
    hr_image_release(&a);
    hr_image_release(&b);
    hr_image_release(&x);
    hr_image_release(&y);
    hr_image_release(&z);
    check_idle(dev);
}

// The same while a reader is at the memory: it is not cleared under the reader.
TEST_CASE(cancelled_behind_a_reader)
{
    uint64_t seed = test_seed;
    auto_device dev = NULL;
    auto_image x = NULL, y = NULL, z = NULL;
    auto_job reader = NULL, writer = NULL;
    auto_heap uint8_t *before = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 2, 0);
    x = test_image(dev, SIDE, SIDE, 3, &seed);
    y = test_image(dev, SIDE, SIDE, 3, &seed);
    z = scene_blank(dev, SIDE);
    before = test_copy(x->params.data, x->size);
    reader = scene_copy(dev, x, z, NULL);
    writer = scene_copy(dev, y, x, NULL);
    CHECK(test_reaches(&fake_counts.begun, 1), "the reader");
    hr_job_cancel(writer);
    CHECK(hr_job_wait(writer, HR_FOREVER) == HR_ECANCELED, "at once");
    CHECK(!memcmp(x->params.data, before, x->size), "x was cleared");
    fake_gate_open();
    CHECK(hr_job_wait(reader, HR_FOREVER) == HR_OK, "the reader");
    CHECK(!memcmp(z->params.data, before, z->size), "z is not x");
}
