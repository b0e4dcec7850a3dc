// SPDX-License-Identifier: Apache-2.0
// Who decodes entropy coding faster, the host or the device: generated pictures
// of some sizes and samplings go both ways, as jobs of one sample and of many,
// and the clock on the wall tells. So all of the host's threads count, what a
// device waits for its host, and what it costs to start a batch. Which pictures
// go which way then: hal/device/choice.c.
//
// What was found is kept like certificates (file.c), a line per record:
//
//   measured <seconds since 1970>
//   record <width> <height> <kind> <samples> <ns of the host> <of the device>
//
// It holds for one host and one number of threads. A file that is not of this
// device, or not whole, costs the time to do it again.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal/trust/trust.h"

// Changes with the pictures and with how they are timed.
enum { CHOICE_VERSION = 1 };
enum { ROUNDS = 3, SIDE = 64, MOST = 64 };
#define LIMIT_NS INT64_C(1500000000)
#define JOB_NS INT64_C(10000000000)
#define FROM_BYTES HR__SPAN_BIT(HR_ENTROPY, HR_STORE)

static const struct hr__kept kept = {"choice", CHOICE_VERSION};

static struct {
    int64_t (*ns)(const struct hr_entropy_record *record, bool device);
    int64_t limit_ns;
} test;

void hr__test_choice(int64_t (*ns)(const struct hr_entropy_record *record,
                                   bool device),
                     int64_t limit_ns)
{
    test.ns = ns;
    test.limit_ns = limit_ns;
}

// What jobs read, so it is there until the last of them has ended.
struct timing {
    struct hr__device *dev;
    uint32_t spans;  // of the engine
    int64_t deadline;
    bool failed;          // the device did
    double ns_per_pixel;  // of both ways, lately
    atomic_int refs;
    struct hr_op ops[2];
    struct hr_sample samples[MOST];
    uint8_t bytes[HR__TIMED_BYTES];
};

static void drop(void *ctx, const struct hr_job_t *job)
{
    struct timing *t = ctx;

    (void)job;
    if (atomic_fetch_sub(&t->refs, 1) == 1)
        hr__free(t);
}

// ---- One job ---------------------------------------------------------------

// HR_PENDING: the device does not make such pictures.
static enum hr_status look(hr_job job)
{
    if (hr_job_poll(job, 0) == HR_PENDING)
        return hr__fail(HR_EDEVICE, "its timing ended early: it does not "
                                    "answer");
    for (int i = 0; i < job->num_samples; i++)
        if (job->results[i].status)
            return HR_PENDING;
    return HR_OK;
}

static enum hr_status time_job(struct timing *t, int n, bool device,
                               int64_t *ns)
{
    hr_batch batch = hr__batch_make(t->dev,
                                    hr_batch_params(.n = n, .c = 3, .h = SIDE,
                                                    .w = SIDE, .dtype = HR_U8));
    enum hr_status status;
    hr_job job;

    if (!batch)
        return hr_last_status();
    t->dev->probing = device ? FROM_BYTES : t->spans & ~FROM_BYTES;
    atomic_fetch_add(&t->refs, 1);
    *ns = -hr__now();
    job = hr__submit(t->dev, t->samples, n,
                     (struct hr__batch *)(uintptr_t)batch,
                     hr_job_params(.strict = true, .on_error = HR_ON_ERROR_ZERO,
                                   .timeout_ns = JOB_NS, .on_done = drop,
                                   .ctx = t));
    if (!job) {
        drop(t, NULL);
        hr__batch_unref((struct hr__batch *)(uintptr_t)batch);
        return hr_last_status();
    }
    hr_job_wait(job, JOB_NS + 2000000000);
    *ns += hr__now();
    status = look(job);
    hr_job_release(&job);
    hr__batch_unref((struct hr__batch *)(uintptr_t)batch);
    return status;
}

// ---- The records -----------------------------------------------------------

// In turn, for others may work on this machine, too; the first round does not
// count, and after another one that is clear there is no third.
static enum hr_status time_record(struct timing *t, struct hr_entropy_record *r)
{
    int64_t best[2] = {INT64_MAX, INT64_MAX}, ns = 0;
    enum hr_status status;

    for (int i = 0; i < 2 * ROUNDS; i++) {
        if (i == 4 && (best[0] > 2 * best[1] || best[1] > 2 * best[0]))
            break;
        if ((status = time_job(t, r->samples, i % 2, &ns)))
            return status;
        if (i > 1 && ns < best[i % 2])
            best[i % 2] = ns;
    }
    r->host_ns = best[0] / r->samples + 1;
    r->device_ns = best[1] / r->samples + 1;
    return HR_OK;
}

static enum hr_status find_out(struct timing *t, struct hr_entropy_record *r)
{
    if (!test.ns)
        return time_record(t, r);
    r->host_ns = test.ns(r, false);
    r->device_ns = test.ns(r, true);
    return r->host_ns < 0 || r->device_ns < 0 ? HR_PENDING : HR_OK;
}

