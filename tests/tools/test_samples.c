// SPDX-License-Identifier: Apache-2.0
// headrace samples: the same bytes for the same seed, and every file is what
// samples.json says it is. Decodes with libjpeg and libpng alone.
#include <setjmp.h>
#include <sys/stat.h>

#include <jansson.h>
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "tools/common/tools.h"
#include "tools/samples/samples.h"
#include "testing.h"

#define SEED "20"
#define OTHER_SEED "21"

#define MOST_PIXELS 100000000.0  // the library's default limits
#define MOST_SCANS 100
#define MOST_VISITS 50000000.0

struct test {
    const char *root;
    char path[4096];
    json_t *list;  // of the folder a
};

static struct test t;  // CUnit's tests take no argument

struct file {
    unsigned char *data;
    size_t size;
};

static bool file_read(struct file *f, const char *dir, const char *name)
{
    FILE *in;
    struct stat st;
    bool ok;
    *f = (struct file){0};
    snprintf(t.path, sizeof(t.path), "%s/%s/%s", t.root, dir, name);
    if (!(in = fopen(t.path, "rb")))
        return false;
    ok = !fstat(fileno(in), &st) && (f->data = malloc((size_t)st.st_size + 1));
    if (ok) {
        f->size = (size_t)st.st_size;
        ok = fread(f->data, 1, f->size, in) == f->size;
    }
    fclose(in);
    return ok;
}

static void file_finish(struct file *f)
{
    free(f->data);
    *f = (struct file){0};
}

static int samples(const char *dir, const char *a, const char *b, const char *c,
                   const char *d)
{
    char path[128];
    const char *args[] = {"headrace samples", path, a, b, c, d, NULL};
    char *argv[7];
    int argc = 0;
    snprintf(path, sizeof(path), "%s/%s", t.root, dir);
    while (args[argc]) {
        argv[argc] = (char *)(uintptr_t)args[argc];
        argc++;
    }
    argv[argc] = NULL;
    return cmd_samples(argc, argv);
}

static bool same(const char *dir_a, const char *dir_b, const char *name)
{
    struct file a, b;
    bool ok = file_read(&a, dir_a, name);
    ok = file_read(&b, dir_b, name) && ok;
    ok = ok && a.size == b.size && !memcmp(a.data, b.data, a.size);
    file_finish(&a);
    file_finish(&b);
    return ok;
}

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

static int int_of(const json_t *entry, const char *key)
{
    return (int)json_integer_value(json_object_get(entry, key));
}

TEST_CASE(same_seed_same_bytes)
{
    size_t i;
    json_t *entry;
    CU_ASSERT_EQUAL(samples("b", "--seed", SEED, "--count", "8"), TOOLS_OK);
    CU_ASSERT_TRUE(same("a", "b", "samples.json"));
    json_array_foreach(t.list, i, entry)
    {
        if (same("a", "b", text_of(entry, "path")))
            continue;
        CU_FAIL("two runs differ");
        printf("\n  differs: %s", text_of(entry, "path"));
    }
}

TEST_CASE(other_seed_other_bytes)
{
    CU_ASSERT_EQUAL(samples("c", "--seed", OTHER_SEED, "--count=1",
                            "--kinds=gray-2x2,bad-flip-444"),
                    TOOLS_OK);
    CU_ASSERT_FALSE(same("a", "c", "photos/pebbles/pebbles-00000.jpg"));
    CU_ASSERT_FALSE(same("a", "c", "kinds/gray-2x2.jpg"));
    CU_ASSERT_FALSE(same("a", "c", "bad/flip-444.jpg"));
}

TEST_CASE(options)
{
    struct file f;
    CU_ASSERT_EQUAL(samples("d", "--size=61x40", "--photos-only", "--count=6",
                            NULL),
                    TOOLS_OK);
    CU_ASSERT_FALSE(file_read(&f, "d", "kinds/gray.jpg"));
    file_finish(&f);
    CU_ASSERT_TRUE(file_read(&f, "d", "photos/fruit/fruit-00001.jpg"));
    file_finish(&f);
    CU_ASSERT_EQUAL(samples("e", "--kinds=no-such", "--count=0", NULL, NULL),
                    TOOLS_CANNOT);
    CU_ASSERT_EQUAL(samples("e", "--size=0x9", NULL, NULL, NULL), TOOLS_CANNOT);
    CU_ASSERT_EQUAL(samples("e", "--size=9x", NULL, NULL, NULL), TOOLS_CANNOT);
    CU_ASSERT_EQUAL(samples("e", "--seed=x", NULL, NULL, NULL), TOOLS_CANNOT);
    CU_ASSERT_EQUAL(samples("e", "--count=-1", NULL, NULL, NULL), TOOLS_CANNOT);
    CU_ASSERT_EQUAL(samples("e", "two", NULL, NULL, NULL), TOOLS_CANNOT);
    // A file stands where the folder should be.
    CU_ASSERT_EQUAL(samples("a/samples.json", "--count=0", NULL, NULL, NULL),
                    TOOLS_CANNOT);
    CU_ASSERT_EQUAL(samples("a/samples.json/x", "--count=0", NULL, NULL, NULL),
                    TOOLS_CANNOT);
}

struct outcome {
    bool decoded;
    int warnings;
    int w, h;
};

struct fault {
    struct jpeg_error_mgr pub;
    jmp_buf leave;
};

static void fault_exit(j_common_ptr cinfo)
{
    longjmp(((struct fault *)cinfo->err)->leave, 1);
}

