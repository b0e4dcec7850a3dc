// SPDX-License-Identifier: Apache-2.0
// Stages reconstruct and color in the form for GPUs: the arithmetic is that of
// the other form, but an item has little to do. So many items are at work,
// accesses of neighbours are coalesced, and no item has an array that would not
// fit in registers. In programs built with HR__GPU.
//
// Eight items make a block: each a row of its coefficients, then a column, then
// a row of samples. Intermediate results lie in local memory. All items of a
// group come by every barrier; items behind the end make the last block once
// more and write nothing. (Some drivers make wrong code of barriers behind a
// return.)

#ifdef HR__GPU
// Local memory that the items of a block share.
struct hr__shared {
    ulong counts[2];  // a byte of each item
    ushort c[8][9];   // rows, and a gap: columns lie in different banks
    uchar8 s[8];
};

// Reads eight bytes as hr__bytes4() reads four.
static inline ulong hr__bytes8(__global const uchar *from, uint at)
{
    __global const uint *w = (__global const uint *)from + at / 4;
    uint shift = at % 4 * 8;
    ulong low = w[0] | (ulong)w[1] << 32;

    return shift ? low >> shift | (ulong)w[2] << (64 - shift) : low;
}

static inline ulong hr__lowest_bits(uint n)
{
    return n < 64 ? (1ul << n) - 1 : ~0ul;
}

// The first n bytes, together at most 255.
static inline uint hr__sum_bytes(ulong bytes, uint n)
{
    return (uint)((bytes & hr__lowest_bits(8 * n)) * 0x0101010101010101ul >>
                  56);
}

// Makes one row of hr__unpack()'s result, of the payload at byte `at` of `in`.
// The items tell each other how many nibbles of the rows before escape, and how
// many bytes of those.
static inline void hr__unpack_row(__global const uchar *in, uint at, uint rows,
                                  uint row, __local struct hr__shared *block)
{
    __local uchar *counts = (__local uchar *)block->counts;
    uint before = (uint)popcount(rows & ((1u << row) - 1));
    uint all = (uint)popcount(rows);
    ulong masks = hr__bytes8(in, at) & hr__lowest_bits(8 * all);
    uint mask = rows >> row & 1 ? (uint)(masks >> 8 * before) & 255 : 0;
    uint first = (uint)popcount(masks & hr__lowest_bits(8 * before));
    uint nibbles =
        (uint)(hr__bytes8(in, at + all + first / 2) >> 4 * (first & 1));
    uint zero = nibbles | nibbles >> 2;

    zero = ~(zero | zero >> 1) & 0x11111111 &
           (uint)hr__lowest_bits(4 * (uint)popcount(mask));
    counts[row] = (uchar)popcount(zero);
    barrier(CLK_LOCAL_MEM_FENCE);
    at += all + ((uint)popcount(masks) + 1) / 2;

    ulong escapes = block->counts[0];
    ulong bytes = hr__bytes8(in, at + hr__sum_bytes(escapes, row));
    ulong low = 0x7f7f7f7f7f7f7f7ful;
    ulong empty = ~(((bytes & low) + low) | bytes | low) &
                  hr__lowest_bits(8 * (uint)popcount(zero));

    counts[8 + row] = (uchar)popcount(empty);
    barrier(CLK_LOCAL_MEM_FENCE);
    at += hr__sum_bytes(escapes, 8) + 2 * hr__sum_bytes(block->counts[1], row);
    for (uint col = 0; col < 8; col++) {
        short v = 0;

        if (mask >> col & 1) {
            v = (short)((int)(nibbles & 7) - (int)(nibbles & 8));
            if (!(nibbles & 15)) {
                v = (char)(uchar)bytes;
                if (!v) {
                    v = (short)(ushort)hr__bytes4(in, at);
                    at += 2;
                }
                bytes >>= 8;
            }
            nibbles >>= 4;
        }
        block->c[row][col] = (ushort)v;
    }
}

