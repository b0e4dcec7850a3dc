// SPDX-License-Identifier: Apache-2.0
#include "pack_data.h"

static struct bytes file_of(int i, uint64_t *seed)
{
    struct jpeg_spec spec = {.w = 40 + i % 50,
                             .h = 30 + i % 31,
                             .space = JCS_YCbCr,
                             .factors = {0x22},
                             .quality = 80};

    switch (i % PACK_SORTS) {
    case 1:
        return test_png(17, 11, seed);
    case 2:
        return test_damaged(48, 40, seed);
    case 3:
        spec.progressive = true;
        break;
    case 4:
        spec.space = JCS_GRAYSCALE;
        spec.factors[0] = 0;
        break;
    case 5:
        return (struct bytes){calloc(1, 1), 0};
    case 6:
        spec.space = JCS_CMYK;
        spec.factors[0] = 0;
        break;
    default:
        break;
    }
    return test_jpeg_of(&spec, seed);
}

void pack_datum_make(struct pack_datum *d, int i, uint64_t seed)
{
    static const char *const forms[] = {
        "n%05d.jpg",    "a/b/%d.png",      "\xc3\xa9t\xc3\xa9/%d",
        "new\nline %d", "\xff\xfe/%d.jpg", "a/%d",
        "Z %d.JPEG",    "...%d",
    };
    uint64_t own = seed + (uint64_t)i;

    *d = (struct pack_datum){0};
    snprintf(d->name, sizeof(d->name), forms[i % 8], i);
    if (i % 3)
        snprintf(d->label, sizeof(d->label), "class %d\t\xc3\xa9", i % 5);
    d->file = file_of(i, &own);
    d->entry = (struct hr_pack_entry){
        .name = d->name,
        .label = d->label,
        .data = d->file.data,
        .size = d->file.size,
        .source = d->file.size,
    };
    if (hr_pack(d->file.data, d->file.size, NULL, &d->packed, &d->entry.size) ==
        HR_OK) {
        d->entry.packed = true;
        d->entry.data = d->packed;
    } else {
        d->entry.size = d->file.size;
    }
}

void pack_datum_finish(struct pack_datum *d)
{
    hr_packed_free(d->packed);
    free(d->file.data);
    *d = (struct pack_datum){0};
}

bool pack_data_write(const char *path, int n, uint64_t seed)
{
    hr_pack_writer writer = hr_pack_writer_open(path);
    bool ok = writer != NULL;

    for (int i = ok ? (int)writer->num : n; i < n && ok; i++) {
        struct pack_datum d;

        pack_datum_make(&d, i, seed);
        ok = hr_pack_writer_add(writer, &d.entry) == HR_OK;
        pack_datum_finish(&d);
    }
    ok = ok && hr_pack_writer_finish(writer) == HR_OK;
    hr_pack_writer_close(&writer);
    return ok;
}

const char *pack_path(const char *name)
{
    static char paths[16][256];
    static int next;
    char *path = paths[next++ % 16];

    snprintf(path, sizeof(paths[0]), "%s/%s", test_folder(), name);
    return path;
}
