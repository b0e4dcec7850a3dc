// SPDX-License-Identifier: Apache-2.0
// The JPEG header parser on bytes made here: facts, tolerance, damage, limits,
// truncation and bit flips. Every input is a heap block of its exact size, so
// that a sanitizer sees each byte read too far.
#include <CUnit/CUnit.h>
#include <CUnit/Basic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "hal/header.h"
#include "header_bytes.h"

static struct hr_info info;
static struct hr__header_error err;
static unsigned long long seed;

static uint32_t next_random(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33);
}

static enum hr_status parse(const uint8_t *p, size_t n, bool whole,
                            const struct hr_limits *limits)
{
    uint8_t *exact = malloc(n ? n : 1);
    enum hr_status status;

    memcpy(exact, p, n);
    memset(&err, 0, sizeof(err));
    status = hr__header_parse(exact, n, whole, limits, &info, &err);
    free(exact);
    return status;
}

static enum hr_status parse_all(const struct bytes *b)
{
    return parse(b->p, b->n, true, NULL);
}

// Parses and drops b; says what came out if it is not what was wanted.
static void expect(struct bytes *b, const char *what, enum hr_status wanted,
                   const char *text)
{
    enum hr_status status = parse_all(b);
    bool same = status == wanted &&
                (status == HR_OK || !text || strstr(err.text, text));

    if (!same)
        printf("\n  %s: %s \"%s\"", what, hr_status_name(status), err.text);
    CU_ASSERT(same);
    if (status != HR_OK)
        CU_ASSERT(err.text[0] && err.offset <= (int64_t)b->n);
    drop(b);
}

// ---- Facts -------------------------------------------------------------------

static void facts_of_a_baseline_picture(void)
{
    struct bytes b = {0};

    baseline(&b, 500, 375, 40);
    CU_ASSERT(parse_all(&b) == HR_OK);
    CU_ASSERT(info.format == HR_FORMAT_JPEG);
    CU_ASSERT(info.width == 500 && info.height == 375);
    CU_ASSERT(info.components == 3 && info.precision == 8);
    CU_ASSERT(info.process == HR_PROCESS_BASELINE && !info.arithmetic);
    CU_ASSERT(info.color == HR_COLOR_YCC && info.interleaved);
    CU_ASSERT(info.h[0] == 2 && info.v[0] == 2 && info.h[1] == 1);
    CU_ASSERT(info.scans == 1 && info.ends && info.orientation == 1);
    CU_ASSERT(info.restart_interval == 0);
    CU_ASSERT(info.header_size == b.n - 42);
    drop(&b);
}

static void frame(struct bytes *b, unsigned marker, int n, const uint8_t *ids)
{
    tables(b);
    sof(b, marker, 33, 17, n, ids, (const uint8_t[]){0x11, 0x11, 0x11, 0x11});
    sos(b, n, ids, 0, marker == 0xC2 || marker == 0xCA ? 0 : 63, 0);
    noise(b, 9);
    eoi(b);
}

static enum hr_color color_of(bool with_jfif, int transform, int n,
                              const char *ids)
{
    struct bytes b = {0};

    soi(&b);
    if (with_jfif)
        jfif(&b);
    if (transform >= 0)
        adobe(&b, (uint8_t)transform);
    frame(&b, 0xC0, n, (const uint8_t *)ids);
    CU_ASSERT(parse_all(&b) == HR_OK);
    drop(&b);
    return info.color;
}

static void color_follows_libjpeg(void)
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

static void processes(void)
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
        struct bytes b = {0};

        soi(&b);
        frame(&b, cases[i].marker, 3, ids123);
        expect(&b, "process", cases[i].status, NULL);
        CU_ASSERT(info.process == cases[i].process);
        CU_ASSERT(info.arithmetic == cases[i].arithmetic);
        CU_ASSERT(info.width == 33 && info.height == 17);
    }
}

static void exif_in_a_jpeg(void)
{
    for (int value = 0; value <= 9; value++) {
        struct bytes b = {0}, t = {0};

        add(&t, "Exif\0", 6);
        tiff(&t, value & 1, 3, 1, (uint32_t)value);
        soi(&b);
        segment(&b, 0xE1, "http://ns.adobe.com/xap/1.0/", 29);
        segment(&b, 0xE1, t.p, t.n);
        t.p[6 + 18 + (value & 1)] = 5;  // a second block is not read
        segment(&b, 0xE1, t.p, t.n);
        frame(&b, 0xC0, 1, ids123);
        CU_ASSERT(parse_all(&b) == HR_OK);
        CU_ASSERT(info.orientation == (value >= 1 && value <= 8 ? value : 1));
        drop(&b);
        drop(&t);
    }
}

