// SPDX-License-Identifier: Apache-2.0
// The flat pictures are written bit by bit: encoding that many pixels would
// take libjpeg seconds, and they are the same two symbols for ever.
#include "bomb.h"

#include "jpeg.h"

// Progressive scans whose Huffman code has one word, a 0 bit (ITU-T T.81,
// G.1.2): in a DC scan "no difference", in an AC scan "the next 16384 and
// more blocks have nothing in this band".
#define EOB14 0xe0
#define MOST_BLOCKS 32767  // a run of EOB14 with all extra bits set

static void put16(struct samples_bytes *out, int v)
{
    samples_bytes_byte(out, v >> 8 & 0xff, 1);
    samples_bytes_byte(out, v & 0xff, 1);
}

static void put_table(struct samples_bytes *out, int class_and_id, int symbol)
{
    put16(out, 0xffc4);
    put16(out, 2 + 1 + 16 + 1);
    samples_bytes_byte(out, class_and_id, 1);
    samples_bytes_byte(out, 1, 1);  // one word of length 1
    samples_bytes_byte(out, 0, 15);
    samples_bytes_byte(out, symbol, 1);
}

static void put_scan_header(struct samples_bytes *out, int band)
{
    put16(out, 0xffda);
    put16(out, 8);
    samples_bytes_add(out, "\1\1\0", 3);
    samples_bytes_byte(out, band, 2);
    samples_bytes_byte(out, 0, 1);
}

// `runs` times a 0 bit and 14 one bits. Padding is one bits, and a byte FF is
// followed by 00.
static void put_runs(struct samples_bytes *out, int runs)
{
    unsigned bits = 0;
    int have = 0;
    for (int i = 0; i < runs * 15 || have; i++) {
        bits = bits << 1 | (i >= runs * 15 || i % 15 > 0);
        if (++have < 8)
            continue;
        samples_bytes_byte(out, (int)(bits & 0xff), 1);
        if ((bits & 0xff) == 0xff)
            samples_bytes_byte(out, 0, 1);
        bits = 0;
        have = 0;
    }
}

static void make_flat(struct samples_bytes *out, int side, int last_band)
{
    size_t blocks = (size_t)((side + 7) / 8) * (size_t)((side + 7) / 8);
    samples_bytes_add(out, "\xff\xd8\xff\xdb\0\103\0", 7);
    samples_bytes_byte(out, 16, 64);
    put16(out, 0xffc2);
    put16(out, 11);
    samples_bytes_byte(out, 8, 1);
    put16(out, side);
    put16(out, side);
    samples_bytes_add(out, "\1\1\x11\0", 4);
    put_table(out, 0x00, 0);
    put_table(out, 0x10, EOB14);
    put_scan_header(out, 0);
    samples_bytes_byte(out, 0, (blocks + 7) / 8);
    for (int band = 1; band <= last_band; band++) {
        put_scan_header(out, band);
        put_runs(out, (int)((blocks + MOST_BLOCKS - 1) / MOST_BLOCKS));
    }
    put16(out, 0xffd9);
}

// CRC-32 of PNG (ISO 3309), bit by bit: there are 17 bytes.
static uint32_t crc32_of(const unsigned char *p, size_t size)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static void make_png(struct samples_bytes *out, int side)
{
    uint32_t crc;
    size_t at;
    samples_bytes_add(out, "\x89PNG\r\n\x1a\n\0\0\0\r", 12);
    at = out->size;
    samples_bytes_add(out, "IHDR", 4);
    for (int i = 0; i < 2; i++) {
        put16(out, 0);
        put16(out, side);
    }
    samples_bytes_add(out, "\10\2\0\0\0", 5);
    crc = out->failed ? 0 : crc32_of(out->data + at, out->size - at);
    put16(out, (int)(crc >> 16));
    put16(out, (int)(crc & 0xffff));
    samples_bytes_add(out, "\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
    samples_bytes_add(out, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
}

static bool make_scans(struct samples_bytes *out, enum samples_order order,
                       uint64_t seed)
{
    const struct samples_jpeg params = {.order = order};
    struct samples_picture p;
    bool ok = samples_scene_make(&p, 64, 48, 0, seed);
    if (ok) {
        ok = samples_jpeg_encode(&params, &p, out);
        samples_picture_finish(&p);
    }
    return ok;
}

bool samples_bomb_make(const struct samples_bomb *bomb, uint64_t seed,
                       struct samples_bytes *out)
{
    switch (bomb->kind) {
    case SAMPLES_BOMB_FLAT:
        make_flat(out, bomb->value, 0);
        break;
    case SAMPLES_BOMB_VISITS:
        make_flat(out, bomb->value, 63);
        break;
    case SAMPLES_BOMB_SCANS:
        return make_scans(out, (enum samples_order)bomb->value, seed);
    case SAMPLES_BOMB_PNG:
        make_png(out, bomb->value);
        break;
    }
    return !out->failed;
}
