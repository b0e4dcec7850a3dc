// SPDX-License-Identifier: Apache-2.0
// A plain main() for a fuzz target: runs it once on each file given, and on
// each file of the folders given. Needs no fuzzing engine, so that inputs
// which once failed run with every build.
//   fuzz_x_replay FILE|FOLDER ...
// Exit code 77: there was nothing to run.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

struct counts {
    unsigned long files, folders, unreadable, missing;
    unsigned long long bytes;
};

enum { MAX_DEPTH = 16 };

static void complain(const char *path, struct counts *n)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    n->unreadable++;
}

// The block has the file's size exactly: reading past it is seen.
static void replay_file(const char *path, size_t size, struct counts *n)
{
    uint8_t *data = malloc(size ? size : 1);
    FILE *f = fopen(path, "rb");

    if (!data || !f || fread(data, 1, size, f) != size) {
        complain(path, n);
    } else {
        // The name of the input that crashes is the last one printed.
        if (getenv("HR_FUZZ_VERBOSE"))
            fprintf(stderr, "%s\n", path);
        LLVMFuzzerTestOneInput(data, size);
        n->files++;
        n->bytes += size;
    }
    if (f)
        fclose(f);
    free(data);
}

static void replay(const char *path, int depth, struct counts *n)
{
    struct stat st;
    struct dirent *entry;
    DIR *dir;

    if (stat(path, &st) < 0) {
        complain(path, n);
        return;
    }
    if (S_ISREG(st.st_mode)) {
        replay_file(path, (size_t)st.st_size, n);
        return;
    }
    if (!S_ISDIR(st.st_mode) || depth == MAX_DEPTH)
        return;
    dir = opendir(path);
    if (!dir) {
        complain(path, n);
        return;
    }
    n->folders++;
    while ((entry = readdir(dir))) {
        size_t size = strlen(path) + strlen(entry->d_name) + 2;
        char *name = malloc(size);

        if (!name)
            abort();
        snprintf(name, size, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            replay(name, depth + 1, n);
        free(name);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    struct counts n = {0};
    struct stat st;

    for (int i = 1; i < argc; i++) {
        if (stat(argv[i], &st) < 0 && errno == ENOENT) {
            printf("%s: not there, not run\n", argv[i]);
            n.missing++;
        } else {
            replay(argv[i], 0, &n);
        }
    }
    printf("%lu inputs, %llu bytes, %lu folders; %lu unreadable, %lu missing\n",
           n.files, n.bytes, n.folders, n.unreadable, n.missing);
    if (n.unreadable)
        return 1;
    return n.files ? 0 : 77;
}
