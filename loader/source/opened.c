// SPDX-License-Identifier: Apache-2.0
// Files that a function of the program opens, hr_set_opener(): a shard whose
// samples are read by its calls. A range is the number of a sample there.
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "hal/engine/base.h"
#include "source.h"

enum { HEAD = 8 };  // bytes of a length

static _Atomic(const struct hr_opener *) opener;

void hr_set_opener(const struct hr_opener *to)
{
    atomic_store(&opener, to);
}

bool hr__source_has_opener(void)
{
    return atomic_load(&opener) != NULL;
}

static bool is_opened(const void *begin, size_t size)
{
    static const struct {
        size_t at, size;
        const char *bytes;
    } marks[] = {{0, 4, "PAR1"},
                 {0, 8, "ARROW1\0"},
                 {8, 15, "{\"header_size\":"}};

    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++)
        if (size >= marks[i].at + marks[i].size &&
            !memcmp((const char *)begin + marks[i].at, marks[i].bytes,
                    marks[i].size))
            return true;
    return false;
}

// ---- Opening ---------------------------------------------------------------

static bool open_it(struct hr__source *s, const char *path,
                    struct hr__opened *o)
{
    const struct hr_opener *to = atomic_load(&opener);
    const char *name = hr__source_short(path);
    size_t length = strstr(path, "://") ? hr__http_path_end(name)
                                        : strlen(name);
    char message[256] = "";
    enum hr_status status;
    hr_source made;

    if (!to)
        return hr__source_fail(HR_EUNSUPPORTED,
                               "%.*s: Python reads this format: use python3 "
                               "-m headrace in place of headrace",
                               (int)length, name);
    status = to->open(to->ctx, path, s->fields[HR__FIELD_IMAGE],
                      s->fields[HR__FIELD_LABEL], &o->is, message);
    message[sizeof(message) - 1] = '\0';
    if (status)
        return hr__source_fail(status < 0 ? status : HR_EIO, "%s",
                               *message ? message : hr_status_text(status));
    if ((made = hr_source_of_calls(&o->is.calls))) {
        o->source = hr__source_of(made);
        return true;
    }
    if (o->is.close)
        o->is.close(o->is.calls.ctx);
    return false;
}

static bool name_classes(struct hr__source *s, const struct hr_opened *o)
{
    uint32_t unused;
    bool ok = true;

    for (int64_t i = 0; ok && i < (int64_t)o->num_classes; i++)
        ok = hr__source_name_class(s, o->classes[i], &i, &unused);
    return ok;
}

// A sample behind its length.
static const char *unwrap(const struct hr__range *range, unsigned char **at,
                          size_t *size)
{
    (void)range;
    if (*size < HEAD)
        return "where it is was lost";
    if (hr__long_at(*at) != *size - HEAD)
        return "it is not as long as the index says";
    *at += HEAD;
    *size -= HEAD;
    return NULL;
}

static bool put_all(struct hr__source *s, struct hr__shard *shard,
                    const struct hr_opened *o)
{
    bool ok = true;

    for (uint64_t i = 0; ok && i < o->calls.num; i++) {
        const char *label = o->label_of ? o->label_of(o->calls.ctx, i) : "";
        struct hr__range range = {.offset = i, .wrapped = o->range_of};

        if (o->range_of)
            o->range_of(o->calls.ctx, i, &range.offset, &range.size);
        ok = !atomic_load_explicit(&s->stopped, memory_order_relaxed)
                 ? hr__shard_put(s, shard, NULL, label ? label : "", range)
                 : hr__shard_ends(s, shard);
    }
    return ok;
}

static bool add_opened(struct hr__source *s, const char *path)
{
    struct hr__opened *o = hr__alloc(NULL, sizeof(*o));
    struct hr__shard *shard;
    bool ok;

    if (!o)
        return hr__source_fail(HR_ENOMEM, "out of memory");
    *o = (struct hr__opened){0};
    if (!open_it(s, path, o)) {
        hr__free(o);
        return false;
    }
    shard = o->is.range_of ? hr__shard_open(s, path) : hr__shard_of(s, path, o);
    if (shard) {
        shard->names = o->is.names || o->is.num_classes;
        shard->numbers = true;
        shard->unwrap = unwrap;
    }
    ok = shard && hr__shard_opened(shard, name_classes(s, &o->is) &&
                                              put_all(s, shard, &o->is));
    if (!shard || !shard->opened)
        hr__opened_close(o);
    return ok;
}

const struct hr__container hr__container_opened = {
    .endings = ".parquet .arrow .feather .mindrecord",
    .is = is_opened,
    .add = add_opened,
};

void hr__opened_close(struct hr__opened *o)
{
    hr_source made = o ? &o->source->pub : NULL;

    if (!o)
        return;
    hr_source_close(&made);
    if (o->is.close)
        o->is.close(o->is.calls.ctx);
    hr__free(o);
}
