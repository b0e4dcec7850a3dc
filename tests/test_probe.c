// SPDX-License-Identifier: Apache-2.0
// hr_probe() and hr_probe_path(): PNG, EXIF, foreign formats, files of all
// kinds, and how long a header takes.
#include <CUnit/CUnit.h>
#include <CUnit/Basic.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "hal/header_parts.h"
#include "header_bytes.h"

static struct hr_info info;
static unsigned long long seed;

static uint32_t next_random(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33);
}

// hr_probe() of a heap block of exactly n bytes.
static enum hr_status probe(const uint8_t *p, size_t n,
                            const struct hr_limits *limits)
{
    uint8_t *exact = malloc(n ? n : 1);
    enum hr_status status;

    if (n)
        memcpy(exact, p, n);
    status = hr_probe(exact, n, limits, &info);
    free(exact);
    return status;
}

static void expect(struct bytes *b, const char *what, enum hr_status wanted,
                   const char *text)
{
    enum hr_status status = probe(b->p, b->n, NULL);
    bool same = status == wanted &&
                (status == HR_OK || strstr(hr_last_error(), text));

    if (!same)
        printf("\n  %s: %s \"%s\"", what, hr_status_name(status),
               status == HR_OK ? "" : hr_last_error());
    CU_ASSERT(same);
    drop(b);
}

// ---- PNG ---------------------------------------------------------------------

static void png_color_types(void)
{
    static const uint8_t channels[8] = {1, 0, 3, 3, 2, 0, 4, 0};
    static const char *const depths[8] = {"\1\2\4\10\20", "",       "\10\20",
                                          "\1\2\4\10",    "\10\20", "",
                                          "\10\20",       ""};

    for (int type = 0; type < 8; type++)
        for (int depth = 0; depth <= 32; depth++) {
            struct bytes b = {0};
            bool good = depth && strchr(depths[type], depth);

            ihdr(&b, 300, 200, (uint8_t)depth, (uint8_t)type);
            if (type == 3)
                chunk(&b, "PLTE", "abc", 3);
            png_end(&b);
            CU_ASSERT(probe(b.p, b.n, NULL) == (good ? HR_OK : HR_ECORRUPT));
            CU_ASSERT(!good || (info.components == channels[type] &&
                                info.precision == depth && info.ends));
            CU_ASSERT(!good ||
                      info.color == (type & 2 ? HR_COLOR_RGB : HR_COLOR_GRAY));
            CU_ASSERT(!good || (info.width == 300 && info.height == 200));
            CU_ASSERT(info.format == HR_FORMAT_PNG);
            drop(&b);
        }
}

