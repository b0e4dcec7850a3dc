// SPDX-License-Identifier: Apache-2.0
// The video processor. Bilinear, with pixel centres at .5 and chroma in the
// middle of the pixels it belongs to; weights have 8 bits, edges repeat, the
// crop's border is an edge. So an unscaled copy, mirrored or turned by any
// multiple of 90 degrees, changes no sample.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"

// ---- what it says of itself -------------------------------------------------

VAStatus call_QueryVideoProcFilters(VADriverContextP ctx, VAContextID id,
                                    VAProcFilterType *list, unsigned *n)
{
    (void)ctx, (void)id;
    if (!n || !list)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    if (*n < 1) {
        *n = 1;
        return VA_STATUS_ERROR_MAX_NUM_EXCEEDED;
    }
    // It does nothing, but some clients want one before they offer to mirror.
    list[0] = VAProcFilterNoiseReduction;
    *n = 1;
    return VA_STATUS_SUCCESS;
}

VAStatus call_QueryVideoProcFilterCaps(VADriverContextP ctx, VAContextID id,
                                       VAProcFilterType type, void *to,
                                       unsigned *n)
{
    VAProcFilterCap cap = {0};

    (void)ctx, (void)id;
    if (type != VAProcFilterNoiseReduction)
        return VA_STATUS_ERROR_UNSUPPORTED_FILTER;
    if (!to || !n || *n < 1)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    cap.range.max_value = 64;
    cap.range.step = 1;
    memcpy(to, &cap, sizeof(cap));
    *n = 1;
    return VA_STATUS_SUCCESS;
}

static uint32_t num_fourccs(const uint32_t *list)
{
    uint32_t n = 0;

    while (n < MAX_FOURCCS && list[n])
        n++;
    return n;
}

VAStatus call_QueryVideoProcPipelineCaps(VADriverContextP ctx, VAContextID id,
                                         VABufferID *filters, unsigned n,
                                         VAProcPipelineCaps *to)
{
    static VAProcColorStandardType standards[] = {VAProcColorStandardBT601,
                                                  VAProcColorStandardNone};
    struct display *d = display_of(ctx);
    struct personality *p = &d->person;
    uint32_t low = (uint32_t)p->vpp_min_size, high = (uint32_t)p->max_size;

    (void)id, (void)filters, (void)n;
    if (!to)
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    *to = (VAProcPipelineCaps){
        .input_color_standards = standards,
        .num_input_color_standards = 1,
        .output_color_standards = standards,
        .num_output_color_standards = 2,
        .rotation_flags = p->rotation_flags,
        .mirror_flags = p->mirror_flags,
        .filter_flags = VA_FILTER_SCALING_MASK,
        .num_input_pixel_formats = num_fourccs(p->vpp_fourccs),
        .input_pixel_format = p->vpp_fourccs,
        .num_output_pixel_formats = num_fourccs(p->vpp_fourccs),
        .output_pixel_format = p->vpp_fourccs,
        .max_input_width = high,
        .max_input_height = high,
        .min_input_width = low,
        .min_input_height = low,
        .max_output_width = high,
        .max_output_height = high,
        .min_output_width = low,
        .min_output_height = low,
    };
    return VA_STATUS_SUCCESS;
}

// ---- collecting -------------------------------------------------------------

static bool fits(const VARectangle *r, const struct surface *s)
{
    return r->x >= 0 && r->y >= 0 && r->width > 0 && r->height > 0 &&
           r->x + r->width <= s->width && r->y + r->height <= s->height;
}

static bool turned(uint32_t rotation)
{
    return rotation == VA_ROTATION_90 || rotation == VA_ROTATION_270;
}