static bool make_picture(struct timing *t, int i, struct hr_info *info)
{
    struct hr__engine *host = hr__host(t->dev);
    size_t size;

    if (!host->backend->specimen ||
        !host->backend->specimen(host, HR__SPECIMENS_TIMED + i, t->bytes,
                                 sizeof(t->bytes), &size) ||
        hr_probe(t->bytes, size, NULL, info))
        return false;
    for (int k = 0; k < MOST; k++)
        t->samples[k] = (struct hr_sample){
            .data = t->bytes, .size = size, .ops = t->ops, .num_ops = 2};
    return true;
}

// Whether there is time for a record, judging by those before it. The large
// pictures need not be that many: the next record stands for them.
static bool has_time(const struct timing *t, const struct hr_entropy_record *r)
{
    double pixels = (double)r->width * r->height * r->samples;

    return (r->samples < MOST || r->width < 1000) &&
           (double)hr__now() + 2 * pixels * t->ns_per_pixel <
               (double)t->deadline;
}

static enum hr_status fill(struct timing *t, struct hr_entropy_record *r,
                           const struct hr_info *info, int samples)
{
    enum hr_status status;

    *r = (struct hr_entropy_record){.width = info->width,
                                    .height = info->height,
                                    .kind = (enum hr_jpeg_kind)hr__jpeg_kind(
                                        info),
                                    .samples = samples};
    if (t->failed || !has_time(t, r))
        return HR_OK;
    status = find_out(t, r);
    t->failed = status == HR_PENDING;
    if (status)
        r->host_ns = r->device_ns = 0;
    else
        t->ns_per_pixel = (double)(r->host_ns + r->device_ns) /
                          ((double)r->width * r->height);
    return t->failed ? HR_OK : status;
}

// What matters most comes first, as time may run out.
static enum hr_status time_all(struct timing *t,
                               struct hr_entropy_choice *choice)
{
    enum { COUNTS = HR_ENTROPY_RECORDS / HR__TIMED_SIZES / 2 };
    static const int sizes[HR__TIMED_SIZES] = {1, 2, 0};
    static const int counts[COUNTS] = {1, 8, MOST}, order[COUNTS] = {1, 2, 0};
    enum hr_status status = HR_OK;

    choice->num_records = HR_ENTROPY_RECORDS;
    for (int i = 0; i < 2 * HR__TIMED_SIZES && !status; i++) {
        int at = 2 * sizes[i / 2] + i % 2;
        struct hr_info info;

        if ((t->failed = t->failed || !make_picture(t, at, &info)))
            break;
        for (int k = 0; k < COUNTS && !status; k++)
            status = fill(t, &choice->records[at * COUNTS + order[k]], &info,
                          counts[order[k]]);
    }
    return status;
}

// *ok: false if the device failed.
static enum hr_status run(struct hr__device *dev,
                          struct hr_entropy_choice *choice, bool *ok)
{
    struct timing *t = hr__alloc(NULL, sizeof(*t));
    struct hr_device_params mine;
    enum hr_status status;

    if (!t)
        return hr__fail(HR_ENOMEM, "out of memory for its timing");
    memset(t, 0, offsetof(struct timing, bytes));
    atomic_init(&t->refs, 1);
    t->dev = dev;
    t->spans = dev->pub.caps.spans[HR_EXACT];
    t->ops[0] = hr_op_decode(0);
    t->ops[1] = hr_op_resize(.w = SIDE, .h = SIDE);
    t->deadline = hr__deadline(test.limit_ns ? test.limit_ns : LIMIT_NS);
    mine = hr__lift_limits(dev);
    status = time_all(t, choice);
    if (!status)  // else jobs may be left, which look at the limits
        hr__put_back_limits(dev, &mine);
    *ok = !t->failed;
    drop(t, NULL);
    return status;
}

// ---- On disk ---------------------------------------------------------------

// What does not fit of the engine's key is left out; the last line is whole.
static void make_key(const struct hr__device *dev,
                     char key[HR__CERTIFICATE_KEY])
{
    char name[128], of_engine[HR__CERTIFICATE_KEY];
    size_t n;

    hr__processor_name(name, sizeof(name));
    hr__certificate_key(dev, 0, of_engine);
    n = (size_t)snprintf(key, HR__CERTIFICATE_KEY, "%d threads%s\n",
                         dev->pub.params.threads, name);
    snprintf(key + n, HR__CERTIFICATE_KEY - n, "%.*s\n",
             (int)(HR__CERTIFICATE_KEY - n - 2), of_engine);
}

static bool read_record(const char **at, struct hr_entropy_record *r)
{
    int kind, used = 0;

    if (sscanf(*at, "record %d %d %d %d %" SCNd64 " %" SCNd64 "%n", &r->width,
               &r->height, &kind, &r->samples, &r->host_ns, &r->device_ns,
               &used) != 6 ||
        (*at)[used] != '\n' || r->width < 1 || r->height < 1 || kind < 0 ||
        kind >= HR_NUM_KINDS || r->samples < 1 || r->host_ns < 0 ||
        r->device_ns < 0 || !r->host_ns != !r->device_ns)
        return false;
    r->kind = (enum hr_jpeg_kind)kind;
    *at += used + 1;
    return true;
}

