// SPDX-License-Identifier: Apache-2.0
// Our own entropy stage makes the coefficients; where it gives up, and for
// files of several scans, libjpeg does: of those it must hold the whole
// picture.
#include "pack.h"

#include <assert.h>
#include <string.h>

#include "entropy.h"
#include "reader.h"

_Static_assert(sizeof(JBLOCK) == 64 * sizeof(int16_t), "the same blocks");

struct cpu_pack_piece {
    struct cpu_pack_piece *next;
    size_t used;
    uint8_t data[CPU_PIECE - 2 * sizeof(size_t)];
};

_Static_assert(sizeof(struct cpu_pack_piece) == CPU_PIECE, "a piece");

struct own_pack {
    struct cpu_decode base;  // first
    struct cpu_packing k;
    struct cpu_scan scan;
    struct cpu_entropy entropy;
    struct cpu_entropy_lines lines[3];
};

struct jpeg_pack {
    struct cpu_jpeg j;  // first
    struct cpu_packing k;
};

static bool fail(struct cpu_packing *k, enum cpu_result result,
                 const char *text)
{
    k->result = result;
    k->text = text;
    return false;
}

static bool no_memory(struct cpu_packing *k)
{
    return fail(k, CPU_NOMEM, "out of memory");
}

// ---- The head ---------------------------------------------------------------

// A picture of one component has MCUs of one block, whatever its factors.
static void put_component(struct cpu_packed_head *head, int i, int h, int v)
{
    bool alone = head->num_components == 1;

    head->comp[i].h = alone ? 1 : (uint32_t)h;
    head->comp[i].v = alone ? 1 : (uint32_t)v;
}

// Begins with a head that has the fields cpu_packed_head_init() asks for.
static bool begin(struct cpu_packing *k, const struct cpu_packed_head *head,
                  const struct cpu_ops *ops, struct cpu_arena *arena,
                  struct cpu_pieces *pieces)
{
    struct cpu_packed_head all = *head;

    *k = (struct cpu_packing){.ops = ops, .arena = arena, .pieces = pieces};
    if (!cpu_packed_head_init(&all))
        return fail(k, CPU_UNSUPPORTED, "no picture to be packed");
    k->head = cpu_arena_alloc(arena, cpu_packed_head_size(&all));
    if (!k->head)
        return no_memory(k);
    *k->head = all;
    k->at = cpu_packed_head_size(&all);
    return true;
}

bool cpu_packing_begin(struct cpu_packing *k, const struct cpu_scan *scan,
                       const struct cpu_ops *ops, struct cpu_arena *arena,
                       struct cpu_pieces *pieces)
{
    struct cpu_packed_head head = {
        .orientation = 1,
        .width = (uint32_t)scan->width,
        .height = (uint32_t)scan->height,
        .num_components = (uint32_t)scan->num_components,
        .color = scan->color,
    };

    for (int i = 0; i < scan->num_components; i++) {
        put_component(&head, i, scan->comp[i].h, scan->comp[i].v);
        hr__jpeg_quant(&scan->comp[i].quant, head.comp[i].quant);
    }
    return begin(k, &head, ops, arena, pieces);
}

// ---- Pieces -----------------------------------------------------------------

void cpu_pieces_finish(struct cpu_pieces *pieces)
{
    const struct cpu_heap *heap = pieces->heap;
    struct cpu_pack_piece *piece;

    while ((piece = pieces->first)) {
        pieces->first = piece->next;
        heap->free(heap->ctx, piece, sizeof(*piece));
    }
    if (pieces->line)
        heap->free(heap->ctx, pieces->line, pieces->capacity);
    *pieces = (struct cpu_pieces){.heap = heap, .keep = pieces->keep};
}

static struct cpu_pack_piece *take_piece(struct cpu_pieces *pieces)
{
    struct cpu_pack_piece *piece = pieces->first;

