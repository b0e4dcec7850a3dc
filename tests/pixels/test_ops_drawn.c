// SPDX-License-Identifier: Apache-2.0
// Random ops of training recipes: which plain ops they become, how often, and
// which lists with groups are refused. The keys are fixed: no count changes
// from run to run.
#include <math.h>

#include "testing.h"

enum { DRAWS = 20000, W = 40, H = 30 };

static int drawn(const struct hr_op *ops, int n, int index, struct hr_op *out)
{
    const struct hr_random key = {.seed = 11, .index = (uint64_t)index};
    int num = -1;

    CHECK(!hr_ops_draw(ops, n, &key, W, H, 1, out, &num), "%s",
          hr_last_error());
    return num;
}

// Checks that counts of n equally likely outcomes are random: chi-square within
// four of its standard deviations.
static void check_even(const char *what, const int *counts, int n)
{
    double mean = 0, sum = 0;

    for (int i = 0; i < n; i++)
        mean += (double)counts[i] / n;
    for (int i = 0; i < n; i++)
        sum += (counts[i] - mean) * (counts[i] - mean) / mean;
    CHECK(sum < n - 1 + 4 * sqrt(2. * (n - 1)), "%s: chi-square %g of %d", what,
          sum, n - 1);
}

static void check_share(const char *what, int count, int of, double share)
{
    double sigma = sqrt(of * share * (1 - share));

    CHECK(fabs(count - of * share) <= 4 * sigma, "%s: %d of %d", what, count,
          of);
}

// ---- color_jitter and chances -----------------------------------------------

static const struct hr_op jitter = HR_OP_COLOR_JITTER(.brightness = {.6, 1.4},
                                                      .contrast = {0, 2},
                                                      .saturation = {1, 1.5},
                                                      .hue = {-.1, .3});

// Each order as often as the others; each factor even between its ends,
// whatever the order.
TEST_CASE(jitter_is_even)
{
    enum { PARTS = 10 };
    const double *ends[4] = {jitter.color_jitter.brightness,
                             jitter.color_jitter.contrast,
                             jitter.color_jitter.saturation,
                             jitter.color_jitter.hue};
    int orders[256] = {0}, found[24], parts[4][PARTS] = {{0}};
    int first_low = 0, n = 0;
    struct hr_op out[HR_MAX_OPS];

    for (int i = 0; i < DRAWS; i++) {
        int order = 0;

        CU_ASSERT_EQUAL_FATAL(drawn(&jitter, 1, i, out), 4);
        for (int k = 0; k < 4; k++) {
            int which = (int)(out[k].type - HR_OP_ADJUST_BRIGHTNESS);
            double factor = out[k].adjust_hue.factor;
            double share = (factor - ends[which][0]) /
                           (ends[which][1] - ends[which][0]);

            order = 4 * order + which;
            CU_ASSERT_FATAL(which >= 0 && which < 4 && share >= 0 && share < 1);
            parts[which][(int)(share * PARTS)]++;
            first_low += !k && share < .5;
        }
        orders[order]++;
    }
    for (int i = 0; i < 256; i++)
        if (orders[i] && n < 24)
            found[n++] = orders[i];
    CU_ASSERT_EQUAL(n, 24);
    check_even("orders", found, 24);
    for (int i = 0; i < 4; i++)
        check_even("factors", parts[i], PARTS);
    check_share("the first is low", first_low, DRAWS, .5);
}

// A range of zeros leaves its op out; the others keep what they drew.
TEST_CASE(jitter_in_part)
{
    struct hr_op part = jitter, out[HR_MAX_OPS], all[HR_MAX_OPS];

    part.color_jitter.contrast[1] = 0;
    for (int i = 0; i < 50; i++) {
        int n = drawn(&part, 1, i, out), k = 0;

        CU_ASSERT_EQUAL(n, 3);
        drawn(&jitter, 1, i, all);
        for (int j = 0; j < 4; j++)
            if (all[j].type != HR_OP_ADJUST_CONTRAST)
                CU_ASSERT(!memcmp(&all[j], &out[k++], sizeof(*out)));
    }
    part = (struct hr_op){.type = HR_OP_COLOR_JITTER};
    CU_ASSERT_EQUAL(drawn(&part, 1, 0, out), 0);
}

