// SPDX-License-Identifier: Apache-2.0
// The bytes of a sample.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "loader/pack/format.h"
#include "source.h"

// ---- Files -----------------------------------------------------------------

// A file that shrinks while it is read ends early; what it grows by is left.
static enum hr_status read_file(int fd, const char *path, char *to,
                                size_t *size)
{
    size_t done = hr__read_at(fd, to, *size, 0);

    if (done == *size)
        return HR_OK;
    if (errno)
        return hr__fail(HR_EIO, "%s: read, offset %zu: %s",
                        hr__source_short(path), done, strerror(errno));
    return hr__fail(HR_EIO,
                    "%s: read, offset %zu: it was cut to %zu of "
                    "%zu bytes while it was read",
                    hr__source_short(path), done, done, *size);
}

static enum hr_status look(int fd, const char *path, size_t max_bytes,
                           size_t *size)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return hr__fail(HR_EIO, "%s: read: %s", hr__source_short(path),
                        strerror(errno));
    if (!S_ISREG(st.st_mode))
        return hr__fail(HR_EIO, "%s: read: not a regular file",
                        hr__source_short(path));
    if ((uint64_t)st.st_size > max_bytes)
        return hr__fail(HR_ELIMIT,
                        "%s: read: %lld bytes, more than the limit of %zu",
                        hr__source_short(path), (long long)st.st_size,
                        max_bytes);
    *size = (size_t)st.st_size;
    return HR_OK;
}

enum hr_status hr__source_file(const char *path, size_t max_bytes,
                               hr__source_room_fn room, void *ctx, size_t *size)
{
    int fd = hr__open_file(path, O_RDONLY);
    enum hr_status status = look(fd, path, max_bytes, size);
    void *to = NULL;

    if (!status && !(to = room(ctx, *size ? *size : 1)))
        status = hr__fail(HR_ENOMEM, "%s: read: no memory for %zu bytes",
                          hr__source_short(path), *size);
    if (!status)
        status = read_file(fd, path, to, size);
    if (fd >= 0)
        close(fd);
    return status;
}

// ---- Samples of calls ------------------------------------------------------

// Says whether there are as many bytes as the pixels need, if it is pixels.
static bool is_whole(const struct hr_encoded *e)
{
    if (!e->w && !e->h && !e->c)
        return true;
    return e->data && e->w > 0 && e->h > 0 && (e->c == 1 || e->c == 3) &&
           (unsigned)e->layout <= HR_NHWC && e->w <= HR_MAX_SIDE &&
           e->h <= HR_MAX_SIDE &&
           (uint64_t)e->w * (uint64_t)e->h * (uint64_t)e->c == e->size;
}

// (What it answers and says is the program's: neither need be what it should.)
enum hr_status hr__source_lent(const struct hr__source *s,
                               struct hr_source_read *r)
{
    r->message[sizeof(r->message) - 1] = '\0';
    if (r->status)
        return hr__fail(r->status < 0 ? r->status : HR_EIO,
                        "sample %llu: read: %s", (unsigned long long)r->i,
                        *r->message ? r->message : hr_status_text(r->status));
    if (is_whole(&r->to))
        return HR_OK;
    if (s->calls.done)
        s->calls.done(s->calls.ctx, r->i, &r->to);
    return hr__fail(HR_EINVAL,
                    "sample %llu: read: %zu bytes are not %d x %d pixels of %d",
                    (unsigned long long)r->i, r->to.size, r->to.w, r->to.h,
                    r->to.c);
}

enum hr_status hr__source_lend(const struct hr__source *s, uint64_t i,
                               struct hr_encoded *lent)
{
    struct hr_source_read r = {.i = i, .to = *lent};
    enum hr_status status;

    r.status = s->calls.read(s->calls.ctx, i, &r.to, r.message);
    status = hr__source_lent(s, &r);
    *lent = r.to;
    return status;
}

static enum hr_status copy(const struct hr_encoded *lent,
                           const struct hr__reading *r, struct hr_encoded *to)
{
    void *memory;

    if (!lent->data && lent->path)
        return hr__source_file(lent->path, r->max_bytes, r->room, r->ctx,
                               &to->size);
    if (lent->size > r->max_bytes)
        return hr__fail(HR_ELIMIT, "%zu bytes, more than the limit of %zu",
                        lent->size, r->max_bytes);
    if (!(memory = r->room(r->ctx, lent->size ? lent->size : 1)))
        return hr__fail(HR_ENOMEM, "no memory for %zu bytes", lent->size);
    if (lent->size)
        memcpy(memory, lent->data, lent->size);
    to->size = lent->size;
    to->verified = lent->verified;
    to->w = lent->w;
    to->h = lent->h;
    to->c = lent->c;
    to->layout = lent->layout;
    return HR_OK;
}

