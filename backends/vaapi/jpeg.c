// SPDX-License-Identifier: Apache-2.0
// A file's tables and its scan, as a driver wants them (libva
// va/va_dec_jpeg.h). The HAL accepts more than a driver can be told; this file
// refuses the rest, with its reason, before anything is submitted. All tables
// are sent each time: some drivers forget them.
#include <string.h>

#include "backends/vaapi/vaapi.h"
#include "hal/engine/jpeg.h"

enum { RST0 = 0xD0, EOI = 0xD9, DC_VALUES = 12, AC_VALUES = 162 };

// ---- Tables ----------------------------------------------------------------

// Writes the quantizers, in the zigzag order of the file.
static unsigned put_quant(const struct hr__jpeg *j, struct va_jpeg *out)
{
    for (int i = 0; i < 4; i++) {
        if (j->quant[i].at && j->quant[i].bytes != 1)
            return HR_WHY_TABLES;  // drivers have 8 bits
        if (j->quant[i].at)
            memcpy(out->quant.quantiser_table[i], j->quant[i].at, 64);
    }
    memset(out->quant.load_quantiser_table, 1, 4);
    return 0;
}

// A length has no more codes than are left, and no code is all ones (T.81,
// C.2). With other tables drivers may do anything.
static bool codes_fit(const uint8_t counts[16])
{
    unsigned code = 0;

    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        code += counts[length - 1];
        if (code >= 1u << length && counts[length - 1])
            return false;
    }
    return true;
}

static bool largest_is(const uint8_t *values, unsigned n, uint8_t most)
{
    for (unsigned i = 0; i < n; i++)
        if (values[i] > most)
            return false;
    return true;
}

static unsigned put_codes(const uint8_t *from, bool ac, uint8_t *counts,
                          uint8_t *values)
{
    unsigned count = 0, longest = 0, most = ac ? AC_VALUES : DC_VALUES;

    for (unsigned i = 1; i <= 16; i++) {
        count += from[i - 1];
        longest = from[i - 1] ? i : longest;
    }
    if (!codes_fit(from))
        return HR_WHY_DAMAGED;
    // Differences of 8-bit samples have 11 bits at most; iHD keeps 12 lengths
    // of DC codes only.
    if (count > most ||
        (!ac && (longest > DC_VALUES || !largest_is(from + 16, count, 11))))
        return HR_WHY_TABLES;
    memcpy(counts, from, 16);
    memcpy(values, from + 16, count);
    return 0;
}

static unsigned put_huffman(const struct hr__jpeg *j, struct va_jpeg *out)
{
    unsigned why = 0;

    for (int t = 0; t < 2; t++) {
        out->huffman.load_huffman_table[t] = 1;
        why |= put_codes(j->huffman[0][t], false,
                         out->huffman.huffman_table[t].num_dc_codes,
                         out->huffman.huffman_table[t].dc_values);
        why |= put_codes(j->huffman[1][t], true,
                         out->huffman.huffman_table[t].num_ac_codes,
                         out->huffman.huffman_table[t].ac_values);
    }
    return why;
}

// ---- Frame and scan --------------------------------------------------------

// The numbers of frame and scan need only agree. FFmpeg counts from 0
// (libavcodec/mjpegdec.c), and every driver has been used with its numbers.
static uint8_t id_of(uint8_t id)
{
    return (uint8_t)(id - 1);
}

static unsigned put_components(const struct hr__jpeg *j, struct va_jpeg *out)
{
    bool one = j->num_components == 1;

    for (int i = 0; i < j->num_components; i++) {
        const struct hr__jpeg_component *c = &j->comp[i];

        // (The scan names them by their numbers.)
        for (int k = 0; k < i; k++)
            if (j->comp[k].id == c->id)
                return HR_WHY_TABLES;
        if (c->dc > 1 || c->ac > 1)
            return HR_WHY_TABLES;
        // A scan of one component has one block per unit, whatever its factors
        // say, but Mesa 22.3 looks at them.
        out->picture.components[i].component_id = id_of(c->id);
        out->picture.components[i].h_sampling_factor = one ? 1 : c->h;
        out->picture.components[i].v_sampling_factor = one ? 1 : c->v;
        out->picture.components[i].quantiser_table_selector = c->quant;
        out->slice.components[i].component_selector = id_of(c->id);
        out->slice.components[i].dc_table_selector = c->dc;
        out->slice.components[i].ac_table_selector = c->ac;
    }
    return 0;
}

static unsigned put_frame(const struct hr__jpeg *j, struct va_jpeg *out)
{
    bool one = j->num_components == 1;
    unsigned mcu_w = one ? 8 : 8 * (unsigned)j->h_max;
    unsigned mcu_h = one ? 8 : 8 * (unsigned)j->v_max;

    out->picture.picture_height = (uint16_t)j->height;
    out->picture.picture_width = (uint16_t)j->width;
    out->picture.num_components = (uint8_t)j->num_components;
    out->slice.num_components = (uint8_t)j->num_components;
    out->slice.restart_interval = (uint16_t)j->restart;
    out->slice.num_mcus = (((unsigned)j->width + mcu_w - 1) / mcu_w) *
                          (((unsigned)j->height + mcu_h - 1) / mcu_h);
    return put_components(j, out);
}

// Entropy data up to the end marker. No marker may stand in it but restarts,
// all of them and in their order.
static unsigned put_scan(const uint8_t *data, size_t size, size_t at,
                         struct va_jpeg *out)
{
    const uint8_t *p = data + at, *end = data + size;
    unsigned restarts = 0, every = out->slice.restart_interval;
    unsigned most = every ? (out->slice.num_mcus - 1) / every : 0;

    out->scan_at = at;
    while ((p = memchr(p, 0xFF, (size_t)(end - p)))) {
        if (end - p < 2)
            return HR_WHY_DAMAGED;
        if (!p[1]) {
            p += 2;
        } else if (p[1] == 0xFF) {
            p++;  // a fill byte
        } else if (p[1] == EOI) {
            out->scan_size = (size_t)(p - data) + 2 - at;
            return restarts == most ? 0 : HR_WHY_DAMAGED;
        } else if (p[1] == RST0 + restarts % 8 && restarts < most) {
            restarts++;
            p += 2;
        } else {
            return HR_WHY_DAMAGED;
        }
    }
    return HR_WHY_DAMAGED;
}

unsigned va_jpeg_read(const uint8_t *data, size_t size,
                      const struct hr_info *info, struct va_jpeg *out)
{
    struct hr__jpeg j;
    unsigned why = hr__jpeg_read_plain(data, size, info, &j);

    memset(out, 0, sizeof(*out));
    if (why || (why = put_quant(&j, out)) || (why = put_huffman(&j, out)) ||
        (why = put_frame(&j, out)) ||
        (why = put_scan(data, size, j.header_size, out)))
        return why;
    out->slice.slice_data_size = (uint32_t)out->scan_size;
    out->slice.slice_data_flag = VA_SLICE_DATA_FLAG_ALL;
    return out->scan_size > UINT32_MAX ? HR_WHY_SIZE : 0;
}