    if (!piece)
        return pieces->heap->alloc(pieces->heap->ctx, sizeof(*piece));
    pieces->first = piece->next;
    pieces->spare--;
    return piece;
}

static void give_piece(struct cpu_pieces *pieces, struct cpu_pack_piece *piece)
{
    if (pieces->spare == pieces->keep) {
        pieces->heap->free(pieces->heap->ctx, piece, sizeof(*piece));
        return;
    }
    piece->next = pieces->first;
    pieces->first = piece;
    pieces->spare++;
}

void cpu_packing_drop(struct cpu_packing *k)
{
    struct cpu_pack_piece *piece;

    while (k->pieces && (piece = k->first)) {
        k->first = piece->next;
        give_piece(k->pieces, piece);
    }
    k->last = NULL;
    k->num = 0;
}

// Adds a piece. Pieces that are not the arena's count for its limit, too.
static bool add_piece(struct cpu_packing *k)
{
    const struct cpu_arena *a = k->arena;
    size_t all = (size_t)(k->num + 1) * sizeof(struct cpu_pack_piece);
    struct cpu_pack_piece *piece;

    if (!k->pieces)
        piece = cpu_arena_alloc(k->arena, sizeof(*piece));
    else if (a->limit && (a->used > a->limit || all > a->limit - a->used))
        piece = NULL;
    else
        piece = take_piece(k->pieces);
    if (!piece)
        return no_memory(k);
    piece->next = NULL;
    piece->used = 0;
    if (k->last)
        k->last->next = piece;
    else
        k->first = piece;
    k->last = piece;
    k->num++;
    return true;
}

static size_t room_of(const struct cpu_packing *k)
{
    return k->last ? sizeof(k->last->data) - k->last->used : 0;
}

// Memory for a line that may not fit into the piece at hand; NULL.
static uint8_t *spare_line(struct cpu_packing *k)
{
    const struct cpu_packed_component *comp = k->head->comp;
    struct cpu_pieces *p = k->pieces;
    size_t bound = 0;

    for (uint32_t i = 0; i < k->head->num_components; i++)
        if (bound < cpu_packed_bound(comp[i].columns))
            bound = cpu_packed_bound(comp[i].columns);
    if (!p)
        return k->line ? k->line : (k->line = cpu_arena_alloc(k->arena, bound));
    if (p->capacity < bound) {
        if (p->line)
            p->heap->free(p->heap->ctx, p->line, p->capacity);
        p->line = p->heap->alloc(p->heap->ctx, bound);
        p->capacity = p->line ? bound : 0;
    }
    return p->line;
}

// ---- Lines ------------------------------------------------------------------

static bool put_bytes(struct cpu_packing *k, const uint8_t *from, size_t size)
{
    while (size) {
        size_t n = room_of(k);

        if (!n && !add_piece(k))
            return false;
        n = room_of(k) < size ? room_of(k) : size;
        memcpy(k->last->data + k->last->used, from, n);
        k->last->used += n;
        from += n;
        size -= n;
    }
    return true;
}

// Packs a line. Its size is known only when it is written: where the piece at
// hand may be too small for it, it is written elsewhere first.
static bool put_line(struct cpu_packing *k, uint32_t columns,
                     const int16_t (*blocks)[64])
{
    size_t bound = cpu_packed_bound(columns), size;
    bool fits = room_of(k) >= bound;
    uint8_t *to = fits ? k->last->data + k->last->used : spare_line(k);

    if (!to)
        return no_memory(k);
    size = k->ops->pack_line(to, blocks, (int)columns);
    k->head->offset[k->segment++] = (uint32_t)k->at;
    k->at += size;
    if (fits)
        k->last->used += size;
    else if (!put_bytes(k, to, size))
        return false;
    return k->at <= UINT32_MAX - CPU_PACKED_PAD ||
           fail(k, CPU_UNSUPPORTED, "4 GiB of coefficients");
}

