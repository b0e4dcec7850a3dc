// SPDX-License-Identifier: Apache-2.0
#include "coef_reference.h"

#include <stdlib.h>
#include <string.h>

// ---- The packed form ------------------------------------------------------

// A segment in its parts, and the part that is read next.
struct segment {
    const uint8_t *d, *rows, *len;
    const uint8_t *escape, *payload, *end;
};

static struct segment segment_of(const struct hr__coefficients *c,
                                 const struct hr__coef_component *p, uint32_t y)
{
    const uint32_t *offset = &c->offset[p->first + y];
    const uint8_t *at = (const uint8_t *)c + offset[0];
    size_t n = p->blocks_w, escapes = (size_t)(at[0] | at[1] << 8);

    return (struct segment){.d = at + 2,
                            .rows = at + 2 + n,
                            .len = at + 2 + 2 * n,
                            .escape = at + 2 + 3 * n,
                            .payload = at + 2 + 3 * n + 2 * escapes,
                            .end = (const uint8_t *)c + offset[1]};
}

// Reads a payload; how many bytes it has, -1: more than there are.
static int unpack(const uint8_t *at, const uint8_t *end, uint8_t rows,
                  int16_t out[64])
{
    const uint8_t *p = at, *nibbles;
    int n = 0, bytes = 0, of[64];

    memset(out, 0, 64 * sizeof(*out));
    for (int r = 0; r < 8; r++) {
        if (!(rows >> r & 1))
            continue;
        if (p == end)
            return -1;
        for (int i = 0; i < 8; i++)
            if (*p >> i & 1)
                of[n++] = 8 * r + i;
        p++;
    }
    nibbles = p;
    p += (n + 1) / 2;
    if (p > end)
        return -1;
    for (int i = 0; i < n; i++) {
        int v = nibbles[i / 2] >> i % 2 * 4 & 15;

        out[of[i]] = (int16_t)(v < 8 ? v : v - 16);
        if (!v)
            of[bytes++] = of[i];
    }
    if (end - p < bytes)
        return -1;
    for (int i = 0; i < bytes; i++)
        out[of[i]] = (int8_t)*p++;
    for (int i = 0; i < bytes; i++)
        if (!out[of[i]]) {
            if (end - p < 2)
                return -1;
            out[of[i]] = (int16_t)(p[0] | p[1] << 8);
            p += 2;
        }
    return (int)(p - at);
}

// Every byte of a segment is used, and what its blocks say of themselves holds.
static const char *check_segment(const struct hr__coefficients *c,
                                 const struct hr__coef_component *p, uint32_t y)
{
    struct segment s = segment_of(c, p, y);
    size_t escapes = 0;
    int16_t coef[64];

    if (s.payload > s.end)
        return "a segment ends before its payloads";
    for (uint32_t x = 0; x < p->blocks_w; x++) {
        int n = unpack(s.payload, s.end, s.rows[x], coef), rows = 0;

        for (int i = 0; i < 64; i++)
            rows |= (coef[i] != 0) << i / 8;
        if (n != s.len[x])
            return "length of a payload";
        if (rows != s.rows[x] || coef[0])
            return "rows of a block";
        escapes += s.d[x] == 0x80;
        s.payload += n;
    }
    if (s.escape + 2 * escapes != segment_of(c, p, y).payload)
        return "escapes of a segment";
    return s.payload == s.end ? NULL : "bytes that no block has";
}

static const char *check_segments(const struct hr__coefficients *c)
{
    const char *wrong;

    for (uint32_t i = 0; i < c->num_components; i++)
        for (uint32_t y = 0; y < c->comp[i].blocks_h; y++)
            if ((wrong = check_segment(c, &c->comp[i], y)))
                return wrong;
    return NULL;
}

static const char *check_components(const struct hr__coefficients *c)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < c->num_components; i++) {
        const struct hr__coef_component *p = &c->comp[i];

        if (!p->h || !p->v || c->h_max % p->h || c->v_max % p->v)
            return "sampling factors";
        if (p->first != first)
            return "segments of a component";
        if (!p->blocks_w || !p->blocks_h ||
            p->block_x + p->blocks_w > (p->width + 7) / 8 ||
            p->block_y + p->blocks_h > (p->height + 7) / 8)
            return "blocks outside the component";
        first += p->blocks_h;
    }
    return first == c->segments ? NULL : "number of segments";
}

const char *coef_reference_check(const void *data, size_t size)
{
    const struct hr__coefficients *c = data;
    const char *wrong;
    size_t at;

    if (size < sizeof(*c) || c->magic != HR__COEF_MAGIC)
        return "no header";
    if (c->num_components != (c->color == HR_COLOR_GRAY ? 1 : 3))
        return "number of components";
    if (c->color != HR_COLOR_GRAY && c->color != HR_COLOR_YCC &&
        c->color != HR_COLOR_RGB)
        return "colour";
    at = sizeof(*c) + (c->segments + 1) * sizeof(c->offset[0]);
    if (at > size || c->offset[0] != at || c->offset[c->segments] != size)
        return "places";
    for (uint32_t i = 0; i < c->segments; i++)
        if (c->offset[i] > c->offset[i + 1] || c->offset[i + 1] > size)
            return "offsets";
    if ((wrong = check_components(c)))
        return wrong;
    return check_segments(c);
}

