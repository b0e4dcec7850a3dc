// SPDX-License-Identifier: Apache-2.0
#if HR_HAVE_OPENCL
#include "kernel_picture.h"

#include "testing.h"

static const struct {
    int n, hs[3], vs[3];
} layouts[] = {
    {3, {1, 1, 1}, {1, 1, 1}},
    {3, {2, 1, 1}, {1, 1, 1}},
    {3, {2, 1, 1}, {2, 1, 1}},
    {3, {1, 1, 1}, {2, 1, 1}},
    {3, {4, 1, 1}, {1, 1, 1}},
    {3, {4, 1, 1}, {2, 1, 1}},
    {3, {2, 1, 1}, {4, 1, 1}},
    {3, {3, 1, 1}, {1, 1, 1}},
    {3, {1, 1, 1}, {3, 1, 1}},
    {3, {3, 1, 1}, {2, 1, 1}},
    {3, {2, 1, 2}, {2, 2, 1}},
    {3, {2, 2, 1}, {2, 1, 2}},
    {3, {1, 2, 2}, {1, 2, 2}},
    {3, {1, 2, 1}, {2, 1, 2}},
    {3, {1, 1, 3}, {1, 1, 1}},
    {3, {1, 1, 1}, {4, 1, 2}},
    {1, {1}, {1}},
    {1, {2}, {2}},
};
_Static_assert(KERNEL_LAYOUTS == sizeof(layouts) / sizeof(layouts[0]),
               "their number is in the header");

struct kernel_jpeg_params kernel_params(int layout, int w, int h)
{
    struct kernel_jpeg_params p = {.w = w,
                                   .h = h,
                                   .components = layouts[layout].n,
                                   .quality = kernel_pick(20, 98)};

    memcpy(p.hs, layouts[layout].hs, sizeof(p.hs));
    memcpy(p.vs, layouts[layout].vs, sizeof(p.vs));
    p.noise = kernel_pick(0, 1);
    p.rgb = p.components == 3 && kernel_pick(0, 5) == 0;
    return p;
}

void kernel_picture_free(struct kernel_picture *p)
{
    kernel_jpeg_free(&p->jpeg);
    free(p->pixels);
    free(p->want);
    free(p->got);
    free(p->item.coefs);
    free(p->item.planes_of);
    free(p->item.samples);
    memset(p, 0, sizeof(*p));
}

struct hr_op kernel_random_crop(int w, int h, bool pad)
{
    struct hr_crop c = {.pad = pad};

    if (pad) {
        c.x = kernel_pick(-w, w);
        c.y = kernel_pick(-h, h);
        c.w = kernel_pick(1, 2 * w);
        c.h = kernel_pick(1, 2 * h);
    } else {
        c.x = kernel_pick(0, w - 1);
        c.y = kernel_pick(0, h - 1);
        c.w = kernel_pick(1, w - c.x);
        c.h = kernel_pick(1, h - c.y);
    }
    return (struct hr_op){.type = HR_OP_CROP, .crop = c};
}

static struct hr_op random_flip(void)
{
    return hr_op_flip(.horizontal = kernel_pick(0, 1),
                      .vertical = kernel_pick(0, 1),
                      .transpose = kernel_pick(0, 3) == 0);
}

static bool size_of(const struct kernel_picture *p, int *w, int *h)
{
    return !hr_ops_output_size(p->ops, p->num_ops, p->w, p->h, 1, w, h);
}

enum hr_reference kernel_reference;

// A list of ops that comes to one step.
static void random_ops(struct kernel_picture *p, int most)
{
    char text[128];
    int w, h, base = p->num_ops;

    do {
        p->num_ops = base;
        w = p->w, h = p->h;
        if (kernel_pick(0, 1))
            p->ops[p->num_ops++] = kernel_random_crop(w, h, false);
        if (kernel_pick(0, 2) == 0)
            p->ops[p->num_ops++] = random_flip();
        if (kernel_pick(0, 3))
            p->ops[p->num_ops++] =
                hr_op_resize(.w = kernel_pick(1, most),
                             .h = kernel_pick(1, most),
                             .filter = (enum hr_filter)kernel_pick(
                                 0, HR_NUM_FILTERS - 1),
                             .order = (enum hr_order)kernel_pick(0, 2));
        if (size_of(p, &w, &h) && kernel_pick(0, 2) == 0)
            p->ops[p->num_ops++] = kernel_random_crop(w, h, kernel_pick(0, 1));
        if (kernel_pick(0, 2) == 0)
            p->ops[p->num_ops++] = random_flip();
    } while (hr__geometry_build(&p->geo, p->ops, p->num_ops, kernel_reference,
                                p->w, p->h, 1, text) ||
             p->geo.num_steps != 1);
}

