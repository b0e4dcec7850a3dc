// SPDX-License-Identifier: Apache-2.0
// The CPU time that the process may use at most: the least quota of its own
// cgroup and of each one above it, in versions 1 and 2 of cgroups. (Slices of
// systemd and jobs of Slurm set a quota below the root of the mount.)
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "hal/base/base.h"

enum { LINE = 2 * PATH_MAX + 1024 };

// A hierarchy that is mounted: `at`, and which group that shows.
struct mount {
    char root[PATH_MAX], at[PATH_MAX];
    bool v2;
};

// Says whether a comma separated list has the word.
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    while (list) {
        size_t size = strcspn(list, ",\n");

        if (size == length && !memcmp(list, word, length))
            return true;
        if ((list = strchr(list, ',')))
            list++;
    }
    return false;
}

// "ID PARENT DEVICE ROOT PLACE OPTIONS ... - TYPE SOURCE OPTIONS"
static bool read_mount(const char *line, struct mount *m)
{
    const char *rest = strstr(line, " - ");
    char type[16], options[256];

    if (!rest ||
        sscanf(line, "%*s %*s %*s %4095s %4095s", m->root, m->at) != 2 ||
        sscanf(rest, " - %15s %*s %255s", type, options) != 2)
        return false;
    m->v2 = !strcmp(type, "cgroup2");
    return m->v2 || (!strcmp(type, "cgroup") && has_word(options, "cpu"));
}

// "NUMBER:CONTROLLERS:PATH", where version 2 has no controllers.
static bool read_group(const char *line, bool v2, char path[PATH_MAX])
{
    const char *list = strchr(line, ':'),
               *at = list ? strchr(++list, ':') : NULL;
    char names[256];

    if (!at || at - list >= (ptrdiff_t)sizeof(names))
        return false;
    snprintf(names, sizeof(names), "%.*s", (int)(at - list), list);
    snprintf(path, PATH_MAX, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    return v2 ? !*names : has_word(names, "cpu");
}

static bool find_group(const char *cgroup, bool v2, char path[PATH_MAX])
{
    FILE *f = fopen(cgroup, "re");
    char line[LINE];
    bool found = false;

    while (f && !found && fgets(line, sizeof(line), f))
        found = read_group(line, v2, path);
    if (f)
        fclose(f);
    return found;
}

static bool read_number(const char *folder, const char *name, long long *value)
{
    char path[3 * PATH_MAX];
    FILE *f;
    bool ok;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    ok = (f = fopen(path, "re")) && fscanf(f, "%lld", value) == 1;
    if (f)
        fclose(f);
    return ok;
}

// Version 2 has one file with "QUOTA PERIOD", where a quota may be "max".
static int quota_of(const char *folder, bool v2)
{
    long long quota = -1, period = 0;
    char path[3 * PATH_MAX];
    FILE *f;

    if (v2) {
        snprintf(path, sizeof(path), "%s/cpu.max", folder);
        if ((f = fopen(path, "re"))) {
            if (fscanf(f, "%lld %lld", &quota, &period) != 2)
                quota = -1;
            fclose(f);
        }
    } else if (!read_number(folder, "cpu.cfs_quota_us", &quota) ||
               !read_number(folder, "cpu.cfs_period_us", &period)) {
        quota = -1;
    }
    if (quota <= 0 || period <= 0)
        return 0;
    quota = quota / period + (quota % period != 0);
    return quota < INT_MAX ? (int)quota : INT_MAX;
}

// The least from the group up to what is mounted.
static int least_quota(const struct mount *m, const char *group)
{
    char folder[2 * PATH_MAX];
    size_t root = strcmp(m->root, "/") ? strlen(m->root) : 0,
           base = strlen(m->at);
    bool below = !strncmp(group, m->root, root) &&
                 (!group[root] || group[root] == '/');
    int least = 0;

    // (What a container sees of the path of its group may be another's.)
    snprintf(folder, sizeof(folder), "%s%s", m->at, below ? group + root : "");
    for (;;) {
        int quota = quota_of(folder, m->v2);
        char *slash;

        if (quota && (!least || quota < least))
            least = quota;
        if (strlen(folder) <= base || !(slash = strrchr(folder, '/')))
            return least;
        *slash = '\0';
        if (strlen(folder) < base)
            return least;
    }
}

int hr__quota_cores(const char *cgroup, const char *mountinfo)
{
    FILE *f = fopen(mountinfo, "re");
    char line[LINE], group[PATH_MAX];
    struct mount m;
    int least = 0;

    while (f && fgets(line, sizeof(line), f)) {
        int quota = read_mount(line, &m) && find_group(cgroup, m.v2, group)
                        ? least_quota(&m, group)
                        : 0;

        if (quota && (!least || quota < least))
            least = quota;
    }
    if (f)
        fclose(f);
    return least;
}
