// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened at run time; and which file of a driver this process
// has loaded, for keys of what is kept on disk: drivers change without their names
// and versions changing.
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

void *hr__library_open(const char *variable, const char *name)
{
    const char *other = variable ? secure_getenv(variable) : NULL;

    return dlopen(other && *other ? other : name, RTLD_NOW | RTLD_LOCAL);
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
