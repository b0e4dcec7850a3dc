// SPDX-License-Identifier: Apache-2.0
// AVX2, the horizontal pass. How weights are halved: resample_avx2.h.
#if defined(__x86_64__)

#include "cpu_fallback/x86/resample_avx2.h"
#include "cpu_fallback/pixel/resample_pack.h"

#define WINDOW 16  // source bytes that one shuffle sees, per 128-bit lane

enum packed_kind {
    PACKED_SELECT,  // one tap of weight one: a shuffle is all
    PACKED_DENSE,   // a 32-bit word is an output byte, a step is 2 taps
    PACKED_LONG,    // all words of a lane are one output (grey), a step is 8
                    // taps; words are added up at the end
};

// Two independent lanes: first source byte and first output byte of each.
// An unused second lane reads what the first reads and writes behind it, as
// every lane of fewer than four bytes does: the next one, or the slack, takes
// the garbage.
struct piece {
    int32_t base[2], pos[2], steps;
};

struct packed {
    enum packed_kind kind;
    int channels, num_pieces;
    int stride;  // source bytes from step to step
    const struct piece *pieces;
    const uint8_t *shuffles;   // DENSE: 32 bytes per piece; LONG: 32 for all
    const int16_t *weights;    // per step 16 hi and 16 lo; pieces in order
    struct cpu_select select;  // SELECT; rows are copied 16 bytes at a time
};

#define STEP 32  // 16-bit weights per step

// ---- packing ----

static int words_of(int taps)
{
    return (taps + 1) / 2;
}

// A lane may only be stepped on as long as a 16-byte load stays in the
// row's slack.
static bool lane_in_row(int base, int steps, int stride, int row_bytes)
{
    return (int64_t)base + (int64_t)(steps - 1) * stride + WINDOW <=
           (int64_t)row_bytes + CPU_SLACK;
}

// The two lanes of the next piece. They share their number of steps.
static bool next_piece(struct piece *piece, int m[2], struct cpu_walk *at)
{
    int channels = at->channels, row_bytes = at->axis->in * channels;
    int reach = WINDOW - 1 - channels;
    struct cpu_piece a = cpu_piece_next(at, 4, reach);
    if (!a.m)
        return false;
    struct cpu_walk behind_a = *at;
    struct cpu_piece b = cpu_piece_next(at, 4, reach);
    int steps = words_of(a.taps > b.taps ? a.taps : b.taps);
    if (!b.m || !lane_in_row(a.base, steps, 2 * channels, row_bytes) ||
        !lane_in_row(b.base, steps, 2 * channels, row_bytes)) {
        *at = behind_a;
        b = (struct cpu_piece){.base = a.base, .pos = a.pos + a.m};
        steps = words_of(a.taps);
    }
    *piece = (struct piece){{a.base, b.base}, {a.pos, b.pos}, steps};
    m[0] = a.m;
    m[1] = b.m;
    return true;
}

// The cost of both ways of cutting the axis.
struct costs {
    int pieces, steps;  // dense
    int long_steps;     // each of one lane only
};

static struct costs costs_of(const struct cpu_axis *axis, int channels)
{
    struct costs costs = {0};
    struct cpu_walk at = cpu_walk_start(axis, channels);
    struct piece piece;
    int m[2];
    while (next_piece(&piece, m, &at)) {
        costs.pieces++;
        costs.steps += piece.steps;
    }
    for (int x = 0; x < axis->out; x++)
        costs.long_steps += (axis->n[x] + 7) / 8;
    return costs;
}

// Four weights -> 32-bit words of two: hi, hi, lo, lo.
CPU_INLINE __m128i halves_of(__m128i w)
{
    const __m128i mask = _mm_set1_epi32((1 << HALF_BITS) - 1);
    return _mm_packs_epi32(_mm_srai_epi32(w, HALF_BITS),
                           _mm_and_si128(w, mask));
}

