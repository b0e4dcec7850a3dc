// SPDX-License-Identifier: Apache-2.0
#include "corpus_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef HR_SOURCE_DIR
#define HR_SOURCE_DIR "."
#endif

static char folder[1024];
static FILE *manifest;

bool corpus_open(void)
{
    const char *given = getenv("HEADRACE_CORPUS");
    char path[1100];

    snprintf(folder, sizeof(folder), "%s",
             given ? given : HR_SOURCE_DIR "/../shared/corpus");
    snprintf(path, sizeof(path), "%s/MANIFEST.tsv", folder);
    if (!(manifest = fopen(path, "r")))
        printf("not run: %s is not there (HEADRACE_CORPUS)\n", path);
    return manifest;
}

bool corpus_next(struct corpus_entry *e)
{
    do {
        char *p = e->line;

        if (!fgets(e->line, sizeof(e->line), manifest))
            return false;
        p[strcspn(p, "\n")] = 0;
        for (int i = 0; i < CORPUS_COLUMNS; i++) {
            e->columns[i] = p;
            p += strcspn(p, "\t");
            if (*p)
                *p++ = 0;
        }
    } while (!strcmp(e->columns[CORPUS_FILE], "file"));  // the heads
    snprintf(e->path, sizeof(e->path), "%s/%s", folder,
             e->columns[CORPUS_FILE]);
    return true;
}

void corpus_rewind(void)
{
    rewind(manifest);
}

void corpus_close(void)
{
    fclose(manifest);
}
