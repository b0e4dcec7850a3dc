// SPDX-License-Identifier: Apache-2.0
// A web server that answers as a test wants: well, cut, late, wrong. Threads of
// its own; all of it on the loopback.
#ifndef HEADRACE_TESTS_HTTP_SERVER_H
#define HEADRACE_TESTS_HTTP_SERVER_H

#include "testing.h"

enum http_fault {
    HTTP_GOOD,
    HTTP_CUT,      // half of the body
    HTTP_EMPTY,    // closed without an answer
    HTTP_GARBAGE,  // what is not HTTP
    HTTP_STALL,    // says nothing until the server stops
    HTTP_SLOW,     // a byte each 20 ms
    HTTP_500,
    HTTP_503,
    HTTP_404,
    HTTP_OTHER_RANGE,  // 206 of bytes that were not asked for
    HTTP_TWO_LENGTHS,  // header fields that do not fit
    HTTP_WHOLE,        // 200 with all of it, whatever was asked for
    HTTP_CHUNKED,      // the same without a length
    HTTP_NO_TOTAL,     // an object without a total length
    HTTP_COMPRESSED,   // says so
    HTTP_LONG,         // more bytes than were asked for
    HTTP_CHANGED,      // another ETag, and other bytes
    HTTP_SHRUNK,       // half of it is there
    HTTP_LATER,        // 503, and to come back in a second
    HTTP_REDIRECT,     // to server->redirect
    HTTP_ENDLESS,      // 200 of no length, and its body never ends
    HTTP_SQUEEZED,     // gzip for the way, which libcurl would undo
    HTTP_NAMELESS,     // no ETag, and other bytes
    HTTP_REPLACED,     // another ETag, and other bytes: all, for an If-Range
    HTTP_NO_IF_RANGE,  // all of it if there is an If-Range, and what was asked
                       // for else
};

struct http_object {
    const char *path;
    uint8_t *data;
    size_t size;
};

struct http_server {
    int port;
    char url[64];  // "http://127.0.0.1:PORT"
    struct http_object objects[16];
    int num_objects;
    // The fault of request number n (from 0). NULL: all are good. Threads: any.
    enum http_fault (*_Atomic fault)(struct http_server *s, int n,
                                     const char *path);
    _Atomic enum http_fault which;  // for fault
    uint64_t seed;
    const char *redirect;
    atomic_int requests, connections, keyed;  // keyed: with an X-Key
    atomic_int tagged;                        // with an If-Range: "a"
    // Inside.
    int fd;
    atomic_bool stop;
    pthread_t thread;
    pthread_mutex_t lock;  // guards the objects' bytes
    pthread_t threads[1024];
    int num_threads;
};

struct http_server *http_server_start(void);
// The data are freed with the server.
void http_server_put(struct http_server *s, const char *path, const void *data,
                     size_t size);
void http_server_put_file(struct http_server *s, const char *path,
                          const char *file);
// While it serves: flips a bit of a byte (-1: none), and returns the size; sets
// the size.
size_t http_server_flip(struct http_server *s, struct http_object *o,
                        ssize_t byte);
void http_server_resize(struct http_server *s, struct http_object *o,
                        size_t size);
void http_server_stop(struct http_server *s);

#endif
