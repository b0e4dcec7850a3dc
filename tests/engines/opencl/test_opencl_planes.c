// SPDX-License-Identifier: Apache-2.0
// Planes on the host side of the OpenCL engine, without a device: the uploaded
// bytes of a payload, in whatever form it lies, hold each sample that the
// window needs where the descriptor says; interleaved components are uploaded
// together, once; a header that lies is refused, and nothing behind the data is
// read. And the plan itself: it may grow between any two pictures.
#include "backends/opencl/opencl.h"
#include "fenced.h"
#include "kernels/plan.h"
#include "planes_forms.h"
#include "testing.h"

static uint64_t seed;

static int pick(int from, int to)  // both included
{
    return from + random_below(&seed, to - from + 1);
}

static const uint8_t samplings[][3] = {
    {0x11, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x22, 0x11, 0x11},
    {0x12, 0x11, 0x11}, {0x41, 0x11, 0x11}, {0x31, 0x11, 0x11},
    {0x22, 0x21, 0x12}, {0x11, 0x22, 0x22}, {0x44, 0x11, 0x11},
};

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

// Noise of the whole picture, packed. free()
static uint8_t *make_planes(struct hr__planes *p, int w, int h, int kind)
{
    const uint8_t *f = samplings[kind];
    uint32_t n = pick(0, 5) ? 3 : 1;
    size_t size = 0;
    uint8_t *data;

    *p = (struct hr__planes){.num_components = n,
                             .color = n == 1       ? HR_COLOR_GRAY
                                      : pick(0, 1) ? HR_COLOR_YCC
                                                   : HR_COLOR_RGB};
    for (uint32_t i = 0; i < n; i++) {
        p->comp[i].h = f[i] >> 4;
        p->comp[i].v = f[i] & 15;
        p->h_max = p->comp[i].h > p->h_max ? p->comp[i].h : p->h_max;
        p->v_max = p->comp[i].v > p->v_max ? p->comp[i].v : p->v_max;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct hr__plane *c = &p->comp[i];

        c->width = c->cols = ceil_div((uint32_t)w, p->h_max / c->h);
        c->height = c->rows = ceil_div((uint32_t)h, p->v_max / c->v);
        c->stride = c->cols;
        c->step = 1;
        c->at = size;
        size += (size_t)c->stride * c->rows;
    }
    data = malloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)next_random(&seed);
    return data;
}

// A crop of the picture.
static void make_picture(struct hr__picture *pic, struct hr__table *table,
                         int w, int h)
{
    struct hr__step *s = &pic->geo.steps[0];
    struct hr__rect win = {.w = pick(1, w), .h = pick(1, h)};

    win.x = pick(0, w - win.w);
    win.y = pick(0, h - win.h);
    memset(pic, 0, sizeof(*pic));
    pic->width = w;
    pic->height = h;
    pic->channels = pick(0, 1) ? 3 : 1;
    pic->table = table;
    pic->dst = (struct hr__dst){.w = win.w,
                                .h = win.h,
                                .c = pic->channels,
                                .dtype = HR_U8,
                                .layout = HR_NHWC};
    pic->geo.num_steps = 1;
    *s = (struct hr__step){.in_w = w,
                           .in_h = h,
                           .src = {0, 0, w, h},
                           .rs_w = w,
                           .rs_h = h,
                           .win = win,
                           .out_w = win.w,
                           .out_h = win.h};
}

// Samples that are not where the descriptor says.
static int misplaced(const struct hr__kernel_picture *k,
                     const struct hr__planes *p, const uint8_t *data,
                     const uint8_t *packed, size_t bytes)
{
    int bad = 0;

    for (int i = 0; i < (int)p->num_components; i++) {
        const struct hr__kernel_component *c = &k->comp[i];

        for (int y = 0; y < c->rows; y++)
            for (int x = 0; x < c->cols; x++) {
                size_t at = c->samples + (size_t)x * c->samples_x +
                            (size_t)y * c->samples_y;

                bad += at >= bytes ||
                       packed[at] != planes_sample(p, data, i,
                                                   (uint32_t)(c->x + x),
                                                   (uint32_t)(c->y + y));
            }
    }
    return bad;
}

// True if all rows and columns that upsampling reads of component i for the
// window are there.
static bool covers(const struct hr__kernel_picture *k,
                   const struct hr__planes *p, const struct hr__rect *w)
{
    for (int i = 0; i < (int)p->num_components; i++) {
        const struct hr__kernel_component *c = &k->comp[i];
        int x0 = w->x / (int)c->step_x, y0 = w->y / (int)c->step_y;
        int x1 = (w->x + w->w - 1) / (int)c->step_x;
        int y1 = (w->y + w->h - 1) / (int)c->step_y;

        if (c->x > x0 - (x0 > 0) || c->y > y0 - (y0 > 0) ||
            c->x + c->cols <= x1 + (x1 + 1 < c->width) ||
            c->y + c->rows <= y1 + (y1 + 1 < c->height))
            return false;
    }
    return true;
}

