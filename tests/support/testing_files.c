// SPDX-License-Identifier: Apache-2.0
// Files and folders of tests, which go away with the program.
#define _GNU_SOURCE  // nftw()
#include <ftw.h>

#include "testing.h"

enum { MAX_FOLDERS = 64, MAX_FILES = 256 };

static char *folders[MAX_FOLDERS], *files[MAX_FILES];
static int num_folders, num_files;
static pid_t maker;

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    return remove(path);
}

// Children of fork() leave the folders to the process that made them.
static void remove_all(void)
{
    for (int i = 0; i < num_folders; i++) {
        if (getpid() == maker)
            nftw(folders[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(folders[i]);
    }
    for (int i = 0; i < num_files; i++)
        free(files[i]);
}

const char *test_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    char path[200];
    int n = snprintf(path, sizeof(path), "%s/headrace-test-XXXXXX",
                     tmp && *tmp ? tmp : "/tmp");

    if (n >= (int)sizeof(path) || num_folders == MAX_FOLDERS ||
        !mkdtemp(path)) {
        perror(path);
        abort();
    }
    if (!num_folders) {
        maker = getpid();
        atexit(remove_all);
    }
    return folders[num_folders++] = strdup(path);
}

bool test_drop_root(const char *folder)
{
    static const uid_t nobody = 65534;

    if (geteuid())
        return true;
    return !chown(folder, nobody, (gid_t)-1) && !seteuid(nobody);
}

void test_be_root_again(void)
{
    if (!getuid() && seteuid(0))
        abort();
}

const char *test_file(const struct bytes *b, const char *suffix)
{
    static const char *folder;
    char path[256];

    if (!folder)
        folder = test_folder();
    if (num_files == MAX_FILES)
        abort();
    snprintf(path, sizeof(path), "%s/%d%s", folder, num_files, suffix);
    test_write(path, b->data, b->size);
    return files[num_files++] = strdup(path);
}

size_t test_read(const char *path, char *to, size_t capacity)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, capacity - 1, f) : 0;

    if (f)
        fclose(f);
    to[n] = '\0';
    return n;
}

void test_write(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    /* fwrite() takes no null pointer, not even for no bytes. */
    if (!f || (size && fwrite(data, 1, size, f) != size) || fclose(f)) {
        perror(path);
        abort();
    }
}
