// SPDX-License-Identifier: Apache-2.0
// Lines for the user's log. It is called with no lock held: what a driver says
// in a call that keeps other threads out of it is said after the call.
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

void va_log_keep(struct va_lines *lines)
{
    kept = lines;
}

void va_log_say(struct va *va, struct va_lines *lines)
{
    kept = NULL;
    for (int i = 0; i < lines->n; i++)
        hr__guard_log(&va->guard, lines->line[i].level, "%s",
                      lines->line[i].text);
    if (lines->lost)
        va_log(va, HR_LOG_WARN, "and %d lines more", lines->lost);
    lines->n = lines->lost = 0;
}
