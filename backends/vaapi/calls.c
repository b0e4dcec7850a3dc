// SPDX-License-Identifier: Apache-2.0
// Around calls to libva: the guard's clock, the lock for drivers that one
// thread at a time may call, and the user's log. The log is called with no lock
// held, so a line that a driver says inside such a call is kept until the call
// is over.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

static _Thread_local struct va_lines *kept;

void va_log(struct va *va, enum hr_log_level level, const char *fmt, ...)
{
    char text[VA_LINE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (!kept) {
        hr__guard_log(&va->guard, level, "%s", text);
    } else if (kept->n == VA_LINES) {
        kept->lost++;
    } else {
        kept->line[kept->n].level = level;
        snprintf(kept->line[kept->n++].text, VA_LINE, "%s", text);
    }
}

static void say_kept(struct va *va, struct va_lines *lines)
{
    kept = NULL;
    for (int i = 0; i < lines->n; i++)
        va_log(va, lines->line[i].level, "%s", lines->line[i].text);
    if (lines->lost)
        va_log(va, HR_LOG_WARN, "and %d lines more", lines->lost);
    lines->n = lines->lost = 0;
}

static bool one_at_a_time(const struct va *va)
{
    // (Before the vendor is known there is one thread only.)
    return va->facts.driver && !(va->facts.driver->quirks & VA_QUIRK_SAFE);
}

bool va_enter(struct va *va, int thread)
{
    hr__guard_enter(&va->guard, thread);
    if (one_at_a_time(va)) {
        pthread_mutex_lock(&va->calls);
        kept = &va->lines[thread];
    }
    // The other thread may have been in a hung call until now.
    return !va_barred(va);
}

bool va_leave(struct va *va, int thread)
{
    if (one_at_a_time(va))
        pthread_mutex_unlock(&va->calls);
    hr__guard_leave(&va->guard, thread);
    say_kept(va, &va->lines[thread]);
    return !va_barred(va);
}
