// SPDX-License-Identifier: Apache-2.0
// The parts of the command that need neither device nor disk: the text of
// --ops, drawn numbers, sizes, the progress line.
#include <math.h>

#include "tools/common/braces.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "testing.h"
#include "tools/common/tools.h"

// ---- ops ------------------------------------------------------------------

static struct ops_list parsed(const char *text)
{
    struct ops_list list;
    bool read = !hr_ops_parse(text, list.ops, &list.num);

    CHECK(read, "'%s': %s", text, hr_last_error());
    return list;
}

static bool equal(const struct hr_op *a, const struct hr_op *b)
{
    const struct hr_op_info *info = hr_op_info(a->type);
    bool same = a->type == b->type;

    for (int i = 0; same && i < info->num_fields; i++) {
        size_t at = info->fields[i].offset;

        same = !memcmp((const char *)a + at, (const char *)b + at,
                       info->fields[i].size);
    }
    return same;
}

static const struct {
    const char *text;
    struct hr_op ops[7];
} forms[] = {
    {OPS_EVALUATION,
     {HR_OP_DECODE(0), HR_OP_RESIZE(.short_side = 256),
      HR_OP_CROP(.center = true, .pad = true, .w = 224, .h = 224),
      HR_OP_NORMALIZE(.mean = {.485f, .456f, .406f},
                      .std = {.229f, .224f, .225f})}},
    {"decode=gray:exif,resize=320x240:lanczos",
     {HR_OP_DECODE(.mode = HR_GRAY, .apply_orientation = true),
      HR_OP_RESIZE(.w = 320, .h = 240, .filter = HR_LANCZOS)}},
    {"fit=320x240:bicubic,fit=64",
     {HR_OP_DECODE(0), HR_OP_FIT(.w = 320, .h = 240, .filter = HR_BICUBIC),
      HR_OP_FIT(.w = 64, .h = 64)}},
    {"resize=256:box:vertical,random_resized_crop=9x8:bicubic:horizontal",
     {HR_OP_DECODE(0),
      HR_OP_RESIZE(.short_side = 256, .filter = HR_BOX,
                   .order = HR_ORDER_VERTICAL),
      HR_OP_RANDOM_RESIZED_CROP(.w = 9, .h = 8, .filter = HR_BICUBIC,
                                .order = HR_ORDER_HORIZONTAL)}},
    {"decode=exif,crop=-3,4,50,60,center_crop=10x20",
     {HR_OP_DECODE(.apply_orientation = true),
      HR_OP_CROP(.x = -3, .y = 4, .w = 50, .h = 60, .pad = true),
      HR_OP_CROP(.center = true, .pad = true, .w = 10, .h = 20)}},
    // As torchvision's lists are typed.
    {" decode, resize=256:bicubic , crop=1, 2, 3, 4,\n"
     "normalize=0.5, 0.25, 0.125/1",
     {HR_OP_DECODE(0), HR_OP_RESIZE(.short_side = 256, .filter = HR_BICUBIC),
      HR_OP_CROP(.x = 1, .y = 2, .w = 3, .h = 4, .pad = true),
      HR_OP_NORMALIZE(.mean = {.5f, .25f, .125f}, .std = {1, 1, 1})}},
    // Decode is put in front. A probability of 0 that was written is a
    // flip that does nothing.
    {"hflip,vflip,transpose,random_hflip,random_vflip=0.25,random_hflip=0",
     {HR_OP_DECODE(0), HR_OP_FLIP(.horizontal = true),
      HR_OP_FLIP(.vertical = true), HR_OP_FLIP(.transpose = true),
      HR_OP_RANDOM_FLIP(.horizontal = .5), HR_OP_RANDOM_FLIP(.vertical = .25),
      HR_OP_FLIP(0)}},
    {"random_crop=32x24:4,random_crop=9,to_tensor",
     {HR_OP_DECODE(0),
      HR_OP_RANDOM_CROP(.w = 32, .h = 24, .pad = 4, .pad_if_needed = true),
      HR_OP_RANDOM_CROP(.w = 9, .h = 9, .pad_if_needed = true),
      HR_OP_NORMALIZE(0)}},
    {"normalize=0.5,0.25,-1e-1/1,2,3:v2",
     {HR_OP_DECODE(0),
      HR_OP_NORMALIZE(.mean = {.5f, .25f, -.1f}, .std = {1, 2, 3},
                      .arith = HR_ARITH_MUL)}},
    // One number stands for all channels; to_tensor is normalize's first
    // step.
    {"decode,to_tensor:v2,normalize=0.5/0.25",
     {HR_OP_DECODE(0),
      HR_OP_NORMALIZE(.mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f},
                      .arith = HR_ARITH_MUL)}},
};

