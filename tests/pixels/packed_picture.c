// SPDX-License-Identifier: Apache-2.0
#include "packed_picture.h"

#include <stdlib.h>
#include <string.h>

#include "cpu_fallback/jpeg/entropy.h"
#include "heaps.h"

struct packing {
    struct cpu_scan scan;
    struct cpu_entropy_tables tables;
    struct cpu_entropy entropy;
    struct cpu_entropy_lines lines[3];
    struct cpu_arena arena;
    const struct cpu_ops *ops;
    packed_line_fn *line;
    void *ctx;
    struct cpu_packed_head *head;
    size_t capacity, used;
    uint32_t segment;
};

static bool grow(struct packing *p, size_t capacity)
{
    void *more = p->capacity < capacity ? realloc(p->head, capacity * 2)
                                        : p->head;

    if (!more)
        return false;
    p->head = more;
    p->capacity = p->capacity < capacity ? capacity * 2 : p->capacity;
    return true;
}

static bool begin_head(struct packing *p)
{
    struct cpu_packed_head *h = p->head;

    memset(h, 0, sizeof(*h));
    h->width = (uint32_t)p->scan.width;
    h->height = (uint32_t)p->scan.height;
    h->num_components = (uint32_t)p->scan.num_components;
    h->color = p->scan.color;
    h->orientation = 1;
    for (int i = 0; i < p->scan.num_components; i++) {
        h->comp[i].h = (uint32_t)p->scan.comp[i].h;
        h->comp[i].v = (uint32_t)p->scan.comp[i].v;
        hr__jpeg_quant(&p->scan.comp[i].quant, h->comp[i].quant);
    }
    return cpu_packed_head_init(h);
}

static bool begin(struct packing *p)
{
    if (!grow(p, sizeof(*p->head)) || !begin_head(p) ||
        !cpu_entropy_tables(&p->tables, &p->scan))
        return false;
    for (int i = 0; i < p->scan.num_components; i++)
        if (!cpu_entropy_lines_alloc(&p->lines[i], &p->arena, p->scan.comp[i].v,
                                     0, (int)p->head->comp[i].columns))
            return false;
    cpu_entropy_begin(&p->entropy, &p->scan, &p->tables);
    p->used = cpu_packed_head_size(p->head);
    return grow(p, p->used);
}

static bool put_line(struct packing *p, const int16_t (*blocks)[64], int n)
{
    uint8_t *to;
    size_t size;

    if (!grow(p, p->used + cpu_packed_bound((size_t)n) + CPU_PACKED_PAD))
        return false;
    to = (uint8_t *)p->head + p->used;
    size = p->ops->pack_line(to, blocks, n);
    memset(to + size, 0, CPU_PACKED_PAD);
    if (p->line)
        p->line(p->ctx, blocks, n, to, size);
    p->head->offset[p->segment++] = (uint32_t)p->used;
    p->used += size;
    return true;
}

static bool put_rows(struct packing *p)
{
    for (int row = 0; row < p->scan.rows; row++) {
        if (!cpu_entropy_row(&p->entropy, p->lines))
            return false;
        for (int i = 0; i < p->scan.num_components; i++)
            for (int k = 0; k < p->scan.comp[i].v; k++)
                if (!put_line(p,
                              (const int16_t(*)[64])p->lines[i].blocks +
                                  k * p->lines[i].pitch,
                              (int)p->head->comp[i].columns))
                    return false;
    }
    return true;
}

struct cpu_packed_head *packed_picture(const uint8_t *data, size_t size,
                                       const struct cpu_ops *ops,
                                       packed_line_fn *line, void *ctx)
{
    static struct packing p;
    void *done = NULL;

    p = (struct packing){.ops = ops, .line = line, .ctx = ctx};
    cpu_arena_init(&p.arena, &plain_heap);
    if (cpu_scan_parse(&p.scan, data, size) && begin(&p) && put_rows(&p)) {
        p.head->offset[p.segment] = (uint32_t)p.used;
        cpu_packed_seal(p.head);
        done = realloc(p.head, (size_t)p.head->size);
    }
    if (!done)
        free(p.head);
    cpu_arena_finish(&p.arena);
    return done;
}
