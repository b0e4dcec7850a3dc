// SPDX-License-Identifier: Apache-2.0
// Descriptors of this process, by what they are of; memory that is lost.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>

#include "testing.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

// PoCL's compiler has signal stacks of its own. And where a thread's variables
// of a loaded library lie 16 bytes behind a page's begin, the search for lost
// memory takes them for those of glibc before 2.25 and dies; without that it
// finds them by the loader's own pointers.
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "use_sigaltstack=0:intercept_tls_get_addr=0";
}
#endif

enum { MAX_FDS = 1024, TARGET = 120, OF_HUNG_DEVICE = 26 };

// The files that were open, by descriptor; "" = none.
static char before[MAX_FDS][TARGET];
static int kept;  // may stay

static bool target_of(int fd, char out[TARGET])
{
    char path[40];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, out, TARGET - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

// Opened for good by a driver of OpenCL at its first call: its own libraries,
// compiler and caches. Anything else is ours: eventfds, pictures, render nodes.
static bool of_driver(const char *target)
{
    const char *const theirs[] = {"pocl",     "mesa_shader_cache",
                                  "/usr/",    "/etc/OpenCL",
                                  "oclgrind", "/dev/nvidia"};

    for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
        if (strstr(target, theirs[i]))
            return true;
    return false;
}

// Counts descriptors that were not there before, and names the first of them.
static int new_fds(char first[TARGET])
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;
    char target[TARGET];
    int n = 0;

    while (dir && (e = readdir(dir))) {
        int fd = atoi(e->d_name);

        if (e->d_name[0] == '.' || fd == dirfd(dir) || fd >= MAX_FDS ||
            !target_of(fd, target) || !strcmp(target, before[fd]) ||
            of_driver(target))
            continue;
        if (!n++)
            memcpy(first, target, TARGET);
    }
    if (dir)
        closedir(dir);
    return n;
}

void test_fds_begin(void)
{
    for (int fd = 0; fd < MAX_FDS; fd++)
        target_of(fd, before[fd]);
    kept = 0;
}

void test_hung(int devices)
{
    kept += devices * OF_HUNG_DEVICE;
}

bool test_leaks(const char *after)
{
#if defined(__SANITIZE_ADDRESS__)
    // (Hidden, they would be those of the library, which are none.)
    if (dlsym(RTLD_DEFAULT, "__asan_default_options") !=
        (void *)__asan_default_options) {
        fprintf(stderr, "\n%s: AddressSanitizer has not our options\n", after);
        return true;
    }
    if (getenv("HEADRACE_TEST_LEAKS") && __lsan_do_recoverable_leak_check()) {
        fprintf(stderr, "\n%s: memory was lost\n", after);
        return true;
    }
#endif
    (void)after;
    return false;
}

int test_fds_left(const char *after)
{
    char first[TARGET] = "";
    int n = new_fds(first);

    // A device may still be on its way down, on a thread of its own, which may
    // get no processor for seconds.
    for (int i = 0; i < 6000 && n > kept; i++) {
        test_sleep(10 * TEST_MS);
        n = new_fds(first);
    }
    if (n <= kept)
        return 0;
    fprintf(stderr, "\n%s: %d descriptors were left open: %s\n", after, n,
            first);
    return n;
}
