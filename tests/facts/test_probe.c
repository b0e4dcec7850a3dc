// SPDX-License-Identifier: Apache-2.0
// hr_probe(): PNG, EXIF, foreign formats, arguments.

#include "hal/facts/parts.h"
#include "header_bytes.h"
#include "testing.h"

static struct hr_info info;

// hr_probe() of a heap block of exactly n bytes.
static enum hr_status probe(const uint8_t *p, size_t n,
                            const struct hr_limits *limits)
{
    auto_heap uint8_t *exact = malloc(n ? n : 1);
    enum hr_status status;

    if (n)
        memcpy(exact, p, n);
    status = hr_probe(exact, n, limits, &info);
    return status;
}

static void expect(struct growing *b, const char *what, enum hr_status wanted,
                   const char *text)
{
    enum hr_status status = probe(b->p, b->n, NULL);
    bool same = status == wanted &&
                (status == HR_OK || strstr(hr_last_error(), text));

    if (!same)
        printf("\n  %s: %s \"%s\"", what, hr_status_name(status),
               status == HR_OK ? "" : hr_last_error());
    CU_ASSERT(same);
    drop(b);
}

// ---- PNG ------------------------------------------------------------------

TEST_CASE(png_color_types)
{
    static const uint8_t channels[8] = {1, 0, 3, 3, 2, 0, 4, 0};
    static const char *const depths[8] = {"\1\2\4\10\20", "",       "\10\20",
                                          "\1\2\4\10",    "\10\20", "",
                                          "\10\20",       ""};

    for (int type = 0; type < 8; type++)
        for (int depth = 0; depth <= 32; depth++) {
            struct growing b = {0};
            bool good = depth && strchr(depths[type], depth);

            ihdr(&b, 300, 200, (uint8_t)depth, (uint8_t)type);
            if (type == 3)
                chunk(&b, "PLTE", "abc", 3);
            png_end(&b);
            CU_ASSERT(probe(b.p, b.n, NULL) == (good ? HR_OK : HR_ECORRUPT));
            CU_ASSERT(!good || (info.components == channels[type] &&
                                info.precision == depth && info.ends));
            CU_ASSERT(!good ||
                      info.color == (type & 2 ? HR_COLOR_RGB : HR_COLOR_GRAY));
            CU_ASSERT(!good || (info.width == 300 && info.height == 200));
            CU_ASSERT(info.format == HR_FORMAT_PNG);
            drop(&b);
        }
}

TEST_CASE(png_damage)
{
    struct growing b = {0};

    ihdr(&b, 0, 5, 8, 2);
    expect(&b, "width 0", HR_ECORRUPT, "size 0 x 5");
    ihdr(&b, 5, 0x80000000, 8, 2);
    expect(&b, "height 2^31", HR_ECORRUPT, "size 5 x 2147483648");
    ihdr(&b, 0x7FFFFFFF, 0x7FFFFFFF, 8, 2);
    expect(&b, "2^31-1 x 2^31-1", HR_ELIMIT, "limit of 16384");
    ihdr(&b, 16000, 16000, 8, 2);
    expect(&b, "pixels", HR_ELIMIT, "256000000 pixels");
    ihdr(&b, 5, 5, 8, 2);
    b.p[20] ^= 1;
    expect(&b, "checksum", HR_ECORRUPT, "wrong checksum");
    for (int field = 10; field < 13; field++) {
        ihdr(&b, 5, 5, 8, 2);
        b.p[16 + field] = 2;
        uint32_t crc = crc_of(b.p + 12, 17);
        b.n -= 4;
        add_be(&b, crc, 4);
        expect(&b, "coding", HR_EUNSUPPORTED, "offset 26: IHDR: compression");
    }
    add(&b, "\x89PNG\r\n\x1A\n", 8);
    chunk(&b, "IHDR", "\0\0\0\5\0\0\0\5\10\2\0\0\0", 14);
    expect(&b, "length of IHDR", HR_ECORRUPT, "not an IHDR of 13");
    add(&b, "\x89PNG\r\n\x1A\n", 8);
    chunk(&b, "iHDR", "\0\0\0\5\0\0\0\5\10\2\0\0", 13);
    expect(&b, "type of IHDR", HR_ECORRUPT, "not an IHDR of 13");
    ihdr(&b, 5, 5, 8, 3);
    png_end(&b);
    expect(&b, "palette", HR_ECORRUPT, "no PLTE");
    ihdr(&b, 5, 5, 8, 2);
    chunk(&b, "IEND", NULL, 0);
    expect(&b, "no data", HR_ECORRUPT, "no IDAT");
    ihdr(&b, 5, 5, 8, 2);
    chunk(&b, "te t", NULL, 0);
    expect(&b, "type", HR_ECORRUPT, "offset 37: chunk type 74652074");
    ihdr(&b, 5, 5, 8, 2);
    add_be(&b, 0x80000000, 4);
    add(&b, "tEXt", 4);
    expect(&b, "length", HR_ECORRUPT, "chunk length 2147483648");
    ihdr(&b, 5, 5, 8, 2);
    for (int i = 0; i < 5000; i++)
        chunk(&b, "tEXt", NULL, 0);
    expect(&b, "chunk flood", HR_ELIMIT, "4096 segments");
    ihdr(&b, 5, 5, 8, 2);
    add_be(&b, 17 << 20, 4);
    add(&b, "tEXt", 4);
    expect(&b, "huge chunk", HR_ELIMIT, "over the limit of 16777216");
    add(&b, "\x89PNG\r\n\x1A\n", 8);
    chunk(&b, "IDAT", NULL, 0);
    expect(&b, "no IHDR", HR_ECORRUPT, "not an IHDR");
}

