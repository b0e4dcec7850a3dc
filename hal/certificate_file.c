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
// good as none. Where it lies, and who is trusted: cache.c.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hal/certificate.h"

enum { NAME_BYTES = 64, FILE_BYTES = HR__CERTIFICATE_KEY + 2048 };

static const char first_line[] = "headrace certificate 2\n";

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

bool hr__certificate_load(struct hr__device *dev, const char *key,
                          struct hr_certificate *cert)
{
    size_t head = sizeof(first_line) - 1, len = strlen(key);
    char name[NAME_BYTES], text[FILE_BYTES];

    memset(cert, 0, sizeof(*cert));
    name_of(key, name);
    if (read_text(dev, name, text) > head + len &&
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

bool hr__certificate_save(const char *key, const struct hr_certificate *cert)
{
    char name[NAME_BYTES], text[FILE_BYTES];
    struct iovec part = {text, write_text(key, cert, text)};

    if (!part.iov_len)
        return errno = EFBIG, false;
    name_of(key, name);
    return hr__cache_write(name, &part, 1);
}
