// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "cpu_fallback/pixel/planes.h"
#include "fake_engine.h"
#include "fake_pixels.h"
#include "heaps.h"
#include "planes_forms.h"

// A media engine's surface, kept while it is read.
struct surface {
    struct hr__planes head;
    uint8_t *data;
};

static void release(struct hr__payload *payload)
{
    struct surface *s = payload->release_ctx;

    atomic_fetch_sub(&fake_counts.surfaces, 1);
    free(s->data);
    free(s);
}

static bool decode(struct hr__task *task, int form, struct surface *s,
                   size_t *size, struct hr__outcome *out)
{
    const struct hr__picture *pic = task->pic;
    struct cpu_decode_params p = {.data = pic->data,
                                  .size = pic->size,
                                  .width = pic->width,
                                  .height = pic->height,
                                  .window = {0, 0, pic->width, pic->height},
                                  .channels = 3};
    struct cpu_decode_error err;
    struct hr__planes *planes;
    struct cpu_arena arena;
    struct cpu_ops ops;
    uint64_t seed = pic->size;

    cpu_arena_init(&arena, &plain_heap);
    cpu_ops_init(&ops, CPU_FLAG_C);
    if (cpu_planes_decode(&p, &ops, &arena, &planes, size, &err)) {
        out->status = HR_ECORRUPT;
        out->why = HR_WHY_DAMAGED;
        snprintf(out->text, sizeof(out->text), "%s", err.text);
    } else {
        s->data = planes_in_form((const struct hr__planes *)planes,
                                 (const uint8_t *)planes,
                                 (enum planes_form)form, &seed, &s->head, size);
    }
    cpu_arena_finish(&arena);
    return s->data;
}

void fake_planes(struct hr__task *task, int form, struct hr__outcome *out)
{
    struct surface *s = calloc(1, sizeof(*s));
    struct hr__payload *to;
    size_t size;

    if (!s || !decode(task, form, s, &size, out)) {
        free(s);
        return;
    }
    // One row more than there is.
    if (form == NUM_FORMS)
        s->head.comp[0].rows++;
    to = hr__task_payload_own(task, s->data, size, release, s);
    to->rect = (struct hr__rect){0, 0, task->pic->width, task->pic->height};
    to->extra = &s->head;
    atomic_fetch_add(&fake_counts.surfaces, 1);
    atomic_fetch_add(&fake_counts.surfaces_made, 1);
}
