// SPDX-License-Identifier: Apache-2.0
#include "scene.h"

#include <stdlib.h>
#include <string.h>

#include "noise.h"

// Colours are kept with 4 fraction bits until the sensor rounds them.
#define ONE 16
#define WHITE (255 * ONE)

enum shape { SHAPE_BALL, SHAPE_BOX };
enum pattern { PATTERN_PLAIN, PATTERN_STRIPES, PATTERN_SPOTS, PATTERN_WINDOWS };

struct theme {
    const char *name;
    int horizon[2];                // 1/100 of the height, range
    uint8_t sky[2][3];             // top, above the horizon
    uint8_t ground[2][3];          // below the horizon, bottom
    int cloud;                     // strength of clouds, 1/256
    struct samples_fractal grain;  // texture of the ground
    int ground_grain;              // its strength, levels per deviation
    int objects[2];                // how many
    int size[2];                   // half axis in 1/100 of the shorter side
    enum shape shape;
    enum pattern pattern;
    int wobble;        // how ragged outlines are, 1/256
    int object_grain;  // levels per deviation
    bool gloss;
    uint8_t colors[4][3];
};

// clang-format off
static const struct theme themes[SAMPLES_THEMES] = {
    { "pebbles", { 0, 0 }, { { 0 } },
      { { 92, 88, 84 }, { 70, 66, 60 } }, 0, { 60, 60, 9, 230 }, 20,
      { 70, 130 }, { 4, 15 }, SHAPE_BALL, PATTERN_SPOTS, 50, 11, false,
      { { 150, 142, 132 }, { 112, 104, 98 }, { 176, 158, 134 }, { 88, 92, 98 } } },
    { "fruit", { 0, 8 }, { { 58, 72, 40 }, { 70, 90, 44 } },
      { { 62, 84, 40 }, { 30, 44, 22 } }, 0, { 44, 30, 9, 235 }, 20,
      { 9, 24 }, { 10, 24 }, SHAPE_BALL, PATTERN_PLAIN, 18, 6, true,
      { { 196, 52, 36 }, { 222, 150, 42 }, { 150, 170, 50 }, { 172, 36, 60 } } },
    { "meadow", { 22, 45 }, { { 92, 138, 196 }, { 190, 208, 220 } },
      { { 104, 132, 62 }, { 66, 98, 34 } }, 220, { 12, 60, 8, 245 }, 20,
      { 30, 80 }, { 2, 6 }, SHAPE_BALL, PATTERN_STRIPES, 120, 11, false,
      { { 228, 222, 206 }, { 226, 190, 52 }, { 178, 72, 110 }, { 96, 120, 52 } } },
    { "shore", { 35, 55 }, { { 70, 118, 184 }, { 206, 206, 204 } },
      { { 72, 112, 128 }, { 150, 136, 108 } }, 256, { 90, 14, 8, 225 }, 18,
      { 10, 26 }, { 4, 15 }, SHAPE_BALL, PATTERN_PLAIN, 150, 16, false,
      { { 74, 66, 58 }, { 104, 96, 88 }, { 52, 52, 56 }, { 128, 112, 92 } } },
    { "street", { 30, 45 }, { { 138, 164, 196 }, { 208, 210, 212 } },
      { { 126, 122, 118 }, { 88, 86, 86 } }, 120, { 70, 24, 9, 225 }, 15,
      { 9, 18 }, { 9, 32 }, SHAPE_BOX, PATTERN_WINDOWS, 0, 9, false,
      { { 178, 120, 92 }, { 206, 190, 160 }, { 134, 128, 126 }, { 98, 112, 128 } } },
    { "boulders", { 0, 30 }, { { 118, 104, 88 }, { 96, 88, 80 } },
      { { 128, 112, 90 }, { 74, 66, 58 } }, 0, { 50, 30, 9, 235 }, 18,
      { 5, 12 }, { 18, 42 }, SHAPE_BALL, PATTERN_STRIPES, 80, 20, false,
      { { 190, 142, 88 }, { 226, 214, 196 }, { 92, 74, 60 }, { 150, 146, 142 } } },
};
// clang-format on

