// SPDX-License-Identifier: Apache-2.0
// The files that the library keeps on disk. They decide what the device runs,
// so they are read only where no other user can have put them.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/base/base.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 128, MAX_TEMPS = 100 };

// True: only this user and root can have written it. name: for the text in why.
static bool is_ours(int fd, bool folder, const char *name,
                    char why[HR__CACHE_WHY])
{
    struct stat st;

    if (fstat(fd, &st))
        snprintf(why, HR__CACHE_WHY, "%.80s: %s", name, strerror(errno));
    else if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
        snprintf(why, HR__CACHE_WHY, "%.80s is not a regular file", name);
    else if (st.st_uid && st.st_uid != geteuid())
        snprintf(why, HR__CACHE_WHY, "%.80s belongs to another user", name);
    else if (st.st_mode & (S_IWGRP | S_IWOTH))
        snprintf(why, HR__CACHE_WHY, "others may write to %.80s", name);
    else
        return true;
    return false;
}

// -1 with errno; why is "" if there is none, and it may be made.
static int open_folder(bool make, char why[HR__CACHE_WHY])
{
    const char *base = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    char path[PATH_BYTES];
    int n, fd;

    why[0] = '\0';
    // The XDG base directory specification ignores relative paths.
    if (base && base[0] == '/')
        n = snprintf(path, sizeof(path), "%s", base);
    else if (home && home[0] == '/')
        n = snprintf(path, sizeof(path), "%s/.cache", home);
    else
        return errno = ENOENT, -1;
    if (n < 0 || (size_t)n + sizeof("/headrace") > sizeof(path))
        return errno = ENAMETOOLONG, -1;
    if (make && mkdir(path, 0700) && errno != EEXIST)
        return -1;
    strcat(path, "/headrace");
    if (make && mkdir(path, 0700) && errno != EEXIST)
        return -1;
    // It may be a link; what counts is where that leads.
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || is_ours(fd, true, path, why))
        return fd;
    close(fd);
    return errno = EPERM, -1;
}

// ---- Reading ---------------------------------------------------------------

bool hr__read_all(int fd, void *to, size_t size)
{
    while (size) {
        ssize_t n = read(fd, to, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to = (char *)to + n;
        size -= (size_t)n;
    }
    return true;
}

size_t hr__read_at(int fd, void *to, size_t size, uint64_t at)
{
    size_t done = 0;
    ssize_t n = 1;

    while (done < size && n) {
        n = pread(fd, (char *)to + done, size - done, (off_t)(at + done));
        if (n > 0)
            done += (size_t)n;
        else if (!n)
            errno = 0;
        else if (errno != EINTR)
            break;
    }
    return done;
}

int hr__open_file(const char *path, int flags)
{
    int fd;

    do
        fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

int hr__cache_open(const char *name, size_t *size, char why[HR__CACHE_WHY])
{
    int folder = open_folder(false, why), fd;
    struct stat st;

    if (folder < 0)
        return -1;
    // (A pipe would wait for a writer, a terminal become ours.)
    fd = openat(folder, name,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        snprintf(why, HR__CACHE_WHY, "%.80s: %s", name, strerror(errno));
    close(folder);
    if (fd < 0)
        return -1;
    if (is_ours(fd, false, name, why) && !fstat(fd, &st)) {
        *size = (size_t)st.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

// ---- Writing ---------------------------------------------------------------

static bool write_all(int fd, const void *from, size_t size)
{
    while (size) {
        ssize_t n = write(fd, from, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from = (const char *)from + n;
        size -= (size_t)n;
    }
    return true;
}

static int open_temp(int folder, const char *name, char temp[NAME_BYTES])
{
    int fd = -1;

    for (int i = 0; i < MAX_TEMPS && fd < 0; i++) {
        snprintf(temp, NAME_BYTES, "%.80s.%ld-%d.part", name, (long)getpid(),
                 i);
        fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                    0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

bool hr__cache_write(const char *name, const struct iovec *parts, int n)
{
    char temp[NAME_BYTES], why[HR__CACHE_WHY];
    int folder = open_folder(true, why), fd, err;
    bool ok = true;

    if (folder < 0)
        return false;
    if ((fd = open_temp(folder, name, temp)) < 0) {
        err = errno;
        close(folder);
        return errno = err, false;
    }
    for (int i = 0; i < n; i++)
        ok = ok && write_all(fd, parts[i].iov_base, parts[i].iov_len);
    // After a crash the name has the old bytes or the new ones.
    ok = ok && !fsync(fd);
    ok = !close(fd) && ok && !renameat(folder, temp, folder, name);
    err = errno;
    if (!ok)
        unlinkat(folder, temp, 0);
    close(folder);
    errno = err;
    return ok;
}
