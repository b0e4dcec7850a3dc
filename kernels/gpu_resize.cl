// SPDX-License-Identifier: Apache-2.0
// Stages resample and store in the form for GPUs: both passes, the table and
// the tensor in one kernel. A group makes a tile of one plane; what the first
// pass makes of the rows that it needs stays in local memory, HR__TILE_ROWS of
// them at a time, so no picture is too large. Weighed sums are exact in any
// order. In programs built with HR__GPU.

#ifdef HR__GPU
enum {
    HR__TILE_ROWS = 48,  // enough at once for most pictures; a multiple of 4
    HR__TILE_WORDS = HR__TILE / 4 + 1,  // of a row, and a gap
};

static inline uint hr__tiles(int n)
{
    return ((uint)n + HR__TILE - 1) / HR__TILE;
}

// The first pass for four rows from byte `src` on: column x of the output,
// padding included.
static inline uchar4 hr__weigh_rows(struct hr__kernel_axis ax, int src_x,
                                    uint stride, __global const int *table,
                                    __global const uchar *work, uint src, int x)
{
    uint4 sum = (uint4)(HR__WEIGHT_HALF);

    x -= ax.pad;
    if (x < 0 || x >= ax.out)
        return (uchar4)(0);

    uint n = (uint)table[ax.n + (uint)x];
    __global const int *w = table + ax.w + (uint)x * ax.stride;

    src += (uint)(table[ax.lo + (uint)x] - src_x) * stride;
    for (uint k = 0; k < n; k++)
        sum += convert_uint4(HR__AT(const uchar4, work + src + k * stride)) *
               (uint)w[k];
    return HR__WEIGHED(4, sum);
}

// Adds what rows [from, to) of a tile's source, which begin at `rows`, are to
// four columns of output row y. There are taps only if y is no padding.
static inline uint4 hr__add_rows(
    uint4 sum, __global const struct hr__kernel_picture *pic,
    __global const int *table, __local const uint *rows, int from, int to,
    int y)
{
    y -= pic->ay.pad;
    if (y < 0 || y >= pic->ay.out)
        return sum;

    int lo = table[pic->ay.lo + y] - pic->src_y;
    int end = lo + table[pic->ay.n + y];
    __global const int *w = table + pic->ay.w + (uint)y * pic->ay.stride;

    end = min(end, to);
    for (int k = max(lo, from); k < end; k++)
        sum += convert_uint4(
                   as_uchar4(rows[(uint)(k - from) * HR__TILE_WORDS])) *
               (uint)w[k - lo];
    return sum;
}

