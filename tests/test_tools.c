// SPDX-License-Identifier: Apache-2.0
// The parts of the command that need neither device nor disk: the text of
// --ops, drawn numbers, sizes, the progress line.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "augment.h"
#include "ops_text.h"
#include "progress.h"
#include "testing.h"
#include "tools.h"

// ---- ops ------------------------------------------------------------------

static struct ops_list parsed(const char *text)
{
    struct ops_list list;
    char error[320] = "";

    if (!ops_parse(&list, text, error, sizeof(error)))
        printf("\n    '%s': %s\n", text, error);
    CU_ASSERT_STRING_EQUAL(error, "");
    return list;
}

static void ops_forms(void)
{
    struct ops_list list = parsed(OPS_EVALUATION);

    CU_ASSERT_EQUAL(list.num, 4);
    CU_ASSERT_EQUAL(list.items[0].op.type, HR_OP_DECODE);
    CU_ASSERT_EQUAL(list.items[1].op.resize.short_side, 256);
    CU_ASSERT_EQUAL(list.items[1].op.resize.filter, HR_BILINEAR);
    CU_ASSERT(list.items[2].op.crop.center && list.items[2].op.crop.pad);
    CU_ASSERT_EQUAL(list.items[2].op.crop.h, 224);
    CU_ASSERT_EQUAL(list.items[3].op.normalize.std[2], .225f);
    CU_ASSERT_EQUAL(list.items[3].op.normalize.arith, HR_ARITH_DIV);

    list = parsed("decode=gray:exif,resize=320x240:lanczos");
    CU_ASSERT_EQUAL(list.items[0].op.decode.mode, HR_GRAY);
    CU_ASSERT(list.items[0].op.decode.apply_orientation);
    CU_ASSERT_EQUAL(list.items[1].op.resize.w, 320);
    CU_ASSERT_EQUAL(list.items[1].op.resize.h, 240);
    CU_ASSERT_EQUAL(list.items[1].op.resize.short_side, 0);
    CU_ASSERT_EQUAL(list.items[1].op.resize.filter, HR_LANCZOS);
    CU_ASSERT_EQUAL(list.items[1].op.resize.order, HR_ORDER_REFERENCE);
    CU_ASSERT_EQUAL(ops_channels(&list), 1);

    list = parsed("resize=256:box:vertical,"
                  "random_resized_crop=9:bicubic:horizontal");
    CU_ASSERT_EQUAL(list.items[1].op.resize.filter, HR_BOX);
    CU_ASSERT_EQUAL(list.items[1].op.resize.order, HR_ORDER_VERTICAL);
    CU_ASSERT_EQUAL(list.items[2].op.resize.order, HR_ORDER_HORIZONTAL);

    list = parsed("decode=exif,crop=-3,4,50,60,center_crop=10x20");
    CU_ASSERT_EQUAL(list.items[0].op.decode.mode, HR_RGB);
    CU_ASSERT_EQUAL(list.items[1].op.crop.x, -3);
    CU_ASSERT_EQUAL(list.items[1].op.crop.y, 4);
    CU_ASSERT_EQUAL(list.items[1].op.crop.w, 50);
    CU_ASSERT_EQUAL(list.items[1].op.crop.h, 60);
    CU_ASSERT_EQUAL(list.items[2].op.crop.w, 10);
    CU_ASSERT_EQUAL(list.items[2].op.crop.h, 20);

    list = parsed("hflip,vflip,transpose,random_hflip,random_vflip=0.25");
    CU_ASSERT_EQUAL(list.num, 6);  // decode is put in front
    CU_ASSERT(list.items[1].op.flip.horizontal);
    CU_ASSERT(list.items[2].op.flip.vertical);
    CU_ASSERT(list.items[3].op.flip.transpose);
    CU_ASSERT_EQUAL(list.items[4].kind, OPS_RANDOM_HFLIP);
    CU_ASSERT_EQUAL(list.items[4].p, 0.5);
    CU_ASSERT_EQUAL(list.items[5].kind, OPS_RANDOM_VFLIP);
    CU_ASSERT_EQUAL(list.items[5].p, 0.25);
}

