// SPDX-License-Identifier: Apache-2.0
// Certificates on disk, one small text file per key:
//
//   headrace certificate 2
//   <the key, line by line>
//   tested <seconds since 1970>
//   span <first> <last> <pictures> <failed> <differing> <max> <mean> <psnr>
//   kind <kind> <pictures> <max> <mean>
//   fast <kind> <pictures> <failed> <max> <mean> <psnr>
//   sum <hash of all lines before>
//
// Numbers with a fraction are counted in 1e-9, so that no locale matters. A
// file that is not exactly this, or of another key with the same hash, is as
// good as none; it is replaced by rename, so readers see the old or the new.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hal/certificate.h"

enum { PATH_BYTES = 1024, FILE_BYTES = HR__CERTIFICATE_KEY + 2048 };

static const char first_line[] = "headrace certificate 2\n";

// FNV-1a, 64 bits (Fowler, Noll, Vo).
static uint64_t hash(const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return h;
}

// The folder for the file, made if make is set and it is not there.
static bool folder(char *path, size_t size, bool make)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;

    // The XDG base directory specification ignores relative paths.
    if (base && base[0] == '/')
        n = snprintf(path, size, "%s", base);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.cache", home);
    else
        return errno = ENOENT, false;
    if (n < 0 || (size_t)n + sizeof("/headrace") > size)
        return errno = ENAMETOOLONG, false;
    if (make && mkdir(path, 0700) && errno != EEXIST)
        return false;
    strcat(path, "/headrace");
    return !make || !mkdir(path, 0700) || errno == EEXIST;
}

static bool path_of(const char *key, char path[PATH_BYTES], bool make)
{
    char dir[PATH_BYTES - 64];

    if (!folder(dir, sizeof(dir), make))
        return false;
    snprintf(path, PATH_BYTES, "%s/certificate-%016" PRIx64 ".txt", dir,
             hash(key, strlen(key)));
    return true;
}

// ---- Reading ---------------------------------------------------------------