TEST_CASE(png_exif_and_end)
{
    struct growing b = {0}, t = {0};
    size_t header;

    tiff(&t, 1, 3, 1, 6);
    ihdr(&b, 7, 5, 16, 6);
    chunk(&b, "eXIf", t.p, t.n);
    header = b.n + 8;
    png_end(&b);
    CU_ASSERT(probe(b.p, b.n, NULL) == HR_OK);
    CU_ASSERT(info.orientation == 6 && info.ends);
    CU_ASSERT(info.header_size == header);
    for (size_t n = 0; n < b.n; n++) {
        enum hr_status status = probe(b.p, n, NULL);

        CU_ASSERT(status == (n >= header ? HR_OK
                             : n         ? HR_ETRUNCATED
                                         : HR_EFORMAT));
        CU_ASSERT(!info.ends);
    }
    add(&b, "trailing bytes", 14);
    CU_ASSERT(probe(b.p, b.n, NULL) == HR_OK && info.ends);
    for (size_t i = 0; i < 8 * b.n; i++) {
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        enum hr_status status = probe(b.p, b.n, NULL);
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        CU_ASSERT(status == HR_OK ? info.width == 7 && info.height == 5
                                  : hr_last_error()[0] != 0);
    }
    drop(&b);
    drop(&t);
}

// ---- EXIF -----------------------------------------------------------------

static int orientation_of(const struct growing *t)
{
    auto_heap uint8_t *exact = malloc(t->n ? t->n : 1);
    int found;

    if (t->n)
        memcpy(exact, t->p, t->n);
    found = hr__exif_orientation(exact, t->n);
    return found;
}

static int orientation(int big, uint16_t type, uint32_t count, uint32_t value)
{
    struct growing t = {0};

    tiff(&t, big, type, count, value);
    int found = orientation_of(&t);
    drop(&t);
    return found;
}

// The expected values were looked up with Pillow's getexif().
TEST_CASE(exif_values)
{
    for (int big = 0; big < 2; big++) {
        for (uint32_t value = 0; value < 12; value++) {
            int wanted = value >= 1 && value <= 8 ? (int)value : 1;

            CU_ASSERT(orientation(big, 3, 1, value) == wanted);  // SHORT
            CU_ASSERT(orientation(big, 4, 1, value) == wanted);  // LONG
            CU_ASSERT(orientation(big, 9, 1, value) == wanted);  // SLONG
            CU_ASSERT(orientation(big, 2, 1, value) == 1);       // ASCII
            CU_ASSERT(orientation(big, 99, 1, value) == 1);
        }
        CU_ASSERT(orientation(big, 3, 0, 6) == 1);
        CU_ASSERT(orientation(big, 3, 0xFFFFFFFF, 6) == 1);
        CU_ASSERT(orientation(big, 3, 3, 0xFFFFFFF0) == 1);
        CU_ASSERT(orientation(big, 3, 3, 25) == 1);  // one byte too far
        CU_ASSERT(orientation(big, 16, 0xFFFFFFFF, 2) == 1);
        CU_ASSERT(orientation(big, 4, 1, 0x10006) == 1);
    }
    // Three SHORTs at offset 20, where the value's own bytes are: 0, 20.
    CU_ASSERT(orientation(0, 3, 3, 20) == 1);
    // One LONG8 at offset 18: its low half is 18, its high half the next 0.
    CU_ASSERT(orientation(0, 16, 1, 18) == 1);
}

