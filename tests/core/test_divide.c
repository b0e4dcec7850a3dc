// SPDX-License-Identifier: Apache-2.0
// Files whose entropy coding host and device share (hr__choice_divide()), in
// simulated time: never slower than the better of both alone, faster where
// both are idle without the other, and within the host's cap.
#include "hal/device/device.h"
#include "testing.h"

#define US INT64_C(1000)
enum { FLIGHT = 512, BATCH = 64, THREADS = 16, AT = 2 };
enum way { ALL_HOST, ALL_DEVICE, DIVIDED };

// A device that does one batch after the other, and a host that prepares what
// goes to it.
struct machine {
    int threads;
    int64_t decode;              // ns of a thread for a picture
    int64_t whole, rest, begin;  // of the device: for a picture, for one that
                                 // the host has decoded, for a batch
    int cap_milli;
};

struct run {
    const struct machine *m;
    enum way way;
    struct hr_entropy_choice choice;
    struct hr__divide divide;
    struct hr__allowance cap;
    int64_t now, until[THREADS], batch_until;
    bool decodes[THREADS];
    int queue[2], batch[2];  // of the device: [0] whole, [1] the rest
    int left, by_device;
    int64_t cpu_ns;
};

static int in_flight(const struct run *r)
{
    return r->queue[0] + r->queue[1] + r->batch[0] + r->batch[1] +
           r->divide.counts[HR__AT_HOST];
}

static void end_batch(struct run *r)
{
    if (r->now < r->batch_until)
        return;
    r->divide.counts[HR__WHOLE] -= r->batch[0];
    r->divide.counts[HR__REST] -= r->batch[1];
    r->batch[0] = r->queue[0] < BATCH ? r->queue[0] : BATCH;
    r->batch[1] = r->queue[1] < BATCH - r->batch[0] ? r->queue[1]
                                                    : BATCH - r->batch[0];
    r->queue[0] -= r->batch[0];
    r->queue[1] -= r->batch[1];
    r->batch_until = INT64_MAX;
    if (r->batch[0] + r->batch[1])
        r->batch_until = r->now + r->m->begin + r->batch[0] * r->m->whole +
                         r->batch[1] * r->m->rest;
}

static void end_decode(struct run *r, int i)
{
    if (!r->decodes[i])
        return;
    r->decodes[i] = false;
    r->divide.counts[HR__AT_HOST]--;
    r->divide.counts[HR__REST]++;
    r->queue[1]++;
    r->divide.takes = r->m->decode;
    r->cap.level -= r->m->decode;
    r->cpu_ns += r->m->decode;
}

// Thread i has nothing to do.
static void begin_one(struct run *r, int i)
{
    int64_t rest;
    bool device;

    r->until[i] = INT64_MAX;
    hr__allowance_fill(&r->cap, r->now);
    if (!r->left || in_flight(r) >= FLIGHT)
        return;
    if ((rest = hr__allowance_wait(&r->cap))) {
        r->until[i] = r->now + rest;
        return;
    }
    r->left--;
    device = r->way == ALL_DEVICE ||
             (r->way == DIVIDED &&
              hr__choice_divide(&r->choice, AT, &r->divide, &r->cap));
    r->by_device += device;
    r->until[i] = r->now + 2 * US;
    if (device) {
        r->divide.counts[HR__WHOLE]++;
        r->queue[0]++;
        return;
    }
    r->divide.counts[HR__AT_HOST]++;
    r->decodes[i] = true;
    r->until[i] += r->m->decode;
}

static int64_t next_event(const struct run *r)
{
    int64_t next = r->batch_until;

    for (int i = 0; i < r->m->threads; i++)
        next = r->until[i] < next ? r->until[i] : next;
    return next;
}

// How long n pictures take.
static int64_t run(struct run *r, const struct machine *m, enum way way, int n)
{
    r->m = m;
    r->way = way;
    r->now = r->cpu_ns = 0;
    r->left = n;
    r->by_device = 0;
    r->batch_until = 0;
    r->cap = (struct hr__allowance){.milli = m->cap_milli};
    r->divide = (struct hr__divide){.batch = BATCH,
                                    .threads = m->threads,
                                    .takes = r->divide.takes};
    memset(r->until, 0, sizeof(r->until));
    memset(r->queue, 0, sizeof(r->queue));
    memset(r->batch, 0, sizeof(r->batch));
    for (int64_t next = 0; next < INT64_MAX; next = next_event(r)) {
        bool idle;

        r->now = next;
        for (int i = 0; i < m->threads; i++)
            if (r->until[i] <= r->now)
                end_decode(r, i);
        idle = r->batch_until == INT64_MAX;
        if (r->batch_until <= r->now)
            end_batch(r);
        for (int i = 0; i < m->threads; i++)
            if (r->until[i] <= r->now || r->until[i] == INT64_MAX)
                begin_one(r, i);
        if (idle || r->batch_until == INT64_MAX) {
            r->batch_until = r->now;
            end_batch(r);
        }
    }
    CHECK(!in_flight(r) && !r->divide.counts[HR__WHOLE] &&
              !r->divide.counts[HR__REST],
          "something is left");
    return r->now;
}

