// SPDX-License-Identifier: Apache-2.0
// The software VA driver in time: what it does asynchronously, in which order,
// and how it fails when told to.
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

static struct bytes file, other;
static struct submission picture, second;

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static VASurfaceID surface(struct client *c)
{
    return client_surface(c, VA_RT_FORMAT_YUV420, VA_FOURCC_NV12, 64, 64);
}

static bool holds(struct client *c, VASurfaceID s, const struct bytes *jpeg)
{
    uint8_t *got = client_read(c, s, VA_FOURCC_I420, 64, 64);
    uint8_t *want = client_reference(jpeg, VA_FOURCC_I420);
    bool same = got && !memcmp(got, want, client_size(VA_FOURCC_I420, 64, 64));

    free(got);
    free(want);
    return same;
}

// ---- time ------------------------------------------------------------------

static void pictures_overlap(void)
{
    enum { N = 12 };
    VASurfaceID ids[N];
    struct client c;
    double start, submitted;

    client_open(&c, "latency=200 workers=2");
    for (int i = 0; i < N; i++)
        ids[i] = surface(&c);
    start = seconds();
    for (int i = 0; i < N; i++)
        CHECK(client_decode(&c, ids[i], &picture) == VA_STATUS_SUCCESS, "%d",
              i);
    submitted = seconds() - start;
    CHECK(vaSyncSurface2(c.display, ids[0], 1000000) ==
              VA_STATUS_ERROR_TIMEDOUT,
          "no time-out");
    for (int i = 0; i < N; i++)
        CHECK(vaSyncSurface(c.display, ids[i]) == VA_STATUS_SUCCESS, "%d", i);
    CHECK(submitted < 0.19 || TEST_SANITIZED, "submitted in %f s", submitted);
    CHECK(seconds() - start >= 0.2, "it took no time");
    CHECK(seconds() - start < 1.2 || TEST_SANITIZED, "one by one: %f s",
          seconds() - start);
    CHECK(client_control(NULL).max_in_flight == N, "%ld in flight",
          client_control(NULL).max_in_flight);
    vaDestroySurfaces(c.display, ids, N);
    client_close(&c);
}

static void cores_bound_it(void)
{
    VASurfaceID ids[4];
    struct client c;
    double start;

    client_open(&c, "latency=50 cores=1");
    start = seconds();
    for (int i = 0; i < 4; i++) {
        ids[i] = surface(&c);
        client_decode(&c, ids[i], &picture);
    }
    vaDestroySurfaces(c.display, ids, 4);
    CHECK(seconds() - start >= 0.2, "%f s", seconds() - start);
    client_close(&c);
}

// Two pictures into one surface, and one that reads it between them.
static void surfaces_have_an_order(void)
{
    VASurfaceID s, copy;
    struct client c;

    client_open(&c, "latency=20 workers=4");
    s = surface(&c);
    copy = surface(&c);
    for (int i = 0; i < 5; i++) {
        VAProcPipelineParameterBuffer p = {.surface = s};
        VAConfigID config;
        VAContextID context;
        VABufferID id;

        client_decode(&c, s, &second);
        client_decode(&c, s, &picture);
        vaCreateConfig(c.display, VAProfileNone, VAEntrypointVideoProc, NULL, 0,
                       &config);
        vaCreateContext(c.display, config, 0, 0, 0, NULL, 0, &context);
        vaBeginPicture(c.display, context, copy);
        vaCreateBuffer(c.display, context, VAProcPipelineParameterBufferType,
                       sizeof(p), 1, &p, &id);
        vaRenderPicture(c.display, context, &id, 1);
        vaDestroyBuffer(c.display, id);
        vaEndPicture(c.display, context);
        client_decode(&c, s, &second);
        CHECK(holds(&c, copy, &file), "the copy, round %d", i);
        CHECK(holds(&c, s, &other), "the last one, round %d", i);
        vaDestroyContext(c.display, context);
        vaDestroyConfig(c.display, config);
    }
    vaDestroySurfaces(c.display, &s, 1);
    vaDestroySurfaces(c.display, &copy, 1);
    client_close(&c);
}

