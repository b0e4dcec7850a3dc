// SPDX-License-Identifier: Apache-2.0
// One read: as many tries as its deadline and the parameters allow. The
// received bytes of a range stay, and the next try asks for the rest.
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <Random123/philox.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "hal/engine/base.h"
#include "http.h"

enum {
    ERROR_BODY = 1 << 16,  // bytes of a dropped answer, for its connection
                           // to be used again
    FIRST_ROOM = 1 << 16,  // for an object of no known length
    LONGEST_WAIT = 10000,  // ms between tries, if the server names none
    FOR_BACKOFF = 1,
};

struct reading {
    struct hr__http *http;
    struct hr__http_read *r;
    struct hr__http_try try;
    struct hr__http_want want;  // of this try: the rest
    struct hr__http_verdict verdict;
    const char *stage, *why;  // of the failure
    bool judged;
    bool wanted;  // its body; else it is dropped
    size_t came;  // bytes of this try; of them dropped ones
    size_t dropped;
    size_t capacity;  // bytes at r->to, of a whole object
    char url[HR__S3_URL], begun[HR__S3_URL];
    char range[48];
    struct hr__s3 s3;
};

const char *hr__http_short(const char *url, char text[192])
{
    size_t length = hr__http_path_end(url),
           from = length > 160 ? length - 160 : 0;

    snprintf(text, 192, "%.*s", (int)(length - from), url + from);
    return text;
}

// ---- The body --------------------------------------------------------------

static bool refuse(struct reading *g, enum hr_status status, const char *why)
{
    g->verdict = (struct hr__http_verdict){HR__HTTP_REFUSE, status, .why = why};
    g->why = why;
    return false;
}

// Gets memory for so many bytes of a whole object; the received bytes stay. A
// wait for the budget does not count against the server's deadline.
static bool whole_room(struct reading *g, size_t size)
{
    struct hr__http_read *r = g->r;
    int64_t begun = hr__now();
    void *to;

    if (r->to && size <= g->capacity)
        return true;
    if (!(to = r->room(r->ctx, size ? size : 1)))
        return refuse(g, HR_ENOMEM, "no memory for it");
    r->to = to;
    g->capacity = size;
    g->try.deadline += hr__now() - begun;
    return true;
}

static void judge(struct reading *g)
{
    g->judged = true;
    g->verdict = hr__http_judge(&g->try.answer, &g->want);
    g->why = g->verdict.why;
    if (g->verdict.take != HR__HTTP_TAKE)
        return;
    // (An empty object is told by an error.)
    g->wanted = g->try.answer.status != 416;
    if (!g->want.size && g->verdict.has_size)
        whole_room(g, (size_t)g->verdict.size);
    if (!g->want.known) {
        g->r->version = g->verdict.version;
        strcpy(g->r->tag, g->try.answer.strong);
        // From now on it is to stay what it is, also in the next try.
        if (g->verdict.version.size != UINT64_MAX)
            g->want.known = &g->r->version;
    }
}

// Gets memory for an object of unknown length as its bytes arrive.
static bool grow(struct reading *g, size_t size)
{
    uint64_t unsized = g->http->params.unsized_bytes;
    size_t most = (size_t)(unsized < g->want.most ? unsized : g->want.most);
    size_t more = g->capacity ? 2 * g->capacity : FIRST_ROOM;

    if (size > most - g->came)
        return refuse(g, HR_ELIMIT,
                      g->want.most > most
                          ? "it is larger than the limit for objects of which "
                            "no length is said"
                          : "it is larger than the limit");
    if (g->came + size <= g->capacity)
        return true;
    while (more < g->came + size)
        more *= 2;
    return whole_room(g, more < most ? more : most);
}

