// SPDX-License-Identifier: Apache-2.0
// The test behind a certificate: generated pictures, each in some cases, made
// by every span of the engine alone (the host does the stages around it) and by
// the readable C of a CPU device, and compared. There is a record for each span
// and, of a media engine, each kind of JPEG.
//
// It runs as ordinary jobs, on a device that is not published yet: dev->probing
// leaves the planner one span, strict forbids it to fall back, dev->on_planes
// copies planes that go from one engine to another. The user's limits are
// lifted meanwhile, and the counters start again afterwards. Bounded: the cases
// of one picture are one job, small pictures all; the clock that finds a hung
// engine starts again with each job, for a busy machine is slow at all of them.
// An engine that makes progress but has not finished in TOTAL_NS opens without
// the spans whose test is incomplete.
#include <math.h>
#include <string.h>

#include "hal/trust/trust.h"

#define PLANES HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT)
#define CODES HR_SPAN_BIT(HR_AUGMENT, HR_STORE)
// JOB_NS is the time of one job, besides two deadlines of a span. A span's
// deadline is the user's, unless that is unlimited, or short and not of a media
// engine: some drivers still compile.
#define JOB_NS INT64_C(10000000000)
#define MIN_SPAN_NS INT64_C(10000000000)
#define MAX_SPAN_NS INT64_C(60000000000)
#define TOTAL_NS INT64_C(120000000000)

static struct {
    int64_t span_ns, job_ns, total_ns;
} limits = {MIN_SPAN_NS, JOB_NS, TOTAL_NS};

// ---- Comparing -------------------------------------------------------------

// Rounds up to 1e-9, as the file keeps them, so that only 0 becomes 0.
static double rounded(double x)
{
    return ceil(x * 1e9) / 1e9;
}

static void sum_up(struct hr_difference *to, const struct hr_difference *diff)
{
    to->elements += diff->elements;
    to->differing += diff->differing;
    to->sum += diff->sum;
    to->squares += diff->squares;
    to->max = diff->max > to->max ? diff->max : to->max;
    to->alike = to->alike && diff->alike;
}

static void add(struct hr__trial *t, int record,
                const struct hr_difference *diff)
{
    struct hr_certificate_record *r = &t->cert->records[record];
    struct hr_difference *sums = &t->sums[record];

    sum_up(sums, diff);
    r->differing = rounded((double)sums->differing / (double)sums->elements);
    r->max = rounded(sums->max);
    r->mean = rounded(sums->sum / (double)sums->elements);
    r->psnr = hr__psnr(sums->squares, (double)sums->elements);
    r->failed = r->failed || (t->pass == HR__PASS_SCALED && !diff->alike);
}

// Notes a picture that differs, and the codes that it has. False: no room.
static bool suspect(struct hr__trial *t, uint32_t codes,
                    const struct hr_difference *diff)
{
    if (!(codes & (codes - 1))) {
        t->cert->wrong_codes |= codes;
        return true;
    }
    for (int i = 0; i < t->num_suspects; i++)
        if (t->suspects[i].codes == codes) {
            sum_up(&t->suspects[i].diff, diff);
            return true;
        }
    if (t->num_suspects == HR__SUSPECTS)
        return false;
    t->suspects[t->num_suspects++] = (struct hr__suspect){codes, *diff};
    return true;
}

static void compare(struct hr__trial *t, int record, int i)
{
    const struct hr__case *it = &t->cases[i];
    struct hr_difference diff;

    if (t->pass == HR__PASS_PLANES) {
        struct hr__noted *cpu = &t->planes[0], *device = &t->planes[1];
        struct hr__dst d = {.w = (int)cpu->size,
                            .h = 1,
                            .c = 1,
                            .data = cpu->bytes,
                            .dtype = HR_U8};
        struct hr__dst other = hr__dst_packed(&d, device->bytes);

        if (!cpu->size || device->size != cpu->size)
            return;
        hr__compare(&d, &other, (const double[3]){1, 1, 1}, &diff);
    } else if (hr_image_compare(it->out[0], it->out[1], it->normalize, &diff)) {
        return;
    }
    if (!diff.differing && it->codes >> HR__AUGMENT_TABLE & 1)
        t->table_right = true;
    t->cert->records[record].pictures++;
    if (!it->codes || !diff.differing || !suspect(t, it->codes, &diff))
        add(t, record, &diff);
}

