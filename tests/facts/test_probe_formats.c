// SPDX-License-Identifier: Apache-2.0
// hr_probe() of formats that other libraries decode: sizes, orientation, the
// parts that it asks for, and files that are refused before a decoder sees
// them.
#include "hal/facts/parts.h"
#include "header_bytes.h"
#include "testing.h"

#define BYTES(text) text, sizeof(text) - 1

struct row {
    const char *bytes;
    size_t n;
    enum hr_status status;
    const char *text;  // of the error
    int w, h, components;
};

// The first bytes of a header ask for more, and are too few for a file.
static void check_parts(const struct row *row, size_t header_size)
{
    for (size_t n = 1; n < header_size; n++) {
        auto_heap uint8_t *exact = malloc(n);
        struct hr_info info;

        memcpy(exact, row->bytes, n);
        CHECK(hr_probe(exact, n, NULL, &info) == HR_ETRUNCATED &&
                  hr__header_parse(exact, n, false, NULL, &info, NULL) ==
                      HR_PENDING,
              "%zu bytes of %s", n, row->text);
    }
}

// Probes a row's bytes and nothing behind them; false: they are refused, as the
// row says.
static bool probe_row(const struct row *row, struct hr_info *info)
{
    auto_heap uint8_t *exact = malloc(row->n ? row->n : 1);
    enum hr_status status;

    memcpy(exact, row->bytes, row->n);
    status = hr_probe(exact, row->n, NULL, info);
    CHECK(status == row->status, "%s: %s", row->text, hr_status_name(status));
    CHECK(!status || strstr(hr_last_error(), row->text), "%s: %s", row->text,
          hr_last_error());
    return !status;
}

static void check_row(const struct row *row)
{
    struct hr_info info;

    if (!probe_row(row, &info))
        return;
    CHECK(info.width == row->w && info.height == row->h &&
              info.components == row->components && info.precision == 8,
          "%s: %dx%dx%d", row->text, info.width, info.height, info.components);
    check_parts(row, info.header_size);
}

// ---- WebP ------------------------------------------------------------------

#define RIFF(size) "RIFF" size "WEBP"
#define LOSSY(w, h) "\x10\x02\0\x9D\x01\x2A" w h
#define VP8(w, h) RIFF("\x16\0\0\0") "VP8 \x0A\0\0\0" LOSSY(w, h)
#define VP8L(bits) RIFF("\x12\0\0\0") "VP8L\x05\0\0\0\x2F" bits "\0"
#define VP8X(flags, w, h) RIFF("\x16\0\0\0") "VP8X\x0A\0\0\0" flags "\0\0\0" w h

