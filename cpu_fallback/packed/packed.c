// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/packed/packed.h"

#include "cpu_fallback/decode.h"
#include "cpu_fallback/packed/line.h"

// ---- Writing a line ---------------------------------------------------------

// The coefficients of a block that are not 0, DC left out, and their masks.
static int list(const int16_t block[64], int16_t values[64], uint8_t masks[8])
{
    int n = 0;

    for (int r = 0; r < 8; r++) {
        masks[r] = 0;
        for (int c = r == 0; c < 8; c++)
            if (block[8 * r + c]) {
                masks[r] |= (uint8_t)(1 << c);
                values[n++] = block[8 * r + c];
            }
    }
    return n;
}

static bool is_nibble(int value)
{
    return value >= -8 && value <= 7;
}

static uint8_t *put_block(uint8_t *to, uint8_t *rows, const int16_t block[64])
{
    int16_t values[64];
    uint8_t masks[8];
    int n = list(block, values, masks);

    *rows = 0;
    for (int r = 0; r < 8; r++)
        if (masks[r]) {
            *rows |= (uint8_t)(1 << r);
            *to++ = masks[r];
        }
    memset(to, 0, (size_t)(n + 1) / 2);
    for (int i = 0; i < n; i++)
        if (is_nibble(values[i]))
            to[i / 2] |= (uint8_t)((values[i] & 15) << (i & 1) * 4);
    to += (n + 1) / 2;
    for (int i = 0; i < n; i++)
        if (!is_nibble(values[i]))
            *to++ = (uint8_t)(values[i] == (int8_t)values[i] ? values[i] : 0);
    for (int i = 0; i < n; i++)
        if (values[i] != (int8_t)values[i]) {
            memcpy(to, &values[i], sizeof(values[i]));
            to += sizeof(values[i]);
        }
    return to;
}

size_t cpu_pack_line_c(uint8_t *segment, const int16_t (*blocks)[64], int n)
{
    return packed_put_line(segment, blocks, n, put_block);
}

// ---- Reading a line ---------------------------------------------------------

// Finds the places of coefficients that are not 0, in natural order.
static int places(const uint8_t **p, unsigned rows, uint8_t at[64])
{
    int n = 0;

    for (int r = 0; r < 8; r++)
        if (rows >> r & 1)
            for (unsigned mask = *(*p)++, c = 0; mask >> c; c++)
                if (mask >> c & 1)
                    at[n++] = (uint8_t)(8 * r + (int)c);
    return n;
}

static void get_block(int16_t block[64], const uint8_t *p, unsigned rows)
{
    uint8_t at[64];
    int n = places(&p, rows, at), bytes = 0, words = 0;
    const uint8_t *nibbles = p;

    memset(block, 0, 64 * sizeof(*block));
    p += (n + 1) / 2;
    for (int i = 0; i < n; i++) {
        int value = (nibbles[i / 2] >> (i & 1) * 4 & 15) ^ 8;

        if (value == 8) {  // 0 with its sign turned: escapes
            block[at[i]] = (int8_t)p[bytes];
            at[bytes++] = at[i];
        } else {
            block[at[i]] = (int16_t)(value - 8);
        }
    }
    p += bytes;
    for (int i = 0; i < bytes; i++)
        if (!block[at[i]])
            block[at[i]] = packed_word(p + 2 * words++);
}

void cpu_unpack_line_c(int16_t (*blocks)[64], const uint8_t *segment, int n,
                       int first, int count)
{
    struct line l = packed_line(segment, n);
    int dc = 0;

    for (int i = 0; i < first; i++) {
        dc = packed_dc(&l, i, dc);
        l.payload += l.len[i];
    }
    for (int i = first; i < first + count; i++) {
        dc = packed_dc(&l, i, dc);
        get_block(blocks[i - first], l.payload, l.rows[i]);
        blocks[i - first][0] = (int16_t)dc;
        l.payload += l.len[i];
    }
}

// ---- Checking ---------------------------------------------------------------

// Eight bytes or sixteen nibbles at a time, in a plain register. Loads may
// reach behind the segment, by CPU_PACKED_PAD bytes at most.

// The lowest n bits, 0 .. 64.
static uint64_t low(uint64_t x, int n)
{
    return n < 64 ? x & ((UINT64_C(1) << n) - 1) : x;
}

static int sum_of_bytes(uint64_t x)
{
    return (int)(x * UINT64_C(0x0101010101010101) >> 56);
}

