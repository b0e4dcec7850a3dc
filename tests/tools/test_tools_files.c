// SPDX-License-Identifier: Apache-2.0
// The command's files: folders, .npy files, the manifest.
#define _GNU_SOURCE  // memmem
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tools/common/inputs.h"
#include "tools/common/manifest.h"
#include "tools/run/npy.h"
#include "tools/common/out_file.h"
#include "testing.h"
#include "tools/common/tools.h"

// ---- files ----------------------------------------------------------------

TEST_CASE(npy_bytes)
{
    static const char want[] = "{'descr': '<f4', 'fortran_order': False, "
                               "'shape': (7, 3, 224, 200), }";
    const uint64_t shape[] = {7, 3, 224, 200};
    const uint64_t huge[] = {UINT64_MAX, 3, 65535, 65535};
    unsigned char head[NPY_HEADER_SIZE];

    memset(head, 0, sizeof(head));
    npy_header(head, HR_F32, shape, 4);
    CU_ASSERT(!memcmp(head, "\x93NUMPY\x01\x00", 8));
    CU_ASSERT_EQUAL(head[8] + 256 * head[9] + 10, NPY_HEADER_SIZE);
    CU_ASSERT_EQUAL(NPY_HEADER_SIZE % 64, 0);
    CU_ASSERT(!memcmp(head + 10, want, strlen(want)));
    for (size_t i = 10 + strlen(want); i < NPY_HEADER_SIZE - 1; i++)
        CU_ASSERT_EQUAL(head[i], ' ');
    CU_ASSERT_EQUAL(head[NPY_HEADER_SIZE - 1], '\n');
    npy_header(head, HR_U8, huge, 4);
    CU_ASSERT(memmem(head, sizeof(head), "'|u1'", 5) != NULL);
    CU_ASSERT(memmem(head, sizeof(head), "65535), }", 9) != NULL);
    CU_ASSERT_EQUAL(head[NPY_HEADER_SIZE - 1], '\n');
    npy_header(head, HR_F16, shape, 1);
    CU_ASSERT(memmem(head, sizeof(head), "'<f2'", 5) != NULL);
    CU_ASSERT(memmem(head, sizeof(head), "(7,)", 4) != NULL);
}

TEST_CASE(whole_or_not_at_all)
{
    const char *dir = test_folder();
    char path[256], text[64];
    struct out_file file;
    auto_heap char *large = calloc(1, 200000);

    snprintf(path, sizeof(path), "%s/x", dir);
    CU_ASSERT(out_file_open(&file, path));
    CU_ASSERT(out_file_write(&file, "wrong", 5));
    CU_ASSERT(out_file_write(&file, large, 200000));
    CU_ASSERT(out_file_rewind(&file));
    CU_ASSERT(out_file_write(&file, "00 of 12", 8));
    CU_ASSERT(out_file_rewrite(&file, "12", 2));
    CU_ASSERT(out_file_write(&file, "!", 1));
    CU_ASSERT(access(path, F_OK) < 0);
    CU_ASSERT(out_file_close(&file));
    CU_ASSERT(access(path, F_OK) < 0);
    CU_ASSERT(out_file_rename(&file));
    test_read(path, text, sizeof(text));
    CU_ASSERT_STRING_EQUAL(text, "12 of 12!");

    // Given up: the file that was there before stays.
    CU_ASSERT(out_file_open(&file, path));
    CU_ASSERT(out_file_write(&file, large, 200000));
    out_file_discard(&file);
    out_file_discard(&file);
    CU_ASSERT_EQUAL(test_read(path, text, sizeof(text)), 9);
    CU_ASSERT_EQUAL(unlink(path), 0);
    // Nothing else was left behind.
    CU_ASSERT_EQUAL(rmdir(dir), 0);
    CU_ASSERT(!out_file_open(&file, "/no-such-folder/x"));
    CU_ASSERT_EQUAL(errno, ENOENT);
    CU_ASSERT(!out_file_open(&file, "/dev/null"));
    CU_ASSERT(!out_file_open(&file, "/tmp"));
    CU_ASSERT_EQUAL(errno, EISDIR);
}

