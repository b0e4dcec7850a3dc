// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // memmem()
// Differential fuzz target of kernels on bytes from outside. A file:
// kernels/entropy.cl decodes its scan, and unless it flags the scan the CPU
// must decode the same coefficients, without a warning. Else packed
// coefficients (the first bytes give the number of blocks):
// kernels/reconstruct.cl makes samples of any bytes, and the right samples of
// valid ones. A sum of the bytes selects the window, and the end at which
// buffers have their wall (kernel_guard.h).
#include "fuzz.h"
#include "kernel_guard.h"

#if HR_HAVE_OPENCL
#include <stdio.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "coef_reference.h"
#include "cpu_fallback/jpeg/coefficients.h"
#include "fuzz_rows.h"
#include "kernels/plan.h"

enum { WIDE = 64, LINES = 4, FLAG = 20, OUT = 64, GAP = 64 };

// How the inputs ended: a run without any has found nothing.
static struct {
    unsigned long same, flagged, host, right, odd;
} count;

static void print_counts(void)
{
    printf("%lu scans as the CPU's, %lu flagged, %lu left to the host; packed: "
           "%lu as the reference, %lu odd\n",
           count.same, count.flagged, count.host, count.right, count.odd);
}

static uint32_t sum_of(const uint8_t *data, size_t size)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    return sum;
}

// ---- Scans ----------------------------------------------------------------

// The engine's decision before it reads the scan (offer.c).
static bool is_for_us(const struct hr_info *info)
{
    return info->format == HR_FORMAT_JPEG && !hr__why_not_baseline(info) &&
           info->ends && (info->components == 1 || info->components == 3) &&
           info->color != HR_COLOR_CMYK && info->color != HR_COLOR_YCCK &&
           (int64_t)info->width * info->height <= FUZZ_PIXELS &&
           hr__sampling_is_whole(info);
}

struct scan {
    struct hr__picture pic;
    struct hr__rect window;
    struct ocl_plan plan;
    struct ocl_file file;
    struct ocl_item item;
    struct hr__kernel_picture *p;
};

static size_t diff_bytes(const struct scan *s, uint32_t i)
{
    const struct hr__entropy_component *c = &s->file.entropy.comp[i];

    return sizeof(int16_t) * ocl_scan_mcus(&s->file.scan) * c->h * c->v;
}

static size_t sub_bytes(const struct scan *s)
{
    return s->file.entropy.num_subs * sizeof(struct hr__sub);
}

static size_t mark_bytes(const struct scan *s)
{
    return s->file.entropy.num_subs * hr__all_marks(s->file.entropy.sub_marks) *
           sizeof(struct hr__mark);
}

static size_t open_bytes(const struct scan *s)
{
    return (1 + s->file.entropy.num_subs) * sizeof(hr__word);
}

static size_t kept_bytes(const struct scan *s)
{
    const struct hr__entropy *e = &s->file.entropy;

    return (size_t)hr__kernel_round(e->num_subs, HR__GROUP) * e->capacity *
           sizeof(uint16_t);
}

// Areas of work get a gap behind each, where the engine has none. The last ones
// are those of the subsequences, of which there are at most so many.
static void spread(struct scan *s)
{
    struct hr__entropy *e = &s->file.entropy;
    hr__word tables = e->tables;
    uint64_t work = ocl_aligned((size_t)s->plan.work) + GAP;

    for (uint32_t i = 0; i < e->num_components; i++) {
        e->comp[i].diffs = (hr__word)work;
        work = ocl_aligned((size_t)work + diff_bytes(s, i)) + GAP;
    }
    e->tables = (hr__word)work;
    for (uint32_t i = 0; i < e->num_components; i++) {
        e->comp[i].dc += e->tables - tables;
        e->comp[i].ac += e->tables - tables;
    }
    work += e->num_codes * sizeof(struct hr__huffman);
    e->subs = (hr__word)(ocl_aligned((size_t)work) + GAP);
    e->num_subs = s->p->num_subs;
    e->marks = e->subs + GAP + (hr__word)ocl_aligned(sub_bytes(s));
    e->open = e->marks + GAP + (hr__word)ocl_aligned(mark_bytes(s));
    e->kept = e->open + GAP + (hr__word)ocl_aligned(open_bytes(s));
}

