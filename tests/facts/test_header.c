// SPDX-License-Identifier: Apache-2.0
// The JPEG header parser on bytes made here: facts, tolerance, limits.

#include "hal/facts/parts.h"
#include "header_parse.h"
#include "testing.h"

// ---- Facts ----------------------------------------------------------------

TEST_CASE(facts_of_a_baseline_picture)
{
    struct growing b = {0};

    baseline(&b, 500, 375, 40);
    CU_ASSERT(parse_all(&b) == HR_OK);
    CU_ASSERT(header_info.format == HR_FORMAT_JPEG);
    CU_ASSERT(header_info.width == 500 && header_info.height == 375);
    CU_ASSERT(header_info.components == 3 && header_info.precision == 8);
    CU_ASSERT(header_info.process == HR_PROCESS_BASELINE &&
              !header_info.arithmetic);
    CU_ASSERT(header_info.color == HR_COLOR_YCC && header_info.interleaved);
    CU_ASSERT(header_info.h[0] == 2 && header_info.v[0] == 2 &&
              header_info.h[1] == 1);
    CU_ASSERT(header_info.scans == 1 && header_info.ends &&
              header_info.orientation == 1);
    CU_ASSERT(header_info.restart_interval == 0);
    CU_ASSERT(header_info.header_size == b.n - 42);
    drop(&b);
}

static enum hr_color color_of(bool with_jfif, int transform, int n,
                              const char *ids)
{
    struct growing b = {0};

    soi(&b);
    if (with_jfif)
        jfif(&b);
    if (transform >= 0)
        adobe(&b, (uint8_t)transform);
    frame(&b, 0xC0, n, (const uint8_t *)ids);
    CU_ASSERT(parse_all(&b) == HR_OK);
    drop(&b);
    return header_info.color;
}

TEST_CASE(color_follows_libjpeg)
{
    CU_ASSERT(color_of(false, -1, 1, "\1") == HR_COLOR_GRAY);
    CU_ASSERT(color_of(false, 1, 1, "\1") == HR_COLOR_GRAY);
    CU_ASSERT(color_of(false, -1, 3, "\1\2\3") == HR_COLOR_YCC);
    CU_ASSERT(color_of(false, -1, 3, "\0\1\2") == HR_COLOR_YCC);
    CU_ASSERT(color_of(false, -1, 3, "RGB") == HR_COLOR_RGB);
    CU_ASSERT(color_of(false, -1, 3, "rgb") == HR_COLOR_YCC);
    CU_ASSERT(color_of(true, -1, 3, "RGB") == HR_COLOR_YCC);
    CU_ASSERT(color_of(true, 0, 3, "\1\2\3") == HR_COLOR_YCC);
    CU_ASSERT(color_of(false, 0, 3, "\1\2\3") == HR_COLOR_RGB);
    CU_ASSERT(color_of(false, 1, 3, "RGB") == HR_COLOR_YCC);
    CU_ASSERT(color_of(false, 7, 3, "RGB") == HR_COLOR_YCC);
    CU_ASSERT(color_of(false, -1, 4, "\1\2\3\4") == HR_COLOR_CMYK);
    CU_ASSERT(color_of(false, 0, 4, "\1\2\3\4") == HR_COLOR_CMYK);
    CU_ASSERT(color_of(true, 2, 4, "\1\2\3\4") == HR_COLOR_YCCK);
    CU_ASSERT(color_of(false, 1, 4, "\1\2\3\4") == HR_COLOR_YCCK);
}

TEST_CASE(processes)
{
    static const struct {
        uint8_t marker;
        enum hr_process process;
        bool arithmetic;
        enum hr_status status;
    } cases[] = {
        {0xC0, HR_PROCESS_BASELINE, false, HR_OK},
        {0xC1, HR_PROCESS_EXTENDED, false, HR_OK},
        {0xC2, HR_PROCESS_PROGRESSIVE, false, HR_OK},
        {0xC9, HR_PROCESS_EXTENDED, true, HR_OK},
        {0xCA, HR_PROCESS_PROGRESSIVE, true, HR_OK},
        {0xC3, HR_PROCESS_LOSSLESS, false, HR_EUNSUPPORTED},
        {0xC5, HR_PROCESS_EXTENDED, false, HR_EUNSUPPORTED},
        {0xC6, HR_PROCESS_PROGRESSIVE, false, HR_EUNSUPPORTED},
        {0xC7, HR_PROCESS_LOSSLESS, false, HR_EUNSUPPORTED},
        {0xCB, HR_PROCESS_LOSSLESS, true, HR_EUNSUPPORTED},
        {0xCF, HR_PROCESS_LOSSLESS, true, HR_EUNSUPPORTED},
        {0xF7, HR_PROCESS_LOSSLESS, false, HR_EUNSUPPORTED},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct growing b = {0};

        soi(&b);
        frame(&b, cases[i].marker, 3, ids123);
        expect(&b, "process", cases[i].status, NULL);
        CU_ASSERT(header_info.process == cases[i].process);
        CU_ASSERT(header_info.arithmetic == cases[i].arithmetic);
        CU_ASSERT(header_info.width == 33 && header_info.height == 17);
    }
}

