// SPDX-License-Identifier: Apache-2.0
// Adds the inputs that the user names: files, folders, lists of files.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/engine/base.h"
#include "source.h"

// Adds the picture at path, of which what lies behind rel is its name. Its
// folder is that of others that were named in the same way.
static bool put_file(struct hr__source *s, const char *path, size_t rel,
                     const char *label)
{
    const char *slash = strrchr(path, '/'), *name;
    size_t length = slash ? (size_t)(slash - path) + (slash == path) : 0;
    char folder[PATH_MAX];
    struct hr__source_dir dir = {.path = folder};
    bool is_name = !label;
    uint32_t index, own;

    if (length >= sizeof(folder)) {
        hr__source_fault(s, path, ENAMETOOLONG);
        return true;
    }
    memcpy(folder, path, length);
    folder[length] = '\0';
    dir.rel = (uint32_t)(rel < length ? rel : length);
    name = strrchr(folder, '/');
    name = name ? name + 1 : folder;
    if (is_name)
        label = strcmp(name, ".") && strcmp(name, "..") ? name : "";
    return hr__source_intern(s, label, is_name, &own) &&
           hr__source_put_dir_once(s, dir, &index) &&
           hr__source_put(s, index, slash ? slash + 1 : path, own, 0);
}

#define X(name) &hr__container_##name,
static const struct hr__container *const containers[] = {HR__CONTAINERS(X)};
#undef X

enum { CONTAINERS = sizeof(containers) / sizeof(*containers), BEGIN = 64 };

// Says whether a path or URL ends like one of the endings, and has more than
// that. Behind that of a URL may be the number of a shard: x.mindrecord0.
static bool is_called(const char *path, const char *endings)
{
    bool web = strstr(path, "://") != NULL;
    size_t length = web ? hr__http_path_end(path) : strlen(path), size;

    while (web && length && isdigit((unsigned char)path[length - 1]))
        length--;
    for (; *endings; endings += size + (endings[size] == ' ')) {
        size = strcspn(endings, " ");
        if (length >= size + (*endings == '.') &&
            !strncasecmp(path + length - size, endings, size))
            return true;
    }
    return false;
}

// A file that is called like nothing that is known: as TensorFlow's shards,
// train-00000-of-01024. 0: it is none, or cannot be read.
static size_t read_begin(const char *path, unsigned char begin[BEGIN])
{
    struct stat st;
    size_t size;
    int fd;

    if (hr__http_is_url(path) || hr__source_is_picture(path) ||
        stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
        (fd = hr__open_file(path, O_RDONLY)) < 0)
        return 0;
    size = hr__read_at(fd, begin, BEGIN, 0);
    close(fd);
    return size;
}

// Returns the kind of container; CONTAINERS: none.
static int container_of(const char *path)
{
    unsigned char begin[BEGIN];
    size_t size;
    int i = 0;

    while (i < CONTAINERS && !is_called(path, containers[i]->endings))
        i++;
    if (i < CONTAINERS || !(size = read_begin(path, begin)))
        return i;
    for (i = 0; i < CONTAINERS; i++)
        if (containers[i]->is && containers[i]->is(begin, size))
            break;
    return i;
}

bool hr__source_has_many(const char *path)
{
    return container_of(path) < CONTAINERS;
}

// Says whether a file is named like an archive: it is no picture then.
static bool is_archive(const char *path, size_t length)
{
    static const char *const packed[] = {".gz",  ".tgz", ".bz2", ".tbz2",
                                         ".xz",  ".txz", ".zst", ".tzst",
                                         ".lz4", ".zip", ".7z",  ".rar"};

    for (size_t i = 0; i < sizeof(packed) / sizeof(*packed); i++) {
        size_t size = strlen(packed[i]);

        if (length > size &&
            !strncasecmp(path + length - size, packed[i], size))
            return true;
    }
    return false;
}

