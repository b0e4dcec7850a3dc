// SPDX-License-Identifier: Apache-2.0
// The VA-API engine's description of a file to the driver: no byte behind the
// file is read, whatever is in it, and files that VA-API cannot describe are
// refused.
#include "backends/vaapi/vaapi.h"
#include "testing.h"

// ---- Tables for the driver ------------------------------------------------

// In memory of just its size, where sanitizers see one byte too many.
static unsigned read_tables(const uint8_t *data, size_t size,
                            const struct hr_info *info)
{
    auto_heap uint8_t *copy = malloc(size ? size : 1);
    struct va_jpeg jpeg;
    unsigned why;

    if (!copy)
        abort();
    memcpy(copy, data, size);
    why = va_jpeg_read(copy, size, info, &jpeg);
    CHECK(why || (jpeg.scan_at < size && jpeg.scan_size <= size - jpeg.scan_at),
          "%zu bytes at %zu of %zu", jpeg.scan_size, jpeg.scan_at, size);
    return why;
}

TEST_CASE(tables)
{
    static const struct jpeg_spec specs[] = {
        {.space = JCS_YCbCr, .factors = {0x22}, .restart = 3, .optimize = true},
        {.space = JCS_GRAYSCALE},
        {.space = JCS_YCbCr, .factors = {0x41}},
    };
    uint64_t seed = test_seed;

    for (int k = 0; k < 3; k++) {
        struct jpeg_spec spec = specs[k];
        struct hr_info info, other;
        auto_bytes b = {0};
        int loops = test_loops(20000), taken = 0;

        spec.w = 61;
        spec.h = 45;
        spec.quality = 70;
        b = test_jpeg_of(&spec, &seed);
        CHECK(!hr_probe(b.data, b.size, NULL, &info), "%s", hr_last_error());
        CHECK(!read_tables(b.data, b.size, &info), "a good file");
        for (size_t n = 0; n < b.size; n++)
            CHECK(read_tables(b.data, n, &info), "cut to %zu", n);
        for (int i = 0; i < loops; i++) {
            size_t at = next_random(&seed) % b.size;
            uint8_t was = b.data[at];

            b.data[at] = (uint8_t)next_random(&seed);
            taken += !read_tables(b.data, b.size, &info);
            if (!hr_probe(b.data, b.size, NULL, &other) &&
                (other.components == 1 || other.components == 3))
                read_tables(b.data, b.size, &other);
            b.data[at] = was;
        }
        CHECK(taken < loops, "every damage was taken");
    }
}

// The table of DC 0, at p: one code of 13 bits instead of 9, and worse.
static void odd_codes(const struct bytes *b, uint8_t *p,
                      const struct hr_info *info)
{
    p[5 + 8] = 0;
    p[5 + 12] = 1;
    CHECK(read_tables(b->data, b->size, info) == HR_WHY_TABLES,
          "DC codes of 13 bits");
    p[5 + 8] = 1;
    p[5 + 12] = 0;
    // One of 9 bits, of ones only; and a difference of 12 bits.
    p[5 + 8] = 2;
    p[5 + 7] = 0;
    CHECK(read_tables(b->data, b->size, info) == 0, "two of 9 bits");
    // (As many values as before: nothing but the lengths is wrong.)
    p[5]++;
    p[5 + 7] = 0;
    p[5 + 8] = 1;
    CHECK(read_tables(b->data, b->size, info) == HR_WHY_DAMAGED,
          "more codes than there are");
    p[5]--;
    p[5 + 7] = 1;
    p[5 + 16] += 12;
    CHECK(read_tables(b->data, b->size, info) == HR_WHY_TABLES,
          "a difference of 12 bits");
    p[5 + 16] -= 12;
}

// The segment of that marker, where its length stands; there is one.
static uint8_t *segment(const struct bytes *b, uint8_t marker)
{
    size_t at = 2;

    while (at + 4 < b->size && b->data[at + 1] != marker)
        at += 2 + (size_t)(b->data[at + 2] << 8 | b->data[at + 3]);
    if (at + 4 >= b->size)
        abort();
    return b->data + at + 2;
}

