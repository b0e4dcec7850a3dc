// SPDX-License-Identifier: Apache-2.0
// Objects of the web, read in ranges. Private to loader/source/ and:
//
//   object.c  an object that is open, and a window to go through it
//   ahead.c   reads of an open object that follow each other
//   read.c    one read: tries, back-off, redirects, its deadline
//   s3.c      where an object of S3 lies, and the key to it
//   answer.c  what a server answers, and what that means
//   curl.c    one try, by libcurl
//
// Each uses only those below it in this order. A server may answer anything:
// bytes other than the requested ones, of the object that was opened, are never
// passed on. (An object read as a whole cannot be compared: one without a
// length that ends with its connection may be cut.)
#ifndef HEADRACE_LOADER_SOURCE_HTTP_H
#define HEADRACE_LOADER_SOURCE_HTTP_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <headrace/headrace.h>

enum {
    HR__HTTP_URL = 4096,  // bytes of a URL, with its end
    HR__HTTP_HOPS = 5,    // redirects of a try
    HR__HTTP_TAG = 128,   // bytes of an ETag that is asked for, with its end
    HR__HTTP_KEPT = 60,   // seconds that its end is kept
    HR__HTTP_CONNECTIONS = 256,
    HR__HTTP_STREAMS = 2,
    HR__HTTP_AHEAD = 8,    // blocks on their way at most
    HR__HTTP_BLOCKS = 12,  // and with the kept ones
    HR__S3_URL = 3 * HR__HTTP_URL + 1024,
};

// Identifies a version of an object: hashes of the tag and date, 0 = it has
// none.
struct hr__http_version {
    uint64_t size, tag, modified;
};

// ---- answer.c: no state, no library ----

struct hr__http_answer {
    int status;       // 0: it has not begun
    bool ended;       // its header
    const char *bad;  // the field that is there twice, or in no known form
    bool has_length, has_range, encoded;
    uint64_t length, first, last, total;  // total: UINT64_MAX = not said
    uint64_t tag, modified;
    char strong[HR__HTTP_TAG];  // the ETag, if it is one for ranges; ""
    int retry_after;            // seconds; -1 = not said
};

// A line of the header, with or without its end; a status line begins anew,
// and behind the empty line nothing counts.
void hr__http_answer_line(struct hr__http_answer *a, const char *line,
                          size_t size);

struct hr__http_want {
    uint64_t offset, size;  // a range; size 0: all of it, offset 0
    bool may_end;           // the object may end before
    bool if_range;          // all of it, if it is not the version any more
    uint64_t most;          // bytes of the object
    const struct hr__http_version *known;  // NULL: the first answer
};

struct hr__http_verdict {
    enum hr__http_take {
        HR__HTTP_TAKE,  // its body is what was asked for, or the begin of it
        HR__HTTP_REDIRECT,
        HR__HTTP_AGAIN,   // this may pass
        HR__HTTP_REFUSE,  // that does not
    } take;
    enum hr_status status;  // of a refusal
    const char *why;
    bool has_size;  // TAKE: of the body; false: it ends where it ends
    uint64_t size;
    struct hr__http_version version;
};
struct hr__http_verdict hr__http_judge(const struct hr__http_answer *a,
                                       const struct hr__http_want *want);

// Says whether a text is a URL of http, https or s3. A key of S3 may have any
// byte, so such a URL has no query.
bool hr__http_is_url(const char *text);
// Says whether such a URL can be asked for; NULL, or why not.
const char *hr__http_url_fault(const char *url);
// Bytes of "https://host:port" at its begin, and up to its query or fragment.
size_t hr__http_origin(const char *url);
size_t hr__http_path_end(const char *url);
bool hr__http_same_origin(const char *a, const char *b);

// ---- s3.c ----

struct hr__s3 {
    char key[256], secret[256], token[4096];  // key "": nothing is signed
    char region[64], endpoint[HR__HTTP_URL / 8];
    const char *unfit;  // why one of these could not be taken
};

struct hr__s3_keys {
    struct hr__s3 env;
    char profile[256], files[2][PATH_MAX];
    pthread_mutex_t lock;  // guards the rest
    struct hr__s3 now;
    int64_t until;  // hr__now()
};