static bool add_regular(struct hr__source *s, const char *path)
{
    bool web = hr__http_is_url(path);
    size_t length = web ? hr__http_path_end(path) : strlen(path);
    int i = container_of(path);

    if (is_archive(path, length))
        return hr__source_fail(HR_EUNSUPPORTED,
                               "%.*s: compressed archives are not read: "
                               "unpack it, to a .tar or a folder",
                               length < 160 ? (int)length : 160, path);
    if (i < CONTAINERS)
        return containers[i]->add(s, path);
    return web ? hr__source_put_object(s, path, HR__WEB_OWN, SIZE_MAX, NULL)
               : put_file(s, path, SIZE_MAX, NULL);
}

// Says whether a text begins as a URL does, of any kind, or as webdataset's
// commands.
static bool is_foreign(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

    return length > 1 &&
           (!strncmp(text + length, "://", 3) ||
            !strncasecmp(text, "pipe:", 5)) &&
           !hr__http_is_url(text);
}

static bool fail_foreign(const char *path)
{
    return hr__source_fail(HR_EUNSUPPORTED,
                           "%.20s: no file, and only http, https and s3 are "
                           "read: sign the URL of another store",
                           path);
}

// Says whether a folder has the file of such a data set: an index of chunks, and
// no other index.json.
static bool is_inside(const char *folder, const struct hr__container *of,
                      char path[PATH_MAX])
{
    unsigned char begin[BEGIN];
    int length = of->inside
                     ? snprintf(path, PATH_MAX, "%s/%s", folder, of->inside)
                     : 0;
    size_t size = length > 0 && length < PATH_MAX ? read_begin(path, begin) : 0;

    return size && of->is(begin, size);
}

// A folder stands for the data set whose file is in it, else for its pictures.
static bool add_folder(struct hr__source *s, const char *folder)
{
    char path[PATH_MAX];

    for (int i = 0; i < CONTAINERS; i++)
        if (is_inside(folder, containers[i], path))
            return containers[i]->add(s, path);
    return hr__source_walk(s, folder);
}

bool hr__source_input(struct hr__source *s, const char *path)
{
    struct stat st;

    if (hr__http_is_url(path))
        return add_regular(s, path);
    if (stat(path, &st) < 0 && is_foreign(path))
        return hr__source_has_opener() &&
                       is_called(path, hr__container_opened.endings)
                   ? hr__container_opened.add(s, path)
                   : fail_foreign(path);
    if (stat(path, &st) < 0)
        return hr__source_fail(HR_EIO, "%s: %s", hr__source_short(path),
                               strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_folder(s, path);
    if (S_ISREG(st.st_mode))
        return add_regular(s, path);
    return hr__source_fail(HR_EINVAL, "%s: neither a file nor a folder",
                           hr__source_short(path));
}

// ---- Lists -----------------------------------------------------------------

// Says whether each part of a relative path names something. One that leads out
// of its folder would lead out of the folder of the output, too.
static bool stays_below(const char *path)
{
    while (path) {
        size_t dots = strspn(path, ".");

        if (dots <= 2 && (!path[dots] || path[dots] == '/'))
            return false;
        path = strchr(path, '/');
        path = path ? path + 1 : NULL;
    }
    return true;
}

// Adds an entry of a list that lies in folder ("" or with its slash, or a URL).
// Entries of a list on the web are on the web.
static bool put_entry(struct hr__source *s, const char *folder, char *entry)
{
    char *tab = strrchr(entry, '\t');
    char path[2 * PATH_MAX];
    int length;

    if (tab)
        *tab = '\0';
    while (!strncmp(entry, "./", 2))
        entry += 2;
    if (!*entry)
        return true;
    if (is_foreign(entry)) {
        fail_foreign(entry);
        hr__source_fault_text(s, hr_last_error());
        return true;
    }
    if (hr__http_is_url(folder))
        return hr__source_put_listed(s, folder, entry, stays_below(entry),
                                     tab ? tab + 1 : "");
    if (hr__http_is_url(entry))
        return hr__source_put_listed(s, entry, entry, false,
                                     tab ? tab + 1 : "");
    length = snprintf(path, sizeof(path), "%s%s", *entry == '/' ? "" : folder,
                      entry);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        hr__source_fault(s, entry, ENAMETOOLONG);
        return true;
    }
    return put_file(s, path, stays_below(entry) ? strlen(folder) : SIZE_MAX,
                    tab ? tab + 1 : "");
}

