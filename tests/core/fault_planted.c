// SPDX-License-Identifier: Apache-2.0
// A planted library: a program that loads it leaves a file behind.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void)
{
    const char *path = getenv("HEADRACE_TEST_PLANTED");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd >= 0)
        close(fd);
}