bool hr__s3_is_url(const char *url);
void hr__s3_set_up(struct hr__s3_keys *k);
// The URL of an s3:// URL, and the key to it; NULL, or why there is none.
const char *hr__s3_locate(struct hr__s3_keys *keys, const char *url,
                          char to[HR__S3_URL], struct hr__s3 *s3);
// Says why a store answers with a status; NULL: as other servers do.
const char *hr__s3_why(const struct hr__s3 *s3, int status);

// ---- curl.c ----

// Reads that go through an object in about its order.
struct hr__http_stream {
    const struct hr__http_object *object;
    uint64_t next;  // the last one ended here;
    int run;        // so many were near the one before
    uint64_t used;
};

struct hr__http_block {
    enum {
        HR__BLOCK_FREE,
        HR__BLOCK_WANTED,   // no thread reads it yet
        HR__BLOCK_READING,  // by one thread
        HR__BLOCK_HERE
    } state;
    struct hr__http_object *object;
    uint64_t number;  // in it
    int users;        // threads that wait for it, or copy
    bool late;        // a reader had to wait
    size_t served;    // bytes that were used
    uint64_t used;
    uint8_t *bytes;
};

// The prefetched blocks. lock guards them, but not the bytes of a block that
// has users, or is being read.
struct hr__http_ahead {
    pthread_mutex_t lock;
    pthread_cond_t came, wanted;
    struct hr__http_stream streams[HR__HTTP_STREAMS];
    struct hr__http_block blocks[HR__HTTP_BLOCKS];
    uint64_t clock;  // reads so far
    int distance;    // blocks in flight
    pthread_t threads[HR__HTTP_AHEAD];
    int num_threads;
    int wasted;  // blocks in a row
    bool few;    // no more can be started
    bool stop;
    void (*finish)(struct hr__http_ahead *a, bool forked);  // if it is in use
};

// The state that all reads of a source share.
struct hr__http {
    struct hr_http_params params;  // without zeros; texts are copies
    int reads;                     // of a loader, by default
    void *headers;                 // of the program's own, as a list of libcurl
    struct hr__s3_keys s3;
    pid_t pid;
    pthread_mutex_t lock;  // guards the rest
    pthread_cond_t ended;
    void *idle[HR__HTTP_CONNECTIONS];  // with their kept connections; the one
    int num_idle, num_made;            // used last is used next
    struct hr__http_ahead ahead;       // has a lock of its own
};

struct hr__http_try {
    const char *url;
    const char *range;  // "FIRST-LAST"; NULL: all of it
    const char *tag;    // of a range: if the object has it; "": in any case
    bool headers;       // the program's own go with it
    const struct hr__s3 *s3;  // to sign with; NULL: nothing is signed
    int64_t deadline;         // hr__now()
    // Bytes of the body, behind the whole header; false: no more of them.
    bool (*body)(void *ctx, const void *data, size_t size);
    bool (*stop)(void *ctx);  // now and then: true ends it
    void *ctx;
    // The result.
    struct hr__http_answer answer;
    char redirect[HR__HTTP_URL];  // "": to nowhere
    char why[128];                // it did not come to its end
    bool lasting;                 // and would not another time
};

// Returns NULL with hr_last_error(): HR_EUNSUPPORTED without libcurl,
// HR_EINVAL.
struct hr__http *hr__http_create(const struct hr_http_params *params);
void hr__http_destroy(struct hr__http *http);  // NULL is fine
// Says whether this process is a child of the one that made it. Its threads are
// not here: its locks may be held and blocks be read for ever, and connections
// are the parent's. So nothing is asked, and only memory is freed.
bool hr__http_forked(const struct hr__http *http);
// Says whether the answer came to its end. Threads: any; waits for a
// connection.
bool hr__http_try(struct hr__http *http, struct hr__http_try *t);

// ---- read.c ----

// Where an object was found behind redirects: reads begin there, until it does
// not answer well, or for HR__HTTP_KEPT.
struct hr__http_place {
    pthread_mutex_t lock;
    char *url;  // [HR__HTTP_URL]; NULL: it was never redirected
    bool headers;
    int64_t until;  // hr__now()
};

