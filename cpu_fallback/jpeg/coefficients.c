// SPDX-License-Identifier: Apache-2.0
// The scan is read row of MCUs by row of MCUs, and each is packed before the
// next is read. Our own entropy stage makes them so; where it gives up, libjpeg
// begins anew: its buffered-image mode lets the caller ask for one row at a
// time, and its "whole picture" of coefficients is a ring of that one row
// (memory.h).
#include "coefficients.h"

#include <string.h>

#include "cpu_fallback/cpu_kernels.h"
#include "entropy.h"
#include "reader.h"
#include "cpu_fallback/packed/packed.h"

_Static_assert(sizeof(JBLOCK) == 64 * sizeof(int16_t),
               "blocks are packed as they lie in memory");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the packed form is little endian"
#endif

// The state of the packing, the same for both decoders.
struct packing {
    struct cpu_decode *d;
    struct hr__coefficients *plan;  // without its offsets
    struct cpu_coef_lines out;
    uint8_t *to;  // the next segment's place, and the bytes there
    size_t capacity;
    int rows;  // of MCUs that must be read
};

// By libjpeg.
struct coef_decode {
    struct cpu_jpeg j;  // first
    struct packing k;
};

// By ourselves: of a file, or of a packed picture.
struct own_decode {
    struct cpu_decode base;  // first
    struct packing k;
    struct cpu_scan scan;
    const struct cpu_packed_head *picture;  // or
    struct cpu_entropy entropy;
    struct cpu_entropy_lines lines[3];
};

static struct coef_decode *coef_decode(struct cpu_decode *d)
{
    return (struct coef_decode *)d;
}

static struct own_decode *own_decode(struct cpu_decode *d)
{
    return (struct own_decode *)d;
}

static void begin(struct packing *k, struct cpu_decode *d)
{
    k->d = d;
    k->plan = cpu_decode_alloc(d, 1, sizeof(*k->plan));
    memset(k->plan, 0, sizeof(*k->plan));
}

// ---- planning ----

// Returns the size of the head with its offsets.
static size_t head_size(const struct hr__coefficients *head)
{
    return sizeof(*head) + (head->segments + 1) * sizeof(uint32_t);
}

// Blocks under those samples.
static void cover_blocks(unsigned from, unsigned len, unsigned ratio,
                         unsigned samples, uint32_t *block, uint32_t *blocks)
{
    unsigned lo, hi;

    cpu_cover(from, len, ratio, samples, &lo, &hi);
    *block = lo / DCTSIZE;
    *blocks = hi / DCTSIZE - lo / DCTSIZE + 1;
}

// Plans component i, of which factors, size and quantizers are known.
static void plan_component(struct packing *k, int i)
{
    struct hr__coefficients *head = k->plan;
    struct hr__coef_component *comp = &head->comp[i];

    if (head->h_max % comp->h || head->v_max % comp->v)
        cpu_decode_throw(k->d, CPU_UNSUPPORTED, "sampling factors");
    cover_blocks(head->x, head->w, head->h_max / comp->h, comp->width,
                 &comp->block_x, &comp->blocks_w);
    cover_blocks(head->y, head->h, head->v_max / comp->v, comp->height,
                 &comp->block_y, &comp->blocks_h);
    comp->first = head->segments;
    head->segments += comp->blocks_h;
}

// Fills in the head's fields that depend on the window; the others are there.
static void plan(struct packing *k)
{
    const struct hr__rect *w = &k->d->p.window;
    struct hr__coefficients *head = k->plan;

    head->magic = HR__COEF_MAGIC;
    head->x = (uint32_t)w->x;
    head->y = (uint32_t)w->y;
    head->w = (uint32_t)w->w;
    head->h = (uint32_t)w->h;
    for (uint32_t i = 0; i < head->num_components; i++)
        plan_component(k, (int)i);
    k->out.head = cpu_decode_alloc(k->d, 1, head_size(head));
    *k->out.head = *head;
    k->out.lines = cpu_decode_alloc(k->d, head->segments,
                                    sizeof(*k->out.lines));
}

// ---- packing ----

enum { PIECE = 60 << 10 };

// The segment of a window's line of component i; none of the window's is none
// of ours.
static struct cpu_packed_cut *line_of(const struct packing *k, uint32_t i,
                                      uint32_t line)
{
    const struct hr__coef_component *comp = &k->plan->comp[i];
    // Lines above the first wrap around.
    uint32_t y = line - comp->block_y;

    return y < comp->blocks_h ? &k->out.lines[comp->first + y] : NULL;
}

