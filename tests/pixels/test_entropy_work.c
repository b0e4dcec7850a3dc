// SPDX-License-Identifier: Apache-2.0
// The work of the kernels of stage entropy, counted by themselves (HR__COUNTED)
// on PoCL: symbols of all launches over symbols of the file, per photo of the
// corpus, and look-ups, each of one or two symbols; launches that decode
// anything; the longest item, and how many look-ups a batch of 64 waits for,
// one launch after another. No clock, no model.
#include <stdio.h>
#include <stdlib.h>

#if !HR_HAVE_OPENCL
int main(void)
{
    puts("not run: built without OpenCL kernels");
    return 77;
}
#else
#include <setjmp.h>

#include <jpeglib.h>

#include "corpus_list.h"
#include "kernel_env.h"
#include "kernels/entropy_plan.h"
#include "testing.h"

static const char *const names[] = {
#define X(name, text, stage) text,
    HR__KERNELS(X)
#undef X
};

enum {
    ENTROPY_KERNELS = HR__KERNEL_DC + 1,
    ENTROPY_BATCH = 8,
    ENTROPY_LAUNCHES = 16,
    ENTROPY_WARP = 32,  // items that a GPU runs in step
};

// Symbols that a launch has decoded for a picture; look-ups that it took: all of
// them, those of the item with the most, and the sum over warps of the most that
// an item of the warp has.
struct entropy_counts {
    uint64_t symbols, looks, steps;
    uint32_t longest;
};

// Scans as the engine makes them, without an engine.
struct entropy_batch {
    bool kept;  // symbols are, as on a GPU
    struct hr__kernel_picture pics[ENTROPY_BATCH];
    struct hr__entropy scans[ENTROPY_BATCH];
    int n;
    struct bytes plan, in, work, out;
    struct entropy_counts counts[ENTROPY_LAUNCHES][ENTROPY_BATCH];
};

static struct kernel_env env;

// ---- A batch --------------------------------------------------------------

static size_t take(struct bytes *b, size_t size)
{
    size_t at = (b->size + 15) & ~(size_t)15;

    b->data = realloc(b->data, at + size);
    memset(b->data + b->size, 0, at + size - b->size);
    b->size = at + size;
    return at;
}

static void entropy_free(struct entropy_batch *b)
{
    free(b->plan.data);
    free(b->in.data);
    free(b->work.data);
    free(b->out.data);
}

struct entropy_error {
    struct jpeg_error_mgr mgr;
    jmp_buf jump;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct entropy_error *)cinfo->err)->jump, 1);
}

static void no_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static void error_init(struct jpeg_decompress_struct *d,
                       struct entropy_error *e)
{
    memset(d, 0, sizeof(*d));
    d->err = jpeg_std_error(&e->mgr);
    e->mgr.error_exit = on_error;
    e->mgr.output_message = no_output;
}

static bool put_code(struct entropy_batch *b, struct hr__entropy *e,
                     const JHUFF_TBL *t, bool dc, hr__word *at)
{
    struct hr__code code, *to = (void *)(b->in.data + e->codes);

    memcpy(code.counts, t->bits + 1, sizeof(code.counts));
    memcpy(code.symbols, t->huffval, sizeof(code.symbols));
    *at = e->tables + e->num_codes * (hr__word)sizeof(struct hr__huffman);
    return hr__entropy_code(&to[e->num_codes++], (void *)&code, dc);
}

static bool put_component(struct entropy_batch *b, struct hr__entropy *e,
                          const struct jpeg_decompress_struct *d, int i)
{
    const jpeg_component_info *info = &d->comp_info[i];
    struct hr__entropy_component *c = &e->comp[i];

    if (!put_code(b, e, d->dc_huff_tbl_ptrs[info->dc_tbl_no], true, &c->dc) ||
        !put_code(b, e, d->ac_huff_tbl_ptrs[info->ac_tbl_no], false, &c->ac))
        return false;
    c->h = d->num_components == 1 ? 1 : (hr__word)info->h_samp_factor;
    c->v = d->num_components == 1 ? 1 : (hr__word)info->v_samp_factor;
    c->blocks_w = info->width_in_blocks;
    c->blocks_h = info->height_in_blocks;
    c->coefs = (hr__word)take(&b->work, (size_t)c->blocks_w * c->blocks_h *
                                            sizeof(JBLOCK));
    b->pics[b->n].num_coefs += c->blocks_w * c->blocks_h;
    for (hr__word k = 0; k < c->h * c->v; k++) {
        e->of[e->mcu_blocks] = (hr__word)i;
        e->nth[e->mcu_blocks++] = k;
    }
    return true;
}

