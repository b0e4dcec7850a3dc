// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened at run time; and which file of a driver this
// process has loaded, for keys of what is kept on disk: drivers change without
// their names and versions changing.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hal/base/base.h"

struct search {
    uintptr_t at;
    char *text;
    size_t size;
};

static bool holds(const struct dl_phdr_info *object, uintptr_t at)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_LOAD && at >= begin && at - begin < p->p_memsz)
            return true;
    }
    return false;
}

static size_t whole(uint32_t size)
{
    return ((size_t)size + 3) / 4 * 4;
}

// The linker's hash of all that is in it, if it made one.
static bool write_build_id(const uint8_t *note, size_t left,
                           const struct search *s)
{
    ElfW(Nhdr) head;

    while (left >= sizeof(head)) {
        size_t name, size;

        memcpy(&head, note, sizeof(head));
        name = whole(head.n_namesz);
        size = whole(head.n_descsz);
        note += sizeof(head);
        left -= sizeof(head);
        if (name > left || size > left - name)
            return false;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            !memcmp(note, "GNU", 4) && head.n_descsz) {
            for (size_t i = 0, n = 0; i < head.n_descsz && n + 3 <= s->size;
                 i++, n += 2)
                snprintf(s->text + n, s->size - n, "%02x", note[name + i]);
            return true;
        }
        note += name + size;
        left -= name + size;
    }
    return false;
}

static void write_file(const char *path, const struct search *s)
{
    struct stat st;

    if (stat(path, &st))
        return;
    snprintf(s->text, s->size, "%lld %lld.%09ld %s", (long long)st.st_size,
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, path);
    for (char *c = s->text; *c; c++)
        *c = *c == '\n' ? '?' : *c;
}

static int look(struct dl_phdr_info *object, size_t size, void *arg)
{
    const struct search *s = arg;

    (void)size;
    if (!holds(object, s->at))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        uintptr_t begin = object->dlpi_addr + p->p_vaddr;

        // (An address of a loaded object: its own notes lie there, too.)
        if (p->p_type == PT_NOTE && holds(object, begin) &&
            write_build_id((const uint8_t *)begin, p->p_memsz, s))
            return 1;
    }
    write_file(object->dlpi_name, s);
    return 1;
}

void hr__library_text(uintptr_t address, char *text, size_t size)
{
    struct search s = {address, text, size};

    *text = '\0';
    if (address)
        dl_iterate_phdr(look, &s);
}

#ifndef HR_HAVE_WEBP
#define HR_HAVE_WEBP 0
#endif
#ifndef HR_HAVE_ARCHIVE
#define HR_HAVE_ARCHIVE 0
#endif
#ifndef HR_HAVE_CURL
#define HR_HAVE_CURL 0
#endif
#ifndef HR_HAVE_OPENCL
#define HR_HAVE_OPENCL 0
#endif
#ifndef HR_HAVE_VAAPI
#define HR_HAVE_VAAPI 0
#endif
#ifndef HR_HAVE_HWLOC
#define HR_HAVE_HWLOC 0
#endif

static const struct hr_library_info libraries[] = {
    [HR__LIBRARY_WEBP] = {"libwebp", "WebP pictures", "libwebp7", HR_HAVE_WEBP,
                          .linked = true},
    [HR__LIBRARY_ARCHIVE] = {"libarchive.so.13", "tar files as sources",
                             "libarchive13", HR_HAVE_ARCHIVE, .linked = false},
    [HR__LIBRARY_CURL] = {"libcurl.so.4", "URLs as sources", "libcurl4",
                          HR_HAVE_CURL, .linked = false},
    [HR__LIBRARY_OPENCL] = {"libOpenCL.so.1", "OpenCL devices",
                            "ocl-icd-libopencl1", HR_HAVE_OPENCL,
                            .variable = "HEADRACE_OPENCL_LIBRARY"},
    [HR__LIBRARY_VA] = {"libva.so.2", "VA-API devices", "libva2", HR_HAVE_VAAPI,
                        .variable = "HEADRACE_VAAPI_LIBRARY"},
    [HR__LIBRARY_VA_DRM] = {"libva-drm.so.2", "VA-API devices", "libva-drm2",
                            HR_HAVE_VAAPI,
                            .variable = "HEADRACE_VAAPI_DRM_LIBRARY"},
    [HR__LIBRARY_HWLOC] = {"libhwloc.so.15", "threads on NUMA nodes",
                           "libhwloc15", HR_HAVE_HWLOC, .linked = false},
};

void *hr__library_open(enum hr__library library)
{
    const struct hr_library_info *l = &libraries[library];
    const char *other = l->variable ? secure_getenv(l->variable) : NULL;

    return dlopen(other && *other ? other : l->name, RTLD_NOW | RTLD_LOCAL);
}

const struct hr_library_info *hr_library_info(int number)
{
    size_t n = sizeof(libraries) / sizeof(*libraries);

    return (unsigned)number < n ? &libraries[number] : NULL;
}

bool hr_library_found(int number)
{
    const struct hr_library_info *info = hr_library_info(number);
    void *handle;

    if (!info || !info->built || info->linked)
        return info && info->built;
    handle = hr__library_open((enum hr__library)number);
    if (handle)
        dlclose(handle);
    return handle;
}

const char *hr__library_fill(void *library, void *table,
                             const struct hr__entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *entry = dlsym(library, entries[i].name);

        if (!entry && !entries[i].optional)
            return entries[i].name;
        memcpy((char *)table + entries[i].at, &entry, sizeof(entry));
    }
    return NULL;
}