// Ops that run with a probability, which is the first field.
TEST_CASE(chances)
{
    static const struct {
        struct hr_op op;
        enum hr_op_type makes;
    } all[] = {
        {HR_OP_RANDOM_GRAYSCALE(0), HR_OP_GRAYSCALE},
        {HR_OP_RANDOM_SOLARIZE(.threshold = 9), HR_OP_SOLARIZE},
        {HR_OP_RANDOM_GAUSSIAN_BLUR(0), HR_OP_GAUSSIAN_BLUR},
        {HR_OP_RANDOM_PERSPECTIVE(.distortion = .5), HR_OP_PERSPECTIVE},
    };
    static const double shares[] = {0, .1, .5, 1};
    struct hr_op out[HR_MAX_OPS];

    for (int k = 0; k < COUNT(all) * COUNT(shares); k++) {
        struct hr_op op = all[k % COUNT(all)].op;
        double p = shares[k / COUNT(all)];
        int count = 0;

        memcpy((char *)&op + hr_op_info(op.type)->fields[0].offset, &p,
               sizeof(p));
        for (int i = 0; i < DRAWS; i++) {
            int n = drawn(&op, 1, i, out);

            CU_ASSERT(!n || out[0].type == all[k % COUNT(all)].makes);
            count += n;
        }
        check_share(hr_op_info(op.type)->name, count, DRAWS, p);
    }
}

TEST_CASE(sigmas)
{
    static const double ends[][2] = {{0, 0}, {.5, 4}};
    struct hr_op out[HR_MAX_OPS];

    for (int k = 0; k < COUNT(ends); k++) {
        struct hr_op op = hr_op_random_gaussian_blur(.p = 1);
        double low = k ? ends[k][0] : .1, high = k ? ends[k][1] : 2;
        int parts[10] = {0};

        memcpy(op.random_gaussian_blur.sigma, ends[k], sizeof(ends[k]));
        for (int i = 0; i < DRAWS; i++) {
            double share;

            drawn(&op, 1, i, out);
            share = (out[0].gaussian_blur.sigma[0] - low) / (high - low);
            CU_ASSERT_FATAL(share >= 0 && share < 1);
            parts[(int)(share * 10)]++;
        }
        check_even("sigmas", parts, 10);
    }
}

// ---- Groups -----------------------------------------------------------------

// Returns a set of up to 3 bits: posterize with 1, 2, 3 bits.
static int bits_of(const struct hr_op *ops, int n)
{
    int bits = 0;

    for (int i = 0; i < n; i++)
        bits |= ops[i].type == HR_OP_POSTERIZE
                    ? 1 << (ops[i].posterize.bits - 1)
                    : 256;
    return bits;
}

#define BIT(n)                                         \
    {                                                  \
        .type = HR_OP_POSTERIZE, .posterize.bits = (n) \
    }

TEST_CASE(apply)
{
    static const struct hr_op ops[] = {HR_OP_RANDOM_APPLY(.p = .3, .count = 2),
                                       BIT(1), BIT(2), BIT(3)};
    struct hr_op out[HR_MAX_OPS];
    int count = 0;

    for (int i = 0; i < DRAWS; i++) {
        int bits = bits_of(out, drawn(ops, 4, i, out));

        CU_ASSERT(bits == 7 || bits == 4);
        count += bits == 7;
    }
    check_share("both", count, DRAWS, .3);
}

TEST_CASE(choice)
{
    static const struct hr_op ops[] = {HR_OP_RANDOM_CHOICE(.count = 3),
                                       BIT(1),
                                       HR_OP_RANDOM_APPLY(.p = 1, .count = 2),
                                       BIT(1),
                                       BIT(2),
                                       BIT(3)};
    struct hr_op out[HR_MAX_OPS];
    int counts[3] = {0};

    for (int i = 0; i < DRAWS; i++) {
        int bits = bits_of(out, drawn(ops, 6, i, out));

        CU_ASSERT_FATAL(bits == 1 || bits == 3 || bits == 4);
        counts[bits / 2]++;
    }
    check_even("choices", counts, 3);
}

// A group inside of another one counts as one item, and draws for itself.
TEST_CASE(nested)
{
    static const struct hr_op ops[] = {HR_OP_RANDOM_APPLY(.p = .5, .count = 2),
                                       HR_OP_RANDOM_CHOICE(.count = 2),
                                       BIT(1),
                                       HR_OP_RANDOM_APPLY(.p = .5),
                                       BIT(2),
                                       BIT(3)};
    struct hr_op out[HR_MAX_OPS];
    int counts[8] = {0};

    for (int i = 0; i < DRAWS; i++)
        counts[bits_of(out, drawn(ops, 6, i, out)) & 7]++;
    check_share("none", counts[0], DRAWS, .5);
    check_share("first choice", counts[4 + 1], DRAWS, .25);
    check_share("second choice", counts[4 + 2], DRAWS, .125);
    check_share("neither", counts[4], DRAWS, .125);
    CU_ASSERT_EQUAL(counts[0] + counts[4] + counts[5] + counts[6], DRAWS);
}

