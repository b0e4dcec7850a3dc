// SPDX-License-Identifier: Apache-2.0
// The version, the last error of a thread, the log.
#include <stdio.h>
#include <string.h>

#include "hal/base/base.h"

#define STR(x) #x
#define XSTR(x) STR(x)
const char *hr_version(void)
{
    return XSTR(HR_VERSION_MAJOR) "." XSTR(HR_VERSION_MINOR) "." XSTR(
        HR_VERSION_PATCH);
}
#undef XSTR
#undef STR

// ---- Last error ----------------------------------------------------------

static _Thread_local enum hr_status last_status;
static _Thread_local char last_text[256];

enum hr_status hr_last_status(void)
{
    return last_status;
}

const char *hr_last_error(void)
{
    return last_text;
}

enum hr_status hr__fail(enum hr_status status, const char *fmt, ...)
{
    // Into a buffer first: an argument may be hr_last_error() itself.
    char text[sizeof(last_text)];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memcpy(last_text, text, sizeof(text));
    last_status = status;
    return status;
}

// ---- Log -------------------------------------------------------------------

static struct {
    hr_log_fn fn;
    void *ctx;
    enum hr_log_level least;
} default_log;

void hr_set_log(hr_log_fn fn, void *ctx, enum hr_log_level least)
{
    default_log.fn = fn;
    default_log.ctx = ctx;
    default_log.least = least;
}

void hr__log(struct hr__device *dev, enum hr_log_level level, const char *fmt,
             ...)
{
    const struct hr_device_params *p =
        dev ? &((const struct hr__device_head *)dev)->pub.params : NULL;
    hr_log_fn fn = p ? p->log : NULL;
    char text[512];
    va_list args;

    if (!fn && (!default_log.fn || level < default_log.least))
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (fn)
        fn(p->log_ctx, level, text);
    else
        default_log.fn(default_log.ctx, level, text);
}