struct scene {
    const struct theme *theme;
    struct samples_rng rng;
    int w, h, horizon;
    int light[3];           // unit vector to the light, 1/256
    int16_t *fine, *grain;  // textures: of one kind everywhere, of the theme
    int16_t *px;            // 3 per pixel, in 1/ONE levels
    uint16_t root[1025];    // 1024 * sqrt(i / 1024)
};

const char *samples_theme_name(int theme)
{
    return themes[theme].name;
}

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static int mix(int a, int b, int t, int one)
{
    return a + (b - a) * t / one;
}

static void paint_sky(struct scene *s)
{
    for (int y = 0; y < s->horizon; y++) {
        const int16_t *fine = s->fine + (size_t)y * (size_t)s->w;
        int16_t *px = s->px + 3 * (size_t)y * (size_t)s->w;
        int base[3];
        for (int c = 0; c < 3; c++)
            base[c] = mix(s->theme->sky[0][c], s->theme->sky[1][c], y,
                          s->horizon) *
                      ONE;
        for (int x = 0; x < s->w; x++, px += 3) {
            int cloud = clamp(fine[x] - 60, 0, 400) * s->theme->cloud / 512;
            int shade = (fine[x] * (s->theme->cloud ? 3 : 24)) >> 4;
            for (int c = 0; c < 3; c++)
                px[c] = (int16_t)(shade + mix(base[c], 244 * ONE,
                                              clamp(cloud, 0, 230), 256));
        }
    }
}

static void paint_ground(struct scene *s)
{
    int depth = s->h - s->horizon;
    for (int y = s->horizon; y < s->h; y++) {
        const int16_t *grain = s->grain + (size_t)y * (size_t)s->w;
        const int16_t *fine = s->fine + (size_t)y * (size_t)s->w;
        int16_t *px = s->px + 3 * (size_t)y * (size_t)s->w;
        // Far texture is weaker, as haze makes it.
        int near = 128 + 128 * (y - s->horizon) / depth;
        int strength = s->theme->ground_grain * ONE * near >> 8, base[3];
        for (int c = 0; c < 3; c++)
            base[c] = mix(s->theme->ground[0][c], s->theme->ground[1][c],
                          y - s->horizon, depth) *
                      ONE;
        for (int x = 0; x < s->w; x++, px += 3) {
            int v = (grain[x] * strength >> 8) + (fine[x] * 5 * ONE >> 8);
            int tint = fine[s->w - 1 - x] * 5 * ONE >> 8;
            for (int c = 0; c < 3; c++)
                px[c] = (int16_t)(base[c] + v + (c - 1) * tint);
        }
    }
}

struct object {
    int x, y, a, b;        // centre and half axes, 1/16 pixel
    int64_t inv_a, inv_b;  // 4 / axis, 24 fraction bits
    int cos, sin;          // turn, 1/256
    int tex_x, tex_y;      // where it is cut from the texture
    int period;            // of the pattern, 1/1024 of the half axis
    uint8_t color[2][3];
};

// Position in a plane that is mirrored at its far border; p in 0 .. 2n-1.
static int fold(int p, int n)
{
    return p < n ? p : 2 * n - 1 - p;
}

static size_t texel(const struct scene *s, const struct object *o, int x, int y)
{
    return (size_t)fold(y + o->tex_y, s->h) * (size_t)s->w +
           (size_t)fold(x + o->tex_x, s->w);
}

// Coordinates in the object's frame: 1024 at the outline.
static void object_frame(const struct object *o, int x, int y, int *u, int *v)
{
    int64_t dx = x * 16 + 8 - o->x, dy = y * 16 + 8 - o->y;
    *u = (int)((dx * o->cos + dy * o->sin) * o->inv_a >> 24);
    *v = (int)((dy * o->cos - dx * o->sin) * o->inv_b >> 24);
}

// 0 in the middle, 1024 at the outline, more outside.
static int outline(enum shape shape, int u, int v)
{
    if (shape == SHAPE_BOX) {
        int m = abs(u) > abs(v) ? abs(u) : abs(v);
        return m >> 10 ? 1024 + (m - 1024) * 2 : (int)((uint32_t)(m * m) >> 10);
    }
    return (int)(((int64_t)u * u + (int64_t)v * v) >> 10);
}