// An op draws by its place: ops that run before it change nothing.
TEST_CASE(place)
{
    struct hr_op ops[] = {hr_op_random_apply(.p = .5), BIT(1), jitter};
    struct hr_op out[HR_MAX_OPS], other[HR_MAX_OPS];

    for (int i = 0; i < 50; i++) {
        int n, m;

        ops[0].random_apply.p = 0;
        n = drawn(ops, 3, i, out);
        ops[0].random_apply.p = 1;
        m = drawn(ops, 3, i, other);
        CU_ASSERT(n == 4 && m == 5 &&
                  !memcmp(out, other + 1, 4 * sizeof(*out)));
    }
}

// One of two filters, as timm's crop has it.
TEST_CASE(choice_of_crops)
{
    struct hr_op ops[] = {HR_OP_RANDOM_CHOICE(.count = 2),
                          HR_OP_RANDOM_RESIZED_CROP(.w = 9, .h = 8),
                          HR_OP_RANDOM_RESIZED_CROP(.w = 9, .h = 8,
                                                    .filter = HR_BICUBIC),
                          HR_OP_FLIP(.horizontal = true)};
    struct hr_op out[HR_MAX_OPS];
    int counts[HR_NUM_FILTERS] = {0}, w = 0, h = 0;

    for (int i = 0; i < DRAWS; i++) {
        CU_ASSERT_EQUAL_FATAL(drawn(ops, COUNT(ops), i, out), 3);
        counts[out[1].resize.filter]++;
    }
    check_share("bicubic", counts[HR_BICUBIC], DRAWS, .5);
    CU_ASSERT(hr_ops_fixed_size(ops, COUNT(ops), &w, &h) && w == 9 && h == 8);
    ops[2].random_resized_crop.h = 9;
    CU_ASSERT_EQUAL(hr_ops_output_size(ops, COUNT(ops), W, H, 1, &w, &h),
                    HR_EINVAL);
    ops[2] = (struct hr_op)BIT(1);
    CU_ASSERT_EQUAL(hr_ops_output_size(ops, COUNT(ops), W, H, 1, &w, &h),
                    HR_EINVAL);
}

TEST_CASE(group_sizes)
{
    const struct hr_op ops[] = {hr_op_resize(.w = 9, .h = 8),
                                hr_op_random_apply(.p = .5, .count = 2), BIT(1),
                                hr_op_random_flip(.horizontal = .5),
                                hr_op_flip(.transpose = true)};
    int w, h;

    CU_ASSERT(hr_ops_fixed_size(ops, COUNT(ops), &w, &h) && w == 8 && h == 9);
    CU_ASSERT(!hr_ops_output_size(ops, COUNT(ops), 50, 50, 1, &w, &h));
    CU_ASSERT(w == 8 && h == 9);
}

