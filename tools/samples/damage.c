// SPDX-License-Identifier: Apache-2.0
// The part bad/: damaged and hostile files. For each it is known whether a
// decoder must refuse it, mend it, or not even notice.
#include <stdio.h>
#include <string.h>

#include "jpeg.h"
#include "kinds.h"
#include "noise.h"
#include "png.h"
#include "tools/common/tools.h"

#define BASE_W 160
#define BASE_H 120

enum base {
    BASE_444,
    BASE_420,
    BASE_3X1,
    BASE_RESTART,
    BASE_PROGRESSIVE,
    BASE_EXIF,
    BASE_PNG,
    BASE_NONE,  // stays empty
    BASES
};

static const struct samples_jpeg jpegs[BASE_PNG] = {
    [BASE_444] = {.quality = 90},
    [BASE_420] = {.quality = 80, .sampling = 0x22},
    [BASE_3X1] = {.sampling = 0x31},
    [BASE_RESTART] = {.sampling = 0x21, .restart_mcus = 6},
    [BASE_PROGRESSIVE] = {.sampling = 0x22, .order = SAMPLES_PROGRESSIVE},
    [BASE_EXIF] = {.orientation = 6},
};

enum {  // markers of JPEG, without their FF
    SOF0 = 0xc0,
    SOF2 = 0xc2,
    DHT = 0xc4,
    SOS = 0xda,
    DQT = 0xdb,
    APP0 = 0xe0,
    APP1 = 0xe1,
};

struct edit;

struct damage {
    const char *name;
    enum base base;
    void (*make)(struct edit *e);
    int marker;     // the first segment with this marker is meant
    int at, value;  // where and what, as make() takes it
    const char *text;
    enum samples_expect expect;  // what a decoder is to make of it
    int orientation;             // what EXIF still says; 0 = nothing
    bool limit;
    bool png;  // by its name
};

// ---- Ways to damage a file --------------------------------------------------

// Each reads a sound file, in, and appends the damaged one to out. On a lack of
// memory, or when there is nothing to damage, out->failed is set.
struct edit {
    const struct damage *d;
    uint64_t seed;
    const struct samples_bytes *in;
    struct samples_bytes *out;
    size_t begin, len;  // of the segment; 0 without a marker
};

static void copy(const struct edit *e, size_t from, size_t to)
{
    samples_bytes_add(e->out, e->in->data + from, to - from);
}

static void copy_all(const struct edit *e)
{
    copy(e, 0, e->in->size);
}

static void set(const struct edit *e, size_t at, int value)
{
    if (!e->out->failed)
        e->out->data[at] = (unsigned char)value;
}

// A scene of one theme as a JPEG.
static bool encode(const struct samples_jpeg *params, int w, int h, int theme,
                   uint64_t seed, struct samples_bytes *out)
{
    struct samples_picture p;
    bool ok = samples_scene_make(&p, w, h, theme, seed);

    if (!ok)
        return false;
    ok = samples_jpeg_encode(params, &p, out);
    samples_picture_finish(&p);
    return ok;
}

// Keeps `value` thousandths of the file.
static void cut(struct edit *e)
{
    copy(e, 0, e->in->size * (size_t)e->d->value / 1000);
}

// A small picture without its last `value` bytes, of EOI.
// Pillow feeds libjpeg from a source that suspends, and libjpeg asks it for
// bytes while fewer than 8 bits are left: without EOI it refuses the file,
// unless the last symbol (EOB, 2 bits, the second a 0) and the padding (1 bits)
// make up 8 bits. Such a file decodes for Pillow alone: it is passed over.
static void cut_eoi(struct edit *e)
{
    const struct samples_jpeg params = {.quality = 90};

    for (uint64_t i = 0; i < 64; i++) {
        struct samples_bytes b = {0};
        bool ok = encode(&params, 48, 32, 1, samples_mix(e->seed, i), &b);
        bool padded = ok && (b.data[b.size - 3] & 0x3f) == 0x3f;

        if (ok && !padded)
            samples_bytes_add(e->out, b.data, b.size - (size_t)e->d->value);
        samples_bytes_finish(&b);
        if (!ok)
            break;
        if (!padded)
            return;
    }
    e->out->failed = true;
}

