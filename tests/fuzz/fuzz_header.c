// SPDX-License-Identifier: Apache-2.0
// Fuzz target of the header parser: any bytes. Beside what the sanitizers see
// it holds the parser to its contract, and the tables that engines get of a
// JPEG to the facts that the HAL got; a broken promise aborts.
#include <string.h>

#include "fuzz.h"
#include "hal/engine/jpeg.h"
#include "hal/facts/facts.h"

static volatile uint8_t last_symbol;  // it can be read

static void check_tables(const struct hr_info *info, const uint8_t *data,
                         size_t size)
{
    struct hr__jpeg jpeg;
    uint16_t quant[64];
    unsigned why = hr__jpeg_read_plain(data, size, info, &jpeg);

    promise(jpeg.width == info->width && jpeg.height == info->height);
    promise(jpeg.color == info->color && jpeg.restart >= 0);
    promise(jpeg.header_size == info->header_size);
    for (int c = 0; c < jpeg.num_components && !why; c++) {
        hr__jpeg_quant(&jpeg.quant[jpeg.comp[c].quant], quant);
        for (int ac = 0; ac < 2; ac++) {
            const uint8_t *codes =
                jpeg.huffman[ac][ac ? jpeg.comp[c].ac : jpeg.comp[c].dc];
            int n = 0;

            for (int i = 0; i < 16; i++)
                n += codes[i];
            promise(n <= 256);
            last_symbol = codes[15 + n];
        }
    }
    promise(why || (info->interleaved && !info->arithmetic));
}

static void check_good(const struct hr_info *info, const uint8_t *data,
                       size_t size)
{
    promise(info->format == HR_FORMAT_JPEG || info->format == HR_FORMAT_PNG ||
            info->format == HR_FORMAT_WEBP || info->format == HR_FORMAT_BMP ||
            info->format == HR_FORMAT_PNM);
    promise(info->width > 0 && info->width <= 16384);
    promise(info->height > 0 && info->height <= 16384);
    promise((int64_t)info->width * info->height <= 100000000);
    promise(info->components >= 1 && info->components <= 4);
    promise(info->orientation >= 1 && info->orientation <= 8);
    promise(info->header_size <= size);
    if (info->format != HR_FORMAT_JPEG)
        return;
    promise(info->scans >= 1 && info->scans <= 100);
    promise(info->precision == 8 && info->components != 2);
    for (int c = 0; c < info->components; c++)
        promise(info->h[c] >= 1 && info->h[c] <= 4 && info->v[c] >= 1 &&
                info->v[c] <= 4);
    check_tables(info, data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hr__header_error err = {0};
    struct hr_info whole, part, again;
    enum hr_status status, status_part;

    status = hr__header_parse(data, size, true, NULL, &whole, &err);
    promise(status != HR_PENDING);
    if (status == HR_OK)
        check_good(&whole, data, size);
    else
        promise(status < 0 && err.text[0] && err.offset <= (int64_t)size &&
                memchr(err.text, 0, sizeof(err.text)));

    status_part = hr__header_parse(data, size, false, NULL, &part, &err);
    promise(status_part != HR_ETRUNCATED);
    // A header that may go on behind the end reaches it.
    if (status == HR_OK && status_part == HR_PENDING) {
        promise(whole.header_size == size);
    } else if (status == HR_OK) {
        promise(status_part == HR_OK);
        promise(part.width == whole.width && part.height == whole.height);
        promise(part.header_size == whole.header_size);
        promise(part.color == whole.color && part.process == whole.process);
        promise(part.orientation == whole.orientation);
        // The header alone is enough, one byte less is not.
        size = whole.header_size;
        promise(hr__header_parse(data, size, false, NULL, &again, &err) ==
                HR_OK);
        promise(hr__header_parse(data, size - 1, false, NULL, &again, &err) ==
                HR_PENDING);
    }
    if (status == HR_ETRUNCATED)
        promise(status_part == HR_PENDING);
    return 0;
}
