// SPDX-License-Identifier: Apache-2.0
// The scan is read row of iMCUs by row of iMCUs: libjpeg's buffered-image mode
// lets the caller ask for one at a time. Its "whole picture" of coefficients
// is a ring of that one row (jpeg_memory.h), packed before the next is read.
#include "coefficients.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_kernels.h"
#include "jpeg_reader.h"

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

struct coef_decode {
    struct cpu_jpeg j;  // first
    struct cpu_packed packed;
    struct cpu_coef_values *to;  // the last piece
    struct cpu_coef_sink sink[3];
    uint64_t values;  // so far
    int rows;         // of iMCUs that must be read
};

static struct coef_decode *coef_decode(struct cpu_decode *d)
{
    return (struct coef_decode *)d;
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

// ---- opening ----

// Blocks under those samples.
static void cover(unsigned from, unsigned len, unsigned ratio, unsigned samples,
                  uint32_t *block, uint32_t *blocks)
{
    unsigned lo, hi;

    cpu_jpeg_cover(from, len, ratio, samples, &lo, &hi);
    *block = lo / DCTSIZE;
    *blocks = hi / DCTSIZE - lo / DCTSIZE + 1;
}

static void plan_component(struct coef_decode *d, int i)
{
    const jpeg_component_info *info = &d->j.cinfo.comp_info[i];
    struct cpu_coefficients *head = &d->packed.head;
    struct cpu_coef_component *comp = &head->comp[i];
    struct cpu_coef_sink *sink = &d->sink[i];
    uint64_t blocks;

    comp->h = (uint32_t)info->h_samp_factor;
    comp->v = (uint32_t)info->v_samp_factor;
    if (head->h_max % comp->h || head->v_max % comp->v)
        cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "sampling factors");
    comp->width = info->downsampled_width;
    comp->height = info->downsampled_height;
    cover(head->x, head->w, head->h_max / comp->h, comp->width, &comp->block_x,
          &comp->blocks_w);
    cover(head->y, head->h, head->v_max / comp->v, comp->height, &comp->block_y,
          &comp->blocks_h);
    comp->first = head->num_blocks;
    blocks = (uint64_t)comp->blocks_w * comp->blocks_h + head->num_blocks;
    if (blocks > UINT32_MAX / sizeof(struct cpu_coef_block) / 2)
        cpu_jpeg_refuse(&d->j, CPU_NOMEM, "too many blocks");
    head->num_blocks = (uint32_t)blocks;
    *sink = (struct cpu_coef_sink){.quant = comp->quant};
    for (int k = 0; k < DCTSIZE2; k++) {
        comp->quant[k] = info->quant_table->quantval[k];
        sink->quant8[k] = (uint8_t)comp->quant[k];
        sink->wide |= comp->quant[k] > UINT8_MAX;
    }
}

static void plan(struct coef_decode *d)
{
    const struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    const struct cpu_rect *w = &d->j.base.p.window;
    struct cpu_coefficients *head = &d->packed.head;

    *head = (struct cpu_coefficients){
        .magic = CPU_COEF_MAGIC,
        .num_components = (uint32_t)cinfo->num_components,
        .color = cpu_jpeg_color(&d->j),
        .h_max = (uint32_t)cinfo->max_h_samp_factor,
        .v_max = (uint32_t)cinfo->max_v_samp_factor,
        .x = (uint32_t)w->x,
        .y = (uint32_t)w->y,
        .w = (uint32_t)w->w,
        .h = (uint32_t)w->h,
        .blocks_at = BLOCKS_AT,
    };
    for (int i = 0; i < cinfo->num_components; i++)
        plan_component(d, i);
    d->rows = cpu_jpeg_rows_to_read(&d->j);
    head->values_at = (uint32_t)(BLOCKS_AT + head->num_blocks *
                                                 sizeof(struct cpu_coef_block));
    d->packed.blocks = cpu_arena_array(d->j.base.pool.arena, head->num_blocks,
                                       sizeof(struct cpu_coef_block));
    if (!d->packed.blocks)
        cpu_jpeg_refuse(&d->j, CPU_NOMEM, "out of memory");
}

