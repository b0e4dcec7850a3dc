// SPDX-License-Identifier: Apache-2.0
// Lines for the user's log. It is called with no lock held: what a driver says
// in a call that keeps other threads out of it is said after the call.
#include <stdio.h>

#include "backends/vaapi/vaapi.h"

static _Thread_local struct va_lines *kept;

static void say(struct va *va, enum hr_log_level level, const char *text)
{
    // Who leaves this thread behind waits until the line is out.
    struct hr__engine *e = hr__way_pass(&va->hal);

    if (!e)
        return;
    hr__log(e->device, level, "%s: %s", e->name, text);
    hr__way_passed(&va->hal);
}

void va_log(struct va *va, enum hr_log_level level, const char *fmt, ...)
{
    char text[VA_LINE];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (!kept) {
        say(va, level, text);
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
        say(va, lines->line[i].level, lines->line[i].text);
    if (lines->lost)
        va_log(va, HR_LOG_WARN, "and %d lines more", lines->lost);
    lines->n = lines->lost = 0;
}