// A link stays what it is; the file behind it is the new one.
TEST_CASE(behind_a_link)
{
    const char *dir = test_folder();
    char path[256], link[256], text[64];
    struct out_file file;
    struct stat st;

    snprintf(path, sizeof(path), "%s/far", dir);
    snprintf(link, sizeof(link), "%s/link", dir);
    fclose(fopen(path, "w"));
    CU_ASSERT_EQUAL(symlink("far", link), 0);
    CU_ASSERT(out_file_open(&file, link));
    CU_ASSERT(out_file_write(&file, "new", 3));
    CU_ASSERT(out_file_close(&file));
    CU_ASSERT(out_file_rename(&file));
    CU_ASSERT(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    CU_ASSERT_EQUAL(test_read(path, text, sizeof(text)), 3);
    CU_ASSERT_EQUAL(unlink(link), 0);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(rmdir(dir), 0);
    CU_ASSERT(!out_file_open(&file, ""));
    CU_ASSERT_EQUAL(errno, ENOENT);
}

// Files left by dead processes go, files of others stay.
TEST_CASE(leftovers)
{
    const char *dir = test_folder();
    char path[300], mine[300];
    struct out_file file;
    pid_t child = fork();

    CU_ASSERT_FATAL(child >= 0);
    if (!child)
        _exit(0);
    CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
    snprintf(path, sizeof(path), "%s/x", dir);
    CU_ASSERT(out_file_open(&file, path));
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {".headrace-%ld-0.part",
                                            ".headrace-%ld-0.part2",
                                            ".headrace-%ldx-0.part",
                                            "headrace-%ld-0.part"};
        int length = snprintf(mine, sizeof(mine), "%s/", dir);

        snprintf(mine + length, sizeof(mine) - (size_t)length, names[i],
                 (long)child);
        fclose(fopen(mine, "w"));
        out_file_clean(dir);
        CU_ASSERT_EQUAL(access(mine, F_OK) < 0, i == 0);
        unlink(mine);
    }
    // A process with that number elsewhere holds a lock.
    snprintf(mine, sizeof(mine), "%s/.headrace-%ld-0.part", dir, (long)child);
    CU_ASSERT_EQUAL(rename(file.temp, mine), 0);
    out_file_clean(dir);
    CU_ASSERT_EQUAL(rename(mine, file.temp), 0);
    // A living process keeps its file, with a lock or without.
    fclose(file.stream);
    file.stream = NULL;
    out_file_clean(dir);
    CU_ASSERT_EQUAL(access(file.temp, F_OK), 0);
    out_file_discard(&file);
    out_file_clean("/no/such");
}

// A file with one failed write is not whole, whatever comes later.
TEST_CASE(hole)
{
    const char *dir = test_folder();
    char path[300];
    struct out_file file;
    auto_heap char *large = calloc(1, 100000);
    int fd, full;

    snprintf(path, sizeof(path), "%s/x", dir);
    CU_ASSERT(out_file_open(&file, path));
    fd = dup(fileno(file.stream));
    full = open("/dev/full", O_WRONLY);
    CU_ASSERT(dup2(full, fileno(file.stream)) >= 0);
    CU_ASSERT(!out_file_write(&file, large, 100000));
    CU_ASSERT_EQUAL(errno, ENOSPC);
    CU_ASSERT(dup2(fd, fileno(file.stream)) >= 0);
    close(fd);
    close(full);
    CU_ASSERT(!out_file_close(&file));
    CU_ASSERT_EQUAL(errno, ENOSPC);
    out_file_discard(&file);
}

static void make(const char *dir, const char *name)
{
    char path[300];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (name[strlen(name) - 1] == '/') {
        CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
        return;
    }
    fd = open(path, O_CREAT | O_WRONLY, 0666);
    CU_ASSERT(fd >= 0);
    close(fd);
}

