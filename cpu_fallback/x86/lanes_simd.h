// SPDX-License-Identifier: Apache-2.0
// Shared by lanes_avx512.c and lanes_half_avx512.c: a few symbols of each of
// sixteen streams, then new bits. No branch depends on the content of a stream,
// except one for all lanes: whether one of them is at the end of its row or of
// its bytes.
//
// Each of them defines SETS registers of LANES 32-bit numbers, which take
// turns: VEC and MASK, a truth a lane; OP(name), the intrinsic _mm256_name or
// _mm512_name, and SI(name) of those without a width in their name; and how
// memory is read and written:
//
//   VEC entries(VEC at, const uint32_t *tables, MASK mask): 0 without its bit
//   void bytes(VEC out[2], VEC at, const uint8_t *streams): eight bytes from
//       each place, the first one highest
//   VEC odd_places(void), even_places(void): 1, 3 .. and 0, 2 ..
//   VEC below(VEC size): 1 - 2^size, 0 of size 0; of size its low 4 bits
//   void put(const struct cpu_lane_steps *s, VEC at, VEC value, MASK stores):
//       16 bits of the value; those after them are zero and may stay so
#ifndef CPU_LANES_SIMD_H
#define CPU_LANES_SIMD_H

enum {
    LOOK = 57,    // bits at least that one look at the streams brings;
    SYMBOL = 19,  // at most so many a step takes: a code's 8 and 11 of a DC
    STEPS = 5,    // symbols after a look; lanes without the bits for all wait
};

CPU_INLINE VEC set1(uint32_t x)
{
    return OP(set1_epi32)((int)x);
}

// The streams' next bits: 57 at least.
struct window {
    VEC hi, lo;
};

CPU_INLINE struct window look(VEC pos, const uint8_t *streams)
{
    VEC byte = OP(srli_epi32)(pos, 3), bit = SI(and)(pos, set1(7));
    VEC x[2], hi, lo;

    bytes(x, byte, streams);
    hi = OP(permutex2var_epi32)(x[0], odd_places(), x[1]);
    lo = OP(permutex2var_epi32)(x[0], even_places(), x[1]);
    return (struct window){OP(shldv_epi32)(hi, lo, bit),
                           OP(sllv_epi32)(lo, bit)};
}

struct lanes {
    VEC pos, at, table, block, next_dc, odd;
};

// Value of the symbol, in the low 16 bits: ITU-T T.81 figure F.12.
CPU_INLINE VEC value_of(struct window w, VEC entry)
{
    VEC size = OP(srli_epi32)(entry, 13);
    VEC bits = OP(shldv_epi32)(w.hi, w.lo, OP(srli_epi32)(entry, 8));
    VEC value = OP(shldv_epi32)(set1(0), bits, size);
    MASK negative = (MASK)~OP(movepi32_mask)(bits);

    return OP(mask_add_epi32)(value, negative, value, below(size));
}

CPU_INLINE VEC dc_after(VEC base, VEC block, VEC second)
{
    MASK others = OP(test_epi32_mask)(block, second);

    return OP(mask_add_epi32)(base, others, base, set1(256));
}

// Decodes one symbol of each lane whose bit is set; the others do not change.
// n: the set's first lane.
CPU_INLINE void step(const struct cpu_lane_steps *s, int n, struct lanes *l,
                     struct window *w, MASK who)
{
    const VEC base = LOAD(s->base + n);
    VEC entry = entries(OP(add_epi32)(l->table, OP(srli_epi32)(w->hi, 24)),
                        s->tables, who);
    VEC at = OP(add_epi32)(l->at, OP(srli_epi32)(entry, 24));
    MASK ends = OP(test_epi32_mask)(SI(xor)(at, l->at), set1(128));
    MASK stores = OP(test_epi32_mask)(entry, LOAD(s->keep + n)), wraps;
    MASK over = OP(mask_test_epi32_mask)(ends, entry, set1(CPU_LANE_GOES_ON));

    put(s, at, value_of(*w, entry), stores);
    w->hi = OP(shldv_epi32)(w->hi, w->lo, entry);
    w->lo = OP(shldv_epi32)(w->lo, set1(0), entry);
    l->pos = OP(add_epi32)(l->pos, SI(and)(entry, set1(31)));
    l->odd = OP(mask_or_epi32)(l->odd, over, l->odd, at);
    l->at = OP(mask_and_epi32)(at, ends, at, set1(~127u));
    l->table = OP(mask_add_epi32)(
        l->table, who, base, SI(and)(OP(srli_epi32)(entry, 10), set1(0x3f00)));
    l->table = OP(mask_mov_epi32)(l->table, ends, l->next_dc);
    // Select the tables of the block after this one.
    l->block = OP(mask_add_epi32)(l->block, ends, l->block, l->block);
    wraps = OP(cmpeq_epi32_mask)(l->block, LOAD(s->top + n));
    l->block = OP(mask_mov_epi32)(l->block, wraps, set1(1));
    l->next_dc = dc_after(base, l->block, LOAD(s->second + n));
}

CPU_INLINE void load_lanes(struct lanes *l, const struct cpu_lane_steps *s,
                           int n)
{
    *l = (struct lanes){
        .pos = LOAD(s->pos + n),
        .at = LOAD(s->at + n),
        .table = LOAD(s->table + n),
        .block = LOAD(s->block + n),
        .odd = LOAD(s->odd + n),
    };
    l->next_dc = dc_after(LOAD(s->base + n), l->block, LOAD(s->second + n));
}

CPU_INLINE void store_lanes(struct cpu_lane_steps *s, const struct lanes *l,
                            int n)
{
    STORE(s->pos + n, l->pos);
    STORE(s->at + n, l->at);
    STORE(s->table + n, l->table);
    STORE(s->block + n, l->block);
    STORE(s->odd + n, l->odd);
}

static unsigned steps(struct cpu_lane_steps *s)
{
    struct lanes l[SETS];
    unsigned ended;

    CPU_UNROLL
    for (int n = 0; n < SETS; n++)
        load_lanes(&l[n], s, LANES * n);
    do {
        struct window w[SETS];
        VEC enough[SETS];

        CPU_UNROLL
        for (int n = 0; n < SETS; n++) {
            w[n] = look(l[n].pos, s->streams);
            enough[n] = OP(add_epi32)(l[n].pos, set1(LOOK - SYMBOL));
        }
        CPU_UNROLL
        for (int i = 0; i < STEPS * SETS; i++) {
            int n = i % SETS;
            VEC end = LOAD(s->end + LANES * n);
            MASK who = OP(cmplt_epu32_mask)(l[n].at, end);

            // (The first ones have enough in any case, and are not at an end.)
            if (i < SETS)
                who = (MASK)~0;
            if ((i / SETS + 1) * SYMBOL > LOOK)
                who &= OP(cmple_epu32_mask)(l[n].pos, enough[n]);
            step(s, LANES * n, &l[n], &w[n], who);
        }
        ended = 0;
        CPU_UNROLL
        for (int n = 0; n < SETS; n++) {
            VEC end = LOAD(s->end + LANES * n), at = LOAD(s->limit + LANES * n);

            ended |= (unsigned)(OP(cmpge_epu32_mask)(l[n].at, end) |
                                OP(cmpgt_epu32_mask)(l[n].pos, at))
                     << LANES * n;
        }
    } while (!ended);
    CPU_UNROLL
    for (int n = 0; n < SETS; n++)
        store_lanes(s, &l[n], LANES * n);
    return ended;
}

#endif
