// SPDX-License-Identifier: Apache-2.0
#include "out_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools.h"

#define BUFFER_SIZE ((size_t)64 * 1024)

enum { HASH = 17 };  // bytes of one in a name

// After a failure there is a hole: the file must not pass for whole.
static bool passed(struct out_file *file, bool ok)
{
    if (!ok && !file->error)
        file->error = errno;
    errno = file->error;
    return !file->error;
}

// In the folder of path, so that the rename stays within one file system.
static int open_temp(struct out_file *file, size_t dir_length)
{
    size_t size = dir_length + 64;

    if (!(file->temp = malloc(size)))
        return -1;
    for (unsigned i = 0; i < 1000; i++) {
        int fd;
        snprintf(file->temp, size, "%.*s.headrace-%ld-%u.part", (int)dir_length,
                 file->path, (long)getpid(), i);
        fd = open(file->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        // The lock tells out_file_clean() that the file is being written.
        if (fd >= 0)
            flock(fd, LOCK_EX | LOCK_NB);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

// rename() would put the new file in the place of a link: /dev/stdout is one.
static char *behind_links(const char *path)
{
    struct stat st;

    return !lstat(path, &st) && S_ISLNK(st.st_mode) && !stat(path, &st)
               ? realpath(path, NULL)
               : strdup(path);
}

// Says whether name is that of a temporary file of a process that is gone. In
// another container it may live under another number: then the lock is held.
static bool is_left(int dir, const char *name)
{
    struct stat st;
    long pid;
    int end = 0, fd;
    bool left = false;

    if (sscanf(name, ".headrace-%ld-%*u.part%n", &pid, &end) != 1 || !end ||
        name[end] || pid <= 0 || !kill((pid_t)pid, 0) || errno != ESRCH)
        return false;
    fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    left = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           !flock(fd, LOCK_EX | LOCK_NB);
    close(fd);
    return left;
}

void out_file_clean(const char *folder)
{
    DIR *stream = opendir(*folder ? folder : ".");
    const struct dirent *entry;

    while (stream && (entry = readdir(stream)))
        if (is_left(dirfd(stream), entry->d_name))
            unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
}

static bool clean_beside(const char *path, const char *slash)
{
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1)
                         : strdup("");

    if (folder)
        out_file_clean(folder);
    free(folder);
    return folder != NULL;
}

static void forget_temp(struct out_file *file)
{
    free(file->temp);
    file->temp = NULL;
}

static bool open_file(struct out_file *file, const char *path, bool part)
{
    const char *slash;
    struct stat st;
    int fd = -1, error;

    *file = (struct out_file){0};
    file->part = part;
    // .. or of a device or a pipe.
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return false;
    }
    if (!*path) {
        errno = ENOENT;
        return false;
    }
    if (!(file->path = part ? strdup(path) : behind_links(path)))
        goto error;
    slash = strrchr(file->path, '/');
    if (!part && !clean_beside(file->path, slash))
        goto error;
    fd = open_temp(file, slash ? (size_t)(slash - file->path) + 1 : 0);
    if (fd >= 0 && (file->stream = fdopen(fd, "w"))) {
        setvbuf(file->stream, NULL, _IOFBF, BUFFER_SIZE);
        return true;
    }
error:
    error = errno;
    if (fd >= 0)
        close(fd);
    else
        forget_temp(file);
    out_file_discard(file);
    errno = error;
    return false;
}

bool out_file_open(struct out_file *file, const char *path)
{
    return open_file(file, path, false);
}

bool out_file_open_part(struct out_file *file, const char *path)
{
    return open_file(file, path, true);
}

bool out_file_write(struct out_file *file, const void *data, size_t size)
{
    return passed(file, !size || fwrite(data, size, 1, file->stream) == 1);
}

bool out_file_rewrite(struct out_file *file, const void *data, size_t size)
{
    return passed(file, !fseeko(file->stream, 0, SEEK_SET)) &&
           out_file_write(file, data, size) &&
           passed(file, !fseeko(file->stream, 0, SEEK_END));
}

bool out_file_rewind(struct out_file *file)
{
    return passed(file, !fseeko(file->stream, 0, SEEK_SET) &&
                            !ftruncate(fileno(file->stream), 0));
}

bool out_file_name(char *to, size_t size, const char *name, const char *end)
{
    for (;; name++) {
        size_t length = strcspn(name, "/"), kept = length;
        const char *behind = name[length] ? "/" : end;
        size_t most = NAME_MAX - (name[length] ? 0 : strlen(end));
        char hash[HASH + 1] = "";
        int n;

        if (length > most) {
            snprintf(hash, sizeof(hash), "-%016" PRIx64,
                     tools_hash(0, name, length));
            kept = most - HASH;
            while (kept && (name[kept] & 0xC0) == 0x80)
                kept--;  // a character of UTF-8 stays whole
        }
        n = snprintf(to, size, "%.*s%s%s", (int)kept, name, hash, behind);
        if (n < 0 || (size_t)n >= size)
            return false;
        name += length;
        if (!*name)
            return true;
        to += n;
        size -= (size_t)n;
    }
}

bool out_file_parents(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        int rc;
        *slash = '\0';
        rc = mkdir(path, 0777);
        *slash = '/';
        if (rc < 0 && errno != EEXIST)
            return false;
    }
    return true;
}

// Some file systems cannot, and have nothing that could be lost.
static bool synced(int result)
{
    return !result || errno == EINVAL || errno == ENOSYS ||
           errno == EOPNOTSUPP || errno == EROFS;
}

bool out_folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;
    bool ok;

    if (fd < 0)
        return false;
    ok = synced(syncfs(fd));
    error = errno;
    close(fd);
    errno = error;
    return ok;
}

// Network file systems report a full disk as late as here. Without the sync a
// new name could hold an empty file after the power has failed.
bool out_file_close(struct out_file *file)
{
    FILE *stream = file->stream;

    if (!passed(file, !fflush(stream) &&
                          (file->part || synced(fsync(fileno(stream))))))
        return false;
    file->stream = NULL;
    return !fclose(stream);
}

bool out_file_rename(struct out_file *file)
{
    if (rename(file->temp, file->path) < 0)
        return false;
    forget_temp(file);
    out_file_discard(file);
    return true;
}

void out_file_discard(struct out_file *file)
{
    if (file->stream)
        fclose(file->stream);
    if (file->temp)
        unlink(file->temp);
    free(file->temp);
    free(file->path);
    *file = (struct out_file){0};
}