bool cpu_packing_row(struct cpu_packing *k, const struct cpu_scan *scan,
                     int row, const struct cpu_entropy_lines *lines)
{
    const struct cpu_packed_head *head = k->head;

    for (int i = 0; i < scan->num_components; i++) {
        int v = scan->comp[i].v;
        int all = (int)(head->rows * head->comp[i].v);

        // (Of one component there may be lines below the picture.)
        for (int y = 0; y < v && row * v + y < all; y++)
            if (!put_line(k, head->comp[i].columns,
                          (const int16_t(*)[64])lines[i].blocks +
                              y * lines[i].pitch))
                return false;
    }
    return true;
}

static void end(struct cpu_packing *k)
{
    assert(k->segment == k->head->segments);
    k->head->offset[k->segment] = (uint32_t)k->at;
}

// ---- Our own way ------------------------------------------------------------

static _Noreturn void throw(struct cpu_decode * d, const struct cpu_packing *k)
{
    cpu_decode_throw(d, k->result, k->text);
}

static void own_open(struct cpu_decode *base)
{
    struct own_pack *d = (struct own_pack *)base;

    cpu_entropy_open(base, &d->scan, &d->entropy);
    if (!cpu_packing_begin(&d->k, &d->scan, base->ops, base->pool.arena, NULL))
        throw(base, &d->k);
    for (int i = 0; i < d->scan.num_components; i++)
        if (!cpu_entropy_lines_alloc(&d->lines[i], base->pool.arena,
                                     d->scan.comp[i].v, 0,
                                     (int)d->k.head->comp[i].columns))
            cpu_decode_throw(base, CPU_NOMEM, "out of memory");
}

static void own_rows(struct cpu_decode *base)
{
    struct own_pack *d = (struct own_pack *)base;

    for (int row = 0; row < d->scan.rows; row++) {
        if (!cpu_entropy_row(&d->entropy, d->lines))
            cpu_decode_throw(base, CPU_REDO, "");
        if (!cpu_packing_row(&d->k, &d->scan, row, d->lines))
            throw(base, &d->k);
        cpu_decode_check_stop(base);
    }
    if (!cpu_entropy_ends(&d->entropy))
        cpu_decode_throw(base, CPU_REDO, "");
    end(&d->k);
}

static const struct cpu_decode_kind own_kind = {
    .size = sizeof(struct own_pack),
    .open = own_open,
    .rows = own_rows,
};

// ---- libjpeg's --------------------------------------------------------------

static void jpeg_open(struct cpu_decode *base)
{
    struct jpeg_pack *d = (struct jpeg_pack *)base;
    struct jpeg_decompress_struct *cinfo = &d->j.cinfo;
    struct cpu_packed_head head = {.orientation = 1};

    cpu_jpeg_begin(&d->j);
    jpeg_read_coefficients(cinfo);
    cpu_jpeg_refuse_damage(&d->j);
    head.width = cinfo->image_width;
    head.height = cinfo->image_height;
    head.num_components = (uint32_t)cinfo->num_components;
    head.color = cpu_jpeg_color(&d->j);
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *info = &cinfo->comp_info[i];

        put_component(&head, i, info->h_samp_factor, info->v_samp_factor);
        // (A component that no scan has has no table.)
        if (!info->quant_table)
            cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "a component without scan");
        for (int q = 0; q < DCTSIZE2; q++)
            head.comp[i].quant[q] = info->quant_table->quantval[q];
        // libjpeg smooths coefficients whose last bits are missing.
        for (int q = 0; cinfo->coef_bits && q < DCTSIZE2; q++)
            if (cinfo->coef_bits[i][q])
                cpu_jpeg_refuse(&d->j, CPU_UNSUPPORTED, "missing scans");
    }
    if (!begin(&d->k, &head, base->ops, base->pool.arena, NULL))
        throw(base, &d->k);
}

