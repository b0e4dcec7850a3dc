// SPDX-License-Identifier: Apache-2.0
// Stage store, with the second pass of resample in front: bytes through the
// table of their channel to the tensor. One item makes 16 elements of a row.

#define HR__STORE(type) \
    do { \
        __global const type *entry = \
            (__global const type *)table + channel * 256; \
        \
        if (count == 16 && step == sizeof(type)) { \
            for (uint i = 0; i < 16; i++) \
                ((__global type *)to)[i] = entry[v[i]]; \
        } else { \
            for (uint i = 0; i < count; i++) \
                *(__global type *)(to + i * step) = entry[v[i]]; \
        } \
    } while (0)

static inline void hr__put(const uchar v[16], uint count, uint channel,
                           uint type, __global const uint *table,
                           __global uchar *to, uint step)
{
    if (type == HR__KERNEL_F32)
        HR__STORE(uint);
    else if (type == HR__KERNEL_F16)
        HR__STORE(ushort);
    else
        HR__STORE(uchar);
}

__kernel void hr_store(__global const uint *restrict plan, uint list,
                       __global const uchar *restrict work,
                       __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint chunks = hr__strips(pic->win_w), h = (uint)pic->win_h;
    uint part = job.item / chunks, x = (job.item - part * chunks) * 16;
    uint plane = part / h, y = part - plane * h, step = pic->out_x;
    uint planes = pic->planes, type = pic->type, count;
    uchar v[16];

    if (plane >= planes)
        return;
    count = min((uint)pic->win_w - x, 16u);

    uchar16 row = hr__second_pass(pic, (__global const int *)plan, work, plane,
                                  x, (int)y);
    __global uchar *to = out + pic->out + y * pic->out_y + x * step;
    if (pic->flags & HR__TABLE_IDENTITY && count == 16 && step == 1) {
        for (uint c = plane; c < pic->channels; c += planes)
            vstore16(row, 0, to + c * pic->out_c);
        return;
    }
    vstore16(row, 0, v);
    for (uint c = plane; c < pic->channels; c += planes)
        hr__put(v, count, c, type, plan + pic->table, to + c * pic->out_c,
                step);
}
