// SPDX-License-Identifier: Apache-2.0
// One try, by libcurl, which is loaded when the first URL is opened. A
// connection is a handle of libcurl's: a read takes one from the pool, and
// returns it.
#include "http.h"

#include <limits.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "hal/engine/base.h"

#if HR_HAVE_CURL

#define CURL_DISABLE_TYPECHECK  // its calls are pointers here
#include <curl/curl.h>

// ---- The library -----------------------------------------------------------

#define CURL_CALLS(X)     \
    X(curl_global_init)   \
    X(curl_version_info)  \
    X(curl_easy_init)     \
    X(curl_easy_setopt)   \
    X(curl_easy_perform)  \
    X(curl_easy_getinfo)  \
    X(curl_easy_strerror) \
    X(curl_easy_cleanup)  \
    X(curl_slist_append)  \
    X(curl_slist_free_all)

static struct library {
#define X(name) __typeof__(&name) name;
    CURL_CALLS(X)
#undef X
    bool there;
} lib;

static const struct hr__entry entries[] = {
#define X(name) {#name, offsetof(struct library, name), false},
    CURL_CALLS(X)
#undef X
};

static void load(void)
{
    void *handle = hr__library_open(HR__LIBRARY_CURL);

    lib.there = handle &&
                !hr__library_fill(handle, &lib, entries,
                                  sizeof(entries) / sizeof(*entries)) &&
                !lib.curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool need_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    if (!lib.there)
        hr__fail(HR_EUNSUPPORTED,
                 "libcurl.so.4, which reads URLs, is not there");
    return lib.there;
}

enum { STALLS = 4 };  // of a deadline

// ---- A handle --------------------------------------------------------------

// Both by their numbers: which of them there is depends on the library that was
// found, not on the headers of the build.
enum {
    PROTOCOLS = 181,        // a mask, of http and https 3
    PROTOCOLS_STR = 10318,  // since 7.85; the other one is to end some day
    AWS_SIGV4 = 10305,      // since 7.75, but other headers since SIGNS
    SIGNS = 0x075700,
};

static CURLcode only_http(CURL *c)
{
    CURLcode code = lib.curl_easy_setopt(c, (CURLoption)PROTOCOLS_STR,
                                         "http,https");

    return code ? lib.curl_easy_setopt(c, (CURLoption)PROTOCOLS, 3L) : code;
}

// Sets the options that all tries share. Connections are of HTTP/1.1: each has
// one read at a time. Redirects are not followed here, see read.c.
static CURLcode set_up(CURL *c, const struct hr_http_params *p)
{
    CURLcode code = only_http(c);

#define SET(option, value) \
    code = code ? code : lib.curl_easy_setopt(c, option, value)
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_BUFFERSIZE, 64L * 1024);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    // A try that stands still leaves time for others.
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)p->deadline_ms / STALLS + 1);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)p->deadline_ms / STALLS / 1000 + 1);
    SET(CURLOPT_USERAGENT, p->user_agent);
    if (p->ca_file)
        SET(CURLOPT_CAINFO, p->ca_file);
    if (getauxval(AT_SECURE))  // no proxy of a user with fewer rights
        SET(CURLOPT_PROXY, "");
    return code;
}

// Makes a handle. NULL: t->why says why, and another try would not help.
static CURL *make(struct hr__http *http, struct hr__http_try *t)
{
    CURL *c = lib.curl_easy_init();
    CURLcode code = c ? set_up(c, &http->params) : CURLE_OUT_OF_MEMORY;

    if (!code)
        return c;
    t->lasting = true;
    snprintf(t->why, sizeof(t->why), "libcurl cannot be set up: %s",
             lib.curl_easy_strerror(code));
    if (c)
        lib.curl_easy_cleanup(c);
    return NULL;
}

// (A stop is not signalled, so it looks again soon.)
static bool wait_idle(struct hr__http *http, const struct hr__http_try *t)
{
    int64_t now = hr__now(), soon = now + 50000000;

    hr__cond_wait(&http->ended, &http->lock,
                  soon < t->deadline ? soon : t->deadline);
    return now < t->deadline;
}

