// SPDX-License-Identifier: Apache-2.0
// A pack file in the making: pictures behind one another, the index and the
// name at the end. Only whole pictures count, so there is no point at which a
// process that is killed leaves something that could pass for whole.
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/engine/base.h"

// ---- Opening ---------------------------------------------------------------

// Says whether PATH.part is the file that is locked: its writer may have
// renamed it before we had the lock.
static bool is_there(const struct pack_writer *w)
{
    struct stat ours, there;

    return !fstat(w->fd, &ours) && !lstat(w->part, &there) &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

// Opens the file of an interrupted writer, or makes it. An existing one may be
// a trap: a link to another file, or a file that another user still owns.
static enum hr_status open_there(struct pack_writer *w, bool *there)
{
    struct stat st;

    w->fd = hr__open_file(w->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    if ((*there = w->fd >= 0))
        return HR_OK;
    if (errno != EEXIST)
        return pack_writer_errno(w);
    w->fd = hr__open_file(w->part, O_RDWR | O_NOFOLLOW);
    if (w->fd < 0 && errno == ENOENT)
        return HR_OK;  // gone again
    if (w->fd < 0 && errno == ELOOP)
        return hr__fail(HR_EFORMAT, "%s: a link", pack_short(w->part));
    if (w->fd < 0 || fstat(w->fd, &st) < 0)
        return pack_writer_errno(w);
    *there = true;
    if (!S_ISREG(st.st_mode))
        return hr__fail(HR_EFORMAT, "%s: not a file", pack_short(w->part));
    if (st.st_nlink > 1)
        return hr__fail(HR_EFORMAT, "%s: it has another name, too",
                        pack_short(w->part));
    return st.st_uid == geteuid()
               ? HR_OK
               : hr__fail(HR_EFORMAT, "%s: another user's file",
                          pack_short(w->part));
}

static enum hr_status open_part(struct pack_writer *w)
{
    enum hr_status status;
    bool there;

    for (;;) {
        if ((status = open_there(w, &there)))
            return status;
        if (!there)
            continue;
        // It goes with the process, however that ends.
        if (flock(w->fd, LOCK_EX | LOCK_NB) < 0)
            return errno == EWOULDBLOCK
                       ? hr__fail(HR_EAGAIN, "%s: another process writes it",
                                  pack_short(w->part))
                       : pack_writer_errno(w);
        if (is_there(w))
            return HR_OK;
        close(w->fd);
    }
}

hr_pack_writer hr_pack_writer_open(const char *path)
{
    struct pack_writer *w;
    hr_pack_writer writer;
    size_t size;

    if (!path || !*path)
        return hr__fail(HR_EINVAL, "hr_pack_writer_open: no path"), NULL;
    size = strlen(path);
    w = hr__alloc(NULL, sizeof(*w) + 2 * size + sizeof(".part") + 1);
    if (!w)
        return hr__fail(HR_ENOMEM, "out of memory"), NULL;
    *w = (struct pack_writer){.fd = -1};
    w->part = (char *)(w + 1);
    memcpy(w->part, path, size);
    strcpy(w->part + size, ".part");
    w->pub.path = strcpy(w->part + size + sizeof(".part"), path);
    writer = &w->pub;
    if (open_part(w) || pack_resume(w))
        hr_pack_writer_close(&writer);
    return writer;
}

void hr_pack_writer_close(hr_pack_writer *writer)
{
    struct pack_writer *w = writer ? pack_writer_of(*writer) : NULL;

    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    pack_table_finish(&w->table);
    hr__free(w->classes.data);
    hr__free(w);
    *writer = NULL;
}

// ---- Writing ---------------------------------------------------------------

static void fill_record(struct pack_record *record, const struct pack_writer *w,
                        const struct hr_pack_entry *entry)
{
    *record = (struct pack_record){
        .flags = htole32(entry->packed ? PACK_PACKED : 0),
        .number = htole64(w->table.num),
        .size = htole64(entry->size),
        .source = htole64(entry->source),
        .data_sum = htole64(pack_sum(entry->data, entry->size)),
        .name_size = htole32((uint32_t)strlen(entry->name)),
        .label_size = htole32((uint32_t)strlen(entry->label)),
    };
    memcpy(record->magic, PACK_RECORD_MAGIC, sizeof(record->magic));
    record->sum = htole64(pack_record_sum(record, entry->name, entry->label));
}

// Record and texts, then the data, each with the zeros behind them.
static enum hr_status write_picture(struct pack_writer *w,
                                    const struct pack_record *record,
                                    const struct hr_pack_entry *entry)
{
    static const uint8_t zeros[64];
    char head[sizeof(*record) + 2 * (PACK_TEXT_MAX + 1) + 64] = {0};
    size_t names = le32toh(record->name_size);
    size_t labels = le32toh(record->label_size);
    size_t size = PACK_ROUND(sizeof(*record) + names + labels);
    uint64_t at = w->pub.bytes;
    enum hr_status status;

    memcpy(head, record, sizeof(*record));
    memcpy(head + sizeof(*record), entry->name, names);
    memcpy(head + sizeof(*record) + names, entry->label, labels);
    if ((status = pack_write_all(w, head, size, at)) ||
        (status = pack_write_all(w, entry->data, entry->size, at + size)))
        return status;
    at += size + entry->size;
    if ((status = pack_write_all(w, zeros, PACK_ROUND(at) - at, at)))
        return status;
    w->pub.bytes = PACK_ROUND(at);
    return HR_OK;
}

static enum hr_status check_entry(const struct pack_writer *w,
                                  const struct hr_pack_entry *entry)
{
    struct hr_info info;

    if (w->finished)
        return hr__fail(HR_EINVAL, "%s: it is finished",
                        pack_short(w->pub.path));
    if (!entry->name || !pack_is_name(entry->name, strlen(entry->name)))
        return hr__fail(HR_EINVAL, "%s: '%.100s' is not a relative path",
                        pack_short(w->pub.path),
                        entry->name ? entry->name : "");
    if (!entry->label || !pack_is_label(entry->label, strlen(entry->label)))
        return hr__fail(HR_EINVAL,
                        "%s: %.100s: the label is no text, or too "
                        "long",
                        pack_short(w->pub.path), entry->name);
    if (entry->size && !entry->data)
        return hr__fail(HR_EINVAL, "%s: %.100s: there are no data",
                        pack_short(w->pub.path), entry->name);
    if (entry->packed && (hr_probe(entry->data, entry->size, NULL, &info) ||
                          info.format != HR_FORMAT_PACKED))
        return hr__fail(HR_EINVAL, "%s: %.100s: not a packed picture",
                        pack_short(w->pub.path), entry->name);
    return HR_OK;
}

enum hr_status hr_pack_writer_add(hr_pack_writer writer,
                                  const struct hr_pack_entry *entry)
{
    struct pack_writer *w = pack_writer_of(writer);
    struct pack_record record;
    uint64_t at = w->pub.bytes;
    enum hr_status status = check_entry(w, entry);

    if (status)
        return status;
    fill_record(&record, w, entry);
    // The step that can fail without a trace comes first. A picture that cannot
    // be written is cut off: a part of it with the next one behind it could not
    // be resumed.
    if ((status = pack_table_add(&w->table, &record, at, entry->name,
                                 entry->label)))
        return status == HR_EINVAL
                   ? hr__fail(status, "%s: there is a picture '%.100s' already",
                              pack_short(w->pub.path), entry->name)
                   : hr__fail(status, "%s: %s", pack_short(w->pub.path),
                              status == HR_ELIMIT ? "too many pictures"
                                                  : "out of memory");
    if ((status = write_picture(w, &record, entry))) {
        pack_table_cut(&w->table, w->table.num - 1);
        (void)!ftruncate(w->fd, (off_t)at);
    }
    w->pub.num = w->table.num;
    return status;
}

enum hr_status hr_pack_writer_entry(hr_pack_writer writer, size_t i,
                                    struct hr_pack_entry *entry)
{
    const struct pack_writer *w = pack_writer_of(writer);

    if (i >= w->table.num)
        return hr__fail(HR_EINVAL, "%s: there is no picture %zu of %zu",
                        pack_short(w->pub.path), i, w->table.num);
    *entry = pack_entry(&w->table.entries[i], w->table.texts, NULL);
    return HR_OK;
}

enum hr_status hr_pack_writer_cut(hr_pack_writer writer, size_t num)
{
    struct pack_writer *w = pack_writer_of(writer);
    uint64_t bytes = sizeof(struct pack_header);

    if (num > w->table.num || w->finished)
        return hr__fail(HR_EINVAL, "%s: there are not %zu pictures to keep",
                        pack_short(w->pub.path), num);
    if (num) {
        const struct pack_index *last = &w->table.entries[num - 1];

        bytes = PACK_ROUND(le64toh(last->offset) + le64toh(last->size));
    }
    // The other way round there would be pictures that are not there.
    pack_table_cut(&w->table, num);
    w->pub.num = num;
    w->pub.bytes = bytes;
    return ftruncate(w->fd, (off_t)bytes) ? pack_writer_errno(w) : HR_OK;
}

// ---- Classes ---------------------------------------------------------------

enum hr_status hr__pack_writer_classes(hr_pack_writer writer,
                                       const struct hr_pack_class *classes,
                                       size_t num, bool fixed)
{
    struct pack_writer *w = pack_writer_of(writer);
    struct pack_classes made = {.num = num, .fixed = num && fixed};
    char *text;

    for (size_t i = 0; i < num; i++) {
        size_t size = strlen(classes[i].label);

        if (!size || !pack_is_label(classes[i].label, size))
            return hr__fail(HR_EINVAL, "%s: '%.100s' is no label of a class",
                            pack_short(w->pub.path), classes[i].label);
        made.size += sizeof(int64_t) + size + 1;
    }
    if (!(made.data = hr__alloc(NULL, made.size + 1)))
        return hr__fail(HR_ENOMEM, "out of memory");
    text = (char *)made.data + num * sizeof(int64_t);
    for (size_t i = 0; i < num; i++) {
        uint64_t number = htole64((uint64_t)classes[i].number);

        memcpy((char *)made.data + i * sizeof(number), &number, sizeof(number));
        text = stpcpy(text, classes[i].label) + 1;
    }
    hr__free(w->classes.data);
    w->classes = made;
    return HR_OK;
}

// ---- The end ---------------------------------------------------------------

static enum hr_status write_index(struct pack_writer *w,
                                  struct pack_header *header)
{
    struct pack_parts parts;
    uint64_t size;
    enum hr_status status;
    void *index = pack_table_index(&w->table, &w->classes, &parts, &size);

    if (!index)
        return hr__fail(HR_ENOMEM, "out of memory");
    *header = (struct pack_header){
        .version = htole32(w->classes.num ? PACK_VERSION_CLASSES
                                          : PACK_VERSION),
        .fixed = htole32(w->classes.fixed ? PACK_FIXED : 0),
        .classes = htole64(w->classes.num),
        .num = htole64(w->table.num),
        .bytes = htole64(w->pub.bytes + size),
        .index = htole64(w->pub.bytes),
        .index_sum = htole64(pack_sum(index, (size_t)size)),
    };
    memcpy(header->magic, PACK_MAGIC, sizeof(header->magic));
    header->sum = htole64(pack_header_sum(header));
    status = pack_write_all(w, index, (size_t)size, w->pub.bytes);
    hr__free(index);
    // There may be more of a picture that could not be written.
    if (!status && ftruncate(w->fd, (off_t)(w->pub.bytes + size)) < 0)
        status = pack_writer_errno(w);
    return status;
}

// Makes the new name durable, too. The renamed file is there in any case,
// whole, under one of its names.
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    int fd;

    if (slash)
        snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    pack_synced(fd);
    close(fd);
}

enum hr_status hr_pack_writer_finish(hr_pack_writer writer)
{
    struct pack_writer *w = pack_writer_of(writer);
    struct pack_header header;
    enum hr_status status;

    if (w->finished)
        return hr__fail(HR_EINVAL, "%s: it is finished",
                        pack_short(w->pub.path));
    if ((status = write_index(w, &header)) ||
        (status = pack_write_all(w, &header, sizeof(header), 0)))
        return status;
    if (!pack_synced(w->fd) || rename(w->part, w->pub.path) < 0)
        return pack_writer_errno(w);
    w->finished = true;
    w->pub.bytes = le64toh(header.bytes);
    sync_folder(w->pub.path);
    return HR_OK;
}
