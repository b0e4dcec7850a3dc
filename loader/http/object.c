// SPDX-License-Identifier: Apache-2.0
// An open object. While it is added it is read sequentially, a window at a
// time. The window grows as long as all of it is used, and shrinks when most is
// skipped.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "hal/engine/base.h"
#include "http.h"

enum { WINDOW_LEAST = 1 << 16, WINDOW_FIRST = 1 << 18, WINDOW_MOST = 1 << 23 };

static bool fail(struct hr__http_object *o)
{
    if (!o->failed) {
        o->failed = hr_last_status();
        snprintf(o->why, sizeof(o->why), "%s", hr_last_error());
    }
    return false;
}

static bool window_room(struct hr__http_object *o, size_t size)
{
    if (size <= o->capacity)
        return true;
    hr__free(o->window);
    o->num = 0;
    o->window = hr__alloc(NULL, size);
    o->capacity = o->window ? size : 0;
    if (!o->window)
        hr__fail(HR_ENOMEM, "out of memory");
    return o->window;
}

static void *go_on(void *ctx, size_t size)
{
    struct hr__http_object *o = ctx;

    (void)size;
    for (int i = 0; i < 2; i++)
        if (o->until.stop[i] && atomic_load(o->until.stop[i]))
            return NULL;
    return ctx;
}

// Moves the window to begin at offset < version.size.
static bool move(struct hr__http_object *o, uint64_t offset)
{
    uint64_t left = o->version.size - offset, end = o->from + o->num;
    struct hr__http_read r = {.want.known = &o->version,
                              .deadline = o->until.deadline,
                              .room = go_on,
                              .ctx = o};

    // What was passed over behind it: more than it had?
    o->next = offset > end && offset - end > o->num ? o->next / 2 : o->next * 2;
    o->next = o->next < WINDOW_LEAST  ? WINDOW_LEAST
              : o->next > WINDOW_MOST ? WINDOW_MOST
                                      : o->next;
    if (!window_room(o, o->next))
        return fail(o);
    o->num = 0;
    if (hr__http_get_range(o, o->window,
                           left < o->next ? (size_t)left : o->next, offset, &r))
        return fail(o);
    o->from = offset;
    o->num = r.done;
    return true;
}

struct hr__http_object *hr__http_open(struct hr__http *http, const char *url,
                                      bool headers,
                                      const struct hr__http_until *until)
{
    int64_t most = http->params.add_ms * INT64_C(1000000);
    struct hr__http_object *o = hr__alloc(NULL, sizeof(*o) + strlen(url) + 1);
    struct hr__http_read r = {.want.may_end = true, .room = go_on, .ctx = o};

    if (!o)
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    *o = (struct hr__http_object){.http = http,
                                  .headers = headers,
                                  .until = *until,
                                  .next = WINDOW_FIRST};
    if (most)
        r.deadline = o->until.deadline = hr__now() + most;
    strcpy(o->url, url);
    pthread_mutex_init(&o->place.lock, NULL);
    if (!window_room(o, WINDOW_FIRST) ||
        hr__http_get_range(o, o->window, WINDOW_FIRST, 0, &r)) {
        hr__http_close(o);
        return NULL;
    }
    o->num = r.done;
    o->version = r.version;
    strcpy(o->tag, r.tag);
    return o;
}

void hr__http_opened(struct hr__http_object *o)
{
    hr__free(o->window);
    o->window = NULL;
    o->num = o->capacity = 0;
    o->until = (struct hr__http_until){.deadline = 0};
}

void hr__http_close(struct hr__http_object *o)
{
    if (!o)
        return;
    hr__http_forget(o);
    pthread_mutex_destroy(&o->place.lock);
    hr__free(o->place.url);
    hr__free(o->window);
    hr__free(o);
}

// ---- Reads -----------------------------------------------------------------

enum hr_status hr__http_read_at(struct hr__http_object *o, void *to,
                                size_t size, uint64_t offset,
                                void *(*room)(void *ctx, size_t size),
                                void *ctx)
{
    struct hr__http_read r = {.want.known = &o->version,
                              .deadline = o->until.deadline,
                              .room = room ? room : go_on,
                              .ctx = room ? ctx : o};
    char url[192];

    if (offset > o->version.size || size > o->version.size - offset)
        return hr__fail(HR_EIO, "%s: offset %" PRIu64 ": the object ends here",
                        hr__http_short(o->url, url), o->version.size);
    if (!size)
        return HR_OK;
    if (!o->window)
        return hr__http_read_near(o, to, size, offset, &r);
    if (size > WINDOW_LEAST) {
        enum hr_status status = hr__http_get_range(o, to, size, offset, &r);

        if (status)
            fail(o);
        return status;
    }
    if ((offset < o->from || offset - o->from > o->num ||
         size > o->num - (offset - o->from)) &&
        !move(o, offset))
        return hr_last_status();
    memcpy(to, o->window + (offset - o->from), size);
    return HR_OK;
}

// ---- As a file -------------------------------------------------------------

static ssize_t stream_read(void *ctx, char *to, size_t size)
{
    struct hr__http_object *o = ctx;
    uint64_t at = o->position, left = o->version.size - at;

    if (!left)
        return 0;
    if ((at < o->from || at - o->from >= o->num) && !move(o, at)) {
        errno = EIO;
        return -1;
    }
    left = o->num - (at - o->from);
    size = size < left ? size : (size_t)left;
    memcpy(to, o->window + (at - o->from), size);
    o->position += size;
    return (ssize_t)size;
}

FILE *hr__http_stream(struct hr__http_object *o)
{
    return fopencookie(o, "r", (cookie_io_functions_t){.read = stream_read});
}
