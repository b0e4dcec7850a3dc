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
    s->num_shards++;  // from now on hr__source_forget() closes it
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

// ---- Reading ---------------------------------------------------------------

static enum hr_status check_unchanged(const struct hr__shard *shard)
{
    struct stat st;

    if (fstat(shard->fd, &st) < 0)
        return hr__fail(HR_EIO, "%s: %s", hr__source_short(shard->path),
                        strerror(errno));
    if ((uint64_t)st.st_size != shard->size ||
        st.st_mtim.tv_sec != shard->changed.tv_sec ||
        st.st_mtim.tv_nsec != shard->changed.tv_nsec)
        return hr__fail(HR_EIO, "%s: it was changed while it was open",
                        hr__source_short(shard->path));
    return HR_OK;
}

const struct hr__shard *hr__source_shard(const struct hr__source *s, uint64_t i,
                                         struct hr__range *range)
{
    const struct hr__source_item *item;
    uint32_t number;

    if (i >= s->num)
        return NULL;
    item = &s->items[i];
    number = s->dirs[item->dir].shard;
    if (!number)
        return NULL;
    *range = s->shards[number - 1].ranges[item->number];
    return &s->shards[number - 1];
}

enum hr_status hr__shard_sample(const struct hr__shard *shard,
                                struct hr__range range, size_t max_bytes,
                                hr__source_room_fn room, void *ctx,
                                size_t *size)
{
    enum hr_status status = check_unchanged(shard);
    void *to;

    if (status)
        return status;
    if (range.size > max_bytes)
        return hr__fail(HR_ELIMIT,
                        "%s: offset %llu: %llu bytes, more than the limit of "
                        "%zu",
                        hr__source_short(shard->path),
                        (unsigned long long)range.offset,
                        (unsigned long long)range.size, max_bytes);
    *size = (size_t)range.size;
    if (!(to = room(ctx, *size ? *size : 1)))
        return hr__fail(HR_ENOMEM, "%s: no memory for %zu bytes",
                        hr__source_short(shard->path), *size);
    status = hr__shard_read(shard, to, *size, range.offset);
    if (!status && range.parts)
        *size = hr__record_join(to, *size);
    return status;
}