static enum hr_status copy_lent(const struct hr__source *s, uint64_t i,
                                const struct hr__reading *r,
                                struct hr_encoded *to)
{
    struct hr_encoded lent = {0};
    enum hr_status status = hr__source_lend(s, i, &lent);

    if (status)
        return status;
    status = copy(&lent, r, to);
    if (s->calls.done)
        s->calls.done(s->calls.ctx, i, &lent);
    return status;
}

// A sample of a file that the program has opened.
static enum hr_status read_opened(const struct hr__shard *shard, uint64_t i,
                                  const struct hr__reading *r,
                                  struct hr_encoded *to)
{
    enum hr_status status = copy_lent(shard->opened->source, i, r, to);
    char why[256];

    if (!status)
        return HR_OK;
    snprintf(why, sizeof(why), "%s", hr_last_error());
    return hr__fail(status, "%s: %s", hr__source_short(shard->path), why);
}

// ---- Ranges of files -------------------------------------------------------

static enum hr_status check_unchanged(const struct hr__shard *shard,
                                      uint64_t offset)
{
    struct stat st;

    if (shard->web)
        return HR_OK;  // each answer says of what it is
    if (fstat(shard->fd, &st) < 0)
        return hr__fail(HR_EIO, "%s: %s", hr__source_short(shard->path),
                        strerror(errno));
    if ((uint64_t)st.st_size != shard->size ||
        st.st_mtim.tv_sec != shard->changed.tv_sec ||
        st.st_mtim.tv_nsec != shard->changed.tv_nsec)
        return hr__fail(HR_EIO,
                        "%s: offset %llu: it was changed while it was open",
                        hr__source_short(shard->path),
                        (unsigned long long)offset);
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
    *range = hr__ranges_at(&s->shards[number - 1].ranges, item->number);
    return &s->shards[number - 1];
}

// Pixels go to a place of their own, if there is one.
static void *pixel_room(void *ctx, size_t size)
{
    const struct hr__reading *r = ctx;

    if (!size)
        return r->room(r->ctx, 0);
    return size <= HR__CIFAR_BYTES ? r->pixels : NULL;
}

static enum hr_status unwrap(const struct hr__shard *shard,
                             const struct hr__range *range, void *memory,
                             struct hr_encoded *to)
{
    unsigned char *at = memory;
    const char *why = shard->unwrap(range, &at, &to->size);

    to->data = at;
    return why ? hr__fail(HR_ECORRUPT, "%s: offset %llu: %s",
                          hr__source_short(shard->path),
                          (unsigned long long)range->offset, why)
               : HR_OK;
}

static enum hr_status read_checked(const struct hr__shard *shard,
                                   const struct hr__range *range,
                                   const struct hr__reading *r,
                                   struct hr_encoded *to)
{
    bool apart = shard->pixels && r->pixels;
    hr__source_room_fn room = apart ? pixel_room : r->room;
    void *ctx = apart ? (void *)(uintptr_t)r : r->ctx, *memory;
    enum hr_status status;

    to->size = (size_t)range->size;
    if (!(memory = room(ctx, to->size ? to->size : 1)))
        return hr__fail(HR_ENOMEM, "%s: no memory for %zu bytes",
                        hr__source_short(shard->path), to->size);
    status = shard->web
                 ? hr__http_read_at(shard->web, memory, to->size, range->offset,
                                    room, ctx)
                 : hr__shard_read(shard, memory, to->size, range->offset);
    if (!status && range->summed && pack_sum(memory, to->size) != range->sum)
        status = hr__fail(HR_ECORRUPT,
                          "%s: offset %llu: the checksum of the "
                          "picture is wrong",
                          hr__source_short(shard->path),
                          (unsigned long long)range->offset);
    to->data = apart ? memory : NULL;
    return !status && range->wrapped ? unwrap(shard, range, memory, to)
                                     : status;
}

static enum hr_status read_open(const struct hr__shard *shard,
                                const struct hr__range *range,
                                const struct hr__reading *r,
                                struct hr_encoded *to)
{
    enum hr_status status = check_unchanged(shard, range->offset);

    if (!status && range->size > r->max_bytes && !(shard->pixels && r->pixels))
        status = hr__fail(HR_ELIMIT,
                          "%s: offset %llu: %llu bytes, more than the limit of "
                          "%zu",
                          hr__source_short(shard->path),
                          (unsigned long long)range->offset,
                          (unsigned long long)range->size, r->max_bytes);
    if (!status)
        status = read_checked(shard, range, r, to);
    if (status)
        return status;
    to->packed = range->packed;
    to->source = range->source;
    if (!shard->pixels)
        return HR_OK;
    to->w = to->h = HR__CIFAR_SIDE;
    to->c = 3;
    to->layout = HR_NCHW;
    return HR_OK;
}

