// SPDX-License-Identifier: Apache-2.0
// Names data that no parser here reads.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "hal/facts/parts.h"

static const struct magic {
    uint8_t at, len;
    const char *bytes, *name;
} magics[] = {
    {0, 6, "GIF87a", "a GIF picture"},
    {0, 6, "GIF89a", "a GIF picture"},
    {0, 4, "RIFF", "a RIFF file"},
    {0, 3, "P7\n", "a PAM picture"},
    {0, 3, "PF\n", "a PFM picture"},
    {0, 3, "Pf\n", "a PFM picture"},
    {0, 4, "II*\0", "a TIFF picture"},
    {0, 4, "MM\0*", "a TIFF picture"},
    {0, 8, "\0\0\0\fjP  ", "a JPEG 2000 picture"},
    {0, 4, "\xFF\x4F\xFF\x51", "a JPEG 2000 codestream"},
    {0, 8, "\0\0\0\fJXL ", "a JPEG XL picture"},
    {0, 2, "\xFF\x0A", "a JPEG XL codestream"},
    {4, 8, "ftypheic", "a HEIF picture"},
    {4, 8, "ftypmif1", "a HEIF picture"},
    {4, 8, "ftypavif", "an AVIF picture"},
    {0, 4, "8BPS", "a Photoshop document"},
    {0, 4, "%PDF", "a PDF document"},
    {0, 4, "PK\3\4", "a ZIP archive"},
    {0, 2, "\x1F\x8B", "gzip data"},
    {0, 4, "\x89PNG", "a PNG damaged by a text-mode transfer"},
    {0, 6, "\xEF\xBF\xBD\xEF\xBF\xBD", "a file that was converted as text"},
};

// Says whether the text behind white space begins with word, whatever its case.
static bool begins(const uint8_t *p, size_t n, const char *word)
{
    while (n && isspace(*p)) {
        p++;
        n--;
    }
    for (; *word; word++, p++, n--)
        if (!n || tolower(*p) != *word)
            return false;
    return true;
}

static const char *foreign_name(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < sizeof(magics) / sizeof(*magics); i++) {
        const struct magic *m = &magics[i];

        if (n >= (size_t)m->at + m->len && !memcmp(p + m->at, m->bytes, m->len))
            return m->name;
    }
    if (begins(p, n, "<!doctype html") || begins(p, n, "<html"))
        return "an HTML page";
    if (begins(p, n, "<svg") || begins(p, n, "<?xml"))
        return "an SVG or XML text";
    return NULL;
}

enum hr_status hr__header_foreign(struct hr__header *h)
{
    const uint8_t *p = h->data;
    size_t n = h->size < 256 ? h->size : 256;
    const char *name = foreign_name(p, n);

    h->info->format = HR_FORMAT_UNKNOWN;
    if (!n)
        return hr__header_fail(h, HR_EFORMAT, 0, "the file is empty");
    if (name)
        return hr__header_fail(h, HR_EFORMAT, 0, "%s, not decoded here", name);
    if (n < 4)
        return hr__header_fail(h, HR_EFORMAT, 0, "it has %zu byte%s", n,
                               n == 1 ? "" : "s");
    return hr__header_fail(h, HR_EFORMAT, 0,
                           "it begins with %02X %02X %02X %02X", p[0], p[1],
                           p[2], p[3]);
}