#define HR__STORE4(type, e0, e1, e2, e3) \
    do { \
        type##4 e = (type##4)(e0, e1, e2, e3); \
        \
        if (count == 4 && step == sizeof(type) && at % sizeof(e) == 0) { \
            HR__AT(type##4, out + at) = e; \
        } else { \
            HR__AT(type, out + at) = e.x; \
            if (count > 1) \
                HR__AT(type, out + at + step) = e.y; \
            if (count > 2) \
                HR__AT(type, out + at + 2 * step) = e.z; \
            if (count > 3) \
                HR__AT(type, out + at + 3 * step) = e.w; \
        } \
    } while (0)
#define HR__BYTE(v) (uchar)(words[(v) / 4] >> (v) % 4 * 8)

// The first `count` of four elements, through the table of channel c, to byte
// `at` of out.
static inline void hr__put4(__global const struct hr__kernel_picture *pic,
                            __global const uint *words, uint c, uchar4 v,
                            uint count, __global uchar *out, uint at)
{
    uint step = pic->out_x, type = pic->type;

    if (type == HR__KERNEL_F32) {
        words += c * 256;
        HR__STORE4(uint, words[v.x], words[v.y], words[v.z], words[v.w]);
    } else if (type == HR__KERNEL_F16) {
        __global const ushort *h = (__global const ushort *)words + c * 256;

        HR__STORE4(ushort, h[v.x], h[v.y], h[v.z], h[v.w]);
    } else if (pic->flags & HR__TABLE_IDENTITY) {
        HR__STORE4(uchar, v.x, v.y, v.z, v.w);
    } else {
        words += c * 64;
        HR__STORE4(uchar, HR__BYTE(v.x), HR__BYTE(v.y), HR__BYTE(v.z),
                   HR__BYTE(v.w));
    }
}

// Finds the rows of the source that a tile needs: each item looks at one of its
// rows. (Neither beginnings nor ends need rise from row to row.)
static inline void hr__tile_rows(__global const struct hr__kernel_picture *pic,
                                 __global const int *table, int y, uint lane,
                                 __local int span[2])
{
    if (!lane) {
        span[0] = pic->rows;  // none
        span[1] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    y += (int)lane - pic->ay.pad;
    if (lane < HR__TILE && y >= 0 && y < pic->ay.out &&
        !(pic->flags & HR__NO_PIXELS)) {
        int lo = table[pic->ay.lo + y] - pic->src_y;

        atomic_min(&span[0], lo);
        atomic_max(&span[1], lo + table[pic->ay.n + y]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Runs the first pass on `rows` rows from byte `src` on, for the columns of a
// tile from x on.
static inline void hr__fill_tile(__global const struct hr__kernel_picture *pic,
                                 __global const int *table,
                                 __global const uchar *work, uint src, int x,
                                 uint rows, uint lane, __local uint *tile)
{
    struct hr__kernel_axis ax = pic->ax;
    uint stride = pic->src_stride;
    int src_x = pic->src_x;

    for (uint i = lane; i < HR__TILE * HR__TILE_ROWS / 4; i += HR__GROUP) {
        uint column = i / (HR__TILE_ROWS / 4);
        uint row = i % (HR__TILE_ROWS / 4) * 4;
        __local uchar *to =
            (__local uchar *)&tile[row * HR__TILE_WORDS] + column;

        if (row < rows) {
            uchar4 v = hr__weigh_rows(ax, src_x, stride, table, work,
                                      src + row, x + (int)column);

            to[0] = v.x;
            to[4 * HR__TILE_WORDS] = v.y;
            to[8 * HR__TILE_WORDS] = v.z;
            to[12 * HR__TILE_WORDS] = v.w;
        }
    }
}

// An item makes four columns of every eighth row of the tile.
__kernel void hr_resize_gpu(__global const uint *restrict plan, uint list,
                            __global const int *restrict axes,
                            __global uchar *restrict work,
                            __global uchar *restrict out)
{
    __local uint tile[HR__TILE_ROWS * HR__TILE_WORDS];
    __local int span[2];
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint lane = (uint)get_local_id(0), part = job.item / HR__GROUP;
    uint across = hr__tiles(pic->win_w), down = hr__tiles(pic->win_h);
    uint row = part / across, plane = row / down, left = lane % 8 * 4;
    int x = (int)(part - row * across) * HR__TILE;
    int y = (int)(row - plane * down) * HR__TILE;
    uint src = pic->src + min(plane, pic->planes - 1) * pic->src_plane;
    __local const uint *rows = tile + lane % 8;
    uint4 s0 = (uint4)(HR__WEIGHT_HALF), s1 = s0, s2 = s0, s3 = s0;

    hr__tile_rows(pic, axes, y, lane, span);
    y += (int)(lane / 8);
    // It begins at an aligned word of each column.
    for (int from = span[0] - (int)((src + (uint)span[0]) % 4);
         from < span[1]; from += HR__TILE_ROWS) {
        int to = min(from + HR__TILE_ROWS, span[1]);

        hr__fill_tile(pic, axes, work, src + (uint)from, x, (uint)(to - from),
                      lane, tile);
        barrier(CLK_LOCAL_MEM_FENCE);
        s0 = hr__add_rows(s0, pic, axes, rows, from, to, y);
        s1 = hr__add_rows(s1, pic, axes, rows, from, to, y + 8);
        s2 = hr__add_rows(s2, pic, axes, rows, from, to, y + 16);
        s3 = hr__add_rows(s3, pic, axes, rows, from, to, y + 24);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    x += (int)left;
    if (plane >= pic->planes || x >= pic->win_w)
        return;
    for (int i = 0; i < 4 && y < pic->win_h; i++, y += 8) {
        uint at = pic->out + (uint)y * pic->out_y + (uint)x * pic->out_x;

        for (uint c = plane; c < pic->channels; c += pic->planes)
            hr__put4(pic, plan + pic->table, c, HR__WEIGHED(4, s0),
                     min((uint)(pic->win_w - x), 4u),
                     hr__stored(pic, work, out), at + c * pic->out_c);
        s0 = s1;
        s1 = s2;
        s2 = s3;
    }
}
#endif
