// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD into programs that know nothing of this driver: libva takes
// any descriptor for a DRM node, and says no more than this of it. Programs of
// our own define drmGetNodeTypeFromFd() themselves and are linked with
// -rdynamic.
#include <stdlib.h>

enum { RENDER_NODE = 2 };

__attribute__((visibility("default"))) int drmGetNodeTypeFromFd(int fd);
__attribute__((visibility("default"))) void *drmGetVersion(int fd);
__attribute__((visibility("default"))) void drmFreeVersion(void *version);

int drmGetNodeTypeFromFd(int fd)
{
    (void)fd;
    return RENDER_NODE;
}

// Laid out as libdrm's drmVersion.
struct version {
    int numbers[3];
    int name_size;
    char *name;
    int date_size;
    char *date;
    int text_size;
    char *text;
};

// GStreamer's "va" plugin insists on one.
void *drmGetVersion(int fd)
{
    static char name[] = "headrace", date[] = "20200101";
    struct version *v = calloc(1, sizeof(*v));

    (void)fd;
    if (v) {
        v->numbers[0] = 1;
        v->name = v->text = name;
        v->name_size = v->text_size = sizeof(name) - 1;
        v->date = date;
        v->date_size = sizeof(date) - 1;
    }
    return v;
}

void drmFreeVersion(void *version)
{
    free(version);
}
