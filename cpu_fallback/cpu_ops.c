// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/cpu_ops.h"

#include "cpu_fallback/augment/augment_kernels.h"
#include "cpu_fallback/cpu_kernels.h"
#include "cpu_fallback/jpeg/lanes.h"

const struct cpu_level cpu_levels[CPU_LEVELS] = {
    {"c", CPU_FLAG_C},
    {"avx2", CPU_FLAG_C | CPU_FLAG_AVX2},
    {"avx512", CPU_FLAG_C | CPU_FLAG_AVX2 | CPU_FLAG_AVX512},
    {"neon", CPU_FLAG_C | CPU_FLAG_NEON},
};

unsigned cpu_detect(void)
{
    unsigned flags = CPU_FLAG_C;
#if defined(__x86_64__)
    // These builtins also ask whether the system saves the wide registers.
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        flags |= CPU_FLAG_AVX2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vnni"))
        flags |= CPU_FLAG_AVX512;
#elif defined(__AARCH64EL__)
    flags |= CPU_FLAG_NEON;
#endif
    return flags;
}

static void augment_c(struct cpu_augment_ops *ops)
{
    *ops = (struct cpu_augment_ops){
        .table = cpu_table_c,
        .mix_luma = cpu_mix_luma_c,
        .luma = cpu_luma_c,
        .luma_sum = cpu_luma_sum_c,
        .hue = cpu_hue_c,
        .range = cpu_range_c,
        .mix_smooth = cpu_mix_smooth_c,
        .kernel3 = cpu_kernel3_c,
        .box_near = cpu_box_near_c,
        .box_x = cpu_box_x_c,
        .box_y = cpu_box_y_c,
        .pick = cpu_pick_c,
        .warp = cpu_warp_c,
    };
}

static void init_c(struct cpu_ops *ops)
{
    *ops = (struct cpu_ops){
        .name = "c",
        .resample_h = cpu_resample_h_c,
        .resample_v = cpu_resample_v_c,
        .store = cpu_store_c,
        .cmyk_to_rgb = cpu_cmyk_to_rgb_c,
        .rgb_to_gray = cpu_rgb_to_gray_c,
        .gather = cpu_gather_c,
        .replicate = cpu_replicate_c,
        .upsample_h2v1 = cpu_upsample_h2v1_c,
        .upsample_h1v2 = cpu_upsample_h1v2_c,
        .upsample_h2v2 = cpu_upsample_h2v2_c,
        .ycc_to_rgb = cpu_ycc_to_rgb_c,
        .join_rgb = cpu_join_rgb_c,
        .reconstruct = cpu_reconstruct_c,
        .pack_line = cpu_pack_line_c,
        .unpack_line = cpu_unpack_line_c,
    };
    augment_c(&ops->augment);
}

#if defined(__x86_64__)
static void augment_avx2(struct cpu_augment_ops *ops)
{
    *ops = (struct cpu_augment_ops){
        .table = cpu_table_avx2,
        .mix_luma = cpu_mix_luma_avx2,
        .luma = cpu_luma_avx2,
        .luma_sum = cpu_luma_sum_avx2,
        .hue = cpu_hue_avx2,
        .range = cpu_range_avx2,
        .mix_smooth = cpu_mix_smooth_avx2,
        .kernel3 = cpu_kernel3_avx2,
        .box_near = cpu_box_near_avx2,
        .box_x = cpu_box_x_avx2,
        .box_y = cpu_box_y_avx2,
        .pick = cpu_pick_c,
        .warp = cpu_warp_avx2,
    };
}

static void augment_avx512(struct cpu_augment_ops *ops)
{
    augment_avx2(ops);
    ops->table = cpu_table_avx512;
    ops->mix_luma = cpu_mix_luma_avx512;
    ops->luma = cpu_luma_avx512;
    ops->luma_sum = cpu_luma_sum_avx512;
    ops->hue = cpu_hue_avx512;
    ops->mix_smooth = cpu_mix_smooth_avx512;
    ops->kernel3 = cpu_kernel3_avx512;
    ops->box_near = cpu_box_near_avx512;
    ops->warp = cpu_warp_avx512;
}