// ---- What libjpeg skips or mends -----------------------------------------------

static void tolerance(void)
{
    struct bytes b = {0};

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
    CU_ASSERT(info.restart_interval == 0x102 && info.ends);
}

static void ends(void)
{
    static const uint8_t trailer[] = {0xFF, 0xD8, 0xFF, 0xE0, 0, 9, 1, 2};
    struct bytes b = {0};

    baseline(&b, 64, 64, 300);
    add(&b, trailer, sizeof(trailer));
    expect(&b, "trailing bytes", HR_OK, NULL);
    CU_ASSERT(info.ends);

    baseline(&b, 64, 64, 300);
    b.n -= 1;  // half an EOI
    expect(&b, "half an EOI", HR_OK, NULL);
    CU_ASSERT(!info.ends);

    baseline(&b, 64, 64, 300);
    b.n -= 2;
    segment(&b, 0xE3, "\xFF\xD9", 2);  // not a marker
    add_bytes(&b, 0);
    expect(&b, "EOI in a segment", HR_OK, NULL);
    CU_ASSERT(!info.ends);

    progressive(&b, 64, 64, 4);
    b.n -= 2;
    add_bytes(&b, 0xFF, 0xE3, 0x40, 0, 0, 0xFF, 0xD9);  // swallows the end
    expect(&b, "EOI swallowed", HR_OK, NULL);
    CU_ASSERT(!info.ends && info.scans == 4);
}

// ---- Damage ------------------------------------------------------------------

// One segment with payload p, in an otherwise good picture.
static void bad_segment(uint8_t marker, const char *p, size_t n,
                        enum hr_status wanted, const char *text)
{
    struct bytes b = {0};

    soi(&b);
    segment(&b, marker, p, n);
    frame(&b, 0xC0, 3, ids123);
    expect(&b, text, wanted, text);
}
#define bad(marker, p, wanted, text) \
    bad_segment(marker, p, sizeof(p) - 1, wanted, text)

static void damaged_segments(void)
{
    struct bytes b = {0};

    add_bytes(&b, 0xFF, 0xD8, 0xFF, 0xC4, 0, 1, 0);
    expect(&b, "short DHT", HR_ECORRUPT, "DHT segment length 1 is too short");
    CU_ASSERT(err.offset == 2);
    bad(0xDB, "\4", HR_ECORRUPT, "DQT: table number 4");
    bad(0xDB, "\0\1\2", HR_ECORRUPT, "DQT segment length 5");
    bad(0xC4, "\0\1\2", HR_ECORRUPT, "DHT segment length 5");
    bad(0xC4, "\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", HR_ECORRUPT,
        "DHT: table number 0x04");
    bad(0xC4, "\0\1\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", HR_ECORRUPT,
        "DHT: 3 codes in 1 bytes");
    bad(0xCC, "\0", HR_ECORRUPT, "DAC segment length 3");
    bad(0xCC, "\x20\0", HR_ECORRUPT, "DAC: table number 32");
    bad(0xCC, "\0\2", HR_ECORRUPT, "DAC: value 0x02");
    bad(0xDD, "\0\1\2", HR_ECORRUPT, "DRI segment length 5");
    bad(0xDE, "", HR_EUNSUPPORTED, "hierarchical");
    bad(0xC8, "", HR_EUNSUPPORTED, "reserved marker JPG");
    bad(0xF0, "", HR_EUNSUPPORTED, "reserved marker FF F0");
    bad(0x50, "", HR_ECORRUPT, "FF 50 is not a marker");
    bad(0xDA, "\1\1\0\0\77\0", HR_ECORRUPT, "SOS before any frame");
    bad(0xC0, "\10\0\1\0\1", HR_ECORRUPT, "SOF0 segment length 7");
    bad(0xC0, "\10\0\1\0\1\2\1\21\0", HR_ECORRUPT, "SOF0 segment length 11");
    bad(0xC1, "\10\0\1\0\1\1\1\21\0", HR_ECORRUPT, "second frame header");
    bad(0xC0, "\10\0\0\0\1\1\1\21\0", HR_EUNSUPPORTED, "height 0");
    bad(0xC0, "\10\0\1\0\0\1\1\21\0", HR_ECORRUPT, "1 components of 0 x 1");
    bad(0xC0, "\10\0\1\0\1\0", HR_ECORRUPT, "0 components");
    bad(0xC0, "\10\0\1\0\1\2\1\21\0\2\21\0", HR_EUNSUPPORTED, "2 components");
    bad(0xC1, "\14\0\1\0\1\1\1\21\0", HR_EUNSUPPORTED, "12 bits");
    CU_ASSERT(info.precision == 12);
    bad(0xC0, "\10\0\1\0\1\1\1\20\0", HR_ECORRUPT, "sampling factors 1 x 0");
    bad(0xC0, "\10\0\1\0\1\1\1\121\0", HR_ECORRUPT, "sampling factors 5 x 1");
    bad(0xC0, "\10\0\1\0\1\3\1\61\0\2\41\0\3\21\0", HR_EUNSUPPORTED,
        "factors 2 x 1 of component 1");
}

