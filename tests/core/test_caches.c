// SPDX-License-Identifier: Apache-2.0
// The files on disk and the environment variables that the library trusts: only
// files that no other user can have written, and none at all in a privileged
// program. Most of these tests need root, to become another user.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hal/trust/trust.h"
#include "testing.h"

enum { READER = 65534, STRANGER = 12345, NOT_PRIVILEGED = 3 };

static const char name[] = "thing.bin", bytes[] = "what is kept";
static const char *base;  // $XDG_CACHE_HOME
static char folder[256], file[300];

// ---- What is called, and in which order -------------------------------------

static int syncs, syncs_at_rename;

// The library's calls come here: this program has it in it.
int fsync(int fd)
{
    syncs++;
    return (int)syscall(SYS_fsync, fd);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    syncs_at_rename = syncs;
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, 0);
}

static int interrupts;  // so many opens fail with EINTR

int open(const char *path, int flags, ...)
{
    va_list args;
    int mode;

    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    va_start(args, flags);
    mode = va_arg(args, int);
    va_end(args);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

// As of a file on FUSE or NFS when a signal comes.
TEST_CASE(interrupted_open)
{
    struct hr_info info;
    const char *path = test_file(&(struct bytes){(uint8_t *)"no", 2}, ".jpg");

    interrupts = 3;
    hr_probe_path(path, NULL, &info);
    CHECK(strstr(hr_last_error(), "it has 2 bytes"), "%s", hr_last_error());
    CHECK(!interrupts, "opened %d times too few", interrupts);
    interrupts = 0;
}

// ---- A cache ----------------------------------------------------------------

static bool keep(void)
{
    struct iovec parts[] = {{(void *)bytes, 5},
                            {(void *)(bytes + 5), sizeof(bytes) - 5}};

    return hr__cache_write(name, parts, 2);
}

static void new_cache(void)
{
    base = test_folder();
    setenv("XDG_CACHE_HOME", base, 1);
    snprintf(folder, sizeof(folder), "%s/headrace", base);
    snprintf(file, sizeof(file), "%s/%s", folder, name);
    CHECK(!chmod(base, 0755) && keep(), "%s", strerror(errno));
}

// True: it is there and whole. Else *why.
static bool is_read(char why[HR__CACHE_WHY])
{
    char text[sizeof(bytes) + 1] = "";
    size_t size = 0;
    int fd = hr__cache_open(name, &size, why);
    bool ok = fd >= 0 && size == sizeof(bytes) &&
              hr__read_all(fd, text, size) && !hr__read_all(fd, text, 1) &&
              !memcmp(text, bytes, size);

    if (fd >= 0)
        close(fd);
    return ok;
}

static void reads(const char *what)
{
    char why[HR__CACHE_WHY] = "?";

    CHECK(is_read(why) && !why[0], "%s: %s", what, why);
}

// reason: a part of the expected message; "": no message.
static void refuses(const char *what, const char *reason)
{
    char why[HR__CACHE_WHY] = "?";
    bool read = is_read(why);

    CHECK(!read, "%s: it is read", what);
    CHECK(*reason ? strstr(why, reason) != NULL : !why[0], "%s: says '%s'",
          what, why);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) ? 0 : st.st_mode & 0777;
}

TEST_CASE(kept)
{
    mode_t was = umask(0);

    new_cache();
    umask(was);
    reads("a new one");
    CHECK(mode_of(folder) == 0700, "folder %o", mode_of(folder));
    CHECK(mode_of(file) == 0600, "file %o", mode_of(file));
    CHECK(syncs_at_rename > 0, "the name comes before the bytes");
    CHECK(keep(), "%s", strerror(errno));
    reads("one that was replaced");
    CHECK(!unlink(file), "gone");
    refuses("none", "");
    CHECK(!rmdir(folder), "something else is left there");
    refuses("no folder", "");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "relative", 1);
    refuses("nowhere", "");
    CHECK(!keep() && errno == ENOENT, "kept nowhere");
    CHECK(!chdir(base), "%s", strerror(errno));
    setenv("XDG_CACHE_HOME", "relative", 1);
    CHECK(!keep() && errno == ENOENT, "kept where the program is");
    refuses("a relative folder", "");
}

