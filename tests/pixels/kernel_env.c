// SPDX-License-Identifier: Apache-2.0
#if HR_HAVE_OPENCL
#include "kernel_env.h"

#include <dlfcn.h>
#include <stdlib.h>

extern const char ocl_kernels_source[];

static const char *const names[] = {
#define X(name, text, stage) text,
    HR__KERNELS(X)
#undef X
};

// Not as the engine does it: a simulator may have been loaded before us.
bool kernel_cl_load(struct ocl_api *cl)
{
    void *library = dlopen(NULL, RTLD_NOW);

    if (!dlsym(library, "clGetPlatformIDs"))
        library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    memset(cl, 0, sizeof(*cl));
#define X(name)                                                 \
    if (!(cl->name = (__typeof__(&name))dlsym(library, #name))) \
        return false;
    OCL_ENTRY_POINTS(X)
#undef X
    return true;
}

int kernel_devices(const struct ocl_api *cl, struct kernel_device *devices,
                   int max)
{
    cl_platform_id platforms[16];
    cl_uint num_platforms = 0, num;
    cl_device_fp_config doubles = 0;
    int n = 0;

    if (cl->clGetPlatformIDs(16, platforms, &num_platforms))
        return 0;
    for (cl_uint i = 0; i < num_platforms && i < 16 && n < max; i++) {
        struct kernel_device *d = &devices[n];

        if (cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &d->device,
                               &num) ||
            !num)
            continue;
        d->platform = platforms[i];
        cl->clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME,
                              sizeof(d->platform_name), d->platform_name, NULL);
        cl->clGetDeviceInfo(d->device, CL_DEVICE_NAME, sizeof(d->name), d->name,
                            NULL);
        d->doubles = !cl->clGetDeviceInfo(d->device, CL_DEVICE_DOUBLE_FP_CONFIG,
                                          sizeof(doubles), &doubles, NULL) &&
                     doubles;
        n++;
    }
    return n;
}

static bool failed(cl_int code, const char *what)
{
    if (code)
        fprintf(stderr, "%s: %d\n", what, (int)code);
    return code != CL_SUCCESS;
}

static bool build(struct kernel_env *env, cl_device_id device)
{
    static char log[4096];
    const char *source = ocl_kernels_source;
    char options[80];
    cl_int err;

    env->program = env->cl.clCreateProgramWithSource(env->context, 1, &source,
                                                     NULL, &err);
    if (failed(err, "clCreateProgramWithSource"))
        return false;
    snprintf(options, sizeof(options), "-cl-std=CL1.2 -D HR__AUGMENT%s%s",
             env->doubles ? " -D HR__FP64" : "", env->gpu ? " -D HR__GPU" : "");
    err = env->cl.clBuildProgram(env->program, 1, &device, options, NULL, NULL);
    if (failed(err, "clBuildProgram")) {
        env->cl.clGetProgramBuildInfo(env->program, device,
                                      CL_PROGRAM_BUILD_LOG, sizeof(log) - 1,
                                      log, NULL);
        fprintf(stderr, "%s\n", log);
        return false;
    }
    for (int i = 0; i < HR__NUM_KERNELS; i++) {
        // The kernels of stage entropy have a test of their own.
        if (i <= HR__KERNEL_DC || (i > HR__KERNEL_STORE && !env->gpu))
            continue;
        env->kernels[i] = env->cl.clCreateKernel(env->program, names[i], &err);
        if (failed(err, names[i]))
            return false;
    }
    return true;
}

bool kernel_env_open(struct kernel_env *env, const struct ocl_api *cl,
                     const struct kernel_device *device,
                     enum ocl_variant variant)
{
    cl_context_properties props[] = {CL_CONTEXT_PLATFORM,
                                     (cl_context_properties)device->platform,
                                     0};
    cl_int err;

    memset(env, 0, sizeof(*env));
    env->cl = *cl;
    env->gpu = variant == OCL_GPU;
    env->doubles = device->doubles;
    env->context = cl->clCreateContext(props, 1, &device->device, NULL, NULL,
                                       &err);
    if (failed(err, "clCreateContext"))
        return false;
    env->queue = cl->clCreateCommandQueue(env->context, device->device, 0,
                                          &err);
    return !failed(err, "clCreateCommandQueue") && build(env, device->device);
}

void kernel_env_close(struct kernel_env *env)
{
    for (int i = 0; i < HR__NUM_KERNELS; i++)
        if (env->kernels[i])
            env->cl.clReleaseKernel(env->kernels[i]);
    if (env->program)
        env->cl.clReleaseProgram(env->program);
    if (env->queue)
        env->cl.clReleaseCommandQueue(env->queue);
    if (env->context)
        env->cl.clReleaseContext(env->context);
    free(env->pics);
    free(env->work);
    memset(env, 0, sizeof(*env));
}

// ---- A batch --------------------------------------------------------------

enum { GUARD = 64, GUARD_BYTE = 0xa5 };  // behind every tensor

struct bytes {
    uint8_t *data;
    size_t size, capacity;
};

// Room for size more bytes at a multiple of 64; their offset.
static size_t take(struct bytes *b, size_t size)
{
    size_t at = (b->size + 63) & ~(size_t)63, capacity;

    if (at + size > b->capacity) {
        capacity = (at + size) * 2;
        b->data = realloc(b->data, capacity);
        if (!b->data)
            abort();
        memset(b->data + b->capacity, 0, capacity - b->capacity);
        b->capacity = capacity;
    }
    b->size = at + size;
    return at;
}

// Kernels that do the stages, in their order; the last two are for pictures
// with codes.
static const int stages[] = {HR__KERNEL_INDEX,     HR__KERNEL_RECONSTRUCT,
                             HR__KERNEL_FUSED_GPU, HR__KERNEL_PLANES,
                             HR__KERNEL_COLOR,     HR__KERNEL_PIXELS,
                             HR__KERNEL_RESAMPLE,  HR__KERNEL_STORE,
                             HR__KERNEL_STORE,     HR__KERNEL_AUGMENT};
enum {
    STAGES = sizeof(stages) / sizeof(*stages),
    FIRST_OF_CODES = STAGES - 2,
};

struct batch {
    size_t *outs;  // where each tensor begins
    struct bytes plan, in, out;
    uint64_t work;
    bool gpu, tiles;  // the forms for GPUs; hr_resize_gpu, too
    size_t lists[STAGES], groups[STAGES];
};

struct hr__rect kernel_window(const struct hr__step *step)
{
    struct hr__axis a[2];
    struct hr__rect r;

    for (int i = 0; i < 2; i++) {
        void *mem = malloc(hr__axis_size(step, i) + 1);

        hr__axis_build(&a[i], step, i, mem);
        free(mem);
    }
    if (!a[0].out || !a[1].out)
        return (struct hr__rect){0, 0, 1, 1};
    r = (struct hr__rect){a[0].src_lo, a[1].src_lo, a[0].src_hi - a[0].src_lo,
                          a[1].src_hi - a[1].src_lo};
    return r;
}

static uint32_t put_bytes(struct batch *b, const void *src, size_t size)
{
    size_t at = take(&b->plan, size);

    memcpy(b->plan.data + at, src, size);
    return (uint32_t)(at / 4);
}

static uint32_t put_table(struct batch *b, const struct kernel_item *item)
{
    const struct hr__table *t = item->table;
    const void *src = t->f32;
    size_t size = sizeof(t->f32);

    if (item->dst.dtype == HR_F16)
        src = t->f16, size = sizeof(t->f16);
    else if (item->dst.dtype == HR_U8)
        src = t->u8, size = sizeof(t->u8);
    return put_bytes(b, src, size);
}

// Its bytes go to planes in work first.
static void put_codes(struct batch *b, struct hr__kernel_picture *p,
                      const struct kernel_item *item, size_t out,
                      uint32_t table)
{
    size_t at = take(&b->plan, 4 * hr__kernel_augment_words(&item->codes));
    struct hr__kernel_augment *k = (void *)(b->plan.data + at);
    struct hr__dst planes;
    uint8_t levels[3 * 256];

    b->work = hr__kernel_augment(k, &item->codes, (uint32_t)(at / 4),
                                 item->planes, &item->dst, out, table, &planes,
                                 b->work);
    p->augment = (uint32_t)(at / 4);
    at = k->from;
    for (int i = 0; i < 3 * 256; i++)
        levels[i] = (uint8_t)i;
    hr__kernel_store(p, &item->step, &planes, at,
                     put_bytes(b, levels, sizeof(levels)), true);
}

static void source_planes(struct batch *b, struct hr__kernel_picture *p,
                          const struct kernel_item *item)
{
    const struct hr__planes *c = item->planes_of;
    struct hr__rect win = kernel_window(&item->step);
    struct hr__kernel_samples s[3] = {0};
    size_t at = take(&b->in, item->samples_size);

    memcpy(b->in.data + at, item->samples, item->samples_size);
    for (uint32_t i = 0; i < c->num_components; i++) {
        const struct hr__plane *k = &c->comp[i];
        struct hr__rect *w = &s[i].want;

        hr__kernel_cover(win.x, win.w, (int)(c->h_max / k->h), (int)k->width,
                         &w->x, &w->w);
        hr__kernel_cover(win.y, win.h, (int)(c->v_max / k->v), (int)k->height,
                         &w->y, &w->h);
        s[i].at = at + k->at + (size_t)(w->y - (int)k->y) * k->stride +
                  (size_t)(w->x - (int)k->x) * k->step;
        s[i].next_x = k->step;
        s[i].next_y = k->stride;
    }
    b->work = hr__kernel_planes(p, c, s, win, item->gray, b->work);
}

static void source(struct batch *b, struct hr__kernel_picture *p,
                   const struct kernel_item *item)
{
    struct hr__rect win = kernel_window(&item->step);
    size_t at;

    if (item->coefs) {
        at = take(&b->in, item->coef_size);
        memcpy(b->in.data + at, item->coefs, item->coef_size);
        b->work = hr__kernel_coefficients(p, item->coefs, at, item->gray,
                                          b->gpu, b->work);
        return;
    }
    if (item->planes_of) {
        source_planes(b, p, item);
        return;
    }
    at = take(&b->in, item->next_y * (size_t)item->step.in_h +
                          item->next_c * (size_t)item->planes);
    for (int y = 0; y < item->step.in_h; y++)
        for (int x = 0; x < item->step.in_w; x++)
            for (int c = 0; c < item->planes; c++) {
                size_t o = (size_t)y * item->next_y + (size_t)x * item->next_x +
                           (size_t)c * item->next_c;
                b->in.data[at + o] = item->pixels[o];
            }
    at += (size_t)win.y * item->next_y + (size_t)win.x * item->next_x;
    b->work = hr__kernel_pixels(p, win, (unsigned)item->planes, at,
                                item->next_x, item->next_y, item->next_c,
                                b->work);
}

static void describe(struct batch *b, int i, const struct kernel_item *item)
{
    struct hr__kernel_picture p;
    struct hr__axis a[2];
    size_t at[2], out;
    uint32_t table = put_table(b, item);

    for (int k = 0; k < 2; k++)
        at[k] = take(&b->plan, hr__axis_size(&item->step, k));
    for (int k = 0; k < 2; k++)
        hr__axis_build(&a[k], &item->step, k, b->plan.data + at[k]);
    hr__kernel_begin(&p, &item->step);
    source(b, &p, item);
    b->work = hr__kernel_axes(&p, &item->step, &a[0], &a[1], b->plan.data,
                              b->work);
    out = take(&b->out, item->dst_size + GUARD);
    memcpy(b->out.data + out, item->dst.data, item->dst_size);
    memset(b->out.data + out + item->dst_size, GUARD_BYTE, GUARD);
    if (item->codes.num)
        put_codes(b, &p, item, out, table);
    else
        hr__kernel_store(&p, &item->step, &item->dst, out, table,
                         item->table->u8_identity);
    b->outs[i] = out;
    memcpy(b->plan.data + (size_t)i * sizeof(p), &p, sizeof(p));
    b->work = hr__kernel_round(b->work, 16);
}

static bool uses(const struct kernel_item *item, int stage)
{
    switch (stages[stage]) {
    case HR__KERNEL_INDEX:
    case HR__KERNEL_RECONSTRUCT:
    case HR__KERNEL_FUSED_GPU:
        return item->coefs;
    case HR__KERNEL_PLANES:
        return item->planes_of;
    case HR__KERNEL_COLOR:
        return item->coefs || item->planes_of;
    case HR__KERNEL_PIXELS:
        return item->pixels;
    case HR__KERNEL_STORE:
        return (stage < FIRST_OF_CODES) == !item->codes.num;
    default:
        return true;
    }
}

static int kernel_of(const struct batch *b, int host)
{
    bool resizes = host == HR__KERNEL_RESAMPLE || host == HR__KERNEL_STORE;

    return (resizes ? b->tiles : b->gpu) ? hr__kernel_gpu(host) : host;
}

static void lists(struct batch *b, const struct kernel_item *items, int n)
{
    b->tiles = b->gpu;
    for (int i = 0; i < n; i++)
        b->tiles = b->tiles &&
                   hr__kernel_suits_gpu(
                       (const struct hr__kernel_picture *)(void *)b->plan.data +
                       i);
    for (int s = 0; s < STAGES; s++) {
        const struct hr__kernel_picture *p = (const void *)b->plan.data;
        int k = kernel_of(b, stages[s]);
        uint32_t *first, *list;
        size_t at, width;

        if (k == HR__NUM_KERNELS)
            continue;
        for (int i = 0; i < n; i++)
            if (uses(&items[i], s))
                b->groups[s] += hr__kernel_groups(&p[i], k);
        at = take(&b->plan,
                  8 * (b->groups[s] + hr__kernel_rows(b->groups[s], &width)));
        p = (const void *)b->plan.data;
        first = list = (uint32_t *)(void *)(b->plan.data + at);
        for (int i = 0; i < n; i++)
            if (uses(&items[i], s))
                list = hr__kernel_list(list, (uint32_t)i,
                                       hr__kernel_groups(&p[i], k));
        b->groups[s] = (size_t)(hr__kernel_pad(first, list) - first) / 2;
        b->lists[s] = at / 4;
    }
}

enum { BUF_PLAN, BUF_IN, BUF_WORK, BUF_OUT, BUF_N };

static cl_mem buffer(struct kernel_env *env, const void *data, size_t size)
{
    cl_int err;
    cl_mem mem = env->cl.clCreateBuffer(
        env->context, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0),
        size ? size : 64, (void *)(uintptr_t)data, &err);

    return failed(err, "clCreateBuffer") ? NULL : mem;
}