static void ops_numbers(void)
{
    struct ops_list list;

    list = parsed("decode,random_resized_crop=224:bicubic,to_tensor");
    CU_ASSERT_EQUAL(list.items[1].kind, OPS_RANDOM_RESIZED_CROP);
    CU_ASSERT_EQUAL(list.items[1].op.resize.w, 224);
    CU_ASSERT_EQUAL(list.items[1].op.resize.h, 224);
    CU_ASSERT_EQUAL(list.items[1].op.resize.filter, HR_BICUBIC);
    CU_ASSERT_EQUAL(list.items[2].op.normalize.std[0], 0);
    CU_ASSERT(ops_need_size(&list));

    list = parsed("normalize=0.5,0.25,-1e-1/1,2,3:v2");
    CU_ASSERT_EQUAL(list.items[1].op.normalize.mean[0], .5f);
    CU_ASSERT_EQUAL(list.items[1].op.normalize.mean[2], -.1f);
    CU_ASSERT_EQUAL(list.items[1].op.normalize.std[2], 3.f);
    CU_ASSERT_EQUAL(list.items[1].op.normalize.arith, HR_ARITH_MUL);

    // One number stands for all channels; to_tensor is normalize's first step.
    list = parsed("decode,to_tensor:v2,normalize=0.5/0.25");
    CU_ASSERT_EQUAL(list.num, 2);
    CU_ASSERT_EQUAL(list.items[1].op.normalize.mean[2], .5f);
    CU_ASSERT_EQUAL(list.items[1].op.normalize.std[1], .25f);
    CU_ASSERT_EQUAL(list.items[1].op.normalize.arith, HR_ARITH_MUL);
    CU_ASSERT(!ops_need_size(&list));
}

static void ops_errors(void)
{
    static const struct {
        const char *text;
        int position;
    } bad[] = {
        {"", 1},
        {",decode", 1},
        {"decode,", 8},
        {"decode,,hflip", 8},
        {"resise=256", 1},
        {"decode,Resize=2", 8},
        {"decode resize=2", 7},
        {"decode=grey", 8},
        {"decode=gray:", 13},
        {"hflip,decode", 7},
        {"resize", 7},
        {"resize=", 8},
        {"resize=x", 8},
        {"resize=0", 8},
        {"resize=12x", 11},
        {"resize=65536", 8},
        {"resize=9x9:", 12},
        {"resize=9x9:cubic", 12},
        {"resize=9x9:box:", 16},
        {"resize=9x9:box:upright", 16},
        {"resize=9.5", 9},
        {"center_crop=-1", 13},
        {"crop=1,2,3", 11},
        {"crop=1,2,hflip", 10},
        {"crop=1,2,0,4", 10},
        {"crop=1,2,3,4,5", 14},
        {"random_hflip=1.5", 14},
        {"random_hflip=", 14},
        {"random_hflip=nan", 14},
        {"hflip=1", 6},
        {"normalize", 10},
        {"normalize=", 11},
        {"normalize=imagenette", 11},
        {"normalize=1,2,3", 16},
        {"normalize=1,2/3", 11},
        {"normalize=1/0", 13},
        {"normalize=1/-1", 13},
        {"normalize=1,2,3,4/1", 17},
        {"normalize=1/1:v3", 15},
        {"normalize=1/1,hflip", 15},
        {"to_tensor,hflip", 11},
        {"to_tensor,to_tensor", 11},
        {"normalize=1/1,to_tensor", 15},
        {"normalize=1e999/1", 11},
        {"resize=99999999999999999999", 8},
    };
    struct ops_list list;
    char error[320], want[32];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        bool ok = ops_parse(&list, bad[i].text, error, sizeof(error));
        snprintf(want, sizeof(want), "character %d: ", bad[i].position);
        CU_ASSERT(!ok);
        if (ok || strncmp(error, want, strlen(want))) {
            printf("\n    '%s': %s, expected %s\n", bad[i].text,
                   ok ? "accepted" : error, want);
            CU_FAIL("position");
        }
    }
}

static void ops_too_many(void)
{
    char text[1024] = "decode", error[320];
    struct ops_list list;

    for (int i = 0; i < 15; i++)
        strcat(text, ",random_resized_crop=9");
    CU_ASSERT(ops_parse(&list, text, error, sizeof(error)));  // 31 ops
    strcat(text, ",hflip");
    CU_ASSERT(ops_parse(&list, text, error, sizeof(error)));  // 32
    strcat(text, ",hflip");
    CU_ASSERT(!ops_parse(&list, text, error, sizeof(error)));
    CU_ASSERT(ops_parse(&list, "decode", error, 0));  // no room for a text
    CU_ASSERT(!ops_parse(&list, "nothing", error, 8));
    CU_ASSERT_EQUAL(strlen(error), 7);
}