// Takes the connection that was used last, the least likely to be closed. NULL
// with t->why.
static CURL *take(struct hr__http *http, struct hr__http_try *t)
{
    CURL *c = NULL;
    bool made = false;

    pthread_mutex_lock(&http->lock);
    while (!http->num_idle && http->num_made == http->params.connections &&
           !t->stop(t->ctx) && wait_idle(http, t))
        ;
    if (http->num_idle)
        c = http->idle[--http->num_idle];
    else if ((made = http->num_made < http->params.connections))
        http->num_made++;
    pthread_mutex_unlock(&http->lock);
    if (!c && !made)
        snprintf(t->why, sizeof(t->why), "no connection was free in time");
    if (!made || (c = make(http, t)))
        return c;
    pthread_mutex_lock(&http->lock);
    http->num_made--;
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

// With no key: nothing is signed.
static CURLcode sign(CURL *c, const struct hr__s3 *s3)
{
    char how[sizeof(s3->region) + 16];
    bool key = *s3->key;
    CURLcode code = CURLE_OK;

    snprintf(how, sizeof(how), "aws:amz:%s:s3", s3->region);
    SET((CURLoption)AWS_SIGV4, key ? how : NULL);
    SET(CURLOPT_HTTPAUTH, key ? CURLAUTH_AWS_SIGV4 : CURLAUTH_BASIC);
    SET(CURLOPT_USERNAME, key ? s3->key : NULL);
    SET(CURLOPT_PASSWORD, key ? s3->secret : NULL);
    return code;
}

// Takes the try's buffers, callbacks and key off the handle and returns it.
static void leave(struct hr__http *http, CURL *c, const struct hr__http_try *t)
{
    static const struct hr__s3 none = {.key = ""};

    lib.curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
    lib.curl_easy_setopt(c, CURLOPT_HTTPHEADER, NULL);
    lib.curl_easy_setopt(c, CURLOPT_HEADERDATA, NULL);
    lib.curl_easy_setopt(c, CURLOPT_WRITEDATA, NULL);
    lib.curl_easy_setopt(c, CURLOPT_XFERINFODATA, NULL);
    if (t->s3)
        sign(c, &none);
    pthread_mutex_lock(&http->lock);
    http->idle[http->num_idle++] = c;
    pthread_cond_signal(&http->ended);
    pthread_mutex_unlock(&http->lock);
}

// ---- A try -----------------------------------------------------------------

struct running {
    struct hr__http_try *t;
    int64_t asked;               // whether it is to stop
    struct curl_slist added[3];  // before the program's own headers
    char if_range[HR__HTTP_TAG + 16];
    char token[sizeof(((struct hr__s3 *)0)->token) + 32];
};

static size_t on_header(char *data, size_t one, size_t size, void *ctx)
{
    struct running *r = ctx;

    hr__http_answer_line(&r->t->answer, data, one * size);
    // (A bad answer's body has no known length, and its end is not waited for.)
    return r->t->answer.ended && r->t->answer.bad ? 0 : one * size;
}

// Says whether the read is to stop: asked now and then.
static bool is_stopped(struct running *r)
{
    int64_t now = hr__now();

    if (now - r->asked < 50000000)
        return false;
    r->asked = now;
    return r->t->stop(r->t->ctx);
}

// (There may be many calls for one packet of the server's, and libcurl looks at
// no clock between them.)
static size_t on_body(char *data, size_t one, size_t size, void *ctx)
{
    struct running *r = ctx;
    bool goes_on = !is_stopped(r) && hr__now() < r->t->deadline &&
                   r->t->body(r->t->ctx, data, one * size);

    return goes_on ? one * size : 0;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c,
                       curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return is_stopped(ctx);
}

// The hash of no bytes: a request has no body.
static char empty[] = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb924"
                      "27ae41e4649b934ca495991b7852b855";

static CURLcode prepare(struct hr__http *http, CURL *c, struct running *r,
                        char error[CURL_ERROR_SIZE])
{
    struct hr__http_try *t = r->t;
    int64_t left = (t->deadline - hr__now()) / 1000000;
    long ms = left < 1 ? 1 : left > INT_MAX ? INT_MAX : (long)left;
    struct curl_slist *headers = t->headers ? http->headers : NULL;
    CURLcode code = CURLE_OK;

    SET(CURLOPT_URL, t->url);
    SET(CURLOPT_RANGE, t->range);
    if (t->range && *t->tag) {
        snprintf(r->if_range, sizeof(r->if_range), "If-Range: %s", t->tag);
        r->added[0] = (struct curl_slist){r->if_range, headers};
        headers = &r->added[0];
    }
    if (t->s3) {
        r->added[1] = (struct curl_slist){empty, headers};
        headers = &r->added[1];
        code = code ? code : sign(c, t->s3);
    }
    if (t->s3 && *t->s3->token) {
        snprintf(r->token, sizeof(r->token), "x-amz-security-token: %s",
                 t->s3->token);
        r->added[2] = (struct curl_slist){r->token, headers};
        headers = &r->added[2];
    }
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_TIMEOUT_MS, ms);
    SET(CURLOPT_ERRORBUFFER, error);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, (void *)r);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, (void *)r);
    SET(CURLOPT_NOPROGRESS, 0L);
    SET(CURLOPT_XFERINFOFUNCTION, on_progress);
    SET(CURLOPT_XFERINFODATA, (void *)r);
    return code;
