// SPDX-License-Identifier: Apache-2.0
// Stage resample: Pillow's two passes, integer weights with 22 fraction bits
// (src/libImaging/Resample.c). Weights come from the host.

enum { HR__WEIGHT_BITS = 22, HR__WEIGHT_HALF = 1 << 21 };

// Turns sums that began with HR__WEIGHT_HALF into bytes.
#define HR__WEIGHED(n, sum) \
    convert_uchar##n(clamp(as_int##n(sum) >> HR__WEIGHT_BITS, (int##n)(0), \
                           (int##n)(255)))

// n vectors, stride bytes apart, weighed and clamped.
static inline uchar16 hr__weigh(__global const uchar *src, uint stride,
                                __global const int *w, int n)
{
    uint16 sum = (uint16)(HR__WEIGHT_HALF);

    for (int k = 0; k < n; k++)
        sum += convert_uint16(vload16(0, src + (uint)k * stride)) *
               (uint16)((uint)w[k]);
    return HR__WEIGHED(16, sum);
}

// The first pass. One item makes a tile of 16 columns and 16 rows from planes
// of columns, and turns it. Columns of the padding are 0.
__kernel void hr_resample(__global const uint *restrict plan, uint list,
                          __global const int *restrict table,
                          __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint strips = hr__strips(pic->rows), chunks = hr__strips(pic->win_w);
    uint part = job.item / strips, strip = job.item - part * strips;
    uint plane = part / chunks, chunk = part - plane * chunks;
    uint stride = pic->src_stride, lo = pic->ax.lo, n = pic->ax.n;
    uint w = pic->ax.w, w_stride = pic->ax.stride;
    int pad = pic->ax.pad, out = pic->ax.out, src_x = pic->src_x;
    bool identity = pic->flags & HR__IDENTITY_X;
    uchar16 tile[16];

    if (plane >= pic->planes)
        return;

    // Lanes behind the last row are read, too; there is slack.
    __global const uchar *src =
        work + pic->src + plane * pic->src_plane + strip * 16;
    for (int i = 0; i < 16; i++) {
        int x = (int)chunk * 16 + i - pad;

        tile[i] = (uchar16)(0);
        if (x < 0 || x >= out)
            continue;
        if (identity)
            tile[i] = vload16(0, src + (uint)x * stride);
        else
            tile[i] = hr__weigh(
                src + (uint)(table[lo + x] - src_x) * stride, stride,
                table + w + (uint)x * w_stride, table[n + x]);
    }
    hr__transpose16(tile);

    uint row = pic->tmp_stride;
    __global uchar *to = work + pic->tmp + plane * pic->tmp_plane +
                         strip * 16 * row + chunk * 16;
    for (uint i = 0; i < 16; i++)
        HR__AT(uchar16, to + i * row) = tile[i];
}

// The second pass for 16 columns of one output row, padding included.
static inline uchar16 hr__second_pass(
    __global const struct hr__kernel_picture *pic,
    __global const int *table, __global const uchar *work, uint plane,
    uint x, int y)
{
    uint stride = pic->tmp_stride;
    __global const uchar *src =
        work + pic->tmp + plane * pic->tmp_plane + x;

    y -= pic->ay.pad;
    if (y < 0 || y >= pic->ay.out || (pic->flags & HR__NO_PIXELS))
        return (uchar16)(0);
    if (pic->flags & HR__IDENTITY_Y)
        return HR__AT(const uchar16, src + (uint)y * stride);
    return hr__weigh(src + (uint)(table[pic->ay.lo + y] - pic->src_y) * stride,
                     stride, table + pic->ay.w + (uint)y * pic->ay.stride,
                     table[pic->ay.n + y]);
}