// Writes one 32-bit word of every step.
CPU_INLINE void dense_word(int16_t *weights, const struct cpu_axis *axis, int x)
{
    const int32_t *w = axis->w + (size_t)x * axis->stride;
    int n = axis->n[x];
    for (int k = 0; k < n; k += 4, weights += 2 * STEP) {
        int32_t v[4];
        __m128i halves = halves_of(_mm_loadu_si128((const __m128i *)(w + k)));
        _mm_storeu_si128((__m128i *)v, halves);
        memcpy(weights, &v[0], 4);
        memcpy(weights + 16, &v[2], 4);
        if (k + 2 < n) {
            memcpy(weights + STEP, &v[1], 4);
            memcpy(weights + STEP + 16, &v[3], 4);
        }
    }
}

// Two 16-bit elements per word, the byte of the first tap and that of the
// second; 0x80 makes the upper byte of each 0.
static uint32_t word_shuffle(int from, int channels)
{
    return 0x80008000u | (uint32_t)from | (uint32_t)(from + channels) << 16;
}

static bool pack_dense(struct packed *p, const struct cpu_axis *axis,
                       const struct costs *costs, struct cpu_arena *a)
{
    struct piece *pieces = cpu_arena_array(a, costs->pieces, sizeof *pieces);
    uint8_t *shuffles = cpu_arena_array(a, costs->pieces, 2 * WINDOW);
    int16_t *weights = cpu_arena_array(a, costs->steps, STEP * sizeof *weights);
    if (!pieces || !shuffles || !weights)
        return false;
    memset(weights, 0, (size_t)costs->steps * STEP * sizeof *weights);
    memset(shuffles, 0, (size_t)costs->pieces * 2 * WINDOW);
    p->pieces = pieces;
    p->shuffles = shuffles;
    p->weights = weights;
    p->num_pieces = costs->pieces;
    p->stride = 2 * p->channels;

    struct cpu_walk at = cpu_walk_start(axis, p->channels);
    for (int i = 0; i < costs->pieces; i++, pieces++) {
        struct cpu_walk from = at;
        int m[2];
        next_piece(pieces, m, &at);
        for (int l = 0; l < 2; l++) {
            for (int j = 0; j < m[l]; j++, cpu_walk_step(&from)) {
                uint32_t shuffle = word_shuffle(
                    cpu_walk_offset(&from) - pieces->base[l], p->channels);
                memcpy(shuffles + l * WINDOW + 4 * j, &shuffle, 4);
                dense_word(weights + l * 8 + j * 2, axis, from.x);
            }
        }
        shuffles += 2 * WINDOW;
        weights += (size_t)pieces->steps * STEP;
    }
    return true;
}

// Grey only: lane l is output 2 i + l of piece i.
static bool pack_long(struct packed *p, const struct cpu_axis *axis,
                      struct cpu_arena *a)
{
    int n = (axis->out + 1) / 2, steps = 0;
    struct piece *pieces = cpu_arena_array(a, (size_t)n, sizeof *pieces);
    uint8_t *shuffle = cpu_arena_alloc(a, 2 * WINDOW);
    if (!pieces || !shuffle)
        return false;
    for (int i = 0; i < n; i++) {
        int x0 = 2 * i, x1 = x0 + 1 < axis->out ? x0 + 1 : x0;
        int taps = axis->n[x0] > axis->n[x1] ? axis->n[x0] : axis->n[x1];
        pieces[i] = (struct piece){{axis->lo[x0], axis->lo[x1]},
                                   {x0, x0 + 1},
                                   (taps + 7) / 8};
        steps += pieces[i].steps;
    }
    int16_t *weights = cpu_arena_array(a, (size_t)steps,
                                       STEP * sizeof *weights);
    if (!weights)
        return false;
    memset(weights, 0, (size_t)steps * STEP * sizeof *weights);
    p->pieces = pieces;
    p->shuffles = shuffle;
    p->weights = weights;
    p->num_pieces = n;
    p->stride = 8;
    for (int b = 0; b < 2 * WINDOW; b++)
        shuffle[b] = (uint8_t)(b & 1 ? 0x80 : b % 16 / 2);
    for (int x = 0; x < axis->out; x++) {
        const int32_t *w = axis->w + (size_t)x * axis->stride;
        for (int k = 0; k < axis->n[x]; k++) {
            int16_t *to = weights + k / 8 * STEP + x % 2 * 8 + k % 8;
            to[0] = (int16_t)(w[k] >> HALF_BITS);
            to[16] = (int16_t)(w[k] & ((1 << HALF_BITS) - 1));
        }
        if (x % 2)
            weights += (size_t)pieces[x / 2].steps * STEP;
    }
    return true;
}

