// SPDX-License-Identifier: Apache-2.0
#include "header_parse.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

struct hr_info header_info;
struct hr__header_error header_err;

enum hr_status parse(const uint8_t *p, size_t n, bool whole,
                     const struct hr_limits *limits)
{
    uint8_t *exact = malloc(n ? n : 1);
    enum hr_status status;

    memcpy(exact, p, n);
    memset(&header_err, 0, sizeof(header_err));
    status = hr__header_parse(exact, n, whole, limits, &header_info,
                              &header_err);
    free(exact);
    return status;
}

enum hr_status parse_all(const struct growing *b)
{
    return parse(b->p, b->n, true, NULL);
}

void expect(struct growing *b, const char *what, enum hr_status wanted,
            const char *text)
{
    enum hr_status status = parse_all(b);
    bool same = status == wanted &&
                (status == HR_OK || !text || strstr(header_err.text, text));

    if (!same)
        printf("\n  %s: %s \"%s\"", what, hr_status_name(status),
               header_err.text);
    CU_ASSERT(same);
    if (status != HR_OK)
        CU_ASSERT(header_err.text[0] && header_err.offset <= (int64_t)b->n);
    drop(b);
}

void frame(struct growing *b, unsigned marker, int n, const uint8_t *ids)
{
    tables(b);
    sof(b, marker, 33, 17, n, ids, (const uint8_t[]){0x11, 0x11, 0x11, 0x11});
    sos(b, n, ids, 0, marker == 0xC2 || marker == 0xCA ? 0 : 63, 0);
    noise(b, 9);
    eoi(b);
}
