// SPDX-License-Identifier: Apache-2.0
// Classes of sources: the names that labels stand for.
#include <sys/stat.h>

#include "loader_data.h"
#include "shard_data.h"

enum { N = 24 };

// Checks the classes of three samples; closes the source.
static void expect_classes(const char *what, hr_source s, int a, int b, int c)
{
    const int want[] = {a, b, c};
    const char *const *classes = NULL;
    size_t num = 0;

    CHECK(s && s->num == 3 && (classes = hr_source_classes(s, &num)), "%s: %s",
          what, hr_last_error());
    for (uint64_t i = 0; s && i < s->num; i++) {
        int64_t got = hr_source_class(s, i);

        CHECK(got == want[i] && (size_t)got < num &&
                  !strcmp(classes[got], hr_source_item(s, i).label),
              "%s: %s is class %d, not %d", what, hr_source_item(s, i).label,
              (int)got, want[i]);
    }
    hr_source_close(&s);
}

static hr_source labelled(const char *const *paths, const char *a,
                          const char *b, const char *c)
{
    hr_source s = hr_source_create();

    hr_source_add_file(s, paths[0], a);
    hr_source_add_file(s, paths[1], b);
    hr_source_add_file(s, paths[2], c);
    return s;
}

// A number of a tar, a RecordIO file or a list is the class; a folder's name is
// one, as in ImageFolder.
TEST_CASE(numbers)
{
    static const char *const names[] = {"10", "2", "9"};
    static const struct {
        const char *label;
        int64_t number;
        bool is_word;
    } odd[] = {{"-1", -1, false},
               {"1.0", 1, false},
               {"+3", 3, false},
               {"007", 7, false},
               {" 5 ", 5, false},
               {"4.", 4, false},
               {"4194304", 4194304, false},
               {"-0", 0, false},
               {"", -1, false},
               {"1a", -1, true},
               {"0.5", -1, true},
               {"1e1", -1, true},
               {"+", -1, true},
               {"99999999999999999999", -1, true}};
    const char *dir = test_folder();
    char name[4200];
    enum hr_skip why;
    char paths[3][4200];
    const char *p[] = {paths[0], paths[1], paths[2]};
    uint64_t seed = test_seed;
    auto_bytes file = test_jpeg(30, 20, &seed);
    struct shard rec = {0}, tar = {0};
    hr_source s = hr_source_create();
    const char *const *classes;
    size_t num;

    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", dir, names[i]);
        CHECK(!mkdir(paths[i], 0700), "%s", paths[i]);
        strcat(paths[i], "/x.jpg");
        test_write(paths[i], file.data, file.size);
        hr_source_add(s, paths[i]);
        shard_image(&rec, &file, strtof(names[i], NULL), 0);
    }
    expect_classes("folders", hr_source_open(dir), 0, 1, 2);
    expect_classes("packed", hr_source_open(data_pack(dir)), 0, 1, 2);
    expect_classes("files", s, 0, 1, 2);
    expect_classes("records", shard_open(&rec, ".rec"), 10, 2, 9);
    expect_classes("a list", labelled(p, "10", "2", "9"), 10, 2, 9);
    expect_classes("the last", labelled(p, "4194303", "0", "1"), 4194303, 0, 1);
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        s = labelled(p, "10", "2", odd[i].label);
        CHECK(hr_source_class(s, 0) == 10 && hr_source_class(s, 1) == 2 &&
                  hr_source_class(s, 2) == odd[i].number &&
                  s->skipped == odd[i].is_word,
              "'%s': %d %d %d, %d skipped", odd[i].label,
              (int)hr_source_class(s, 0), (int)hr_source_class(s, 1),
              (int)hr_source_class(s, 2), (int)s->skipped);
        hr_source_close(&s);
    }
    s = labelled(p, "3", "1", "");
    classes = hr_source_classes(s, &num);
    CHECK(num == 4 && !*classes[0] && !*classes[2] &&
              hr_source_class(s, 2) == -1 && !s->skipped,
          "%zu classes", num);
    CHECK(!hr_source_add(s, dir) && hr_source_class(s, 1) == 1 &&
              hr_source_class(s, 0) == 3 && hr_source_class(s, 3) == -1 &&
              hr_source_skipped(s, 0, name, sizeof(name), &why) &&
              why == HR_SKIP_WORD && strstr(name, "/10/x.jpg"),
          "among numbers a folder is a word");
    CHECK(!hr_source_add(s, dir) && s->skipped == 1, "it is told once");
    hr_source_close(&s);
    if (shard_have_tar()) {
        for (int i = 0; i < 3; i++) {
            char member[16];

            snprintf(member, sizeof(member), "%d.jpg", i);
            shard_member(&tar, member, file.data, file.size);
            snprintf(member, sizeof(member), "%d.cls", i);
            shard_member(&tar, member, names[i], strlen(names[i]));
        }
        shard_end_tar(&tar);
        expect_classes("a tar", shard_open(&tar, ".tar"), 10, 2, 9);
    }
}

