// SPDX-License-Identifier: Apache-2.0
// A service on a Unix domain socket: JPEGs in, tensors out.
//
//   cc serve.c -o serve -pthread $(pkg-config --cflags --libs headrace)
//   ./serve SOCKET LIMIT_MS              until SIGINT or SIGTERM
//   ./serve SOCKET RATE SECONDS PHOTOS/  asks it for RATE pictures a second
//
//   request   u32 bytes, the JPEG
//   answer    i32 status, u32 bytes, 3 x 224 x 224 floats; or why there are none
//
// A connection has one request at a time. What comes faster than pictures can
// be made is refused at once (HR_EAGAIN), when those that wait would take longer
// than LIMIT_MS. So one that is accepted is answered soon, whoever else asks.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <headrace/headrace.h>

enum { CONNECTIONS = 32, MOST = 8 << 20, TIMES = 1 << 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of all below
static int64_t made, refused, failed;                     // requests
static int64_t times[TIMES];     // ns that the last ones took
static int64_t each = 10000000;  // ns that a picture takes among others
static int64_t limit, last;      // of waiting; when one ended last
static int waiting;              // pictures
static int fds[CONNECTIONS];     // of clients; -1: none
static bool stopping;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static bool get(int fd, void *to, size_t size)
{
    return !size || recv(fd, to, size, MSG_WAITALL) == (ssize_t)size;
}

static bool put(int fd, const void *from, size_t size)
{
    return send(fd, from, size, MSG_NOSIGNAL) == (ssize_t)size;  // it waits
}

static void count(enum hr_status status, int64_t took)
{
    pthread_mutex_lock(&lock);
    if (status == HR_OK)
        times[made++ % TIMES] = took;
    else if (status == HR_EAGAIN)
        refused++;
    else
        failed++;
    pthread_mutex_unlock(&lock);
}

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void report(void)
{
    int64_t n = made < TIMES ? made : TIMES;

    qsort(times, (size_t)n, sizeof(*times), compare);
    printf("made %lld, refused %lld, failed %lld; p50 %.1f ms, p99 %.1f ms\n",
           (long long)made, (long long)refused, (long long)failed,
           (double)times[n / 2] / 1e6, (double)times[n * 99 / 100] / 1e6);
}

// ---- The service -----------------------------------------------------------

static bool enter(void)
{
    bool ok;

    pthread_mutex_lock(&lock);
    if ((ok = waiting * each <= limit) && !waiting++)
        last = now();
    pthread_mutex_unlock(&lock);
    return ok;
}

// From the end of one to that of the next is what the next one took.
static void leave(enum hr_status status)
{
    pthread_mutex_lock(&lock);
    waiting--;
    if (status == HR_OK)
        each += (now() - last - each) / 8;
    last = now();
    pthread_mutex_unlock(&lock);
}

static enum hr_status make(const void *jpeg, size_t size, hr_batch out,
                           char why[384])
{
    static const struct hr_op ops[] = {
        HR_OP_DECODE(0),
        HR_OP_RESIZE(.short_side = 256),
        HR_OP_CROP(.center = true, .w = 224, .h = 224),
        HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                        .std = {.229f, .224f, .225f}),
    };
    struct hr_sample s = {.data = jpeg, .size = size, .ops = ops, .num_ops = 4};
    enum hr_status status;
    hr_job job;

    if (!enter())
        return snprintf(why, 384, "busy: ask again later"), HR_EAGAIN;
    job = hr_submit(NULL, &s, 1, out,
                    hr_job_params(.timeout_ns = INT64_C(10000000000)));
    status = job ? hr_job_wait(job, HR_FOREVER) : hr_last_status();
    snprintf(why, 384, "%s", job ? job->results[0].message : hr_last_error());
    hr_job_release(&job);
    leave(status);
    return status;
}

// One request. False: the connection ends.
static bool answer(int fd, void *jpeg, hr_batch out)
{
    char why[384] = "the picture is too large";
    int32_t head[2] = {HR_ELIMIT};
    uint32_t size;
    int64_t begin;

    if (!get(fd, &size, 4) || (size <= MOST && !get(fd, jpeg, size)))
        return false;
    begin = now();
    if (size <= MOST)
        head[0] = make(jpeg, size, out, why);
    count(head[0], now() - begin);
    head[1] = (int32_t)(head[0] ? strlen(why) : out->size);
    return put(fd, head, 8) &&
           put(fd, head[0] ? why : out->params.data, (size_t)head[1]) &&
           size <= MOST;
}

