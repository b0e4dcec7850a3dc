// SPDX-License-Identifier: Apache-2.0
// hr_probe_path() on files of all kinds and on what is no file; how long a
// header takes.
#include <fcntl.h>
#include <sys/stat.h>

#include "allowed.h"
#include "header_bytes.h"
#include "testing.h"

static struct hr_info info;

// ---- Files ----------------------------------------------------------------

static const char *dir;

static const char *in_dir(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

// Writes and drops b, probes the file, removes it.
static enum hr_status probe_file(struct growing *b,
                                 const struct hr_limits *limits)
{
    const char *path = in_dir("picture");

    test_write(path, b->p, b->n);
    drop(b);
    enum hr_status status = hr_probe_path(path, limits, &info);
    unlink(path);
    return status;
}

static void long_header(struct growing *b, int segments, size_t data)
{
    static uint8_t payload[65533];
    struct growing plain = {0};

    baseline(&plain, 321, 123, data);
    soi(b);
    for (int i = 0; i < segments; i++)
        segment(b, 0xE2, payload, sizeof(payload));
    add(b, plain.p + 2, plain.n - 2);
    drop(&plain);
}

TEST_CASE(files)
{
    static const uint8_t profile[50] = {1};
    struct growing b = {0};

    for (int segments = 0; segments < 40; segments += segments + 1) {
        for (size_t data = 10; data < 200000; data *= 1000) {
            long_header(&b, segments, data);
            CU_ASSERT(probe_file(&b, NULL) == HR_OK);
            CU_ASSERT(info.width == 321 && info.height == 123 && info.ends);
            long_header(&b, segments, data);
            b.n--;
            CU_ASSERT(probe_file(&b, NULL) == HR_OK);
            CU_ASSERT(info.width == 321 && !info.ends);
        }
        long_header(&b, segments, 0);
        b.n = 2 + (size_t)segments * 65537 + 9;
        CU_ASSERT(probe_file(&b, NULL) == HR_ETRUNCATED);
    }
    long_header(&b, 300, 10);
    CU_ASSERT(probe_file(&b, NULL) == HR_ELIMIT);
    CU_ASSERT(strstr(hr_last_error(), "/picture: offset ") != NULL);
    baseline(&b, 9, 9, 100);
    CU_ASSERT(probe_file(&b, &(struct hr_limits){.file_bytes = 99}) ==
              HR_ELIMIT);
    progressive(&b, 64, 64, 200);
    CU_ASSERT(probe_file(&b, NULL) == HR_ELIMIT);
    ihdr(&b, 9, 8, 8, 2);
    chunk(&b, "iCCP", profile, sizeof(profile));
    noise(&b, 100000);  // after this IDAT would come a broken chunk
    memcpy(b.p + 33 + 62, "\0\1\0\0IDAT", 8);
    chunk(&b, "IEND", NULL, 0);
    CU_ASSERT(probe_file(&b, NULL) == HR_OK);
    CU_ASSERT(info.width == 9 && info.ends);
}

// The size of these files tells, also where no more than the head is read.
TEST_CASE(files_without_an_end_marker)
{
    static const char ppm[] = "P6 300 300 255\n";
    static const char bmp[] = "BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x2C\1\0\0"
                              "\x2C\1\0\0\1\0\x18\0";
    static const char text[] = "P3 300 300 255\n";
    static const char webp[] = "RIFF\x58\x21\4\0WEBPVP8 \x4C\x21\4\0"
                               "\0\0\0\x9D\1\x2A\x2C\1\x2C\1";
    enum { ROWS = 300 * 300 * 3 };
    static const struct {
        const char *head;
        size_t size, header;
        bool cut_ends;
    } rows[] = {
        {ppm, sizeof(ppm) - 1, 15, false},
        {bmp, sizeof(bmp) - 1, 54, false},
        {text, sizeof(text) - 1, 15, true},  // only the decoder knows
        {webp, sizeof(webp) - 1, 688, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (size_t cut = 0; cut < 2; cut++) {
            static const uint8_t zeros[54 + 700 + ROWS];
            size_t all = rows[i].header + ROWS;
            struct growing b = {0};

            add(&b, rows[i].head, rows[i].size);
            add(&b, zeros, all - rows[i].size - cut);
            CU_ASSERT(probe_file(&b, NULL) == HR_OK);
            CHECK(info.width == 300 && info.ends == (!cut || rows[i].cut_ends),
                  "case %zu, cut %zu: %d", i, cut, info.ends);
        }
    }
}

TEST_CASE(not_files)
{
    struct growing b = {0};

    CU_ASSERT(hr_probe_path(in_dir("nothing"), NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "nothing: ") != NULL);
    CU_ASSERT(hr_probe_path(dir, NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "a directory") != NULL);
    CU_ASSERT(hr_probe_path("/dev/null", NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "a device") != NULL);
    CU_ASSERT_FATAL(mkfifo(in_dir("fifo"), 0600) == 0);
    int64_t begin = hr__now();
    CU_ASSERT(hr_probe_path(in_dir("fifo"), NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "a FIFO") != NULL);
    CU_ASSERT(hr__now() - begin < test_allowed(2000 * TEST_MS));
    unlink(in_dir("fifo"));
    CU_ASSERT(probe_file(&b, NULL) == HR_EFORMAT);
    CU_ASSERT(strstr(hr_last_error(), "empty") != NULL);
    if (test_drop_root(dir)) {
        close(open(in_dir("closed"), O_CREAT | O_WRONLY, 0));
        CU_ASSERT(hr_probe_path(in_dir("closed"), NULL, &info) == HR_EIO);
        CU_ASSERT(strstr(hr_last_error(), "Permission denied") != NULL);
        unlink(in_dir("closed"));
    } else {
        test_not_run("an unreadable file: root reads all");
    }
    test_be_root_again();
    // No descriptor is left open.
    int fd = open("/dev/null", O_RDONLY);
    for (int i = 0; i < 50; i++)
        hr_probe_path(i & 1 ? dir : "/dev/null", NULL, &info);
    int again = open("/dev/null", O_RDONLY);
    CU_ASSERT(again == fd + 1);
    close(again);
    close(fd);
}

int main(int argc, char **argv)
{
    dir = test_folder();
    return test_main(argc, argv);
}
