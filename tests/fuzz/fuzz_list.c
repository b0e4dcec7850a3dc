// SPDX-License-Identifier: Apache-2.0
// Fuzz target of lists of files and URLs. The first byte says what ends an
// entry, and whether the list is one of the web. Nothing is opened or asked
// for: each entry is a sample with a name and a class, or a fault.
#define _GNU_SOURCE  // memfd_create
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "loader/source/source.h"

static void look(hr_source s)
{
    char name[PATH_MAX], path[PATH_MAX];
    const char *const *classes;
    size_t num;

    promise((classes = hr_source_classes(s, &num)));
    for (uint64_t i = 0; i < s->num; i++) {
        int64_t number = hr_source_class(s, i);

        promise(hr_source_name(s, i, name, sizeof(name)));
        promise(hr_source_path(s, i, path, sizeof(path)));
        promise(!strstr(name, "/../") && strncmp(name, "../", 3));
        promise(!hr__http_is_url(path) || !strchr(path, '?'));
        promise(number < (int64_t)num || number >= HR__SOURCE_NUMBERS);
        promise(number < 0 || number >= (int64_t)num || classes[number]);
    }
    promise(hr_source_identity(s) == hr_source_identity(s));
}

// As of a list of the web, entry by entry.
static void listed(hr_source s, const char *text)
{
    char folder[] = "http://host/a/";

    if (*text && strlen(text) < 8000)
        promise(
            hr__source_put_listed(hr__source_of(s), folder, text, false, ""));
    hr__source_added(hr__source_of(s), true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    hr_source s;
    bool zero;

    if (!size)
        return 0;
    if (fd < 0) {
        promise((fd = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    zero = *data & 1;
    promise(!ftruncate(fd, 0) &&
            pwrite(fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
    promise((s = hr_source_create()));
    if (*data & 2) {
        char *text = strndup((const char *)data + 1, size - 1);

        promise(text);
        listed(s, text);
        free(text);
    } else {
        hr_source_add_list(s, path, zero);
    }
    look(s);
    hr_source_close(&s);
    return 0;
}
