// SPDX-License-Identifier: Apache-2.0
// BMP and PNM: every window of every coding has the pixels that were written,
// and damage is found. test_formats.py compares with Pillow.
#include <math.h>

#include "decode_run.h"
#include "header_bytes.h"

static void add_le(struct growing *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        add_bytes(b, (uint8_t)(v >> 8 * i));
}

// A picture of a form: its file, and its pixels.
struct made {
    struct growing file;
    struct plain full;
    size_t end;  // of the pixels
};

static void begin(struct made *m)
{
    int w = 1 + random_below(&dt_seed, 40), h = 1 + random_below(&dt_seed, 20);

    *m = (struct made){.full = {.w = w, .h = h}};
    m->full.rgb = malloc((size_t)w * (size_t)h * 3);
    m->full.gray = malloc((size_t)w * (size_t)h);
}

static void end(struct made *m)
{
    drop(&m->file);
    plain_free(&m->full);
}

static uint8_t *pixel(struct made *m, int x, int y)
{
    return m->full.rgb + 3 * ((size_t)y * (size_t)m->full.w + (size_t)x);
}

// ---- BMP -------------------------------------------------------------------

enum { RLE8 = 1, RLE4, MASKS };

static const struct form {
    int bits, compression;
    uint32_t mask[4];
} forms[] = {
    {.bits = 1},
    {.bits = 4},
    {.bits = 8},
    {.bits = 16},
    {.bits = 24},
    {.bits = 32},
    {8, RLE8, {0}},
    {4, RLE4, {0}},
    {16, MASKS, {0xF800, 0x7E0, 0x1F}},
    {16, MASKS, {0x7C00, 0x3E0, 0x1F}},
    {24, MASKS, {0xFF0000, 0xFF00, 0xFF}},
    {32, MASKS, {0xFF0000, 0xFF00, 0xFF}},
    {32, MASKS, {0xFF000000, 0xFF0000, 0xFF00}},
    {32, MASKS, {0xFF000000, 0xFF00, 0xFF}},
    {32, MASKS, {0xFF000000, 0xFF0000, 0xFF00, 0xFF}},
    {32, MASKS, {0xFF, 0xFF00, 0xFF0000, 0xFF000000}},
    {32, MASKS, {0xFF0000, 0xFF00, 0xFF, 0xFF000000}},
    {32, MASKS, {0xFF000000, 0xFF00, 0xFF, 0xFF0000}},
};
enum { FORMS = sizeof(forms) / sizeof(*forms) };

// A sample of the bits that mask covers, as eight bits.
static uint8_t masked(uint32_t v, uint32_t mask)
{
    while (!(mask & 1)) {
        mask >>= 1;
        v >>= 1;
    }
    return (uint8_t)((v & mask) * 255 / mask);
}

static void add_headers(struct made *m, const struct form *f, bool down,
                        const uint8_t palette[256][4])
{
    static const uint8_t longer[] = {56, 108, 124};
    int colors = f->bits <= 8 ? 1 << f->bits : 0;
    bool with_masks = f->compression == MASKS;
    size_t size = with_masks && f->mask[3] ? longer[random_below(&dt_seed, 3)]
                                           : 40;
    bool old = !f->compression && !down && random_below(&dt_seed, 3) == 0;
    struct growing *b = &m->file;

    size = old ? 12 : size;
    add(b, "BM", 2);
    add_le(b, 0, 8);
    add_le(b,
           (uint32_t)(14 + size + (with_masks && size == 40 ? 12 : 0)) +
               (uint32_t)(colors * (old ? 3 : 4)),
           4);
    add_le(b, (uint32_t)size, 4);
    add_le(b, (uint32_t)m->full.w, old ? 2 : 4);
    add_le(b, (uint32_t)(down ? -m->full.h : m->full.h), old ? 2 : 4);
    add_le(b, 1, 2);
    add_le(b, (uint32_t)f->bits, 2);
    if (!old) {
        add_le(b, (uint32_t)f->compression, 4);
        add_le(b, 0, 4);
        add_le(b, 7, 4);
        add_le(b, 7, 4);
        add_le(b, 0, 4);
        add_le(b, 0, 4);
        for (int i = 0; i < (size > 40 ? 4 : 3) && with_masks; i++)
            add_le(b, f->mask[i], 4);
        while (b->n < 14 + size)
            add_bytes(b, 0);
    }
    for (int i = 0; i < colors; i++)
        add(b, palette[i], old ? 3 : 4);
}

