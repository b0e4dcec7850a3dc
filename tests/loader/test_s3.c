// SPDX-License-Identifier: Apache-2.0
// Where objects of S3 are asked for, and the key: of the environment, or of the
// files of the user's tools, whose keys may be renewed.
#include "hal/base/base.h"
#include "loader/http/http.h"
#include "testing.h"

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "AWS_REGION",        "AWS_DEFAULT_REGION",    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",  "AWS_PROFILE",           "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE"};

// Sets these alone: NAME, VALUE ..., NULL.
static void environment(const char *const *set)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", "/none", 1);
    for (; set && *set; set += 2)
        setenv(set[0], set[1], 1);
}
#define ENVIRONMENT(...) \
    environment((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static const char *locate(const char *url, struct hr__s3 *s3)
{
    static char to[HR__S3_URL];
    struct hr__s3_keys *keys = calloc(1, sizeof(*keys));
    const char *why;

    hr__s3_set_up(keys);
    why = hr__s3_locate(keys, url, to, s3);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
    return why ? why : to;
}

TEST_CASE(urls)
{
    static const struct {
        const char *url, *region, *endpoint, *to;
    } cases[] = {
        {"s3://b/k", NULL, NULL, "https://b.s3.us-east-1.amazonaws.com/k"},
        {"S3://b/d/k", "eu-west-3", NULL,
         "https://b.s3.eu-west-3.amazonaws.com/d/k"},
        {"s3://b.c/k", "eu-west-3", NULL,
         "https://s3.eu-west-3.amazonaws.com/b.c/k"},
        {"s3://B_c/k", "eu-west-3", NULL,
         "https://s3.eu-west-3.amazonaws.com/B_c/k"},
        {"s3://b/k", "auto", "http://x:9000", "http://x:9000/b/k"},
        {"s3://b/k", "auto", "https://x/y//", "https://x/y/b/k"},
        {"s3://b/a b%c?d#e+~\xc3\xbc//k...", NULL, "http://x",
         "http://x/b/a%20b%25c%3Fd%23e%2B~%C3%BC//k..."},
        {"s3://b", NULL, NULL, "the URL names no object of a bucket"},
        {"s3://b/", NULL, NULL, "the URL names no object of a bucket"},
        {"s3:///k", NULL, NULL, "the URL names no object of a bucket"},
        {"s3://b?c/k", NULL, NULL, "the URL names no object of a bucket"},
        {"s3://b/k/..", NULL, NULL,
         "a part of the key is '.' or '..', which libcurl removes"},
        {"s3://../b/k", NULL, "http://x",
         "a part of the key is '.' or '..', which libcurl removes"},
        {"s3://b/./k", NULL, NULL,
         "a part of the key is '.' or '..', which libcurl removes"},
        {"s3://b/k", "e:u", NULL, "AWS_REGION is no name of a region"},
        {"s3://b/k", NULL, "ftp://x",
         "AWS_ENDPOINT_URL is no URL of http or https"},
        {"s3://b/k", NULL, "s3://x",
         "AWS_ENDPOINT_URL is no URL of http or https"},
        {"s3://b/k", NULL, "//", "AWS_ENDPOINT_URL is no URL of http or https"},
        {"s3://b/k", NULL, "http://x?y",
         "AWS_ENDPOINT_URL is no URL of http or https"},
    };
    struct hr__s3 s3;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *got;

        ENVIRONMENT("AWS_REGION", cases[i].region ? cases[i].region : "",
                    "AWS_ENDPOINT_URL",
                    cases[i].endpoint ? cases[i].endpoint : "");
        got = locate(cases[i].url, &s3);
        CHECK(!strcmp(got, cases[i].to), "%s: %s", cases[i].url, got);
    }
}

static const char *const texts[2] = {
    "# a comment = 1\n"
    "[default]\naws_access_key_id=a\naws_secret_access_key=b\n"
    "[worker]\naws_access_key_id=w\naws_secret_access_key=w\n"
    "[ work ]\r\naws_access_key_id =  c \r\naws_secret_access_key\t= d\r\n"
    "[half]\naws_access_key_id=e\n",
    "[default]\nregion = eu-west-1\n"
    "[profile half]\naws_access_key_id=f\naws_secret_access_key=g\n"
    "aws_session_token = h=\nregion=x\nservices = y\n"
    "[services y]\ns3 =\n  endpoint_url = http://no\n"};

static bool is(const struct hr__s3 *s3, const char *key, const char *secret,
               const char *token, const char *region)
{
    return !strcmp(s3->key, key) && !strcmp(s3->secret, secret) &&
           !strcmp(s3->token, token) && !strcmp(s3->region, region) &&
           !*s3->endpoint;
}

TEST_CASE(keys)
{
    char path[2][4300];
    struct hr__s3 s3;
    const char *dir = test_folder(), *why;

#define FILES "AWS_SHARED_CREDENTIALS_FILE", path[0], "AWS_CONFIG_FILE", path[1]
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof(path[i]), "%s/%d", dir, i);
        test_write(path[i], texts[i], strlen(texts[i]));
    }
    ENVIRONMENT(FILES);
    locate("s3://b/k", &s3);
    CHECK(is(&s3, "a", "b", "", "eu-west-1"), "%s %s", s3.key, s3.region);
    ENVIRONMENT(FILES, "AWS_PROFILE", "work", "AWS_DEFAULT_REGION", "r");
    locate("s3://b/k", &s3);
    CHECK(is(&s3, "c", "d", "", "r"), "%s %s", s3.key, s3.region);
    // A key without its secret is none.
    ENVIRONMENT(FILES, "AWS_PROFILE", "half", "AWS_ACCESS_KEY_ID", "z");
    locate("s3://b/k", &s3);
    CHECK(is(&s3, "f", "g", "h=", "x"), "%s %s", s3.key, s3.region);
    // That of the environment comes first, and with no token of a file.
    ENVIRONMENT(FILES, "AWS_PROFILE", "half", "AWS_ACCESS_KEY_ID", "z",
                "AWS_SECRET_ACCESS_KEY", "y", "AWS_REGION", "q",
                "AWS_DEFAULT_REGION", "r");
    locate("s3://b/k", &s3);
    CHECK(is(&s3, "z", "y", "", "q"), "%s %s", s3.key, s3.token);
    // No line's end, which would begin another header.
    ENVIRONMENT("AWS_ACCESS_KEY_ID", "z\r\nX-Key: 7", "AWS_SECRET_ACCESS_KEY",
                "y");
    why = locate("s3://b/k", &s3);
    CHECK(!strcmp(why, "aws_access_key_id is too long, or has a line's end") &&
              is(&s3, "", "", "", ""),
          "%s: %s", why, s3.key);
}

