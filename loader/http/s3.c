// SPDX-License-Identifier: Apache-2.0
// Objects of S3, and of stores that answer like it: s3://BUCKET/KEY. libcurl
// signs the requests (Signature Version 4). This file says where they go, and
// by which key. The environment is read once; the files of the user's AWS tools
// are read again each minute, since another program may renew the keys in them.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hal/engine/base.h"
#include "http.h"

bool hr__s3_is_url(const char *url)
{
    return !strncasecmp(url, "s3://", 5);
}

// ---- Keys ------------------------------------------------------------------

#define FIELD(name, called)                                                    \
    offsetof(struct hr__s3, name), sizeof(((struct hr__s3 *)0)->name), called, \
        called " is too long, or has a line's end"
static const struct field {
    size_t at, size;
    const char *name, *unfit, *variable, *other;
} fields[] = {
    {FIELD(key, "aws_access_key_id"), "AWS_ACCESS_KEY_ID", ""},
    {FIELD(secret, "aws_secret_access_key"), "AWS_SECRET_ACCESS_KEY", ""},
    {FIELD(token, "aws_session_token"), "AWS_SESSION_TOKEN", ""},
    {FIELD(region, "region"), "AWS_REGION", "AWS_DEFAULT_REGION"},
    {FIELD(endpoint, "endpoint_url"), "AWS_ENDPOINT_URL_S3",
     "AWS_ENDPOINT_URL"},
};
#undef FIELD

enum { FIELDS = sizeof(fields) / sizeof(*fields), KEYS = FIELDS - 2 };

static void set(struct hr__s3 *s3, const struct field *f, const char *value)
{
    char *to = (char *)s3 + f->at;
    size_t length = value ? strlen(value) : 0;

    if (*to || !length)
        return;
    // (Of a line's end the next header of a request would begin.)
    if (length < f->size && !strpbrk(value, "\r\n"))
        memcpy(to, value, length + 1);
    else
        s3->unfit = f->unfit;
}

// Takes what is missing. A key comes with its own secret and token.
static void merge(struct hr__s3 *to, struct hr__s3 *from)
{
    bool open = !*to->key, keys = open && *from->key && *from->secret;

    for (int i = open ? 0 : KEYS; from->unfit && i < FIELDS; i++)
        if (from->unfit == fields[i].unfit && !*((char *)to + fields[i].at))
            to->unfit = from->unfit;
    for (int i = keys ? 0 : KEYS; i < FIELDS; i++)
        set(to, &fields[i], (char *)from + fields[i].at);
    explicit_bzero(from, sizeof(*from));
}

static const char *env(const char *name, const char *otherwise)
{
    const char *value = secure_getenv(name);

    return value && *value ? value : otherwise;
}

void hr__s3_set_up(struct hr__s3_keys *k)
{
    static const char *const names[][2] = {{"AWS_SHARED_CREDENTIALS_FILE",
                                            "credentials"},
                                           {"AWS_CONFIG_FILE", "config"}};
    const char *home = env("HOME", NULL);

    pthread_mutex_init(&k->lock, NULL);
    for (int i = 0; i < FIELDS; i++) {
        set(&k->env, &fields[i], env(fields[i].variable, NULL));
        set(&k->env, &fields[i], env(fields[i].other, NULL));
    }
    snprintf(k->profile, sizeof(k->profile), "%s",
             env("AWS_PROFILE", "default"));
    for (int i = 0; i < 2; i++) {
        const char *path = env(names[i][0], NULL);
        size_t size = sizeof(k->files[i]);

        if (path)
            snprintf(k->files[i], size, "%s", path);
        else if (home)
            snprintf(k->files[i], size, "%s/.aws/%s", home, names[i][1]);
    }
}

static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text + strspn(text, " \t");
}

// Says whether "[NAME]" or "[profile NAME]" begins the profile.
static bool begins(char *line, const char *profile)
{
    line[strcspn(line, "]")] = '\0';
    line = trim(line + 1);
    if (!strncmp(line, "profile", 7) && isspace((unsigned char)line[7]))
        line = trim(line + 7);
    return !strcmp(line, profile);
}