// Counts the bits that are 1. (Not __builtin_popcountll(): without an
// instruction of its own it is a call.)
static int ones(uint64_t x)
{
    const uint64_t m1 = UINT64_C(0x5555555555555555);
    const uint64_t m2 = UINT64_C(0x3333333333333333);

    x -= x >> 1 & m1;
    x = (x & m2) + (x >> 2 & m2);
    return sum_of_bytes((x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f));
}

// Count the bytes, and the nibbles, that are not 0.
static int bytes_used(uint64_t x)
{
    const uint64_t m = UINT64_C(0x7f7f7f7f7f7f7f7f);

    return sum_of_bytes((((x & m) + m) | x) >> 7 & ~m >> 7);
}

static int nibbles_used(uint64_t x)
{
    x |= x >> 2;
    x |= x >> 1;
    x &= UINT64_C(0x1111111111111111);
    return sum_of_bytes((x + (x >> 4)) & UINT64_C(0x0303030303030303));
}

// Returns the bytes of the payload at p, of a block whose rows are not 0. 0: it
// is no payload: a row's mask is empty, it names DC, or there is something
// behind the last nibble. Only rare cases have branches, since others would be
// mispredicted.
static int payload(const uint8_t *p, unsigned rows)
{
    int of_rows = ones(rows), n, bytes, words, faults;
    uint64_t masks = low(load64(p), 8 * of_rows);

    n = ones(masks);
    p += of_rows;
    // An empty row, DC, something behind the last nibble.
    faults = bytes_used(masks) != of_rows;
    faults |= (int)(rows & masks & 1);
    faults |= (n & 1) & (p[n / 2] > 15);
    bytes = n - nibbles_used(low(load64(p), 4 * n)) -
            nibbles_used(low(load64(p + 8), n > 16 ? 4 * (n - 16) : 0));
    for (int i = 32; i < n; i += 16)
        bytes -= nibbles_used(low(load64(p + i / 2), 4 * (n - i)));
    p += (n + 1) / 2;
    words = bytes - bytes_used(low(load64(p), 8 * bytes));
    for (int i = 8; i < bytes; i += 8)
        words -= bytes_used(low(load64(p + i), 8 * (bytes - i)));
    return faults ? 0 : of_rows + (n + 1) / 2 + bytes + 2 * words;
}

bool cpu_packed_check_line(const uint8_t *segment, size_t size, int n)
{
    const uint8_t *p;
    size_t escapes = 0, sum = 0;
    struct line l;

    if (n < 1 || n > 65535 || size < 2 + 3 * (size_t)n)
        return false;
    l = packed_line(segment, n);
    for (int i = 0; i < n; i++) {
        escapes += l.d[i] == CPU_PACKED_ESCAPE;
        sum += l.len[i];
    }
    if (escapes != (size_t)(segment[0] | segment[1] << 8) ||
        size != 2 + 3 * (size_t)n + 2 * escapes + sum)
        return false;
    // The payloads end where the segment does, so each begins inside it.
    p = l.payload;
    for (int i = 0; i < n; p += l.len[i++])
        if (!l.rows[i] != !l.len[i] ||
            (l.rows[i] && payload(p, l.rows[i]) != l.len[i]))
            return false;
    return true;
}

// Four sums that do not wait for each other. The checksum is to find damage by
// failing memory and disks; it does not withstand a forger.
static uint64_t checksum(const void *data, size_t size)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    const uint8_t *p = data;
    uint64_t h[4] = {size, 1, 2, 3};

    for (; size; p += 32) {
        uint64_t words[4] = {0};
        size_t n = size < 32 ? size : 32;

        memcpy(words, p, n);
        for (int i = 0; i < 4; i++) {
            h[i] = (h[i] ^ words[i]) * odd;
            h[i] ^= h[i] >> 29;
        }
        size -= n;
    }
    for (int i = 1; i < 4; i++) {
        h[0] = (h[0] ^ h[i]) * odd;
        h[0] ^= h[0] >> 29;
    }
    return h[0];
}

static uint64_t head_checksum(const struct cpu_packed_head *head)
{
    const uint8_t *from = (const uint8_t *)&head->size;
    const uint8_t *to = (const uint8_t *)head +
                        (size_t)(head->size - CPU_PACKED_PAD);

    return checksum(from, (size_t)(to - from));
}

// ---- The head ---------------------------------------------------------------