static void make_link(const char *dir, const char *to, const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    CU_ASSERT_EQUAL(symlink(to, path), 0);
}

TEST_CASE(walk)
{
    static const char *const make_these[] = {
        "b/",     "b/2.JPG",     "b/1.jpeg",   "b-/",           "b-/x.png",
        "a.txt",  "z.PnG",       "b/nl\n.jpg", "b/bad\xff.jpe", "b/.jpg",
        "d.jpg/", "d.jpg/q.mpo", "none",       "e.jfif",
    };
    // As ImageFolder: by class, not by bytes, of which '-' is before '/'.
    static const char *const want[] = {
        "b/.jpg",     "b/1.jpeg", "b/2.JPG",  "b/bad\xff.jpe",
        "b/nl\n.jpg", "b/up.jpg", "b-/x.png", "d.jpg/q.mpo",
    };
    const char *dir = test_folder();
    char path[300], name[300], slashes[80];
    struct inputs in = {0};

    for (size_t i = 0; i < sizeof(make_these) / sizeof(char *); i++)
        make(dir, make_these[i]);
    make_link(dir, "..", "b/loop");
    make_link(dir, "self.jpg", "self.jpg");
    make_link(dir, "../a.txt", "b/up.jpg");  // a file, whatever it holds
    make_link(dir, "missing", "gone.png");
    snprintf(path, sizeof(path), "%s/pipe.jpg", dir);
    CU_ASSERT_EQUAL(mkfifo(path, 0666), 0);
    snprintf(slashes, sizeof(slashes), "%s//", dir);
    CU_ASSERT(inputs_add(&in, slashes));
    CU_ASSERT_EQUAL_FATAL(in.num, 8);
    for (size_t i = 0; i < in.num; i++) {
        inputs_name(&in, i, name, sizeof(name));
        CU_ASSERT_STRING_EQUAL(name, want[i]);
        inputs_path(&in, i, path, sizeof(path));
        CU_ASSERT(!strncmp(path, dir, strlen(dir)));
        CU_ASSERT_STRING_EQUAL(path + strlen(dir) + 1, want[i]);
    }
    // In the order of the samples, too.
    CU_ASSERT_EQUAL_FATAL(in.source->skipped, 6);
    for (size_t i = 0; i < 6; i++) {
        static const char *const skipped[] = {"e.jfif",   "gone.png",
                                              "pipe.jpg", "self.jpg",
                                              "z.PnG",    "b/loop"};
        enum hr_skip why;

        hr_source_skipped(in.source, i, path, sizeof(path), &why);
        CU_ASSERT_STRING_EQUAL(path + strlen(dir) + 1, skipped[i]);
        CU_ASSERT_EQUAL(why, i % 4 == 0 && i < 5 ? HR_SKIP_BESIDE
                             : i == 5            ? HR_SKIP_LOOP
                                                 : HR_SKIP_FILE);
    }
    CU_ASSERT_STRING_EQUAL(inputs_item(&in, 6).label, "b-");
    CU_ASSERT_EQUAL(in.others, 2);
    CU_ASSERT_EQUAL(in.num_faults, 0);
    inputs_output(&in, 6, name, sizeof(name));
    CU_ASSERT_STRING_EQUAL(name, "b-/x.npy");
    inputs_output(&in, 0, name, sizeof(name));
    CU_ASSERT_STRING_EQUAL(name, "b/.jpg.npy");
    inputs_finish(&in);
}

static void expect_names(struct inputs *in, const char *folder,
                         const char *const *want, size_t num)
{
    char name[300];

    CU_ASSERT(inputs_add(in, folder));
    CU_ASSERT_EQUAL_FATAL(in->num, num);
    for (size_t i = 0; i < num; i++)
        CU_ASSERT_STRING_EQUAL(inputs_name(in, i, name, sizeof(name)), want[i]);
}

