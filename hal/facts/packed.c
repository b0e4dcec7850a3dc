// SPDX-License-Identifier: Apache-2.0
// Reads the head of a packed picture. Its fields are checked as far as facts,
// limits and estimates depend on them; the decoder checks all of the picture
// (cpu_fallback/packed/packed.h).
#include "hal/facts/parts.h"

// Byte offsets into struct cpu_packed_head; little endian.
enum {
    VERSION_AT = 4,
    SIZE_AT = 16,
    WIDTH_AT = 24,
    HEIGHT_AT = 28,
    COMPONENTS_AT = 32,
    COLOR_AT = 36,
    ORIENTATION_AT = 60,
    FACTORS_AT = 68,       // h and v of the first component,
    COMPONENT_SIZE = 140,  // and to those of the next
    HEAD_SIZE = FACTORS_AT + 3 * COMPONENT_SIZE,
    VERSION = 1,
};

static uint32_t le32(const struct hr__header *h, size_t at)
{
    return hr__le32(h->data + at);
}

static bool take_factors(struct hr__header *h)
{
    struct hr_info *info = h->info;

    for (int i = 0; i < info->components; i++) {
        size_t at = FACTORS_AT + (size_t)i * COMPONENT_SIZE;
        uint32_t x = le32(h, at), y = le32(h, at + 4);

        if (x < 1 || x > 4 || y < 1 || y > 4)
            return false;
        info->h[i] = (uint8_t)x;
        info->v[i] = (uint8_t)y;
    }
    return true;
}

// Takes the picture's components and colours, once its size is known.
static enum hr_status take_form(struct hr__header *h)
{
    uint32_t components = le32(h, COMPONENTS_AT), color = le32(h, COLOR_AT);
    uint32_t orientation = le32(h, ORIENTATION_AT);
    struct hr_info *info = h->info;

    if (components == 1 ? color != HR_COLOR_GRAY
                        : components != 3 ||
                              (color != HR_COLOR_YCC && color != HR_COLOR_RGB))
        return hr__header_fail(h, HR_ECORRUPT, COMPONENTS_AT,
                               "%u components of colour space %u", components,
                               color);
    info->components = (int)components;
    info->color = (enum hr_color)color;
    if (orientation < 1 || orientation > 8 || !take_factors(h))
        return hr__header_fail(h, HR_ECORRUPT, ORIENTATION_AT,
                               "orientation or sampling factors");
    info->orientation = (int)orientation;
    info->precision = 8;
    info->interleaved = true;
    info->scans = 1;
    info->all_scans = HR_SCANS_ALL;
    info->header_size = HEAD_SIZE;
    return HR_OK;
}

enum hr_status hr__header_packed(struct hr__header *h)
{
    struct hr_info *info = h->info;
    uint64_t size;
    enum hr_status status;

    if (h->size < HEAD_SIZE)
        return hr__header_short(h, "the head of a packed picture");
    if (le32(h, VERSION_AT) != VERSION)
        return hr__header_fail(h, HR_EUNSUPPORTED, VERSION_AT,
                               "a packed picture of version %u, this library "
                               "reads version %d",
                               le32(h, VERSION_AT), VERSION);
    info->width = (int)(le32(h, WIDTH_AT) & INT32_MAX);
    info->height = (int)(le32(h, HEIGHT_AT) & INT32_MAX);
    if (!info->width || !info->height)
        return hr__header_fail(h, HR_ECORRUPT, WIDTH_AT, "size %dx%d",
                               info->width, info->height);
    status = hr__header_check_size(h, WIDTH_AT);
    if (status != HR_OK)
        return status;
    if ((status = take_form(h)))
        return status;
    size = le32(h, SIZE_AT) | (uint64_t)le32(h, SIZE_AT + 4) << 32;
    info->ends = size == h->file;
    if (!h->whole)
        return HR_OK;
    if (size > h->size)
        return hr__header_fail(h, HR_ETRUNCATED, h->size,
                               "a packed picture of %llu bytes",
                               (unsigned long long)size);
    return info->ends ? HR_OK
                      : hr__header_fail(h, HR_ECORRUPT, SIZE_AT,
                                        "a packed picture of %llu bytes in %zu",
                                        (unsigned long long)size, h->size);
}