static int pattern_at(const struct scene *s, const struct object *o, int u,
                      int v, int fine)
{
    int p;
    switch (s->theme->pattern) {
    case PATTERN_STRIPES:
        p = (u + fine + 16384) % o->period;
        return clamp(abs(2 * p - o->period) * 512 / o->period - 128, 0, 256);
    case PATTERN_SPOTS:
        return clamp((fine - 120) * 2, 0, 256);
    case PATTERN_WINDOWS:
        p = (u + 16384) % o->period * 4 / o->period;
        return (p == 1 || p == 2) && (v + 16384) % o->period * 2 < o->period &&
                       v > -900
                   ? 256
                   : 0;
    default:
        return clamp(fine + 80, 0, 256) / 2;
    }
}

// Light on the object: 256 = the colour as it is. A ball is lit by its
// surface normal (Lambert), a box like a wall.
static int shade_at(const struct scene *s, const struct object *o, int u, int v,
                    int f, int *shine)
{
    int nx, ny, nz, lambert;
    *shine = 0;
    if (s->theme->shape == SHAPE_BOX)
        return 236 + (u * s->light[0] >> 13) - v / 50;
    nx = (u * o->cos - v * o->sin) >> 8;
    ny = (u * o->sin + v * o->cos) >> 8;
    nz = s->root[clamp(1024 - f, 0, 1024)];
    lambert = (nx * s->light[0] + ny * s->light[1] + nz * s->light[2]) >> 8;
    if (s->theme->gloss && lambert > 985)
        *shine = (lambert - 985) * 4 * ONE;
    return 110 + clamp(lambert, -200, 1024) * 170 / 1024;
}

static void object_pixel(const struct scene *s, const struct object *o, int x,
                         int y)
{
    int16_t *px = s->px + 3 * ((size_t)y * (size_t)s->w + (size_t)x);
    int u, v, f, fine, alpha, shade, shine, pattern, grain;
    size_t t;
    object_frame(o, x, y, &u, &v);
    f = outline(s->theme->shape, u, v);
    if (f > 2048)
        return;
    t = texel(s, o, x, y);
    fine = s->fine[t];
    f += fine * s->theme->wobble >> 8;
    // The outline is as soft as a lens makes it: about 1.5 pixels.
    alpha = (int)clamp(128 + (int)((int64_t)(1024 - f) * (o->a + o->b) / 384),
                       0, 256);
    if (!alpha)
        return;
    shade = shade_at(s, o, u, v, f, &shine);
    pattern = pattern_at(s, o, u, v, fine);
    grain = (s->grain[t] + fine) * s->theme->object_grain * ONE >> 8;
    for (int c = 0; c < 3; c++) {
        int color = mix(o->color[0][c], o->color[1][c], pattern, 256) * ONE;
        color = (color + grain) * shade / 256 + shine;
        px[c] = (int16_t)mix(px[c], color, alpha, 256);
    }
}

static void shadow_pixel(const struct scene *s, const struct object *o, int x,
                         int y)
{
    int16_t *px = s->px + 3 * ((size_t)y * (size_t)s->w + (size_t)x);
    int u, v, dark;
    object_frame(o, x, y, &u, &v);
    dark = clamp(1536 - outline(s->theme->shape, u, v), 0, 1024) * 130 / 1024;
    for (int c = 0; c < 3; c++)
        px[c] = (int16_t)(px[c] * (256 - dark) / 256);
}

static void paint_object(const struct scene *s, struct object o, bool shadow)
{
    int reach = (o.a > o.b ? o.a : o.b) * 3 / 2 / 16 + 2;
    int shift = shadow ? (o.a < o.b ? o.a : o.b) / 4 : 0;
    o.x -= s->light[0] * shift / 256;
    o.y -= s->light[1] * shift / 256;
    for (int y = o.y / 16 - reach; y <= o.y / 16 + reach; y++) {
        for (int x = o.x / 16 - reach; x <= o.x / 16 + reach; x++) {
            if (x < 0 || y < 0 || x >= s->w || y >= s->h)
                continue;
            if (shadow)
                shadow_pixel(s, &o, x, y);
            else
                object_pixel(s, &o, x, y);
        }
    }
}

