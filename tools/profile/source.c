// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

// What may be held in memory; pictures beyond it are left out.
#define MEMORY_BYTES ((size_t)256 << 20)
#define DECODED_BYTES ((size_t)96 << 20)

static void *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "re");
    unsigned char *data = NULL;
    long length = -1;

    if (!f)
        return NULL;
    if (!fseek(f, 0, SEEK_END))
        length = ftell(f);
    rewind(f);
    if (length >= 0 && (data = malloc((size_t)length + 1))) {
        *size = fread(data, 1, (size_t)length, f);
        if (*size != (size_t)length) {
            free(data);
            data = NULL;
            errno = EIO;
        }
    }
    fclose(f);
    return data;
}

// Reads picture i. False: there is no such file any more, or no more room.
static bool load(struct profile_child *c, size_t i, size_t *held)
{
    char path[PATH_MAX];
    size_t at = c->num_sources;

    inputs_path(&c->run.in, i, path, sizeof(path));
    c->data[at] = read_file(path, &c->sizes[at]);
    if (!c->data[at])
        return true;  // left out
    *held += c->sizes[at];
    c->run.in.items[at] = c->run.in.items[i];
    c->num_sources++;
    return *held < MEMORY_BYTES;
}

// Decodes what was loaded as number i, with the decode of the ops.
static void decode(struct profile_child *c, size_t i, size_t *held)
{
    const struct hr_op *first = &c->run.opt.ops.ops[0];
    size_t at = c->num_sources;
    hr_image image = hr_decode(c->run.dev, c->data[i], c->sizes[i],
                               first->type == HR_OP_DECODE ? &first->decode
                                                           : NULL);

    if (image && hr_image_wait(image, HR_FOREVER) == HR_OK) {
        *held += image->size;
        c->images[at] = image;
        c->run.in.items[at] = c->run.in.items[i];
        c->num_sources++;
        return;
    }
    hr_image_release(&image);
}

static bool decode_all(struct profile_child *c)
{
    size_t n = c->num_sources, held = 0;

    if (!(c->images = calloc(n ? n : 1, sizeof(*c->images))))
        return false;
    c->num_sources = 0;
    for (size_t i = 0; i < n; i++) {
        if (held < DECODED_BYTES)
            decode(c, i, &held);
        free(c->data[i]);
        c->data[i] = NULL;
    }
    return true;
}

bool profile_source_open(struct profile_child *c)
{
    size_t n = c->run.total, held = 0;

    c->data = calloc(n, sizeof(*c->data));
    c->sizes = calloc(n, sizeof(*c->sizes));
    if (!c->data || !c->sizes) {
        tools_warn("out of memory");
        return false;
    }
    for (size_t i = 0; i < n && load(c, i, &held); i++)
        ;
    if (c->mode == PROFILE_DECODED && !decode_all(c)) {
        tools_warn("out of memory");
        return false;
    }
    if (!c->num_sources) {
        tools_warn("none of the pictures could be read");
        return false;
    }
    c->run.total = c->run.in.num = c->num_sources;
    return true;
}

bool profile_fill_up(struct profile_child *c)
{
    struct run *run = &c->run;
    size_t n = run->total, batch = (size_t)run->batch;
    size_t full = (n + batch - 1) / batch * batch;
    struct inputs_item *items = realloc(run->in.items, full * sizeof(*items));

    if (!items) {
        tools_warn("out of memory");
        return false;
    }
    for (size_t i = n; i < full; i++)
        items[i] = items[i - n];
    run->in.items = items;
    run->in.capacity = run->in.num = run->total = full;
    c->pictures = n;
    return true;
}

void profile_source_close(struct profile_child *c)
{
    for (size_t i = 0; i < c->num_sources; i++) {
        if (c->images)
            hr_image_release(&c->images[i]);
        else
            free(c->data[i]);
    }
    free(c->images);
    free(c->data);
    free(c->sizes);
}

void profile_source_fill(struct profile_child *c, const struct run_slot *slot)
{
    for (int i = 0; c->data && i < slot->num; i++) {
        struct hr_sample *s = &c->run.samples[i];
        size_t at = (slot->first + (size_t)i) % c->num_sources;

        s->path = NULL;
        if (!c->images) {
            s->data = c->data[at];
            s->size = c->sizes[at];
            continue;
        }
        s->image = c->images[at];
        if (s->num_ops && s->ops[0].type == HR_OP_DECODE) {
            s->ops++;
            s->num_ops--;
        }
    }
}