static hr__word divided(hr__word a, hr__word b)
{
    return (a + b - 1) / b;
}

// True if the kernels take a scan with this header.
static bool takes(const struct jpeg_decompress_struct *d)
{
    int blocks = 0;

    if (d->progressive_mode || d->arith_code || d->data_precision != 8 ||
        (d->num_components != 1 && d->num_components != 3) ||
        d->comps_in_scan != d->num_components ||
        d->image_width * d->image_height > 1 << 22)
        return false;
    for (int i = 0; i < d->num_components; i++) {
        const jpeg_component_info *c = &d->comp_info[i];

        if (d->cur_comp_info[i] != c || c->dc_tbl_no > 3 || c->ac_tbl_no > 3 ||
            !d->dc_huff_tbl_ptrs[c->dc_tbl_no] ||
            !d->ac_huff_tbl_ptrs[c->ac_tbl_no])
            return false;
        blocks += c->h_samp_factor * c->v_samp_factor;
    }
    return d->num_components == 1 || blocks <= HR__MCU_BLOCKS;
}

// The header is read. False: the host must do it.
static bool put_scan(struct entropy_batch *b,
                     const struct jpeg_decompress_struct *d)
{
    struct hr__kernel_picture *p = &b->pics[b->n];
    struct hr__entropy *e = &b->scans[b->n];
    bool one = d->num_components == 1;
    hr__word w = one ? d->comp_info[0].width_in_blocks
                     : divided(d->image_width,
                               8 * (hr__word)d->max_h_samp_factor);
    hr__word mcus = w * (one ? d->comp_info[0].height_in_blocks
                             : divided(d->image_height,
                                       8 * (hr__word)d->max_v_samp_factor));
    size_t size = d->src->bytes_in_buffer, scan, list, at;
    const struct hr__interval *last;
    hr__word blocks = 0;
    hr__word all = d->restart_interval ? divided(mcus, d->restart_interval) : 1;

    for (int i = 0; i < d->num_components; i++)
        blocks += one ? 1
                      : (hr__word)(d->comp_info[i].h_samp_factor *
                                   d->comp_info[i].v_samp_factor);
    *e = (struct hr__entropy){.num_components = (hr__word)d->num_components,
                              .sub_marks = hr__entropy_marks(size,
                                                             mcus * blocks),
                              .capacity = b->kept ? HR__SUB_ROOM : 0,
                              .mcus_w = w};
    *p = (struct hr__kernel_picture){0};
    at = take(&b->in, sizeof(*e));
    list = take(&b->in, all * sizeof(struct hr__interval));
    scan = take(&b->in, hr__entropy_room(size));
    e->num_intervals = hr__entropy_scan(d->src->next_input_byte, size,
                                        d->restart_interval, mcus, e->sub_marks,
                                        b->in.data + scan,
                                        (void *)(b->in.data + list));
    if (!e->num_intervals)
        return false;
    last = (const struct hr__interval *)(void *)(b->in.data + list) + all - 1;
    p->num_subs = e->num_subs = last->sub + last->subs;
    e->codes = (hr__word)take(&b->in, HR__CODES * sizeof(struct hr__code));
    e->tables = (hr__word)take(&b->work,
                               HR__CODES * sizeof(struct hr__huffman));
    p->num_intervals = e->num_intervals;
    e->flag = (hr__word)take(&b->out, 4);
    for (int i = 0; i < d->num_components; i++)
        if (!put_component(b, e, d, i))
            return false;
    for (int i = 0; i < d->num_components; i++)
        e->comp[i].diffs = (hr__word)take(
            &b->work, (size_t)mcus * e->comp[i].h * e->comp[i].v * 2);
    e->subs = (hr__word)take(&b->work, e->num_subs * sizeof(struct hr__sub));
    e->marks = (hr__word)take(&b->work, e->num_subs *
                                            hr__all_marks(e->sub_marks) *
                                            sizeof(struct hr__mark));
    e->open = (hr__word)take(&b->work, (1 + e->num_subs) * sizeof(hr__word));
    e->kept = (hr__word)take(&b->work,
                             hr__kernel_round(e->num_subs, HR__GROUP) *
                                 e->capacity * sizeof(uint16_t));
    e->counts = (hr__word)take(&b->work, e->num_subs * sizeof(hr__word));
    // (Where they lie in `in` before.)
    e->intervals = (hr__word)(list - at);
    e->scan = (hr__word)(scan - at);
    e->codes -= (hr__word)at;
    p->num_codes = e->num_codes;
    p->coefs = e->comp[0].coefs;
    p->entropy = (hr__word)at;
    memcpy(b->in.data + at, e, sizeof(*e));
    b->n++;
    return true;
}