// A path or URL, a tab and a label fit; what is longer is no list.
enum { ENTRY_MOST = 16384 };

struct entries {
    FILE *file;
    char end;  // of each
    char bytes[2 * ENTRY_MOST + 1];
    size_t at, num;
};

// The next entry, and its bytes up to its end; ENTRY_MOST: there are more of
// them. NULL: there is none.
static char *next_entry(struct entries *e, size_t *length)
{
    char *begin = e->bytes + e->at, *end;

    while (!(end = memchr(begin, e->end, e->num - e->at))) {
        size_t left = e->num - e->at, more;

        if ((*length = left) >= ENTRY_MOST) {
            *length = ENTRY_MOST;
            return begin;
        }
        memmove(e->bytes, begin, left);
        begin = e->bytes;
        errno = 0;
        more = fread(begin + left, 1, 2 * ENTRY_MOST - left, e->file);
        e->at = 0;
        e->num = left + more;
        if (more)
            continue;
        e->at = left;
        begin[left] = '\0';
        return left ? begin : NULL;  // the last one has no end
    }
    *end = '\0';
    *length = (size_t)(end - begin);
    e->at += *length + 1;
    if (*length >= ENTRY_MOST)
        *length = ENTRY_MOST;
    return begin;
}

static bool read_list(struct hr__source *s, FILE *file, const char *list,
                      const char *folder, bool zero)
{
    struct entries entries;
    size_t line = 0, length;
    bool ok = true;
    char *entry;

    entries.file = file;
    entries.end = zero ? '\0' : '\n';
    entries.at = entries.num = 0;
    while (ok && (entry = next_entry(&entries, &length))) {
        line++;
        if (atomic_load_explicit(&s->stopped, memory_order_relaxed))
            ok = hr__source_fail(HR_ECANCELED, "%s: line %zu: it was stopped",
                                 hr__source_short(list), line);
        else if (length == ENTRY_MOST)
            ok = hr__source_fail(HR_EINVAL, "%s: line %zu is too long for one",
                                 hr__source_short(list), line);
        else if (!zero && strlen(entry) < length)
            ok = hr__source_fail(HR_EINVAL,
                                 "%s: line %zu holds a zero byte: is each "
                                 "entry ended by one?",
                                 hr__source_short(list), line);
        else
            ok = put_entry(s, folder, entry);
    }
    if (ok && (ferror(file) || errno))
        ok = !hr__http_is_url(list) &&  // which has said why
             hr__source_fail(HR_EIO, "%s: %s", hr__source_short(list),
                             strerror(errno));
    return ok;
}

static bool check_size(const struct hr__http_object *web, const char *list)
{
    uint64_t most = web->http->params.index_bytes;

    return web->version.size <= most ||
           hr__source_fail(HR_ELIMIT,
                           "%s: a list of %llu bytes, more than the limit of "
                           "%llu (index_bytes)",
                           hr__source_short(list),
                           (unsigned long long)web->version.size,
                           (unsigned long long)most);
}

static bool add_web_list(struct hr__source *s, const char *list, bool zero)
{
    struct hr__http *http = hr__source_web(s);
    struct hr__http_object *web = http ? hr__http_open(http, list, true,
                                                       &s->until)
                                       : NULL;
    size_t length = hr__http_path_end(list), host = hr__http_origin(list);
    char folder[HR__HTTP_URL], name[HR__HTTP_URL];
    bool ok = false;
    FILE *file;

    // (A query may be a password.)
    snprintf(name, sizeof(name), "%.*s", (int)length, list);
    if (web && !check_size(web, name)) {
        hr__http_close(web);
        return false;
    }
    file = web ? hr__http_stream(web) : NULL;

    while (length > host && list[length - 1] != '/')
        length--;
    if (file) {
        snprintf(folder, sizeof(folder), "%.*s", (int)length, list);
        ok = read_list(s, file, name, folder, zero);
        fclose(file);
    } else if (web) {
        hr__source_fail(HR_ENOMEM, "out of memory");
    }
    hr__http_close(web);
    return ok;
}

