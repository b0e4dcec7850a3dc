// SPDX-License-Identifier: Apache-2.0
// The libcurl that is found at run time is not the one of the build: an older
// one reads URLs, too, and what it lacks is told as that.
#include <dlfcn.h>

#include "web_data.h"

static int *unknown, *made, *performed, *no_handle;
static long *protocols;
static const void **lent;
static int *num_lent;

static enum hr_status add(void)
{
    auto_source s = web_quick(NULL);
    enum hr_status status;

    *made = *performed = 0;
    *protocols = 0;
    status = hr_source_add(s, "http://127.0.0.1:9/x.tar");
    return status;
}

// Before 7.85 protocols are a mask.
TEST_CASE(old)
{
    unknown[0] = 10318;
    CHECK(add() == HR_EIO && *performed == 6 && *protocols == 3 &&
              strstr(hr_last_error(), "no connection (6 tries"),
          "%d, %ld: %s", *performed, *protocols, hr_last_error());
    unknown[0] = 0;
    CHECK(add() == HR_EIO && *performed == 6 && !*protocols, "%s",
          hr_last_error());
}

// Before 7.87 the signature lacks headers that S3 wants.
TEST_CASE(signs_nothing)
{
    auto_source s = NULL;

    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    s = web_quick(NULL);
    *made = *performed = 0;
    CHECK(hr_source_add(s, "s3://bucket/x.tar") == HR_EIO && !*performed &&
              strstr(hr_last_error(), "s3://bucket/x.tar: ") &&
              strstr(hr_last_error(), "libcurl 7.81.0 signs no requests"),
          "%s", hr_last_error());
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

// A connection that is kept knows nothing of the frame of its last try.
TEST_CASE(lent_for_a_try)
{
    CHECK(add() == HR_EIO && *num_lent == 4, "%d of 4", *num_lent);
    for (int i = 0; i < 4; i++)
        CHECK(!lent[i], "%d is left", i);
}

// One that cannot keep to http and https reads nothing; that is said, once.
TEST_CASE(lacking)
{
    static const int lacks[][2] = {
        {10318, 181}, {84, 0}, {10023, 0}, {10010, 0}};

    for (size_t i = 0; i < sizeof(lacks) / sizeof(*lacks); i++) {
        memcpy(unknown, lacks[i], sizeof(lacks[i]));
        CHECK(add() == HR_EIO && !*performed && *made == 1 &&
                  strstr(hr_last_error(), "unknown option") &&
                  !strstr(hr_last_error(), "tries"),
              "option %d: %d handles: %s", lacks[i][0], *made, hr_last_error());
    }
    memset(unknown, 0, 2 * sizeof(*unknown));
    *no_handle = 1;
    CHECK(add() == HR_EIO && *made == 1 &&
              strstr(hr_last_error(), "cannot be set up"),
          "%s", hr_last_error());
    *no_handle = 0;
}

int main(int argc, char **argv)
{
    // From now on a dlopen of libcurl.so.4 gets this one.
    void *fake = dlopen(HR_NULL_CURL, RTLD_NOW);

    if (!fake) {
        test_not_run(dlerror());
        return TEST_NOT_RUN;
    }
    unknown = dlsym(fake, "null_curl_unknown");
    made = dlsym(fake, "null_curl_made");
    performed = dlsym(fake, "null_curl_performed");
    protocols = dlsym(fake, "null_curl_protocols");
    no_handle = dlsym(fake, "null_curl_no_handle");
    lent = dlsym(fake, "null_curl_lent");
    num_lent = dlsym(fake, "null_curl_num_lent");
    return web_main(argc, argv);
}