static void init_avx2(struct cpu_ops *ops)
{
    ops->name = "avx2";
    augment_avx2(&ops->augment);
    ops->pack_h = cpu_pack_h_avx2;
    ops->resample_h = cpu_resample_h_avx2;
    ops->resample_v = cpu_resample_v_avx2;
    ops->store = cpu_store_avx2;
    ops->gather = cpu_gather_avx2;
    ops->replicate = cpu_replicate_avx2;
    ops->upsample_h2v1 = cpu_upsample_h2v1_avx2;
    ops->upsample_h1v2 = cpu_upsample_h1v2_avx2;
    ops->upsample_h2v2 = cpu_upsample_h2v2_avx2;
    ops->ycc_to_rgb = cpu_ycc_to_rgb_avx2;
    ops->join_rgb = cpu_join_rgb_avx2;
    ops->reconstruct = cpu_reconstruct_avx2;
    if (__builtin_cpu_supports("bmi2")) {
        ops->pack_line = cpu_pack_line_avx2;
        ops->unpack_line = cpu_unpack_line_avx2;
    }
}

static void init_avx512(struct cpu_ops *ops)
{
    ops->name = "avx512";
    augment_avx512(&ops->augment);
    ops->pack_h = cpu_pack_h_avx512;
    ops->resample_h = cpu_resample_h_avx512;
    ops->resample_v = cpu_resample_v_avx512;
    ops->store = cpu_store_avx512;
    ops->upsample_h2v1 = cpu_upsample_h2v1_avx512;
    ops->upsample_h1v2 = cpu_upsample_h1v2_avx512;
    ops->upsample_h2v2 = cpu_upsample_h2v2_avx512;
    ops->ycc_to_rgb = cpu_ycc_to_rgb_avx512;
    ops->reconstruct = cpu_reconstruct_avx512;
    // Processors have VBMI without VBMI2 (Cannon Lake).
    if (__builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("avx512vbmi2")) {
        ops->pack_line = cpu_pack_line_avx512;
        ops->unpack_line = cpu_unpack_line_avx512;
        ops->lanes = &cpu_lane_ops_avx512;
    }
}
#endif

#if defined(__AARCH64EL__)
static void augment_neon(struct cpu_augment_ops *ops)
{
    ops->table = cpu_table_neon;
    ops->mix_luma = cpu_mix_luma_neon;
    ops->luma = cpu_luma_neon;
    ops->luma_sum = cpu_luma_sum_neon;
    ops->hue = cpu_hue_neon;
    ops->mix_smooth = cpu_mix_smooth_neon;
    ops->kernel3 = cpu_kernel3_neon;
    ops->box_near = cpu_box_near_neon;
}

static void init_neon(struct cpu_ops *ops)
{
    ops->name = "neon";
    augment_neon(&ops->augment);
    ops->pack_h = cpu_pack_h_neon;
    ops->resample_h = cpu_resample_h_neon;
    ops->resample_v = cpu_resample_v_neon;
    ops->store = cpu_store_neon;
    ops->cmyk_to_rgb = cpu_cmyk_to_rgb_neon;
    ops->rgb_to_gray = cpu_rgb_to_gray_neon;
    ops->gather = cpu_gather_neon;
    ops->replicate = cpu_replicate_neon;
    ops->upsample_h2v1 = cpu_upsample_h2v1_neon;
    ops->upsample_h1v2 = cpu_upsample_h1v2_neon;
    ops->upsample_h2v2 = cpu_upsample_h2v2_neon;
    ops->ycc_to_rgb = cpu_ycc_to_rgb_neon;
    ops->join_rgb = cpu_join_rgb_neon;
    ops->reconstruct = cpu_reconstruct_neon;
    ops->pack_line = cpu_pack_line_neon;
    ops->unpack_line = cpu_unpack_line_neon;
}
#endif

void cpu_ops_init(struct cpu_ops *ops, unsigned flags)
{
    flags &= cpu_detect();
    init_c(ops);
#if defined(__x86_64__)
    if (flags & CPU_FLAG_AVX2)
        init_avx2(ops);
    if (flags & CPU_FLAG_AVX512)
        init_avx512(ops);
#elif defined(__AARCH64EL__)
    if (flags & CPU_FLAG_NEON)
        init_neon(ops);
#endif
}