static bool add_list(struct hr__source *s, const char *list, bool zero)
{
    bool is_stdin = !strcmp(list, "-"), ok;
    FILE *file = is_stdin ? stdin : fopen(list, "re");
    const char *slash = is_stdin ? NULL : strrchr(list, '/');
    size_t length = slash ? (size_t)(slash - list) + 1 : 0;
    char folder[PATH_MAX];

    if (!file || length >= sizeof(folder))
        return hr__source_fail(HR_EIO, "%s: %s", hr__source_short(list),
                               strerror(file ? ENAMETOOLONG : errno));
    memcpy(folder, list, length);
    folder[length] = '\0';
    ok = read_list(s, file, is_stdin ? "standard input" : list, folder, zero);
    if (!is_stdin)
        fclose(file);
    return ok;
}

// ---- Classes ---------------------------------------------------------------

static bool name_classes(struct hr__source *s, const char *const *labels,
                         const int64_t *numbers, size_t num)
{
    uint32_t name, label;

    for (size_t i = 0; i < num; i++) {
        int64_t number = numbers ? numbers[i] : (int64_t)i;

        if (!labels[i] || !*labels[i])
            return hr__source_fail(HR_EINVAL, "class %zu has no label", i);
        if (!hr__source_name_class(s, labels[i], &number, &name) ||
            !hr__source_intern(s, labels[i], false, &label))
            return false;
        if (s->num_named != i + 1)
            return hr__source_fail(HR_EINVAL, "class '%s' comes twice",
                                   hr__source_short(labels[i]));
        s->labels[label].is_number = true;
        s->labels[label].whole = number;
    }
    return true;
}

enum hr_status hr_source_set_classes(hr_source source,
                                     const char *const *labels,
                                     const int64_t *numbers, size_t num)
{
    struct hr__source *s = hr__source_of(source);
    enum hr_status status = hr__source_refuse(source, labels ? "" : NULL);

    if (status)
        return status;
    if (!num || s->num_labels)
        return hr__fail(HR_EINVAL,
                        "classes: there are none, or something was added");
    if (!(s->closed = name_classes(s, labels, numbers, num)))
        s->num_named = 0;  // of what failed nothing is kept
    return hr__source_added(s, s->closed);
}

enum hr_status hr_source_set_fields(hr_source source, const char *image,
                                    const char *label)
{
    struct hr__source *s = hr__source_of(source);
    const char *const names[] = {image, label};
    enum hr_status status = hr__source_refuse(source, "");

    if (!status && s->num_dirs)
        status = hr__fail(HR_EINVAL, "fields: something was added");
    for (int i = 0; i < 2 && !status; i++)
        if (names[i] &&
            !(s->fields[i] = hr__source_text(s, names[i], strlen(names[i]))))
            status = hr_last_status();
    return status;
}

// ---- The public functions --------------------------------------------------

// Takes a failed addition back: closes its files and keeps only its faults.
static void take_back(struct hr__source *s)
{
    const struct hr__source_kept *was = &s->kept;

    s->num = (size_t)was->pub.num;
    s->num_named = was->named;
    s->num_seen = was->seen;
    while (s->num_packs > was->packs)
        hr_pack_close(&s->packs[--s->num_packs]);
    while (s->num_shards > was->shards)
        hr__shard_close(&s->shards[--s->num_shards]);
    s->pub.skipped = was->pub.skipped;
    s->pub.others = was->pub.others;
    s->pub.first_other = was->pub.first_other;
}

// Says whether a label is of a class, if the program has named all.
static bool is_known(const struct hr__source *s,
                     const struct hr__source_label *label)
{
    return !s->closed || !*label->text || label->is_number ||
           hr__source_named(s, label);
}

