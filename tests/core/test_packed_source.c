// SPDX-License-Identifier: Apache-2.0
// Packed pictures as sources: the pixels and facts of the file that they were
// made of; whatever else is in one is an error, or the picture.
#include "small_picture.h"
#include "testing.h"

static enum hr_status pack(const struct bytes *file, struct bytes *to)
{
    return hr_pack(file->data, file->size, NULL, (void **)&to->data, &to->size);
}

// Compares the head with the file's header. (Sampling factors mean nothing with
// one component.)
static bool same_facts(const struct hr_info *a, const struct hr_info *b)
{
    bool factors = a->components == 1 ||
                   (!memcmp(a->h, b->h, 3) && !memcmp(a->v, b->v, 3));

    return a->width == b->width && a->height == b->height && factors &&
           a->components == b->components && a->color == b->color &&
           a->precision == b->precision && a->orientation == b->orientation &&
           a->ends && a->interleaved && a->all_scans == HR_SCANS_ALL;
}

// At an odd place, checked; in place, not checked; from a file.
static void check_pixels(hr_device dev, const struct bytes *p,
                         const uint8_t *want, const char *name)
{
    auto_heap uint8_t *odd = malloc(p->size + 1);
    struct bytes moved = {odd + 1, p->size};
    struct hr_sample ways[] = {
        small_sample(&moved),
        small_sample(p),
        {.path = test_file(p, ".bin"), .ops = small_ops, .num_ops = 3},
    };

    memcpy(moved.data, p->data, p->size);
    ways[1].verified = true;
    for (int way = 0; way < 3; way++) {
        struct hr_result r = {0};
        auto_heap uint8_t *got = small_make(dev, ways[way], &r);

        CHECK(!r.status && !memcmp(got, want, SMALL_BYTES), "%s, %d: %s", name,
              way, r.message);
    }
}

static void check_packed(hr_device dev, const struct bytes *file,
                         const struct bytes *p, const char *name)
{
    struct hr_info info, of_file;
    struct hr_result r = {0};
    auto_heap uint8_t *want = small_make(dev, small_sample(file), &r);

    CHECK(hr_packed_check(p->data, p->size) &&
              !hr_packed_check(p->data, p->size - 1),
          "%s is sound", name);
    CHECK(!hr_probe(p->data, p->size, NULL, &info) &&
              !hr_probe(file->data, file->size, NULL, &of_file) &&
              info.format == HR_FORMAT_PACKED && same_facts(&info, &of_file),
          "%s: facts", name);
    check_pixels(dev, p, want, name);
}

TEST_CASE(all_kinds)
{
    auto_device dev = test_device("cpu", 1, 0);
    uint64_t seed = test_seed;

    for (size_t i = 0; i < SMALL_KINDS; i++) {
        const struct small_kind *kind = &small_kinds[i];
        struct bytes b = small_of_kind(i, &seed), p;
        enum hr_status status = pack(&b, &p);

        CHECK(!status == kind->packs &&
                  (kind->packs || (status == HR_EUNSUPPORTED && !p.data)),
              "%s: %d, %s", kind->name, (int)status, hr_last_error());
        if (!status)
            check_packed(dev, &b, &p, kind->name);
        free(b.data);
        hr_packed_free(p.data);
    }
}

// Whatever is in there: an error, or the picture.
TEST_CASE(hostile)
{
    auto_device dev = test_device("cpu", 1, 0);
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg(181, 143, &seed), p;
    struct hr_result r = {0};
    uint8_t *want = small_make(dev, small_sample(&b), &r), *got;

    CHECK(!pack(&b, &p), "packed");
    for (int i = 0; i < test_loops(400); i++) {
        size_t at = (size_t)random_below(&seed, (int)p.size);
        auto_bytes copy = {malloc(p.size), p.size};

        // (The head is small, and every byte of it counts.)
        if (i % 2)
            at %= 600;
        memcpy(copy.data, p.data, p.size);
        copy.data[at] ^= (uint8_t)(1 + random_below(&seed, 255));
        if (i % 5 == 0)
            copy.size = at;
        got = small_make(dev, small_sample(&copy), &r);
        // (Behind the last segment lies nothing that is looked at.)
        CHECK(r.status ? r.message[0] != 0
                       : copy.size == p.size && !memcmp(got, want, SMALL_BYTES),
              "byte %zu of %zu: %d", at, copy.size, (int)r.status);
        CHECK(r.status || at >= p.size - 128, "byte %zu is not looked at", at);
        free(got);
    }
    free(want);
    free(b.data);
    hr_packed_free(p.data);
}

// Bytes that are no picture, and pictures that cannot be packed.
TEST_CASE(not_packed)
{
    uint64_t seed = test_seed;
    struct bytes b = {(uint8_t *)"x", 1}, p;

    CHECK(pack(&b, &p) == HR_EFORMAT && !p.data, "no picture");
    b = test_png(20, 20, &seed);
    CHECK(pack(&b, &p) == HR_EUNSUPPORTED, "PNG");
    free(b.data);
    b = test_damaged(181, 143, &seed);
    CHECK(pack(&b, &p) == HR_ETRUNCATED && hr_last_error()[0], "cut");
    free(b.data);
    b = test_jpeg(600, 400, &seed);
    CHECK(hr_pack(b.data, b.size, &(struct hr_limits){.item_bytes = 10000},
                  (void **)&p.data, &p.size) == HR_ELIMIT,
          "limit");
    free(b.data);
}

// HEADRACE_CPU holds for packing without a device, too.
TEST_CASE(instruction_sets)
{
    uint64_t seed = test_seed;
    struct bytes b = test_jpeg(90, 60, &seed), want, p;
    static const char variable[] = "HEADRACE_CPU";
    const char *before = getenv(variable);
    char *kept = before ? strdup(before) : NULL;

    CHECK(!pack(&b, &want), "%s", hr_last_error());
    setenv(variable, "c", 1);
    CHECK(!pack(&b, &p) && p.size == want.size &&
              !memcmp(p.data, want.data, p.size),
          "%s", hr_last_error());
    hr_packed_free(p.data);
    setenv(variable, "nothing", 1);
    CHECK(pack(&b, &p) == HR_EINVAL && !p.data &&
              strstr(hr_last_error(), variable),
          "%s", hr_last_error());
    if (kept)
        setenv(variable, kept, 1);
    else
        unsetenv(variable);
    free(kept);
    hr_packed_free(want.data);
    free(b.data);
}
