// SPDX-License-Identifier: Apache-2.0
// Stage reconstruct: packed coefficients -> planes of samples. One item makes
// one block: unpack, dequantise, islow inverse DCT, clamp. Before that, one
// item of hr_index finds where the blocks of one line begin.
// cpu_fallback/packed/packed.h describes the packed form. Dense coefficients,
// which stage entropy has left in work, need neither.
//
// Where decoders differ, x86 decides (libjpeg-turbo simd/x86_64/
// jidctint-avx2.asm): 16-bit products and sums wrap, the first pass is
// saturated to 16 bits, but wraps if only the first row has coefficients.

// The arithmetic of all forms: n is the number of elements as in the name of a
// type, nothing for a scalar.

// Sums of the inverse DCT are 32-bit and wrap.
#define HR__WIDE(n, v) \
    as_uint##n(convert_int##n(as_short##n((ushort##n)(v))))
#define HR__SHIFT(n, v, s) (as_int##n((v) + (1u << ((s) - 1))) >> (s))

// One dimension for n vectors at once, libjpeg src/jidctint.c with the
// constants of 13 bits.
#define HR__IDCT(n, d, y, s) \
    do { \
        uint##n x1 = HR__WIDE(n, d[1]), x2 = HR__WIDE(n, d[2]); \
        uint##n x3 = HR__WIDE(n, d[3]), x5 = HR__WIDE(n, d[5]); \
        uint##n x6 = HR__WIDE(n, d[6]), x7 = HR__WIDE(n, d[7]); \
        uint##n t0 = HR__WIDE(n, d[0] + d[4]) << 13; \
        uint##n t1 = HR__WIDE(n, d[0] - d[4]) << 13; \
        uint##n z1 = (x2 + x6) * 4433u; \
        uint##n t2 = z1 - x6 * 15137u, t3 = z1 + x2 * 6270u; \
        uint##n a0 = t0 + t3, a3 = t0 - t3, a1 = t1 + t2, a2 = t1 - t2; \
        uint##n u = HR__WIDE(n, d[7] + d[3]), v = HR__WIDE(n, d[5] + d[1]); \
        uint##n z5 = (u + v) * 9633u; \
        uint##n z3 = z5 - u * 16069u, z4 = z5 - v * 3196u; \
        uint##n z6 = (x7 + x1) * 7373u, z7 = (x5 + x3) * 20995u; \
        uint##n b0 = x7 * 2446u - z6 + z3, b3 = x1 * 12299u - z6 + z4; \
        uint##n b1 = x5 * 16819u - z7 + z4, b2 = x3 * 25172u - z7 + z3; \
        y[0] = HR__SHIFT(n, a0 + b3, s); \
        y[7] = HR__SHIFT(n, a0 - b3, s); \
        y[1] = HR__SHIFT(n, a1 + b2, s); \
        y[6] = HR__SHIFT(n, a1 - b2, s); \
        y[2] = HR__SHIFT(n, a2 + b1, s); \
        y[5] = HR__SHIFT(n, a2 - b1, s); \
        y[3] = HR__SHIFT(n, a3 + b0, s); \
        y[4] = HR__SHIFT(n, a3 - b0, s); \
    } while (0)

// After the first pass, and after the second.
#define HR__NARROW(n, v) \
    as_ushort##n( \
        convert_short##n(clamp(v, (int##n)(-32768), (int##n)(32767))))
#define HR__SAMPLE(n, v) \
    convert_uchar##n(clamp((v) + 128, (int##n)(0), (int##n)(255)))

static inline uint hr__lowest(ulong bits)
{
    return 63 - (uint)clz(bits & -bits);
}

// Unpacks the payload of a block whose rows are not 0: nibbles become values 16
// at a time, escapes get their values, and then each value gets its place. At
// most HR__PAYLOAD bytes are read, whatever they are. (Oclgrind cannot make
// kernels that call functions with restrict.)
static inline void hr__unpack(short *c, __global const uchar *p, uint rows)
{
    ulong mask = 0, words = 0;
    short16 some[4];
    short *values = (short *)some;

    for (uint r = 0; r < 8; r++) {
        uint bit = rows >> r & 1;

        mask |= (ulong)(*p & -bit) << 8 * r;
        p += bit;
    }

    uint n = (uint)popcount(mask);
    __global const uchar *bytes = p + (n + 1) / 2;

    for (uint i = 0; i < n; i += 16, p += 8) {
        uchar8 b = vload8(0, p);
        ushort8 w = convert_ushort8(b);
        char16 v = as_char16((w | w << (ushort8)(4)) & (ushort8)(0x0f0f));
        ulong zero = as_ulong(b);

        some[i / 16] = convert_short16((v ^ (char16)(8)) - (char16)(8));
        zero |= zero >> 2;
        zero = ~(zero | zero >> 1) & 0x1111111111111111ul;
        if (n - i < 16)
            zero &= (1ul << 4 * (n - i)) - 1;
        for (; zero; zero &= zero - 1) {
            uint at = i + hr__lowest(zero) / 4;
            short byte = (char)*bytes++;

            values[at] = byte;
            words |= (ulong)!byte << at;
        }
    }
    for (; words; words &= words - 1, bytes += 2)
        values[hr__lowest(words)] = (short)(ushort)(bytes[0] | bytes[1] << 8);
    for (uint i = 0; mask; mask &= mask - 1, i++)
        c[hr__lowest(mask)] = values[i];
}

