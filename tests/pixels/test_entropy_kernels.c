// SPDX-License-Identifier: Apache-2.0
// kernels/entropy.cl against libjpeg: the coefficients of whatever window, and
// that what is odd about a file is seen. On PoCL; with HEADRACE_TEST_OPENCL=all
// on every platform. HEADRACE_TEST_SMALL=1: few and small pictures, for
// simulators.
#include <stdio.h>
#include <stdlib.h>

#if !HR_HAVE_OPENCL
int main(void)
{
    puts("not run: built without OpenCL kernels");
    return 77;
}
#else
#include "coef_files.h"
#include "corpus_list.h"
#include "entropy_env.h"
#include "testing.h"

static bool small;

// In every second batch hr_entropy_check makes decoders go on, as it does on
// host processors.
static void run(struct entropy_batch *b)
{
    static const int kernels[] = {HR__KERNEL_BEGIN, HR__KERNEL_GUESS,
                                  HR__KERNEL_AGAIN, HR__KERNEL_FAR,
                                  HR__KERNEL_CHECK, HR__KERNEL_WRITE,
                                  HR__KERNEL_DC};
    static const int host[] = {HR__KERNEL_BEGIN, HR__KERNEL_GUESS,
                               HR__KERNEL_CHECK, HR__KERNEL_WRITE,
                               HR__KERNEL_DC};

    if (coef_pick(0, 1))
        entropy_run(b, kernels, sizeof(kernels) / sizeof(*kernels));
    else
        entropy_run(b, host, sizeof(host) / sizeof(*host));
}

// ---- Tests ----------------------------------------------------------------

// Sound pictures: all are libjpeg's but those left to the host, of which no
// more than `left` may be. How many are.
static int check_batch(struct bytes *j, int n, int left, const char *what)
{
    struct entropy_batch b = {.n = 0};
    int out_of_step = 0;

    for (int i = 0; i < n; i++)
        CHECK(entropy_put(&b, &j[i]), "%s: %d is refused", what, i);
    CU_ASSERT_FATAL(b.n == n);
    run(&b);
    for (int i = 0; i < n; i++) {
        bool host = entropy_flag(&b, i) == HR__ODD_STEP;
        int bad = host ? 0 : entropy_lines_differ(&b, i, &j[i]);

        CHECK(host || !entropy_flag(&b, i), "%s: %d is flagged", what, i);
        CHECK(!bad, "%s: %d lines of %d", what, bad, i);
        out_of_step += host;
        free(j[i].data);
    }
    CHECK(out_of_step <= left, "%s: %d are out of step", what, out_of_step);
    entropy_free(&b);
    return out_of_step;
}

static void make(struct bytes *j, int i)
{
    int most = small ? 40 : i % 3 ? 120 : 500;
    struct samples_jpeg jpeg = coef_kinds[i % COEF_KINDS].jpeg;
    struct coef_file f;

    jpeg.restart_mcus = coef_pick(0, 2) ? 0 : coef_pick(1, 30);
    CU_ASSERT_FATAL(coef_file_make(&f, &jpeg, coef_pick(1, most),
                                   coef_pick(1, most), false));
    if (coef_pick(0, 3) == 0)
        CU_ASSERT_FATAL(coef_file_spoil(&f));
    *j = (struct bytes){f.bytes.data, f.bytes.size};
}

TEST_CASE(kinds)
{
    struct bytes j[ENTROPY_BATCH];
    int all = 0, left = 0;

    coef_seed(test_seed);
    for (int i = 0; i < (small ? 3 : 30); i++) {
        int n = coef_pick(1, small ? 2 : ENTROPY_BATCH);

        for (int k = 0; k < n; k++)
            make(&j[k], i * ENTROPY_BATCH + k);
        left += check_batch(j, n, n, "made up");
        all += n;
    }
    CHECK(left <= all / 4, "%d of %d are out of step", left, all);
}

// All pixels are equal: the same few bits again and again.
static void make_flat(struct bytes *j, int w, int h)
{
    static const struct samples_jpeg gray = {.color = SAMPLES_GRAY};
    size_t size = 3 * (size_t)w * (size_t)h;
    struct samples_picture p = {.w = w, .h = h, .rgb = malloc(size)};
    struct samples_bytes to = {0};

    memset(p.rgb, 90, size);
    CU_ASSERT_FATAL(samples_jpeg_encode(&gray, &p, &to));
    free(p.rgb);
    *j = (struct bytes){to.data, to.size};
}

