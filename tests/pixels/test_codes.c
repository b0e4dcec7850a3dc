// SPDX-License-Identifier: Apache-2.0
// Huffman codes that no encoder makes: any lengths, for any symbols, with
// values of any size, as JPEGs without a fault. Our own decoder takes them, and
// makes what stock libjpeg makes of them.
#include "decode_run.h"

// A Huffman code as DHT says it: codes of a length follow each other.
struct code {
    uint8_t counts[17];  // [1 .. 16]
    uint8_t symbols[256];
    int n;
};

struct writer {
    struct bytes file;
    uint32_t bits;
    int count;
};

// ---- Codes ------------------------------------------------------------------

// A leaf of a random tree becomes two, until there is one more than symbols:
// the last of the longest codes would be of ones alone.
static void make_lengths(struct code *c)
{
    int most = 2 + random_below(&dt_seed, 15), leaves = 1, depth;

    memset(c->counts, 0, sizeof(c->counts));
    c->counts[0] = 1;
    while (leaves < c->n + 1) {
        depth = random_below(&dt_seed, 17);
        if (!c->counts[depth] || depth == 16 ||
            (depth >= most && random_below(&dt_seed, 9)))
            continue;
        c->counts[depth]--;
        c->counts[depth + 1] += 2;
        leaves++;
    }
    for (depth = 16; !c->counts[depth];)
        depth--;
    c->counts[depth]--;
}

// Symbols below `limit`; the first `given` are there already.
static void make_code(struct code *c, int given, int n, int limit)
{
    for (c->n = given; c->n < n;) {
        uint8_t symbol = (uint8_t)random_below(&dt_seed, limit);

        if (!memchr(c->symbols, symbol, (size_t)c->n))
            c->symbols[c->n++] = symbol;
    }
    for (int i = 0; i < n; i++) {
        int k = random_below(&dt_seed, n);
        uint8_t t = c->symbols[i];

        c->symbols[i] = c->symbols[k];
        c->symbols[k] = t;
    }
    make_lengths(c);
}

// ---- Files ------------------------------------------------------------------

static void put_byte(struct writer *w, int byte)
{
    w->file.data[w->file.size++] = (uint8_t)byte;
}

static void put_bits(struct writer *w, unsigned bits, int n)
{
    while (n--) {
        w->bits = w->bits << 1 | (bits >> n & 1);
        if (++w->count % 8)
            continue;
        put_byte(w, (int)(w->bits & 0xff));
        if ((w->bits & 0xff) == 0xff)
            put_byte(w, 0);
    }
}

static void put_segment(struct writer *w, int marker, const void *data, int n)
{
    const uint8_t head[] = {0xff, (uint8_t)marker, (uint8_t)((n + 2) >> 8),
                            (uint8_t)(n + 2)};

    memcpy(w->file.data + w->file.size, head, sizeof(head));
    memcpy(w->file.data + w->file.size + sizeof(head), data, (size_t)n);
    w->file.size += sizeof(head) + (size_t)n;
}

static void put_code(struct writer *w, int id, const struct code *c)
{
    uint8_t segment[17 + 256];

    memcpy(segment, c->counts, 17);
    segment[0] = (uint8_t)id;
    memcpy(segment + 17, c->symbols, (size_t)c->n);
    put_segment(w, 0xc4, segment, 17 + c->n);
}

// Writes any symbol, or, as good codes do, short ones more often.
static uint8_t put_symbol(struct writer *w, const struct code *c, bool any)
{
    unsigned wanted = (unsigned)random_below(&dt_seed, 1 << 16), code = 0;
    int i = 0, which = any ? random_below(&dt_seed, c->n) : -1;

    for (int n = 1; n <= 16; n++, code <<= 1)
        for (int k = 0; k < c->counts[n]; k++, i++, code++)
            if (any ? i == which : wanted >> (16 - n) == code) {
                put_bits(w, code, n);
                return c->symbols[i];
            }
    return put_symbol(w, c, true);
}