// ---- faults ----------------------------------------------------------------

static void calls_fail_once(void)
{
    static const struct {
        const char *option;
        VAStatus status;
    } cases[] = {
        {"fault=BeginPicture:5", VA_STATUS_ERROR_INVALID_CONTEXT},
        {"fault=CreateBuffer:2", VA_STATUS_ERROR_ALLOCATION_FAILED},
        {"fault=CreateBuffer:2:4", VA_STATUS_ERROR_ALLOCATION_FAILED},
        {"fault=RenderPicture:0x12:2-3", VA_STATUS_ERROR_INVALID_PARAMETER},
        {"fault=EndPicture:1", VA_STATUS_ERROR_OPERATION_FAILED},
        {"fault=Decode:0x17", VA_STATUS_ERROR_DECODING_ERROR},
        {"fault=SyncSurface:0x22", VA_STATUS_ERROR_HW_BUSY},
    };
    struct client c;
    VASurfaceID s;

    client_open(&c, "");
    s = surface(&c);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        VAStatus status;

        client_control("fault=none reset");
        client_control(cases[i].option);
        status = client_decode(&c, s, &picture);
        if (status == VA_STATUS_SUCCESS)
            status = vaSyncSurface(c.display, s);
        CHECK(status == cases[i].status && client_control(NULL).faults == 1,
              "%s: %s", cases[i].option, vaErrorStr(status));
        client_control("fault=none");
        // An EndPicture that failed left the picture open: this ends it.
        vaEndPicture(c.display, c.context);
        CHECK(client_decode(&c, s, &picture) == VA_STATUS_SUCCESS &&
                  holds(&c, s, &file),
              "after %s", cases[i].option);
    }
    vaDestroySurfaces(c.display, &s, 1);
    client_close(&c);
}

static void pixels_go_wrong(void)
{
    struct client c;
    VASurfaceID s;
    uint8_t *zero;

    client_open(&c, "");
    s = surface(&c);
    client_decode(&c, s, &second);
    client_control("fault=Decode:stale:1 fault=Decode:wrong:2 "
                   "fault=Decode:zero:3");
    client_decode(&c, s, &picture);
    CHECK(holds(&c, s, &other), "not stale");
    client_decode(&c, s, &picture);
    CHECK(!holds(&c, s, &file) && !holds(&c, s, &other), "not wrong");
    client_decode(&c, s, &picture);
    CHECK(vaSyncSurface(c.display, s) == VA_STATUS_SUCCESS, "an error");
    zero = client_read(&c, s, VA_FOURCC_I420, 64, 64);
    CHECK(zero && !zero[0] && !zero[64 * 64 + 5], "not zero");
    free(zero);
    client_decode(&c, s, &picture);
    CHECK(holds(&c, s, &file), "still wrong");
    vaDestroySurfaces(c.display, &s, 1);
    client_close(&c);
}

static void damage_is_an_error(void)
{
    struct submission cut = picture;
    VASurfaceDecodeMBErrors *errors;
    void *info = NULL;
    struct client c;
    VASurfaceID s;

    cut.slice.slice_data_size /= 2;
    client_open(&c, "");
    s = surface(&c);
    CHECK(client_decode(&c, s, &cut) == VA_STATUS_SUCCESS, "at once");
    CHECK(vaSyncSurface(c.display, s) == VA_STATUS_ERROR_DECODING_ERROR,
          "unseen");
    CHECK(vaQuerySurfaceError(c.display, s, VA_STATUS_ERROR_DECODING_ERROR,
                              &info) == VA_STATUS_SUCCESS,
          "no list");
    errors = info;
    CHECK(errors && errors[0].status == 1 && errors[1].status == -1, "list");
    client_decode(&c, s, &picture);
    CHECK(vaSyncSurface(c.display, s) == VA_STATUS_SUCCESS, "it stays");
    vaDestroySurfaces(c.display, &s, 1);
    client_close(&c);
    client_open(&c, "damage=list");
    s = surface(&c);
    client_decode(&c, s, &cut);
    CHECK(vaSyncSurface(c.display, s) == VA_STATUS_SUCCESS, "not only a list");
    CHECK(vaQuerySurfaceError(c.display, s, VA_STATUS_ERROR_DECODING_ERROR,
                              &info) == VA_STATUS_SUCCESS &&
              (errors = info) && errors[0].status == 1,
          "no list after a sync that went well");
    vaDestroySurfaces(c.display, &s, 1);
    client_close(&c);
    client_open(&c, "damage=silent");
    s = surface(&c);
    client_decode(&c, s, &cut);
    CHECK(vaSyncSurface(c.display, s) == VA_STATUS_SUCCESS, "not silent");
    vaDestroySurfaces(c.display, &s, 1);
    client_close(&c);
}

