// SPDX-License-Identifier: Apache-2.0
// Who decodes the entropy coding of a picture, by what was timed of pictures
// like it (hal/trust/choice.c). The records stand in a grid, by size, sampling
// and number of samples; the last counts fastest.
#include <stdlib.h>

#include "hal/device/device.h"

enum {
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
