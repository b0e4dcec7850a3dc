// SPDX-License-Identifier: Apache-2.0
// Stores the test results of devices on disk, one small text file per key:
//
//   headrace certificate 5
//   <the key, line by line>
//   tested <seconds since 1970> codes <bits of the wrong ones>
//   record <first> <last> <kind> <tier> <pictures> <failed> <differing> <max>
//     <mean> <psnr>                       (one line, for each of them)
//   sum <hash of all lines before>
//
// Numbers with a fraction are counted in 1e-9, so that no locale matters. A
// file that is not exactly this, or of another key with the same hash, is as
// good as none. cache.c decides where it lies and which folders are trusted.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hal/trust/trust.h"

enum {
    VERSION = 5,  // of the lines
    NAME_BYTES = 64,
    HEAD_BYTES = 64,
    FILE_BYTES = HR__CERTIFICATE_KEY + 2560
};

// FNV-1a, 64 bits (Fowler, Noll, Vo).
static uint64_t hash(const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void name_of(const char *key, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "certificate-%016" PRIx64 ".txt",
             hash(key, strlen(key)));
}

static size_t first_line(char line[HEAD_BYTES])
{
    return (size_t)snprintf(line, HEAD_BYTES, "headrace certificate %d\n",
                            VERSION);
}

// ---- Reading ---------------------------------------------------------------

// The whole file as text; its size, or 0 if it is too large or not there.
static size_t read_text(struct hr__device *dev, const char *name,
                        char text[FILE_BYTES])
{
    char why[HR__CACHE_WHY];
    size_t size;
    int fd = hr__cache_open(name, &size, why);
    bool ok;

    if (fd < 0) {
        if (why[0])
            hr__log(dev, HR_LOG_WARN, "its certificate is not read: %s", why);
        return 0;
    }
    ok = size < FILE_BYTES && hr__read_all(fd, text, size);
    close(fd);
    if (!ok)
        return 0;
    text[size] = '\0';
    return size;
}

// Cuts the last line off. False: it is not the sum of those before.
static bool take_sum(char *text, size_t size)
{
    static const size_t length = sizeof("sum 0123456789abcdef\n") - 1;
    char want[sizeof("sum 0123456789abcdef\n")];

    if (size < length)
        return false;
    size -= length;
    snprintf(want, sizeof(want), "sum %016" PRIx64 "\n", hash(text, size));
    if (strcmp(text + size, want) != 0)
        return false;
    text[size] = '\0';
    return true;
}

static bool read_record(const char **at, struct hr_certificate_record *r)
{
    int first, last, kind, tier, failed, used = 0;
    int64_t n[4];

    if (sscanf(*at,
               "record %d %d %d %d %d %d %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 "%n",
               &first, &last, &kind, &tier, &r->pictures, &failed, &n[0], &n[1],
               &n[2], &n[3], &used) != 10 ||
        (*at)[used] != '\n' || first < 0 || last < first ||
        last >= HR_NUM_STAGES || kind < HR_KIND_ALL || kind >= HR_NUM_KINDS ||
        tier < 0 || tier > HR_FAST || r->pictures < 0 || failed & ~1)
        return false;
    for (int i = 0; i < 4; i++)
        if (n[i] < 0)
            return false;
    r->span = (struct hr_span){(enum hr_stage)first, (enum hr_stage)last};
    r->kind = (enum hr_jpeg_kind)kind;
    r->tier = (enum hr_tier)tier;
    r->failed = failed;
    r->differing = (double)n[0] / 1e9;
    r->max = (double)n[1] / 1e9;
    r->mean = (double)n[2] / 1e9;
    r->psnr = (double)n[3] / 1e9;
    *at += used + 1;
    return true;
}

static bool read_lines(const char *at, struct hr_certificate *cert)
{
    int used = 0;

    if (sscanf(at, "tested %" SCNd64 " codes %" SCNx32 "%n", &cert->tested,
               &cert->wrong_codes, &used) != 2 ||
        at[used] != '\n' || cert->tested <= 0)
        return false;
    for (at += used + 1; !strncmp(at, "record ", 7); cert->num_records++)
        if (cert->num_records == HR__MAX_RECORDS ||
            !read_record(&at, &cert->records[cert->num_records]))
            return false;
    return !*at;
}

bool hr__certificate_load(struct hr__device *dev, const char *key,
                          struct hr_certificate *cert)
{
    char name[NAME_BYTES], line[HEAD_BYTES], text[FILE_BYTES];
    size_t head = first_line(line), len = strlen(key), size;

    memset(cert, 0, sizeof(*cert));
    name_of(key, name);
    size = read_text(dev, name, text);
    return size > head + len && !memcmp(text, line, head) &&
           !memcmp(text + head, key, len) && take_sum(text, size) &&
           read_lines(text + head + len, cert);
}

// ---- Writing ---------------------------------------------------------------

bool hr__certificate_save(const char *key, const struct hr_certificate *cert)
{
    char name[NAME_BYTES], line[HEAD_BYTES], text[FILE_BYTES];
    size_t n;

    first_line(line);
    n = (size_t)snprintf(text, sizeof(text),
                         "%s%stested %" PRId64 " codes %" PRIx32 "\n", line,
                         key, cert->tested, cert->wrong_codes);
    for (int i = 0; i < cert->num_records && n < sizeof(text); i++) {
        const struct hr_certificate_record *r = &cert->records[i];

        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              "record %d %d %d %d %d %d %.0f %.0f %.0f %.0f\n",
                              (int)r->span.first, (int)r->span.last,
                              (int)r->kind, (int)r->tier, r->pictures,
                              r->failed, r->differing * 1e9, r->max * 1e9,
                              r->mean * 1e9, r->psnr * 1e9);
    }
    if (n < sizeof(text))
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              "sum %016" PRIx64 "\n", hash(text, n));
    if (n >= sizeof(text))
        return errno = EFBIG, false;
    name_of(key, name);
    return hr__cache_write(name, &(struct iovec){text, n}, 1);
}
