// SPDX-License-Identifier: Apache-2.0
// The work between the kernel's steps: hands a row to a lane, fills up its
// stream, or decodes the rest of its picture as one stream.
#include "cpu_fallback/jpeg/lanes.h"

#include <string.h>

enum {
    // Tables of a lane, in this order; those of longer codes follow.
    DC = 0,
    AC = 2,
    LONGER = 4,
    ENTRIES = 256,
    // Bytes at the end of the data that a lane leaves to one stream, which
    // reads ahead and looks for a cut file there.
    LEFT = 40,
    // Lanes' memory, apart by so much that they share no cache sets.
    STREAM = CPU_LANE_STREAM + CPU_LANE_PAD + 3 * CPU_ALIGN,
    TABLES = (CPU_LANE_TABLES + 1) * ENTRIES,
    BLOCKS = CPU_LANE_BLOCKS + CPU_LANE_SPARE + 1,
    // For the rows that are handed out: lines of all components, and spare
    // blocks behind each.
    LINES = 12,
    BEHIND = 3,
};

struct lane {
    bool used;
    int units;  // blocks of an MCU
    struct cpu_lane_rest r;
    const uint8_t *src;         // what comes behind the stream at hand
    size_t filled;              // bytes of that;
    size_t counted;             // of these so many,
    const uint8_t *counted_at;  // are those in front of here
};

struct cpu_lanes {
    struct cpu_lane_steps s;
    const struct cpu_lane_ops *ops;
    const struct cpu_heap *heap;
    int num_used;
    struct lane lane[CPU_LANES];
    struct cpu_entropy_tables alone;  // for going on as one stream
    _Alignas(CPU_ALIGN) uint8_t streams[CPU_LANES][STREAM];
    _Alignas(CPU_ALIGN) uint32_t tables[CPU_LANES * TABLES + ENTRIES];
    // (One more than there are: lanes that store nothing write there.)
    _Alignas(CPU_ALIGN) int16_t blocks[CPU_LANES + 1][BLOCKS][64];
    _Alignas(CPU_ALIGN) int16_t row[CPU_LANE_BLOCKS + LINES * BEHIND][64];
};

// ---- Tables -----------------------------------------------------------------

struct tables {
    uint32_t *entry;
    uint32_t used, next;  // next: what follows a symbol of this one
    bool dc;
};

static void put(uint32_t *to, int n, uint32_t entry)
{
    for (int i = 0; i < n; i++)
        to[i] = entry;
}

// Returns the entry for codes that lanes do not take; its place in the block
// shows the irregularity later.
static uint32_t none(const struct tables *t)
{
    return 1 | CPU_LANE_GOES_ON | t->next << 18 | (t->dc ? 130u : 128u) << 24;
}

static uint32_t entry_of(const struct tables *t, int n, uint8_t symbol)
{
    uint32_t size = symbol & 15, run = symbol >> 4;
    uint32_t entry = (uint32_t)n << 8 | size << 13 | ((uint32_t)n + size) |
                     t->next << 18;

    // Larger ones no picture of 8 bits has: more than three steps' bits.
    if (t->dc)
        return symbol > 11 ? none(t)
                           : entry | CPU_LANE_DC | CPU_LANE_GOES_ON | 2u << 24;
    if (size > 10)
        return none(t);
    if (size)
        return entry | CPU_LANE_AC | CPU_LANE_GOES_ON | (run + 1) << 25;
    return run == 15 ? entry | CPU_LANE_GOES_ON | 32u << 24
                     : entry | 128u << 24;
}

// Makes a table as make_codes() of entropy.c: ITU-T T.81 annex C. False: no
// such code, or too many long ones.
static bool make_table(struct tables *t, uint32_t which, const uint8_t *counts)
{
    const uint8_t *symbol = counts + 16;
    uint32_t *first = t->entry + which * ENTRIES, *longer = NULL;
    uint32_t code = 0, prefix = ENTRIES;

    put(first, ENTRIES, none(t));
    for (int n = 1; n <= 16; n++, code <<= 1)
        for (int i = 0; i < counts[n - 1]; i++, code++, symbol++) {
            if (code + 1 >= 1u << n || (t->dc && *symbol > 15))
                return false;
            if (n <= 8) {
                put(first + (code << (8 - n)), 1 << (8 - n),
                    entry_of(t, n, *symbol));
                continue;
            }
            if (code >> (n - 8) != prefix) {
                prefix = code >> (n - 8);
                if (t->used == CPU_LANE_TABLES)
                    return false;
                longer = t->entry + t->used * ENTRIES;
                put(longer, ENTRIES, none(t));
                first[prefix] = 8 | 8 << 8 | t->used++ << 18;
            }
            put(longer + (code << (16 - n) & 255), 1 << (16 - n),
                entry_of(t, n - 8, *symbol));
        }
    return true;
}