static VAStatus check(const struct personality *p, const struct region *r,
                      const struct surface *to)
{
    const VAProcPipelineParameterBuffer *v = &r->params;
    bool turn = turned(v->rotation_state);
    int w = turn ? r->from.height : r->from.width;
    int h = turn ? r->from.width : r->from.height;

    if (r->source == to)
        return VA_STATUS_ERROR_INVALID_SURFACE;
    if (v->rotation_state > VA_ROTATION_270 ||
        (v->rotation_state != VA_ROTATION_NONE &&
         !(p->rotation_flags & 1u << v->rotation_state)) ||
        (v->mirror_state & ~p->mirror_flags))
        return VA_STATUS_ERROR_UNIMPLEMENTED;
    if (!fits(&r->from, r->source) || !fits(&r->to, to))
        return VA_STATUS_ERROR_INVALID_PARAMETER;
    if (r->source->width < p->vpp_min_size || to->width < p->vpp_min_size ||
        r->source->height < p->vpp_min_size || to->height < p->vpp_min_size)
        return VA_STATUS_ERROR_RESOLUTION_NOT_SUPPORTED;
    if ((p->flags & PERSON_NO_SCALE) && (w != r->to.width || h != r->to.height))
        return VA_STATUS_ERROR_UNIMPLEMENTED;
    return VA_STATUS_SUCCESS;
}

// The rectangles are the client's memory: they are copied here.
VAStatus render_pipeline(struct display *d, struct context *c, struct buffer *b)
{
    struct picture *p = c->open;
    struct region *r = &p->regions[p->num_regions];
    VAStatus status;

    if (b->type == VAProcFilterParameterBufferType)
        return VA_STATUS_SUCCESS;
    if (b->type != VAProcPipelineParameterBufferType)
        return VA_STATUS_ERROR_UNSUPPORTED_BUFFERTYPE;
    if (b->size < sizeof(r->params))
        return VA_STATUS_ERROR_INVALID_BUFFER;
    if (p->num_regions == MAX_REGIONS)
        return VA_STATUS_ERROR_MAX_NUM_EXCEEDED;
    memcpy(&r->params, b->bytes, sizeof(r->params));
    r->source = object_get(d, KIND_SURFACE, r->params.surface);
    if (!r->source)
        return VA_STATUS_ERROR_INVALID_SURFACE;
    r->from = (VARectangle){0, 0, (uint16_t)r->source->width,
                            (uint16_t)r->source->height};
    r->to = (VARectangle){0, 0, (uint16_t)p->target->width,
                          (uint16_t)p->target->height};
    if (r->params.surface_region)
        r->from = *r->params.surface_region;
    if (r->params.output_region)
        r->to = *r->params.output_region;
    status = check(&d->person, r, p->target);
    if (status == VA_STATUS_SUCCESS)
        p->num_regions++;
    return status;
}

// ---- pixels -----------------------------------------------------------------

// Between which two samples of the source a sample of the target lies.
struct tap {
    int a, b, weight;  // of b, in 256ths
};

// Along one axis of the source: `n` samples of the target, the first at
// `first`, of 1 << ts pixels each, in a region that begins at `start` and is
// `size` long; they come from `len` pixels from `origin` on, of which a sample
// has 1 << fs.
static void taps_make(struct tap *taps, int n, int first, int ts, int start,
                      int size, bool flip, int origin, int len, int fs)
{
    int low = origin >> fs, high = (origin + len - 1) >> fs;

    for (int i = 0; i < n; i++) {
        double at = ((first + i + 0.5) * (1 << ts) - start) / size;
        double pos = origin + (flip ? 1 - at : at) * len;
        int q = (int)floor((pos / (1 << fs) - 0.5) * 256 + 0.5);
        int a = q >> 8;

        taps[i].weight = q & 255;
        taps[i].a = a < low ? low : a > high ? high : a;
        taps[i].b = a + 1 < low ? low : a + 1 > high ? high : a + 1;
    }
}

struct sampler {
    const uint8_t *from;  // sample 0, 0
    size_t step, pitch;
    bool turn;
    struct tap *along_x, *along_y;  // of the target
};

// ThreadSanitizer looks at a sample of each row (look()): in all of them it
// takes most of the time of tests, and a race for a picture is a race for its
// rows.
__attribute__((no_sanitize("thread"))) static int sample(
    const struct sampler *s, int x, int y)
{
    const struct tap *h = s->turn ? &s->along_y[y] : &s->along_x[x];
    const struct tap *v = s->turn ? &s->along_x[x] : &s->along_y[y];
    const uint8_t *up = s->from + (size_t)v->a * s->pitch;
    const uint8_t *down = s->from + (size_t)v->b * s->pitch;
    size_t a = (size_t)h->a * s->step, b = (size_t)h->b * s->step;
    int top = up[a] * (256 - h->weight) + up[b] * h->weight;
    int low = down[a] * (256 - h->weight) + down[b] * h->weight;

    return (top * (256 - v->weight) + low * v->weight + (1 << 15)) >> 16;
}