static void png_damage(void)
{
    struct bytes b = {0};

    ihdr(&b, 0, 5, 8, 2);
    expect(&b, "width 0", HR_ECORRUPT, "size 0 x 5");
    ihdr(&b, 5, 0x80000000, 8, 2);
    expect(&b, "height 2^31", HR_ECORRUPT, "size 5 x 2147483648");
    ihdr(&b, 0x7FFFFFFF, 0x7FFFFFFF, 8, 2);
    expect(&b, "2^31-1 x 2^31-1", HR_ELIMIT, "limit of 16384");
    ihdr(&b, 16000, 16000, 8, 2);
    expect(&b, "pixels", HR_ELIMIT, "256000000 pixels");
    ihdr(&b, 5, 5, 8, 2);
    b.p[20] ^= 1;
    expect(&b, "checksum", HR_ECORRUPT, "wrong checksum");
    for (int field = 10; field < 13; field++) {
        ihdr(&b, 5, 5, 8, 2);
        b.p[16 + field] = 2;
        uint32_t crc = crc_of(b.p + 12, 17);
        b.n -= 4;
        add_be(&b, crc, 4);
        expect(&b, "coding", HR_EUNSUPPORTED, "offset 26: IHDR: compression");
    }
    add(&b, "\x89PNG\r\n\x1A\n", 8);
    chunk(&b, "IHDR", "\0\0\0\5\0\0\0\5\10\2\0\0\0", 14);
    expect(&b, "length of IHDR", HR_ECORRUPT, "not an IHDR of 13");
    add(&b, "\x89PNG\r\n\x1A\n", 8);
    chunk(&b, "iHDR", "\0\0\0\5\0\0\0\5\10\2\0\0", 13);
    expect(&b, "type of IHDR", HR_ECORRUPT, "not an IHDR of 13");
    ihdr(&b, 5, 5, 8, 3);
    png_end(&b);
    expect(&b, "palette", HR_ECORRUPT, "no PLTE");
    ihdr(&b, 5, 5, 8, 2);
    chunk(&b, "IEND", NULL, 0);
    expect(&b, "no data", HR_ECORRUPT, "no IDAT");
    ihdr(&b, 5, 5, 8, 2);
    chunk(&b, "te t", NULL, 0);
    expect(&b, "type", HR_ECORRUPT, "offset 37: chunk type 74652074");
    ihdr(&b, 5, 5, 8, 2);
    add_be(&b, 0x80000000, 4);
    add(&b, "tEXt", 4);
    expect(&b, "length", HR_ECORRUPT, "chunk length 2147483648");
    ihdr(&b, 5, 5, 8, 2);
    for (int i = 0; i < 5000; i++)
        chunk(&b, "tEXt", NULL, 0);
    expect(&b, "chunk flood", HR_ELIMIT, "4096 segments");
    ihdr(&b, 5, 5, 8, 2);
    add_be(&b, 17 << 20, 4);
    add(&b, "tEXt", 4);
    expect(&b, "huge chunk", HR_ELIMIT, "over the limit of 16777216");
    add(&b, "\x89PNG\r\n\x1A\n", 8);
    chunk(&b, "IDAT", NULL, 0);
    expect(&b, "no IHDR", HR_ECORRUPT, "not an IHDR");
}

static void png_exif_and_end(void)
{
    struct bytes b = {0}, t = {0};
    size_t header;

    tiff(&t, 1, 3, 1, 6);
    ihdr(&b, 7, 5, 16, 6);
    chunk(&b, "eXIf", t.p, t.n);
    header = b.n + 8;
    png_end(&b);
    CU_ASSERT(probe(b.p, b.n, NULL) == HR_OK);
    CU_ASSERT(info.orientation == 6 && info.ends);
    CU_ASSERT(info.header_size == header);
    for (size_t n = 0; n < b.n; n++) {
        enum hr_status status = probe(b.p, n, NULL);

        CU_ASSERT(status == (n >= header ? HR_OK
                             : n         ? HR_ETRUNCATED
                                         : HR_EFORMAT));
        CU_ASSERT(!info.ends);
    }
    add(&b, "trailing bytes", 14);
    CU_ASSERT(probe(b.p, b.n, NULL) == HR_OK && info.ends);
    for (size_t i = 0; i < 8 * b.n; i++) {
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        enum hr_status status = probe(b.p, b.n, NULL);
        b.p[i / 8] ^= (uint8_t)(1 << i % 8);
        CU_ASSERT(status == HR_OK ? info.width == 7 && info.height == 5
                                  : hr_last_error()[0] != 0);
    }
    drop(&b);
    drop(&t);
}

// ---- EXIF --------------------------------------------------------------------

static int orientation_of(const struct bytes *t)
{
    uint8_t *exact = malloc(t->n ? t->n : 1);
    int found;

    if (t->n)
        memcpy(exact, t->p, t->n);
    found = hr__exif_orientation(exact, t->n);
    free(exact);
    return found;
}

static int orientation(int big, uint16_t type, uint32_t count, uint32_t value)
{
    struct bytes t = {0};

    tiff(&t, big, type, count, value);
    int found = orientation_of(&t);
    drop(&t);
    return found;
}