struct waiter {
    struct client *client;
    VASurfaceID surface;
    VAStatus status;
};

static void *wait_for(void *arg)
{
    struct waiter *w = arg;

    w->status = vaSyncSurface(w->client->display, w->surface);
    return NULL;
}

static void wait_until_hanging(long n)
{
    while (client_control(NULL).hanging < n)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void hangs_end_by_release(void)
{
    struct client c;
    struct waiter w = {&c, VA_INVALID_ID, VA_STATUS_SUCCESS};
    pthread_t thread;

    client_open(&c, "");
    w.surface = surface(&c);
    client_control("fault=SyncSurface:hang");
    pthread_create(&thread, NULL, wait_for, &w);
    wait_until_hanging(1);
    client_control("release");
    pthread_join(thread, NULL);
    CHECK(w.status == VA_STATUS_ERROR_HW_BUSY, "%s", vaErrorStr(w.status));

    client_control("fault=Decode:hang");
    client_decode(&c, w.surface, &picture);
    wait_until_hanging(1);
    CHECK(vaSyncSurface2(c.display, w.surface, 20000000) ==
              VA_STATUS_ERROR_TIMEDOUT,
          "it ended");
    pthread_create(&thread, NULL, wait_for, &w);
    client_control("release");
    pthread_join(thread, NULL);
    CHECK(w.status == VA_STATUS_ERROR_HW_BUSY, "%s", vaErrorStr(w.status));
    vaDestroySurfaces(c.display, &w.surface, 1);
    client_close(&c);
}

// ---- rules -----------------------------------------------------------------

static void mistakes_are_counted(void)
{
    struct va_driver_counters n;
    struct client c;
    VASurfaceID s;

    client_open(&c, "");
    s = surface(&c);
    vaDestroySurfaces(c.display, &s, 1);
    CHECK(vaDestroySurfaces(c.display, &s, 1) ==
              VA_STATUS_ERROR_INVALID_SURFACE,
          "twice");
    CHECK(client_control(NULL).bad_ids == 1, "not counted");
    surface(&c);
    surface(&c);
    vaDestroyContext(c.display, c.context);
    vaDestroyConfig(c.display, c.config);
    vaTerminate(c.display);
    close(c.fd);
    n = client_control(NULL);
    CHECK(n.left == 2 && n.surfaces == 0 && n.displays == 0, "left %ld",
          n.left);
}

static void *begin_there(void *arg)
{
    struct waiter *w = arg;

    vaBeginPicture(w->client->display, w->client->context, w->surface);
    return NULL;
}

static void threads_are_watched(void)
{
    struct client c;
    struct waiter w = {&c, VA_INVALID_ID, VA_STATUS_SUCCESS};
    pthread_t thread;

    client_open(&c, "");
    w.surface = surface(&c);
    pthread_create(&thread, NULL, begin_there, &w);
    pthread_join(thread, NULL);
    vaEndPicture(c.display, c.context);
    CHECK(client_control(NULL).thread_violations == 1, "End elsewhere");
    vaDestroySurfaces(c.display, &w.surface, 1);
    client_close(&c);

    client_open(&c, "personality=i965 latency=100");
    w.surface = client_surface(&c, VA_RT_FORMAT_YUV420, 0, 64, 64);
    client_decode(&c, w.surface, &picture);
    pthread_create(&thread, NULL, wait_for, &w);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    vaSyncSurface(c.display, w.surface);
    pthread_join(thread, NULL);
    CHECK(client_control(NULL).thread_violations > 0, "two inside i965");
    vaDestroySurfaces(c.display, &w.surface, 1);
    client_close(&c);
}

static void bad_buffers_are_refused(void)
{
    struct submission bad = picture;
    struct client c;
    VASurfaceID s;

    client_open(&c, "");
    s = surface(&c);
    bad.slice.slice_data_offset = 1000000;
    CHECK(client_decode(&c, s, &bad) == VA_STATUS_ERROR_INVALID_PARAMETER,
          "offset");
    bad = picture;
    bad.picture.picture_width = 65;
    CHECK(client_decode(&c, s, &bad) == VA_STATUS_ERROR_INVALID_SURFACE,
          "too wide for the surface");
    bad = picture;
    bad.picture.num_components = 255;
    CHECK(client_decode(&c, s, &bad) == VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT,
          "255 components");
    bad = picture;
    memset(&bad.huffman.huffman_table[0], 255,
           sizeof(bad.huffman.huffman_table[0]));
    CHECK(client_decode(&c, s, &bad) == VA_STATUS_SUCCESS &&
              vaSyncSurface(c.display, s) == VA_STATUS_ERROR_DECODING_ERROR,
          "Huffman table");
    CHECK(client_control(NULL).remarks == 0, "remarks");
    bad = picture;
    bad.slice.num_mcus++;
    CHECK(client_decode(&c, s, &bad) == VA_STATUS_SUCCESS &&
              client_control(NULL).remarks == 1,
          "num_mcus");
    vaDestroySurfaces(c.display, &s, 1);
    client_close(&c);
}

static void options_are_checked(void)
{
    static const char *const bad[] = {"personality=voodoo", "latency=-1",
                                      "latency=x",          "nonsense",
                                      "fault=Nothing:1",    "fault=Decode",
                                      "fault=Decode:1:x",   "idct=best",
                                      "vpp_swap=ABCD",      "vpp_no_flip=NV1"};
    struct client c;
    va_driver_control_fn *control;
    void *entry;

    client_open(&c, "");
    // As the README says: also through libva.
    entry = vaGetLibFunc(c.display, VA_DRIVER_CONTROL);
    memcpy(&control, &entry, sizeof(entry));
    CHECK(entry != NULL, "vaGetLibFunc");
    for (size_t i = 0; entry && i < sizeof(bad) / sizeof(*bad); i++)
        CHECK(control(bad[i], NULL) == -1, "%s is taken", bad[i]);
    client_close(&c);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        TEST_CASE(pictures_overlap),       TEST_CASE(cores_bound_it),
        TEST_CASE(surfaces_have_an_order), TEST_CASE(calls_fail_once),
        TEST_CASE(pixels_go_wrong),        TEST_CASE(damage_is_an_error),
        TEST_CASE(hangs_end_by_release),   TEST_CASE(mistakes_are_counted),
        TEST_CASE(threads_are_watched),    TEST_CASE(bad_buffers_are_refused),
        TEST_CASE(options_are_checked),
    };
    struct jpeg_spec spec = {
        .w = 64, .h = 64, .space = JCS_YCbCr, .factors = {0x22}, .quality = 90};
    uint64_t seed = 5;
    int rc;

    if (!client_init()) {
        test_not_run("the software VA driver was not built");
        return TEST_NOT_RUN;
    }
    file = test_jpeg_of(&spec, &seed);
    other = test_jpeg_of(&spec, &seed);
    submission_of(&picture, &file);
    submission_of(&second, &other);
    rc = test_main("va_driver_calls", cases, sizeof(cases) / sizeof(*cases),
                   argc, argv);
    free(file.data);
    free(other.data);
    return rc;
}