// Unpacks row `lane` of block number i of a component, and finds out whether it
// is not 0.
static inline void hr__row(__global const struct hr__kernel_component *comp,
                           uint i, __global const uchar *in,
                           __global const uchar *work, bool dense, uint lane,
                           __local struct hr__shared *block)
{
    uint2 head = dense ? (uint2)(0)
                       : HR__AT(const uint2, work + comp->index + 8 * i);
    uint rows = head.y >> 16, some = rows >> lane & 1;

    // (For dense blocks this does nothing, but all items must reach the
    // barriers.)
    hr__unpack_row(in, head.x, rows, lane, block);
    if (!dense && !lane)
        block->c[0][0] = (ushort)head.y;
#ifdef HR__ENTROPY
    if (dense) {
        __global const ushort *from =
            (__global const ushort *)(work + comp->index) + 64 * i + 8 * lane;
        ushort8 row = HR__AT(const ushort8, from);
        ulong2 bits = as_ulong2(row);

        some = (bits.x | bits.y) != 0;
        block->c[lane][0] = row.s0;
        block->c[lane][1] = row.s1;
        block->c[lane][2] = row.s2;
        block->c[lane][3] = row.s3;
        block->c[lane][4] = row.s4;
        block->c[lane][5] = row.s5;
        block->c[lane][6] = row.s6;
        block->c[lane][7] = row.s7;
    }
#endif
    ((__local uchar *)block->counts)[lane] = (uchar)some;
}

// Column `lane` of its samples, or row if turned.
static inline uchar8 hr__samples(
    __global const struct hr__kernel_component *comp, uint i,
    __global const uchar *in, __global const uchar *work, bool dense, bool turn,
    uint lane, __local struct hr__shared *block)
{
    __global const ushort *q = (__global const ushort *)(in + comp->quant);
    __local const uchar *s = (__local const uchar *)block->s + lane;
    ushort d[8];
    int y[8];

    hr__row(comp, i, in, work, dense, lane, block);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < 8; k++)
        d[k] = (ushort)((uint)block->c[k][lane] * q[8 * k + lane]);
    if (block->counts[0] >> 8) {
        HR__IDCT(, d, y, 11);
        for (uint k = 0; k < 8; k++)
            block->c[k][lane] = HR__NARROW(, y[k]);
    } else {
        for (uint k = 0; k < 8; k++)
            block->c[k][lane] = (ushort)(d[0] << 2);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < 8; k++)
        d[k] = block->c[lane][k];
    HR__IDCT(, d, y, 18);
    block->s[lane] = (uchar8)(HR__SAMPLE(, y[0]), HR__SAMPLE(, y[1]),
                              HR__SAMPLE(, y[2]), HR__SAMPLE(, y[3]),
                              HR__SAMPLE(, y[4]), HR__SAMPLE(, y[5]),
                              HR__SAMPLE(, y[6]), HR__SAMPLE(, y[7]));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (turn)
        return block->s[lane];
    return (uchar8)(s[0], s[8], s[16], s[24], s[32], s[40], s[48], s[56]);
}

// Neighbouring blocks go down a column of blocks, as the planes do.
__kernel void hr_reconstruct_gpu(__global const uint *restrict plan, uint list,
                                 __global const uchar *restrict in,
                                 __global uchar *restrict work)
{
    __local struct hr__shared shared[HR__GROUP / 8];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    __global const struct hr__kernel_component *comp = pic->comp;
    uint lane = job.item % 8, block = min(job.item / 8, pic->num_blocks - 1);

    comp += block >= comp[0].end;
    comp += block >= comp->end;

    uint i = block - comp->begin, h = comp->blocks_h;
    uint bx = i / h, by = i - bx * h;
    bool turn = pic->flags & HR__TURNED && pic->color == HR__KERNEL_GRAY;
    uchar8 s = hr__samples(comp, by * comp->blocks_w + bx, in, work,
                           pic->flags & HR__DENSE, turn, lane,
                           &shared[get_local_id(0) / 8]);

    if (job.item / 8 < pic->num_blocks)
        HR__AT(uchar8, work + comp->plane +
                           ((turn ? by : bx) * 8 + lane) * comp->stride +
                           (turn ? bx : by) * 8) = s;
}