// A row of indices in runs, literal pixels and jumps.
static void add_runs(struct growing *b, const uint8_t *index, int w, bool rle4)
{
    for (int x = 0, n; x < w; x += n) {
        n = 1;
        if (random_below(&dt_seed, 2) && w - x >= 3) {
            n = 3 + random_below(&dt_seed, w - x - 2);
            add_bytes(b, 0, (uint8_t)n);
            for (int i = 0; i < n; i += 1 + rle4) {
                int low = i + 1 < n ? index[x + i + 1] : 0;

                add_bytes(b, (uint8_t)(rle4 ? index[x + i] << 4 | low
                                            : index[x + i]));
            }
            if (b->n % 2)
                add_bytes(b, 0xEE);
            continue;
        }
        while (x + n < w && index[x + n] == index[x])
            n++;
        if (!index[x] && random_below(&dt_seed, 2))
            add_bytes(b, 0, 2, (uint8_t)n, 0);
        else  // a run that is too long ends at the row's end
            add_bytes(b, (uint8_t)(x + n == w ? n + w % 3 : n),
                      (uint8_t)(index[x] * (rle4 ? 17 : 1)));
    }
    add_bytes(b, 0, 0);
}

static uint32_t draw_pixel(struct made *m, const struct form *f,
                           const uint8_t palette[256][4], int x, int y)
{
    static const uint32_t usual[3] = {0xFF0000, 0xFF00, 0xFF};
    static const uint32_t small[3] = {0x7C00, 0x3E0, 0x1F};
    const uint32_t *mask = f->compression == MASKS ? f->mask
                           : f->bits == 16         ? small
                                                   : usual;
    uint32_t v = (uint32_t)next_random(&dt_seed);

    if (f->bits > 8) {
        for (int c = 0; c < 3; c++)
            pixel(m, x, y)[c] = masked(v, mask[c]);
        return v;
    }
    v = random_below(&dt_seed, 3) ? (uint32_t)(x / 4 % 3) : v;
    v &= (1u << f->bits) - 1;
    for (int c = 0; c < 3; c++)
        pixel(m, x, y)[c] = palette[v][2 - c];
    return v;
}

static void make_bmp(struct made *m, const struct form *f)
{
    uint8_t palette[256][4], index[64];
    bool down = random_below(&dt_seed, 2);
    struct growing *b = &m->file;

    begin(m);
    for (size_t i = 0; i < sizeof(palette); i++)
        palette[i / 4][i % 4] = (uint8_t)next_random(&dt_seed);
    palette[0][0] = 1;  // so that it is no ramp
    add_headers(m, f, down, (const uint8_t(*)[4])palette);
    for (int i = 0; i < m->full.h; i++) {
        int y = down ? i : m->full.h - 1 - i, have = 0;
        size_t row = b->n;
        uint32_t bits = 0;

        for (int x = 0; x < m->full.w; x++) {
            uint32_t v = draw_pixel(m, f, (const uint8_t(*)[4])palette, x, y);

            index[x] = (uint8_t)v;
            if (f->compression == RLE8 || f->compression == RLE4)
                continue;
            if (f->bits > 8)
                add_le(b, v, f->bits / 8);
            bits = bits << f->bits % 32 | v;
            have += f->bits;
            if (f->bits <= 8 && (have % 8 == 0 || x == m->full.w - 1))
                add_bytes(b, (uint8_t)(bits << (8 - have % 8) % 8));
        }
        m->end = b->n;
        if (f->compression == RLE8 || f->compression == RLE4)
            add_runs(b, index, m->full.w, f->compression == RLE4);
        while ((b->n - row) % 4 && f->compression % MASKS == 0)
            add_bytes(b, 0x55);
    }
    if (f->compression == RLE8 || f->compression == RLE4) {
        m->end = b->n - 3;  // a row's end, and what may fill up to it
        add_bytes(b, 0, 1);
    }
    plain_gray(m->full.gray, m->full.rgb,
               (size_t)m->full.w * (size_t)m->full.h);
}

