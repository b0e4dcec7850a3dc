// SPDX-License-Identifier: Apache-2.0
// Certificates on disk: a device is tested once and then known from there,
// whatever happens to the file, and works without a folder.
#include <sys/stat.h>

#include "certificate_env.h"

TEST_CASE(kept)
{
    char path[1024];
    struct stat st;

    certificate_forget();
    certificate_right(NULL);
    CHECK(certificate_probes() > 0, "the first open");
    CHECK(certificate_file(path) == 1, "files in the cache");
    CHECK(!stat(path, &st) && (st.st_mode & 077) == 0, "others may read it");
    CHECK(certificate_probes() == 0, "the second open");
    setenv("HEADRACE_CERTIFICATE", "again", 1);
    CHECK(certificate_probes() > 0, "again");
    unsetenv("HEADRACE_CERTIFICATE");
    CHECK(certificate_file(path) == 1, "replaced");
    certificate_right("kernels 1");
    CHECK(certificate_probes() > 0, "another fingerprint");
    CHECK(certificate_probes() == 0, "the same one");
    certificate_right("kernels 2");
    CHECK(certificate_probes() > 0, "yet another");
    certificate_right("kernels 1");
    CHECK(certificate_probes() == 0, "as before");
    CHECK(certificate_file(path) == 3, "files");
    fake_begin(.spans = FAKE_ALL(FAKE_R | FAKE_S), .tested = true);
    CHECK(certificate_probes() > 0, "other spans");
}

TEST_CASE(off)
{
    auto_device dev = NULL;

    fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true, .wrong = true);
    setenv("HEADRACE_CERTIFICATE", "off", 1);
    CHECK(certificate_open(&dev, NULL) == 0, "tested");
    unsetenv("HEADRACE_CERTIFICATE");
    CHECK(dev && !dev->certificate.tested &&
              dev->caps.spans[HR_EXACT] == FAKE_RS,
          "refused");
}

TEST_CASE(broken_files)
{
    char path[1024], good[4096], bad[8192];
    size_t size;
    uint64_t seed = test_seed;

    certificate_forget();
    certificate_right(NULL);
    certificate_probes();
    CHECK(certificate_file(path) == 1, "files");
    size = test_read(path, good, sizeof(good));
    CHECK(size > 40 && size < sizeof(good) - 1, "%zu bytes", size);
    for (int i = 0; i < test_loops(24); i++) {
        size_t n = size;

        memcpy(bad, good, size);
        memset(bad + size, '1', sizeof(bad) - size);
        seed = seed * UINT64_C(6364136223846793005) + 1;
        if (i == 0)
            n = 0;
        else if (i == 1)
            n = sizeof(bad);
        else if (i == 2)
            n = size + 1;
        else if (i % 2)
            n = (size_t)(seed >> 33) % size;
        else
            // (Without the high bit it may be a hexadecimal digit's case.)
            bad[(size_t)(seed >> 33) % size] ^= (char)(0x80 |
                                                       1 << (seed >> 61) % 7);
        test_write(path, bad, n);
        CHECK(certificate_probes() > 0, "broken in way %d, %zu bytes", i, n);
        CHECK(certificate_file(path) == 1, "files");
        CHECK(certificate_probes() == 0, "mended after way %d", i);
    }
    unlink(path);
    CHECK(!mkdir(path, 0700), "folder");
    CHECK(certificate_probes() > 0 && certificate_probes() > 0,
          "a folder in its place");
    rmdir(path);
}

// FNV-1a, as trust/file.c ends its files.
static uint64_t sum_of(const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return h;
}

// A file that is sound, but as another version of the library wrote it.
TEST_CASE(other_versions)
{
    static const char *const first[] = {"headrace certificate 1\n",
                                        "headrace certificate 2\n",
                                        "headrace certificate 3\n",
                                        "headrace certificate 4\n",
                                        "headrace certificate 5\n"};
    enum { NOW = sizeof(first) / sizeof(*first) - 1 };
    char path[1024], good[4096], text[4096];
    size_t size, head = strlen(first[0]), n;
    char *sum;

    certificate_forget();
    certificate_right(NULL);
    certificate_probes();
    CHECK(certificate_file(path) == 1, "files");
    size = test_read(path, good, sizeof(good));
    CHECK(!strncmp(good, first[NOW], head), "%.24s", good);
    for (int i = 0; i <= NOW; i++) {
        memcpy(text, good, size + 1);
        memcpy(text, first[i], head);
        sum = strstr(text, "\nsum ");
        CHECK(sum != NULL, "no sum");
        n = (size_t)(sum + 1 - text);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "sum %016llx\n",
                              (unsigned long long)sum_of(text, n));
        test_write(path, text, n);
        CHECK((certificate_probes() > 0) == (i < NOW), "version %d", i);
        CHECK(test_read(path, text, sizeof(text)) == size &&
                  !strncmp(text, first[NOW], head),
              "not renewed, version %d", i);
        CHECK(certificate_probes() == 0, "tested again, version %d", i);
    }
}

TEST_CASE(no_folder)
{
    static const char *const places[] = {"/dev/null", "/proc/self", "/proc",
                                         "/no/such/place"};

    certificate_right("elsewhere");
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        setenv("XDG_CACHE_HOME", places[i], 1);
        CHECK(certificate_probes() > 0 && certificate_probes() > 0, "%s",
              places[i]);
    }
    setenv("XDG_CACHE_HOME", certificate_cache, 1);
    certificate_forget();
}

TEST_CASE(read_only)
{
    const char *before = certificate_cache;
    char path[1024];

    certificate_right("elsewhere");
    certificate_cache = test_folder();
    setenv("XDG_CACHE_HOME", certificate_cache, 1);
    if (test_drop_root(certificate_cache)) {
        CHECK(certificate_probes() > 0 && !certificate_probes(), "writable");
        certificate_file(path);
        *strrchr(path, '/') = '\0';
        certificate_forget();
        chmod(path, 0500);
        CHECK(certificate_probes() > 0 && certificate_probes() > 0,
              "read-only");
        chmod(path, 0700);
    } else {
        test_not_run("a folder without write permission: root writes in all");
    }
    test_be_root_again();
    certificate_cache = before;
    setenv("XDG_CACHE_HOME", certificate_cache, 1);
}

TEST_MAIN(certificate_main)