static void pick_colors(struct scene *s, struct object *o)
{
    const uint8_t *a = s->theme->colors[samples_pick(&s->rng, 0, 3)];
    const uint8_t *b = s->theme->colors[samples_pick(&s->rng, 0, 3)];
    int lift = samples_pick(&s->rng, -18, 18);
    bool windows = s->theme->pattern == PATTERN_WINDOWS;
    for (int c = 0; c < 3; c++) {
        o->color[0][c] = (uint8_t)clamp(a[c] + lift, 0, 255);
        o->color[1][c] = windows ? (uint8_t)(44 + 6 * c)
                                 : (uint8_t)mix(a[c], b[c], 3, 4);
    }
}

// Number i of n objects. Far ones first and smaller, so near ones hide them.
static void add_object(struct scene *s, int i, int n)
{
    int side = s->w < s->h ? s->w : s->h;
    int size = samples_pick(&s->rng, s->theme->size[0], s->theme->size[1]);
    int top = s->horizon ? s->horizon : -side / 10;
    struct object o;
    o.a = size * side * 16 / 100 * (60 + 40 * i / n) / 100 + 24;
    o.b = o.a * samples_pick(&s->rng, 55, 110) / 100 + 8;
    o.x = samples_pick(&s->rng, 0, s->w) * 16;
    o.y = (top + (s->h - top) * i / n) * 16;
    o.sin = samples_pick(&s->rng, -180, 180);
    if (s->theme->shape == SHAPE_BOX) {  // houses stand upright
        o.b = o.a * samples_pick(&s->rng, 80, 220) / 100;
        o.y -= o.b / 2;
        o.sin = samples_pick(&s->rng, -4, 4);
    }
    o.cos = (int)samples_root((uint32_t)(65536 - o.sin * o.sin));
    o.inv_a = (INT64_C(4) << 24) / o.a;
    o.inv_b = (INT64_C(4) << 24) / o.b;
    o.tex_x = samples_pick(&s->rng, 0, s->w - 1);
    o.tex_y = samples_pick(&s->rng, 0, s->h - 1);
    o.period = samples_pick(&s->rng, 220, 520);
    pick_colors(s, &o);
    paint_object(s, o, true);
    paint_object(s, o, false);
}

// Adds the faults of lens and sensor: dark corners, and noise that grows with
// the light and is shared by neighbours, as if a colour mosaic had been
// interpolated.
static void expose(struct scene *s, struct samples_picture *p)
{
    uint64_t key = samples_mix(s->rng.key, s->rng.next++);
    int iso = samples_pick(&s->rng, 5, 16);
    int reach = (s->w * s->w + s->h * s->h) / 4 + 1;
    for (int y = 0; y < s->h; y++) {
        const int16_t *px = s->px + 3 * (size_t)y * (size_t)s->w;
        uint8_t *rgb = p->rgb + 3 * (size_t)y * (size_t)s->w;
        int before[3] = {0, 0, 0}, dy = y - s->h / 2;
        for (int x = 0; x < s->w; x++, px += 3, rgb += 3) {
            uint64_t r = samples_mix(key, (uint64_t)y << 32 | (uint32_t)x);
            int dx = x - s->w / 2;
            int gain = 256 - (int)((int64_t)(dx * dx + dy * dy) * 44 / reach);
            int luma = (int)((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) +
                             (r >> 24 & 255)) -
                       510;
            for (int c = 0; c < 3; c++) {
                int n = luma + (int)(r >> (32 + 8 * c) & 255) - 128;
                int v = px[c] * gain >> 8;
                int grain = (n * 2 + before[c]) * iso >> 8;
                before[c] = n;
                v += grain * (clamp(v, 0, WHITE) + 1600) / 4096;
                rgb[c] = (uint8_t)(clamp(v + ONE / 2, 0, WHITE) / ONE);
            }
        }
    }
}