#undef SET
}

// Whatever would fail another time in the same way.
static bool is_lasting(CURLcode code)
{
    switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_UNKNOWN_OPTION:
    case CURLE_NOT_BUILT_IN:
        return true;
    default:
        return false;
    }
}

static bool can_sign(struct hr__http_try *t)
{
    const curl_version_info_data *is = lib.curl_version_info(CURLVERSION_FIRST);

    if (!t->s3 || is->version_num >= SIGNS)
        return true;
    t->lasting = true;
    snprintf(t->why, sizeof(t->why),
             "libcurl %s signs no requests as S3 wants them, 7.87 does",
             is->version);
    return false;
}

bool hr__http_try(struct hr__http *http, struct hr__http_try *t)
{
    char error[CURL_ERROR_SIZE] = "";
    struct running r = {.t = t, .asked = hr__now()};
    char *redirect = NULL;
    CURLcode code;
    CURL *c;

    t->answer = (struct hr__http_answer){.retry_after = -1};
    t->redirect[0] = t->why[0] = '\0';
    t->lasting = false;
    if (!can_sign(t) || !(c = take(http, t)))
        return false;
    if (!(code = prepare(http, c, &r, error)))
        code = lib.curl_easy_perform(c);
    if (code == CURLE_WRITE_ERROR && hr__now() >= t->deadline)
        code = CURLE_OPERATION_TIMEDOUT, *error = '\0';  // said by on_body()
    if (code)
        snprintf(t->why, sizeof(t->why), "%.*s", (int)sizeof(t->why) - 1,
                 *error ? error : lib.curl_easy_strerror(code));
    else if (!lib.curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &redirect) &&
             redirect && strlen(redirect) < sizeof(t->redirect))
        strcpy(t->redirect, redirect);
    t->lasting = is_lasting(code);
    leave(http, c, t);
    return code == CURLE_OK;
}

// ---- All of them -----------------------------------------------------------

static bool keep_headers(struct hr__http *http)
{
    const char *const *header = http->params.headers;

    for (; header && *header; header++) {
        void *more = !strchr(*header, ':') || **header == ':' ||
                             strpbrk(*header, "\r\n")
                         ? NULL
                         : lib.curl_slist_append(http->headers, *header);

        if (!more)
            return hr__fail(HR_EINVAL, "header %d is no line 'NAME: VALUE'",
                            (int)(header - http->params.headers)),
                   false;
        http->headers = more;
    }
    http->params.headers = NULL;
    return true;
}

static void close_all(struct hr__http *http)
{
    for (int i = 0; i < http->num_idle; i++)
        lib.curl_easy_cleanup(http->idle[i]);
    if (http->headers)
        lib.curl_slist_free_all(http->headers);
}

#else

static bool need_library(void)
{
    hr__fail(HR_EUNSUPPORTED, "built without libcurl, which reads URLs");
    return false;
}

