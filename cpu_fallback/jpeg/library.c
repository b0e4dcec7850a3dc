// SPDX-License-Identifier: Apache-2.0
// Finds the version of the libjpeg-turbo that this process has loaded. Its API
// has no function for that, and the version of its headers is that of the
// build; but every library file of it carries the text "libjpeg-turbo version
// 2.1.5 (build ..)".
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include "cpu_fallback/decode.h"

#define TEXT_OF(x) #x
#define AS_TEXT(x) TEXT_OF(x)

static char found[64];

// Takes the version between the words and a blank from the n bytes at p. In
// this file's own copy of the words no number follows them.
static bool take_version(const char *p, size_t n)
{
    static const char words[] = "libjpeg-turbo version ";
    const char *end = p + n;

    while ((p = memmem(p, (size_t)(end - p), words, sizeof(words) - 1))) {
        size_t length = 0;

        p += sizeof(words) - 1;
        while (p + length < end && length < 32 &&
               strchr("0123456789.", p[length]) && p[length])
            length++;
        if (!length)
            continue;
        snprintf(found, sizeof(found), "libjpeg-turbo %.*s", (int)length, p);
        return true;
    }
    return false;
}

static bool holds(const struct dl_phdr_info *object, uintptr_t at)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];

        if (p->p_type == PT_LOAD &&
            at - (object->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

// at: what lies in the library that is meant.
static int look(struct dl_phdr_info *object, size_t size, void *at)
{
    (void)size;
    if (!holds(object, (uintptr_t)at))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];

        // Only the bytes that come from the file are text, and writable
        // segments may change meanwhile.
        if (p->p_type == PT_LOAD && p->p_flags & PF_R && !(p->p_flags & PF_W) &&
            take_version((const char *)(object->dlpi_addr + p->p_vaddr),
                         p->p_filesz))
            break;
    }
    return 1;
}

static void find(void)
{
    struct jpeg_error_mgr err;

    jpeg_std_error(&err);
    snprintf(found, sizeof(found), "libjpeg-turbo (built with %s)",
             AS_TEXT(LIBJPEG_TURBO_VERSION));
    // Its message, not one of its functions: an address of a function may be
    // that of a stub elsewhere.
    dl_iterate_phdr(look, (void *)err.jpeg_message_table[0]);
}

const char *cpu_jpeg_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find);
    return found;
}