struct batch {
    struct ocl_plan plan;
    struct ocl_axes axes;
    struct ocl_item item;
    struct hr__table table;
};

static void drop(struct batch *b)
{
    hr__free(b->plan.data);
    ocl_axes_free(&b->axes);
    free(b);
}

static bool add(struct batch *b, const struct hr__picture *pic,
                const struct hr__payload *in)
{
    b->item = (struct ocl_item){.tensor = pic->dst, .table = pic->table};
    b->plan.axes = &b->axes;
    return ocl_plan_begin(&b->plan, 1) &&
           ocl_plan_add(&b->plan, 0, pic, in, &b->item);
}

static void one_picture(struct batch *b, int kind)
{
    struct hr__picture pic;
    struct hr__planes p, form;
    struct hr__payload in = {.after = HR_RECONSTRUCT, .extra = &form};
    int w = pick(1, 60), h = pick(1, 60), f = pick(0, NUM_FORMS - 1);
    uint8_t *data = make_planes(&p, w, h, kind), *to;
    const struct hr__kernel_picture *k;

    make_picture(&pic, &b->table, w, h);
    in.data = planes_in_form(&p, data, (enum planes_form)f, &seed, &form,
                             &in.size);
    if (!add(b, &pic, &in)) {
        CHECK(false, "form %d refused", f);
    } else {
        to = malloc(b->item.in_bytes);
        ocl_describe(&b->item, &pic, &in, to);
        k = ocl_plan_picture(&b->plan, 0);
        CHECK(!misplaced(k, &p, data, to, b->item.in_bytes) &&
                  covers(k, &p, &pic.geo.steps[0].win),
              "kind %d, form %d, %dx%d", kind, f, w, h);
        // Nothing is taken along twice.
        CHECK(b->item.in_bytes <= 4 * (size_t)(w * h) ||
                  p.num_components == 1 || p.comp[1].width > p.comp[0].width,
              "%zu bytes for %dx%d", b->item.in_bytes, w, h);
        free(to);
    }
    free(data);
    free(in.data);
}

TEST_CASE(forms)
{
    struct batch *b = calloc(1, sizeof(*b));

    seed = test_seed;
    for (int i = 0; i < test_loops(4000); i++)
        one_picture(b, i % COUNT(samplings));
    drop(b);
}

// NV12 of 4:2:0 is uploaded as it lies: one and a half bytes per pixel, and
// YUY2 two.
TEST_CASE(shared_regions)
{
    static const int kinds[] = {2, 1}, as[] = {FORM_PAIRS, FORM_ONE_PLANE};
    struct batch *b = calloc(1, sizeof(*b));

    seed = test_seed;
    for (int i = 0; i < 2; i++) {
        struct hr__picture pic;
        struct hr__planes p, form;
        struct hr__payload in = {.after = HR_RECONSTRUCT, .extra = &form};
        uint8_t *data;

        do {
            data = make_planes(&p, 64, 32, kinds[i]);
            if (p.num_components == 1)
                free(data);
        } while (p.num_components == 1);
        make_picture(&pic, &b->table, 64, 32);
        pic.geo.steps[0].win = (struct hr__rect){0, 0, 64, 32};
        in.data = planes_in_form(&p, data, (enum planes_form)as[i], &seed,
                                 &form, &in.size);
        CHECK(add(b, &pic, &in) &&
                  b->item.in_bytes <= (size_t)(64 * 32 * (i ? 4 : 3) / 2),
              "%zu bytes", b->item.in_bytes);
        free(data);
        free(in.data);
    }
    drop(b);
}

// Planes beside each other in the same rows, of which the first has half as
// many: an upload of its own for each height.
TEST_CASE(side_by_side)
{
    enum { W = 16, H = 8 };
    struct batch *b = calloc(1, sizeof(*b));
    struct hr__planes p = {
        .num_components = 3, .color = HR_COLOR_YCC, .h_max = 1, .v_max = 2};
    uint8_t data[3 * W * H], *to;
    struct hr__payload in = {.after = HR_RECONSTRUCT,
                             .data = data,
                             .size = sizeof(data),
                             .extra = &p};
    struct hr__picture pic;

    seed = test_seed;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)next_random(&seed);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t rows = i ? H : H / 2;

        p.comp[i] = (struct hr__plane){.h = 1,
                                       .v = i ? 2 : 1,
                                       .width = W,
                                       .height = rows,
                                       .cols = W,
                                       .rows = rows,
                                       .stride = 3 * W,
                                       .step = 1,
                                       .at = (uint64_t)i * W};
    }
    make_picture(&pic, &b->table, W, H);
    pic.geo.steps[0].win = (struct hr__rect){0, 0, W, H};
    CU_ASSERT_FATAL(add(b, &pic, &in));
    to = malloc(b->item.in_bytes);
    ocl_describe(&b->item, &pic, &in, to);
    CHECK(!misplaced(ocl_plan_picture(&b->plan, 0), &p, data, to,
                     b->item.in_bytes),
          "%zu bytes", b->item.in_bytes);
    free(to);
    drop(b);
}