void kernel_random_out(struct kernel_picture *p)
{
    int w, h, pad = kernel_pick(0, 1) ? 0 : kernel_pick(1, 5);
    bool planar = kernel_pick(0, 1);
    size_t e, row;

    hr__geometry_size(&p->geo, &w, &h);
    p->out = (struct hr_image_params){.w = w,
                                      .h = h,
                                      .c = p->c,
                                      .dtype = (enum hr_dtype)kernel_pick(0, 2),
                                      .layout = planar ? HR_NCHW : HR_NHWC};
    e = hr_dtype_size(p->out.dtype);
    row = e * (size_t)(w * (planar ? 1 : p->c));
    p->out.stride_h = row + e * (size_t)pad;
    p->out.stride_c = p->out.stride_h * (size_t)h + e * (size_t)pad;
    p->out_size = p->out.stride_h * (size_t)h;
    if (planar)
        p->out_size = p->out.stride_c * (size_t)p->c;
    p->want = malloc(p->out_size);
    p->got = malloc(p->out_size);
    memset(p->want, 0x5a, p->out_size);
    memset(p->got, 0x5a, p->out_size);
}

// None, torchvision's, or any of the caller's, which bytes have none of; half
// of them behind an op that changes values.
void kernel_random_table(struct kernel_picture *p)
{
    struct hr_normalize n = {.mean = {.485f, .456f, .406f},
                             .std = {.229f, .224f, .225f}};
    int kind = p->out.dtype == HR_U8 ? 0 : kernel_pick(0, 2);
    bool changed = kernel_pick(0, 1);
    struct hr__values values;

    if (changed)
        p->ops[p->num_ops++] = hr_op_invert();
    changed = hr__ops_values(p->ops, p->num_ops, &values);
    if (kind == 2) {
        for (int i = 0; i < 768; i++)
            p->entries[i] = (float)kernel_pick(-300, 300);
        n.table = p->entries;
    }
    hr__table_build(&p->table, kind ? &n : NULL, changed ? &values : NULL, p->c,
                    p->out.dtype);
    if (kind)
        p->ops[p->num_ops++] = (struct hr_op){.type = HR_OP_NORMALIZE,
                                              .normalize = n};
}

void kernel_make_item(struct kernel_picture *p)
{
    p->item = (struct kernel_item){.step = p->geo.steps[0],
                                   .table = &p->table,
                                   .dst_size = p->out_size,
                                   .dst = {.data = p->got,
                                           .stride_c = p->out.stride_c,
                                           .stride_h = p->out.stride_h,
                                           .w = p->out.w,
                                           .h = p->out.h,
                                           .c = p->out.c,
                                           .dtype = p->out.dtype,
                                           .layout = p->out.layout}};
    if (p->pixels) {
        bool planar = p->source.layout == HR_NCHW;

        p->item.pixels = p->pixels;
        p->item.planes = p->c;
        p->item.next_x = planar ? 1 : (size_t)p->c;
        p->item.next_y = p->source.stride_h;
        p->item.next_c = planar ? p->source.stride_c : 1;
        return;
    }
    p->item.gray = p->mode == HR_GRAY;
    p->item.coefs = kernel_pack(&p->jpeg, kernel_window(&p->item.step),
                                &p->item.coef_size);
}

// Source of pixels instead of a JPEG.
void kernel_random_pixels(struct kernel_picture *p)
{
    int pad = kernel_pick(0, 7);
    bool planar = kernel_pick(0, 1);
    size_t size;

    p->source = (struct hr_image_params){
        .w = p->w,
        .h = p->h,
        .c = p->c,
        .dtype = HR_U8,
        .layout = planar ? HR_NCHW : HR_NHWC,
        .stride_h = (size_t)(p->w * (planar ? 1 : p->c) + pad)};
    p->source.stride_c = p->source.stride_h * (size_t)p->h + (size_t)pad;
    size = p->source.stride_h * (size_t)p->h +
           (planar ? p->source.stride_c * (size_t)(p->c - 1) : 0);
    p->pixels = malloc(size);
    for (size_t i = 0; i < size; i++)
        p->pixels[i] = (uint8_t)kernel_random();
    p->source.data = p->pixels;
}

bool kernel_random_picture(struct kernel_picture *p, int layout, int most,
                           bool harsh, bool pixels)
{
    struct kernel_jpeg_params j;

    memset(p, 0, sizeof(*p));
    p->w = kernel_pick(1, most);
    p->h = kernel_pick(1, most);
    p->mode = kernel_pick(0, 4) ? HR_RGB : HR_GRAY;
    p->c = p->mode == HR_GRAY ? 1 : 3;
    if (pixels) {
        kernel_random_pixels(p);
    } else {
        j = kernel_params(layout, p->w, p->h);
        j.harsh = harsh;
        if (!kernel_jpeg_make(&p->jpeg, &j))
            return false;
        p->ops[p->num_ops++] = hr_op_decode(.mode = p->mode);
    }
    random_ops(p, most);
    kernel_random_out(p);
    kernel_random_table(p);
    kernel_make_item(p);
    return pixels || p->item.coefs;
}

