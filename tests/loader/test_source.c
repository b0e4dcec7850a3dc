// SPDX-License-Identifier: Apache-2.0
// Sources: the samples that they name, in which order, with which labels; the
// bytes that they read; and how little memory a million entries take. (More of
// folders and lists is in tools/test_tools_files.c, by the command's view of a
// source.)
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "hal/base/base.h"
#include "loader/source/source.h"
#include "loader_data.h"

enum { N = 30 };

static void check_name(hr_source s, uint64_t i, const char *want,
                       const char *label, int64_t class_of)
{
    char name[4200];
    const char *got = hr_source_name(s, i, name, sizeof(name));

    CHECK(got && !strcmp(got, want), "%d is %s, not %s", (int)i, got, want);
    CHECK(!strcmp(hr_source_item(s, i).label, label) &&
              hr_source_class(s, i) == class_of,
          "%d: label %s, class %d", (int)i, hr_source_item(s, i).label,
          (int)hr_source_class(s, i));
}

TEST_CASE(folders)
{
    const char *dir = data_folder(N, test_seed);
    auto_source s = hr_source_open(dir);
    const char *const *classes;
    char path[4200];
    size_t num;

    CHECK(s && s->num == N && !s->num_faults, "%s", hr_last_error());
    check_name(s, 0, "a/002.jpg", "a", 0);
    check_name(s, N - 1, "d/028.jpg", "d", 3);
    classes = hr_source_classes(s, &num);
    CHECK(num == 4 && !strcmp(classes[0], "a") && !strcmp(classes[3], "d"),
          "classes");
    snprintf(path, sizeof(path), "%s/other.png", dir);
    CHECK(!hr_source_add_file(s, path, "aa") && s->num == N + 1, "%s",
          hr_last_error());
    check_name(s, N, "other.png", "aa", 1);
    check_name(s, N - 1, "d/028.jpg", "d", 4);
    CHECK(hr_source_add(s, "/no/such") == HR_EIO &&
              strstr(hr_last_error(), "/no/such: "),
          "%s", hr_last_error());
    CHECK(hr_source_add(s, "/dev/null") == HR_EINVAL, "%s", hr_last_error());
    CHECK(hr_source_add(NULL, dir) == HR_EINVAL, "no source");
    // A sample behind the end has no name.
    check_name(s, s->num, "", "", -1);
    hr_source_close(&s);
}

static void *ask(void *source)
{
    hr_source s = source;
    size_t num;

    return hr_source_class(s, N - 1) == 3 && hr_source_identity(s) &&
                   hr_source_classes(s, &num) && num == 4
               ? source
               : NULL;
}

// A child asks of a source whose lock another thread had at fork().
TEST_CASE(forked)
{
    auto_source s = hr_source_open(data_folder(N, test_seed));
    struct hr__source *inside = hr__source_of(s);
    int status = 0;
    pid_t child;

    pthread_mutex_lock(&inside->lock);
    if (!(child = fork())) {
        pthread_t threads[4];
        int good = 0;

        alarm(20);
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, ask, (void *)(uintptr_t)s);
        for (int i = 0; i < 4; i++) {
            void *was;

            pthread_join(threads[i], &was);
            good += was != NULL;
        }
        _exit(good != 4);
    }
    pthread_mutex_unlock(&inside->lock);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
    // Known facts are told without the lock.
    CHECK(ask((void *)(uintptr_t)s), "the parent");
    pthread_mutex_lock(&inside->lock);
    CHECK(ask((void *)(uintptr_t)s), "with the lock");
    pthread_mutex_unlock(&inside->lock);
}

TEST_CASE(identities)
{
    const char *dir = data_folder(N, test_seed);
    const char *copy = data_folder(N, test_seed);
    const char *less = data_folder(N - 1, test_seed);
    auto_source a = hr_source_open(dir), b = hr_source_open(copy);
    auto_source c = hr_source_open(less), d = hr_source_create();

    hr_source_add(d, less);
    hr_source_add_file(d, "x.jpg", NULL);
    CHECK(a && b && hr_source_identity(a) == hr_source_identity(b),
          "the place counts");
    CHECK(hr_source_identity(a) != hr_source_identity(c), "the number");
    CHECK(hr_source_identity(a) != hr_source_identity(d), "a name");
}

// ---- Reading ---------------------------------------------------------------

static void check_read(hr_source s, uint64_t i, struct hr_encoded *to,
                       const struct bytes *want)
{
    CHECK(!hr_source_read(s, i, 0, to) && to->size == want->size &&
              !memcmp(to->data, want->data, want->size),
          "%d: %s", (int)i, hr_last_error());
}

