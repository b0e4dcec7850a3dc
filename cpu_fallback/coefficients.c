// SPDX-License-Identifier: Apache-2.0
// The scan is read row of MCUs by row of MCUs, and each is packed before the
// next is read. Our own entropy stage makes them so; where it gives up, libjpeg
// begins anew: its buffered-image mode lets the caller ask for one row at a
// time, and its "whole picture" of coefficients is a ring of that one row
// (jpeg_memory.h).
#include "coefficients.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "entropy.h"
#include "jpeg_reader.h"
#include "packed.h"

_Static_assert(sizeof(JBLOCK) == 64 * sizeof(int16_t) &&
                   sizeof(struct cpu_coef_block) == 16,
               "blocks are packed as they lie in memory");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the packed form is little endian"
#endif

// Records begin at a cache line.
#define BLOCKS_AT ((sizeof(struct cpu_coefficients) + 63) & ~(size_t)63)
// Blocks that are packed at a time, and bytes of a piece of the values.
#define RUN 32
#define PIECE ((size_t)60 << 10)

struct cpu_coef_values {
    struct cpu_coef_values *next;
    size_t used;
    uint8_t data[PIECE + CPU_SLACK];
};

// What is packed, by whomever it was decoded.
struct packing {
    struct cpu_decode *d;
    struct cpu_packed packed;
    struct cpu_coef_values *to;  // the last piece
    struct cpu_coef_sink sink[3];
    uint64_t values;  // so far
    int rows;         // of MCUs that must be read
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

// ---- packing, the reference ----

// Bit k: block[k] is not 0. Four at a time: adding 0x7fff carries into the top
// bit of what is not 0, and the product gathers the four top bits in bits 48
// to 51.
static uint64_t mask_of(const int16_t *block)
{
    const uint64_t most = UINT64_C(0x7fff7fff7fff7fff);
    uint64_t mask = 0, v;

    for (int i = 0; i < 64; i += 4) {
        memcpy(&v, &block[i], sizeof(v));
        v = (((v & most) + most) | v) & ~most;
        v = (v >> 15) * UINT64_C(0x0001000200040008);
        mask |= (v >> 48 & 15) << i;
    }
    return mask;
}

static uint8_t *put_value(uint8_t *to, int value)
{
    if (value >= -127 && value <= 127) {
        *to++ = (uint8_t)value;
        return to;
    }
    *to++ = (uint8_t)CPU_COEF_ESCAPE;
    *to++ = (uint8_t)value;
    *to++ = (uint8_t)((unsigned)value >> 8);
    return to;
}

static void pack_block(struct cpu_coef_sink *sink, struct cpu_coef_block *out,
                       const int16_t *block)
{
    uint64_t mask = mask_of(block) & ~UINT64_C(1);
    uint64_t sum = (uint64_t)abs(block[0]) * sink->quant[0];
    uint8_t *to = sink->to;

    for (uint64_t m = mask; m; m &= m - 1) {
        int k = __builtin_ctzll(m);

        sum += (uint64_t)abs(block[k]) * sink->quant[k];
        to = put_value(to, block[k]);
    }
    *out = (struct cpu_coef_block){
        .values = sink->at,
        .dc = block[0],
        .mask = {(uint32_t)mask, (uint32_t)(mask >> 32)},
    };
    sink->range |= sum > CPU_COEF_RANGE;
    sink->at += (uint32_t)(to - sink->to);
    sink->to = to;
}

void cpu_pack_blocks_c(struct cpu_coef_sink *sink, struct cpu_coef_block *out,
                       const int16_t (*blocks)[64], int n)
{
    for (int i = 0; i < n; i++)
        pack_block(sink, &out[i], blocks[i]);
}

// ---- planning ----

// Blocks under those samples.
static void cover_blocks(unsigned from, unsigned len, unsigned ratio,
                         unsigned samples, uint32_t *block, uint32_t *blocks)
{
    unsigned lo, hi;

    cpu_cover(from, len, ratio, samples, &lo, &hi);
    *block = lo / DCTSIZE;
    *blocks = hi / DCTSIZE - lo / DCTSIZE + 1;
}

// Of component i factors, size and quantizers are known.
static void plan_component(struct packing *k, int i)
{
    struct cpu_coefficients *head = &k->packed.head;
    struct cpu_coef_component *comp = &head->comp[i];
    struct cpu_coef_sink *sink = &k->sink[i];
    uint64_t blocks;

    if (head->h_max % comp->h || head->v_max % comp->v)
        cpu_decode_throw(k->d, CPU_UNSUPPORTED, "sampling factors");
    cover_blocks(head->x, head->w, head->h_max / comp->h, comp->width,
                 &comp->block_x, &comp->blocks_w);
    cover_blocks(head->y, head->h, head->v_max / comp->v, comp->height,
                 &comp->block_y, &comp->blocks_h);
    comp->first = head->num_blocks;
    blocks = (uint64_t)comp->blocks_w * comp->blocks_h + head->num_blocks;
    if (blocks > UINT32_MAX / sizeof(struct cpu_coef_block) / 2)
        cpu_decode_throw(k->d, CPU_NOMEM, "too many blocks");
    head->num_blocks = (uint32_t)blocks;
    *sink = (struct cpu_coef_sink){.quant = comp->quant};
    for (int q = 0; q < DCTSIZE2; q++) {
        sink->quant8[q] = (uint8_t)comp->quant[q];
        sink->wide |= comp->quant[q] > UINT8_MAX;
    }
}

// Of the head all is known but what comes of the window.
static void plan(struct packing *k)
{
    const struct cpu_rect *w = &k->d->p.window;
    struct cpu_coefficients *head = &k->packed.head;

    head->magic = CPU_COEF_MAGIC;
    head->x = (uint32_t)w->x;
    head->y = (uint32_t)w->y;
    head->w = (uint32_t)w->w;
    head->h = (uint32_t)w->h;
    head->blocks_at = BLOCKS_AT;
    for (uint32_t i = 0; i < head->num_components; i++)
        plan_component(k, (int)i);
    head->values_at = (uint32_t)(BLOCKS_AT + head->num_blocks *
                                                 sizeof(struct cpu_coef_block));
    k->packed.blocks = cpu_arena_array(k->d->pool.arena, head->num_blocks,
                                       sizeof(struct cpu_coef_block));
    if (!k->packed.blocks)
        cpu_decode_throw(k->d, CPU_NOMEM, "out of memory");
}

// ---- packing ----

// Room for the values of RUN blocks. Piece after piece from the arena: how
// much they will be is known only at the end.
static void make_room(struct packing *k)
{
    struct cpu_coef_values *piece = k->to;

    if (piece && PIECE - piece->used >= RUN * CPU_COEF_MOST)
        return;
    piece = cpu_arena_alloc(k->d->pool.arena, sizeof(*piece));
    if (!piece)
        cpu_decode_throw(k->d, CPU_NOMEM, "out of memory");
    piece->next = NULL;
    piece->used = 0;
    if (k->to)
        k->to->next = piece;
    else
        k->packed.values = piece;
    k->to = piece;
}

static void pack_blocks(struct packing *k, struct cpu_coef_sink *sink,
                        struct cpu_coef_block *out, const int16_t (*blocks)[64],
                        int n)
{
    uint8_t *from;

    make_room(k);
    from = k->to->data + k->to->used;
    sink->to = from;
    sink->at = (uint32_t)k->values;
    k->d->ops->pack_blocks(sink, out, blocks, n);
    k->to->used += (size_t)(sink->to - from);
    k->values += (size_t)(sink->to - from);
    if (k->values > UINT32_MAX / 2)
        cpu_decode_throw(k->d, CPU_NOMEM, "too many coefficients");
}

// Line `line` of component i's blocks, from the window's first column on; none
// of the window's is none of ours.
static void pack_line(struct packing *k, uint32_t i, uint32_t line,
                      const int16_t (*blocks)[64])
{
    struct cpu_coefficients *head = &k->packed.head;
    struct cpu_coef_component *comp = &head->comp[i];
    // Lines above the first wrap around.
    uint32_t y = line - comp->block_y, n;
    struct cpu_coef_block *out;

    if (y >= comp->blocks_h)
        return;
    out = k->packed.blocks + comp->first + (size_t)y * comp->blocks_w;
    for (uint32_t x = 0; x < comp->blocks_w; x += n) {
        n = comp->blocks_w - x < RUN ? comp->blocks_w - x : RUN;
        pack_blocks(k, &k->sink[i], out + x, blocks + x, (int)n);
    }
    head->range |= k->sink[i].range;
}

static void end_packing(struct packing *k)
{
    k->packed.head.values_size = (uint32_t)k->values;
    k->packed.size = (k->packed.head.values_at + k->values + CPU_COEF_ALIGN -
                      1) &
                     ~(size_t)(CPU_COEF_ALIGN - 1);
}

static bool to_the_end(const struct cpu_decode_params *p)
{
    return p->window.y + p->window.h == p->height;
}

// ---- our own way ----

// The scan and the quantizers are known.
static void open_lines(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);
    struct cpu_coefficients *head = &d->k.packed.head;
    const struct cpu_scan *s = &d->scan;

