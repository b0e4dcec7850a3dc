// SPDX-License-Identifier: Apache-2.0
// The source of a process's loaders: the pictures in their order here, as
// files, or from memory.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

// Bytes that may be held in memory; pictures beyond are left out.
#define MEMORY_BYTES ((size_t)256 << 20)
#define DECODED_BYTES ((size_t)96 << 20)

// ---- Pictures in memory ----------------------------------------------------

// Pixels in place of the encoded bytes, with the decode of the ops.
static bool decode(const struct profile_child *c, struct hr_encoded *held)
{
    hr_image image = hr_decode(c->run.dev, held->data, held->size,
                               &c->run.opt.ops.ops[0].decode);

    if (image && hr_image_wait(image, HR_FOREVER) != HR_OK)
        hr_image_release(&image);
    hr_encoded_finish(held);
    if (image)
        *held = (struct hr_encoded){.data = image->params.data,
                                    .size = image->size,
                                    .w = image->params.w,
                                    .h = image->params.h,
                                    .c = image->params.c,
                                    .layout = image->params.layout,
                                    .owner = (void *)(uintptr_t)image};
    return image != NULL;
}

static void drop(struct hr_encoded *held)
{
    hr_image image = held->owner;

    hr_image_release(&image);
    hr_encoded_finish(held);
}

// Holds picture i as the next one; returns its bytes. 0: it is left out.
static size_t hold(struct profile_child *c, size_t i)
{
    struct hr_encoded *held = &c->held[c->num_held];
    bool ok = !inputs_read(&c->run.in, i, held);

    if (ok && c->mode == PROFILE_DECODED && !held->w)
        ok = decode(c, held);
    if (!ok) {
        drop(held);
        return 0;
    }
    c->num_held++;
    return held->size;
}

static bool hold_all(struct profile_child *c)
{
    size_t most = c->mode == PROFILE_DECODED ? DECODED_BYTES : MEMORY_BYTES;
    size_t bytes = 0;

    if (!(c->held = calloc(c->run.total, sizeof(*c->held))))
        return tools_warn("out of memory");
    for (size_t i = 0; i < c->run.total && bytes < most; i++)
        bytes += hold(c, i);
    c->run.total = c->num_held;
    return c->num_held || tools_warn("none of the pictures could be read");
}

// ---- The source ------------------------------------------------------------

// Beyond the last picture come those from the beginning.
static enum hr_status lend(void *ctx, uint64_t i, struct hr_encoded *to,
                           char message[256])
{
    struct profile_child *c = ctx;
    size_t picture = (size_t)i % c->run.total;
    char path[PATH_MAX];
    enum hr_status status = HR_OK;

    if (c->num_held) {
        *to = c->held[picture];
    } else if (inputs_item(&c->run.in, picture).is_file) {
        inputs_path(&c->run.in, picture, path, sizeof(path));
        to->path = strdup(path);
        status = to->path ? HR_OK : HR_ENOMEM;
    } else {
        status = inputs_read(&c->run.in, picture, to);
    }
    if (status) {
        snprintf(message, 256, "%.255s", hr_last_error());
        hr_encoded_finish(to);
    } else {
        atomic_fetch_add(&c->lent, 1);
    }
    return status;
}

static void take_back(void *ctx, uint64_t i, const struct hr_encoded *from)
{
    struct profile_child *c = ctx;
    struct hr_encoded own = *from;

    (void)i;
    atomic_fetch_add(&c->made, 1);
    if (c->num_held)
        return;
    free((void *)(uintptr_t)from->path);
    hr_encoded_finish(&own);
}

bool profile_source_open(struct profile_child *c)
{
    struct run *run = &c->run;
    struct hr_source_calls calls = {.ctx = c, .read = lend, .done = take_back};

    if (c->in_memory && !hold_all(c))
        return false;
    if ((size_t)run->batch > run->total)
        run->batch = (int)run->total;
    calls.num = (run->total + (size_t)run->batch - 1) / (size_t)run->batch *
                (size_t)run->batch;
    c->source = hr_source_of_calls(&calls);
    return c->source || tools_warn("%s", hr_last_error());
}

void profile_source_close(struct profile_child *c)
{
    hr_source_close(&c->source);
    for (size_t i = 0; i < c->num_held; i++)
        drop(&c->held[i]);
    free(c->held);
}
