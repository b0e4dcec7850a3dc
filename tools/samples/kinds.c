// SPDX-License-Identifier: Apache-2.0
#include "kinds.h"

#include <stdio.h>

#include "jpeg.h"
#include "noise.h"
#include "png.h"
#include "tools/common/tools.h"

// Odd on purpose: no sampling and no block divides it.
#define KIND_W 227
#define KIND_H 149

enum content { CONTENT_SCENE, CONTENT_HARSH, CONTENT_MARKED };

enum edit {
    EDIT_NONE,
    EDIT_FILL,    // fill bytes before markers (T.81, B.1.1.2)
    EDIT_TAIL,    // bytes after EOI
    EDIT_NO_DHT,  // without Huffman tables, as in Motion JPEG
};

struct kind {
    const char *name;
    struct samples_jpeg jpeg;
    enum content content;
    enum edit edit;
    int w, h;  // 0 = KIND_W x KIND_H
};

// clang-format off
#define KIND(n, ...) { .name = n, .jpeg = { __VA_ARGS__ } }
#define SIZED(n, sw, sh, ...) { .name = n, .w = sw, .h = sh, \
                                .jpeg = { __VA_ARGS__ } }
#define HARSH(n, ...) { .name = n, .content = CONTENT_HARSH, \
                        .jpeg = { __VA_ARGS__ } }
#define MARKED(n, ...) { .name = n, .content = CONTENT_MARKED, .w = 320, \
                         .h = 200, .jpeg = { __VA_ARGS__ } }
#define EDITED(n, e, ...) { .name = n, .edit = e, .jpeg = { __VA_ARGS__ } }
#define EXIF(n) MARKED("exif-" #n, .orientation = n, .sampling = 0x22)
#define TINY(w, h) SIZED("tiny-" #w "x" #h, w, h, .sampling = 0x22)