// A pack file of one sample keeps the classes of its whole source.
static void expect_packed(const char *what, hr_source s)
{
    struct hr_encoded read = {0};
    char path[4200], name[4200];
    const char *const *want = NULL, *const *got = NULL;
    struct hr_pack_entry e = {0};
    size_t num = 0, there = 0;
    hr_pack_writer w;
    hr_source packed;

    snprintf(path, sizeof(path), "%s/x.hrp", test_folder());
    w = hr_pack_writer_open(path);
    CHECK(s && s->num && w && !hr_source_read(s, s->num - 1, 0, &read) &&
              (want = hr_source_classes(s, &num)),
          "%s: %s", what, hr_last_error());
    e = (struct hr_pack_entry){.name = hr_source_name(s, s->num - 1, name,
                                                      sizeof(name)),
                               .label = hr_source_item(s, s->num - 1).label,
                               .data = read.data,
                               .size = read.size,
                               .source = read.size};
    CHECK(!hr_pack_writer_add(w, &e) && !hr_source_pack_classes(s, w) &&
              !hr_pack_writer_finish(w),
          "%s: %s", what, hr_last_error());
    hr_pack_writer_close(&w);
    packed = hr_source_open(path);
    CHECK(packed && (got = hr_source_classes(packed, &there)) && num == there &&
              hr_source_class(packed, 0) == hr_source_class(s, s->num - 1),
          "%s: %zu classes, not %zu", what, there, num);
    for (size_t i = 0; got && i < num && i < there; i++)
        CHECK(!strcmp(want[i], got[i]), "%s: class %zu is %s", what, i, got[i]);
    hr_encoded_finish(&read);
    hr_source_close(&packed);
    hr_source_close(&s);
}

TEST_CASE(packed)
{
    static const char *const names[] = {"d", "never", "b", "a", "c"};
    static const int64_t merged[] = {3, 9, 3, 0, -1};
    const char *dir = data_folder(N, test_seed);
    char paths[3][4200];
    const char *p[] = {paths[0], paths[1], paths[2]};
    hr_source s = hr_source_open(dir);

    for (uint64_t i = 0; i < 3; i++)
        hr_source_path(s, i, paths[i], sizeof(paths[i]));
    expect_packed("words", s);
    expect_packed("numbers", labelled(p, "10", "2", "007"));
    expect_packed("a number below 0", labelled(p, "10", "2", "-1"));
    expect_packed("a word among them", labelled(p, "10", "2", "x"));
    expect_packed("no label", labelled(p, "b", "a", ""));
    s = hr_source_create();
    CHECK(!hr_source_set_classes(s, names, NULL, 5) && !hr_source_add(s, dir),
          "%s", hr_last_error());
    expect_packed("given ones", s);
    s = hr_source_create();
    CHECK(!hr_source_set_classes(s, names, merged, 5) && !hr_source_add(s, dir),
          "%s", hr_last_error());
    expect_packed("merged ones", s);
}

TEST_MAIN(data_main)
