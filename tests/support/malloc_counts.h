// SPDX-License-Identifier: Apache-2.0
// Counts what the whole process takes at malloc itself, libjpeg, libpng and
// libc included. For one file of a program that links the objects themselves;
// glibc alone, and no sanitizer.
#ifndef HEADRACE_TESTS_MALLOC_COUNTS_H
#define HEADRACE_TESTS_MALLOC_COUNTS_H

#include <malloc.h>

#include "testing.h"

static struct {
    atomic_long calls;       // that took or moved memory
    atomic_long live, peak;  // bytes
} malloc_counts;

#if !TEST_SANITIZED && defined(__GLIBC__)
#define MALLOC_COUNTS 1

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

static void *malloc_taken(void *p)
{
    long now = 0, most = atomic_load(&malloc_counts.peak);
    long size = p ? (long)malloc_usable_size(p) : 0;

    atomic_fetch_add(&malloc_counts.calls, 1);
    if (p)
        now = atomic_fetch_add(&malloc_counts.live, size) + size;
    while (now > most &&
           !atomic_compare_exchange_weak(&malloc_counts.peak, &most, now))
        continue;
    return p;
}

static void malloc_given_back(void *p)
{
    if (p)
        atomic_fetch_sub(&malloc_counts.live, (long)malloc_usable_size(p));
}

void *malloc(size_t size)
{
    return malloc_taken(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return malloc_taken(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
    malloc_given_back(p);
    return malloc_taken(__libc_realloc(p, size));
}

void *aligned_alloc(size_t align, size_t size)
{
    return malloc_taken(__libc_memalign(align, size));
}

void *memalign(size_t align, size_t size)
{
    return malloc_taken(__libc_memalign(align, size));
}

int posix_memalign(void **p, size_t align, size_t size)
{
    *p = malloc_taken(__libc_memalign(align, size));
    return *p ? 0 : 12;
}

void free(void *p)
{
    malloc_given_back(p);
    __libc_free(p);
}
#else
#define MALLOC_COUNTS 0
#endif

#endif