TEST_CASE(exif_directories)
{
    struct growing t = {0};

    tiff(&t, 0, 3, 1, 8);
    t.p[4] = 0;  // a directory on top of the header
    CU_ASSERT(orientation_of(&t) == 1);
    memset(t.p + 4, 0xFF, 4);  // or far away
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[4] = 25, t.p[5] = t.p[6] = t.p[7] = 0;  // or half outside
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[4] = 24;  // or at its end, empty
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[4] = 8;
    CU_ASSERT(orientation_of(&t) == 8);
    t.p[8] = t.p[9] = 0xFF;  // 65535 entries of which one is there
    CU_ASSERT(orientation_of(&t) == 8);
    t.p[8] = t.p[9] = 0;
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[8] = 1;
    t.p[2] = 0, t.p[3] = 42;  // 42 in the other byte order
    CU_ASSERT(orientation_of(&t) == 8);
    t.p[2] = 43, t.p[3] = 0;  // BigTIFF
    CU_ASSERT(orientation_of(&t) == 1);
    drop(&t);

    // The last of several counts; one whose values lie outside ends them.
    tiff(&t, 0, 3, 1, 3);
    add(&t, t.p + 10, 12);
    memmove(t.p + 22, t.p + 10, 12);
    t.p[8] = 2;
    t.p[22 + 8] = 5;
    CU_ASSERT(orientation_of(&t) == 5);
    memset(t.p + 10 + 4, 0xFF, 8);
    CU_ASSERT(orientation_of(&t) == 1);
    drop(&t);

    // The 257th entry is not looked at.
    tiff(&t, 0, 3, 1, 3);
    uint8_t entry[12];
    memcpy(entry, t.p + 10, 12);
    t.n = 10;
    for (int i = 0; i < 300; i++) {
        entry[0] = i == 255 ? 0x12 : 0x13;
        add(&t, entry, 12);
    }
    t.p[8] = 44, t.p[9] = 1;
    CU_ASSERT(orientation_of(&t) == 3);
    t.p[10 + 12 * 255] = 0x13;
    t.p[10 + 12 * 256] = 0x12;
    CU_ASSERT(orientation_of(&t) == 1);
    drop(&t);
}

TEST_CASE(exif_damage)
{
    uint64_t seed = test_seed;
    int moved = 0;

    for (int i = 0; i < 50000; i++) {
        struct growing t = {0};

        tiff(&t, i & 1, (uint16_t)(3 + i % 3),
             1 + (uint32_t)next_random(&seed) % 9, 6);
        t.n = (uint32_t)next_random(&seed) % 4
                  ? t.n
                  : (uint32_t)next_random(&seed) % (t.n + 1);
        for (unsigned k = (uint32_t)next_random(&seed) % 4; k && t.n; k--)
            t.p[(uint32_t)next_random(&seed) % t.n] =
                (uint8_t)(uint32_t)next_random(&seed);
        int found = orientation_of(&t);
        CU_ASSERT(found >= 1 && found <= 8);
        moved += found > 1;
        drop(&t);
    }
    CU_ASSERT(moved > 100);
}

// ---- Other formats --------------------------------------------------------

TEST_CASE(foreign_formats)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } f[] = {
        {"", 0, "empty"},
        {"\xFE\xED\xBE\xEF", 4, "it begins with FE ED BE EF"},
        {"xy", 2, "it has 2 bytes"},
        {"GIF89a....", 10, "GIF"},
        {"RIFF\0\0\0\0WAVEfmt ", 16, "RIFF"},
        {"P7\nWIDTH 3\n", 11, "PAM"},
        {"Pf\n3 4\n", 7, "PFM"},
        {"PK\3\4", 4, "ZIP"},
        {"P5#\n", 4, "begins with 50 35 23 0A"},
        {"II*\0\10\0\0\0", 8, "TIFF"},
        {"MM\0*\0\0\0\10", 8, "TIFF"},
        {"\0\0\0\14jP  \r\n\x87\n", 12, "JPEG 2000"},
        {"\xFF\x4F\xFF\x51", 4, "JPEG 2000"},
        {"\n <!DOCTYPE HTML><title>404", 27, "HTML"},
        {"<HTML>", 6, "HTML"},
        {"\x89PNG\n\x1A\n..", 9, "text-mode"},
        {"\xFF\xD8\x00\xE0", 4, "begins with FF D8 00 E0"},
        {"\0\0\0\x1C"
         "ftypavif",
         12, "AVIF"},
    };

    for (size_t i = 0; i < sizeof(f) / sizeof(*f); i++) {
        struct growing b = {0};

        add(&b, f[i].bytes, f[i].n);
        expect(&b, f[i].text, HR_EFORMAT, f[i].text);
        CU_ASSERT(info.format == HR_FORMAT_UNKNOWN && info.orientation == 1);
    }
}

TEST_CASE(arguments)
{
    CU_ASSERT(hr_probe("x", 1, NULL, NULL) == HR_EINVAL);
    CU_ASSERT(!hr_format_info(HR_FORMAT_UNKNOWN));
    CU_ASSERT(!hr_format_info((enum hr_format)99));
    CU_ASSERT_STRING_EQUAL(hr_format_info(HR_FORMAT_PNG)->name, "png");
    CU_ASSERT(hr_probe(NULL, 1, NULL, &info) == HR_EINVAL);
    CU_ASSERT(hr_probe(NULL, 0, NULL, &info) == HR_EFORMAT);
    CU_ASSERT(hr_probe_path(NULL, NULL, &info) == HR_EINVAL);
    CU_ASSERT(hr_probe_path("x", NULL, NULL) == HR_EINVAL);
    CU_ASSERT(strstr(hr_last_error(), "no info") != NULL);
}
