// SPDX-License-Identifier: Apache-2.0
// Fuzz target of pack files. The first byte says whether the checksums are made
// right, so that the code behind them is reached, too. All pictures of a file
// that opens are read: each is found by its name, and none lies outside.
#define _GNU_SOURCE  // memfd_create
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "loader/pack/format.h"

static void seal(uint8_t *data, size_t size)
{
    struct pack_header h;
    uint64_t index;

    if (size < sizeof(h))
        return;
    memcpy(&h, data, sizeof(h));
    h.bytes = htole64(size);
    index = le64toh(h.index);
    if (index <= size)
        h.index_sum = htole64(pack_sum(data + index, size - (size_t)index));
    h.sum = htole64(pack_header_sum(&h));
    memcpy(data, &h, sizeof(h));
}

// The sum of all bytes, so that all are read.
static volatile uint8_t sum;

static void read_all(hr_pack_file file, size_t size)
{
    for (size_t i = 0; i < file->num; i++) {
        struct hr_sample s = {0};
        struct hr_pack_entry e;
        size_t found;

        promise(!hr_pack_entry(file, i, &e));
        promise(e.size <= size && *e.name && strlen(e.label) < 4096);
        promise(!hr_pack_find(file, e.name, strlen(e.name), &found));
        promise(found == i);
        if (!hr_pack_check(file, i) && !hr_pack_sample(file, i, &s))
            for (size_t k = 0; k < s.size; k++)
                sum ^= ((const uint8_t *)s.data)[k];
    }
}

// A file that opens also opens as an index that comes bit by bit, and no other
// file does.
static void in_parts(const uint8_t *data, size_t size, bool opens)
{
    struct pack_header head = {0};
    enum hr_status status;
    struct pack_view v;
    uint8_t *index;

    if (size)
        memcpy(&head, data, size < sizeof(head) ? size : sizeof(head));
    status = pack_view_head(&v, &head, size);
    if (status) {
        promise(!opens);
        return;
    }
    promise(index = malloc((size_t)v.index_size + 1));
    memcpy(index, data + v.index_at, (size_t)v.index_size);
    for (uint64_t n = 0; n <= v.index_size && !status; n += 100)
        status = pack_view_part(&v, index, n);
    if (!status)
        status = pack_view_index(&v, index);
    promise(opens == !status && (opens || *v.why));
    free(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    hr_pack_file file;
    uint8_t *copy;

    if (!size)
        return 0;
    if (fd < 0) {
        promise((fd = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    promise(copy = malloc(size));
    memcpy(copy, data + 1, --size);
    if (*data & 1)
        seal(copy, size);
    promise(!ftruncate(fd, 0) && pwrite(fd, copy, size, 0) == (ssize_t)size);
    if ((file = hr_pack_open(path)))
        read_all(file, size);
    in_parts(copy, size, file);
    free(copy);
    hr_pack_close(&file);
    return 0;
}
