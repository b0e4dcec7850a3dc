// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <stdbool.h>
#include <string.h>

#include <jerror.h>

// Rows of samples are as long as libjpeg-turbo's SIMD code expects: a multiple
// of twice its ALIGN_SIZE of 32 (jmemmgr.c), because an upsampler writes whole
// vectors for two outputs per input. CPU_ALIGN covers the alignment itself.
#define ROW_ALIGN 64
// More than any picture of 65500 x 65500 needs; keeps sums in range.
#define MAX_REQUEST ((size_t)1 << 46)

// A virtual array, of samples or of blocks.
struct cpu_jpeg_array {
    unsigned char *rows;  // pointers to the rows, then these; NULL until
                          // realized
    size_t pitch;         // bytes of a row
    JDIMENSION num_rows, max_access;
    boolean pre_zero;
    JDIMENSION defined;  // rows that were handed out for writing or zeroed
    JDIMENSION first;    // a ring: the row that the first one is now
    bool ring;
    int number;
    struct cpu_jpeg_array *next;
};

// libjpeg declares these two and leaves them to the memory manager.
struct jvirt_sarray_control {
    struct cpu_jpeg_array is;
};
struct jvirt_barray_control {
    struct cpu_jpeg_array is;
};

static struct cpu_jpeg_memory *memory_of(j_common_ptr cinfo)
{
    return (struct cpu_jpeg_memory *)cinfo->mem;
}

static void *get(j_common_ptr cinfo, size_t size)
{
    void *p = NULL;

    if (size <= MAX_REQUEST)
        p = cpu_pool_alloc(memory_of(cinfo)->pool, size);
    if (!p)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    return p;
}

static void *alloc_any(j_common_ptr cinfo, int pool, size_t size)
{
    if (pool < 0 || pool >= JPOOL_NUMPOOLS)
        ERREXIT1(cinfo, JERR_BAD_POOL_ID, pool);
    return get(cinfo, size);
}

static size_t pointers(size_t num_rows)
{
    return cpu_aligned(num_rows * sizeof(void *));
}

// num_rows pointers, and behind them the rows that they point to: one
// allocation. All factors come from a JPEG header and are below 2^40.
static void *alloc_rows(j_common_ptr cinfo, int pool, size_t pitch,
                        size_t num_rows)
{
    unsigned char *p, *row;

    if (num_rows && pitch > MAX_REQUEST / num_rows)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 1);
    p = alloc_any(cinfo, pool, pointers(num_rows) + pitch * num_rows);
    row = p + pointers(num_rows);
    for (size_t i = 0; i < num_rows; i++, row += pitch)
        memcpy(p + i * sizeof(row), &row, sizeof(row));
    return p;
}

static size_t sample_pitch(JDIMENSION samples)
{
    return (((size_t)samples + ROW_ALIGN - 1) & ~(size_t)(ROW_ALIGN - 1)) *
           sizeof(JSAMPLE);
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION samples,
                               JDIMENSION num_rows)
{
    return alloc_rows(cinfo, pool, sample_pitch(samples), num_rows);
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION blocks,
                                JDIMENSION num_rows)
{
    return alloc_rows(cinfo, pool, blocks * sizeof(JBLOCK), num_rows);
}

static void *request(j_common_ptr cinfo, int pool, struct cpu_jpeg_array array,
                     struct cpu_jpeg_array **list)
{
    struct cpu_jpeg_array *v;

    if (pool != JPOOL_IMAGE)
        ERREXIT1(cinfo, JERR_BAD_POOL_ID, pool);
    v = get(cinfo, sizeof(*v));
    array.number = *list ? (*list)->number + 1 : 0;
    array.next = *list;
    *v = array;
    return *list = v;
}

static jvirt_sarray_ptr request_sarray(j_common_ptr cinfo, int pool,
                                       boolean pre_zero, JDIMENSION samples,
                                       JDIMENSION num_rows,
                                       JDIMENSION max_access)
{
    return request(cinfo, pool,
                   (struct cpu_jpeg_array){.pitch = sample_pitch(samples),
                                           .num_rows = num_rows,
                                           .max_access = max_access,
                                           .pre_zero = pre_zero},
                   &memory_of(cinfo)->sarrays);
}

