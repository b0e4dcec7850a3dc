// SPDX-License-Identifier: Apache-2.0
// Stage augment: a work-group takes one picture through its own list of codes,
// which is why launches are as many whatever a batch's lists are, and then
// through the table to the tensor. The picture is planes of bytes in `work`,
// each row a multiple of four; a second one of the same size lies beside it,
// for codes that look at neighbours. Items take cells of four bytes. Each code
// goes through the same four phases, of which most do nothing for it, so that
// all barriers stand in one loop: prepare, measure, make a table, apply.
// Integers, and floats only where Pillow's results need them in its order: no
// operation is contracted. In programs built with HR__AUGMENT.

#ifdef HR__AUGMENT
static inline void hr__prepare(const struct hr__canvas *t,
                               __global const struct hr__kernel_code *code,
                               __global const uint *plan,
                               __local struct hr__notes *notes)
{
    __global const uchar *table = (__global const uchar *)(plan + code->table);

    switch (code->code) {
    case HR__CODE_TABLE:
        HR__EACH(k, 256 * t->channels) notes->table[k] = table[k];
        break;
    case HR__CODE_MIX_MEAN:
    case HR__CODE_MIX_LUMA:
    case HR__CODE_MIX_SMOOTH:
        hr__blends((uint)code->v[0], notes->counts);
        break;
    case HR__CODE_EQUALIZE:
    case HR__CODE_STRETCH:
        HR__EACH(k, 768) notes->counts[k] = 0;
        break;
    }
    if (get_local_id(0) == 0) {
        for (uint c = 0; c < 3; c++) {
            notes->span[c] = 255;
            notes->span[3 + c] = 0;
        }
        notes->sums[0] = notes->sums[1] = 0;
        notes->code = code->code;
        notes->cut[0] = (uint)code->v[0];
        notes->cut[1] = (uint)code->v[1];
    }
}

static inline void hr__measure(const struct hr__canvas *t,
                               __local struct hr__notes *notes)
{
    uint code = notes->code;

    if (code == HR__CODE_MIX_MEAN)
        hr__sum_lumas(t, notes);
    else if (code == HR__CODE_EQUALIZE || code == HR__CODE_STRETCH)
        hr__measure_bytes(
            t, code == HR__CODE_EQUALIZE || notes->cut[0] || notes->cut[1],
            notes);
}

static inline void hr__finish_table(const struct hr__canvas *t,
                                  __local struct hr__notes *notes)
{
    uint code = notes->code;

    if (code == HR__CODE_MIX_MEAN)
        hr__mean_table(t, notes);
    else if (code == HR__CODE_EQUALIZE)
        hr__equal_table(t, notes);
    else if (code == HR__CODE_STRETCH)
        hr__stretch_table(t, notes);
}

static inline __attribute__((always_inline)) void hr__apply(
    struct hr__canvas *t, __global const struct hr__kernel_code *code,
    __global const uint *plan, __local struct hr__notes *notes)
{
    switch (notes->code) {
    case HR__CODE_TABLE:
    case HR__CODE_MIX_MEAN:
    case HR__CODE_EQUALIZE:
    case HR__CODE_STRETCH:
        hr__through(t, notes->table);
        break;
    case HR__CODE_MIX_LUMA:
        hr__run_mix_luma(t, notes);
        break;
    case HR__CODE_MIX_SMOOTH:
    case HR__CODE_KERNEL3:
        hr__run_3x3(t, code, notes);
        break;
    case HR__CODE_HUE:
        hr__run_hue(t, code->v[0]);
        break;
    case HR__CODE_LUMA:
        hr__run_luma(t);
        if (code->v[0])
            t->channels = 1;
        break;
    case HR__CODE_WARP:
        hr__run_warp(t, code, plan);
        break;
    case HR__CODE_BOX:
        if (code->v[1])
            hr__box_y(t, code->v[0], code->m[0], code->m[1]);
        else
            hr__box_x(t, code->v[0], code->m[0], code->m[1]);
        break;
    case HR__CODE_PERMUTE:
        hr__run_permute(t, (uint)code->v[0]);
        break;
    }
}

static inline void hr__to_tensor(const struct hr__canvas *t,
                                 __global const struct hr__kernel_augment *to,
                                 __global const uint *plan,
                                 __global uchar *out)
{
    uint across = t->stride / 4;

    for (uint c = 0; c < t->channels; c++) {
        HR__EACH(k, hr__cells(t)) {
            uint y = k / across, x = (k - y * across) * 4;
            uchar4 v = as_uchar4(*hr__cell(t, t->a, c, k));

            hr__put((const uchar *)&v, hr__in_cell(t, k), c, to->type,
                    plan + to->table,
                    out + to->out + c * to->out_c + y * to->out_y +
                        x * to->out_x,
                    to->out_x);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(HR__AUGMENT_ITEMS, 1, 1))) void
hr_augment(__global const uint *restrict plan, uint list,
           __global uchar *restrict work, __global uchar *restrict out)
{
    __local struct hr__notes notes;
    struct hr__job job = hr__job_of(plan, list);
    __global const struct hr__kernel_augment *to =
        (__global const struct hr__kernel_augment *)(plan + job.pic->augment);
    __global const struct hr__kernel_code *codes =
        (__global const struct hr__kernel_code *)(to + 1);
    struct hr__canvas t = {work,
                           to->from,
                           to->beside,
                           to->plane,
                           hr__across(to->w) * 4,
                           to->w,
                           to->h,
                           to->channels};

    for (uint i = 0; i < to->num; i++) {
        hr__prepare(&t, codes + i, plan, &notes);
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__measure(&t, &notes);
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__finish_table(&t, &notes);
        barrier(CLK_LOCAL_MEM_FENCE);
        hr__apply(&t, codes + i, plan, &notes);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    hr__to_tensor(&t, to, plan, out);
}
#endif
