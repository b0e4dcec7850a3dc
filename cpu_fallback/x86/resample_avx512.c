// SPDX-License-Identifier: Apache-2.0
// AVX-512 VBMI + VNNI, the horizontal pass. resample_avx512.h explains the
// digits of weights.
#if defined(__x86_64__)

#include "cpu_fallback/x86/resample_avx512.h"
#include "cpu_fallback/pixel/resample_pack.h"

#define WINDOW 64  // source bytes that one vpermb sees
#define DIGITS 3
#define GROUP (DIGITS * 16)  // 32-bit words of weights per step of a piece

enum packed_kind {
    PACKED_SELECT,  // one tap of weight one: a shuffle is all
    PACKED_DENSE,   // a lane is an output byte, a step is 4 of its taps
    PACKED_LONG,    // all lanes are one output, a step is 16 pixels (RGB) or
                    // 64 (grey); lanes are added up at the end
    PACKED_WIDE,    // weights that need the AVX2 sister
};

// base: first source byte; pos: first output byte; steps of `stride` bytes.
struct piece {
    int32_t base, pos, steps;
};

struct packed {
    enum packed_kind kind;
    int channels, num_pieces;
    int stride;  // source bytes from step to step
    const struct piece *pieces;
    const uint8_t *shuffles;   // WINDOW per piece; LONG: one for all
    const int32_t *weights;    // GROUP per step, pieces in order
    struct cpu_select select;  // SELECT
    struct cpu_axis wide;      // WIDE: the axis as AVX2 wants it
};

// ---- packing ----

// The cost of both ways of cutting the axis, in steps.
struct costs {
    int pieces, steps;  // dense
    int long_steps;
};

static int long_taps(int channels)
{
    return channels == 1 ? 64 : 16;
}

static struct costs costs_of(const struct cpu_axis *axis, int channels)
{
    struct costs costs = {0};
    int reach = WINDOW - 1 - (TAPS - 1) * channels;
    struct cpu_walk at = cpu_walk_start(axis, channels);
    for (;;) {
        struct cpu_piece p = cpu_piece_next(&at, 16, reach);
        if (!p.m)
            break;
        costs.pieces++;
        costs.steps += (p.taps + TAPS - 1) / TAPS;
    }
    int taps = long_taps(channels);
    for (int x = 0; x < axis->out; x++)
        costs.long_steps += (axis->n[x] + taps - 1) / taps;
    return costs;
}

// Writes one lane of every step of a piece; returns what did not fit into
// three digits.
static uint32_t dense_lane(int32_t *weights, const struct cpu_axis *axis, int x)
{
    const int32_t *w = axis->w + (size_t)x * axis->stride;
    uint32_t rest = 0;
    for (int k = 0; k < axis->n[x]; k += TAPS, weights += GROUP) {
        __m128i d = digits_of(_mm_loadu_si128((const __m128i *)(w + k)));
        weights[0] = _mm_cvtsi128_si32(d);
        weights[16] = _mm_extract_epi32(d, 1);
        weights[32] = _mm_extract_epi32(d, 2);
        rest |= (uint32_t)_mm_extract_epi32(d, 3);
    }
    return rest;
}

static bool pack_dense(struct packed *p, const struct cpu_axis *axis,
                       const struct costs *costs, struct cpu_arena *a)
{
    int channels = p->channels;
    int reach = WINDOW - 1 - (TAPS - 1) * channels;
    struct piece *pieces = cpu_arena_array(a, costs->pieces, sizeof *pieces);
    uint8_t *shuffles = cpu_arena_array(a, costs->pieces, WINDOW);
    int32_t *weights = cpu_arena_array(a, costs->steps,
                                       GROUP * sizeof *weights);
    if (!pieces || !shuffles || !weights)
        return false;
    memset(weights, 0, (size_t)costs->steps * GROUP * sizeof *weights);
    memset(shuffles, 0, (size_t)costs->pieces * WINDOW);
    p->pieces = pieces;
    p->shuffles = shuffles;
    p->weights = weights;
    p->num_pieces = costs->pieces;
    p->stride = TAPS * channels;

    // The byte offsets of the four taps of a lane.
    const uint32_t taps = (uint32_t)channels * 0x03020100u;
    uint32_t rest = 0;
    struct cpu_walk at = cpu_walk_start(axis, channels);
    for (int i = 0; i < costs->pieces; i++) {
        struct cpu_walk lane = at;
        struct cpu_piece c = cpu_piece_next(&at, 16, reach);
        pieces[i] = (struct piece){c.base, c.pos, (c.taps + TAPS - 1) / TAPS};
        for (int j = 0; j < c.m; j++, cpu_walk_step(&lane)) {
            uint32_t from = (uint32_t)(cpu_walk_offset(&lane) - c.base);
            uint32_t shuffle = from * 0x01010101u + taps;
            memcpy(shuffles + (size_t)i * WINDOW + 4 * j, &shuffle, 4);
            rest |= dense_lane(weights + j, axis, lane.x);
        }
        weights += (size_t)pieces[i].steps * GROUP;
    }
    if (rest)
        p->kind = PACKED_WIDE;
    return true;
}

