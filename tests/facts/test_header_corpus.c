// SPDX-License-Identifier: Apache-2.0
// The header parser on the shared corpus, if it is there: HEADRACE_CORPUS, or
// ../shared/corpus beside the sources. What djpeg (libjpeg-turbo 2.1.5)
// decodes must be accepted with the size that the manifest has, or be on the
// list below; of the rest nothing is asked but an answer, quickly.
#include "corpus_list.h"
#include "hal/facts/facts.h"
#include "testing.h"

// Columns of the manifest.
enum { FILE_NAME = CORPUS_FILE, WIDTH = 4, HEIGHT, KIND, DJPEG = 8 };

static const struct refused {
    const char *name;  // the end of it
    enum hr_status status;
    const char *text;
} refusals[] = {
    // Over a default limit.
    {"giant-image.jpg", HR_ELIMIT, "20000 x 14000"},
    {"8e5e74dbf9b68a322fbb9512db837329.jpg", HR_ELIMIT, "193 x 31237"},
    {"afl-038.jpg", HR_ELIMIT, "32 x 16544"},
    {"bomb-dims-gray-65500.jpg", HR_ELIMIT, "65500 x 65500"},
    {"bomb-valid-gray-16384.jpg", HR_ELIMIT, "268435456 pixels"},
    {"dims-lie-30000x30000.jpg", HR_ELIMIT, "30000 x 30000"},
    {"dims-lie-65500x65500.jpg", HR_ELIMIT, "65500 x 65500"},
    {"scanbomb-legal-883-16384.jpg", HR_ELIMIT, "268435456 pixels"},
    {"scanbomb-legal-883-4096.jpg", HR_ELIMIT, "100 scans"},
    {"scanbomb-empty-huffman-1000.jpg", HR_ELIMIT, "block visits in 48 scans"},
    {"scanbomb-empty-dcrefine-500.jpg", HR_ELIMIT, "block visits in 48 scans"},
    {"com-flood-30000.jpg", HR_ELIMIT, "4096 segments"},
    // SOI is not followed by a marker: no JPEG to Pillow.
    {"5baad44ca4702949724234e35c5bb341.jpg", HR_EFORMAT, "FF D8 00 E0"},
    {"255015e07b6f9137b53b0f97d67a8aef.jpg", HR_EFORMAT, "FF D8 FE DC"},
    {"ba60305ac83fe3d8ef01da1d9a0ecc79.jpg", HR_EFORMAT, "FF D8 FE FF"},
};
enum { REFUSALS = sizeof(refusals) / sizeof(*refusals) };

static const struct refused *refusal_of(const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < REFUSALS; i++) {
        size_t k = strlen(refusals[i].name);

        if (n >= k && !strcmp(name + n - k, refusals[i].name))
            return &refusals[i];
    }
    return NULL;
}

struct entry {
    struct corpus_entry of;
    uint8_t *data;  // a block of exactly size bytes
    size_t size;
};

static bool read_bytes(struct entry *e, const char *path)
{
    FILE *f = fopen(path, "rb");
    long n = -1;

    e->data = NULL;
    if (f && !fseek(f, 0, SEEK_END) && (n = ftell(f)) >= 0) {
        rewind(f);
        e->size = (size_t)n;
        e->data = malloc(e->size ? e->size : 1);
        if (e->data && fread(e->data, 1, e->size, f) != e->size) {
            free(e->data);
            e->data = NULL;
        }
    }
    if (f)
        fclose(f);
    return e->data;
}

// The next file of the manifest, its path in *path. False: there is none.
static bool next_entry(struct entry *e, char path[2048])
{
    while (corpus_next(&e->of)) {
        if (strstr(e->of.columns[FILE_NAME], "archives/"))
            continue;
        snprintf(path, 2048, "%s", e->of.path);
        if (read_bytes(e, path))
            return true;
        printf("\n  %s cannot be read", path);
        CU_FAIL("a file of the manifest");
    }
    return false;
}

static bool as_wanted(const struct entry *e, enum hr_status status,
                      const struct hr_info *info, const char *text)
{
    const struct refused *refused = refusal_of(e->of.columns[FILE_NAME]);
    int w = atoi(e->of.columns[WIDTH]), h = atoi(e->of.columns[HEIGHT]);

    if (refused)
        return status == refused->status && strstr(text, refused->text);
    // The manifest's own reader gives 0 x 0 for three files it cannot read.
    return status == HR_OK && (!w || (info->width == w && info->height == h));
}

