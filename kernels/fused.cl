// SPDX-License-Identifier: Apache-2.0
// Stages reconstruct and color in one go, for pictures whose components have a
// sample for every pixel: then a block needs nothing of its neighbours, and
// the planes of components are never written. Only in programs built with
// HR__FUSED; whether that pays is the device's to show.

#ifdef HR__FUSED
// Two columns, or rows if turned, of the window's planes.
static inline void hr__put_pixels(__global const struct hr__kernel_picture *pic,
                                  uchar16 c0, uchar16 c1, uchar16 c2,
                                  __global uchar *out)
{
    int16 r = convert_int16(c0), g = convert_int16(c1), b = convert_int16(c2);
    uint stride = pic->rgb_stride, plane = pic->rgb_plane;

    if (pic->color == HR__KERNEL_YCC)
        HR__YCC_TO_RGB(16, r, g, b);
    if (pic->planes == 1) {
        c0 = HR__LUMA(16, r, g, b);
        HR__AT(uchar8, out) = c0.lo;
        HR__AT(uchar8, out + stride) = c0.hi;
        return;
    }
    c0 = convert_uchar16(r);
    c1 = convert_uchar16(g);
    c2 = convert_uchar16(b);
    HR__AT(uchar8, out) = c0.lo;
    HR__AT(uchar8, out + stride) = c0.hi;
    HR__AT(uchar8, out + plane) = c1.lo;
    HR__AT(uchar8, out + plane + stride) = c1.hi;
    HR__AT(uchar8, out + 2 * plane) = c2.lo;
    HR__AT(uchar8, out + 2 * plane + stride) = c2.hi;
}

// One item makes 8 x 8 pixels.
__kernel void hr_reconstruct_color(__global const uint *restrict plan,
                                   uint list,
                                   __global const uchar *restrict in,
                                   __global uchar *restrict work)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint h = pic->comp[0].blocks_h, stride = pic->rgb_stride;
    uint bx = job.item / h, by = job.item - bx * h;
    bool turn = pic->flags & HR__TURNED;
    __global uchar *out = work + pic->rgb + (turn ? by : bx) * 8 * stride +
                          (turn ? bx : by) * 8;
    uchar8 s[3][8];

    if (job.item >= pic->fused_blocks)
        return;
    for (uint c = 0; c < 3; c++)
        hr__block(&pic->comp[c], bx, by, in, work, pic->flags, turn, s[c]);
    for (uint x = 0; x < 8; x += 2)
        hr__put_pixels(pic, (uchar16)(s[0][x], s[0][x + 1]),
                       (uchar16)(s[1][x], s[1][x + 1]),
                       (uchar16)(s[2][x], s[2][x + 1]), out + x * stride);
}
#endif
