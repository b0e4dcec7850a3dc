// SPDX-License-Identifier: Apache-2.0
// How many cores the quotas of cgroups pay for, where they may stand: files as
// the kernel writes them, in a folder of the test's.
#include <sys/stat.h>

#include "hal/base/base.h"
#include "testing.h"

static const char *dir;

// Writes a file of a group below the folder, which is made.
static void put(const char *group, const char *name, const char *text)
{
    char path[8192];

    snprintf(path, sizeof(path), "%s%s", dir, group);
    for (char *at = path + strlen(dir) + 1; (at = strchr(at, '/'));
         *at++ = '/') {
        *at = '\0';
        mkdir(path, 0700);
    }
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s%s/%s", dir, group, name);
    test_write(path, text, strlen(text));
}

// Returns the cores that these two files grant.
static int cores(const char *groups, const char *mounts)
{
    char cgroup[4200], mountinfo[4200];

    snprintf(cgroup, sizeof(cgroup), "%s/cgroup", dir);
    snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", dir);
    test_write(cgroup, groups, strlen(groups));
    test_write(mountinfo, mounts, strlen(mounts));
    return hr__quota_cores(cgroup, mountinfo);
}

static const char *mount(const char *root, const char *at, const char *type)
{
    static char text[9000];

    snprintf(text, sizeof(text),
             "23 1 0:2 / /proc rw - proc proc rw\n"
             "31 23 0:28 %s %s%s rw,nosuid shared:4 - %s\n",
             root, dir, at, type);
    return text;
}

TEST_CASE(version_2)
{
    const char *m = "cgroup2 cgroup2 rw,nsdelegate";

    dir = test_folder();
    put("/two", "cpu.max", "max 100000\n");
    put("/two/slice", "cpu.max", "350000 100000\n");
    put("/two/slice/job", "cpu.max", "max 100000\n");
    put("/two/slice/job/step", "cpu.max", "600000 100000\n");
    put("/two/slice/other", "cpu.max", "100000 100000\n");
    CHECK(cores("0::/slice/job/step\n", mount("/", "/two", m)) == 4, "a slice");
    CHECK(cores("0::/slice/other\n", mount("/", "/two", m)) == 1, "its own");
    CHECK(cores("0::/\n", mount("/", "/two", m)) == 0, "the root");
    CHECK(cores("0::/gone\n", mount("/", "/two", m)) == 0, "no such group");
    CHECK(cores("0::/slice/gone\n", mount("/", "/two", m)) == 4, "below one");
    // A container sees a part of it, under its own name or as the root.
    CHECK(cores("0::/slice/other\n", mount("/slice", "/two/slice", m)) == 1,
          "a part");
    CHECK(cores("0::/\n", mount("/", "/two/slice", m)) == 4, "a name space");
    CHECK(cores("0::/../../else\n", mount("/else", "/two/slice", m)) == 4,
          "of another");
    put("/two", "cpu.max", "50000 100000\n");
    CHECK(cores("0::/slice/job/step\n", mount("/", "/two", m)) == 1,
          "half a core");
    put("/two", "cpu.max", "nonsense");
    CHECK(cores("0::/slice/other\n", mount("/", "/two", m)) == 1, "nonsense");
    CHECK(cores("", mount("/", "/two", m)) == 0, "no group");
    CHECK(cores("0::/slice\n", "") == 0, "no mount");
    CHECK(hr__quota_cores("/no/such", "/no/such") == 0, "no files");
}

TEST_CASE(version_1)
{
    static const char groups[] = "9:name=systemd:/\n4:cpuset:/set\n"
                                 "2:cpu,cpuacct:/slurm/job_7\n0::/other\n";
    const char *m = "cgroup cgroup rw,cpu,cpuacct";

    dir = test_folder();
    put("/one", "cpu.cfs_quota_us", "-1\n");
    put("/one", "cpu.cfs_period_us", "100000\n");
    put("/one/slurm", "cpu.cfs_quota_us", "250000\n");
    put("/one/slurm", "cpu.cfs_period_us", "100000\n");
    put("/one/slurm/job_7", "cpu.cfs_quota_us", "50000\n");
    put("/one/slurm/job_7", "cpu.cfs_period_us", "50000\n");
    CHECK(cores(groups, mount("/", "/one", m)) == 1, "a job");
    CHECK(cores("2:cpu:/slurm/job_8\n", mount("/", "/one", m)) == 3,
          "above it");
    CHECK(cores("2:cpuset:/slurm/job_7\n", mount("/", "/one", m)) == 0,
          "another controller's group");
    CHECK(cores(groups, mount("/", "/one", "cgroup cgroup rw,cpuset")) == 0,
          "another controller");
    CHECK(cores(groups, mount("/slurm", "/one/slurm", m)) == 1, "a part");
    CHECK(cores("2:cpu:/\n", mount("/", "/one", m)) == 0, "the root");
}
