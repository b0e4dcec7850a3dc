// SPDX-License-Identifier: Apache-2.0
// A service on a Unix domain socket: JPEGs in, tensors out.
//
//   cc serve.c -o serve -pthread $(pkg-config --cflags --libs headrace)
//   ./serve SOCKET LIMIT_MS              until SIGINT or SIGTERM
//   ./serve SOCKET RATE SECONDS PHOTOS/  asks it for RATE pictures a second
//
//   request   u32 bytes, the JPEG
//   answer    i32 status, u32 bytes, 3 x 224 x 224 floats; or the reason
//
// A connection has one request at a time. When the queued pictures would take
// longer than LIMIT_MS, new requests are refused at once (HR_EAGAIN). So an
// accepted request is answered soon, under any load.
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

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of all below
static int64_t made, refused, failed, times[TIMES];  // requests; ns of the last

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
    return send(fd, from, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static void count(enum hr_status status, int64_t took)
{
    pthread_mutex_lock(&lock);
    if (!status)
        times[made++ % TIMES] = took;
    else
        ++*(status == HR_EAGAIN ? &refused : &failed);
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

static int listener, clients[CONNECTIONS];  // fds; -1: none
static bool stopping;
static int waiting;              // pictures
static int64_t limit, last;      // ns of waiting; when a picture ended last
static int64_t each = 10000000;  // ns from the end of one to that of the next

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
    hr_job job = hr_submit(NULL, &s, 1, out,
                           hr_job_params(.timeout_ns = INT64_C(10000000000)));
    enum hr_status status = job ? hr_job_wait(job, HR_FOREVER)
                                : hr_last_status();

    snprintf(why, 384, "%s", job ? job->results[0].message : hr_last_error());
    hr_job_release(&job);
    return status;
}

static enum hr_status make_in_time(const void *jpeg, size_t size, hr_batch out,
                                   char why[384])
{
    enum hr_status status;
    bool soon;

    pthread_mutex_lock(&lock);
    if ((soon = waiting * each <= limit) && !waiting++)
        last = now();
    pthread_mutex_unlock(&lock);
    if (!soon)
        return snprintf(why, 384, "busy: ask again later"), HR_EAGAIN;
    status = make(jpeg, size, out, why);
    pthread_mutex_lock(&lock);
    each += status ? 0 : (now() - last - each) / 8;
    last = now();
    waiting--;
    pthread_mutex_unlock(&lock);
    return status;
}

// One request. False: the connection ends.
static bool answer(int fd, void *jpeg, hr_batch out)
{
    char why[384] = "the picture is too large";
    int32_t head[2] = {HR_ELIMIT};
    int64_t begin;
    uint32_t size;

    if (!get(fd, &size, 4) || (size <= MOST && !get(fd, jpeg, size)))
        return false;
    begin = now();
    if (size <= MOST)
        head[0] = make_in_time(jpeg, size, out, why);
    count(head[0], now() - begin);
    head[1] = (int32_t)(head[0] ? strlen(why) : out->size);
    return put(fd, head, 8) &&
           put(fd, head[0] ? why : out->params.data, (size_t)head[1]) &&
           size <= MOST;
}

static void set(int *client, int fd)
{
    pthread_mutex_lock(&lock);
    *client = fd;
    if (stopping)
        shutdown(fd, SHUT_RD);
    pthread_mutex_unlock(&lock);
}

// One connection after the other, until the listener is shut down.
static void *serve(void *client)
{
    const struct timeval patience = {.tv_sec = 30};
    void *jpeg = malloc(MOST);
    hr_batch out = hr_batch_create(NULL, hr_batch_params(.n = 1, .c = 3,
                                                         .h = 224, .w = 224));

    for (int fd; jpeg && out && (fd = accept(listener, NULL, NULL)) >= 0;) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        set(client, fd);
        while (answer(fd, jpeg, out))
            ;
        set(client, -1);
        close(fd);
    }
    hr_batch_destroy(&out);
    free(jpeg);
    return NULL;
}

// Until a signal; then what is at work is still answered.
static int serve_all(void)
{
    pthread_t threads[CONNECTIONS];
    sigset_t signals;
    hr_batch probe;
    int which;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    // The device opens now, not with the first request.
    probe = hr_batch_create(NULL,
                            hr_batch_params(.n = 1, .c = 3, .h = 1, .w = 1));
    if (!probe)
        return fprintf(stderr, "%s\n", hr_last_error()), 1;
    hr_batch_destroy(&probe);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (void *)&address, sizeof(address)) ||
        listen(listener, CONNECTIONS))
        return perror(address.sun_path), close(listener), 1;
    for (int i = 0; i < CONNECTIONS; i++)
        set(&clients[i], -1);
    for (int i = 0; i < CONNECTIONS; i++)
        if (pthread_create(&threads[i], NULL, serve, &clients[i]))
            abort();
    sigwait(&signals, &which);
    unlink(address.sun_path);
    pthread_mutex_lock(&lock);
    stopping = true;
    shutdown(listener, SHUT_RDWR);
    for (int i = 0; i < CONNECTIONS; i++)
        shutdown(clients[i], SHUT_RD);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
    return close(listener);
}

// ---- A client --------------------------------------------------------------

static hr_source photos;
static double rate;
static int64_t began, asked, total;

// Time counts from when a request was due: a late one hides no waiting.
static void *ask(void *body)
{
    struct hr_encoded jpeg = {0};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool ok = !connect(fd, (void *)&address, sizeof(address));

    for (;;) {
        int32_t head[2] = {HR_EIO};
        int64_t k, due;

        pthread_mutex_lock(&lock);
        k = asked++;
        pthread_mutex_unlock(&lock);
        if (k >= total)
            break;
        due = began + (int64_t)((double)k / rate * 1e9);
        while (now() < due)
            usleep((useconds_t)((due - now()) / 1000 % 1000000 + 1));
        ok = ok && !hr_source_read(photos, (uint64_t)k % photos->num, 0, &jpeg);
        ok = ok && put(fd, &(uint32_t){(uint32_t)jpeg.size}, 4) &&
             put(fd, jpeg.data, jpeg.size) && get(fd, head, 8) &&
             (uint32_t)head[1] <= MOST && get(fd, body, (size_t)head[1]);
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

static int ask_all(const char *seconds, const char *path)
{
    pthread_t threads[CONNECTIONS];

    total = (int64_t)(rate * strtod(seconds, NULL));
    if (!(photos = hr_source_open(path)) || !photos->num)
        return fprintf(stderr, "no pictures: %s\n", hr_last_error()), 1;
    began = now();
    for (int i = 0; i < CONNECTIONS; i++)
        if (pthread_create(&threads[i], NULL, ask, malloc(MOST)))
            abort();
    for (int i = 0; i < CONNECTIONS; i++)
        pthread_join(threads[i], NULL);
    hr_source_close(&photos);
    return failed != 0;
}

int main(int argc, char **argv)
{
    int code;

    if (argc != 3 && argc != 5)
        return fputs("usage: serve SOCKET LIMIT_MS\n"
                     "       serve SOCKET RATE SECONDS PHOTOS/\n",
                     stderr),
               2;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
    limit = (int64_t)(strtod(argv[2], NULL) * 1e6);
    rate = strtod(argv[2], NULL);
    code = argc == 3 ? serve_all() : ask_all(argv[3], argv[4]);
    report();
    return code;
}
