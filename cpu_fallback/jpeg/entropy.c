// SPDX-License-Identifier: Apache-2.0
// Decodes one stream with a bit buffer of 64 bits, two symbols per look-up
// where both fit into its index. A block costs one mispredicted branch, at its
// end. The code behind that branch is as short as can be, since the next
// block's first look-up waits for it. Blocks that are not needed are parsed and
// not stored.
#include "entropy.h"

#include <string.h>

#include "cpu_fallback/cpu_kernels.h"

enum {
    END = 128,  // an "advance" that no block survives: the end of the block
    SPECIAL = 1 << 7,
};

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
                *to++ = (uint16_t)((n + *symbol) | *symbol << 8);
        }
    memset(to, 0,
           (size_t)((char *)(t->entry + (1 << CPU_DC_BITS)) - (char *)to));
    return true;
}

// Returns the value of the first `size` bits (0 .. 15) of the buffer: EXTEND of
// ITU-T T.81, figure F.12. The first bit gives the sign and cannot be
// predicted, so there is no branch.
CPU_INLINE int extended(uint64_t buffer, int size)
{
    int negative = (int)(buffer >> 63) - 1;

    return (int)(buffer >> 1 >> (63 - size)) + (negative & (1 - (1 << size)));
}

// The advance of a symbol. Any without value but ZRL ends the block
// (src/jdhuff.c).
static int advance_of(uint8_t symbol)
{
    int run = symbol >> 4, size = symbol & 15;

    return size || run == 15 ? run + 1 : END;
}

static uint64_t special(int n, int advance, int size)
{
    return (uint64_t)n | SPECIAL | (uint64_t)advance << 8 |
           (uint64_t)size << 16;
}

// One symbol that begins an index: bits of its code, of its value, and what
// that is if the bits behind the index are zeros. No bits of the code: it is
// longer, or there is none.
struct one {
    uint8_t code, size, advance;
    int16_t value;
};

// Fills all indices that begin with a code of n bits.
static struct one *put_code(struct one *to, int n, uint8_t symbol)
{
    int left = CPU_AC_BITS - n, size = symbol & 15;
    struct one one = {(uint8_t)n, (uint8_t)size, (uint8_t)advance_of(symbol),
                      0};

    for (unsigned i = 0; i < 1u << left; i++) {
        if (size && left)
            one.value = (int16_t)extended((uint64_t)i << (64 - left), size);
        *to++ = one;
    }
    return to;
}

// Says whether an index of which n bits are left shows enough of a symbol: its
// code, the sign of its value, and all but the last bits of that.
static bool shows(const struct one *one, int n)
{
    return one->code && one->code + (one->size > 0) <= n &&
           one->code + one->size <= n + CPU_AC_MORE;
}

// Computes, for each value of an index's last `left` bits, what a second symbol
// adds to an entry: the symbol found at these bits followed by zeros. 0: there
// is no second symbol.
static void make_seconds(uint64_t *to, const struct one *one, int left)
{
    for (unsigned i = 0; i < 1u << left; i++) {
        const struct one *b = &one[i << (CPU_AC_BITS - left)];
        int n = b->code + b->size, missing = n > left ? n - left : 0;

        to[i] = shows(b, left) ? ((uint64_t)n | (uint64_t)b->advance << 16 |
                                  (uint64_t)(uint16_t)b->value << 48) -
                                     ((uint64_t)missing << 29)
                               : 0;
    }
}

// Entries from i on that begin with the same code and value; returns what comes
// behind them. seconds: those of n bits from 2^n on, if *made has that bit.
static unsigned put_entries(struct cpu_ac_table *t, const struct one *one,
                            unsigned i, uint64_t *seconds, unsigned *made)
{
    const struct one *a = &one[i];
    int first = a->code + a->size, left = CPU_AC_BITS - first;
    int missing = left < 0 ? -left : 0;
    uint64_t value = (uint64_t)(uint16_t)a->value << 48, entry;
    unsigned n = left > 0 ? 1u << left : 1;

    if (!shows(a, CPU_AC_BITS)) {
        t->entry[i] = special(a->code, a->advance, a->size);
        return i + 1;
    }
    entry = (uint64_t)first | (uint64_t)a->advance << 8 |
            (uint64_t)a->advance << 16 | (uint64_t)first << 24 |
            (uint64_t)(CPU_AC_MORE - missing) << 29 | value >> 16;
    if (left <= 0 || a->advance == END) {
        for (unsigned k = 0; k < n; k++)
            t->entry[i + k] = entry + value;
        return i + n;
    }
    if (!(*made & n))
        make_seconds(seconds + n, one, left);
    *made |= n;
    for (unsigned k = 0; k < n; k++) {
        uint64_t b = seconds[n + k];

        t->entry[i + k] = entry + (b ? b : value);
    }
    return i + n;
}