TEST_CASE(exif_in_a_jpeg)
{
    for (int value = 0; value <= 9; value++) {
        struct growing b = {0}, t = {0};

        add(&t, "Exif\0", 6);
        tiff(&t, value & 1, 3, 1, (uint32_t)value);
        // Its entry may be the last that there is: no next directory.
        CU_ASSERT(hr__exif_orientation(t.p + 6, t.n - 6 - 4) ==
                  (value >= 1 && value <= 8 ? value : 1));
        soi(&b);
        segment(&b, 0xE1, "http://ns.adobe.com/xap/1.0/", 29);
        segment(&b, 0xE1, t.p, t.n);
        t.p[6 + 18 + (value & 1)] = 5;  // a second block is not read
        segment(&b, 0xE1, t.p, t.n);
        frame(&b, 0xC0, 1, ids123);
        CU_ASSERT(parse_all(&b) == HR_OK);
        CU_ASSERT(header_info.orientation ==
                  (value >= 1 && value <= 8 ? value : 1));
        drop(&b);
        drop(&t);
    }
}

// ---- What libjpeg skips or mends ------------------------------------------

TEST_CASE(tolerance)
{
    struct growing b = {0};

    soi(&b);
    add_bytes(&b, 0xFF, 0xFF, 0xFF, 0xE5, 0, 2);        // fill bytes
    add_bytes(&b, 1, 2, 3, 0xFF, 0, 4);                 // junk
    add_bytes(&b, 0xFF, 0x01, 0xFF, 0xD3);              // TEM, RST3
    add_bytes(&b, 0xFF, 0xE0, 0, 0, 0xFF, 0xEE, 0, 1);  // short APPn
    add_bytes(&b, 0xFF, 0xFE, 0, 1, 0xFF, 0xDC, 0, 0);  // short COM, DNL
    segment(&b, 0xDD, "\1\2", 2);
    segment(&b, 0xCC, "\0\x10\x12\5", 4);
    dqt(&b, 0);  // no DHT at all
    sof(&b, 0xC0, 9, 9, 3, ids123, f420);
    sos(&b, 3, ids123, 7, 200, 0x3F);  // not sequential
    eoi(&b);
    expect(&b, "tolerated", HR_OK, NULL);
    CU_ASSERT(header_info.restart_interval == 0x102 && header_info.ends);
}

TEST_CASE(largest_factors)
{
    static const uint8_t factors[4] = {0x14, 0x11, 0x11};
    struct growing b = {0};

    soi(&b);
    tables(&b);
    sof(&b, 0xC0, 40, 40, 3, ids123, factors);
    sos(&b, 3, ids123, 0, 63, 0);
    noise(&b, 20);
    eoi(&b);
    expect(&b, "a factor of 4", HR_OK, NULL);
    CU_ASSERT(header_info.v[0] == 4);
}

TEST_CASE(ends)
{
    static const uint8_t trailer[] = {0xFF, 0xD8, 0xFF, 0xE0, 0, 9, 1, 2};
    static const uint8_t tails[2][2] = {{0xFF, 0xD9}, {0xFF, 0xD8}};
    struct growing b = {0};

    CU_ASSERT(hr__header_ends(HR_FORMAT_JPEG, tails[0], 2));
    CU_ASSERT(!hr__header_ends(HR_FORMAT_JPEG, tails[1], 2));
    baseline(&b, 64, 64, 300);
    add(&b, trailer, sizeof(trailer));
    expect(&b, "trailing bytes", HR_OK, NULL);
    CU_ASSERT(header_info.ends);

    baseline(&b, 64, 64, 300);
    b.n -= 1;  // half an EOI
    expect(&b, "half an EOI", HR_OK, NULL);
    CU_ASSERT(!header_info.ends);

    baseline(&b, 64, 64, 300);
    b.n -= 2;
    segment(&b, 0xE3, "\xFF\xD9", 2);  // not a marker
    add_bytes(&b, 0);
    expect(&b, "EOI in a segment", HR_OK, NULL);
    CU_ASSERT(!header_info.ends);

    progressive(&b, 64, 64, 4);
    b.n -= 2;
    add_bytes(&b, 0xFF, 0xE3, 0x40, 0, 0, 0xFF, 0xD9);  // swallows the end
    expect(&b, "EOI swallowed", HR_OK, NULL);
    CU_ASSERT(!header_info.ends && header_info.scans == 4);
}

