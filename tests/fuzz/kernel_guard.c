// SPDX-License-Identifier: Apache-2.0
#include "kernel_guard.h"

#if HR_HAVE_OPENCL
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "kernel_env.h"

enum { BESIDE = 4096, AREAS = 16, WALL = 65536 };
#define ROOM ((size_t)32 << 20)

static struct {
    struct kernel_env env;
    uint8_t *room[GUARD_BUFFERS];  // between two walls
    uint8_t *data[GUARD_BUFFERS];
    uint8_t *copy[GUARD_BUFFERS];  // of plan and in
    size_t size[GUARD_BUFFERS];
    bool ends;
    bool reads;  // buffers are not where we see them
    struct {
        size_t at, bytes;
    } may[AREAS];
    int num_may;
} g;

// Hooks of a sanitizer, if there is one.
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

// ---- A device -------------------------------------------------------------

static void make_room(void)
{
    for (int i = 0; i < GUARD_BUFFERS; i++) {
        uint8_t *map = mmap(NULL, ROOM + 2 * (size_t)WALL, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        promise(map != MAP_FAILED);
        promise(!mprotect(map + WALL, ROOM, PROT_READ | PROT_WRITE));
        g.room[i] = map + WALL;
    }
}

// Compiles everything: the first input shall not wait for that. A picture of
// nothing has nothing to do.
static void warm_up(void)
{
    struct hr__kernel_picture p = {0};
    int kernels[HR__KERNEL_RECONSTRUCT + 1];

    for (int i = 0; i <= HR__KERNEL_RECONSTRUCT; i++)
        kernels[i] = i;
    guard_begin(false);
    memset(guard_take(GUARD_IN, 4096), 0, 4096);
    guard_take(GUARD_WORK, 4096);
    guard_take(GUARD_OUT, 16);
    guard_run(&p, kernels, HR__KERNEL_RECONSTRUCT + 1);
    guard_check(0);
}

static bool open_device(void)
{
    enum kernel_opened opened;

    // The calling thread computes: a crash is where its input is.
    setenv("POCL_DEVICES", "basic", 0);
    // A simulator has memory of its own and sees more.
    g.reads = getenv("HEADRACE_TEST_OPENCL");
    opened = kernel_open(&g.env, "-cl-std=CL1.2 -D HR__ENTROPY",
                         HR__KERNEL_RECONSTRUCT + 1);
    if (opened == KERNEL_ABSENT) {
        puts("not run: kernels: there is no PoCL");
        return false;
    }
    promise(opened == KERNEL_OPEN);
    make_room();
    warm_up();
    return true;
}

// Drivers keep memory for good, and the compiler takes SIGABRT, which then does
// not reach the fuzzer.
bool guard_open(void)
{
    static bool tried, open;
    struct sigaction before;

    if (tried)
        return open;
    tried = true;
    if (__lsan_disable)
        __lsan_disable();
    sigaction(SIGABRT, NULL, &before);
    open = open_device();
    sigaction(SIGABRT, &before, NULL);
    if (__lsan_enable)
        __lsan_enable();
    return open;
}

// ---- Buffers --------------------------------------------------------------

void guard_begin(bool ends)
{
    memset(g.size, 0, sizeof(g.size));
    memset(g.data, 0, sizeof(g.data));
    g.ends = ends;
    g.num_may = 0;
}

// The checked part of the room between the buffer and the other end.
static uint8_t *beside(int which)
{
    return g.ends ? g.data[which] - BESIDE
                  : g.data[which] + hr__kernel_round(g.size[which], 16);
}

uint8_t *guard_take(enum guard_buffer which, size_t size)
{
    size_t all = hr__kernel_round(size, 16);

    if (all > ROOM - BESIDE)
        return NULL;
    g.size[which] = size;
    g.data[which] = g.room[which] + (g.ends ? ROOM - all : 0);
    memset(g.data[which], GUARD_BYTE, all);
    memset(beside(which), GUARD_BYTE, BESIDE);
    return g.data[which];
}

void guard_may(size_t at, size_t bytes)
{
    promise(g.num_may < AREAS);
    g.may[g.num_may].at = at;
    g.may[g.num_may++].bytes = bytes;
}

static void untouched(const uint8_t *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        promise(p[i] == GUARD_BYTE);
}

void guard_check(size_t flag)
{
    size_t at = 0, out = hr__kernel_round(g.size[GUARD_OUT], 16);

    for (int i = 0; i < GUARD_BUFFERS; i++) {
        untouched(g.data[i] + g.size[i],
                  hr__kernel_round(g.size[i], 16) - g.size[i]);
        untouched(beside(i), BESIDE);
        if (i == GUARD_PLAN || i == GUARD_IN)
            promise(!memcmp(g.data[i], g.copy[i], g.size[i]));
    }
    for (int i = 0; !g.reads && i < g.num_may; i++) {
        promise(g.may[i].at >= at);
        untouched(g.data[GUARD_WORK] + at, g.may[i].at - at);
        at = g.may[i].at + g.may[i].bytes;
        promise(at <= g.size[GUARD_WORK]);
    }
    if (!g.reads && g.num_may)
        untouched(g.data[GUARD_WORK] + at, g.size[GUARD_WORK] - at);
    untouched(g.data[GUARD_OUT], flag < out ? flag : out);
    if (flag + 4 < out)
        untouched(g.data[GUARD_OUT] + flag + 4, out - flag - 4);
}

const uint8_t *guard_work(void)
{
    return g.data[GUARD_WORK];
}

// ---- Launches -------------------------------------------------------------

// A simulator also sees reads of work that was not written before.
static cl_mem buffer(int which)
{
    cl_mem_flags from = !g.reads              ? CL_MEM_USE_HOST_PTR
                        : which == GUARD_WORK ? 0
                                              : CL_MEM_COPY_HOST_PTR;
    cl_int err;
    cl_mem mem = g.env.cl.clCreateBuffer(g.env.context,
                                         CL_MEM_READ_WRITE | from,
                                         g.size[which],
                                         from ? g.data[which] : NULL, &err);

    promise(!err);
    return mem;
}

// A list of one group, if there is nothing to do.
static size_t groups_of(const struct hr__kernel_picture *p, int kernel)
{
    size_t n = hr__kernel_groups(p, kernel);

    return n ? n : 1;
}

// Keeps a copy of a buffer that no kernel may write.
static void keep(int which)
{
    g.copy[which] = realloc(g.copy[which], g.size[which]);
    promise(g.copy[which]);
    memcpy(g.copy[which], g.data[which], g.size[which]);
}

void guard_run(const struct hr__kernel_picture *p, const int *kernels, int n)
{
    size_t words = 0, width, groups[HR__NUM_KERNELS];
    cl_uint lists[HR__NUM_KERNELS];
    cl_mem mem[GUARD_BUFFERS];
    uint8_t *plan;

    for (int i = 0; i < n; i++) {
        size_t g0 = groups_of(p, kernels[i]),
               rows = hr__kernel_rows(g0, &width);

        lists[i] = (cl_uint)(sizeof(*p) / 4 + words);
        words += 2 * (groups[i] = rows * width);
    }
    plan = guard_take(GUARD_PLAN, sizeof(*p) + 4 * words);
    promise(plan);
    memcpy(plan, p, sizeof(*p));
    for (int i = 0; i < n; i++) {
        hr__u32 *list = (hr__u32 *)(void *)plan + lists[i];

        hr__kernel_list(list, 0, (hr__u32)groups[i]);
    }
    keep(GUARD_PLAN);
    keep(GUARD_IN);
    for (int i = 0; i < GUARD_BUFFERS; i++)
        mem[i] = buffer(i);
    for (int i = 0; i < n; i++)
        promise(!kernel_launch(&g.env, kernels[i], groups[i], lists[i], mem));
    promise(!g.env.cl.clFinish(g.env.queue));
    for (int i = 0; i < GUARD_BUFFERS; i++) {
        if (g.reads)
            promise(!g.env.cl.clEnqueueReadBuffer(g.env.queue, mem[i], CL_TRUE,
                                                  0, g.size[i], g.data[i], 0,
                                                  NULL, NULL));
        g.env.cl.clReleaseMemObject(mem[i]);
    }
}
#endif
