// SPDX-License-Identifier: Apache-2.0
// Opening the CPU: instruction sets, threads, what it offers.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "cpu_fallback/packed/packed.h"
#include "cpu_fallback/jpeg/specimen.h"

// ---- Which instructions -----------------------------------------------------

// HEADRACE_LANES: always, halved, never, or as a trial says. False: something
// else.
static bool lanes_from_environment(struct cpu_engine *c)
{
    const char *name = secure_getenv("HEADRACE_LANES");

    if (!name || !*name)
        c->lanes = CPU_LANES_TRIAL;
    else if (!strcmp(name, "always"))
        c->lanes = CPU_LANES_ALWAYS;
    else if (!strcmp(name, "halved"))
        c->lanes = CPU_LANES_HALVED;
    else if (!strcmp(name, "never"))
        c->lanes = CPU_LANES_NEVER;
    else
        return false;
    return true;
}

static void describe(struct hr__engine *e, const struct cpu_ops *ops)
{
    char model[100] = "CPU", line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "model name : %99[^\n]", model) == 1)
            break;
    if (f)
        fclose(f);
    snprintf(e->description, sizeof(e->description),
             "%s, %d thread%s, %s kernels", model, e->caps.threads,
             e->caps.threads == 1 ? "" : "s", ops->name);
}

// ---- What it offers ---------------------------------------------------------

// Returns the spans from `first` that end behind the colours.
static uint32_t to_the_end(enum hr_stage first)
{
    uint32_t spans = 0;

    for (int last = HR_RESAMPLE; last <= HR_STORE; last++)
        if ((int)first <= last)
            spans |= HR_SPAN_BIT(first, last);
    return spans;
}

static uint32_t from_planes(void)
{
    return HR_SPAN_BIT(HR_COLOR, HR_COLOR) | to_the_end(HR_COLOR);
}

// Returns every run of stages that begins with the bytes, with planes, with
// pixels, or at the end. Among the runs that end or begin in the middle of a
// decode it has only the ones that other engines go on from, or leave.
static uint32_t all_spans(void)
{
    return from_planes() | HR_SPAN_BIT(HR_ENTROPY, HR_ENTROPY) |
           HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT) |
           HR_SPAN_BIT(HR_ENTROPY, HR_COLOR) | to_the_end(HR_ENTROPY) |
           to_the_end(HR_RESAMPLE) | to_the_end(HR_AUGMENT) |
           to_the_end(HR_STORE);
}

static void cpu_offer(struct hr__engine *e, const struct hr__picture *pic,
                      struct hr__offer *out)
{
    (void)e;
    *out = (struct hr__offer){.spans = all_spans()};
    if (!cpu_entropy_takes(pic))
        out->spans &= ~HR_SPAN_BIT(HR_ENTROPY, HR_ENTROPY);
    if (!cpu_planes_takes(pic))
        out->spans &= ~HR_SPAN_BIT(HR_ENTROPY, HR_RECONSTRUCT);
    if (!cpu_planes_color(pic))
        out->spans &= ~from_planes();
    if (pic->data && !cpu_rows_can(pic->info.format))
        *out = (struct hr__offer){.why = HR_WHY_FORMAT};
}

// ---- Open, close ------------------------------------------------------------

static void *heap_alloc(void *ctx, size_t size)
{
    return hr__alloc(ctx, size);
}

static void heap_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    (void)size;
    hr__free(block);
}

static enum hr_status cpu_open(struct hr__engine *e, const char *which)
{
    struct cpu_engine *c = cpu_engine(e);
    unsigned mask = e->params.cpu_mask ? e->params.cpu_mask | CPU_FLAG_C
                                       : cpu_mask_from_environment();
    int threads = e->params.threads;

    if (*which)
        return hr__fail(HR_ENODEVICE, "there is only one CPU device, 'cpu'");
    if (!mask)
        return hr__fail(HR_EINVAL,
                        "HEADRACE_CPU=%.32s: must be c, avx2, "
                        "avx512 or neon",
                        secure_getenv("HEADRACE_CPU"));
    if (!lanes_from_environment(c))
        return hr__fail(HR_EINVAL,
                        "HEADRACE_LANES=%.32s: must be always, halved or "
                        "never",
                        secure_getenv("HEADRACE_LANES"));
    c->e = e;
    c->here = threads == HR_THREADS_NONE;
    threads = c->here ? 1 : threads ? threads : hr__usable_cores();
    c->heap = (struct cpu_heap){heap_alloc, heap_free, e->device};
    cpu_ops_init(&c->ops, cpu_detect() & mask);
    if (!c->ops.lanes || c->here)
        c->lanes = CPU_LANES_NEVER;
    e->caps.threads = threads;
    e->caps.host_memory = true;
    e->caps.exact = true;
    for (int tier = 0; tier <= HR_FAST; tier++)
        e->caps.spans[tier] = all_spans();
    describe(e, &c->ops);
    return cpu_workers_start(c, threads);
}

static void cpu_close(struct hr__engine *e)
{
    cpu_workers_finish(cpu_engine(e));
}

static const char *cpu_fingerprint(struct hr__engine *e)
{
    (void)e;
    return cpu_specimen_library();
}

static bool cpu_specimen(struct hr__engine *e, int i, uint8_t *to,
                         size_t capacity, size_t *size)
{
    (void)e;
    return cpu_specimen_make(i, to, capacity, size);
}

const struct hr__backend hr__backend_cpu = {
    .name = "cpu",
    .engine_size = sizeof(struct cpu_engine),
    .open = cpu_open,
    .close = cpu_close,
    .offer = cpu_offer,
    .submit = cpu_submit,
    .cancel = cpu_cancel,
    .use_threads = cpu_use_threads,
    .fingerprint = cpu_fingerprint,
    .jpeg_library = cpu_jpeg_library,
    .pack = cpu_pack_alone,
    .packed_check = cpu_packed_check,
    .specimen = cpu_specimen,
};
