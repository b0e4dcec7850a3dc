// SPDX-License-Identifier: Apache-2.0
#include "braces.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 1000000, MOST_DIGITS = 9 };

struct braces {
    const char *begin, *end;  // of the braces, end is behind them
    long from, to;
    int digits;
};

// Digits alone; *end is behind them.
static bool read_number(const char *text, long *number, const char **end)
{
    size_t digits = strspn(text, "0123456789");

    if (!digits || digits > MOST_DIGITS)
        return false;
    *number = strtol(text, NULL, 10);
    *end = text + digits;
    return true;
}

static bool read_braces(const char *at, struct braces *b)
{
    const char *end;

    b->begin = at;
    if (!read_number(at + 1, &b->from, &end) || strncmp(end, "..", 2))
        return false;
    b->digits = (int)(end - at - 1);
    if (!read_number(end + 2, &b->to, &end) || *end != '}')
        return false;
    b->end = end + 1;
    return true;
}

static bool find_braces(const char *text, struct braces *b)
{
    while ((text = strchr(text, '{')))
        if (read_braces(text++, b))
            return true;
    return false;
}

static bool few_enough(const char *pattern)
{
    unsigned long long names = 1;
    struct braces b;

    while (names <= MOST_NAMES && find_braces(pattern, &b)) {
        names *= (unsigned long long)labs(b.to - b.from) + 1;
        pattern = b.end;
    }
    return names <= MOST_NAMES;
}

// The braces before `from` in name are numbers already.
static bool expand(const char *name, size_t from, braces_fn take, void *ctx)
{
    char made[PATH_MAX];
    struct braces b;

    if (!find_braces(name + from, &b))
        return take(ctx, name);
    for (long i = b.from;; i += b.from < b.to ? 1 : -1) {
        int head = (int)(b.begin - name);
        int used = snprintf(made, sizeof(made), "%.*s%0*ld%s", head, name,
                            b.digits, i, b.end);

        if (used < 0 || (size_t)used >= sizeof(made))
            return take(ctx, name);  // which is too long for a file, too
        if (!expand(made, (size_t)used - strlen(b.end), take, ctx))
            return false;
        if (i == b.to)
            return true;
    }
}

bool braces_expand(const char *pattern, braces_fn take, void *ctx)
{
    return few_enough(pattern) ? expand(pattern, 0, take, ctx)
                               : take(ctx, pattern);
}
