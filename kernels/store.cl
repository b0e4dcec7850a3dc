// SPDX-License-Identifier: Apache-2.0
// Stage store, with the second pass of resample in front: bytes through the
// table of their channel to the tensor. One item makes a tile of 16 elements of
// 16 rows; if those rows are columns of the tensor, it turns the tile, so that
// what it writes lies together in either case.

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

static inline void hr__put(const uchar *v, uint count, uint channel,
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
                       __global const int *restrict axes,
                       __global uchar *restrict work,
                       __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_picture *pic = job.pic;
    uint chunks = hr__strips(pic->win_w), strips = hr__strips(pic->win_h);
    uint part = job.item / chunks, x = (job.item - part * chunks) * 16;
    uint plane = part / strips, y = (part - plane * strips) * 16;
    uint count = min((uint)pic->win_w - x, 16u), step = pic->out_x;
    uint lines = min((uint)pic->win_h - y, 16u), next = pic->out_y;
    uint planes = pic->planes, type = pic->type;
    uchar16 tile[16];

    if (plane >= planes)
        return;
    for (uint i = 0; i < lines; i++)
        tile[i] = hr__second_pass(pic, axes, work, plane, x, (int)(y + i));
    __global uchar *to = hr__stored(pic, work, out) + pic->out + y * next +
                         x * step;
    if (pic->flags & HR__OUT_TURNED) {
        uint old = lines;  // the rest of the tile is not written

        hr__transpose16(tile);
        lines = count;
        count = old;
        next = pic->out_x;
        step = pic->out_y;
    }
    for (uint i = 0; i < lines; i++, to += next) {
        if (pic->flags & HR__TABLE_IDENTITY && count == 16 && step == 1) {
            for (uint c = plane; c < pic->channels; c += planes)
                vstore16(tile[i], 0, to + c * pic->out_c);
            continue;
        }
        for (uint c = plane; c < pic->channels; c += planes)
            hr__put((const uchar *)&tile[i], count, c, type, plan + pic->table,
                    to + c * pic->out_c, step);
    }
}

// ---- Op erase ---------------------------------------------------------------

// An item paints a pixel of a rectangle, unless a later one covers it: so items
// do not wait for each other.
__kernel void hr_erase(__global const uint *restrict plan, uint list,
                       __global uchar *restrict out)
{
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_erase *all =
        (__global const struct hr__kernel_erase *)(plan + job.pic->erase);
    __global const struct hr__kernel_rect *r =
        (__global const struct hr__kernel_rect *)(all + 1);
    __global const struct hr__kernel_rect *end = r + all->num;
    uint at = job.item, size = all->element;

    if (at >= job.pic->erased)
        return;
    for (; at >= (uint)(r->w * r->h); r++)
        at -= (uint)(r->w * r->h);
    uint plane = r->one ? 1 : (uint)(r->w * r->h), from = r->one ? 0 : at;
    int y = (int)(at / (uint)r->w), x = (int)at - y * r->w + r->x;

    y += r->y;
    for (__global const struct hr__kernel_rect *k = r + 1; k < end; k++)
        if (x >= k->x && x < k->x + k->w && y >= k->y && y < k->y + k->h)
            return;
    for (uint c = 0; c < all->channels; c++) {
        __global const uint *v = plan + r->values;
        __global uchar *to = out + all->out + c * all->out_c +
                             (uint)y * all->out_y + (uint)x * all->out_x;
        uint i = c * plane + from;

        if (size == 4)
            HR__AT(uint, to) = v[i];
        else if (size == 2)
            HR__AT(ushort, to) = ((__global const ushort *)v)[i];
        else
            *to = ((__global const uchar *)v)[i];
    }
}