bool coef_reference_block(const struct hr__coefficients *c, int comp,
                          uint32_t x, uint32_t y, int16_t out[64])
{
    const struct hr__coef_component *p = &c->comp[comp];
    struct segment s;
    int dc = 0;

    // Blocks left of or above the first wrap around.
    x -= p->block_x;
    y -= p->block_y;
    if (x >= p->blocks_w || y >= p->blocks_h)
        return false;
    s = segment_of(c, p, y);
    for (uint32_t i = 0; i <= x; i++) {
        if (s.d[i] == 0x80) {
            dc += s.escape[0] | s.escape[1] << 8;
            s.escape += 2;
        } else {
            dc += (int8_t)s.d[i];
        }
        s.payload += i < x ? s.len[i] : 0;
    }
    if (unpack(s.payload, s.end, s.rows[x], out) < 0)
        return false;
    out[0] = (int16_t)dc;
    return true;
}

// ---- Reconstruct ----------------------------------------------------------

static int32_t wrap16(int32_t v)
{
    return (int16_t)(uint32_t)v;
}

static int32_t saturate16(int32_t v)
{
    return v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : v;
}

// Products and sums of 32 bits wrap in the SIMD code; unsigned, to be defined.
static int32_t mul_add(int32_t a, int32_t x, int32_t b, int32_t y)
{
    return (int32_t)((uint32_t)a * (uint32_t)x + (uint32_t)b * (uint32_t)y);
}

