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

static void check_row(const struct row *row)
{
    auto_heap uint8_t *exact = malloc(row->n ? row->n : 1);
    struct hr_info info;
    enum hr_status status;

    memcpy(exact, row->bytes, row->n);
    status = hr_probe(exact, row->n, NULL, &info);
    CHECK(status == row->status, "%s: %s", row->text, hr_status_name(status));
    CHECK(!status || strstr(hr_last_error(), row->text), "%s: %s", row->text,
          hr_last_error());
    if (status)
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
