// SPDX-License-Identifier: Apache-2.0
// A writer's accesses to its file.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "writer.h"

struct pack_writer *pack_writer_of(hr_pack_writer writer)
{
    return (struct pack_writer *)(uintptr_t)writer;
}

enum hr_status pack_writer_errno(const struct pack_writer *w)
{
    return hr__fail(HR_EIO, "%s: %s", pack_short(w->part), strerror(errno));
}

enum hr_status pack_write_all(struct pack_writer *w, const void *data,
                              size_t size, uint64_t at)
{
    const char *from = data;

    while (size) {
        ssize_t n = pwrite(w->fd, from, size, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return pack_writer_errno(w);
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return HR_OK;
}

// Some file systems cannot, and have nothing that could be lost.
bool pack_synced(int fd)
{
    return !fsync(fd) || errno == EINVAL || errno == ENOSYS ||
           errno == EOPNOTSUPP || errno == EROFS;
}
