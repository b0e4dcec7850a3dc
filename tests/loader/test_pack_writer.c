// SPDX-License-Identifier: Apache-2.0
// A writer that is interrupted: by kill -9 anywhere, by a full disk, by lack of
// memory. The old file stays, writing can be resumed, and the final file is the
// same, byte by byte.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "hal/base/base.h"
#include "loader/pack/format.h"
#include "pack_data.h"

enum { N = 24 };

static struct pack_datum data[N];

static void make_data(void)
{
    for (int i = 0; i < N && !data[i].entry.name; i++)
        pack_datum_make(&data[i], i, test_seed);
}

// All from number from on; HR_OK if the file is finished.
static enum hr_status add_all(hr_pack_writer w, int n)
{
    enum hr_status status = HR_OK;

    for (int i = (int)w->num; i < n && !status; i++)
        status = hr_pack_writer_add(w, &data[i].entry);
    return status;
}

static bool write_all(const char *path)
{
    hr_pack_writer w = hr_pack_writer_open(path);
    bool ok = w && !add_all(w, N) && !hr_pack_writer_finish(w);

    hr_pack_writer_close(&w);
    return ok;
}

static struct bytes whole(const char *path)
{
    struct bytes b = {0};

    if (!read_file(path, &b))
        b.data = calloc(1, 1);
    return b;
}

static bool is_same(const char *path, const struct bytes *want)
{
    auto_bytes got = whole(path);
    bool same = got.size == want->size &&
                !memcmp(got.data, want->data, got.size);

    return same;
}

static const char *part_of(const char *path)
{
    static char part[300];

    snprintf(part, sizeof(part), "%s.part", path);
    return part;
}

// The file that is to come out, at a path of its own.
static struct bytes wanted(void)
{
    const char *path = pack_path("wanted.hrp");

    make_data();
    CHECK(write_all(path), "%s", hr_last_error());
    CHECK(access(part_of(path), F_OK) < 0, "there is a part still");
    return whole(path);
}

// ---- Interrupted anywhere --------------------------------------------------

// As if the writer had ended after so many bytes, and what it did later were
// lost: goes on with them.
static void go_on_from(const char *path, const struct bytes *want, size_t size,
                       const char *what)
{
    hr_pack_writer w;
    size_t num;

    test_write(part_of(path), want->data, size);
    w = hr_pack_writer_open(path);
    num = w ? w->num : 0;
    CHECK(w && num <= N && !add_all(w, N) && !hr_pack_writer_finish(w),
          "%s %zu: %s", what, size, hr_last_error());
    hr_pack_writer_close(&w);
    CHECK(is_same(path, want), "%s %zu: from %zu on another file", what, size,
          num);
}

TEST_CASE(cut_parts)
{
    auto_bytes want = wanted(), part = want;
    const char *path = pack_path("cut.hrp");
    struct pack_header header;
    uint64_t seed = test_seed;
    size_t index;

    memcpy(&header, want.data, sizeof(header));
    index = (size_t)le64toh(header.index);
    // A header as it is before the end.
    part.data = test_copy(want.data, want.size);
    pack_header_init(&header);
    memcpy(part.data, &header, sizeof(header));
    for (size_t n = 0; n < 64; n += 5)
        go_on_from(path, &want, n, "finished");
    for (int i = 0; i < test_loops(40); i++) {
        size_t n = next_random(&seed) % (want.size + 1);

        test_write(part_of(path), part.data, n);
        go_on_from(path, &want, i % 2 ? n : index + n % (want.size - index),
                   "cut at");
    }
    go_on_from(path, &want, want.size, "all");
}

// Killed behind the last byte of a picture, before the zeros: it is whole.
TEST_CASE(ends_of_data)
{
    auto_bytes want = wanted();
    const char *path = pack_path("ends.hrp");
    const struct pack_index *e =
        (const void *)(want.data + le64toh(((uint64_t *)(void *)want.data)[4]));

    for (size_t i = 0; i < N; i++) {
        hr_pack_writer w;

        test_write(part_of(path), want.data,
                   (size_t)(le64toh(e[i].offset) + le64toh(e[i].size)));
        w = hr_pack_writer_open(path);
        CHECK(w && w->num == i + 1, "%zu: %zu are kept", i, w ? w->num : 0);
        hr_pack_writer_close(&w);
        go_on_from(path, &want, (size_t)le64toh(e[i].offset), "data of");
    }
}

// Lack of memory during a resume does not cut the file.
TEST_CASE(no_memory_to_go_on)
{
    auto_bytes want = wanted();
    const char *path = pack_path("less.hrp");
    bool done = false;

    for (int nth = 1; nth < 100 && !done; nth++) {
        hr_pack_writer w;

        test_write(part_of(path), want.data, want.size);
        hr__test_fail_alloc(nth, false);
        w = hr_pack_writer_open(path);
        hr__test_fail_alloc(0, false);
        done = w != NULL;
        CHECK(done ? w->num == N : hr_last_status() == HR_ENOMEM, "%d: %s", nth,
              hr_last_error());
        hr_pack_writer_close(&w);
    }
    CHECK(done, "it never opens");
}