// Ends the file `at` bytes into the segment.
static void cut_segment(struct edit *e)
{
    copy(e, 0, e->begin + (size_t)e->d->at);
}

// Leaves out every segment with the marker.
static void drop_segments(struct edit *e)
{
    samples_jpeg_drop(e->out, e->in, e->d->marker);
}

// Sets the byte `at` bytes into the segment, its FF being byte 0; without a
// marker, into the file.
static void poke(struct edit *e)
{
    copy_all(e);
    set(e, e->begin + (size_t)e->d->at, e->d->value);
}

// Claims value x value pixels.
static void claim(struct edit *e)
{
    copy_all(e);
    for (size_t i = 5; i <= 8; i++)
        set(e, e->begin + i, i % 2 ? e->d->value >> 8 : e->d->value & 0xff);
}

// Writes the segment twice.
static void repeat_segment(struct edit *e)
{
    copy(e, 0, e->begin + e->len);
    copy(e, e->begin, e->in->size);
}

// Inserts `value` bytes of text before the segment.
static void insert(struct edit *e)
{
    copy(e, 0, e->begin);
    samples_bytes_add(e->out, e->d->text, (size_t)e->d->value);
    copy(e, e->begin, e->in->size);
}

// Ends the picture with an EOI in place of its first scan, or in its middle.
static void end_early(struct edit *e)
{
    size_t at = e->begin;

    if (e->d->value) {
        at += (e->in->size - at) * (size_t)e->d->value / 1000;
        at += e->in->data[at - 1] == 0xff;  // not between FF and its 00
    }
    copy(e, 0, at);
    samples_bytes_add(e->out, "\xff\xd9", 2);
}

// Changes the n-th restart marker: `value` is added to its number; 8 = the
// marker goes.
static void restart(struct edit *e)
{
    const unsigned char *data = e->in->data;
    size_t at = e->begin;

    for (int n = e->d->at; at + 1 < e->in->size; at++) {
        int m = data[at + 1];
        if (data[at] == 0xff && m >= 0xd0 && m <= 0xd7 && !n--)
            break;
    }
    copy(e, 0, at);
    if (e->d->value < 8) {
        samples_bytes_byte(e->out, 0xff, 1);
        samples_bytes_byte(e->out, 0xd0 | ((data[at + 1] + e->d->value) & 7),
                           1);
    }
    copy(e, at + 2, e->in->size);
}

// Flips one bit after the first scan's header, such that a decoder takes the
// file as expected; never one that makes or unmakes an FF.
static void flip(struct edit *e)
{
    struct samples_rng rng = {
        .key = samples_mix(e->seed, (uint64_t)e->d->value)};
    struct samples_bytes *out = e->out;
    int first = (int)(e->begin + e->len) + 1;

    copy_all(e);
    for (int i = 0; i < 2000 && !out->failed; i++) {
        int at = samples_pick(&rng, first, (int)out->size - 4);
        int bit = 1 << samples_pick(&rng, 0, 7);
        unsigned char *p = out->data + at, was = *p;

        if (*p == 0xff || (*p ^ bit) == 0xff || p[-1] == 0xff)
            continue;
        *p = (unsigned char)(*p ^ bit);
        if (samples_jpeg_check(out->data, out->size) == e->d->expect)
            return;
        *p = was;
    }
    out->failed = true;
}

// The text alone, or `value` bytes of it; none: an empty file.
static void text(struct edit *e)
{
    const char *s = e->d->text ? e->d->text : "";

    samples_bytes_add(e->out, s, e->d->value ? (size_t)e->d->value : strlen(s));
}

// `value` bytes of 0.
static void zeros(struct edit *e)
{
    samples_bytes_byte(e->out, 0, (size_t)e->d->value);
}

// The text in place of as many first bytes.
static void mask(struct edit *e)
{
    text(e);
    copy(e, strlen(e->d->text), e->in->size);
}

// Spoils the compressed data in the middle, with the chunk's CRC untouched.
static void spoil_png(struct edit *e)
{
    copy_all(e);
    for (size_t i = 0; i < 64 && !e->out->failed; i++)
        e->out->data[e->in->size / 2 + i] ^= 0x5a;
}