// Byte b of the shuffle of a long step. RGB: 128-bit lane l is taps 4l ..
// 4l+3, its words are R, G, B and one that has no weight.
static uint8_t long_shuffle(int channels, int b)
{
    if (channels == 1)
        return (uint8_t)b;
    int l = b / 16, c = b % 16 / 4, tap = b % 4;
    return (uint8_t)(c == 3 ? 0 : (4 * l + tap) * 3 + c);
}

static uint32_t long_step(int32_t *weights, const int32_t *w, int num_taps,
                          int channels)
{
    uint32_t rest = 0;
    int copies = channels == 1 ? 1 : 3, lane = channels == 1 ? 1 : 4;
    memset(weights, 0, GROUP * sizeof *weights);
    for (int k = 0; k < num_taps; k += TAPS) {
        int32_t d[4];
        _mm_storeu_si128((__m128i *)d,
                         digits_of(_mm_loadu_si128((const __m128i *)(w + k))));
        for (int c = 0; c < copies; c++)
            for (int i = 0; i < DIGITS; i++)
                weights[i * 16 + k / TAPS * lane + c] = d[i];
        rest |= (uint32_t)d[3];
    }
    return rest;
}

static bool pack_long(struct packed *p, const struct cpu_axis *axis,
                      const struct costs *costs, struct cpu_arena *a)
{
    int taps = long_taps(p->channels);
    struct piece *pieces = cpu_arena_array(a, axis->out, sizeof *pieces);
    uint8_t *shuffle = cpu_arena_alloc(a, WINDOW);
    int32_t *weights = cpu_arena_array(a, costs->long_steps,
                                       GROUP * sizeof *weights);
    if (!pieces || !shuffle || !weights)
        return false;
    p->pieces = pieces;
    p->shuffles = shuffle;
    p->weights = weights;
    p->num_pieces = axis->out;
    p->stride = taps * p->channels;

    for (int b = 0; b < WINDOW; b++)
        shuffle[b] = long_shuffle(p->channels, b);
    uint32_t rest = 0;
    for (int x = 0; x < axis->out; x++) {
        const int32_t *w = axis->w + (size_t)x * axis->stride;
        pieces[x] = (struct piece){axis->lo[x] * p->channels, x * p->channels,
                                   (axis->n[x] + taps - 1) / taps};
        for (int k = 0; k < axis->n[x]; k += taps, weights += GROUP) {
            int left = axis->n[x] - k;
            rest |= long_step(weights, w + k, left < taps ? left : taps,
                              p->channels);
        }
    }
    if (rest)
        p->kind = PACKED_WIDE;
    return true;
}

bool cpu_pack_h_avx512(struct cpu_axis *axis, int channels, struct cpu_arena *a)
{
    axis->packed = NULL;
    if (axis->identity)
        return true;
    struct packed *p = cpu_arena_alloc(a, sizeof *p);
    if (!p)
        return false;
    *p = (struct packed){.channels = channels};
    if (cpu_axis_selects(axis)) {
        p->kind = PACKED_SELECT;
        if (!cpu_select_pack(&p->select, axis, channels, WINDOW, a))
            return false;
    } else {
        // A long output pays about three steps for adding up its lanes; a
        // dense piece two, for combining and storing.
        struct costs costs = costs_of(axis, channels);
        bool is_long = costs.long_steps + 3 * axis->out <
                       costs.steps + 2 * costs.pieces;
        p->kind = is_long ? PACKED_LONG : PACKED_DENSE;
        if (!(is_long ? pack_long : pack_dense)(p, axis, &costs, a))
            return false;
    }
    if (p->kind == PACKED_WIDE) {
        p->wide = *axis;
        if (!cpu_pack_h_avx2(&p->wide, channels, a))
            return false;
    }
    axis->packed = p;
    return true;
}

// ---- horizontal pass ----

// Adds all steps of one piece for num_rows rows. Weights are read once for
// all of them.
CPU_INLINE const int32_t *add_steps(struct sums *sums, int num_rows,
                                    const uint8_t *const *src,
                                    const struct packed *p,
                                    const struct piece *piece, __m512i shuffle,
                                    const int32_t *weights)
{
    CPU_UNROLL
    for (int r = 0; r < num_rows; r++) {
        sums[r].d0 = _mm512_set1_epi32(CPU_WEIGHT_HALF);
        sums[r].d1 = sums[r].d2 = _mm512_setzero_si512();
    }
    size_t from = (size_t)piece->base;
    for (int t = 0; t < piece->steps; t++) {
        __m512i w0 = _mm512_load_si512(weights);
        __m512i w1 = _mm512_load_si512(weights + 16);
        __m512i w2 = _mm512_load_si512(weights + 32);
        CPU_UNROLL
        for (int r = 0; r < num_rows; r++) {
            __m512i v = _mm512_loadu_si512(src[r] + from);
            v = _mm512_permutexvar_epi8(shuffle, v);
            sums[r].d0 = _mm512_dpbusd_epi32(sums[r].d0, v, w0);
            sums[r].d1 = _mm512_dpbusd_epi32(sums[r].d1, v, w1);
            sums[r].d2 = _mm512_dpbusd_epi32(sums[r].d2, v, w2);
        }
        weights += GROUP;
        from += (size_t)p->stride;
    }
    return weights;
}