TEST_CASE(every_form)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        struct ops_list list = parsed(forms[i].text);
        int n = 0;

        for (; n < 7 && forms[i].ops[n].type; n++)
            CHECK(n < list.num && equal(&list.ops[n], &forms[i].ops[n]),
                  "'%s': op %d", forms[i].text, n);
        CHECK(list.num == n, "'%s': %d ops", forms[i].text, list.num);
    }
}

TEST_CASE(errors_with_position)
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
        {"fit", 4},
        {"fit=0", 5},
        {"center_crop=-1", 13},
        {"crop=1,2,3", 11},
        {"crop=1,2,hflip", 10},
        {"crop=1,2,0,4", 10},
        {"crop=1,2,3,4,5", 14},
        {"random_crop=9:x", 15},
        {"random_crop=9:-1", 15},
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
        {"normalize=1e39/1", 11},
        {"normalize=1,-1e39,1/1", 13},
        {"image,decode", 7},
        {"image hflip", 6},
        {"hflip,image", 7},
        {"resize:w=5", 1},
        {"resize:side=0", 1},
        {"resize:w=5:h=5:sides=5", 16},
        {"resize:w", 9},
        {"resize:w=5:h=5:box=1,2,3", 20},
        {"resize:w=5:h=5:filter=cubic", 23},
        {"random_flip", 1},
        {"normalize:mean=0:std=1,1,0", 1},
        {"resize=99999999999999999999", 8},
        {"resize:w=5:h=5:w=6", 16},
        {"decode=gray:exif:rgb", 18},
    };
    struct ops_list list;
    char want[32];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        bool ok = !hr_ops_parse(bad[i].text, list.ops, &list.num);
        const char *error = hr_last_error();

        snprintf(want, sizeof(want), "character %d: ", bad[i].position);
        CU_ASSERT(!ok);
        if (ok || strncmp(error, want, strlen(want))) {
            printf("\n    '%s': %s, expected %s\n", bad[i].text,
                   ok ? "accepted" : error, want);
            CU_FAIL("position");
        }
    }
}

static void expect_error(const char *text, const char *want)
{
    struct ops_list list;

    CU_ASSERT(hr_ops_parse(text, list.ops, &list.num));
    CU_ASSERT_STRING_EQUAL(hr_last_error(), want);
}

TEST_CASE(ops_texts)
{
    expect_error("resize=256:bicubik",
                 "character 12: 'bicubik' is not a filter: nearest, box, "
                 "bilinear, hamming, bicubic or lanczos");
    expect_error("resize=256:", "character 12: a filter is missing: nearest, "
                                "box, bilinear, hamming, bicubic or lanczos");
    expect_error("random_hflip=1e400",
                 "character 14: 1e400 is not a finite number");
    expect_error("fit:w=5:w=5", "character 9: 'w' tells a field again");
    expect_error("", "character 1: no op is named");
    expect_error(" ", "character 1: no op is named");
}

TEST_CASE(too_many)
{
    char text[1024] = "decode";
    struct ops_list list;

    for (int i = 0; i < 15; i++)
        strcat(text, ",random_resized_crop=9");
    CU_ASSERT(!hr_ops_parse(text, list.ops, &list.num));  // 31 ops
    strcat(text, ",hflip");
    CU_ASSERT(!hr_ops_parse(text, list.ops, &list.num));  // 32
    strcat(text, ",hflip");
    CU_ASSERT(hr_ops_parse(text, list.ops, &list.num));
}