static bool skip_item(struct hr__source *s, const struct hr__source_item *item,
                      enum hr_skip why)
{
    char number[HR__NUMBER_TEXT];

    return hr__source_skip(s, item->dir, hr__source_item_name(s, item, number),
                           why);
}

// Leaves out the new samples that are of no class, and notes the labels of the
// others.
static bool look_at_labels(struct hr__source *s)
{
    size_t kept = (size_t)s->kept.pub.num;

    for (size_t i = kept; i < s->num; i++) {
        struct hr__source_item *item = &s->items[i];
        struct hr__source_label *label = hr__source_label_of(s, item);

        if (is_known(s, label)) {
            if (!label->is_used && *label->text) {
                s->numbers = s->numbers || label->is_number;
                s->num_words += !label->is_number;
            }
            label->is_used = true;
            s->items[kept++] = *item;
        } else if (!skip_item(s, item, HR_SKIP_CLASS)) {
            return false;
        }
    }
    s->num = kept;
    return true;
}

// Tells once of a word where others are numbers.
static bool look_at_words(struct hr__source *s)
{
    for (size_t i = 0; i < s->num && s->numbers && s->num_words && !s->told;
         i++) {
        const struct hr__source_item *item = &s->items[i];
        const struct hr__source_label *label = hr__source_label_of(s, item);
        const struct hr__source_class *named = hr__source_named(s, label);

        if (!*label->text || label->is_number || (named && named->fixed))
            continue;
        if (!skip_item(s, item, HR_SKIP_WORD))
            return false;
        s->told = true;
    }
    return true;
}

enum hr_status hr__source_added(struct hr__source *s, bool ok)
{
    if (!ok || !(ok = look_at_labels(s) && look_at_words(s)))
        take_back(s);
    s->pub.num = s->num;
    s->kept = (struct hr__source_kept){s->pub, s->num_packs, s->num_shards,
                                       s->num_named, s->num_seen};
    atomic_store(&s->has_classes, false);
    atomic_store(&s->has_identity, false);
    return ok ? HR_OK : hr_last_status();
}

enum hr_status hr__source_refuse(hr_source source, const char *text)
{
    if (!source || !text)
        return hr__fail(HR_EINVAL, "there is no source, or nothing to add");
    if (hr__source_of(source)->calls.read)
        return hr__fail(HR_EINVAL, "the source is a callback's");
    if (atomic_load(&hr__source_of(source)->stopped))
        return hr__fail(HR_ECANCELED, "the source was stopped");
    return HR_OK;
}

enum hr_status hr_source_add_list(hr_source source, const char *list, bool zero)
{
    struct hr__source *s = hr__source_of(source);
    enum hr_status status = hr__source_refuse(source, list);

    return status ? status
                  : hr__source_added(s, hr__http_is_url(list)
                                            ? add_web_list(s, list, zero)
                                            : add_list(s, list, zero));
}

enum hr_status hr_source_add_cifar(hr_source source, const char *path,
                                   enum hr_cifar kind)
{
    struct hr__source *s = hr__source_of(source);
    enum hr_status status = hr__source_refuse(source, path);

    if (!status && (unsigned)kind > HR_CIFAR100_COARSE)
        status = hr__fail(HR_EINVAL, "there is no CIFAR of kind %d", (int)kind);
    return status ? status
                  : hr__source_added(s, hr__source_cifar(s, path, kind));
}

enum hr_status hr_source_add_file(hr_source source, const char *path,
                                  const char *label)
{
    struct hr__source *s = hr__source_of(source);
    enum hr_status status = hr__source_refuse(source, path);

    label = label ? label : "";
    if (!status)
        status = hr__source_added(
            s,
            is_foreign(path) ? fail_foreign(path)
            : hr__http_is_url(path)
                ? hr__source_put_object(s, path, HR__WEB_OWN, SIZE_MAX, label)
                : put_file(s, path, SIZE_MAX, label));
    return status;
}
