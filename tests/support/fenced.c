// SPDX-License-Identifier: Apache-2.0
#include "fenced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fenced_init(struct fenced *f, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (size + page - 1) / page * page;

    f->size = body + page;
    f->map = mmap(NULL, f->size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->map == MAP_FAILED || mprotect(f->map + body, page, PROT_NONE)) {
        perror("fenced memory");
        abort();
    }
    f->end = f->map + body;
}

uint8_t *fenced_copy(struct fenced *f, const uint8_t *from, size_t size)
{
    fenced_init(f, size);
    if (size)
        memcpy(f->end - size, from, size);
    return f->end - size;
}

void fenced_finish(struct fenced *f)
{
    munmap(f->map, f->size);
}