// Ops that have a text come back as the same text.
TEST_CASE(ops_and_back)
{
    static const char *const texts[] = {
        OPS_EVALUATION,
        "decode=gray:exif,fit=320x240:bicubic:vertical,hflip,vflip,transpose",
        "decode=exif,crop=-3,4,50,60,center_crop=10x20,resize=5x6:nearest",
        "decode,random_crop=9x7:2,random_resized_crop=8:box,random_hflip",
        "decode,random_crop=9,random_hflip=0.3,random_vflip=1,to_tensor:v2",
        "decode,resize=256:bilinear:horizontal,normalize=0.1/0.25,1,3e-05:v2",
        "image",
        "image,flip,flip:horizontal:transpose,crop:w=5:h=6,invert",
        "decode,resize:w=5:h=6:box=-3e+38,3e+38,3e+38,1,fit:w=5:h=6:enlarge",
        "decode,random_flip:horizontal=0.1:vertical=1",
        "decode=gray,normalize:mean=1,2,3:std=-1,0,0",
    };
    static const float table[256];
    static const struct hr_op none[] = {
        HR_OP_NORMALIZE(.table = table),
        {.type = (enum hr_op_type)99},
    };
    char back[300];

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct ops_list list = parsed(texts[i]);
        size_t needs = strlen(texts[i]) + 1;

        CHECK(!hr_ops_format(list.ops, list.num, back, sizeof(back)) &&
                  !strcmp(back, texts[i]),
              "'%s': '%s'", texts[i], back);
        CU_ASSERT(!hr_ops_format(list.ops, list.num, back, needs));
        CU_ASSERT_EQUAL(hr_ops_format(list.ops, list.num, back, needs - 1),
                        HR_ELIMIT);
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        CU_ASSERT_EQUAL(hr_ops_format(&none[i], 1, back, sizeof(back)),
                        HR_EUNSUPPORTED);
}

static void draw_field(uint64_t *seed, const struct hr_op_field *f, void *to)
{
    int n = (int)(f->size /
                  (f->kind == HR_FIELD_RANGE ? sizeof(double) : sizeof(float)));
    double x = (double)next_random(seed) * 0x1p-64;
    uint64_t bits = next_random(seed);
    const struct hr_op_value *v = f->values;
    float number;

    switch (f->kind) {
    case HR_FIELD_INT:
        *(int *)to = (int)(f->lo + floor(x * x * (f->hi - f->lo + 1)));
        break;
    case HR_FIELD_BOOL:
        *(bool *)to = bits & 1;
        break;
    case HR_FIELD_ENUM:
        for (int k = random_below(seed, 8); k && v[1].name; k--)
            v++;
        *(int *)to = v->value;
        break;
    case HR_FIELD_DOUBLE:
        *(double *)to = f->lo + x * (f->hi - f->lo);
        break;
    case HR_FIELD_RANGE:
        for (int i = 0; i < n; i++)
            ((double *)to)[i] = x + i * (double)(bits % 3);
        break;
    case HR_FIELD_BOX:
    case HR_FIELD_CHANNELS:
        for (int i = 0; i < n; i++, bits = next_random(seed)) {
            memcpy(&number, &bits, sizeof(number));  // any of them
            ((float *)to)[i] = bits >> 62 ? number : (float)(bits >> 61);
        }
        break;
    case HR_FIELD_DOUBLES:
        for (int i = 0; i < n / 2; i++, bits = next_random(seed)) {
            memcpy(&number, &bits, sizeof(number));
            ((double *)to)[i] = bits >> 63 ? (double)number * x
                                           : (double)number;
        }
        break;
    case HR_FIELD_COLOR:
        memcpy(to, &bits, 3);
        break;
    case HR_FIELD_BYTES:
    case HR_FIELD_TABLE:
    case HR_FIELD_BLOCK:
        break;
    }
}

// Some of the fields at random.
static struct hr_op draw_op(uint64_t *seed)
{
    struct hr_op op = {.type = HR_OP_NONE};
    const struct hr_op_info *info;
    int num = 0;

    while (hr_op_info((enum hr_op_type)(num + 1)))
        num++;
    op.type = (enum hr_op_type)(1 + random_below(seed, num));
    info = hr_op_info(op.type);
    for (int i = 0; i < info->num_fields; i++)
        if (random_below(seed, 3))
            draw_field(seed, &info->fields[i],
                       (char *)&op + info->fields[i].offset);
    return op;
}

