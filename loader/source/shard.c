// SPDX-License-Identifier: Apache-2.0
// Samples that are ranges of a file or of an object of the web: members of a
// tar, records of a RecordIO file. A shard keeps its file open, unless there
// are too many of them; threads read it side by side.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "source.h"

// ---- Opening ---------------------------------------------------------------

static atomic_uint num_open;  // files of shards, of all sources

// Says whether so many may stay open: a data set has thousands of chunks, and
// the program needs files of its own.
static bool may_stay(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
           atomic_load(&num_open) <= limit.rlim_cur / 2;
}

static void close_file(struct hr__shard *shard)
{
    if (shard->fd < 0)
        return;
    close(shard->fd);
    shard->fd = -1;
    atomic_fetch_sub(&num_open, 1);
}

// While samples are searched, the window says what is read: the kernel's
// read-ahead would read all of the file. (Advice that fails does no harm.)
static void advise(const struct hr__shard *shard, int advice)
{
    (void)!posix_fadvise(shard->fd, 0, 0, advice);
}

// (That no file can be opened any more is not the file's fault.)
static bool open_file(struct hr__shard *shard)
{
    const char *path = shard->path;
    struct stat st;

    shard->fd = hr__open_file(path, O_RDONLY);
    if (shard->fd < 0)
        return hr__source_fail(errno == EMFILE || errno == ENFILE ? HR_ENOMEM
                                                                  : HR_EIO,
                               "%s: %s", hr__source_short(path),
                               strerror(errno));
    atomic_fetch_add(&num_open, 1);
    if (fstat(shard->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close_file(shard);
        return hr__source_fail(HR_EIO, "%s: not a regular file",
                               hr__source_short(path));
    }
    shard->size = (uint64_t)st.st_size;
    shard->changed = st.st_mtim;
    advise(shard, POSIX_FADV_RANDOM);
    return true;
}

static bool open_web(struct hr__source *s, struct hr__shard *shard,
                     const char *url)
{
    struct hr__http *http = hr__source_web(s);

    shard->web = http ? hr__http_open(http, url, true, &s->until) : NULL;
    shard->size = shard->web ? shard->web->version.size : 0;
    return shard->web;
}

// With its path, and no file yet. (A query may be a password, and the path is
// for names and messages.)
static struct hr__shard *add_shard(struct hr__source *s, const char *path,
                                   size_t length)
{
    struct hr__shard *shard;

    if (!hr__source_grow(&s->shards, &s->shards_capacity, s->num_shards,
                         sizeof(*s->shards)))
        return NULL;
    shard = &s->shards[s->num_shards];
    *shard = (struct hr__shard){.number = (uint32_t)s->num_shards, .fd = -1};
    shard->path = hr__source_text(s, path, length);
    return shard->path ? shard : NULL;
}

struct hr__shard *hr__shard_open(struct hr__source *s, const char *path)
{
    bool web = hr__http_is_url(path);
    struct hr__shard *shard =
        add_shard(s, path, web ? hr__http_path_end(path) : strlen(path));

    if (!shard || !(web ? open_web(s, shard, path) : open_file(shard)))
        return NULL;
    s->num_shards++;  // from now on it is closed with the source
    if (!(shard->window = hr__alloc(NULL, sizeof(*shard->window))))
        return hr__source_fail(HR_ENOMEM, "out of memory"), NULL;
    shard->window->from = shard->window->num = 0;
    return shard;
}

struct hr__shard *hr__shard_of(struct hr__source *s, const char *path,
                               struct hr__opened *opened)
{
    bool url = strstr(path, "://") != NULL;
    struct hr__shard *shard =
        add_shard(s, path, url ? hr__http_path_end(path) : strlen(path));

    if (!shard)
        return NULL;
    shard->opened = opened;
    s->num_shards++;
    return shard;
}

// ---- Reading ---------------------------------------------------------------

static enum hr_status read_now(const struct hr__shard *shard, void *to,
                               size_t size, uint64_t offset)
{
    size_t done;

    if (shard->web)
        return hr__http_read_at(shard->web, to, size, offset, NULL, NULL);
    done = hr__read_at(shard->fd, to, size, offset);
    if (done == size)
        return HR_OK;
    return hr__fail(HR_EIO, "%s: read, offset %llu: %s",
                    hr__source_short(shard->path),
                    (unsigned long long)(offset + done),
                    errno ? strerror(errno) : "the file ends here");
}

// Moves the window to whole pages: of large records only those pages are read
// that have something to look at. Where nothing is passed over it grows, as the
// web's own does.
static bool move(const struct hr__shard *shard, size_t size, uint64_t offset)
{
    struct hr__window *w = shard->window;
    uint64_t from = offset / HR__SHARD_PAGE * HR__SHARD_PAGE;
    bool grows = !shard->web && w->num && from == w->from + w->num;
    size_t pages = grows ? 2 * w->num : 1;

    size += (size_t)(offset - from);
    size = (size + HR__SHARD_PAGE - 1) / HR__SHARD_PAGE * HR__SHARD_PAGE;
    pages = pages < size               ? size
            : pages > sizeof(w->bytes) ? sizeof(w->bytes)
                                       : pages;
    if (pages > shard->size - from)
        pages = (size_t)(shard->size - from);
    w->num = 0;
    if (read_now(shard, w->bytes, pages, from))
        return false;
    w->from = from;
    w->num = pages;
    return true;
}

const unsigned char *hr__shard_look(const struct hr__shard *shard, size_t size,
                                    uint64_t offset)
{
    struct hr__window *w = shard->window;

    if (offset > shard->size || size > shard->size - offset)
        return hr__fail(HR_EIO, "%s: read, offset %llu: the file ends here",
                        hr__source_short(shard->path),
                        (unsigned long long)shard->size),
               NULL;
    if (!size)
        return w->bytes;  // wherever that is, the window stays
    if ((offset < w->from || offset - w->from > w->num ||
         size > w->num - (size_t)(offset - w->from)) &&
        !move(shard, size, offset))
        return NULL;
    return w->bytes + (offset - w->from);
}

void hr__shard_expect(const struct hr__shard *shard, uint64_t offset)
{
    if (shard->fd >= 0)
        (void)!posix_fadvise(shard->fd, (off_t)offset, 1, POSIX_FADV_WILLNEED);
}

enum hr_status hr__shard_read(const struct hr__shard *shard, void *to,
                              size_t size, uint64_t offset)
{
    const unsigned char *from;

    if (!shard->window || size > HR__SHARD_LOOK)
        return read_now(shard, to, size, offset);
    if (!(from = hr__shard_look(shard, size, offset)))
        return hr_last_status();
    if (size)
        memcpy(to, from, size);
    return HR_OK;
}

// ---- Samples ---------------------------------------------------------------

bool hr__shard_goes_on(const struct hr__source *s,
                       const struct hr__shard *shard)
{
    return !atomic_load_explicit(&s->stopped, memory_order_relaxed) &&
           !(shard->web && shard->web->failed);
}

bool hr__shard_ends(const struct hr__source *s, const struct hr__shard *shard)
{
    return !atomic_load(&s->stopped) ||
           hr__source_fail(HR_ECANCELED, "%s: it was stopped",
                           hr__source_short(shard->path));
}

bool hr__shard_put(struct hr__source *s, struct hr__shard *shard,
                   const char *name, const char *label, struct hr__range range)
{
    size_t before = s->num;

    if (!hr__source_put_member(s, shard->path, 0, shard->number + 1, name,
                               label, shard->names,
                               (uint32_t)shard->ranges.num))
        return false;
    return s->num == before || hr__ranges_put(&shard->ranges, &range);
}

bool hr__shard_skip(struct hr__source *s, const struct hr__shard *shard,
                    const char *name, enum hr_skip why)
{
    uint32_t dir;

    return hr__source_put_member_dir(s, shard->path, 0, shard->number + 1, "",
                                     &dir) &&
           hr__source_skip(s, dir, name, why);
}

void hr__shard_fault(struct hr__source *s, const struct hr__shard *shard,
                     uint64_t offset, const char *name, const char *why)
{
    char text[512];

    // (It is not the file's fault.)
    if (shard->web && shard->web->failed)
        return;
    snprintf(text, sizeof(text), "%s: offset %llu: %s%s%s",
             hr__source_short(shard->path), (unsigned long long)offset,
             name ? hr__source_short(name) : "", name ? ": " : "", why);
    hr__source_fault_text(s, text);
}

bool hr__shard_opened(struct hr__shard *shard, bool ok)
{
    struct hr__http_object *web = shard->web;

    hr__free(shard->window);
    shard->window = NULL;
    if (!may_stay())
        close_file(shard);
    if (!web) {
        advise(shard, POSIX_FADV_NORMAL);
        return ok;
    }
    hr__http_opened(web);
    return web->failed ? hr__source_fail(web->failed, "%s", web->why) : ok;
}

void hr__shard_close(struct hr__shard *shard)
{
    hr__opened_close(shard->opened);
    hr__free(shard->window);
    hr__http_close(shard->web);
    close_file(shard);
    hr__ranges_free(&shard->ranges);
}