// Line `line` of component i's blocks, from the window's first column on.
// Piece after piece from the arena: how long it will be is known only then.
static void pack_line(struct packing *k, uint32_t i, uint32_t line,
                      const int16_t (*blocks)[64])
{
    struct cpu_packed_cut *cut = line_of(k, i, line);
    size_t n = k->plan->comp[i].blocks_w, bound = cpu_packed_bound(n), size;

    if (!cut)
        return;
    if (k->capacity < bound) {
        k->capacity = bound > PIECE ? bound : PIECE;
        k->to = cpu_decode_alloc(k->d, 1, k->capacity);
    }
    size = k->d->ops->pack_line(k->to, blocks, (int)n);
    *cut =
        (struct cpu_packed_cut){.segment = k->to, .n = (int)n, .count = (int)n};
    k->to += size;
    k->capacity -= size;
}

static void end_packing(struct packing *k)
{
    struct hr__coefficients *head = k->out.head;
    uint64_t at = head_size(head);

    for (uint32_t i = 0; i < head->segments; i++) {
        head->offset[i] = (uint32_t)at;
        at += cpu_packed_cut(&k->out.lines[i]);
        if (at > UINT32_MAX / 2)
            cpu_decode_throw(k->d, CPU_NOMEM, "too many coefficients");
    }
    head->offset[head->segments] = (uint32_t)at;
    k->out.size = (size_t)at;
}

static bool to_the_end(const struct cpu_decode_params *p)
{
    return p->window.y + p->window.h == p->height;
}

// ---- our own way ----

// The scan and the quantizers are known.
static void plan_scan(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);
    struct hr__coefficients *head = d->k.plan;
    const struct cpu_scan *s = &d->scan;

    head->num_components = (uint32_t)s->num_components;
    head->color = s->color;
    head->h_max = (uint32_t)s->h_max;
    head->v_max = (uint32_t)s->v_max;
    for (int i = 0; i < s->num_components; i++) {
        struct hr__coef_component *comp = &head->comp[i];

        comp->h = (uint32_t)s->comp[i].h;
        comp->v = (uint32_t)s->comp[i].v;
        comp->width = (uint32_t)s->comp[i].width;
        comp->height = (uint32_t)s->comp[i].height;
    }
    plan(&d->k);
}

static void own_open(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);

    cpu_entropy_open(base, &d->scan, &d->entropy);
    begin(&d->k, base);
    for (int i = 0; i < d->scan.num_components; i++)
        hr__jpeg_quant(&d->scan.comp[i].quant, d->k.plan->comp[i].quant);
    plan_scan(base);
    d->k.rows = cpu_rows_to_read(&base->p.window, d->scan.v_max, d->scan.rows);
    for (int i = 0; i < d->scan.num_components; i++) {
        const struct hr__coef_component *comp = &d->k.plan->comp[i];

        if (!cpu_entropy_lines_alloc(&d->lines[i], base->pool.arena,
                                     d->scan.comp[i].v, (int)comp->block_x,
                                     (int)comp->blocks_w))
            cpu_decode_throw(base, CPU_NOMEM, "out of memory");
    }
}

static void own_rows(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);

    for (int r = 0; r < d->k.rows; r++) {
        if (!cpu_entropy_row(&d->entropy, d->lines))
            cpu_decode_throw(base, CPU_REDO, "");
        for (int i = 0; i < d->scan.num_components; i++) {
            int v = d->scan.comp[i].v;

            for (int line = 0; line < v; line++)
                pack_line(&d->k, (uint32_t)i, (uint32_t)(r * v + line),
                          (const int16_t(*)[64])d->lines[i].blocks +
                              line * d->lines[i].pitch);
        }
        cpu_decode_check_stop(base);
    }
    if (to_the_end(&base->p) && !cpu_entropy_ends(&d->entropy))
        cpu_decode_throw(base, CPU_REDO, "");
    end_packing(&d->k);
}

static const struct cpu_decode_kind own_kind = {
    .size = sizeof(struct own_decode),
    .open = own_open,
    .rows = own_rows,
};

// ---- a packed picture ----

static void picture_open(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);

    begin(&d->k, base);
    d->picture = (const void *)base->p.data;
    cpu_packed_scan(d->picture, &d->scan);
    if (d->scan.width != base->p.width || d->scan.height != base->p.height)
        cpu_decode_throw(base, CPU_CORRUPT, "another picture's size");
    for (int i = 0; i < d->scan.num_components; i++)
        memcpy(d->k.plan->comp[i].quant, d->picture->comp[i].quant,
               sizeof(d->picture->comp[i].quant));
    plan_scan(base);
}

// Nothing is unpacked: the window's part of each line becomes a segment.
static void picture_rows(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);
    const struct hr__coefficients *head = d->k.plan;

    for (uint32_t i = 0; i < head->num_components; i++) {
        const struct hr__coef_component *comp = &head->comp[i];

        for (uint32_t y = 0; y < comp->blocks_h; y++) {
            uint32_t line = comp->block_y + y;

            *line_of(&d->k, i, line) = (struct cpu_packed_cut){
                .segment = cpu_packed_line(d->picture, (int)i, (int)line),
                .n = (int)d->picture->comp[i].columns,
                .first = (int)comp->block_x,
                .count = (int)comp->blocks_w,
            };
        }
        cpu_decode_check_stop(base);
    }
    end_packing(&d->k);
}

