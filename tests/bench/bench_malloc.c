// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench_core.h"

// In a program this covers every library of the process, libjpeg included.
// glibc only; sanitizers have allocators of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BENCH_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BENCH_COUNTS 0
#endif
#endif
#if !defined(BENCH_COUNTS) && defined(__GLIBC__)
#define BENCH_COUNTS 1
#endif

static atomic_ullong malloc_calls;

#if BENCH_COUNTS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void count(void)
{
    atomic_fetch_add_explicit(&malloc_calls, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    count();
    return __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    count();
    return __libc_memalign(align, size);
}

void *memalign(size_t align, size_t size)
{
    count();
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    void *p;

    count();
    if (!(p = __libc_memalign(align, size)))
        return ENOMEM;
    *out = p;
    return 0;
}
#endif

unsigned long long bench_malloc_calls(void)
{
    return atomic_load(&malloc_calls);
}