static bool launch(struct kernel_env *env, int stage, int k, cl_mem mem[BUF_N],
                   const struct batch *b)
{
    static const int buffers[HR__NUM_KERNELS][3] = {
        [HR__KERNEL_INDEX] = {BUF_IN, BUF_WORK, -1},
        [HR__KERNEL_RECONSTRUCT] = {BUF_IN, BUF_WORK, -1},
        [HR__KERNEL_PLANES] = {BUF_IN, BUF_WORK, -1},
        [HR__KERNEL_COLOR] = {BUF_WORK, -1},
        [HR__KERNEL_PIXELS] = {BUF_IN, BUF_WORK, -1},
        [HR__KERNEL_RESAMPLE] = {BUF_PLAN, BUF_WORK, -1},
        [HR__KERNEL_AUGMENT] = {BUF_WORK, BUF_OUT, -1},
        [HR__KERNEL_STORE] = {BUF_PLAN, BUF_WORK, BUF_OUT},
        [HR__KERNEL_RECONSTRUCT_GPU] = {BUF_IN, BUF_WORK, -1},
        [HR__KERNEL_FUSED_GPU] = {BUF_IN, BUF_WORK, -1},
        [HR__KERNEL_COLOR_GPU] = {BUF_WORK, -1},
        [HR__KERNEL_RESIZE_GPU] = {BUF_PLAN, BUF_WORK, BUF_OUT},
    };
    cl_kernel kernel = env->kernels[k];
    cl_uint list = (cl_uint)b->lists[stage];
    size_t local[2] = {HR__GROUP, 1}, global[2];
    cl_int err;

    if (k == HR__KERNEL_AUGMENT && env->gpu)
        local[0] = HR__AUGMENT_MOST;
    global[1] = hr__kernel_rows(b->groups[stage], &global[0]);
    global[0] *= local[0];
    if (global[1] > env->most_rows)
        env->most_rows = global[1];
    err = env->cl.clSetKernelArg(kernel, HR__ARG_PLAN, sizeof(cl_mem),
                                 &mem[BUF_PLAN]);
    err |= env->cl.clSetKernelArg(kernel, HR__ARG_LIST, sizeof(list), &list);
    for (unsigned i = 0; i < 3 && buffers[k][i] >= 0; i++) {
        // (Of pictures with codes hr_store makes planes in work.)
        bool planes = buffers[k][i] == BUF_OUT && stage == FIRST_OF_CODES;

        err |= env->cl.clSetKernelArg(kernel, HR__ARG_FIRST_BUFFER + i,
                                      sizeof(cl_mem),
                                      &mem[planes ? BUF_WORK : buffers[k][i]]);
    }
    if (failed(err, "clSetKernelArg"))
        return false;
    err = env->cl.clEnqueueNDRangeKernel(env->queue, kernel, 2, NULL, global,
                                         local, 0, NULL, NULL);
    if (failed(err, names[k]) || failed(env->cl.clFinish(env->queue), names[k]))
        return false;
    env->launches++;
    return true;
}

