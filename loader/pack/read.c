// SPDX-License-Identifier: Apache-2.0
// A pack file that is open: its mapping, and which pictures have been checked.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "format.h"

struct pack_file {
    struct hr_pack_file_t pub;  // first
    struct pack_view view;
    int fd;
    struct stat st;           // when it was opened
    _Atomic int64_t changed;  // its ctime, when `good` was begun
    _Atomic uint8_t *good;    // a bit for each picture that was checked
};

static struct pack_file *mine(hr_pack_file file)
{
    return (struct pack_file *)(uintptr_t)file;
}

static enum hr_status fail_errno(const char *path)
{
    return hr__fail(HR_EIO, "%s: %s", pack_short(path), strerror(errno));
}

// ---- Opening ---------------------------------------------------------------

static enum hr_status open_file(struct pack_file *f)
{
    f->fd = hr__open_file(f->pub.path, O_RDONLY);
    if (f->fd < 0 || fstat(f->fd, &f->st) < 0)
        return fail_errno(f->pub.path);
    if (!S_ISREG(f->st.st_mode))
        return hr__fail(HR_EFORMAT, "%s: not a file", pack_short(f->pub.path));
    return HR_OK;
}

// Reads ahead, in steps that no kernel cuts short. (A page that is missing is
// read alone: around it the kernel would read as much as the disk's read-ahead,
// 8 MB of some, and pictures are wanted in any order.)
static void read_ahead(const struct pack_file *f, uint64_t at, uint64_t size)
{
    enum { STEP = 128 << 10 };

    for (; size; at += STEP, size -= size < STEP ? size : STEP)
        (void)posix_fadvise(f->fd, (off_t)at,
                            (off_t)(size < STEP ? size : STEP),
                            POSIX_FADV_WILLNEED);
}

static enum hr_status map_file(struct pack_file *f)
{
    size_t size = (size_t)f->st.st_size;
    void *map;

    if ((uint64_t)f->st.st_size != size)
        return hr__fail(HR_ENOMEM,
                        "%s: larger than the memory that a program "
                        "can name here",
                        pack_short(f->pub.path));
    if (!size)
        return HR_OK;
    map = mmap(NULL, size, PROT_READ, MAP_SHARED, f->fd, 0);
    if (map == MAP_FAILED)
        return fail_errno(f->pub.path);
    (void)madvise(map, size, MADV_RANDOM);
    f->view.map = map;
    f->view.size = size;
    return HR_OK;
}

