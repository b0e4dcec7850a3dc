// SPDX-License-Identifier: Apache-2.0
// Parses a server's answer. All of it is a stranger's: numbers are read with a
// check, and only what was asked for is taken (RFC 9110, sections 8, 14, 15).
#include <string.h>
#include <strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "http.h"

// ---- Lines -----------------------------------------------------------------

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Digits at *at, up to end; false: there are none, or too many.
static bool number(const char **at, const char *end, uint64_t *value)
{
    const char *begin = *at;

    for (*value = 0; *at < end && is_digit(**at); ++*at)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
            return false;
    return *at > begin;
}

static bool skip(const char **at, const char *end, const char *text)
{
    size_t length = strlen(text);

    if ((size_t)(end - *at) < length || strncasecmp(*at, text, length))
        return false;
    *at += length;
    return true;
}

static bool is_word(const char *at, const char *end, const char *word)
{
    return skip(&at, end, word) && at == end;
}

static void read_length(struct hr__http_answer *a, const char *at,
                        const char *end)
{
    uint64_t value;

    if (!number(&at, end, &value) || at != end)
        a->bad = "its Content-Length is no number";
    else if (a->has_length && a->length != value)
        a->bad = "it has two lengths";
    a->has_length = true;
    a->length = value;
}

// "bytes FIRST-LAST/TOTAL", "bytes FIRST-LAST/*", "bytes */TOTAL"
static void read_range(struct hr__http_answer *a, const char *at,
                       const char *end)
{
    bool ok = !a->has_range && skip(&at, end, "bytes ");

    a->total = UINT64_MAX;
    a->first = 1, a->last = 0;
    if (ok && !skip(&at, end, "*"))
        ok = number(&at, end, &a->first) && skip(&at, end, "-") &&
             number(&at, end, &a->last) && a->first <= a->last;
    ok = ok && skip(&at, end, "/");
    if (ok && !skip(&at, end, "*"))
        ok = number(&at, end, &a->total) && a->total <= INT64_MAX;
    if (!ok || at != end || (a->first <= a->last && a->last >= a->total))
        a->bad = "its Content-Range is none";
    a->has_range = true;
}

static uint64_t hash_of(const char *at, const char *end)
{
    uint64_t hash = XXH3_64bits(at, (size_t)(end - at));

    return at == end ? 0 : hash ? hash : 1;
}

// (RFC 9110, 8.8.3: of a weak one the bytes may be others.)
static void read_tag(struct hr__http_answer *a, const char *at, const char *end)
{
    size_t size = (size_t)(end - at);
    bool strong = size > 1 && size < sizeof(a->strong) && *at == '"' &&
                  memchr(at + 1, '"', size - 1) == end - 1;

    for (size_t i = 0; i < size && strong; i++)
        strong = (unsigned char)at[i] > ' ' && at[i] != 0x7f;
    a->tag = hash_of(at, end);
    if (strong)
        memcpy(a->strong, at, size);
    a->strong[strong ? size : 0] = '\0';
}

static int read_seconds(const char *at, const char *end)
{
    uint64_t value;

    return number(&at, end, &value) && at == end && value < 1000000 ? (int)value
                                                                    : -1;
}

static void read_field(struct hr__http_answer *a, const char *line,
                       const char *end)
{
    const char *at = memchr(line, ':', (size_t)(end - line));
    size_t length = at ? (size_t)(at - line) : 0;

    if (!at)
        return;
    for (at++; at < end && is_blank(*at); at++)
        ;
#define IS(name) \
    (length == sizeof(name) - 1 && !strncasecmp(line, name, length))
    if (IS("Content-Length"))
        read_length(a, at, end);
    else if (IS("Content-Range"))
        read_range(a, at, end);
    else if (IS("Content-Encoding"))
        a->encoded = a->encoded || !is_word(at, end, "identity");
    else if (IS("Transfer-Encoding"))  // (libcurl undoes others by itself)
        a->encoded = a->encoded || (!is_word(at, end, "chunked") &&
                                    !is_word(at, end, "identity"));
    else if (IS("ETag"))
        read_tag(a, at, end);
    else if (IS("Last-Modified"))
        a->modified = hash_of(at, end);
    else if (IS("Retry-After"))
        a->retry_after = read_seconds(at, end);
#undef IS
}

// "HTTP/1.1 206 Partial Content": not a field that is called like that.
static bool is_status(const char *line, const char *end)
{
    return end - line > 8 && !memcmp(line, "HTTP/", 5) && is_digit(line[5]) &&
           line[6] == '.' && is_digit(line[7]) && line[8] == ' ';
}

// Interim answers (1xx) come before the own.
static void read_status(struct hr__http_answer *a, const char *at,
                        const char *end)
{
    uint64_t status = 0;

    *a = (struct hr__http_answer){.retry_after = -1, .total = UINT64_MAX};
    at = memchr(at, ' ', (size_t)(end - at));
    if (at && ++at && number(&at, end, &status) && status >= 100 &&
        status < 600)
        a->status = (int)status;
    else
        a->bad = "it has no status";
}

void hr__http_answer_line(struct hr__http_answer *a, const char *line,
                          size_t size)
{
    const char *end = line + size;

    while (end > line && is_blank(end[-1]))
        end--;
    if (is_status(line, end) && (!a->status || (a->ended && a->status < 200)))
        read_status(a, line, end);
    else if (end == line)
        a->ended = true;
    else if (!a->ended)
        read_field(a, line, end);
}

// ---- Verdicts --------------------------------------------------------------

static struct hr__http_verdict refuse(enum hr_status status, const char *why)
{
    return (struct hr__http_verdict){HR__HTTP_REFUSE, status, .why = why};
}

