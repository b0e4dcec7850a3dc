// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // sched_getaffinity
#include "tools.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

// Says whether a byte belongs to one of U+0080 .. U+009F in UTF-8: some
// terminals take U+009B for ESC [.
static bool is_c1(const char *begin, const char *at)
{
    at -= at > begin && (*at & 0xe0) == 0x80;
    return (unsigned char)at[0] == 0xc2 && (at[1] & 0xe0) == 0x80;
}

void tools_escape(char *out, size_t size, const char *text)
{
    const char *begin = text;
    size_t used = 0;

    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte >= 0x20 && byte != 0x7f && !is_c1(begin, text)) {
            if (used + 1 >= size)
                break;
            out[used++] = *text;
        } else {
            if (used + 4 >= size)
                break;
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", byte);
        }
    }
    if (size)
        out[used] = '\0';
}

static _Thread_local char last_warning[512];

bool tools_warn(const char *format, ...)
{
    // A path may be 4096 bytes long, and each of its bytes may need four.
    char text[8192], line[4 * sizeof(text)];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tools_escape(line, sizeof(line), text);
    fprintf(stderr, "headrace: %s\n", line);
    snprintf(last_warning, sizeof(last_warning), "%.511s", line);
    return false;
}

const char *tools_last_warning(void)
{
    return last_warning;
}

static int unit_shift(const char *unit)
{
    static const char letters[] = "KMGT";
    const char *letter;

    if (!*unit || !strcmp(unit, "B"))
        return 0;
    letter = strchr(letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
    if (!letter || !*letter)
        return -1;
    unit++;
    if (*unit && strcmp(unit, "B") && strcmp(unit, "iB"))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

bool tools_parse_size(const char *text, uint64_t *bytes)
{
    char *end;
    double value;
    int shift;

    // strtod() also takes blanks, signs, hex, inf and nan.
    if (*text < '0' || *text > '9' || strcspn(text, "xX") < strlen(text))
        return false;
    value = strtod(text, &end);
    shift = unit_shift(end);
    if (shift < 0)
        return false;
    value = floor(ldexp(value, shift));
    if (!(value >= 1 && value < 0x1p62))
        return false;
    *bytes = (uint64_t)value;
    return true;
}

bool tools_parse_u64(const char *text, uint64_t *value)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return !errno && !*end;
}

double tools_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double tools_cpu_seconds(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

double tools_thread_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int tools_cores(void)
{
    cpu_set_t set;

    if (!sched_getaffinity(0, sizeof(set), &set))
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

// ru_maxrss survives exec: it would report the parent's size.
uint64_t tools_peak_rss(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "re");

    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %llu", &kib) == 1)
            break;
    fclose(file);
    return (uint64_t)kib * 1024;
}

int tools_flush_stdout(void)
{
    if (!fflush(stdout) && !ferror(stdout))
        return TOOLS_OK;
    if (errno != EPIPE)  // else the reader, as head, has seen enough
        tools_warn("standard output: %s", strerror(errno));
    return TOOLS_CANNOT;
}

void tools_span_text(char *out, size_t size, struct hr_span span)
{
    if (span.first == span.last)
        snprintf(out, size, "%s", hr_stage_name(span.first));
    else
        snprintf(out, size, "%s..%s", hr_stage_name(span.first),
                 hr_stage_name(span.last));
}

// FNV-1a (Fowler, Noll, Vo), then the finisher of splitmix64 (Steele, Lea,
// Flood 2014).
uint64_t tools_hash(uint64_t seed, const char *text, size_t length)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    h += (seed + 1) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

bool tools_mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

void tools_print_statuses(const uint64_t *counts, int num)
{
    const char *before = " (";

    for (int i = 1; i < num; i++) {
        if (!counts[i])
            continue;
        printf("%s%" PRIu64 " %s", before, counts[i],
               hr_status_text((enum hr_status) - i));
        before = ", ";
    }
    if (before[0] == ',')
        putchar(')');
}

void *tools_new(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory)
        tools_warn("out of memory");
    return memory;
}
