// SPDX-License-Identifier: Apache-2.0
// headrace samples: writes test pictures of every kind, the same bytes for the
// same seed.
#include "samples.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jpeg.h"
#include "kinds.h"
#include "noise.h"
#include "tools/common/options.h"
#include "tools/common/tools.h"

#define MAX_SIDE 16384
#define MAX_PIXELS 100000000
#define MAX_COUNT 1000000

struct wishes {
    const char *kinds, *size;
    int count;
    bool photos_only, json, list;
    uint64_t seed;
    int w, h;  // 0 = of each photo its own
};

enum coding {
    CODING_444,
    CODING_420,
    CODING_422,
    CODING_440,
    CODING_GRAY,
    CODINGS
};

static const struct {
    const char *kind;
    enum samples_color color;
    unsigned sampling;
} codings[CODINGS] = {
    [CODING_444] = {"photo-444", SAMPLES_YCC, 0x11},
    [CODING_420] = {"photo-420", SAMPLES_YCC, 0x22},
    [CODING_422] = {"photo-422", SAMPLES_YCC, 0x21},
    [CODING_440] = {"photo-440", SAMPLES_YCC, 0x12},
    [CODING_GRAY] = {"photo-gray", SAMPLES_GRAY, 0x11},
};

// 13 of 16 photos are 4:4:4, as in ImageNet; the rare codings take turns.
static enum coding coding_of(int i)
{
    static const enum coding rare[] = {CODING_422, CODING_GRAY, CODING_440};
    if (i % 16 == 3 || i % 16 == 11)
        return CODING_420;
    return i % 16 == 7 ? rare[i / 16 % 3] : CODING_444;
}

static int quality_of(enum coding coding, struct samples_rng *rng)
{
    static const uint8_t fine[] = {95, 96, 95, 96, 95, 96, 96, 92};
    static const uint8_t mixed[] = {75, 80, 85, 88, 90, 92, 94, 95};
    return (coding == CODING_444 ? fine : mixed)[samples_pick(rng, 0, 7)];
}

static void size_of(const struct wishes *o, struct samples_rng *rng, int *w,
                    int *h)
{
    static const uint16_t sizes[][2] = {
        {500, 375}, {500, 375}, {500, 375}, {500, 375}, {500, 375}, {375, 500},
        {375, 500}, {375, 500}, {500, 333}, {333, 500}, {320, 240}, {640, 480},
        {800, 600}, {499, 371}, {417, 313}, {500, 500},
    };
    int i = samples_pick(rng, 0, 15);
    *w = o->w ? o->w : sizes[i][0];
    *h = o->h ? o->h : sizes[i][1];
}

static bool make_photo(struct samples_out *out, const struct wishes *o, int i)
{
    struct samples_rng rng = {.key = samples_mix(o->seed, (uint64_t)i)};
    enum coding coding = coding_of(i);
    const char *theme = samples_theme_name(i % SAMPLES_THEMES);
    struct samples_jpeg params = {.color = codings[coding].color,
                                  .sampling = codings[coding].sampling};
    struct samples_picture p;
    struct samples_bytes b = {0};
    char path[80];
    struct samples_entry e = {.part = SAMPLES_PHOTOS,
                              .path = path,
                              .kind = codings[coding].kind};
    bool ok;
    snprintf(path, sizeof(path), "photos/%s/%s-%05d.jpg", theme, theme, i);
    size_of(o, &rng, &e.w, &e.h);
    params.quality = quality_of(coding, &rng);
    ok = samples_scene_make(&p, e.w, e.h, i % SAMPLES_THEMES,
                            samples_mix(rng.key, 0x70686f));
    if (ok) {
        ok = samples_jpeg_encode(&params, &p, &b);
        samples_picture_finish(&p);
    }
    if (ok)
        return samples_out_add(out, &e, &b);
    samples_bytes_finish(&b);
    return tools_warn("samples: cannot make %s", path);
}

static bool make_all(struct samples_out *out, const struct wishes *o)
{
    const char *unused;
    int len;
    for (int i = 0; i < o->count; i++) {
        if (!make_photo(out, o, i))
            return false;
    }
    if (!o->photos_only && (!samples_make_kinds(out, o->seed) ||
                            !samples_make_damage(out, o->seed)))
        return false;
    if ((unused = samples_out_unused(out, &len)) && !o->photos_only)
        return tools_warn("samples: no kind is named \"%.*s\"; see --list", len,
                          unused);
    return samples_out_listing(out);
}

