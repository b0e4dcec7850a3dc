// SPDX-License-Identifier: Apache-2.0
#include "http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct connection {
    struct http_server *server;
    int fd;
};

struct request {
    char path[1024], key[64];
    bool ranged, tagged, other_tag;
    unsigned long long first, last;
};

// ---- Sockets ---------------------------------------------------------------

// True if there is something to read before the server stops.
static bool wait_for(struct http_server *s, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (!atomic_load(&s->stop))
        if (poll(&p, 1, 20) > 0)
            return true;
    return false;
}

static bool put(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool read_request(struct connection *c, struct request *r)
{
    char text[8192], *range, *key, *tag;
    size_t used = 0;

    *r = (struct request){0};
    do {
        ssize_t n = wait_for(c->server, c->fd)
                        ? recv(c->fd, text + used, sizeof(text) - 1 - used, 0)
                        : 0;

        if (n <= 0)
            return false;
        used += (size_t)n;
        text[used] = '\0';
    } while (!strstr(text, "\r\n\r\n"));
    if (sscanf(text, "GET %1023s", r->path) != 1)
        return false;
    r->path[strcspn(r->path, "?")] = '\0';
    range = strcasestr(text, "\r\nRange: bytes=");
    r->ranged = range && sscanf(range + 15, "%llu-%llu", &r->first, &r->last);
    tag = strcasestr(text, "\r\nIf-Range: ");
    r->tagged = tag && !strncmp(tag + 12, "\"a\"\r\n", 5);
    r->other_tag = tag && !r->tagged;
    if ((key = strcasestr(text, "\r\nX-Key: ")))
        sscanf(key + 9, "%63[^\r\n]", r->key);
    return true;
}

size_t http_server_flip(struct http_server *s, struct http_object *o,
                        ssize_t byte)
{
    size_t size;

    pthread_mutex_lock(&s->lock);
    if (byte >= 0)
        o->data[byte] ^= 1;
    size = o->size;
    pthread_mutex_unlock(&s->lock);
    return size;
}

void http_server_resize(struct http_server *s, struct http_object *o,
                        size_t size)
{
    pthread_mutex_lock(&s->lock);
    o->size = size;
    pthread_mutex_unlock(&s->lock);
}

// ---- Answers ---------------------------------------------------------------

struct head {
    char text[1024];
    size_t used;
};

static void line(struct head *h, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    h->used += (size_t)vsnprintf(h->text + h->used, sizeof(h->text) - h->used,
                                 format, args);
    va_end(args);
    h->used += (size_t)snprintf(h->text + h->used, sizeof(h->text) - h->used,
                                "\r\n");
}

static bool put_status(struct connection *c, const char *status,
                       const char *field)
{
    struct head h = {.used = 0};
    char body[64] = "an error";

    line(&h, "HTTP/1.1 %s", status);
    if (field)
        line(&h, "%s", field);
    line(&h, "Content-Length: %zu", strlen(body));
    line(&h, "");
    return put(c->fd, h.text, h.used) && put(c->fd, body, strlen(body));
}

static bool put_slowly(struct connection *c, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size && !atomic_load(&c->server->stop); i++) {
        if (!put(c->fd, data + i, 1))
            return false;
        test_sleep(20 * TEST_MS);
    }
    return true;
}

static bool put_body(struct connection *c, enum http_fault fault,
                     const uint8_t *data, size_t size)
{
    static const uint8_t zeros[4096];
    char text[32];

    switch (fault) {
    case HTTP_CUT:
        put(c->fd, data, size / 2);
        return false;
    case HTTP_SLOW:
        return put_slowly(c, data, size);
    case HTTP_LONG:
        put(c->fd, data, size);
        put(c->fd, "more", 4);
        return false;
    case HTTP_ENDLESS:
        while (put(c->fd, "1000\r\n", 6) && put(c->fd, zeros, 4096) &&
               put(c->fd, "\r\n", 2))
            ;
        return false;
    case HTTP_SQUEEZED:
    case HTTP_CHUNKED:
        snprintf(text, sizeof(text), "%zx\r\n", size);
        return (!size || (put(c->fd, text, strlen(text)) &&
                          put(c->fd, data, size) && put(c->fd, "\r\n", 2))) &&
               put(c->fd, "0\r\n\r\n", 5);
    default:
        return put(c->fd, data, size);
    }
}

static bool put_object(struct connection *c, const struct request *r,
                       struct http_object *o, enum http_fault fault)
{
    size_t size = http_server_flip(c->server, o, -1), first = 0, n;
    bool chunked = fault == HTTP_CHUNKED || fault == HTTP_ENDLESS ||
                   fault == HTTP_SQUEEZED;
    bool other = fault == HTTP_CHANGED || fault == HTTP_NAMELESS ||
                 fault == HTTP_REPLACED;
    bool part = r->ranged && fault != HTTP_WHOLE && !chunked && !r->other_tag &&
                !(r->tagged &&
                  (fault == HTTP_REPLACED || fault == HTTP_NO_IF_RANGE));
    auto_heap uint8_t *body = NULL;
    struct head h = {.used = 0};
    char text[64];
    bool ok;