static int32_t add(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int32_t sub(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static int32_t descale(int32_t v, int shift)
{
    return add(v, 1 << (shift - 1)) >> shift;
}

// One row or column; constants as in jidctint.c (CONST_BITS 13), products
// grouped as its SIMD sisters do.
static void transform(int32_t *v, int step, int shift)
{
    int32_t x0 = v[0], x1 = v[step], x2 = v[2 * step], x3 = v[3 * step];
    int32_t x4 = v[4 * step], x5 = v[5 * step], x6 = v[6 * step];
    int32_t x7 = v[7 * step];
    int32_t t0 = mul_add(wrap16(add(x0, x4)), 8192, 0, 0);
    int32_t t1 = mul_add(wrap16(sub(x0, x4)), 8192, 0, 0);
    int32_t t2 = mul_add(x2, 4433, x6, 4433 - 15137);
    int32_t t3 = mul_add(x6, 4433, x2, 4433 + 6270);
    int32_t a[4] = {add(t0, t3), add(t1, t2), sub(t1, t2), sub(t0, t3)};
    int32_t u = wrap16(add(x7, x3)), w = wrap16(add(x5, x1));
    int32_t z3 = mul_add(u, 9633 - 16069, w, 9633);
    int32_t z4 = mul_add(u, 9633, w, 9633 - 3196);
    int32_t b[4] = {
        add(mul_add(x7, -7373, x1, 12299 - 7373), z4),
        add(mul_add(x5, -20995, x3, 25172 - 20995), z3),
        add(mul_add(x5, 16819 - 20995, x3, -20995), z4),
        add(mul_add(x7, 2446 - 7373, x1, -7373), z3),
    };

    for (int i = 0; i < 4; i++) {
        v[i * step] = descale(add(a[i], b[i]), shift);
        v[(7 - i) * step] = descale(sub(a[i], b[i]), shift);
    }
}

static bool only_first_row(const int16_t coef[64])
{
    for (int i = 8; i < 64; i++)
        if (coef[i])
            return false;
    return true;
}

// Dequantise and inverse DCT of one block to 8 rows of 8 samples, with the
// 16-bit wraps and saturations of libjpeg-turbo's x86 code (jidctint-sse2.asm,
// jidctint-avx2.asm).
static void idct(const int16_t coef[64], const uint16_t quant[64],
                 uint8_t out[64])
{
    // The SIMD code has a way of its own for this; it wraps.
    bool first = only_first_row(coef);
    int32_t v[64];

    for (int i = 0; i < 64; i++)
        v[i] = wrap16(mul_add(coef[i], quant[i], 0, 0));
    for (int x = 0; x < 8; x++) {
        int32_t dc = wrap16(mul_add(v[x], 4, 0, 0));

        if (!first)
            transform(v + x, 8, 11);
        for (int y = 0; y < 8; y++)
            v[8 * y + x] = first ? dc : saturate16(v[8 * y + x]);
    }
    for (int y = 0; y < 8; y++)
        transform(v + 8 * y, 1, 18);
    for (int i = 0; i < 64; i++)
        out[i] = (uint8_t)((v[i] < -128  ? -128
                            : v[i] > 127 ? 127
                                         : v[i]) +
                           128);
}

// ---- Color ----------------------------------------------------------------

// The samples of the blocks of one component that are there.
struct plane {
    const struct hr__coef_component *comp;
    uint32_t ratio_x, ratio_y;
    uint8_t *samples;
    bool missing;  // a sample was asked for that is not there
};

static bool plane_make(struct plane *p, const struct hr__coefficients *c, int i)
{
    const struct hr__coef_component *comp = &c->comp[i];
    size_t stride = (size_t)comp->blocks_w * 8;
    int16_t coef[64];
    uint8_t out[64];

    p->comp = comp;
    p->ratio_x = c->h_max / comp->h;
    p->ratio_y = c->v_max / comp->v;
    if (!(p->samples = malloc(stride * comp->blocks_h * 8)))
        return false;
    for (uint32_t y = 0; y < comp->blocks_h; y++)
        for (uint32_t x = 0; x < comp->blocks_w; x++) {
            if (!coef_reference_block(c, i, comp->block_x + x,
                                      comp->block_y + y, coef))
                return false;
            idct(coef, comp->quant, out);
            for (uint32_t k = 0; k < 8; k++)
                memcpy(p->samples + (8 * y + k) * stride + 8 * x, out + 8 * k,
                       8);
        }
    return true;
}

// Neighbours are clamped to the component, not to its blocks: jdmainct.c and
// jdsample.c repeat the last real row and treat the last real column apart.
static int sample(struct plane *p, int x, int y)
{
    const struct hr__coef_component *c = p->comp;
    int w = (int)c->width, h = (int)c->height;
    uint32_t at_x, at_y;

    at_x = (uint32_t)(x < 0 ? 0 : x < w ? x : w - 1) - c->block_x * 8;
    at_y = (uint32_t)(y < 0 ? 0 : y < h ? y : h - 1) - c->block_y * 8;
    if (at_x >= c->blocks_w * 8 || at_y >= c->blocks_h * 8) {
        p->missing = true;
        return 0;
    }
    return p->samples[(size_t)at_y * c->blocks_w * 8 + at_x];
}

// jdsample.c; jinit_upsampler() selects the method.
static int upsample(struct plane *p, int x, int y)
{
    int i = x / (int)p->ratio_x, j = y / (int)p->ratio_y;
    int ni = x & 1 ? i + 1 : i - 1, nj = y & 1 ? j + 1 : j - 1;
    bool wide = p->comp->width > 2;

    if (p->ratio_x == 2 && p->ratio_y == 1 && wide)
        return (3 * sample(p, i, j) + sample(p, ni, j) + (x & 1 ? 2 : 1)) >> 2;
    if (p->ratio_x == 1 && p->ratio_y == 2)
        return (3 * sample(p, i, j) + sample(p, i, nj) + (y & 1 ? 2 : 1)) >> 2;
    if (p->ratio_x == 2 && p->ratio_y == 2 && wide)
        return (3 * (3 * sample(p, i, j) + sample(p, i, nj)) +
                3 * sample(p, ni, j) + sample(p, ni, nj) + (x & 1 ? 7 : 8)) >>
               4;
    return sample(p, i, j);
}

static uint8_t clamp(int v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

// jdcolor.c, ycc_rgb_convert; and Pillow's convert("L"), Convert.c rgb2l.
static void color(enum hr_color from, const int s[3], int channels,
                  uint8_t *out)
{
    int cb = s[1] - 128, cr = s[2] - 128;
    uint8_t rgb[3] = {(uint8_t)s[0], (uint8_t)s[1], (uint8_t)s[2]};

    if (from == HR_COLOR_GRAY) {
        memset(out, s[0], (size_t)channels);
        return;
    }
    if (from == HR_COLOR_YCC) {
        rgb[0] = clamp(s[0] + ((91881 * cr + 32768) >> 16));
        rgb[1] = clamp(s[0] + ((-22554 * cb - 46802 * cr + 32768) >> 16));
        rgb[2] = clamp(s[0] + ((116130 * cb + 32768) >> 16));
    }
    if (channels == 3)
        memcpy(out, rgb, 3);
    else
        out[0] = (uint8_t)((19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] +
                            32768) >>
                           16);
}

bool coef_reference_window(const struct hr__coefficients *c, int channels,
                           uint8_t *out)
{
    struct plane planes[3] = {{0}};
    int n = (int)c->num_components, s[3] = {0};
    bool ok = true;

    for (int i = 0; i < n; i++)
        ok = plane_make(&planes[i], c, i) && ok;
    for (uint32_t y = c->y; ok && y < c->y + c->h; y++)
        for (uint32_t x = c->x; x < c->x + c->w; x++, out += channels) {
            for (int i = 0; i < n; i++)
                s[i] = upsample(&planes[i], (int)x, (int)y);
            color((enum hr_color)c->color, s, channels, out);
        }
    for (int i = 0; i < n; i++) {
        ok = ok && !planes[i].missing;
        free(planes[i].samples);
    }
    return ok;
}