static void read_file(struct hr__s3 *s3, const char *path, const char *profile)
{
    FILE *file = *path ? fopen(path, "re") : NULL;
    char line[sizeof(s3->token) + 64];
    bool inside = false;

    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, '=');

        if (*line == '[')
            inside = begins(line, profile);
        // (A line that is indented belongs to a table of another service.)
        if (!inside || !value || isspace((unsigned char)*line))
            continue;
        *value++ = '\0';
        for (int i = 0; i < FIELDS; i++)
            if (!strcmp(trim(line), fields[i].name))
                set(s3, &fields[i], trim(value));
    }
    explicit_bzero(line, sizeof(line));
    if (file)
        fclose(file);
}

static void read_keys(struct hr__s3_keys *k, struct hr__s3 *to)
{
    int64_t now = hr__now(), kept = HR__HTTP_KEPT;

    pthread_mutex_lock(&k->lock);
    if (now >= k->until) {
        struct hr__s3 from = k->env;

        *to = (struct hr__s3){0};
        merge(to, &from);
        for (int i = 0; i < 2; i++) {
            read_file(&from, k->files[i], k->profile);
            merge(to, &from);
        }
        // (A file that is written anew has no key for a moment.)
        if (*k->now.key && !*to->key)
            kept = 1;
        else
            k->now = *to;
        k->until = now + kept * INT64_C(1000000000);
    }
    *to = k->now;
    pthread_mutex_unlock(&k->lock);
}

// ---- URLs ------------------------------------------------------------------

// Escapes a key as the signature's specification says: all but the unreserved.
static void escape(char *to, const char *key)
{
    for (; *key; key++)
        if (isalnum((unsigned char)*key) && (unsigned char)*key < 0x80)
            *to++ = *key;
        else if (strchr("/-._~", *key))
            *to++ = *key;
        else
            to += sprintf(to, "%%%02X", (unsigned char)*key);
    *to = '\0';
}

static bool is_dotted(const char *key)
{
    for (; key; key = strchr(key, '/')) {
        size_t dots = strspn(++key, ".");

        if (dots && dots <= 2 && (!key[dots] || key[dots] == '/'))
            return true;
    }
    return false;
}

const char *hr__s3_locate(struct hr__s3_keys *keys, const char *url,
                          char to[HR__S3_URL], struct hr__s3 *s3)
{
    static const char names[] = "._ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *host = strchr(names, 'a');
    const char *bucket = url + 5, *key = strchr(bucket, '/');
    int size = key ? (int)(key - bucket) : 0, length;

    read_keys(keys, s3);
    if (s3->unfit)
        return s3->unfit;
    if (!*s3->region)
        strcpy(s3->region, "us-east-1");
    if (s3->region[strspn(s3->region, host)])
        return "AWS_REGION is no name of a region";
    if (!size || (int)strspn(bucket, names) != size || !key[1])
        return "the URL names no object of a bucket";
    if (is_dotted(bucket - 1))
        return "a part of the key is '.' or '..', which libcurl removes";
    length = (int)strlen(s3->endpoint);
    while (length > 1 && s3->endpoint[length - 1] == '/')
        length--;
    s3->endpoint[length] = '\0';
    if (length && (hr__s3_is_url(s3->endpoint) || strpbrk(s3->endpoint, "?#") ||
                   hr__http_url_fault(s3->endpoint)))
        return "AWS_ENDPOINT_URL is no URL of http or https";
    // Certificates are for one more name before the store's own.
    if (length)
        length = sprintf(to, "%s/%.*s", s3->endpoint, size, bucket);
    else if ((int)strspn(bucket, host) == size)
        length = sprintf(to, "https://%.*s.s3.%s.amazonaws.com", size, bucket,
                         s3->region);
    else
        length = sprintf(to, "https://s3.%s.amazonaws.com/%.*s", s3->region,
                         size, bucket);
    escape(to + length, key);
    return NULL;
}

const char *hr__s3_why(const struct hr__s3 *s3, int status)
{
    if (status == 301 || status == 400)
        return "the bucket may lie in another region (AWS_REGION), or the key "
               "is not the store's";
    if (status != 401 && status != 403)
        return NULL;
    return *s3->key ? "not allowed: the store refuses the key, its signature, "
                      "or this object"
                    : "not allowed, and no key was found: set "
                      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                      "AWS_PROFILE to one of ~/.aws/credentials";
}