// Pillow refuses a file that ends too soon; libjpeg would fill it up.
static void fault_message(j_common_ptr cinfo, int level)
{
    if (level >= 0)
        return;
    cinfo->err->num_warnings++;
    if (cinfo->err->msg_code == JWRN_JPEG_EOF)
        fault_exit(cinfo);
}

static void read_jpeg(const struct file *f, struct outcome *out)
{
    struct jpeg_decompress_struct d;
    struct fault fault;
    d.err = jpeg_std_error(&fault.pub);
    fault.pub.error_exit = fault_exit;
    fault.pub.emit_message = fault_message;
    jpeg_create_decompress(&d);
    if (!setjmp(fault.leave)) {
        jpeg_mem_src(&d, f->data, (unsigned long)f->size);
        jpeg_read_header(&d, TRUE);
        jpeg_start_decompress(&d);
        out->w = (int)d.output_width;
        out->h = (int)d.output_height;
        JSAMPARRAY row = d.mem->alloc_sarray((j_common_ptr)&d, JPOOL_IMAGE,
                                             d.output_width * 4, 1);
        while (d.output_scanline < d.output_height)
            jpeg_read_scanlines(&d, row, 1);
        jpeg_finish_decompress(&d);
        out->decoded = true;
        out->warnings = (int)fault.pub.num_warnings;
    }
    jpeg_destroy_decompress(&d);
}

static void read_png(const struct file *f, struct outcome *out)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    auto_heap void *pixels = NULL;
    if (png_image_begin_read_from_memory(&image, f->data, f->size)) {
        image.format = PNG_FORMAT_RGBA;
        out->w = (int)image.width;
        out->h = (int)image.height;
        pixels = malloc(PNG_IMAGE_SIZE(image));
        out->decoded = pixels &&
                       png_image_finish_read(&image, NULL, pixels, 0, NULL);
    }
    png_image_free(&image);
}

static struct outcome outcome_of(const struct file *f)
{
    struct outcome out = {0};
    if (f->size >= 8 && !png_sig_cmp(f->data, 0, 8))
        read_png(f, &out);
    else if (f->size)
        read_jpeg(f, &out);
    return out;
}

static bool over_limit(const struct file *f, const json_t *entry)
{
    double w = int_of(entry, "width"), h = int_of(entry, "height");
    int scans = 0;
    for (size_t i = 0; i + 1 < f->size; i++)
        scans += f->data[i] == 0xff && f->data[i + 1] == 0xda;
    return w * h > MOST_PIXELS || scans > MOST_SCANS ||
           w * h / 64 * scans > MOST_VISITS;
}

static bool as_listed(const struct file *f, const json_t *entry)
{
    const char *expect = text_of(entry, "expect");
    struct outcome o;
    if (json_is_true(json_object_get(entry, "limit")))
        return !strcmp(expect, "fail") && over_limit(f, entry);
    o = outcome_of(f);
    if (!strcmp(expect, "fail"))
        return !o.decoded;
    return o.decoded && o.w == int_of(entry, "width") &&
           o.h == int_of(entry, "height") && !over_limit(f, entry) &&
           (strcmp(expect, "ok") ? o.warnings > 0 : !o.warnings);
}

TEST_CASE(files_are_as_listed)
{
    size_t i, kinds = 0, bad = 0, photos = 0;
    json_t *entry;
    json_array_foreach(t.list, i, entry)
    {
        const char *path = text_of(entry, "path");
        struct file f;
        photos += !strncmp(path, "photos/", 7);
        kinds += !strncmp(path, "kinds/", 6);
        bad += !strncmp(path, "bad/", 4);
        if (!file_read(&f, "a", path) || !as_listed(&f, entry)) {
            CU_FAIL("not as listed");
            printf("\n  not as listed: %s", path);
        }
        file_finish(&f);
    }
    CU_ASSERT_EQUAL(photos, 8);
    CU_ASSERT(kinds >= 90);
    CU_ASSERT(bad >= 70);
    printf("\n  %zu photos, %zu kinds, %zu damaged; ", photos, kinds, bad);
}

// The workload these photos stand for: 500 x 375, 4:4:4, q95, about 110 KB.
TEST_CASE(photos_weigh_what_photos_weigh)
{
    size_t i, n = 0;
    double bytes_per_pixel = 0;
    json_t *entry;
    json_array_foreach(t.list, i, entry)
    {
        struct file f;
        if (strcmp(text_of(entry, "kind"), "photo-444"))
            continue;
        CU_ASSERT_TRUE(file_read(&f, "a", text_of(entry, "path")));
        bytes_per_pixel += (double)f.size / int_of(entry, "width") /
                           int_of(entry, "height");
        n++;
        file_finish(&f);
    }
    CU_ASSERT_FATAL(n > 0);
    bytes_per_pixel /= (double)n;
    CU_ASSERT(bytes_per_pixel > 0.40 && bytes_per_pixel < 0.75);
    printf("\n  4:4:4 photos: %.2f bytes per pixel; ", bytes_per_pixel);
}

static bool make_folder(void)
{
    json_error_t error;

    t.root = test_folder();
    if (samples("a", "--seed", SEED, "--count", "8") != TOOLS_OK)
        return false;
    snprintf(t.path, sizeof(t.path), "%s/a/samples.json", t.root);
    return (t.list = json_load_file(t.path, 0, &error)) != NULL;
}

int main(int argc, char **argv)
{
    int failed;

    printf("seeds: %s and %s\n", SEED, OTHER_SEED);
    if (!make_folder()) {
        fprintf(stderr, "the samples cannot be made\n");
        return 1;
    }
    failed = test_main(argc, argv);
    json_decref(t.list);
    return failed;
}