static bool load(struct hr__device *dev, const char *key,
                 struct hr_entropy_choice *choice)
{
    char text[HR__KEPT_BYTES];
    const char *at = hr__kept_read(dev, &kept, key, text);
    int used = 0;

    if (!at ||
        sscanf(at, "measured %" SCNd64 "%n", &choice->measured, &used) != 1 ||
        at[used] != '\n' || choice->measured <= 0)
        return false;
    for (at += used + 1; choice->num_records < HR_ENTROPY_RECORDS;
         choice->num_records++)
        if (!read_record(&at, &choice->records[choice->num_records]))
            return false;
    return !*at && hr__choice_decide(choice);
}

static bool save(const char *key, const struct hr_entropy_choice *choice)
{
    char lines[HR__KEPT_BYTES];
    size_t n = (size_t)snprintf(lines, sizeof(lines), "measured %" PRId64 "\n",
                                choice->measured);

    for (int i = 0; i < choice->num_records && n < sizeof(lines); i++) {
        const struct hr_entropy_record *r = &choice->records[i];

        n += (size_t)snprintf(lines + n, sizeof(lines) - n,
                              "record %d %d %d %d %" PRId64 " %" PRId64 "\n",
                              r->width, r->height, (int)r->kind, r->samples,
                              r->host_ns, r->device_ns);
    }
    return hr__kept_write(&kept, key, lines);
}

// ---- All of it -------------------------------------------------------------

static void log_record(struct hr__device *dev,
                       const struct hr_entropy_record *r)
{
    if (r->host_ns)
        hr__log(dev, HR_LOG_INFO,
                "%s: entropy coding of %s, %dx%d, %d in flight: %d us by the "
                "host, %d us by the device",
                dev->pub.name, hr_jpeg_kind_name(r->kind), r->width, r->height,
                r->samples, (int)(r->host_ns / 1000),
                (int)(r->device_ns / 1000));
}

static enum hr_status measure(struct hr__device *dev, const char *key)
{
    struct hr_entropy_choice *choice = &dev->pub.entropy;
    int64_t begin = hr__now();
    enum hr_status status;
    bool ok = false;

    if ((status = run(dev, choice, &ok)))
        return status;
    if (!ok || !hr__choice_decide(choice)) {
        memset(choice, 0, sizeof(*choice));
        hr__log(dev, HR_LOG_WARN,
                "%s: entropy coding could not be timed: the host does it",
                dev->pub.name);
        return HR_OK;
    }
    choice->measured = (int64_t)time(NULL);
    for (int i = 0; i < choice->num_records; i++)
        log_record(dev, &choice->records[i]);
    hr__log(dev, HR_LOG_INFO, "%s: entropy coding timed in %d ms",
            dev->pub.name, (int)((hr__now() - begin) / 1000000));
    if (!save(key, choice))
        hr__log(dev, HR_LOG_INFO, "%s: its choice cannot be kept: %s",
                dev->pub.name, strerror(errno));
    return HR_OK;
}

static void share(struct hr__device *dev)
{
    const struct hr__engine *e = dev->engines[0];

    if (!dev->pub.entropy.num_records || !e->divides || dev->pub.params.balance)
        return;
    dev->divide.threads = dev->pub.params.threads;
    dev->divide.batch = e->caps.batch > 1 ? e->caps.batch : 1;
}

// A span that no picture gets is not offered.
static void tell(struct hr__device *dev)
{
    const struct hr_entropy_choice *choice = &dev->pub.entropy;
    bool any = dev->divide.batch;

    for (int i = 0; i < choice->num_records; i++)
        any = any || choice->records[i].device;
    for (int tier = 0; tier <= HR_FAST && !any; tier++)
        dev->pub.caps.spans[tier] &= ~FROM_BYTES;
}

enum hr_status hr__choose(struct hr__device *dev)
{
    const char *wish = secure_getenv("HEADRACE_CERTIFICATE");
    bool again = wish && !strcmp(wish, "again");
    char key[HR__CERTIFICATE_KEY];
    enum hr_status status = HR_OK;

    for (int k = 0; k < dev->num_engines - 1; k++)
        if (dev->engines[k]->chooses)
            dev->choosing |= 1u << k;
    if (!(dev->choosing & 1))
        return HR_OK;
    if (dev->pub.caps.spans[HR_EXACT] & FROM_BYTES) {
        make_key(dev, key);
        if (again || !load(dev, key, &dev->pub.entropy)) {
            memset(&dev->pub.entropy, 0, sizeof(dev->pub.entropy));
            status = measure(dev, key);
        }
    }
    share(dev);
    tell(dev);
    return status;
}