static jvirt_barray_ptr request_barray(j_common_ptr cinfo, int pool,
                                       boolean pre_zero, JDIMENSION blocks,
                                       JDIMENSION num_rows,
                                       JDIMENSION max_access)
{
    return request(cinfo, pool,
                   (struct cpu_jpeg_array){.pitch = blocks * sizeof(JBLOCK),
                                           .num_rows = num_rows,
                                           .max_access = max_access,
                                           .pre_zero = pre_zero,
                                           .ring = memory_of(cinfo)->ring},
                   &memory_of(cinfo)->barrays);
}

static size_t rows_of(const struct cpu_jpeg_array *v)
{
    return v->ring ? v->max_access : v->num_rows;
}

static void realize(j_common_ptr cinfo)
{
    struct cpu_jpeg_memory *m = memory_of(cinfo);
    struct cpu_jpeg_array *lists[] = {m->sarrays, m->barrays};

    for (int i = 0; i < 2; i++)
        for (struct cpu_jpeg_array *v = lists[i]; v; v = v->next)
            if (!v->rows)
                v->rows = alloc_rows(cinfo, JPOOL_IMAGE, v->pitch, rows_of(v));
}

// Returns where row start is, of which n are asked for. Rows are zeroed only
// when they are first reached: a picture that ends early never touches the rest
// of its memory. In a ring, rows below all that were reached take the place of
// those.
static JDIMENSION access_rows(j_common_ptr cinfo, struct cpu_jpeg_array *v,
                              JDIMENSION start, JDIMENSION n, boolean writable)
{
    bool may_define = v->ring
                          ? start >= v->defined
                          : v->pre_zero || (writable && start <= v->defined);
    JDIMENSION end = start + n, from = v->ring ? 0 : v->defined;

    // Reading rows that were never written is a bug of the caller, as in
    // jmemmgr.c.
    if (!v->rows || n > v->max_access || end < start || end > v->num_rows ||
        (end > v->defined && !may_define))
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    if (end > v->defined) {
        if (v->ring)
            v->first = start;
        if (v->pre_zero || v->ring)
            memset(v->rows + pointers(rows_of(v)) + from * v->pitch, 0,
                   (v->ring ? n : end - from) * v->pitch);
        v->defined = end;
    }
    if (start < v->first)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return start - v->first;
}

static JSAMPARRAY access_sarray(j_common_ptr cinfo, jvirt_sarray_ptr v,
                                JDIMENSION start, JDIMENSION n,
                                boolean writable)
{
    start = access_rows(cinfo, &v->is, start, n, writable);
    return (JSAMPARRAY)(void *)v->is.rows + start;
}

static JBLOCKARRAY access_barray(j_common_ptr cinfo, jvirt_barray_ptr v,
                                 JDIMENSION start, JDIMENSION n,
                                 boolean writable)
{
    start = access_rows(cinfo, &v->is, start, n, writable);
    return (JBLOCKARRAY)(void *)v->is.rows + start;
}

static void free_pool(j_common_ptr cinfo, int pool)
{
    struct cpu_jpeg_memory *m = memory_of(cinfo);

    if (pool != JPOOL_IMAGE)
        return;
    m->sarrays = NULL;
    m->barrays = NULL;
}

static void self_destruct(j_common_ptr cinfo)
{
    free_pool(cinfo, JPOOL_IMAGE);
    cinfo->mem = NULL;
}

JBLOCKARRAY cpu_jpeg_memory_blocks(const struct cpu_jpeg_memory *m, int i)
{
    for (struct cpu_jpeg_array *v = m->barrays; v; v = v->next)
        if (v->number == i)
            return (JBLOCKARRAY)(void *)v->rows;
    return NULL;
}

void cpu_jpeg_memory_init(struct cpu_jpeg_memory *m, struct cpu_pool *pool)
{
    *m = (struct cpu_jpeg_memory){
        .pub =
            {
                .alloc_small = alloc_any,
                .alloc_large = alloc_any,
                .alloc_sarray = alloc_sarray,
                .alloc_barray = alloc_barray,
                .request_virt_sarray = request_sarray,
                .request_virt_barray = request_barray,
                .realize_virt_arrays = realize,
                .access_virt_sarray = access_sarray,
                .access_virt_barray = access_barray,
                .free_pool = free_pool,
                .self_destruct = self_destruct,
                .max_alloc_chunk = 1000000000L,
            },
        .pool = pool,
    };
}