static bool print_summary(const struct samples_out *out, const struct wishes *o)
{
    const int *n = out->count;
    json_t *summary;
    if (!o->json) {
        printf("%d photos, %d kinds, %d damaged in %s\n", n[SAMPLES_PHOTOS],
               n[SAMPLES_KINDS], n[SAMPLES_BAD], out->dir);
        return true;
    }
    // Jansson has no unsigned 64-bit numbers: the seed is text.
    // Nor has it text that is not UTF-8: a folder of such a name is left out.
    summary = json_pack("{s:o*, s:s, s:o, s:i, s:i, s:i, s:I}", "dir",
                        json_string(out->dir), "listing", "samples.json",
                        "seed", json_sprintf("%" PRIu64, o->seed), "photos",
                        n[SAMPLES_PHOTOS], "kinds", n[SAMPLES_KINDS], "damaged",
                        n[SAMPLES_BAD], "bytes", (json_int_t)out->bytes);
    if (!summary)
        return tools_warn("samples: the summary cannot be printed as JSON");
    json_dumpf(summary, stdout, JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(summary);
    return true;
}

static bool parse_size(const char *text, int *w, int *h)
{
    char *end;
    unsigned long across, down;
    if (*text < '0' || *text > '9')
        return false;
    across = strtoul(text, &end, 10);
    if (*end != 'x' || end[1] < '0' || end[1] > '9')
        return false;
    down = strtoul(end + 1, &end, 10);
    if (*end || !across || !down || across > MAX_SIDE || down > MAX_SIDE ||
        across * down > MAX_PIXELS)
        return false;
    *w = (int)across;
    *h = (int)down;
    return true;
}

static bool check_options(struct wishes *o)
{
    if (o->size && !parse_size(o->size, &o->w, &o->h))
        return !options_fail("samples",
                             "--size: '%s' is not WxH, with sides up to %d and "
                             "at most %d pixels",
                             o->size, MAX_SIDE, MAX_PIXELS);
    if (o->kinds && o->photos_only)
        return !options_fail("samples",
                             "--kinds and --photos-only exclude each other");
    return true;
}

static int run(struct wishes *o, const char *dir)
{
    const char *kinds = o->kinds && strcmp(o->kinds, "all") ? o->kinds : NULL;
    struct samples_out out;
    bool ok;
    if (o->list) {
        samples_print_kinds();
        samples_print_damage();
        return tools_flush_stdout();
    }
    if (!dir || !*dir)
        return options_fail("samples",
                            "name a folder (see headrace samples --help)");
    ok = samples_out_init(&out, dir, kinds) && make_all(&out, o) &&
         print_summary(&out, o);
    samples_out_finish(&out);
    return ok ? tools_flush_stdout() : TOOLS_CANNOT;
}

static const char usage[] =
    "DIR [OPTION...]\n"
    "\n"
    "Writes test pictures into DIR: photos/CLASS/ with photo-like JPEGs,\n"
    "kinds/ with every kind of JPEG and PNG, bad/ with damaged and hostile\n"
    "files, and samples.json, which lists them and says what must become of\n"
    "each. The same seed gives the same bytes. Other files in DIR are left\n"
    "alone.\n";

static const char example[] =
    "\nExample: a hundred photos and one of each kind\n"
    "  headrace samples --seed 7 --count 100 /tmp/pictures\n";

static int act(struct wishes *o, struct options *line)
{
    const char *dir = poptGetArg(line->con);

    if (dir && poptPeekArg(line->con))
        return options_fail("samples", "'%s' was not expected",
                            poptPeekArg(line->con));
    return check_options(o) ? run(o, dir) : TOOLS_CANNOT;
}

#define AT(field) offsetof(struct wishes, field)
static const struct option table[] = {
    {"seed", OPTION_SEED, AT(seed), "seed of the random numbers [1]", "N",
     .letter = 's'},
    {"count", OPTION_INT, AT(count), "number of photos [48]", "N",
     .max = MAX_COUNT, .letter = 'n'},
    {"kinds", OPTION_TEXT, AT(kinds),
     "kinds to write besides the photos: names or first parts of names, "
     "such as progressive,bad-truncated [all]",
     "LIST|all", .letter = 'k'},
    {"size", OPTION_TEXT, AT(size), "size of every photo [as in ImageNet]",
     .arg = "WxH"},
    {"photos-only", OPTION_FLAG, AT(photos_only),
     .what = "leave kinds/ and bad/ out"},
    {"list", OPTION_FLAG, AT(list),
     .what = "print the names of all kinds and write nothing"},
    {"json", OPTION_FLAG, AT(json), .what = "print the summary as JSON"},
    {0},
};
#undef AT

int cmd_samples(int argc, char **argv)
{
    struct wishes o = {.seed = 1, .count = 48};
    struct options line = {"samples", usage, .example = example};
    int code = options_parse(&line, table, &o, argc, argv);

    if (!code && !line.done)
        code = act(&o, &line);
    options_finish(&line);
    return code;
}