TEST_CASE(refused)
{
    static const struct {
        struct hr_op ops[3];
        int num;
        const char *what;
    } bad[] = {
        {{HR_OP_RANDOM_APPLY(.p = .5)}, 1, "fewer than 1"},
        {{HR_OP_RANDOM_CHOICE(.count = 3), BIT(1), BIT(2)}, 3, "fewer than 3"},
        {{BIT(1), HR_OP_RANDOM_APPLY(.p = .5), HR_OP_RANDOM_APPLY(.p = .5)},
         3,
         "fewer than 1"},
        {{HR_OP_RANDOM_CHOICE(0), BIT(1)}, 2, "count must be 1"},
        {{HR_OP_RANDOM_APPLY(.p = .5, .count = -1), BIT(1)}, 2, "count must"},
        {{HR_OP_RANDOM_APPLY(.p = 1.5), BIT(1)}, 2, "p must be 0"},
        {{HR_OP_RANDOM_APPLY(.p = NAN), BIT(1)}, 2, "p must be 0"},
        {{HR_OP_RANDOM_APPLY(.p = .5), HR_OP_NORMALIZE(0)}, 2, "normalize: not"},
        {{HR_OP_RANDOM_APPLY(.p = .5), HR_OP_FIT(.w = 9, .h = 9)},
         2,
         "fit: not"},
        {{HR_OP_RANDOM_APPLY(.p = .5), HR_OP_CROP(.w = 5, .h = 7)},
         2,
         "crop: not"},
        {{HR_OP_RANDOM_APPLY(.p = .5), HR_OP_FLIP(.transpose = true)},
         2,
         "flip: not"},
        {{HR_OP_RANDOM_APPLY(.p = .5), HR_OP_RESIZE(.short_side = 5)},
         2,
         "resize: not"},
        {{HR_OP_RANDOM_APPLY(.p = .5), HR_OP_RANDOM_CROP(.w = W, .h = H)},
         2,
         "random_crop: not"},
        {{HR_OP_RANDOM_CHOICE(.count = 1), HR_OP_RANDOM_APPLY(.p = 1),
          HR_OP_RANDOM_RESIZED_CROP(.w = W, .h = H)},
         3,
         "random_resized_crop: not"},
        {{HR_OP_COLOR_JITTER(.hue = {-.6, .5})}, 1, "hue -0.6 .. 0.5: must"},
        {{HR_OP_COLOR_JITTER(.contrast = {-.1, .5})}, 1, "contrast -0.1"},
        {{HR_OP_COLOR_JITTER(.brightness = {1, .5})}, 1, "brightness 1 .. 0.5"},
        {{HR_OP_COLOR_JITTER(.saturation = {0, INFINITY})}, 1, "saturation"},
        {{HR_OP_COLOR_JITTER(.saturation = {NAN, 1})}, 1, "saturation"},
        {{HR_OP_RANDOM_GRAYSCALE(.p = -.1)}, 1, "p must be 0"},
        {{HR_OP_RAND_AUGMENT(0)}, 1, "num_ops must be 1"},
        {{HR_OP_RAND_AUGMENT(.num_ops = 2, .magnitude = 31)}, 1, "0 .. 30"},
        {{HR_OP_RAND_AUGMENT(.num_ops = 2, .magnitude = -1)}, 1, "magnitude"},
        {{HR_OP_RAND_AUGMENT(.num_ops = 2, .bins = 1)}, 1, "2 or more"},
        {{HR_OP_TRIVIAL_AUGMENT_WIDE(.bins = 1)}, 1, "2 or more"},
        {{HR_OP_AUTO_AUGMENT(.policy = 3)}, 1, "no policy"},
        {{HR_OP_AUTO_AUGMENT(.filter = HR_LANCZOS)}, 1, "no filter"},
        {{HR_OP_RANDOM_AFFINE(.translate = {0, 1.1})}, 1, "translate must"},
        {{HR_OP_RANDOM_AFFINE(.shear = {0, 0, 3, 2})}, 1, "shear 3 .. 2"},
        {{HR_OP_RANDOM_AFFINE(.degrees = {NAN, 3})}, 1, "degrees"},
        {{HR_OP_RANDOM_AFFINE(.scale = {0, 3})}, 1, "scale"},
        {{HR_OP_RANDOM_PERSPECTIVE(.distortion = 2)}, 1, "distortion must"},
    };
    int w, h;

    for (int i = 0; i < COUNT(bad); i++)
        CHECK(hr_ops_output_size(bad[i].ops, bad[i].num, W, H, 1, &w, &h) ==
                      HR_EINVAL &&
                  strstr(hr_last_error(), bad[i].what),
              "%d: '%s'", i, hr_last_error());
}

// However small the picture, the drawn parameters are valid for it.
TEST_CASE(small_pictures)
{
    static const struct hr_op all[] = {
        HR_OP_TRIVIAL_AUGMENT_WIDE(0),
        HR_OP_RAND_AUGMENT(.num_ops = 3, .magnitude = 30),
        HR_OP_AUTO_AUGMENT(.policy = HR_POLICY_SVHN),
        HR_OP_RANDOM_PERSPECTIVE(.p = 1, .distortion = 1),
        HR_OP_RANDOM_AFFINE(.degrees = {-9, 9}, .translate = {1, 1}),
        HR_OP_RANDOM_ROTATION(.degrees = {-180, 180})};
    struct hr_op out[HR_MAX_OPS];
    int n, w, h;

    for (int i = 0; i < 500; i++) {
        const struct hr_random key = {.seed = 3, .index = (uint64_t)i};
        const struct hr_op *op = &all[i % COUNT(all)];
        int size[2] = {1 + i / 6 % 3, 1 + i / 18 % 4};

        CHECK(!hr_ops_draw(op, 1, &key, size[0], size[1], 1, out, &n) &&
                  !hr_ops_output_size(out, n, size[0], size[1], 1, &w, &h) &&
                  w == size[0] && h == size[1],
              "%s of %dx%d: %s", hr_op_info(op->type)->name, size[0], size[1],
              hr_last_error());
    }
}

// A jitter is four of the 32, rand_augment as many as it says.
TEST_CASE(too_many)
{
    struct hr_op ops[HR_MAX_OPS], out[HR_MAX_OPS];
    int w, h;

    for (int i = 0; i < HR_MAX_OPS; i++)
        ops[i] = jitter;
    CU_ASSERT_EQUAL(drawn(ops, HR_MAX_OPS / 4, 0, out), HR_MAX_OPS);
    CU_ASSERT_EQUAL(hr_ops_output_size(ops, HR_MAX_OPS / 4 + 1, W, H, 1, &w,
                                       &h),
                    HR_EINVAL);
    ops[0] = hr_op_rand_augment(.num_ops = HR_MAX_OPS);
    CU_ASSERT(drawn(ops, 1, 0, out) <= HR_MAX_OPS);
    CU_ASSERT_EQUAL(hr_ops_output_size(ops, 2, W, H, 1, &w, &h), HR_EINVAL);
}
