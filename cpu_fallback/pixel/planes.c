// SPDX-License-Identifier: Apache-2.0
// Rows stream out of planes: samples of a component become a line (next to
// each other, neighbours at both ends), lines become a row in full resolution,
// and three of those pixels. Each sample of the planes is read once: they may
// lie in memory of a device that is slow to read.
#include "planes.h"

#include <assert.h>
#include <string.h>

#include "cpu_fallback/decode_impl.h"

enum { LINES = 4 };  // of a component: above, at, below; a power of two

enum how { SAME, BOX, H2V1, H1V2, H2V2 };

struct component {
    const uint8_t *from;  // the first sample that is there
    size_t stride;
    int step;
    int ring;
    struct hr__rect here;  // which samples are there,
    struct hr__rect need;  // and which are read, neighbours included
    int height;            // of the whole component
    int ratio_x, ratio_y;  // pixels per sample
    enum how how;
    bool direct;      // rows can be used as they lie there
    int lo, n;        // samples of a line that make pixels
    int skip;         // of them in front of the window
    int held[LINES];  // which line is in lines[], -1 = none
    uint8_t *lines[LINES];
    uint8_t *out;  // one row in full resolution
};

struct cpu_planes_rows {
    const struct cpu_ops *ops;
    struct component comp[3];
    int num_components;
    enum hr_color color;
    int channels;
    int y, end, x, w;  // of the window; y: the next row
    const uint8_t *data_end;
    uint8_t *rows;  // CPU_DECODE_ROWS of them
    size_t pitch;
};

// ---- What is there, and what is needed -------------------------------------

// Samples [*lo, *lo + *n) for pixels [from, from + len), with neighbours.
static void cover(int from, int len, uint32_t ratio, uint32_t samples, int *lo,
                  int *n)
{
    unsigned first, last;

    cpu_cover((unsigned)from, (unsigned)len, ratio, samples, &first, &last);
    *lo = (int)first;
    *n = (int)(last - first) + 1;
}

static bool inside(int lo, int n, uint32_t from, uint32_t count)
{
    return lo >= (int)from && (uint32_t)(lo - (int)from) + (uint32_t)n <= count;
}

bool cpu_planes_need(const struct cpu_planes_params *p, int i,
                     struct hr__rect *samples)
{
    const struct hr__planes *planes = p->planes;
    const struct hr__plane *c = &planes->comp[i];
    const struct hr__rect *w = &p->window;
    uint32_t ratio_x, ratio_y;

    if (!p->data || !hr__plane_is_true(planes, i, p->width, p->height,
                                       p->ring[i] ? p->ring[i] : c->rows,
                                       p->size, &ratio_x, &ratio_y))
        return false;
    cover(w->x, w->w, ratio_x, c->width, &samples->x, &samples->w);
    cover(w->y, w->h, ratio_y, c->height, &samples->y, &samples->h);
    return inside(samples->x, samples->w, c->x, c->cols) &&
           inside(samples->y, samples->h, c->y, c->rows);
}

// ---- Opening ---------------------------------------------------------------

// libjpeg-turbo src/jdsample.c jinit_upsampler.
static enum how choose(int ratio_x, int ratio_y, uint32_t width)
{
    if (ratio_x == 1 && ratio_y == 1)
        return SAME;
    if (ratio_x == 2 && ratio_y == 1 && width > 2)
        return H2V1;
    if (ratio_x == 1 && ratio_y == 2)
        return H1V2;
    if (ratio_x == 2 && ratio_y == 2 && width > 2)
        return H2V2;
    return BOX;
}

static bool open_component(struct cpu_planes_rows *r,
                           const struct cpu_planes_params *p, int i,
                           struct cpu_arena *arena)
{
    const struct hr__plane *plane = &p->planes->comp[i];
    struct component *c = &r->comp[i];
    size_t line;

    c->from = p->data + plane->at;
    c->stride = plane->stride;
    c->step = (int)plane->step;
    c->ring = (int)p->ring[i];
    c->here = (struct hr__rect){(int)plane->x, (int)plane->y, (int)plane->cols,
                                (int)plane->rows};
    c->height = (int)plane->height;
    c->ratio_x = (int)(p->planes->h_max / plane->h);
    c->ratio_y = (int)(p->planes->v_max / plane->v);
    c->how = choose(c->ratio_x, c->ratio_y, plane->width);
    c->direct = c->step == 1 && c->ratio_x == 1 && c->how != H1V2;
    c->lo = p->window.x / c->ratio_x;
    c->n = (p->window.x + p->window.w - 1) / c->ratio_x - c->lo + 1;
    c->skip = p->window.x - c->lo * c->ratio_x;
    line = cpu_aligned(CPU_ALIGN + (size_t)c->n + 1 + CPU_SLACK);
    c->lines[0] = cpu_arena_array(arena, LINES, line);
    c->out = cpu_arena_array(arena, (size_t)c->n, (size_t)c->ratio_x);
    if (!c->lines[0] || !c->out)
        return false;
    // A line begins CPU_ALIGN into its memory: its left neighbour has room.
    c->lines[0] += CPU_ALIGN;
    for (int k = 0; k < LINES; k++) {
        c->lines[k] = c->lines[0] + line * (size_t)k;
        c->held[k] = -1;
    }
    return true;
}