static void jpeg_rows(struct cpu_decode *base)
{
    struct jpeg_pack *d = (struct jpeg_pack *)base;
    const struct cpu_packed_head *head = d->k.head;

    for (uint32_t row = 0; row < head->rows; row++) {
        for (uint32_t i = 0; i < head->num_components; i++) {
            JBLOCKARRAY lines = cpu_jpeg_memory_blocks(&d->j.memory, (int)i);

            for (uint32_t k = 0; k < head->comp[i].v; k++)
                if (!put_line(&d->k, head->comp[i].columns,
                              lines[row * head->comp[i].v + k]))
                    throw(base, &d->k);
        }
        cpu_decode_check_stop(base);
    }
    end(&d->k);
}

static const struct cpu_decode_kind jpeg_kind = {
    .size = sizeof(struct jpeg_pack),
    .open = jpeg_open,
    .rows = jpeg_rows,
    .close = cpu_jpeg_close,
};

// ---- The whole --------------------------------------------------------------

// Says whether rows can be made of it: color does not take all sampling
// factors.
static bool has_rows(const struct cpu_packing *k, struct cpu_decode_error *err)
{
    struct cpu_decode_params p = {
        .data = (const uint8_t *)k->head,
        .width = (int)k->head->width,
        .height = (int)k->head->height,
        .window = {0, 0, 1, 1},
        .channels = 3,
    };
    struct cpu_mark mark = cpu_arena_mark(k->arena);
    struct cpu_decode *d = cpu_decode_open(&cpu_packed_decoder, &p, k->ops,
                                           k->arena, err);

    if (d)
        cpu_decode_close(d, false, err);
    cpu_arena_reset(k->arena, mark);
    if (err->result == CPU_REDO)
        err->result = CPU_UNSUPPORTED;
    return d != NULL;
}

static bool whole(struct cpu_packing *k, int orientation, struct cpu_pack *out,
                  struct cpu_decode_error *err)
{
    k->head->orientation = (uint32_t)orientation;
    *out = (struct cpu_pack){
        .size = (size_t)k->at + CPU_PACKED_PAD,
        .head = k->head,
        .pieces = k->first,
    };
    return has_rows(k, err);
}

bool cpu_packing_end(struct cpu_packing *k, int orientation,
                     struct cpu_pack *out)
{
    struct cpu_decode_error err;

    end(k);
    return whole(k, orientation, out, &err) || fail(k, err.result, "");
}

enum cpu_result cpu_pack(const struct cpu_decode_params *p, int orientation,
                         const struct cpu_ops *ops, struct cpu_arena *arena,
                         struct cpu_pack *out, struct cpu_decode_error *err)
{
    struct cpu_decode_params all = *p;
    struct cpu_mark mark = cpu_arena_mark(arena);
    struct cpu_packing *k;
    struct cpu_decode *d;

    all.window = (struct hr__rect){0, 0, p->width, p->height};
    all.channels = 3;
    d = cpu_jpeg_whole(&own_kind, &all, ops, arena, err);
    if (d)
        k = &((struct own_pack *)d)->k;
    else if (err->result == CPU_REDO &&
             (d = cpu_jpeg_whole(&jpeg_kind, &all, ops, arena, err)))
        k = &((struct jpeg_pack *)d)->k;
    else
        return err->result;
    if (!whole(k, orientation, out, err))
        cpu_arena_reset(arena, mark);
    return err->result;
}

void cpu_pack_write(const struct cpu_pack *pack, void *to)
{
    size_t head = cpu_packed_head_size(pack->head);
    uint8_t *at = (uint8_t *)to + head;

    memcpy(to, pack->head, head);
    for (const struct cpu_pack_piece *p = pack->pieces; p; p = p->next) {
        memcpy(at, p->data, p->used);
        at += p->used;
    }
    memset(at, 0, CPU_PACKED_PAD);
    cpu_packed_seal(to);
}