// Features that the VA-API has no fields for, in files that the CPU decodes.
TEST_CASE(odd_tables)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(
        jpeg_ycc(.w = 100, .h = 90, .factors = {0x22}, .quality = 90), &seed);
    uint8_t *sos = segment(&b, 0xDA);
    struct hr_info info;

    hr_probe(b.data, b.size, NULL, &info);
    for (size_t i = 0; i + 4 < info.header_size; i++) {
        uint8_t *p = b.data + i;

        if (p[0] == 0xFF && p[1] == 0xC4 && p[4] == 0x00 && p[5 + 8] == 1)
            odd_codes(&b, p, &info);
        // Two components of one number, which libjpeg takes in their order.
        if (p[0] == 0xFF && p[1] == 0xC0) {
            p[13]--;
            sos[5]--;
            CHECK(read_tables(b.data, b.size, &info) == HR_WHY_TABLES,
                  "a number twice");
            p[13]++;
            sos[5]++;
        }
        // A quantiser that no table has.
        if (p[0] == 0xFF && p[1] == 0xDB && p[4] == 0x01) {
            p[4] = 0x02;
            CHECK(read_tables(b.data, b.size, &info) == HR_WHY_DAMAGED,
                  "a table is missing");
            p[4] = 0x01;
        }
    }
    CHECK(!read_tables(b.data, b.size, &info), "as it was");
}

// Each component by the tables that the scan names, and all of the scan. The
// file's encoder takes the tables of one number for both, so others are
// written over them.
TEST_CASE(scan)
{
    static const uint8_t selectors[] = {0x01, 0x10, 0x11};
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(
        jpeg_ycc(.w = 61, .h = 45, .factors = {0x22}, .quality = 70), &seed);
    uint8_t *sos = segment(&b, 0xDA);
    size_t at = (size_t)(sos - b.data) + (size_t)(sos[0] << 8 | sos[1]);
    struct va_jpeg jpeg;
    struct hr_info info;

    CHECK(!hr_probe(b.data, b.size, NULL, &info), "%s", hr_last_error());
    for (int i = 0; i < 3; i++)
        sos[4 + 2 * i] = selectors[i];
    CHECK(!va_jpeg_read(b.data, b.size, &info, &jpeg), "refused");
    for (int i = 0; i < 3; i++)
        CHECK(jpeg.slice.components[i].dc_table_selector == selectors[i] >> 4 &&
                  jpeg.slice.components[i].ac_table_selector ==
                      (selectors[i] & 15),
              "component %d: DC %d, AC %d", i,
              jpeg.slice.components[i].dc_table_selector,
              jpeg.slice.components[i].ac_table_selector);
    // Up to the end marker, which is the file's end.
    CHECK(jpeg.scan_at == at && jpeg.scan_size == b.size - at &&
              jpeg.slice.slice_data_size == jpeg.scan_size,
          "%zu bytes at %zu, not %zu at %zu", jpeg.scan_size, jpeg.scan_at,
          b.size - at, at);
    CHECK(jpeg.slice.num_mcus == 4 * 3, "%u units", jpeg.slice.num_mcus);
}

// Restart markers are numbered in turn; two that have changed places, one too
// many and one too few are damage.
TEST_CASE(restarts)
{
    uint64_t seed = test_seed;
    auto_bytes b = test_jpeg_of(jpeg_ycc(.w = 96, .h = 16, .factors = {0x11},
                                         .restart = 4, .quality = 70),
                                &seed);
    uint8_t *markers[8], *dri = segment(&b, 0xDD);
    struct hr_info info;
    int n = 0;

    CHECK(!hr_probe(b.data, b.size, NULL, &info), "%s", hr_last_error());
    for (size_t i = info.header_size; i + 1 < b.size && n < 8; i++)
        if (b.data[i] == 0xFF && b.data[i + 1] >= 0xD0 && b.data[i + 1] < 0xD8)
            markers[n++] = b.data + i + 1;
    CHECK(n == 5, "%d markers", n);  // 24 units
    CHECK(!read_tables(b.data, b.size, &info), "a good file");
    markers[1][0] ^= 3;  // 1 and 2
    markers[2][0] ^= 3;
    CHECK(read_tables(b.data, b.size, &info) == HR_WHY_DAMAGED, "swapped");
    markers[1][0] ^= 3;
    CHECK(read_tables(b.data, b.size, &info) == HR_WHY_DAMAGED, "repeated");
    markers[2][0] ^= 3;
    for (int by = -1; by <= 1; by++) {
        dri[3] = (uint8_t)(4 + by);
        CHECK(!read_tables(b.data, b.size, &info) == !by, "every %d", 4 + by);
    }
}