static const struct cpu_decode_kind picture_kind = {
    .size = sizeof(struct own_decode),
    .open = picture_open,
    .rows = picture_rows,
};

// ---- libjpeg's ----

static void open_step(struct cpu_decode *base)
{
    struct coef_decode *d = coef_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    struct hr__coefficients *head;

    begin(&d->k, base);
    head = d->k.plan;
    cpu_jpeg_begin(&d->j);
    if (cinfo->arith_code || jpeg_has_multiple_scans(cinfo))
        cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "coding process");
    d->j.memory.ring = true;
    cinfo->buffered_image = TRUE;
    cinfo->raw_data_out = TRUE;  // no upsampler and no colours are set up
    jpeg_start_decompress(cinfo);
    head->num_components = (uint32_t)cinfo->num_components;
    head->color = cpu_jpeg_color(&d->j);
    head->h_max = (uint32_t)cinfo->max_h_samp_factor;
    head->v_max = (uint32_t)cinfo->max_v_samp_factor;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *info = &cinfo->comp_info[i];
        struct hr__coef_component *comp = &head->comp[i];

        comp->h = (uint32_t)info->h_samp_factor;
        comp->v = (uint32_t)info->v_samp_factor;
        comp->width = info->downsampled_width;
        comp->height = info->downsampled_height;
        for (int q = 0; q < DCTSIZE2; q++)
            comp->quant[q] = info->quant_table->quantval[q];
    }
    plan(&d->k);
    d->k.rows = cpu_rows_to_read(&base->p.window, cinfo->max_v_samp_factor,
                                 (int)cinfo->total_iMCU_rows);
}

// Row r of iMCUs is in the ring.
static void pack_row(struct coef_decode *d, uint32_t r)
{
    const struct hr__coefficients *head = d->k.plan;

    for (uint32_t i = 0; i < head->num_components; i++) {
        const struct hr__coef_component *comp = &head->comp[i];
        JBLOCKARRAY ring = cpu_jpeg_memory_blocks(&d->j.memory, (int)i);

        for (uint32_t k = 0; k < comp->v; k++)
            pack_line(&d->k, i, r * comp->v + k, ring[k] + comp->block_x);
    }
}

static void rows_step(struct cpu_decode *base)
{
    struct coef_decode *d = coef_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;

    cpu_jpeg_refuse_damage(&d->j);
    for (int r = 0; r < d->k.rows; r++) {
        int got = jpeg_consume_input(cinfo);

        if (got != JPEG_ROW_COMPLETED && got != JPEG_SCAN_COMPLETED)
            cpu_jpeg_refuse(&d->j, CPU_CORRUPT, "no more rows");
        cpu_jpeg_refuse_damage(&d->j);
        pack_row(d, (uint32_t)r);
        cpu_decode_check_stop(base);
    }
    if (to_the_end(&base->p)) {
        d->j.tail = true;
        while (jpeg_consume_input(cinfo) != JPEG_REACHED_EOI)
            continue;
        cpu_jpeg_refuse_damage(&d->j);
    }
    end_packing(&d->k);
}

// ---- the whole ----

static const struct cpu_decode_kind coef_kind = {
    .size = sizeof(struct coef_decode),
    .open = open_step,
    .rows = rows_step,
    .close = cpu_jpeg_close,
};

enum cpu_result cpu_coef_decode(const struct cpu_decode_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena,
                                struct cpu_coef_lines *out,
                                struct cpu_decode_error *err)
{
    struct cpu_decode *d = cpu_jpeg_whole(&own_kind, p, ops, arena, err);

    if (d)
        *out = own_decode(d)->k.out;
    else if (err->result == CPU_REDO &&
             (d = cpu_jpeg_whole(&coef_kind, p, ops, arena, err)))
        *out = coef_decode(d)->k.out;
    return err->result;
}

enum cpu_result cpu_coef_cut(const struct cpu_decode_params *p,
                             const struct cpu_ops *ops, struct cpu_arena *arena,
                             struct cpu_coef_lines *out,
                             struct cpu_decode_error *err)
{
    struct cpu_decode *d = cpu_jpeg_whole(&picture_kind, p, ops, arena, err);

    if (d)
        *out = own_decode(d)->k.out;
    return err->result;
}

void cpu_coef_write(const struct cpu_coef_lines *lines, void *to)
{
    const struct hr__coefficients *head = lines->head;

    memcpy(to, head, head_size(head));
    for (uint32_t i = 0; i < head->segments; i++)
        cpu_packed_cut_write(&lines->lines[i], (uint8_t *)to + head->offset[i]);
}
