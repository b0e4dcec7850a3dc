// SPDX-License-Identifier: Apache-2.0
// Rows of a picture that a decoder of the program makes at once. It cannot be
// stopped.
#include "backends/cpu/cpu.h"
#include "cpu_fallback/decode_impl.h"

struct other_decode {
    struct cpu_decode base;
    uint8_t *pixels;
    size_t pitch;
};

static enum cpu_result result_of(enum hr_status status)
{
    return status == HR_OK           ? CPU_OK
           : status == HR_ENOMEM     ? CPU_NOMEM
           : status == HR_ETRUNCATED ? CPU_TRUNCATED
           : status == HR_ECANCELED  ? CPU_STOPPED
                                     : CPU_CORRUPT;
}

static void open_step(struct cpu_decode *base)
{
    struct other_decode *d = (struct other_decode *)base;
    const struct cpu_decode_params *p = &base->p;
    const struct cpu_run *run = p->stop_ctx;
    char text[128] = "";
    enum hr_status status;

    d->pitch = (size_t)p->width * (size_t)p->channels;
    d->pixels = cpu_decode_alloc(base, (size_t)p->height, d->pitch);
    cpu_decode_check_stop(base);
    status = hr__decode_other(p->data, p->size, &run->pic->info, p->channels,
                              d->pixels, text);
    if (status)
        cpu_decode_throw(base, result_of(status), text);
}

static void rows_step(struct cpu_decode *base)
{
    struct other_decode *d = (struct other_decode *)base;
    const struct hr__rect *w = &base->p.window;

    for (int i = 0; i < base->max; i++)
        base->rows[i] = d->pixels + (size_t)(w->y + base->done + i) * d->pitch +
                        (size_t)w->x * (size_t)base->p.channels;
    base->got = base->max;
}

const struct cpu_decode_kind cpu_other_decoder = {
    .size = sizeof(struct other_decode),
    .open = open_step,
    .rows = rows_step,
};