static void look(const struct sampler *s, int y)
{
    const struct tap *h = s->turn ? &s->along_y[y] : s->along_x;
    const struct tap *v = s->turn ? s->along_x : &s->along_y[y];

    (void)*(const volatile uint8_t *)(s->from + (size_t)v->a * s->pitch +
                                      (size_t)h->a * s->step);
}

static uint8_t clip(double v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : floor(v + 0.5));
}

// BT.601. `limited` is about the YUV side; RGB is always 0 to 255.
static uint8_t convert(const int *v, int i, bool to_rgb, bool limited)
{
    double scale = limited ? 255.0 / 219 : 1,
           chroma = limited ? 255.0 / 224 : 1;
    double black = limited ? 16 : 0;

    if (to_rgb) {
        double y = (v[0] - black) * scale;
        double u = (v[1] - 128) * chroma, w = (v[2] - 128) * chroma;

        return clip(i == 0   ? y + 1.402 * w
                    : i == 1 ? y - 0.344136286 * u - 0.714136286 * w
                             : y + 1.772 * u);
    }
    if (i == 0)
        return clip((0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2]) / scale +
                    black);
    if (i == 1)
        return clip((-0.168735892 * v[0] - 0.331264108 * v[1] + 0.5 * v[2]) /
                        chroma +
                    128);
    return clip(
        (0.5 * v[0] - 0.418687589 * v[1] - 0.081312411 * v[2]) / chroma + 128);
}

static bool is_limited(const struct display *d, const struct region *r,
                       bool to_rgb)
{
    uint8_t range = to_rgb ? r->params.input_color_properties.color_range
                           : r->params.output_color_properties.color_range;

    // The range is limited unless set: these are video processors.
    return (d->person.flags & PERSON_LIMITED) || range != VA_SOURCE_RANGE_FULL;
}

struct job {
    const struct region *r;
    struct memory *to;
    const struct memory *from;
    bool cross, to_rgb, limited, swap;
    struct tap *taps;  // room for 3 components, both axes
};

static void sampler_make(const struct job *j, struct sampler *s, int index,
                         const struct component *t, int x0, int w, int y0,
                         int h, struct tap *taps)
{
    const struct region *r = j->r;
    uint32_t rotation = r->params.rotation_state;
    bool flip_x = r->params.mirror_state & VA_MIRROR_HORIZONTAL;
    bool flip_y = r->params.mirror_state & VA_MIRROR_VERTICAL;
    const struct component *c = &j->from->layout.format->components[index];

    if (j->swap && index)
        c = &j->from->layout.format->components[3 - index];
    *s = (struct sampler){memory_at(j->from, c, 0, 0),
                          c->step,
                          j->from->layout.pitch[c->plane],
                          turned(rotation),
                          taps,
                          taps + w};
    // The target's x and y, seen from the picture before it was turned.
    flip_x ^= rotation == VA_ROTATION_180 || rotation == VA_ROTATION_90;
    flip_y ^= rotation == VA_ROTATION_180 || rotation == VA_ROTATION_270;
    if (s->turn) {
        taps_make(s->along_x, w, x0, t->xs, r->to.x, r->to.width, flip_x,
                  r->from.y, r->from.height, c->ys);
        taps_make(s->along_y, h, y0, t->ys, r->to.y, r->to.height, flip_y,
                  r->from.x, r->from.width, c->xs);
    } else {
        taps_make(s->along_x, w, x0, t->xs, r->to.x, r->to.width, flip_x,
                  r->from.x, r->from.width, c->xs);
        taps_make(s->along_y, h, y0, t->ys, r->to.y, r->to.height, flip_y,
                  r->from.y, r->from.height, c->ys);
    }
}