static void ops_sizes(void)
{
    struct ops_list list;
    int w = 0, h = 0;

    list = parsed("decode,resize=256");
    CU_ASSERT(!ops_fixed_size(&list, &w, &h));
    list = parsed("decode,hflip,transpose");
    CU_ASSERT(!ops_fixed_size(&list, &w, &h));
    list = parsed("decode,resize=40x30,transpose,resize=60");
    CU_ASSERT(ops_fixed_size(&list, &w, &h));
    CU_ASSERT(w == 60 && h == 80);
    list = parsed("decode,random_resized_crop=32x16,random_hflip");
    CU_ASSERT(ops_fixed_size(&list, &w, &h));
    CU_ASSERT(w == 32 && h == 16);
}

// ---- augment --------------------------------------------------------------

static void augment_vectors(void)
{
    // Random123's known answers for philox4x32-10 (tests/kat_vectors).
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c,
                                      0x9b00dbd8};
    const struct augment_key zero = {0};
    uint32_t word[4];

    augment_draw(&zero, 0, 0, word);
    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(word[i], zeros[i]);
}

static void augment_keys(void)
{
    const struct augment_key base = {.seed = 7, .index = 3, .epoch = 1};
    struct augment_key other[3] = {base, base, base};
    uint32_t a[4], b[4];

    other[0].seed = 8;
    other[1].index = 4;
    other[2].epoch = 2;
    augment_draw(&base, 1, 0, a);
    augment_draw(&base, 1, 0, b);
    CU_ASSERT(!memcmp(a, b, sizeof(a)));
    for (int i = 0; i < 3; i++) {
        augment_draw(&other[i], 1, 0, b);
        CU_ASSERT(memcmp(a, b, sizeof(a)));
    }
    augment_draw(&base, 2, 0, b);
    CU_ASSERT(memcmp(a, b, sizeof(a)));
    augment_draw(&base, 1, 1, b);
    CU_ASSERT(memcmp(a, b, sizeof(a)));
}

static void augment_windows(void)
{
    struct augment_key key = {.seed = 20240229};
    double share = 0;
    int in_left = 0, whole = 0, num = 20000;

    printf("\n    seed %llu ", (unsigned long long)key.seed);
    for (int i = 0; i < num; i++) {
        struct hr_crop crop;
        double area, ratio;

        key.index = (uint64_t)i;
        crop = augment_resized_crop(&key, 1, 500, 375);
        area = (double)crop.w * crop.h / (500.0 * 375);
        ratio = (double)crop.w / crop.h;
        if (crop.x < 0 || crop.y < 0 || crop.x + crop.w > 500 ||
            crop.y + crop.h > 375 || area < 0.078 || ratio < 0.74 ||
            ratio > 1.35)
            CU_FAIL("window");
        share += area;
        in_left += 2 * crop.x + crop.w < 500;
        whole += crop.w == 500 && crop.h == 375;
    }
    // torchvision 0.14 gives 0.4349 over 20000 windows; symmetric in x.
    CU_ASSERT(fabs(share / num - 0.435) < 0.006);
    CU_ASSERT(in_left > num * 47 / 100 && in_left < num * 53 / 100);
    CU_ASSERT(whole < num / 10);
}

static void augment_narrow(void)
{
    const struct augment_key key = {.seed = 1};
    struct hr_crop crop = augment_resized_crop(&key, 0, 1000, 3);

    // No window fits: the central one of ratio 4:3, 3 high.
    CU_ASSERT(crop.w == 4 && crop.h == 3 && crop.x == 498 && crop.y == 0);
    crop = augment_resized_crop(&key, 0, 3, 1000);
    CU_ASSERT(crop.w == 3 && crop.h == 4 && crop.x == 0 && crop.y == 498);
    crop = augment_resized_crop(&key, 0, 1, 1);
    CU_ASSERT(crop.w == 1 && crop.h == 1 && crop.x == 0 && crop.y == 0);
}

static void augment_lists(void)
{
    struct ops_list list = parsed("decode=exif,random_hflip=0.3,"
                                  "random_resized_crop=32,random_vflip=0");
    struct hr_info info = {.width = 40, .height = 400, .orientation = 6};
    struct augment_key key = {.seed = 99};
    struct hr_op ops[HR_MAX_OPS];
    int flips = 0, num = 0;

    for (key.index = 0; key.index < 10000; key.index++) {
        num = augment_ops(&list, &key, &info, ops);
        flips += ops[1].type == HR_OP_FLIP;
        // Turned by EXIF, the picture is 400 wide and 40 high.
        if (ops[num - 2].type != HR_OP_CROP || ops[num - 1].resize.w != 32 ||
            ops[num - 2].crop.y + ops[num - 2].crop.h > 40)
            CU_FAIL("list");
    }
    CU_ASSERT(flips > 2800 && flips < 3200);
    key.index = 0;
    num = augment_ops(&list, &key, NULL, ops);
    CU_ASSERT_EQUAL(ops[num - 1].type, HR_OP_RESIZE);
    CU_ASSERT_NOT_EQUAL(ops[num - 2].type, HR_OP_CROP);
}