// The codes that differ by themselves explain all pictures that have them. The
// table never comes alone: what is left is its doing if it is in all of it, and
// never right. Otherwise the codes differ together, and the whole stage is
// wrong.
static void judge_codes(struct hr__trial *t)
{
    uint32_t common = ~UINT32_C(0), *wrong = &t->cert->wrong_codes;
    int left = 0;

    for (int i = 0; i < t->num_suspects; i++) {
        struct hr__suspect *s = &t->suspects[i];

        if (s->codes & *wrong)
            continue;
        common &= s->codes;
        t->suspects[left++] = *s;
    }
    if (left && !t->table_right && common >> HR__AUGMENT_TABLE & 1)
        *wrong |= UINT32_C(1) << HR__AUGMENT_TABLE;
    else
        for (int i = 0; i < left; i++)
            add(t, t->from, &t->suspects[i].diff);
    t->num_suspects = 0;
}

// Drops the records of kinds of which the engine took no picture.
static void tidy_up(struct hr__trial *t)
{
    int n = 0;

    for (int i = 0; i < t->cert->num_records; i++) {
        struct hr_certificate_record *r = &t->cert->records[i];

        if (r->kind != HR_KIND_ALL && !r->pictures && !r->failed)
            continue;
        if (t->late)
            r->pictures = 0;
        t->cert->records[n++] = *r;
    }
    t->cert->num_records = n;
    if (t->late)
        hr__log(t->dev[1], HR_LOG_WARN, "%s: not through with its test in %d s",
                t->dev[1]->pub.name, (int)(limits.total_ns / 1000000000));
}

// ---- Jobs ------------------------------------------------------------------

static void drop(void *ctx, const struct hr_job_t *job)
{
    struct hr__trial *t = ctx;

    (void)job;
    if (atomic_fetch_sub(&t->refs, 1) == 1)
        hr__free(t);
}

static void note_planes(void *ctx, const struct hr__payload *payload)
{
    const struct hr__planes *all = payload->extra;
    struct hr__noted *noted = ctx;
    size_t n = 0;

    for (uint32_t c = 0; all && c < all->num_components; c++) {
        const struct hr__plane *p = &all->comp[c];
        const uint8_t *from = (const uint8_t *)payload->data + p->at;

        if ((size_t)p->cols * p->rows > HR__SOURCE_BYTES - n)
            return;
        for (uint32_t y = 0; y < p->rows; y++)
            for (uint32_t x = 0; x < p->cols; x++)
                noted->bytes[n++] =
                    from[(size_t)p->stride * y + (size_t)p->step * x];
    }
    noted->size = n;
}

static enum hr_status gave_up(const char *text)
{
    return hr__fail(HR_EDEVICE, "its test ended early: %s", text);
}

// Runs all cases of the picture at hand on one side. A job of a hung device
// ends by the deadlines of its spans; or not even so: it is left behind, and t
// with it.
static enum hr_status run_job(struct hr__trial *t, int k, uint32_t span,
                              enum hr_tier tier, hr_job *job)
{
    struct hr__device *dev = t->dev[k];

    dev->probing = span;
    dev->on_planes = t->pass == HR__PASS_PLANES ? note_planes : NULL;
    dev->planes_ctx = &t->planes[k];
    t->planes[k].size = 0;
    // The result of the span before must not be taken for this one's.
    for (int i = 0; i < t->n; i++)
        memset(t->cases[i].out[k]->params.data, 0xa5, t->cases[i].out[k]->size);
    atomic_fetch_add(&t->refs, 1);
    *job = hr__submit(dev, t->samples[k], t->n, NULL,
                      hr_job_params(.tier = tier, .strict = k == 1,
                                    .on_error = HR_ON_ERROR_ZERO,
                                    .timeout_ns = t->job_ns, .on_done = drop,
                                    .ctx = t));
    if (!*job) {
        drop(t, NULL);
        return hr_last_status();
    }
    hr_job_wait(*job, t->job_ns + 2000000000);
    if (hr_job_poll(*job, 0) == HR_PENDING)
        return gave_up(k ? "it does not answer" : "the CPU is too slow for it");
    return HR_OK;
}

// Judges a failed sample of the device: HR_OK: the test goes on; else it ends
// here.
static enum hr_status failed(const struct hr_result *r)
{
    if (r->status == HR_ENOMEM)
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    if (r->status == HR_ETIMEDOUT || r->why & (HR_WHY_TIMEOUT | HR_WHY_LOST))
        return gave_up(r->message);
    return HR_OK;
}

