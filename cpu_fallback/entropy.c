// SPDX-License-Identifier: Apache-2.0
// One stream, 64 bits of it at hand, two symbols per look-up where both and
// their values fit into what it sees. A block costs one unforeseen branch, its end.
#include "entropy.h"

#include <string.h>

#include "cpu_kernels.h"

enum {
    END = 128,  // an "advance" that no block survives: the end of the block
    SPECIAL_BIT = 31,
};
#define SPECIAL (UINT64_C(1) << SPECIAL_BIT)

// ---- Tables -----------------------------------------------------------------

// ITU-T T.81 annex C; what libjpeg-turbo src/jdhuff.c checks: a code has at
// most as many codes of a length as there are, and none of ones alone.
static bool make_codes(struct cpu_huffman_codes *codes, const uint8_t *counts)
{
    uint32_t code = 0;
    int first = 0;

    codes->symbols = counts + 16;
    codes->limit[0] = 0;
    for (int n = 1; n <= 16; n++) {
        int count = counts[n - 1];

        codes->first[n] = first - (int32_t)code;
        code += (uint32_t)count;
        first += count;
        if (count && code >= 1u << n)
            return false;
        codes->limit[n] = code << (16 - n);
        code <<= 1;
    }
    return true;
}

static bool make_dc(struct cpu_dc_table *t, const uint8_t *counts)
{
    const uint8_t *symbol = counts + 16;
    uint16_t *to = t->entry;

    if (!make_codes(&t->codes, counts))
        return false;
    for (int n = 1; n <= 16; n++)
        for (int i = 0; i < counts[n - 1]; i++, symbol++) {
            if (*symbol > 15)
                return false;
            for (int k = n <= CPU_DC_BITS ? 1 << (CPU_DC_BITS - n) : 0; k; k--)
                *to++ = (uint16_t)(n | *symbol << 8);
        }
    memset(to, 0,
           (size_t)((char *)(t->entry + (1 << CPU_DC_BITS)) - (char *)to));
    return true;
}

// What the first `size` bits (0 .. 15) of the buffer mean: ITU-T T.81 figure
// F.12. The first bit says whether it is negative, and is as good as random:
// so, no branch.
CPU_INLINE int extended(uint64_t buffer, int size)
{
    int negative = (int)(buffer >> 63) - 1;

    return (int)(buffer >> 1 >> (63 - size)) + (negative & (1 - (1 << size)));
}

// The advance of a symbol. Any without value but ZRL ends the block
// (src/jdhuff.c).
static uint64_t advance_of(uint8_t symbol)
{
    int run = symbol >> 4, size = symbol & 15;

    return size || run == 15 ? (uint64_t)run + 1 : END;
}

static uint64_t special(int n, uint8_t symbol)
{
    return (uint64_t)n | advance_of(symbol) << 8 |
           (uint64_t)(symbol & 15) << 16 | SPECIAL;
}

// An entry of one symbol, whose code has n bits.
static uint64_t single(int n, uint8_t symbol, int value_bits, int value)
{
    uint64_t advance = advance_of(symbol), all = (uint64_t)(n + value_bits);

    return all | advance << 8 | advance << 16 | all << 24 |
           (uint64_t)(uint16_t)value << 32 | (uint64_t)(uint16_t)value << 48;
}

// All entries that begin with a code of n bits.
static uint64_t *put_code(uint64_t *to, int n, uint8_t symbol)
{
    int size = symbol & 15, left = CPU_AC_BITS - n;

    if (size > left) {
        for (int k = 0; k < 1 << left; k++)
            *to++ = special(n, symbol);
        return to;
    }
    for (unsigned v = 0; v < 1u << size; v++) {
        uint64_t bits = size ? (uint64_t)v << (64 - size) : 0;
        uint64_t e = single(n, symbol, size, extended(bits, size));

        for (int k = 0; k < 1 << (left - size); k++)
            *to++ = e;
    }
    return to;
}

// Adds a second symbol where its bits are all there. Entry i looks at one that
// is made of the bits behind the first symbol, then zeros: as long as that
// needs no more than those bits, zeros are as good as what will follow.
static void make_pairs(uint64_t *to, const uint64_t *one)
{
    for (unsigned i = 0; i < 1 << CPU_AC_BITS; i++) {
        uint64_t a = one[i], b;
        unsigned bits = a & 0xff, both, advance = a >> 8 & 0xff;

        b = one[i << bits & ((1 << CPU_AC_BITS) - 1)];
        both = bits + (unsigned)(b & 0xff);
        to[i] = a;
        if (!bits || (a | b) & SPECIAL || !(b & 0xff) || both > CPU_AC_BITS ||
            advance == END)
            continue;
        to[i] = both | (uint64_t)advance << 8 |
                (uint64_t)(advance + (b >> 8 & 0xff)) << 16 |
                (uint64_t)bits << 24 | (a >> 32 & 0xffff) << 32 |
                (b >> 32 & 0xffff) << 48;
    }
}