// Dequantised coefficients in, eight columns of samples out.
static inline void hr__inverse(ushort8 d[8], bool one_row, uchar8 s[8])
{
    int8 y[8];

    if (one_row) {
        ushort8 flat = d[0] << (ushort8)(2);

        d[0] = d[1] = d[2] = d[3] = flat;
        d[4] = d[5] = d[6] = d[7] = flat;
    } else {
        HR__IDCT(8, d, y, 11);
        d[0] = HR__NARROW(8, y[0]), d[1] = HR__NARROW(8, y[1]);
        d[2] = HR__NARROW(8, y[2]), d[3] = HR__NARROW(8, y[3]);
        d[4] = HR__NARROW(8, y[4]), d[5] = HR__NARROW(8, y[5]);
        d[6] = HR__NARROW(8, y[6]), d[7] = HR__NARROW(8, y[7]);
    }
    hr__transpose8(d);
    HR__IDCT(8, d, y, 18);
    s[0] = HR__SAMPLE(8, y[0]), s[1] = HR__SAMPLE(8, y[1]);
    s[2] = HR__SAMPLE(8, y[2]), s[3] = HR__SAMPLE(8, y[3]);
    s[4] = HR__SAMPLE(8, y[4]), s[5] = HR__SAMPLE(8, y[5]);
    s[6] = HR__SAMPLE(8, y[6]), s[7] = HR__SAMPLE(8, y[7]);
}

// Does the same for the first coefficient alone: all samples are equal.
static inline void hr__inverse_dc(short dc, ushort quant, uchar8 s[8])
{
    short d = (short)(ushort)(((uint)(ushort)dc * quant) << 2);
    int v = clamp(((d + 16) >> 5) + 128, 0, 255);

    s[0] = s[1] = s[2] = s[3] = (uchar8)((uchar)v);
    s[4] = s[5] = s[6] = s[7] = (uchar8)((uchar)v);
}

static inline void hr__dequantise(const ushort8 c[8], ushort8 d[8],
                                  __global const ushort8 *q)
{
    d[0] = c[0] * q[0];
    d[1] = c[1] * q[1];
    d[2] = c[2] * q[2];
    d[3] = c[3] * q[3];
    d[4] = c[4] * q[4];
    d[5] = c[5] * q[5];
    d[6] = c[6] * q[6];
    d[7] = c[7] * q[7];
}

// Columns become rows.
static inline void hr__turn(uchar8 s[8])
{
    ushort8 v[8];

    for (uint k = 0; k < 8; k++)
        v[k] = convert_ushort8(s[k]);
    hr__transpose8(v);
    for (uint k = 0; k < 8; k++)
        s[k] = convert_uchar8(v[k]);
}

// Indexes the blocks: one item goes along a line of them and writes where each
// one's payload begins in `in`, its DC and its rows. It reads less than a
// block's payload behind the segment.
__kernel void hr_index(__global const uint *restrict plan, uint list,
                       __global const uchar *restrict in,
                       __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_component *comp = job.pic->comp;
    uint y = job.item;

    if (y >= job.pic->num_lines)
        return;
    for (uint i = 0; i < 2 && y >= comp->blocks_h; i++, comp++)
        y -= comp->blocks_h;

    __global const uint *at = (__global const uint *)(in + comp->segments) + y;
    uint n = comp->blocks_w, begin = job.pic->packed + at[0];
    uint end = job.pic->packed + at[1], escape = begin + 2 + 3 * n;
    __global uint2 *out = (__global uint2 *)(work + comp->index) + y * n;
    uint payload = min(escape + 2 * (hr__bytes4(in, begin) & 0xffff), end);
    int dc = 0;

    begin += 2;
    for (uint x = 0; x < n; x += 4) {
        uint diffs = hr__bytes4(in, begin + x), num = min(n - x, 4u);
        uint rows = hr__bytes4(in, begin + n + x);
        uint lengths = hr__bytes4(in, begin + 2 * n + x);

        for (uint k = 0; k < num; k++) {
            int diff = (char)(uchar)(diffs >> 8 * k);

            if (diff == -128) {
                diff = (short)(ushort)hr__bytes4(in, escape);
                escape = min(escape + 2, end);
            }
            dc += diff;
            out[x + k] = (uint2)(payload, (uint)(dc & 0xffff) |
                                              (rows >> 8 * k & 255) << 16);
            payload = min(payload + (lengths >> 8 * k & 255), end);
        }
    }
}