// Allows the places that kernels may write, in order.
static void allow(const struct scan *s)
{
    const struct hr__entropy *e = &s->file.entropy;

    guard_may(s->p->coefs, s->p->num_coefs * 128);
    for (uint32_t i = 0; i < e->num_components; i++)
        guard_may(s->p->comp[i].plane,
                  (size_t)s->p->comp[i].stride * 8 * s->p->comp[i].blocks_w);
    for (uint32_t i = 0; i < e->num_components; i++)
        guard_may(e->comp[i].diffs, diff_bytes(s, i));
    guard_may(e->tables, e->num_codes * sizeof(struct hr__huffman));
    guard_may(e->subs, sub_bytes(s));
    guard_may(e->marks, mark_bytes(s));
    guard_may(e->open, open_bytes(s));
    guard_may(e->kept, kept_bytes(s));
}

// Planned and packed as the engine does it, in memory of exactly that size.
// free(). NULL: the host decodes it.
static uint8_t *pack(struct scan *s)
{
    uint8_t *in;

    // (Enough for a picture: nothing is allocated.)
    s->plan.data = (uint8_t *)(s->p = calloc(1, 4096));
    s->plan.capacity = 4096;
    s->plan.gpu = s->pic.size & 1;  // whether symbols are kept
    s->item.file = &s->file;
    promise(s->p && ocl_plan_begin(&s->plan, 1));
    if (!ocl_plan_entropy(&s->plan, 0, &s->pic, s->window, &s->item))
        return NULL;
    spread(s);
    in = malloc(s->item.in_bytes);
    promise(in);
    ocl_describe_entropy(&s->item, s->p, FLAG, in);
    if (!s->item.why)
        return in;
    free(in);
    return NULL;
}

// True: no kernel has found a fault.
static bool decode(struct scan *s, const uint8_t *in, bool ends)
{
    static const int kernels[] = {HR__KERNEL_BEGIN, HR__KERNEL_GUESS,
                                  HR__KERNEL_AGAIN, HR__KERNEL_FAR,
                                  HR__KERNEL_CHECK, HR__KERNEL_WRITE,
                                  HR__KERNEL_DC,    HR__KERNEL_RECONSTRUCT};
    const struct hr__entropy *e = &s->file.entropy;
    uint8_t *to, *out;
    hr__word flag;

    guard_begin(ends);
    to = guard_take(GUARD_IN, s->item.in_bytes);
    out = guard_take(GUARD_OUT, OUT);
    if (!to || !guard_take(GUARD_WORK, e->kept + kept_bytes(s)))
        return false;
    memcpy(to, in, s->item.in_bytes);
    guard_run(s->p, kernels, 8);
    allow(s);
    guard_check(FLAG);
    memcpy(&flag, out + FLAG, sizeof(flag));
    promise(flag <= (HR__ODD_FILE | HR__ODD_STEP));
    return !flag;
}

// The CPU's, of the same window; free(). NULL: it finds a fault.
static struct hr__coefficients *by_cpu(const struct scan *s)
{
    static struct fuzz_rows f;
    const struct hr__rect *w = &s->window;
    struct cpu_decode_params p = {.data = s->pic.data,
                                  .size = s->pic.size,
                                  .width = s->pic.info.width,
                                  .height = s->pic.info.height,
                                  .window = {w->x, w->y, w->w, w->h},
                                  .channels = 3};
    struct cpu_decode_error err = {.offset = -1};
    struct hr__coefficients *c = NULL;
    struct cpu_coef_lines lines;