static bool make_ac(struct cpu_ac_table *t, const uint8_t *counts)
{
    uint64_t one[1 << CPU_AC_BITS], *to = one;
    const uint8_t *symbol = counts + 16;

    if (!make_codes(&t->codes, counts))
        return false;
    for (int n = 1; n <= CPU_AC_BITS; n++)
        for (int i = 0; i < counts[n - 1]; i++)
            to = put_code(to, n, *symbol++);
    while (to < one + (1 << CPU_AC_BITS))
        *to++ = SPECIAL;  // a longer code, or none
    make_pairs(t->entry, one);
    return true;
}

bool cpu_entropy_tables(struct cpu_entropy_tables *t,
                        const struct cpu_scan *scan)
{
    unsigned dc = 0, ac = 0;

    for (int i = 0; i < scan->num_components; i++) {
        dc |= 1u << scan->comp[i].dc;
        ac |= 1u << scan->comp[i].ac;
    }
    for (int i = 0; i < 4; i++)
        if ((dc >> i & 1 && !make_dc(&t->dc[i], scan->huffman[0][i])) ||
            (ac >> i & 1 && !make_ac(&t->ac[i], scan->huffman[1][i])))
            return false;
    return true;
}

// ---- Bits -------------------------------------------------------------------

// Those of struct cpu_entropy, in registers.
struct bits {
    const uint8_t *p;
    uint64_t buffer;
    int count;
};

// Field by field: as a whole it would be loaded wider than it was stored,
// which stalls.
CPU_INLINE void save(struct cpu_entropy *e, const struct bits *b)
{
    e->p = b->p;
    e->buffer = b->buffer;
    e->bits = b->count;
}