// ---- PNM -------------------------------------------------------------------

static void add_space(struct growing *b)
{
    static const char *const spaces[] = {" ",         "\n", "\t\r\n",
                                         " # a b\n ", "\v", " #\r\f"};
    const char *text = spaces[random_below(&dt_seed, 6)];

    add(b, text, strlen(text));
}

static void add_number(struct growing *b, int v)
{
    char text[16];

    add(b, text, (size_t)snprintf(text, sizeof(text), "%d", v));
    add_space(b);
}

// Scales a sample as Pillow does.
static uint8_t scaled(int v, int most, bool gray)
{
    double white = gray && most > 255 ? 65535 : 255,
           x = v / (double)most * white;
    double down = floor(x), up = x - down;

    if (up > .5 || (up == .5 && fmod(down, 2) == 1))
        down++;
    return down > 255 ? 255 : (uint8_t)down;
}

static void make_pnm(struct made *m, int type, int most)
{
    int channels = type % 3 ? 1 : 3;
    uint32_t bits = 0;
    bool bitmap = type % 3 == 1;
    struct growing *b = &m->file;

    begin(m);
    add_bytes(b, 'P', (uint8_t)('0' + type), '\n');
    add_number(b, m->full.w);
    add_number(b, m->full.h);
    if (!bitmap)
        add_number(b, most);
    // One byte of white space, before rows.
    while (b->p[b->n - 1] < '0' || b->p[b->n - 1] > '9')
        b->n--;
    add_bytes(b, '\n');
    for (int i = 0; i < m->full.w * m->full.h * channels; i++) {
        uint8_t *to = m->full.rgb + (channels == 3 ? i : 3 * i);
        int v = random_below(&dt_seed, bitmap ? 2 : most + 1);

        memset(to, bitmap ? 255 * !v : scaled(v, most, channels == 1),
               channels == 3 ? 1 : 3);
        if (type <= 3) {
            add_number(b, v);
            continue;
        }
        bits = bits << 1 | (uint32_t)v;
        if (!bitmap)
            add_be(b, (uint32_t)v, most > 255 ? 2 : 1);
        else if (i % m->full.w % 8 == 7 || i % m->full.w == m->full.w - 1)
            add_bytes(b, (uint8_t)(bits << (7 - i % m->full.w % 8)));
    }
    m->end = b->n;
    plain_gray(m->full.gray, m->full.rgb,
               (size_t)m->full.w * (size_t)m->full.h);
}

// ---- Cases -----------------------------------------------------------------

static void compare(struct made *m, const char *name)
{
    // Memory that ends where the file does.
    struct bytes exact = {malloc(m->file.n), m->file.n};

    memcpy(exact.data, m->file.p, exact.size);
    dt_compare_windows(&cpu_raster_decoder, name, &exact, &m->full, 6);
    free(exact.data);
}

// Without its last pixels, or a part of its header, a file is cut short.
static void cut(struct made *m, const char *name)
{
    for (int i = 0; i < 10; i++) {
        size_t n = (size_t)random_below(&dt_seed, (int)m->end);
        struct bytes part = {malloc(n + 1), n};
        struct cpu_decode_params p = dt_params(&part, m->full.w, m->full.h,
                                               dt_everything, 3);
        struct cpu_decode_error err;
        enum cpu_result result;

        memcpy(part.data, m->file.p, n);
        result = dt_decode(&cpu_raster_decoder, &p, true, NULL, &err);
        CHECK(result == CPU_TRUNCATED || result == CPU_CORRUPT,
              "%s, %zu of %zu bytes: %d %s", name, n, m->end, result, err.text);
        free(part.data);
    }
}