static bool on_body(void *ctx, const void *data, size_t size)
{
    struct reading *g = ctx;

    if (!g->judged)
        judge(g);
    if (!g->wanted)
        return (g->dropped += size) <= ERROR_BODY;
    if (g->verdict.take != HR__HTTP_TAKE)
        return false;
    if (!g->verdict.has_size) {
        if (!grow(g, size))
            return false;
        memcpy(g->r->to + g->came, data, size);
    } else {
        if (size > g->verdict.size - g->came) {
            g->verdict.take = HR__HTTP_AGAIN;
            g->why = "more bytes came than were promised";
            return false;
        }
        memcpy(g->r->to + g->r->done + g->came, data, size);
    }
    g->came += size;
    return true;
}

static bool is_stopped(void *ctx)
{
    struct hr__http_read *r = ((struct reading *)ctx)->r;

    return r->room && !r->room(r->ctx, 0);
}

// ---- A try -----------------------------------------------------------------

// Copies a URL; bytes that are not allowed in one are escaped. (Lists have
// names of files as they are.)
static void escape(char *to, const char *url)
{
    for (; *url; url++)
        if (*url > ' ' && *url < 0x7f && !strchr("\"<>\\^`{|}", *url))
            *to++ = *url;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*url);
    *to = '\0';
}

// Follows a redirect. The program's headers are only for the hosts that it
// named, and a redirect from https to http is refused.
static bool redirect(struct reading *g)
{
    const char *to = g->try.redirect;

    if (!*to)
        return refuse(g, HR_EIO, "it leads nowhere");
    if (hr__http_url_fault(to) || hr__s3_is_url(to))
        return refuse(g, HR_EIO, "it leads to what is no URL of http or https");
    if (!strncasecmp(g->url, "https:", 6) && strncasecmp(to, "https:", 6))
        return refuse(g, HR_EIO, "it leads out of https");
    g->try.headers = g->try.headers && hr__http_same_origin(g->url, to);
    strcpy(g->url, to);
    return true;
}

// Only the URL that was named is signed, and none that it leads to.
static void try_so(struct reading *g)
{
    bool named = !strcmp(g->url, g->begun), ended;

    g->try.s3 = named && *g->s3.key ? &g->s3 : NULL;
    g->judged = g->wanted = false;
    g->came = g->dropped = 0;
    g->why = NULL;
    ended = hr__http_try(g->http, &g->try);
    if (!g->judged && g->try.answer.ended)
        judge(g);
    if (g->judged && !*g->try.redirect && hr__s3_is_url(g->r->url) && named &&
        hr__s3_why(&g->s3, g->try.answer.status))
        refuse(g, HR_EIO, hr__s3_why(&g->s3, g->try.answer.status));
    g->stage = !g->try.answer.status ? "request"
               : g->wanted           ? "body"
                                     : "answer";
    if (!g->judged) {
        g->verdict = (struct hr__http_verdict){.take = g->try.lasting
                                                           ? HR__HTTP_REFUSE
                                                           : HR__HTTP_AGAIN,
                                               .status = HR_EIO};
    } else if (!ended && g->verdict.take == HR__HTTP_TAKE) {
        g->verdict.take = HR__HTTP_AGAIN;
    }
    if (!g->why)
        g->why = g->try.why;
}

// Says whether it leads elsewhere. A server that gives all of it, whatever the
// tag, is asked without.
static bool try_once(struct reading *g)
{
    try_so(g);
    if (g->judged && g->want.if_range && g->try.answer.status == 200 &&
        g->verdict.take == HR__HTTP_AGAIN) {
        g->r->tag[0] = '\0';
        g->want.if_range = false;
        try_so(g);
    }
    return g->verdict.take == HR__HTTP_REDIRECT;
}

// The tries of a URL, from one redirect to the next.
static void follow(struct reading *g)
{
    for (int hop = 0; try_once(g); hop++) {
        if (hop == HR__HTTP_HOPS) {
            refuse(g, HR_EIO, "it is redirected too often");
            return;
        }
        if (!redirect(g))
            return;
    }
}

// ---- Where redirects lead to -----------------------------------------------

