// SPDX-License-Identifier: Apache-2.0
// Reads the JSON of indexes of chunks, in place and without a tree: an index
// may have 64 MiB. Values are taken in their order, and the others are skipped,
// however deep. Behind a text that is no JSON nothing is found any more.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

static char next_char(struct hr__json *j)
{
    while (j->at < j->end && strchr(" \t\r\n", *j->at) && *j->at)
        j->at++;
    return j->at < j->end ? *j->at : '\0';
}

static bool fail(struct hr__json *j)
{
    j->bad = true;
    j->at = j->end;
    return false;
}

static bool take(struct hr__json *j, char c)
{
    if (next_char(j) != c)
        return fail(j);
    j->at++;
    return true;
}

// A unit of an escape as UTF-8; halves of pairs become "?": no name needs them.
static size_t put_unit(char *to, unsigned unit)
{
    if (unit < 0x80) {
        to[0] = (char)unit;
        return 1;
    }
    if (unit >= 0xd800 && unit < 0xe000) {
        to[0] = '?';
        return 1;
    }
    if (unit < 0x800) {
        to[0] = (char)(0xc0 | unit >> 6);
        to[1] = (char)(0x80 | (unit & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | unit >> 12);
    to[1] = (char)(0x80 | (unit >> 6 & 0x3f));
    to[2] = (char)(0x80 | (unit & 0x3f));
    return 3;
}

// The character behind a backslash, at *at.
static size_t put_escape(struct hr__json *j, char *to)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->end ? *j->at++ : '\0', digits[5] = "";
    const char *name = c ? strchr(names, c) : NULL;
    char *end;
    unsigned unit;

    if (name) {
        *to = means[name - names];
        return 1;
    }
    if (c != 'u' || j->end - j->at < 4)
        return fail(j);
    memcpy(digits, j->at, 4);
    unit = (unsigned)strtoul(digits, &end, 16);
    if (*end || !unit)
        return fail(j);
    j->at += 4;
    return put_unit(to, unit);
}

bool hr__json_text(struct hr__json *j, char *text, size_t size)
{
    size_t used = 0;

    if (text)
        *text = '\0';
    if (!take(j, '"'))
        return false;
    while (j->at < j->end && *j->at != '"') {
        char c = *j->at++, unit[3] = {c};
        size_t n = c == '\\' ? put_escape(j, unit) : 1;

        if (!n || !c || (text && used + n >= size))
            return fail(j);
        if (text) {
            memcpy(text + used, unit, n);
            text[used + n] = '\0';
        }
        used += n;
    }
    return take(j, '"');
}

bool hr__json_number(struct hr__json *j, uint64_t *number)
{
    char digits[24] = "", *end;
    size_t n = 0;

    next_char(j);
    while (j->at < j->end && n < sizeof(digits) - 1 && *j->at >= '0' &&
           *j->at <= '9')
        digits[n++] = *j->at++;
    errno = 0;
    *number = strtoull(digits, &end, 10);
    return (n && !errno) || fail(j);
}

bool hr__json_begin(struct hr__json *j, char open)
{
    return take(j, open);
}

bool hr__json_item(struct hr__json *j, char close)
{
    if (next_char(j) == ',')
        j->at++;
    if (next_char(j) != close)
        return !j->bad && (j->at < j->end || fail(j));
    j->at++;
    return false;
}

bool hr__json_key(struct hr__json *j, char *key, size_t size)
{
    return hr__json_item(j, '}') && hr__json_text(j, key, size) && take(j, ':');
}

bool hr__json_is(struct hr__json *j, char begin)
{
    return next_char(j) == begin;
}

void hr__json_skip(struct hr__json *j)
{
    size_t depth = 0;

    do {
        char c = next_char(j);

        if (c == '"') {
            hr__json_text(j, NULL, 0);
        } else if (c == '{' || c == '[') {
            depth++;
            j->at++;
        } else if (c == '}' || c == ']') {
            if (depth) {
                depth--;
                j->at++;
            } else {
                fail(j);
            }
        } else if (c == ',' || c == ':') {
            if (!depth)
                fail(j);
            else
                j->at++;
        } else if (c) {
            j->at += strcspn(j->at, " \t\r\n,:]}[{\"");
        } else {
            fail(j);
        }
    } while (depth && !j->bad);
}
