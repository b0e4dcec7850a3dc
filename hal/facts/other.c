// SPDX-License-Identifier: Apache-2.0
// Pictures that a decoder of the program makes, hr_set_decoder().
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/picture.h"
#include "hal/facts/parts.h"

static _Atomic(const struct hr_decoder *) decoder;

void hr_set_decoder(const struct hr_decoder *to)
{
    atomic_store(&decoder, to);
}

static enum hr_status ask(const struct hr_decoder *d, struct hr__header *h)
{
    char text[sizeof(h->err->text)] = "";
    struct hr_info *info = h->info, found = {.orientation = 1};
    enum hr_status status = d->probe(d->ctx, h->data, h->size, &found, text);

    // Data that it does not decode keep the library's name for them.
    if (status == HR_EFORMAT)
        return status;
    if (status)
        return hr__header_fail(h, status, 0, "%s", text);
    if (found.width < 1 || found.height < 1 || found.orientation < 1 ||
        found.orientation > 8)
        return hr__header_fail(h, HR_ECORRUPT, 0, "a size of %d x %d",
                               found.width, found.height);
    *info = (struct hr_info){.format = HR_FORMAT_OTHER,
                             .width = found.width,
                             .height = found.height,
                             .orientation = found.orientation,
                             .components = 3,
                             .precision = 8,
                             .color = HR_COLOR_RGB,
                             .ends = true,
                             .header_size = h->size};
    return hr__header_check_size(h, 0);
}

// Says whether no engine decodes it. (This build may lack what decodes WebP.)
static bool is_foreign(enum hr_status status, const struct hr_info *info)
{
#if HR_HAVE_WEBP
    (void)info;
    return status == HR_EFORMAT;
#else
    return status == HR_EFORMAT || (!status && info->format == HR_FORMAT_WEBP);
#endif
}

enum hr_status hr__header_any(const uint8_t *data, size_t size, bool whole,
                              const struct hr_limits *limits,
                              struct hr_info *info,
                              struct hr__header_error *err)
{
    enum hr_status status, asked;
    const struct hr_decoder *d = atomic_load(&decoder);
    struct hr__header h = {
        .data = data, .size = size, .whole = whole, .info = info, .err = err};

    status = hr__header_parse(data, size, whole, limits, info, err);
    if (!is_foreign(status, info) || !d || !size)
        return status;
    if (!whole)
        return HR_PENDING;
    hr__limits_default(&h.limits, limits);
    asked = ask(d, &h);
    return asked == HR_EFORMAT ? status : asked;
}

enum hr_status hr__decode_other(const uint8_t *data, size_t size,
                                const struct hr_info *info, int channels,
                                uint8_t *pixels, char text[128])
{
    const struct hr_decoder *d = atomic_load(&decoder);

    if (d)
        return d->decode(d->ctx, data, size, info, channels, pixels, text);
    snprintf(text, 128, "its decoder has gone");
    return HR_EFORMAT;
}