    d->k.d = base;
    head->num_components = (uint32_t)s->num_components;
    head->color = s->color;
    head->h_max = (uint32_t)s->h_max;
    head->v_max = (uint32_t)s->v_max;
    for (int i = 0; i < s->num_components; i++) {
        struct cpu_coef_component *comp = &head->comp[i];

        comp->h = (uint32_t)s->comp[i].h;
        comp->v = (uint32_t)s->comp[i].v;
        comp->width = (uint32_t)s->comp[i].width;
        comp->height = (uint32_t)s->comp[i].height;
    }
    plan(&d->k);
    d->k.rows = cpu_rows_to_read(&base->p.window, s->v_max, s->rows);
    for (int i = 0; i < s->num_components; i++)
        if (!cpu_entropy_lines_alloc(&d->lines[i], base->pool.arena,
                                     s->comp[i].v, (int)head->comp[i].block_x,
                                     (int)head->comp[i].blocks_w))
            cpu_decode_throw(base, CPU_NOMEM, "out of memory");
}

static void own_open(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);

    cpu_entropy_open(base, &d->scan, &d->entropy);
    for (int i = 0; i < d->scan.num_components; i++)
        cpu_scan_quant(&d->scan, i, d->k.packed.head.comp[i].quant);
    open_lines(base);
}

