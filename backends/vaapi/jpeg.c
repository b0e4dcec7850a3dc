// SPDX-License-Identifier: Apache-2.0
// A file's tables and its scan, as a driver wants them (ITU-T T.81, annex B;
// libva va/va_dec_jpeg.h). The HAL accepts more than a driver can be told; this
// file refuses the rest, with its reason, before anything is submitted. All
// tables are sent each time: some drivers forget them.
#include <string.h>

#include "backends/vaapi/vaapi.h"

enum {
    DHT = 0xC4,
    RST0 = 0xD0,
    EOI = 0xD9,
    SOS = 0xDA,
    DQT = 0xDB,
    DRI = 0xDD,
    DC_VALUES = 12,
    AC_VALUES = 162
};

struct reader {
    const uint8_t *data;
    size_t size, pos;
    const struct hr_info *info;
    struct va_jpeg *out;
    bool framed;
    unsigned quant;  // tables that were read, a bit per number
    unsigned mcu_w, mcu_h;
};

// ---- Tables of T.81, annex K.3 ---------------------------------------------
//
// A file may leave them out, as the frames of Motion JPEG do.

static const uint8_t dc_counts[2][16] = {
    {0, 1, 5, 1, 1, 1, 1, 1, 1},
    {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1},
};

static const uint8_t ac_counts[2][16] = {
    {0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d},
    {0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77},
};

// clang-format off
static const uint8_t ac_values[2][AC_VALUES] = {
    {0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06,
     0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08,
     0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72,
     0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
     0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45,
     0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
     0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75,
     0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
     0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
     0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
     0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9,
     0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
     0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4,
     0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa},
    {0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41,
     0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91,
     0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1,
     0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
     0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44,
     0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
     0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74,
     0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
     0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a,
     0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4,
     0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7,
     0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
     0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4,
     0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa},
};
// clang-format on

static void standard_tables(VAHuffmanTableBufferJPEGBaseline *h)
{
    for (int t = 0; t < 2; t++) {
        h->load_huffman_table[t] = 1;
        memcpy(h->huffman_table[t].num_dc_codes, dc_counts[t], 16);
        for (int i = 0; i < DC_VALUES; i++)
            h->huffman_table[t].dc_values[i] = (uint8_t)i;
        memcpy(h->huffman_table[t].num_ac_codes, ac_counts[t], 16);
        memcpy(h->huffman_table[t].ac_values, ac_values[t], AC_VALUES);
    }
}

// ---- Segments --------------------------------------------------------------

static unsigned be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

static unsigned read_dqt(struct reader *r, const uint8_t *p, size_t n)
{
    while (n) {
        unsigned index = p[0] & 15;

        if (p[0] >> 4)
            return HR_WHY_TABLES;  // 16 bits; drivers have 8
        if (n < 65 || index > 3)
            return HR_WHY_DAMAGED;
        // In the zigzag order of the file.
        memcpy(r->out->quant.quantiser_table[index], p + 1, 64);
        r->quant |= 1u << index;
        p += 65;
        n -= 65;
    }
    return 0;
}

// A length has no more codes than are left, and no code is all ones (T.81,
// C.2): nobody knows what a driver does with other tables.
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

static unsigned read_dht(struct reader *r, const uint8_t *p, size_t n)
{
    VAHuffmanTableBufferJPEGBaseline *h = &r->out->huffman;

    while (n) {
        unsigned index = p[0] & 15, ac = p[0] >> 4, count = 0, longest = 0;
        unsigned most = ac ? AC_VALUES : DC_VALUES;
        uint8_t *values;

        if (n < 17 || ac > 1 || index > 3)
            return HR_WHY_DAMAGED;
        for (unsigned i = 1; i <= 16; i++) {
            count += p[i];
            longest = p[i] ? i : longest;
        }
        if (count > n - 17 || !codes_fit(p + 1))
            return HR_WHY_DAMAGED;
        // Differences of 8-bit samples have 11 bits at most.
        if (!ac && !largest_is(p + 17, count, 11))
            return HR_WHY_TABLES;
        // iHD keeps 12 lengths of DC codes only.
        if (index > 1 || count > most || (!ac && longest > DC_VALUES))
            return HR_WHY_TABLES;
        memcpy(ac ? h->huffman_table[index].num_ac_codes
                  : h->huffman_table[index].num_dc_codes,
               p + 1, 16);
        values = ac ? h->huffman_table[index].ac_values
                    : h->huffman_table[index].dc_values;
        memset(values, 0, most);
        memcpy(values, p + 17, count);
        p += 17 + count;
        n -= 17 + count;
    }
    return 0;
}

// The numbers of frame and scan need only agree. FFmpeg counts from 0
// (libavcodec/mjpegdec.c), and every driver has been used with its numbers.
static uint8_t id_of(uint8_t id)
{
    return (uint8_t)(id - 1);
}