static bool entropy_put(struct entropy_batch *b, const struct bytes *jpeg)
{
    struct jpeg_decompress_struct d;
    volatile bool ok = false;
    struct entropy_error e;

    // The plan begins with the pictures.
    if (!b->plan.data)
        take(&b->plan, sizeof(b->pics));
    error_init(&d, &e);
    if (!setjmp(e.jump)) {
        jpeg_create_decompress(&d);
        jpeg_mem_src(&d, jpeg->data, jpeg->size);
        jpeg_read_header(&d, TRUE);
        ok = takes(&d) && put_scan(b, &d);
    }
    jpeg_destroy_decompress(&d);
    return ok;
}

static cl_mem buffer(const void *data, size_t size)
{
    cl_int err;
    cl_mem mem = env.cl.clCreateBuffer(env.context,
                                       CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                       size, (void *)(uintptr_t)data, &err);

    CU_ASSERT_FATAL(!err);
    return mem;
}

// The groups of a kernel; *at: the first word of its list.
static size_t put_list(struct entropy_batch *b, int kernel, cl_uint *at)
{
    size_t groups = 0, width, place;
    hr__u32 *first, *end;

    for (int i = 0; i < b->n; i++)
        groups += hr__kernel_groups(&b->pics[i], kernel);
    place = take(&b->plan, 8 * (groups + hr__kernel_rows(groups, &width)));
    first = end = (void *)(b->plan.data + place);
    for (int i = 0; i < b->n; i++)
        end = hr__kernel_list(end, (hr__u32)i,
                              hr__kernel_groups(&b->pics[i], kernel));
    *at = (cl_uint)(place / 4);
    return (size_t)(hr__kernel_pad(first, end) - first) / 2;
}

static void add_counts(struct entropy_counts *to, const hr__word *counts,
                       hr__word n)
{
    hr__word most = 0;

    for (hr__word i = 0; i < n; i++) {
        hr__word looks = counts[i] >> 16;

        most = i % ENTROPY_WARP && most > looks ? most : looks;
        to->symbols += counts[i] & 0xffff;
        to->looks += looks;
        to->longest = looks > to->longest ? looks : to->longest;
        if (i % ENTROPY_WARP == ENTROPY_WARP - 1 || i == n - 1)
            to->steps += most;
    }
}

// Reads how much each item of a launch has decoded; zeros it for the next one.
static cl_int read_counts(struct entropy_batch *b, int launch, cl_mem work)
{
    cl_int err = 0;

    for (int i = 0; i < b->n; i++) {
        const struct hr__entropy *e = &b->scans[i];
        size_t size = e->num_subs * sizeof(hr__word);
        hr__word *counts = malloc(size);

        CU_ASSERT_PTR_NOT_NULL_FATAL(counts);
        err |= env.cl.clEnqueueReadBuffer(env.queue, work, CL_TRUE, e->counts,
                                          size, counts, 0, NULL, NULL);
        if (launch >= 0)
            add_counts(&b->counts[launch][i], counts, e->num_subs);
        memset(counts, 0, size);
        err |= env.cl.clEnqueueWriteBuffer(env.queue, work, CL_TRUE, e->counts,
                                           size, counts, 0, NULL, NULL);
        free(counts);
    }
    return err;
}