// A file that others may write is refused, and so is anything but a regular
// file.
TEST_CASE(refused)
{
    char far[300], link[300];

    new_cache();
    chmod(file, 0640);
    reads("others may read");
    chmod(file, 0620);
    refuses("a file of the group's", "others may write");
    chmod(file, 0602);
    refuses("a file of all", "others may write");
    chmod(file, 0600);
    chmod(folder, 0770);
    refuses("a folder of the group's", "others may write");
    CHECK(!keep() && errno == EPERM, "kept where others may write");
    chmod(folder, 01777);
    refuses("a folder of all", "others may write");
    chmod(folder, 0700);
    reads("after all");
    snprintf(far, sizeof(far), "%s/far", base);
    snprintf(link, sizeof(link), "%s/link", base);
    CHECK(!rename(file, far) && !symlink("../far", file), "a link");
    refuses("a link to a file", name);
    CHECK(!unlink(file) && !rename(far, file), "no link");
    CHECK(!rename(folder, link) && !symlink(link, folder), "a link");
    reads("a folder that is a link");
    CHECK(!unlink(folder) && !rename(link, folder), "no link");
    CHECK(!unlink(file) && !mkdir(file, 0700), "a folder");
    refuses("a folder", "regular");
    CHECK(!rmdir(file), "no folder");
}

// A pipe without a writer: reading does not block on it.
TEST_CASE(pipes)
{
    new_cache();
    CHECK(!unlink(file) && !mkfifo(file, 0600), "a pipe");
    refuses("a pipe", "regular");
    CHECK(keep(), "%s", strerror(errno));
    reads("instead of a pipe");
}

// ---- Other users ------------------------------------------------------------

static void drop_privileges(void)
{
    if (setgroups(0, NULL) || setgid(READER) || setuid(READER))
        _exit(1);
}

// Reads in a child without privileges and compares the reason that it gives.
static void read_as_other(const char *what, bool read, const char *reason)
{
    char why[HR__CACHE_WHY] = "?";
    int status = 0;
    pid_t pid = fork();

    if (!pid) {
        drop_privileges();
        if (is_read(why) != read || (!read && !strstr(why, reason))) {
            fprintf(stderr, "%s: %s\n", what, why);
            _exit(1);
        }
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "%s: not as it should be",
          what);
}

static int warnings;

static void count_warnings(void *ctx, enum hr_log_level level, const char *text)
{
    (void)ctx;
    warnings += level >= HR_LOG_WARN && strstr(text, "another user");
}

TEST_CASE(others)
{
    struct hr_certificate cert = {.tested = 1};

    if (geteuid())
        return test_not_run("only root can be another user");
    new_cache();
    // Root with a user's, as sudo leaves it.
    CHECK(!chown(folder, STRANGER, 0), "chown");
    refuses("another user's folder", "another user");
    CHECK(!keep() && errno == EPERM, "kept in another user's folder");
    CHECK(!chown(folder, 0, 0) && !chown(file, STRANGER, 0), "chown");
    refuses("another user's file", "another user");
    // One line says so of a certificate.
    CHECK(!chown(file, 0, 0) && hr__certificate_save("key\n", &cert), "kept");
    CHECK(hr__certificate_load(NULL, "key\n", &cert), "certificate");
    CHECK(!chown(folder, STRANGER, 0), "chown");
    hr_set_log(count_warnings, NULL, HR_LOG_INFO);
    CHECK(!hr__certificate_load(NULL, "key\n", &cert),
          "another user's certificate");
    hr_set_log(NULL, NULL, HR_LOG_INFO);
    CHECK(warnings == 1, "%d lines", warnings);
    // The user's own file, root's, and another user's.
    chmod(folder, 0755);
    chmod(file, 0644);
    CHECK(!chown(folder, READER, 0) && !chown(file, READER, 0), "chown");
    read_as_other("the user's own", true, "");
    CHECK(!chown(folder, 0, 0) && !chown(file, 0, 0), "chown");
    read_as_other("root's", true, "");
    CHECK(!chown(file, STRANGER, 0), "chown");
    read_as_other("another user's file", false, "another user");
    CHECK(!chown(folder, STRANGER, 0), "chown");
    read_as_other("another user's folder", false, "another user");
}