// In the order that Python gives to names: characters, and bytes that are of
// none between U+D7FF and U+E000.
TEST_CASE(walk_order)
{
    static const char *const want[] = {"cat",
                                       "cat big",
                                       "cat-big",
                                       "cat.1",
                                       "cat0",
                                       "\xc3\xa9",
                                       "\xed\x9f\xbf",
                                       "\x80x",
                                       "\xc3\x41",
                                       "\xc3\xc3\xa9",
                                       "\xed\xa0\x80",
                                       "\xf0\x90\x80",
                                       "\xf4\x90\x80\x80",
                                       "\xff",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    enum { NUM = sizeof(want) / sizeof(*want) };
    const char *dir = test_folder();
    struct inputs in = {0};
    char name[300];

    for (int i = NUM; i--;) {
        snprintf(name, sizeof(name), "%s/", want[i]);
        make(dir, name);
        snprintf(name, sizeof(name), "%s/deep/", want[i]);
        make(dir, name);
        snprintf(name, sizeof(name), "%s/deep/1.jpg", want[i]);
        make(dir, name);
    }
    CU_ASSERT(inputs_add(&in, dir));
    CU_ASSERT_EQUAL_FATAL(in.num, NUM);
    CU_ASSERT(inputs_find_classes(&in));
    for (size_t i = 0; i < NUM; i++) {
        CU_ASSERT_STRING_EQUAL(inputs_item(&in, i).label, want[i]);
        CU_ASSERT_EQUAL(inputs_class(&in, i), (int64_t)i);
    }
    inputs_finish(&in);
}

// Links are followed as often as there are, but not to where they lie.
TEST_CASE(walk_links)
{
    static const char *const all[] = {"a/1.jpg", "a/deep/2.jpg", "b/1.jpg",
                                      "b/deep/2.jpg", "c/2.jpg"};
    static const char *const twice[] = {
        "a/1.jpg", "a/deep/2.jpg", "b/1.jpg", "b/deep/2.jpg", "c/2.jpg",
        "a/1.jpg", "a/deep/2.jpg", "b/1.jpg", "b/deep/2.jpg", "c/2.jpg"};
    static const char *const up[] = {"up/a/1.jpg", "up/b/1.jpg"};
    const char *dir = test_folder();
    char below[300];
    struct inputs in = {0};

    make(dir, "b/");
    make(dir, "b/1.jpg");
    make(dir, "b/deep/");
    make(dir, "b/deep/2.jpg");
    make_link(dir, "b", "a");
    make_link(dir, "b/deep", "c");
    make_link(dir, "../..", "b/deep/up");
    expect_names(&in, dir, all, 5);
    CU_ASSERT_STRING_EQUAL(inputs_item(&in, 1).label, "a");
    CU_ASSERT_STRING_EQUAL(inputs_item(&in, 3).label, "b");
    CU_ASSERT_EQUAL(in.source->skipped, 3);
    // A file that is named twice comes twice.
    expect_names(&in, dir, twice, 10);
    inputs_finish(&in);
    // A link leads up to what is being walked already.
    snprintf(below, sizeof(below), "%s/b/deep", dir);
    expect_names(&in, below, up, 2);
    CU_ASSERT_EQUAL(in.source->skipped, 4);  // three of them, and 2.jpg
    inputs_finish(&in);
}

// 132 links, and more ways than there is time for.
TEST_CASE(walk_knot)
{
    const char *dir = test_folder();
    struct inputs in = {0};
    char name[40], to[40];

    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "d%d/", i);
        make(dir, name);
        snprintf(name, sizeof(name), "d%d/%d.jpg", i, i);
        make(dir, name);
        for (int j = 0; j < 12; j++) {
            snprintf(name, sizeof(name), "d%d/to%d", i, j);
            snprintf(to, sizeof(to), "../d%d", j);
            if (i != j)
                make_link(dir, to, name);
        }
    }
    CU_ASSERT(!inputs_add(&in, dir));
    CU_ASSERT(strstr(in.error, "links lead to the same folders too often") !=
              NULL);
    CU_ASSERT_EQUAL(in.num, 0);
    inputs_finish(&in);
}