// ---- Limits ---------------------------------------------------------------

static void expect_limit(const struct growing *b, struct hr_limits limits,
                         const char *text)
{
    enum hr_status status = parse(b->p, b->n, true, &limits);
    bool same = text ? status == HR_ELIMIT && strstr(header_err.text, text)
                     : status == HR_OK;

    if (!same)
        printf("\n  wanted \"%s\", got %s \"%s\"", text ? text : "",
               hr_status_name(status), header_err.text);
    CU_ASSERT(same);
}
#define limit(b, text, ...) \
    expect_limit(b, (struct hr_limits){__VA_ARGS__}, text)

TEST_CASE(limits_at_their_edge)
{
    struct growing b = {0};
    size_t header;

    baseline(&b, 100, 50, 10);
    CU_ASSERT(parse_all(&b) == HR_OK);
    header = header_info.header_size;
    limit(&b, NULL, .pixels = 5000);
    limit(&b, "5000 pixels is over the limit of 4999", .pixels = 4999);
    limit(&b, NULL, .side = 100);
    limit(&b, "100 x 50 is over the limit of 99", .side = 99);
    limit(&b, NULL, .file_bytes = b.n);
    limit(&b, "encoded bytes", .file_bytes = b.n - 1);
    limit(&b, NULL, .marker_bytes = header);
    limit(&b, "bytes before the picture", .marker_bytes = header - 1);
    limit(&b, "bytes before the picture", .marker_bytes = 5);
    limit(&b, NULL, .segments = 6);
    limit(&b, "limit of 5 segments", .segments = 5);
    // 7 x 4 units of 6 blocks
    limit(&b, NULL, .block_visits = 168);
    limit(&b, "168 block visits in 1 scans", .block_visits = 167);
    drop(&b);

    progressive(&b, 100, 50, 9);  // the first component: 13 x 7 blocks
    limit(&b, NULL, .scans = 9);
    CU_ASSERT(header_info.scans == 9);
    limit(&b, "over the limit of 8 scans", .scans = 8);
    limit(&b, NULL, .block_visits = 168 + 8 * 91);
    limit(&b, "block visits in 9 scans", .block_visits = 168 + 8 * 91 - 1);
    drop(&b);

    baseline(&b, 65501, 8, 10);
    CU_ASSERT(parse(b.p, b.n, true, &(struct hr_limits){.side = 65535}) ==
              HR_EUNSUPPORTED);
    CU_ASSERT(parse_all(&b) == HR_ELIMIT);
    drop(&b);
}

static double milliseconds(void)
{
    return (double)test_clock(CLOCK_PROCESS_CPUTIME_ID) / TEST_MS;
}

static void expect_bomb(struct growing *b, const char *what, const char *text)
{
    double start = milliseconds(), ms;
    enum hr_status status = hr__header_parse(b->p, b->n, true, NULL,
                                             &header_info, &header_err);

    ms = milliseconds() - start;
    CU_ASSERT(status == HR_ELIMIT && strstr(header_err.text, text));
    // Processor time; 16 MB byte by byte under TSan is the slowest of them.
    CU_ASSERT(ms < 3000);
    printf("\n  %s: %zu bytes refused in %.3f ms", what, b->n, ms);
    drop(b);
}

TEST_CASE(bombs)
{
    struct growing b = {0};
    static const uint8_t fill[] = {0xFF, 0xFF}, stuffed[] = {0xFF, 0};
    static uint8_t large[65533];

    progressive(&b, 8000, 8000, 1000);
    expect_bomb(&b, "scan bomb", "block visits");
    progressive(&b, 64, 64, 20000);
    expect_bomb(&b, "small scans", "100 scans");
    baseline(&b, 16000, 16000, 9);
    expect_bomb(&b, "pixel bomb", "pixels");
    soi(&b);
    for (int i = 0; i < 100000; i++)
        segment(&b, 0xFE, NULL, 0);
    expect_bomb(&b, "COM flood", "4096 segments");
    soi(&b);
    for (int i = 0; i < 300; i++)
        segment(&b, 0xE2, large, sizeof(large));
    expect_bomb(&b, "APP2 flood", "16777216");
    for (int kind = 0; kind < 3; kind++) {
        soi(&b);
        add_bytes(&b, 0xFF);
        for (int i = 0; i < 10000000; i++)
            add(&b, kind == 0 ? fill : kind == 1 ? stuffed : large, 2);
        expect_bomb(&b,
                    kind == 0   ? "fill bytes"
                    : kind == 1 ? "stuffed bytes"
                                : "zero bytes",
                    "16777216");
    }
}
