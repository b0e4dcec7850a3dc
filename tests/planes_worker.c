// SPDX-License-Identifier: Apache-2.0
#include "planes_worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "testing.h"

// ---- Memory that ends where it may no longer be read -----------------------

uint8_t *fenced_copy(struct fenced *f, const uint8_t *from, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (size + page - 1) / page * page;

    f->size = body + page;
    f->map = mmap(NULL, f->size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->map == MAP_FAILED || mprotect(f->map + body, page, PROT_NONE))
        abort();
    if (size)
        memcpy(f->map + body - size, from, size);
    return f->map + body - size;
}

void fenced_finish(struct fenced *f)
{
    munmap(f->map, f->size);
}

// ---- Instruction sets ------------------------------------------------------

const struct planes_level planes_levels[PLANES_LEVELS] = {
    {"c", CPU_FLAG_C},
    {"avx2", CPU_FLAG_C | CPU_FLAG_AVX2},
    {"avx512", CPU_FLAG_C | CPU_FLAG_AVX2 | CPU_FLAG_AVX512},
};

bool planes_level_ops(int i, struct cpu_ops *ops)
{
    static bool said[3];

    cpu_ops_init(ops, planes_levels[i].flags);
    if (!strcmp(ops->name, planes_levels[i].name))
        return true;
    if (!said[i])
        test_not_run(planes_levels[i].name);
    said[i] = true;
    return false;
}