// ---- Small legal files that cost a decoder much time or memory --------------

// The flat pictures are written bit by bit: encoding that many pixels would
// take libjpeg seconds, and they are the same two symbols for ever.
//
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

// A grey picture of value x value in 1 + `at` scans, all flat.
static void flat(struct edit *e)
{
    struct samples_bytes *out = e->out;
    int side = e->d->value;
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
    for (int band = 1; band <= e->d->at; band++) {
        put_scan_header(out, band);
        put_runs(out, (int)((blocks + MOST_BLOCKS - 1) / MOST_BLOCKS));
    }
    put16(out, 0xffd9);
}

// A small picture in hundreds of scans: `value` is an enum samples_order.
static void scans(struct edit *e)
{
    const struct samples_jpeg params = {
        .order = (enum samples_order)e->d->value};

    if (!encode(&params, 64, 48, 0, e->seed, e->out))
        e->out->failed = true;
}

// A header that claims 60000 x 60000 pixels, and no data.
static const char png_bomb[] =
    "\x89PNG\r\n\x1a\n"
    "\0\0\0\rIHDR\0\0\xea\x60\0\0\xea\x60\10\2\0\0\0\x0f\xb0\xe2\x15"
    "\0\0\0\0IDAT\x35\xaf\x06\x1e"
    "\0\0\0\0IEND\xae\x42\x60\x82";

// ---- All of them ------------------------------------------------------------

// clang-format off
#define ITEM(n, b, e, m, ...) \
    { .name = n, .base = BASE_##b, .expect = SAMPLES_##e, .make = m, \
      __VA_ARGS__ }
#define SEGMENT(n, b, e, m, mk, ...) ITEM(n, b, e, m, .marker = mk, __VA_ARGS__)
#define POKE(n, e, mk, a, v) \
    SEGMENT(n, 444, e, poke, mk, .at = a, .value = v)
#define EXIF(n, a, v, o) \
    SEGMENT(n, EXIF, OK, poke, APP1, .at = a, .value = v, .orientation = o)
#define PNG(n, m, ...) ITEM(n, PNG, FAIL, m, .png = true, __VA_ARGS__)
#define CLAIM(n, b, mk, v) \
    SEGMENT(n, b, FAIL, claim, mk, .value = v, .limit = true)
#define BOMB(n, m, ...) ITEM(n, NONE, FAIL, m, .limit = true, __VA_ARGS__)

