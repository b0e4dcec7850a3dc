// SPDX-License-Identifier: Apache-2.0
// Files that the command leaves on disk are whole, also when the power fails,
// and lie where it was told to put them; and its children end.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tools/common/out_file.h"
#include "tools/profile/profile.h"
#include "tools/samples/out.h"
#include "testing.h"
#include "tools/common/tools.h"
#include "tools/samples/samples.h"
#include "tools/run/run.h"

// ---- What is called, and in which order -------------------------------------

static int syncs, folder_syncs, renames;
static int syncs_at_rename, folder_syncs_at_rename;  // at the last one

// The command's calls come here: this program has it in it.
int fsync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
    folder_syncs++;
    return (int)syscall(SYS_syncfs, fd);
}

int rename(const char *from, const char *to)
{
    renames++;
    syncs_at_rename = syncs;
    folder_syncs_at_rename = folder_syncs;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void forget(void)
{
    syncs = folder_syncs = renames = 0;
    syncs_at_rename = folder_syncs_at_rename = 0;
}

// ---- Files ------------------------------------------------------------------

static bool put(const char *path, bool part)
{
    struct out_file file = OUT_FILE_CLOSED;

    return (part ? out_file_open_part : out_file_open)(&file, path) &&
           out_file_write(&file, "new", 3) && out_file_close(&file) &&
           out_file_rename(&file);
}

static bool holds(const char *path, const char *text)
{
    char bytes[16] = "";
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes) - 1);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(text) && !strcmp(bytes, text);
}

TEST_CASE(one_file)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/x", test_folder());
    forget();
    CHECK(put(path, false), "%s", strerror(errno));
    CHECK(syncs_at_rename == 1 && renames == 1, "%d syncs before the name",
          syncs_at_rename);
}

// A planted link: its target stays as it is.
TEST_CASE(part_of_a_folder)
{
    const char *dir = test_folder();
    char path[300], far[300];

    snprintf(path, sizeof(path), "%s/x", dir);
    snprintf(far, sizeof(far), "%s/far", dir);
    CHECK(put(far, false) && !symlink("far", path), "a link");
    forget();
    CHECK(!truncate(far, 0) && put(path, true), "%s", strerror(errno));
    CHECK(holds(far, "") && holds(path, "new"), "the link was followed");
    CHECK(!syncs, "%d syncs of one of many", syncs);
    CHECK(out_folder_sync(dir) && folder_syncs == 1, "the folder");
    CHECK(!out_folder_sync("/no-such-folder") && errno == ENOENT, "no folder");
}

// ---- Commands ---------------------------------------------------------------

static int samples(const char *dir)
{
    const char *args[] = {"headrace samples", dir,      "--count", "3",
                          "--photos-only",    "--seed", "1",       NULL};
    char *argv[8];

    memcpy(argv, args, sizeof(args));
    return cmd_samples(7, argv);
}

static int run(const char *from, const char *out)
{
    const char *args[] = {"headrace run", from,  "--ops", "decode,resize=8x8",
                          "--backend",    "cpu", "--out", out,
                          "-q",           NULL};
    char *argv[10];

    memcpy(argv, args, sizeof(args));
    return cmd_run(9, argv);
}

// Many files are synced once, before the file that names them has its name; an
// array and its manifest each.
TEST_CASE(commands)
{
    const char *dir = test_folder();
    char in[300], out[300];

    snprintf(in, sizeof(in), "%s/in", dir);
    forget();
    CHECK(samples(in) == TOOLS_OK, "samples");
    CHECK(renames == 4 && folder_syncs == 1, "samples: %d files, %d syncs",
          renames, folder_syncs);
    snprintf(out, sizeof(out), "%s/out/", dir);
    forget();
    CHECK(run(in, out) == TOOLS_OK, "run, a folder");
    CHECK(renames == 4 && folder_syncs_at_rename == 1 && syncs_at_rename == 1,
          "a folder: %d files, %d + %d syncs", renames, folder_syncs_at_rename,
          syncs_at_rename);
    snprintf(out, sizeof(out), "%s/out.npy", dir);
    forget();
    CHECK(run(in, out) == TOOLS_OK, "run, an array");
    CHECK(renames == 2 && syncs_at_rename == 2, "an array: %d files, %d syncs",
          renames, syncs_at_rename);
}

// The name that samples are written to before they have theirs is not one that
// can be guessed and put there first.
TEST_CASE(planted_part)
{
    const char *dir = test_folder();
    char far[300], temp[300];
    struct samples_out out;
    struct samples_entry entry = {.path = "a.jpg", .kind = "k", .w = 1, .h = 1};
    struct samples_bytes bytes = {0};

    samples_bytes_add(&bytes, "sample", 6);
    snprintf(far, sizeof(far), "%s/far", dir);
    snprintf(temp, sizeof(temp), "%s/a.jpg.%ld.part", dir, (long)getpid());
    CHECK(put(far, false) && !symlink("far", temp), "a link");
    CHECK(samples_out_init(&out, dir, NULL), "init");
    CHECK(samples_out_add(&out, &entry, &bytes), "add");
    CHECK(holds(far, "new"), "it was written to where a link leads");
    samples_out_finish(&out);
}

// ---- Children ---------------------------------------------------------------

// A measuring process that does not end when it is told to.
TEST_CASE(child_hangs)
{
    struct profile_config c = {.fd = -1};
    double begin;

    if (!(c.pid = fork())) {
        alarm(60);
        for (;;)
            pause();
    }
    begin = tools_seconds();
    CHECK(profile_end(&c, 0.3) == -1, "it ended by itself");
    CHECK(tools_seconds() - begin >= 0.3 && tools_seconds() - begin < 5,
          "%.1f s", tools_seconds() - begin);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "it is there yet");
}
