// SPDX-License-Identifier: Apache-2.0
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"
#include "tools/common/stop.h"

static void tell(struct pack *pack, const char *message)
{
    pack->counts.failed++;
    if (pack->num_told++ >= TOOLS_MAX_TOLD)
        return;
    progress_clear(&pack->progress);
    tools_warn("%s", message);
}

static bool broken(struct pack *pack)
{
    progress_clear(&pack->progress);
    return tools_warn("%s", hr_last_error());
}

static void draw(struct pack *pack)
{
    const struct pack_counts *n = &pack->counts;

    progress_update(&pack->progress, n->packed + n->kept + n->failed,
                    n->failed);
}

static void count(struct pack *pack, const struct hr_pack_entry *entry)
{
    struct pack_counts *n = &pack->counts;

    n->packed += entry->packed;
    n->kept += !entry->packed;
    n->source_bytes += entry->source;
    n->data_bytes += entry->size;
}

// ---- What is there already -------------------------------------------------

// Size of what picture i is made of; false: it cannot be read.
static bool source_size(const struct inputs *in, size_t i, uint64_t *size)
{
    struct hr_pack_entry entry;
    char path[PATH_MAX];
    struct stat st;
    struct hr_source_item of = inputs_item(in, i);

    if (of.pack && hr_pack_entry(of.pack, of.number, &entry) == HR_OK) {
        *size = entry.source;
        return true;
    }
    if (!of.is_file) {
        struct hr_encoded read = {0};
        bool there = inputs_read(in, i, &read) == HR_OK;

        *size = read.packed ? read.source : read.size;
        hr_encoded_finish(&read);
        return there;
    }
    if (!inputs_path(in, i, path, sizeof(path)) || stat(path, &st) < 0 ||
        access(path, R_OK) < 0 || !S_ISREG(st.st_mode))
        return false;
    *size = (uint64_t)st.st_size;
    return true;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec > b->tv_sec ||
           (a->tv_sec == b->tv_sec && a->tv_nsec >= b->tv_nsec);
}

// Says whether what picture i is made of was written, or put there, since then.
static bool is_newer(const struct inputs *in, size_t i,
                     const struct timespec *left)
{
    char text[PATH_MAX];
    struct stat st;
    hr_pack_file file = inputs_item(in, i).pack;
    const char *path = file ? file->path
                            : inputs_path(in, i, text, sizeof(text));

    return path && !stat(path, &st) &&
           (is_later(&st.st_mtim, left) || is_later(&st.st_ctim, left));
}

static bool is_same(const struct inputs *in, size_t i, uint64_t size,
                    const struct hr_pack_entry *entry)
{
    char name[PATH_MAX];

    return entry->source == size &&
           !strcmp(inputs_name(in, i, name, sizeof(name)), entry->name) &&
           !strcmp(inputs_item(in, i).label, entry->label);
}

// Goes on behind an earlier run's pictures, if they are the same: *next is the
// first that is to be packed. Pictures that still cannot be read are told
// again.
static bool go_on(struct pack *pack, int shard, size_t end, size_t *next)
{
    hr_pack_writer writer = pack->writers[shard];
    struct hr_pack_entry entry;
    uint64_t size;
    size_t kept = 0;

    while (kept < writer->num && *next < end) {
        bool there = source_size(&pack->in, *next, &size);

        hr_pack_writer_entry(writer, kept, &entry);
        if (there && (!is_same(&pack->in, *next, size, &entry) ||
                      is_newer(&pack->in, *next, &pack->left[shard])))
            break;
        if (there) {
            count(pack, &entry);
            pack->counts.again++;
            kept++;
        } else {
            char path[PATH_MAX], text[PATH_MAX + 64];

            snprintf(text, sizeof(text), "%s: cannot be read",
                     inputs_path(&pack->in, *next, path, sizeof(path)));
            tell(pack, text);
        }
        ++*next;
    }
    return (kept == writer->num || hr_pack_writer_cut(writer, kept) == HR_OK) ||
           broken(pack);
}

// ---- The rest --------------------------------------------------------------

static bool put(struct pack *pack, hr_pack_writer writer, size_t i,
                const struct pack_picture *p)
{
    char name[PATH_MAX];
    struct hr_pack_entry entry = {
        .name = inputs_name(&pack->in, i, name, sizeof(name)),
        .label = inputs_item(&pack->in, i).label,
        .data = p->data,
        .size = p->size,
        .source = p->source,
        .packed = p->packed,
    };

    if (p->status) {
        tell(pack, p->message);
        return true;
    }
    if (hr_pack_writer_add(writer, &entry) != HR_OK)
        return broken(pack);
    count(pack, &entry);
    if (!p->packed && -p->why < PACK_NUM_STATUS)
        pack->counts.why[-p->why]++;
    return true;
}

bool pack_shard(struct pack *pack, int shard, size_t first, size_t end)
{
    struct pack_work work;
    bool ok;

    if (!go_on(pack, shard, end, &first))
        return false;
    ok = pack_work_begin(&work, &pack->in, &pack->limits, first, end,
                         pack->opt.threads);
    while (ok && first < end && !stop_signal()) {
        const struct pack_picture *p = pack_work_next(&work);

        draw(pack);
        if (!p)
            continue;
        ok = put(pack, pack->writers[shard], first++, p);
        pack_work_give_back(&work);
    }
    pack_work_finish(&work);
    return ok && !stop_signal();
}