    size /= fault == HTTP_SHRUNK ? 2 : 1;
    snprintf(text, sizeof(text), "Content-Range: bytes */%zu", size);
    if (part && r->first >= size)
        return put_status(c, "416 Range Not Satisfiable", text);
    n = size;
    if (part) {
        first = r->first + (fault == HTTP_OTHER_RANGE && r->first + 1 < size);
        n = (r->last < size ? r->last + 1 : size) - first;
    }
    line(&h, part ? "HTTP/1.1 206 Partial Content" : "HTTP/1.1 200 OK");
    if (fault != HTTP_NAMELESS)
        line(&h, "ETag: \"%s\"", other ? "b" : "a");
    if (fault == HTTP_COMPRESSED)
        line(&h, "Content-Encoding: gzip");
    if (part && fault == HTTP_NO_TOTAL)
        line(&h, "Content-Range: bytes %zu-%zu/*", first, first + n - 1);
    else if (part)
        line(&h, "Content-Range: bytes %zu-%zu/%zu", first, first + n - 1,
             size);
    if (fault == HTTP_TWO_LENGTHS)
        line(&h, "Content-Length: %zu\r\nContent-Length: %zu", n, n + 1);
    else if (chunked)
        line(&h, "Transfer-Encoding: %schunked",
             fault == HTTP_SQUEEZED ? "gzip, " : "");
    else if (fault == HTTP_LONG)
        line(&h, "Connection: close");
    else
        line(&h, "Content-Length: %zu", n);
    line(&h, "");
    body = malloc(n + 1);
    pthread_mutex_lock(&c->server->lock);
    if (other)
        memset(body, 'x', n);
    else
        memcpy(body, o->data + first, n);
    pthread_mutex_unlock(&c->server->lock);
    ok = put(c->fd, h.text, h.used) && put_body(c, fault, body, n);
    return ok;
}

static bool answer(struct connection *c, const struct request *r)
{
    struct http_server *s = c->server;
    int n = atomic_fetch_add(&s->requests, 1);
    enum http_fault (*of)(struct http_server *, int, const char *) = s->fault;
    enum http_fault fault = of ? of(s, n, r->path) : HTTP_GOOD;
    char text[1024];

    atomic_fetch_add(&s->keyed, *r->key != '\0');
    atomic_fetch_add(&s->tagged, r->tagged);
    switch (fault) {
    case HTTP_EMPTY:
        return false;
    case HTTP_GARBAGE:
        put(c->fd, "\1\2 nothing of the kind\r\n\r\n", 26);
        return false;
    case HTTP_STALL:
        while (!atomic_load(&s->stop))
            test_sleep(10 * TEST_MS);
        return false;
    case HTTP_500:
        return put_status(c, "500 Internal Server Error", NULL);
    case HTTP_503:
        return put_status(c, "503 Service Unavailable", NULL);
    case HTTP_LATER:
        return put_status(c, "503 Service Unavailable", "Retry-After: 1");
    case HTTP_REDIRECT:
        snprintf(text, sizeof(text), "Location: %s", s->redirect);
        return put_status(c, "302 Found", text);
    default:
        break;
    }
    for (int i = 0; i < s->num_objects && fault != HTTP_404; i++)
        if (!strcmp(s->objects[i].path, r->path))
            return put_object(c, r, &s->objects[i], fault);
    return put_status(c, "404 Not Found", NULL);
}

// ---- Threads ---------------------------------------------------------------

static void *serve(void *ctx)
{
    auto_heap struct connection *c = ctx;
    struct request r;
    int on = 1;

    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (read_request(c, &r) && answer(c, &r))
        ;
    close(c->fd);
    return NULL;
}

static void *listen_all(void *ctx)
{
    struct http_server *s = ctx;

    while (wait_for(s, s->fd)) {
        struct connection *c = malloc(sizeof(*c));

        *c = (struct connection){s, accept(s->fd, NULL, NULL)};
        atomic_fetch_add(&s->connections, 1);
        if (c->fd < 0 || s->num_threads == 1024 ||
            pthread_create(&s->threads[s->num_threads], NULL, serve, c))
            abort();
        s->num_threads++;
    }
    return NULL;
}

struct http_server *http_server_start(void)
{
    struct http_server *s = calloc(1, sizeof(*s));
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);

    pthread_mutex_init(&s->lock, NULL);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s->fd, (void *)&at, size) || listen(s->fd, 128) ||
        getsockname(s->fd, (void *)&at, &size) ||
        pthread_create(&s->thread, NULL, listen_all, s))
        abort();
    s->port = ntohs(at.sin_port);
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d", s->port);
    return s;
}

void http_server_put(struct http_server *s, const char *path, const void *data,
                     size_t size)
{
    struct http_object *o = &s->objects[s->num_objects++];

    *o = (struct http_object){path, malloc(size + 1), size};
    if (size)
        memcpy(o->data, data, size);
}

void http_server_put_file(struct http_server *s, const char *path,
                          const char *file)
{
    auto_bytes b = {0};

    if (!read_file(file, &b))
        abort();
    http_server_put(s, path, b.data, b.size);
}

void http_server_stop(struct http_server *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < s->num_threads; i++)
        pthread_join(s->threads[i], NULL);
    close(s->fd);
    for (int i = 0; i < s->num_objects; i++)
        free(s->objects[i].data);
    free(s);
}