// Fuses both stages, for pictures whose components have a sample for every
// pixel: then a block needs nothing of its neighbours, and the planes of
// components are never written.
__kernel void hr_reconstruct_color_gpu(__global const uint *restrict plan,
                                       uint list,
                                       __global const uchar *restrict in,
                                       __global uchar *restrict work)
{
    __local struct hr__shared shared[HR__GROUP / 8];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint lane = job.item % 8, block = min(job.item / 8, pic->fused_blocks - 1);
    uint h = pic->comp[0].blocks_h, bx = block / h, by = block - bx * h;
    bool turn = pic->flags & HR__TURNED;
    uchar8 s0 = 0, s1 = 0, s2 = 0;  // (an array would be none of registers)

    for (uint c = 0; c < 3; c++) {
        s0 = s1;
        s1 = s2;
        s2 = hr__samples(&pic->comp[c], by * pic->comp[0].blocks_w + bx, in,
                         work, pic->flags & HR__DENSE, turn, lane,
                         &shared[get_local_id(0) / 8]);
    }

    int8 r = convert_int8(s0), g = convert_int8(s1), b = convert_int8(s2);
    __global uchar *out = work + pic->rgb +
                          ((turn ? by : bx) * 8 + lane) * pic->rgb_stride +
                          (turn ? bx : by) * 8;

    if (pic->color == HR__KERNEL_YCC)
        HR__YCC_TO_RGB(8, r, g, b);
    if (pic->planes == 1)
        r = convert_int8(HR__LUMA(8, r, g, b));
    if (job.item / 8 >= pic->fused_blocks)
        return;
    HR__AT(uchar8, out) = convert_uchar8(r);
    if (pic->planes == 1)
        return;
    HR__AT(uchar8, out + pic->rgb_plane) = convert_uchar8(g);
    HR__AT(uchar8, out + 2 * pic->rgb_plane) = convert_uchar8(b);
}

// Four rows of one column of a component, from picture row y on (even). With
// FANCY_Y four times the value.
static inline int4 hr__column_gpu(
    __global const struct hr__kernel_component *comp,
    __global const uchar *work, int i, int y)
{
    int step = (int)comp->step_y, last = comp->height - 1;
    uint column = comp->plane + (uint)(i - comp->x) * comp->stride -
                  (uint)comp->y;

    if (comp->fancy & HR__FANCY_Y) {
        int j = y >> 1;
        uchar4 near = as_uchar4(hr__bytes4(work, column + (uint)j - 1));
        int4 v;

        near.x = j ? near.x : near.y;
        near.z = j < last ? near.z : near.y;
        near.w = j + 1 < last ? near.w : near.z;
        v = convert_int4(near.yyzz);
        return v * 3 + convert_int4(near.xzyw);
    }

    int first = min(y / step, last);
    uint rows = hr__bytes4(work, column + (uint)first);

    if (step == 1)
        return convert_int4(as_uchar4(rows));
    int4 at = (min((int4)(y, y + 1, y + 2, y + 3) / step, (int4)(last)) -
               first) * 8;
    return as_int4((uint4)(rows) >> as_uint4(at)) & 255;
}
HR__UPSAMPLE(hr__upsample_gpu, int4, int, hr__column_gpu)

// Pictures that are turned are so narrow that it does not matter how they are
// written.
static inline void hr__put_rows(uchar4 v, __global uchar *out, uint next)
{
    if (next == 1) {
        HR__AT(uchar4, out) = v;
        return;
    }
    out[0] = v.x;
    out[next] = v.y;
    out[2 * next] = v.z;
    out[3 * next] = v.w;
}

// One item makes four rows of a column; neighbours go down it.
__kernel void hr_color_gpu(__global const uint *restrict plan, uint list,
                           __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint strips = ((uint)pic->h + 3) / 4, column = job.item / strips;
    uint row = (job.item - column * strips) * 4;
    int x = pic->x + (int)column, y = pic->y + (int)row;
    bool turn = pic->flags & HR__TURNED;
    uint next = turn ? pic->rgb_stride : 1;
    __global uchar *out = work + pic->rgb + row * next +
                          column * (turn ? 1 : pic->rgb_stride);

    if (column >= (uint)pic->w)
        return;

    int4 r = hr__upsample_gpu(&pic->comp[0], work, x, y);
    int4 g = hr__upsample_gpu(&pic->comp[1], work, x, y);
    int4 b = hr__upsample_gpu(&pic->comp[2], work, x, y);

    if (pic->color == HR__KERNEL_YCC)
        HR__YCC_TO_RGB(4, r, g, b);
    if (pic->planes == 1)
        r = convert_int4(HR__LUMA(4, r, g, b));
    hr__put_rows(convert_uchar4(r), out, next);
    if (pic->planes == 1)
        return;
    hr__put_rows(convert_uchar4(g), out + pic->rgb_plane, next);
    hr__put_rows(convert_uchar4(b), out + 2 * pic->rgb_plane, next);
}
#endif