// As torchvision's ImageFolder: the first folder below counts.
TEST_CASE(classes)
{
    static const char *const make_these[] = {
        "t/",       "t/dog/",        "t/dog/puppy/", "t/dog/puppy/1.jpg",
        "t/cat/",   "t/cat/2.jpg",   "t/empty/",     "t/3.jpg",
        "t/Zebra/", "t/Zebra/4.jpg", "one/",         "one/5.jpg",
    };
    static const char *const labels[] = {"Zebra", "cat", "dog", "one", "cat"};
    static const int numbers[] = {0, 1, 2, 4, 1};  // an empty one counts
    const char *dir = test_folder();
    struct inputs in = {0};
    char path[300];

    for (size_t i = 0; i < sizeof(make_these) / sizeof(char *); i++)
        make(dir, make_these[i]);
    for (int i = 0; i < 3; i++) {
        static const char *const add[] = {"t/", "one", "t/cat/2.jpg"};

        snprintf(path, sizeof(path), "%s/%s", dir, add[i]);
        CU_ASSERT(inputs_add(&in, path));
    }
    CU_ASSERT_EQUAL_FATAL(in.num, 5);
    CU_ASSERT(inputs_find_classes(&in));
    CU_ASSERT_EQUAL_FATAL(in.num_classes, 5);
    for (size_t i = 0; i < in.num; i++) {
        CU_ASSERT_STRING_EQUAL(inputs_item(&in, i).label, labels[i]);
        CU_ASSERT_EQUAL(inputs_class(&in, i), numbers[i]);
        CU_ASSERT_STRING_EQUAL(in.classes[numbers[i]], labels[i]);
    }
    inputs_finish(&in);
}

TEST_CASE(lists)
{
    static const char text[] = "dog/1.jpg\tcorgi\n\n/far/2.jpg\t\n"
                               "./a/b\tb.png\tant\n../3.jpg\ndog/4.jpg\tcorgi";
    static const char zero[] = "x\ny.jpg\0"
                               "dog/1.jpg\tcorgi\0";
    static const char *const outputs[] = {"dog/1.npy", "2.npy", "a/b\tb.npy",
                                          "3.npy", "dog/4.npy"};
    static const char *const labels[] = {"corgi", "", "ant", "", "corgi"};
    const char *dir = test_folder();
    char path[300], name[300], want[600];
    struct inputs in = {0};

    snprintf(path, sizeof(path), "%s/list.txt", dir);
    test_write(path, text, sizeof(text) - 1);
    CU_ASSERT(inputs_add_list(&in, path, false));
    CU_ASSERT_EQUAL_FATAL(in.num, 5);
    CU_ASSERT(inputs_find_classes(&in));
    CU_ASSERT_EQUAL(in.num_classes, 2);
    CU_ASSERT_EQUAL(inputs_class(&in, 0), 1);
    CU_ASSERT_EQUAL(inputs_class(&in, 1), -1);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_STRING_EQUAL(inputs_output(&in, i, name, sizeof(name)),
                               outputs[i]);
        CU_ASSERT_STRING_EQUAL(inputs_item(&in, i).label, labels[i]);
    }
    snprintf(want, sizeof(want), "%s/../3.jpg", dir);
    CU_ASSERT_STRING_EQUAL(inputs_path(&in, 3, name, sizeof(name)), want);
    CU_ASSERT_STRING_EQUAL(inputs_path(&in, 1, name, sizeof(name)),
                           "/far/2.jpg");
    inputs_finish(&in);

    test_write(path, zero, sizeof(zero) - 1);
    CU_ASSERT(inputs_add_list(&in, path, true));
    CU_ASSERT_EQUAL_FATAL(in.num, 2);
    CU_ASSERT_STRING_EQUAL(inputs_name(&in, 0, name, sizeof(name)), "x\ny.jpg");
    CU_ASSERT(!inputs_add_list(&in, path, false));
    CU_ASSERT(strstr(in.error, "line 2 holds a zero byte") != NULL);
    CU_ASSERT(!inputs_add_list(&in, "/no/such", false));
    CU_ASSERT(strstr(in.error, "/no/such: No such file") != NULL);
    CU_ASSERT(!inputs_add_list(&in, dir, false));
    inputs_finish(&in);
}