// Long steps run both outputs of a piece to the same length.
static bool long_fits(const struct cpu_axis *axis)
{
    for (int x = 0; x < axis->out; x++) {
        int y = x ^ 1;
        int steps =
            (axis->n[y < axis->out && axis->n[y] > axis->n[x] ? y : x] + 7) / 8;
        if (!lane_in_row(axis->lo[x], steps, 8, axis->in))
            return false;
    }
    return true;
}

bool cpu_pack_h_avx2(struct cpu_axis *axis, int channels, struct cpu_arena *a)
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
        // Adding up the words of a long output costs about another step.
        struct costs costs = costs_of(axis, channels);
        bool is_long = channels == 1 && long_fits(axis) &&
                       (costs.long_steps + axis->out) / 2 < costs.steps;
        p->kind = is_long ? PACKED_LONG : PACKED_DENSE;
        if (!(is_long ? pack_long(p, axis, a) : pack_dense(p, axis, &costs, a)))
            return false;
    }
    axis->packed = p;
    return true;
}

// ---- horizontal pass ----

CPU_INLINE __m256i load_lanes(const uint8_t *a, const uint8_t *b)
{
    __m128i lane_a = _mm_loadu_si128((const __m128i *)a);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(lane_a),
                                   _mm_loadu_si128((const __m128i *)b), 1);
}

// Adds all steps of one piece for num_rows rows. Weights are read once for
// all of them.
CPU_INLINE const int16_t *add_steps(struct sums *sums, int num_rows,
                                    const uint8_t *const *src,
                                    const struct packed *p,
                                    const struct piece *piece, __m256i shuffle,
                                    const int16_t *weights)
{
    CPU_UNROLL
    for (int r = 0; r < num_rows; r++)
        sums[r].hi = sums[r].lo = _mm256_setzero_si256();
    size_t a = (size_t)piece->base[0], b = (size_t)piece->base[1];
    for (int t = 0; t < piece->steps; t++) {
        __m256i hi = _mm256_load_si256((const __m256i *)weights);
        __m256i lo = _mm256_load_si256((const __m256i *)weights + 1);
        CPU_UNROLL
        for (int r = 0; r < num_rows; r++) {
            __m256i v = load_lanes(src[r] + a, src[r] + b);
            v = _mm256_shuffle_epi8(v, shuffle);
            sums[r].hi = _mm256_add_epi32(sums[r].hi, _mm256_madd_epi16(v, hi));
            sums[r].lo = _mm256_add_epi32(sums[r].lo, _mm256_madd_epi16(v, lo));
        }
        weights += STEP;
        a += (size_t)p->stride;
        b += (size_t)p->stride;
    }
    return weights;
}

CPU_INLINE void write_piece(uint8_t *dst, const struct piece *piece,
                            uint64_t bytes)
{
    uint32_t first = (uint32_t)bytes, second = (uint32_t)(bytes >> 32);
    memcpy(dst + piece->pos[0], &first, 4);
    memcpy(dst + piece->pos[1], &second, 4);
}

