// SPDX-License-Identifier: Apache-2.0
// Pack files that are cut, damaged, forged, changed while they are open, or no
// pack files: whatever they hold, a reader says so or reads it right.
#define _GNU_SOURCE  // memfd_create
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "loader/pack/format.h"
#include "pack_data.h"

// In memory: thousands of them.
static const char *memory_file(int *fd)
{
    static char path[64];

    *fd = memfd_create("hostile.hrp", MFD_CLOEXEC);
    if (*fd < 0)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
    return path;
}

static void put(int fd, const void *data, size_t size)
{
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

static struct bytes whole(const char *path)
{
    struct bytes b = {0};

    if (!read_file(path, &b))
        abort();
    return b;
}

static struct bytes made(int n)
{
    const char *path = pack_path("made.hrp");

    CHECK(pack_data_write(path, n, test_seed), "%s", hr_last_error());
    return whole(path);
}

static void seal(struct bytes *b);

// The same file with three classes, of which one has no picture: version 2.
static struct bytes made_classes(int n)
{
    static const char labels[] = "a\0bird\0long label";
    static const uint64_t numbers[] = {0, 7, UINT64_MAX};
    struct bytes b = made(n), v2;
    size_t at = (b.size + 7) & ~(size_t)7;
    struct pack_header h;

    v2.size = at + sizeof(numbers) + sizeof(labels);
    v2.data = calloc(1, v2.size);
    memcpy(v2.data, b.data, b.size);
    for (int i = 0; i < 3; i++) {
        uint64_t number = htole64(numbers[i]);

        memcpy(v2.data + at + 8 * (size_t)i, &number, 8);
    }
    memcpy(v2.data + at + sizeof(numbers), labels, sizeof(labels));
    memcpy(&h, v2.data, sizeof(h));
    h.version = htole32(PACK_VERSION_CLASSES);
    h.fixed = htole32(PACK_FIXED);
    h.classes = htole64(3);
    h.bytes = htole64(v2.size);
    memcpy(v2.data, &h, sizeof(h));
    seal(&v2);
    free(b.data);
    return v2;
}

static size_t index_of(const struct bytes *b)
{
    struct pack_header header;

    memcpy(&header, b->data, sizeof(header));
    return (size_t)le64toh(header.index);
}

// The sum of all bytes, so that all are read.
static volatile uint8_t sum;

// Opens the file and reads all that it lists. Returns HR_OK or the error.
static enum hr_status walk(const char *path)
{
    hr_pack_file file = hr_pack_open(path);
    struct hr_sample s = {0};
    struct hr_pack_class *classes;
    struct hr_pack_entry e;
    size_t found;

    if (!file)
        return hr_last_status();
    classes = calloc(file->num_classes + 1, sizeof(*classes));
    hr_pack_classes(file, classes);
    for (size_t i = 0; i < file->num_classes; i++)
        sum ^= (uint8_t)(strlen(classes[i].label) + (size_t)classes[i].number);
    free(classes);
    for (size_t i = 0; i < file->num; i++) {
        CHECK(hr_pack_entry(file, i, &e) == HR_OK &&
                  hr_pack_find(file, e.name, strlen(e.name), &found) == HR_OK &&
                  found == i,
              "%zu is not found", i);
        if (hr_pack_check(file, i) || hr_pack_sample(file, i, &s))
            continue;
        for (size_t k = 0; k < s.size; k++)
            sum ^= ((const uint8_t *)s.data)[k];
    }
    hr_pack_close(&file);
    return HR_OK;
}

static void cut_file(struct bytes b)
{
    int fd;
    const char *path = memory_file(&fd);
    size_t index = index_of(&b);

    for (size_t n = 0; n < b.size; n++) {
        enum hr_status want = n ? HR_ETRUNCATED : HR_EFORMAT;

        if (n > 64 && n < index - 8 && n % 97)
            continue;
        put(fd, b.data, n);
        CHECK(walk(path) == want, "cut at %zu: %s", n, hr_last_error());
        CHECK(strstr(hr_last_error(), ": offset") != NULL, "text: %s",
              hr_last_error());
    }
    free(b.data);
    close(fd);
}

TEST_CASE(cut_anywhere)
{
    cut_file(made(9));
    cut_file(made_classes(9));
}

// With each byte of header and index changed: their checksums notice.
static void flip_file(struct bytes b)
{
    int fd;
    const char *path = memory_file(&fd);
    size_t index = index_of(&b);

    for (size_t at = 0; at < b.size; at == 63 ? at = index : at++) {
        uint8_t was = b.data[at];

        b.data[at] ^= (uint8_t)(1u << at % 8);
        put(fd, b.data, b.size);
        CHECK(walk(path) != HR_OK, "byte %zu is not missed", at);
        b.data[at] = was;
    }
    free(b.data);
    close(fd);
}

TEST_CASE(flipped_bytes)
{
    flip_file(made(9));
    flip_file(made_classes(9));
}

static void seal(struct bytes *b)
{
    struct pack_header h;
    uint64_t index;

    memcpy(&h, b->data, sizeof(h));
    index = le64toh(h.index);
    if (index <= b->size)
        h.index_sum = htole64(pack_sum(b->data + index, b->size - index));
    h.sum = htole64(pack_header_sum(&h));
    memcpy(b->data, &h, sizeof(h));
}

// Makes a change with right checksums, as an attacker would.
static void forge(int fd, const char *path, const struct bytes *b, size_t at,
                  const void *bytes, size_t size, bool may_pass,
                  const char *what)
{
    auto_bytes copy = {test_copy(b->data, b->size), b->size};
    enum hr_status status;

    memcpy(copy.data + at, bytes, size);
    seal(&copy);
    put(fd, copy.data, copy.size);
    status = walk(path);
    CHECK(status != HR_OK || may_pass, "%s at %zu passes", what, at);
}

static void forge_number(int fd, const char *path, const struct bytes *b,
                         size_t at, size_t size, bool may_pass,
                         const char *what)
{
    static const uint64_t values[] = {1,          7,         63,
                                      64,         255,       4096,
                                      UINT32_MAX, INT64_MAX, UINT64_MAX};
    uint64_t was = 0, x;

    memcpy(&was, b->data + at, size);
    for (size_t i = 0; i < 2 * sizeof(values) / sizeof(*values); i++) {
        // Beside what it was, too: off by one, by 64, wrapped round.
        x = htole64(values[i / 2] + (i % 2 ? le64toh(was) : 0));
        if (memcmp(&x, &was, size))
            forge(fd, path, b, at, &x, size, may_pass, what);
    }
}

TEST_CASE(forged_fields)
{
    static const struct {
        size_t at, size;
        bool may_pass;  // another value can be valid
        const char *what;
    } fields[] = {
        {0, 8, false, "offset"},      {8, 8, true, "size"},
        {16, 8, true, "source"},      {24, 8, true, "data_sum"},
        {32, 8, false, "name"},       {40, 4, false, "name_size"},
        {44, 4, false, "label_size"}, {48, 4, true, "flags"},
        {52, 4, false, "zeros"},      {56, 4, false, "zeros"},
        {60, 4, false, "zeros"},
    };
    int fd;
    const char *path = memory_file(&fd);
    struct bytes b = made(5);
    size_t index = index_of(&b);

    forge_number(fd, path, &b, 8, 4, false, "version");
    forge_number(fd, path, &b, 12, 4, false, "zero");
    forge_number(fd, path, &b, 16, 8, false, "num");
    forge_number(fd, path, &b, 24, 8, false, "bytes");
    forge_number(fd, path, &b, 32, 8, false, "index");
    forge_number(fd, path, &b, 48, 8, false, "zeros");
    for (size_t e = 0; e < 5; e++)
        for (size_t f = 0; f < sizeof(fields) / sizeof(*fields); f++)
            forge_number(fd, path, &b, index + e * 64 + fields[f].at,
                         fields[f].size, fields[f].may_pass, fields[f].what);
    for (size_t i = 0; i < 6; i++)  // the sixth are the zeros behind the order
        forge_number(fd, path, &b, index + 5 * 64 + 4 * i, 4, false, "order");
    for (size_t at = index + 5 * 64 + 24; at < b.size; at++)
        forge(fd, path, &b, at, "/", 1, b.data[at] != 0, "text");
    for (size_t at = index + 5 * 64 + 24; at < b.size; at++)
        forge(fd, path, &b, at, "", 1, b.data[at] == 0, "zero in a text");
    free(b.data);
    close(fd);
}

TEST_CASE(forged_classes)
{
    int fd;
    const char *path = memory_file(&fd);
    struct bytes b = made_classes(5), v1 = made(5);
    size_t at = (v1.size + 7) & ~(size_t)7, labels = at + 3 * 8;

    forge_number(fd, path, &b, 8, 4, false, "version");
    forge_number(fd, path, &b, 12, 4, true, "fixed");
    forge_number(fd, path, &b, 48, 8, false, "number of classes");
    for (size_t i = v1.size; i < at; i++)
        forge(fd, path, &b, i, "/", 1, false, "a gap");
    for (size_t i = at; i < labels; i += 8)
        forge_number(fd, path, &b, i, 8, true, "number");
    for (size_t i = labels; i < b.size; i++) {
        forge(fd, path, &b, i, "/", 1, b.data[i] != 0, "label");
        forge(fd, path, &b, i, "", 1, b.data[i] == 0, "zero in a label");
    }
    free(b.data);
    free(v1.data);
    close(fd);
}

// It ends with its entry, at the end of a page: the texts would be behind it.
TEST_CASE(index_without_texts)
{
    struct pack_header h = {.version = htole32(1),
                            .num = htole64(1),
                            .bytes = htole64(4096),
                            .index = htole64(4032)};
    struct pack_index e = {.offset = htole64(192),
                           .size = htole64(4032 - 192),
                           .name_size = htole32(1)};
    uint8_t page[4096] = {0};
    struct bytes b = {page, sizeof(page)};
    int fd;
    const char *path = memory_file(&fd);

    memcpy(h.magic, PACK_MAGIC, 8);
    memcpy(page, &h, sizeof(h));
    memcpy(page + 4032, &e, sizeof(e));
    seal(&b);
    put(fd, page, sizeof(page));
    CHECK(!hr_pack_open(path) && hr_last_status() == HR_ECORRUPT &&
              strstr(hr_last_error(), "offset 16:"),
          "%s", hr_last_error());
    close(fd);
}

TEST_CASE(random_files)
{
    int fd;
    const char *path = memory_file(&fd);
    uint64_t seed = test_seed;
    struct bytes both[] = {made(9), made_classes(9)};

    for (int i = 0; i < test_loops(400); i++) {
        struct bytes b = both[i / 4 % 2];
        auto_bytes copy = {test_copy(b.data, b.size), b.size};
        int changes = 1 + (int)(next_random(&seed) % 6);
        size_t index = index_of(&b);

        for (int k = 0; k < changes; k++) {
            size_t at = next_random(&seed) % 3 ? index : 0;
            size_t room = at ? b.size - index : 64;

            copy.data[at + next_random(&seed) % room] = (uint8_t)next_random(
                &seed);
        }
        if (i % 2)
            seal(&copy);
        put(fd, copy.data, copy.size);
        walk(path);
        for (size_t k = i % 4 == 3 ? 0 : copy.size; k < copy.size; k++)
            copy.data[k] = (uint8_t)next_random(&seed);
        memcpy(copy.data, i % 8 > 3 ? PACK_MAGIC "\1\0\0" : PACK_MAGIC "\2\0\0",
               12);
        seal(&copy);
        put(fd, copy.data, copy.size);
        walk(path);
    }
    free(both[0].data);
    free(both[1].data);
    close(fd);
}

// A picture that is damaged harms no other.
TEST_CASE(damaged_data)
{
    enum { N = 16 };
    const char *path = pack_path("damaged.hrp");
    const char *base = NULL;
    uint64_t seed = test_seed;
    hr_pack_file file;
    size_t places[N];
    auto_bytes b = {0};

    CHECK(pack_data_write(path, N, test_seed), "%s", hr_last_error());
    b = whole(path);
    file = hr_pack_open(path);
    for (size_t i = 0; file && i < N; i++) {
        struct hr_pack_entry e = {0};

        hr_pack_entry(file, i, &e);
        // Its record, with a short name and label, is before it.
        base = i ? base
                 : (const char *)e.data -
                       PACK_ROUND(64 + 64 + strlen(e.name) + strlen(e.label));
        // (Also the zeros at the end of a packed picture, which no decoder
        // reads.)
        places[i] = e.size ? (size_t)((const char *)e.data - base) +
                                 (e.packed && i % 8 == 1
                                      ? e.size - 1 - next_random(&seed) % 100
                                      : next_random(&seed) % e.size)
                           : 0;
    }
    hr_pack_close(&file);
    for (size_t i = 0; i < N; i++) {
        struct hr_sample s = {.name = "as it was"};

        if (!places[i])
            continue;
        b.data[places[i]] ^= 0x10;
        test_write(path, b.data, b.size);
        b.data[places[i]] ^= 0x10;
        file = hr_pack_open(path);
        for (size_t k = 0; file && k < N; k++) {
            enum hr_status got = hr_pack_check(file, k);

            CHECK(k == i ? got == HR_ECORRUPT : got == HR_OK, "%zu of %zu: %s",
                  k, i, hr_last_error());
        }
        CHECK(file && hr_pack_check(file, i) == HR_ECORRUPT, "the second time");
        CHECK(!file || i % PACK_SORTS != 1 ||
                  hr_pack_sample(file, i, &s) == HR_ECORRUPT,
              "%zu: no job would check it", i);
        hr_pack_close(&file);
    }
}

// ---- Files that are changed while they are open ----------------------------

TEST_CASE(changed_while_open)
{
    const char *path = pack_path("changed.hrp");
    struct hr_sample s = {0};
    hr_pack_file file;
    int fd;

    CHECK(pack_data_write(path, 4, test_seed), "%s", hr_last_error());
    file = hr_pack_open(path);
    CHECK(file && hr_pack_sample(file, 0, &s) == HR_OK, "%s", hr_last_error());
    fd = open(path, O_RDWR);
    test_sleep(20 * TEST_MS);  // a clock tick
    CHECK(pwrite(fd, "x", 1, 100) == 1, "write");
    CHECK(file && hr_pack_sample(file, 0, &s) == HR_EIO, "written");
    CHECK(!ftruncate(fd, 100), "cut");
    CHECK(file && hr_pack_sample(file, 0, &s) == HR_EIO, "cut");
    CHECK(file && hr_pack_check(file, 3) == HR_EIO, "cut");
    close(fd);
    hr_pack_close(&file);
}

// Where the data of a picture begin in the file; 0: it cannot be read.
static off_t place_of(int fd, size_t i)
{
    struct pack_header header;
    struct pack_index entry;
    off_t at;

    if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
        return 0;
    at = (off_t)(le64toh(header.index) + i * sizeof(entry));
    if (pread(fd, &entry, sizeof(entry), at) != sizeof(entry))
        return 0;
    return (off_t)le64toh(entry.offset);
}

// Another byte there; size and times of the file stay.
static void write_over(int fd, off_t at)
{
    struct timespec times[2];
    struct stat st;
    uint8_t byte = 0;

    CHECK(!fstat(fd, &st) && pread(fd, &byte, 1, at) == 1, "read");
    test_sleep(20 * TEST_MS);  // a clock tick
    byte ^= 1;
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    CHECK(pwrite(fd, &byte, 1, at) == 1 && !futimens(fd, times), "write");
}

// ctime tells, and a picture that had passed is checked again.
TEST_CASE(written_with_times_put_back)
{
    const char *path = pack_path("back.hrp");
    struct hr_sample s = {0};
    hr_pack_file file;
    int fd;

    CHECK(pack_data_write(path, 4, test_seed), "%s", hr_last_error());
    fd = open(path, O_RDWR);
    file = hr_pack_open(path);
    CHECK(file && hr_pack_check(file, 2) == HR_OK, "%s", hr_last_error());
    test_sleep(20 * TEST_MS);
    CHECK(file && !fchmod(fd, 0600) && hr_pack_check(file, 2) == HR_OK &&
              hr_pack_check(file, 3) == HR_OK,
          "a new mode: %s", hr_last_error());
    write_over(fd, place_of(fd, 2) + 40);
    CHECK(file && hr_pack_check(file, 3) == HR_OK, "%s", hr_last_error());
    CHECK(file && (hr_pack_sample(file, 2, &s) == HR_ECORRUPT || !s.verified),
          "a picture that was written over is verified");
    CHECK(file && hr_pack_check(file, 2) == HR_ECORRUPT, "%s", hr_last_error());
    write_over(fd, 20);  // of the header
    CHECK(file && hr_pack_check(file, 3) == HR_EIO, "%s", hr_last_error());
    close(fd);
    hr_pack_close(&file);
}

// As a loader reads it: nothing of a file that was cut is looked at.
TEST_CASE(cut_while_open)
{
    static const off_t sizes[] = {100, 4096, 0};
    const char *path = pack_path("cut.hrp");

    for (int i = 0; i < 3; i++) {
        auto_encoded to = {0};
        auto_source source = NULL;

        CHECK(pack_data_write(path, 400, test_seed), "%s", hr_last_error());
        source = hr_source_open(path);
        CHECK(source && !hr_source_read(source, 399, 0, &to), "%s",
              hr_last_error());
        CHECK(!truncate(path, sizes[i]), "cut");
        CHECK(source && hr_source_read(source, 399, 0, &to) == HR_EIO &&
                  hr_source_read(source, 0, 0, &to) == HR_EIO,
              "%d bytes: %s", (int)sizes[i], hr_last_error());
    }
}

TEST_CASE(not_files)
{
    const char *folder = test_folder();
    char fifo[300];

    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    CHECK(!mkfifo(fifo, 0600), "fifo");
    CHECK(!hr_pack_open(fifo) && hr_last_status() == HR_EFORMAT, "a FIFO");
    CHECK(!hr_pack_open(folder) && hr_last_status() == HR_EFORMAT, "a folder");
    CHECK(!hr_pack_open("/nowhere/x.hrp") && hr_last_status() == HR_EIO &&
              strstr(hr_last_error(), "No such file"),
          "%s", hr_last_error());
    CHECK(!hr_pack_open(NULL) && hr_last_status() == HR_EINVAL, "NULL");
    CHECK(!hr_pack_writer_open("/nowhere/x.hrp") && hr_last_status() == HR_EIO,
          "%s", hr_last_error());
    CHECK(!hr_pack_writer_open("") && hr_last_status() == HR_EINVAL, "\"\"");
}