// Each list that hr_submit() takes has a text, and comes back from it; the
// thread's last error stays as it was.
TEST_CASE(any_ops_and_back)
{
    uint64_t seed = test_seed;
    int valid = 0;

    CU_ASSERT_EQUAL(hr_ops_parse("nonsense", NULL, NULL), HR_EINVAL);
    for (int i = 0; i < test_loops(60000); i++) {
        static const int channels[] = {0, 1, 3};
        int of = channels[i % 3], num = random_below(&seed, 4), n = -1;
        struct hr_op ops[4] = {hr_op_decode(.mode = i & 8 ? HR_GRAY : HR_RGB)};
        struct hr_op back[HR_MAX_OPS];
        char text[800], why[128];
        bool same;

        for (int k = !of; k < num; k++)
            ops[k] = draw_op(&seed);
        num += !of && !num;
        if (hr__ops_check(ops, num, of, why))
            continue;
        valid++;
        same = !hr_ops_format(ops, num, text, sizeof(text)) &&
               !strcmp(hr_last_error(), "no text, or no place for the ops") &&
               !hr_ops_parse(text, back, &n) && n == num;
        for (int k = 0; same && k < num; k++)
            same = equal(&ops[k], &back[k]);
        CHECK(same, "'%s' of %d ops: %s", text, num, hr_last_error());
    }
    CHECK(valid > test_loops(60000) / 20, "only %d lists are valid", valid);
}

TEST_CASE(fixed_sizes)
{
    struct ops_list list;
    int w = 0, h = 0;

    list = parsed("decode,resize=256");
    CU_ASSERT(!hr_ops_fixed_size(list.ops, list.num, &w, &h));
    list = parsed("decode,hflip,transpose");
    CU_ASSERT(!hr_ops_fixed_size(list.ops, list.num, &w, &h));
    list = parsed("decode,resize=40x30,transpose,resize=60");
    CU_ASSERT(hr_ops_fixed_size(list.ops, list.num, &w, &h));
    CU_ASSERT(w == 60 && h == 80);
    list = parsed("decode,random_crop=9x7:2,random_hflip");
    CU_ASSERT(hr_ops_fixed_size(list.ops, list.num, &w, &h));
    CU_ASSERT(w == 9 && h == 7);
    list = parsed("decode,random_resized_crop=32x16,random_hflip");
    CU_ASSERT(hr_ops_fixed_size(list.ops, list.num, &w, &h));
    CU_ASSERT(w == 32 && h == 16);
}

// ---- numbers and lines ----------------------------------------------------

TEST_CASE(sizes)
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

TEST_CASE(numbers)
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

TEST_CASE(progress)
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

// ---- Names in braces -------------------------------------------------------

struct names {
    char text[256];
    int num, stop;  // stop: the number of the one that is refused
};

static bool take_name(void *ctx, const char *name)
{
    struct names *names = ctx;

    if (strlen(names->text) + strlen(name) + 2 < sizeof(names->text)) {
        strcat(names->text, name);
        strcat(names->text, " ");
    }
    return ++names->num != names->stop;
}

TEST_CASE(braces)
{
    static const struct {
        const char *pattern, *names;
        int num;
    } cases[] = {
        {"a.tar", "a.tar ", 1},
        {"a-{08..11}.tar", "a-08.tar a-09.tar a-10.tar a-11.tar ", 4},
        {"{2..0}", "2 1 0 ", 3},
        {"{7..7}x", "7x ", 1},
        {"{0..1}-{a,b}-{00..01}.x",
         "0-{a,b}-00.x 0-{a,b}-01.x 1-{a,b}-00.x 1-{a,b}-01.x ", 4},
        {"{{1..2}}", "{1} {2} ", 2},
        {"{..2}{1..}{a..b}{1-2}{", "{..2}{1..}{a..b}{1-2}{ ", 1},
        {"{0..999999999}", "{0..999999999} ", 1},
        {"{0..9999}{0..9999}", "{0..9999}{0..9999} ", 1},
        {"{1234567890..1234567891}", "{1234567890..1234567891} ", 1},
    };
    struct names stopped = {.stop = 3};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct names names = {.num = 0};

        CHECK(braces_expand(cases[i].pattern, take_name, &names) &&
                  names.num == cases[i].num &&
                  !strcmp(names.text, cases[i].names),
              "%s: %d, %s", cases[i].pattern, names.num, names.text);
    }
    CU_ASSERT(!braces_expand("{1..9}{1..9}", take_name, &stopped));
    CU_ASSERT_EQUAL(stopped.num, 3);
}