TEST_CASE(bmp)
{
    for (int i = 0; i < FORMS * 12; i++) {
        const struct form *f = &forms[i % FORMS];
        struct made m;
        char name[64];

        make_bmp(&m, f);
        snprintf(name, sizeof(name), "BMP of %d bits, compression %d, %lX",
                 f->bits, f->compression, (unsigned long)f->mask[0]);
        compare(&m, name);
        cut(&m, name);
        end(&m);
    }
}

TEST_CASE(pnm)
{
    static const int most[] = {255, 1, 10, 100, 254, 256, 1000, 65534, 65535};

    for (int i = 0; i < 6 * 9 * 4; i++) {
        struct made m;
        char name[64];

        make_pnm(&m, 1 + i % 6, most[i / 6 % 9]);
        snprintf(name, sizeof(name), "P%d up to %d", 1 + i % 6,
                 most[i / 6 % 9]);
        compare(&m, name);
        if (i % 6 >= 3)
            cut(&m, name);
        end(&m);
    }
}

// Rare files, and the pixels that Pillow makes of them: hexadecimal digits of
// grey, or of red. NULL: it refuses them.
#define BYTES(text) text, sizeof(text) - 1
#define BMP(bits, compression, colors, rows)                              \
    "BM\0\0\0\0\0\0\0\0" rows "\0\0\0\x28\0\0\0\6\0\0\0\1\0\0\0\1\0" bits \
    "\0" compression "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" colors "\0\0\0\0\0\0\0"
#define TWO "\0\0\0\0\xFF\xFF\xFF\0"
#define THREE "\1\2\x10\0\3\4\x20\0\5\6\x30\0"

static const struct rare {
    const char *bytes;
    size_t n;
    int w;
    const char *pixels, *text;
} rares[] = {
    // Colours that are not there are black.
    {BYTES(BMP("\x08", "\0", "\3", "\x42") THREE "\0\1\2\3\xFF\1\0\0"), 6,
     "102030000020", ""},
    // Black and white: bits, also where the file has bytes.
    {BYTES(BMP("\x08", "\0", "\2", "\x3E") TWO "\xA5\1\1\1\1\1\0\0"), 6,
     "FF00FF0000FF", ""},
    {BYTES(BMP("\x08", "\1", "\2", "\x3E") TWO "\3\1\3\0\0\1"), 6,
     "FFFFFF000000", ""},
    // Rows may begin at once behind the palette, by 0 or by a wrong place.
    {BYTES(BMP("\x08", "\0", "\3", "\0") THREE "\0\1\2\2\1\0\0\0"), 6,
     "102030302010", ""},
    {BYTES(BMP("\x08", "\0", "\3", "\x36") THREE "\0\1\2\2\1\0\0\0"), 6,
     "102030302010", ""},
    // Runs: an odd number of literal nibbles, a run over the row's end, a jump.
    {BYTES(BMP("\4", "\2", "\3", "\x42") THREE "\0\5\1\x21\x20\0\1\x11\0\1"), 6,
     "102030203020", ""},
    {BYTES(BMP("\4", "\2", "\3", "\x42") THREE "\3\x01\x09\x22\0\1"), 6,
     "102010303030", ""},
    {BYTES(BMP("\x08", "\1", "\3", "\x42") THREE "\1\1\0\2\3\0\2\2\0\1"), 6,
     "201010103030", ""},
    {BYTES(BMP("\x08", "\1", "\3", "\x42") THREE "\5\1\0\1\1\1"), 6, NULL,
     "before the last row"},
    {BYTES("P5 3 1 10 \0\5\x0B"), 3, "0080FF", ""},
    {BYTES("P5 3 1 510 \0\1\0\3\1\xFE"), 3, "80FFFF", ""},
    {BYTES("P5 3 1 65535 \0\1\0\xFE\1\0"), 3, "01FEFF", ""},
    {BYTES("P6 1 1 510 \0\1\0\3\1\xFE"), 1, "00", ""},
    {BYTES("P2 2 1 255 5 1#c\n2"), 2, "050C", ""},
    {BYTES("P2 2 1 2_5_5 +5 1_1"), 2, "050B", ""},
    {BYTES("P2 2 1 255 5 -2"), 2, NULL, "below zero"},
    {BYTES("P2 2 1 255 5 256"), 2, NULL, "above the largest"},
    {BYTES("P2 2 1 255 5 1__1"), 2, NULL, "no number"},
    {BYTES("P2 2 1 255 5 "), 2, NULL, "before the last pixel"},
    {BYTES("P2 2 1 255 5 6 behind"), 2, "0506", ""},
    {BYTES("P2 2 1 255 5 6 tencharact"), 2, "0506", ""},
    {BYTES("P2 2 1 255 5 6 ten#\ncharacte"), 2, NULL, "ten characters"},
    {BYTES("P2 2 1 255 5 6 tencharacte "), 2, "0506", ""},
    {BYTES("P1 3 1 1 01 #x"), 3, "00FF00", ""},
    {BYTES("P1 3 1 1 01 x"), 3, NULL, "no digit"},
    {BYTES("P1 3 1 1 21"), 3, NULL, "above the largest"},
};

