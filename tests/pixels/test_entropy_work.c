// SPDX-License-Identifier: Apache-2.0
// The work of the kernels of stage entropy, counted by themselves (HR__COUNTED)
// on PoCL: symbols of all launches over symbols of the file, per photo of the
// corpus; launches that decode anything; the longest item, and how many symbols
// a batch of 64 waits for, one launch after another. No clock, no model.
#include <stdio.h>
#include <stdlib.h>

#if !HR_HAVE_OPENCL
int main(void)
{
    puts("not run: built without OpenCL kernels");
    return 77;
}
#else
#include "corpus_list.h"
#include "entropy_env.h"
#include "testing.h"

enum { PHOTOS = 200, WAIT = 64 };

static const int kernels[] = {HR__KERNEL_BEGIN, HR__KERNEL_GUESS,
                              HR__KERNEL_AGAIN, HR__KERNEL_FAR,
                              HR__KERNEL_CHECK, HR__KERNEL_WRITE,
                              HR__KERNEL_DC};
enum { LAUNCHES = sizeof(kernels) / sizeof(*kernels), WRITE = LAUNCHES - 2 };
static const char *const names[] = {
#define X(name, text, stage) text,
    HR__KERNELS(X)
#undef X
};

static struct {
    int photos, left;
    uint64_t subs, symbols;
    double work, steps;  // per photo: all launches over symbols of the file
    struct {
        uint64_t symbols;
        uint32_t longest;
        int photos;  // for which it decodes anything
    } launches[LAUNCHES];
    uint32_t wait[LAUNCHES];  // of the batch of 64 at hand
    int batches, seen;
    uint64_t waits, rounds;  // symbols; launches between guess and write
} sum;

// One more batch of 64 is complete.
static void end_batch(void)
{
    for (int k = 0; k < LAUNCHES; k++) {
        sum.waits += sum.wait[k];
        sum.rounds += sum.wait[k] && kernels[k] != HR__KERNEL_GUESS &&
                      kernels[k] != HR__KERNEL_WRITE;
        sum.wait[k] = 0;
    }
    sum.batches++;
    sum.seen = 0;
}

static void add(const struct entropy_batch *b, int i, uint64_t file)
{
    uint64_t all = 0, steps = 0;

    for (int k = 0; k < LAUNCHES; k++) {
        const struct entropy_counts *c = &b->counts[k][i];

        all += c->symbols;
        steps += c->steps * ENTROPY_WARP;
        sum.launches[k].symbols += c->symbols;
        sum.launches[k].photos += c->symbols > 0;
        if (c->longest > sum.launches[k].longest)
            sum.launches[k].longest = c->longest;
        if (c->longest > sum.wait[k])
            sum.wait[k] = c->longest;
    }
    if (++sum.seen == WAIT)
        end_batch();
    if (entropy_flag(b, i)) {
        sum.left++;
        return;
    }
    sum.photos++;
    sum.subs += b->scans[i].num_subs;
    sum.symbols += file;
    sum.work += (double)all / (double)file;
    sum.steps += (double)steps / (double)file;
}

// Where nothing is kept hr_entropy_write decodes the file once.
static void count(struct bytes *j, int n)
{
    struct entropy_batch host = {.form = ENTROPY_HOST};
    struct entropy_batch gpu = {.form = ENTROPY_GPU};

    for (int i = 0; i < n; i++)
        CHECK(entropy_put(&host, &j[i]) && entropy_put(&gpu, &j[i]),
              "%d is refused", i);
    entropy_run(&host, kernels, LAUNCHES);
    entropy_run(&gpu, kernels, LAUNCHES);
    for (int i = 0; i < n; i++) {
        add(&gpu, i, host.counts[WRITE][i].symbols);
        free(j[i].data);
    }
    entropy_free(&host);
    entropy_free(&gpu);
}

static void print(void)
{
    printf("\n  %d photos, %d left to the host; per photo %.0f subsequences, "
           "%.0f symbols\n  decoded / symbols of the file %.3f, with the warps' "
           "slowest %.3f\n  per batch of %d: %.0f symbols one after another, "
           "%.1f launches that correct\n",
           sum.photos, sum.left, (double)sum.subs / sum.photos,
           (double)sum.symbols / sum.photos, sum.work / sum.photos,
           sum.steps / sum.photos, WAIT, (double)sum.waits / sum.batches,
           (double)sum.rounds / sum.batches);
    for (int k = 0; k < LAUNCHES; k++)
        if (sum.launches[k].symbols)
            printf("  %-18s %6.3f  longest item %5u  photos %3d\n",
                   names[kernels[k]],
                   (double)sum.launches[k].symbols / (double)sum.symbols,
                   sum.launches[k].longest, sum.launches[k].photos);
}

TEST_CASE(photos)
{
    struct bytes j[ENTROPY_BATCH];
    struct corpus_folder f;
    int n = 0, all = 0;

    if (!corpus_folder_open(&f, "photos/imagenet-sample")) {
        test_not_run("photos");
        return;
    }
    while (all < test_loops(PHOTOS) && corpus_folder_next(&f, 1)) {
        struct entropy_batch b = {.n = 0};

        if (!read_file(f.path, &j[n]))
            continue;
        if (!entropy_put(&b, &j[n]))
            free(j[n].data);
        else
            n++, all++;
        entropy_free(&b);
        if (n == ENTROPY_BATCH) {
            count(j, n);
            n = 0;
        }
    }
    if (n)
        count(j, n);
    corpus_folder_close(&f);
    if (sum.seen)
        end_batch();
    print();
    // The limits are half of the costs with guesses from further ahead and
    // eight rounds.
    if (sum.photos + sum.left == PHOTOS)
        CHECK(sum.left <= 2 && sum.work / sum.photos <= 1.8 &&
                  sum.steps / sum.photos <= 3.5,
              "more than there was");
}

int main(int argc, char **argv)
{
    return entropy_test_main(argc, argv, true);
}
#endif