static int64_t ctime_of(const struct stat *st)
{
    return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

static enum hr_status read_index(struct pack_file *f)
{
    enum hr_status status = pack_view_head(&f->view, f->view.map, f->view.size);
    const struct pack_header *head = (const void *)f->view.map;
    size_t bits;

    if (!status) {
        read_ahead(f, f->view.index_at, f->view.index_size);
        status = pack_view_index(&f->view, f->view.map + f->view.index_at);
    }
    if (status)
        return hr__fail(status, "%s: offset %llu: %s", pack_short(f->pub.path),
                        (unsigned long long)f->view.fault_at, f->view.why);
    bits = (size_t)f->view.num / 8 + 1;
    if (!(f->good = hr__alloc(NULL, bits)))
        return hr__fail(HR_ENOMEM, "out of memory");
    memset((void *)f->good, 0, bits);
    f->changed = ctime_of(&f->st);
    f->pub.version = le32toh(head->version);
    f->pub.num_classes = (size_t)f->view.num_classes;
    f->pub.fixed = head->fixed != 0;
    f->pub.num = (size_t)f->view.num;
    f->pub.packed = (size_t)f->view.packed;
    f->pub.bytes = f->view.size;
    f->pub.data_bytes = f->view.data_bytes;
    f->pub.source_bytes = f->view.source_bytes;
    return HR_OK;
}

hr_pack_file hr_pack_open(const char *path)
{
    struct pack_file *f;
    hr_pack_file file;
    char *copy;

    if (!path)
        return hr__fail(HR_EINVAL, "hr_pack_open: no path"), NULL;
    f = hr__alloc(NULL, sizeof(*f) + strlen(path) + 1);
    if (!f)
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    *f = (struct pack_file){.fd = -1};
    copy = (char *)(f + 1);
    f->pub.path = strcpy(copy, path);
    file = &f->pub;
    if (open_file(f) || map_file(f) || read_index(f))
        hr_pack_close(&file);
    return file;
}

void hr_pack_close(hr_pack_file *file)
{
    struct pack_file *f = file ? mine(*file) : NULL;

    if (!f)
        return;
    if (f->view.map)
        munmap((void *)(uintptr_t)f->view.map, (size_t)f->view.size);
    if (f->fd >= 0)
        close(f->fd);
    hr__free((void *)f->good);
    hr__free(f);
    *file = NULL;
}

// ---- Pictures --------------------------------------------------------------

static enum hr_status no_picture(hr_pack_file file, size_t i)
{
    return hr__fail(HR_EINVAL, "%s: there is no picture %zu of %zu",
                    pack_short(file->path), i, file->num);
}

enum hr_status hr_pack_entry(hr_pack_file file, size_t i,
                             struct hr_pack_entry *entry)
{
    const struct pack_view *view = &mine(file)->view;

    if (i >= file->num)
        return no_picture(file, i);
    *entry = pack_entry(&view->entries[i], view->texts, view->map);
    return HR_OK;
}

// Compares, as strcmp(), a text that has an end with one that has a length.
static int compare(const char *name, const char *key, size_t length)
{
    size_t size = strlen(name), least = size < length ? size : length;
    int order = memcmp(name, key, least);

    return order ? order : (size > length) - (size < length);
}

enum hr_status hr_pack_find(hr_pack_file file, const char *name, size_t length,
                            size_t *i)
{
    const struct pack_view *view = &mine(file)->view;
    size_t low = 0, high = file->num;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t number = le32toh(view->order[middle]);
        int order = compare(view->texts + le64toh(view->entries[number].name),
                            name, length);

        if (!order) {
            *i = number;
            return HR_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return hr__fail(HR_EINVAL, "%s: there is no picture '%.*s'",
                    pack_short(file->path), length < 100 ? (int)length : 100,
                    name);
}

const struct pack_view *pack_view_of(hr_pack_file file)
{
    return &mine(file)->view;
}

void hr_pack_classes(hr_pack_file file, struct hr_pack_class *classes)
{
    pack_view_classes(&mine(file)->view, classes);
}

// ---- Checks ----------------------------------------------------------------

static enum hr_status was_changed(const struct pack_file *f, int64_t size)
{
    return hr__fail(HR_EIO,
                    "%s: it was changed while it was open (%lld bytes then, "
                    "%lld now)",
                    pack_short(f->pub.path), (long long)f->st.st_size,
                    (long long)size);
}

// A new ctime alone may be a new name or mode; or a program has written to the
// file and put its times back. Then no check of before holds any more.
static enum hr_status look_again(struct pack_file *f, const struct stat *st)
{
    struct pack_view view;

    if (pack_view_open(&view, f->view.map, f->view.size) ||
        view.num != f->view.num || view.entries != f->view.entries ||
        view.texts != f->view.texts || view.order != f->view.order)
        return was_changed(f, st->st_size);
    for (size_t i = 0; i <= f->pub.num / 8; i++)
        atomic_store_explicit(&f->good[i], 0, memory_order_relaxed);
    f->changed = ctime_of(st);
    return HR_OK;
}

// Results of checks hold as long as no program writes to the file.
static enum hr_status check_unchanged(struct pack_file *f)
{
    struct stat st;

    if (fstat(f->fd, &st) < 0)
        return fail_errno(f->pub.path);
    if (st.st_size != f->st.st_size ||
        st.st_mtim.tv_sec != f->st.st_mtim.tv_sec ||
        st.st_mtim.tv_nsec != f->st.st_mtim.tv_nsec)
        return was_changed(f, st.st_size);
    return ctime_of(&st) == f->changed ? HR_OK : look_again(f, &st);
}

static enum hr_status check_data(const struct pack_file *f, size_t i)
{
    const struct pack_index *e = &f->view.entries[i];
    const uint8_t *data = f->view.map + le64toh(e->offset);
    size_t size = (size_t)le64toh(e->size);
    bool packed = le32toh(e->flags) & PACK_PACKED;
    bool summed;

    read_ahead(f, le64toh(e->offset), size);
    summed = pack_sum(data, size) == le64toh(e->data_sum);
    // (Its own checksum leaves out what no decoder reads.)
    if (summed && (!packed || hr_packed_check(data, size)))
        return HR_OK;
    return hr__fail(HR_ECORRUPT, "%s: offset %llu: picture %zu is damaged: %s",
                    pack_short(f->pub.path),
                    (unsigned long long)le64toh(e->offset), i,
                    summed ? "not a packed picture" : "its checksum is wrong");
}

static bool is_good(const struct pack_file *f, size_t i)
{
    return atomic_load_explicit(&f->good[i / 8], memory_order_relaxed) >>
               i % 8 &
           1;
}

void hr_pack_passed(hr_pack_file file, size_t i)
{
    struct pack_file *f = mine(file);

    if (i < file->num && !is_good(f, i))
        atomic_fetch_or_explicit(&f->good[i / 8], (uint8_t)(1u << i % 8),
                                 memory_order_relaxed);
}

// Two threads may check the same picture; that costs time only.
enum hr_status hr_pack_check(hr_pack_file file, size_t i)
{
    struct pack_file *f = mine(file);
    enum hr_status status;

    if (i >= file->num)
        return no_picture(file, i);
    if ((status = check_unchanged(f)))
        return status;
    if (is_good(f, i))
        return HR_OK;
    if ((status = check_data(f, i)))
        return status;
    hr_pack_passed(file, i);
    return HR_OK;
}

// ---- Samples ---------------------------------------------------------------

static void fill_sample(hr_pack_file file, size_t i, struct hr_sample *sample)
{
    struct hr_pack_entry entry;

    hr_pack_entry(file, i, &entry);
    sample->data = entry.data;
    sample->size = entry.size;
    sample->path = NULL;
    sample->image = NULL;
    sample->name = entry.name;
    sample->verified = entry.packed && is_good(mine(file), i);
}

// A picture that is kept as its file is not checked by any job: this checks its
// checksum.
enum hr_status hr_pack_sample(hr_pack_file file, size_t i,
                              struct hr_sample *sample)
{
    struct pack_file *f = mine(file);
    enum hr_status status = check_unchanged(f);  // before its memory is read

    if (!status &&
        (i >= file->num || !(le32toh(f->view.entries[i].flags) & PACK_PACKED)))
        status = hr_pack_check(file, i);
    if (status)
        return status;
    fill_sample(file, i, sample);
    read_ahead(f, le64toh(f->view.entries[i].offset), sample->size);
    return HR_OK;
}
