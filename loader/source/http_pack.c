// SPDX-License-Identifier: Apache-2.0
// A pack file at a URL: its header and its index are read when it is added, and
// checked as those of a file are; a picture is a range.
#include <string.h>

#include "hal/engine/base.h"
#include "loader/pack/format.h"
#include "source.h"

enum { PIECE = 1 << 23 };  // bytes of the index that are read at once

static bool bad(const struct hr__shard *shard, enum hr_status status,
                uint64_t offset, const char *why)
{
    return hr__source_fail(status, "%s: offset %llu: %s",
                           hr__source_short(shard->path),
                           (unsigned long long)offset, why);
}

// Reads the index in pieces. Data that cannot be an index fail with the first
// piece.
static bool read_all(const struct hr__shard *shard, struct pack_view *view,
                     uint8_t *to)
{
    uint64_t size = view->index_size;
    enum hr_status status = HR_OK;

    for (uint64_t done = 0, n; done < size && !status; done += n) {
        n = size - done < PIECE ? size - done : PIECE;
        if (hr__shard_read(shard, to + done, (size_t)n, view->index_at + done))
            return false;
        status = pack_view_part(view, to, done + n);
    }
    return !status || bad(shard, status, view->fault_at, view->why);
}

static bool put_entries(struct hr__source *s, struct hr__shard *shard,
                        const struct pack_view *view)
{
    for (uint64_t i = 0; i < view->num; i++) {
        const struct pack_index *e = &view->entries[i];
        struct hr_pack_entry entry = pack_entry(e, view->texts, NULL);
        struct hr__range range = {.offset = le64toh(e->offset),
                                  .size = le64toh(e->size),
                                  .sum = le64toh(e->data_sum),
                                  .summed = true,
                                  .packed = entry.packed,
                                  .source = entry.source};

        if (!hr__shard_put(s, shard, entry.name, entry.label, range))
            return false;
    }
    return true;
}

static bool read_index(struct hr__source *s, struct hr__shard *shard)
{
    struct pack_header head = {0};
    uint64_t size = shard->size;
    struct pack_view view;
    enum hr_status status;
    uint8_t *index;
    bool ok;

    if (hr__shard_read(shard, &head,
                       size < sizeof(head) ? (size_t)size : sizeof(head), 0))
        return false;
    if ((status = pack_view_head(&view, &head, size)))
        return bad(shard, status, view.fault_at, view.why);
    if (view.index_size > shard->web->http->params.index_bytes)
        return bad(shard, HR_ELIMIT, 32,
                   "its index is larger than the limit (index_bytes)");
    if (view.index_size > SIZE_MAX - 1 ||
        !(index = hr__alloc(NULL, (size_t)view.index_size + 1)))
        return hr__source_fail(HR_ENOMEM, "out of memory");
    ok = read_all(shard, &view, index);
    if (ok && (status = pack_view_index(&view, index)))
        ok = bad(shard, status, view.fault_at, view.why);
    shard->names = true;  // packed labels are names, as those of folders
    ok = ok && hr__source_put_classes(s, &view) && put_entries(s, shard, &view);
    hr__free(index);
    return ok;
}

static bool add_pack(struct hr__source *s, const char *path)
{
    struct hr__shard *shard;

    if (!hr__http_is_url(path))
        return hr__source_unpack(s, path);
    shard = hr__shard_open(s, path);
    return shard && hr__shard_opened(shard, read_index(s, shard));
}

const struct hr__container hr__container_pack = {
    .endings = ".hrp",
    .add = add_pack,
};
