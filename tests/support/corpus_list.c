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

static const char *corpus_root(void)
{
    const char *given = getenv("HEADRACE_CORPUS");

    return given ? given : HR_SOURCE_DIR "/../shared/corpus";
}

bool corpus_open(void)
{
    char path[1100];

    snprintf(folder, sizeof(folder), "%s", corpus_root());
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

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && entry->d_type != DT_DIR;
}

bool corpus_folder_open(struct corpus_folder *f, const char *below)
{
    *f = (struct corpus_folder){.num = 0};
    snprintf(f->root, sizeof(f->root), "%s/%s", corpus_root(), below);
    f->num = scandir(f->root, &f->entries, is_file, alphasort);
    return f->num >= 0;
}

bool corpus_folder_next(struct corpus_folder *f, int step)
{
    if (f->next >= f->num)
        return false;
    f->name = f->entries[f->next]->d_name;
    snprintf(f->path, sizeof(f->path), "%s/%s", f->root, f->name);
    f->next += step;
    return true;
}

void corpus_folder_close(struct corpus_folder *f)
{
    for (int i = 0; i < f->num; i++)
        free(f->entries[i]);
    free(f->entries);
}