static void put_value(struct writer *w, int size)
{
    put_bits(w, (unsigned)random_below(&dt_seed, 1 << size), size);
}

// A run past the end would be a fault: there the block is begun again.
static void put_block(struct writer *w, const struct code *dc,
                      const struct code *ac, bool any)
{
    struct writer begin;

    put_value(w, put_symbol(w, dc, any));
    begin = *w;
    for (int k = 0; k < 63;) {
        uint8_t symbol = put_symbol(w, ac, any);

        if (!(symbol & 15) && symbol != 0xf0)
            return;
        k += (symbol >> 4) + 1;
        if (k > 63) {
            *w = begin;
            k = 0;
            any = !any;
            continue;
        }
        put_value(w, symbol & 15);
    }
}

static struct bytes make_file(int w, int h, bool color)
{
    static const uint8_t jfif[] = "JFIF\0\1\1\0\0\1\0\1\0";
    static const uint8_t sos[2][10] = {{1, 1, 0, 0, 63, 0},
                                       {3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0}};
    int across = (w + 7) / 8, blocks = across * ((h + 7) / 8);
    uint8_t quant[65] = {0}, sof[15] = {8, 0, (uint8_t)h, 0, (uint8_t)w, 1};
    struct writer out = {{calloc(1, 2000 + (size_t)blocks * 3 * 600), 0}, 0, 0};
    struct code dc[2], ac[2] = {{.symbols = {0}}, {.symbols = {0}}};

    memset(quant + 1, 1 + random_below(&dt_seed, 8), 64);
    sof[5] = color ? 3 : 1;
    for (int i = 0; i < 3; i++)
        memcpy(sof + 6 + 3 * i, (uint8_t[]){(uint8_t)(i + 1), 0x11, 0}, 3);
    memcpy(out.file.data, "\xff\xd8", 2);
    out.file.size = 2;
    put_segment(&out, 0xe0, jfif, 14);
    put_segment(&out, 0xdb, quant, 65);
    put_segment(&out, 0xc0, sof, color ? 15 : 9);
    for (int i = 0; i < 2; i++) {
        make_code(&dc[i], 0, 1 + random_below(&dt_seed, 12), 12);
        make_code(&ac[i], 1, 2 + random_below(&dt_seed, i ? 250 : 30), 256);
        put_code(&out, i, &dc[i]);
        put_code(&out, 0x10 | i, &ac[i]);
    }
    put_segment(&out, 0xda, sos[color], color ? 10 : 6);
    for (int i = 0; i < blocks; i++)
        for (int k = 0; k < (color ? 3 : 1); k++)
            put_block(&out, &dc[k > 0], &ac[k > 0], random_below(&dt_seed, 2));
    while (out.count % 8)
        put_bits(&out, 1, 1);
    memcpy(out.file.data + out.file.size, "\xff\xd9", 2);
    out.file.size += 2;
    return out.file;
}

// ---- The test ---------------------------------------------------------------

TEST_CASE(codes)
{
    for (int i = 0; i < 300; i++) {
        int w = 1 + random_below(&dt_seed, 150),
            h = 1 + random_below(&dt_seed, 40);
        auto_bytes file = make_file(w, h, i & 1);
        struct cpu_decode_params p = dt_params(&file, w, h, dt_everything, 3);
        struct cpu_decode_error err;
        auto_plain full = {0};
        char name[32];

        snprintf(name, sizeof(name), "codes %d", i);
        plain_decode(file.data, file.size, 1 << 20, &full);
        CHECK(full.result == PLAIN_OK && !full.warnings, "%s: a fault", name);
        for (unsigned flags = 1; flags <= 4; flags *= 2) {
            cpu_ops_init(&dt_ops, flags * 2 - 1);
            CHECK(dt_decode(&cpu_sequential_decoder, &p, true, NULL, &err) ==
                      CPU_OK,
                  "%s: not taken, %s", name, err.text);
            dt_compare_windows(&cpu_sequential_decoder, name, &file, &full, 4);
        }
    }
}

TEST_MAIN(dt_main)