CPU_INLINE void load(const struct cpu_entropy *e, struct bits *b)
{
    b->p = e->p;
    b->buffer = e->buffer;
    b->count = e->bits;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

// Byte by byte: 0xff is followed by a zero that is dropped, or by a marker,
// behind which zeros are made up.
static __attribute__((noinline)) void refill_slowly(struct cpu_entropy *e)
{
    const uint8_t *end = e->scan->end;

    // Never 64: the fast way shifts by the count.
    while (e->bits < 56) {
        uint64_t byte = 0;

        if (!e->ended && e->p < end && *e->p != 0xff) {
            byte = *e->p++;
        } else if (!e->ended && end - e->p >= 2 && e->p[1] == 0) {
            byte = 0xff;
            e->p += 2;
        } else {
            e->ended = true;
            e->made_up += 8;
        }
        e->buffer |= byte << (56 - e->bits);
        e->bits += 8;
    }
}

// At least 56 bits. The fast way: bits of the last, partial byte are valid too
// but not counted; they come again with the next refill.
CPU_INLINE void refill(struct cpu_entropy *e, struct bits *b,
                       const uint8_t *safe)
{
    if (__builtin_expect(b->p <= safe, 1)) {
        const uint64_t ones = UINT64_C(0x0101010101010101);
        uint64_t x = load64(b->p);

        // Is one of the bytes 0xff?
        if (__builtin_expect(!((~x - ones) & x & ones << 7), 1)) {
            b->buffer |= x >> b->count;
            b->p += (63 - b->count) >> 3;
            b->count |= 56;
            return;
        }
    }
    save(e, b);
    refill_slowly(e);
    load(e, b);
}

CPU_INLINE void drop(struct bits *b, int n)
{
    b->buffer <<= n;
    b->count -= n;
}

// The special entry of the symbol whose code of more than `n` bits comes next;
// 0: there is none.
static __attribute__((noinline)) uint64_t long_code(
    const struct cpu_huffman_codes *codes, uint64_t buffer, int n)
{
    uint32_t next = (uint32_t)(buffer >> 48);

    for (n++; n <= 16; n++)
        if (next < codes->limit[n])
            return special(
                n, codes->symbols[codes->first[n] + (int)(next >> (16 - n))]);
    return 0;
}

// ---- Blocks -----------------------------------------------------------------

// Natural position of what may be a position: where symbols end up that are
// behind the end of a block is the block's slack.
static const uint8_t natural[256] = {CPU_ZIGZAG, [64 ... 255] = 64};

// Never more than 31 bits. False: no such code.
CPU_INLINE bool decode_dc(const struct cpu_dc_table *t, struct bits *b, int *dc)
{
    unsigned e = t->entry[b->buffer >> (64 - CPU_DC_BITS)];
    int n = (int)(e & 0xff), size = (int)(e >> 8);

    if (__builtin_expect(!n, 0)) {
        uint64_t found = long_code(&t->codes, b->buffer, CPU_DC_BITS);

        if (!found)
            return false;
        n = (int)(found & 63);
        size = (int)(found >> 16 & 15);
    }
    drop(b, n);
    // Wraps as libjpeg-turbo's sums do on their way into 16 bits.
    *dc = (int)((unsigned)*dc + (unsigned)extended(b->buffer, size));
    drop(b, size);
    return true;
}

// The block is zero, but for its DC. False: odd.
CPU_INLINE bool decode_ac(struct cpu_entropy *e, const struct cpu_ac_table *t,
                          struct bits *b, int16_t *block, const uint8_t *safe)
{
    const uint64_t *table = t->entry;
    uint64_t entry, before, k = 0, first;

    // One register, not base and offset: it is in the way of every look-up.
    __asm__("" : "+r"(table));
    for (;;) {
        refill(e, b, safe);
        CPU_UNROLL
        for (int i = 0; i < 56 / CPU_AC_BITS; i++) {
            entry = table[b->buffer >> (64 - CPU_AC_BITS)];
            if (__builtin_expect((entry & SPECIAL) != 0, 0))
                goto special;
            before = b->buffer;
            drop(b, (int)(entry & 63));
            first = k + (entry >> 8 & 0xff);
            k += entry >> 16 & 0xff;
            // The second first: if there is none, its place is the first's.
            block[natural[k]] = (int16_t)(entry >> 48);
            block[natural[first]] = (int16_t)(entry >> 32);
            if (k >= 63)
                goto ends;
        }
        continue;
    special:
        // The value, or even the code, was not seen.
        refill(e, b, safe);
        if (!(entry & 63)) {
            entry = long_code(&t->codes, b->buffer, CPU_AC_BITS);
            if (!entry)
                return false;
        }
        drop(b, (int)(entry & 63));
        k += entry >> 8 & 0xff;
        block[natural[k]] = (int16_t)extended(b->buffer,
                                              (int)(entry >> 16 & 15));
        drop(b, (int)(entry >> 16 & 15));
        if (k >= 63)
            goto ended;
    }
ends:
    // If it ended with the first, the second was the next block's beginning.
    if (first >= 63 && first != k) {
        int n = (int)(entry >> 24 & 63);

        b->buffer = before << n;
        b->count += (int)(entry & 63) - n;
        k = first;
    }
ended:
    // An end of the block comes from below 63.
    return k == 63 || k >= END;
}

// ---- Rows -------------------------------------------------------------------

void cpu_entropy_begin(struct cpu_entropy *e, const struct cpu_scan *scan,
                       const struct cpu_entropy_tables *tables)
{
    *e = (struct cpu_entropy){
        .scan = scan,
        .tables = tables,
        .p = scan->data,
        .restart = scan->restart,
    };
}

void cpu_entropy_open(struct cpu_decode *d, struct cpu_scan *scan,
                      struct cpu_entropy *e)
{
    const struct cpu_decode_params *p = &d->p;
    struct cpu_entropy_tables *tables;

    if (!cpu_scan_parse(scan, p->data, p->size) || scan->width != p->width ||
        scan->height != p->height)
        cpu_decode_throw(d, CPU_REDO, "");
    tables = cpu_arena_alloc(d->pool.arena, sizeof(*tables));
    if (!tables)
        cpu_decode_throw(d, CPU_NOMEM, "out of memory");
    if (!cpu_entropy_tables(tables, scan))
        cpu_decode_throw(d, CPU_REDO, "");
    cpu_entropy_begin(e, scan, tables);
}

bool cpu_entropy_lines_alloc(struct cpu_entropy_lines *lines,
                             struct cpu_arena *arena, int v, int first,
                             int count)
{
    *lines = (struct cpu_entropy_lines){
        .first = first,
        .count = count,
        .pitch = count + 3,
    };
    lines->blocks = cpu_arena_array(arena, (size_t)lines->pitch * (size_t)v,
                                    sizeof(*lines->blocks));
    return lines->blocks != NULL;
}

// Whole bytes that were not used lie between here and what comes next.
static bool at_marker(const struct cpu_entropy *e, uint8_t marker)
{
    return e->bits - e->made_up < 8 && e->bits >= e->made_up &&
           e->scan->end - e->p >= 2 && e->p[0] == 0xff && e->p[1] == marker;
}

static bool restart(struct cpu_entropy *e)
{
    if (!at_marker(e, 0xd0 | e->marker))
        return false;
    e->p += 2;
    e->marker = (e->marker + 1) & 7;
    e->restart = e->scan->restart;
    e->buffer = 0;
    e->bits = e->made_up = 0;
    e->ended = false;
    memset(e->dc, 0, sizeof(e->dc));
    return true;
}

CPU_INLINE bool decode_block(struct cpu_entropy *e, struct bits *b,
                             int component, int16_t *block, const uint8_t *safe)
{
    const struct cpu_scan_component *c = &e->scan->comp[component];
    typedef int16_t zeros __attribute__((vector_size(16), may_alias));

    refill(e, b, safe);
    if (!decode_dc(&e->tables->dc[c->dc], b, &e->dc[component]))
        return false;
    // (Not memset(): gcc may make a slow string instruction of it.)
    CPU_UNROLL
    for (int i = 0; i < 8; i++)
        ((zeros *)(void *)block)[i] = (zeros){0};
    block[0] = (int16_t)e->dc[component];
    return decode_ac(e, &e->tables->ac[c->ac], b, block, safe);
}

// Block x of line k of the row goes there.
CPU_INLINE int16_t *place(const struct cpu_entropy_lines *lines, int component,
                          int k, int x, int16_t *nowhere)
{
    const struct cpu_entropy_lines *to = lines ? &lines[component] : NULL;

    // Columns left of the first wrap around.
    return to && (unsigned)(x - to->first) < (unsigned)to->count
               ? to->blocks[(size_t)k * (size_t)to->pitch +
                            (size_t)(x - to->first)]
               : nowhere;
}

CPU_INLINE bool count_mcu(struct cpu_entropy *e, struct bits *b)
{
    if (!e->scan->restart)
        return true;
    if (!e->restart) {
        save(e, b);
        if (!restart(e))
            return false;
        load(e, b);
    }
    e->restart--;
    return true;
}

// The scan of one component: one block is an MCU, and line after line of them
// makes what libjpeg-turbo counts as a row.
CPU_INLINE bool decode_lines(struct cpu_entropy *e, struct bits *b,
                             const struct cpu_entropy_lines *lines,
                             int16_t *nowhere, const uint8_t *safe)
{
    const struct cpu_scan *s = e->scan;
    int columns = (s->width + 7) / 8, all = (s->height + 7) / 8;

    for (int k = 0; k < s->v_max && e->row * s->v_max + k < all; k++)
        for (int x = 0; x < columns; x++)
            if (!count_mcu(e, b) ||
                !decode_block(e, b, 0, place(lines, 0, k, x, nowhere), safe))
                return false;
    return true;
}

CPU_INLINE bool decode_mcu(struct cpu_entropy *e, struct bits *b,
                           const struct cpu_entropy_lines *lines, int mcu,
                           int16_t *nowhere, const uint8_t *safe)
{
    const struct cpu_scan *s = e->scan;

    for (int i = 0; i < s->num_components; i++) {
        const struct cpu_scan_component *c = &s->comp[i];

        for (int k = 0; k < c->v; k++)
            for (int x = mcu * c->h; x < (mcu + 1) * c->h; x++)
                if (!decode_block(e, b, i, place(lines, i, k, x, nowhere),
                                  safe))
                    return false;
    }
    return true;
}

// Whether the file ends here, without a marker: libjpeg-turbo, which reads up
// to 8 bytes ahead, takes it for truncated where it wants more than there is.
static bool at_cut(const struct cpu_entropy *e)
{
    const uint8_t *p = e->p, *end = e->scan->end;

    for (int i = 0; i < 8; i++, p++) {
        if (p < end && *p != 0xff)
            continue;
        // Any number of these is one byte, with a zero behind, or a marker.
        while (p < end && *p == 0xff)
            p++;
        if (p == end)
            return true;
        if (*p)
            return false;
    }
    return false;
}

bool cpu_entropy_row(struct cpu_entropy *e,
                     const struct cpu_entropy_lines *lines)
{
    const struct cpu_scan *s = e->scan;
    // Up to here 8 bytes can be read. (The header has more than that.)
    const uint8_t *safe = s->end - 8;
    _Alignas(16) int16_t nowhere[128];
    struct bits b;
    bool ok = true;

    load(e, &b);
    if (s->num_components == 1)
        ok = decode_lines(e, &b, lines, nowhere, safe);
    for (int x = 0; s->num_components > 1 && x < s->mcus && ok; x++)
        ok = count_mcu(e, &b) && decode_mcu(e, &b, lines, x, nowhere, safe);
    e->row++;
    save(e, &b);
    // Bits that nobody wrote were used?
    return ok && e->bits >= e->made_up && !at_cut(e);
}

bool cpu_entropy_ends(struct cpu_entropy *e)
{
    return at_marker(e, 0xd9);
}
