// SPDX-License-Identifier: Apache-2.0
// The spans of a picture that the engine offers, and the reasons why it offers
// no more. Where the CPU decodes, the engine takes the stages from resample on.
// The CPU makes every step for the pixels but the first, and the augmentation
// of an only step if the engine lacks one of its codes.
#include "backends/opencl/opencl.h"

#define FROM(stage) \
    (HR_SPAN_BIT(stage, HR_RESAMPLE) | HR_SPAN_BIT(stage, HR_STORE))
#define FROM_BYTES FROM(HR_ENTROPY)
#define FROM_COEFFICIENTS FROM(HR_RECONSTRUCT)
#define FROM_PLANES FROM(HR_COLOR)
#define FROM_PIXELS HR_SPAN_BIT(HR_RESAMPLE, HR_STORE)
#define FROM_AUGMENT HR_SPAN_BIT(HR_AUGMENT, HR_STORE)
#define TO_RESAMPLE                             \
    (HR_SPAN_BIT(HR_ENTROPY, HR_RESAMPLE) |     \
     HR_SPAN_BIT(HR_RECONSTRUCT, HR_RESAMPLE) | \
     HR_SPAN_BIT(HR_COLOR, HR_RESAMPLE))

uint32_t ocl_spans(const struct ocl *o)
{
    return (o->entropy ? FROM_BYTES : 0) | FROM_COEFFICIENTS | FROM_PLANES |
           FROM_PIXELS | (o->augment ? FROM_AUGMENT : 0);
}

static unsigned why_not_coefficients(const struct hr_info *info)
{
    unsigned why = info->format == HR_FORMAT_PACKED
                       ? 0
                       : hr__why_not_baseline(info);

    if (why & HR_WHY_FORMAT)
        return why;
    if (info->color == HR_COLOR_CMYK || info->color == HR_COLOR_YCCK ||
        (info->components != 1 && info->components != 3))
        why |= HR_WHY_COLOR;
    return why;
}

// Pictures without chroma, or of other formats, are refused for other reasons.
static bool chroma_fits(const struct hr_info *info)
{
    return (info->format != HR_FORMAT_JPEG &&
            info->format != HR_FORMAT_PACKED) ||
           info->components > 3 || hr__sampling_is_whole(info);
}

// Returns an upper bound of the download: the tensor, unless it is made in
// device memory; pixels, if the CPU goes on behind the first step.
static uint64_t out_bytes(const struct hr__picture *pic)
{
    const struct hr__step *step = &pic->geo.steps[0];
    bool in_place = pic->dst.memory && !pic->dst.memory->host;
    bool pixels = pic->geo.num_steps > 1 || (in_place && pic->geo.num_augments);
    uint64_t first = (uint64_t)step->out_w * (uint64_t)step->out_h;
    uint64_t last = (uint64_t)pic->geo.out_w * (uint64_t)pic->geo.out_h;

    if (in_place && !pixels)
        return 0;
    // Until a job has a destination its type is the largest that there is.
    return (first > last ? first : last) * (uint64_t)pic->channels *
           (pixels        ? 1
            : !pic->dst.w ? 4
                          : hr_dtype_size(pic->dst.dtype));
}

// An upper estimate of what submit.c will plan. more: of work, besides.
static unsigned why_not_size(const struct ocl *o, const struct hr__picture *pic,
                             uint64_t more)
{
    const struct hr__step *step = &pic->geo.steps[0];
    const struct hr__rect *r = step->resized ? &step->src : &step->win;
    uint64_t w = (uint64_t)(r->w > 0 ? r->w : 0) + 64;
    uint64_t h = (uint64_t)(r->h > 0 ? r->h : 0) + 64;
    uint64_t samples = w * h * 3, index = samples / 8 + more;
    uint64_t tmp = step->v_first ? ((uint64_t)step->win.h + 64) * w * 3
                                 : ((uint64_t)step->win.w + 64) * h * 3;

    if (2 * samples + index + tmp > o->work_bytes ||
        samples > o->buffer_bytes || out_bytes(pic) > o->buffer_bytes)
        return HR_WHY_SIZE;
    return 0;
}