static void damaged_scans(void)
{
    static const struct {
        uint8_t sof, n, ids[4], ss, se, ahal;
        const char *text;
    } cases[] = {
        {0xC0, 0, {0}, 0, 63, 0, "number of components 0"},
        {0xC0, 1, {9}, 0, 63, 0, "component id 9"},
        {0xC0, 2, {1, 1}, 0, 63, 0, "component id 1"},
        {0xC2, 1, {1}, 0, 5, 0, "progression"},
        {0xC2, 1, {1}, 6, 5, 0, "progression"},
        {0xC2, 1, {1}, 1, 64, 0, "progression"},
        {0xC2, 2, {1, 2}, 1, 5, 0, "progression"},
        {0xC2, 1, {1}, 0, 0, 0x31, "progression"},
        {0xC2, 1, {1}, 0, 0, 0x0E, "progression"},
    };
    struct bytes b = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        soi(&b);
        tables(&b);
        sof(&b, cases[i].sof, 16, 16, 3, ids123, f420);
        sos(&b, cases[i].n, cases[i].ids, cases[i].ss, cases[i].se,
            cases[i].ahal);
        expect(&b, cases[i].text, HR_ECORRUPT, cases[i].text);
    }
    soi(&b);
    tables(&b);
    sof(&b, 0xC0, 16, 16, 3, ids123, (const uint8_t[]){0x44, 0x11, 0x11});
    sos(&b, 3, ids123, 0, 63, 0);
    expect(&b, "large unit", HR_ECORRUPT, "blocks in a unit: 18");
    soi(&b);
    sof(&b, 0xC0, 16, 16, 3, ids123, f420);
    sos(&b, 3, ids123, 0, 63, 0);
    expect(&b, "no DQT", HR_ECORRUPT, "no quantisation table 0");
    soi(&b);
    dqt(&b, 0);
    sof(&b, 0xC2, 16, 16, 3, ids123, f420);
    sos(&b, 3, ids123, 0, 0, 0);
    expect(&b, "no DHT", HR_ECORRUPT, "no DC Huffman table 0");
    soi(&b);
    tables(&b);
    eoi(&b);
    expect(&b, "tables only", HR_ECORRUPT, "only tables");
    soi(&b);
    tables(&b);
    soi(&b);
    expect(&b, "second SOI", HR_ECORRUPT, "second SOI");
    progressive(&b, 64, 64, 3);
    b.n -= 2;
    sof(&b, 0xC2, 16, 16, 3, ids123, f420);
    eoi(&b);
    expect(&b, "frame behind scans", HR_ECORRUPT, "second frame header");
}

// Every cut of a good picture: truncated, or good from the first scan on.
static void cut_everywhere(void)
{
    for (int kind = 0; kind < 4; kind++) {
        struct bytes b = {0};
        size_t header;

        if (kind == 0)
            baseline(&b, 40, 30, 50);
        else if (kind == 1)
            progressive(&b, 40, 30, 5);
        else
            soi(&b), adobe(&b, 0),
                frame(&b, kind == 2 ? 0xCA : 0xC1, 4, ids123);
        CU_ASSERT(parse_all(&b) == HR_OK && info.ends);
        header = info.header_size;
        for (size_t n = 0; n < b.n; n++) {
            enum hr_status short_of = n ? HR_ETRUNCATED : HR_EFORMAT;
            enum hr_status status = parse(b.p, n, true, NULL);

            CU_ASSERT(status == (n < header ? short_of : HR_OK));
            CU_ASSERT(!info.ends);
            status = parse(b.p, n, false, NULL);
            short_of = n ? HR_PENDING : HR_EFORMAT;
            CU_ASSERT(status == (n < header ? short_of : HR_OK));
        }
        drop(&b);
    }
}