static cl_int launch_all(struct entropy_batch *b, const int *kernels, int n,
                         const size_t *groups, const cl_uint *lists,
                         cl_mem mem[4])
{
    cl_int err = read_counts(b, -1, mem[2]);

    for (int i = 0; i < n; i++) {
        int k = kernels[i];

        err |= kernel_launch(&env, k, groups[k], lists[k], mem) |
               read_counts(b, i, mem[2]);
    }
    return err | env.cl.clFinish(env.queue);
}

static void entropy_run(struct entropy_batch *b, const int *kernels, int n)
{
    struct bytes *bytes[4] = {&b->plan, &b->in, &b->work, &b->out};
    size_t groups[ENTROPY_KERNELS];
    cl_uint lists[ENTROPY_KERNELS];
    cl_int err;
    cl_mem mem[4];

    for (int k = 0; k < ENTROPY_KERNELS; k++)
        groups[k] = put_list(b, k, &lists[k]);
    memcpy(b->plan.data, b->pics, sizeof(b->pics));
    // Remains of the batch before.
    memset(b->work.data, 0x5a, b->work.size);
    memset(b->out.data, 0x5a, b->out.size);
    for (int i = 0; i < 4; i++)
        mem[i] = buffer(bytes[i]->data, bytes[i]->size);
    err = launch_all(b, kernels, n, groups, lists, mem);
    for (int i = 2; i < 4; i++)
        err |= env.cl.clEnqueueReadBuffer(env.queue, mem[i], CL_TRUE, 0,
                                          bytes[i]->size, bytes[i]->data, 0,
                                          NULL, NULL);
    CU_ASSERT(!err);
    for (int i = 0; i < 4; i++)
        env.cl.clReleaseMemObject(mem[i]);
}

static hr__word entropy_flag(const struct entropy_batch *b, int i)
{
    hr__word flag;

    memcpy(&flag, b->out.data + b->scans[i].flag, sizeof(flag));
    return flag;
}

// ---- What is counted ------------------------------------------------------

enum { PHOTOS = 200, WAIT = 64 };

static const int kernels[] = {HR__KERNEL_BEGIN, HR__KERNEL_GUESS,
                              HR__KERNEL_AGAIN, HR__KERNEL_FAR,
                              HR__KERNEL_CHECK, HR__KERNEL_WRITE,
                              HR__KERNEL_DC};
enum { LAUNCHES = sizeof(kernels) / sizeof(*kernels), WRITE = LAUNCHES - 2 };
static struct {
    int photos, left;
    uint64_t subs, symbols;
    // Per photo: all launches over symbols of the file
    double work, looks, steps;
    struct {
        uint64_t symbols, looks, steps, waits;
        uint32_t longest;
        int photos;  // for which it decodes anything
    } launches[LAUNCHES];
    uint32_t wait[LAUNCHES];  // of the batch of 64 at hand
    int batches, seen;
    uint64_t waits, rounds;  // look-ups; launches between guess and write
} sum;

// One more batch of 64 is complete.
static void end_batch(void)
{
    for (int k = 0; k < LAUNCHES; k++) {
        sum.waits += sum.wait[k];
        sum.launches[k].waits += sum.wait[k];
        sum.rounds += sum.wait[k] && kernels[k] != HR__KERNEL_GUESS &&
                      kernels[k] != HR__KERNEL_WRITE;
        sum.wait[k] = 0;
    }
    sum.batches++;
    sum.seen = 0;
}

static void add(const struct entropy_batch *b, int i, uint64_t file)
{
    uint64_t all = 0, looks = 0, steps = 0;

    for (int k = 0; k < LAUNCHES; k++) {
        const struct entropy_counts *c = &b->counts[k][i];

        all += c->symbols;
        looks += c->looks;
        steps += c->steps * ENTROPY_WARP;
        sum.launches[k].symbols += c->symbols;
        sum.launches[k].looks += c->looks;
        sum.launches[k].steps += c->steps * ENTROPY_WARP;
        sum.launches[k].photos += c->symbols > 0;
        if (c->longest > sum.launches[k].longest)
            sum.launches[k].longest = c->longest;
        if (c->longest > sum.wait[k])
            sum.wait[k] = c->longest;
    }
    if (++sum.seen == WAIT)
        end_batch();
    if (entropy_flag(b, i)) {
        sum.left++;
        return;
    }
    sum.photos++;
    sum.subs += b->scans[i].num_subs;
    sum.symbols += file;
    sum.work += (double)all / (double)file;
    sum.looks += (double)looks / (double)file;
    sum.steps += (double)steps / (double)file;
}