// What Pillow's getexif() makes of each was looked up there.
static void exif_values(void)
{
    for (int big = 0; big < 2; big++) {
        for (uint32_t value = 0; value < 12; value++) {
            int wanted = value >= 1 && value <= 8 ? (int)value : 1;

            CU_ASSERT(orientation(big, 3, 1, value) == wanted);  // SHORT
            CU_ASSERT(orientation(big, 4, 1, value) == wanted);  // LONG
            CU_ASSERT(orientation(big, 9, 1, value) == wanted);  // SLONG
            CU_ASSERT(orientation(big, 2, 1, value) == 1);       // ASCII
            CU_ASSERT(orientation(big, 99, 1, value) == 1);
        }
        CU_ASSERT(orientation(big, 3, 0, 6) == 1);
        CU_ASSERT(orientation(big, 3, 0xFFFFFFFF, 6) == 1);
        CU_ASSERT(orientation(big, 3, 3, 0xFFFFFFF0) == 1);
        CU_ASSERT(orientation(big, 3, 3, 25) == 1);  // one byte too far
        CU_ASSERT(orientation(big, 16, 0xFFFFFFFF, 2) == 1);
        CU_ASSERT(orientation(big, 4, 1, 0x10006) == 1);
    }
    // Three SHORTs at offset 20, where the value's own bytes are: 0, 20.
    CU_ASSERT(orientation(0, 3, 3, 20) == 1);
    // One LONG8 at offset 18: its low half is 18, its high half the next 0.
    CU_ASSERT(orientation(0, 16, 1, 18) == 1);
}

static void exif_directories(void)
{
    struct bytes t = {0};

    tiff(&t, 0, 3, 1, 8);
    t.p[4] = 0;  // a directory on top of the header
    CU_ASSERT(orientation_of(&t) == 1);
    memset(t.p + 4, 0xFF, 4);  // or far away
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[4] = 25, t.p[5] = t.p[6] = t.p[7] = 0;  // or half outside
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[4] = 24;  // or at its end, empty
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[4] = 8;
    CU_ASSERT(orientation_of(&t) == 8);
    t.p[8] = t.p[9] = 0xFF;  // 65535 entries of which one is there
    CU_ASSERT(orientation_of(&t) == 8);
    t.p[8] = t.p[9] = 0;
    CU_ASSERT(orientation_of(&t) == 1);
    t.p[8] = 1;
    t.p[2] = 0, t.p[3] = 42;  // 42 in the other byte order
    CU_ASSERT(orientation_of(&t) == 8);
    t.p[2] = 43, t.p[3] = 0;  // BigTIFF
    CU_ASSERT(orientation_of(&t) == 1);
    drop(&t);

    // The last of several counts; one whose values lie outside ends them.
    tiff(&t, 0, 3, 1, 3);
    add(&t, t.p + 10, 12);
    memmove(t.p + 22, t.p + 10, 12);
    t.p[8] = 2;
    t.p[22 + 8] = 5;
    CU_ASSERT(orientation_of(&t) == 5);
    memset(t.p + 10 + 4, 0xFF, 8);
    CU_ASSERT(orientation_of(&t) == 1);
    drop(&t);

    // The 257th entry is not looked at.
    tiff(&t, 0, 3, 1, 3);
    uint8_t entry[12];
    memcpy(entry, t.p + 10, 12);
    t.n = 10;
    for (int i = 0; i < 300; i++) {
        entry[0] = i == 255 ? 0x12 : 0x13;
        add(&t, entry, 12);
    }
    t.p[8] = 44, t.p[9] = 1;
    CU_ASSERT(orientation_of(&t) == 3);
    t.p[10 + 12 * 255] = 0x13;
    t.p[10 + 12 * 256] = 0x12;
    CU_ASSERT(orientation_of(&t) == 1);
    drop(&t);
}

static void exif_damage(void)
{
    int moved = 0;

    for (int i = 0; i < 50000; i++) {
        struct bytes t = {0};

        tiff(&t, i & 1, (uint16_t)(3 + i % 3), 1 + next_random() % 9, 6);
        t.n = next_random() % 4 ? t.n : next_random() % (t.n + 1);
        for (unsigned k = next_random() % 4; k && t.n; k--)
            t.p[next_random() % t.n] = (uint8_t)next_random();
        int found = orientation_of(&t);
        CU_ASSERT(found >= 1 && found <= 8);
        moved += found > 1;
        drop(&t);
    }
    CU_ASSERT(moved > 100);
}

// ---- Other formats -------------------------------------------------------------