static enum hr_status read_range(const struct hr__source *s, uint64_t i,
                                 const struct hr__reading *r,
                                 struct hr_encoded *to)
{
    struct hr__range range;
    struct hr__shard shard = *hr__source_shard(s, i, &range);
    bool again = !shard.web && shard.fd < 0;
    enum hr_status status;

    if (shard.opened)
        return read_opened(&shard, range.offset, r, to);
    if (again && (shard.fd = hr__open_file(shard.path, O_RDONLY)) < 0)
        return hr__fail(HR_EIO, "%s: offset %llu: %s",
                        hr__source_short(shard.path),
                        (unsigned long long)range.offset, strerror(errno));
    status = read_open(&shard, &range, r, to);
    if (again)
        close(shard.fd);
    return status;
}

// ---- Other kinds -----------------------------------------------------------

static enum hr_status read_object(const struct hr__source *s, uint64_t i,
                                  const struct hr__reading *reading,
                                  struct hr_encoded *to)
{
    struct hr__http_read r = {.want.most = reading->max_bytes,
                              .room = reading->room,
                              .ctx = reading->ctx};
    const struct hr__source_dir *dir = &s->dirs[s->items[i].dir];
    char url[HR__HTTP_URL], number[HR__NUMBER_TEXT];
    enum hr_status status;

    snprintf(url, sizeof(url), "%s/%s", dir->path,
             hr__source_item_name(s, &s->items[i], number));
    r.url = url;
    r.headers = dir->web == HR__WEB_OWN;
    status = hr__http_get(s->http, &r);
    to->size = r.done;
    return status;
}

static enum hr_status read_entry(const struct hr__source *s, uint64_t i,
                                 const struct hr__reading *r,
                                 struct hr_encoded *to)
{
    struct hr_sample sample = {0};
    struct hr_pack_entry entry;
    struct hr_source_item of = hr_source_item(&s->pub, i);
    enum hr_status status = r->unchecked ? HR_OK
                                         : hr_pack_check(of.pack, of.number);

    if (!status)
        status = hr_pack_sample(of.pack, of.number, &sample);
    // (A file that was cut has no index to read.)
    if (status)
        return status;
    to->data = sample.data;
    to->size = sample.size;
    to->verified = sample.verified;
    hr_pack_entry(of.pack, of.number, &entry);
    to->packed = entry.packed;
    to->source = entry.packed ? entry.source : 0;
    return HR_OK;
}

static enum hr_status read_path(const struct hr__source *s, uint64_t i,
                                const struct hr__reading *r,
                                struct hr_encoded *to)
{
    char path[PATH_MAX];

    return hr__source_file(hr_source_path(&s->pub, i, path, sizeof(path)),
                           r->max_bytes, r->room, r->ctx, &to->size);
}

const struct hr__source_kind *hr__source_kind(const struct hr__source *s,
                                              uint64_t i)
{
    static const struct hr__source_kind file = {read_path, true},
                                        entry = {read_entry, false},
                                        range = {read_range, false},
                                        object = {read_object, false};
    const struct hr__source_dir *dir = &s->dirs[s->items[i].dir];

    return dir->pack    ? &entry
           : dir->shard ? &range
           : dir->web   ? &object
                        : &file;
}

// ---- The public functions --------------------------------------------------

static void *encoded_room(void *ctx, size_t size)
{
    struct hr_encoded *to = ctx;
    void *more;

    if (!size)
        return to;  // it is never ended
    if (size <= to->capacity)
        return to->memory;
    if ((more = hr__alloc(NULL, size)) && to->capacity)
        memcpy(more, to->memory, to->capacity);
    hr__free(to->memory);
    to->memory = more;
    to->capacity = more ? size : 0;
    return more;
}

enum hr_status hr_source_read(hr_source source, uint64_t i, size_t max_bytes,
                              struct hr_encoded *to)
{
    struct hr__source *s = hr__source_of(source);
    struct hr__reading r = {.room = encoded_room, .ctx = to};
    enum hr_status status;

    if (!s || !to || i >= s->pub.num)
        return hr__fail(HR_EINVAL, "there is no sample %llu",
                        (unsigned long long)i);
    r.max_bytes = max_bytes ? max_bytes : (size_t)256 << 20;
    *to = (struct hr_encoded){.memory = to->memory, .capacity = to->capacity};
    status = s->calls.read ? copy_lent(s, i, &r, to)
                           : hr__source_kind(s, i)->read(s, i, &r, to);
    if (!to->data)
        to->data = to->memory;
    return status;
}

void hr_encoded_finish(struct hr_encoded *encoded)
{
    if (!encoded)
        return;
    hr__free(encoded->memory);
    *encoded = (struct hr_encoded){0};
}
