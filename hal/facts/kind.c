// SPDX-License-Identifier: Apache-2.0
// Kinds of JPEG, by how their components are sampled; what engines take.
#include "hal/engine/jpeg.h"
#include "hal/engine/task.h"
#include "hal/facts/parts.h"

int hr__jpeg_kind(const struct hr_info *info)
{
    static const uint8_t factors[HR_NUM_KINDS] = {0,    0x22, 0x21,
                                                  0x12, 0x11, 0x41};

    if (info->format != HR_FORMAT_JPEG && info->format != HR_FORMAT_PACKED)
        return -1;
    if (info->components == 1)
        return HR_KIND_GRAY;
    if (info->components != 3 || info->h[1] != 1 || info->v[1] != 1 ||
        info->h[2] != 1 || info->v[2] != 1)
        return -1;
    for (int k = 1; k < HR_NUM_KINDS; k++)
        if (factors[k] == (info->h[0] << 4 | info->v[0]))
            return k;
    return -1;
}

unsigned hr__why_not_baseline(const struct hr_info *info)
{
    unsigned why = 0;

    if (info->format != HR_FORMAT_JPEG)
        return HR_WHY_FORMAT;
    if (info->process == HR_PROCESS_PROGRESSIVE)
        why |= HR_WHY_PROGRESSIVE;
    if (info->process == HR_PROCESS_LOSSLESS)
        why |= HR_WHY_LOSSLESS;
    if (info->arithmetic)
        why |= HR_WHY_ARITHMETIC;
    if (info->precision != 8)
        why |= HR_WHY_PRECISION;
    if (!info->interleaved && info->process != HR_PROCESS_PROGRESSIVE)
        why |= HR_WHY_MULTISCAN;
    return why;
}

unsigned hr__jpeg_read_plain(const uint8_t *data, size_t size,
                             const struct hr_info *info, struct hr__jpeg *out)
{
    if (!hr__jpeg_read(data, size, out) || out->width != info->width ||
        out->height != info->height || out->num_components != info->components)
        return HR_WHY_DAMAGED;
    for (int i = 0; i < out->num_components; i++)
        if (out->comp[i].h != info->h[i] || out->comp[i].v != info->v[i])
            return HR_WHY_DAMAGED;
    return out->why;
}

bool hr__sampling_is_whole(const struct hr_info *info)
{
    int h = 1, v = 1;

    for (int i = 0; i < info->components; i++) {
        h = info->h[i] > h ? info->h[i] : h;
        v = info->v[i] > v ? info->v[i] : v;
    }
    for (int i = 0; i < info->components; i++)
        if (!info->h[i] || !info->v[i] || h % info->h[i] || v % info->v[i])
            return false;
    return true;
}

// ---- Memory ----------------------------------------------------------------

// Per column of a picture that streams by rows of MCUs: its coefficients and
// two rows of its samples, then rows of pixels.
static size_t column_bytes(const struct hr_info *info)
{
    size_t blocks = 0, hmax = 1;

    for (int i = 0; i < info->components; i++) {
        blocks += (size_t)info->h[i] * info->v[i];
        hmax = info->h[i] > hmax ? info->h[i] : hmax;
    }
    return 32 * blocks / hmax + 64;
}

// Returns the bytes that a sequential picture needs for rows that helping
// threads decode ahead: a fixed number, or four rows of MCUs
// (cpu_fallback/jpeg/decode_sequential.c). For smaller pictures
// hr__rows_bytes() has room.
static size_t helped_bytes(const struct hr_info *info)
{
    size_t rows = (size_t)info->width * (column_bytes(info) - 64) * 3;

    if ((size_t)info->width * (size_t)info->height < HR__HELPED_PIXELS)
        return 0;
    return rows > 8 << 20            ? 0
           : rows > HR__HELPED_BYTES ? rows
                                     : HR__HELPED_BYTES;
}

// Baseline pictures stream by rows; the others need all coefficients (2 bytes
// each, every component padded to whole MCUs).
size_t hr__jpeg_bytes(const struct hr_info *info)
{
    size_t w = (size_t)info->width, h = (size_t)info->height;
    size_t rows = hr__rows_bytes(info), hmax = 1, vmax = 1, samples = 0;

    if (info->process != HR_PROCESS_PROGRESSIVE && info->interleaved) {
        size_t own = w * column_bytes(info) + (256 << 10);

        return (own > rows ? own : rows) + helped_bytes(info);
    }
    for (int i = 0; i < info->components; i++) {
        hmax = info->h[i] > hmax ? info->h[i] : hmax;
        vmax = info->v[i] > vmax ? info->v[i] : vmax;
    }
    for (int i = 0; i < info->components; i++)
        samples += (w + 8 * hmax) * info->h[i] / hmax *
                   ((h + 8 * vmax) * info->v[i] / vmax);
    return rows + 2 * samples;
}