static void read_faults(hr_source s, const char *dir, struct hr_encoded *to)
{
    char path[4200];
    uint64_t at = s->num;

    snprintf(path, sizeof(path), "%s/pipe", dir);
    CHECK(!mkfifo(path, 0600), "fifo");
    hr_source_add_file(s, path, NULL);
    hr_source_add_file(s, dir, NULL);
    hr_source_add_file(s, "/no/such.jpg", NULL);
    CHECK(hr_source_read(s, at, 0, to) == HR_EIO &&
              strstr(hr_last_error(), "pipe: read: not a regular file"),
          "%s", hr_last_error());
    CHECK(hr_source_read(s, at + 1, 0, to) == HR_EIO, "a folder");
    CHECK(hr_source_read(s, at + 2, 0, to) == HR_EIO &&
              strstr(hr_last_error(), "/no/such.jpg: read: No such file"),
          "%s", hr_last_error());
    CHECK(hr_source_read(s, at + 3, 0, to) == HR_EINVAL, "behind the end");
    CHECK(hr_source_read(s, 0, 10, to) == HR_ELIMIT, "the limit");
    hr__test_fail_alloc(1, true);
    hr_encoded_finish(to);
    CHECK(hr_source_read(s, 0, 0, to) == HR_ENOMEM, "%s", hr_last_error());
    hr__test_fail_alloc(0, false);
}

// Neither a status nor a text that is what it should be.
static enum hr_status read_oddly(void *ctx, uint64_t i, struct hr_encoded *to,
                                 char message[256])
{
    (void)ctx;
    (void)i;
    (void)to;
    memset(message, 'x', 256);
    return HR_PENDING;
}

TEST_CASE(odd_callback)
{
    const struct hr_source_calls odd = {.num = 1, .read = read_oddly};
    auto_source s = hr_source_of_calls(&odd);
    auto_encoded to = {0};

    CHECK(hr_source_read(s, 0, 0, &to) == HR_EIO &&
              !strncmp(hr_last_error(), "sample 0: read: xxx", 19),
          "%s", hr_last_error());
}

TEST_CASE(reading)
{
    const char *dir = data_folder(N, test_seed);
    hr_source files = hr_source_open(dir), calls;
    hr_source pack = hr_source_open(data_pack(dir));
    struct hr_encoded to = {0}, packed = {0};
    struct data_calls c;
    char path[4200];

    data_calls_init(&c, N, test_seed);
    calls = hr_source_of_calls(&c.calls);
    CHECK(files && pack && pack->num == N && calls, "%s", hr_last_error());
    CHECK(hr_source_identity(files) == hr_source_identity(pack),
          "a pack file is the same set");
    for (uint64_t i = 0; i < N; i++) {
        struct bytes file = {0};

        hr_source_path(files, i, path, sizeof(path));
        CHECK(read_file(path, &file), "%s", path);
        check_read(files, i, &to, &file);
        free(file.data);
        check_read(calls, i, &to, &c.files[i]);
        CHECK(!hr_source_read(pack, i, 0, &packed) && packed.verified, "%s",
              hr_last_error());
    }
    CHECK(atomic_load(&c.done) == N, "%d given back", atomic_load(&c.done));
    read_faults(files, dir, &to);
    hr_encoded_finish(&to);
    hr_encoded_finish(&packed);
    hr_source_close(&files);
    hr_source_close(&pack);
    hr_source_close(&calls);
    data_calls_finish(&c, N);
}

// ---- Memory ----------------------------------------------------------------

TEST_CASE(no_memory)
{
    const char *dir = data_folder(N, test_seed);
    bool done = false;
    int nth;

    for (nth = 1; nth < 100 && !done; nth++) {
        auto_source s = NULL;
        size_t num;

        hr__test_fail_alloc(nth, false);
        s = hr_source_create();
        done = s && !hr_source_add(s, dir) && hr_source_classes(s, &num);
        hr__test_fail_alloc(0, false);
        CHECK(done ? s->num == N : hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
        // A folder that failed can be added again.
        CHECK(!s || s->num || (!hr_source_add(s, dir) && s->num == N),
              "%d: %d samples", nth, s ? (int)s->num : 0);
    }
    CHECK(done && nth > 5, "%d", nth);
}

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

// Time and memory of n entries of a list, in a thousand folders.
TEST_CASE(many)
{
    int n = getenv("HEADRACE_TEST_LONG") ? 1000000 : 100000;
    const char *dir = test_folder();
    char path[4200];
    auto_source s = hr_source_create();
    size_t before = in_use(), held, num;
    int64_t begun;
    double seconds;
    FILE *f;

    snprintf(path, sizeof(path), "%s/list.txt", dir);
    f = fopen(path, "w");
    for (int i = 0; i < n; i++)
        fprintf(f, "train/n%08d/n%08d_%d.JPEG\tn%08d\n", i % 1000, i % 1000, i,
                i % 1000);
    fclose(f);
    begun = test_clock(CLOCK_THREAD_CPUTIME_ID);
    CHECK(!hr_source_add_list(s, path, false) && s->num == (uint64_t)n, "%s",
          hr_last_error());
    hr_source_classes(s, &num);
    seconds = (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e9;
    held = in_use() - before;
    printf("%d entries: %.3f s, %.1f bytes each\n", n, seconds,
           (double)held / n);
    CHECK(num == 1000, "%zu classes", num);
    CHECK(TEST_SANITIZED || seconds <= 2e-6 * n, "%.3f s", seconds);
    CHECK(TEST_SANITIZED || held <= 200 * (size_t)n, "%zu bytes", held);
    begun = test_clock(CLOCK_THREAD_CPUTIME_ID);
    hr_source_identity(s);
    printf("identity: %.3f s\n",
           (double)(test_clock(CLOCK_THREAD_CPUTIME_ID) - begun) / 1e9);
}