// As hal/trust/choice.c: jobs of one, and of many. (No cap counts there.)
static void time_both(struct run *r, const struct machine *m)
{
    static const int counts[] = {1, 8, 64};
    struct machine free = *m;

    free.cap_milli = 0;
    memset(r, 0, sizeof(*r));
    for (int i = 0; i < 3; i++) {
        struct hr_entropy_record *to = &r->choice.records[i];

        to->samples = counts[i];
        to->host_ns = run(r, &free, ALL_HOST, counts[i]) / counts[i] + 1;
        to->device_ns = run(r, &free, ALL_DEVICE, counts[i]) / counts[i] + 1;
        to->device = to->device_ns < to->host_ns;
    }
}

struct found {
    double gain;  // against the better of both alone
    int64_t late;
    int by_device;
    double cpu;  // cores of the host
};

static struct found compare(const struct machine *m, int n)
{
    static struct run r;
    int64_t host, device, both, best;

    time_both(&r, m);
    host = run(&r, m, ALL_HOST, n);
    device = run(&r, m, ALL_DEVICE, n);
    run(&r, m, DIVIDED, BATCH);  // it learns what a picture takes
    both = run(&r, m, DIVIDED, n);
    best = host < device ? host : device;
    return (struct found){(double)best / (double)both, both - best, r.by_device,
                          (double)r.cpu_ns / (double)both};
}

// ---- The cases -------------------------------------------------------------

static const int threads[] = {1, 2, 4, 8, 16};
static const int decode_us[] = {100, 400, 2500, 10000};
static const int whole_us[] = {5, 20, 50, 100, 300, 1000, 4000};
static const int rest_percent[] = {5, 30, 90};
static const int begin_us[] = {0, 300, 1000};

static struct machine machine(int t, int d, int w, int r, int b, int cap)
{
    return (struct machine){
        threads[t],       decode_us[d] * US,
        whole_us[w] * US, whole_us[w] * US * rest_percent[r] / 100,
        begin_us[b] * US, cap};
}

// Whatever the rates: at the end of all a batch or a picture may be late.
static void never_slower(void)
{
    enum { N = 1000 };

    for (int i = 0; i < 5 * 4 * 7 * 3 * 3 * 2; i++) {
        struct machine m = machine(i % 5, i / 5 % 4, i / 20 % 7, i / 140 % 3,
                                   i / 420 % 3, i / 1260 ? 500 : 0);
        struct found f = compare(&m, N);

        CHECK(f.gain >= .98,
              "%d threads of %d us, device %d us and %d us, begin %d us, cap "
              "%d: %.3f of the better one",
              m.threads, (int)(m.decode / US), (int)(m.whole / US),
              (int)(m.rest / US), (int)(m.begin / US), m.cap_milli, f.gain);
        CHECK(!m.cap_milli || f.cpu <= .52, "%.2f cores", f.cpu);
    }
}

// Where neither does much for the other, the rates add up.
static void faster(void)
{
    // The device alone makes 10 a ms, 4 threads 4; of what they decode the
    // device has little left.
    struct machine m = {4, 1000 * US, 100 * US, 5 * US, 100 * US, 0};
    struct found f = compare(&m, 4000);

    CHECK(f.gain > 1.3 && f.by_device > 2500 && f.by_device < 3200,
          "%.2f, %d by the device", f.gain, f.by_device);
    // The threads make 8 a ms, the device 2.
    m = (struct machine){8, 1000 * US, 500 * US, 5 * US, 100 * US, 0};
    f = compare(&m, 4000);
    CHECK(f.gain > 1.1 && f.by_device > 400 && f.by_device < 1000,
          "%.2f, %d by the device", f.gain, f.by_device);
    // Of 4 threads that may use a core: 1.
    m = (struct machine){4, 1000 * US, 100 * US, 5 * US, 100 * US, 1000};
    f = compare(&m, 4000);
    CHECK(f.gain > 1.05 && f.cpu <= 1.02, "%.2f, %.2f cores", f.gain, f.cpu);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {TEST_CASE(never_slower),
                                             TEST_CASE(faster)};

    return test_main("divide", cases, 2, argc, argv);
}
