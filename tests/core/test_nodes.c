// SPDX-License-Identifier: Apache-2.0
// NUMA nodes: which thread stays on which, and that it does. hwloc is told of a
// machine with two nodes, one for each of this machine's first two cores.
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>

#include "hal/engine/base.h"
#include "testing.h"

#ifndef HR_HAVE_HWLOC
#define HR_HAVE_HWLOC 0
#endif

static void put_cores(struct hr__nodes *nodes, int first, int n)
{
    cpu_set_t *cpus = &nodes->cpus[nodes->num++];

    CPU_ZERO(cpus);
    for (int i = 0; i < n; i++)
        CPU_SET((unsigned)(first + i), cpus);
}

// Checks the node of each of the first n threads.
static void check_shares(const struct hr__nodes *nodes, int n, const int *want)
{
    int got[3] = {0};

    for (int i = 0; i < n; i++)
        for (int k = 0; k < nodes->num; k++)
            got[k] += hr__nodes_cpus(nodes, i) == &nodes->cpus[k];
    for (int k = 0; k < nodes->num; k++)
        CHECK(got[k] == want[k], "%d threads, node %d: %d", n, k, got[k]);
}

// Each node has threads by its number of cores, also of the first few of them.
TEST_CASE(shares)
{
    struct hr__nodes nodes = {.num = 0};

    put_cores(&nodes, 0, 8);
    put_cores(&nodes, 8, 8);
    put_cores(&nodes, 16, 16);
    check_shares(&nodes, 4, (const int[]){1, 1, 2});
    check_shares(&nodes, 8, (const int[]){2, 2, 4});
    check_shares(&nodes, 32, (const int[]){8, 8, 16});
    check_shares(&nodes, 64, (const int[]){16, 16, 32});
}

// ---- Found by hwloc --------------------------------------------------------

static bool two_nodes(cpu_set_t *mine)
{
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);

    if (library)
        dlclose(library);
    if (!HR_HAVE_HWLOC || !library ||
        sched_getaffinity(0, sizeof(*mine), mine) || !CPU_ISSET(0, mine) ||
        !CPU_ISSET(1, mine)) {
        test_not_run("no hwloc, or not the cores 0 and 1");
        return false;
    }
    setenv("HWLOC_SYNTHETIC", "numa:2 pu:1", 1);
    return true;
}

TEST_CASE(found)
{
    struct hr__nodes nodes;
    cpu_set_t mine, one;

    if (!two_nodes(&mine))
        return;
    hr__nodes_find(&nodes, CPU_COUNT(&mine) - 1);  // others may have the rest
    CU_ASSERT_EQUAL(nodes.num, 0);
    hr__nodes_find(&nodes, CPU_COUNT(&mine));
    CU_ASSERT_EQUAL_FATAL(nodes.num, 2);
    for (unsigned i = 0; i < 2; i++)
        CHECK(CPU_COUNT(&nodes.cpus[i]) == 1 && CPU_ISSET(i, &nodes.cpus[i]),
              "node %u has %d cores", i, CPU_COUNT(&nodes.cpus[i]));
    setenv("HEADRACE_NODES", "off", 1);
    hr__nodes_find(&nodes, CPU_COUNT(&mine));
    CU_ASSERT_EQUAL(nodes.num, 0);
    unsetenv("HEADRACE_NODES");
    // Only one of them has cores for us.
    CPU_ZERO(&one);
    CPU_SET(1, &one);
    CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
    hr__nodes_find(&nodes, CPU_COUNT(&mine));
    CU_ASSERT_EQUAL(nodes.num, 0);
    CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof(mine), &mine), 0);
    unsetenv("HWLOC_SYNTHETIC");
}

// Counts threads of the CPU engine, or only the ones bound to that core.
static int workers(int core)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    while (dir && (entry = readdir(dir))) {
        char path[300], name[32] = "";
        cpu_set_t cpus;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        if (!(f = fopen(path, "re")))
            continue;
        if (fgets(name, sizeof(name), f) && !strncmp(name, "cpu worker", 10) &&
            !sched_getaffinity(atoi(entry->d_name), sizeof(cpus), &cpus))
            n += core < 0 ||
                 (CPU_COUNT(&cpus) == 1 && CPU_ISSET((unsigned)core, &cpus));
        fclose(f);
    }
    if (dir)
        closedir(dir);
    return n;
}

TEST_CASE(threads)
{
    cpu_set_t mine;
    int n;

    if (!two_nodes(&mine))
        return;
    n = 2 * CPU_COUNT(&mine);
    for (int off = 0; off < 2; off++) {
        auto_device dev = NULL;

        if (off)
            setenv("HEADRACE_NODES", "off", 1);
        dev = hr_device_open("cpu", hr_device_params(.threads = n));
        CHECK(dev != NULL, "%s", hr_last_error());
        // (A thread has its name when it has begun.)
        for (int i = 0; i < 60000 && workers(-1) < n; i++)
            test_sleep(TEST_MS);
        for (int core = 0; core < 2; core++)
            CHECK(workers(core) == (off ? 0 : n / 2), "core %d: %d", core,
                  workers(core));
    }
    unsetenv("HEADRACE_NODES");
    unsetenv("HWLOC_SYNTHETIC");
}