static bool color_fits(const struct hr__planes *planes)
{
    return planes->num_components == 1
               ? planes->color == HR_COLOR_GRAY && planes->h_max &&
                     planes->v_max && planes->h_max == planes->comp[0].h &&
                     planes->v_max == planes->comp[0].v
               : planes->num_components == 3 &&
                     (planes->color == HR_COLOR_YCC ||
                      planes->color == HR_COLOR_RGB);
}

enum cpu_result cpu_planes_open(const struct cpu_planes_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena,
                                struct cpu_planes_rows **out)
{
    struct cpu_planes_rows *r = cpu_arena_alloc(arena, sizeof(*r));
    const struct hr__rect *w = &p->window;

    if (!r)
        return CPU_NOMEM;
    if (!color_fits(p->planes))
        return CPU_CORRUPT;
    *r = (struct cpu_planes_rows){
        .ops = ops,
        .num_components = (int)p->planes->num_components,
        .color = (enum hr_color)p->planes->color,
        .channels = p->channels,
        .x = w->x,
        .y = w->y,
        .w = w->w,
        .end = w->y + w->h,
        .data_end = p->data + p->size,
    };
    for (int i = 0; i < r->num_components; i++) {
        if (!cpu_planes_need(p, i, &r->comp[i].need))
            return CPU_CORRUPT;
        if (!open_component(r, p, i, arena))
            return CPU_NOMEM;
    }
    // As RGB, whatever comes out: grey is made of it in place.
    r->pitch = cpu_row_pitch((size_t)w->w * 3);
    r->rows = cpu_arena_array(arena, CPU_DECODE_ROWS, r->pitch);
    *out = r;
    return r->rows ? CPU_OK : CPU_NOMEM;
}

// ---- Rows ------------------------------------------------------------------

// Returns row j of the component.
static const uint8_t *row_at(const struct component *c, int j)
{
    return c->from +
           c->stride * (size_t)(c->ring ? j % c->ring : j - c->here.y);
}

// Samples lo .. lo + n of row j, with a neighbour at both ends.
static const uint8_t *line(struct cpu_planes_rows *r, struct component *c,
                           int j)
{
    const uint8_t *row = row_at(c, j);
    int k = j & (LINES - 1), first = c->need.x, count = c->need.w;
    uint8_t *to = c->lines[k];

    if (c->direct) {
        row += c->lo - c->here.x;
        if (r->data_end - row >= c->n + CPU_SLACK)
            return row;
    }
    if (c->held[k] == j)
        return to;
    row = row_at(c, j) + (size_t)(first - c->here.x) * (size_t)c->step;
    r->ops->gather(to + (first - c->lo), row, count, c->step);
    if (first == c->lo)
        to[-1] = to[0];
    if (first + count == c->lo + c->n)
        to[c->n] = to[c->n - 1];
    c->held[k] = j;
    return to;
}

// Component c in row y of the picture, from the window's first pixel on.
static const uint8_t *component_row(struct cpu_planes_rows *r,
                                    struct component *c, int y)
{
    int j = y / c->ratio_y, beside = y % c->ratio_y ? j + 1 : j - 1;
    const uint8_t *near = line(r, c, j), *far;

    // Beyond the component's edge its edge row is repeated.
    if (beside < 0 || beside >= c->height)
        beside = j;
    switch (c->how) {
    case SAME:
        return near;
    case BOX:
        r->ops->replicate(c->out, near, c->n, c->ratio_x);
        break;
    case H2V1:
        r->ops->upsample_h2v1(c->out, near, c->n);
        break;
    case H1V2:
        far = line(r, c, beside);
        r->ops->upsample_h1v2(c->out, near, far, c->n, y & 1);
        break;
    case H2V2:
        far = line(r, c, beside);
        r->ops->upsample_h2v2(c->out, near, far, c->n);
        break;
    }
    return c->out + c->skip;
}

static const uint8_t *make_row(struct cpu_planes_rows *r, int y, uint8_t *to)
{
    const uint8_t *at[3];

    for (int i = 0; i < r->num_components; i++)
        at[i] = component_row(r, &r->comp[i], y);
    if (r->num_components == 1 && r->channels == 1)
        // A line would be overwritten before the rows are used.
        return r->comp[0].lines[y & (LINES - 1)] == at[0]
                   ? memcpy(to, at[0], (size_t)r->w)
                   : at[0];
    if (r->num_components == 1)
        r->ops->join_rgb(to, at[0], at[0], at[0], r->w);
    else if (r->color == HR_COLOR_RGB)
        r->ops->join_rgb(to, at[0], at[1], at[2], r->w);
    else
        r->ops->ycc_to_rgb(to, at[0], at[1], at[2], r->w);
    if (r->channels == 1)
        r->ops->rgb_to_gray(to, to, r->w);
    return to;
}

int cpu_planes_read(struct cpu_planes_rows *r, const uint8_t **rows, int max)
{
    int n = r->end - r->y < max ? r->end - r->y : max;

    assert(n > 0 && n <= CPU_DECODE_ROWS);
    for (int i = 0; i < n; i++)
        rows[i] = make_row(r, r->y + i, r->rows + r->pitch * (size_t)i);
    r->y += n;
    return n;
}