CPU_INLINE __m128i clip(__m512i sum)
{
    __m512i v = _mm512_srai_epi32(sum, CPU_WEIGHT_BITS);
    v = _mm512_max_epi32(v, _mm512_setzero_si512());
    return _mm512_cvtusepi32_epi8(v);
}

// A piece shorter than 16 stores garbage behind itself; the next piece, or
// the slack, takes it.
CPU_INLINE void dense_rows(uint8_t *const *dst, const uint8_t *const *src,
                           int num_rows, const struct packed *p)
{
    const int32_t *weights = p->weights;
    for (int i = 0; i < p->num_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        __m512i shuffle = _mm512_load_si512(p->shuffles + (size_t)i * WINDOW);
        struct sums sums[CPU_ROWS_MAX];
        weights = add_steps(sums, num_rows, src, p, piece, shuffle, weights);
        CPU_UNROLL
        for (int r = 0; r < num_rows; r++)
            _mm_storeu_si128((__m128i *)(dst[r] + piece->pos),
                             clip(combine(sums[r].d0, sums[r].d1, sums[r].d2)));
    }
}

// 128-bit lane r of the result is the sum of the four lanes of v[r].
CPU_INLINE __m512i add_lanes(const __m512i v[4])
{
    __m512i a = _mm512_add_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x44),
                                 _mm512_shuffle_i32x4(v[0], v[1], 0xee));
    __m512i b = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2], v[3], 0x44),
                                 _mm512_shuffle_i32x4(v[2], v[3], 0xee));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88),
                            _mm512_shuffle_i32x4(a, b, 0xdd));
}

// Always four rows: src and dst may name a row twice.
CPU_INLINE void long_rows(uint8_t *const *dst, const uint8_t *const *src,
                          bool gray, const struct packed *p)
{
    const __m512i shuffle = _mm512_load_si512(p->shuffles);
    const __m512i half = _mm512_set1_epi32(CPU_WEIGHT_HALF);
    const int32_t *weights = p->weights;
    for (int i = 0; i < p->num_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        struct sums sums[4];
        weights = add_steps(sums, 4, src, p, piece, shuffle, weights);
        __m512i v[4];
        CPU_UNROLL
        for (int r = 0; r < 4; r++)
            v[r] = combine(_mm512_sub_epi32(sums[r].d0, half), sums[r].d1,
                           sums[r].d2);
        __m512i sum = add_lanes(v);
        if (gray) {
            sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, 0x4e));
            sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, 0xb1));
        }
        int32_t pixels[4];
        _mm_storeu_si128((__m128i *)pixels, clip(_mm512_add_epi32(sum, half)));
        for (int r = 0; r < 4; r++)
            memcpy(dst[r] + piece->pos, &pixels[r], 4);
    }
}

static void select_row(uint8_t *dst, const uint8_t *src,
                       const struct cpu_select *s)
{
    for (int i = 0; i < s->num; i++) {
        __m512i v = _mm512_loadu_si512(src + s->pieces[i].base);
        __m512i shuffle = _mm512_load_si512(s->shuffles + (size_t)i * WINDOW);
        _mm512_storeu_si512(dst + s->pieces[i].pos,
                            _mm512_permutexvar_epi8(shuffle, v));
    }
}

static void dense_4(uint8_t *const *dst, const uint8_t *const *src,
                    const struct packed *p)
{
    dense_rows(dst, src, 4, p);
}

static void dense_1(uint8_t *const *dst, const uint8_t *const *src,
                    const struct packed *p)
{
    dense_rows(dst, src, 1, p);
}

static void long_gray(uint8_t *const *dst, const uint8_t *const *src,
                      const struct packed *p)
{
    long_rows(dst, src, true, p);
}

static void long_rgb(uint8_t *const *dst, const uint8_t *const *src,
                     const struct packed *p)
{
    long_rows(dst, src, false, p);
}

void cpu_resample_h_avx512(uint8_t *const *dst, const uint8_t *const *src,
                           int rows, int channels, const struct cpu_axis *axis)
{
    const struct packed *p = axis->packed;
    if (axis->identity) {
        cpu_copy_rows(dst, src, rows, channels, axis);
    } else if (!p || p->channels != channels) {
        cpu_resample_h_c(dst, src, rows, channels, axis);
    } else if (p->kind == PACKED_WIDE) {
        cpu_resample_h_avx2(dst, src, rows, channels, &p->wide);
    } else if (p->kind == PACKED_SELECT) {
        for (int r = 0; r < rows; r++)
            select_row(dst[r], src[r], &p->select);
    } else if (p->kind == PACKED_DENSE) {
        cpu_rows_by_four(dst, src, rows, p, dense_4, dense_1);
    } else {
        cpu_rows_by_four(dst, src, rows, p,
                         channels == 1 ? long_gray : long_rgb, NULL);
    }
}

#endif