    fuzz_rows_begin(&f);
    p.jpeg = f.state;
    if (!cpu_coef_decode(&p, &f.ops[2], &f.arena, &lines, &err)) {
        c = malloc(lines.size);
        promise(c);
        cpu_coef_write(&lines, c);
    }
    cpu_arena_clear(&f.arena, 1 << 20);
    return c;
}

static void compare(const struct scan *s, const struct hr__coefficients *c,
                    const uint8_t *work)
{
    for (uint32_t i = 0; i < c->num_components; i++) {
        const struct hr__entropy_component *e = &s->file.entropy.comp[i];
        const struct hr__coef_component *k = &c->comp[i];

        promise(k->block_x == e->block_x && k->block_y == e->block_y &&
                k->blocks_w == e->blocks_w && k->blocks_h == e->blocks_h);
        for (uint32_t n = 0; n < k->blocks_w * k->blocks_h; n++) {
            int16_t want[64];

            promise(coef_reference_block(c, (int)i,
                                         k->block_x + n % k->blocks_w,
                                         k->block_y + n / k->blocks_w, want));
            promise(
                !memcmp(want, work + e->coefs + 128 * (size_t)n, sizeof(want)));
        }
    }
}

static void picture(const uint8_t *data, size_t size)
{
    struct scan s = {.pic = {.data = data, .size = size}};
    struct hr_info *info = &s.pic.info;
    uint32_t sum = sum_of(data, size);
    struct hr__coefficients *c;
    uint8_t *in;

    if (hr_probe(data, size, NULL, info) || !is_for_us(info))
        return;
    s.pic.channels = fuzz_choose(&sum, 2) ? 1 : 3;
    s.window = (struct hr__rect){0, 0, info->width, info->height};
    if (fuzz_choose(&sum, 2)) {
        s.window.x = fuzz_choose(&sum, info->width);
        s.window.y = fuzz_choose(&sum, info->height);
        s.window.w = 1 + fuzz_choose(&sum, info->width - s.window.x);
        s.window.h = 1 + fuzz_choose(&sum, info->height - s.window.y);
    }
    // Also for files that would not go to the device: it leads the fuzzer.
    c = by_cpu(&s);
    in = pack(&s);
    if (!in) {
        count.host++;
    } else if (decode(&s, in, fuzz_choose(&sum, 2))) {
        promise(c);
        compare(&s, c, guard_work());
        count.same++;
    } else {
        count.flagged++;
    }
    free(s.plan.data);
    free(in);
    free(c);
}

// ---- Packed coefficients --------------------------------------------------

// From the bytes: blocks of a line, lines, quantizers, LINES sizes of segments
// (u16; the last one has what is left), segments. *size: of all. free(). NULL:
// that does not come to segments.
static struct hr__coefficients *read_packed(const uint8_t *data, size_t *size)
{
    size_t rest = *size - 3 - 2 * LINES;
    uint32_t w = 1 + data[0] % WIDE, h = 1 + data[1] % LINES;
    size_t at = sizeof(struct hr__coefficients) + (h + 1) * sizeof(uint32_t);
    struct hr__coefficients *c = calloc(1, at + rest);

    promise(c);
    *c = (struct hr__coefficients){.magic = HR__COEF_MAGIC,
                                   .num_components = 1,
                                   .color = HR_COLOR_GRAY,
                                   .h_max = 1,
                                   .v_max = 1,
                                   .w = 8 * w,
                                   .h = 8 * h,
                                   .segments = h};
    c->comp[0] = (struct hr__coef_component){.h = 1,
                                             .v = 1,
                                             .width = 8 * w,
                                             .height = 8 * h,
                                             .blocks_w = w,
                                             .blocks_h = h};
    for (uint32_t k = 0; k < 64; k++)
        c->comp[0].quant[k] = (uint16_t)(1 + k * data[2] * data[2] / 4);
    memcpy((uint8_t *)c + at, data + 3 + 2 * LINES, rest);
    *size = at + rest;
    for (uint32_t y = 0; y < h; y++) {
        const uint8_t *n = data + 3 + 2 * y;
        size_t bytes = y + 1 < h ? (size_t)(n[0] | n[1] << 8) : *size - at;

        c->offset[y] = (uint32_t)at;
        // The engine checks this (describe.c).
        if (bytes > *size - at || bytes < 2 + 3 * (size_t)w) {
            free(c);
            return NULL;
        }
        at += bytes;
    }
    c->offset[h] = (uint32_t)at;
    return c;
}

