// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools.h"

#define INTERVAL 0.1  // seconds between two drawings
#define BAR_MAX 30

void progress_begin(struct progress *progress, uint64_t total, bool on)
{
    const char *term = secure_getenv("TERM"),
               *no_color = secure_getenv("NO_COLOR");

    *progress = (struct progress){.total = total};
    progress->on = on && isatty(STDERR_FILENO) && term &&
                   strcmp(term, "dumb") != 0;
    progress->color = !no_color || !*no_color;
    progress->begun = tools_seconds();
}

static void time_text(char *out, size_t size, double seconds)
{
    unsigned long long s = seconds < 1e9 ? (unsigned long long)seconds
                                         : 1000000000ull;

    if (s >= 3600)
        snprintf(out, size, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60,
                 s % 60);
    else
        snprintf(out, size, "%llu:%02llu", s / 60, s % 60);
}

void progress_text(const struct progress *progress, double elapsed, int width,
                   char *out, size_t size)
{
    double share = progress->total
                       ? (double)progress->done / (double)progress->total
                       : 0;
    double rate = elapsed > 0 ? (double)progress->done / elapsed : 0;
    char left[32] = "?", facts[128], bar[BAR_MAX + 1];
    int capacity, filled;

    if (rate > 0)
        time_text(left, sizeof(left),
                  (double)(progress->total - progress->done) / rate);
    snprintf(facts, sizeof(facts), " %3d%% %llu/%llu  %.0f img/s  %s left",
             (int)(share * 100), (unsigned long long)progress->done,
             (unsigned long long)progress->total, rate, left);
    if (progress->failed)
        snprintf(facts + strlen(facts), sizeof(facts) - strlen(facts),
                 "  %llu failed", (unsigned long long)progress->failed);
    capacity = width - (int)strlen(facts) - 3;
    capacity = capacity > BAR_MAX ? BAR_MAX : capacity;
    if (capacity < 4) {
        snprintf(out, size, "%.*s", width > 1 ? width - 1 : 0, facts + 1);
        return;
    }
    filled = (int)(share * capacity);
    memset(bar, '-', (size_t)capacity);
    memset(bar, '#', (size_t)filled);
    bar[capacity] = '\0';
    if (progress->color)
        snprintf(out, size, "[\033[32m%.*s\033[0m%s]%s", filled, bar,
                 bar + filled, facts);
    else
        snprintf(out, size, "[%s]%s", bar, facts);
}

static int columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col)
        return 80;
    return size.ws_col;
}

void progress_update(struct progress *progress, uint64_t done, uint64_t failed)
{
    double now = tools_seconds();
    char line[256];

    progress->done = done;
    progress->failed = failed;
    if (!progress->on || now - progress->last < INTERVAL)
        return;
    progress->last = now;
    progress->drawn = true;
    progress_text(progress, now - progress->begun, columns(), line,
                  sizeof(line));
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (!progress->drawn)
        return;
    progress->drawn = false;
    progress->last = 0;
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
