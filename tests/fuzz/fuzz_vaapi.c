// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the VA-API engine's description of a file to a driver: any
// bytes that the header parser accepts. A driver believes what it is told, so
// every field is held to its bounds; a broken one aborts.
#include "backends/vaapi/vaapi.h"
#include "fuzz.h"

static void check_codes(const uint8_t *counts, unsigned most)
{
    unsigned n = 0, code = 0;

    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        n += counts[length - 1];
        code += counts[length - 1];
        promise(code <= 1u << length);
    }
    promise(n <= most);
}

static void check_tables(const struct va_jpeg *j)
{
    for (int t = 0; t < 2; t++) {
        promise(j->huffman.load_huffman_table[t] == 1);
        check_codes(j->huffman.huffman_table[t].num_dc_codes, 12);
        check_codes(j->huffman.huffman_table[t].num_ac_codes, 162);
        for (int i = 0; i < 12; i++)
            promise(j->huffman.huffman_table[t].dc_values[i] <= 11);
    }
}

static void check_scan(const struct va_jpeg *j, const struct hr_info *info,
                       const uint8_t *data, size_t size)
{
    unsigned w = 8, h = 8;

    promise(j->scan_at <= size && j->scan_size <= size - j->scan_at);
    promise(j->scan_size >= 2 && j->slice.slice_data_size == j->scan_size);
    promise(data[j->scan_at + j->scan_size - 1] == 0xD9);
    promise(j->picture.picture_width == info->width &&
            j->picture.picture_height == info->height);
    promise(j->picture.num_components == info->components &&
            j->slice.num_components == info->components);
    for (int i = 0; i < info->components; i++) {
        unsigned fh = j->picture.components[i].h_sampling_factor;
        unsigned fv = j->picture.components[i].v_sampling_factor;

        promise(fh >= 1 && fh <= 4 && fv >= 1 && fv <= 4);
        promise(j->picture.components[i].quantiser_table_selector <= 3);
        promise(j->slice.components[i].dc_table_selector <= 1 &&
                j->slice.components[i].ac_table_selector <= 1);
        w = 8 * fh > w ? 8 * fh : w;
        h = 8 * fv > h ? 8 * fv : h;
    }
    promise(j->slice.num_mcus == (j->picture.picture_width + w - 1) / w *
                                     ((j->picture.picture_height + h - 1) / h));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct va_jpeg jpeg;
    struct hr_info info;

    // (As the engine's offer: it reads on only what may have tables.)
    if (hr_probe(data, size, NULL, &info) || info.format != HR_FORMAT_JPEG ||
        (info.components != 1 && info.components != 3) ||
        va_jpeg_read(data, size, &info, &jpeg))
        return 0;
    check_tables(&jpeg);
    check_scan(&jpeg, &info, data, size);
    return 0;
}