// The whole file as text; its size, or 0 if it is too large or not there.
static size_t read_text(const char *path, char text[FILE_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t size = 0;
    ssize_t n;

    if (fd < 0)
        return 0;
    while (size < FILE_BYTES - 1) {
        n = read(fd, text + size, FILE_BYTES - 1 - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        size += (size_t)n;
    }
    close(fd);
    text[size] = '\0';
    return size < FILE_BYTES - 1 ? size : 0;
}

static bool read_span(const char **at, struct hr_span_certificate *s)
{
    int64_t differing, max, mean, psnr;
    int first, last, failed, used = 0;

    if (sscanf(*at,
               "span %d %d %d %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               "%n",
               &first, &last, &s->pictures, &failed, &differing, &max, &mean,
               &psnr, &used) != 8 ||
        (*at)[used] != '\n' || first < 0 || last < first ||
        last >= HR_NUM_STAGES || s->pictures < 0 || failed & ~1 ||
        differing < 0 || max < 0 || mean < 0 || psnr < 0)
        return false;
    s->span = (struct hr_span){(enum hr_stage)first, (enum hr_stage)last};
    s->differing = (double)differing / 1e9;
    s->max = (double)max / 1e9;
    s->mean = (double)mean / 1e9;
    s->psnr = (double)psnr / 1e9;
    s->failed = failed;
    *at += used + 1;
    return true;
}

static bool read_kind(const char **at, struct hr_certificate *cert)
{
    int64_t max, mean;
    int kind, pictures, used = 0;

    if (sscanf(*at, "kind %d %d %" SCNd64 " %" SCNd64 "%n", &kind, &pictures,
               &max, &mean, &used) != 4 ||
        (*at)[used] != '\n' || kind < 0 || kind >= HR_NUM_KINDS ||
        pictures < 0 || max < 0 || mean < 0)
        return false;
    cert->kinds[kind] = (struct hr_kind_certificate){pictures,
                                                     (double)max / 1e9,
                                                     (double)mean / 1e9};
    *at += used + 1;
    return true;
}

static bool read_fast(const char **at, struct hr_certificate *cert)
{
    int64_t max, mean, psnr;
    int kind, pictures, failed, used = 0;

    if (sscanf(*at, "fast %d %d %d %" SCNd64 " %" SCNd64 " %" SCNd64 "%n",
               &kind, &pictures, &failed, &max, &mean, &psnr, &used) != 6 ||
        (*at)[used] != '\n' || kind < 0 || kind >= HR_NUM_KINDS ||
        pictures < 0 || failed & ~1 || max < 0 || mean < 0 || psnr < 0)
        return false;
    cert->fast[kind] = (struct hr_fast_certificate){.pictures = pictures,
                                                    .max = (double)max / 1e9,
                                                    .mean = (double)mean / 1e9,
                                                    .psnr = (double)psnr / 1e9,
                                                    .failed = failed};
    *at += used + 1;
    return true;
}

// at: behind the key.
static bool read_body(const char *text, const char *at,
                      struct hr_certificate *cert)
{
    int most = (int)(sizeof(cert->spans) / sizeof(*cert->spans)), used = 0;
    uint64_t sum;

    if (sscanf(at, "tested %" SCNd64 "%n", &cert->tested, &used) != 1 ||
        at[used] != '\n' || cert->tested <= 0)
        return false;
    for (at += used + 1; !strncmp(at, "span ", 5); cert->num_spans++)
        if (cert->num_spans == most ||
            !read_span(&at, &cert->spans[cert->num_spans]))
            return false;
    while (!strncmp(at, "kind ", 5))
        if (!read_kind(&at, cert))
            return false;
    while (!strncmp(at, "fast ", 5))
        if (!read_fast(&at, cert))
            return false;
    used = 0;
    return sscanf(at, "sum %" SCNx64 "%n", &sum, &used) == 1 &&
           !strcmp(at + used, "\n") && sum == hash(text, (size_t)(at - text));
}

bool hr__certificate_load(const char *key, struct hr_certificate *cert)
{
    size_t head = sizeof(first_line) - 1, len = strlen(key);
    char path[PATH_BYTES], text[FILE_BYTES];

    memset(cert, 0, sizeof(*cert));
    if (path_of(key, path, false) && read_text(path, text) > head + len &&
        !memcmp(text, first_line, head) && !memcmp(text + head, key, len) &&
        read_body(text, text + head + len, cert))
        return true;
    memset(cert, 0, sizeof(*cert));
    return false;
}

// ---- Writing ---------------------------------------------------------------

static size_t write_text(const char *key, const struct hr_certificate *cert,
                         char text[FILE_BYTES])
{
    size_t n = (size_t)snprintf(text, FILE_BYTES, "%s%stested %" PRId64 "\n",
                                first_line, key, cert->tested);

    for (int i = 0; i < cert->num_spans && n < FILE_BYTES; i++) {
        const struct hr_span_certificate *s = &cert->spans[i];

        n += (size_t)snprintf(text + n, FILE_BYTES - n,
                              "span %d %d %d %d %.0f %.0f %.0f %.0f\n",
                              (int)s->span.first, (int)s->span.last,
                              s->pictures, s->failed, s->differing * 1e9,
                              s->max * 1e9, s->mean * 1e9, s->psnr * 1e9);
    }
    for (int i = 0; i < HR_NUM_KINDS && n < FILE_BYTES; i++) {
        const struct hr_kind_certificate *k = &cert->kinds[i];

        if (k->pictures)
            n += (size_t)snprintf(text + n, FILE_BYTES - n,
                                  "kind %d %d %.0f %.0f\n", i, k->pictures,
                                  k->max * 1e9, k->mean * 1e9);
    }
    for (int i = 0; i < HR_NUM_KINDS && n < FILE_BYTES; i++) {
        const struct hr_fast_certificate *f = &cert->fast[i];

        if (f->pictures)
            n += (size_t)snprintf(text + n, FILE_BYTES - n,
                                  "fast %d %d %d %.0f %.0f %.0f\n", i,
                                  f->pictures, f->failed, f->max * 1e9,
                                  f->mean * 1e9, f->psnr * 1e9);
    }
    if (n < FILE_BYTES)
        n += (size_t)snprintf(text + n, FILE_BYTES - n, "sum %016" PRIx64 "\n",
                              hash(text, n));
    return n < FILE_BYTES ? n : 0;
}

static bool write_all(int fd, const char *from, size_t size)
{
    while (size) {
        ssize_t n = write(fd, from, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        size -= (size_t)n;
    }
    return true;
}

bool hr__certificate_save(const char *key, const struct hr_certificate *cert)
{
    char path[PATH_BYTES], temp[PATH_BYTES + 16], text[FILE_BYTES];
    size_t size = write_text(key, cert, text);
    bool ok;
    int fd, err;

    if (!size)
        return errno = EFBIG, false;
    if (!path_of(key, path, true))
        return false;
    snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
    if ((fd = mkostemp(temp, O_CLOEXEC)) < 0)
        return false;
    ok = write_all(fd, text, size);
    ok = !close(fd) && ok && !rename(temp, path);
    err = errno;
    if (!ok)
        unlink(temp);
    errno = err;
    return ok;
}