// Number k is damaged on disk: those before it are kept.
TEST_CASE(damaged_parts)
{
    auto_bytes want = wanted();
    const char *path = pack_path("damaged.hrp");
    hr_pack_file file = NULL;
    uint64_t seed = test_seed;
    size_t ends[N];

    test_write(path, want.data, want.size);
    file = hr_pack_open(path);
    for (size_t i = 0; file && i < N; i++) {
        const struct pack_index *e =
            (const void *)(want.data +
                           le64toh(((uint64_t *)(void *)want.data)[4]));

        ends[i] = (size_t)(le64toh(e[i].offset) + le64toh(e[i].size));
    }
    hr_pack_close(&file);
    for (int k = 0; k < N; k++) {
        size_t begin = k ? (ends[k - 1] + 63) / 64 * 64 : 64;
        size_t at = begin + next_random(&seed) % 64;
        hr_pack_writer w;

        if (k % 2 && data[k].entry.size)
            at = ends[k] - 1 - next_random(&seed) % data[k].entry.size;
        want.data[at] ^= 1;
        test_write(part_of(path), want.data, want.size);
        want.data[at] ^= 1;
        w = hr_pack_writer_open(path);
        CHECK(w && w->num == (size_t)k, "%d: %zu are kept", k, w ? w->num : 0);
        CHECK(w && !add_all(w, N) && !hr_pack_writer_finish(w), "%s",
              hr_last_error());
        hr_pack_writer_close(&w);
        CHECK(is_same(path, &want), "%d: another file", k);
    }
}

// ---- kill -9 ---------------------------------------------------------------

static void child(const char *path)
{
    for (;;)
        if (!write_all(path))
            _exit(1);
}

// The process writes the file again and again; wherever it is killed, the old
// one, the same one or none is there, and the next writer goes on.
TEST_CASE(killed)
{
    int rounds = getenv("HEADRACE_TEST_LONG") ? 200 : 20, resumed = 0;
    auto_bytes want = wanted();
    const char *path = pack_path("killed.hrp");
    uint64_t seed = test_seed;

    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();
        hr_pack_writer w;

        if (!pid)
            child(path);
        test_sleep((int64_t)(next_random(&seed) % 20000) * 1000);
        CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid, "kill");
        CHECK(access(path, F_OK) < 0 || is_same(path, &want), "%d: half", i);
        w = hr_pack_writer_open(path);
        CHECK(w != NULL, "%s", hr_last_error());
        resumed += w && w->num;
        CHECK(w && !add_all(w, N) && !hr_pack_writer_finish(w), "%s",
              hr_last_error());
        hr_pack_writer_close(&w);
        CHECK(is_same(path, &want), "%d: another file", i);
        CHECK(access(part_of(path), F_OK) < 0, "%d: a part is left", i);
        if (i % 3 == 0)
            unlink(path);
    }
    printf("%d of %d went on with something\n", resumed, rounds);
}

// ---- What may go wrong -----------------------------------------------------

TEST_CASE(not_ours)
{
    const char *path = pack_path("foreign.hrp");
    static const char text[] = "a letter to a friend";
    char back[64];

    test_write(part_of(path), text, sizeof(text));
    CHECK(!hr_pack_writer_open(path) && hr_last_status() == HR_EFORMAT,
          "a foreign file is taken");
    CHECK(test_read(part_of(path), back, sizeof(back)) == sizeof(text) &&
              !strcmp(back, text),
          "the foreign file is gone");
    path = pack_path("fifo.hrp");
    CHECK(!mkfifo(part_of(path), 0600), "fifo");
    CHECK(!hr_pack_writer_open(path) && hr_last_status() == HR_EFORMAT,
          "a FIFO is taken");
}

// The name of the unfinished file is no way to another one.
TEST_CASE(links)
{
    auto_bytes want = wanted();
    const char *path = pack_path("linked.hrp"), *other;
    struct bytes empty = {0}, seen = {0};

    for (int kind = 0; kind < 6; kind++) {
        const struct bytes *was = kind % 3 == 1 ? &empty : &want;

        unlink(part_of(path));
        unlink(path);
        other = pack_path(kind < 3 ? "soft" : "hard");
        unlink(other);
        if (kind % 3)  // else to no file, or one that is just begun
            test_write(other, was->data, was->size);
        else if (kind)
            test_write(other, "HRPA", 4);
        CHECK(!(kind < 3 ? symlink : link)(other, part_of(path)), "link");
        CHECK(!hr_pack_writer_open(path) && hr_last_status() == HR_EFORMAT,
              "%d: %s", kind, hr_last_error());
        CHECK(kind || access(other, F_OK) < 0, "a file was made");
        if (kind % 3) {
            CHECK(read_file(other, &seen) && seen.size == was->size &&
                      (!seen.size || !memcmp(seen.data, was->data, seen.size)),
                  "%d: it was changed", kind);
            free(seen.data);
        }
        unlink(part_of(path));
        CHECK(write_all(path) && is_same(path, &want), "%s", hr_last_error());
    }
}