// Entries too long for any path are faults; the others are taken.
TEST_CASE(walk_faults)
{
    const char *dir = test_folder();
    struct inputs in = {0};
    char part[201] = "", here[300];
    int depth = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(getcwd(here, sizeof(here)));
    make(dir, "1/");
    make(dir, "1/1.jpg");
    memset(part, 'x', 200);
    CU_ASSERT_EQUAL(chdir(dir), 0);
    while (depth < 21 && !mkdir(part, 0777) && !chdir(part))
        depth++;
    CU_ASSERT_EQUAL(depth, 21);
    CU_ASSERT_EQUAL(chdir(here), 0);
    CU_ASSERT(inputs_add(&in, dir));
    CU_ASSERT_EQUAL(in.num, 1);
    CU_ASSERT_EQUAL(in.num_faults, 1);
    CU_ASSERT(in.faults[0] && strstr(in.faults[0], ": File name too long"));
    inputs_finish(&in);
}

TEST_CASE(explicit)
{
    const char *dir = test_folder();
    char path[300], name[300];
    struct inputs in = {0};
    size_t a = 9, b = 9;

    make(dir, "x.jpg");
    make(dir, "x.data");
    make(dir, "y.png");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"y.png", "x.data", "x.jpg"};
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        CU_ASSERT(inputs_add(&in, path));
    }
    CU_ASSERT_EQUAL(in.num, 3);
    CU_ASSERT_STRING_EQUAL(inputs_name(&in, 1, name, sizeof(name)), "x.data");
    CU_ASSERT_STRING_EQUAL(inputs_path(&in, 2, name, sizeof(name)), path);
    CU_ASSERT_PTR_NULL(inputs_path(&in, 2, name, strlen(path)));
    CU_ASSERT(inputs_clash(&in, true, &a, &b));
    CU_ASSERT(a == 1 && b == 2);
    in.num = 2;
    CU_ASSERT(!inputs_clash(&in, true, &a, &b));

    snprintf(path, sizeof(path), "%s/pipe", dir);
    CU_ASSERT_EQUAL(mkfifo(path, 0666), 0);
    CU_ASSERT(!inputs_add(&in, path));
    CU_ASSERT(strstr(in.error, "neither a file nor a folder") != NULL);
    CU_ASSERT(!inputs_add(&in, "/no/such/file.jpg"));
    CU_ASSERT(strstr(in.error, "/no/such/file.jpg: ") == in.error);
    inputs_finish(&in);
}

// ---- manifest -------------------------------------------------------------