static void open_step(struct cpu_decode *base)
{
    struct coef_decode *d = coef_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;

    cpu_jpeg_begin(&d->j);
    if (cinfo->arith_code || jpeg_has_multiple_scans(cinfo))
        cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "coding process");
    d->j.memory.ring = true;
    cinfo->buffered_image = TRUE;
    cinfo->raw_data_out = TRUE;  // no upsampler and no colours are set up
    jpeg_start_decompress(cinfo);
    plan(d);
}

// ---- packing ----

// Room for the values of RUN blocks. Piece after piece from the arena: how
// much they will be is known only at the end.
static void make_room(struct coef_decode *d)
{
    struct cpu_coef_values *piece = d->to;

    if (piece && PIECE - piece->used >= RUN * CPU_COEF_MOST)
        return;
    piece = cpu_arena_alloc(d->j.base.pool.arena, sizeof(*piece));
    if (!piece)
        cpu_jpeg_refuse(&d->j, CPU_NOMEM, "out of memory");
    piece->next = NULL;
    piece->used = 0;
    if (d->to)
        d->to->next = piece;
    else
        d->packed.values = piece;
    d->to = piece;
}

static void pack_blocks(struct coef_decode *d, struct cpu_coef_sink *sink,
                        struct cpu_coef_block *out, const int16_t (*blocks)[64],
                        int n)
{
    uint8_t *from;

    make_room(d);
    from = d->to->data + d->to->used;
    sink->to = from;
    sink->at = (uint32_t)d->values;
    d->j.base.ops->pack_blocks(sink, out, blocks, n);
    d->to->used += (size_t)(sink->to - from);
    d->values += (size_t)(sink->to - from);
    if (d->values > UINT32_MAX / 2)
        cpu_jpeg_refuse(&d->j, CPU_NOMEM, "too many coefficients");
}

// Row r of iMCUs is in the ring.
static void pack_row(struct coef_decode *d, uint32_t r)
{
    struct cpu_coefficients *head = &d->packed.head;

    for (uint32_t i = 0; i < head->num_components; i++) {
        struct cpu_coef_component *comp = &head->comp[i];
        JBLOCKARRAY ring = cpu_jpeg_memory_blocks(&d->j.memory, (int)i);

        for (uint32_t k = 0; k < comp->v; k++) {
            // Rows above the first wrap around.
            uint32_t y = r * comp->v + k - comp->block_y, n;
            struct cpu_coef_block *out;

            if (y >= comp->blocks_h)
                continue;
            out = d->packed.blocks + comp->first + (size_t)y * comp->blocks_w;
            for (uint32_t x = 0; x < comp->blocks_w; x += n) {
                n = comp->blocks_w - x < RUN ? comp->blocks_w - x : RUN;
                pack_blocks(d, &d->sink[i], out + x,
                            ring[k] + comp->block_x + x, (int)n);
            }
        }
        head->range |= d->sink[i].range;
    }
}

static void rows_step(struct cpu_decode *base)
{
    struct coef_decode *d = coef_decode(base);
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    struct cpu_packed *packed = &d->packed;

    cpu_jpeg_refuse_damage(&d->j);
    for (int r = 0; r < d->rows; r++) {
        int got = jpeg_consume_input(cinfo);

        if (got != JPEG_ROW_COMPLETED && got != JPEG_SCAN_COMPLETED)
            cpu_jpeg_refuse(&d->j, CPU_CORRUPT, "no more rows");
        cpu_jpeg_refuse_damage(&d->j);
        pack_row(d, (uint32_t)r);
        cpu_decode_check_stop(base);
    }
    if (base->p.window.y + base->p.window.h == base->p.height) {
        d->j.tail = true;
        while (jpeg_consume_input(cinfo) != JPEG_REACHED_EOI)
            continue;
        cpu_jpeg_refuse_damage(&d->j);
    }
    packed->head.values_size = (uint32_t)d->values;
    packed->size = (packed->head.values_at + d->values + CPU_COEF_ALIGN - 1) &
                   ~(size_t)(CPU_COEF_ALIGN - 1);
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
    struct cpu_decode *d = cpu_jpeg_whole(&coef_kind, p, ops, arena, err);

    if (!d)
        return err->result;
    *out = coef_decode(d)->packed;
    return CPU_OK;
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
