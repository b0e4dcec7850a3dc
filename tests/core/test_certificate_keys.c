// SPDX-License-Identifier: Apache-2.0
// The keys and checks of certificates on disk: a well-formed file is refused if
// it belongs to another device or was changed by a digit.
#include "certificate_env.h"
#include "cpu_fallback/jpeg/specimen.h"

static char path[1024], text[8192];

// Another libjpeg makes other pictures of the same files, so the host's part
// is of the key, too.
TEST_CASE(both_sides)
{
    certificate_forget();
    certificate_right("kernels 1");
    CHECK(certificate_probes() > 0, "tested");
    CHECK(certificate_file(path) == 1 && test_read(path, text, sizeof(text)),
          "its file");
    CHECK(strstr(text, "kernels 1\n"), "the engine's fingerprint");
    CHECK(strstr(text, cpu_specimen_library()), "the host's");
}

TEST_CASE(a_digit)
{
    static const char *const lines[] = {"\ntested ", "\nrecord "};

    for (int i = 0; i < 2; i++) {
        size_t size;
        char *digit;

        certificate_forget();
        certificate_right(NULL);
        CHECK(certificate_probes() > 0 && !certificate_probes(), "kept");
        CHECK(certificate_file(path) == 1, "its file");
        size = test_read(path, text, sizeof(text));
        digit = strstr(text, lines[i]);
        CHECK(digit, "a line%s", lines[i]);
        if (!digit)
            return;
        digit = strchr(digit + 1, '\n') - 1;
        *digit = *digit == '9' ? '8' : (char)(*digit + 1);
        test_write(path, text, size);
        CHECK(certificate_probes() > 0, "changed in a line%s", lines[i]);
    }
}

// Two keys with one hash would share a file.
TEST_CASE(of_another)
{
    char first[1024];
    size_t size;

    certificate_forget();
    certificate_right("kernels 1");
    CHECK(certificate_probes() > 0, "the first");
    CHECK(certificate_file(first) == 1, "its file");
    size = test_read(first, text, sizeof(text));
    certificate_forget();
    certificate_right("kernels 2");
    CHECK(certificate_probes() > 0 && !certificate_probes(), "the second");
    CHECK(certificate_file(path) == 1 && strcmp(path, first) != 0, "its file");
    test_write(path, text, size);
    CHECK(certificate_probes() > 0, "the first's is not the second's");
}

// Bytes that were in the buffer before must not pass for the device's output.
TEST_CASE(nothing_made)
{
    hr_device dev = NULL;

    certificate_forget();
    fake_begin(.spans = FAKE_ALL(FAKE_RS), .tested = true, .idle = true);
    CHECK(certificate_open(&dev, NULL) > 0 && dev, "it opens");
    CHECK(dev && !dev->caps.exact && !dev->caps.spans[HR_EXACT],
          "success without a picture is exact");
    hr_device_close(&dev);
    certificate_forget();
}

// A certificate says nothing of a span that was not there when it was made.
TEST_CASE(another_tier)
{
    certificate_forget();
    certificate_right(NULL);
    CHECK(certificate_probes() > 0 && !certificate_probes(), "kept");
    fake_begin(.spans = {[HR_CLOSE] = FAKE_RS,
                         [HR_EXACT] = FAKE_RS,
                         [HR_FAST] = FAKE_RS | FAKE_D},
               .tested = true);
    CHECK(certificate_probes() > 0, "more in tier fast");
    certificate_forget();
}

TEST_MAIN(certificate_main)