// Makes the tables. False: the components use more than two pairs of them, or
// one is not for lanes.
static bool make_tables(uint32_t *entry, const struct cpu_scan *scan,
                        uint32_t *second)
{
    const struct cpu_scan_component *a = &scan->comp[0], *b = NULL;
    struct tables t = {.entry = entry, .used = LONGER};
    uint32_t bit = 1;

    *second = 0;
    for (int i = 0; i < scan->num_components; i++) {
        const struct cpu_scan_component *c = &scan->comp[i];
        int units = c->h * c->v;

        if (c->dc != a->dc || c->ac != a->ac) {
            if (b && (c->dc != b->dc || c->ac != b->ac))
                return false;
            b = c;
            *second |= bit * ((1u << units) - 1);
        }
        bit <<= units;
    }
    for (uint32_t k = 0; k < (b ? 2 : 1); k++) {
        const struct cpu_scan_component *c = k ? b : a;

        t.next = AC + k;
        t.dc = true;
        if (!make_table(&t, DC + k, scan->huffman[0][c->dc]))
            return false;
        t.dc = false;
        if (!make_table(&t, AC + k, scan->huffman[1][c->ac]))
            return false;
    }
    return true;
}

// ---- Lanes ------------------------------------------------------------------

struct cpu_lanes *cpu_lanes_create(const struct cpu_lane_ops *ops,
                                   const struct cpu_heap *heap)
{
    struct cpu_lanes *l = heap->alloc(heap->ctx, sizeof(*l));

    if (!l)
        return NULL;
    memset(l, 0, sizeof(*l));
    l->ops = ops;
    l->heap = heap;
    l->s.streams = l->streams[0];
    l->s.tables = l->tables;
    l->s.blocks = l->blocks[0][0];
    l->s.nowhere = CPU_LANES * sizeof(l->blocks[0]) + 2;
    for (int i = 0; i < CPU_LANES; i++) {
        // Entries of zeros: nothing moves.
        l->s.base[i] = l->s.table[i] = CPU_LANES * TABLES;
        l->s.end[i] = l->s.limit[i] = UINT32_MAX;
        l->s.top[i] = 2;
    }
    return l;
}

void cpu_lanes_destroy(struct cpu_lanes **lanes)
{
    struct cpu_lanes *l = *lanes;

    if (l)
        l->heap->free(l->heap->ctx, l, sizeof(*l));
    *lanes = NULL;
}

static int units_of(const struct cpu_scan *scan)
{
    int n = 0;

    if (scan->num_components == 1)
        return 1;
    for (int i = 0; i < scan->num_components; i++)
        n += scan->comp[i].h * scan->comp[i].v;
    return n;
}

static int mcus_of(const struct cpu_scan *scan)
{
    return scan->num_components == 1 ? (scan->width + 7) / 8 : scan->mcus;
}

bool cpu_lanes_take(const struct cpu_scan *scan)
{
    return !scan->restart && (scan->num_components == 3 || scan->v_max == 1) &&
           mcus_of(scan) * units_of(scan) <= CPU_LANE_BLOCKS;
}

int cpu_lanes_empty(const struct cpu_lanes *l)
{
    return CPU_LANES - l->num_used;
}

// Bytes at hand up to `byte` lie in front of what is returned.
static const uint8_t *count_to(struct cpu_lanes *l, int i, size_t byte)
{
    struct lane *lane = &l->lane[i];
    const uint8_t *p = l->streams[i];
    size_t n = byte - lane->counted;

    lane->counted_at += n + l->ops->stuffed(p + lane->counted, n);
    lane->counted = byte;
    return lane->counted_at;
}

