// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels. OpenCL C 1.2, integers only; sums that may wrap are
// unsigned.

// Item of the picture, and the picture.
struct hr__job {
    __global const struct hr__kernel_picture *pic;
    uint item;
};

static inline struct hr__job hr__job_of(__global const uint *plan, uint list)
{
    struct hr__job job;
    uint row = (uint)get_group_id(1), width = (uint)get_num_groups(0);
    uint at = list + 2 * (row * width + (uint)get_group_id(0));

    job.pic = (__global const struct hr__kernel_picture *)plan + plan[at];
    job.item = plan[at + 1] * HR__GROUP + (uint)get_local_id(0);
    return job;
}

// An access aligned to the type's size. vload and vstore promise drivers no
// more than an element's alignment, and some then move bytes.
#define HR__AT(type, p) (*(__global type *)(p))

// Four bytes from anywhere, read as the aligned words that they lie in.
static inline uint hr__bytes4(__global const uchar *from, uint at)
{
    __global const uint *w = (__global const uint *)from + at / 4;
    uint shift = at % 4 * 8;

    return shift ? w[0] >> shift | w[1] << (32 - shift) : w[0];
}

static inline uint hr__strips(int n)
{
    return ((uint)n + HR__LANES - 1) / HR__LANES;
}

// Returns the buffer that stage store writes to: hr_augment goes on with bytes
// in `work`.
static inline __global uchar *hr__stored(
    __global const struct hr__kernel_picture *pic, __global uchar *work,
    __global uchar *out)
{
    return pic->augment ? work : out;
}

// One round of a perfect shuffle; log2(n) of them transpose n x n.
#define HR__WEAVE(type, lo_, hi_, a_, b_) \
    do { \
        type wa = (a_), wb = (b_), wl, wh; \
        wl.even = wa.lo; \
        wl.odd = wb.lo; \
        wh.even = wa.hi; \
        wh.odd = wb.hi; \
        (lo_) = wl; \
        (hi_) = wh; \
    } while (0)

#define HR__ROUND8(type, to, from) \
    HR__WEAVE(type, to[0], to[1], from[0], from[4]); \
    HR__WEAVE(type, to[2], to[3], from[1], from[5]); \
    HR__WEAVE(type, to[4], to[5], from[2], from[6]); \
    HR__WEAVE(type, to[6], to[7], from[3], from[7])

static inline void hr__transpose8(ushort8 v[8])
{
    ushort8 t[8];

    HR__ROUND8(ushort8, t, v);
    HR__ROUND8(ushort8, v, t);
    HR__ROUND8(ushort8, t, v);
    v[0] = t[0], v[1] = t[1], v[2] = t[2], v[3] = t[3];
    v[4] = t[4], v[5] = t[5], v[6] = t[6], v[7] = t[7];
}

#define HR__ROUND16(to, from) \
    HR__WEAVE(uchar16, to[0], to[1], from[0], from[8]); \
    HR__WEAVE(uchar16, to[2], to[3], from[1], from[9]); \
    HR__WEAVE(uchar16, to[4], to[5], from[2], from[10]); \
    HR__WEAVE(uchar16, to[6], to[7], from[3], from[11]); \
    HR__WEAVE(uchar16, to[8], to[9], from[4], from[12]); \
    HR__WEAVE(uchar16, to[10], to[11], from[5], from[13]); \
    HR__WEAVE(uchar16, to[12], to[13], from[6], from[14]); \
    HR__WEAVE(uchar16, to[14], to[15], from[7], from[15])

static inline void hr__transpose16(uchar16 v[16])
{
    uchar16 t[16];

    HR__ROUND16(t, v);
    HR__ROUND16(v, t);
    HR__ROUND16(t, v);
    HR__ROUND16(v, t);
}
