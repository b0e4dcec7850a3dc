// SPDX-License-Identifier: Apache-2.0
// A scan in bands that can be decoded apart: where restart markers lie between
// rows of MCUs.
#include <string.h>

#include "entropy.h"

static int mcus_in_row(const struct cpu_scan *s)
{
    return s->num_components == 1 ? (s->width + 7) / 8 * s->v_max : s->mcus;
}

int cpu_entropy_period(const struct cpu_scan *scan)
{
    int mcus = mcus_in_row(scan), each = scan->restart, rest, n;

    if (!each)
        return scan->rows;
    // n becomes the greatest common divisor of the two.
    for (n = each; (rest = mcus % n); n = rest)
        mcus = n;
    return each / n < scan->rows ? each / n : scan->rows;
}

// Segments of a band.
static int segments(const struct cpu_scan *s)
{
    return s->restart ? cpu_entropy_period(s) * mcus_in_row(s) / s->restart : 1;
}

bool cpu_entropy_find(const struct cpu_scan *scan, const uint8_t **starts,
                      int n)
{
    const uint8_t *p = scan->data, *end = scan->end;
    int each = segments(scan);

    starts[0] = p;
    for (int k = 1; k <= (n - 1) * each; p += 2) {
        p = memchr(p, 0xff, (size_t)(end - p));
        if (!p || end - p < 2)
            return false;
        if (p[1] == 0)
            continue;
        if (p[1] != (0xd0 | ((k - 1) & 7)))
            return false;
        if (k % each == 0)
            starts[k / each] = p + 2;
        k++;
    }
    return true;
}

void cpu_entropy_begin_band(struct cpu_entropy *e, const struct cpu_scan *scan,
                            const struct cpu_entropy_tables *tables, int band,
                            const uint8_t *start)
{
    cpu_entropy_begin(e, scan, tables);
    e->p = start;
    e->row = band * cpu_entropy_period(scan);
    e->marker = (uint8_t)(band * segments(scan) & 7);
}

bool cpu_entropy_joins(const struct cpu_entropy *e)
{
    return !e->restart && cpu_entropy_at_marker(e, 0xd0 | e->marker);
}