static uint32_t divided(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

// The part of a head that cpu_packed_head_init() is given.
static bool is_picture(const struct cpu_packed_head *head)
{
    if (!head->width || head->width > 65535 || !head->height ||
        head->height > 65535)
        return false;
    if (!head->orientation || head->orientation > 8)
        return false;
    if (head->num_components == 1)
        return head->color == HR_COLOR_GRAY;
    return head->num_components == 3 &&
           (head->color == HR_COLOR_YCC || head->color == HR_COLOR_RGB);
}

static bool init_components(struct cpu_packed_head *head)
{
    head->h_max = head->v_max = 1;
    for (uint32_t i = 0; i < head->num_components; i++) {
        const struct cpu_packed_component *c = &head->comp[i];

        if (c->h < 1 || c->h > 4 || c->v < 1 || c->v > 4)
            return false;
        head->h_max = c->h > head->h_max ? c->h : head->h_max;
        head->v_max = c->v > head->v_max ? c->v : head->v_max;
    }
    for (uint32_t i = 0; i < head->num_components; i++)
        if (head->h_max % head->comp[i].h || head->v_max % head->comp[i].v)
            return false;
    for (uint32_t i = head->num_components; i < CPU_PACKED_COMPONENTS; i++)
        head->comp[i] = (struct cpu_packed_component){0};
    return true;
}

bool cpu_packed_head_init(struct cpu_packed_head *head)
{
    if (!is_picture(head) || !init_components(head))
        return false;
    head->magic = CPU_PACKED_MAGIC;
    head->version = CPU_PACKED_VERSION;
    head->checksum = head->size = 0;
    head->mcus = divided(head->width, 8 * head->h_max);
    head->rows = divided(head->height, 8 * head->v_max);
    head->segments = 0;
    head->reserved = 0;
    for (uint32_t i = 0; i < head->num_components; i++) {
        head->comp[i].columns = head->mcus * head->comp[i].h;
        head->segments += head->rows * head->comp[i].v;
    }
    return true;
}

// The struct has no gap, whose bytes would be undefined.
_Static_assert(sizeof(struct cpu_packed_head) ==
                   offsetof(struct cpu_packed_head, offset),
               "the offsets follow the head");

size_t cpu_packed_head_size(const struct cpu_packed_head *head)
{
    return sizeof(*head) + ((size_t)head->segments + 1) * sizeof(uint32_t);
}

void cpu_packed_seal(struct cpu_packed_head *head)
{
    head->size = (uint64_t)head->offset[head->segments] + CPU_PACKED_PAD;
    head->checksum = head_checksum(head);
}

// Says whether what head_init() fills in is what it would have filled in.
static bool check_head(const struct cpu_packed_head *head, size_t size)
{
    struct cpu_packed_head again;

    if (size < sizeof(*head))
        return false;
    memcpy(&again, head, sizeof(again));
    if (!cpu_packed_head_init(&again))
        return false;
    again.checksum = head->checksum;
    again.size = size;
    return !memcmp(&again, head, sizeof(again)) &&
           size >= cpu_packed_head_size(head) + CPU_PACKED_PAD &&
           head->offset[0] == cpu_packed_head_size(head) &&
           head->offset[head->segments] == size - CPU_PACKED_PAD &&
           head->checksum == head_checksum(head);
}

bool cpu_packed_check(const void *data, size_t size)
{
    const struct cpu_packed_head *head = data;
    const uint8_t *bytes = data;
    uint32_t k = 0;

    if (!check_head(head, size))
        return false;
    for (uint32_t i = 0; i < head->segments; i++)
        if (head->offset[i + 1] < head->offset[i])
            return false;
    for (uint32_t row = 0; row < head->rows; row++)
        for (uint32_t i = 0; i < head->num_components; i++)
            for (uint32_t v = 0; v < head->comp[i].v; v++, k++)
                if (!cpu_packed_check_line(bytes + head->offset[k],
                                           head->offset[k + 1] -
                                               head->offset[k],
                                           (int)head->comp[i].columns))
                    return false;
    return true;
}

const uint8_t *cpu_packed_line(const struct cpu_packed_head *head,
                               int component, int line)
{
    uint32_t v = head->comp[component].v, row = (uint32_t)line / v;
    uint32_t k = head->segments / head->rows * row + (uint32_t)line % v;

    for (int i = 0; i < component; i++)
        k += head->comp[i].v;
    return (const uint8_t *)head + head->offset[k];
}
