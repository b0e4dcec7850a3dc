// SPDX-License-Identifier: Apache-2.0
// A trace beside slow readers and threads: while a slow reader holds up
// writing, and when the library is closed under threads that have been in it.
#include <dlfcn.h>
#include <fcntl.h>
#include <headrace/trace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "testing.h"

// ---- A slow reader ----------------------------------------------------------

enum { SPANS = 8000 };

static void *write_trace(void *path)
{
    return hr_trace_write(path) == HR_OK ? path : NULL;
}

// A thread that the trace has not seen before.
static void *first_span(void *arg)
{
    int64_t begin = hr__now();

    hr_trace_span("first", begin, begin + 1);
    atomic_store((_Atomic int64_t *)arg, hr__now() - begin);
    return NULL;
}

static size_t read_rest(int fd)
{
    static char some[65536];
    size_t size = 0;
    ssize_t n;

    while ((n = read(fd, some, sizeof(some))) > 0)
        size += (size_t)n;
    return size;
}

TEST_CASE(slow_reader)
{
    char path[300], one;
    pthread_t writer, other;
    _Atomic int64_t took = INT64_MAX;
    void *written = NULL;
    int fd;

    snprintf(path, sizeof(path), "%s/pipe", test_folder());
    CHECK(!mkfifo(path, 0600), "a pipe");
    CHECK(hr_trace_start(NULL) == HR_OK, "%s", hr_last_error());
    for (int i = 0; i < SPANS; i++)
        hr_trace_span("span", i, i + 1);
    if (pthread_create(&writer, NULL, write_trace, path))
        abort();
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || read(fd, &one, 1) != 1)
        abort();
    // It stands in the middle of the file now, for longer than that takes.
    test_sleep(100 * TEST_MS);
    if (pthread_create(&other, NULL, first_span, &took))
        abort();
    for (int i = 0; i < 60000 && atomic_load(&took) == INT64_MAX; i++)
        test_sleep(TEST_MS);
    CHECK(atomic_load(&took) < INT64_MAX, "a thread waited for the reader");
    CHECK(read_rest(fd) > SPANS * 40, "the file ends early");
    pthread_join(other, NULL);
    pthread_join(writer, &written);
    close(fd);
    hr_trace_stop();
    CHECK(written != NULL, "it was not written");
}

// ---- A library that is closed -----------------------------------------------

#ifdef HR_LIBRARY
static atomic_int stage;

static void *use_and_stay(void *library)
{
    void (*span)(const char *, int64_t, int64_t);
    void *entry = dlsym(library, "hr_trace_span");

    memcpy(&span, &entry, sizeof(span));
    span("span", 1, 2);
    atomic_store(&stage, 1);
    while (atomic_load(&stage) != 2)
        test_sleep(TEST_MS);
    return NULL;
}

static int close_under_a_thread(void)
{
    void *library = dlopen(HR_LIBRARY, RTLD_NOW | RTLD_LOCAL), *entry;
    enum hr_status (*start)(const struct hr_trace_params *);
    pthread_t thread;

    if (!library || !(entry = dlsym(library, "hr_trace_start")))
        return 2;
    memcpy(&start, &entry, sizeof(start));
    if (start(NULL) || pthread_create(&thread, NULL, use_and_stay, library))
        return 3;
    while (atomic_load(&stage) != 1)
        test_sleep(TEST_MS);
    if (dlclose(library))
        return 4;
    atomic_store(&stage, 2);
    pthread_join(thread, NULL);
    return 0;
}
#endif

TEST_CASE(closed_library)
{
#ifdef HR_LIBRARY
    int status = -1;
    pid_t pid;

    if (TEST_SANITIZED)
        return test_not_run("fork under a sanitizer");
    if (!(pid = fork()))
        _exit(close_under_a_thread());
    waitpid(pid, &status, 0);
    CHECK(!status, "it ends with %d, signal %d",
          WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          WIFSIGNALED(status) ? WTERMSIG(status) : 0);
#else
    test_not_run("no shared library was built");
#endif
}