TEST_CASE(rare_files)
{
    for (size_t i = 0; i < sizeof(rares) / sizeof(*rares); i++) {
        const struct rare *r = &rares[i];
        struct bytes file = {malloc(r->n), r->n};
        struct cpu_decode_params p = dt_params(&file, r->w, 1, dt_everything,
                                               3);
        struct cpu_decode_error err;
        uint8_t rgb[3 * 6];
        char got[16] = "";
        enum cpu_result result;

        memcpy(file.data, r->bytes, r->n);
        result = dt_decode(&cpu_raster_decoder, &p, true, rgb, &err);
        for (int x = 0; x < r->w; x++)
            snprintf(got + 2 * x, 3, "%02X", rgb[3 * x]);
        CHECK(!result == !!r->pixels, "%zu: %d %s", i, result, err.text);
        CHECK(result || !strcmp(got, r->pixels), "%zu: %s", i, got);
        CHECK(!result || strstr(err.text, r->text), "%zu: %s", i, err.text);
        free(file.data);
    }
}

// Pillow reads text in blocks, of which the one with the last pixel counts.
TEST_CASE(blocks_of_text)
{
    enum { BLOCK = 1 << 20 };
    static const struct {
        const char *before, *behind, *text;
    } rows[] = {
        {"7 ", "x x x", NULL},       {"7", " xxxxxxxxxxx", "ten characters"},
        {"7", "77 xxx", "above"},    {"7#", "8\n xxx", NULL},
        {"#", "\n8\r 7 x", NULL},    {"#", "\n8\n 7 x", NULL},
        {"#", "\n300\n 7", "above"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        static const char head[] = "P2 1 1 255 ";
        size_t n = strlen(rows[i].before), at = sizeof(head) - 1;
        auto_bytes file = {malloc(BLOCK + 100), 0};
        struct cpu_decode_params p;
        struct cpu_decode_error err;
        uint8_t rgb[3];
        enum cpu_result result;

        memset(file.data, ' ', BLOCK + 100);
        memcpy(file.data, head, at);
        memcpy(file.data + at + BLOCK - n, rows[i].before, n);
        memcpy(file.data + at + BLOCK, rows[i].behind, strlen(rows[i].behind));
        file.size = at + BLOCK + strlen(rows[i].behind);
        p = dt_params(&file, 1, 1, dt_everything, 3);
        result = dt_decode(&cpu_raster_decoder, &p, true, rgb, &err);
        CHECK(!result == !rows[i].text, "%zu: %d %s", i, result, err.text);
        CHECK(result ? strstr(err.text, rows[i].text) != NULL
                     : rgb[0] == (i == 5 ? 8 : 7),
              "%zu: %d %s", i, rgb[0], err.text);
    }
}

TEST_MAIN(dt_main)