// A wrong header is refused, or what it says is in the data: no fault.
TEST_CASE(lying_headers)
{
    size_t size;
    int refused = 0, n = test_loops(20000), w = 61, h = 47;
    struct batch *b = calloc(1, sizeof(*b));
    struct hr__planes p, form, lie;
    uint8_t *data, *packed, *last;
    struct fenced f;

    seed = test_seed;
    data = make_planes(&p, w, h, 2);
    packed = planes_in_form(&p, data, FORM_PAIRS, &seed, &form, &size);
    last = fenced_copy(&f, packed, size);
    for (int i = 0; i < n; i++) {
        struct hr__payload in = {
            .after = HR_RECONSTRUCT,
            .data = last,
            .size = size - (size_t)(pick(0, 1) ? 0 : pick(0, 100)),
            .extra = &lie};
        struct hr__picture pic;
        uint32_t *words = (uint32_t *)&lie;
        auto_heap uint8_t *to = NULL;

        lie = form;
        for (int k = pick(1, 3); k; k--)
            planes_spoil(&words[pick(0, (int)sizeof(lie) / 4 - 1)], &seed);
        make_picture(&pic, &b->table, w, h);
        if (!add(b, &pic, &in)) {
            refused++;
            continue;
        }
        to = malloc(b->item.in_bytes);
        ocl_describe(&b->item, &pic, &in, to);
    }
    printf("\n  %d of %d refused ", refused, n);
    CHECK(refused > n / 2 && refused < n, "%d of %d", refused, n);
    fenced_finish(&f);
    drop(b);
    free(data);
    free(packed);
}

// A line of 16 blocks, one of 2 and one of 7.
enum { LINES = 3 };

static struct hr__coefficients *make_coefficients(void *memory)
{
    static const uint32_t blocks[LINES] = {16, 2, 7};
    struct hr__coefficients *c = memory;
    size_t at = sizeof(*c) + (LINES + 1) * sizeof(c->offset[0]);

    *c = (struct hr__coefficients){.magic = HR__COEF_MAGIC,
                                   .num_components = LINES,
                                   .color = HR_COLOR_YCC,
                                   .h_max = 1,
                                   .v_max = 1,
                                   .w = 16,
                                   .h = 8,
                                   .segments = LINES};
    for (uint32_t i = 0; i < LINES; i++) {
        c->comp[i] = (struct hr__coef_component){.h = 1,
                                                 .v = 1,
                                                 .width = 8 * blocks[i],
                                                 .height = 8,
                                                 .blocks_w = blocks[i],
                                                 .blocks_h = 1,
                                                 .first = i};
        c->offset[i] = (uint32_t)at;
        at += 2 + 3 * blocks[i];
    }
    c->offset[LINES] = (uint32_t)at;
    return c;
}

// Where segments begin, that they hold what each block has, and that they are
// there, is all in the payload.
TEST_CASE(lying_coefficients)
{
    struct batch *b = calloc(1, sizeof(*b));
    auto_heap struct hr__coefficients *c = make_coefficients(calloc(1, 4096));
    struct hr__payload in = {.after = HR_ENTROPY, .data = c};
    struct hr__picture pic;
    struct hr__coef_component *k = c->comp;
    uint32_t *words[] = {&c->magic,      &c->num_components, &k[2].first,
                         &k[0].blocks_h, &k[2].blocks_h,     &k[0].blocks_w,
                         &k[1].blocks_w, &k[2].blocks_w};

    seed = test_seed;
    make_picture(&pic, &b->table, 16, 8);
    for (size_t less = 0; less < 9; less++) {
        in.size = c->offset[LINES] - less;
        CHECK(add(b, &pic, &in) == !less, "%zu less", less);
    }
    in.size = c->offset[LINES];
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        for (uint32_t more = 1; more; more <<= 1) {
            *words[i] += more;
            CHECK(!add(b, &pic, &in), "word %zu, %u more", i, more);
            *words[i] -= more;
        }
    for (int i = 0; i <= LINES; i++)
        for (uint32_t more = 1; more; more <<= 1) {
            c->offset[i] += more;
            CHECK(!add(b, &pic, &in), "offset %d, %u more", i, more);
            c->offset[i] -= more;
        }
    c->segments--;
    CHECK(!add(b, &pic, &in), "a segment less");
    c->segments++;
    CHECK(add(b, &pic, &in), "all is as it was");
    for (int i = 0; i < 3; i++) {
        in.size = sizeof(*c) + 4 * (size_t)i;
        CHECK(!add(b, &pic, &in), "%d offsets", i);
    }
    drop(b);
}

