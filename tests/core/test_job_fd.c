// SPDX-License-Identifier: Apache-2.0
// hr_job_fd() in an event loop: readable when the job is done, and silent from
// the caller's release on, however long the library holds the job.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include "scene.h"

enum { SIDE = 8 };

struct loop {
    hr_device dev;
    hr_image from, to;
    int epoll;
};

static void set_up(struct loop *l)
{
    l->dev = test_device("cpu", 2, 0);
    l->from = scene_blank(l->dev, SIDE);
    l->to = scene_blank(l->dev, SIDE);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK(l->epoll >= 0, "%s", strerror(errno));
}

static void tear_down(struct loop *l)
{
    close(l->epoll);
    hr_image_release(&l->from);
    hr_image_release(&l->to);
    hr_device_close(&l->dev);
}

// A job, watched by the loop, that has ended as the loop says.
static hr_job ended_job(struct loop *l, int *fd)
{
    hr_job job = scene_copy(l->dev, l->from, l->to, NULL);
    struct epoll_event e = {.events = EPOLLIN};

    *fd = hr_job_fd(job);
    CHECK(*fd >= 0 && !epoll_ctl(l->epoll, EPOLL_CTL_ADD, *fd, &e), "fd %d",
          *fd);
    CHECK(epoll_wait(l->epoll, &e, 1, 10000) == 1, "never readable");
    CHECK(hr_job_poll(job, 0) == HR_OK, "readable, and not done");
    return job;
}

static int events_left(const struct loop *l)
{
    struct epoll_event e;

    return epoll_wait(l->epoll, &e, 1, 0);
}

TEST_CASE(silent_after_release)
{
    struct loop l;
    int fd, loud = 0, n = test_loops(3000);

    set_up(&l);
    for (int i = 0; i < n; i++) {
        hr_job job = ended_job(&l, &fd);

        hr_job_release(&job);
        loud += events_left(&l) != 0;
    }
    CHECK(loud == 0, "%d of %d told of jobs that were released", loud, n);
    tear_down(&l);
}

// The same without chance: the library keeps the job as long as it likes.
TEST_CASE(closed_while_held)
{
    struct loop l;
    int fd;

    set_up(&l);
    for (int i = 0; i < 10; i++) {
        hr_job job = ended_job(&l, &fd);
        struct hr__job *held = (struct hr__job *)(uintptr_t)job;

        atomic_fetch_add(&held->refs, 1);
        hr_job_release(&job);
        CHECK(!events_left(&l), "an event of a job that was released");
        CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF, "fd %d is open", fd);
        hr__job_unref(held);
    }
    tear_down(&l);
}

// Released before its end: nothing comes any more, and the job ends as it
// would.
TEST_CASE(released_early)
{
    struct test_done done = {0};
    OWN(scene_finish) struct scene s = {0};
    struct hr_job_params p = {.on_done = test_on_done, .ctx = &done};
    auto_device dev = NULL;
    hr_job job;
    int fd;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .gate = true);
    dev = test_device("fake", 1, 0);
    scene_init(&s, dev, 2, SCENE_BYTES);
    job = hr_submit(dev, s.samples, s.n, s.out, &p);
    fd = hr_job_fd(job);
    CHECK(job && fd >= 0, "%s", hr_last_error());
    hr_job_release(&job);
    CHECK(fcntl(fd, F_GETFD) < 0 && errno == EBADF, "fd %d is open", fd);
    fake_gate_open();
    CHECK(hr_wait_all(dev, HR_FOREVER) == HR_OK, "%s", hr_last_error());
    CHECK(atomic_load(&done.calls) == 1, "%d calls", atomic_load(&done.calls));
}