// Says whether the object was found elsewhere: then that is the URL to begin
// with.
static bool begin_elsewhere(struct reading *g)
{
    struct hr__http_place *place = g->r->place;
    bool elsewhere;

    if (!place)
        return false;
    pthread_mutex_lock(&place->lock);
    elsewhere = place->url && hr__now() < place->until;
    if (elsewhere) {
        strcpy(g->url, place->url);
        g->try.headers = place->headers;
    }
    pthread_mutex_unlock(&place->lock);
    return elsewhere;
}

// Keeps the final URL of a good answer as the place where reads begin, and
// forgets the place of a bad one.
static void keep_place(struct reading *g, bool well)
{
    struct hr__http_place *place = g->r->place;

    if (!place)
        return;
    pthread_mutex_lock(&place->lock);
    place->until = 0;
    if (well && strlen(g->url) < HR__HTTP_URL &&
        (place->url || (place->url = hr__alloc(NULL, HR__HTTP_URL)))) {
        strcpy(place->url, g->url);
        place->headers = g->try.headers;
        place->until = hr__now() + HR__HTTP_KEPT * INT64_C(1000000000);
    }
    pthread_mutex_unlock(&place->lock);
}

// ---- A try, with its redirects ---------------------------------------------

static void ask(struct reading *g)
{
    struct hr__http_read *r = g->r;

    g->try.range = NULL;
    if (g->want.size) {
        g->want.offset = r->want.offset + r->done;
        g->want.size = r->want.size - r->done;
        snprintf(g->range, sizeof(g->range), "%" PRIu64 "-%" PRIu64,
                 g->want.offset, g->want.offset + g->want.size - 1);
        g->try.range = g->range;
        g->want.if_range = g->want.known && r->tag[0];
        g->try.tag = r->tag;
    }
    // Where it was found it may be no more: a signed URL ends.
    if (begin_elsewhere(g)) {
        follow(g);
        if (g->verdict.take == HR__HTTP_TAKE)
            return;
        keep_place(g, false);
        if (g->came || is_stopped(g))
            return;
    }
    g->try.headers = r->headers;
    strcpy(g->url, g->begun);
    follow(g);
    if (g->verdict.take == HR__HTTP_TAKE && strcmp(g->url, g->begun))
        keep_place(g, true);
}

// Says whether all is there now.
static bool take(struct reading *g)
{
    struct hr__http_read *r = g->r;
    bool ended = g->verdict.take == HR__HTTP_TAKE;
    uint64_t left;

    if (!g->judged || g->verdict.take > HR__HTTP_AGAIN)
        return false;
    if (!g->want.size) {
        if (!ended || !g->verdict.has_size) {
            if (!ended || !whole_room(g, g->came))
                return false;
        }
        r->done = g->came;
        r->version.size = g->came;
        return true;
    }
    // (Cut or not: each byte of a part is where it belongs.)
    if (g->try.answer.status == 206 && g->verdict.has_size)
        r->done += g->came;
    else if (ended)
        r->done = g->came;
    else
        return false;
    left = (r->want.known ? r->want.known : &r->version)->size - r->want.offset;
    return r->done == (left < r->want.size ? left : r->want.size);
}

// ---- All tries -------------------------------------------------------------

// Doubles from try to try, and is between half of that and all of it, by a draw
// that is always the same: what fails together is not to come back together.
int64_t hr__http_backoff(const struct hr_http_params *p, const char *url,
                         uint64_t offset, int try, int retry_after)
{
    uint64_t hash = XXH3_64bits_withSeed(url, strlen(url), offset);
    philox4x32_ctr_t counter = {
        {(uint32_t)hash, (uint32_t)(hash >> 32), (uint32_t)try, FOR_BACKOFF}};
    philox4x32_key_t key = {{(uint32_t)p->seed, (uint32_t)(p->seed >> 32)}};
    uint64_t draw = philox4x32(counter, key).v[0];
    int64_t half = (int64_t)p->backoff_ms << (try < 20 ? try : 20);
    int64_t asked = retry_after * INT64_C(1000000000), wait;

    half = (half < LONGEST_WAIT ? half : LONGEST_WAIT) * 500000;
    wait = half + (int64_t)(draw * (uint64_t)(half >> 8) >> 24);
    return wait < asked ? asked : wait;
}

