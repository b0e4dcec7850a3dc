// SPDX-License-Identifier: Apache-2.0
#include "source.h"

#include <stdint.h>

#include "hal/engine/base.h"

struct hr__source *hr__source_of(hr_source source)
{
    return (struct hr__source *)(uintptr_t)source;
}

static struct hr__source *create(void)
{
    struct hr__source *s = hr__alloc(NULL, sizeof(*s));

    if (!s) {
        hr__fail(HR_ENOMEM, "out of memory");
        return NULL;
    }
    *s = (struct hr__source){0};
    s->pub.faults = s->faults;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

hr_source hr_source_create(void)
{
    struct hr__source *s = create();

    return s ? &s->pub : NULL;
}

hr_source hr_source_of_calls(const struct hr_source_calls *calls)
{
    struct hr__source *s;

    if (!calls || !calls->read || calls->threads < 0) {
        hr__fail(HR_EINVAL, "a source of calls needs read, and threads >= 0");
        return NULL;
    }
    if (!(s = create()))
        return NULL;
    s->calls = *calls;
    s->pub.num = calls->num;
    return &s->pub;
}

hr_source hr_source_open(const char *path)
{
    hr_source source = hr_source_create();

    if (source && hr_source_add(source, path))
        hr_source_close(&source);
    return source;
}

void hr_source_close(hr_source *source)
{
    struct hr__source *s = source ? hr__source_of(*source) : NULL;

    if (!s)
        return;
    hr__source_forget(s);
    pthread_mutex_destroy(&s->lock);
    hr__free(s);
    *source = NULL;
}
