// SPDX-License-Identifier: Apache-2.0
// hr_probe() and hr_probe_path(): the public header parser.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/facts/facts.h"

enum { FIRST_READ = 65536 };

// path may be NULL.
static enum hr_status report(enum hr_status status, const char *path,
                             const struct hr__header_error *err)
{
    const char *colon = path ? ": " : "";

    path = path ? path : "";
    if (err->offset < 0)
        return hr__fail(status, "%s%s%s", path, colon, err->text);
    return hr__fail(status, "%s%soffset %lld: %s", path, colon,
                    (long long)err->offset, err->text);
}

enum hr_status hr_probe(const void *data, size_t size,
                        const struct hr_limits *limits, struct hr_info *info)
{
    struct hr__header_error err;
    enum hr_status status;

    if (!info || (!data && size))
        return hr__fail(HR_EINVAL, "hr_probe: no %s", info ? "data" : "info");
    status = hr__header_parse(data, size, true, limits, info, &err);
    return status == HR_OK ? HR_OK : report(status, NULL, &err);
}

static const char *kind_of_file(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

// Fails without path and offset.
static enum hr_status fail(struct hr__header_error *err, enum hr_status status,
                           const char *fmt, ...) HR_PRINTF(3, 4);

static enum hr_status fail(struct hr__header_error *err, enum hr_status status,
                           const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    err->offset = -1;
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return status;
}

static enum hr_status open_regular(const char *path, int *fd, uint64_t *size,
                                   struct hr__header_error *err)
{
    struct stat st;

    *fd = hr__open_file(path, O_RDONLY);
    if (*fd < 0)
        return fail(err, HR_EIO, "%s", strerror(errno));
    if (fstat(*fd, &st) < 0)
        return fail(err, HR_EIO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail(err, HR_EIO, "is %s, not a regular file",
                    kind_of_file(st.st_mode));
    *size = (uint64_t)st.st_size;
    return HR_OK;
}

struct part {
    uint8_t *data;
    size_t size, capacity;
};

// Makes the part as large as it may get in this step and reads the new bytes.
static enum hr_status grow(struct part *part, int fd, size_t capacity,
                           struct hr__header_error *err)
{
    uint8_t *data = hr__alloc(NULL, capacity ? capacity : 1);

    if (!data)
        return fail(err, HR_ENOMEM, "%zu bytes for its header", capacity);
    if (part->size)
        memcpy(data, part->data, part->size);
    hr__free(part->data);
    part->data = data;
    part->capacity = capacity;
    part->size += hr__read_at(fd, data + part->size, capacity - part->size,
                              part->size);
    return part->size == capacity || !errno
               ? HR_OK
               : fail(err, HR_EIO, "%s", strerror(errno));
}

// Four times as much each time, so that the bytes parsed in vain stay below a
// third. With two segments more than marker_bytes the parser always decides.
static enum hr_status parse_growing(int fd, uint64_t size,
                                    const struct hr_limits *limits,
                                    struct hr_info *info, struct part *part,
                                    struct hr__header_error *err)
{
    uint64_t enough = (uint64_t)limits->marker_bytes + 2 * 65536;
    enum hr_status status = HR_PENDING;

    enough = enough < size ? enough : size;
    for (uint64_t want = FIRST_READ; status == HR_PENDING; want *= 4) {
        bool whole;

        status = grow(part, fd, (size_t)(want < enough ? want : enough), err);
        if (status != HR_OK)
            return status;
        // A file that shrinks while it is read ends where it ends.
        whole = part->size == size || part->size < part->capacity;
        status = hr__header_parse_of(part->data, part->size, whole,
                                     whole ? part->size : size, limits, info,
                                     err);
        // (Behind a picture, as the EXIF block of a WebP.)
        if (status == HR_PENDING && part->size == enough)
            enough = size;
        if (status == HR_OK && !whole) {
            uint8_t tail[HR__TAIL];
            size_t n = hr__read_at(fd, tail, HR__TAIL, size - HR__TAIL);

            if (n < HR__TAIL && errno)
                return fail(err, HR_EIO, "%s", strerror(errno));
            info->ends |= n == HR__TAIL &&
                          hr__header_ends(info->format, tail, HR__TAIL);
        }
    }
    return status;
}

static enum hr_status probe_file(const char *path,
                                 const struct hr_limits *limits,
                                 struct hr_info *info,
                                 struct hr__header_error *err)
{
    struct part part = {0};
    struct hr_limits filled;
    enum hr_status status;
    uint64_t size = 0;
    int fd = -1;

    *info = (struct hr_info){.orientation = 1};
    hr__limits_default(&filled, limits);
    status = open_regular(path, &fd, &size, err);
    if (!status && size > filled.file_bytes)
        status = fail(err, HR_ELIMIT, "%llu bytes are over the limit of %zu",
                      (unsigned long long)size, filled.file_bytes);
    if (!status)
        status = parse_growing(fd, size, &filled, info, &part, err);
    hr__free(part.data);
    if (fd >= 0)
        close(fd);
    return status;
}

enum hr_status hr_probe_path(const char *path, const struct hr_limits *limits,
                             struct hr_info *info)
{
    struct hr__header_error err;
    enum hr_status status;

    if (!path || !info)
        return hr__fail(HR_EINVAL, "hr_probe_path: no %s",
                        path ? "info" : "path");
    status = probe_file(path, limits, info, &err);
    return status ? report(status, path, &err) : HR_OK;
}
