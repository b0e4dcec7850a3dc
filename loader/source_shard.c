// SPDX-License-Identifier: Apache-2.0
// Samples that are ranges of a file: members of a tar, records of a RecordIO
// file. A shard keeps its file open; threads read it side by side.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "source.h"

// ---- Opening ---------------------------------------------------------------

// A FIFO without a writer must not keep the caller.
struct hr__shard *hr__shard_open(struct hr__source *s, const char *path)
{
    struct hr__shard *shard;
    struct stat st;

    if (!hr__source_grow(&s->shards, &s->shards_capacity, s->num_shards,
                         sizeof(*s->shards)))
        return NULL;
    shard = &s->shards[s->num_shards];
    *shard = (struct hr__shard){.number = (uint32_t)s->num_shards};
    shard->path = hr__source_text(s, path, strlen(path));
    if (!shard->path)
        return NULL;
    shard->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (shard->fd < 0) {
        hr__source_fail(HR_EIO, "%s: %s", hr__source_short(path),
                        strerror(errno));
        return NULL;
    }
    s->num_shards++;  // from now on it is closed with the source
    if (fstat(shard->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        hr__source_fail(HR_EIO, "%s: not a regular file",
                        hr__source_short(path));
        return NULL;
    }
    shard->size = (uint64_t)st.st_size;
    shard->changed = st.st_mtim;
    return shard;
}

enum hr_status hr__shard_read(const struct hr__shard *shard, void *to,
                              size_t size, uint64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(shard->fd, (char *)to + done, size - done,
                          (off_t)(offset + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return hr__fail(HR_EIO, "%s: read, offset %llu: %s",
                            hr__source_short(shard->path),
                            (unsigned long long)(offset + done),
                            n ? strerror(errno) : "the file ends here");
        done += (size_t)n;
    }
    return HR_OK;
}

bool hr__shard_put(struct hr__source *s, struct hr__shard *shard,
                   const char *name, const char *label, struct hr__range range)
{
    size_t before = s->num;

    if (!hr__source_grow(&shard->ranges, &shard->capacity, shard->num,
                         sizeof(range)) ||
        !hr__source_put_member(s, shard->path, 0, shard->number + 1, name,
                               label))
        return false;
    if (s->num == before)
        return true;
    s->items[before].number = (uint32_t)shard->num;
    shard->ranges[shard->num++] = range;
    return true;
}

void hr__shard_fault(struct hr__source *s, const struct hr__shard *shard,
                     uint64_t offset, const char *name, const char *why)
{
    char text[512];

    snprintf(text, sizeof(text), "%s: offset %llu: %s%s%s",
             hr__source_short(shard->path), (unsigned long long)offset,
             name ? hr__source_short(name) : "", name ? ": " : "", why);
    hr__source_fault_text(s, text);
}

void hr__shard_close(struct hr__shard *shard)
{
    if (shard->fd >= 0)
        close(shard->fd);
    hr__free(shard->ranges);
}
