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

// libjpeg declares these two and leaves them to the memory manager.
struct jvirt_sarray_control {
    JSAMPARRAY rows;  // NULL until realized
    JDIMENSION num_rows, row_samples, max_access;
    boolean pre_zero;
    JDIMENSION defined;  // rows that were handed out for writing or zeroed
    jvirt_sarray_ptr next;
};

struct jvirt_barray_control {
    JBLOCKARRAY rows;
    JDIMENSION num_rows, row_blocks, max_access;
    boolean pre_zero;
    JDIMENSION defined;
    JDIMENSION first;  // a ring: the row that rows[0] is now
    bool ring;
    int number;
    jvirt_barray_ptr next;
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

// Room for num_rows pointers and, at *data, the rows they point to: one
// allocation. All factors come from a JPEG header and are below 2^40.
static void *alloc_rows(j_common_ptr cinfo, int pool, size_t row_bytes,
                        size_t num_rows, void **data)
{
    size_t head = cpu_aligned(num_rows * sizeof(void *));
    unsigned char *p;

    if (num_rows && row_bytes > MAX_REQUEST / num_rows)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 1);
    p = alloc_any(cinfo, pool, head + row_bytes * num_rows);
    *data = p + head;
    return p;
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION samples,
                               JDIMENSION num_rows)
{
    size_t pitch = ((size_t)samples + ROW_ALIGN - 1) & ~(size_t)(ROW_ALIGN - 1);
    JSAMPARRAY rows;
    void *data;

    rows = alloc_rows(cinfo, pool, pitch * sizeof(JSAMPLE), num_rows, &data);
    for (JDIMENSION i = 0; i < num_rows; i++)
        rows[i] = (JSAMPROW)data + i * pitch;
    return rows;
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION blocks,
                                JDIMENSION num_rows)
{
    JBLOCKARRAY rows;
    void *data;

    rows = alloc_rows(cinfo, pool, blocks * sizeof(JBLOCK), num_rows, &data);
    for (JDIMENSION i = 0; i < num_rows; i++)
        rows[i] = (JBLOCKROW)data + i * (size_t)blocks;
    return rows;
}

static jvirt_sarray_ptr request_sarray(j_common_ptr cinfo, int pool,
                                       boolean pre_zero, JDIMENSION samples,
                                       JDIMENSION num_rows,
                                       JDIMENSION max_access)
{
    struct cpu_jpeg_memory *m = memory_of(cinfo);
    jvirt_sarray_ptr v;

    if (pool != JPOOL_IMAGE)
        ERREXIT1(cinfo, JERR_BAD_POOL_ID, pool);
    v = get(cinfo, sizeof(*v));
    *v = (struct jvirt_sarray_control){
        .num_rows = num_rows,
        .row_samples = samples,
        .max_access = max_access,
        .pre_zero = pre_zero,
        .next = m->sarrays,
    };
    m->sarrays = v;
    return v;
}

static jvirt_barray_ptr request_barray(j_common_ptr cinfo, int pool,
                                       boolean pre_zero, JDIMENSION blocks,
                                       JDIMENSION num_rows,
                                       JDIMENSION max_access)
{
    struct cpu_jpeg_memory *m = memory_of(cinfo);
    jvirt_barray_ptr v;

    if (pool != JPOOL_IMAGE)
        ERREXIT1(cinfo, JERR_BAD_POOL_ID, pool);
    v = get(cinfo, sizeof(*v));
    *v = (struct jvirt_barray_control){
        .num_rows = num_rows,
        .row_blocks = blocks,
        .max_access = max_access,
        .pre_zero = pre_zero,
        .ring = m->ring,
        .number = m->barrays ? m->barrays->number + 1 : 0,
        .next = m->barrays,
    };
    m->barrays = v;
    return v;
}

static void realize(j_common_ptr cinfo)
{
    struct cpu_jpeg_memory *m = memory_of(cinfo);

    for (jvirt_sarray_ptr v = m->sarrays; v; v = v->next)
        if (!v->rows)
            v->rows = alloc_sarray(cinfo, JPOOL_IMAGE, v->row_samples,
                                   v->num_rows);
    for (jvirt_barray_ptr v = m->barrays; v; v = v->next)
        if (!v->rows)
            v->rows = alloc_barray(cinfo, JPOOL_IMAGE, v->row_blocks,
                                   v->ring ? v->max_access : v->num_rows);
}

// Checks a request for rows [start, start + n) and returns the new number of
// defined rows. Rows are zeroed only when they are first reached: a picture
// that ends early never touches the rest of its memory.
static JDIMENSION access_end(j_common_ptr cinfo, const void *rows,
                             JDIMENSION num_rows, JDIMENSION max_access,
                             JDIMENSION defined, JDIMENSION start, JDIMENSION n,
                             bool may_define)
{
    JDIMENSION end = start + n;

    if (!rows || n > max_access || end < start || end > num_rows)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    if (end <= defined)
        return defined;
    // Reading rows that were never written is a bug of the caller, as in
    // jmemmgr.c.
    if (!may_define)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return end;
}

static JSAMPARRAY access_sarray(j_common_ptr cinfo, jvirt_sarray_ptr v,
                                JDIMENSION start, JDIMENSION n,
                                boolean writable)
{
    bool ok = v->pre_zero || (writable && start <= v->defined);
    JDIMENSION end = access_end(cinfo, v->rows, v->num_rows, v->max_access,
                                v->defined, start, n, ok);

    for (; v->defined < end; v->defined++)
        if (v->pre_zero)
            memset(v->rows[v->defined], 0,
                   (size_t)v->row_samples * sizeof(JSAMPLE));
    return v->rows + start;
}

// Rows below all that were reached take the place of those.
static JBLOCKARRAY access_ring(j_common_ptr cinfo, jvirt_barray_ptr v,
                               JDIMENSION start, JDIMENSION n)
{
    JDIMENSION end = access_end(cinfo, v->rows, v->num_rows, v->max_access,
                                v->defined, start, n, start >= v->defined);

    if (end > v->defined) {
        for (JDIMENSION i = 0; i < n; i++)
            memset(v->rows[i], 0, (size_t)v->row_blocks * sizeof(JBLOCK));
        v->first = start;
        v->defined = end;
    }
    if (start < v->first)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return v->rows + (start - v->first);
}

static JBLOCKARRAY access_barray(j_common_ptr cinfo, jvirt_barray_ptr v,
                                 JDIMENSION start, JDIMENSION n,
                                 boolean writable)
{
    bool ok = v->pre_zero || (writable && start <= v->defined);
    JDIMENSION end;

    if (v->ring)
        return access_ring(cinfo, v, start, n);
    end = access_end(cinfo, v->rows, v->num_rows, v->max_access, v->defined,
                     start, n, ok);
    for (; v->defined < end; v->defined++)
        if (v->pre_zero)
            memset(v->rows[v->defined], 0,
                   (size_t)v->row_blocks * sizeof(JBLOCK));
    return v->rows + start;
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
    for (jvirt_barray_ptr v = m->barrays; v; v = v->next)
        if (v->number == i)
            return v->rows;
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
