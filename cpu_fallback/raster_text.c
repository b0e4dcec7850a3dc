// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "raster_text.h"

enum { BLOCK = 1 << 20, END = -1 };

static const char too_long[] = "a number of more than ten characters";

void cpu_text_open(struct cpu_text *t, const uint8_t *data, size_t size,
                   const struct hr__raster *r)
{
    *t = (struct cpu_text){.data = data,
                           .size = size,
                           .begin = r->at,
                           .at = r->at,
                           .digits = r->pixel == HR__RASTER_BIT,
                           .gray = r->pixel == HR__RASTER_GRAY,
                           .most = r->most};
}

static size_t since_begin(const struct cpu_text *t)
{
    return t->at - t->begin;
}

static bool at_block(const struct cpu_text *t)
{
    return since_begin(t) % BLOCK == 0;
}

// To behind the end of the line. Where a block begins with one, and has an end
// of the other kind, too, Pillow takes that.
static void skip_comment(struct cpu_text *t)
{
    size_t left;
    const uint8_t *other;

    while (t->at < t->size && t->data[t->at] != '\n' && t->data[t->at] != '\r')
        t->at++;
    left = t->size - t->at;
    if (left && at_block(t)) {
        other = memchr(t->data + t->at, t->data[t->at] ^ '\n' ^ '\r',
                       left < BLOCK ? left : BLOCK);
        t->at = other ? (size_t)(other - t->data) : t->at;
    }
    t->at += left > 0;
}

// The next byte that is in no comment.
static int next_byte(struct cpu_text *t)
{
    while (t->at < t->size && t->data[t->at] == '#')
        skip_comment(t);
    return t->at < t->size ? t->data[t->at++] : END;
}

// The next token is in t->token, if it is there. The white space behind it is
// read, but for digits, which need none.
static bool next_token(struct cpu_text *t)
{
    int c;

    for (t->length = 0; t->length <= HR__RASTER_TOKEN;) {
        c = next_byte(t);
        if (c == END || (hr__raster_space((unsigned)c) && t->length))
            return t->length > 0;
        if (hr__raster_space((unsigned)c))
            continue;
        t->token[t->length++] = (uint8_t)c;
        if (t->digits)
            break;
    }
    return true;
}

static const char *next_sample(struct cpu_text *t, uint8_t *to)
{
    int64_t v;

    if (!next_token(t))
        return "before the last pixel";
    if (t->length > HR__RASTER_TOKEN)
        return too_long;
    if (!hr__raster_number(t->token, t->length, &v))
        return "a sample that is no number";
    if (v < 0 || v > t->most)
        return v < 0 ? "a sample below zero"
                     : "a sample above the largest that the header names";
    *to = t->digits ? (uint8_t)v
                    : cpu_text_scale(v, t->most,
                                     t->gray && t->most > 255 ? 65535 : 255);
    return NULL;
}

const char *cpu_text_read(struct cpu_text *t, uint8_t *to, size_t n)
{
    const char *wrong = NULL;

    for (size_t i = 0; i < n && !wrong; i++)
        wrong = next_sample(t, to + i);
    return wrong;
}

// Digits must all be good there. A number matters only where the block
// cuts it off, and only if it is too long.
const char *cpu_text_finish(struct cpu_text *t)
{
    size_t length = 0, left = at_block(t) ? 0 : BLOCK - since_begin(t) % BLOCK;
    int c;

    if (left < t->size - t->at)
        t->size = t->at + left;
    while ((c = next_byte(t)) != END) {
        bool space = hr__raster_space((unsigned)c);

        if (t->digits && !space && c != '0' && c != '1')
            return "no digit of a bitmap behind the last pixel";
        length = space ? 0 : length + 1;
    }
    return !t->digits && length > HR__RASTER_TOKEN ? too_long : NULL;
}
