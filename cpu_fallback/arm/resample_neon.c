// SPDX-License-Identifier: Apache-2.0
// Both passes with NEON: products and sums have 32 bits, as in C, so weights
// stay whole and sums wrap alike. A table look-up makes words of bytes, and
// brings them into order, in one instruction.
#if defined(__AARCH64EL__)

#include "cpu_fallback/arm/pixels_neon.h"
#include "cpu_fallback/pixel/resample_pack.h"

#define WINDOW 16  // source bytes that one shuffle sees
#define LANES 4    // output bytes of a piece

// LANES output bytes; a step is one tap of each. Bytes of a shorter piece are
// written, too: the next piece takes what is too much, or the slack.
struct piece {
    int32_t base, pos, steps;
};

struct packed {
    int channels, num_pieces;
    const struct piece *pieces;  // NULL: an axis that selects
    const uint8_t *shuffles;     // WINDOW bytes per piece
    const int32_t *weights;      // LANES per step, pieces in order
    struct cpu_select select;
};

// An out-of-range index: a shuffle gives 0 for it.
#define NOWHERE 255

// ---- packing ----------------------------------------------------------------

CPU_INLINE struct cpu_piece next_piece(struct cpu_walk *at)
{
    return cpu_piece_next(at, LANES, WINDOW - 1);
}

static bool pack_pieces(struct packed *p, const struct cpu_axis *axis,
                        struct cpu_arena *a)
{
    struct cpu_walk at = cpu_walk_start(axis, p->channels);
    struct cpu_piece next;
    struct piece *pieces;
    uint8_t *shuffles;
    int32_t *weights;
    size_t steps = 0;

    while ((next = next_piece(&at)).m) {
        p->num_pieces++;
        steps += (size_t)next.taps;
    }
    pieces = cpu_arena_array(a, (size_t)p->num_pieces, sizeof(*pieces));
    shuffles = cpu_arena_array(a, (size_t)p->num_pieces, WINDOW);
    weights = cpu_arena_array(a, steps, LANES * sizeof(*weights));
    if (!pieces || !shuffles || !weights)
        return false;
    p->pieces = pieces;
    p->shuffles = shuffles;
    p->weights = weights;
    memset(shuffles, NOWHERE, (size_t)p->num_pieces * WINDOW);
    memset(weights, 0, steps * LANES * sizeof(*weights));
    at = cpu_walk_start(axis, p->channels);
    for (int i = 0; i < p->num_pieces; i++, shuffles += WINDOW) {
        struct cpu_walk from = at;

        next = next_piece(&at);
        pieces[i] = (struct piece){next.base, next.pos, next.taps};
        for (int j = 0; j < next.m; j++, cpu_walk_step(&from)) {
            const int32_t *w = axis->w + (size_t)from.x * axis->stride;

            shuffles[4 * j] = (uint8_t)(cpu_walk_offset(&from) - next.base);
            for (int k = 0; k < axis->n[from.x]; k++)
                weights[LANES * k + j] = w[k];
        }
        weights += LANES * (size_t)next.taps;
    }
    return true;
}

bool cpu_pack_h_neon(struct cpu_axis *axis, int channels, struct cpu_arena *a)
{
    struct packed *p;

    axis->packed = NULL;
    if (axis->identity)
        return true;
    p = cpu_arena_alloc(a, sizeof(*p));
    if (!p)
        return false;
    *p = (struct packed){.channels = channels};
    if (cpu_axis_selects(axis)
            ? !cpu_select_pack(&p->select, axis, channels, WINDOW, a)
            : !pack_pieces(p, axis, a))
        return false;
    axis->packed = p;
    return true;
}

// ---- what both passes do ----------------------------------------------------

// Four bytes to words.
CPU_INLINE uint32x4_t words(uint8x16_t bytes, uint8x16_t shuffle)
{
    return vreinterpretq_u32_u8(vqtbl1q_u8(bytes, shuffle));
}

// Clamps at 0, and at 65535: the rest is for the next step.
CPU_INLINE uint16x4_t clipped(uint32x4_t sum)
{
    return vqmovun_s32(
        vshrq_n_s32(vreinterpretq_s32_u32(sum), CPU_WEIGHT_BITS));
}

CPU_INLINE uint8x16_t bytes_of(const uint32x4_t sums[4])
{
    return vqmovn_high_u16(vqmovn_u16(vcombine_u16(clipped(sums[0]),
                                                   clipped(sums[1]))),
                           vcombine_u16(clipped(sums[2]), clipped(sums[3])));
}

// ---- horizontal pass --------------------------------------------------------