// Block number i of a component as it was packed; 0: only c[0].s0 is there,
// else the bits of its rows that have others.
static inline uint hr__packed(__global const struct hr__kernel_component *comp,
                              uint i, __global const uchar *in,
                              __global const uchar *work, ushort8 c[8])
{
    uint2 block = HR__AT(const uint2, work + comp->index + 8 * i);
    uint rows = block.y >> 16;

    c[0] = (ushort8)(0);
    if (rows) {
        c[1] = c[2] = c[3] = c[4] = (ushort8)(0);
        c[5] = c[6] = c[7] = (ushort8)(0);
        hr__unpack((short *)c, in + block.x, rows);
    }
    c[0].s0 = (ushort)block.y;
    return rows;
}

#ifdef HR__ENTROPY
// Reads the same from dense ones. Rows behind the first count as one.
static inline uint hr__dense(__global const struct hr__kernel_component *comp,
                             uint i, __global const uchar *work, ushort8 c[8])
{
    __global const ushort8 *from =
        (__global const ushort8 *)(work + comp->index) + 8 * i;
    ushort8 first, rest;
    ulong2 bits;

    c[0] = first = from[0];
    c[1] = rest = from[1];
    for (uint row = 2; row < 8; row++)
        rest |= c[row] = from[row];
    first.s0 = 0;
    bits = as_ulong2(first);
    uint rows = (bits.x | bits.y) != 0;

    bits = as_ulong2(rest);
    return rows | ((bits.x | bits.y) != 0) << 1;
}
#endif

// Makes the samples of the block at column bx, row by of the component's blocks
// here: its columns, or rows if turned.
static inline void hr__block(__global const struct hr__kernel_component *comp,
                             uint bx, uint by, __global const uchar *in,
                             __global const uchar *work, uint flags, bool turn,
                             uchar8 s[8])
{
    __global const ushort8 *q = (__global const ushort8 *)(in + comp->quant);
    uint i = by * comp->blocks_w + bx;
    ushort8 c[8], d[8];
#ifdef HR__ENTROPY
    uint rows = flags & HR__DENSE ? hr__dense(comp, i, work, c)
                                  : hr__packed(comp, i, in, work, c);
#else
    uint rows = hr__packed(comp, i, in, work, c);
#endif

    if (!rows) {
        hr__inverse_dc((short)c[0].s0, q[0].s0, s);
        return;
    }
    hr__dequantise(c, d, q);
    hr__inverse(d, rows == 1, s);
    if (turn)
        hr__turn(s);
}

// Neighbouring items go down a column of blocks, as the planes do.
__kernel void hr_reconstruct(__global const uint *restrict plan, uint list,
                             __global const uchar *restrict in,
                             __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    __global const struct hr__kernel_component *comp = pic->comp;
    uchar8 s[8];

    if (job.item >= pic->num_blocks)
        return;
    comp += job.item >= comp[0].end;
    comp += job.item >= comp->end;

    uint i = job.item - comp->begin, h = comp->blocks_h, stride = comp->stride;
    uint bx = i / h, by = i - bx * h;
    bool turn = pic->flags & HR__TURNED && pic->color == HR__KERNEL_GRAY;
    __global uchar *out = work + comp->plane +
                          (turn ? by : bx) * 8 * stride + (turn ? bx : by) * 8;

    hr__block(comp, bx, by, in, work, pic->flags, turn, s);
    HR__AT(uchar8, out) = s[0];
    HR__AT(uchar8, out + stride) = s[1];
    HR__AT(uchar8, out + 2 * stride) = s[2];
    HR__AT(uchar8, out + 3 * stride) = s[3];
    HR__AT(uchar8, out + 4 * stride) = s[4];
    HR__AT(uchar8, out + 5 * stride) = s[5];
    HR__AT(uchar8, out + 6 * stride) = s[6];
    HR__AT(uchar8, out + 7 * stride) = s[7];
}