// A decoder that begins out of step in a flat picture never synchronizes, and
// needs more rounds than there are. If many do, one thread of the host is
// faster.
TEST_CASE(flat)
{
    struct bytes j[3];

    coef_seed(test_seed);
    for (int i = 0; i < 3; i++)
        make_flat(&j[i], 150 + 50 * i, 300);
    check_batch(j, 3, 0, "flat");
    if (small)
        return;
    for (int i = 0; i < 3; i++)
        make_flat(&j[i], 1000 + 333 * i, 1000);
    CU_ASSERT(check_batch(j, 3, 3, "flat and large") > 0);
}

// Where the scan's data begins.
static size_t scan_of(const struct bytes *j)
{
    size_t at = 2;

    while (j->data[at + 1] != 0xda)
        at += 2 + (size_t)(j->data[at + 2] << 8 | j->data[at + 3]);
    return at + 2 + (size_t)(j->data[at + 2] << 8 | j->data[at + 3]);
}

// The damage that one wrong byte does to a scan is seen, unless libjpeg does
// not see it either.
TEST_CASE(damage)
{
    int seen = 0, sound = 0, refused = 0, missed = 0;

    coef_seed(test_seed);
    for (int i = 0; i < (small ? 10 : 600); i++) {
        struct entropy_batch b = {.n = 0};
        struct bytes j;
        size_t from;

        make(&j, coef_pick(0, COEF_KINDS - 1));
        from = scan_of(&j);
        switch (coef_pick(0, 2)) {
        case 0:
            j.data[from + coef_random() % (j.size - from)] ^=
                (uint8_t)(1 << coef_pick(0, 7));
            break;
        case 1:
            j.data[from + coef_random() % (j.size - from)] = 0xff;
            break;
        default:  // a byte less
            from += coef_random() % (j.size - from - 1);
            memmove(j.data + from, j.data + from + 1, j.size - from - 1);
            j.size--;
        }
        if (!entropy_put(&b, &j)) {
            refused++;
        } else {
            run(&b);
            if (entropy_flag(&b, 0))
                seen++;
            else if (entropy_lines_differ(&b, 0, &j))
                missed++;
            else
                sound++;
        }
        entropy_free(&b);
        free(j.data);
    }
    printf("\n  %d seen, %d refused before, %d sound all the same; ", seen,
           refused, sound);
    CHECK(!missed, "%d of them missed", missed);
    CU_ASSERT(seen > 0 && refused > 0);
}

static bool is_code(struct hr__code from, bool dc)
{
    struct hr__code to;

    return hr__entropy_code(&to, (const uint8_t *)&from, dc);
}

// Codes that are none.
TEST_CASE(codes)
{
    CU_ASSERT(is_code((struct hr__code){.counts = {1, 1}}, true));
    CU_ASSERT(!is_code((struct hr__code){.counts = {3}}, true));
    CU_ASSERT(!is_code((struct hr__code){.counts = {2, 1}}, true));
    // All ones.
    CU_ASSERT(!is_code((struct hr__code){.counts = {2}}, false));
    CU_ASSERT(
        !is_code((struct hr__code){.counts = {[8] = 255, [9] = 200}}, false));
    // A DC of 16 bits.
    CU_ASSERT(
        is_code((struct hr__code){.counts = {1}, .symbols = {16}}, false));
    CU_ASSERT(is_code((struct hr__code){.counts = {1}, .symbols = {15}}, true));
    CU_ASSERT(
        !is_code((struct hr__code){.counts = {1}, .symbols = {16}}, true));
}

// The photos of the corpus, where it is.
TEST_CASE(photos)
{
    struct bytes j[ENTROPY_BATCH];
    struct corpus_folder f;
    int n = 0, all = 0, left = 0;

    if (small || !corpus_folder_open(&f, "photos/imagenet-sample")) {
        test_not_run("photos");
        return;
    }
    while (all < test_loops(200) && corpus_folder_next(&f, 1)) {
        struct entropy_batch b = {.n = 0};

        if (!read_file(f.path, &j[n]))
            continue;
        if (!entropy_put(&b, &j[n]))  // progressive
            free(j[n].data);
        else
            n++, all++;
        entropy_free(&b);
        if (n == ENTROPY_BATCH) {
            left += check_batch(j, n, 1, f.name);
            n = 0;
        }
    }
    if (n)
        left += check_batch(j, n, 1, "the last");
    corpus_folder_close(&f);
    CHECK(left <= all / 40, "%d of %d are out of step", left, all);
    printf("(%d photos, %d left to the host) ", all, left);
}

int main(int argc, char **argv)
{
    small = getenv("HEADRACE_TEST_SMALL");
    return entropy_test_main(argc, argv, false);
}
#endif