// No part of what the user has set is left out: the request would go to another
// store, or with half a key.
TEST_CASE(unfit)
{
    static const char *const names[][2] = {
        {"AWS_ENDPOINT_URL", "endpoint_url"},
        {"AWS_SESSION_TOKEN", "aws_session_token"},
        {"AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"}};
    char value[6000] = "http://", path[4300], text[6100];
    struct hr__s3 s3;
    const char *why;

    memset(value + 7, 'x', sizeof(value) - 8);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        ENVIRONMENT("AWS_ACCESS_KEY_ID", "z", "AWS_SECRET_ACCESS_KEY", "y",
                    names[i][0], value);
        why = locate("s3://b/k", &s3);
        CHECK(!strncmp(why, names[i][1], strlen(names[i][1])), "%s", why);
    }
    // A file that has one is an error if its key is wanted.
    snprintf(path, sizeof(path), "%s/long", test_folder());
    value[300] = '\0';
    snprintf(text, sizeof(text), "[default]\naws_secret_access_key=%s\n",
             value);
    test_write(path, text, strlen(text));
    ENVIRONMENT("AWS_SHARED_CREDENTIALS_FILE", path);
    why = locate("s3://b/k", &s3);
    CHECK(strstr(why, " is too long"), "%s", why);
    ENVIRONMENT("AWS_SHARED_CREDENTIALS_FILE", path, "AWS_ACCESS_KEY_ID", "z",
                "AWS_SECRET_ACCESS_KEY", "y");
    why = locate("s3://b/k", &s3);
    CHECK(is(&s3, "z", "y", "", "us-east-1"), "%s", why);
}

TEST_CASE(renewed)
{
    const char *dir = test_folder();
    static const char text[] = "[default]\naws_access_key_id=new\n"
                               "aws_secret_access_key=n\n";
    struct hr__s3_keys *keys = calloc(1, sizeof(*keys));
    char path[4300], to[HR__S3_URL];
    struct hr__s3 s3;

    snprintf(path, sizeof(path), "%s/credentials", dir);
    test_write(path, texts[0], strlen(texts[0]));
    ENVIRONMENT("AWS_SHARED_CREDENTIALS_FILE", path);
    hr__s3_set_up(keys);
    for (int i = 0; i < 4; i++) {
        CHECK(!hr__s3_locate(keys, "s3://b/k", to, &s3) &&
                  !strcmp(s3.key, i < 3 ? "a" : "new"),
              "%d: %s", i, s3.key);
        if (i != 1)  // half of it is written, then all
            test_write(path, text, i ? strlen(text) : 30);
        if (i)
            keys->until = 0;  // a minute is over
    }
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}
