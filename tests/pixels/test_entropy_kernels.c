// SPDX-License-Identifier: Apache-2.0
// kernels/entropy.cl against libjpeg: the coefficients of whatever window, and
// that what is odd about a file is seen. On PoCL; with HEADRACE_TEST_OPENCL=all
// on every platform. HEADRACE_TEST_SMALL=1: few and small pictures, for
// simulators.
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
#include "kernel_picture.h"
#include "kernels/entropy_plan.h"
#include "testing.h"

enum { KERNELS = HR__KERNEL_DC + 1, BATCH = 8 };

static struct {
    struct ocl_api cl;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[KERNELS];
} env;
static bool small;

// ---- A device -------------------------------------------------------------

static char *read_text(const char *name)
{
    char path[1024], *text = calloc(1, 1 << 16);
    FILE *file;

    snprintf(path, sizeof(path), "%s/kernels/%s", HR_SOURCE_DIR, name);
    file = fopen(path, "rb");
    if (!file || !text || !fread(text, 1, (1 << 16) - 1, file) || !feof(file))
        abort();
    fclose(file);
    return text;
}

static bool build(cl_device_id device)
{
    static const char *const files[] = {"layout.h", "common.cl", "entropy.h",
                                        "entropy.cl"};
    char *text[4], log[4096] = "";
    cl_int err;

    for (int i = 0; i < 4; i++)
        text[i] = read_text(files[i]);
    env.program = env.cl.clCreateProgramWithSource(env.context, 4,
                                                   (const char **)text, NULL,
                                                   &err);
    for (int i = 0; i < 4; i++)
        free(text[i]);
    if (err)
        return false;
    err = env.cl.clBuildProgram(env.program, 1, &device,
                                "-cl-std=CL1.2 -D HR__ENTROPY", NULL, NULL);
    if (err)
        env.cl.clGetProgramBuildInfo(env.program, device, CL_PROGRAM_BUILD_LOG,
                                     sizeof(log) - 1, log, NULL);
    printf("%s", log);
    return !err;
}

// Before the tests count descriptors: simulators keep some.
static bool open_device(const struct kernel_device *d)
{
    static const char *const names[] = {
#define X(name, text, stage) text,
        HR__KERNELS(X)
#undef X
    };
    cl_context_properties props[] = {CL_CONTEXT_PLATFORM,
                                     (cl_context_properties)d->platform, 0};
    cl_int err;

    env.context = env.cl.clCreateContext(props, 1, &d->device, NULL, NULL,
                                         &err);
    if (err)
        return false;
    env.queue = env.cl.clCreateCommandQueue(env.context, d->device, 0, &err);
    if (err || !build(d->device))
        return false;
    for (int i = 0; i < KERNELS; i++) {
        env.kernels[i] = env.cl.clCreateKernel(env.program, names[i], &err);
        if (err)
            return false;
    }
    return true;
}

static void close_device(void)
{
    for (int i = 0; i < KERNELS; i++)
        env.cl.clReleaseKernel(env.kernels[i]);
    env.cl.clReleaseProgram(env.program);
    env.cl.clReleaseCommandQueue(env.queue);
    env.cl.clReleaseContext(env.context);
}

// ---- A batch --------------------------------------------------------------

static size_t take(struct bytes *b, size_t size)
{
    size_t at = (b->size + 15) & ~(size_t)15;

    b->data = realloc(b->data, at + size);
    memset(b->data + b->size, 0, at + size - b->size);
    b->size = at + size;
    return at;
}

struct batch {
    struct hr__kernel_picture pics[BATCH];
    struct hr__entropy scans[BATCH];
    int n;
    struct bytes plan, in, work, out;
};

static void batch_free(struct batch *b)
{
    free(b->plan.data);
    free(b->in.data);
    free(b->work.data);
    free(b->out.data);
}

struct error {
    struct jpeg_error_mgr mgr;
    jmp_buf jump;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct error *)cinfo->err)->jump, 1);
}

