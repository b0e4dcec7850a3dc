// SPDX-License-Identifier: Apache-2.0
// A loader's settings as JSON: one flat object of whole numbers.
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <headrace/loader.h>

#include "hal/engine/base.h"

static const struct name {
    const char *text;
    size_t at, size;
    uint64_t most;
} names[] = {
#define INT(name)                                                      \
    {                                                                  \
#name, offsetof(struct hr_loader_settings, name), sizeof(int), \
            INT32_MAX                                                  \
    }
    INT(threads),
    INT(reads),
    INT(depth),
#undef INT
    {"bytes", offsetof(struct hr_loader_settings, bytes), sizeof(size_t),
     SIZE_MAX},
};
enum { NAMES = sizeof(names) / sizeof(*names) };

size_t hr_loader_settings_text(const struct hr_loader_settings *s, char *text,
                               size_t room)
{
    int n = snprintf(text, room,
                     "{\"threads\": %d, \"reads\": %d, \"depth\": %d, "
                     "\"bytes\": %zu}",
                     s->threads, s->reads, s->depth, s->bytes);

    return n > 0 ? (size_t)n : 0;
}

// ---- Reading ---------------------------------------------------------------

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

// Whether c comes next; then *at is behind it, and what is empty behind that.
static bool take(const char **at, char c)
{
    *at = skip_space(*at);
    if (**at != c)
        return false;
    *at = skip_space(*at + 1);
    return true;
}

// "NAME"; its number, or -1: it is none of them.
static int take_name(const char **at)
{
    for (int i = 0; i < NAMES; i++) {
        size_t length = strlen(names[i].text);

        if (**at == '"' && !strncmp(*at + 1, names[i].text, length) &&
            (*at)[1 + length] == '"') {
            *at += length + 2;
            return i;
        }
    }
    return -1;
}

// JSON has no leading zeros; signs, fractions and exponents mean nothing here.
static bool take_number(const char **at, uint64_t most, uint64_t *out)
{
    const char *from = *at;

    for (*out = 0; isdigit((unsigned char)**at); ++*at)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(**at - '0'), out) ||
            *out > most)
            return false;
    return *at > from && (*from != '0' || *at == from + 1);
}

static void put(struct hr_loader_settings *s, const struct name *name,
                uint64_t value)
{
    int n = (int)value;
    size_t size = (size_t)value;

    memcpy((char *)s + name->at, name->size == sizeof(int) ? (void *)&n : &size,
           name->size);
}

// NULL, or what is wrong at *at.
static const char *parse(const char **at, struct hr_loader_settings *out)
{
    unsigned seen = 0;
    uint64_t value;
    int name;

    if (!take(at, '{'))
        return "'{' is missing";
    do {
        if ((name = take_name(at)) < 0)
            return "not \"threads\", \"reads\", \"depth\" or \"bytes\"";
        if (seen >> name & 1)
            return "it is here twice";
        seen |= 1u << name;
        if (!take(at, ':'))
            return "':' is missing";
        if (!take_number(at, names[name].most, &value))
            return "no whole number, or too large";
        put(out, &names[name], value);
    } while (take(at, ','));
    if (!take(at, '}'))
        return "'}' is missing";
    if (**at)
        return "there is something behind the object";
    return seen == (1u << NAMES) - 1 ? NULL : "one of the four is missing";
}

enum hr_status hr_loader_settings_parse(const char *text,
                                        struct hr_loader_settings *settings)
{
    struct hr_loader_settings out = {0};
    const char *at = text, *why;

    if (!text || !settings)
        return hr__fail(HR_EINVAL, "no text, or no place for the settings");
    if ((why = parse(&at, &out)))
        return hr__fail(HR_EINVAL, "settings: byte %zu: %s",
                        (size_t)(at - text), why);
    *settings = out;
    return HR_OK;
}