// The kernels loop over at most HR__MAX_TAPS taps.
static unsigned why_not_filter(const struct hr__step *step)
{
    // Lanczos, the widest, reaches 3 samples to each side, times the scale.
    int reach = step->resized && step->filter != HR_NEAREST ? 6 : 0;

    if (reach * (step->src.w / step->rs_w + 1) + 2 > HR__MAX_TAPS ||
        reach * (step->src.h / step->rs_h + 1) + 2 > HR__MAX_TAPS)
        return HR_WHY_FILTER;
    return 0;
}

// Says whether the result has a pixel of the picture.
static bool shows_it(const struct hr__step *step)
{
    const struct hr__rect *w = &step->win;
    int width = step->resized ? step->rs_w : step->src.w;
    int height = step->resized ? step->rs_h : step->src.h;

    return w->x < width && w->x + w->w > 0 && w->y < height && w->y + w->h > 0;
}

// Returns whether the device also decodes the entropy coding of a picture that
// it takes from reconstruct on. The host decodes pictures that a cache shall
// keep, since it packs them. more: other bytes of work.
static uint32_t from_bytes(const struct ocl *o, const struct hr__picture *pic,
                           uint64_t more, unsigned *why)
{
    const struct hr__step *step = &pic->geo.steps[0];
    const struct hr__rect *r = step->resized ? &step->src : &step->win;
    struct ocl_scan scan;
    uint64_t dense;

    if (!o->entropy || pic->keep || pic->info.format != HR_FORMAT_JPEG ||
        !shows_it(step))
        return 0;
    if ((*why = ocl_scan_read(pic, &scan)))
        return 0;
    dense = ((uint64_t)r->w + 64) * ((uint64_t)r->h + 64) * 3 * sizeof(int16_t);
    if (ocl_entropy_bytes(&scan) > o->buffer_bytes / 2 ||
        why_not_size(o, pic,
                     dense + ocl_entropy_work(&scan, o->variant == OCL_GPU) +
                         more)) {
        *why = HR_WHY_SIZE;
        return 0;
    }
    return FROM_BYTES;
}

// Painted values travel with the plan of the kernels.
static bool erases_fit(const struct ocl *o, const struct hr__picture *pic)
{
    uint64_t all = (uint64_t)pic->geo.out_w * (uint64_t)pic->geo.out_h *
                   (uint64_t)pic->channels * sizeof(float);

    return (uint64_t)pic->erases * all <= o->buffer_bytes / 4;
}

void ocl_offer(struct hr__engine *e, const struct hr__picture *pic,
               struct hr__offer *out)
{
    struct ocl *o = ocl_of(e);
    unsigned why = 0, rest = 0, bytes = 0, codes = 0;
    uint64_t work = 0;

    *out = (struct hr__offer){0};
    if (pic->data)
        why = why_not_coefficients(&pic->info) |
              (chroma_fits(&pic->info) ? 0 : HR_WHY_CHROMA) |
              (pic->info.ends ? 0 : HR_WHY_DAMAGED);
    if (!(rest = why_not_size(o, pic, 0)))
        rest = why_not_filter(&pic->geo.steps[0]);
    if (!rest)
        rest = hr__guard_ask(&o->guard, OCL_LIST);
    out->why = why | rest;
    if (rest)
        return;
    out->spans = FROM_PIXELS;
    out->erases = erases_fit(o, pic);
    if (o->augment && pic->geo.num_steps == 1 && pic->geo.num_augments) {
        codes = ocl_why_not_augment(o, pic, &work);
        codes |= why_not_size(o, pic, work);
        out->why |= codes;
        out->spans |= codes ? 0 : FROM_AUGMENT;
        work = codes ? 0 : work;
    }
    // It could take planes of other pictures, too, but the CPU, which makes
    // them, does no less work for planes than for pixels.
    if (pic->data && !why)
        out->spans |= FROM_COEFFICIENTS | FROM_PLANES |
                      from_bytes(o, pic, work, &bytes);
    out->why |= bytes;
    if (pic->geo.num_steps == 1)
        return;
    out->first_step = true;
    out->spans &= TO_RESAMPLE;
    out->why |= HR_WHY_GEOMETRY;
}