static void component_run(const struct job *j, int i)
{
    const struct component *t = &j->to->layout.format->components[i];
    int have = j->from->layout.format->num_components;
    int x0 = j->r->to.x >> t->xs, y0 = j->r->to.y >> t->ys;
    int w = ((j->r->to.x + j->r->to.width - 1) >> t->xs) - x0 + 1;
    int h = ((j->r->to.y + j->r->to.height - 1) >> t->ys) - y0 + 1;
    int first = j->cross ? 0 : i, n = j->cross ? 3 : 1;
    struct sampler samplers[3];

    for (int k = 0; k < n; k++)
        if (first + k < have)
            sampler_make(j, &samplers[k], first + k, t, x0, w, y0, h,
                         j->taps + (size_t)k * (size_t)(w + h));
    for (int y = 0; y < h; y++) {
        uint8_t *out = memory_at(j->to, t, x0, y0 + y);

        for (int k = 0; k < n; k++)
            if (first + k < have)
                look(&samplers[k], y);
        for (int x = 0; x < w; x++) {
            int v[3] = {128, 128, 128};

            for (int k = 0; k < n; k++)
                if (first + k < have)
                    v[k] = sample(&samplers[k], x, y);
            if (i == 3)
                v[0] = 255;
            else if (j->cross)
                v[0] = convert(v, i, j->to_rgb, j->limited);
            out[x * t->step] = (uint8_t)v[0];
        }
    }
}

// Applies this driver's faults with input of that format.
static void go_wrong(const struct display *d, struct job *j, struct region *r)
{
    uint32_t fourcc = j->from->layout.format->fourcc;
    uint32_t *mirror = &r->params.mirror_state;

    j->swap = fourcc == d->options.vpp_swap;
    if (fourcc == d->options.vpp_no_flip)
        *mirror = VA_MIRROR_NONE;
    if (fourcc == d->options.vpp_no_crop)
        r->from = (VARectangle){0, 0, (uint16_t)r->source->width,
                                (uint16_t)r->source->height};
    if ((d->person.flags & PERSON_ONE_MIRROR) &&
        *mirror == (VA_MIRROR_HORIZONTAL | VA_MIRROR_VERTICAL))
        *mirror = VA_MIRROR_NONE;
}

static VAStatus region_run(struct display *d, struct picture *p,
                           struct region *r)
{
    struct job j = {.r = r};
    VAStatus status = VA_STATUS_ERROR_ALLOCATION_FAILED;

    pthread_mutex_lock(&d->lock);
    j.to = memory_ref(p->target->memory);
    j.from = memory_ref(r->source->memory);
    pthread_mutex_unlock(&d->lock);
    j.to_rgb = j.to->layout.format->rgb;
    j.cross = j.to_rgb != j.from->layout.format->rgb;
    j.limited = is_limited(d, r, j.to_rgb);
    go_wrong(d, &j, r);
    j.taps = malloc(3 * sizeof(*j.taps) *
                    (size_t)(r->to.width + r->to.height + 4));
    if (!lists(d->person.vpp_fourccs, j.to->layout.format->fourcc) ||
        !lists(d->person.vpp_fourccs, j.from->layout.format->fourcc)) {
        status = VA_STATUS_ERROR_UNSUPPORTED_RT_FORMAT;
    } else if (j.taps) {
        for (int i = 0; i < j.to->layout.format->num_components; i++)
            component_run(&j, i);
        status = VA_STATUS_SUCCESS;
    }
    free(j.taps);
    memory_unref(j.to);
    memory_unref((struct memory *)j.from);
    return status;
}

VAStatus vpp_run(struct display *d, struct picture *p)
{
    VAStatus status = VA_STATUS_SUCCESS;

    if (p->fault.what == FAULT_STALE)
        return status;
    for (int i = 0; i < p->num_regions && status == VA_STATUS_SUCCESS; i++)
        status = region_run(d, p, &p->regions[i]);
    if (status == VA_STATUS_SUCCESS) {
        struct memory *m = p->target->memory;
        size_t at = m->layout.offset[0];

        for (; p->fault.what == FAULT_ZERO && at < m->layout.size; at++)
            m->bytes[at] = 0;
        for (; p->fault.what == FAULT_WRONG && at < m->layout.size; at++)
            m->bytes[at] ^= 0x10;
    }
    return status;
}
