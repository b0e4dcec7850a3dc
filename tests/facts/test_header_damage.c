// SPDX-License-Identifier: Apache-2.0
// The JPEG header parser on bytes that are wrong: segments, scans, truncation,
// bit flips, and what is just valid beside what just is not.

#include "header_parse.h"
#include "testing.h"

// One segment with payload p, in an otherwise good picture.
static void bad_segment(uint8_t marker, const char *p, size_t n,
                        enum hr_status wanted, const char *text)
{
    struct growing b = {0};

    soi(&b);
    segment(&b, marker, p, n);
    frame(&b, 0xC0, 3, ids123);
    expect(&b, text, wanted, text);
}
#define bad(marker, p, wanted, text) \
    bad_segment(marker, p, sizeof(p) - 1, wanted, text)

TEST_CASE(damaged_segments)
{
    struct growing b = {0};

    add_bytes(&b, 0xFF, 0xD8, 0xFF, 0xC4, 0, 1, 0);
    expect(&b, "short DHT", HR_ECORRUPT, "DHT segment length 1 is too short");
    CU_ASSERT(header_err.offset == 2);
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
    CU_ASSERT(header_info.precision == 12);
    bad(0xC0, "\10\0\1\0\1\1\1\20\0", HR_ECORRUPT, "sampling factors 1 x 0");
    bad(0xC0, "\10\0\1\0\1\1\1\121\0", HR_ECORRUPT, "sampling factors 5 x 1");
    bad(0xC0, "\10\0\1\0\1\3\1\61\0\2\41\0\3\21\0", HR_EUNSUPPORTED,
        "factors 2 x 1 of component 1");
}

TEST_CASE(damaged_scans)
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
    struct growing b = {0};

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
TEST_CASE(cut_everywhere)
{
    for (int kind = 0; kind < 4; kind++) {
        struct growing b = {0};
        size_t header;

        if (kind == 0)
            baseline(&b, 40, 30, 50);
        else if (kind == 1)
            progressive(&b, 40, 30, 5);
        else
            soi(&b), adobe(&b, 0),
                frame(&b, kind == 2 ? 0xCA : 0xC1, 4, ids123);
        CU_ASSERT(parse_all(&b) == HR_OK && header_info.ends);
        header = header_info.header_size;
        for (size_t n = 0; n < b.n; n++) {
            enum hr_status short_of = n ? HR_ETRUNCATED : HR_EFORMAT;
            enum hr_status status = parse(b.p, n, true, NULL);

            CU_ASSERT(status == (n < header ? short_of : HR_OK));
            CU_ASSERT(!header_info.ends);
            status = parse(b.p, n, false, NULL);
            short_of = n ? HR_PENDING : HR_EFORMAT;
            CU_ASSERT(status == (n < header ? short_of : HR_OK));
        }
        drop(&b);
    }
}

// Invariants that hold whatever the bytes are.
static bool sane(enum hr_status status)
{
    if (status == HR_OK)
        return header_info.width > 0 && header_info.width <= 16384 &&
               header_info.height > 0 && header_info.height <= 16384 &&
               header_info.components > 0 && header_info.orientation >= 1 &&
               header_info.orientation <= 8 && header_info.scans >= 1 &&
               header_info.scans <= 100;
    return status < 0 && header_err.text[0] &&
           strlen(header_err.text) < sizeof(header_err.text) &&
           (status == HR_ECORRUPT || status == HR_ETRUNCATED ||
            status == HR_EUNSUPPORTED || status == HR_ELIMIT ||
            status == HR_EFORMAT);
}

TEST_CASE(flips)
{
    int accepted = 0, refused = 0;
    uint64_t seed = test_seed;

    for (int kind = 0; kind < 3; kind++) {
        struct growing b = {0};

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
            auto_heap uint8_t *copy = malloc(b.n);

            memcpy(copy, b.p, b.n);
            for (int k = 0; k < 1 + i % 8; k++)
                copy[(uint32_t)next_random(&seed) % b.n] =
                    (uint8_t)((uint32_t)next_random(&seed) % 3
                                  ? (uint32_t)next_random(&seed)
                                  : 0xFF);
            CU_ASSERT(sane(parse(copy, b.n, true, NULL)));
        }
        drop(&b);
    }
    CU_ASSERT(accepted > 0 && refused > 0);
}

// Values that are just valid, beside values that are just invalid.
TEST_CASE(edges)
{
    struct growing b = {0};
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
    CU_ASSERT(header_info.color == HR_COLOR_RGB && header_info.width == 17);
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
    CU_ASSERT(header_info.scans == 2 && header_info.ends &&
              !header_info.interleaved);
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
        CU_ASSERT(header_info.ends == restarts);
    }
    baseline(&b, 64, 64, 30);  // no second scan in a complete one
    b.n -= 2;
    sos(&b, 3, ids123, 0, 63, 0);
    eoi(&b);
    add_bytes(&b, 0);
    CU_ASSERT(parse_all(&b) == HR_OK && !header_info.ends &&
              header_info.scans == 1);
    b.p[b.n - 1] = 0xD9;  // FF D9 D9: half an end marker
    CU_ASSERT(parse_all(&b) == HR_OK && !header_info.ends);
    drop(&b);
}