// ---- Privileged programs ----------------------------------------------------

// A privileged copy of this program runs this: it opens every engine.
static int open_all(void)
{
    static const char *const names[] = {"opencl", "vaapi:/dev/null"};
    char why[HR__CACHE_WHY];

    for (int i = 0; i < 2; i++) {
        auto_device dev = hr_device_open(names[i], NULL);
    }
    if (is_read(why))
        return 2;
    return getauxval(AT_SECURE) ? 0 : NOT_PRIVILEGED;
}

// Runs the copy as an unprivileged user and returns its exit code; *loaded is
// set if it loaded the planted library.
static int run_copy(const char *copy, mode_t mode, bool *loaded)
{
    char place[300];
    int status = -1;
    pid_t pid;

    snprintf(place, sizeof(place), "%s/%o", test_folder(), (unsigned)mode);
    *strrchr(place, '/') = '\0';
    chmod(place, 0777);
    strcat(place, "/loaded");
    CHECK(!chown(copy, 0, 0) && !chmod(copy, mode), "%s", strerror(errno));
    setenv("HEADRACE_TEST_PLANTED", place, 1);
    if (!(pid = fork())) {
        drop_privileges();
        execl(copy, copy, "--open-all", (char *)NULL);
        _exit(99);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
    *loaded = !access(place, F_OK);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static bool copy_self(const char *to)
{
    char buffer[65536];
    ssize_t n;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool ok = from >= 0 && fd >= 0;

    while (ok && (n = read(from, buffer, sizeof(buffer))) > 0)
        ok = write(fd, buffer, (size_t)n) == n;
    close(from);
    return !close(fd) && ok;
}

TEST_CASE(privileged)
{
    char copy[300], library[300];
    bool loaded;
    int code;

    if (geteuid())
        return test_not_run("only root can make a setuid program");
    if (TEST_SANITIZED)
        return test_not_run("a sanitizer in a setuid program");
    new_cache();
    // To an unprivileged user the file is root's, and readable.
    chmod(folder, 0755);
    chmod(file, 0644);
    snprintf(copy, sizeof(copy), "%s/copy", base);
    snprintf(library, sizeof(library), "%s/planted.so", base);
    CHECK(copy_self(copy), "%s", strerror(errno));
    {
        // The build's folder may be closed to other users.
        char command[700];

        snprintf(command, sizeof(command), "cp '%s' '%s' && chmod 755 '%s'",
                 HR_PLANTED_LIBRARY, library, library);
        CHECK(!system(command), "cp");
    }
    setenv("HEADRACE_OPENCL_LIBRARY", library, 1);
    setenv("HEADRACE_VAAPI_LIBRARY", library, 1);
    setenv("OCL_ICD_VENDORS", base, 1);  // no driver: quickly over
    code = run_copy(copy, 0755, &loaded);
    CHECK(code == 2, "without privileges the cache is read: %d", code);
    if (!loaded)
        return test_not_run("no backend that loads a library");
    code = run_copy(copy, 04755, &loaded);
    if (code == NOT_PRIVILEGED)
        return test_not_run("no setuid programs here: nosuid");
    CHECK(!code, "a privileged program ends with %d", code);
    CHECK(!loaded, "a privileged program has loaded a planted library");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--open-all"))
        return open_all();
    return test_main(argc, argv);
}