TEST_CASE(one_writer)
{
    const char *path = pack_path("one.hrp");
    hr_pack_writer a, b;
    struct hr_pack_entry e;
    hr_pack_file file;

    make_data();
    a = hr_pack_writer_open(path);
    b = hr_pack_writer_open(path);
    CHECK(a && !b && hr_last_status() == HR_EAGAIN, "two at a time");
    CHECK(a && !hr_pack_writer_add(a, &data[0].entry), "%s", hr_last_error());
    CHECK(a && hr_pack_writer_entry(a, 0, &e) == HR_OK && !e.data &&
              !strcmp(e.name, data[0].name) && e.source == data[0].file.size,
          "what is in it");
    CHECK(a && hr_pack_writer_entry(a, 1, &e) == HR_EINVAL, "one only");
    hr_pack_writer_close(&a);
    CHECK(!hr_pack_open(part_of(path)) && hr_last_status() == HR_ETRUNCATED &&
              strstr(hr_last_error(), "never finished"),
          "%s", hr_last_error());
    a = hr_pack_writer_open(path);
    CHECK(a && a->num == 1 && !hr_pack_writer_finish(a), "%s", hr_last_error());
    b = hr_pack_writer_open(path);  // of a new file: that one has its name
    CHECK(b && b->num == 0, "%s", hr_last_error());
    hr_pack_writer_close(&a);
    file = hr_pack_open(path);
    CHECK(file && file->num == 1, "%s", hr_last_error());
    hr_pack_close(&file);
    hr_pack_writer_close(&b);
}

TEST_CASE(cut_back)
{
    auto_bytes want = wanted();
    const char *path = pack_path("back.hrp");
    hr_pack_writer w = hr_pack_writer_open(path);

    CHECK(w && !add_all(w, N) && hr_pack_writer_cut(w, N + 1) == HR_EINVAL,
          "%s", hr_last_error());
    for (int k = N; w && k >= 0; k -= 5)
        CHECK(!hr_pack_writer_cut(w, (size_t)k) && w->num == (size_t)k, "%s",
              hr_last_error());
    CHECK(w && !hr_pack_writer_cut(w, 0) && !add_all(w, N) &&
              !hr_pack_writer_finish(w),
          "%s", hr_last_error());
    hr_pack_writer_close(&w);
    CHECK(is_same(path, &want), "another file");
}

// A disk that is full, later has room again.
TEST_CASE(full_disk)
{
    auto_bytes want = wanted();
    const char *path = pack_path("full.hrp");
    struct rlimit was, low;
    hr_pack_writer w;
    int failed = 0;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was);
    w = hr_pack_writer_open(path);
    for (size_t room = 100; w && room < want.size; room += want.size / 29) {
        low = (struct rlimit){room, was.rlim_max};
        setrlimit(RLIMIT_FSIZE, &low);
        failed += add_all(w, N) == HR_EIO || hr_pack_writer_finish(w) == HR_EIO;
        setrlimit(RLIMIT_FSIZE, &was);
    }
    CHECK(failed == 30 || failed == 29, "%d failed", failed);
    CHECK(access(path, F_OK) < 0, "there is a file");
    CHECK(w && !add_all(w, N) && !hr_pack_writer_finish(w), "%s",
          hr_last_error());
    hr_pack_writer_close(&w);
    signal(SIGXFSZ, SIG_DFL);
    CHECK(is_same(path, &want), "another file");
}

TEST_CASE(no_memory)
{
    auto_bytes want = wanted();
    const char *path = pack_path("memory.hrp");
    hr_pack_file file = NULL;
    int failed = 0;
    bool done = false;

    for (int nth = 1; nth < 1000 && !done; nth++) {
        hr__test_fail_alloc(nth, false);
        done = write_all(path);
        if (!done)
            CHECK(hr_last_status() == HR_ENOMEM, "%d: %s", nth,
                  hr_last_error());
        file = hr_pack_open(path);
        hr__test_fail_alloc(0, false);
        failed += !done;
        hr_pack_close(&file);
    }
    CHECK(done && failed >= 4, "%d allocations failed", failed);
    CHECK(is_same(path, &want), "another file");
    for (int nth = 1; nth <= 2; nth++) {
        hr__test_fail_alloc(nth, false);
        CHECK(!hr_pack_open(path) && hr_last_status() == HR_ENOMEM, "%d", nth);
        hr__test_fail_alloc(0, false);
    }
}

int main(int argc, char **argv)
{
    int code = test_main(argc, argv);

    for (int i = 0; i < N; i++)
        if (data[i].entry.name)
            pack_datum_finish(&data[i]);
    return code;
}