// Where they lie: pairs of chroma have step 2.
static size_t planes_form(struct hr__planes *c, bool pairs)
{
    size_t at = (size_t)kernel_pick(0, 40);

    for (uint32_t i = 0; i < c->num_components; i++) {
        struct hr__plane *k = &c->comp[i];

        k->cols = k->width;
        k->rows = k->height;
        k->step = pairs && i ? 2 : 1;
        k->stride = k->cols * k->step + (uint32_t)kernel_pick(0, 30);
        k->at = at;
        if (pairs && i == 2) {
            k->stride = c->comp[1].stride;
            k->at = c->comp[1].at++;
        }
        at += (size_t)k->stride * k->rows;
    }
    return at + 1;
}

bool kernel_use_planes(struct kernel_picture *p)
{
    const struct hr__coefficients *from = p->item.coefs;
    struct hr__planes *c = calloc(1, sizeof(*c));
    struct kernel_planes raw;
    bool pairs = from->num_components == 3 && kernel_pick(0, 1) &&
                 from->comp[1].width == from->comp[2].width &&
                 from->comp[1].height == from->comp[2].height;

    if (!c || !kernel_raw(&p->jpeg, &raw))
        return false;
    c->num_components = from->num_components;
    c->color = from->color;
    c->h_max = c->num_components == 1 ? from->comp[0].h : from->h_max;
    c->v_max = c->num_components == 1 ? from->comp[0].v : from->v_max;
    for (uint32_t i = 0; i < c->num_components; i++)
        c->comp[i] = (struct hr__plane){.h = from->comp[i].h,
                                        .v = from->comp[i].v,
                                        .width = from->comp[i].width,
                                        .height = from->comp[i].height};
    p->item.samples_size = planes_form(c, pairs);
    p->item.samples = calloc(1, p->item.samples_size);
    for (uint32_t i = 0; i < c->num_components; i++)
        for (size_t y = 0; y < c->comp[i].rows; y++)
            for (size_t x = 0; x < c->comp[i].cols; x++)
                p->item.samples[c->comp[i].at + y * c->comp[i].stride +
                                x * c->comp[i].step] =
                    raw.plane[i][y * raw.stride[i] + x];
    free(raw.plane[0]);
    free(p->item.coefs);
    p->item.coefs = NULL;
    p->item.planes_of = c;
    return true;
}

bool kernel_cpu_run(hr_device cpu, struct kernel_picture *p, int n)
{
    bool ok = true;

    for (int i = 0; i < n; i++) {
        struct kernel_picture *q = &p[i];
        struct hr_sample s = test_sample(&q->jpeg, q->ops, q->num_ops);
        struct hr_image_params out = q->out;
        auto_image to = NULL, from = NULL;
        hr_job job;

        out.data = q->want;
        to = hr_image_create(cpu, &out);
        if (q->pixels)
            s.image = from = hr_image_create(cpu, &q->source);
        s.out = to;
        job = to ? hr_submit(cpu, &s, 1, NULL, NULL) : NULL;
        ok = job && hr_job_wait(job, HR_FOREVER) == HR_OK && ok;
        if (!job)
            printf("    cpu: %s\n", hr_last_error());
        else if (job->results[0].status)
            printf("    cpu: %s\n", job->results[0].message);
        if (job)
            hr_job_release(&job);
    }
    return ok;
}

static void explain(const struct kernel_picture *p, size_t at)
{
    const struct hr__step *s = &p->geo.steps[0];

    printf("    %dx%d %s src %d,%d %dx%d rs %dx%d filter %d win %d,%d %dx%d "
           "t%d out c%d %s %d, byte %zu of %zu\n",
           p->w, p->h, p->pixels ? "pixels" : "jpeg", s->src.x, s->src.y,
           s->src.w, s->src.h, s->rs_w, s->rs_h, s->filter, s->win.x, s->win.y,
           s->win.w, s->win.h, s->transpose, p->out.c,
           hr_dtype_name(p->out.dtype), p->out.layout, at, p->out_size);
}

// Number of pictures that differ.
int kernel_compare(const struct kernel_picture *p, int n)
{
    int bad = 0;

    for (int i = 0; i < n; i++) {
        size_t at = 0;

        while (at < p[i].out_size && p[i].want[at] == p[i].got[at])
            at++;
        if (at == p[i].out_size)
            continue;
        if (!bad++)
            explain(&p[i], at);
    }
    return bad;
}
#endif