static bool run_all(struct kernel_env *env, cl_mem mem[BUF_N], struct batch *b)
{
    for (int i = 0; i < BUF_N; i++)
        if (!mem[i])
            return false;
    env->launches = 0;
    for (int s = 0; s < STAGES; s++) {
        int k = kernel_of(b, stages[s]);

        if (k < HR__NUM_KERNELS && b->groups[s] && !launch(env, s, k, mem, b))
            return false;
    }
    free(env->work);
    env->work = malloc(b->work);
    return env->work &&
           !failed(env->cl.clEnqueueReadBuffer(env->queue, mem[BUF_WORK],
                                               CL_TRUE, 0, b->work, env->work,
                                               0, NULL, NULL),
                   "clEnqueueReadBuffer") &&
           !failed(env->cl.clEnqueueReadBuffer(env->queue, mem[BUF_OUT],
                                               CL_TRUE, 0, b->out.size,
                                               b->out.data, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
}

static bool give(const struct kernel_item *item, const uint8_t *out)
{
    bool whole = true;

    memcpy(item->dst.data, out, item->dst_size);
    for (int i = 0; i < GUARD; i++)
        whole = whole && out[item->dst_size + (size_t)i] == GUARD_BYTE;
    if (!whole)
        fprintf(stderr, "written behind the end of a tensor\n");
    return whole;
}

bool kernel_run(struct kernel_env *env, struct kernel_item *items, int n)
{
    size_t outs[n];
    struct batch b = {.outs = outs, .work = HR__SLACK, .gpu = env->gpu};
    cl_mem mem[BUF_N];
    bool ok;

    take(&b.plan, (size_t)n * sizeof(struct hr__kernel_picture));
    for (int i = 0; i < n; i++)
        describe(&b, i, &items[i]);
    lists(&b, items, n);
    env->runs++;
    env->by_gpu += b.tiles;
    b.work += HR__SLACK;
    free(env->pics);
    env->pics = malloc((size_t)n * sizeof(*env->pics));
    memcpy(env->pics, b.plan.data, (size_t)n * sizeof(*env->pics));
    take(&b.in, HR__PAYLOAD);
    mem[BUF_PLAN] = buffer(env, b.plan.data, b.plan.size);
    mem[BUF_IN] = buffer(env, b.in.size ? b.in.data : NULL, b.in.size);
    mem[BUF_WORK] = buffer(env, NULL, b.work);
    mem[BUF_OUT] = buffer(env, b.out.data, b.out.size);
    ok = run_all(env, mem, &b);
    for (int i = 0; ok && i < n; i++)
        ok = give(&items[i], b.out.data + outs[i]);
    for (int i = 0; i < BUF_N; i++)
        if (mem[i])
            env->cl.clReleaseMemObject(mem[i]);
    free(b.plan.data);
    free(b.in.data);
    free(b.out.data);
    return ok;
}
#endif
