// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "tools/common/tools.h"

// What may be held in memory; pictures beyond it are left out.
#define MEMORY_BYTES ((size_t)256 << 20)
#define DECODED_BYTES ((size_t)96 << 20)

// The bytes of picture i, to be freed. NULL: they cannot be had.
static void *read_picture(const struct inputs *in, size_t i, size_t *size)
{
    struct hr_encoded read = {0};
    void *data = NULL;

    if (!inputs_read(in, i, &read) && (data = malloc(read.size + 1))) {
        *size = read.size;
        memcpy(data, read.data, read.size);
    }
    hr_encoded_finish(&read);
    return data;
}

// With the decode of the ops. NULL: it cannot be.
static hr_image decode(struct profile_child *c, const void *data, size_t size)
{
    const struct hr_op *first = &c->run.opt.ops.ops[0];
    hr_image image = hr_decode(c->run.dev, data, size,
                               first->type == HR_OP_DECODE ? &first->decode
                                                           : NULL);

    if (image && hr_image_wait(image, HR_FOREVER) != HR_OK)
        hr_image_release(&image);
    return image;
}

// Takes picture i as the next one; returns its bytes. 0: it is left out.
static size_t load(struct profile_child *c, size_t i)
{
    struct profile_source *s = &c->sources[c->num_sources];
    void *data = read_picture(&c->run.in, i, &s->size);

    if (data && c->mode == PROFILE_DECODED) {
        s->image = decode(c, data, s->size);
        s->size = s->image ? s->image->size : 0;
        free(data);
    } else {
        s->data = data;
    }
    if (!s->image && !s->data)
        return 0;
    c->run.in.items[c->num_sources++] = c->run.in.items[i];
    return s->size;
}

bool profile_source_open(struct profile_child *c)
{
    size_t n = c->run.total, held = 0;
    size_t most = c->mode == PROFILE_DECODED ? DECODED_BYTES : MEMORY_BYTES;

    if (!(c->sources = calloc(n, sizeof(*c->sources))))
        return tools_warn("out of memory");
    for (size_t i = 0; i < n && held < most; i++)
        held += load(c, i);
    if (!c->num_sources)
        return tools_warn("none of the pictures could be read");
    c->run.total = c->run.in.num = c->num_sources;
    return true;
}

bool profile_fill_up(struct profile_child *c)
{
    struct run *run = &c->run;
    size_t n = run->total, batch = (size_t)run->batch;
    size_t full = (n + batch - 1) / batch * batch;
    struct inputs_item *items = realloc(run->in.items, full * sizeof(*items));

    if (!items)
        return tools_warn("out of memory");
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
        hr_image_release(&c->sources[i].image);
        free(c->sources[i].data);
    }
    free(c->sources);
}

void profile_source_fill(struct profile_child *c,
                         const struct profile_slot *slot)
{
    for (int i = 0; c->num_sources && i < slot->num; i++) {
        struct hr_sample *s = &c->samples[i];
        const struct profile_source *from =
            &c->sources[(slot->first + (size_t)i) % c->num_sources];

        s->path = NULL;
        s->data = from->data;
        s->size = from->data ? from->size : 0;
        s->image = from->image;
        if (s->image && s->num_ops && s->ops[0].type == HR_OP_DECODE) {
            s->ops++;
            s->num_ops--;
        }
    }
}