// Drops what the lane has read and fills up. False: there is too little.
static bool fill(struct cpu_lanes *l, int i)
{
    struct lane *lane = &l->lane[i];
    uint32_t from = (uint32_t)((size_t)i * STREAM), at = l->s.pos[i] / 8 - from;
    uint8_t *p = l->streams[i];

    count_to(l, i, at);
    lane->filled -= at;
    memmove(p, p + at, lane->filled);
    lane->counted = 0;
    lane->filled += l->ops->unstuff(p + lane->filled,
                                    CPU_LANE_STREAM - lane->filled, &lane->src,
                                    lane->r.p.scan->end);
    if (lane->filled <= LEFT)
        return false;
    l->s.pos[i] -= at * 8;
    l->s.limit[i] = (from + (uint32_t)lane->filled - LEFT) * 8;
    return l->s.pos[i] <= l->s.limit[i];
}

// Sets lane i up for its next row: only DCs are stored above the wanted rows.
static void begin_row(struct cpu_lanes *l, int i)
{
    const struct lane *lane = &l->lane[i];

    l->s.at[i] = (uint32_t)((size_t)i * sizeof(l->blocks[0]));
    l->s.table[i] = l->s.base[i];
    l->s.block[i] = lane->units > 1 ? 2 : 1;
    l->s.keep[i] = lane->r.row < lane->r.p.first ? CPU_LANE_DC
                                                 : CPU_LANE_DC | CPU_LANE_AC;
    l->s.odd[i] = 0;
}

static void leave(struct cpu_lanes *l, int i)
{
    l->lane[i].used = false;
    l->num_used--;
    l->s.base[i] = l->s.table[i] = CPU_LANES * TABLES;
    l->s.end[i] = l->s.limit[i] = UINT32_MAX;
    l->s.keep[i] = 0;
}

bool cpu_lanes_add(struct cpu_lanes *l, const struct cpu_lane_params *p)
{
    int i = 0, units = units_of(p->scan), blocks = units * mcus_of(p->scan);
    struct lane *lane;
    uint32_t second;

    while (l->lane[i].used)
        i++;
    if (!make_tables(l->tables + (size_t)i * TABLES, p->scan, &second))
        return false;
    lane = &l->lane[i];
    *lane = (struct lane){
        .used = true,
        .units = units,
        .r = {.p = *p, .at = p->scan->data},
        .src = p->scan->data,
        .counted_at = p->scan->data,
    };
    l->num_used++;
    l->s.base[i] = (uint32_t)(i * TABLES);
    l->s.second[i] = second;
    l->s.top[i] = 1u << units;
    l->s.pos[i] = (uint32_t)((size_t)i * STREAM * 8);
    memset(l->blocks[i], 0, (size_t)blocks * sizeof(l->blocks[i][0]));
    begin_row(l, i);
    l->s.end[i] = l->s.at[i] + (uint32_t)blocks * sizeof(l->blocks[i][0]);
    if (!fill(l, i)) {
        leave(l, i);
        return false;
    }
    return true;
}

// ---- Rows -------------------------------------------------------------------

static void make_lines(struct cpu_lanes *l, const struct cpu_lane_params *p,
                       struct cpu_entropy_lines lines[3])
{
    int16_t(*at)[64] = l->row;

    for (int c = 0; c < p->scan->num_components; c++) {
        lines[c] = (struct cpu_entropy_lines){
            .blocks = at,
            .first = p->left[c],
            .count = p->count[c],
            .pitch = p->count[c] + BEHIND,
        };
        at += (p->scan->num_components == 1 ? 1 : p->scan->comp[c].v) *
              lines[c].pitch;
    }
}

static int sum_dc(int16_t (*block)[64], const struct cpu_lane_mcus *m, int dc)
{
    for (int i = 0; i < m->mcus; i++, block += m->units)
        for (int k = 0; k < m->h * m->v; k++)
            dc += block[k][0];
    return dc;
}

// The lane's row is complete. False: the picture goes no further.
static bool give_row(struct cpu_lanes *l, int i)
{
    struct lane *lane = &l->lane[i];
    int16_t(*block)[64] = l->blocks[i];
    struct cpu_entropy_lines lines[3];

    make_lines(l, &lane->r.p, lines);
    for (int c = 0; c < lane->r.p.scan->num_components; c++) {
        const struct cpu_scan_component *comp = &lane->r.p.scan->comp[c];
        bool one = lane->r.p.scan->num_components == 1;
        struct cpu_lane_mcus m = {
            .mcus = mcus_of(lane->r.p.scan),
            .units = lane->units,
            .h = one ? 1 : comp->h,
            .v = one ? 1 : comp->v,
        };
        int dc = lane->r.dc[c];

        dc = lane->r.row < lane->r.p.first
                 ? sum_dc(block, &m, dc)
                 : l->ops->spread(&lines[c], block, &m, dc);
        // 16 bits are what it is good for.
        lane->r.dc[c] = (int16_t)dc;
        block += m.h * m.v;
    }
    if (lane->r.row >= lane->r.p.first &&
        !lane->r.p.row(lane->r.p.ctx, lane->r.row, lines))
        return false;
    lane->r.row++;
    return true;
}

