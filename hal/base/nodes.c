// SPDX-License-Identifier: Apache-2.0
// NUMA nodes: memory is nearer to the cores of its own node, and a thread gets
// its memory where it touches it first. A thread that stays on one node has it
// near for good. hwloc knows the nodes; it is loaded only where there are
// several.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "hal/base/base.h"

#if HR_HAVE_HWLOC
#include <hwloc.h>
#endif

// (libhwloc.so.15 is that of version 2.)
#if HR_HAVE_HWLOC && HWLOC_API_VERSION >> 16 == 2

#define HWLOC_CALLS(X)           \
    X(hwloc_topology_init)       \
    X(hwloc_topology_load)       \
    X(hwloc_topology_destroy)    \
    X(hwloc_get_type_depth)      \
    X(hwloc_get_nbobjs_by_depth) \
    X(hwloc_get_obj_by_depth)    \
    X(hwloc_bitmap_isset)

struct calls {
#define X(name) __typeof__(&name) name;
    HWLOC_CALLS(X)
#undef X
};

static const struct hr__entry entries[] = {
#define X(name) {#name, offsetof(struct calls, name), false},
    HWLOC_CALLS(X)
#undef X
};

// Intersects each node's cores with `mine`. Skips empty nodes, and later nodes
// with the same cores.
static void find(struct hr__nodes *out, const struct calls *hwloc,
                 cpu_set_t *mine)
{
    hwloc_topology_t topology;
    int depth, n;

    if (hwloc->hwloc_topology_init(&topology))
        return;
    if (hwloc->hwloc_topology_load(topology))
        goto done;
    depth = hwloc->hwloc_get_type_depth(topology, HWLOC_OBJ_NUMANODE);
    n = (int)hwloc->hwloc_get_nbobjs_by_depth(topology, depth);
    for (int i = 0; i < n && out->num < HR__MAX_NODES; i++) {
        hwloc_obj_t node = hwloc->hwloc_get_obj_by_depth(topology, depth,
                                                         (unsigned)i);
        cpu_set_t *cpus = &out->cpus[out->num];

        CPU_ZERO(cpus);
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, mine) &&
                hwloc->hwloc_bitmap_isset(node->cpuset, cpu)) {
                CPU_SET(cpu, cpus);
                CPU_CLR(cpu, mine);
            }
        out->num += CPU_COUNT(cpus) > 0;
    }
done:
    hwloc->hwloc_topology_destroy(topology);
}

// Linux' list of the nodes it has ("0" or "0-3"), or a machine that hwloc is
// told to see. A program with more rights than its user loads nothing.
static bool may_be_several(void)
{
    const char *wish = secure_getenv("HEADRACE_NODES");
    char list[8] = "";
    FILE *f;

    if (getauxval(AT_SECURE) || (wish && !strcmp(wish, "off")))
        return false;
    if (secure_getenv("HWLOC_SYNTHETIC"))
        return true;
    if (!(f = fopen("/sys/devices/system/node/online", "re")))
        return false;
    if (!fgets(list, sizeof(list), f))
        *list = 0;
    fclose(f);
    return strchr(list, '-') || strchr(list, ',');
}

void hr__nodes_find(struct hr__nodes *out, int threads)
{
    struct calls hwloc = {0};
    cpu_set_t mine;
    void *library;

    out->num = 0;
    // (hwloc looks at the whole machine, which takes a large one long.)
    if (sched_getaffinity(0, sizeof(mine), &mine) ||
        threads < CPU_COUNT(&mine) || !may_be_several())
        return;
    if (!(library = hr__library_open(HR__LIBRARY_HWLOC)))
        return;
    if (!hr__library_fill(library, &hwloc, entries,
                          sizeof(entries) / sizeof(*entries)))
        find(out, &hwloc, &mine);
    dlclose(library);
    if (out->num < 2)
        out->num = 0;
}

#else

void hr__nodes_find(struct hr__nodes *out, int threads)
{
    (void)threads;
    out->num = 0;
}

#endif

// Each thread goes where it finds the most cores for itself.
const cpu_set_t *hr__nodes_cpus(const struct hr__nodes *nodes, int i)
{
    int cores[HR__MAX_NODES], threads[HR__MAX_NODES] = {0}, to = 0;

    for (int k = 0; k < nodes->num; k++)
        cores[k] = CPU_COUNT(&nodes->cpus[k]);
    for (; i >= 0; i--) {
        to = 0;
        for (int k = 1; k < nodes->num; k++)
            if ((threads[k] + 1) * cores[to] < (threads[to] + 1) * cores[k])
                to = k;
        threads[to]++;
    }
    return &nodes->cpus[to];
}