static bool picture_init(struct samples_picture *p, int w, int h)
{
    *p = (struct samples_picture){.w = w, .h = h};
    p->rgb = malloc(3 * (size_t)w * (size_t)h);
    return p->rgb != NULL;
}

bool samples_scene_make(struct samples_picture *p, int w, int h, int theme,
                        uint64_t seed)
{
    struct scene s = {.theme = &themes[theme], .rng = {.key = seed}};
    const int coarse = (w > h ? w : h) / 2 + 2;
    const struct samples_fractal fine = {coarse, coarse, 10, 225};
    bool ok = false;
    s.w = w;
    s.h = h;
    for (uint32_t i = 0; i <= 1024; i++)
        s.root[i] = (uint16_t)samples_root(i << 10);
    s.horizon = h *
                samples_pick(&s.rng, s.theme->horizon[0], s.theme->horizon[1]) /
                100;
    s.light[0] = samples_pick(&s.rng, -150, 150);
    s.light[1] = -120;
    s.light[2] = (int)samples_root(
        (uint32_t)(65536 - 120 * 120 - s.light[0] * s.light[0]));
    s.fine = samples_fractal_make(&fine, w, h, samples_mix(seed, 1u << 30));
    s.grain = samples_fractal_make(&s.theme->grain, w, h,
                                   samples_mix(seed, 2u << 30));
    s.px = malloc(3 * (size_t)w * (size_t)h * sizeof(*s.px));
    if (s.fine && s.grain && s.px && picture_init(p, w, h)) {
        int n = samples_pick(&s.rng, s.theme->objects[0], s.theme->objects[1]);
        paint_sky(&s);
        paint_ground(&s);
        for (int i = 0; i < n; i++)
            add_object(&s, i, n);
        expose(&s, p);
        ok = true;
    }
    free(s.fine);
    free(s.grain);
    free(s.px);
    return ok;
}

bool samples_harsh_make(struct samples_picture *p, int w, int h, uint64_t seed)
{
    if (!picture_init(p, w, h))
        return false;
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            // Each 32 x 32 patch has its own grain: 1, 2, 4 or 8 pixels.
            uint64_t patch = (uint64_t)(y / 32) << 32 | (uint32_t)(x / 32);
            int grain = (int)(samples_mix(seed, patch) & 3);
            uint64_t cell = (uint64_t)(y >> grain) << 32 |
                            (uint32_t)(x >> grain);
            uint64_t r = samples_mix(seed + 1 + (uint64_t)grain, cell);
            uint8_t *rgb = p->rgb + 3 * ((size_t)y * (size_t)w + (size_t)x);
            for (int c = 0; c < 3; c++)
                rgb[c] = r >> c & 1 ? 255 : 0;
        }
    }
    return true;
}

void samples_mark(struct samples_picture *p)
{
    static const uint8_t rows[9] = {
        // F in 7 x 9 cells; 2 = rim
        0x7f, 0x7f, 0x60, 0x60, 0x7c, 0x7c, 0x60, 0x60, 0x60,
    };
    int side = p->w < p->h ? p->w : p->h, cell = side / 12 + 1;
    int rim = cell / 3 + 1;
    for (int y = 0; y < p->h; y++) {
        for (int x = 0; x < p->w; x++) {
            uint8_t *rgb = p->rgb + 3 * ((size_t)y * (size_t)p->w + (size_t)x);
            bool on = false, near = false;
            for (int dy = -rim; dy <= rim; dy += rim) {
                for (int dx = -rim; dx <= rim; dx += rim) {
                    int col = (x + dx) / cell - 1, row = (y + dy) / cell - 1;
                    bool in = col >= 0 && col < 7 && row >= 0 && row < 9 &&
                              (rows[row] >> (6 - col) & 1);
                    near = near || in;
                    on = on || (in && !dx && !dy);
                }
            }
            if (near)
                memset(rgb, on ? 250 : 20, 3);
        }
    }
}

void samples_picture_finish(struct samples_picture *p)
{
    free(p->rgb);
    p->rgb = NULL;
}