static void expect_text(const char *bytes, const char *want)
{
    json_t *text = manifest_text(bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_STRING_EQUAL(json_string_value(text), want);
    json_decref(text);
}

TEST_CASE(escaping)
{
    expect_text("plain", "plain");
    expect_text("a\nb\"\\", "a\nb\"\\");
    expect_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_text("a\xff\xc3", "a\\xff\\xc3");
    expect_text("\xc0\xaf", "\\xc0\\xaf");  // overlong
    expect_text("\xe0\x80\xaf", "\\xe0\\x80\\xaf");
    expect_text("\xed\xa0\x80", "\\xed\\xa0\\x80");  // surrogate
    expect_text("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    expect_text("\xe2\x82", "\\xe2\\x82");  // cut short
    CU_ASSERT(manifest_is_utf8("\xc3\xa9"));
    CU_ASSERT(!manifest_is_utf8("\xc3"));
}

TEST_CASE(entries)
{
    struct hr_result good = {.status = HR_OK,
                             .num_spans = 2,
                             .width = 9,
                             .why = HR_WHY_PROGRESSIVE | HR_WHY_LOST};
    struct hr_result bad = {.status = HR_ECORRUPT,
                            .offset = 77,
                            .stage = HR_ENTROPY,
                            .message = "x\xff: bad"};
    const int64_t number = 7, none = -1;
    struct manifest_entry entry = {
        .path = "d/1.jpg", .label = "d", .number = &number, .result = &good};
    struct manifest manifest;
    const char *dir = test_folder();
    char path[256];
    json_t *json, *pictures, *one;

    good.spans[0] = (struct hr_span_result){{HR_ENTROPY, HR_ENTROPY}, "cpu"};
    good.spans[1] = (struct hr_span_result){{HR_RECONSTRUCT, HR_STORE}, "gpu"};
    snprintf(path, sizeof(path), "%s/m.json", dir);
    CU_ASSERT(manifest_open(&manifest, path));
    for (int epoch = 0; epoch < 2; epoch++) {
        CU_ASSERT(
            manifest_begin(&manifest, json_pack("{s:i}", "epoch", epoch)));
        CU_ASSERT(manifest_add(&manifest, &entry));
    }
    entry = (struct manifest_entry){.path = "d/\xff\n",
                                    .label = "",
                                    .file = "d/x.npy",
                                    .index = -1,
                                    .number = &none,
                                    .result = &bad};
    CU_ASSERT(manifest_add(&manifest, &entry));
    CU_ASSERT(manifest_end(&manifest, json_pack("{s:i}", "images", 1)));
    CU_ASSERT(out_file_close(&manifest.file));
    CU_ASSERT(out_file_rename(&manifest.file));

    json = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "epoch")), 1);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "images")), 1);
    pictures = json_object_get(json, "pictures");
    CU_ASSERT_EQUAL(json_array_size(pictures), 2);
    one = json_array_get(pictures, 0);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(one, "spans")), 2);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(one, "fallback_reasons")),
                    2);
    CU_ASSERT_PTR_NULL(json_object_get(one, "reason"));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(one, "class")), 7);
    one = json_array_get(pictures, 1);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "path")),
                           "d/\\xff\n");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "path_hex")),
                           "642fff0a");
    CU_ASSERT(json_is_null(json_object_get(one, "label")));
    CU_ASSERT(json_is_null(json_object_get(one, "class")));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(one, "offset")), 77);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "reason")),
                           "x\\xff: bad");
    json_decref(json);
}

TEST_CASE(ours)
{
    static const struct {
        const char *text;
        bool ours;
    } files[] = {
        {"", true},
        {"{}", false},
        {"{\"version\":\"0.1.0\",\"backend\":\"cpu\",\"device\":\"cpu\","
         "\"seed\":0,\"ops\":\"decode\"",
         true},
        {"{\"version\":\"0.1.0\",\"backend\":\"cpu\",\"files\":[]}", false},
        {"{\"version\": \"0.1.0\"}", false},
        {"[{\"version\":\"0.1.0\",\"backend\":\"cpu\",\"device\":\"cpu\","
         "\"seed\":0,\"ops\":\"decode\"}]",
         false},
    };
    const char *dir = test_folder();
    char path[300];

    snprintf(path, sizeof(path), "%s/m.json", dir);
    CU_ASSERT(manifest_is_ours(path));
    CU_ASSERT(manifest_is_ours(dir));
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        test_write(path, files[i].text, strlen(files[i].text));
        CU_ASSERT_EQUAL(manifest_is_ours(path), files[i].ours);
    }
}

TEST_CASE(empty)
{
    struct manifest manifest;
    const char *dir = test_folder();
    char path[256];
    json_t *json;

    snprintf(path, sizeof(path), "%s/m.json", dir);
    CU_ASSERT(manifest_open(&manifest, path));
    CU_ASSERT(manifest_begin(&manifest, json_pack("{s:i}", "epoch", 0)));
    CU_ASSERT(manifest_end(&manifest, json_pack("{s:i}", "images", 0)));
    CU_ASSERT(out_file_close(&manifest.file));
    CU_ASSERT(out_file_rename(&manifest.file));
    json = json_load_file(path, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL(json);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(json, "pictures")), 0);
    json_decref(json);
}