// ---- numbers and lines ----------------------------------------------------

static void sizes(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;  // 0 = refused
    } cases[] = {
        {"1", 1},
        {"4096", 4096},
        {"4096B", 4096},
        {"64K", 65536},
        {"64k", 65536},
        {"64M", 64 << 20},
        {"1G", 1 << 30},
        {"1.5K", 1536},
        {"2GiB", (uint64_t)2 << 30},
        {"1T", (uint64_t)1 << 40},
        {"3MB", 3 << 20},
        {"", 0},
        {"0", 0},
        {"-1", 0},
        {"+1", 0},
        {" 1", 0},
        {"1 M", 0},
        {"M", 0},
        {"1X", 0},
        {"1MM", 0},
        {"1Mib", 0},
        {"0x10", 0},
        {"nan", 0},
        {"inf", 0},
        {"1e300", 0},
        {"99999999T", 0},
        {"0.1", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = 0;
        bool ok = tools_parse_size(cases[i].text, &bytes);

        CHECK(ok == !!cases[i].bytes && (!ok || bytes == cases[i].bytes),
              "'%s'", cases[i].text);
    }
}

static void numbers(void)
{
    uint64_t value = 0;
    size_t product;
    char text[16];

    CU_ASSERT(tools_parse_u64("18446744073709551615", &value));
    CU_ASSERT_EQUAL(value, UINT64_MAX);
    CU_ASSERT(!tools_parse_u64("18446744073709551616", &value));
    CU_ASSERT(!tools_parse_u64("-1", &value));
    CU_ASSERT(!tools_parse_u64("", &value));
    CU_ASSERT(!tools_parse_u64("1x", &value));
    CU_ASSERT(!tools_mul(&product, SIZE_MAX, 2));
    tools_escape(text, sizeof(text), "a\n\x7f\xc3\xa9");
    CU_ASSERT_STRING_EQUAL(text, "a\\x0a\\x7f\xc3\xa9");
    tools_escape(text, sizeof(text), "\xc2\x9b\xc2\xa9\xc3\x9f\xc2");
    CU_ASSERT_STRING_EQUAL(text, "\\xc2\\x9b\xc2\xa9\xc3\x9f\xc2");
    tools_escape(text, 6, "ab\n");
    CU_ASSERT_STRING_EQUAL(text, "ab");
    CU_ASSERT(tools_peak_rss() > 100000);
    CU_ASSERT(tools_cpu_seconds() > 0);
}

static void progress_line(void)
{
    struct progress progress = {.total = 400, .done = 100, .failed = 2};
    char line[256];

    progress_text(&progress, 2.0, 80, line, sizeof(line));
    CU_ASSERT(strstr(line, " 25% 100/400  50 img/s  0:06 left  2 failed") !=
              NULL);
    CU_ASSERT(strlen(line) < 80);
    CU_ASSERT_PTR_NULL(strchr(line, '\033'));
    for (int width = 1; width < 60; width++) {
        progress_text(&progress, 2.0, width, line, sizeof(line));
        CU_ASSERT((int)strlen(line) < width || width == 1);
    }
    progress.color = true;
    progress_text(&progress, 2.0, 80, line, sizeof(line));
    CU_ASSERT_PTR_NOT_NULL(strchr(line, '\033'));
    progress = (struct progress){0};
    progress_text(&progress, 0, 80, line, sizeof(line));
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "0/0"));
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"every_form", ops_forms},
        {"numbers", ops_numbers},
        {"errors_with_position", ops_errors},
        {"too_many", ops_too_many},
        {"fixed_sizes", ops_sizes},
        {"known_answers", augment_vectors},
        {"keys", augment_keys},
        {"windows", augment_windows},
        {"narrow", augment_narrow},
        {"lists", augment_lists},
        {"sizes", sizes},
        {"numbers", numbers},
        {"progress", progress_line},
    };

    return test_main("tools", cases, sizeof(cases) / sizeof(*cases), argc,
                     argv);
}