static void no_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static void error_init(struct jpeg_decompress_struct *d, struct error *e)
{
    memset(d, 0, sizeof(*d));
    d->err = jpeg_std_error(&e->mgr);
    e->mgr.error_exit = on_error;
    e->mgr.output_message = no_output;
}

static bool put_code(struct batch *b, struct hr__entropy *e, const JHUFF_TBL *t,
                     bool dc, hr__word *at)
{
    struct hr__code code, *to = (void *)(b->in.data + e->codes);

    memcpy(code.counts, t->bits + 1, sizeof(code.counts));
    memcpy(code.symbols, t->huffval, sizeof(code.symbols));
    *at = e->tables + e->num_codes * (hr__word)sizeof(struct hr__huffman);
    return hr__entropy_code(&to[e->num_codes++], (void *)&code, dc);
}

static bool put_component(struct batch *b, struct hr__entropy *e,
                          const struct jpeg_decompress_struct *d, int i)
{
    const jpeg_component_info *info = &d->comp_info[i];
    struct hr__entropy_component *c = &e->comp[i];
    int w = (int)info->width_in_blocks, h = (int)info->height_in_blocks;
    bool whole = kernel_pick(0, 1);

    if (!put_code(b, e, d->dc_huff_tbl_ptrs[info->dc_tbl_no], true, &c->dc) ||
        !put_code(b, e, d->ac_huff_tbl_ptrs[info->ac_tbl_no], false, &c->ac))
        return false;
    c->h = d->num_components == 1 ? 1 : (hr__word)info->h_samp_factor;
    c->v = d->num_components == 1 ? 1 : (hr__word)info->v_samp_factor;
    c->block_x = (hr__word)(whole ? 0 : kernel_pick(0, w - 1));
    c->block_y = (hr__word)(whole ? 0 : kernel_pick(0, h - 1));
    c->blocks_w = (hr__word)(whole ? w : kernel_pick(1, w - (int)c->block_x));
    c->blocks_h = (hr__word)(whole ? h : kernel_pick(1, h - (int)c->block_y));
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

// What a scan's header may say.
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
static bool put_scan(struct batch *b, const struct jpeg_decompress_struct *d)
{
    struct hr__kernel_picture *p = &b->pics[b->n];
    struct hr__entropy *e = &b->scans[b->n];
    bool one = d->num_components == 1, gpu = kernel_pick(0, 1);
    hr__word w = one ? d->comp_info[0].width_in_blocks
                     : divided(d->image_width,
                               8 * (hr__word)d->max_h_samp_factor);
    hr__word mcus = w * (one ? d->comp_info[0].height_in_blocks
                             : divided(d->image_height,
                                       8 * (hr__word)d->max_v_samp_factor));
    size_t size = d->src->bytes_in_buffer, scan, list, at;
    const struct hr__interval *last;
    hr__word all = d->restart_interval ? divided(mcus, d->restart_interval) : 1;

    *e = (struct hr__entropy){.num_components = (hr__word)d->num_components,
                              .early = gpu ? HR__SUB_EARLY_GPU : HR__SUB_EARLY,
                              .left = gpu ? HR__SUB_LEFT_GPU : HR__SUB_LEFT,
                              .mcus_w = w};
    *p = (struct hr__kernel_picture){0};
    at = take(&b->in, sizeof(*e));
    list = take(&b->in, all * sizeof(struct hr__interval));
    scan = take(&b->in, hr__entropy_room(size));
    e->num_intervals = hr__entropy_scan(d->src->next_input_byte, size,
                                        d->restart_interval, mcus,
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
    e->other = (hr__word)take(&b->work, e->num_subs * sizeof(struct hr__sub));
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

static bool put(struct batch *b, const struct kernel_jpeg *j)
{
    struct jpeg_decompress_struct d;
    volatile bool ok = false;
    struct error e;

    // The plan begins with the pictures.
    if (!b->plan.data)
        take(&b->plan, sizeof(b->pics));
    error_init(&d, &e);
    if (!setjmp(e.jump)) {
        jpeg_create_decompress(&d);
        jpeg_mem_src(&d, j->data, j->size);
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
static size_t put_list(struct batch *b, int kernel, cl_uint *at)
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

static cl_int launch(int kernel, size_t groups, cl_uint list, cl_mem mem[4])
{
    size_t local[2] = {HR__GROUP, 1}, global[2];
    cl_kernel k = env.kernels[kernel];
    cl_int err = env.cl.clSetKernelArg(k, HR__ARG_LIST, sizeof(list), &list);

    err |= env.cl.clSetKernelArg(k, HR__ARG_PLAN, sizeof(cl_mem), &mem[0]);
    for (cl_uint i = 1; i < 4; i++)
        err |= env.cl.clSetKernelArg(k, HR__ARG_FIRST_BUFFER + i - 1,
                                     sizeof(cl_mem), &mem[i]);
    global[1] = hr__kernel_rows(groups, &global[0]);
    global[0] *= HR__GROUP;
    return err | env.cl.clEnqueueNDRangeKernel(env.queue, k, 2, NULL, global,
                                               local, 0, NULL, NULL);
}

static void run(struct batch *b)
{
    struct bytes *bytes[4] = {&b->plan, &b->in, &b->work, &b->out};
    size_t groups[KERNELS];
    cl_uint lists[KERNELS];
    cl_int err = 0;
    cl_mem mem[4];

    for (int k = 0; k < KERNELS; k++)
        groups[k] = put_list(b, k, &lists[k]);
    memcpy(b->plan.data, b->pics, sizeof(b->pics));
    // What the batch before has left.
    memset(b->work.data, 0x5a, b->work.size);
    memset(b->out.data, 0x5a, b->out.size);
    for (int i = 0; i < 4; i++)
        mem[i] = buffer(bytes[i]->data, bytes[i]->size);
    for (int k = 0; k < KERNELS; k++)
        err |= launch(k, groups[k], lists[k], mem);
    err |= env.cl.clFinish(env.queue);
    for (int i = 2; i < 4; i++)
        err |= env.cl.clEnqueueReadBuffer(env.queue, mem[i], CL_TRUE, 0,
                                          bytes[i]->size, bytes[i]->data, 0,
                                          NULL, NULL);
    CU_ASSERT(!err);
    for (int i = 0; i < 4; i++)
        env.cl.clReleaseMemObject(mem[i]);
}

// ---- Comparing ------------------------------------------------------------

static hr__word flag_of(const struct batch *b, int i)
{
    hr__word flag;

    memcpy(&flag, b->out.data + b->scans[i].flag, sizeof(flag));
    return flag;
}

static int differing(const struct batch *b, const struct hr__entropy *e,
                     struct jpeg_decompress_struct *d)
{
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(d);
    int bad = 0;

    for (int i = 0; i < d->num_components; i++) {
        const struct hr__entropy_component *c = &e->comp[i];
        const JBLOCK *got = (const void *)(b->work.data + c->coefs);

        for (hr__word y = 0; y < c->blocks_h; y++) {
            JBLOCKARRAY row = d->mem->access_virt_barray(
                (j_common_ptr)d, arrays[i], c->block_y + y, 1, FALSE);

            bad += memcmp(got + (size_t)y * c->blocks_w, row[0] + c->block_x,
                          c->blocks_w * sizeof(JBLOCK)) != 0;
        }
    }
    return bad;
}

// Lines that differ from libjpeg's; -1: it has a word to say about the file.
static int lines_differ(const struct batch *b, int i,
                        const struct kernel_jpeg *j)
{
    struct jpeg_decompress_struct d;
    volatile int bad = -1;
    struct error e;

    error_init(&d, &e);
    if (!setjmp(e.jump)) {
        jpeg_create_decompress(&d);
        jpeg_mem_src(&d, j->data, j->size);
        jpeg_read_header(&d, TRUE);
        bad = differing(b, &b->scans[i], &d);
        if (e.mgr.num_warnings)
            bad = -1;
    }
    jpeg_destroy_decompress(&d);
    return bad;
}

// ---- Tests ----------------------------------------------------------------

// Sound pictures: all are libjpeg's but those left to the host, of which no more
// than `left` may be. How many are.
static int check_batch(struct kernel_jpeg *j, int n, int left, const char *what)
{
    struct batch b = {.n = 0};
    int out_of_step = 0;

    for (int i = 0; i < n; i++)
        CHECK(put(&b, &j[i]), "%s: %d is refused", what, i);
    CU_ASSERT_FATAL(b.n == n);
    run(&b);
    for (int i = 0; i < n; i++) {
        bool host = flag_of(&b, i) == HR__ODD_STEP;
        int bad = host ? 0 : lines_differ(&b, i, &j[i]);

        CHECK(host || !flag_of(&b, i), "%s: %d is flagged", what, i);
        CHECK(!bad, "%s: %d lines of %d", what, bad, i);
        out_of_step += host;
        kernel_jpeg_free(&j[i]);
    }
    CHECK(out_of_step <= left, "%s: %d are out of step", what, out_of_step);
    batch_free(&b);
    return out_of_step;
}

static void make(struct kernel_jpeg *j, int i)
{
    int most = small ? 40 : i % 3 ? 120 : 500;
    struct kernel_jpeg_params p = kernel_params(i % KERNEL_LAYOUTS,
                                                kernel_pick(1, most),
                                                kernel_pick(1, most));

    p.harsh = kernel_pick(0, 3) == 0;
    p.restart = kernel_pick(0, 2) ? 0 : (unsigned)kernel_pick(1, 30);
    CU_ASSERT_FATAL(kernel_jpeg_make(j, &p));
}

TEST_CASE(kinds)
{
    struct kernel_jpeg j[BATCH];
    int all = 0, left = 0;

    kernel_seed = test_seed | 1;
    for (int i = 0; i < (small ? 3 : 30); i++) {
        int n = kernel_pick(1, small ? 2 : BATCH);

        for (int k = 0; k < n; k++)
            make(&j[k], i * BATCH + k);
        left += check_batch(j, n, n, "made up");
        all += n;
    }
    CHECK(left <= all / 4, "%d of %d are out of step", left, all);
}

// All pixels are equal: the same few bits again and again.
static void make_flat(struct kernel_jpeg *j, int w, int h)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    uint8_t row[4096];
    JSAMPROW rows = row;

    *j = (struct kernel_jpeg){.w = w, .h = h, .components = 1};
    memset(row, 90, sizeof(row));
    memset(&c, 0, sizeof(c));
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &j->data, &j->size);
    c.image_width = (JDIMENSION)w;
    c.image_height = (JDIMENSION)h;
    c.input_components = 1;
    c.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&c);
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < h; y++)
        jpeg_write_scanlines(&c, &rows, 1);
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
}

// Who begins out of step there never falls into it: more rounds than there are.
// If many do, one thread of the host is faster.
TEST_CASE(flat)
{
    struct kernel_jpeg j[3];

    kernel_seed = test_seed | 1;
    for (int i = 0; i < 3; i++)
        make_flat(&j[i], 150 + 50 * i, 300);
    check_batch(j, 3, 0, "flat");
    if (small)
        return;
    for (int i = 0; i < 3; i++)
        make_flat(&j[i], 1000 + 333 * i, 1000);
    CU_ASSERT(check_batch(j, 3, 3, "flat and large") > 0);
}

// Where the scan's data begins.
static size_t scan_of(const struct kernel_jpeg *j)
{
    size_t at = 2;

    while (j->data[at + 1] != 0xda)
        at += 2 + (size_t)(j->data[at + 2] << 8 | j->data[at + 3]);
    return at + 2 + (size_t)(j->data[at + 2] << 8 | j->data[at + 3]);
}

// What one wrong byte of the scan does is seen, or is none of libjpeg's
// business either.
TEST_CASE(damage)
{
    int seen = 0, sound = 0, refused = 0, missed = 0;

    kernel_seed = test_seed | 1;
    for (int i = 0; i < (small ? 10 : 600); i++) {
        struct batch b = {.n = 0};
        struct kernel_jpeg j;
        size_t from;

        make(&j, kernel_pick(0, KERNEL_LAYOUTS - 1));
        from = scan_of(&j);
        switch (kernel_pick(0, 2)) {
        case 0:
            j.data[from + kernel_random() % (j.size - from)] ^=
                (uint8_t)(1 << kernel_pick(0, 7));
            break;
        case 1:
            j.data[from + kernel_random() % (j.size - from)] = 0xff;
            break;
        default:  // a byte less
            from += kernel_random() % (j.size - from - 1);
            memmove(j.data + from, j.data + from + 1, j.size - from - 1);
            j.size--;
        }
        if (!put(&b, &j)) {
            refused++;
        } else {
            run(&b);
            if (flag_of(&b, 0))
                seen++;
            else if (lines_differ(&b, 0, &j))
                missed++;
            else
                sound++;
        }
        batch_free(&b);
        kernel_jpeg_free(&j);
    }
    printf("\n  %d seen, %d refused before, %d sound all the same; ", seen,
           refused, sound);
    CHECK(!missed, "%d of them missed", missed);
    CU_ASSERT(seen > 0 && refused > 0);
}

static bool is_code(struct hr__code from, bool dc)
{
    struct hr__code to;

    return hr__entropy_code(&to, (const uint8_t *)&from, dc);
}

// Codes that are none.
TEST_CASE(codes)
{
    CU_ASSERT(is_code((struct hr__code){.counts = {1, 1}}, true));
    CU_ASSERT(!is_code((struct hr__code){.counts = {3}}, true));
    CU_ASSERT(!is_code((struct hr__code){.counts = {2, 1}}, true));
    // All ones.
    CU_ASSERT(!is_code((struct hr__code){.counts = {2}}, false));
    CU_ASSERT(
        !is_code((struct hr__code){.counts = {[8] = 255, [9] = 200}}, false));
    // A DC of 16 bits.
    CU_ASSERT(
        is_code((struct hr__code){.counts = {1}, .symbols = {16}}, false));
    CU_ASSERT(is_code((struct hr__code){.counts = {1}, .symbols = {15}}, true));
    CU_ASSERT(
        !is_code((struct hr__code){.counts = {1}, .symbols = {16}}, true));
}

// The photos of the corpus, where it is.
TEST_CASE(photos)
{
    struct kernel_jpeg j[BATCH];
    struct corpus_folder f;
    int n = 0, all = 0, left = 0;

    if (small || !corpus_folder_open(&f, "photos/imagenet-sample")) {
        test_not_run("photos");
        return;
    }
    while (all < test_loops(200) && corpus_folder_next(&f, 1)) {
        struct batch b = {.n = 0};

        if (!kernel_jpeg_read(&j[n], f.path))
            continue;
        if (!put(&b, &j[n]))  // progressive
            kernel_jpeg_free(&j[n]);
        else
            n++, all++;
        batch_free(&b);
        if (n == BATCH) {
            left += check_batch(j, n, 1, f.name);
            n = 0;
        }
    }
    if (n)
        left += check_batch(j, n, 1, "the last");
    corpus_folder_close(&f);
    CHECK(left <= all / 40, "%d of %d are out of step", left, all);
    printf("(%d photos, %d left to the host) ", all, left);
}

// False: there is none.
static bool find_device(struct kernel_device *device)
{
    struct kernel_device all[16];
    const char *want = getenv("HEADRACE_TEST_OPENCL");
    int n;

    if (!want || !strcmp(want, "all"))
        want = "Portable Computing Language";
    if (!kernel_cl_load(&env.cl))
        return false;
    n = kernel_devices(&env.cl, all, 16);
    for (int i = 0; i < n; i++)
        if (strstr(all[i].platform_name, want)) {
            *device = all[i];
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    struct kernel_device device;
    int failed;

    small = getenv("HEADRACE_TEST_SMALL");
    if (!find_device(&device)) {
        puts("not run: no such OpenCL device");
        return 77;
    }
    if (!open_device(&device)) {
        puts("FAILED: the device or its program");
        return 1;
    }
    failed = test_main(argc, argv);
    close_device();
    return failed;
}
#endif