static const struct kind kinds[] = {
    KIND("baseline-444", .quality = 95),
    KIND("baseline-422", .sampling = 0x21, .quality = 90),
    KIND("baseline-420", .sampling = 0x22, .quality = 85),
    KIND("baseline-440", .sampling = 0x12, .quality = 85),
    KIND("baseline-411", .sampling = 0x41),
    KIND("baseline-410", .sampling = 0x42),
    KIND("baseline-441", .sampling = 0x14),
    SIZED("baseline-420-aligned", 256, 160, .sampling = 0x22),
    KIND("sampling-3x1", .sampling = 0x31),
    KIND("sampling-1x3", .sampling = 0x13),
    KIND("sampling-3x2", .sampling = 0x32),
    KIND("sampling-all-2x1", .sampling = 0x212121),
    KIND("sampling-luma-less", .sampling = 0x112222),
    KIND("sampling-uneven", .sampling = 0x222112),
    KIND("gray", .color = SAMPLES_GRAY, .quality = 90),
    KIND("gray-2x2", .color = SAMPLES_GRAY, .sampling = 0x22),
    KIND("rgb", .color = SAMPLES_RGB, .quality = 90),
    KIND("rgb-no-adobe", .color = SAMPLES_RGB, .quality = 90, .no_adobe = true),
    KIND("ycc-no-jfif", .color = SAMPLES_YCC, .quality = 90, .no_jfif = true),
    KIND("cmyk", .color = SAMPLES_CMYK, .quality = 90),
    KIND("ycck", .color = SAMPLES_YCCK, .quality = 90),
    KIND("ycck-420", .color = SAMPLES_YCCK, .sampling = 0x22111122),
    KIND("progressive-444", .quality = 95, .order = SAMPLES_PROGRESSIVE),
    KIND("progressive-420", .sampling = 0x22, .order = SAMPLES_PROGRESSIVE),
    KIND("progressive-gray", .color = SAMPLES_GRAY,
         .order = SAMPLES_PROGRESSIVE),
    KIND("progressive-spectral", .sampling = 0x21, .order = SAMPLES_SPECTRAL),
    KIND("progressive-dc-only", .order = SAMPLES_DC_ONLY),
    SIZED("progressive-97-scans", 80, 60, .order = SAMPLES_PAIRS),
    KIND("progressive-restart", .sampling = 0x22, .restart_rows = 1,
         .order = SAMPLES_PROGRESSIVE),
    KIND("arithmetic", .sampling = 0x22, .arithmetic = true),
    KIND("arithmetic-restart", .arithmetic = true, .restart_mcus = 7),
    KIND("arithmetic-progressive", .sampling = 0x21, .arithmetic = true,
         .order = SAMPLES_PROGRESSIVE),
    KIND("restart-rows", .sampling = 0x22, .restart_rows = 1),
    KIND("restart-every-mcu", .restart_mcus = 1),
    KIND("restart-5", .sampling = 0x21, .restart_mcus = 5),
    KIND("optimized-444", .quality = 92, .optimize = true),
    KIND("optimized-420", .sampling = 0x22, .optimize = true),
    KIND("scans-444", .order = SAMPLES_SEPARATE),
    KIND("scans-420", .sampling = 0x22, .order = SAMPLES_SEPARATE),
    KIND("scans-partly", .sampling = 0x22, .order = SAMPLES_PARTLY),
    KIND("quality-1", .quality = 1),
    KIND("quality-100", .quality = 100),
    KIND("quant-16bit", .quality = 1, .wide_quant = true),
    KIND("quant-16bit-progressive", .quality = 2, .wide_quant = true,
         .order = SAMPLES_PROGRESSIVE),
    HARSH("harsh-444", .quality = 100),
    HARSH("harsh-422", .sampling = 0x21, .quality = 60),
    HARSH("harsh-420", .sampling = 0x22, .quality = 10),
    HARSH("harsh-progressive", .sampling = 0x22, .quality = 98,
          .order = SAMPLES_PROGRESSIVE),
    KIND("icc", .quality = 90, .icc_bytes = 3144),
    KIND("icc-large", .sampling = 0x22, .icc_bytes = 150000),
    KIND("app-large", .app_segments = 6),
    KIND("comment", .comment = "A comment, and \377\331 that is no EOI."),
    EXIF(1), EXIF(2), EXIF(3), EXIF(4), EXIF(5), EXIF(6), EXIF(7), EXIF(8),
    MARKED("exif-motorola", .orientation = 6, .motorola = true),
    EDITED("fill-bytes", EDIT_FILL, .sampling = 0x22),
    EDITED("tail", EDIT_TAIL, .sampling = 0x22),
    EDITED("no-huffman-tables", EDIT_NO_DHT, .sampling = 0x21),
    SIZED("tiny-444", 1, 1, .quality = 95),
    TINY(1, 1), TINY(2, 2), TINY(3, 3), TINY(5, 7), TINY(7, 7), TINY(8, 8),
    TINY(9, 9), TINY(15, 15), TINY(16, 16), TINY(17, 17), TINY(31, 31),
    TINY(33, 33),
    SIZED("tiny-progressive", 5, 3, .sampling = 0x22,
          .order = SAMPLES_PROGRESSIVE),
    SIZED("thin-297x1", 297, 1, .sampling = 0x22),
    SIZED("thin-1x297", 1, 297, .sampling = 0x22),
    SIZED("thin-444", 1, 120, .quality = 95),
    SIZED("large", 3008, 2000, .sampling = 0x22, .quality = 85),
};
// clang-format on

#undef KIND
#undef SIZED
#undef HARSH
#undef MARKED
#undef EDITED
#undef EXIF
#undef TINY