static bool sleep_until(struct reading *g, int64_t until)
{
    while (!is_stopped(g)) {
        int64_t left = until - hr__now();
        struct timespec ts = {.tv_nsec = left < 50000000 ? left : 50000000};

        if (left <= 0)
            return true;
        nanosleep(&ts, NULL);
    }
    return false;
}

static enum hr_status fail(struct reading *g, int tries, bool late)
{
    const struct hr__http_read *r = g->r;
    char url[192], status[32] = "", times[64] = "";

    hr__http_short(r->url, url);
    if (is_stopped(g))
        return hr__fail(HR_ECANCELED, "%s: stopped, no reader waits for it",
                        url);
    if (g->try.answer.status)
        snprintf(status, sizeof(status), "status %d: ", g->try.answer.status);
    if (tries > 1 || late)
        snprintf(times, sizeof(times), " (%d tries%s)", tries,
                 late ? ", no time for more" : "");
    return hr__fail(g->verdict.take == HR__HTTP_REFUSE ? g->verdict.status
                    : late                             ? HR_ETIMEDOUT
                                                       : HR_EIO,
                    "%s: %s, offset %" PRIu64 ": %s%s%s", url, g->stage,
                    r->want.offset + r->done, status,
                    *g->why ? g->why : "it came in parts", times);
}

static enum hr_status get(struct reading *g)
{
    int64_t wait;

    for (int try = 0;; try++) {
        if (hr__now() >= g->try.deadline) {
            g->stage = "request";
            g->why = "the time was over before";
            return fail(g, try, true);
        }
        ask(g);
        if (take(g))
            return HR_OK;
        if (g->verdict.take == HR__HTTP_REFUSE || is_stopped(g))
            return fail(g, try + 1, false);
        wait = hr__now() +
               hr__http_backoff(&g->http->params, g->r->url,
                                g->r->want.offset + g->r->done, try,
                                g->judged ? g->try.answer.retry_after : -1);
        if (try == g->http->params.retries || wait >= g->try.deadline ||
            !sleep_until(g, wait))
            return fail(g, try + 1, wait >= g->try.deadline);
    }
}

int64_t hr__http_deadline(const struct hr__http *http, int64_t before)
{
    int64_t own = hr__now() + http->params.deadline_ms * INT64_C(1000000);

    return before && before < own ? before : own;
}

enum hr_status hr__http_get(struct hr__http *http, struct hr__http_read *r)
{
    const char *why = hr__http_url_fault(r->url);
    int64_t deadline = hr__http_deadline(http, r->deadline);
    struct reading *g;
    enum hr_status status;
    char url[192];

    if (why)
        return hr__fail(HR_EINVAL, "%s: %s", hr__http_short(r->url, url), why);
    // Parent and child would talk over the same connections.
    if (hr__http_forked(http))
        return hr__fail(HR_EFORK, "%s: opened before fork()",
                        hr__http_short(r->url, url));
    if (!(g = hr__alloc(NULL, sizeof(*g))))
        return hr__fail(HR_ENOMEM, "out of memory");
    *g = (struct reading){.http = http, .r = r, .want = r->want};
    g->try = (struct hr__http_try){
        .url = g->url,
        .deadline = deadline,
        .body = on_body,
        .stop = is_stopped,
        .ctx = g,
    };
    r->done = 0;
    if (!hr__s3_is_url(r->url))
        escape(g->begun, r->url);
    else
        why = hr__s3_locate(&http->s3, r->url, g->begun, &g->s3);
    status = why ? hr__fail(HR_EINVAL, "%s: %s", hr__http_short(r->url, url),
                            why)
                 : get(g);
    explicit_bzero(&g->s3, sizeof(g->s3));
    hr__free(g);
    return status;
}
