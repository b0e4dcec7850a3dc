// SPDX-License-Identifier: Apache-2.0
#include "damage.h"

#include <stdio.h>
#include <string.h>

#include "bomb.h"
#include "edit.h"
#include "jpeg.h"
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
    BASE_NONE,
    BASES = BASE_NONE
};

static const struct samples_jpeg jpegs[BASE_PNG] = {
    [BASE_444] = {.quality = 90},
    [BASE_420] = {.quality = 80, .sampling = 0x22},
    [BASE_3X1] = {.sampling = 0x31},
    [BASE_RESTART] = {.sampling = 0x21, .restart_mcus = 6},
    [BASE_PROGRESSIVE] = {.sampling = 0x22, .order = SAMPLES_PROGRESSIVE},
    [BASE_EXIF] = {.orientation = 6},
};

struct damage {
    const char *name;
    enum base base;
    samples_edit_fn *make;
    struct samples_edit edit;
    int orientation;  // what EXIF still says; 0 = nothing
    bool limit;
};

static void bomb(const struct samples_edit *d, const struct samples_bytes *in,
                 struct samples_bytes *out)
{
    static const struct samples_bomb bombs[] = {
        {SAMPLES_BOMB_FLAT, 12000},
        {SAMPLES_BOMB_VISITS, 8000},
        {SAMPLES_BOMB_SCANS, SAMPLES_EVERY_COEF},
        {SAMPLES_BOMB_SCANS, SAMPLES_EVERY_BIT},
        {SAMPLES_BOMB_PNG, 60000},
    };
    (void)in;
    if (!samples_bomb_make(&bombs[d->value], d->seed, out))
        out->failed = true;
}

// clang-format off
#define ITEM(n, b, e, m, ...) \
    { .name = n, .base = BASE_##b, .make = samples_##m, \
      .edit = { .expect = SAMPLES_##e, __VA_ARGS__ } }
#define SEGMENT(n, b, e, m, mk, ...) \
    ITEM(n, b, e, m, .marker = SAMPLES_##mk, __VA_ARGS__)
#define POKE(n, e, mk, a, v) \
    SEGMENT(n, 444, e, poke, mk, .at = a, .value = v)
#define EXIF(n, a, v, o) \
    { .name = n, .base = BASE_EXIF, .make = samples_poke, .orientation = o, \
      .edit = { .marker = SAMPLES_APP1, .at = a, .value = v } }
#define CLAIM(n, b, mk, v) \
    { .name = n, .base = BASE_##b, .make = samples_claim, .limit = true, \
      .edit = { .marker = SAMPLES_##mk, .value = v, \
                .expect = SAMPLES_FAIL } }
#define BOMB(n, v) \
    { .name = n, .base = BASE_NONE, .make = bomb, .limit = true, \
      .edit = { .value = v, .expect = SAMPLES_FAIL } }

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
    ITEM("flip-444", 444, WARN, flip, .value = 1),
    ITEM("flip-420", 420, WARN, flip, .value = 2),
    ITEM("flip-restart", RESTART, WARN, flip, .value = 3),
    ITEM("flip-progressive", PROGRESSIVE, WARN, flip, .value = 4),
    ITEM("flip-silent", 444, OK, flip, .value = 5),
    ITEM("flip-silent-420", 420, OK, flip, .value = 6),
    SEGMENT("missing-dht", PROGRESSIVE, FAIL, drop_segments, DHT),
    SEGMENT("missing-dqt", 444, FAIL, drop_segments, DQT),
    SEGMENT("missing-sof", 444, FAIL, drop_segments, SOF0),
    ITEM("missing-sos", 444, FAIL, end_early),
    ITEM("eoi-early", 444, WARN, end_early, .value = 400),
    ITEM("eoi-early-420", 420, WARN, end_early, .value = 800),
    ITEM("restart-missing", RESTART, WARN, restart, .at = 3, .value = 8),
    ITEM("restart-wrong", RESTART, WARN, restart, .at = 5, .value = 4),
    ITEM("restart-skipped", RESTART, WARN, restart, .at = 7, .value = 1),
    SEGMENT("restart-claimed", 444, WARN, insert, SOS, .value = 6,
            .text = "\xff\xdd\0\4\0\5"),
    SEGMENT("junk-between", 444, WARN, insert, DQT, .value = 21,
            .text = "not a marker, in fact"),
    SEGMENT("second-soi", 444, FAIL, insert, DQT, .value = 2,
            .text = "\xff\xd8"),
    SEGMENT("second-sof", 444, FAIL, repeat_segment, SOF0),
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
    ITEM("empty", NONE, FAIL, text),
    ITEM("text", NONE, FAIL, text, .text = "This is not a picture.\n"),
    ITEM("html", NONE, FAIL, text,
         .text = "<!DOCTYPE html><title>404</title><p>No such picture.</p>\n"),
    ITEM("zeros", NONE, FAIL, zeros, .value = 4096),
    ITEM("gif-magic", 444, FAIL, mask, .text = "GIF89a"),
    ITEM("png-named-jpg", PNG, OK, cut, .value = 1000),
    ITEM("png-ihdr-crc", PNG, FAIL, poke_file, .at = 29),
    ITEM("png-spoiled", PNG, FAIL, spoil_png),
    ITEM("png-truncated", PNG, FAIL, cut, .value = 500),
    ITEM("png-truncated-header", PNG, FAIL, cut, .value = 1),
    CLAIM("bomb-65500", 444, SOF0, 65500),
    CLAIM("bomb-progressive", PROGRESSIVE, SOF2, 32000),
    BOMB("bomb-flat", 0),
    BOMB("bomb-visits", 1),
    BOMB("bomb-190-scans", 2),
    BOMB("bomb-568-scans", 3),
    BOMB("bomb-png", 4),
};
// clang-format on

#undef ITEM
#undef SEGMENT
#undef POKE
#undef EXIF
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

// What the header of a PNG or JPEG says, however wrong.
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

static bool write_damage(struct samples_out *out, struct damage d,
                         const struct samples_bytes *bases, uint64_t seed)
{
    struct samples_bytes b = {0}, none = {0};
    bool png = !strncmp(d.name, "png-", 4) || !strcmp(d.name, "bomb-png");
    char path[80], kind[80];
    struct samples_entry e = {.part = SAMPLES_BAD,
                              .path = path,
                              .kind = kind,
                              .expect = d.edit.expect,
                              .limit = d.limit,
                              .orientation = d.orientation};
    bool ok = false;
    if (!strcmp(d.name, "png-named-jpg"))
        png = false;
    snprintf(path, sizeof(path), "bad/%s.%s", d.name, png ? "png" : "jpg");
    snprintf(kind, sizeof(kind), "bad-%s", d.name);
    d.edit.seed = seed;
    d.make(&d.edit, d.base == BASE_NONE ? &none : &bases[d.base], &b);
    if (b.failed) {
        tools_warn("samples: cannot make the sample bad-%s", d.name);
    } else {
        read_size(&b, &e.w, &e.h);
        ok = samples_out_add(out, &e, b.data, b.size);
    }
    samples_bytes_finish(&b);
    return ok;
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
            ok = write_damage(out, damages[i], bases, seed);
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