static const struct png_kind {
    const char *name;
    struct samples_png png;
} png_kinds[] = {
    {"png-gray", {.gray = true, .depth = 8}},
    {"png-gray1", {.gray = true, .depth = 1}},
    {"png-gray4", {.gray = true, .depth = 4}},
    {"png-gray16", {.gray = true, .depth = 16}},
    {"png-gray-trns", {.gray = true, .depth = 8, .alpha = SAMPLES_TRNS}},
    {"png-gray-alpha", {.gray = true, .depth = 8, .alpha = SAMPLES_ALPHA}},
    {"png-palette", {.palette = true, .depth = 8}},
    {"png-palette4", {.palette = true, .depth = 4}},
    {"png-palette-trns", {.palette = true, .depth = 8, .alpha = SAMPLES_TRNS}},
    {"png-rgb", {.depth = 8}},
    {"png-rgb16", {.depth = 16}},
    {"png-rgb-trns", {.depth = 8, .alpha = SAMPLES_TRNS}},
    {"png-rgba", {.depth = 8, .alpha = SAMPLES_ALPHA}},
    {"png-rgba16", {.depth = 16, .alpha = SAMPLES_ALPHA}},
    {"png-interlaced", {.depth = 8, .interlaced = true}},
    {"png-interlaced-palette",
     {.palette = true, .depth = 4, .interlaced = true}},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void add_filled(struct samples_bytes *out,
                       const struct samples_bytes *in)
{
    size_t at = 2;
    samples_bytes_add(out, in->data, 2);
    while (at + 4 <= in->size && in->data[at + 1] != 0xda) {
        size_t len = 2 + ((size_t)in->data[at + 2] << 8 | in->data[at + 3]);
        samples_bytes_byte(out, 0xff, 1 + at % 5);
        samples_bytes_add(out, in->data + at, len);
        at += len;
    }
    samples_bytes_add(out, in->data + at, in->size - at - 2);
    samples_bytes_byte(out, 0xff, 3);
    samples_bytes_add(out, in->data + in->size - 2, 2);
}

static void add_edited(struct samples_bytes *out,
                       const struct samples_bytes *in, enum edit edit)
{
    switch (edit) {
    case EDIT_FILL:
        add_filled(out, in);
        break;
    case EDIT_NO_DHT:
        samples_jpeg_drop(out, in, 0xc4);
        break;
    default:
        samples_bytes_add(out, in->data, in->size);
        for (int i = 0; edit == EDIT_TAIL && i < 5000; i++)
            samples_bytes_byte(out, i * 73 & 0xff, 1);
        break;
    }
}

static bool make_picture(struct samples_picture *p, const struct kind *k,
                         uint64_t seed)
{
    int w = k->w ? k->w : KIND_W, h = k->h ? k->h : KIND_H;
    if (k->content == CONTENT_HARSH)
        return samples_harsh_make(p, w, h, seed);
    if (!samples_scene_make(p, w, h, 1, seed))
        return false;
    if (k->content == CONTENT_MARKED)
        samples_mark(p);
    return true;
}

static bool write_kind(struct samples_out *out, const struct kind *k,
                       const struct samples_picture *p)
{
    struct samples_bytes plain = {0}, edited = {0};
    char path[80];
    struct samples_entry e = {.part = SAMPLES_KINDS,
                              .path = path,
                              .kind = k->name,
                              .w = p->w,
                              .h = p->h,
                              .orientation = k->jpeg.orientation};
    bool ok = samples_jpeg_encode(&k->jpeg, p, &plain);

    snprintf(path, sizeof(path), "kinds/%s.jpg", k->name);
    if (ok)
        add_edited(&edited, &plain, k->edit);
    samples_bytes_finish(&plain);
    if (ok)
        return samples_out_add(out, &e, &edited);
    if (!k->jpeg.arithmetic)
        return samples_cannot(k->name);
    // libjpeg may be built without it.
    tools_warn("samples: no sample %s: this libjpeg cannot make it", k->name);
    return true;
}

static bool write_png(struct samples_out *out, const struct png_kind *k,
                      const struct samples_picture *p)
{
    struct samples_bytes b = {0};
    char path[80];
    struct samples_entry e = {.part = SAMPLES_KINDS,
                              .path = path,
                              .kind = k->name,
                              .w = p->w,
                              .h = p->h};

    snprintf(path, sizeof(path), "kinds/%s.png", k->name);
    b.failed |= !samples_png_encode(&k->png, p, &b);
    return samples_out_add(out, &e, &b);
}

bool samples_make_kinds(struct samples_out *out, uint64_t seed)
{
    const struct kind base = {0};
    struct samples_picture shared;  // most kinds show the same picture
    bool ok = true;
    seed = samples_mix(seed, 0x6b696e64);
    if (!make_picture(&shared, &base, seed))
        return samples_cannot("kinds");
    for (size_t i = 0; ok && i < COUNT(kinds); i++) {
        const struct kind *k = &kinds[i];
        struct samples_picture own = {0};
        bool needs_own = k->w || k->content != CONTENT_SCENE;
        if (!samples_wanted(out, k->name))
            continue;
        if (needs_own && !make_picture(&own, k, seed))
            ok = samples_cannot(k->name);
        else
            ok = write_kind(out, k, needs_own ? &own : &shared);
        samples_picture_finish(&own);
    }
    for (size_t i = 0; ok && i < COUNT(png_kinds); i++) {
        if (samples_wanted(out, png_kinds[i].name))
            ok = write_png(out, &png_kinds[i], &shared);
    }
    samples_picture_finish(&shared);
    return ok;
}

void samples_print_kinds(void)
{
    for (size_t i = 0; i < COUNT(kinds); i++)
        puts(kinds[i].name);
    for (size_t i = 0; i < COUNT(png_kinds); i++)
        puts(png_kinds[i].name);
}