static void foreign_formats(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } f[] = {
        {"", 0, "empty"},
        {"\xFE\xED\xBE\xEF", 4, "begins with FE ED BE EF"},
        {"xy", 2, "2 bytes, neither"},
        {"GIF89a....", 10, "GIF"},
        {"RIFF\0\0\0\0WEBPVP8 ", 16, "WebP"},
        {"BM\0\0\0\0\0\0", 8, "BMP"},
        {"II*\0\10\0\0\0", 8, "TIFF"},
        {"MM\0*\0\0\0\10", 8, "TIFF"},
        {"\0\0\0\14jP  \r\n\x87\n", 12, "JPEG 2000"},
        {"\xFF\x4F\xFF\x51", 4, "JPEG 2000"},
        {"\n <!DOCTYPE HTML><title>404", 27, "HTML"},
        {"<HTML>", 6, "HTML"},
        {"\x89PNG\n\x1A\n..", 9, "text-mode"},
        {"\xFF\xD8\x00\xE0", 4, "begins with FF D8 00 E0"},
        {"\0\0\0\x1C"
         "ftypavif",
         12, "AVIF"},
    };

    for (size_t i = 0; i < sizeof(f) / sizeof(*f); i++) {
        struct bytes b = {0};

        add(&b, f[i].bytes, f[i].n);
        expect(&b, f[i].text, HR_EFORMAT, f[i].text);
        CU_ASSERT(info.format == HR_FORMAT_UNKNOWN && info.orientation == 1);
    }
}

static void arguments(void)
{
    CU_ASSERT(hr_probe("x", 1, NULL, NULL) == HR_EINVAL);
    CU_ASSERT(hr_probe(NULL, 1, NULL, &info) == HR_EINVAL);
    CU_ASSERT(hr_probe(NULL, 0, NULL, &info) == HR_EFORMAT);
    CU_ASSERT(hr_probe_path(NULL, NULL, &info) == HR_EINVAL);
    CU_ASSERT(hr_probe_path("x", NULL, NULL) == HR_EINVAL);
    CU_ASSERT(strstr(hr_last_error(), "no info") != NULL);
}

// ---- Files -------------------------------------------------------------------

static char dir[64];