static bool keep_headers(struct hr__http *http)
{
    (void)http;
    return true;
}

static void close_all(struct hr__http *http)
{
    (void)http;
}

bool hr__http_try(struct hr__http *http, struct hr__http_try *t)
{
    (void)http;
    t->lasting = true;
    snprintf(t->why, sizeof(t->why), "built without libcurl");
    return false;
}

#endif

// ---- Parameters ------------------------------------------------------------

static const char *copy(const char *text)
{
    size_t size = text ? strlen(text) + 1 : 0;
    char *made = size ? hr__alloc(NULL, size) : NULL;

    return made ? memcpy(made, text, size) : NULL;
}

enum { READS = 32, CONNECTIONS = 128 };

// Zeros become what they stand for.
static bool fill_in(struct hr_http_params *p)
{
    // (Of a line's end the next header of a request would begin.)
    if (p->user_agent && strpbrk(p->user_agent, "\r\n"))
        return hr__fail(HR_EINVAL, "user_agent is no line"), false;
    if (p->connections < 0 || p->connections > HR__HTTP_CONNECTIONS ||
        p->retries < -1 || p->backoff_ms < 0 || p->deadline_ms < 0 ||
        p->add_ms < 0)
        return hr__fail(HR_EINVAL,
                        "connections, retries or times out of range"),
               false;
    p->connections = p->connections ? p->connections : CONNECTIONS;
    p->retries = p->retries ? p->retries > 0 ? p->retries : 0 : 5;
    p->backoff_ms = p->backoff_ms ? p->backoff_ms : 100;
    p->deadline_ms = p->deadline_ms ? p->deadline_ms : 30000;
    p->max_bytes = p->max_bytes ? p->max_bytes : UINT64_C(1) << 42;
    p->unsized_bytes = p->unsized_bytes ? p->unsized_bytes : 1 << 25;
    p->index_bytes = p->index_bytes ? p->index_bytes : 1 << 30;
    return true;
}

struct hr__http *hr__http_create(const struct hr_http_params *params)
{
    struct hr_http_params p = *params;
    struct hr__http *http;

    if (!fill_in(&p) || !need_library())
        return NULL;
    if (!(http = hr__alloc(NULL, sizeof(*http))))
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    *http = (struct hr__http){.params = p, .pid = getpid()};
    http->reads = params->connections ? params->connections : READS;
    http->params.user_agent = copy(p.user_agent ? p.user_agent : "headrace");
    http->params.ca_file = copy(p.ca_file);
    hr__s3_set_up(&http->s3);
    pthread_mutex_init(&http->lock, NULL);
    hr__cond_init(&http->ended);
    pthread_mutex_init(&http->ahead.lock, NULL);
    hr__cond_init(&http->ahead.came);
    pthread_cond_init(&http->ahead.wanted, NULL);
    if (!http->params.user_agent || (p.ca_file && !http->params.ca_file))
        hr__fail(HR_ENOMEM, "out of memory");
    else if (keep_headers(http))
        return http;
    hr__http_destroy(http);
    return NULL;
}

bool hr__http_forked(const struct hr__http *http)
{
    return getpid() != http->pid;
}

// (A condition that threads of the parent wait for is never destroyed, and what
// closes a connection may say good-bye to its server.)
static void finish(struct hr__http *http)
{
    pthread_cond_destroy(&http->ahead.wanted);
    pthread_cond_destroy(&http->ahead.came);
    pthread_mutex_destroy(&http->ahead.lock);
    close_all(http);
    pthread_cond_destroy(&http->ended);
    pthread_mutex_destroy(&http->lock);
    pthread_mutex_destroy(&http->s3.lock);
}

void hr__http_destroy(struct hr__http *http)
{
    bool forked = http && hr__http_forked(http);

    if (!http)
        return;
    if (http->ahead.finish)
        http->ahead.finish(&http->ahead, forked);
    if (!forked)
        finish(http);
    hr__free((void *)(uintptr_t)http->params.user_agent);
    hr__free((void *)(uintptr_t)http->params.ca_file);
    explicit_bzero(&http->s3, sizeof(http->s3));
    hr__free(http);
}