CPU_INLINE void dense_rows(uint8_t *const *dst, const uint8_t *const *src,
                           int num_rows, const struct packed *p)
{
    // Row by row, both lanes of a row side by side.
    const __m256i by_row = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const int16_t *weights = p->weights;
    for (int i = 0; i < p->num_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        __m256i shuffle = _mm256_load_si256((const __m256i *)p->shuffles + i);
        struct sums sums[CPU_ROWS_MAX];
        weights = add_steps(sums, num_rows, src, p, piece, shuffle, weights);
        __m256i v[CPU_ROWS_MAX];
        CPU_UNROLL
        for (int r = 0; r < CPU_ROWS_MAX; r++)
            v[r] = round_shift(combine(sums[r < num_rows ? r : 0]));
        __m256i bytes = _mm256_permutevar8x32_epi32(
            _mm256_packus_epi16(_mm256_packs_epi32(v[0], v[1]),
                                _mm256_packs_epi32(v[2], v[3])),
            by_row);
        uint64_t of_row[CPU_ROWS_MAX];
        of_row[0] = (uint64_t)_mm256_extract_epi64(bytes, 0);
        of_row[1] = (uint64_t)_mm256_extract_epi64(bytes, 1);
        of_row[2] = (uint64_t)_mm256_extract_epi64(bytes, 2);
        of_row[3] = (uint64_t)_mm256_extract_epi64(bytes, 3);
        CPU_UNROLL
        for (int r = 0; r < num_rows; r++)
            write_piece(dst[r], piece, of_row[r]);
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

static void long_4(uint8_t *const *dst, const uint8_t *const *src,
                   const struct packed *p)
{
    const __m256i shuffle = _mm256_load_si256((const __m256i *)p->shuffles);
    const int16_t *weights = p->weights;
    for (int i = 0; i < p->num_pieces; i++) {
        const struct piece *piece = &p->pieces[i];
        struct sums s[4];
        weights = add_steps(s, 4, src, p, piece, shuffle, weights);
        // Word r of each lane: the sum of that lane of row r.
        __m256i v =
            _mm256_hadd_epi32(_mm256_hadd_epi32(combine(s[0]), combine(s[1])),
                              _mm256_hadd_epi32(combine(s[2]), combine(s[3])));
        v = round_shift(v);
        v = _mm256_packs_epi32(v, v);
        v = _mm256_packus_epi16(v, v);
        uint32_t first = (uint32_t)_mm256_extract_epi32(v, 0);
        uint32_t second = (uint32_t)_mm256_extract_epi32(v, 4);
        for (int r = 0; r < 4; r++) {
            dst[r][piece->pos[0]] = (uint8_t)(first >> 8 * r);
            dst[r][piece->pos[1]] = (uint8_t)(second >> 8 * r);
        }
    }
}

static void select_row(uint8_t *dst, const uint8_t *src,
                       const struct cpu_select *s)
{
    const __m128i *shuffles = (const __m128i *)s->shuffles;
    for (int i = 0; i < s->num; i++) {
        const struct cpu_piece *piece = &s->pieces[i];
        __m128i v = _mm_loadu_si128((const __m128i *)(src + piece->base));
        v = _mm_shuffle_epi8(v, _mm_load_si128(shuffles + i));
        _mm_storeu_si128((__m128i *)(dst + piece->pos), v);
    }
}

void cpu_resample_h_avx2(uint8_t *const *dst, const uint8_t *const *src,
                         int rows, int channels, const struct cpu_axis *axis)
{
    const struct packed *p = axis->packed;
    if (axis->identity) {
        cpu_copy_rows(dst, src, rows, channels, axis);
    } else if (!p || p->channels != channels) {
        cpu_resample_h_c(dst, src, rows, channels, axis);
    } else if (p->kind == PACKED_SELECT) {
        for (int r = 0; r < rows; r++)
            select_row(dst[r], src[r], &p->select);
    } else if (p->kind == PACKED_DENSE) {
        cpu_rows_by_four(dst, src, rows, p, dense_4, dense_1);
    } else {
        cpu_rows_by_four(dst, src, rows, p, long_4, NULL);
    }
}

#endif