// What must hold whatever the bytes are.
static bool sane(enum hr_status status)
{
    if (status == HR_OK)
        return info.width > 0 && info.width <= 16384 && info.height > 0 &&
               info.height <= 16384 && info.components > 0 &&
               info.orientation >= 1 && info.orientation <= 8 &&
               info.scans >= 1 && info.scans <= 100;
    return status < 0 && err.text[0] && strlen(err.text) < sizeof(err.text) &&
           (status == HR_ECORRUPT || status == HR_ETRUNCATED ||
            status == HR_EUNSUPPORTED || status == HR_ELIMIT ||
            status == HR_EFORMAT);
}

static void flips(void)
{
    int accepted = 0, refused = 0;

    for (int kind = 0; kind < 3; kind++) {
        struct bytes b = {0};

        if (kind == 0)
            baseline(&b, 40, 30, 20);
        else if (kind == 1)
            progressive(&b, 40, 30, 5);
        else
            soi(&b), frame(&b, 0xC9, 3, ids123);
        for (size_t i = 0; i < 8 * b.n; i++) {
            enum hr_status status;

            b.p[i / 8] ^= (uint8_t)(1 << i % 8);
            status = parse_all(&b);
            CU_ASSERT(sane(status));
            status == HR_OK ? accepted++ : refused++;
            b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        for (int i = 0; i < 20000; i++) {
            uint8_t *copy = malloc(b.n);

            memcpy(copy, b.p, b.n);
            for (int k = 0; k < 1 + i % 8; k++)
                copy[next_random() % b.n] =
                    (uint8_t)(next_random() % 3 ? next_random() : 0xFF);
            CU_ASSERT(sane(parse(copy, b.n, true, NULL)));
            free(copy);
        }
        drop(&b);
    }
    CU_ASSERT(accepted > 0 && refused > 0);
}

// What is just valid, beside what just is not.
static void edges(void)
{
    struct bytes b = {0};
    uint8_t table[17 + 257] = {0};
    uint8_t two[2 * 65] = {0};

    two[0] = 2;  // two tables in one segment
    two[65] = 3;
    table[16] = 255;
    table[15] = 1;  // 256 codes
    soi(&b);
    segment(&b, 0xDB, NULL, 0);  // segments without payload
    segment(&b, 0xE4, NULL, 0);
    segment(&b, 0xE0, "JFXX\0\x10 thumbnail", 16);
    segment(&b, 0xE0, "JFIF\0\1\1\0\0\1\0\1\0", 13);
    segment(&b, 0xEE, "Adobe\0\0\0\0\0\0", 11);
    segment(&b, 0xE1, "Exif", 4);
    segment(&b, 0xDB, two, sizeof(two));
    segment(&b, 0xC4, table, 17 + 256);
    table[0] = 0x13;
    segment(&b, 0xC4, table, 17 + 256);
    dht(&b, 0x03);
    segment(&b, 0xC0, "\10\0\21\0\21\3R\21\3G\21\2B\21\3", 15);
    segment(&b, 0xDA, "\3R\0G\63B\63\0\77\0", 10);
    eoi(&b);
    CU_ASSERT(parse_all(&b) == HR_OK);
    CU_ASSERT(info.color == HR_COLOR_RGB && info.width == 17);
    CU_ASSERT(parse(b.p, b.n, true, &(struct hr_limits){.block_visits = 27}) ==
              HR_OK);  // 3 x 3 blocks of each
    CU_ASSERT(parse(b.p, b.n, true, &(struct hr_limits){.block_visits = 26}) ==
              HR_ELIMIT);
    drop(&b);

    bad(0xC4, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", HR_ECORRUPT,
        "DHT segment length 18");
    table[15] = 2;
    bad_segment(0xC4, (const char *)table, 17 + 257, HR_ECORRUPT, "257 codes");

    soi(&b);
    tables(&b);
    sof(&b, 0xC2, 65500, 3, 1, ids123, (const uint8_t[]){0x44});
    sos(&b, 1, ids123, 0, 0, 0x0D);
    sos(&b, 1, ids123, 63, 63, 0);
    eoi(&b);
    CU_ASSERT(parse(b.p, b.n, true, &(struct hr_limits){.side = 65535}) ==
              HR_OK);
    CU_ASSERT(info.scans == 2 && info.ends && !info.interleaved);
    drop(&b);

    for (int restarts = 0; restarts < 2; restarts++) {
        soi(&b);
        tables(&b);
        segment(&b, 0xDD, restarts ? "\0\1" : "\0\0", 2);
        sof(&b, 0xC2, 64, 64, 1, ids123, (const uint8_t[]){0x11});
        sos(&b, 1, ids123, 0, 0, 0);
        add_bytes(&b, 1, 0xFF, 0xD0, 2, 0xFF, 0x42, 3);  // no marker
        eoi(&b);
        expect(&b, "not a marker", restarts ? HR_OK : HR_ECORRUPT, "FF 42");
        CU_ASSERT(info.ends == restarts);
    }
    baseline(&b, 64, 64, 30);  // no second scan in a complete one
    b.n -= 2;
    sos(&b, 3, ids123, 0, 63, 0);
    eoi(&b);
    add_bytes(&b, 0);
    CU_ASSERT(parse_all(&b) == HR_OK && !info.ends && info.scans == 1);
    b.p[b.n - 1] = 0xD9;  // FF D9 D9: half an end marker
    CU_ASSERT(parse_all(&b) == HR_OK && !info.ends);
    drop(&b);
}

// ---- Limits ------------------------------------------------------------------

static void expect_limit(const struct bytes *b, struct hr_limits limits,
                         const char *text)
{
    enum hr_status status = parse(b->p, b->n, true, &limits);
    bool same = text ? status == HR_ELIMIT && strstr(err.text, text)
                     : status == HR_OK;

    if (!same)
        printf("\n  wanted \"%s\", got %s \"%s\"", text ? text : "",
               hr_status_name(status), err.text);
    CU_ASSERT(same);
}
#define limit(b, text, ...) \
    expect_limit(b, (struct hr_limits){__VA_ARGS__}, text)

static void limits_at_their_edge(void)
{
    struct bytes b = {0};
    size_t header;

    baseline(&b, 100, 50, 10);
    CU_ASSERT(parse_all(&b) == HR_OK);
    header = info.header_size;
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
    CU_ASSERT(info.scans == 9);
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
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void expect_bomb(struct bytes *b, const char *what, const char *text)
{
    double start = milliseconds(), ms;
    enum hr_status status = hr__header_parse(b->p, b->n, true, NULL, &info,
                                             &err);

    ms = milliseconds() - start;
    CU_ASSERT(status == HR_ELIMIT && strstr(err.text, text));
    // Processor time; 16 MB byte by byte under TSan is the slowest of them.
    CU_ASSERT(ms < 3000);
    printf("\n  %s: %zu bytes refused in %.3f ms", what, b->n, ms);
    drop(b);
}

static void bombs(void)
{
    struct bytes b = {0};
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

int main(void)
{
    const char *given = getenv("HEADRACE_SEED");

    seed = given ? strtoull(given, NULL, 0) : (unsigned long long)time(NULL);
    printf("seed %llu (HEADRACE_SEED)\n", seed);
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("header", NULL, NULL);
    CU_ADD_TEST(s, facts_of_a_baseline_picture);
    CU_ADD_TEST(s, color_follows_libjpeg);
    CU_ADD_TEST(s, processes);
    CU_ADD_TEST(s, exif_in_a_jpeg);
    CU_ADD_TEST(s, tolerance);
    CU_ADD_TEST(s, ends);
    CU_ADD_TEST(s, damaged_segments);
    CU_ADD_TEST(s, damaged_scans);
    CU_ADD_TEST(s, cut_everywhere);
    CU_ADD_TEST(s, flips);
    CU_ADD_TEST(s, edges);
    CU_ADD_TEST(s, limits_at_their_edge);
    CU_ADD_TEST(s, bombs);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failures || CU_get_error() ? 1 : 0;
}
