// SPDX-License-Identifier: Apache-2.0
// Reads a picture's samples back to the host. Their places are read from the
// image each time, never assumed: drivers choose pitches, and some choose
// another format than they were asked for. The image's fields are checked
// before they are used.
#include "backends/vaapi/vaapi.h"

const char *va_rung_name(enum va_rung rung)
{
    static const char *const names[VA_RUNGS] = {
        [VA_RUNG_SURFACE] = "shared with the next engine's driver",
        [VA_RUNG_DERIVE] = "surface mapped",
        [VA_RUNG_GET] = "image got from the driver",
    };

    return names[rung];
}

void va_count_rung(struct va *va, enum va_rung rung)
{
    const struct hr__meter *m;

    _Static_assert((int)VA_RUNGS < (int)HR_PROFILE_RUNGS, "NULL ends the list");
    hr__engine_ref_count(&va->guard.ref,
                         offsetof(struct hr__meter, rungs[0].samples) +
                             rung * sizeof(m->rungs[0]),
                         1);
}

// Fills in where component c lies; false if the image cannot hold it.
static bool place(const VAImage *image, enum hr_jpeg_kind kind, int c,
                  struct hr__plane *p)
{
    struct va_samples s;
    uint64_t last, row;

    if (!va_samples_of(image->format.fourcc, kind, c, &s) ||
        s.plane >= image->num_planes || s.plane >= 3)
        return false;
    p->stride = image->pitches[s.plane];
    p->step = s.step;
    p->at = (uint64_t)image->offsets[s.plane] + s.first;
    row = (uint64_t)(p->cols - 1) * s.step + s.first + 1;
    last = (uint64_t)(p->rows - 1) * p->stride +
           (uint64_t)(p->cols - 1) * s.step + p->at;
    return p->stride >= row && last < image->data_size;
}

bool va_place(struct va *va, enum hr_jpeg_kind kind, struct hr__planes *planes,
              const VAImage *image, struct va_fault *fault)
{
    char fourcc[8];

    if (image->width < planes->w || image->height < planes->h)
        return va_wrong(fault, "the driver's image is too small");
    for (uint32_t c = 0; c < planes->num_components; c++) {
        if (place(image, kind, (int)c, &planes->comp[c]))
            continue;
        va_fourcc_text(image->format.fourcc, fourcc);
        va_log(va, HR_LOG_WARN, "a %s picture came as %s, %u planes",
               hr_jpeg_kind_name(kind), fourcc, image->num_planes);
        return va_wrong(fault, "the driver's image is not what it should be");
    }
    return true;
}

// ---- The two images that a picture can be read from ------------------------

static bool derive(struct va *va, struct va_frame *frame,
                   struct va_fault *fault)
{
    if (!VA_OK(va, fault, vaDeriveImage, frame->surface, &frame->derived)) {
        frame->derived.image_id = VA_INVALID_ID;
        return false;
    }
    return va_place(va, frame->kind, &frame->planes, &frame->derived, fault);
}

static bool get(struct va *va, struct va_frame *frame, struct va_fault *fault)
{
    int w = frame->key.w, h = frame->key.h;

    if (frame->image.image_id == VA_INVALID_ID) {
        if (!va_make_image(va, frame->key.fourcc, w, h, &frame->image, fault))
            return false;
        hr__engine_ref_bytes(&va->guard.ref, (int64_t)frame->image.data_size);
    }
    return va_place(va, frame->kind, &frame->planes, &frame->image, fault) &&
           VA_OK(va, fault, vaGetImage, frame->surface, 0, 0, (unsigned)w,
                 (unsigned)h, frame->image.image_id);
}

static bool map_by(struct va *va, struct va_frame *frame, enum va_rung rung,
                   uint8_t **data, size_t *size, struct va_fault *fault)
{
    bool derives = rung == VA_RUNG_DERIVE;
    const VAImage *image = derives ? &frame->derived : &frame->image;

    if ((derives ? derive : get)(va, frame, fault) &&
        va_map_image(va, image, data, fault)) {
        *size = image->data_size;
        va_count_rung(va, rung);
        return true;
    }
    va_drop_image(va, &frame->derived);
    return false;
}

bool va_map(struct va *va, struct va_frame *frame, uint8_t **data, size_t *size,
            struct va_fault *fault)
{
    bool can_get = va_image_format(va, frame->key.fourcc) != NULL;
    enum va_rung rung = can_get ? va->rung : VA_RUNG_DERIVE;
    enum va_rung other = rung == VA_RUNG_DERIVE ? VA_RUNG_GET : VA_RUNG_DERIVE;

    if (map_by(va, frame, rung, data, size, fault))
        return true;
    if (fault->why & HR_WHY_LOST || !can_get ||
        !map_by(va, frame, other, data, size, &(struct va_fault){0}))
        return false;
    va_log(va, HR_LOG_INFO, "%s failed (%s), %s did", va_rung_name(rung),
           fault->text, va_rung_name(other));
    return true;
}

void va_unmap(struct va *va, struct va_frame *frame)
{
    bool derived = frame->derived.image_id != VA_INVALID_ID;

    va->api.vaUnmapBuffer(va->display,
                          derived ? frame->derived.buf : frame->image.buf);
    va_drop_image(va, &frame->derived);
}