static const struct damage damages[] = {
    SEGMENT("truncated-soi", 444, FAIL, cut_segment, APP0, .at = 0),
    SEGMENT("truncated-dqt", 444, FAIL, cut_segment, DQT, .at = 30),
    SEGMENT("truncated-sof", 444, FAIL, cut_segment, SOF0, .at = 9),
    SEGMENT("truncated-dht", 444, FAIL, cut_segment, DHT, .at = 12),
    SEGMENT("truncated-before-sos", 444, FAIL, cut_segment, SOS, .at = 0),
    SEGMENT("truncated-sos", 444, FAIL, cut_segment, SOS, .at = 6),
    SEGMENT("truncated-scan-start", 444, FAIL, cut_segment, SOS, .at = 16),
    ITEM("truncated-scan-25", 444, FAIL, cut, .value = 250),
    ITEM("truncated-scan-50", 420, FAIL, cut, .value = 500),
    ITEM("truncated-scan-99", 420, FAIL, cut, .value = 990),
    ITEM("truncated-progressive-30", PROGRESSIVE, FAIL, cut, .value = 300),
    ITEM("truncated-progressive-90", PROGRESSIVE, FAIL, cut, .value = 900),
    ITEM("truncated-restart-60", RESTART, FAIL, cut, .value = 600),
    ITEM("truncated-no-eoi", NONE, FAIL, cut_eoi, .value = 2),
    ITEM("truncated-half-eoi", NONE, FAIL, cut_eoi, .value = 1),
    SEGMENT("flip-444", 444, WARN, flip, SOS, .value = 1),
    SEGMENT("flip-420", 420, WARN, flip, SOS, .value = 2),
    SEGMENT("flip-restart", RESTART, WARN, flip, SOS, .value = 3),
    SEGMENT("flip-progressive", PROGRESSIVE, WARN, flip, SOS, .value = 4),
    SEGMENT("flip-silent", 444, OK, flip, SOS, .value = 5),
    SEGMENT("flip-silent-420", 420, OK, flip, SOS, .value = 6),
    SEGMENT("missing-dht", PROGRESSIVE, FAIL, drop_segments, DHT, .at = 0),
    SEGMENT("missing-dqt", 444, FAIL, drop_segments, DQT, .at = 0),
    SEGMENT("missing-sof", 444, FAIL, drop_segments, SOF0, .at = 0),
    SEGMENT("missing-sos", 444, FAIL, end_early, SOS, .value = 0),
    SEGMENT("eoi-early", 444, WARN, end_early, SOS, .value = 400),
    SEGMENT("eoi-early-420", 420, WARN, end_early, SOS, .value = 800),
    SEGMENT("restart-missing", RESTART, WARN, restart, SOS, .at = 3, .value = 8),
    SEGMENT("restart-wrong", RESTART, WARN, restart, SOS, .at = 5, .value = 4),
    SEGMENT("restart-skipped", RESTART, WARN, restart, SOS, .at = 7, .value = 1),
    SEGMENT("restart-claimed", 444, WARN, insert, SOS, .value = 6,
            .text = "\xff\xdd\0\4\0\5"),
    SEGMENT("junk-between", 444, WARN, insert, DQT, .value = 21,
            .text = "not a marker, in fact"),
    SEGMENT("second-soi", 444, FAIL, insert, DQT, .value = 2,
            .text = "\xff\xd8"),
    SEGMENT("second-sof", 444, FAIL, repeat_segment, SOF0, .at = 0),
    POKE("width-0", FAIL, SOF0, 8, 0),
    POKE("height-0", FAIL, SOF0, 6, 0),
    POKE("precision-12", FAIL, SOF0, 4, 12),
    POKE("precision-16", FAIL, SOF0, 4, 16),
    POKE("lossless", FAIL, SOF0, 1, 0xc3),
    POKE("hierarchical", FAIL, SOF0, 1, 0xc5),
    POKE("components-0", FAIL, SOF0, 9, 0),
    POKE("components-2", FAIL, SOF0, 9, 2),
    POKE("components-4", FAIL, SOF0, 9, 4),
    POKE("sampling-0", FAIL, SOF0, 11, 0x01),
    POKE("sampling-5", FAIL, SOF0, 11, 0x51),
    POKE("sampling-too-many", FAIL, SOF0, 11, 0x44),
    SEGMENT("sampling-fraction", 3X1, FAIL, poke, SOF0, .at = 14,
            .value = 0x21),
    POKE("quant-table-3", FAIL, SOF0, 12, 3),
    POKE("sof-length-0", FAIL, SOF0, 3, 0),
    POKE("dqt-length-0", FAIL, DQT, 3, 0),
    POKE("dqt-number-9", FAIL, DQT, 4, 9),
    POKE("dht-length-1", FAIL, DHT, 3, 1),
    POKE("dht-counts", FAIL, DHT, 8, 255),
    POKE("dht-oversubscribed", FAIL, DHT, 5, 3),
    POKE("sos-components-0", FAIL, SOS, 4, 0),
    POKE("sos-unknown-component", FAIL, SOS, 5, 77),
    POKE("sos-huffman-table-3", FAIL, SOS, 6, 0x33),
    POKE("sos-not-sequential", WARN, SOS, 11, 1),
    SEGMENT("sos-progressive-range", PROGRESSIVE, FAIL, poke, SOS, .at = 12,
            .value = 70),
    EXIF("exif-orientation-0", 28, 0, 0),
    EXIF("exif-orientation-9", 28, 9, 0),
    EXIF("exif-offset", 16, 0x7f, 0),
    EXIF("exif-count", 19, 0xff, 6),   // what is there can be read
    ITEM("empty", NONE, FAIL, text, .text = ""),
    ITEM("text", NONE, FAIL, text, .text = "This is not a picture.\n"),
    ITEM("html", NONE, FAIL, text,
         .text = "<!DOCTYPE html><title>404</title><p>No such picture.</p>\n"),
    ITEM("zeros", NONE, FAIL, zeros, .value = 4096),
    ITEM("gif-magic", 444, FAIL, mask, .text = "GIF89a"),
    ITEM("png-named-jpg", PNG, OK, cut, .value = 1000),
    PNG("png-ihdr-crc", poke, .at = 29),
    PNG("png-spoiled", spoil_png, .at = 0),
    PNG("png-truncated", cut, .value = 500),
    PNG("png-truncated-header", cut, .value = 1),
    CLAIM("bomb-65500", 444, SOF0, 65500),
    CLAIM("bomb-progressive", PROGRESSIVE, SOF2, 32000),
    BOMB("bomb-flat", flat, .value = 12000),
    BOMB("bomb-visits", flat, .at = 63, .value = 8000),  // few enough scans
    BOMB("bomb-190-scans", scans, .value = SAMPLES_EVERY_COEF),
    BOMB("bomb-568-scans", scans, .value = SAMPLES_EVERY_BIT),
    BOMB("bomb-png", text, .png = true, .text = png_bomb,
         .value = sizeof(png_bomb) - 1),
};
// clang-format on