// Where nothing is kept hr_entropy_write decodes the file once.
static void count(struct bytes *j, int n)
{
    struct entropy_batch host = {.n = 0};
    struct entropy_batch gpu = {.kept = true};

    for (int i = 0; i < n; i++)
        CHECK(entropy_put(&host, &j[i]) && entropy_put(&gpu, &j[i]),
              "%d is refused", i);
    entropy_run(&host, kernels, LAUNCHES);
    entropy_run(&gpu, kernels, LAUNCHES);
    for (int i = 0; i < n; i++) {
        add(&gpu, i, host.counts[WRITE][i].symbols);
        free(j[i].data);
    }
    entropy_free(&host);
    entropy_free(&gpu);
}

static void print(void)
{
    printf("\n  %d photos, %d left to the host; per photo %.0f subsequences, "
           "%.0f symbols\n  over symbols of the file: decoded %.3f, look-ups "
           "%.3f, with the warps' slowest %.3f\n  per batch of %d: %.0f "
           "look-ups one after another, %.1f launches that correct\n",
           sum.photos, sum.left, (double)sum.subs / sum.photos,
           (double)sum.symbols / sum.photos, sum.work / sum.photos,
           sum.looks / sum.photos, sum.steps / sum.photos, WAIT,
           (double)sum.waits / sum.batches, (double)sum.rounds / sum.batches);
    for (int k = 0; k < LAUNCHES; k++)
        if (sum.launches[k].symbols)
            printf("  %-16s %6.3f  look-ups %6.3f  by warps %6.3f  longest "
                   "item %5u  waits %5.0f  photos %3d\n",
                   names[kernels[k]],
                   (double)sum.launches[k].symbols / (double)sum.symbols,
                   (double)sum.launches[k].looks / (double)sum.symbols,
                   (double)sum.launches[k].steps / (double)sum.symbols,
                   sum.launches[k].longest,
                   (double)sum.launches[k].waits / sum.batches,
                   sum.launches[k].photos);
}

TEST_CASE(photos)
{
    struct bytes j[ENTROPY_BATCH];
    struct corpus_folder f;
    int n = 0, all = 0;

    if (!corpus_folder_open(&f, "photos/imagenet-sample")) {
        test_not_run("photos");
        return;
    }
    while (all < test_loops(PHOTOS) && corpus_folder_next(&f, 1)) {
        struct entropy_batch b = {.n = 0};

        if (!read_file(f.path, &j[n]))
            continue;
        if (!entropy_put(&b, &j[n]))
            free(j[n].data);
        else
            n++, all++;
        entropy_free(&b);
        if (n == ENTROPY_BATCH) {
            count(j, n);
            n = 0;
        }
    }
    if (n)
        count(j, n);
    corpus_folder_close(&f);
    if (sum.seen)
        end_batch();
    print();
    if (sum.photos + sum.left == PHOTOS)
        CHECK(sum.left <= 2 && sum.work / sum.photos <= 1.31 &&
                  sum.looks / sum.photos <= 0.8 &&
                  sum.steps / sum.photos <= 1.45 &&
                  sum.waits <= 2100 * (uint64_t)sum.batches,
              "more than there was");
}

// (The device is opened before cases count descriptors: drivers keep some.)
int main(int argc, char **argv)
{
    enum kernel_opened opened = kernel_open(
        &env, "-cl-std=CL1.2 -D HR__ENTROPY -D HR__COUNTED", ENTROPY_KERNELS);
    int failed;

    if (opened != KERNEL_OPEN) {
        puts(opened == KERNEL_ABSENT ? "not run: no such OpenCL device"
                                     : "FAILED: the device or its program");
        return opened == KERNEL_ABSENT ? TEST_NOT_RUN : 1;
    }
    failed = test_main(argc, argv);
    kernel_close(&env);
    return failed;
}
#endif
