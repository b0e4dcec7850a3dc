// SPDX-License-Identifier: Apache-2.0
// The engines that made the pictures: a comparison says something of an engine
// only if that engine made the compared picture.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/tools.h"
#include "validate.h"

// Reasons that lie in the device, not in the picture.
#define REFUSALS                                                      \
    (HR_WHY_FAILED | HR_WHY_TIMEOUT | HR_WHY_LOST | HR_WHY_MISMATCH | \
     HR_WHY_BREAKER | HR_WHY_CERTIFICATE)

static bool is_cpu(const struct validate *v)
{
    return !strcmp(v->dev[VALIDATE_DEVICE]->backend, "cpu");
}

static struct validate_engine *find(struct validate *v, const char *name)
{
    for (int i = 0; i < v->num_engines; i++)
        if (!strcmp(v->engines[i].name, name))
            return &v->engines[i];
    return NULL;
}

void validate_engines_begin(struct validate *v)
{
    struct hr_profile profile;

    hr_device_profile(v->dev[VALIDATE_DEVICE], &profile);
    for (int i = 0; i < profile.num_engines; i++) {
        const char *name = profile.engines[i].name;

        // The CPU stands behind every device; it is asked about only alone.
        if ((is_cpu(v) || strcmp(name, "cpu") != 0) && !find(v, name))
            v->engines[v->num_engines++].name = name;
    }
}

static void count_engines(struct validate *v, const struct hr_result *r)
{
    const struct validate_engine *last = NULL;

    for (int i = 0; i < r->num_spans; i++) {
        const struct hr_span *span = &r->spans[i].span;
        struct validate_engine *e = find(v, r->spans[i].device);

        if (!e)
            continue;
        e->spans[__builtin_ctz(HR_SPAN_BIT(span->first, span->last))]++;
        e->pictures += e != last;
        last = e;
    }
}

static void count_made(struct validate *v, const struct hr_result *r)
{
    char text[160];
    int i = 0;

    validate_made_text(r, text, sizeof(text));
    while (i < v->num_made && strcmp(v->made[i].text, text))
        i++;
    if (i == VALIDATE_MADE)
        i--;
    else if (i == VALIDATE_MADE - 1)
        strcpy(text, "other ways");
    if (i == v->num_made)
        strcpy(v->made[v->num_made++].text, text);
    v->made[i].pictures++;
}

void validate_engines_count(struct validate *v, const struct hr_result *r)
{
    for (int bit = 0; bit < 32; bit++)
        v->fallbacks[bit] += r->why >> bit & 1;
    if (r->status)
        return;
    count_made(v, r);
    count_engines(v, r);
    v->compared++;
    v->handed += r->why != 0;
    v->unrefused += validate_by_device(v, r) && !(r->why & REFUSALS);
    for (int bit = 0; bit < 32; bit++)
        v->handed_why[bit] += r->why >> bit & 1;
}

// A device may be several engines in a row; what it leaves goes to the CPU.
bool validate_by_device(const struct validate *v, const struct hr_result *r)
{
    for (int i = 0; i < r->num_spans; i++)
        if (is_cpu(v) || strcmp(r->spans[i].device, "cpu") != 0)
            return true;
    return false;
}

// The first engine that had no part in any picture, although there was work for
// it; NULL: there is none. Where nothing was handed on, an engine that did
// nothing had nothing to do.
static const struct validate_engine *idle_engine(const struct validate *v)
{
    const struct validate_engine *idle = NULL;
    bool any = false;

    for (int i = 0; v->compared && i < v->num_engines; i++) {
        any |= v->engines[i].pictures > 0;
        if (!idle && !v->engines[i].pictures)
            idle = &v->engines[i];
    }
    return v->handed || !any ? idle : NULL;
}

bool validate_is_silent(const struct validate *v)
{
    return v->compared && (idle_engine(v) || !v->unrefused);
}

// ---- Text ------------------------------------------------------------------

void validate_made_text(const struct hr_result *r, char *out, size_t size)
{
    size_t used = 0;

    snprintf(out, size, "nothing");
    for (int i = 0; i < r->num_spans && used < size; i++) {
        char span[64];

        tools_span_text(span, sizeof(span), r->spans[i].span);
        used += (size_t)snprintf(out + used, size - used, "%s%s on %s",
                                 i ? ", " : "", span, r->spans[i].device);
    }
}

void validate_say(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

const char *validate_grouped(uint64_t n, char out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, n), used = 0;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

void validate_reasons_text(const struct validate *v, char *out, size_t size)
{
    *out = '\0';
    for (int bit = 0; bit < 32; bit++)
        if (v->handed_why[bit])
            validate_say(out, size, "%s%" PRIu64 " %s", *out ? ", " : "",
                         v->handed_why[bit], hr_why_text(1u << bit));
}

void validate_spans_text(const struct validate *v, char *out, size_t size)
{
    *out = '\0';
    for (int i = 0; i < v->num_engines && !is_cpu(v); i++) {
        const struct validate_engine *e = &v->engines[i];
        const char *before = e->name;

        for (int bit = 0; bit < HR_NUM_SPANS; bit++) {
            char span[64];

            if (!e->spans[bit])
                continue;
            tools_span_text(span, sizeof(span), hr_span_of(bit));
            validate_say(out, size, "%s%s %s of %" PRIu64,
                         before == e->name && *out ? "; " : "", before, span,
                         e->spans[bit]);
            before = ",";
        }
    }
}

void validate_silence_text(const struct validate *v, char *out, size_t size)
{
    const struct validate_engine *idle = idle_engine(v);
    char reasons[768];

    validate_reasons_text(v, reasons, sizeof(reasons));
    *out = '\0';
    if (idle)
        validate_say(out, size, "%s made none of %" PRIu64 " picture%s",
                     idle->name, v->compared, v->compared > 1 ? "s" : "");
    else
        validate_say(out, size,
                     "%s was kept from a part of its work in each of %" PRIu64
                     " picture%s",
                     v->dev[VALIDATE_DEVICE]->name, v->compared,
                     v->compared > 1 ? "s" : "");
    if (*reasons)
        validate_say(out, size, " (%s)", reasons);
}