static bool same_axis(const struct ocl_axes *axes,
                      const struct hr__kernel_axis *k, int from,
                      const struct hr__step *step, int which)
{
    auto_heap void *memory = malloc(hr__axis_size(step, which));
    const int32_t *words = (const int32_t *)(const void *)axes->data;
    size_t end = axes->used / sizeof(*words), out, w;
    struct hr__axis a;
    bool same;

    hr__axis_build(&a, step, which, memory);
    out = (size_t)a.out;
    w = out * (size_t)a.stride;
    same = k->lo + out <= end && k->n + out <= end && k->w + w <= end &&
           !memcmp(words + k->n, a.n, out * sizeof(*words)) &&
           !memcmp(words + k->w, a.w, w * sizeof(*words));
    // They count in what the picture's first input counts in.
    for (size_t i = 0; i < out; i++)
        same = same && words[k->lo + i] - from == a.lo[i] - a.src_lo;
    return same;
}

// Makes a step that keeps 100 + i x 90 + i pixels, resized and mirrored by x
// and y.
static void make_step(struct hr__step *s, int i, int x, int y)
{
    int w = 100 + i, h = 90 + i;

    *s = (struct hr__step){.in_w = 500,
                           .in_h = 400,
                           .src = {x, y, w, h},
                           .pre_x = i & 1,
                           .resized = true,
                           .box = {0, 0, (float)w, (float)h},
                           .rs_w = 700,
                           .rs_h = 600,
                           .filter = i % 3 ? HR_BILINEAR : HR_LANCZOS,
                           .win = {0, 0, 700, 600},
                           .out_w = 700,
                           .out_h = 600};
}

// Pictures that differ in where they are cropped share their axes, also when
// those of others have made all of them move; and when there are too many, all
// begin anew.
TEST_CASE(axes_shared)
{
    enum { N = 100 };
    struct batch *b = calloc(1, sizeof(*b));
    struct hr__picture pic;
    const uint8_t *begin = NULL;
    size_t used;
    int num = 0;

    seed = test_seed;
    make_picture(&pic, &b->table, 500, 400);
    pic.dst.w = 700;
    pic.dst.h = 600;
    for (int i = 0; i < 2 * N; i++) {
        struct hr__step *s = &pic.geo.steps[0];
        const struct hr__kernel_picture *k;

        make_step(s, i % N, i < N ? 0 : i, i < N ? 0 : 2 * i % 100);
        CU_ASSERT_FATAL(add(b, &pic, NULL));
        k = ocl_plan_picture(&b->plan, 0);
        CHECK(same_axis(&b->axes, &k->ax, k->src_x, s, 0) &&
                  same_axis(&b->axes, &k->ay, k->src_y, s, 1),
              "picture %d", i);
        begin = begin ? begin : b->axes.data;
        num = i < N ? b->axes.num : num;
    }
    CHECK(begin != b->axes.data, "they did not move");
    CHECK(num == 2 * N && b->axes.num == num, "%d axes, then %d", num,
          b->axes.num);
    used = b->axes.used;
    ocl_axes_begin(&b->axes, 4 * used);
    CU_ASSERT(b->axes.num == num && !b->axes.full);
    b->axes.sent = used;
    CU_ASSERT_EQUAL(ocl_axes_new(&b->axes), 0);
    ocl_axes_begin(&b->axes, 4 * used - 4);
    CU_ASSERT(!b->axes.num && !b->axes.used && b->axes.full);
    CU_ASSERT_FATAL(add(b, &pic, NULL));
    CU_ASSERT_EQUAL(b->axes.num, 2);
    CU_ASSERT_EQUAL(ocl_axes_new(&b->axes), b->axes.used);
    drop(b);
}

// As many as there is room for, and more.
TEST_CASE(many_axes)
{
    struct batch *b = calloc(1, sizeof(*b));
    struct hr__step s;
    struct hr__axis x, y;
    int most = 0;

    for (int i = 0; i < 3 * OCL_AXES; i++) {
        make_step(&s, 1, 0, 0);
        s.src.w = 1 + i % 499;
        s.rs_w = s.win.w = s.rs_h = s.win.h = 1 + i / 499;
        ocl_axes_begin(&b->axes, (size_t)1 << 30);
        CU_ASSERT_FATAL(ocl_axes_find(&b->axes, &s, &x, &y));
        most = b->axes.num > most ? b->axes.num : most;
    }
    CHECK(most > OCL_AXES / 2 && most < OCL_AXES, "%d axes", most);
    drop(b);
}