static bool make_ac(struct cpu_ac_table *t, const uint8_t *counts)
{
    struct one one[1 << CPU_AC_BITS], *to = one;
    uint64_t seconds[1 << CPU_AC_BITS];
    const uint8_t *symbol = counts + 16;
    unsigned made = 0;

    if (!make_codes(&t->codes, counts))
        return false;
    for (int n = 1; n <= CPU_AC_BITS; n++)
        for (int i = 0; i < counts[n - 1]; i++)
            to = put_code(to, n, *symbol++);
    while (to < one + (1 << CPU_AC_BITS))
        *to++ = (struct one){0};
    for (unsigned i = 0; i < 1 << CPU_AC_BITS;)
        i = put_entries(t, one, i, seconds, &made);
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

// The bit buffer of struct cpu_entropy, in registers.
struct bits {
    const uint8_t *p, *safe;  // safe: up to there 8 bytes can be read
    uint64_t buffer;
    unsigned count;  // its low 6 bits: what is above is not kept up to date
};

// Field by field: as a whole it would be loaded wider than it was stored,
// which stalls.
CPU_INLINE void save(struct cpu_entropy *e, const struct bits *b)
{
    e->p = b->p;
    e->buffer = b->buffer;
    e->bits = (int)(b->count & 63);
}

CPU_INLINE void load(const struct cpu_entropy *e, struct bits *b)
{
    b->p = e->p;
    // (The header has more than that.)
    b->safe = e->scan->end - 8;
    b->buffer = e->buffer;
    b->count = (unsigned)e->bits;
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

// Refills the buffer to at least 56 bits. The fast way: bits of the last,
// partial byte are valid too but not counted; they come again with the next
// refill.
CPU_INLINE void refill(struct cpu_entropy *e, struct bits *b)
{
    if (__builtin_expect(b->p <= b->safe, 1)) {
        const uint64_t ones = UINT64_C(0x0101010101010101);
        uint64_t x = load64(b->p);

        // Is one of the bytes 0xff?
        if (__builtin_expect(!((~x - ones) & x & ones << 7), 1)) {
            b->buffer |= x >> (b->count & 63);
            b->p += ~b->count >> 3 & 7;
            b->count |= 56;
            return;
        }
    }
    save(e, b);
    refill_slowly(e);
    load(e, b);
}

// Drops as many bits as the low 6 bits of n say.
CPU_INLINE void drop(struct bits *b, uint64_t n)
{
    b->buffer <<= n & 63;
    b->count -= (unsigned)n;
}

// The special entry of the symbol whose code of more than `n` bits comes next;
// 0: there is none.
static __attribute__((noinline)) uint64_t long_code(
    const struct cpu_huffman_codes *codes, uint64_t buffer, int n)
{
    uint32_t next = (uint32_t)(buffer >> 48);

    for (n++; n <= 16; n++)
        if (next < codes->limit[n]) {
            uint8_t symbol =
                codes->symbols[codes->first[n] + (int)(next >> (16 - n))];

            return special(n, advance_of(symbol), symbol & 15);
        }
    return 0;
}

// ---- Blocks -----------------------------------------------------------------

// Natural position of what may be a position: where symbols end up that are
// behind the end of a block is the block's slack.
static const uint8_t natural[256] = {HR__ZIGZAG, [64 ... 255] = 64};

// The buffer always holds the bits of an index; the refill comes after the
// look-up has been issued, so that neither waits for the other. A refill is
// enough for the DC and the two look-ups that follow, or for three. False: no
// such code.
CPU_INLINE bool decode_dc(struct cpu_entropy *e, const struct cpu_dc_table *t,
                          struct bits *b, int *dc)
{
    unsigned entry = t->entry[b->buffer >> (64 - CPU_DC_BITS)];
    unsigned all = entry & 63, size = entry >> 8;
    uint64_t value;

    refill(e, b);
    value = b->buffer << (all - size);
    if (__builtin_expect(!all, 0)) {
        uint64_t found = long_code(&t->codes, b->buffer, CPU_DC_BITS);

        if (!found)
            return false;
        drop(b, found);
        refill(e, b);
        value = b->buffer;
        all = size = found >> 16 & 15;
    }
    drop(b, all);
    // Wraps as libjpeg-turbo's sums do on their way into 16 bits.
    *dc = (int)((unsigned)*dc + (unsigned)extended(value, (int)size));
    return true;
}

// The last bits of the value that an entry ends with, which it has not seen.
CPU_INLINE unsigned unseen(uint64_t buffer, uint64_t entry)
{
    unsigned bits = (unsigned)(buffer >> (64 - CPU_AC_MOST));

    return (bits & ((1 << CPU_AC_MORE) - 1)) >> ((uint32_t)entry >> 29);
}

// Reads one coefficient of which too little of the value, or even of the code,
// was seen. False: there is no such code.
CPU_INLINE bool decode_special(struct cpu_entropy *e,
                               const struct cpu_ac_table *t, struct bits *b,
                               uint64_t entry, uint64_t *k, int16_t *block,
                               bool keep)
{
    refill(e, b);
    if (!(entry & 63)) {
        entry = long_code(&t->codes, b->buffer, CPU_AC_BITS);
        if (!entry)
            return false;
    }
    drop(b, entry);
    *k += entry >> 8 & 0xff;
    if (keep)
        block[natural[*k]] = (int16_t)extended(b->buffer,
                                               (int)(entry >> 16 & 15));
    drop(b, entry >> 16 & 15);
    return true;
}

// The last place of a block that ends with one of the two of an entry. If it
// ended with the first, the second was the next block's beginning.
CPU_INLINE uint64_t end_of(struct bits *b, uint64_t before, uint64_t entry,
                           uint64_t first, uint64_t k)
{
    uint64_t n = entry >> 24 & 31;

    if (__builtin_expect(first - 63 >= k - 63, 1))
        return k;
    b->buffer = before << n;
    b->count += (unsigned)(entry - n);
    return first;
}

// The block is zero, but for its DC; keep: values are stored there. False: odd.
CPU_INLINE bool decode_ac(struct cpu_entropy *e, const struct cpu_ac_table *t,
                          struct bits *b, int16_t *block, bool keep)
{
    const uint64_t *table = t->entry;
    uint64_t entry, before, k = 0, first;

    // One register, not base and offset: it is in the way of every look-up.
    __asm__("" : "+r"(table));
    for (;;) {
        CPU_UNROLL
        for (int i = 0; i < 3; i++) {
            entry = table[b->buffer >> (64 - CPU_AC_BITS)];
            if (i == 1)
                refill(e, b);
            if (__builtin_expect((entry & SPECIAL) != 0, 0))
                goto special;
            before = b->buffer;
            drop(b, entry);
            first = k + (entry >> 8 & 0xff);
            k += entry >> 16 & 0xff;
            if (keep) {
                // If there is but one, its place is that of both.
                block[natural[first]] = (int16_t)(entry >> 32);
                block[natural[k]] = (int16_t)((entry >> 48) +
                                              unseen(before, entry));
            }
            if (k >= 63) {
                k = end_of(b, before, entry, first, k);
                goto ended;
            }
        }
        continue;
    special:
        if (!decode_special(e, t, b, entry, &k, block, keep))
            return false;
        if (k >= 63)
            goto ended;
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

void cpu_entropy_go_on(struct cpu_entropy *e, int row, const uint8_t *p,
                       unsigned bit, const int dc[3])
{
    e->row = row;
    e->p = p;
    memcpy(e->dc, dc, sizeof(e->dc));
    refill_slowly(e);
    e->buffer <<= bit;
    e->bits -= (int)bit;
}

void cpu_entropy_open(struct cpu_decode *d, struct cpu_scan *scan,
                      struct cpu_entropy *e)
{
    const struct cpu_decode_params *p = &d->p;
    struct cpu_entropy_tables *tables;

    if (!cpu_scan_parse(scan, p->data, p->size) || scan->width != p->width ||
        scan->height != p->height)
        cpu_decode_throw(d, CPU_REDO, "");
    tables = cpu_decode_alloc(d, 1, sizeof(*tables));
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
bool cpu_entropy_at_marker(const struct cpu_entropy *e, uint8_t marker)
{
    return e->bits - e->made_up < 8 && e->bits >= e->made_up &&
           e->scan->end - e->p >= 2 && e->p[0] == 0xff && e->p[1] == marker;
}

static bool restart(struct cpu_entropy *e)
{
    if (!cpu_entropy_at_marker(e, 0xd0 | e->marker))
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

// One of the blocks of an MCU, from MCU to MCU. All that decoding one needs
// lies here side by side.
struct unit {
    const struct cpu_dc_table *dc;
    const struct cpu_ac_table *ac;
    int *last;  // the DC before
    int16_t (*blocks)[64];
    unsigned at;           // which of them; those left of the first wrap around
    unsigned count, step;  // how many there are; how many an MCU has
};

// Block x of line k of component i.
static struct unit unit_of(struct cpu_entropy *e,
                           const struct cpu_entropy_lines *lines, int i, int k,
                           int x, int step)
{
    const struct cpu_scan_component *c = &e->scan->comp[i];
    struct unit u = {
        .dc = &e->tables->dc[c->dc],
        .ac = &e->tables->ac[c->ac],
        .last = &e->dc[i],
        .step = (unsigned)step,
    };

    if (lines) {
        u.blocks = lines[i].blocks + (size_t)k * (size_t)lines[i].pitch;
        u.at = (unsigned)(x - lines[i].first);
        u.count = (unsigned)lines[i].count;
    }
    return u;
}

CPU_INLINE bool decode_unit(struct cpu_entropy *e, struct bits *b,
                            struct unit *u)
{
    typedef int16_t zeros __attribute__((vector_size(16), may_alias));
    unsigned at = u->at;
    int16_t *block;

    if (!decode_dc(e, u->dc, b, u->last))
        return false;
    u->at += u->step;
    if (at >= u->count)
        return decode_ac(e, u->ac, b, NULL, false);
    block = u->blocks[at];
    // (Not memset(): gcc may make a slow string instruction of it.)
    CPU_UNROLL
    for (int i = 0; i < 8; i++)
        ((zeros *)(void *)block)[i] = (zeros){0};
    block[0] = (int16_t)*u->last;
    return decode_ac(e, u->ac, b, block, true);
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
        refill(e, b);
    }
    e->restart--;
    return true;
}

static bool decode_mcus(struct cpu_entropy *e, struct unit *units, int n,
                        int mcus)
{
    const struct unit *end = units + n;
    struct bits b;
    bool ok = true;

    load(e, &b);
    refill(e, &b);
    for (int x = 0; x < mcus && ok; x++) {
        ok = count_mcu(e, &b);
        for (struct unit *u = units; u < end && ok; u++)
            ok = decode_unit(e, &b, u);
    }
    save(e, &b);
    return ok;
}

// The scan of one component: one block is an MCU, and line after line of them
// makes what libjpeg-turbo counts as a row.
static bool decode_lines(struct cpu_entropy *e,
                         const struct cpu_entropy_lines *lines)
{
    const struct cpu_scan *s = e->scan;
    int columns = (s->width + 7) / 8, all = (s->height + 7) / 8;

    for (int k = 0; k < s->v_max && e->row * s->v_max + k < all; k++) {
        struct unit unit = unit_of(e, lines, 0, k, 0, 1);

        if (!decode_mcus(e, &unit, 1, columns))
            return false;
    }
    return true;
}

static bool decode_interleaved(struct cpu_entropy *e,
                               const struct cpu_entropy_lines *lines)
{
    const struct cpu_scan *s = e->scan;
    struct unit units[10];
    int n = 0;

    for (int i = 0; i < s->num_components; i++)
        for (int k = 0; k < s->comp[i].v; k++)
            for (int x = 0; x < s->comp[i].h; x++)
                units[n++] = unit_of(e, lines, i, k, x, s->comp[i].h);
    return decode_mcus(e, units, n, s->mcus);
}

// Says whether the file ends here, without a marker: libjpeg-turbo, which reads
// up to 8 bytes ahead, takes it for truncated where it wants more than there
// is.
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
    bool ok = e->scan->num_components == 1 ? decode_lines(e, lines)
                                           : decode_interleaved(e, lines);

    e->row++;
    // False if bits were used that refills made up behind the end of the data.
    return ok && e->bits >= e->made_up && !at_cut(e);
}

bool cpu_entropy_ends(struct cpu_entropy *e)
{
    return cpu_entropy_at_marker(e, 0xd9);
}