static void set(int *fd, int to)
{
    pthread_mutex_lock(&lock);
    *fd = to;
    if (stopping)
        shutdown(to, SHUT_RD);
    pthread_mutex_unlock(&lock);
}

// One connection after the other, until the listener is shut down.
static void *serve_some(void *own)
{
    const struct timeval patience = {.tv_sec = 30};
    int *fd = own, listener = *fd, next;
    void *jpeg = malloc(MOST);
    hr_batch out = hr_batch_create(NULL, hr_batch_params(.n = 1, .c = 3,
                                                         .h = 224, .w = 224));

    while (jpeg && out && (next = accept(listener, NULL, NULL)) >= 0) {
        setsockopt(next, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(next, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        set(fd, next);
        while (answer(next, jpeg, out))
            ;
        set(fd, -1);
        close(next);
    }
    hr_batch_destroy(&out);
    free(jpeg);
    return NULL;
}

static int serve(int listener)
{
    pthread_t threads[CONNECTIONS];
    sigset_t signals;
    int which, num = 0;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (bind(listener, (void *)&address, sizeof(address)) ||
        listen(listener, CONNECTIONS))
        return perror(address.sun_path), 1;
    for (; num < CONNECTIONS; num++) {
        fds[num] = listener;
        if (pthread_create(&threads[num], NULL, serve_some, &fds[num]))
            break;
    }
    sigwait(&signals, &which);
    unlink(address.sun_path);
    shutdown(listener, SHUT_RDWR);
    pthread_mutex_lock(&lock);
    stopping = true;  // requests that are here are still answered
    for (int i = 0; i < num; i++)
        shutdown(fds[i], SHUT_RD);
    pthread_mutex_unlock(&lock);
    while (num)
        pthread_join(threads[--num], NULL);
    return 0;
}

// ---- The client ------------------------------------------------------------

static hr_source photos;
static double rate;
static int64_t begin, asked, total;

// The next request's number, when it is due. False: there are no more.
static bool wait_for_next(int64_t *k, int64_t *due)
{
    pthread_mutex_lock(&lock);
    *k = asked++;
    pthread_mutex_unlock(&lock);
    *due = begin + (int64_t)((double)*k / rate * 1e9);
    while (*k < total && now() < *due)
        usleep((useconds_t)((*due - now()) / 1000 + 1));
    return *k < total;
}

// Time counts from when a request was due: a late one hides no waiting.
static void *ask(void *body)
{
    struct hr_encoded jpeg = {0};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool ok = !connect(fd, (void *)&address, sizeof(address));
    int64_t k, due;

    while (wait_for_next(&k, &due)) {
        int32_t head[2] = {HR_EIO};

        if (ok && !hr_source_read(photos, (uint64_t)k % photos->num, 0, &jpeg))
            ok = put(fd, &(uint32_t){(uint32_t)jpeg.size}, 4) &&
                 put(fd, jpeg.data, jpeg.size) && get(fd, head, 8) &&
                 get(fd, body, (size_t)head[1]);
        count(head[0], now() - due);
        if (head[0] && head[0] != HR_EAGAIN)
            fprintf(stderr, "request %lld: %.*s\n", (long long)k,
                    ok ? head[1] : 0, (char *)body);
    }
    hr_encoded_finish(&jpeg);
    close(fd);
    free(body);
    return NULL;
}

static int load(const char *rate_text, const char *seconds, const char *path)
{
    pthread_t threads[CONNECTIONS];
    int num = 0;

    rate = strtod(rate_text, NULL);
    total = (int64_t)(rate * strtod(seconds, NULL));
    if (rate <= 0 || !(photos = hr_source_open(path)) || !photos->num)
        return fprintf(stderr, "no rate, or no pictures: %s\n",
                       hr_last_error()),
               1;
    begin = now();
    while (num < CONNECTIONS &&
           !pthread_create(&threads[num], NULL, ask, malloc(MOST)))
        num++;
    while (num)
        pthread_join(threads[--num], NULL);
    hr_source_close(&photos);
    return failed != 0;
}

int main(int argc, char **argv)
{
    int listener, code;

    if (argc != 3 && argc != 5)
        return fputs("usage: serve SOCKET LIMIT_MS\n"
                     "       serve SOCKET RATE SECONDS PHOTOS/\n",
                     stderr),
               2;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
    if (argc == 5) {
        code = load(argv[2], argv[3], argv[4]);
    } else {
        limit = (int64_t)(strtod(argv[2], NULL) * 1e6);
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        code = serve(listener);
        close(listener);
    }
    report();
    return code;
}