TEST_CASE(webp)
{
    static const struct row rows[] = {
        {BYTES(VP8("\x2C\x01", "\xC8\0")), 0, "lossy", 300, 200, 3},
        {BYTES(VP8("\x2C\x41", "\xC8\x80")), 0, "scaled", 300, 200, 3},
        {BYTES(VP8L("\x2B\xC1\x31\x10")), 0, "lossless", 300, 200, 4},
        {BYTES(VP8L("\x2B\xC1\x31\0")), 0, "opaque", 300, 200, 3},
        {BYTES(VP8X("\x10", "\x2B\1\0", "\xC7\0\0")), 0, "large", 300, 200, 4},
        {BYTES(VP8X("\0", "\x2B\1\0", "\xC7\0\0")), 0, "frames", 300, 200, 3},
        {BYTES(VP8("\0\0", "\xC8\0")), HR_ECORRUPT, "size 0 x 200", 0, 0, 0},
        {BYTES(RIFF("\x16\0\0\0") "VP8 \x0A\0\0\0\x11\x02\0\x9D\x01\x2A----"),
         HR_ECORRUPT, "no key frame", 0, 0, 0},
        {BYTES(VP8L("\x2B\xC1\x31\x20")), HR_ECORRUPT, "signature", 0, 0, 0},
        {BYTES(VP8X("\0", "\xFF\x3F\0", "\xFF\x3F\0")), HR_ELIMIT,
         "268435456 pixels", 0, 0, 0},
        {BYTES(VP8X("\0", "\xFF\xFF\xFF", "\0\0\0")), HR_ELIMIT,
         "a side of 16777216 x 1", 0, 0, 0},
        {BYTES(RIFF("\x16\0\0\0") "VP8X\x09\0\0\0-----------"), HR_ECORRUPT,
         "VP8X chunk of 9", 0, 0, 0},
        {BYTES(RIFF("\x16\0\0\0") "VP8Y\x0A\0\0\0----------"), HR_EFORMAT,
         "RIFF", 0, 0, 0},
        {BYTES("RIFF\x16\0\0\0WAVEfmt \x10\0\0\0"), HR_EFORMAT, "RIFF", 0, 0,
         0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_row(&rows[i]);
}

// The EXIF block behind a picture, with a mark in front of it or not, and what
// there may be instead.
TEST_CASE(webp_orientation)
{
    static const char tiff[] = "II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"
                               "\0\0\0\0";
    static const char head[] = VP8X("\x08", "\x2B\1\0", "\xC7\0\0");

    for (int i = 0; i < 8; i++) {
        bool marked = i & 1, odd = i & 2, whole = !(i & 4);
        size_t before = odd ? 7 : 6, exif = sizeof(tiff) + (marked ? 6 : 0);
        struct growing b = {0};
        struct hr_info info;

        add(&b, head, sizeof(head) - 1);
        add(&b, "VP8 ", 4);
        add_bytes(&b, (uint8_t)before, 0, 0, 0);
        add(&b, "8bytes...", before + (odd ? 1 : 0));
        add(&b, "EXIF", 4);
        add_bytes(&b, (uint8_t)exif, 0, 0, 0);
        if (marked)
            add(&b, "Exif\0", 6);
        add(&b, tiff, sizeof(tiff));
        b.p[4] = (uint8_t)(b.n - 8);
        CU_ASSERT(hr__header_parse(b.p, b.n - !whole, true, NULL, &info,
                                   NULL) == HR_OK);
        CHECK(info.orientation == (whole ? 6 : 1) && info.ends == whole,
              "case %d: %d %d", i, info.orientation, info.ends);
        CU_ASSERT(info.header_size == b.n - !whole);
        for (size_t n = 30; n < b.n; n++)
            CU_ASSERT(hr__header_parse(b.p, n, false, NULL, &info, NULL) ==
                      HR_PENDING);
        // A length that leads nowhere.
        memset(b.p + 30 + 4, 0xFF, 4);
        CU_ASSERT(hr__header_parse(b.p, b.n, true, NULL, &info, NULL) == HR_OK);
        CU_ASSERT(info.orientation == 1);
        drop(&b);
    }
}

// ---- BMP and PNM -----------------------------------------------------------

#define BMP(rows, header) "BM\0\0\0\0\0\0\0\0" rows "\0\0\0" header "\0\0\0"
#define INFO(w, h, bits, compression, colors)                        \
    w "\0\0\0" h "\1\0" bits "\0" compression "\0\0\0\0\0\0\0\0\0\0" \
      "\0\0\0\0\0" colors "\0\0\0\0"
#define RGB(w, h) BMP("\x36", "\x28") INFO(w, h, "\x18", "\0", "\0\0\0\0")
#define ZEROS "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

// A part asks for more up to the header's end; the whole may end before it.
static void check_raster(const struct row *row, size_t header_size)
{
    struct hr_info info;

    if (!probe_row(row, &info))
        return;
    CHECK(info.width == row->w && info.height == row->h &&
              info.components == row->components && info.ends &&
              info.orientation == 1 && info.header_size == header_size,
          "%s: %dx%dx%d, %zu", row->text, info.width, info.height,
          info.components, info.header_size);
    CU_ASSERT(!hr_probe(row->bytes, row->n - 1, NULL, &info) && !info.ends);
    for (size_t n = 1; n <= header_size; n++) {
        auto_heap uint8_t *part = malloc(n);

        memcpy(part, row->bytes, n);
        CHECK(hr__header_parse(part, n, false, NULL, &info, NULL) ==
                  (n < header_size ? HR_PENDING : HR_OK),
              "%zu bytes of %s", n, row->text);
    }
}

TEST_CASE(bmp)
{
    static const struct {
        struct row row;
        size_t header_size;
    } rows[] = {
        {{BYTES(RGB("\2", "\1\0\0\0") "123456"), 0, "24", 2, 1, 3}, 54},
        {{BYTES(RGB("\2", "\xFF\xFF\xFF\xFF") "123456"), 0, "down", 2, 1, 3},
         54},
        {{BYTES(BMP("\x42", "\x28")
                    INFO("\2", "\1\0\0\0", "\x10", "\3",
                         "\0\0\0\0") "\0\xF8\0\0\xE0\7\0\0\x1F\0\0\0"
                                     "1234"),
          0, "masks", 2, 1, 3},
         66},
        {{BYTES(BMP("\x3E", "\x28")
                    INFO("\1", "\1\0\0\0", "\x08", "\0", "\2\0\0\0") "1234"
                                                                     "5678"
                                                                     "\1"),
          0, "palette", 1, 1, 1},
         62},
        {{BYTES("BM\0\0\0\0\0\0\0\0\x20\0\0\0\x0C\0\0\0\1\0\1\0\1\0\1\0"
                "123456\x80"),
          0, "old", 1, 1, 1},
         32},
        {{BYTES(RGB("\0", "\1\0\0\0")), HR_ECORRUPT, "size 0 x 1", 0, 0, 0}, 0},
        {{BYTES(RGB("\1", "\0\0\0\x80")), HR_ECORRUPT, "1 x 2147483648", 0, 0,
          0},
         0},
        {{BYTES(RGB("\1", "\1\x40\0\0")), HR_ELIMIT, "side of 1 x 16385", 0, 0,
          0},
         0},
        {{BYTES(BMP("\x36", "\x29") ZEROS ZEROS ZEROS), HR_ECORRUPT,
          "BMP header of 41 bytes", 0, 0, 0},
         0},
        {{BYTES(BMP("\x36", "\x28")
                    INFO("\1", "\1\0\0\0", "\2", "\0", "\0\0\0\0")),
          HR_EUNSUPPORTED, "2 bits a pixel with compression 0", 0, 0, 0},
         0},
        {{BYTES(BMP("\x36", "\x28")
                    INFO("\1", "\1\0\0\0", "\x18", "\4", "\0\0\0\0")),
          HR_EUNSUPPORTED, "compression 4", 0, 0, 0},
         0},
        {{BYTES(BMP("\x36", "\x28") INFO("\1", "\1\0\0\0", "\x20", "\3",
                                         "\0\0\0\0") "\1\0\0\0\2\0\0\0\3\0\0\0"),
          HR_EUNSUPPORTED, "masks 1 2 3 0", 0, 0, 0},
         0},
        {{BYTES(BMP("\x36", "\x28")
                    INFO("\1", "\1\0\0\0", "\x08", "\0", "\1\0\1\0")),
          HR_ECORRUPT, "palette of 65537 colours", 0, 0, 0},
         0},
        {{BYTES("BM"), HR_ETRUNCATED, "the file header", 0, 0, 0}, 0},
        {{BYTES(BMP("\x36", "\x28") "\1"), HR_ETRUNCATED, "the BMP header", 0,
          0, 0},
         0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_raster(&rows[i].row, rows[i].header_size);
}

TEST_CASE(pnm)
{
    static const struct {
        struct row row;
        size_t header_size;
    } rows[] = {
        {{BYTES("P6\n1 2\n255\n123456"), 0, "P6", 1, 2, 3}, 11},
        {{BYTES("P5 #1\r1\n2#3\n0 +2_5_5\t" ZEROS "1234"), 0, "P5", 1, 20, 1},
         21},
        {{BYTES("P5 1 1 256 12"), 0, "wide", 1, 1, 1}, 11},
        {{BYTES("P4 9 1\n\1\2"), 0, "P4", 9, 1, 1}, 7},
        {{BYTES("P6 0 1 255 "), HR_ECORRUPT, "width 0", 0, 0, 0}, 0},
        {{BYTES("P6 1 -1 255 "), HR_ECORRUPT, "height -1", 0, 0, 0}, 0},
        {{BYTES("P6 1 1 65536 "), HR_ECORRUPT, "sample 65536", 0, 0, 0}, 0},
        {{BYTES("P6 1 1_ 255 "), HR_ECORRUPT, "height is no number", 0, 0, 0},
         0},
        {{BYTES("P6 00000000001 1 1 "), HR_ECORRUPT, "width is no number", 0, 0,
          0},
         0},
        {{BYTES("P6 16385 1 255 "), HR_ELIMIT, "a side of 16385", 0, 0, 0}, 0},
        {{BYTES("P6 1 "), HR_ETRUNCATED, "the header", 0, 0, 0}, 0},
        {{BYTES("P"), HR_ETRUNCATED, "the magic number", 0, 0, 0}, 0},
        {{BYTES("P0CMYK 1 1"), HR_EFORMAT, "50 30 43 4D", 0, 0, 0}, 0},
    };
    static const struct hr_limits small = {.marker_bytes = 100};
    char comment[300];
    struct hr_info info;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        check_raster(&rows[i].row, rows[i].header_size);
    memset(comment, '#', sizeof(comment));
    memcpy(comment, "P6 ", 3);
    CU_ASSERT(hr_probe(comment, 300, &small, &info) == HR_ELIMIT);
    CU_ASSERT(hr__header_parse((uint8_t *)comment, 300, false, &small, &info,
                               NULL) == HR_ELIMIT);
    CU_ASSERT(hr__header_parse((uint8_t *)comment, 99, false, &small, &info,
                               NULL) == HR_PENDING);
}

// The palette may be shorter than the header says: the file is all there is.
TEST_CASE(short_palette)
{
    static const char file[] = BMP("\x36", "\x28")
        INFO("\1", "\1\0\0\0", "\x08", "\0", "\0\0\0\0") "123";
    struct hr_info info;

    CU_ASSERT(!hr_probe(file, 57, NULL, &info) && info.header_size == 57);
    CU_ASSERT(hr__header_parse((const uint8_t *)file, 57, false, NULL, &info,
                               NULL) == HR_PENDING);
}