CPU_INLINE void put_word(uint8_t *to, uint32x4_t v, int lane)
{
    uint32_t word = lane == 0   ? vgetq_lane_u32(v, 0)
                    : lane == 1 ? vgetq_lane_u32(v, 1)
                    : lane == 2 ? vgetq_lane_u32(v, 2)
                                : vgetq_lane_u32(v, 3);

    memcpy(to, &word, 4);
}

CPU_INLINE void weigh_rows(uint8_t *const *dst, const uint8_t *const *src,
                           int num_rows, const struct packed *p)
{
    // Copies, for stores of bytes could be anything's.
    const struct piece *piece = p->pieces, *end = piece + p->num_pieces;
    const uint8_t *shuffles = p->shuffles, *from[CPU_ROWS_MAX];
    const int32_t *weights = p->weights;
    const size_t channels = (size_t)p->channels;
    uint8_t *to[CPU_ROWS_MAX];

    CPU_UNROLL for (int r = 0; r < num_rows; r++)
    {
        from[r] = src[r];
        to[r] = dst[r];
    }
    for (; piece < end; piece++, shuffles += WINDOW) {
        uint8x16_t shuffle = vld1q_u8(shuffles);
        size_t at = (size_t)piece->base, pos = (size_t)piece->pos;
        uint32x4_t sums[CPU_ROWS_MAX], bytes;

        CPU_UNROLL for (int r = 0; r < CPU_ROWS_MAX; r++)
            sums[r] = vdupq_n_u32(CPU_WEIGHT_HALF);
        for (int k = 0; k < piece->steps; k++, weights += LANES) {
            uint32x4_t w = vreinterpretq_u32_s32(vld1q_s32(weights));

            CPU_UNROLL for (int r = 0; r < num_rows; r++)
                sums[r] = vmlaq_u32(sums[r],
                                    words(vld1q_u8(from[r] + at), shuffle), w);
            at += channels;
        }
        bytes = vreinterpretq_u32_u8(bytes_of(sums));
        CPU_UNROLL for (int r = 0; r < num_rows; r++)
            put_word(to[r] + pos, bytes, r);
    }
}

static void weigh_4(uint8_t *const *dst, const uint8_t *const *src,
                    const struct packed *p)
{
    weigh_rows(dst, src, 4, p);
}

static void weigh_1(uint8_t *const *dst, const uint8_t *const *src,
                    const struct packed *p)
{
    weigh_rows(dst, src, 1, p);
}

static void select_row(uint8_t *dst, const uint8_t *src,
                       const struct cpu_select *s)
{
    for (int i = 0; i < s->num; i++) {
        const struct cpu_piece *piece = &s->pieces[i];
        uint8x16_t shuffle = vld1q_u8(s->shuffles + WINDOW * (size_t)i);

        vst1q_u8(dst + piece->pos,
                 vqtbl1q_u8(vld1q_u8(src + piece->base), shuffle));
    }
}

void cpu_resample_h_neon(uint8_t *const *dst, const uint8_t *const *src,
                         int rows, int channels, const struct cpu_axis *axis)
{
    const struct packed *p = axis->packed;

    if (axis->identity)
        cpu_copy_rows(dst, src, rows, channels, axis);
    else if (!p || p->channels != channels)
        cpu_resample_h_c(dst, src, rows, channels, axis);
    else if (p->pieces)
        cpu_rows_by_four(dst, src, rows, p, weigh_4, weigh_1);
    else
        for (int r = 0; r < rows; r++)
            select_row(dst[r], src[r], &p->select);
}

// ---- vertical pass ----------------------------------------------------------

CPU_INLINE void weigh_32(uint8_t *dst, const uint8_t *const *rows, size_t x,
                         const int32_t *w, int n)
{
    uint32x4_t sums[8];

    CPU_UNROLL for (int i = 0; i < 8; i++)
        sums[i] = vdupq_n_u32(CPU_WEIGHT_HALF);
    for (int k = 0; k < n; k++) {
        uint8x16_t a = vld1q_u8(rows[k] + x), b = vld1q_u8(rows[k] + x + 16);

        CPU_UNROLL for (int i = 0; i < 8; i++)
            sums[i] = vmlaq_n_u32(sums[i], cpu_words_of(i < 4 ? a : b, i % 4),
                                  (uint32_t)w[k]);
    }
    vst1q_u8(dst + x, bytes_of(sums));
    vst1q_u8(dst + x + 16, bytes_of(sums + 4));
}

void cpu_resample_v_neon(uint8_t *dst, const uint8_t *const *rows,
                         const int32_t *w, int n, size_t bytes)
{
    if (n == 1 && w[0] == CPU_WEIGHT_ONE) {
        memmove(dst, rows[0], bytes);
        return;
    }
    for (size_t x = 0; x < bytes; x += 32)
        weigh_32(dst, rows, x, w, n);
}

#endif