// Looks at the results of a span. Samples that the engine does not take, or
// that the CPU could not make either, do not count.
static enum hr_status look(struct hr__trial *t, int record, hr_job cpu,
                           hr_job job)
{
    enum hr_status status;

    for (int i = 0; i < t->n; i++) {
        const struct hr_result *r = &job->results[i];

        // (Entropy coding that the device cannot divide is no fault of its
        // own.)
        if (cpu->results[i].status || r->status == HR_EUNSUPPORTED ||
            r->why & HR_WHY_SERIAL)
            continue;
        if (!r->status) {
            compare(t, record, i);
            continue;
        }
        if ((status = failed(r)))
            return status;
        t->cert->records[record].failed = true;
        t->broke = true;
    }
    return HR_OK;
}

static enum hr_status run_span(struct hr__trial *t, int record, hr_job cpu)
{
    const struct hr_certificate_record *r = &t->cert->records[record];
    hr_job job = NULL;
    enum hr_status status;

    status = run_job(t, 1, HR_SPAN_BIT(r->span.first, r->span.last), r->tier,
                     &job);
    if (!status)
        status = look(t, record, cpu, job);
    hr_job_release(&job);
    return status;
}

// ---- Passes ----------------------------------------------------------------

// Says whether the picture at hand is for that record: pixels begin at
// resample.
static bool is_for(const struct hr__trial *t,
                   const struct hr_certificate_record *r)
{
    if (r->kind != HR_KIND_ALL && (int)r->kind != t->kind)
        return false;
    return t->size || r->span.first >= HR_RESAMPLE;
}

// Every span that has a part in such pictures, on the picture at hand.
static enum hr_status run_picture(struct hr__trial *t)
{
    // Planes that leave an engine.
    uint32_t cut = PLANES | HR_SPAN_BIT(HR_COLOR, HR_STORE);
    enum hr_status status = HR_OK;
    hr_job cpu = NULL;

    for (int i = t->from; i < t->cert->num_records && !status; i++) {
        if (!is_for(t, &t->cert->records[i]))
            continue;
        if (!cpu && !(status = hr__trial_cases(t)))
            status = run_job(t, 0, t->pass == HR__PASS_PLANES ? cut : 0,
                             HR_EXACT, &cpu);
        if (!status)
            status = run_span(t, i, cpu);
    }
    hr_job_release(&cpu);
    return status;
}

static void add_record(struct hr__trial *t, int bit, int kind)
{
    struct hr_certificate *cert = t->cert;
    uint32_t exactly = t->dev[1]->engines[0]->caps.spans[HR_EXACT];

    if (cert->num_records == HR__MAX_RECORDS)
        return;
    // A scaled result can be right only if the decoded planes are.
    if (t->pass == HR__PASS_SCALED &&
        !hr__certificate_allows(hr__certificate_record(cert, PLANES, kind),
                                HR_CLOSE))
        return;
    cert->records[cert->num_records++] = (struct hr_certificate_record){
        .span = hr_span_of(bit),
        .kind = (enum hr_jpeg_kind)kind,
        .tier = exactly >> bit & 1           ? HR_EXACT
                : t->pass == HR__PASS_SCALED ? HR_FAST
                                             : HR_CLOSE};
}

static void add_records(struct hr__trial *t, uint32_t spans)
{
    bool media = t->dev[1]->engines[0]->backend->media;

    for (int bit = 0; bit < HR_NUM_SPANS; bit++)
        for (int kind = 0; kind < (media ? HR_NUM_KINDS : 1); kind++)
            if (spans >> bit & 1)
                add_record(t, bit, media ? kind : HR_KIND_ALL);
}

static enum hr_status run_pass(struct hr__trial *t, enum hr__pass pass,
                               uint32_t spans)
{
    enum hr_status status = HR_OK;

    t->pass = pass;
    t->second = pass == HR__PASS_SCALED;
    t->at = 0;
    t->from = t->cert->num_records;
    add_records(t, spans);
    for (; !status; t->number++) {
        if ((t->late = hr__now() >= t->deadline))
            return HR_OK;
        status = hr__trial_picture(t);
        if (!status)
            status = run_picture(t);
        hr__trial_drop(t);
    }
    return status == HR_PENDING ? HR_OK : status;
}

static enum hr_status run_codes(struct hr__trial *t, uint32_t spans)
{
    enum hr_status status = run_pass(t, HR__PASS_CODES, spans);

