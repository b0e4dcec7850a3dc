// SPDX-License-Identifier: Apache-2.0
#include "decode_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void *cpu_pool_alloc(struct cpu_pool *pool, size_t size)
{
    size_t need;
    void *p;

    if (!pool->sealed)
        return cpu_arena_alloc(pool->arena, size ? size : 1);
    if (size > pool->reserve_left)
        return NULL;
    need = cpu_aligned(size + CPU_SLACK);
    if (need > pool->reserve_left)
        return NULL;
    p = pool->reserve;
    pool->reserve += need;
    pool->reserve_left -= need;
    return p;
}

bool cpu_pool_seal(struct cpu_pool *pool, size_t reserve)
{
    pool->reserve = cpu_arena_alloc(pool->arena, reserve);
    if (!pool->reserve)
        return false;
    pool->reserve_left = reserve;
    pool->sealed = true;
    return true;
}

bool cpu_decode_guard(struct cpu_decode *d, void (*step)(struct cpu_decode *))
{
    jmp_buf jump;

    assert(!d->jump);
    d->jump = &jump;
    if (setjmp(jump)) {
        d->jump = NULL;
        return false;
    }
    step(d);
    d->jump = NULL;
    return true;
}

void cpu_decode_throw(struct cpu_decode *d, enum cpu_result result,
                      const char *text)
{
    d->err.result = result;
    snprintf(d->err.text, sizeof(d->err.text), "%s", text);
    longjmp(*d->jump, 1);
}

void cpu_decode_warn(struct cpu_decode *d, const char *text)
{
    if (d->err.warnings++ == 0)
        snprintf(d->warning, sizeof(d->warning), "%s", text);
}

void cpu_decode_check_stop(struct cpu_decode *d)
{
    if (d->p.stop && d->p.stop(d->p.stop_ctx))
        cpu_decode_throw(d, CPU_STOPPED, "stopped");
}

void *cpu_decode_alloc(struct cpu_decode *d, size_t n, size_t size)
{
    void *p = cpu_arena_array(d->pool.arena, n, size);

    if (!p)
        cpu_decode_throw(d, CPU_NOMEM, "out of memory");
    return p;
}

void cpu_cover(unsigned from, unsigned len, unsigned ratio, unsigned samples,
               unsigned *lo, unsigned *hi)
{
    *lo = from / ratio;
    *hi = (from + len - 1) / ratio;
    *lo -= *lo > 0;
    *hi += *hi + 1 < samples;
}

// libjpeg-turbo gives out the last rows of an MCU that it upsamples only with
// the MCU below (src/jdmainct.c, context rows).
int cpu_rows_to_read(const struct hr__rect *window, int v_max, int rows)
{
    int end = (window->y + window->h + v_max - 1) / v_max * v_max;
    int row = end / (8 * v_max);

    return row < rows ? row + 1 : rows;
}

// Off 32 bytes' alignment on purpose: to a row so aligned libjpeg-turbo's
// colour conversion writes around the caches (jdcolext-avx2.asm, vmovntdq),
// but these rows are read again at once.
#define MISALIGN 16

void cpu_decode_alloc_lines(struct cpu_decode *d, size_t bytes)
{
    d->pitch = cpu_aligned(MISALIGN + bytes + CPU_SLACK);
    d->lines = cpu_decode_alloc(d, CPU_DECODE_ROWS, d->pitch);
    d->lines += MISALIGN;
}

// A failure stays with its text; otherwise the first warning is told.
static void report(const struct cpu_decode *d, struct cpu_decode_error *err)
{
    *err = d->err;
    if (err->result == CPU_OK) {
        err->offset = -1;
        memcpy(err->text, d->warning, sizeof(err->text));
    }
}

static bool valid(const struct cpu_decode_params *p)
{
    const struct hr__rect *w = &p->window;

    return p->width > 0 && p->height > 0 &&
           (p->channels == 1 || p->channels == 3) && w->x >= 0 && w->y >= 0 &&
           w->w > 0 && w->h > 0 && w->w <= p->width - w->x &&
           w->h <= p->height - w->y;
}

struct cpu_decode *cpu_decode_open(const struct cpu_decode_kind *kind,
                                   const struct cpu_decode_params *p,
                                   const struct cpu_ops *ops,
                                   struct cpu_arena *arena,
                                   struct cpu_decode_error *err)
{
    struct cpu_mark mark = cpu_arena_mark(arena);
    struct cpu_decode *d = NULL;

    // A bug of the caller, but one that would write outside the rows.
    *err = (struct cpu_decode_error){
        .result = CPU_CORRUPT,
        .offset = -1,
        .text = "the window is not inside the picture",
    };
    if (!valid(p))
        return NULL;
    d = cpu_arena_alloc(arena, kind->size);
    if (!d) {
        err->result = CPU_NOMEM;
        snprintf(err->text, sizeof(err->text), "out of memory");
        return NULL;
    }
    memset(d, 0, kind->size);
    d->kind = kind;
    d->p = *p;
    d->ops = ops;
    d->pool.arena = arena;
    d->err.offset = -1;
    if (cpu_decode_guard(d, kind->open)) {
        report(d, err);
        return d;
    }
    if (kind->close)
        kind->close(d);
    report(d, err);
    cpu_arena_reset(arena, mark);
    return NULL;
}

int cpu_decode_rows(struct cpu_decode *d, const uint8_t **rows, int max,
                    struct cpu_decode_error *err)
{
    int left = d->p.window.h - d->done;

    assert(max > 0 && max <= CPU_DECODE_ROWS && left > 0);
    if (d->err.result == CPU_OK) {
        d->rows = rows;
        d->max = max < left ? max : left;
        d->got = 0;
        if (cpu_decode_guard(d, d->kind->rows)) {
            d->done += d->got;
            return d->got;
        }
    }
    report(d, err);
    return 0;
}

enum cpu_result cpu_decode_close(struct cpu_decode *d, bool check,
                                 struct cpu_decode_error *err)
{
    enum cpu_result result;

    // A failed finish leaves its error in d->err.
    if (check && d->kind->finish && d->err.result == CPU_OK)
        (void)cpu_decode_guard(d, d->kind->finish);
    report(d, err);
    result = d->err.result;
    if (d->kind->close)
        d->kind->close(d);
    return result;
}