static struct hr__http_verdict again(const char *why)
{
    return (struct hr__http_verdict){HR__HTTP_AGAIN, HR_EIO, .why = why};
}

static struct hr__http_verdict judge_status(int status)
{
    switch (status) {
    case 301:
    case 302:
    case 303:
    case 307:
    case 308:
        return (struct hr__http_verdict){HR__HTTP_REDIRECT, HR_EIO,
                                         .why = "it leads nowhere"};
    case 401:
    case 403:
        return refuse(HR_EIO, "not allowed");
    case 404:
    case 410:
        return refuse(HR_EIO, "there is no such object");
    case 408:
    case 425:
    case 429:
        return again("later, says the server");
    case 501:
    case 505:
        return refuse(HR_EIO, "the server cannot do that");
    default:
        return status >= 500 ? again("the server failed")
                             : refuse(HR_EIO, "no answer to the question");
    }
}

static bool is_changed(const struct hr__http_version *was,
                       const struct hr__http_version *is)
{
    return was->size != is->size ||
           (was->tag && is->tag && was->tag != is->tag) ||
           (was->modified && is->modified && was->modified != is->modified);
}

// Says whether the answer lacks the version that earlier ones had: then its
// bytes may be another version's. (A date may be left out beside the tag.)
static bool is_nameless(const struct hr__http_version *was,
                        const struct hr__http_version *is)
{
    return (was->tag && !is->tag) ||
           (!was->tag && was->modified && !is->modified);
}

// The body is size bytes of an object of total bytes.
static struct hr__http_verdict take(const struct hr__http_answer *a,
                                    const struct hr__http_want *want,
                                    uint64_t size, uint64_t total)
{
    struct hr__http_verdict v = {HR__HTTP_TAKE, .has_size = size != UINT64_MAX,
                                 .size = size,
                                 .version = {total, a->tag, a->modified}};

    if (want->known && is_changed(want->known, &v.version))
        return refuse(HR_EIO, "it was changed while it was open");
    if (want->known && is_nameless(want->known, &v.version))
        return again("it has lost its ETag, or its Last-Modified");
    if (total != UINT64_MAX && total > want->most)
        return refuse(HR_ELIMIT, "it is larger than the limit");
    return v;
}

static struct hr__http_verdict judge_part(const struct hr__http_answer *a,
                                          const struct hr__http_want *want)
{
    uint64_t size = a->last - a->first + 1;

    if (!want->size || !a->has_range || a->first > a->last)
        return again("206 without a valid Content-Range");
    if (a->total == UINT64_MAX)
        return refuse(HR_EUNSUPPORTED,
                      "the server does not say how long the object is");
    if (a->first != want->offset || size > want->size)
        return again("it is another range than was asked for");
    if (a->has_length && a->length != size)
        return again("its length and its range do not fit");
    if (!want->may_end && want->size > a->total - a->first)
        return refuse(HR_EIO, "it was changed while it was open");
    return take(a, want, size, a->total);
}

// Judges an answer with all of the object instead of a part: right, if it is
// not longer than the requested range.
static struct hr__http_verdict judge_whole(const struct hr__http_answer *a,
                                           const struct hr__http_want *want)
{
    uint64_t size = a->has_length ? a->length : UINT64_MAX;
    const struct hr__http_version is = {size, a->tag, a->modified};

    if (!want->size)
        return take(a, want, size, size);
    if (want->known && a->has_length && is_changed(want->known, &is))
        return refuse(HR_EIO, "it was changed while it was open");
    if (want->if_range)
        return again("it is all of the object, for a tag that it has");
    if (want->offset || size > want->size ||
        (!want->may_end && size != want->size))
        return refuse(HR_EUNSUPPORTED, "the server gives no ranges");
    return take(a, want, size, size);
}

struct hr__http_verdict hr__http_judge(const struct hr__http_answer *a,
                                       const struct hr__http_want *want)
{
    if (a->bad)
        return again(a->bad);
    // An empty object has no range.
    if (a->status == 416 && want->size && a->has_range && a->first > a->last &&
        a->total <= want->offset && want->may_end && !want->offset)
        return take(a, want, 0, a->total);
    if (a->status == 416 && want->known)
        return refuse(HR_EIO, "it was changed while it was open");
    if (a->status != 200 && a->status != 206)
        return judge_status(a->status);
    if (a->encoded)
        return refuse(HR_EUNSUPPORTED, "it is compressed for the way");
    return a->status == 206 ? judge_part(a, want) : judge_whole(a, want);
}

// ---- URLs ------------------------------------------------------------------

static size_t scheme(const char *url)
{
    return !strncasecmp(url, "http://", 7)    ? 7
           : !strncasecmp(url, "https://", 8) ? 8
           : hr__s3_is_url(url)               ? 5
                                              : 0;
}

bool hr__http_is_url(const char *text)
{
    return scheme(text) != 0;
}

size_t hr__http_origin(const char *url)
{
    size_t begin = scheme(url);

    return begin + strcspn(url + begin, "/?#");
}

size_t hr__http_path_end(const char *url)
{
    return hr__s3_is_url(url) ? strlen(url) : strcspn(url, "?#");
}

bool hr__http_same_origin(const char *a, const char *b)
{
    size_t length = hr__http_origin(a);

    return length == hr__http_origin(b) && !strncasecmp(a, b, length);
}

const char *hr__http_url_fault(const char *url)
{
    size_t begin = scheme(url), end = hr__http_origin(url);

    if (!begin)
        return "a URL of none of http, https and s3";
    if (strlen(url) >= HR__HTTP_URL)
        return "the URL is too long";
    if (end == begin)
        return "the URL names no host";
    // It would stand in messages, and be sent along when it is redirected.
    if (memchr(url + begin, '@', end - begin))
        return "a URL has no user and password: give the source a header";
    return NULL;
}