#undef ITEM
#undef SEGMENT
#undef POKE
#undef EXIF
#undef PNG
#undef CLAIM
#undef BOMB

#define COUNT (sizeof(damages) / sizeof(damages[0]))

static bool make_bases(struct samples_bytes bases[BASES], uint64_t seed)
{
    static const struct samples_png png = {.depth = 8};
    struct samples_picture p;
    bool ok;
    if (!samples_scene_make(&p, BASE_W, BASE_H, 1, seed))
        return false;
    ok = samples_png_encode(&png, &p, &bases[BASE_PNG]);
    for (int i = 0; i < BASE_PNG && ok; i++)
        ok = samples_jpeg_encode(&jpegs[i], &p, &bases[i]);
    samples_picture_finish(&p);
    return ok;
}

// Reads the size from the header of a PNG or JPEG, however wrong it is.
static void read_size(const struct samples_bytes *b, int *w, int *h)
{
    *w = *h = 0;
    if (b->size >= 24 && !memcmp(b->data, "\x89PNG", 4)) {
        *w = b->data[18] << 8 | b->data[19];
        *h = b->data[22] << 8 | b->data[23];
    } else if (b->size >= 2 && b->data[0] == 0xff) {
        samples_jpeg_size(b->data, b->size, w, h);
    }
}

static bool write_damage(struct samples_out *out, const struct damage *d,
                         const char *kind, const struct samples_bytes *bases,
                         uint64_t seed)
{
    const struct samples_bytes *in = &bases[d->base];
    struct samples_bytes b = {0};
    struct edit edit = {.d = d, .seed = seed, .in = in, .out = &b};
    char path[80];
    struct samples_entry e = {.part = SAMPLES_BAD,
                              .path = path,
                              .kind = kind,
                              .expect = d->expect,
                              .limit = d->limit,
                              .orientation = d->orientation};

    snprintf(path, sizeof(path), "bad/%s.%s", d->name, d->png ? "png" : "jpg");
    if (d->marker)
        edit.begin = samples_jpeg_segment(in->data, in->size, d->marker, 0,
                                          &edit.len);
    d->make(&edit);
    read_size(&b, &e.w, &e.h);
    return samples_out_add(out, &e, &b);
}

bool samples_make_damage(struct samples_out *out, uint64_t seed)
{
    struct samples_bytes bases[BASES] = {{0}};
    bool ok;
    seed = samples_mix(seed, 0x626164);
    ok = make_bases(bases, seed);
    if (!ok)
        tools_warn("samples: cannot make the pictures to damage");
    for (size_t i = 0; ok && i < COUNT; i++) {
        char kind[80];
        snprintf(kind, sizeof(kind), "bad-%s", damages[i].name);
        if (samples_wanted(out, kind))
            ok = write_damage(out, &damages[i], kind, bases, seed);
    }
    for (int i = 0; i < BASES; i++)
        samples_bytes_finish(&bases[i]);
    return ok;
}

void samples_print_damage(void)
{
    for (size_t i = 0; i < COUNT; i++)
        printf("bad-%s\n", damages[i].name);
}
