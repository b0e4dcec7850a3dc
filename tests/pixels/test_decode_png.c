// SPDX-License-Identifier: Apache-2.0
// PNG: every window of every type and depth is what Pillow's convert() gives,
// and damage is found.
#include "decode_run.h"

#if HR_HAVE_PNG

TEST_CASE(test_png_windows)
{
    for (int i = 0; i < 240; i++) {
        auto_bytes file = {0};
        auto_plain full = {0};
        char name[32];

        CU_ASSERT_FATAL(dt_make_png(i, &file, &full));
        snprintf(name, sizeof(name), "png form %d", i % 60);
        dt_compare_windows(&cpu_png_decoder, name, &file, &full, 6);
    }
}

TEST_CASE(test_png_damage)
{
    int classes[4] = {0};

    for (int i = 0; i < 60; i++) {
        auto_bytes file = {0};
        auto_plain full = {0};
        struct cpu_decode_error err;

        CU_ASSERT_FATAL(dt_make_png(i, &file, &full));
        for (int k = 0; k < 40; k++) {
            bool cut = k & 1;
            size_t n = cut ? next_random(&dt_seed) % (file.size - 16)
                           : file.size;
            auto_bytes copy = dt_copy(&file, n);
            struct cpu_decode_params p;
            enum cpu_result result;

            if (!cut)
                copy.data[next_random(&dt_seed) % n] ^=
                    (uint8_t)(1 << random_below(&dt_seed, 8));
            p = dt_params(&copy, full.w, full.h, dt_everything, 3);
            result = dt_decode(&cpu_png_decoder, &p, true, NULL, &err);
            CHECK(!cut || result == CPU_TRUNCATED,
                  "form %d cut at %zu of "
                  "%zu: %d %s",
                  i, n, file.size, result, err.text);
            classes[dt_class(result)]++;
        }
    }
    CU_ASSERT(classes[PLAIN_REFUSED] > 500);
    CU_ASSERT(classes[PLAIN_NOT_RUN] == 0);
}

// Pillow reads a file whose end chunk is missing or broken.
TEST_CASE(test_png_tail)
{
    auto_bytes file = {0};
    auto_plain full = {0};
    struct cpu_decode_error err;
    struct cpu_decode_params p;

    CU_ASSERT_FATAL(dt_make_png(5, &file, &full));
    p = dt_params(&file, full.w, full.h, dt_everything, 3);
    CU_ASSERT(dt_decode(&cpu_png_decoder, &p, true, NULL, &err) == CPU_OK);
    CU_ASSERT(err.warnings == 0);
    p.size -= 12;
    CU_ASSERT(dt_decode(&cpu_png_decoder, &p, true, NULL, &err) == CPU_OK);
    CU_ASSERT(err.warnings == 1 && err.text[0]);
    p.width++;
    CU_ASSERT(dt_decode(&cpu_png_decoder, &p, true, NULL, &err) == CPU_CORRUPT);
}

// A wrong sum of a chunk is damage, whether libpng needs the chunk or not.
TEST_CASE(test_png_sums)
{
    static const char *const chunks[] = {"IHDR", "gAMA", "IDAT"};
    struct cpu_decode_params p;
    struct cpu_decode_error err;
    auto_bytes file = {0};
    auto_plain full = {0};

    CU_ASSERT_FATAL(dt_make_png(5, &file, &full));
    p = dt_params(&file, full.w, full.h, dt_everything, 3);
    for (int i = 0; i < 3; i++) {
        uint8_t *at = memmem(file.data, file.size, chunks[i], 4);

        CU_ASSERT_FATAL(at != NULL);
        at += 4 + (size_t)(at[-2] << 8 | at[-1]);
        *at ^= 16;
        CHECK(dt_decode(&cpu_png_decoder, &p, true, NULL, &err) ==
                      CPU_CORRUPT ||
                  (i == 2 && err.warnings > 0),
              "%s: %s", chunks[i], err.text);
        *at ^= 16;
    }
    CU_ASSERT(dt_decode(&cpu_png_decoder, &p, true, NULL, &err) == CPU_OK);
}

TEST_MAIN(dt_main)

#else

int main(void)
{
    puts("not run: built without PNG");
    return 77;
}

#endif