struct hr__http_read {
    const char *url;
    bool headers;
    struct hr__http_place *place;  // of the URL; NULL: it is not kept
    struct hr__http_want want;
    int64_t deadline;  // hr__now(), if it is before that of the parameters; 0
    uint8_t *to;       // for a range: want.size bytes
    // For a whole object: as hr__source_room_fn. It is called again for more if
    // the object's length is unknown, and must keep the bytes so far. For both:
    // called now and then with size 0, and then NULL ends the read. room NULL:
    // the read goes on.
    void *(*room)(void *ctx, size_t size);
    void *ctx;
    // Bytes read, and the version of the object.
    size_t done;
    struct hr__http_version version;
    // The ETag of the version, to ask for a range of it and of no other; "" if
    // there is none, or the server gives all of it then. To begin with that of
    // want.known.
    char tag[HR__HTTP_TAG];
};
// HR_EIO, HR_ETIMEDOUT, HR_EUNSUPPORTED, HR_ELIMIT, HR_ENOMEM, HR_ECANCELED,
// HR_EFORK: URL, offset, stage and reason are in hr_last_error(). Threads: any.
enum hr_status hr__http_get(struct hr__http *http, struct hr__http_read *r);
// Returns the deadline of a read that begins now: by the parameters, or before,
// if that is not 0.
int64_t hr__http_deadline(const struct hr__http *http, int64_t before);
// Returns the back-off after try number `try` (from 0), in ns. retry_after:
// seconds that the server wants, or -1.
int64_t hr__http_backoff(const struct hr_http_params *p, const char *url,
                         uint64_t offset, int try, int retry_after);
// The URL for messages: without what may be secret, and not too long.
const char *hr__http_short(const char *url, char text[192]);

// ---- ahead.c ----

struct hr__http_object;
// forked: by a child of whose threads there are none.
void hr__http_ahead_finish(struct hr__http_ahead *a, bool forked);
// Makes one request. r has want.known, room and ctx.
enum hr_status hr__http_get_range(struct hr__http_object *o, void *to,
                                  size_t size, uint64_t offset,
                                  struct hr__http_read *r);
// Reads of an object that is open, by itself or with its neighbours.
enum hr_status hr__http_read_near(struct hr__http_object *o, void *to,
                                  size_t size, uint64_t offset,
                                  struct hr__http_read *r);
// Called before the object is freed.
void hr__http_forget(struct hr__http_object *o);

// ---- object.c ----

// Ends the reads of an object that is being added: when one of these is true,
// or the time is over.
struct hr__http_until {
    atomic_bool *stop[2];  // or NULL
    int64_t deadline;      // hr__now(); 0 = none
};

struct hr__http_object {
    struct hr__http *http;
    struct hr__http_version version;
    uint64_t from;  // the window: its place in the object, its size in
    size_t num, next, capacity;  // bytes; the bytes to read next; its memory
    uint8_t *window;
    uint64_t position;  // of hr__http_stream()
    struct hr__http_place place;
    enum hr_status failed;  // the first read for a window that did, and why
    char why[256];
    struct hr__http_until until;  // until it is opened
    atomic_bool closed;
    bool headers;
    char tag[HR__HTTP_TAG];
    atomic_bool no_if_range;  // the server does not know it
    char url[];
};
// Opens an object; NULL with hr_last_error(). Freed by hr__http_close(), which
// takes NULL. The time of until is the parameters'.
struct hr__http_object *hr__http_open(struct hr__http *http, const char *url,
                                      bool headers,
                                      const struct hr__http_until *until);
void hr__http_close(struct hr__http_object *o);
// Exactly these bytes, of the version that was opened. With a window, which is
// moved there, by one thread at a time; after hr__http_opened() by any, each
// read being a request, or a part of one that brings its neighbours.
enum hr_status hr__http_read_at(struct hr__http_object *o, void *to,
                                size_t size, uint64_t offset,
                                void *(*room)(void *ctx, size_t size),
                                void *ctx);
void hr__http_opened(struct hr__http_object *o);
// A stream of it, from its begin. NULL: out of memory.
FILE *hr__http_stream(struct hr__http_object *o);

#endif
