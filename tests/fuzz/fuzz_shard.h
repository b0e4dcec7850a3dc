// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of files with many samples: the file, and a reader
// of every file that opens.
#ifndef HEADRACE_TESTS_FUZZ_SHARD_H
#define HEADRACE_TESTS_FUZZ_SHARD_H

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "loader/source/source.h"

// A file of these bytes; its path, which does not change.
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];

    if (fd < 0) {
        promise((fd = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    promise(!ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
    return path;
}

// Names are relative paths, no sample lies outside of the file, and each can be
// read, or its checksum is wrong.
static inline void fuzz_read_all(const struct hr__source *s, size_t size)
{
    struct hr_encoded to = {0};
    char name[PATH_MAX];

    for (uint64_t i = 0; i < s->num; i++) {
        struct hr__range range;

        promise(hr__source_shard(s, i, &range));
        promise(range.size <= size && range.offset <= size - range.size);
        promise(hr_source_name(&s->pub, i, name, sizeof(name)) && *name &&
                *name != '/' && strncmp(name, "../", 3));
        promise(strlen(hr_source_item(&s->pub, i).label) < PATH_MAX);
        promise(!hr_source_read(&s->pub, i, size + 1, &to) ||
                hr_last_status() == HR_ECORRUPT);
        promise(to.size <= size);
    }
    hr_encoded_finish(&to);
}

// Adds the file at path, of size bytes, to a source, and reads all of it.
static inline void fuzz_source(const struct hr__container *of, const char *path,
                               size_t size)
{
    hr_source source = hr_source_create();
    struct hr__source *s = hr__source_of(source);

    promise(source);
    if (of->add(s, path)) {
        s->pub.num = s->num;
        fuzz_read_all(s, size);
    }
    hr_source_close(&source);
}

#endif
