// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD into programs that know nothing of this driver: libva takes
// any descriptor for a DRM node. Programs of our own define
// drmGetNodeTypeFromFd() themselves and are linked with -rdynamic.
enum { RENDER_NODE = 2 };

__attribute__((visibility("default"))) int drmGetNodeTypeFromFd(int fd);

int drmGetNodeTypeFromFd(int fd)
{
    (void)fd;
    return RENDER_NODE;
}