static void picture_open(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);

    d->picture = (const void *)base->p.data;
    cpu_packed_scan(d->picture, &d->scan);
    if (d->scan.width != base->p.width || d->scan.height != base->p.height)
        cpu_decode_throw(base, CPU_CORRUPT, "another picture's size");
    for (int i = 0; i < d->scan.num_components; i++)
        memcpy(d->k.packed.head.comp[i].quant, d->picture->comp[i].quant,
               sizeof(d->picture->comp[i].quant));
    open_lines(base);
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

// Only the lines that the window needs.
static void picture_rows(struct cpu_decode *base)
{
    struct own_decode *d = own_decode(base);
    const struct cpu_coefficients *head = &d->k.packed.head;

    for (uint32_t i = 0; i < head->num_components; i++) {
        const struct cpu_coef_component *comp = &head->comp[i];

        for (uint32_t y = 0; y < comp->blocks_h; y++) {
            uint32_t line = comp->block_y + y;

            base->ops->unpack_line(d->lines[i].blocks,
                                   cpu_packed_line(d->picture, (int)i,
                                                   (int)line),
                                   (int)d->picture->comp[i].columns,
                                   (int)comp->block_x, (int)comp->blocks_w);
            pack_line(&d->k, i, line, (const int16_t(*)[64])d->lines[i].blocks);
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
    struct cpu_coefficients *head = &d->k.packed.head;

    d->k.d = base;
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
        struct cpu_coef_component *comp = &head->comp[i];

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
    const struct cpu_coefficients *head = &d->k.packed.head;

    for (uint32_t i = 0; i < head->num_components; i++) {
        const struct cpu_coef_component *comp = &head->comp[i];
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
                                struct cpu_arena *arena, struct cpu_packed *out,
                                struct cpu_decode_error *err)
{
    struct cpu_decode *d = cpu_jpeg_whole(&own_kind, p, ops, arena, err);

    if (d) {
        *out = own_decode(d)->k.packed;
        return CPU_OK;
    }
    if (err->result != CPU_REDO)
        return err->result;
    d = cpu_jpeg_whole(&coef_kind, p, ops, arena, err);
    if (!d)
        return err->result;
    *out = coef_decode(d)->k.packed;
    return CPU_OK;
}

enum cpu_result cpu_coef_unpack(const struct cpu_decode_params *p,
                                const struct cpu_ops *ops,
                                struct cpu_arena *arena, struct cpu_packed *out,
                                struct cpu_decode_error *err)
{
    struct cpu_decode *d = cpu_jpeg_whole(&picture_kind, p, ops, arena, err);

    if (d)
        *out = own_decode(d)->k.packed;
    return err->result;
}

void cpu_coef_write(const struct cpu_packed *packed, void *to)
{
    const struct cpu_coefficients *head = &packed->head;
    uint8_t *start = to, *at = start + head->values_at;

    memcpy(start, head, sizeof(*head));
    memset(start + sizeof(*head), 0, head->blocks_at - sizeof(*head));
    memcpy(start + head->blocks_at, packed->blocks,
           head->num_blocks * sizeof(*packed->blocks));
    for (const struct cpu_coef_values *v = packed->values; v; v = v->next) {
        memcpy(at, v->data, v->used);
        at += v->used;
    }
    assert(at == start + head->values_at + head->values_size);
    memset(at, 0, (size_t)(start + packed->size - at));
}