TEST_CASE(accepts_what_djpeg_decodes)
{
    static struct entry e;
    char path[2048];
    int files = 0, wanted = 0, bad = 0, refused = 0;

    while (next_entry(&e, path)) {
        const char *djpeg = e.of.columns[DJPEG];
        struct hr__header_error err = {0};
        struct hr_info info;
        enum hr_status status = hr__header_parse(e.data, e.size, true, NULL,
                                                 &info, &err);
        bool decodes = !strcmp(djpeg, "ok") || !strcmp(djpeg, "warn");
        bool good = status != HR_PENDING &&
                    (!decodes || as_wanted(&e, status, &info, err.text));

        if (!good && ++bad < 20)
            printf("\n  %s (djpeg %s): %s %d x %d \"%s\"",
                   e.of.columns[FILE_NAME], djpeg, hr_status_name(status),
                   info.width, info.height, err.text);
        CU_ASSERT(good);
        refused += decodes && refusal_of(e.of.columns[FILE_NAME]);
        wanted += decodes;
        files++;
        free(e.data);
    }
    printf("\n  %d files, %d decoded by djpeg", files, wanted);
    CU_ASSERT(wanted > 100);
    CU_ASSERT(refused == REFUSALS);  // none of the list is out of date
    corpus_rewind();
}

TEST_CASE(orientation_and_scans_are_the_manifests)
{
    static struct entry e;
    char path[2048];
    int turned = 0, several = 0;

    while (next_entry(&e, path)) {
        // label | what its coding is
        const char *coding = strchr(e.of.columns[KIND], '|');
        const char *orient = coding ? strstr(coding, " orient") : NULL;
        const char *scans = coding ? strstr(coding, "scans") : NULL;
        struct hr_info info;

        if (strncmp(e.of.columns[FILE_NAME], "bad/", 4) &&
            hr__header_parse(e.data, e.size, true, NULL, &info, NULL) ==
                HR_OK &&
            info.format == HR_FORMAT_JPEG) {
            CU_ASSERT(info.orientation == (orient ? orient[7] - '0' : 1));
            turned += info.orientation > 1;
            while (scans && scans > coding && scans[-1] != ' ')
                scans--;
            CU_ASSERT(!scans || atoi(scans) == info.scans);
            several += info.scans > 1;
            CU_ASSERT(info.ends == !strstr(e.of.columns[KIND], "no-eoi"));
        }
        free(e.data);
    }
    CU_ASSERT(turned > 5 && several > 5);
    corpus_rewind();
}

// Parts answer as the whole does, or ask for more.
TEST_CASE(parts_of_files)
{
    static struct entry e;
    char path[2048];

    while (next_entry(&e, path)) {
        struct hr_info whole, part;
        enum hr_status status = hr__header_parse(e.data, e.size, true, NULL,
                                                 &whole, NULL);

        for (size_t n = 1; n < e.size; n += n / 3 + 1) {
            auto_heap uint8_t *exact = malloc(n);
            enum hr_status short_of;

            memcpy(exact, e.data, n);
            short_of = hr__header_parse(exact, n, false, NULL, &part, NULL);
            CU_ASSERT(short_of != HR_ETRUNCATED);
            if (status == HR_OK)
                CU_ASSERT(short_of ==
                          (n < whole.header_size ? HR_PENDING : HR_OK));
            if (status == HR_OK && short_of == HR_OK)
                CU_ASSERT(part.width == whole.width &&
                          part.color == whole.color);
        }
        free(e.data);
    }
    corpus_rewind();
}

TEST_CASE(paths_as_bytes)
{
    static struct entry e;
    char path[2048];

    while (next_entry(&e, path)) {
        struct hr_info a, b;
        enum hr_status from_bytes = hr_probe(e.data, e.size, NULL, &a);
        enum hr_status from_path = hr_probe_path(path, NULL, &b);

        // A long file is not read to its end: its scans are not counted.
        CU_ASSERT(from_path == from_bytes ||
                  (e.size > 65536 && from_path == HR_OK));
        CU_ASSERT(a.width == b.width && a.height == b.height);
        CU_ASSERT(a.orientation == b.orientation);
        CU_ASSERT(b.all_scans == a.all_scans || e.size > 65536);
        CU_ASSERT(a.ends == b.ends || e.size > 65536);
        free(e.data);
    }
    corpus_rewind();
}

int main(int argc, char **argv)
{
    int failed;

    if (!corpus_open())
        return TEST_NOT_RUN;
    failed = test_main(argc, argv);
    corpus_close();
    return failed;
}
