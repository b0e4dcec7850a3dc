// SPDX-License-Identifier: Apache-2.0
// Who decodes the entropy coding of a picture, by what was timed of pictures
// like it (hal/trust/choice.c). The records stand in a grid, by size, sampling
// and number of samples; the last counts fastest.
//
// Where both may (hr__choice_divide()), who is faster has most of them. If that
// is the device, the host's threads decode what it would not have begun before
// they are done, and twice as much is left for it to do meanwhile. If it is the
// host, the device gets what it would have done before a thread: then it is
// idle, for what the host has decoded comes to it, too.
#include <stdlib.h>

#include "hal/device/balance.h"

enum {
    ROOM = 2,  // times what a thread of the host takes
    SIZES = HR__TIMED_SIZES,
    KINDS = 2,
    COUNTS = HR_ENTROPY_RECORDS / SIZES / KINDS
};

static double pixels_of(const struct hr_entropy_record *r)
{
    return (double)r->width * r->height;
}

int hr__choice_of(const struct hr_entropy_choice *choice, int width, int height,
                  int kind, int samples)
{
    const struct hr_entropy_record *r = choice->records;
    double pixels = (double)width * height, n = samples;
    int at = 0, step = KINDS * COUNTS;

    // Between two of them their geometric mean is the border.
    while (at + step < HR_ENTROPY_RECORDS &&
           pixels * pixels > pixels_of(&r[at]) * pixels_of(&r[at + step]))
        at += step;
    if (kind != (int)r[at].kind)
        at += COUNTS;
    for (int i = 1; i < COUNTS; i++, at++)
        if (n * n <= (double)r[at].samples * r[at + 1].samples)
            break;
    return at;
}

// How little one record says of another: that pictures are larger matters more
// than their sampling, and that more than how many they are.
static int distance(int a, int b)
{
    int size = abs(a / (KINDS * COUNTS) - b / (KINDS * COUNTS));
    int kind = abs(a / COUNTS % KINDS - b / COUNTS % KINDS);

    return 100 * size + 10 * kind + abs(a % COUNTS - b % COUNTS);
}

bool hr__choice_decide(struct hr_entropy_choice *choice)
{
    struct hr_entropy_record *r = choice->records;
    bool any = false;

    for (int i = 0; i < HR_ENTROPY_RECORDS; i++) {
        int from = -1;

        if (!r[i].width)
            return false;
        for (int k = 0; k < HR_ENTROPY_RECORDS; k++)
            if (r[k].host_ns &&
                (from < 0 || distance(i, k) < distance(i, from)))
                from = k;
        r[i].device = from >= 0 && r[from].device_ns < r[from].host_ns;
        any = any || from >= 0;
    }
    return any;
}

// ---- Both ------------------------------------------------------------------

bool hr__choice_divide(const struct hr_entropy_choice *choice, int at,
                       const struct hr__divide *d,
                       const struct hr__allowance *cap)
{
    const struct hr_entropy_record *r = &choice->records[at];
    int64_t takes = d->takes, host = r->host_ns, rest, one, ready;

    if (!r->host_ns)
        return r->device;
    if (!takes)  // it is tried
        return d->counts[HR__AT_HOST] && r->device;
    // What the host leaves of a picture takes the device less than either.
    rest = r->device_ns < host ? r->device_ns : host;
    ready = (d->counts[HR__WHOLE] + 1) * r->device_ns;
    if (cap->milli && takes / cap->milli * 1000 > host)
        host = takes / cap->milli * 1000;
    takes = hr__allowance_next(cap, takes, d->counts[HR__AT_HOST]);
    if (r->device_ns < host)
        return ready + d->counts[HR__REST] * rest <=
               ROOM * (takes + d->batch * r->device_ns);
    // Alone it takes longer.
    one = choice->records[at - at % COUNTS].device_ns;
    return d->counts[HR__REST] <= d->threads &&
           (ready > one ? ready : one) <= takes;
}