// The samples of the planes, which lie column by column.
static void compare_samples(const struct hr__coefficients *c,
                            const struct hr__kernel_component *k,
                            const uint8_t *work)
{
    static uint8_t want[64 * WIDE * LINES];

    promise(coef_reference_window(c, 1, want));
    for (uint32_t y = 0; y < c->h; y++)
        for (uint32_t x = 0; x < c->w; x++)
            promise(work[k->plane + x * k->stride + y] == want[y * c->w + x]);
}

static void packed(const uint8_t *data, size_t size)
{
    static const int kernels[] = {HR__KERNEL_INDEX, HR__KERNEL_RECONSTRUCT};
    struct hr__kernel_picture p = {0};
    const struct hr__kernel_component *k = &p.comp[0];
    struct hr__coefficients *c;
    size_t blocks, all = size;
    uint64_t work;
    uint8_t *in;

    if (size < 3 + 2 * LINES || !(c = read_packed(data, &all)))
        return;
    guard_begin(sum_of(data, size) & 1);
    in = guard_take(GUARD_IN, all + HR__PAYLOAD);
    work = hr__kernel_coefficients(&p, c, 0, true, false, HR__SLACK);
    if (in && guard_take(GUARD_WORK, work) && guard_take(GUARD_OUT, OUT)) {
        memcpy(in, c, all);
        guard_run(&p, kernels, 2);
        blocks = k->blocks_w * (size_t)k->blocks_h;
        guard_may(k->index, 8 * blocks);
        guard_may(k->plane, 64 * blocks);
        guard_check(OUT);
        if (coef_reference_check(c, all)) {
            count.odd++;
        } else {
            compare_samples(c, k, guard_work());
            count.right++;
        }
    }
    free(c);
}

// ---- Both -----------------------------------------------------------------

// Drivers compile for longer than an input may take.
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    guard_open();
    return 0;
}

// Half of the inputs get another scan behind the same header, without markers
// but those of restarts and of the end: others are seldom more than a wrong
// header. (A plain main() has no LLVMFuzzerMutate.)
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most)
    __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                               unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                               unsigned seed)
{
    const uint8_t *sos = seed % 2 ? memmem(data, size, "\xff\xda", 2) : NULL;
    size_t at;

    if (!sos || size - (size_t)(sos - data) < 16 || most < size)
        return LLVMFuzzerMutate(data, size, most);
    at = (size_t)(sos - data) + 2 + sos[3];
    if (at + 3 > size)
        return LLVMFuzzerMutate(data, size, most);
    at += seed / 2 % (size - at - 2);
    size = at + LLVMFuzzerMutate(data + at, size - at - 2, most - at - 2);
    for (; at < size; at++)
        if (data[at - 1] == 0xff && (data[at] & 0xf8) != 0xd0)
            data[at] = 0;
    size -= data[size - 1] == 0xff;
    data[size++] = 0xff;
    data[size++] = 0xd9;
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool counts;

    if (!guard_open())
        return 0;
    if (!counts)
        counts = !atexit(print_counts);
    if (size > 1 && data[0] == 0xff && data[1] == 0xd8)
        picture(data, size);
    else
        packed(data, size);
    return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data;
    (void)size;
    return 0;
}
#endif