static const char *in_dir(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

// Writes and drops b, probes the file, removes it.
static enum hr_status probe_file(struct bytes *b,
                                 const struct hr_limits *limits)
{
    const char *path = in_dir("picture");
    FILE *f = fopen(path, "wb");

    CU_ASSERT_FATAL(f != NULL);
    CU_ASSERT_FATAL(!b->n || fwrite(b->p, 1, b->n, f) == b->n);
    CU_ASSERT_FATAL(fclose(f) == 0);
    drop(b);
    enum hr_status status = hr_probe_path(path, limits, &info);
    unlink(path);
    return status;
}

static void long_header(struct bytes *b, int segments, size_t data)
{
    static uint8_t payload[65533];
    struct bytes plain = {0};

    baseline(&plain, 321, 123, data);
    soi(b);
    for (int i = 0; i < segments; i++)
        segment(b, 0xE2, payload, sizeof(payload));
    add(b, plain.p + 2, plain.n - 2);
    drop(&plain);
}

static void files(void)
{
    struct bytes b = {0};

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
    chunk(&b, "iCCP", dir, 50);
    noise(&b, 100000);  // after this IDAT would come a broken chunk
    memcpy(b.p + 33 + 62, "\0\1\0\0IDAT", 8);
    chunk(&b, "IEND", NULL, 0);
    CU_ASSERT(probe_file(&b, NULL) == HR_OK);
    CU_ASSERT(info.width == 9 && info.ends);
}

static void not_files(void)
{
    struct bytes b = {0};

    CU_ASSERT(hr_probe_path(in_dir("nothing"), NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "nothing: ") != NULL);
    CU_ASSERT(hr_probe_path(dir, NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "a directory") != NULL);
    CU_ASSERT(hr_probe_path("/dev/null", NULL, &info) == HR_EIO);
    CU_ASSERT(strstr(hr_last_error(), "a device") != NULL);
    CU_ASSERT_FATAL(mkfifo(in_dir("fifo"), 0600) == 0);
    struct timespec a, z;
    clock_gettime(CLOCK_MONOTONIC, &a);
    CU_ASSERT(hr_probe_path(in_dir("fifo"), NULL, &info) == HR_EIO);
    clock_gettime(CLOCK_MONOTONIC, &z);
    CU_ASSERT(strstr(hr_last_error(), "a FIFO") != NULL);
    CU_ASSERT(z.tv_sec - a.tv_sec < 2);
    unlink(in_dir("fifo"));
    CU_ASSERT(probe_file(&b, NULL) == HR_EFORMAT);
    CU_ASSERT(strstr(hr_last_error(), "empty") != NULL);
    if (geteuid()) {
        close(open(in_dir("closed"), O_CREAT | O_WRONLY, 0));
        CU_ASSERT(hr_probe_path(in_dir("closed"), NULL, &info) == HR_EIO);
        unlink(in_dir("closed"));
    } else {
        printf("\n  an unreadable file: not run as root");
    }
    // No descriptor is left open.
    int fd = open("/dev/null", O_RDONLY);
    for (int i = 0; i < 50; i++)
        hr_probe_path(i & 1 ? dir : "/dev/null", NULL, &info);
    int again = open("/dev/null", O_RDONLY);
    CU_ASSERT(again == fd + 1);
    close(again);
    close(fd);
}

// ---- Time --------------------------------------------------------------------

static double us_per_probe(const struct bytes *b)
{
    double best = 1e9;
    int bad = 0;

    for (int k = 0; k < 5; k++) {
        struct timespec a, z;
        enum { ROUNDS = 2000 };

        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < ROUNDS; i++)
            bad += hr_probe(b->p, b->n, NULL, &info) != HR_OK;
        clock_gettime(CLOCK_MONOTONIC, &z);
        double us = ((double)(z.tv_sec - a.tv_sec) * 1e9 +
                     (double)(z.tv_nsec - a.tv_nsec)) /
                    1e3 / ROUNDS;
        best = us < best ? us : best;
    }
    CU_ASSERT(bad == 0);
    return best;
}

// Ten times the target, for sanitizers and machines that are busy.
static void speed(void)
{
    struct bytes b = {0};
    double us;

    baseline(&b, 500, 375, 110000);
    us = us_per_probe(&b);
    printf("\n  baseline, %zu bytes: %.3f us per probe", b.n, us);
    CU_ASSERT(us < 30);
    drop(&b);
    progressive(&b, 500, 375, 10);
    b.n -= 2;
    noise(&b, 110000);
    eoi(&b);
    us = us_per_probe(&b);
    printf("\n  progressive (all scans visited), %zu bytes: %.3f us", b.n, us);
    drop(&b);
    ihdr(&b, 500, 375, 8, 2);
    png_end(&b);
    us = us_per_probe(&b);
    printf("\n  PNG: %.3f us", us);
    CU_ASSERT(us < 30);
    drop(&b);
}

int main(void)
{
    const char *given = getenv("HEADRACE_SEED"), *tmp = getenv("TMPDIR");

    seed = given ? strtoull(given, NULL, 0) : (unsigned long long)time(NULL);
    printf("seed %llu (HEADRACE_SEED)\n", seed);
    snprintf(dir, sizeof(dir), "%.40s/hr_probe.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        printf("no folder for temporary files: %s\n", strerror(errno));
        return 1;
    }
    CU_initialize_registry();
    CU_pSuite s = CU_add_suite("probe", NULL, NULL);
    CU_ADD_TEST(s, png_color_types);
    CU_ADD_TEST(s, png_damage);
    CU_ADD_TEST(s, png_exif_and_end);
    CU_ADD_TEST(s, exif_values);
    CU_ADD_TEST(s, exif_directories);
    CU_ADD_TEST(s, exif_damage);
    CU_ADD_TEST(s, foreign_formats);
    CU_ADD_TEST(s, arguments);
    CU_ADD_TEST(s, files);
    CU_ADD_TEST(s, not_files);
    CU_ADD_TEST(s, speed);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    CU_cleanup_registry();
    rmdir(dir);
    return failures || CU_get_error() ? 1 : 0;
}