// Goes on as one stream, from the row's beginning.
static enum cpu_lane_result go_on_alone(struct cpu_lanes *l,
                                        const struct cpu_lane_rest *r)
{
    const struct cpu_lane_params *p = &r->p;
    struct cpu_entropy_lines lines[3];
    struct cpu_entropy e;

    if (!cpu_entropy_tables(&l->alone, p->scan))
        return CPU_LANE_GIVEN_UP;
    cpu_entropy_begin(&e, p->scan, &l->alone);
    cpu_entropy_go_on(&e, r->row, r->at, r->bit, r->dc);
    make_lines(l, p, lines);
    for (int row = r->row; row < p->rows; row++) {
        bool skip = row < p->first;

        if (!cpu_entropy_row(&e, skip ? NULL : lines) ||
            (!skip && !p->row(p->ctx, row, lines)))
            return CPU_LANE_GIVEN_UP;
    }
    if (p->rows == p->scan->rows && !cpu_entropy_ends(&e))
        return CPU_LANE_GIVEN_UP;
    return CPU_LANE_ROWS;
}

static void end(struct cpu_lanes *l, int i, enum cpu_lane_result result)
{
    const struct cpu_lane_params *p = &l->lane[i].r.p;

    leave(l, i);
    p->done(p->ctx, result);
}

// Serves lane i, which has stopped: takes its row or refills it. Returns true
// if its picture is done.
static bool serve(struct cpu_lanes *l, int i)
{
    struct lane *lane = &l->lane[i];
    bool complete = l->s.at[i] >= l->s.end[i];
    size_t byte = l->s.pos[i] / 8 - (size_t)i * STREAM;

    if (complete && !(l->s.odd[i] & CPU_LANE_ODD)) {
        if (!give_row(l, i))
            return end(l, i, CPU_LANE_GIVEN_UP), true;
        lane->r.at = count_to(l, i, byte);
        lane->r.bit = l->s.pos[i] % 8;
        if (lane->r.row == lane->r.p.rows && lane->r.row < lane->r.p.scan->rows)
            return end(l, i, CPU_LANE_ROWS), true;
        if (lane->r.row < lane->r.p.rows) {
            begin_row(l, i);
            if (l->s.pos[i] <= l->s.limit[i] || fill(l, i))
                return false;
        }
    } else if (!complete && fill(l, i)) {
        return false;
    }
    return end(l, i, go_on_alone(l, &lane->r)), true;
}

void cpu_lanes_run(struct cpu_lanes *l, enum cpu_lane_form form)
{
    int served = 0;
    bool done = false;

    while (!done && l->num_used && served < CPU_LANES)
        for (unsigned who = l->ops->steps[form](&l->s); who; who &= who - 1) {
            done |= serve(l, __builtin_ctz(who));
            served++;
        }
}

int cpu_lanes_leave(struct cpu_lanes *l, struct cpu_lane_rest rest[CPU_LANES])
{
    int n = 0;

    for (int i = 0; i < CPU_LANES; i++)
        if (l->lane[i].used) {
            rest[n++] = l->lane[i].r;
            leave(l, i);
        }
    return n;
}

void cpu_lanes_leave_one(struct cpu_lanes *l, const void *ctx,
                         struct cpu_lane_rest *rest)
{
    int i = 0;

    while (!l->lane[i].used || l->lane[i].r.p.ctx != ctx)
        i++;
    *rest = l->lane[i].r;
    leave(l, i);
}

void cpu_lanes_alone(struct cpu_lanes *l, const struct cpu_lane_rest *rest)
{
    rest->p.done(rest->p.ctx, go_on_alone(l, rest));
}

void cpu_lanes_finish(struct cpu_lanes *l)
{
    struct cpu_lane_rest rest[CPU_LANES];
    int n = cpu_lanes_leave(l, rest);

    for (int i = 0; i < n; i++)
        cpu_lanes_alone(l, &rest[i]);
}