static unsigned read_sof(struct reader *r, const uint8_t *p, size_t n)
{
    VAPictureParameterBufferJPEGBaseline *pic = &r->out->picture;
    int num = r->info->components;

    if (r->framed || n != 6 + 3 * (size_t)num || p[5] != num)
        return HR_WHY_DAMAGED;
    if (p[0] != 8)
        return HR_WHY_PRECISION;
    // The HAL has parsed the same picture: both must agree.
    if ((int)be16(p + 1) != r->info->height ||
        (int)be16(p + 3) != r->info->width)
        return HR_WHY_DAMAGED;
    r->framed = true;
    pic->picture_height = (uint16_t)r->info->height;
    pic->picture_width = (uint16_t)r->info->width;
    pic->num_components = (uint8_t)num;
    r->mcu_w = r->mcu_h = 8;
    p += 6;
    for (int i = 0; i < num; i++, p += 3) {
        // A scan of one component has one block per unit, whatever its factors
        // say, but Mesa 22.3 looks at them.
        unsigned h = num == 1 ? 1 : p[1] >> 4, v = num == 1 ? 1 : p[1] & 15;

        if (!h || h > 4 || !v || v > 4 || p[2] > 3)
            return HR_WHY_DAMAGED;
        // (The scan names them by their numbers.)
        for (int k = 0; k < i; k++)
            if (pic->components[k].component_id == id_of(p[0]))
                return HR_WHY_TABLES;
        pic->components[i].component_id = id_of(p[0]);
        pic->components[i].h_sampling_factor = (uint8_t)h;
        pic->components[i].v_sampling_factor = (uint8_t)v;
        pic->components[i].quantiser_table_selector = p[2];
        r->mcu_w = 8 * h > r->mcu_w ? 8 * h : r->mcu_w;
        r->mcu_h = 8 * v > r->mcu_h ? 8 * v : r->mcu_h;
    }
    return 0;
}

static unsigned read_sos(struct reader *r, const uint8_t *p, size_t n)
{
    VASliceParameterBufferJPEGBaseline *s = &r->out->slice;
    const VAPictureParameterBufferJPEGBaseline *pic = &r->out->picture;
    unsigned num = pic->num_components;

    if (!r->framed || n != 4 + 2 * (size_t)num || p[0] != num)
        return r->framed && n && p[0] != num ? HR_WHY_MULTISCAN
                                             : HR_WHY_DAMAGED;
    for (unsigned i = 0; i < num; i++) {
        const uint8_t *c = p + 1 + 2 * (size_t)i;

        // Every driver was tried with the frame's order only.
        if (id_of(c[0]) != pic->components[i].component_id)
            return HR_WHY_MULTISCAN;
        if (c[1] >> 4 > 1 || (c[1] & 15) > 1)
            return HR_WHY_TABLES;
        s->components[i].component_selector = id_of(c[0]);
        s->components[i].dc_table_selector = c[1] >> 4;
        s->components[i].ac_table_selector = c[1] & 15;
        if (!(r->quant >> pic->components[i].quantiser_table_selector & 1))
            return HR_WHY_TABLES;
    }
    p += 1 + 2 * (size_t)num;
    // Other values are a warning to libjpeg; nobody knows what a driver does.
    if (p[0] != 0 || p[1] != 63 || p[2] != 0)
        return HR_WHY_DAMAGED;
    s->num_components = (uint8_t)num;
    s->num_mcus = ((pic->picture_width + r->mcu_w - 1) / r->mcu_w) *
                  ((pic->picture_height + r->mcu_h - 1) / r->mcu_h);
    return 0;
}

// ---- The scan --------------------------------------------------------------

// Entropy data up to the end marker. No marker may stand in it but restarts,
// all of them and in their order.
static unsigned read_scan(struct reader *r)
{
    const uint8_t *p = r->data + r->pos, *end = r->data + r->size;
    unsigned restarts = 0, every = r->out->slice.restart_interval;
    unsigned most = every ? (r->out->slice.num_mcus - 1) / every : 0;

    r->out->scan_at = r->pos;
    while ((p = memchr(p, 0xFF, (size_t)(end - p)))) {
        if (end - p < 2)
            return HR_WHY_DAMAGED;
        if (!p[1]) {
            p += 2;
        } else if (p[1] == 0xFF) {
            p++;  // a fill byte
        } else if (p[1] == EOI) {
            r->out->scan_size = (size_t)(p - r->data) + 2 - r->pos;
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

static unsigned read_segment(struct reader *r, unsigned marker,
                             const uint8_t *p, size_t n)
{
    switch (marker) {
    case DQT:
        return read_dqt(r, p, n);
    case DHT:
        return read_dht(r, p, n);
    case DRI:
        if (n != 2)
            return HR_WHY_DAMAGED;
        r->out->slice.restart_interval = (uint16_t)be16(p);
        return 0;
    case SOS:
        return read_sos(r, p, n);
    case 0xC0:
    case 0xC1:
        return read_sof(r, p, n);
    default:
        return 0;
    }
}

unsigned va_jpeg_read(const uint8_t *data, size_t size,
                      const struct hr_info *info, struct va_jpeg *out)
{
    struct reader r = {
        .data = data, .size = size, .pos = 2, .info = info, .out = out};
    unsigned marker = 0, why;

    memset(out, 0, sizeof(*out));
    standard_tables(&out->huffman);
    memset(out->quant.load_quantiser_table, 1, 4);
    while (marker != SOS) {
        size_t n;

        // The strict reading of T.81: markers follow each other.
        if (size < r.pos + 4 || data[r.pos] != 0xFF)
            return HR_WHY_DAMAGED;
        marker = data[r.pos + 1];
        if (marker == 0xFF) {
            r.pos++;
            continue;
        }
        n = be16(data + r.pos + 2);
        if (marker < 0xC0 || (marker >= RST0 && marker <= EOI) || n < 2 ||
            n > size - r.pos - 2)
            return HR_WHY_DAMAGED;
        why = read_segment(&r, marker, data + r.pos + 4, n - 2);
        if (why)
            return why;
        r.pos += 2 + n;
    }
    if ((why = read_scan(&r)))
        return why;
    out->slice.slice_data_size = (uint32_t)out->scan_size;
    out->slice.slice_data_flag = VA_SLICE_DATA_FLAG_ALL;
    return out->scan_size > UINT32_MAX ? HR_WHY_SIZE : 0;
}