    judge_codes(t);
    return status;
}

static enum hr_status run_passes(struct hr__trial *t)
{
    const struct hr__engine *e = t->dev[1]->engines[0];
    uint32_t strictly = e->caps.spans[HR_EXACT] | e->caps.spans[HR_CLOSE];
    enum hr_status status;

    if (!e->backend->media) {
        status = run_pass(t, HR__PASS_EXACT, strictly & ~CODES);
        return status || t->late || !(strictly & CODES)
                   ? status
                   : run_codes(t, strictly & CODES);
    }
    status = run_pass(t, HR__PASS_PLANES, PLANES);
    if (!status && !t->late)
        status = run_pass(t, HR__PASS_SCALED,
                          e->caps.spans[HR_FAST] & ~strictly);
    return status;
}

// ---- All of it -------------------------------------------------------------

// The user's limits are lifted meanwhile; returns them.
struct hr_device_params hr__lift_limits(struct hr__device *dev)
{
    struct hr_device_params *params = &dev->pub.params, mine = *params;

    memset(&params->limits, 0, sizeof(params->limits));
    hr__limits_default(&params->limits, &params->limits);
    if (params->budget < (size_t)64 << 20)
        params->budget = (size_t)64 << 20;
    return mine;
}

// Resets the device; no other jobs have been submitted to it yet.
void hr__put_back_limits(struct hr__device *dev,
                         const struct hr_device_params *mine)
{
    dev->probing = 0;
    dev->on_planes = NULL;
    hr__wait_all(dev, INT64_MAX);
    pthread_mutex_lock(&dev->lock);
    memset(&dev->stats, 0, sizeof(dev->stats));
    pthread_mutex_unlock(&dev->lock);
    atomic_store(&dev->head.heap_allocations, 0);
    atomic_store(&dev->peak_device_bytes, atomic_load(&dev->device_bytes));
    dev->pub.params = *mine;
}

// Returns what it was. Nothing is in flight.
static int64_t set_deadline(struct hr__device *dev, int64_t ns)
{
    int64_t was = dev->engines[0]->params.deadline_ns;

    for (int i = 0; i < dev->num_engines; i++)
        dev->engines[i]->params.deadline_ns = ns;
    return was;
}

static enum hr_status run_lifted(struct hr__trial *t)
{
    struct hr__device *dev = t->dev[1];
    struct hr_device_params mine = hr__lift_limits(dev);
    int64_t span_ns = mine.deadline_ns, deadline;
    enum hr_status status;

    if (span_ns < limits.span_ns && !dev->engines[0]->backend->media)
        span_ns = limits.span_ns;
    t->job_ns = limits.job_ns +
                2 * (span_ns < MAX_SPAN_NS ? span_ns : MAX_SPAN_NS);
    t->deadline = hr__deadline(limits.total_ns);
    deadline = set_deadline(dev, span_ns);
    if ((status = run_passes(t)))
        return status;  // jobs may be left, which look at the limits
    hr__put_back_limits(dev, &mine);
    set_deadline(dev, deadline);
    tidy_up(t);
    return HR_OK;
}

void hr__test_probe_limits(int64_t span_ns, int64_t job_ns, int64_t total_ns)
{
    limits.span_ns = span_ns ? span_ns : MIN_SPAN_NS;
    limits.job_ns = job_ns ? job_ns : JOB_NS;
    limits.total_ns = total_ns ? total_ns : TOTAL_NS;
}

enum hr_status hr__certificate_run(struct hr__device *dev,
                                   struct hr_certificate *cert, bool *keep)
{
    struct hr__trial *t = hr__alloc(NULL, sizeof(*t));
    enum hr_status status;
    struct hr__device *cpu;

    if (!t)
        return hr__fail(HR_ENOMEM, "out of memory for its test");
    memset(t, 0, sizeof(*t));
    memset(cert, 0, sizeof(*cert));
    atomic_init(&t->refs, 1);
    t->cert = cert;
    cpu = hr__device_assemble(
        hr__host(dev)->backend->name,
        hr_device_params(.threads = 1, .cpu_mask = HR_CPU_C,
                         .log = dev->pub.params.log,
                         .log_ctx = dev->pub.params.log_ctx));
    t->dev[0] = cpu;
    t->dev[1] = dev;
    status = cpu ? run_lifted(t) : hr_last_status();
    *keep = !t->late && !t->broke;
    hr__device_unref(cpu);
    drop(t, NULL);
    return status;
}
